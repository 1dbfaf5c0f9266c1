//! Commits: refused to agents, told to people, recorded.

use crate::agents::kit::configured;
use crate::guard::kit::{by, events, git_by, guarded, head, held, said, unknown, worktree, write};
use crate::support::{As, Ran, Sandbox, agent, human, program};

/// Ada reserves `a.txt`; Bob changes it and something else.
fn contested() -> (Sandbox, As, As) {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "bob was here\n");
    write(sandbox.path(), "b.txt", "bob was here\n");
    (sandbox, ada, bob)
}

#[test]
fn an_agents_commit_of_what_another_reserves_is_refused_and_says_what_to_do() {
    let (sandbox, _, bob) = contested();
    let before = head(&sandbox);
    for args in [
        &["commit", "-q", "-a", "-m", "all"][..],
        &["commit", "-q", "-m", "path", "a.txt"],
        &["commit", "-q", "-m", "only", "--only", "a.txt", "b.txt"],
    ] {
        let ran = git_by(&sandbox, &bob, args);
        assert_ne!(ran.code, 0, "{args:?}: {ran:?}");
        assert!(
            ran.stderr.contains("a.txt is reserved by ON-1") && ran.stderr.contains("agent:ada"),
            "{ran:?}"
        );
        assert!(ran.stderr.contains("next: onus ready") && !ran.stderr.contains("force"), "{ran:?}");
        assert!(!ran.stderr.contains("no-verify"), "{ran:?}");
    }
    assert_eq!(head(&sandbox), before);
    let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "free", "b.txt"]);
    assert_eq!(ran.code, 0, "what is free passes: {ran:?}");
    assert_ne!(head(&sandbox), before);
    assert_eq!(said(&sandbox, &["show", "--name-only", "--format=", "HEAD"]), "b.txt");
}

#[test]
fn what_is_only_marked_to_be_added_later_is_in_no_commit() {
    let (sandbox, ada, bob) = contested();
    held(&sandbox, &ada, "new.txt");
    write(sandbox.path(), "new.txt", "later\n");
    said(&sandbox, &["checkout", "-q", "--", "a.txt"]);
    said(&sandbox, &["add", "--intent-to-add", "new.txt"]);
    said(&sandbox, &["add", "b.txt"]);
    let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "free"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(said(&sandbox, &["show", "--name-only", "--format=", "HEAD"]), "b.txt");
    said(&sandbox, &["add", "new.txt"]);
    assert_ne!(git_by(&sandbox, &bob, &["commit", "-q", "-m", "now"]).code, 0);
}

/// Formatters add to a commit what they changed. What is judged is what git commits.
#[test]
fn what_another_hook_adds_to_a_commit_is_judged_too() {
    let (sandbox, _, bob) = contested();
    said(&sandbox, &["add", "b.txt"]);
    let hook = sandbox.path().join(".git/hooks/pre-commit");
    program(&hook, "#!/bin/sh\ngit add a.txt\n");
    let before = head(&sandbox);
    let ran = git_by(&sandbox, &bob, &["commit", "-q", "-m", "formatted"]);
    assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
    assert_eq!(head(&sandbox), before);
    std::fs::remove_file(hook).unwrap();
    said(&sandbox, &["reset", "-q", "a.txt"]);
    git_by(&sandbox, &bob, &["commit", "-q", "-m", "free"]).ok();
}

