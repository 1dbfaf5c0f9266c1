//! Long lists: written as they are read, and the same as their pages.

use serde_json::{Value, json};

use crate::support::{Sandbox, human};

/// More than are in memory at a time, be it as rows or as what is shown of them; a third of them with the best priority.
fn with_many_tasks() -> Sandbox {
    let sandbox = Sandbox::new();
    let task = |n: usize| json!({ "title": format!("Task {n}"), "priority": if n.is_multiple_of(3) { "P0" } else { "P2" } });
    let plan = json!({ "tasks": (1..=900).map(task).collect::<Vec<_>>() });
    std::fs::write(sandbox.path().join("plan.json"), plan.to_string()).unwrap();
    sandbox.json(&human("ann"), &["add", "--file", "plan.json"]).ok();
    sandbox
}

fn numbers(answer: &Value) -> Vec<u64> {
    answer["tasks"].as_array().unwrap().iter().map(|task| task["number"].as_u64().unwrap()).collect()
}

#[test]
fn a_long_list_is_what_its_pages_are_together() {
    let sandbox = with_many_tasks();
    let ann = human("ann");
    let whole = sandbox.json(&ann, &["list", "--limit", "10000"]).ok().json();
    assert!(whole["cursor"].is_null(), "nothing is left");
    let (mut paged, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut args = vec!["list", "--limit", "100"];
        if let Some(cursor) = &cursor {
            args.extend(["--cursor", cursor]);
        }
        let page = sandbox.json(&ann, &args).ok().json();
        paged.extend(numbers(&page));
        cursor = page["cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let (best, rest): (Vec<u64>, Vec<u64>) = (1..=900).partition(|n: &u64| n.is_multiple_of(3));
    let expected = [best, rest].concat();
    assert_eq!(numbers(&whole), expected);
    assert_eq!(paged, expected);
    let ready = sandbox.json(&ann, &["ready", "--limit", "899"]).ok().json();
    assert_eq!(numbers(&ready), expected[..899]);
    assert!(ready["tasks"].as_array().unwrap().iter().all(|task| task["takeover"] == false));
    let found = sandbox.json(&ann, &["search", "task", "--limit", "10000"]).ok().json();
    assert_eq!(numbers(&found).len(), 900);
    for list in [&["list", "--limit", "10000"], &["ready", "--limit", "10000"]] {
        let lines = sandbox.run(&ann, list).ok().stdout.lines().count();
        assert_eq!(lines, 900, "{list:?}");
    }
    let last_page = sandbox.json(&ann, &["list", "--limit", "500"]).ok().json();
    assert_eq!(last_page["cursor"], format!("P2-{}", expected[499]), "{}", last_page["cursor"]);
}

#[test]
fn a_list_that_breaks_off_is_one_document_that_says_why() {
    let sandbox = with_many_tasks();
    let ann = human("ann");
    let connection = rusqlite::Connection::open(sandbox.database()).unwrap();
    connection.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    // Far behind what is written before it is read.
    let changed = connection.execute("UPDATE task SET tags = 'x' WHERE number = 899", []).unwrap();
    assert_eq!(changed, 1);
    for list in ["list", "ready"] {
        let broken = sandbox.json(&ann, &[list, "--limit", "10000"]);
        assert_eq!(broken.code, 8, "{list}: {}", broken.stderr);
        let document = broken.json();
        assert_eq!(document["error"]["code"], "damaged", "{list}");
        assert!(numbers(&document).len() > 200, "{list}: what was read before is there");
        // Where nothing was written yet, the error is the whole answer, as everywhere.
        let refused = sandbox.json(&ann, &["list", "--cursor", "P2-898"]);
        refused.refused(8);
        assert!(refused.json().get("tasks").is_none());
        let said = sandbox.run(&ann, &[list, "--limit", "10000"]);
        assert_eq!(said.code, 8, "{list}");
        assert!(said.stderr.starts_with("onus: "), "{}", said.stderr);
    }
}
