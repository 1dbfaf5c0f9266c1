//! A redacted text is gone from every file, and the record stays whole.

use std::path::PathBuf;

use serde_json::Value;

use crate::record::book::{checkpoint, open};
use crate::record::secrets::{Dice, traces, words};
use crate::support::{As, Ran, Sandbox, agent, fed, human};

/// Runs a command whose last argument `-` is this text on standard input.
pub(crate) fn with_input(sandbox: &Sandbox, who: &As, args: &[&str], input: &str) -> Ran {
    fed(sandbox.command(who).args(args).arg("--json"), input)
}

pub(crate) fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join(".onus")
}

/// Where a text lies that will have to go.
struct Hidden {
    task: String,
    version: u64,
    field: &'static str,
    text: String,
}

/// A store in which secrets of all sizes lie among other things, in every field, some superseded by edits, with other
/// tasks' texts before, between and after them.
struct Haystack {
    sandbox: Sandbox,
    dice: Dice,
    hidden: Vec<Hidden>,
    keys: u32,
}

impl Haystack {
    fn new(seed: u64) -> Haystack {
        Haystack { sandbox: Sandbox::new(), dice: Dice::new(seed), hidden: Vec::new(), keys: 0 }
    }

    fn hide(&mut self, task: &Value, field: &'static str, text: String) {
        let (id, version) = (task["id"].as_str().unwrap().to_owned(), task["version"].as_u64().unwrap());
        self.hidden.push(Hidden { task: id, version, field, text });
    }

    fn key(&mut self) -> String {
        self.keys += 1;
        format!("key-{}", self.keys)
    }

    /// A size from a few bytes to hundreds of kilobytes: within a page, across pages, in chains of overflow pages.
    fn size(&mut self, most: usize) -> usize {
        let sizes = [12, 30, 80, 300, 1_000, 3_900, 4_200, 10_240, 40_000, 200_000];
        let fitting = sizes.iter().filter(|size| **size <= most).count();
        sizes[self.dice.below(fitting)]
    }

    fn noise(&mut self, rounds: usize) {
        let founder = human("founder");
        for _ in 0..rounds {
            let (title, size) = (self.dice.plain(60), self.size(10_240));
            let body = self.dice.plain(size);
            let task = with_input(&self.sandbox, &founder, &["add", &title, "-d", "-"], &body).ok().json();
            let note = self.dice.plain(200);
            self.sandbox.json(&founder, &["note", task["id"].as_str().unwrap(), &note]).ok();
        }
    }

    /// One task that is secret in every field.
    fn bury(&mut self) {
        let (founder, worker) = (human("founder"), agent("a"));
        let (title_size, body_size) = (self.size(300), self.size(200_000));
        let (title, body) = (self.dice.secret(title_size), self.dice.secret(body_size));
        let key = self.key();
        let added = ["add", &title, "-d", "-", "--key", &key];
        let task = with_input(&self.sandbox, &founder, &added, &body).ok().json();
        let id = task["id"].as_str().unwrap().to_owned();
        self.hide(&task, "title", title);
        self.hide(&task, "body", body);
        self.noise(1);

        let size = self.size(40_000);
        let (note, key) = (self.dice.secret(size), self.key());
        let task = with_input(&self.sandbox, &founder, &["note", &id, "-", "--key", &key], &note).ok().json();
        self.hide(&task, "note", note);

        // Superseded, but still in the ledger.
        let (title, body_size) = (self.dice.secret(80), self.size(40_000));
        let body = self.dice.secret(body_size);
        let task = with_input(&self.sandbox, &founder, &["edit", &id, "--title", &title, "-d", "-"], &body);
        let task = task.ok().json();
        self.hide(&task, "title", title);
        self.hide(&task, "body", body);
        self.noise(1);

        let (reason, key) = (self.dice.secret(300), self.key());
        let claimed =
            self.sandbox.json(&worker, &["claim", &id, "--reason", &reason, "--key", &key]).ok().json();
        self.hide(&claimed["task"], "reason", reason);
        let (message, key) = (self.dice.secret(300), self.key());
        let done = self.sandbox.json(&worker, &["done", &id, "-m", &message, "--key", &key]).ok().json();
        self.hide(&done, "note", message);
    }

