//! Hours at the command line: days in time zones, also where the system knows none; formats; sums against an independent
//! account of an export; corrections.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onus_core::actor::KnownBy;
use onus_core::command::{Act, Command as Asked, NewTask, Terms};
use onus_core::policy::Policy;
use onus_core::time::{ClockDomain, HOUR_MS, MINUTE_MS, Moment, parse_rfc3339};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Engine, Identity, Request};
use onus_store::{Access, SqliteStore};
use serde_json::{Value, json};

use crate::support::{Ran, Sandbox, agent, fed, human};

/// A store whose clock the test turns. The command line reads it afterwards.
struct Past {
    engine: Engine<SqliteStore>,
    wall_ms: Arc<Mutex<i64>>,
}

impl Past {
    fn of(sandbox: &Sandbox) -> Past {
        let mut store =
            SqliteStore::open(&sandbox.database(), Access::Write, Duration::from_secs(10)).unwrap();
        let wall_ms = Arc::new(Mutex::new(0));
        let clock = Arc::clone(&wall_ms);
        store.set_clock(Box::new(move || {
            let now = *clock.lock().unwrap();
            Moment::new(now, now, ClockDomain::new("machine", "boot", "time"))
        }));
        Past { engine: Engine::new(store, Policy::default()), wall_ms }
    }

    fn run(&mut self, actor: &str, command: Asked) -> Answer {
        let actor: onus_core::actor::ActorName = actor.parse().unwrap();
        let is_person = actor.is_person();
        let identity = Identity {
            actor,
            instance: if is_person { "person" } else { "1" }.parse().unwrap(),
            known_by: if is_person { KnownBy::Person } else { KnownBy::Name },
            token: None,
            ancestry: Ancestry::Known(Vec::new()),
        };
        self.engine.run(&Request { identity, command, key: None }).unwrap().answer
    }

    /// A task on which somebody works from a moment on, without a pause.
    fn work(&mut self, actor: &str, title: &str, from: &str, ms: i64) {
        *self.wall_ms.lock().unwrap() = parse_rfc3339(from).unwrap();
        let Answer::Task(task) = self.run(actor, Asked::Add(NewTask::titled(title))) else { panic!() };
        let on = |act| Asked::OnTask { task: Some(task.id.parse().unwrap()), act, force: None };
        let terms = Terms { ttl_ms: Some(0), reason: Some("long".into()), ..Terms::default() };
        self.run(actor, on(Act::Claim(terms)));
        let mut left_ms = ms;
        while left_ms > 0 {
            let step_ms = left_ms.min(20 * MINUTE_MS);
            *self.wall_ms.lock().unwrap() += step_ms;
            left_ms -= step_ms;
            self.run(actor, on(Act::Renew { ttl_ms: None, progress: false }));
        }
        self.run(
            actor,
            on(Act::Move { verb: Verb::Done, message: Some("done".into()), uncommitted: None, demand: None }),
        );
    }
}

/// Runs onus where the system has no zone data.
fn without_zones(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let onus = sandbox.command(&human("ann"));
    let mut command = Command::new("unshare");
    command
        .args([
            flags,
            "sh",
            "-c",
            "mount -t tmpfs none /usr/share/zoneinfo && test -z \"$(ls /usr/share/zoneinfo)\" && exec \"$@\"",
            "sh",
        ])
        .arg(onus.get_program())
        .args(args)
        .env_clear()
        .current_dir(onus.get_current_dir().unwrap());
    for (name, value) in onus.get_envs() {
        value.map(|value| command.env(name, value));
    }
    Ran::of(command.output().unwrap())
}

fn days(answer: &Value) -> Vec<(String, f64)> {
    let rows = answer["rows"].as_array().unwrap().iter();
    rows.map(|row| (row["day"].as_str().unwrap().to_owned(), row["seconds"].as_f64().unwrap() / 60.0))
        .collect()
}

/// Zone, start, minutes, and the minutes on each day.
type Split = (&'static str, &'static str, i64, &'static [(&'static str, f64)]);

