//! The server is gone for good, and its synchronous standby takes over: what was acknowledged is there, under the same tokens.

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use onus_store::conformance::server::{Server, eventually, fresh_name};

use crate::caller::{Company, play};
use crate::history::{UNKNOWN, Verb};
use crate::support::{Sandbox, human};
use crate::tools::{Dice, fresh_seed, wall_ms};
use crate::{Tally, alone, judge, met, run, told};

/// How long the callers play on each of the two.
const TURN: Duration = Duration::from_secs(4);

/// For a while the standby does not hear of what is committed, and never will: the server is gone.
fn lose_behind_its_back(server: &Server) {
    let sender = server.client().unwrap().query_one("SELECT pid FROM pg_stat_replication", &[]).unwrap();
    let sender = Pid::from_raw(sender.get(0)).unwrap();
    kill_process(sender, Signal::STOP).unwrap();
    thread::sleep(Duration::from_millis(700));
    server.control(&["-W", "-m", "immediate", "stop"]);
    // It must not say the rest when it goes on in order to end.
    kill_process(sender, Signal::KILL).unwrap();
    eventually("the server is gone", || !server.is_up());
}

#[test]
fn what_was_acknowledged_outlives_the_server_if_its_standby_is_synchronous() {
    let _alone = alone();
    let (seed, tally) = (fresh_seed(), Tally::default());
    let first = Server::start();
    let second = first.standby();
    first.set("synchronous_standby_names = 'standby'\nsynchronous_commit = on");
    first.control(&["reload"]);
    eventually("the standby is synchronous", || {
        let sql = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
        !first.client().unwrap().query(sql, &[]).unwrap().is_empty()
    });
    let one = format!(":{}/", first.port);
    let both = format!(":{},127.0.0.1:{}/", first.port, second.port);
    let sandbox = Sandbox::on_server(&first.database().replace(&one, &both), &fresh_name());
    sandbox.run(&human("founder"), &["init", "--prefix", "ON"]).ok();
    let company = Company { callers: 16, tasks: 8, seats: 3, ttl_ms: 100..1_500, seed };
    let (until, gone_ms) = (Instant::now() + TURN * 2, AtomicI64::new(0));
    let history = play(
        &company,
        &sandbox,
        |_| Instant::now() < until,
        || |command, dice: &mut Dice| run(command, dice, &tally),
        || {
            thread::sleep(TURN);
            lose_behind_its_back(&first);
            gone_ms.store(wall_ms(), Ordering::Relaxed);
            second.control(&["-w", "promote"]);
        },
    );
    let gone_ms = gone_ms.into_inner();
    let granted = |later: bool| {
        let grants = history.deeds.iter().filter(|deed| deed.code == 0 && deed.verb == Verb::Claim);
        grants.filter(|deed| (deed.start_ms > gone_ms) == later).count()
    };
    let (before, after) = (granted(false), granted(true));
    let also = format!(", claims granted: {before} before, {after} after");
    judge(&history, (seed, &tally), &[UNKNOWN, 0, 4, 5, 6, 8], &also);
    met(
        seed,
        &[
            ("granted before", before),
            ("granted after", after),
            ("held", told(&history, 4)),
            ("unavailable", tally.unavailable.into_inner()),
        ],
    );
}
