//! Judges a race: reads the ledger and the rows from the database, and knows what is promised. The clock
//! stood still, so a lease that was live before the race lives until an event ends it, and one that had
//! lapsed is dead until an event renews it. Events of one task are ordered by their versions; those of
//! different tasks by `seq`: whoever reserves writes its events under the reservation lock, after it has seen
//! what was committed, so a violation cannot hide in that order.

use std::collections::BTreeMap;

use serde_json::Value;

use super::GLOBS;
use super::stage::Stage;

#[derive(Clone, Debug)]
struct Held {
    actor: String,
    instance: String,
    is_live: bool,
    ended: Option<String>,
    files: u8,
    is_shared: bool,
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// By token.
    leases: BTreeMap<i64, Held>,
    fenced: i64,
}

impl Known {
    fn highest(&self) -> i64 {
        self.leases.keys().next_back().copied().unwrap_or_default()
    }

    fn was_superseded(&self, actor: &str, instance: &str) -> bool {
        let mut own = self.leases.iter().rev();
        let own = own.find(|(_, held)| held.actor == actor && held.instance == instance);
        own.is_some_and(|(token, held)| match held.ended.as_deref() {
            Some("lease.taken_over" | "lease.revoked" | "task.reset") => true,
            Some("lease.lapsed") | None => *token < self.highest() || *token <= self.fenced,
            Some(_) => *token <= self.fenced && !actor.starts_with("human:"),
        })
    }
}

/// An event as stored.
struct Line {
    seq: i64,
    task: String,
    kind: String,
    actor: String,
    instance: String,
    token: Option<i64>,
    payload: Value,
}

#[derive(Debug)]
pub(crate) struct Judge {
    tasks: BTreeMap<String, Known>,
    seq: i64,
    now_ms: i64,
}

type Verdict = Result<(), String>;

fn files(scope: &Value) -> u8 {
    let globs = scope.as_array().into_iter().flatten().filter_map(Value::as_str);
    globs.fold(0, |files, glob| {
        let known = GLOBS.iter().find(|(known, _)| *known == glob);
        files | known.unwrap_or_else(|| panic!("{glob} is no glob of these races")).1
    })
}

fn lines(client: &mut postgres::Client, project: &str, after: i64) -> Vec<Line> {
    let sql = "SELECT seq, stream, kind, actor, instance, token, payload FROM onus.event \
               WHERE project = (SELECT project FROM onus.project WHERE name = $1) \
               AND stream <> (SELECT uid FROM onus.project WHERE name = $1) AND seq > $2 ORDER BY seq";
    let rows = client.query(sql, &[&project, &after]).unwrap();
    rows.iter()
        .map(|row| Line {
            seq: row.get(0),
            task: row.get(1),
            kind: row.get(2),
            actor: row.get(3),
            instance: row.get(4),
            token: row.get(5),
            payload: serde_json::from_str(row.get(6)).unwrap(),
        })
        .collect()
}

impl Judge {
    /// Takes everything that has happened so far as given.
    pub(crate) fn of(client: &mut postgres::Client, project: &str, now_ms: i64) -> Judge {
        let mut judge = Judge { tasks: BTreeMap::new(), seq: 0, now_ms };
        for line in lines(client, project, 0) {
            judge.follow(&line);
        }
        let sql = "SELECT task, token, deadline_tick_ms FROM onus.lease \
                   WHERE project = (SELECT project FROM onus.project WHERE name = $1) AND ended_how IS NULL";
        for row in client.query(sql, &[&project]).unwrap() {
            let (task, token, deadline): (String, i64, Option<i64>) = (row.get(0), row.get(1), row.get(2));
            let held = judge.tasks.get_mut(&task).and_then(|known| known.leases.get_mut(&token));
            held.expect("every lease has its event").is_live = deadline.is_none_or(|at| at > now_ms);
        }
        judge
    }

    /// Reads what happened since.
    pub(crate) fn judge(mut self, stage: &mut Stage) -> Verdict {
        for line in lines(&mut stage.looker, &stage.name, self.seq) {
            self.fence(&line)?;
            self.grant(&line)?;
            self.follow(&line);
            self.disjoint(&line)?;
        }
        self.rows(stage)
    }

    /// P2: every event is under the current token and by its holder, and never by a superseded one.
    fn fence(&self, line: &Line) -> Verdict {
        let Some(known) = self.tasks.get(&line.task) else { return Ok(()) };
        let told = || format!("{} by {} ({}), token {:?}", line.kind, line.actor, line.instance, line.token);
        let Some(token) = line.token.filter(|_| line.kind != "lease.acquired") else {
            if line.token.is_none() && known.was_superseded(&line.actor, &line.instance) {
                return Err(format!("P2: {} after it was superseded: {known:?}", told()));
            }
            return Ok(());
        };
        let Some(held) =
            known.leases.get(&token).filter(|_| token == known.highest() && token > known.fenced)
        else {
            return Err(format!("P2: {} is not current: {known:?}", told()));
        };
        if held.ended.as_deref().is_some_and(|how| how != "lease.lapsed") {
            return Err(format!("P2: {} of a lease that has ended: {known:?}", told()));
        }
        let is_holders = held.actor == line.actor && held.instance == line.instance;
        let by_others = matches!(line.kind.as_str(), "lease.taken_over" | "lease.lapsed" | "task.reset");
        if !is_holders && !by_others {
            return Err(format!("P2: {}, which is another's: {known:?}", told()));
        }
        if matches!(line.kind.as_str(), "lease.taken_over" | "lease.lapsed") && held.is_live {
            return Err(format!("P1: {} of a live lease: {known:?}", told()));
        }
        Ok(())
    }

