//! The same on a PostgreSQL server, whose connections are cut and which is crashed meanwhile.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use onus_store::conformance::proxy::{Cut, Proxy, is_commit};
use onus_store::conformance::server::{Server, fresh_name};

use crate::caller::{Company, play};
use crate::history::UNKNOWN;
use crate::support::{Sandbox, human};
use crate::tools::{Dice, fresh_seed};
use crate::{Tally, alone, count, duration, judge, met, run, told, told_of_seats};

/// What was done to connections and to the server.
#[derive(Debug, Default)]
struct Harm {
    /// Connections that the server ended.
    ended: AtomicUsize,
    /// Connections that were cut on the way, at any moment.
    cut: AtomicUsize,
    /// The same after a commit had arrived, and before its answer.
    cut_at_commit: AtomicUsize,
    /// Commits that had not arrived when the server crashed: their numbers are given to others.
    lost_at_crash: AtomicUsize,
    restarts: AtomicUsize,
}

/// A way to the server on which connections are cut now and then.
fn bad_line(to: u16, seed: u64, harm: &Arc<Harm>, is_crashing: &Arc<AtomicBool>) -> Proxy {
    let (harm, is_crashing, rolls) = (Arc::clone(harm), Arc::clone(is_crashing), AtomicUsize::new(0));
    Proxy::start(to, move |message| {
        let mut dice = Dice::new(seed.wrapping_add(rolls.fetch_add(1, Ordering::Relaxed) as u64));
        match is_commit(message) {
            true if is_crashing.load(Ordering::SeqCst) => {
                count(&harm.lost_at_crash);
                Cut::Before(Duration::from_secs(1))
            }
            true if dice.one_in(5) => {
                count(&harm.cut_at_commit);
                Cut::After(Duration::from_millis(dice.below(30)))
            }
            false if dice.one_in(500) => {
                count(&harm.cut);
                Cut::Before(Duration::ZERO)
            }
            _ => Cut::Not,
        }
    })
}

/// Ends connections, and crashes the server now and then, until the time is over.
fn trouble(server: &Server, until: Instant, mut dice: Dice, harm: &Harm, is_crashing: &AtomicBool) {
    let mut restart_at = Instant::now() + Duration::from_secs(1);
    let mut client = server.client().unwrap();
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(50 + dice.below(250)));
        if Instant::now() > restart_at {
            is_crashing.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50 + dice.below(100)));
            server.control(&["-w", "-t", "60", "-m", "immediate", "restart"]);
            is_crashing.store(false, Ordering::SeqCst);
            count(&harm.restarts);
            client = server.client().unwrap();
            restart_at = Instant::now() + Duration::from_millis(1_500 + dice.below(1_500));
        }
        let ended = client.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname LIKE 'd%' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1",
            &[],
        );
        harm.ended.fetch_add(ended.unwrap().len(), Ordering::Relaxed);
    }
}

#[test]
fn on_a_server_that_crashes_and_by_lines_that_break_the_same_holds() {
    let _alone = alone();
    let (seed, tally, harm) = (fresh_seed(), Tally::default(), Arc::new(Harm::default()));
    // A crash is soon over: its files need not be synced one by one.
    let server = Server::start_with("recovery_init_sync_method = syncfs\n");
    let (address, project) = (server.database(), fresh_name());
    let is_crashing = Arc::new(AtomicBool::new(false));
    let line = bad_line(server.port, seed, &harm, &is_crashing);
    let direct = Sandbox::on_server(&address, &project);
    direct.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    let company = Company { callers: 32, tasks: 12, seats: 3, ttl_ms: 100..1_500, seed };
    let by_line = address.replace(&format!(":{}/", server.port), &format!(":{}/", line.port));
    let until = Instant::now() + duration();
    let history = play(
        &company,
        &direct,
        |_| Instant::now() < until,
        || {
            |mut command: Command, dice: &mut Dice| {
                command.env("ONUS_STORE", &by_line).env("ONUS_PROJECT", &project);
                run(command, dice, &tally)
            }
        },
        || trouble(&server, until, Dice::new(seed ^ 1), &harm, &is_crashing),
    );
    judge(&history, (seed, &tally), &[UNKNOWN, 0, 4, 5, 6, 8], &format!(", {harm:?}"));
    met(
        seed,
        &[
            ("acknowledged", told(&history, 0)),
            ("held", told(&history, 4)),
            ("unknown", told(&history, UNKNOWN)),
            ("seats taken", told_of_seats(&history, 0)),
            ("seats held", told_of_seats(&history, 4)),
            ("unavailable", tally.unavailable.into_inner()),
            ("killed", tally.killed.into_inner()),
            ("stopped", tally.stopped.into_inner()),
            ("ended", harm.ended.load(Ordering::Relaxed)),
            ("cut", harm.cut.load(Ordering::Relaxed)),
            ("cut at commit", harm.cut_at_commit.load(Ordering::Relaxed)),
            ("restarts", harm.restarts.load(Ordering::Relaxed)),
        ],
    );
}
