//! 32 processes take one seat: one has it, whatever they do; and it is the next one's the moment its process is killed.

use std::io::{Read as _, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{As, Ran, Sandbox, agent, eventually};
use crate::tools::{Started, under};

const TAKERS: usize = 32;
const ROUNDS: usize = 12;

/// A waiter that had to wait for a time instead of the death would take the lease's hour.
const AT_ONCE: Duration = Duration::from_secs(5);

fn taker(number: usize) -> As {
    agent(&format!("taker{number}"))
}

fn take(sandbox: &Sandbox, number: usize, rest: &[&str]) -> Command {
    let mut command = sandbox.command(&taker(number));
    command.env("ONUS_STORE_WAIT", "60s");
    command.args(["seat", "take", "land:main", "--json"]).args(rest);
    command
}

/// All begin at one shot; the first round has to create the seat, too.
#[test]
fn of_32_that_take_a_seat_at_one_shot_one_has_it() {
    let sandbox = Sandbox::new();
    let mut highest = 0;
    for _ in 0..ROUNDS {
        let (line, mut gun) = std::io::pipe().unwrap();
        let mut started: Vec<Started> = (0..TAKERS)
            .map(|number| {
                let waiting = ["sh", "-c", "echo; read _; exec \"$@\" </dev/null", "taker"];
                let mut command = under(&waiting, &take(&sandbox, number, &[]));
                Started::answering(command.stdin(line.try_clone().unwrap()))
            })
            .collect();
        for taker in &mut started {
            // Its empty line: it stands at the start.
            taker.child().stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }
        gun.write_all(&[b'\n'; TAKERS]).unwrap();
        let answers: Vec<Ran> = started.into_iter().map(|taker| Ran::of(taker.output())).collect();
        let winners: Vec<usize> = (0..TAKERS).filter(|number| answers[*number].code == 0).collect();
        assert_eq!(winners.len(), 1, "the winners are {winners:?}: {answers:?}");
        let won = answers[winners[0]].json();
        let token = won["lease"]["token"].as_u64().unwrap();
        assert!(token > highest, "token {token} after {highest}");
        for (number, answer) in answers.iter().enumerate().filter(|(number, _)| *number != winners[0]) {
            let error = answer.refused(4);
            assert_eq!((&error["code"], &error["seat"]), (&"held".into(), &"land:main".into()), "{number}");
            assert_eq!(error["holder"]["token"], token);
        }
        // The old token is refused everywhere.
        if highest > 0 {
            for verb in ["renew", "release", "check"] {
                let old = highest.to_string();
                let who = taker(winners[0]);
                sandbox.json(&who, &["seat", verb, "land:main", "--token", &old]).refused(5);
            }
        }
        highest = token;
        sandbox.run(&taker(winners[0]), &["seat", "release", "land:main"]).ok();
    }
    let count = |kind: &str| sandbox.events().iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((count("seat.created"), count("lease.acquired")), (1, ROUNDS));
    assert_eq!(count("lease.released"), ROUNDS);
    sandbox.is_whole();
}

/// kill -9 of the process that a seat is bound to: who waits for it has it at once, and one of them only.
#[test]
fn a_seat_is_taken_over_the_moment_its_process_is_killed() {
    let sandbox = Sandbox::new();
    let mut holder = Started::answering(Command::new("sleep").arg("600"));
    let pid = holder.id().to_string();
    let first = agent("first");
    sandbox.json(&first, &["seat", "take", "land:main", "--bind", &pid]).ok();
    let mut waiters: Vec<Started> =
        (0..4).map(|number| Started::answering(&mut take(&sandbox, number, &["--wait", "5m"]))).collect();
    // Asleep: each has been refused, and holds the end of that process in its hands.
    for waiter in &waiters {
        eventually("it to attend to the process", || {
            let files = std::fs::read_dir(format!("/proc/{}/fd", waiter.id())).ok()?;
            let mut links = files.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
            links.any(|link| link.to_string_lossy().contains("pidfd")).then_some(())
        });
    }
    let killed = Instant::now();
    holder.signal(Signal::KILL);
    // It is dead only when it has been waited for: until then it is a zombie, which holds nothing.
    holder.child().wait().unwrap();
    let place = eventually("one of them to have it", || {
        waiters.iter_mut().position(|waiter| waiter.child().try_wait().unwrap().is_some())
    });
    assert!(killed.elapsed() < AT_ONCE, "it took {:?}", killed.elapsed());
    let won = Ran::of(waiters.swap_remove(place).output()).ok().json();
    assert_eq!((&won["takeover"], &won["lease"]["token"]), (&true.into(), &2.into()));
    sandbox.json(&first, &["seat", "check", "land:main"]).refused(5);
    sandbox.json(&first, &["seat", "release", "land:main"]).refused(5);
    for waiter in &mut waiters {
        assert!(waiter.child().try_wait().unwrap().is_none(), "a second one has it");
        waiter.signal(Signal::KILL);
        let _ = waiter.child().wait();
    }
    sandbox.is_whole();
}