    /// Redacts one of them, the way its author would.
    fn redact(&mut self, at: usize) -> Hidden {
        let hidden = self.hidden.swap_remove(at);
        let version = hidden.version.to_string();
        let args = ["redact", &hidden.task, &version, "--field", hidden.field, "--reason", "asked to"];
        let redacted = self.sandbox.json(&human("founder"), &args).ok().json();
        assert_eq!(redacted["erased_everywhere"], true, "{redacted}");
        hidden
    }
}

#[test]
fn no_trace_of_a_redacted_text_is_left_in_any_file() {
    for seed in 1..=2 {
        let mut haystack = Haystack::new(seed);
        haystack.noise(8);
        for _ in 0..4 {
            haystack.bury();
        }
        haystack.noise(4);
        let mut gone = Vec::new();
        // In no order, with writes between them: pages are merged, split and moved about.
        for round in 0..haystack.hidden.len() {
            let at = haystack.dice.below(haystack.hidden.len());
            let hidden = haystack.redact(at);
            gone.push(hidden.text);
            haystack.noise(usize::from(round % 4 == 0));
            if round % 3 != 0 && !haystack.hidden.is_empty() {
                continue;
            }
            let left =
                traces(&folder(&haystack.sandbox), &gone, haystack.hidden.iter().map(|hidden| &hidden.text));
            assert!(
                left.is_empty(),
                "seed {seed}, round {round}: {} of {} {}: {} traces, such as {:?}",
                hidden.field,
                hidden.task,
                hidden.version,
                left.len(),
                &left[..left.len().min(5)]
            );
        }
        haystack.sandbox.is_whole();
    }
}

/// Several texts share a page of the file. When one goes its neighbours are moved together, and what they leave behind
/// must not outlive them.
#[test]
fn neighbours_on_a_page_leave_no_copy_behind() {
    let mut haystack = Haystack::new(11);
    let founder = human("founder");
    let id = haystack.sandbox.add("One task with many notes");
    for round in 0..60 {
        let size = [40, 150, 400, 900][haystack.dice.below(4)];
        let note = haystack.dice.secret(size);
        let task = haystack.sandbox.json(&founder, &["note", &id, &note]).ok().json();
        haystack.hide(&task, "note", note);
        haystack.noise(usize::from(round % 20 == 0));
    }
    let mut gone = Vec::new();
    for round in 0..haystack.hidden.len() {
        let at = haystack.dice.below(haystack.hidden.len());
        gone.push(haystack.redact(at).text);
        if round % 3 != 0 && !haystack.hidden.is_empty() {
            continue;
        }
        let kept = haystack.hidden.iter().map(|hidden| &hidden.text);
        let left = traces(&folder(&haystack.sandbox), &gone, kept);
        assert!(
            left.is_empty(),
            "round {round}: {} traces, such as {:?}",
            left.len(),
            &left[..left.len().min(5)]
        );
    }
    haystack.sandbox.is_whole();
}

