//! Whose commits land, what they say, and who signs them.

use std::path::Path;
use std::process::Command;

use onus_core::commit::CommitId;
use onus_repo::landing::{Error, Planned, Style};

use crate::kit::{Yard, git, plan, union, words, write};
use crate::program::program;

/// A commit by somebody, on a day of their own.
fn commit_by(root: &Path, name: &str, email: &str, message: &str) {
    git(root, &["add", "--all"]);
    let author = format!("{name} <{email}>");
    git(root, &["commit", "--quiet", "--author", &author, "--date", "@1700000000 +0200", "-m", message]);
}

/// A branch of four commits by three people, and a target that has gone on.
fn branch(yard: &Yard) -> CommitId {
    yard.git(&["checkout", "--quiet", "-b", "work"]);
    for (n, (name, email)) in [
        ("Ann", "ann@example.org"),
        ("Bob", "bob@example.org"),
        ("Ann B.", "ANN@example.org"),
        ("Zoë \u{1f600}", "zoe@example.org"),
    ]
    .into_iter()
    .enumerate()
    {
        write(&yard.repo(), &format!("w{n}.txt"), "work\n");
        commit_by(
            &yard.repo(),
            name,
            email,
            &format!("change {n}\n\nWhy: {n} — said so\n\nSigned-off-by: X <x@y>"),
        );
    }
    yard.git(&["checkout", "--quiet", "main"]);
    write(&yard.repo(), "b.txt", "gone on\n");
    yard.commit("gone on");
    yard.at("work")
}

fn say(yard: &Yard, commit: &CommitId, format: &str) -> String {
    yard.git(&["log", "-1", "--date=raw", &format!("--format={format}"), commit.as_str()])
}

#[test]
fn a_merge_is_of_who_lands_a_squash_of_who_worked_and_a_rebase_keeps_everybody() {
    let yard = Yard::new();
    let (branch, lander) = (branch(&yard), yard.lander());
    let main = yard.at("main");
    let message = "Land ON-1\n\nAll of it.";

    let merged = lander.commit(&plan(&lander, &main, &branch, Style::Merge), &words(message)).unwrap();
    assert_eq!(say(&yard, &merged, "%P"), format!("{main} {branch}"));
    assert_eq!(
        say(&yard, &merged, "%an <%ae> %cn <%ce>"),
        "Lander <lander@example.org> Lander <lander@example.org>"
    );
    assert_eq!(say(&yard, &merged, "%B").trim(), "Land ON-1\n\nAll of it.\n\nOnus-Task: ON-1");

    let planned = plan(&lander, &main, &branch, Style::Squash);
    let squashed = lander.commit(&planned, &words(message)).unwrap();
    assert_eq!(say(&yard, &squashed, "%P"), main.to_string());
    assert_eq!(say(&yard, &squashed, "%ae"), "ANN@example.org");
    assert_eq!(say(&yard, &squashed, "%cn <%ce>"), "Lander <lander@example.org>");
    let said = say(&yard, &squashed, "%(trailers:key=Co-authored-by,valueonly)");
    let mut others: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    others.sort_unstable();
    assert_eq!(others, ["Bob <bob@example.org>", "Zoë \u{1f600} <zoe@example.org>"]);
    assert_eq!(say(&yard, &squashed, "%(trailers:key=Onus-Task,valueonly)").trim(), "ON-1");

    let planned = plan(&lander, &main, &branch, Style::Rebase);
    let rebased = lander.commit(&planned, &words(message)).unwrap();
    for commit in [&merged, &squashed, &rebased] {
        assert_eq!(lander.tree_of(commit).unwrap(), lander.tree_of(&merged).unwrap());
    }
    let range = format!("{main}..{rebased}");
    let say =
        |format: &str| yard.git(&["log", "--reverse", "--date=raw", &format!("--format={format}"), &range]);
    assert_eq!(say("%an <%ae> %ad").lines().nth(3), Some("Zoë \u{1f600} <zoe@example.org> 1700000000 +0200"));
    assert_eq!(say("%s"), "change 0\nchange 1\nchange 2\nchange 3");
    assert_eq!(say("%cn").lines().collect::<Vec<_>>(), ["Lander"; 4]);
    let trailers = say("%(trailers:key=Onus-Task,valueonly)%(trailers:key=Signed-off-by,valueonly)");
    assert_eq!(trailers.matches("ON-1").count(), 4, "{trailers}");
    assert_eq!(trailers.matches("X <x@y>").count(), 4, "{trailers}");
    assert!(lander.is_landed(&branch, &rebased).unwrap() && lander.is_landed(&branch, &squashed).unwrap());
}