#[test]
fn a_session_is_split_where_days_end_in_each_zone_with_and_without_zone_data() {
    let table: &[Split] = &[
        // Clocks go forward at 2:00: the day has 23 hours.
        ("Europe/Berlin", "2026-03-28T22:30:00.000Z", 240, &[("2026-03-28", 30.0), ("2026-03-29", 210.0)]),
        ("Europe/Berlin", "2026-03-29T20:00:00.000Z", 180, &[("2026-03-29", 120.0), ("2026-03-30", 60.0)]),
        // Clocks go back: the day has 25 hours, all of them worked.
        (
            "America/New_York",
            "2026-11-01T03:30:00.000Z",
            26 * 60,
            &[("2026-10-31", 30.0), ("2026-11-01", 1_500.0), ("2026-11-02", 30.0)],
        ),
        // Midnight is at a quarter past six.
        ("Asia/Kathmandu", "2026-06-10T18:00:00.000Z", 60, &[("2026-06-10", 15.0), ("2026-06-11", 45.0)]),
        // By half an hour, at two in the morning.
        (
            "Australia/Lord_Howe",
            "2026-10-03T13:00:00.000Z",
            120,
            &[("2026-10-03", 30.0), ("2026-10-04", 90.0)],
        ),
        // The day begins at one: there is no midnight.
        ("America/Havana", "2026-03-08T04:30:00.000Z", 60, &[("2026-03-07", 30.0), ("2026-03-08", 30.0)]),
        (
            "UTC",
            "2026-12-31T23:59:59.999Z",
            1,
            &[("2026-12-31", 0.001 / 60.0), ("2027-01-01", 59.999 / 60.0)],
        ),
    ];
    for (zone, start, minutes, expected) in table {
        let sandbox = Sandbox::new();
        Past::of(&sandbox).work("human:ann", "t", start, minutes * MINUTE_MS);
        let args = [
            "timesheet",
            "--by",
            "day",
            "--since",
            "2026-01-01",
            "--until",
            "2027-12-31",
            "--zone",
            zone,
            "--json",
        ];
        let expected: Vec<(String, f64)> =
            expected.iter().map(|(day, minutes)| ((*day).to_owned(), *minutes)).collect();
        let here = sandbox.run(&human("ann"), &args).ok().json();
        assert_eq!(days(&here), expected, "{zone} {start}");
        let bare = without_zones(&sandbox, &args).ok().json();
        assert_eq!(bare, here, "{zone} where there is no zone data");
        // The environment's zone counts where none is named.
        let named = Command::new(sandbox.command(&human("ann")).get_program())
            .args(&args[..args.len() - 3])
            .arg("--json")
            .env_clear()
            .envs(sandbox.command(&human("ann")).get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("TZ", zone)
            .current_dir(sandbox.path())
            .output()
            .unwrap();
        assert_eq!(days(&Ran::of(named).ok().json()), expected, "TZ={zone}");
    }
}

/// Hours by actor and task, by a script that knows nothing of ours.
fn by_script(sandbox: &Sandbox) -> Vec<(String, String, i64)> {
    let export = sandbox.run(&human("ann"), &["ledger", "export"]).ok().stdout.clone();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/record/hours.jq");
    let sums = fed(Command::new("jq").args(["-s", "-c", "-f", script]), export).ok().json();
    let mut sums: Vec<_> = sums
        .as_array()
        .unwrap()
        .iter()
        .map(|sum| {
            let text = |name: &str| sum[name].as_str().unwrap().to_owned();
            (
                text("actor"),
                sandbox.show(&text("task"))["id"].as_str().unwrap().to_owned(),
                sum["ms"].as_i64().unwrap(),
            )
        })
        .filter(|(_, _, ms)| *ms != 0)
        .collect();
    sums.sort();
    sums
}

fn by_timesheet(sandbox: &Sandbox) -> Vec<(String, String, i64)> {
    let args = [
        "timesheet",
        "--by",
        "actor,task",
        "--since",
        "2026-01-01",
        "--until",
        "2026-12-31",
        "--zone",
        "UTC",
    ];
    let sheet = sandbox.json(&human("ann"), &args).ok().json();
    let rows = sheet["rows"].as_array().unwrap().iter();
    let mut sums: Vec<_> = rows
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            #[allow(clippy::cast_possible_truncation, reason = "milliseconds fit")]
            let ms = (row["seconds"].as_f64().unwrap() * 1_000.0).round() as i64;
            (text("actor"), text("task"), ms)
        })
        .filter(|(_, _, ms)| *ms != 0)
        .collect();
    let total: i64 = sums.iter().map(|(_, _, ms)| ms).sum();
    #[allow(clippy::cast_possible_truncation, reason = "milliseconds fit")]
    let said = (sheet["total_seconds"].as_f64().unwrap() * 1_000.0).round() as i64;
    assert_eq!(said, total, "the total is the sum of the rows");
    sums.sort();
    sums
}

/// Two people and an agent in one week.
fn a_week(sandbox: &Sandbox) {
    let mut past = Past::of(sandbox);
    past.work("human:ann", "Fix login", "2026-10-05T09:00:00.000Z", 2 * HOUR_MS);
    past.work("agent:bot", "=HYPERLINK(\"http://x\",\"y\")", "2026-10-05T22:00:00.000Z", 4 * HOUR_MS + 7);
    past.work("human:bob", "Paginate | *orders*", "2026-10-06T10:00:00.000Z", 90 * MINUTE_MS);
    past.work("human:ann", "Review, at last", "2026-10-07T08:00:00.000Z", 30 * MINUTE_MS);
}

