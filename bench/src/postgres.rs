//! `claim --next` on a PostgreSQL server, through the library, against what any queue on that server must cost: a bare loop
//! of `SELECT … FOR UPDATE SKIP LOCKED`, `UPDATE` and `INSERT`, on tables as large, in turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use onus_core::command::{Command, Terms};
use onus_core::policy::Policy;
use onus_engine::Engine;
use onus_store::conformance::server::{Server, fresh_name, parsed};
use onus_store::{PostgresStore, Store as _};

use crate::Result;
use crate::fixture;
use crate::measure::{Report, Target, median};
use crate::place::Place;

pub(crate) const ABOUT: &str =
    "claim --next on a PostgreSQL server against a bare SKIP LOCKED loop on the same";

const WAIT: Duration = Duration::from_secs(30);
const ROUNDS: u32 = 5;
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// Claims of one side in one round, shared by its connections.
const CLAIMS: u64 = 800;
/// Claims that each connection makes before: its statements are prepared, and planned.
const BEFORE: u64 = 8;

const SMALL: u64 = 1_000;
const LARGE: u64 = 1_000_000;
const CLAIMS_OF_SMALL: u64 = 150;

/// Rows as `add` makes them, without the ledger's hashes, which a claim does not look at.
const FILL: &str = "
INSERT INTO onus.task (project, number, uid, uid_reversed, version, head, state, type, priority, required_tier, tags, refs,
    title_version, created_at_ms, created_by, updated_at_ms, token, leased, opened_token, relates, scope, mode, ad_hoc,
    acceptance, scope_areas, constraints, effort_ms, attempts, fenced_token, met, finished, unmet, open_children, open_dependents)
SELECT $1, n, u, reverse(u), 1, 'h', 'open', 'task', 'P' || n % 5, 1, '[]', '{}', 1, 0, 'human:founder', 0, 0, false, 0, '[]',
    '[]', 'exclusive', false, '[]', '{}', '[]', 0, 0, 0, false, false, 0, 0, 0
FROM (SELECT n, '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS u FROM generate_series(1, $2::bigint) AS n) AS rows";
const FILL_TEXTS: &str = "
INSERT INTO onus.text (project, stream, version, field, salt, body, indexed, words)
SELECT $1, uid, 1, 'title', decode(repeat('00', 16), 'hex'), 'task ' || number, true, ('task:1 ' || number || ':2')::tsvector
FROM onus.task WHERE project = $1";

fn client() -> Result<postgres::Client> {
    Ok(postgres::Client::connect(Server::shared().shared_database(), postgres::NoTls)?)
}

/// A project with so many open tasks; its name.
fn filled(tasks: u64) -> Result<String> {
    let (server, name) = (Server::shared(), fresh_name());
    let mut store = server.project_in(server.shared_database(), &name);
    let project = store.read(|read| read.project())?.uid.0;
    let mut client = client()?;
    client.execute(FILL, &[&project, &i64::try_from(tasks)?])?;
    client.execute(FILL_TEXTS, &[&project])?;
    client.execute(
        "UPDATE onus.project SET last_number = $2 WHERE project = $1",
        &[&project, &i64::try_from(tasks)?],
    )?;
    settle(&mut client, &["onus.task", "onus.text"])?;
    Ok(name)
}

/// What a server does in time by itself.
fn settle(client: &mut postgres::Client, tables: &[&str]) -> Result<()> {
    for table in tables {
        client.batch_execute(&format!("VACUUM ANALYZE {table}"))?;
    }
    Ok(client.batch_execute("CHECKPOINT")?)
}

/// A table of its own for the bare loop; its name.
fn bare(tasks: u64) -> Result<String> {
    let name = format!("bare_{tasks}");
    let mut client = client()?;
    client.batch_execute(&format!(
        "CREATE TABLE {name} (id bigint PRIMARY KEY, state text NOT NULL, priority text NOT NULL, holder text, token bigint NOT NULL);
         CREATE INDEX ON {name} (priority, id) WHERE state = 'open';
         CREATE TABLE {name}_event (seq bigserial PRIMARY KEY, task bigint NOT NULL, holder text NOT NULL, payload text NOT NULL);
         INSERT INTO {name} SELECT n, 'open', 'P' || n % 5, NULL, 0 FROM generate_series(1, {tasks}) AS n"
    ))?;
    settle(&mut client, &[&name])?;
    Ok(name)
}

/// How many a second, over so many connections.
fn rate(
    connections: usize,
    claims: u64,
    open: &(dyn Fn(usize) -> Result<Box<dyn FnMut() -> Result<()> + Send>> + Sync),
) -> Result<f64> {
    let (done, barrier) = (AtomicU64::new(0), Barrier::new(connections + 1));
    let failed = Mutex::new(None);
    let mut workers = Vec::new();
    for n in 0..connections {
        let mut claim = open(n)?;
        for _ in 0..BEFORE {
            claim()?;
        }
        workers.push(claim);
    }
    let mut began = Instant::now();
    std::thread::scope(|scope| {
        for mut claim in workers {
            let (done, barrier, failed) = (&done, &barrier, &failed);
            scope.spawn(move || {
                barrier.wait();
                while done.fetch_add(1, Ordering::Relaxed) < claims {
                    if let Err(error) = claim() {
                        *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                            Some(error.to_string());
                        return;
                    }
                }
            });
        }
        barrier.wait();
        began = Instant::now();
    });
    match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok(claims as f64 / began.elapsed().as_secs_f64()),
    }
}

