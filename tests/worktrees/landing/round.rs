//! A whole round: a plan, three agents that all write into the same log and the same list, one of them killed, gates, reviews, the
//! queue, and the report of it. Nobody resolves a conflict, and what landed is what was checked.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::kit::Yard;
use crate::support::{As, ONUS, agent, eventually, human};

const MODULES: [&str; 3] = ["alpha", "beta", "gamma"];
const GATES: [&str; 5] = ["format", "lint", "review", "tests", "tests-first"];

const CONFIG: &str = r#"[land]
style = "merge"
union = ["LOG.md", "modules.txt"]

[[gate]]
key = "tests-first"
kind = "red-green"
tests = ["tests/**"]
run = ["sh", "check", "tests"]

[[gate]]
key = "lint"
run = ["sh", "check", "lint"]

[[gate]]
key = "format"
stage = "land"
run = ["sh", "check", "format"]

[[gate]]
key = "tests"
stage = "land"
run = ["sh", "check", "tests"]

[[gate]]
key = "review"
kind = "review"
stage = "land"
"#;

/// What a project checks: every module is listed once and works, is valid, and ends no line in a space.
const CHECK: &str = r#"set -eu
case $1 in
tests) for test in tests/*.sh; do sh "$test"; done; for file in src/*.sh; do
  name=$(basename "$file" .sh); test "$(grep -cx "$name" modules.txt)" = 1; done ;;
lint) for file in src/*.sh; do sh -n "$file"; done ;;
format) ! grep -rn ' $' src ;;
esac
"#;

const PLAN: &str = r#"[[task]]
name = "alpha"
title = "Module alpha"

[[task]]
name = "beta"
title = "Module beta"

[[task]]
name = "gamma"
title = "Module gamma"

[[task]]
title = "Tell the world"
deps = ["alpha", "beta", "gamma"]
"#;

/// An agent: claims its task with a worktree, writes the test and commits it, then writes the module and the lines that everybody adds. The
/// one that is to die says when it has work that is not committed, and waits for the end.
const AGENT: &str = r#"set -eu
task=$1 name=$2 part=$3
if [ "$part" = finish ]; then
  onus claim "$task" --worktree --rescue --bind $$ --json > "$HOME/$name.json"
else
  onus claim "$task" --worktree --bind $$ --json > "$HOME/$name.json"
fi
cd "$(dirname "$PWD")/web.onus/"$task-*
if [ "$part" != finish ]; then
  printf 'test "$(sh src/%s.sh)" = %s\n' "$name" "$name" > "tests/$name.sh"
  git add tests && git commit --quiet -m "A test of $name"
  if onus gate run tests-first; then echo 'passed without a module' >&2; exit 1; fi
  printf 'echo %s\n' "$name" > "src/$name.sh"
fi
if [ "$part" = die ]; then : > "$HOME/$name.ready"; exec sleep 600; fi
echo "- $name is there" >> LOG.md
echo "$name" >> modules.txt
git add --all && git commit --quiet -m "Module $name"
onus gate run
onus submit -m "$name works"
"#;

/// An agent at work, in a process group of its own.
struct AtWork(Child);

impl AtWork {
    fn new(yard: &Yard, who: &As, args: &[&str]) -> AtWork {
        let log = std::fs::File::create(yard.folder().join(format!("{}.log", who.instance))).unwrap();
        let command = yard.command(who);
        let script = yard.folder().join("agent.sh");
        let mut shell = Command::new("sh");
        shell.arg(script).args(args).current_dir(yard.repo()).env_clear();
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let bin = Path::new(ONUS).parent().unwrap();
        shell.env("PATH", Yard::path_with(bin)).stdin(Stdio::null());
        shell.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        AtWork(shell.spawn().unwrap())
    }

    #[track_caller]
    fn ends_well(mut self, yard: &Yard, who: &As) {
        let status = self.0.wait().unwrap();
        let log = std::fs::read_to_string(yard.folder().join(format!("{}.log", who.instance)));
        assert!(status.success(), "{}: {}", who.actor, log.unwrap_or_default());
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn yard() -> Yard {
    let yard = Yard::landing("");
    std::fs::create_dir_all(yard.repo().join("tests")).unwrap();
    std::fs::create_dir_all(yard.repo().join("src")).unwrap();
    yard.commit("src/base.sh", "echo base\n");
    yard.commit("tests/base.sh", "test \"$(sh src/base.sh)\" = base\n");
    yard.commit("modules.txt", "base\n");
    yard.commit("check", CHECK);
    yard.commit("onus.toml", CONFIG);
    yard.approve();
    std::fs::write(yard.folder().join("agent.sh"), AGENT).unwrap();
    std::fs::write(yard.folder().join("plan.toml"), PLAN).unwrap();
    yard
}

/// Whether what a commit contains passes everything that is run.
fn passes(yard: &Yard, commit: &str) -> bool {
    let folder = yard.folder().join(format!("look-{commit}"));
    yard.git(&["worktree", "add", "--quiet", "--detach", folder.to_str().unwrap(), commit]);
    let check = |what: &str| {
        Command::new("sh").args(["check", what]).current_dir(&folder).status().unwrap().success()
    };
    let passed = ["tests", "lint", "format"].iter().all(|what| check(what));
    yard.git(&["worktree", "remove", "--force", folder.to_str().unwrap()]);
    passed
}

fn names(list: &Value, field: &str) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|row| row[field].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_round_costs_nobody_a_conflict_and_lands_what_was_checked() {
    let yard = yard();
    let base = yard.at("main");
    yard.run(&human("ada"), &["add", "--file", yard.folder().join("plan.toml").to_str().unwrap()]).ok();
    let ids = ["ON-1", "ON-2", "ON-3"];

    // Three at once; the third is killed in the middle of its work.
    let workers: Vec<As> = MODULES.iter().map(|name| agent(name)).collect();
    let parts = ["all", "all", "die"];
    let started: Vec<AtWork> =
        (0..3).map(|n| AtWork::new(&yard, &workers[n], &[ids[n], MODULES[n], parts[n]])).collect();
    eventually("work that is not committed", || {
        yard.folder().join("home/gamma.ready").exists().then_some(())
    });
    let mut started = started.into_iter();
    let (one, two, dying) = (started.next().unwrap(), started.next().unwrap(), started.next().unwrap());
    dying.kill();
    one.ends_well(&yard, &workers[0]);
    two.ends_well(&yard, &workers[1]);
    // Another takes it over, and goes on with what was left.
    let heir = agent("heir");
    AtWork::new(&yard, &heir, &[ids[2], MODULES[2], "finish"]).ends_well(&yard, &heir);
    let kept = yard.git(&["ls-tree", "-r", "--name-only", "refs/onus/rescue/ON-3/1"]);
    assert!(kept.contains("src/gamma.sh"), "{kept}");

    let status = yard.json(&human("ada"), &["status"]).ok().json();
    assert_eq!(status["forecast"]["conflicts"], serde_json::json!([]), "none is to come");

    // Nothing lands unreviewed, and nobody reviews itself.
    assert_eq!(yard.json(&agent("lander"), &["land", "ON-1"]).refused(6)["code"], "not_allowed");
    for (id, who) in [("ON-1", &workers[0]), ("ON-3", &heir), ("ON-3", &workers[2])] {
        let refused = yard.json(who, &["gate", "pass", id, "review"]);
        assert_ne!(refused.code, 0, "{}: {refused:?}", who.actor);
    }
    for id in ids {
        yard.run(&agent("reviewer"), &["gate", "pass", id, "review", "-m", "read it"]).ok();
        assert_eq!(yard.json(&agent("lander"), &["land", id]).refused(6)["code"], "not_allowed");
        yard.run(&agent("reviewer"), &["approve", id]).ok();
    }
    assert_eq!(yard.json(&heir, &["claim", "ON-4"]).refused(6)["code"], "unmet", "nothing landed yet");
    let waiting = yard.json(&human("ada"), &["status"]).ok().json();
    assert_eq!(names(&waiting["to_land"], "id"), ids.map(str::to_owned).into());
    let landed = yard.json(&agent("lander"), &["land", "--queue"]).ok().json();
    assert_eq!(names(&landed["landed"], "task"), ids.map(str::to_owned).into());
    yard.run(&heir, &["claim", "ON-4"]).ok();

    // The report agrees with the repository.
    let report = yard.json(&human("ada"), &["report", "round"]).ok().json();
    assert_eq!((&report["landed"], &report["conflict_lines"]), (&3.into(), &0.into()), "{report:#}");
    assert!(
        report["resolved_lines"].as_u64().unwrap() > 0,
        "they did write into the same places: {report:#}"
    );
    let rows = report["rows"].as_array().unwrap();
    for (row, name) in rows.iter().zip(MODULES) {
        let holder = if name == "gamma" { "agent:heir".to_owned() } else { format!("agent:{name}") };
        assert_eq!(row["actor"], holder.as_str(), "{row:#}");
        assert_eq!(row["leases"], if name == "gamma" { 2 } else { 1 }, "{row:#}");
        assert_eq!(names(&row["gates"], "gate"), GATES.map(str::to_owned).into(), "{row:#}");
        assert!(row["gates"].as_array().unwrap().iter().all(|gate| gate["passed"] == true), "{row:#}");
        let commit = row["landed"].as_str().unwrap();
        yard.git(&["merge-base", "--is-ancestor", commit, "main"]);
        for (file, line) in [("LOG.md", format!("- {name} is there")), ("modules.txt", name.to_owned())] {
            let text = yard.in_main(file).unwrap();
            assert_eq!(text.lines().filter(|known| **known == line).count(), 1, "{file}: {text}");
        }
        assert_eq!(yard.in_main(&format!("src/{name}.sh")).unwrap(), format!("echo {name}\n"));
        let merges =
            yard.git(&["log", "--format=%s", "--grep", &format!("Module {name}"), "--no-merges", "main"]);
        assert_eq!(merges.lines().count(), 1, "{merges}");
        assert_eq!(
            yard.kinds(row["task"].as_str().unwrap()).iter().filter(|kind| *kind == "task.landed").count(),
            1
        );
    }
    let values = yard.git(&["reflog", "show", "--format=%H", "main"]);
    let values: Vec<&str> = values.lines().take_while(|value| **value != base).collect();
    assert!(!values.is_empty());
    for value in values {
        assert!(passes(&yard, value), "{value} was the target and fails its gates");
    }
    yard.has_landed_in_peace();
}
