//! kill -9 at random points of a landing, and many workers at once.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::killed::kills;
use crate::kit::Yard;
use crate::support::{agent, human};

const CHECKED: &str = "[land]\nstyle = \"merge\"\nunion = [\"LOG.md\"]\n\n[[gate]]\nkey = \"whole\"\nstage = \"land\"\n\
    run = [\"sh\", \"check.sh\"]\n";

/// Fails unless each line of the log names a file that is there.
const CHECK: &str = "set -e\ngrep '^- ' LOG.md | while read -r _ file; do test -e \"$file\"; done\n";

fn yard() -> Yard {
    let yard = Yard::landing(CHECKED);
    yard.commit("check.sh", CHECK);
    yard
}

#[test]
fn who_is_killed_while_landing_loses_nothing_and_lands_nothing_twice() {
    let yard = yard();
    let warm = Instant::now();
    yard.land(&yard.done(&agent("warm"), "warm", "warm.txt", "x\n"));
    let whole = warm.elapsed();
    let (mut interrupted, mut seed) = (0, 11_u64);
    for n in 0..kills() {
        let (who, id) = (agent(&format!("k{n}")), yard.add(&format!("kill {n}")));
        let path = yard.claim(&who, &id);
        yard.append(&path, "LOG.md", &format!("- {n}.txt"));
        yard.commit_in(&path, &format!("{n}.txt"), "x\n");
        yard.finish(&who, &id);
        let args = ["land", id.as_str()];
        let mut child = yard
            .command(&agent("lander"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros(
            u64::try_from(whole.as_micros()).unwrap() * (seed >> 33) / (1 << 31),
        ));
        interrupted += u64::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        let fixed = yard.json(&human("ada"), &["doctor", "--fix"]);
        assert_eq!(fixed.code, 0, "{fixed:?}");
        assert_eq!(yard.intents(), Vec::<String>::new());
        yard.is_at_rest();
        // It is in the target and recorded, or neither; then it lands.
        let (task, in_main) = (yard.show(&id), yard.in_main(&format!("{n}.txt")));
        assert_eq!(task["landed"].is_string(), in_main.is_some(), "{task:#}");
        if in_main.is_none() {
            yard.land(&id);
        }
        let log = yard.in_main("LOG.md").unwrap();
        assert_eq!(log.lines().filter(|line| *line == format!("- {n}.txt")).count(), 1, "{log}");
        assert_eq!(yard.kinds(&id).iter().filter(|kind| *kind == "task.landed").count(), 1);
        assert_eq!(yard.git(&["status", "--porcelain"]), "");
    }
    assert!(interrupted > 0, "no kill hit anything");
    yard.has_landed_in_peace();
}

/// How many workers, and tasks for each; `ONUS_WORKERS=8` for a long run.
fn workers() -> usize {
    std::env::var("ONUS_WORKERS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

#[test]
fn workers_that_land_at_once_and_are_killed_get_every_change_in_exactly_once() {
    const EACH: usize = 3;
    let yard = yard();
    let workers = workers();
    thread::scope(|scope| {
        for worker in 0..workers {
            let yard = &yard;
            scope.spawn(move || {
                let who = agent(&format!("w{worker}"));
                for n in 0..EACH {
                    let file = format!("{worker}-{n}.txt");
                    let id = yard.add(&file);
                    let path = yard.claim(&who, &id);
                    yard.append(&path, "LOG.md", &format!("- {file}"));
                    yard.commit_in(&path, &file, "x\n");
                    let mut args = vec!["land", &id, "-m", "did it", "--wait", "5m"];
                    if n % 2 == 0 {
                        yard.finish(&who, &id);
                        args = vec!["land", &id, "--wait", "5m"];
                    }
                    // Now and then it is killed in the middle, and tries again.
                    if (worker + n) % 2 == 0 {
                        let mut child = yard.command(&who);
                        let child = child.args(&args).stdout(Stdio::null()).stderr(Stdio::null());
                        let mut child = child.spawn().unwrap();
                        thread::sleep(Duration::from_millis(40 * (worker as u64 + 1)));
                        child.kill().unwrap();
                        child.wait().unwrap();
                    }
                    let landed = |yard: &Yard| yard.show(&id)["landed"].is_string();
                    for _ in 0..20 {
                        let ran = yard.run(&who, &args);
                        if ran.code == 0 || landed(yard) {
                            break;
                        }
                        assert!(matches!(ran.code, 3..=6), "{ran:?}");
                    }
                    assert!(landed(yard), "{id} never landed");
                }
            });
        }
    });
    yard.json(&human("ada"), &["doctor", "--fix"]).ok();
    let log = yard.in_main("LOG.md").unwrap();
    for worker in 0..workers {
        for n in 0..EACH {
            let line = format!("- {worker}-{n}.txt");
            assert_eq!(log.lines().filter(|found| *found == line).count(), 1, "{line}: {log}");
        }
    }
    // Every value that the target took passes its gate.
    let scratch = yard.folder().join("scratch");
    for commit in yard.history() {
        drop(std::fs::remove_dir_all(&scratch));
        yard.git(&["worktree", "add", "--quiet", "--detach", scratch.to_str().unwrap(), &commit]);
        if scratch.join("check.sh").exists() {
            let checked =
                std::process::Command::new("sh").arg("check.sh").current_dir(&scratch).status().unwrap();
            assert!(checked.success(), "{commit}");
        }
        yard.git(&["worktree", "remove", "--force", scratch.to_str().unwrap()]);
    }
    yard.has_landed_in_peace();
}
