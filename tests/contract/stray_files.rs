//! Files that lie where a store's would and are not its own: a log that outlived its database, one beside a restored
//! backup, a second name of the database. Nothing is adopted and nothing is lost.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::support::{Ran, Sandbox, agent, human};

fn log_of(sandbox: &Sandbox) -> PathBuf {
    sandbox.path().join(".onus/onus.db-wal")
}

fn titles(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.json(&agent("a"), &["list"]).ok().json();
    list["tasks"].as_array().unwrap().iter().map(|task| task["title"].as_str().unwrap().to_owned()).collect()
}

/// Refused, naming the log, with nothing made and the log as it was.
#[track_caller]
fn names_the_log(sandbox: &Sandbox, args: &[&str]) {
    let before = fs::read(log_of(sandbox)).unwrap();
    let error = sandbox.json(&human("founder"), args).refused(8);
    assert_eq!(error["code"], "unavailable", "{args:?}: {error}");
    assert!(error["message"].as_str().unwrap().contains("onus.db-wal is the log of"), "{args:?}: {error}");
    assert_eq!(error["next"].as_array().unwrap().len(), 2, "{error}");
    assert!(fs::read(log_of(sandbox)).unwrap() == before, "{args:?} changed the log");
}

#[test]
fn a_new_store_is_not_put_beside_the_log_of_a_removed_one() {
    let sandbox = Sandbox::new();
    sandbox.add("Old");
    fs::remove_file(sandbox.database()).unwrap();

    let other = Sandbox::new();
    other.add("Elsewhere");
    let from = other.database().display().to_string();
    for args in [&["init"][..], &["store", "copy", &from, ".onus/onus.db"]] {
        names_the_log(&sandbox, args);
        assert!(!sandbox.database().exists(), "{args:?}");
    }
    let left: Vec<_> = fs::read_dir(sandbox.path().join(".onus")).unwrap().collect();
    assert!(left.iter().all(|entry| !entry.as_ref().unwrap().path().ends_with("onus.db.new")), "{left:?}");

    // Out of the way, nothing of it comes back.
    fs::rename(log_of(&sandbox), sandbox.path().join("kept-wal")).unwrap();
    sandbox.run(&human("founder"), &["init", "--prefix", "NEW"]).ok();
    assert_eq!(titles(&sandbox), [] as [&str; 0]);
    sandbox.add("New");
    sandbox.is_whole();
}

#[test]
fn who_still_has_a_removed_store_open_does_not_write_into_the_new_one() {
    let sandbox = Sandbox::new();
    sandbox.add("Old");
    let old = Connection::open(sandbox.database()).unwrap();
    // It has the log open, which is empty now: there is nothing in it to lose.
    sandbox.run(&human("founder"), &["doctor", "--fix"]).ok();
    old.query_row("SELECT COUNT(*) FROM task", [], |_| Ok(())).unwrap();
    fs::remove_file(sandbox.database()).unwrap();

    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    sandbox.add("New");
    old.execute("UPDATE event SET actor = 'human:old'", []).unwrap();
    sandbox.add("Newer");

    assert_eq!(titles(&sandbox), ["New", "Newer"]);
    sandbox.is_whole();
    sandbox.run(&human("founder"), &["doctor"]).ok();
}

#[test]
fn a_backup_beside_the_log_of_what_it_replaced_is_noticed() {
    let sandbox = Sandbox::new();
    sandbox.add("Saved");
    let copy = sandbox.path().join("copy.db");
    sandbox.run(&human("founder"), &["backup", "copy.db"]).ok();
    sandbox.add("Lost");
    fs::copy(&copy, sandbox.database()).unwrap();
    let restored = fs::read(sandbox.database()).unwrap();
    for args in [&["list"][..], &["add", "More"], &["ledger", "verify"], &["doctor", "--fix"]] {
        if args[0] == "doctor" {
            assert_eq!(sandbox.json(&human("founder"), args).code, 8);
        } else {
            names_the_log(&sandbox, args);
        }
        assert!(fs::read(sandbox.database()).unwrap() == restored, "{args:?} changed the backup");
    }

    fs::rename(log_of(&sandbox), sandbox.path().join("kept-wal")).unwrap();
    assert_eq!(titles(&sandbox), ["Saved"]);
    sandbox.add("More");
    assert_eq!(titles(&sandbox), ["Saved", "More"]);
    assert!(fs::metadata(log_of(&sandbox)).unwrap().len() > 0, "written through a log of its own");
    sandbox.is_whole();
}

/// A copy that failed, or a slip of the shell: all that is left is in the log, which SQLite would remove.
#[test]
fn the_log_of_an_emptied_database_is_kept() {
    let sandbox = Sandbox::new();
    sandbox.add("Precious");
    let (database, log) = (fs::read(sandbox.database()).unwrap(), fs::read(log_of(&sandbox)).unwrap());
    assert!(!log.is_empty());
    fs::write(sandbox.database(), "").unwrap();
    for args in [&["list"] as &[&str], &["add", "More"], &["doctor"], &["init"], &["ledger", "verify"]] {
        sandbox.json(&human("founder"), args).refused(8);
        assert!(fs::read(log_of(&sandbox)).unwrap() == log, "{args:?}");
    }
    fs::write(sandbox.database(), database).unwrap();
    assert_eq!(titles(&sandbox), ["Precious"]);
    sandbox.is_whole();
}