/// What `undo` brings back is a copy: it goes with the first place of the words, and so does every other copy.
#[test]
fn copies_of_a_text_on_its_task_go_with_it() {
    let sandbox = Sandbox::new();
    let (founder, a, b) = (human("founder"), agent("a"), agent("b"));
    let secret = "hunter2-4711-swordfish";
    let run = |who: &As, args: &[&str]| sandbox.json(who, args).ok().json();
    // Written by one agent, brought back by another.
    run(&a, &["add", "Fix it", "-d", secret]);
    run(&b, &["edit", "1", "-d", "something else"]);
    run(&b, &["undo", "1"]);
    assert_eq!(sandbox.show("1")["body"], secret);
    run(&founder, &["note", "1", secret]);
    // Its author erases what came back, but not what another wrote.
    let said = run(&a, &["redact", "1", "1", "--field", "body", "--reason", "a password"]);
    assert!(said["notices"][0]["message"].as_str().unwrap().contains("event 3"), "{said}");
    assert_eq!(sandbox.show("1")["body"], "[redacted]");
    assert_eq!(sandbox.show("1")["notes"][0]["text"], secret, "a note of somebody else's");
    sandbox.json(&b, &["redact", "1", "4", "--reason", "r"]).refused(6);
    run(&founder, &["redact", "1", "4", "--reason", "a password"]);
    assert_eq!(traces(&folder(&sandbox), &[secret.to_owned()], std::iter::empty()), Vec::<String>::new());

    // The reason of a lease that was had again, too.
    run(&a, &["add", "Another"]);
    run(&a, &["claim", "2", "--reason", secret]);
    run(&a, &["release", "2"]);
    run(&a, &["undo", "2"]);
    assert_eq!(sandbox.show("2")["lease"]["reason"], secret);
    run(&a, &["redact", "2", "2", "--reason", "a password"]);
    assert_eq!(sandbox.show("2")["lease"]["reason"], Value::Null);
    assert_eq!(traces(&folder(&sandbox), &[secret.to_owned()], std::iter::empty()), Vec::<String>::new());
    sandbox.is_whole();
}

fn finds(sandbox: &Sandbox, word: &str) -> usize {
    let found = sandbox.json(&human("founder"), &["search", word]);
    match found.code {
        7 => 0,
        _ => found.ok().json()["tasks"].as_array().unwrap().len(),
    }
}

/// The search index agrees with the texts word by word, as SQLite itself sees it.
fn search_is_sound(sandbox: &Sandbox) {
    let db = open(&sandbox.database());
    db.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)", []).unwrap();
}

#[test]
fn verify_stays_green_and_names_what_was_erased_by_whom_and_why() {
    let sandbox = Sandbox::new();
    let (founder, alice) = (human("founder"), human("alice"));
    let mut dice = Dice::new(5);
    let (title, body, note) = (dice.secret(60), dice.secret(500), dice.secret(100));
    sandbox.json(&founder, &["add", &title, "-d", &body]).ok();
    sandbox.json(&founder, &["note", "ON-1", &note]).ok();
    sandbox.json(&alice, &["redact", "ON-1", "1", "--reason", "a pasted password"]).ok();
    sandbox.json(&alice, &["redact", "ON-1", "v2", "--reason", "another"]).ok();

    let verified = sandbox.json(&founder, &["ledger", "verify"]).ok().json();
    let erased: Vec<(&str, u64, &str, &str, &str)> = verified["erased"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let text = |name: &str| e[name].as_str().unwrap();
            (text("task"), e["version"].as_u64().unwrap(), text("field"), text("by"), text("reason"))
        })
        .collect();
    assert_eq!(
        erased,
        [
            ("ON-1", 1, "body", "human:alice", "a pasted password"),
            ("ON-1", 1, "title", "human:alice", "a pasted password"),
            ("ON-1", 2, "note", "human:alice", "another"),
        ]
    );
    let told = sandbox.run(&founder, &["ledger", "verify"]);
    assert!(
        told.ok().stdout.contains("erased from ON-1 by human:alice: the title of event 1: a pasted password")
    );

    let shown = sandbox.run(&founder, &["show", "ON-1"]);
    assert!(shown.ok().stdout.contains("[redacted]"), "{shown:?}");
    assert_eq!(sandbox.show("ON-1")["title"], "[redacted]");
    let log = sandbox.run(&founder, &["log", "ON-1"]);
    assert!(log.ok().stdout.contains("created it: [redacted] / [redacted]"), "{log:?}");
    let export = sandbox.run(&founder, &["ledger", "export"]);
    for output in [&shown.stdout, &log.stdout, &export.ok().stdout] {
        for word in [&title, &body, &note].into_iter().flat_map(|text| words(text)) {
            assert!(!output.contains(word), "{word}: {output}");
        }
    }
    sandbox.is_whole();
    // A second time there is nothing left to erase; and another's words are not an agent's to erase.
    assert_eq!(sandbox.json(&alice, &["redact", "ON-1", "1", "--reason", "again"]).code, 7);
    sandbox.json(&founder, &["note", "ON-1", "a person's words"]).ok();
    let version = sandbox.show("ON-1")["version"].to_string();
    assert_eq!(sandbox.json(&agent("a"), &["redact", "ON-1", &version, "--reason", "x"]).code, 6);
    assert_eq!(sandbox.json(&alice, &["redact", "ON-1", "99", "--reason", "x"]).code, 3);
}