    /// P1: a lease begins only if there is none, under a token that was never used.
    fn grant(&self, line: &Line) -> Verdict {
        let known = self.tasks.get(&line.task).filter(|_| line.kind == "lease.acquired");
        let (Some(known), Some(token)) = (known, line.token) else { return Ok(()) };
        let open = known.leases.values().find(|held| held.ended.is_none());
        if let Some(open) = open {
            return Err(format!("P1: {} got token {token} beside {open:?}", line.actor));
        }
        if token <= known.highest() {
            return Err(format!("P1: token {token} after {}", known.highest()));
        }
        Ok(())
    }

    fn follow(&mut self, line: &Line) {
        self.seq = line.seq;
        let known = self.tasks.entry(line.task.clone()).or_default();
        let token = line.token.unwrap_or_else(|| known.highest());
        let scope = || files(&line.payload["scope"]);
        if line.kind == "lease.acquired" {
            let held = Held {
                actor: line.actor.clone(),
                instance: line.instance.clone(),
                is_live: true,
                ended: None,
                files: scope(),
                is_shared: line.payload["grant"]["mode"] == "shared",
            };
            known.leases.insert(token, held);
            return;
        }
        if line.kind == "task.reset" {
            known.fenced = known.highest();
        }
        let Some(held) = known.leases.get_mut(&token) else { return };
        match line.kind.as_str() {
            "lease.renewed" => (held.ended, held.is_live) = (None, true),
            "scope.added" => held.files |= scope(),
            // Globs may share files: what is left is read from the rows when the race is over.
            "scope.removed" => held.files = 0,
            "task.reset" if held.ended.is_none() => {
                (held.ended, held.is_live) = (Some(line.kind.clone()), false);
            }
            kind => {
                let ends = line.payload.get("lease").is_some_and(Value::is_object);
                if ends && line.token.is_some() {
                    (held.ended, held.is_live) = (Some(kind.to_owned()), false);
                }
            }
        }
    }

    /// P3: what is reserved is nobody else's, even for the moment of a claim in passing.
    fn disjoint(&self, line: &Line) -> Verdict {
        if !matches!(line.kind.as_str(), "lease.acquired" | "lease.renewed" | "scope.added") {
            return Ok(());
        }
        let live: Vec<(&String, &Held)> = self
            .tasks
            .iter()
            .flat_map(|(task, known)| known.leases.values().map(move |held| (task, held)))
            .filter(|(_, held)| held.is_live && held.ended.is_none())
            .collect();
        for (at, (task, held)) in live.iter().enumerate() {
            let beside = live[at + 1..]
                .iter()
                .find(|(_, other)| held.files & other.files != 0 && !(held.is_shared && other.is_shared));
            if let Some((other_task, other)) = beside {
                return Err(format!(
                    "P3: after {} by {}: {task} {held:?} and {other_task} {other:?}",
                    line.kind, line.actor
                ));
            }
        }
        Ok(())
    }

    /// The rows, as they are now.
    fn rows(&self, stage: &mut Stage) -> Verdict {
        let sql = "SELECT lease.task, lease.token, lease.mode, lease.deadline_tick_ms, \
                   COALESCE(json_agg(DISTINCT scope.glob) FILTER (WHERE scope.held), '[]')::text \
                   FROM onus.lease LEFT JOIN onus.scope USING (project, task, token) \
                   WHERE project = (SELECT project FROM onus.project WHERE name = $1) AND ended_how IS NULL \
                   GROUP BY 1, 2, 3, 4";
        let rows = stage.looker.query(sql, &[&stage.name]).unwrap();
        let mut reserved: Vec<(String, u8, bool)> = Vec::new();
        for row in &rows {
            let (task, token, mode): (String, i64, String) = (row.get(0), row.get(1), row.get(2));
            let known = self.tasks.get(&task).ok_or("P5: a lease of no task")?;
            if reserved.iter().any(|(other, ..)| *other == task) || token != known.highest() {
                return Err(format!("P1: {task} has a lease with token {token} that is open: {known:?}"));
            }
            let is_live = row.get::<_, Option<i64>>(3).is_none_or(|at| at > self.now_ms);
            let files = if is_live { files(&serde_json::from_str(row.get(4)).unwrap()) } else { 0 };
            reserved.push((task, files, mode == "shared"));
        }
        for (at, (task, files, is_shared)) in reserved.iter().enumerate() {
            let clashes =
                |(_, others, shared): &&(String, u8, bool)| files & others != 0 && !(*is_shared && *shared);
            if let Some((other, ..)) = reserved[at + 1..].iter().find(clashes) {
                return Err(format!("P3: {task} and {other} both have files {files:04b}"));
            }
        }
        Ok(())
    }
}
