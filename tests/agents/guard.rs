//! Which paths are guarded, and what the project may decide about it.

use std::os::unix::fs::symlink;

use serde_json::json;

use crate::agents::harness::Harness;
use crate::agents::kit::{configured, holder_of, only_ad_hoc, repository, tasks, write};
use crate::agents::payload::{Event, KINDS, Kind};
use crate::support::Sandbox;

fn two(sandbox: &Sandbox) -> (Harness, Harness) {
    let both = (Harness::claude(sandbox, "one"), Harness::gemini(sandbox, "other"));
    both.0.start();
    both.1.start();
    both
}

/// They collide on this path, as one and the other spell it.
#[track_caller]
fn collide(sandbox: &Sandbox, spelled: &str, by_other: &str) {
    let (one, other) = two(sandbox);
    one.edit(spelled).allowed();
    let verdict = other.edit(by_other);
    assert!(verdict.refused().contains("one"), "{verdict:?}");
    one.end();
    other.edit(by_other).allowed();
    other.end();
}

// ---- guard.unclaimed

#[test]
fn unclaimed_edits_are_adopted_unless_the_project_says_otherwise() {
    let sandbox = repository();
    let (one, _other) = two(&sandbox);
    let told = one.edit("a.rs");
    let task = only_ad_hoc(&sandbox);
    assert!(told.told().contains(task["id"].as_str().unwrap()), "{told:?}");
    // One task for all of its edits, said once.
    one.edit("b.rs").allowed().silent();
    assert_eq!(only_ad_hoc(&sandbox)["lease"]["scope"], json!(["a.rs", "b.rs"]));
}

#[test]
fn with_warn_unclaimed_edits_pass_with_a_word_and_reserve_nothing() {
    let sandbox = repository();
    configured(&sandbox, "[guard]\nunclaimed = \"warn\"\n");
    let id = sandbox.add("A task");
    let (one, other) = two(&sandbox);
    let told = one.edit("a.rs");
    assert!(told.allowed().told().contains("without a task"), "{told:?}");
    other.edit("a.rs").allowed();
    assert_eq!(tasks(&sandbox).len(), 1, "nothing was adopted");
    // What another has reserved is refused all the same.
    one.json(&format!("onus claim {id} --scope a.rs"));
    assert!(other.edit("a.rs").refused().contains("one"));
    one.edit("a.rs").allowed();
    assert_eq!(tasks(&sandbox).len(), 1);
    sandbox.is_whole();
}

#[test]
fn with_refuse_unclaimed_edits_are_refused_with_the_way_to_a_task() {
    let sandbox = repository();
    configured(&sandbox, "[guard]\nunclaimed = \"refuse\"\n");
    let id = sandbox.add("A task");
    let (one, other) = two(&sandbox);
    let verdict = one.edit("a.rs");
    assert!(verdict.refused().contains("onus claim"), "{verdict:?}");
    one.json(&format!("onus claim {id}"));
    one.edit("a.rs").allowed();
    assert_eq!(holder_of(&sandbox, "a.rs"), Some((id, "one".into())));
    assert!(other.edit("b.rs").refused().contains("onus claim"));
    assert_eq!(tasks(&sandbox).len(), 1, "nothing was adopted");
}

#[test]
fn a_refusal_for_want_of_a_task_does_not_speak_of_another_holder() {
    let sandbox = repository();
    configured(&sandbox, "[guard]\nunclaimed = \"refuse\"\n");
    let agent = Harness::claude(&sandbox, "one");
    let verdict = agent.edit("a.rs");
    assert!(!verdict.refused().contains("another's"), "{verdict:?}");
}

// ---- scope

#[test]
fn where_scopes_only_warn_the_second_may_edit_and_is_told_of_the_first() {
    let sandbox = repository();
    configured(&sandbox, "[scope]\nmode = \"warn\"\n");
    let (one, other) = two(&sandbox);
    one.edit("a.rs").allowed();
    other.edit("a.rs").allowed();
    // Gemini is not told anything before a tool.
    let told = Harness::claude(&sandbox, "third").edit("a.rs");
    assert!(told.allowed().told().contains("a.rs"), "{told:?}");
}

#[test]
fn where_scopes_are_off_nobody_is_in_anybodys_way() {
    let sandbox = repository();
    configured(&sandbox, "[scope]\nmode = \"off\"\n");
    let (one, other) = two(&sandbox);
    one.edit("a.rs").allowed();
    other.edit("a.rs").allowed();
    other.after_tool("replace").allowed();
}

