//! Checkouts that gates are run in: any number, nobody's, and gone afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::kit::{Yard, git, write};

#[test]
fn scratch_worktrees_are_many_private_and_gone_afterwards() {
    let yard = Yard::new();
    let (lander, root) = (yard.lander(), yard.root());
    let branch = yard.branch("work", "main", |root| write(root, "new.txt", "new\n"));
    let (main, listed) = (yard.at("main"), lander.worktrees().list().unwrap());
    let scratches: Vec<_> = std::thread::scope(|scope| {
        let make = |n: usize| {
            let commit = if n.is_multiple_of(2) { &main } else { &branch };
            yard.lander().worktrees().scratch(&yard.root(), commit.as_str()).unwrap()
        };
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(move || make(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (n, scratch) in scratches.iter().enumerate() {
        assert_eq!(git(scratch.path(), &["status", "--porcelain"]), "");
        assert_eq!(scratch.path().join("new.txt").exists(), n % 2 == 1);
        assert!(!git(scratch.path(), &["branch", "--show-current"]).contains("main"));
        assert_eq!(scratch.path().parent().unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(lander.worktrees().list().unwrap(), listed, "they are not tasks' worktrees");
    assert_eq!(lander.worktrees().remove_scratches().unwrap(), 0, "they are in use");
    // The same commit again: what was changed or added is gone, what a build made stays. Another one begins without it.
    let scratch = &scratches[0];
    write(scratch.path(), "a.txt", "changed\n");
    write(scratch.path(), "left/over.txt", "x\n");
    write(scratch.path(), "build.ignored", "kept\n");
    let same = git(scratch.path(), &["rev-parse", "HEAD"]);
    scratch.move_to(same.trim()).unwrap();
    assert_eq!(git(scratch.path(), &["status", "--porcelain"]), "");
    assert!(scratch.path().join("build.ignored").exists());
    scratch.move_to(branch.as_str()).unwrap();
    assert_eq!(git(scratch.path(), &["status", "--porcelain"]), "");
    assert_eq!(git(scratch.path(), &["rev-parse", "HEAD"]), branch.to_string());
    assert!(!scratch.path().join("build.ignored").exists());
    // What nobody may write to goes, too.
    write(scratch.path(), "closed/inside/x", "x\n");
    fs::set_permissions(scratch.path().join("closed/inside"), fs::Permissions::from_mode(0o500)).unwrap();
    drop(scratches);
    assert!(!root.exists(), "{:?}", fs::read_dir(&root).map(Iterator::count));
    assert_eq!(yard.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(
        fs::read_dir(yard.repo().join(".git/onus/worktrees")).unwrap().count(),
        1,
        "only the lock stays"
    );
    // A commit that is not there leaves nothing either.
    assert!(lander.worktrees().scratch(&root, &"1".repeat(40)).is_err());
    assert!(!root.exists());
}