/// Git has made the commit's tree when the editor opens: what happens to the index meanwhile is in the next commit.
#[test]
fn what_an_editor_or_another_hook_does_to_the_index_changes_neither_the_commit_nor_its_judgement() {
    let unstage = "#!/bin/sh\nunset GIT_INDEX_FILE\ngit reset -q -- a.txt\n";
    for is_editor in [true, false] {
        let (sandbox, _, bob) = contested();
        let before = head(&sandbox);
        let script = sandbox.path().join(".git/script");
        let commit = |message: &str| {
            let mut command = unknown(&sandbox, sandbox.path());
            command
                .env("ONUS_ACTOR", &bob.actor)
                .env("ONUS_INSTANCE", &bob.instance)
                .env("GIT_EDITOR", &script);
            let args: &[&str] = if is_editor { &["commit", "-q"] } else { &["commit", "-q", "-m", message] };
            Ran::of(command.args(args).output().unwrap())
        };
        match is_editor {
            true => program(&script, format!("{unstage}echo message >\"$1\"\n")),
            false => {
                sandbox.run(&human("founder"), &["guard", "uninstall"]).ok();
                program(&sandbox.path().join(".git/hooks/prepare-commit-msg"), unstage);
                sandbox.run(&human("founder"), &["guard", "install"]).ok();
            }
        }
        said(&sandbox, &["add", "a.txt"]);
        let ran = commit("one");
        assert!(ran.code != 0 && ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
        assert_eq!(head(&sandbox), before);
        // What is kept of one commit is not the next one's.
        said(&sandbox, &["reset", "-q"]);
        said(&sandbox, &["add", "b.txt"]);
        let ran = commit("two");
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(said(&sandbox, &["show", "--name-only", "--format=", "HEAD"]), "b.txt");
        assert!(!sandbox.path().join(".git/onus-index").exists());
    }
}

#[test]
fn hook_looked_in_the_wrong_path_and_silently_passed_everything() {
    // The row of the lessons: the guard's refusal, through a real commit in a linked worktree.
    let (sandbox, _, bob) = contested();
    let there = worktree(&sandbox, "aside");
    write(&there, "a.txt", "bob was here\n");
    let ran = by(&sandbox, &bob, &there, &["commit", "-q", "-a", "-m", "aside"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a.txt is reserved by ON-1"), "{ran:?}");
    write(&there, "a.txt", "a\n");
    write(&there, "deep/er/c.txt", "c\n");
    std::fs::create_dir_all(there.join("deep")).unwrap();
    by(&sandbox, &bob, &there, &["add", "-A"]).ok();
    by(&sandbox, &bob, &there.join("deep"), &["commit", "-q", "-m", "from a folder"]).ok();
}

#[test]
fn guard_refused_a_persons_commit_from_an_editor_because_no_identity_was_set() {
    // The row of the lessons: no terminal, no name, no harness. The person is warned, and the commit is made.
    let (sandbox, _, _) = contested();
    let ran =
        Ran::of(unknown(&sandbox, sandbox.path()).args(["commit", "-q", "-a", "-m", "x"]).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("onus: careful: a.txt is reserved by ON-1"), "{ran:?}");
}

#[test]
pub(crate) fn people_are_warned_never_refused_unless_configured() {
    for (people, code, says) in [
        ("", 0, "careful: a.txt is reserved by ON-1"),
        ("[guard]\npeople = \"warn\"\n", 0, "careful: a.txt is reserved by ON-1"),
        ("[guard]\npeople = \"off\"\n", 0, ""),
        ("[guard]\npeople = \"refuse\"\n", 1, "git commit --no-verify"),
    ] {
        let (sandbox, _, _) = contested();
        configured(&sandbox, people);
        let ran = git_by(&sandbox, &human("carol"), &["commit", "-q", "-a", "-m", "x"]);
        assert_eq!(ran.code, code, "{people}: {ran:?}");
        assert!(ran.stderr.contains(says), "{people}: {ran:?}");
        assert_eq!(ran.stderr.is_empty(), says.is_empty(), "{people}: {ran:?}");
    }
}

#[test]
fn a_person_without_a_terminal_is_known_by_the_address_that_git_has() {
    let sandbox = guarded();
    sandbox.run(&human("founder"), &["actor", "register", "human:tess"]).ok();
    sandbox.run(&human("founder"), &["actor", "alias", "human:tess", "human:test@example.org"]).ok();
    let id = held(&sandbox, &human("tess"), "a.txt");
    write(sandbox.path(), "a.txt", "tess\n");
    let ran =
        Ran::of(unknown(&sandbox, sandbox.path()).args(["commit", "-q", "-a", "-m", "x"]).output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "her own file: {ran:?}");
    assert!(said(&sandbox, &["log", "-1", "--format=%B"]).contains(&format!("Onus-Task: {id}")));
    let made = events(&sandbox, "commit.made");
    assert_eq!((made.len(), &made[0]["actor"]), (1, &"human:tess".into()));
}

#[test]
fn a_commit_names_its_task_and_is_recorded_in_its_session() {
    let sandbox = guarded();
    let ada = agent("ada");
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    write(sandbox.path(), "new.txt", "touched first by a commit\n");
    git_by(&sandbox, &ada, &["add", "-A"]).ok();
    git_by(&sandbox, &ada, &["commit", "-q", "-m", "title\n\nbody"]).ok();
    assert_eq!(said(&sandbox, &["log", "-1", "--format=%B"]), format!("title\n\nbody\n\nOnus-Task: {id}"));
    let hash = head(&sandbox);
    let shown = sandbox.show(&id);
    assert_eq!(shown["commits"][0]["commit"], hash.as_str());
    assert_eq!(shown["commits"][0]["token"], 1);
    let scope = shown["lease"]["scope"].to_string();
    assert!(scope.contains("new.txt"), "first touch: {scope}");
    let sessions = sandbox.json(&ada, &["sessions", &id]).ok().json();
    assert_eq!(sessions["sessions"][0]["commits"], serde_json::json!([hash]));
    let table = sandbox.run(&ada, &["sessions", &id]).ok().stdout.clone();
    assert!(table.contains("commits"), "{table}");
    let log = sandbox.run(&ada, &["log", &id]).ok().stdout.clone();
    assert!(log.contains(&format!("made commit {} (token 1)", &hash[..10])), "{log}");
    sandbox.is_whole();
    let export = sandbox.run(&ada, &["ledger", "export"]).ok().stdout.clone();
    assert!(export.contains("\"commit.made\"") && export.contains(&hash), "{export}");
    // A second commit of the same lease; what says its task already says it once.
    write(sandbox.path(), "a.txt", "ada again\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", &format!("again\n\nOnus-Task: {id}")]).ok();
    assert_eq!(said(&sandbox, &["log", "-1", "--format=%B"]), format!("again\n\nOnus-Task: {id}"));
    assert_eq!(sandbox.show(&id)["commits"].as_array().unwrap().len(), 2);
}

#[test]
pub(crate) fn the_token_is_in_the_message_where_that_is_configured() {
    let sandbox = guarded();
    configured(&sandbox, "[guard]\ntoken_trailer = true\n");
    let ada = agent("ada");
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "title"]).ok();
    let message = said(&sandbox, &["log", "-1", "--format=%B"]);
    assert_eq!(message, format!("title\n\nOnus-Task: {id}\nOnus-Token: {id}#1"));
}