#[test]
fn shared_paths_never_collide() {
    let sandbox = repository();
    configured(&sandbox, "[scope]\nshared = [\"Cargo.lock\", \"docs/**\"]\n");
    let (one, other) = two(&sandbox);
    for path in ["Cargo.lock", "docs/a b.md", "docs/deep/er.md"] {
        one.edit(path).allowed();
        other.edit(path).allowed();
    }
    one.edit("a.rs").allowed();
    other.edit("a.rs").refused();
    other.edit("Cargo.lock").allowed();
}

// ---- paths

#[test]
fn what_lies_outside_the_repository_or_in_git_is_nobodys() {
    let sandbox = repository();
    let elsewhere = Sandbox::empty();
    let outside = elsewhere.path().join("notes.md");
    let (one, other) = two(&sandbox);
    for path in [
        outside.to_str().unwrap(),
        ".git/config",
        ".git/hooks/pre-commit",
        "src/../.git/config",
        "/dev/null",
        "../beside.rs",
    ] {
        one.edit(path).silent();
        other.edit(path).silent();
    }
    assert!(tasks(&sandbox).is_empty(), "nothing was adopted");
}

#[test]
fn one_file_by_several_names_is_one_file() {
    let sandbox = repository();
    write(&sandbox, "src/real.rs");
    symlink("src/real.rs", sandbox.path().join("link.rs")).unwrap();
    symlink("src", sandbox.path().join("linked")).unwrap();
    collide(&sandbox, "src/real.rs", "link.rs");
    collide(&sandbox, "link.rs", "src/real.rs");
    collide(&sandbox, "linked/real.rs", "src/real.rs");
    collide(&sandbox, "src/new.rs", "linked/new.rs");
    collide(&sandbox, "src/../src/./real.rs", "src/real.rs");
    collide(&sandbox, "not/there/yet.rs", "not/../not/there/yet.rs");
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_is_that_file() {
    let sandbox = repository();
    write(&sandbox, "src/real.rs");
    symlink("src/new.rs", sandbox.path().join("link.rs")).unwrap();
    symlink(sandbox.path().join("link.rs"), sandbox.path().join("link of link.rs")).unwrap();
    collide(&sandbox, "src/new.rs", "link.rs");
    collide(&sandbox, "link of link.rs", "src/new.rs");
    symlink("loop-b", sandbox.path().join("loop-a")).unwrap();
    symlink("loop-a", sandbox.path().join("loop-b")).unwrap();
    Harness::claude(&sandbox, "c").edit("loop-a").allowed();
}

#[test]
fn a_link_out_of_the_repository_is_nobodys() {
    let (sandbox, elsewhere) = (repository(), Sandbox::empty());
    symlink(elsewhere.path(), sandbox.path().join("out")).unwrap();
    let (one, other) = two(&sandbox);
    one.edit("out/a.rs").silent();
    other.edit("out/a.rs").silent();
}

#[test]
fn names_of_any_kind_collide_with_themselves_alone() {
    let sandbox = repository();
    let names = [
        "a file with spaces.rs",
        "größe/名前 🦀.rs",
        "star*.rs",
        "[x].rs",
        "q?.rs",
        "{a,b}.rs",
        "!not.rs",
        "-dash.rs",
        "quote'\".rs",
        "back\\slash.rs",
        "trailing ",
    ];
    for name in names {
        collide(&sandbox, name, name);
    }
    // What looks like a pattern is a name.
    let (one, other) = two(&sandbox);
    one.edit("star*.rs").allowed();
    other.edit("starry.rs").allowed();
    one.edit("[x].rs").allowed();
    other.edit("x.rs").allowed();
}

#[test]
fn a_name_with_a_line_break_in_it_or_a_very_long_one_is_guarded_too() {
    let sandbox = repository();
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::gemini(&sandbox, "other"));
    one.edit("two\nlines.rs").allowed();
    other.edit("two\nlines.rs").refused();
    let long: String = ["d".repeat(200).as_str()].repeat(5).join("/");
    one.edit(&long).allowed();
    other.edit(&long).refused();
    one.end();
    other.edit(&long).allowed();
    sandbox.is_whole();
}

#[test]
fn an_agent_in_a_subfolder_names_files_from_there() {
    let sandbox = repository();
    std::fs::create_dir_all(sandbox.path().join("src/deep")).unwrap();
    let (one, other) = (Harness::claude(&sandbox, "one"), Harness::codex(&sandbox, "other"));
    let other = other.at(&sandbox.path().join("src/deep"));
    one.edit("src/deep/a.rs").allowed();
    assert!(other.edit("a.rs").refused().contains("src/deep/a.rs"));
    assert!(other.edit("../deep/a.rs").refused().contains("src/deep/a.rs"));
    other.edit("b.rs").allowed();
    assert_eq!(holder_of(&sandbox, "src/deep/b.rs").unwrap().1, "other");
}