#[test]
fn search_finds_the_erased_words_no_more_and_all_others_still() {
    let mut haystack = Haystack::new(21);
    haystack.noise(3);
    haystack.bury();
    let note = "an ordinary note";
    let id = haystack.hidden[0].task.clone();
    haystack.sandbox.json(&human("founder"), &["note", &id, note]).ok();
    // The note of version 2; title and body of version 3, which replaced those of version 1.
    let searchable = |hidden: &Hidden| [2, 3].contains(&hidden.version);
    let probe = |hidden: &Hidden| words(&hidden.text)[0].to_owned();
    let probes: Vec<String> = haystack.hidden.iter().filter(|hidden| searchable(hidden)).map(probe).collect();
    assert_eq!(probes.len(), 3);
    for word in &probes {
        assert_eq!(finds(&haystack.sandbox, word), 1, "{word}");
    }
    while !haystack.hidden.is_empty() {
        haystack.redact(0);
    }
    for word in &probes {
        assert_eq!(finds(&haystack.sandbox, word), 0, "{word}");
        // Nor by its beginning.
        assert_eq!(finds(&haystack.sandbox, &word[..4]), 0, "{word}");
    }
    assert_eq!(finds(&haystack.sandbox, "ordinary"), 1);
    search_is_sound(&haystack.sandbox);
    haystack.sandbox.is_whole();
}

/// A title that an edit has replaced is not in the index any more: taking it out twice would damage the index.
#[test]
fn redacting_a_title_that_was_replaced_damages_nothing() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    let old = Dice::new(9).secret(60);
    sandbox.json(&founder, &["add", &old, "-d", "kept body"]).ok();
    sandbox.json(&founder, &["edit", "ON-1", "--title", "kept title"]).ok();
    sandbox.json(&founder, &["redact", "ON-1", "1", "--field", "title", "--reason", "asked"]).ok();
    assert!(traces(&folder(&sandbox), [&old], []).is_empty());
    let task = sandbox.show("ON-1");
    assert_eq!((&task["title"], &task["body"]), (&"kept title".into(), &"kept body".into()));
    assert_eq!(finds(&sandbox, "title"), 1);
    assert_eq!(finds(&sandbox, "body"), 1);
    search_is_sound(&sandbox);
    sandbox.is_whole();
    // And the other way round: a title that was redacted is replaced.
    let id = sandbox.add("about to go");
    sandbox.json(&founder, &["redact", &id, "1", "--reason", "asked"]).ok();
    sandbox.json(&founder, &["edit", &id, "--title", "a new beginning"]).ok();
    assert_eq!(finds(&sandbox, "beginning"), 1);
    search_is_sound(&sandbox);
    sandbox.is_whole();
}

