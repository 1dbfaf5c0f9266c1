//! Conflicts to come: both holders hear of them early and once, everybody can see them, and they cost next to nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::kit::Yard;
use crate::support::{As, ONUS, Ran, agent, fed, human, program};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

fn line(with: &str) -> String {
    LINES.replace("5\n", &format!("{with}\n"))
}

/// Two agents, each with a task and a worktree; the guard is installed. `f` and `g` have some lines.
struct Two {
    yard: Yard,
    a: (As, String, PathBuf),
    b: (As, String, PathBuf),
}

impl Two {
    fn new() -> Two {
        let yard = Yard::new();
        yard.commit("f", LINES);
        yard.commit("g", LINES);
        yard.run(&human("ada"), &["guard", "install"]).ok();
        let of = |name: &str| {
            let (who, id) = (agent(name), yard.add(name));
            let path = yard.claim(&who, &id);
            (who, id, path)
        };
        let (a, b) = (of("one"), of("two"));
        Two { yard, a, b }
    }

    /// Commits a file there, as an agent does: what git says.
    #[track_caller]
    fn commits(&self, (who, _, path): &(As, String, PathBuf), file: &str, text: &str) -> Ran {
        commits(&self.yard, who, path, file, text)
    }

    /// What somebody hears of conflicts, with the next answer.
    #[track_caller]
    fn hears(&self, (who, id, _): &(As, String, PathBuf)) -> Vec<String> {
        let answer = self.yard.json(who, &["note", id, "going on"]).ok().json();
        let notices = answer["notices"].as_array().cloned().unwrap_or_default();
        let of_conflicts = notices.iter().filter(|notice| notice["kind"] == "conflict");
        of_conflicts.map(|notice| notice["message"].as_str().unwrap().to_owned()).collect()
    }

    fn status(&self) -> Value {
        self.yard.json(&human("ada"), &["status"]).ok().json()["forecast"].clone()
    }
}