#[test]
fn every_sum_is_what_an_independent_script_finds_in_an_export_corrections_included() {
    let sandbox = Sandbox::new();
    a_week(&sandbox);
    let sums = by_script(&sandbox);
    assert_eq!(sums.len(), 4);
    assert_eq!(by_timesheet(&sandbox), sums);
    let ann = human("ann");
    let correct = |args: &[&str]| {
        let all: Vec<&str> =
            ["session", "correct"].iter().chain(args).copied().chain(["--reason", "left early"]).collect();
        sandbox.json(&ann, &all)
    };
    correct(&["ON-1#1", "--shorten", "2026-10-05T10:00:00Z"]).ok();
    correct(&["ON-3#1", "--reassign", "human:ann"]).ok();
    correct(&["ON-4#1", "--void"]).ok();
    let sums = by_script(&sandbox);
    assert_eq!(by_timesheet(&sandbox), sums);
    let of = |actor: &str| sums.iter().filter(|(who, _, _)| who == actor).map(|(_, _, ms)| ms).sum::<i64>();
    assert_eq!(
        (of("human:ann"), of("human:bob"), of("agent:bot")),
        (HOUR_MS + 90 * MINUTE_MS, 0, 4 * HOUR_MS + 7)
    );
    // Nobody types hours: there is no way to say more.
    correct(&["ON-1#1", "--shorten", "2026-10-05T12:00:00Z"]).refused(7);
    sandbox.json(&agent("bot"), &["session", "correct", "ON-2#1", "--void", "--reason", "r"]).refused(6);
    correct(&["ON-2#7", "--void"]).refused(3);
    correct(&["ON-2", "--void"]).refused(2);
    correct(&["ON-2#1"]).refused(2);
    correct(&["ON-2#1", "--void", "--reassign", "human:ann"]).refused(2);
    let log = sandbox.run(&ann, &["log", "ON-1"]).ok().stdout.clone();
    assert!(
        log.contains("corrected a session (token 1): 1 h of human:ann do not count: left early"),
        "{log}"
    );
    let sessions = sandbox.json(&ann, &["sessions", "ON-1"]).ok().json();
    assert_eq!(
        (&sessions["sessions"][0]["corrected"], &sessions["sessions"][0]["worked_seconds"]),
        (&json!(true), &json!(3_600.0))
    );
    sandbox.is_whole();
}

#[test]
fn a_sealed_month_stays_as_it_was_and_what_comes_later_shows_as_a_correction() {
    let sandbox = Sandbox::new();
    a_week(&sandbox);
    let (ann, month) = (human("ann"), ["--month", "2026-10", "--zone", "Europe/Berlin"]);
    let sheet = |zone: &str| {
        let args = ["timesheet", "--by", "actor", "--month", "2026-10", "--zone", zone];
        sandbox.json(&ann, &args).ok().json()
    };
    assert_eq!(sheet("Europe/Berlin")["sealed"], json!(null));
    let seal = |month: &[&str]| sandbox.json(&ann, &[&["timesheet", "seal"], month].concat());
    let sealed = seal(&month).ok().json();
    let of = |sealed: &Value, actor: &str, field: &str| {
        let actors = sealed["sealed"]["actors"].as_array().unwrap().iter();
        actors
            .filter(|entry| entry["actor"] == actor)
            .map(|entry| entry[field].as_f64().unwrap())
            .sum::<f64>()
    };
    assert_eq!(of(&sealed, "human:ann", "sealed_seconds"), 9_000.0);
    assert_eq!(of(&sealed, "human:ann", "correction_seconds"), 0.0);
    // Once, and only when it is over.
    seal(&month).refused(6);
    seal(&["--month", "2099-01", "--zone", "UTC"]).refused(6);
    sandbox.run(&ann, &["session", "correct", "ON-1#1", "--void", "--reason", "a mistake"]).ok();
    let now = sheet("Europe/Berlin");
    assert_eq!(
        (of(&now, "human:ann", "sealed_seconds"), of(&now, "human:ann", "correction_seconds")),
        (9_000.0, -7_200.0)
    );
    assert_eq!(
        (of(&now, "human:bob", "sealed_seconds"), of(&now, "human:bob", "correction_seconds")),
        (5_400.0, 0.0)
    );
    assert_eq!(sheet("UTC")["sealed"], json!(null), "another zone's month is another");
    let text = sandbox.run(&ann, &[&["timesheet", "--by", "actor"], &month[..]].concat()).ok().stdout.clone();
    assert!(text.contains("human:ann had 2:30:00: -2:00:00 since, as corrections"), "{text}");
    sandbox.is_whole();
}