#[test]
fn an_empty_message_stays_empty_and_git_refuses_it() {
    let sandbox = guarded();
    let ada = agent("ada");
    held(&sandbox, &ada, "a.txt");
    let before = head(&sandbox);
    for message in ["", "\n\n", "# only a comment\n"] {
        write(sandbox.path(), "a.txt", &format!("ada {}\n", message.len()));
        write(sandbox.path(), ".git/said", message);
        let ran = git_by(&sandbox, &ada, &["commit", "-q", "-a", "--cleanup=strip", "-F", ".git/said"]);
        assert_ne!(ran.code, 0, "{message:?}: {ran:?}");
        assert_eq!(head(&sandbox), before);
    }
    write(sandbox.path(), ".git/said", "- a list\n- and no title\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-F", ".git/said"]).ok();
    assert!(said(&sandbox, &["log", "-1", "--format=%B"]).ends_with("Onus-Task: ON-1"));
}

#[test]
fn a_commit_that_says_it_resolves_a_task_is_noted_there_once_and_ends_nothing() {
    let sandbox = guarded();
    let (ada, other) = (agent("ada"), sandbox.add("another's"));
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    let message = format!("title\n\nResolves {other}, fixes {id} and NO-77");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", &message]).ok();
    for (id, state) in [(&other, "open"), (&id, "in_progress")] {
        let shown = sandbox.show(id);
        assert_eq!(shown["state"], state);
        let notes = shown["notes"].as_array().unwrap();
        assert_eq!(notes.len(), 1, "{shown}");
        let text = notes[0]["text"].as_str().unwrap();
        assert!(text.contains(&head(&sandbox)[..10]) && text.contains(&format!("resolves {id}")), "{text}");
    }
    git_by(&sandbox, &ada, &["commit", "-q", "--amend", "--no-edit", "--allow-empty"]).ok();
    assert_eq!(sandbox.show(&other)["notes"].as_array().unwrap().len(), 1, "once");
    sandbox.is_whole();
}