fn engine_claims(
    name: &str,
) -> impl Fn(usize) -> Result<Box<dyn FnMut() -> Result<()> + Send>> + Sync + use<> {
    let name = name.to_owned();
    static CALLERS: AtomicU64 = AtomicU64::new(0);
    move |_| {
        let store = PostgresStore::open(&parsed(Server::shared().shared_database()), &name, WAIT)?;
        let mut engine = Engine::new(store, Policy::default());
        Ok(Box::new(move || {
            // Each claim by an instance of its own: it holds nothing else that would be renewed.
            let caller = CALLERS.fetch_add(1, Ordering::Relaxed);
            engine.run(&fixture::request(&format!("i{caller}"), Command::ClaimNext(Terms::default()))?)?;
            Ok(())
        }))
    }
}

fn bare_claims(name: &str) -> impl Fn(usize) -> Result<Box<dyn FnMut() -> Result<()> + Send>> + Sync + use<> {
    let name = name.to_owned();
    move |n| {
        let mut client = client()?;
        let next = client.prepare(&format!(
            "SELECT id, token FROM {name} WHERE state = 'open' ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED"
        ))?;
        let take = client.prepare(&format!(
            "UPDATE {name} SET state = 'taken', holder = $2, token = token + 1 WHERE id = $1"
        ))?;
        let tell = client
            .prepare(&format!("INSERT INTO {name}_event (task, holder, payload) VALUES ($1, $2, $3)"))?;
        let holder = format!("agent:bench i{n}");
        Ok(Box::new(move || {
            let mut transaction = client.transaction()?;
            let id: i64 = transaction.query_one(&next, &[])?.get(0);
            transaction.execute(&take, &[&id, &holder])?;
            transaction.execute(&tell, &[&id, &holder, &"{\"what\":\"claimed\"}"])?;
            Ok(transaction.commit()?)
        }))
    }
}

pub(crate) fn run(_place: &Place) -> Result<Report> {
    let mut report = Report::default();
    let rounds = u64::from(ROUNDS);
    let before: u64 = CONNECTIONS.iter().map(|connections| *connections as u64 * BEFORE).sum();
    let enough = (CLAIMS * (CONNECTIONS.len() as u64 + 1) + before) * rounds * 2;
    let (ours, theirs) = (filled(enough)?, bare(enough)?);
    let (ours, theirs) = (engine_claims(&ours), bare_claims(&theirs));
    let mut growth = Vec::new();
    let mut first: Vec<f64> = Vec::new();
    for connections in CONNECTIONS {
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let one = rate(connections, CLAIMS, &ours)?;
            let other = rate(connections, CLAIMS, &theirs)?;
            ratios.push(one / other);
            rates.push(one);
        }
        report.note(format!("{connections:>2} connections: {:.0} claims a second", median(&rates)));
        report.check(&format!("claims / bare loop, {connections} connections"), ratios, Target::AtLeast(0.5));
        match connections {
            1 => first = rates,
            8 => growth = rates.iter().zip(&first).map(|(many, one)| many / one).collect(),
            _ => {}
        }
    }
    report.check("8 connections / 1 connection", growth, Target::AtLeast(1.0));
    let (small, large) = (engine_claims(&filled(SMALL)?), engine_claims(&filled(LARGE)?));
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let of_small = rate(1, CLAIMS_OF_SMALL, &small)?;
        costs.push(of_small / rate(1, CLAIMS_OF_SMALL, &large)?);
    }
    report.check("a claim among 1,000,000 / among 1,000", costs, Target::AtMost(1.5));
    Ok(report)
}