#[test]
fn a_timesheet_reads_well_in_every_format() {
    let sandbox = Sandbox::new();
    a_week(&sandbox);
    let run = |args: &[&str]| {
        let window = ["--since", "2026-10-05", "--until", "2026-10-11", "--zone", "UTC"];
        let all: Vec<&str> = args.iter().copied().chain(window).collect();
        sandbox.run(&human("ann"), &all).ok().stdout.clone()
    };
    let mut pages = String::new();
    for args in [
        &["timesheet"] as &[&str],
        &["timesheet", "--by", "day"],
        &["timesheet", "--by", "week,actor", "--md"],
        &["timesheet", "--by", "task", "--csv"],
        &["timesheet", "--ics"],
        &["report", "actor", "human:ann"],
        &["report", "actor", "human:ann", "--md"],
        &["report", "flow", "--md"],
    ] {
        pages.push_str(&format!("=== onus {}\n{}\n", args.join(" "), run(args)));
    }
    let hashes = regex::Regex::new("[0-9a-f]{64}").unwrap();
    crate::support::is_written(
        "tests/record/snapshots/hours.txt",
        &hashes.replace_all(&pages.replace('\r', ""), "HASH"),
    );
    assert!(run(&["timesheet", "--ics"]).ends_with("END:VCALENDAR\r\n"));
    let explained = run(&["timesheet", "--explain"]);
    let events = sandbox.events();
    let told: Vec<&Value> = events.iter().filter(|event| event["payload"]["stretches"].is_array()).collect();
    assert_eq!(told.len(), 4);
    assert!(told.iter().all(|event| explained.contains(event["hash"].as_str().unwrap())), "{explained}");
    let drawn = sandbox.path().join("flow.svg");
    run(&["report", "flow", "--svg", drawn.to_str().unwrap()]);
    assert!(std::fs::read_to_string(drawn).unwrap().contains("2026-W41"));
}

#[test]
fn what_is_not_a_day_a_zone_or_a_window_is_refused() {
    let sandbox = Sandbox::new();
    for args in [
        &["timesheet", "--since", "soon"] as &[&str],
        &["timesheet", "--since", "2026-10-05", "--until", "2026-10-04"],
        &["timesheet", "--since", "1700-01-01"],
        &["timesheet", "--month", "2026-13"],
        &["timesheet", "--month", "2026-10", "--since", "today"],
        &["timesheet", "--zone", "Mars/Olympus"],
        &["timesheet", "--zone", "../../etc/passwd"],
        &["timesheet", "--by", "mood"],
        &["timesheet", "--csv", "--md"],
        &["sessions", "--limit", "0"],
        &["report", "actor", "nobody"],
    ] {
        sandbox.json(&human("ann"), args).refused(2);
    }
    sandbox.json(&human("ann"), &["timesheet", "--under", "ON-99"]).refused(3);
    sandbox.json(&human("ann"), &["sessions", "ON-99"]).refused(3);
}

#[test]
fn rates_and_what_is_billable_come_from_the_configuration() {
    let sandbox = Sandbox::new();
    a_week(&sandbox);
    sandbox.run(&human("ann"), &["edit", "ON-1", "--tag", "client"]).ok();
    let args = ["timesheet", "--by", "actor", "--month", "2026-10", "--zone", "UTC", "--json"];
    let run = |env: &[(&str, &str)]| {
        let mut command = sandbox.command(&human("ann"));
        command.args(args).envs(env.iter().copied());
        Ran::of(command.output().unwrap())
    };
    let plain = run(&[]).ok().json();
    assert!(plain["rows"][1].get("billable_seconds").is_none(), "{plain}");
    let billed = run(&[("ONUS_TIMESHEET_BILLABLE", "client"), ("ONUS_TIMESHEET_RATES", "human:ann=90.50")])
        .ok()
        .json();
    let ann = billed["rows"].as_array().unwrap().iter().find(|row| row["actor"] == "human:ann").unwrap();
    assert_eq!((&ann["billable_seconds"], &ann["amount"]), (&json!(7_200.0), &json!(181.0)));
    run(&[("ONUS_TIMESHEET_RATES", "ann=lots")]).refused(2);
}

#[test]
fn where_peoples_sessions_are_off_none_are_kept() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path().join("onus.toml"), "[sessions]\npeople = \"off\"\n").unwrap();
    let id = sandbox.add("t");
    for who in [human("ann"), agent("bot")] {
        sandbox.run(&who, &["claim", &id]).ok();
        sandbox.run(&who, &["release", &id]).ok();
    }
    let told: Vec<Value> =
        sandbox.events().into_iter().filter(|event| event["payload"]["stretches"].is_array()).collect();
    let actors: Vec<&str> = told.iter().filter_map(|event| event["actor"].as_str()).collect();
    assert_eq!(actors, ["agent:bot"]);
}
