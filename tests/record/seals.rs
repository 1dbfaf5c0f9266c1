//! What no chain can see by itself (a tail cut off, a chain hashed anew) is found against a seal kept elsewhere.

use std::path::{Path, PathBuf};
use std::process::Command;

use onus_core::seal::{StreamHead, merkle_root};
use rusqlite::params;
use serde_json::{Value, json};

use crate::record::book::{Book, hash_anew, open, records};
use crate::support::{Ran, human};

/// A key of its own, as `ssh-keygen` makes it.
pub(crate) fn new_key(folder: &Path, name: &str) -> PathBuf {
    let key = folder.join(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
        .arg(&key)
        .status()
        .expect("ssh-keygen is needed for this test");
    assert!(made.success());
    key
}

/// A list of signers with one name in it.
fn allowing(folder: &Path, who: &str, key: &Path) -> PathBuf {
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let list = folder.join(format!("signers-{who}"));
    std::fs::write(&list, format!("{who} {public}")).unwrap();
    list
}

struct Sealed {
    book: Book,
    seal: PathBuf,
    key: PathBuf,
}

/// A story, sealed and signed, the seal kept outside the store.
fn sealed() -> Sealed {
    let book = Book::new();
    let key = new_key(book.sandbox.path(), "key");
    let seal = book.sandbox.path().join("kept.jsonl");
    let (seal_text, key_text) = (seal.to_str().unwrap(), key.to_str().unwrap());
    let told = book
        .sandbox
        .json(&human("founder"), &["ledger", "seal", "--out", seal_text, "--sign", key_text])
        .ok()
        .json();
    assert_eq!(told["file"], seal_text);
    assert_eq!(told["signature"], format!("{seal_text}.sig"));
    Sealed { book, seal, key }
}

impl Sealed {
    fn verify(&self, store: &Path, seal: &Path, signers: Option<&Path>) -> Ran {
        let mut command = self.book.sandbox.command(&human("founder"));
        command.env("ONUS_STORE", store).args(["ledger", "verify", "--json", "--seal"]).arg(seal);
        if let Some(signers) = signers {
            command.env("ONUS_SEAL_SIGNERS", signers);
        }
        Ran::of(command.output().unwrap())
    }

    #[track_caller]
    fn names(&self, ran: &Ran, version: u64) {
        let error = ran.refused(8);
        assert_eq!(error["code"], "tampered", "{error}");
        assert_eq!(error["task"], "ON-1", "{error}");
        assert_eq!(error["version"], version, "{error}");
    }

    /// The seal with something changed in it, and its signature as it was.
    fn altered(&self, alter: impl FnOnce(&mut Vec<Value>)) -> PathBuf {
        let text = std::fs::read_to_string(&self.seal).unwrap();
        let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        alter(&mut lines);
        let file = self.book.sandbox.path().join("altered.jsonl");
        let lines: Vec<String> = lines.iter().map(|line| line.to_string() + "\n").collect();
        std::fs::write(&file, lines.concat()).unwrap();
        std::fs::copy(self.seal.with_extension("jsonl.sig"), file.with_extension("jsonl.sig")).unwrap();
        file
    }
}

#[test]
fn a_seal_agrees_with_the_store_it_was_made_of_and_with_all_that_came_later() {
    let s = sealed();
    let signers = allowing(s.book.sandbox.path(), "alice", &s.key);
    s.book.sandbox.json(&human("founder"), &["note", "ON-1", "later"]).ok();
    let verified = s.verify(&s.book.sandbox.database(), &s.seal, Some(&signers)).ok().json();
    let seals = verified["seals"].as_array().unwrap();
    assert_eq!(seals.len(), 1);
    assert!(seals[0].as_str().unwrap().ends_with("signed by alice"), "{verified}");
    // Without a list of signers the key is named, and that nobody vouches for it.
    let verified = s.verify(&s.book.sandbox.database(), &s.seal, None).ok().json();
    let named = verified["seals"][0].as_str().unwrap();
    assert!(named.contains("SHA256:") && named.contains("not compared"), "{named}");
}

/// Everything inside the file is made to agree: one event rewritten, every later hash and the row made anew.
#[test]
fn a_chain_hashed_anew_is_green_by_itself_and_found_against_a_signed_seal() {
    let s = sealed();
    let uid = s.book.uid("ON-1");
    let copy = s.book.damaged(|db| {
        db.execute("UPDATE event SET actor = 'human:eve' WHERE stream = ?1 AND version = 2", [&uid]).unwrap();
        hash_anew(db, &uid);
    });
    s.book.is_green(&copy);
    let last = s.book.sandbox.show("ON-1")["version"].as_u64().unwrap();
    s.names(&s.verify(&copy, &s.seal, None), last);
    let signers = allowing(s.book.sandbox.path(), "alice", &s.key);
    s.names(&s.verify(&copy, &s.seal, Some(&signers)), last);
}

#[test]
fn a_tail_cut_off_with_its_row_is_green_by_itself_and_found_against_a_seal() {
    let s = sealed();
    let last = s.book.sandbox.show("ON-1")["version"].as_u64().unwrap();
    let copy = s.book.damaged(|db| cut_tail(db, &s.book.uid("ON-1")));
    s.book.is_green(&copy);
    s.names(&s.verify(&copy, &s.seal, None), last);
}

/// Removes a task's last event and whatever else in the file remembers it.
pub(crate) fn cut_tail(db: &rusqlite::Connection, uid: &str) {
    let last = records(db, uid).len() as i64;
    for table in ["event", "text"] {
        db.execute(&format!("DELETE FROM {table} WHERE stream = ?1 AND version = ?2"), params![uid, last])
            .unwrap();
    }
    let head = records(db, uid).pop().unwrap();
    let moved = db
        .execute(
            "UPDATE task SET version = ?2, head = ?3 WHERE uid = ?1",
            params![uid, head.version as i64, head.hash],
        )
        .unwrap();
    assert_eq!(moved, 1);
}

#[test]
fn a_seal_that_was_changed_is_not_believed() {
    let s = sealed();
    let database = s.book.sandbox.database();
    // A head alone: its root no longer fits.
    let file = s.altered(|lines| lines[1]["version"] = json!(1));
    let error = s.verify(&database, &file, None).refused(8);
    assert_eq!(error["code"], "tampered");
    assert!(error["message"].as_str().unwrap().contains("the seal itself was changed"), "{error}");
    // A head left out, and the root made to fit: the signature does not.
    let file = s.altered(|lines| {
        lines.pop();
        let heads: Vec<StreamHead> =
            lines[1..].iter().map(|line| serde_json::from_value(line.clone()).unwrap()).collect();
        lines[0]["root"] = json!(merkle_root(&heads));
        lines[0]["streams"] = json!(heads.len());
    });
    let error = s.verify(&database, &file, None).refused(8);
    assert_eq!(error["code"], "tampered");
    assert!(error["message"].as_str().unwrap().contains("signature"), "{error}");
    // The same without a signature passes for what it is, an unsigned seal; but not where signers are asked for.
    std::fs::remove_file(file.with_extension("jsonl.sig")).unwrap();
    s.verify(&database, &file, None).ok();
    let signers = allowing(s.book.sandbox.path(), "alice", &s.key);
    let error = s.verify(&database, &file, Some(&signers)).refused(8);
    assert!(error["message"].as_str().unwrap().contains("not signed"), "{error}");
}

#[test]
fn a_seal_signed_by_a_stranger_is_refused_where_signers_are_asked_for() {
    let s = sealed();
    let stranger = new_key(s.book.sandbox.path(), "stranger");
    let signers = allowing(s.book.sandbox.path(), "bob", &stranger);
    let error = s.verify(&s.book.sandbox.database(), &s.seal, Some(&signers)).refused(8);
    assert_eq!(error["code"], "tampered", "{error}");
    assert!(error["message"].as_str().unwrap().contains("signature"), "{error}");
    // The key is in a file of its own: also through the user's configuration.
    let config = s.book.sandbox.path().join("home/.config/onus");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(
        config.join("config.toml"),
        format!("[seal]\nsigners = {:?}\n", signers.to_str().unwrap()),
    )
    .unwrap();
    assert_eq!(s.verify(&s.book.sandbox.database(), &s.seal, None).code, 8);
}

/// A signature that this key made over something else, for another purpose, is none.
#[test]
fn a_signature_made_for_another_purpose_is_refused() {
    let s = sealed();
    let signature = s.seal.with_extension("jsonl.sig");
    std::fs::remove_file(&signature).unwrap();
    let made = Command::new("ssh-keygen")
        .args(["-q", "-Y", "sign", "-n", "file", "-f"])
        .arg(&s.key)
        .arg(&s.seal)
        .output();
    assert!(made.unwrap().status.success() && signature.exists());
    assert_eq!(s.verify(&s.book.sandbox.database(), &s.seal, None).refused(8)["code"], "tampered");
}

#[test]
fn a_seal_of_another_project_is_a_mistake_not_damage() {
    let s = sealed();
    let other = Book::new();
    let error =
        other.on(&other.sandbox.database(), &["ledger", "verify", "--seal", s.seal.to_str().unwrap()]);
    assert_eq!(error.refused(2)["code"], "usage");
    for garbage in ["", "{}\n", "not json\n", "{\"schema_version\":1}\n"] {
        let file = s.book.sandbox.path().join("garbage.jsonl");
        std::fs::write(&file, garbage).unwrap();
        assert_eq!(s.verify(&s.book.sandbox.database(), &file, None).code, 2, "{garbage:?}");
    }
}

#[test]
fn each_seal_names_the_one_before() {
    let book = Book::new();
    let founder = human("founder");
    let first = book.sandbox.json(&founder, &["ledger", "seal"]).ok().json();
    assert!(first["previous"].is_null(), "{first}");
    book.sandbox.json(&founder, &["note", "ON-1", "later"]).ok();
    let second = book.sandbox.json(&founder, &["ledger", "seal"]).ok().json();
    assert_eq!(second["previous"], first["root"]);
    assert_ne!(second["root"], first["root"]);
    let third = book.sandbox.json(&founder, &["ledger", "seal"]).ok().json();
    assert_eq!(third["previous"], second["root"]);
    // The ledger remembers them, and both files still agree with it.
    let sealed: Vec<Value> =
        book.sandbox.events().into_iter().filter(|event| event["kind"] == "ledger.sealed").collect();
    assert_eq!(sealed.len(), 3);
    assert_eq!(sealed[1]["payload"]["previous"], first["root"]);
    let verify = [
        "ledger",
        "verify",
        "--seal",
        first["file"].as_str().unwrap(),
        "--seal",
        second["file"].as_str().unwrap(),
    ];
    let verified = book.sandbox.json(&founder, &verify).ok().json();
    assert_eq!(verified["seals"].as_array().unwrap().len(), 2);
    assert_eq!(first["streams"], 3);
}

#[test]
fn a_seal_never_overwrites_a_file_and_a_damaged_ledger_is_not_sealed() {
    let book = Book::new();
    let file = book.sandbox.path().join("mine");
    std::fs::write(&file, "precious").unwrap();
    let ran = book.sandbox.json(&human("founder"), &["ledger", "seal", "--out", file.to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    open(&book.sandbox.database()).execute("UPDATE event SET actor = 'human:eve' WHERE seq = 3", []).unwrap();
    let out = book.sandbox.path().join("new");
    let ran = book.sandbox.json(&human("founder"), &["ledger", "seal", "--out", out.to_str().unwrap()]);
    assert_eq!(ran.refused(8)["code"], "tampered");
    assert!(!out.exists());
}

#[test]
fn a_seals_file_may_have_any_name() {
    let book = Book::new();
    let key = new_key(book.sandbox.path(), "key");
    let key = key.to_str().unwrap();
    // To `ssh-keygen` it would be an option, and on a terminal it would be what it says.
    for name in ["-foo", "-Yverify", "\u{1b}[2Jx"] {
        let args = ["ledger", "seal", &format!("--out={name}"), "--sign", key];
        let told = book.sandbox.json(&human("founder"), &args).ok().json();
        assert_eq!(told["signature"], format!("{name}.sig"));
        assert!(book.sandbox.path().join(format!("{name}.sig")).is_file(), "{told}");
        let verified = book.sandbox.run(&human("founder"), &["ledger", "verify", &format!("--seal={name}")]);
        assert!(verified.ok().stdout.contains("agrees with the seal of"), "{verified:?}");
        assert!(!verified.stdout.contains('\u{1b}'), "{verified:?}");
    }
}