#[test]
fn whoever_was_superseded_commits_nothing_until_it_claims_again() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let id = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    let forced = ["takeover", &id, "--force", "--reason", "she is away"];
    sandbox.run(&human("founder"), &forced).ok();
    let before = head(&sandbox);
    let ran = git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "late"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains(&id), "{ran:?}");
    assert_eq!(head(&sandbox), before);
    // A stale token is compared, whoever shows it.
    let mut command = unknown(&sandbox, sandbox.path());
    command.env("ONUS_ACTOR", &bob.actor).env("ONUS_INSTANCE", &bob.instance);
    command.env("ONUS_TASK", &id).env("ONUS_TOKEN", "1");
    write(sandbox.path(), "a.txt", "a\n");
    write(sandbox.path(), "b.txt", "bob\n");
    let ran = Ran::of(command.args(["commit", "-q", "-a", "-m", "stale"]).output().unwrap());
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("token 1"), "{ran:?}");
    assert_eq!(head(&sandbox), before);
}

#[test]
fn an_agent_without_a_task_gets_one_is_warned_or_refused() {
    for (unclaimed, code, tasks) in [("adopt", 0, 1), ("warn", 0, 0), ("refuse", 1, 0)] {
        let sandbox = guarded();
        configured(&sandbox, &format!("[guard]\nunclaimed = \"{unclaimed}\"\n"));
        write(sandbox.path(), "a.txt", "ada\n");
        let ran = git_by(&sandbox, &agent("ada"), &["commit", "-q", "-m", "x", "a.txt"]);
        assert_eq!(ran.code, code, "{unclaimed}: {ran:?}");
        assert_eq!(events(&sandbox, "task.created").len(), tasks, "{unclaimed}: {ran:?}");
        assert_eq!(events(&sandbox, "commit.made").len(), tasks, "{unclaimed}: {ran:?}");
        assert_eq!(ran.stderr.contains("without a task"), unclaimed == "warn", "{unclaimed}: {ran:?}");
    }
}

