//! Constraints at an agent's edit hook, as far as the call itself says what it does.

use serde_json::{Value, json};

use crate::guard::kit::guarded;
use crate::support::{Sandbox, agent, fed, human};

/// What a harness's hook answers before a tool is used.
fn asked(sandbox: &Sandbox, harness: &str, tool: &str, input: Value) -> String {
    let payload = json!({
        "session_id": "ada-1", "hook_event_name": "PreToolUse", "cwd": sandbox.path(), "tool_name": tool,
        "tool_input": input,
    });
    let mut command = sandbox.command(&agent("ada"));
    fed(command.args(["hook", harness]), payload.to_string()).ok().stdout.clone()
}

fn write(sandbox: &Sandbox, file: &str) -> String {
    asked(sandbox, "claude", "Write", json!({ "file_path": sandbox.path().join(file), "content": "x" }))
}

fn bounded(constraint: &str) -> Sandbox {
    let sandbox = guarded();
    let id = sandbox.add("bounded");
    sandbox.run(&agent("ada"), &["claim", &id, "--scope", "**", "--constraint", constraint]).ok();
    sandbox
}

#[test]
fn what_may_only_be_read_is_not_edited_even_if_it_is_reserved() {
    let sandbox = bounded("read_only");
    let said = write(&sandbox, "a.txt");
    assert!(said.contains("deny") && said.contains("read_only: a.txt may not be changed"), "{said}");
}

#[test]
fn a_task_that_is_tightened_binds_its_holder_at_once() {
    let sandbox = guarded();
    let id = sandbox.add("bounded later");
    sandbox.run(&agent("ada"), &["claim", &id, "--scope", "**"]).ok();
    assert!(!write(&sandbox, "a.txt").contains("deny"));
    sandbox.run(&human("founder"), &["edit", &id, "--constraint", "read_only"]).ok();
    assert!(write(&sandbox, "a.txt").contains("deny"));
}

#[test]
fn files_are_counted_each_once_whatever_was_declared() {
    let sandbox = bounded("max_files=2");
    for (file, passes) in
        [("a.txt", true), ("b.txt", true), ("a.txt", true), ("c.txt", false), ("b.txt", true)]
    {
        let said = write(&sandbox, file);
        assert_eq!(!said.contains("deny"), passes, "{file}: {said}");
    }
    sandbox.is_whole();
}

#[test]
fn a_patch_that_deletes_says_so() {
    let sandbox = bounded("no_delete");
    let patch = |what: &str| {
        let patch = format!("*** Begin Patch\n*** {what} File: a.txt\n*** End Patch\n");
        [
            asked(&sandbox, "codex", "apply_patch", json!({ "command": patch })),
            asked(
                &sandbox,
                "codex",
                "Bash",
                json!({ "command": format!("apply_patch <<'EOF'\n{patch}EOF\n") }),
            ),
        ]
    };
    for said in patch("Update") {
        assert!(!said.contains("deny"), "{said}");
    }
    for said in patch("Delete") {
        assert!(said.contains("deny") && said.contains("no_delete: a.txt may not be deleted"), "{said}");
    }
}