#[test]
fn a_file_is_called_the_same_by_the_command_line_and_by_hooks() {
    let sandbox = repository();
    write(&sandbox, "src/real.rs");
    symlink("src", sandbox.path().join("lnk")).unwrap();
    let agent = Harness::claude(&sandbox, "one");
    agent.start();
    let id = sandbox.add("A task");
    for path in ["lnk/f", "lnk/real.rs", "lnk/../lnk/g", "lnk/not/there/../h", "src/../lnk/i"] {
        agent.json(&format!("onus claim {id}"));
        agent.json(&format!("onus touch {path}"));
        let touched = sandbox.show(&id)["lease"]["scope"][0].as_str().unwrap().to_owned();
        assert!(touched.starts_with("src/"), "{path}: {touched}");
        agent.json(&format!("onus release {id}"));
        let other = Harness::gemini(&sandbox, "other");
        other.edit(path).allowed();
        assert_eq!(holder_of(&sandbox, &touched).unwrap().1, "other", "{path}: {touched}");
        other.end();
    }
}

// ---- payloads

/// A payload in which the content of the edit is this, as it is spelled in the file.
fn with_content(agent: &Harness, path: &str, content: &[u8]) -> Vec<u8> {
    let file = sandbox_path(agent, path);
    let mut payload = agent.payload(&Event::BeforeEdit(&[&file]));
    match agent.kind {
        Kind::Claude | Kind::Gemini => payload["tool_input"]["new_string"] = json!("CONTENT"),
        Kind::Codex => {
            let patch = payload["tool_input"]["command"].as_str().unwrap().replace("+after", "+CONTENT");
            payload["tool_input"]["command"] = json!(patch);
        }
    }
    let text = payload.to_string();
    let (before, after) = text.split_once("CONTENT").unwrap();
    [before.as_bytes(), content, after.as_bytes()].concat()
}

fn sandbox_path(agent: &Harness, path: &str) -> std::path::PathBuf {
    if agent.kind == Kind::Codex { path.into() } else { agent.folder.join(path) }
}

#[test]
fn whatever_an_edit_writes_the_file_it_writes_to_is_guarded() {
    let sandbox = repository();
    let holder = Harness::claude(&sandbox, "holder");
    holder.start();
    holder.edit("src/a.rs").allowed();
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "other");
        agent.start();
        for content in
            [&b"half a pair: \\ud83d"[..], b"\\udc00", b"no UTF-8: \xff\xc3\x28", b"a raw\nline", b"\\x"]
        {
            let event = kind.event_name(&Event::BeforeEdit(&[]));
            let verdict = agent.hook_with(with_content(&agent, "src/a.rs", content), event);
            assert!(verdict.refused().contains("src/a.rs"), "{kind:?} {content:?}: {verdict:?}");
            agent.hook_with(with_content(&agent, "src/b.rs", content), event).allowed();
        }
        agent.end();
    }
}

#[test]
fn whatever_else_is_in_a_payload_the_file_is_guarded() {
    let sandbox = repository();
    let holder = Harness::claude(&sandbox, "holder");
    holder.start();
    holder.edit("src/a.rs").allowed();
    for kind in KINDS {
        let agent = Harness::new(kind, &sandbox, "other");
        agent.start();
        let event = kind.event_name(&Event::BeforeEdit(&[]));
        let file = sandbox_path(&agent, "src/a.rs");
        let mut payload = agent.payload(&Event::BeforeEdit(&[&file]));
        payload["tool_input"]["extra"] = json!("EXTRA");
        payload["extra"] = json!("EXTRA");
        let text = payload.to_string();
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let deeper = format!("{}1{}", "{\"a\":".repeat(300), "}".repeat(300));
        for extra in
            [deep.as_str(), &deeper, "NaN", "1e999999", "\"\\ud83d\"", "{\"file_path\": \"elsewhere\"}"]
        {
            let verdict = agent.hook_with(text.replace("\"EXTRA\"", extra), event);
            assert!(verdict.refused().contains("src/a.rs"), "{kind:?} {extra:.20}: {verdict:?}");
        }
        agent.end();
    }
}