/// Git takes whatever is staged when a stopped rebase goes on, and runs no commit-msg hook for it.
#[test]
fn what_is_staged_beside_a_commit_that_a_rebase_moves_is_judged() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    held(&sandbox, &ada, "a.txt");
    let there = worktree(&sandbox, "aside");
    write(&there, "a.txt", "ada\n");
    by(&sandbox, &ada, &there, &["commit", "-q", "-a", "-m", "ada's"]).ok();
    write(sandbox.path(), "a.txt", "founder\n");
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-a", "-m", "in the way"]).ok();
    held(&sandbox, &bob, "b.txt");
    let go_on = || by(&sandbox, &ada, &there, &["-c", "core.editor=true", "rebase", "--continue"]);
    assert_ne!(by(&sandbox, &ada, &there, &["rebase", "-q", "main"]).code, 0, "stops at the conflict");
    write(&there, "a.txt", "both\n");
    write(&there, "b.txt", "smuggled\n");
    by(&sandbox, &ada, &there, &["add", "-A"]).ok();
    let ran = go_on();
    assert!(ran.code != 0 && ran.stderr.contains("onus: b.txt is reserved by"), "{ran:?}");
    // Without it the rebase ends as ever.
    by(&sandbox, &ada, &there, &["checkout", "-q", "HEAD", "--", "b.txt"]).ok();
    go_on().ok();
    let log = Ran::of(
        unknown(&sandbox, &there).args(["log", "-1", "--format=%s", "--name-only"]).output().unwrap(),
    );
    assert_eq!(log.stdout.split_whitespace().collect::<Vec<_>>(), ["ada's", "a.txt"]);
}

/// A stop for editing is a commit of its own: what is staged there was never judged, whatever the commit itself changed.
#[test]
fn what_is_staged_where_a_rebase_stops_to_edit_is_judged_and_what_it_moves_is_counted() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let base = head(&sandbox);
    let first = held(&sandbox, &ada, "a.txt");
    write(sandbox.path(), "a.txt", "ada\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "ada's"]).ok();
    sandbox.run(&ada, &["done", &first, "-m", "x"]).ok();
    let of_bob = held(&sandbox, &bob, "a.txt");
    let bounded = sandbox.add("bounded");
    sandbox.run(&human("founder"), &["edit", &bounded, "--constraint", "max_files=2"]).ok();
    sandbox.run(&ada, &["claim", &bounded]).ok();
    let editing = ["-c", "sequence.editor=sed -i s/^pick/edit/", "-c", "core.editor=true"];
    let rebase = |more: &[&str]| git_by(&sandbox, &ada, &[&editing[..], &["rebase"], more].concat());
    rebase(&["-i", &base]).ok();
    write(sandbox.path(), "a.txt", "ada, again\n");
    git_by(&sandbox, &ada, &["add", "a.txt"]).ok();
    let ran = rebase(&["--continue"]);
    assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{ran:?}");
    git_by(&sandbox, &ada, &["rebase", "--abort"]).ok();
    sandbox.run(&bob, &["release", &of_bob]).ok();
    // What a rebase puts together is counted as if it were merged.
    let commit = |branch: &[&str], files: [&str; 2]| {
        git_by(&sandbox, &ada, &[&["checkout", "-q"], branch].concat()).ok();
        for file in files {
            write(sandbox.path(), file, "x\n");
        }
        git_by(&sandbox, &ada, &["add", "-A"]).ok();
        git_by(&sandbox, &ada, &["commit", "-q", "-m", "x"]).ok();
    };
    commit(&["-b", "one", &base], ["c1", "c2"]);
    commit(&["-b", "two", &base], ["d1", "d2"]);
    let ran = git_by(&sandbox, &ada, &["rebase", "-q", "one"]);
    assert!(ran.code != 0 && ran.stderr.contains("this would be 4 changed files"), "{ran:?}");
    git_by(&sandbox, &ada, &["rebase", "--abort"]).ok();
}

/// P12: whatever an agent calls itself, its commits are judged as an agent's.
#[test]
fn an_agent_that_calls_itself_a_person_is_judged_as_an_agent() {
    let sandbox = guarded();
    held(&sandbox, &agent("bob"), "a.txt");
    write(sandbox.path(), "a.txt", "changed\n");
    let commit = |harness: Option<&str>| {
        let mut git = unknown(&sandbox, sandbox.path());
        git.env("ONUS_ACTOR", "human:hal").args(["commit", "-q", "-a", "-m", "x"]);
        git.envs(harness.map(|name| (name, "1")));
        Ran::of(git.output().unwrap())
    };
    let before = head(&sandbox);
    for harness in ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI"] {
        let ran = commit(Some(harness));
        assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{harness}: {ran:?}");
    }
    assert_eq!(head(&sandbox), before);
    let ran = commit(None);
    assert!(ran.code == 0 && ran.stderr.contains("careful"), "a person is warned: {ran:?}");
}

