//! What agents may change, and who reserves what: guard, rescue and scope, key by key.

use super::*;

/// Two tasks, the first held with a path; whether the second may have the path, too.
pub(super) fn second_claim(sandbox: &Sandbox) -> Ran {
    let (one, two) = (sandbox.add("one"), sandbox.add("two"));
    sandbox.json(&agent("a"), &["claim", &one, "--scope", "Cargo.lock"]).ok();
    sandbox.json(&agent("b"), &["claim", &two, "--scope", "Cargo.lock"])
}

/// What a hook says to an agent's edit, and how many tasks there are then.
pub(super) fn unclaimed_edit(setting: Option<&str>) -> (String, usize) {
    let sandbox = Sandbox::new();
    if let Some(setting) = setting {
        shared_file(&sandbox, &format!("[guard]\nunclaimed = \"{setting}\"\n"));
    }
    let payload = serde_json::json!({
        "session_id": "c-1", "hook_event_name": "PreToolUse", "cwd": sandbox.path(),
        "tool_name": "Write", "tool_input": { "file_path": sandbox.path().join("x.rs") },
    });
    let said = fed(&sandbox, &agent("a"), &["hook", "claude"], payload.to_string().as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    let tasks = sandbox.json(&human("ann"), &["list", "--all"]).ok().json();
    (said.stdout, tasks["tasks"].as_array().unwrap().len())
}

pub(super) fn guard_unclaimed() {
    for setting in [None, Some("adopt")] {
        let (said, tasks) = unclaimed_edit(setting);
        assert!(said.contains("opened ON-1") && !said.contains("deny"), "{said}");
        assert_eq!(tasks, 1);
    }
    let (said, tasks) = unclaimed_edit(Some("warn"));
    assert!(said.contains("without a task") && !said.contains("deny") && tasks == 0, "{said}");
    let (said, tasks) = unclaimed_edit(Some("refuse"));
    assert!(said.contains("deny") && said.contains("onus claim --next") && tasks == 0, "{said}");
}

/// Whether a file that an agent's command made is reserved.
pub(super) fn made_by_a_command(budget: &str) -> bool {
    let sandbox = Sandbox::empty();
    git(sandbox.path(), &["init", "-q"]);
    sandbox.run(&human("ann"), &["init", "--prefix", "ON"]).ok();
    user_file(&sandbox, &format!("[guard]\ntree_budget = \"{budget}\"\n"));
    let said = |event: &str| {
        let payload = serde_json::json!({
            "session_id": "c-1", "hook_event_name": event, "cwd": sandbox.path(), "tool_name": "Bash",
            "tool_input": { "command": "make" }, "tool_use_id": "u-1",
        });
        fed(&sandbox, &agent("a"), &["hook", "claude"], payload.to_string().as_bytes()).stdout
    };
    assert_eq!(said("PreToolUse"), "");
    std::fs::write(sandbox.path().join("made.rs"), "x").unwrap();
    said("PostToolUse").contains("made.rs changed: reserved for you now")
}

pub(super) fn guard_tree_budget() {
    assert!(made_by_a_command("5s"));
    assert!(!made_by_a_command("0"));
}

pub(super) fn rescue_max_file() {
    crate::contract::rescue::a_larger_file_is_left_and_listed();
}

pub(super) fn rescue_max_total() {
    crate::contract::rescue::of_all_files_together_the_smallest_are_kept();
}

pub(super) fn scope_mode() {
    let sandbox = Sandbox::new();
    assert_eq!(second_claim(&sandbox).refused(4)["code"], "scope");
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[scope]\nmode = \"warn\"\n");
    assert_eq!(second_claim(&sandbox).ok().json()["notices"].as_array().unwrap().len(), 1);
}

/// A repository with a worktree beside it: `repo` on branch main, `side` on branch side.
pub(super) fn two_worktrees(sandbox: &Sandbox) -> PathBuf {
    let root = sandbox.path().join("repo");
    fs::create_dir(&root).unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&root, &["worktree", "add", "-q", "-b", "side", "../side"]);
    sandbox.json(&human("ann"), &["-C", "repo", "init"]).ok();
    root
}

pub(super) fn scope_across_worktrees() {
    let settings = [(None, 0, 1), (Some("tell"), 0, 1), (Some("ignore"), 0, 0), (Some("refuse"), 4, 0)];
    for (setting, code, notices) in settings {
        let sandbox = Sandbox::new();
        let root = two_worktrees(&sandbox);
        if let Some(setting) = setting {
            fs::write(root.join("onus.toml"), format!("[scope]\nacross_worktrees = \"{setting}\"\n"))
                .unwrap();
        }
        for (who, id) in [("a", "1"), ("b", "2")] {
            sandbox.json(&human("ann"), &["-C", "repo", "add", who]).ok();
            sandbox.json(&agent(who), &["-C", "repo", "claim", id]).ok();
        }
        sandbox.json(&agent("a"), &["-C", "repo", "touch", "f.rs"]).ok();
        let second = sandbox.json(&agent("b"), &["-C", "repo", "touch", "../side/f.rs"]);
        assert_eq!(second.code, code, "{setting:?}: {second:?}");
        let told = second.json()["notices"].as_array().map_or(0, Vec::len);
        assert_eq!(told, notices, "{setting:?}: {second:?}");
    }
}

pub(super) fn scope_shared() {
    let sandbox = Sandbox::new();
    shared_file(&sandbox, "[scope]\nshared = [\"docs/**\", \"*.lock\"]\n");
    second_claim(&sandbox).ok();
}