#[track_caller]
fn commits(yard: &Yard, who: &As, path: &Path, file: &str, text: &str) -> Ran {
    fs::write(path.join(file), text).unwrap();
    yard.git_in(path, &["add", file]);
    let known = yard.command_in(path, who);
    let mut command = std::process::Command::new("git");
    command.current_dir(path).env_clear();
    command.envs(known.get_envs().filter_map(|(name, value)| Some((name, value?))));
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "ada@example.com");
    }
    let ran = Ran::of(command.args(["commit", "--quiet", "-m", file]).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

/// Runs onus and lists the git processes that it started, by their first words.
#[track_caller]
fn counted(yard: &Yard, args: &[&str]) -> Vec<String> {
    let trace = yard.folder().join("trace");
    let _ = fs::remove_file(&trace);
    let mut command = yard.command(&human("ada"));
    let ran = Ran::of(command.args(args).env("GIT_TRACE2_EVENT", &trace).output().unwrap());
    ran.ok();
    let text = fs::read_to_string(&trace).unwrap_or_default();
    let starts = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    starts
        .filter(|event| event["event"] == "cmd_name")
        .map(|event| event["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn both_holders_hear_early_and_once_which_files_will_conflict() {
    let two = Two::new();
    let quiet = two.commits(&two.a, "f", &line("one"));
    assert!(!quiet.stderr.contains("conflict"), "{quiet:?}");
    // The second one's commit says it at once, and the first hears it with its next answer.
    let said = two.commits(&two.b, "f", &line("two"));
    assert!(
        said.stderr.contains(
            "a conflict to come: ON-2 and ON-1 (onus/ON-1-one, agent:one (one-1)) cannot be merged in f"
        ),
        "{said:?}"
    );
    assert_eq!(
        two.hears(&two.a),
        ["a conflict to come: ON-1 and ON-2 (onus/ON-2-two, agent:two (two-1)) cannot be merged in f"]
    );
    // Neither hears it again, however the branches move, while it lasts.
    let said = two.commits(&two.b, "f", &line("2"));
    assert!(!said.stderr.contains("conflict"), "{said:?}");
    two.commits(&two.a, "other", "x\n");
    assert_eq!((two.hears(&two.a), two.hears(&two.b)), (vec![], vec![]));
    // Another file is news.
    two.commits(&two.a, "g", &line("one"));
    let said = two.commits(&two.b, "g", &line("two"));
    assert!(said.stderr.contains("cannot be merged in f, g"), "{said:?}");
    assert_eq!(two.hears(&two.a).len(), 1);
    // It is over, and begins again.
    let again = line("one");
    two.commits(&two.b, "f", &again);
    two.commits(&two.b, "g", &again);
    assert_eq!(two.status()["conflicts"], json!([]));
    let said = two.commits(&two.b, "f", &line("three"));
    assert!(said.stderr.contains("cannot be merged in f"), "{said:?}");
    // The one who did not listen meanwhile hears nothing of what is over.
    two.commits(&two.b, "f", &again);
    assert_eq!((two.hears(&two.a), two.hears(&two.b)), (vec![], vec![]));
    // Nothing of it is history.
    let kinds: Vec<String> = two.yard.kinds(&two.a.1);
    assert!(!kinds.iter().any(|kind| kind.contains("conflict")), "{kinds:?}");
    two.yard.json(&human("ada"), &["ledger", "rebuild"]).ok();
    let verified = two.yard.json(&human("ada"), &["ledger", "verify"]).ok().json();
    assert_eq!(verified["ok"], true);
}

#[test]
fn a_target_that_moved_on_is_told_and_so_is_a_new_holder() {
    let two = Two::new();
    two.commits(&two.a, "f", &line("one"));
    // A person commits to main: who works on a branch hears it.
    commits(&two.yard, &human("ada"), &two.yard.repo(), "f", &line("main"));
    assert_eq!(
        two.hears(&two.a),
        ["a conflict to come: main has changed, and ON-1 cannot be merged with it in f"]
    );
    assert_eq!(two.hears(&two.a), [""; 0]);
    two.yard.run(&two.a.0, &["release", &two.a.1]).ok();
    // Nobody holds it, everybody sees it.
    let seen = two.status();
    assert_eq!(
        (&seen["conflicts"][0]["task"], &seen["conflicts"][0]["holder"]),
        (&json!("ON-1"), &Value::Null)
    );
    let third = agent("three");
    let path = two.yard.claim(&third, &two.a.1);
    let third = (third, two.a.1.clone(), path);
    assert_eq!(two.hears(&third).len(), 1, "its successor hears it");
    assert_eq!(two.hears(&third), [""; 0]);
}

#[test]
fn a_merge_that_resolves_a_conflict_is_not_told_of_it() {
    let two = Two::new();
    two.commits(&two.a, "f", &line("one"));
    commits(&two.yard, &human("ada"), &two.yard.repo(), "f", &line("main"));
    let (_, _, path) = &two.a;
    let merged = std::process::Command::new("git").current_dir(path).args(["merge", "-q", "main"]).output();
    assert!(!merged.unwrap().status.success(), "they conflict");
    let said = two.commits(&two.a, "f", &line("both"));
    assert!(!said.stderr.contains("a conflict to come"), "{said:?}");
    assert_eq!(two.hears(&two.a), [""; 0]);
}

#[test]
fn an_agents_turn_begins_with_what_moved_meanwhile() {
    let two = Two::new();
    two.yard.run(&human("ada"), &["guard", "uninstall"]).ok();
    two.yard.commit_in(&two.a.2, "f", &line("one"));
    two.yard.commit_in(&two.b.2, "f", &line("two"));
    let payload = json!({
        "hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": two.a.2, "prompt": "go on",
    });
    let mut command = two.yard.command_in(&two.a.2, &two.a.0);
    let ran = fed(command.args(["hook", "claude"]), payload.to_string());
    assert!(ran.stdout.contains("a conflict to come: ON-1 and ON-2"), "{ran:?}");
    assert_eq!(two.hears(&two.b).len(), 1);
}

#[test]
fn everybody_sees_what_will_conflict() {
    let two = Two::new();
    let empty = json!({ "conflicts": [], "incomplete": null });
    assert_eq!(two.status(), empty);
    two.commits(&two.a, "f", &line("one"));
    two.commits(&two.b, "f", &line("two"));
    let ada = human("ada");
    let of_one = json!({
        "task": "ON-1", "branch": "onus/ON-1-one", "holder": "agent:one",
        "with": { "task": "ON-2", "branch": "onus/ON-2-two", "holder": "agent:two" },
        "files": ["f"], "count": 1,
    });
    assert_eq!(two.status(), json!({ "conflicts": [of_one], "incomplete": null }));
    // From the task's own side.
    let why = two.yard.json(&ada, &["why", "ON-2"]).ok().json();
    let first = &why["forecast"]["conflicts"][0];
    assert_eq!((&first["task"], &first["with"]["task"]), (&json!("ON-2"), &json!("ON-1")));
    let shown = two.yard.json(&ada, &["worktree", "show", "ON-1"]).ok().json();
    assert_eq!(shown["conflicts"], json!([of_one]));
    let listed = two.yard.json(&ada, &["worktree", "list"]).ok().json();
    assert_eq!(listed["worktrees"][0]["conflicts"], json!([]), "the main checkout");
    assert_eq!(listed["worktrees"][2]["conflicts"][0]["with"]["task"], "ON-1");
    let text = |args: &[&str]| two.yard.run(&ada, args).ok().stdout.clone();
    let message = "cannot be merged with ON-2 (onus/ON-2-two, agent:two): both change f";
    let status = text(&["status"]);
    assert!(
        status.contains(&format!("conflicts to come\n  ON-1 (onus/ON-1-one, agent:one)\n    {message}")),
        "{status}"
    );
    assert!(text(&["why", "ON-1"]).contains(message));
    assert!(text(&["worktree", "show", "ON-1"]).contains(message));
    assert!(
        text(&["worktree", "list"]).contains("cannot be merged with ON-1"),
        "{}",
        text(&["worktree", "list"])
    );
    let other = two.yard.add("another");
    let why = two.yard.json(&ada, &["why", &other]).ok().json();
    assert_eq!(why["forecast"], empty);
    // Readers write nothing to the store, and a reader who may not write sees it, too.
    let store = two.yard.repo().join(".git/onus/onus.db");
    let before = fs::read(&store).unwrap();
    fs::remove_file(two.yard.repo().join(".git/onus-forecast")).unwrap();
    two.status();
    assert!(before == fs::read(&store).unwrap());
}

#[test]
fn shared_files_never_conflict() {
    let two = Two::new();
    fs::write(two.yard.repo().join("onus.toml"), "[scope]\nshared = [\"f\"]\n").unwrap();
    two.commits(&two.a, "f", &line("one"));
    two.commits(&two.b, "f", &line("two"));
    let merges = counted(&two.yard, &["status"]);
    assert!(!merges.contains(&"merge-tree".to_owned()), "{merges:?}");
    assert_eq!(two.status()["conflicts"], json!([]));
    // Who looks from a checkout that has not heard of that yet sees it.
    fs::remove_file(two.yard.repo().join("onus.toml")).unwrap();
    assert_eq!(two.status()["conflicts"][0]["files"], json!(["f"]));
}

#[test]
fn what_does_not_meet_is_not_merged_and_what_did_not_move_is_not_asked_again() {
    let yard = Yard::new();
    for n in 0..30 {
        yard.commit(&format!("f{n}"), LINES);
    }
    assert_eq!(counted(&yard, &["status"]), [""; 0], "without a branch git is not asked");
    let works: Vec<PathBuf> = (0..30)
        .map(|n| {
            let (who, id) = (agent(&format!("a{n}")), yard.add(&format!("t{n}")));
            yard.claim(&who, &id)
        })
        .collect();
    for (n, path) in works.iter().enumerate() {
        yard.commit_in(path, &format!("f{n}"), &line("mine"));
    }
    // Thirty branches that do not meet: where they are, what they changed, and no merge.
    assert_eq!(counted(&yard, &["status"]), ["for-each-ref", "merge-base", "log"]);
    assert_eq!(counted(&yard, &["status"]), ["for-each-ref"], "nothing moved");
    assert_eq!(counted(&yard, &["why", "ON-3"]), ["for-each-ref"]);
    // One of them meets another: one merge, and one question which of its files have attributes.
    yard.commit_in(&works[7], "f8", &line("theirs"));
    let moved = ["for-each-ref", "merge-base", "log", "config", "merge-tree", "check-attr"];
    assert_eq!(counted(&yard, &["status"]), moved);
    assert_eq!(counted(&yard, &["status"]), ["for-each-ref"]);
    // The target moves past all of them: all in one log, and only what meets is merged.
    yard.commit("f3", &line("main"));
    let moved = counted(&yard, &["status"]);
    assert_eq!(moved, ["for-each-ref", "merge-base", "log", "config", "merge-tree", "check-attr"], "f3");
    let seen = yard.json(&human("ada"), &["status"]).ok().json()["forecast"].clone();
    let of = |at: usize| (seen["conflicts"][at]["task"].clone(), seen["conflicts"][at]["files"].clone());
    assert_eq!((of(0), of(1)), ((json!("ON-4"), json!(["f3"])), (json!("ON-8"), json!(["f8"]))));
    // A lost memory costs the same again, and no more.
    fs::write(yard.repo().join(".git/onus-forecast"), "nonsense").unwrap();
    let all = counted(&yard, &["status"]);
    assert_eq!(all.iter().filter(|name| *name == "merge-tree").count(), 2, "{all:?}");
}

#[test]
fn an_older_git_is_said_and_holds_nothing_up() {
    let two = Two::new();
    two.commits(&two.a, "f", &line("one"));
    // A git that knows no option of merge-tree.
    let bin = two.yard.folder().join("bin");
    fs::create_dir(&bin).unwrap();
    let real = two.yard.try_git(&two.yard.repo(), &["--exec-path"]).stdout.trim().to_owned();
    let script = format!(
        "#!/bin/sh\nfor word; do [ \"$word\" = merge-tree ] && exit 129; done\nexec {real}/git \"$@\"\n"
    );
    program(&bin.join("git"), script);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    two.yard.run(&human("ada"), &["guard", "uninstall"]).ok();
    two.yard.commit_in(&two.b.2, "f", &line("two"));
    // As git calls it; git itself would put its own folder first.
    let mut hook = two.yard.command_in(&two.b.2, &two.b.0);
    let ran = Ran::of(hook.args(["guard", "hook", "post-commit"]).env("PATH", &path).output().unwrap());
    assert!(ran.code == 0 && !ran.stderr.contains("conflict"), "{ran:?}");
    let status = |args: &[&str]| {
        let mut command = two.yard.command(&human("ada"));
        Ran::of(command.args(args).env("PATH", &path).output().unwrap())
    };
    let said = status(&["status", "--json"]).ok().json()["forecast"].clone();
    assert_eq!(
        said,
        json!({ "conflicts": [], "incomplete": "conflicts are foreseen with git 2.38 or newer" })
    );
    let said = status(&["status"]);
    assert!(
        said.ok().stdout.contains("not every conflict to come is known: conflicts are foreseen"),
        "{said:?}"
    );
    // With a newer one they are.
    assert_eq!(two.status()["conflicts"][0]["files"], json!(["f"]));
}

#[test]
fn one_who_is_killed_meanwhile_leaves_nothing_broken() {
    let two = Two::new();
    two.commits(&two.a, "f", &line("one"));
    two.yard.commit_in(&two.b.2, "f", &line("two"));
    let memory = two.yard.repo().join(".git/onus-forecast");
    for round in 0..12 {
        let _ = fs::remove_file(&memory);
        let mut child = std::process::Command::new(ONUS)
            .args(["status", "--json"])
            .current_dir(two.yard.repo())
            .env("HOME", two.yard.folder().join("home"))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round * 5));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(two.status()["conflicts"][0]["files"], json!(["f"]), "round {round}");
    }
    two.yard.is_at_rest();
}