#[test]
fn a_token_that_is_none_is_said_to_leave_a_commit_unchecked() {
    let sandbox = guarded();
    write(sandbox.path(), "a.txt", "changed\n");
    let mut git = unknown(&sandbox, sandbox.path());
    git.env("ONUS_ACTOR", "agent:ada").env("ONUS_INSTANCE", "ada-1").env("ONUS_TOKEN", "zz");
    let ran = Ran::of(git.args(["commit", "-q", "-a", "-m", "x"]).output().unwrap());
    assert!(ran.code == 0 && ran.stderr.contains("was not checked: ONUS_TOKEN"), "{ran:?}");
}

/// Where refs are in tables, git keeps what is picked there too, and not in a file.
#[test]
fn a_cherry_pick_is_judged_in_a_repository_with_reftables() {
    let sandbox = Sandbox::empty();
    let init = Ran::of(
        unknown(&sandbox, sandbox.path())
            .args(["init", "-q", "-b", "main", "--ref-format=reftable"])
            .output()
            .unwrap(),
    );
    if init.code != 0 {
        eprintln!("this git knows no reftables: not tried");
        return;
    }
    let founder = human("founder");
    write(sandbox.path(), ".git/info/exclude", "/home/\n");
    sandbox.run(&founder, &["init", "--prefix", "ON"]).ok();
    write(sandbox.path(), "a.txt", "a\n");
    git_by(&sandbox, &founder, &["add", "a.txt"]).ok();
    git_by(&sandbox, &founder, &["commit", "-q", "-m", "x"]).ok();
    git_by(&sandbox, &founder, &["checkout", "-q", "-b", "aside"]).ok();
    write(sandbox.path(), "a.txt", "changed\n");
    git_by(&sandbox, &founder, &["commit", "-q", "-a", "-m", "x"]).ok();
    git_by(&sandbox, &founder, &["checkout", "-q", "main"]).ok();
    sandbox.run(&founder, &["guard", "install"]).ok();
    held(&sandbox, &agent("bob"), "a.txt");
    let ran = git_by(&sandbox, &agent("ada"), &["cherry-pick", "aside"]);
    assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{ran:?}");
}

#[test]
fn a_template_that_nobody_touched_is_not_committed() {
    let sandbox = guarded();
    let founder = human("founder");
    let id = held(&sandbox, &founder, "a.txt");
    write(sandbox.path(), "home/template", "what and why\n");
    write(sandbox.path(), "a.txt", "changed\n");
    let before = head(&sandbox);
    let commit = |editor: &str| {
        let editor = format!("core.editor={editor}");
        git_by(
            &sandbox,
            &founder,
            &["-c", &editor, "-c", "commit.template=home/template", "commit", "-q", "-a"],
        )
    };
    let ran = commit("true");
    assert!(ran.code != 0 && head(&sandbox) == before, "{ran:?}");
    commit("sed -i s/what/this/").ok();
    assert_eq!(said(&sandbox, &["log", "-1", "--format=%B"]), format!("this and why\n\nOnus-Task: {id}"));
}

