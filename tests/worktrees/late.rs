//! P10: what somebody saves in a worktree while it is being removed is still there afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::kit::Yard;
use crate::support::{agent, human};

/// Many files, so that deleting them takes a while, in folders that are complete until it is their turn.
fn crowded(yard: &Yard) {
    for n in 0..400 {
        let folder = yard.repo().join(format!("d{}", n % 20));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("f{n}")), "x").unwrap();
    }
    yard.git(&["add", "."]);
    yard.git(&["commit", "--quiet", "-m", "many"]);
}

/// Saves files by their names, as an editor does, until it is told to stop; those that were saved.
fn saved_until(folder: &Path, is_over: &AtomicBool, round: u64) -> Vec<PathBuf> {
    let mut saved = Vec::new();
    for n in 0..20_000 {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let file = folder.join(format!("d{}/note-{round}-{n}", n % 20));
        if fs::write(&file, "a thought").is_ok() {
            saved.push(file);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    saved
}

#[test]
fn what_is_saved_while_a_worktree_is_removed_is_not_lost() {
    let yard = Yard::new();
    crowded(&yard);
    let (a, ada) = (agent("a"), human("ada"));
    let mut went = 0;
    for round in 0..8 {
        let id = yard.add("one");
        let path = yard.claim(&a, &id);
        yard.json(&a, &["done", &id, "-m", "nothing to do"]).ok();
        let mut command = yard.command(&ada);
        let mut removal =
            command.args(["worktree", "remove"]).arg(&path).stderr(Stdio::null()).spawn().unwrap();
        let is_over = AtomicBool::new(false);
        let saved = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                // In turn: when the first file has gone, or at some moment around that.
                let has_begun = || (0..20).any(|n| !path.join(format!("d{n}/f{n}")).exists());
                match round % 2 {
                    0 => {
                        while !has_begun() && !is_over.load(Ordering::Relaxed) {
                            std::hint::spin_loop();
                        }
                    }
                    _ => std::thread::sleep(Duration::from_millis(8 * round)),
                }
                saved_until(&path, &is_over, round)
            });
            went += usize::from(removal.wait().unwrap().success());
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        for file in &saved {
            assert!(file.exists(), "round {round}: {} is gone", file.display());
        }
        let listed = yard.run(&ada, &["worktree", "list"]).ok().stdout.clone();
        assert_eq!(listed.contains(path.to_str().unwrap()), path.exists(), "round {round}: {listed}");
        let folders = fs::read_dir(yard.root()).into_iter().flatten().flatten();
        let aside = folders.filter(|it| it.file_name().as_encoded_bytes().starts_with(b".removing-"));
        assert_eq!(aside.count(), 0, "round {round}");
    }
    assert!(went > 0, "none was removed, so nothing was tried");
}