/// A kept request is a digest of what was asked: short words could be guessed from it.
#[test]
fn nothing_to_guess_from_is_kept_with_the_idempotency_key() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    sandbox.json(&founder, &["add", "pin 4711", "--key", "k1"]).ok();
    sandbox.json(&founder, &["note", "ON-1", "pin 4712", "--key", "k2"]).ok();
    sandbox.json(&founder, &["add", "another task", "--key", "k3"]).ok();
    let digests = || -> Vec<Option<String>> {
        let db = open(&sandbox.database());
        let mut statement = db.prepare("SELECT digest FROM request ORDER BY key").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let before = digests();
    assert!(before.iter().all(Option::is_some));
    sandbox.json(&founder, &["redact", "ON-1", "1", "--reason", "asked"]).ok();
    assert_eq!(
        digests(),
        [None, before[1].clone(), before[2].clone()],
        "of the request that wrote it, and no other"
    );
    checkpoint(&sandbox.database());
    let bytes = std::fs::read(sandbox.database()).unwrap();
    let digest = before[0].clone().unwrap();
    assert!(!bytes.windows(64).any(|window| window == digest.as_bytes()));
    // The key still does its work: no second task, and nothing else is taken for the request it stood for.
    for title in ["pin 4711", "something else"] {
        let again = sandbox.json(&founder, &["add", title, "--key", "k1"]).refused(2);
        assert_eq!(again["code"], "key_reused", "{again}");
    }
    let again = sandbox.json(&founder, &["note", "ON-1", "pin 4712", "--key", "k2"]).ok().json();
    assert_eq!(again["replayed"], true);
    sandbox.is_whole();
}

/// The same ask again, under another key: it wrote no event, but what is kept of it was made from the same words.
#[test]
fn nothing_to_guess_from_is_kept_of_an_ask_that_came_twice() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    let ask = |key: &str| {
        sandbox.json(&founder, &["add", "pin 4711", "--origin", "mail:1", "--key", key]).ok().json()
    };
    assert!(ask("k1").get("existing").is_none());
    assert_eq!(ask("k2")["existing"], true);
    sandbox.json(&founder, &["redact", "ON-1", "1", "--reason", "asked"]).ok();
    let left: i64 = open(&sandbox.database())
        .query_row("SELECT COUNT(*) FROM request WHERE digest IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

/// While somebody reads an old snapshot its pages cannot be overwritten. That is said, not hidden, and made up for.
#[test]
fn a_reader_in_the_way_is_named_and_doctor_finishes_the_erasure() {
    let sandbox = Sandbox::new();
    let founder = human("founder");
    let secret = Dice::new(13).secret(2_000);
    sandbox.json(&founder, &["add", "a task", "-d", &secret]).ok();
    let reader = open(&sandbox.database());
    reader.execute_batch("BEGIN").unwrap();
    let count = |db: &rusqlite::Connection| -> i64 {
        db.query_row("SELECT COUNT(*) FROM text", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(&reader), 2);

    let args = ["redact", "ON-1", "1", "--field", "body", "--reason", "asked"];
    let redacted = sandbox.json(&founder, &args);
    assert_eq!(redacted.ok().json()["erased_everywhere"], false);
    assert!(redacted.stderr.contains("onus doctor --fix"), "{redacted:?}");
    // It speaks the truth: the words are there, for one who reads the files.
    assert!(!traces(&folder(&sandbox), [&secret], []).is_empty());
    let doctor = sandbox.json(&founder, &["doctor"]);
    assert_eq!(doctor.code, 8, "{doctor:?}");
    let check = finding(&doctor.json(), "erased texts");
    assert_eq!((&check["ok"], &check["mendable"]), (&false.into(), &true.into()), "{check}");
    // Nobody who asks onus gets them, and the ledger is whole.
    assert!(sandbox.show("ON-1")["body"].as_str() == Some("[redacted]"));
    sandbox.json(&founder, &["ledger", "verify"]).ok();

    drop(reader);
    let fixed = sandbox.json(&founder, &["doctor", "--fix"]);
    assert!(finding(&fixed.ok().json(), "erased texts")["ok"].as_bool().unwrap(), "{fixed:?}");
    let left = traces(&folder(&sandbox), [&secret], []);
    assert!(left.is_empty(), "{left:?}");
    sandbox.json(&founder, &["doctor"]).ok();
    sandbox.is_whole();
}

pub(crate) fn finding(doctor: &Value, name: &str) -> Value {
    let checks = doctor["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{name}: {doctor}")).clone()
}