#[test]
fn a_path_that_cannot_be_shown_is_guarded_as_what_is_shown_of_it() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let holder = Harness::claude(&sandbox, "holder");
    holder.start();
    holder.json(&format!("onus claim {id} --scope 'src/**'"));
    let agent = Harness::gemini(&sandbox, "other");
    agent.start();
    let payload = |path: &str| {
        let file = sandbox.path().join(path);
        agent.payload(&Event::BeforeEdit(&[&file])).to_string()
    };
    for spelled in [&b"\\ud83d"[..], b"\xff"] {
        for (path, is_free) in [("src/NAME.rs", false), ("docs/NAME.rs", true)] {
            let text = payload(path);
            let (before, after) = text.split_once("NAME").unwrap();
            let verdict =
                agent.hook_with([before.as_bytes(), spelled, after.as_bytes()].concat(), Some("BeforeTool"));
            assert_eq!(verdict.refusal.is_none(), is_free, "{path}: {verdict:?}");
        }
    }
    assert_eq!(only_ad_hoc(&sandbox)["lease"]["scope"], json!(["docs/\u{fffd}.rs"]));
}

#[test]
fn an_edit_whose_end_is_missing_is_judged_by_its_file_and_refused_if_that_is_missing() {
    let sandbox = repository();
    let (holder, agent) = (Harness::claude(&sandbox, "holder"), Harness::claude(&sandbox, "other"));
    holder.start();
    holder.edit("src/a.rs").allowed();
    agent.start();
    let folder = sandbox.path().to_str().unwrap();
    // The fields in the order in which harnesses write them; what a model wrote, in the order in which it wrote it.
    let cut = |input: &str| {
        let text = format!(
            r#"{{"session_id":"other","cwd":"{folder}","hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{{{input}"#
        );
        agent.hook_with(text, Some("PreToolUse"))
    };
    let named = |path: &str| format!(r#""file_path":"{folder}/{path}","content":"and so on"#);
    assert!(cut(&named("src/a.rs")).refused().contains("src/a.rs"));
    cut(&named("src/b.rs")).allowed();
    for input in [r#""content":"and so on"#, r#""content":"x","file_path":"/w/a"#, ""] {
        assert!(cut(input).refused().contains("write less"), "{input}");
    }
    // Where there is nothing to guard, nothing is in the way.
    std::fs::remove_dir_all(crate::agents::kit::store(&sandbox)).unwrap();
    cut(r#""content":"and so on"#).allowed();
}

// ---- several leases, and lost ones

#[test]
fn with_several_leases_a_touched_path_joins_the_latest() {
    let sandbox = repository();
    let (early, late) = (sandbox.add("Early"), sandbox.add("Late"));
    let agent = Harness::claude(&sandbox, "one");
    agent.start();
    agent.json(&format!("onus claim {early} --scope early.rs"));
    agent.json(&format!("onus claim {late}"));
    agent.edit("a.rs").allowed();
    assert_eq!(holder_of(&sandbox, "a.rs").unwrap().0, late);
    // What it has already stays where it is.
    agent.edit("early.rs").allowed();
    assert_eq!(holder_of(&sandbox, "early.rs").unwrap().0, early);
}

#[test]
fn a_fenced_agents_edit_is_refused() {
    let sandbox = repository();
    let id = sandbox.add("A task");
    let agent = Harness::codex(&sandbox, "one");
    agent.start();
    agent.json(&format!("onus claim {id}"));
    agent.edit("a.rs").allowed();
    sandbox
        .json(&crate::support::human("ann"), &["takeover", &id, "--force", "--reason", "I need it now"])
        .ok();
    let verdict = agent.edit("a.rs");
    for word in ["your lease", "human:ann", "stop", &id] {
        assert!(verdict.refused().contains(word), "{verdict:?}");
    }
    assert!(!verdict.refused().contains("--force"), "{verdict:?}");
}

#[test]
fn ad_hoc_tasks_are_marked_in_list_and_show_for_programs() {
    let sandbox = repository();
    let planned = sandbox.add("A task");
    let agent = Harness::claude(&sandbox, "one");
    agent.edit("a.rs").allowed();
    let id = only_ad_hoc(&sandbox)["id"].as_str().unwrap().to_owned();
    assert_eq!(sandbox.show(&id)["ad_hoc"], true);
    assert_eq!(sandbox.show(&planned)["ad_hoc"], false);
    let listed = agent.json("onus list --all")["tasks"].as_array().unwrap().clone();
    let marks: Vec<_> = listed.iter().map(|task| (task["id"].clone(), task["ad_hoc"].clone())).collect();
    assert!(marks.contains(&(json!(id), json!(true))), "{marks:?}");
    assert!(marks.contains(&(json!(planned), json!(false))), "{marks:?}");
}
