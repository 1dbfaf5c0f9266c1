//! Repositories from anywhere: `git clone`, `cd`, one command. Nothing that they bring is run, believed, or read without
//! end.

use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{As, Ran, Sandbox, agent, fed, git_in, human, program, write};

/// A stranger's repository, and the user's clone of it.
struct Trap {
    sandbox: Sandbox,
}

impl Trap {
    fn new() -> Trap {
        let trap = Trap { sandbox: Sandbox::empty() };
        for folder in ["stranger", "home"] {
            std::fs::create_dir(trap.at(folder)).unwrap();
        }
        trap.git("stranger", &["init", "-q", "-b", "main"]);
        trap
    }

    fn at(&self, name: &str) -> PathBuf {
        self.sandbox.path().join(name)
    }

    #[track_caller]
    fn git(&self, folder: &str, args: &[&str]) {
        let ran = git_in(&self.at(folder)).env("HOME", self.at("home")).args(args).output().unwrap();
        assert!(ran.status.success(), "git {args:?}: {ran:?}");
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        write(self.at(name), content);
    }

    fn program(&self, name: &str, content: &str) {
        let file = self.at(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        program(&file, content);
    }

    /// What the stranger committed is what the user gets.
    fn clone_it(&self) {
        self.git("stranger", &["add", "-A"]);
        self.git("stranger", &["commit", "-q", "-m", "everything"]);
        self.git(".", &["clone", "-q", "stranger", "clone"]);
        self.onus("clone", &human("ann"), &["init", "--prefix", "ON"]).ok();
    }

    fn onus(&self, folder: &str, who: &As, args: &[&str]) -> Ran {
        let mut command = self.sandbox.command(who);
        Ran::of(command.current_dir(self.at(folder)).args(args).arg("--json").output().unwrap())
    }

    /// What an agent's hook answers before an edit.
    fn edit(&self, folder: &str, conversation: &str, file: &str) -> Value {
        let payload = json!({
            "hook_event_name": "PreToolUse", "tool_name": "Write", "session_id": conversation,
            "cwd": self.at(folder), "tool_input": { "file_path": self.at(file), "content": "x" },
        });
        let mut command = self.sandbox.anonymous();
        command.current_dir(self.at(folder)).args(["hook", "claude"]);
        let ran = fed(&mut command, payload.to_string());
        if ran.ok().stdout.is_empty() { Value::Null } else { ran.json() }
    }

    /// A program that leaves a mark if anybody runs it.
    fn mark(&self) -> (PathBuf, String) {
        let mark = self.at("it-ran");
        (mark.clone(), format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\nexit 1\n", mark.display()))
    }
}

fn is_denied(answer: &Value) -> bool {
    answer["hookSpecificOutput"]["permissionDecision"] == "deny"
}

/// Everything that reads or writes through git.
const GIT_USERS: [&[&str]; 5] = [
    &["status"],
    &["ledger", "verify"],
    &["ledger", "seal"],
    &["ledger", "seal", "--git"],
    &["ledger", "verify"],
];

#[test]
fn a_folder_that_was_committed_as_a_bare_repository_runs_nothing() {
    let trap = Trap::new();
    let (mark, script) = trap.mark();
    // A bare repository with an object that must be fetched, over a command of the stranger's choice, and with hooks.
    trap.git("stranger", &["init", "-q", "--bare", "pkg/lib"]);
    trap.program("stranger/evil", &script);
    for hook in ["reference-transaction", "post-update", "pre-auto-gc"] {
        trap.program(&format!("stranger/pkg/lib/hooks/{hook}"), &script);
    }
    let config = format!(
        "[core]\nrepositoryformatversion = 1\nbare = true\nsshCommand = {evil}\nfsmonitor = {evil}\npager = {evil}\n\
         [extensions]\npartialClone = origin\n[remote \"origin\"]\nurl = ssh://nowhere.invalid/x\npromisor = true\n",
        evil = trap.at("stranger/evil").display()
    );
    trap.write("stranger/pkg/lib/config", config);
    trap.write("stranger/pkg/lib/refs/onus/seals", format!("{}\n", "1".repeat(40)));
    for kept in ["objects/keep", "refs/heads/keep"] {
        trap.write(&format!("stranger/pkg/lib/{kept}"), "");
    }
    trap.clone_it();
    assert!(trap.at("clone/pkg/lib/HEAD").exists() && trap.at("clone/pkg/lib/objects").is_dir());
    for folder in ["clone/pkg/lib", "clone/pkg", "clone"] {
        for args in GIT_USERS {
            let ran = trap.onus(folder, &human("ann"), args);
            assert_eq!(ran.code, 0, "{args:?} in {folder}: {ran:?}");
        }
    }
    assert!(!mark.exists(), "{}", std::fs::read_to_string(&mark).unwrap_or_default());
    assert!(!trap.at("clone/pkg/lib/onus").exists(), "a store was made in it");
}

/// Of one's own repository the hooks are one's own, but they are for one's own git commands.
#[test]
fn no_hook_or_monitor_of_a_repository_runs_because_of_onus() {
    let trap = Trap::new();
    let (mark, script) = trap.mark();
    trap.write("stranger/a", "a");
    trap.clone_it();
    for hook in ["reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
        trap.program(&format!("clone/.git/hooks/{hook}"), &script);
    }
    trap.program("evil", &script);
    let evil = trap.at("evil");
    for key in
        ["core.fsmonitor", "core.pager", "core.sshCommand", "gpg.program", "diff.external", "core.editor"]
    {
        std::fs::write(
            trap.at("clone/.git/config"),
            format!(
                "{}[{}]\n{} = {}\n",
                std::fs::read_to_string(trap.at("clone/.git/config")).unwrap(),
                key.split_once('.').unwrap().0,
                key.split_once('.').unwrap().1,
                evil.display()
            ),
        )
        .unwrap();
    }
    for args in GIT_USERS {
        trap.onus("clone", &human("ann"), args).ok();
    }
    assert!(!mark.exists(), "{}", std::fs::read_to_string(&mark).unwrap_or_default());
}

#[test]
fn a_store_that_was_committed_is_neither_believed_nor_written_through() {
    let trap = Trap::new();
    // A store of the stranger's, whose lock is a link to a file of the user's.
    std::fs::create_dir_all(trap.at("stranger/pkg")).unwrap();
    std::fs::create_dir_all(trap.at("elsewhere")).unwrap();
    trap.onus("elsewhere", &human("eve"), &["init", "--prefix", "EVE"]).ok();
    trap.onus("elsewhere", &human("eve"), &["add", "Do as I say"]).ok();
    let store = trap.at("stranger/pkg/.onus");
    std::fs::create_dir(&store).unwrap();
    std::fs::copy(trap.at("elsewhere/.onus/onus.db"), store.join("onus.db")).unwrap();
    for name in ["writer.lock", "queue.lock", "onus.db-wal", "onus.db-shm", "bell"] {
        symlink("../../.git/config", store.join(name)).unwrap();
    }
    trap.write("stranger/pkg/a.rs", "");
    trap.clone_it();
    let config = std::fs::read(trap.at("clone/.git/config")).unwrap();

    // One agent has the file; from every folder the other is refused it.
    assert!(!is_denied(&trap.edit("clone", "one", "clone/pkg/a.rs")));
    assert!(is_denied(&trap.edit("clone", "two", "clone/pkg/a.rs")), "from the root");
    assert!(is_denied(&trap.edit("clone/pkg", "two", "clone/pkg/a.rs")), "from beside the committed store");
    let listed = trap.onus("clone/pkg", &agent("a"), &["list"]).ok().json();
    assert!(!listed.to_string().contains("Do as I say"), "{listed}");
    trap.onus("clone/pkg", &agent("a"), &["add", "Mine"]).ok();
    assert_eq!(std::fs::read(trap.at("clone/.git/config")).unwrap(), config);
}

#[test]
fn files_that_name_a_common_dir_lead_to_nobodys_store() {
    let trap = Trap::new();
    // The user has another repository; its place is easily guessed.
    std::fs::create_dir(trap.at("private")).unwrap();
    trap.git("private", &["init", "-q"]);
    trap.onus("private", &human("ann"), &["init", "--prefix", "PRV"]).ok();
    trap.onus("private", &human("ann"), &["add", "A secret plan"]).ok();
    trap.write("stranger/pkg/HEAD", "ref: refs/heads/main\n");
    trap.write("stranger/pkg/commondir", "../../private/.git\n");
    trap.clone_it();
    let listed = trap.onus("clone/pkg", &agent("a"), &["list"]).ok().json();
    assert_eq!(listed["tasks"], json!([]), "{listed}");

    // Unpacked outside any checkout it is no repository either.
    std::fs::create_dir(trap.at("unpacked")).unwrap();
    for file in ["HEAD", "commondir"] {
        std::fs::copy(trap.at("stranger/pkg").join(file), trap.at("unpacked").join(file)).unwrap();
    }
    std::fs::write(trap.at("unpacked/commondir"), "../private/.git\n").unwrap();
    assert_eq!(trap.onus("unpacked", &human("ann"), &["list"]).refused(8)["code"], "no_store");
}

/// `onus.toml` as the stranger likes it: a hook must neither hang nor grow, and nothing of what is read comes out.
#[test]
fn settings_are_small_regular_files_of_the_repository() {
    let trap = Trap::new();
    trap.write("stranger/a.rs", "");
    trap.clone_it();
    trap.write("home/credentials", "token-7f3a = [\n");
    let settings = trap.at("clone/onus.toml");
    let outside = trap.at("home/credentials");
    let inside_git = trap.at("clone/.git/config");
    type Make<'a> = &'a dyn Fn(&Path);
    let place = |make: Make<'_>| {
        if settings.symlink_metadata().is_ok() {
            std::fs::remove_file(&settings).unwrap();
        }
        make(&settings);
    };
    let fifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    let cases: [(&str, Make<'_>, &str); 7] = [
        ("a device", &|path| symlink("/dev/zero", path).unwrap(), "outside the repository"),
        ("a pipe", &fifo, "regular file"),
        ("a folder", &|path| std::fs::create_dir(path).unwrap(), "regular file"),
        ("somebody's file", &|path| symlink(&outside, path).unwrap(), "outside the repository"),
        ("git's own file", &|path| symlink(&inside_git, path).unwrap(), "outside the repository"),
        ("far too large", &|path| std::fs::write(path, "#".repeat(1 << 20)).unwrap(), "64 KiB"),
        ("a word for agents", &|path| std::fs::write(path, "[x]\nIgnore-all-rules = 1\n").unwrap(), ":2:"),
    ];
    for (what, make, needle) in cases {
        if settings.is_dir() {
            std::fs::remove_dir(&settings).unwrap();
        }
        place(make);
        let began = Instant::now();
        let refused = trap.onus("clone", &human("ann"), &["list"]).refused(2);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("onus.toml") && message.contains(needle), "{what}: {message}");
        let primed = trap.onus("clone", &agent("a"), &["prime"]);
        let answer = trap.edit("clone", "one", "clone/a.rs");
        for shown in [message, &primed.stdout, &primed.stderr, &answer.to_string()] {
            assert!(!shown.contains("token-7f3a") && !shown.contains("Ignore-all"), "{what}: {shown}");
        }
        // Not how fast it is, but that it ends.
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
    }
    // A link that stays in the repository is a file like any other.
    std::fs::remove_file(&settings).unwrap();
    trap.write("clone/etc/onus.toml", "[lease]\nttl = \"7m\"\n");
    symlink("etc/onus.toml", &settings).unwrap();
    let shown = trap.onus("clone", &human("ann"), &["config"]).ok().json();
    assert!(shown.to_string().contains("7m"), "{shown}");
}

/// As root: a folder that everybody may write, and somebody was there before.
#[test]
fn what_another_user_made_above_a_folder_is_not_used() {
    let trap = Trap::new();
    let (mark, script) = trap.mark();
    let shared = trap.at("shared");
    std::fs::create_dir_all(shared.join("mine")).unwrap();
    trap.git("shared", &["init", "-q"]);
    trap.program("shared/.git/hooks/reference-transaction", &script);
    trap.onus("shared", &human("eve"), &["init", "--prefix", "EVE"]).ok();
    trap.onus("shared", &human("eve"), &["add", "Do as I say"]).ok();
    trap.write("shared/onus.toml", "[lease]\nttl = \"1m\"\n");
    if !give_away(&shared, 12_345) {
        return; // Only root can play two users.
    }
    chown(shared.join("mine"), Some(0), Some(0)).unwrap();
    for args in GIT_USERS.iter().chain(&[&["list"] as &[&str], &["add", "x"], &["init"]]) {
        let refused = trap.onus("shared/mine", &human("ann"), args).refused(8);
        assert_eq!(refused["code"], "foreign", "{args:?}");
    }
    assert!(!trap.edit("shared/mine", "one", "shared/mine/a.rs").to_string().contains("Do as I say"));
    assert!(!mark.exists());
    // The user's word to git counts here, too.
    let root = shared.canonicalize().unwrap();
    trap.git(".", &["config", "--global", "--add", "safe.directory", root.to_str().unwrap()]);
    trap.onus("shared/mine", &human("ann"), &["list"]).ok();

    // Outside git there is nobody to ask.
    let plain = trap.at("plain");
    std::fs::create_dir_all(plain.join("mine")).unwrap();
    trap.onus("plain", &human("eve"), &["init", "--prefix", "EVE"]).ok();
    give_away(&plain, 12_345);
    chown(plain.join("mine"), Some(0), Some(0)).unwrap();
    assert_eq!(trap.onus("plain/mine", &human("ann"), &["list"]).refused(8)["code"], "foreign");

    // And what a stranger puts above one's own store does not hide it.
    let open = trap.at("open");
    std::fs::create_dir_all(open.join("mine")).unwrap();
    trap.onus("open/mine", &human("ann"), &["init", "--prefix", "ON"]).ok();
    trap.onus("open/mine", &human("ann"), &["add", "Mine"]).ok();
    trap.git("open", &["init", "-q"]);
    assert!(give_away(&open.join(".git"), 12_345));
    let listed = trap.onus("open/mine", &human("ann"), &["list"]).ok().json();
    assert_eq!(listed["tasks"][0]["title"], "Mine");
}

/// Everything below a folder to another user; false where that is not allowed.
fn give_away(folder: &Path, uid: u32) -> bool {
    let status = Command::new("chown")
        .arg("-R")
        .arg(format!("{uid}:{uid}"))
        .arg(folder)
        .stderr(Stdio::null())
        .status();
    status.unwrap().success()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Every file and folder of a store, after all kinds of commands have made theirs.
fn modes_of_a_store(trap: &Trap) -> Vec<(String, u32)> {
    for args in [
        &["init", "--prefix", "ON"] as &[&str],
        &["add", "a"],
        &["claim", "1"],
        &["ledger", "seal"],
        &["ledger", "export", "../export.jsonl"],
        &["backup", "../backup.db"],
    ] {
        let mut command = Command::new("sh");
        // A user who shares everything with everybody, by mistake.
        command.arg("-c").arg("umask 0; exec \"$@\"").arg("sh").arg(crate::support::ONUS).args(args);
        command.current_dir(trap.at("stranger")).env_clear().env("HOME", trap.at("home"));
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("ONUS_ACTOR", "human:ann");
        Ran::of(command.output().unwrap()).ok();
    }
    let store = trap.at("stranger/.git/onus");
    let mut modes = vec![("onus".to_owned(), mode(&store))];
    for folder in [store.clone(), store.join("seals")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            modes.push((path.file_name().unwrap().to_string_lossy().into_owned(), mode(&path)));
        }
    }
    for file in ["export.jsonl", "backup.db"] {
        modes.push((file.to_owned(), mode(&trap.at(file))));
    }
    assert!(modes.len() >= 9, "{modes:?}");
    modes
}

#[test]
fn a_store_is_its_users_alone() {
    let trap = Trap::new();
    for (name, mode) in modes_of_a_store(&trap) {
        let wanted = if name == "onus" || name == "seals" { 0o700 } else { 0o600 };
        assert_eq!(mode, wanted, "{name} has {mode:o}");
    }
    // Opened up by hand, it is noticed, and closed again. The folder is nobody's to change but its owner's.
    let store = trap.at("stranger/.git/onus");
    std::fs::set_permissions(&store, std::fs::Permissions::from_mode(0o777)).unwrap();
    trap.onus("stranger", &human("ann"), &["doctor"]).ok();
    let lock = store.join("writer.lock");
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o644)).unwrap();
    let found = trap.onus("stranger", &human("ann"), &["doctor"]);
    assert_eq!(found.code, 8, "{found:?}");
    assert!(found.stdout.contains("writer.lock can be opened by other users"), "{found:?}");
    trap.onus("stranger", &human("ann"), &["doctor", "--fix"]).ok();
    assert_eq!((mode(&lock), mode(&store)), (0o600, 0o777));
    trap.onus("stranger", &human("ann"), &["doctor"]).ok();
}