#[test]
fn a_rebase_leaves_out_what_is_there_and_refuses_merges_and_conflicts() {
    let yard = Yard::new();
    let (branch, lander) = (branch(&yard), yard.lander());
    yard.git(&["cherry-pick", "work~2"]);
    let main = yard.at("main");
    let planned = plan(&lander, &main, &branch, Style::Rebase);
    let rebased = lander.commit(&planned, &words("")).unwrap();
    assert_eq!(yard.git(&["rev-list", "--count", &format!("{main}..{rebased}")]), "3");
    // A commit that cannot be replayed, although a later one would make it fit.
    let back = yard.branch("back", "main~2", |root| {
        write(root, "b.txt", "conflicts\n");
        git(root, &["commit", "--quiet", "-am", "conflicts"]);
        write(root, "b.txt", "gone on\n");
    });
    let planned = lander.plan(&main, &back, Style::Rebase, &union(&[])).unwrap();
    assert!(
        matches!(&planned, Planned::Conflicts(files) if files.len() == 1 && files[0].path == "b.txt"),
        "{planned:?}"
    );
    yard.git(&["checkout", "--quiet", "work"]);
    yard.git(&["merge", "--quiet", "--no-ff", "-m", "merged", "main"]);
    let planned = lander.plan(&main, &yard.at("work"), Style::Rebase, &union(&[]));
    assert!(matches!(planned, Err(Error::HasMerges(1))), "{planned:?}");
    // As a squash it lands, and only with what its own commits say.
    let planned = plan(&lander, &main, &yard.at("work"), Style::Squash);
    assert_eq!(planned.tree, lander.tree_of(&yard.at("work")).unwrap());
}

#[test]
fn who_has_no_name_lands_nothing() {
    let yard = Yard::new();
    let (branch, lander) = (branch(&yard), yard.lander());
    yard.git(&["config", "user.name", ""]);
    yard.git(&["config", "user.email", ""]);
    let planned = plan(&lander, &yard.at("main"), &branch, Style::Merge);
    let refused = lander.commit(&planned, &words("land"));
    assert!(matches!(refused, Err(Error::NoIdentity)), "{refused:?}");
}

#[test]
fn what_lands_is_signed_as_the_user_wants_by_no_program_of_the_repository() {
    let yard = Yard::new();
    let (branch, lander) = (branch(&yard), yard.lander());
    let key = yard.path().join("key");
    let made =
        Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key).status().unwrap();
    assert!(made.success());
    let ran = yard.path().join("RAN");
    let evil = yard.path().join("evil");
    program(&evil, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", ran.display()));
    let main = yard.at("main");
    let planned = plan(&lander, &main, &branch, Style::Rebase);
    let raw = |commit: &CommitId| yard.git(&["cat-file", "commit", commit.as_str()]);
    assert!(!raw(&lander.commit(&planned, &words("")).unwrap()).contains("gpgsig"));
    for (name, value) in [
        ("commit.gpgSign", "true"),
        ("gpg.format", "ssh"),
        ("user.signingKey", &*key.display().to_string()),
        ("gpg.ssh.program", &*evil.display().to_string()),
        ("gpg.program", &*evil.display().to_string()),
        ("gpg.ssh.defaultKeyCommand", &*evil.display().to_string()),
    ] {
        yard.git(&["config", name, value]);
    }
    // What was configured meanwhile counts from the next round on.
    let lander = lander.without_cache();
    for style in [Style::Merge, Style::Squash, Style::Rebase] {
        let commit = lander.commit(&plan(&lander, &main, &branch, style), &words("land")).unwrap();
        assert!(raw(&commit).contains("gpgsig -----BEGIN SSH SIGNATURE-----"), "{style:?}");
        assert!(!ran.exists(), "{style:?}: a program of the repository's ran");
    }
}
