//! How tasks are named: whatever is typed is the same task before anything is compared or stored.

use crate::contract::kit::{claim, dump};
use crate::support::{Sandbox, agent, human};

/// A task no end of whose uid can be taken for a number.
fn task(sandbox: &Sandbox) -> (String, String) {
    loop {
        let id = sandbox.add("Fix it");
        let uid = sandbox.show(&id)["uid"].as_str().unwrap().to_owned();
        if uid[33..].contains(|c: char| c.is_ascii_alphabetic()) {
            return (id, uid);
        }
    }
}

#[test]
fn a_task_answers_to_its_number_id_uid_and_parts_of_it() {
    let sandbox = Sandbox::new();
    let (id, uid) = task(&sandbox);
    let number = id.strip_prefix("ON-").unwrap();
    let bare = uid.replace('-', "");
    let names = [
        number.to_owned(),
        format!("000{number}"),
        id.clone(),
        id.to_lowercase(),
        format!("On-{number}"),
        uid.clone(),
        uid.to_uppercase(),
        bare.clone(),
        bare.to_uppercase(),
        uid[32..].to_owned(),
        uid[32..].to_uppercase(),
        uid[20..].to_owned(),
        bare[14..].to_owned(),
        uid[..30].to_owned(),
    ];
    for name in &names {
        assert_eq!(sandbox.show(name)["id"], id.as_str(), "{name}");
    }
    // However it is spelled, it is one task with one holder.
    claim(&sandbox, &agent("a"), &id);
    for name in &names {
        assert_eq!(sandbox.json(&agent("b"), &["claim", name]).refused(4)["task"], id.as_str(), "{name}");
        assert_eq!(sandbox.json(&agent("a"), &["claim", name]).ok().json()["renewed"], true, "{name}");
    }
    for (name, code) in [
        (&uid[33..], 2),
        ("999", 3),
        ("ON-999", 3),
        (&format!("XY-{number}")[..], 3),
        ("ffffffff", 3),
        ("00000000-0000-7000-8000-000000000000", 3),
        ("ON-", 2),
        ("nonsense", 2),
        ("ON 1", 2),
    ] {
        assert_eq!(sandbox.json(&agent("a"), &["show", name]).code, code, "{name}");
    }
}

#[test]
fn a_part_that_several_share_is_refused_with_the_candidates() {
    let sandbox = Sandbox::new();
    let ids: Vec<String> = (0..3).map(|_| sandbox.add("Fix it")).collect();
    let uid = sandbox.show(&ids[0])["uid"].as_str().unwrap().to_owned();
    let before = dump(&sandbox);
    let start = format!("{}-", &uid[..6]);
    for args in [vec!["show", &start], vec!["claim", &start], vec!["note", &start, "x"], vec!["drop", &start]]
    {
        let error = sandbox.json(&agent("a"), &args).refused(2);
        assert_eq!(error["code"], "ambiguous");
        let candidates: Vec<&str> =
            error["candidates"].as_array().unwrap().iter().filter_map(|c| c.as_str()).collect();
        assert_eq!(candidates.len(), 3);
        assert!(ids.iter().zip(&candidates).all(|(id, text)| text.starts_with(id.as_str())), "{error}");
        let words = sandbox.run(&agent("a"), &args);
        assert_eq!(words.stderr.matches("candidate: ").count(), 3, "{words:?}");
    }
    assert_eq!(dump(&sandbox), before);
}

#[test]
fn the_one_task_that_is_held_need_not_be_named() {
    let sandbox = Sandbox::new();
    let a = agent("a");
    let verbs: [&[&str]; 13] = [
        &["show"],
        &["edit", "--title", "x"],
        &["note", "a word"],
        &["renew"],
        &["claim"],
        &["release"],
        &["handoff", "--to", "agent:a", "--reason", "r"],
        &["assign", "--to", "agent:a", "--reason", "r"],
        &["block"],
        &["submit"],
        &["done", "-m", "x"],
        &["fail"],
        &["drop"],
    ];
    for verb in verbs {
        let held = sandbox.add("Held");
        sandbox.add("Not held");
        assert_eq!(sandbox.json(&a, verb).code, 2, "{verb:?} without a task");
        claim(&sandbox, &a, &held);
        let answer = sandbox.json(&a, verb).ok().json();
        let task = if answer["task"].is_object() { &answer["task"] } else { &answer };
        assert_eq!(task["id"], held.as_str(), "{verb:?}");
        let again = claim(&sandbox, &human("founder"), &sandbox.add("Another's"));
        assert_eq!(again, 1);
        if !sandbox.show(&held)["lease"].is_null() {
            sandbox.run(&a, &["release", &held]).ok();
        }
    }
    // Of two, one must be named.
    let (first, second) = (sandbox.add("First"), sandbox.add("Second"));
    claim(&sandbox, &a, &first);
    claim(&sandbox, &a, &second);
    let error = sandbox.json(&a, &["release"]).refused(2);
    assert_eq!(
        (&error["code"], &error["candidates"]),
        (&"ambiguous".into(), &serde_json::json!([first, second]))
    );
    // ONUS_TASK names it.
    let named =
        crate::contract::kit::json_with(&sandbox, &a, &[("ONUS_TASK", &second)], &["release"]).ok().json();
    assert_eq!(named["id"], second.as_str());
}