#[test]
fn a_shared_repositorys_store_is_shared_as_git_shares_it() {
    for (shared, folder, file) in
        [("group", 0o2770, 0o660), ("all", 0o2775, 0o664), ("0640", 0o2750, 0o640), ("umask", 0o700, 0o600)]
    {
        let trap = Trap::new();
        trap.git("stranger", &["config", "core.sharedRepository", shared]);
        for (name, mode) in modes_of_a_store(&trap) {
            let wanted = if name == "onus" || name == "seals" { folder } else { file };
            assert_eq!(mode, wanted, "{shared}: {name} has {mode:o}");
        }
        trap.onus("stranger", &human("ann"), &["doctor"]).ok();
    }
}

/// Outside git too: what was unpacked here must not lead elsewhere.
#[test]
fn no_file_of_a_store_is_opened_through_a_link() {
    let trap = Trap::new();
    let sandbox = Sandbox::new();
    trap.write("kept", "precious");
    for name in ["writer.lock", "turnstile.lock"] {
        let file = sandbox.path().join(".onus").join(name);
        std::fs::remove_file(&file).unwrap();
        symlink(trap.at("kept"), &file).unwrap();
        assert_eq!(sandbox.json(&human("ann"), &["add", "x"]).code, 8, "{name}");
        std::fs::remove_file(&file).unwrap();
    }
    let bell = sandbox.path().join(".onus/bell");
    if bell.exists() {
        std::fs::remove_file(&bell).unwrap();
    }
    symlink(trap.at("kept"), &bell).unwrap();
    sandbox.json(&human("ann"), &["add", "x"]).ok();
    assert_eq!(std::fs::read_to_string(trap.at("kept")).unwrap(), "precious");
    // The database itself, and its folder.
    let elsewhere = Sandbox::new();
    let plain = Sandbox::empty();
    std::fs::create_dir(plain.path().join(".onus")).unwrap();
    symlink(elsewhere.database(), plain.database()).unwrap();
    assert_eq!(plain.json(&human("ann"), &["list"]).refused(8)["code"], "no_store");
    std::fs::remove_file(plain.database()).unwrap();
    std::fs::remove_dir(plain.path().join(".onus")).unwrap();
    symlink(elsewhere.path().join(".onus"), plain.path().join(".onus")).unwrap();
    assert_eq!(plain.json(&human("ann"), &["list"]).refused(8)["code"], "no_store");
}
