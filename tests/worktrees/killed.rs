//! kill -9 at random points.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kit::Yard;
use crate::support::{agent, human};

/// How often; `ONUS_KILLS=200` for a long run (`scripts/long`).
pub(crate) fn kills() -> u64 {
    std::env::var("ONUS_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

#[test]
fn who_is_killed_while_making_or_removing_a_worktree_loses_nothing() {
    let yard = Yard::new();
    for n in 0..40 {
        std::fs::write(yard.repo().join(format!("f{n}.txt")), "text\n".repeat(200)).unwrap();
    }
    yard.git(&["add", "."]);
    yard.git(&["commit", "--quiet", "-m", "files"]);
    // How long it takes when nobody is killed.
    let (warm, id) = (Instant::now(), yard.add("warm"));
    let path = yard.claim(&agent("warm"), &id);
    yard.commit_in(&path, "work.txt", "kept\n");
    let whole = warm.elapsed();
    let (mut interrupted, mut seed) = (0, 7_u64);
    for n in 0..kills() {
        let (who, id) = (agent(&format!("k{n}")), yard.add(&format!("kill {n}")));
        let remove = n % 3 == 2;
        let path = yard.root().join(format!("{id}-kill-{n}"));
        if remove {
            yard.claim(&who, &id);
            yard.run(&who, &["release", &id]).ok();
        }
        let args = if remove { ["worktree", "remove", &id] } else { ["worktree", "add", &id] };
        let mut child =
            yard.command(&who).args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(
            u64::try_from(whole.as_micros()).unwrap() * (seed >> 33) / (1 << 31),
        ));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = yard.json(&human("ada"), &["doctor"]);
        let named = found.stdout.contains("was interrupted");
        assert_eq!(found.code, if named { 6 } else { 0 }, "{found:?}");
        interrupted += u64::from(named);
        let fixed = yard.json(&human("ada"), &["doctor", "--fix"]);
        assert_eq!(fixed.code, 0, "{fixed:?}");
        yard.is_at_rest();
        // It is there with its branch, or not at all; and the next one gets it whole.
        let task = yard.show(&id);
        if !remove {
            assert_eq!(path.exists(), task["branch"].is_string(), "{task:#}");
            assert_eq!(yard.branches().contains(&format!("onus/{id}-kill-{n}")), path.exists(), "{n}");
        }
        yard.claim(&who, &id);
        assert!(path.join("f39.txt").exists() && path.join("a.txt").exists());
        assert_eq!(yard.git_in(&path, &["status", "--porcelain"]), "");
        yard.run(&who, &["release", &id]).ok();
        yard.json(&human("ada"), &["worktree", "remove", &id]).ok();
    }
    assert_eq!(std::fs::read_to_string(path.join("work.txt")).unwrap(), "kept\n");
    assert!(interrupted > 0, "no kill hit anything: {} of {}", interrupted, kills());
}
