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
fn a_tool_that_failed_is_told_from_one_that_changed_its_files() {
    let after = |event: &str, tool: &str, response: Value| {
        let patch = "*** Begin Patch\n*** Update File: /w/a\n@@\n-x\n+y\n*** End Patch\n";
        let payload = read(
            json!({ "session_id": "s", "hook_event_name": event, "tool_name": tool, "agent_id": "sub-1",
            "tool_input": { "file_path": "/w/a", "command": patch }, "tool_response": response }),
        );
        assert_eq!(payload.sub_agent.as_deref(), Some("sub-1"));
        (payload.moment, payload.files.len())
    };
    let (changed, failed) = ((HookEvent::AfterTool, 1), (HookEvent::ToolFailed, 1));
    assert_eq!(after("PostToolUse", "Write", json!({ "type": "create", "filePath": "/w/a" })), changed);
    assert_eq!(after("PostToolUseFailure", "Edit", json!(null)), failed);
    let codex = |code: &str| json!(format!("Exit code: {code}\nWall time: 0 seconds\nOutput:\nM f.txt\n"));
    assert_eq!(after("PostToolUse", "apply_patch", codex("0")), changed);
    assert_eq!(after("PostToolUse", "apply_patch", codex("1")), failed);
    let gemini = |error: Value| json!({ "llmContent": "…", "returnDisplay": "…", "error": error });
    assert_eq!(after("AfterTool", "replace", json!({ "llmContent": "ok", "returnDisplay": {} })), changed);
    assert_eq!(after("AfterTool", "replace", gemini(json!(null))), changed);
    assert_eq!(after("AfterTool", "replace", gemini(json!({ "message": "0 occurrences found" }))), failed);
    // Other tools change nothing that could be named.
    assert_eq!(after("PostToolUse", "Bash", json!({ "stdout": "" })), (HookEvent::AfterTool, 0));
}

#[test]
fn a_shell_names_what_stands_there_and_its_patches_are_edits() {
    let shell = |tool: &str, input: Value| {
        read(json!({ "session_id": "s", "hook_event_name": "PreToolUse", "cwd": "/w", "tool_name": tool,
            "tool_input": input, "tool_use_id": "u-1" }))
    };
    let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    for input in [
        json!({ "command": "echo x > a.rs" }),
        json!({ "cmd": "echo x > a.rs" }),
        json!({ "command": ["bash", "-lc", "echo x > a.rs"] }),
        json!({ "command": ["tee", "a.rs"] }),
    ] {
        let payload = shell("Bash", input);
        assert!(payload.is_shell && payload.files.is_empty(), "{payload:?}");
        assert_eq!((payload.writes, payload.use_id.as_deref()), (paths(&["a.rs"]), Some("u-1")));
    }
    let below = shell("run_shell_command", json!({ "command": "rm a.rs", "dir_path": "sub" }));
    assert_eq!(below.writes, paths(&["sub/a.rs"]));
    let patch =
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: f.txt\n@@\n-three\n+3\n*** End Patch\nEOF";
    let patched = shell("Bash", json!({ "command": patch }));
    assert_eq!((patched.files, patched.writes), (paths(&["f.txt"]), vec![]));
    assert!(!shell("Read", json!({ "command": "echo x > a.rs" })).is_shell);
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
    for &dialect in Dialect::ALL {
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

#[test]
fn of_a_payload_that_was_cut_what_was_said_counts() {
    let begin = |tool: &str, input: &str| {
        format!(
            r#"{{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"{tool}","tool_input":{{{input}"#
        )
    };
    let cut = |text: &str| Payload::read(text.as_bytes()).unwrap();
    // A long text may be cut after a character, in an escape, in a surrogate pair, in a character of several bytes.
    let text = begin("Write", r#""file_path":"/w/a.rs","content":"\"\\\ud83d\ude00 漢字"#);
    for less in 0..text.len() - text.find("content").unwrap() - 10 {
        let payload = Payload::read(&text.as_bytes()[..text.len() - less]).unwrap();
        assert_eq!((payload.files, payload.is_partial), (vec![PathBuf::from("/w/a.rs")], false), "{less}");
    }
    assert!(cut(&begin("Write", r#""content":"long"#)).is_partial, "the file comes later");
    assert!(cut(&begin("apply_patch", r#""input":"*** Add File: a\n*** Add File: b\n+long"#)).is_partial);
    let later = r#"{"session_id":"s","hook_event_name":"PostToolUse","tool_response":"long"#;
    assert!(!cut(later).is_partial);
    assert!(
        !cut(&begin("Bash", r#""command":"echo long"#)).is_partial,
        "a command that was cut is noticed afterwards"
    );
    assert!(Payload::read(br#"{"tool_input":{"content":"long"#).is_err());
}

#[test]
fn nothing_in_an_answer_is_hidden() {
    let text = Some("a\u{1b}[2J\u{202e}b\n".to_owned());
    let answer = Answer { refusal: text.clone(), context: text.clone(), warning: text };
    for &dialect in Dialect::ALL {
        let written = answer.write(dialect, "PreToolUse").unwrap().to_string();
        assert!(!written.contains("\\u001b") && !written.contains('\u{202e}'), "{written}");
        assert_eq!(written.matches("a\\\\u{1b}[2J\\\\u{202e}b\\n").count(), 3, "{written}");
    }
}