#[test]
fn a_merge_is_judged_by_what_it_decides_not_by_what_it_brings() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    // Bob's own commit, on main, under his lease; Ada merges it into her branch.
    held(&sandbox, &bob, "a.txt");
    let there = worktree(&sandbox, "aside");
    write(sandbox.path(), "a.txt", "bob\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "-m", "bob's"]).ok();
    write(&there, "c.txt", "ada\n");
    by(&sandbox, &ada, &there, &["add", "-A"]).ok();
    by(&sandbox, &ada, &there, &["commit", "-q", "-m", "ada's"]).ok();
    by(&sandbox, &ada, &there, &["merge", "-q", "--no-edit", "main"]).ok();
    let message = Ran::of(unknown(&sandbox, &there).args(["log", "-1", "--format=%B"]).output().unwrap());
    assert!(message.stdout.contains("Onus-Task: ON-"), "{message:?}");
    // Another merge, in which she writes his file herself.
    write(sandbox.path(), "a.txt", "bob again\n");
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "-m", "bob's second"]).ok();
    by(&sandbox, &ada, &there, &["merge", "-q", "--no-commit", "--no-ff", "main"]).ok();
    write(&there, "a.txt", "ada decides\n");
    by(&sandbox, &ada, &there, &["add", "a.txt"]).ok();
    let ran = by(&sandbox, &ada, &there, &["commit", "-q", "--no-edit"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a.txt is reserved by"), "{ran:?}");
    // In one go: both sides changed it, so the merge itself decides.
    by(&sandbox, &ada, &there, &["merge", "--abort"]).ok();
}

#[test]
fn a_merge_that_git_commits_itself_is_asked_before() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n8\n{last}\n");
    write(sandbox.path(), "a.txt", &lines("1", "9"));
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-a", "-m", "lines"]).ok();
    let there = worktree(&sandbox, "aside");
    write(&there, "a.txt", &lines("1", "ada"));
    by(&sandbox, &ada, &there, &["commit", "-q", "-a", "-m", "ada's"]).ok();
    write(sandbox.path(), "a.txt", &lines("bob", "9"));
    git_by(&sandbox, &bob, &["commit", "-q", "-a", "-m", "bob's"]).ok();
    for who in [&ada, &bob] {
        sandbox.run(who, &["release"]).ok();
    }
    held(&sandbox, &human("carol"), "a.txt");
    let ran = by(&sandbox, &ada, &there, &["merge", "-q", "--no-edit", "main"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("a.txt is reserved by") && ran.stderr.contains("human:carol"), "{ran:?}");
}

#[test]
fn what_a_cherry_pick_or_rebase_brings_is_judged_before_and_recorded() {
    let sandbox = guarded();
    let (ada, bob) = (agent("ada"), agent("bob"));
    let there = worktree(&sandbox, "aside");
    write(&there, "a.txt", "ada\n");
    by(&sandbox, &ada, &there, &["commit", "-q", "-a", "-m", "ada's\n\nResolves ON-1"]).ok();
    let id = sandbox.show("ON-1")["id"].as_str().unwrap().to_owned();
    sandbox.run(&ada, &["release", &id]).ok();
    let of_bob = held(&sandbox, &bob, "a.txt");
    let of_ada = held(&sandbox, &ada, "z/**");
    let before = head(&sandbox);
    // An agent's is refused, and git can take it back; whoever it was made by.
    let ran = git_by(&sandbox, &ada, &["cherry-pick", "aside"]);
    assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{ran:?}");
    assert_eq!(head(&sandbox), before);
    git_by(&sandbox, &ada, &["cherry-pick", "--abort"]).ok();
    // So it is from an index that is anywhere else.
    let elsewhere = sandbox.path().join("home/index");
    std::fs::copy(sandbox.path().join(".git/index"), &elsewhere).unwrap();
    let mut pick = unknown(&sandbox, sandbox.path());
    pick.env("GIT_INDEX_FILE", &elsewhere).env("ONUS_ACTOR", &ada.actor).env("ONUS_INSTANCE", &ada.instance);
    let ran = Ran::of(pick.args(["cherry-pick", "aside"]).output().unwrap());
    assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{ran:?}");
    assert_eq!(head(&sandbox), before);
    git_by(&sandbox, &human("founder"), &["reset", "-q", "--hard"]).ok();
    // A person is warned, once.
    let ran = git_by(&sandbox, &human("founder"), &["cherry-pick", "aside"]);
    assert_eq!((ran.code, ran.stderr.matches("careful").count()), (0, 1), "{ran:?}");
    git_by(&sandbox, &human("founder"), &["reset", "-q", "--hard", &before]).ok();
    // What is free is picked, named and recorded.
    write(&there, "z/1", "1\n");
    by(&sandbox, &ada, &there, &["add", "-A"]).ok();
    by(&sandbox, &ada, &there, &["commit", "-q", "-m", "one"]).ok();
    git_by(&sandbox, &ada, &["cherry-pick", "aside"]).ok();
    let picked = head(&sandbox);
    assert!(events(&sandbox, "commit.made").iter().any(|made| made["payload"]["commit"] == picked.as_str()));
    let message = said(&sandbox, &["log", "-1", "--format=%B"]);
    assert_eq!(message, format!("one\n\nOnus-Task: {of_ada}"));
    git_by(&sandbox, &human("founder"), &["reset", "-q", "--hard", &before]).ok();
    // A rebase makes each commit anew, and each is recorded. What its maker moves was judged when it was made.
    write(sandbox.path(), "b.txt", "moved\n");
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-a", "-m", "moved"]).ok();
    by(&sandbox, &ada, &there, &["rebase", "-q", "main"]).ok();
    let rebased = Ran::of(unknown(&sandbox, &there).args(["rev-parse", "HEAD"]).output().unwrap());
    let rebased = rebased.stdout.trim().to_owned();
    assert!(events(&sandbox, "commit.made").iter().any(|made| made["payload"]["commit"] == rebased.as_str()));
    // What others made is judged.
    let strange = agent("eve");
    write(sandbox.path(), "b.txt", "moved again\n");
    git_by(&sandbox, &human("founder"), &["commit", "-q", "-a", "-m", "moved again"]).ok();
    let ran = by(&sandbox, &strange, &there, &["rebase", "-q", "main"]);
    assert!(ran.code != 0 && ran.stderr.contains("onus: a.txt is reserved by"), "{ran:?}");
    by(&sandbox, &strange, &there, &["rebase", "--abort"]).ok();
    let now = Ran::of(unknown(&sandbox, &there).args(["rev-parse", "HEAD"]).output().unwrap());
    assert_eq!(now.stdout.trim(), rebased, "nothing is lost by it");
    // Without a check, as git has it for those who must.
    sandbox.run(&bob, &["release", &of_bob]).ok();
    held(&sandbox, &bob, "b.txt");
    write(sandbox.path(), "b.txt", "by hand\n");
    git_by(&sandbox, &ada, &["commit", "-q", "-a", "-m", "unchecked", "--no-verify"]).ok();
    sandbox.is_whole();
}

#[test]
fn of_two_tasks_a_commit_belongs_to_the_one_that_reserves_what_it_changes() {
    let sandbox = guarded();
    let ada = agent("ada");
    let (one, two) = (held(&sandbox, &ada, "a.txt"), held(&sandbox, &ada, "b.txt"));
    for (files, tasks) in [
        (&["a.txt"][..], vec![&one]),
        (&["b.txt"], vec![&two]),
        (&["a.txt", "b.txt"], vec![&one, &two]),
        (&["c.txt"], vec![&two]),
    ] {
        for file in files {
            write(sandbox.path(), file, &format!("{files:?}\n"));
        }
        git_by(&sandbox, &ada, &["add", "-A"]).ok();
        git_by(&sandbox, &ada, &["commit", "-q", "-m", "x"]).ok();
        let message = said(&sandbox, &["log", "-1", "--format=%B"]);
        let named: Vec<String> = tasks.iter().map(|id| format!("Onus-Task: {id}")).collect();
        assert!(message.ends_with(&named.join("\n")), "{files:?}: {message}");
        assert_eq!(message.matches("Onus-Task").count(), tasks.len());
    }
}
