//! What a hook saw last of a reserved file comes back, byte for byte, whoever overwrote it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::agents::harness::Harness;
use crate::agents::kit::git;
use crate::agents::payload::Kind;
use crate::agents::shell_writes::committed;
use crate::support::{Sandbox, human};

const FILE: &str = "src/a.rs";

fn put(sandbox: &Sandbox, bytes: &[u8]) {
    fs::write(sandbox.path().join(FILE), bytes).unwrap();
}

fn got(sandbox: &Sandbox) -> Vec<u8> {
    fs::read(sandbox.path().join(FILE)).unwrap()
}

/// An agent that wrote the file by its edit tool.
fn edited(agent: &Harness, sandbox: &Sandbox, bytes: &[u8]) {
    agent.edit(FILE).allowed();
    put(sandbox, bytes);
    agent.after_tool(agent.kind.edit_tool()).allowed();
}

#[test]
fn what_a_command_of_another_overwrote_is_brought_back_as_it_was() {
    let sandbox = committed(&[FILE]);
    let (owner, writer) =
        (Harness::new(Kind::Claude, &sandbox, "owner"), Harness::new(Kind::Codex, &sandbox, "writer"));
    owner.start();
    writer.start();
    let own = b"by its owner\0\xff\r\nno newline at the end";
    edited(&owner, &sandbox, own);
    writer.before_shell("python3 generate.py").allowed();
    put(&sandbox, b"generated");
    writer.after_shell("python3 generate.py");
    let told = owner.prompt().told().to_owned();
    assert!(told.contains("onus rescue restore src/a.rs"), "{told}");
    let shown = sandbox.json(&human("ada"), &["rescue", "show", FILE]).ok().json();
    assert_eq!(shown["versions"][0]["there"], true, "{shown}");
    sandbox.run(&human("ada"), &["rescue", "restore", FILE]).ok();
    assert_eq!(got(&sandbox), own);
    // What was there is not lost either.
    let generated = shown["versions"][0]["version"].as_str().unwrap().to_owned();
    sandbox.run(&human("ada"), &["rescue", "restore", FILE, "--version", &generated]).ok();
    assert_eq!(got(&sandbox), b"generated");
}

#[test]
fn whoever_overwrites_it_without_any_hook_what_the_last_hook_saw_comes_back() {
    let sandbox = committed(&[FILE]);
    let owner = Harness::new(Kind::Claude, &sandbox, "owner");
    owner.start();
    edited(&owner, &sandbox, b"first");
    edited(&owner, &sandbox, b"second");
    git(&sandbox, &["checkout", "-q", "--", FILE]);
    sandbox.run(&human("ada"), &["rescue", "restore", FILE]).ok();
    assert_eq!(got(&sandbox), b"second");
    fs::remove_file(sandbox.path().join(FILE)).unwrap();
    sandbox.run(&human("ada"), &["rescue", "restore", FILE]).ok();
    assert_eq!(got(&sandbox), b"second");
    sandbox.json(&human("ada"), &["rescue", "restore", FILE]).refused(3);
    // Nobody else may read them.
    let folder = sandbox.path().join(".git/onus/last");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for entry in fs::read_dir(folder.join("objects")).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    sandbox.json(&human("ada"), &["rescue", "restore", "src/unknown.rs"]).refused(3);
}
