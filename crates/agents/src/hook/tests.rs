use super::*;

fn read(value: Value) -> Payload {
    Payload::read(value.to_string().as_bytes()).unwrap()
}

#[test]
fn edit_tools_name_their_files_and_others_name_none() {
    let files = |tool: &str, input: Value| {
        let payload = json!({ "session_id": "s", "hook_event_name": "PreToolUse", "cwd": "/w", "tool_name": tool, "tool_input": input });
        read(payload).files.iter().map(|file| file.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(files("Write", json!({ "file_path": "/w/a.rs", "content": "x" })), ["/w/a.rs"]);
    assert_eq!(
        files("Edit", json!({ "file_path": "/w/a.rs", "old_string": "", "new_string": "" })),
        ["/w/a.rs"]
    );
    assert_eq!(files("NotebookEdit", json!({ "notebook_path": "/w/n.ipynb" })), ["/w/n.ipynb"]);
    assert_eq!(files("replace", json!({ "file_path": "src/b.rs" })), ["src/b.rs"]);
    let patch = "*** Begin Patch\n*** Update File: a.rs\n*** Move to: b.rs\n@@\n-x\n+*** Add File: not\n  *** Delete File: c d.rs \n*** End Patch";
    assert_eq!(files("apply_patch", json!({ "command": patch })), ["a.rs", "b.rs", "c d.rs"]);
    assert_eq!(
        files("apply_patch", json!({ "command": ["apply_patch", patch] })),
        ["a.rs", "b.rs", "c d.rs"]
    );
    for shell in ["Bash", "shell", "run_shell_command", "exec_command"] {
        assert!(files(shell, json!({ "command": "echo x > a.rs", "file_path": "a.rs" })).is_empty());
    }
    assert!(files("Read", json!({ "file_path": "/w/a.rs" })).is_empty());
    assert!(files("Write", json!({ "file_path": 7 })).is_empty());
}

#[test]
fn only_a_tool_about_to_be_used_changes_files() {
    let after = json!({ "session_id": "s", "hook_event_name": "PostToolUse", "tool_name": "Write",
        "tool_input": { "file_path": "/w/a" }, "agent_id": "sub-1" });
    let payload = read(after);
    assert_eq!((payload.moment, payload.files.len()), (Moment::AfterTool, 0));
    assert_eq!(payload.sub_agent.as_deref(), Some("sub-1"));
}

#[test]
fn what_is_not_understood_is_told_from_what_is_broken() {
    let read = |text: &str| Payload::read(text.as_bytes()).unwrap_err();
    assert_eq!(read(r#"{"session_id":"s","hook_event_name":"PreCompact"}"#), Unread::OtherEvent);
    for broken in [
        "",
        "[]",
        "{",
        r#"{"session_id":"s"}"#,
        r#"{"hook_event_name":"Stop"}"#,
        r#"{"session_id":"","hook_event_name":"Stop"}"#,
    ] {
        assert!(matches!(read(broken), Unread::Broken(_)), "{broken}");
    }
}

#[test]
fn each_harness_is_refused_in_its_own_words_and_never_approved() {
    let refused = Answer { refusal: Some("held".into()), ..Answer::default() };
    for dialect in [Dialect::Claude, Dialect::Codex] {
        assert_eq!(
            refused.write(dialect, "PreToolUse"),
            Some(json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse",
                "permissionDecision": "deny", "permissionDecisionReason": "held" } }))
        );
    }
    assert_eq!(
        refused.write(Dialect::Gemini, "BeforeTool"),
        Some(json!({ "decision": "deny", "reason": "held" }))
    );
    for dialect in Dialect::ALL {
        assert_eq!(Answer::default().write(dialect, "PreToolUse"), None);
        let told = Answer { context: Some("news".into()), ..Answer::default() }.write(dialect, "AfterTool");
        assert_eq!(
            told,
            Some(
                json!({ "hookSpecificOutput": { "hookEventName": "AfterTool", "additionalContext": "news" } })
            )
        );
    }
}