#[test]
fn a_database_with_two_names_is_refused_by_both() {
    let sandbox = Sandbox::new();
    sandbox.add("First");
    let other = sandbox.path().join("other.db");
    fs::hard_link(sandbox.database(), &other).unwrap();
    for store in [sandbox.database(), other.clone()] {
        for args in [["list", "--json"].as_slice(), &["add", "More", "--json"]] {
            let ran =
                Ran::of(sandbox.command(&agent("a")).args(args).env("ONUS_STORE", &store).output().unwrap());
            let error = ran.refused(8);
            assert_eq!(error["code"], "unavailable", "{error}");
            assert!(error["message"].as_str().unwrap().contains("2 names"), "{error}");
        }
    }
    assert!(!sandbox.path().join("other.db-wal").exists());
    fs::remove_file(other).unwrap();
    assert_eq!(titles(&sandbox), ["First"]);
    sandbox.is_whole();
}

#[test]
fn a_symbolic_link_is_the_store_that_it_leads_to() {
    let sandbox = Sandbox::empty();
    let link = sandbox.path().join("link.db");
    std::os::unix::fs::symlink(".onus/onus.db", &link).unwrap();
    let by_link = |args: &[&str]| {
        Ran::of(sandbox.command(&human("founder")).args(args).env("ONUS_STORE", &link).output().unwrap())
    };
    by_link(&["init", "--prefix", "ON"]).ok();
    by_link(&["add", "By the link"]).ok();
    sandbox.add("By the name");
    assert_eq!(titles(&sandbox), ["By the link", "By the name"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "it stays a link");
    // Both stand in one queue.
    let mut here: Vec<_> =
        fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    here.sort();
    assert_eq!(here, [".onus", "link.db"]);
    sandbox.is_whole();
}

/// What may lie at the place of one of a store's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Empty,
    /// What store A has there.
    Own,
    /// What store B has there; of the database, a backup of A that lacks what its log has.
    Other,
}

/// Every mixture of database, log and index, and every command that might take them for a store: the answer is exit 8, or
/// what it works on is one store, whole; and no commit that lies in a log is gone afterwards.
#[test]
fn no_mixture_of_files_is_taken_for_a_store() {
    use Found::{Empty, Nothing, Other, Own};
    let stores = [Sandbox::new(), Sandbox::new()];
    for (store, name) in stores.iter().zip(["A", "B"]) {
        store.add(&format!("{name} one"));
        store.run(&human("founder"), &["doctor", "--fix"]).ok();
        store.run(&human("founder"), &["backup", "copy.db"]).ok();
        store.add(&format!("{name} two"));
    }
    let elsewhere = stores[1].database().display().to_string();
    let (mut refused, mut worked) = (0, 0);
    for database in [Nothing, Own, Other] {
        for log in [Nothing, Empty, Own, Other] {
            // Raw copies of two stores: SQLite cannot tell, and the guide says not to make them.
            if (database, log) == (Own, Other) {
                continue;
            }
            for index in [Nothing, Own, Other] {
                for args in [
                    &["init"][..],
                    &["add", "A more"],
                    &["list"],
                    &["store", "copy", &elsewhere, ".onus/onus.db"],
                ] {
                    let what = format!("{database:?}, {log:?}, {index:?}: {args:?}");
                    let sandbox = Sandbox::empty();
                    let place = sandbox.path().join(".onus");
                    fs::create_dir(&place).unwrap();
                    let put = |name: &str, found: Found| {
                        let of = |store: &Sandbox| fs::read(store.path().join(".onus").join(name)).unwrap();
                        let content = match found {
                            Nothing => return,
                            Empty => Vec::new(),
                            Own => of(&stores[0]),
                            Other if name == "onus.db" => fs::read(stores[0].path().join("copy.db")).unwrap(),
                            Other => of(&stores[1]),
                        };
                        fs::write(place.join(name), content).unwrap();
                        fs::set_permissions(place.join(name), fs::Permissions::from_mode(0o600)).unwrap();
                    };
                    put("onus.db", database);
                    put("onus.db-wal", log);
                    put("onus.db-shm", index);
                    let content = |path: &Path| fs::read(path).unwrap_or_default();
                    let log_before = content(&log_of(&sandbox));
                    let ran = sandbox.json(&human("founder"), args);
                    if database != Own && !log_before.is_empty() {
                        assert!(content(&log_of(&sandbox)) == log_before, "{what}: the log was touched");
                    }
                    if ran.code != 0 {
                        assert!(matches!(ran.code, 2 | 8), "{what}: {ran:?}");
                        assert!(ran.code == 8 || database != Nothing, "{what}: {ran:?}");
                        refused += 1;
                        continue;
                    }
                    worked += 1;
                    let titles = titles(&sandbox);
                    let of = |name: char| titles.iter().all(|title| title.starts_with(name));
                    assert!(of('A') || of('B'), "{what}: {titles:?}");
                    let has_log = (database, log) == (Own, Own);
                    assert_eq!(titles.contains(&"A two".to_owned()), has_log, "{what}: {titles:?}");
                    sandbox.is_whole();
                    sandbox.run(&human("founder"), &["doctor"]).ok();
                }
            }
        }
    }
    assert!(refused > 20 && worked > 20, "{refused} refused, {worked} worked");
}
