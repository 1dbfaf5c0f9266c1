//! P10 when idle work yields: a yielded file had no uncommitted changes, and its owner was resting.

use std::collections::BTreeSet;
use std::rc::Rc;

use onus_core::chain::Record;
use onus_core::command::Command;
use onus_engine::Request;
use serde_json::Value;

use super::landing::comes_before;
use super::lease::Held;
use super::rows::{Ground, Row};
use super::{Case, Deed, Known, Oracle, Verdict, globs, must};
use crate::fate::{Fate, is_far};

impl Oracle {
    /// What others yielded, and which landings were settled, before a request was tried again. That stays, whatever becomes of the
    /// request.
    pub(super) fn make_way(&mut self, deed: &Deed<'_>, records: &[Record], now: &Fate) -> Verdict {
        if records.is_empty() {
            return Ok(());
        }
        let identity = &deed.request.identity;
        let actor = self.actor(identity.actor.as_str());
        // It only shows that its caller lives.
        let command = Command::RegisterActor { actor: identity.actor.clone(), tier: None };
        let request = Request { identity: identity.clone(), command, key: None };
        let mut case = Case {
            request: &request,
            instance: identity.instance.to_string(),
            forced: false,
            token: None,
            overridden: false,
            in_turn: self.turns.is_running(&actor, &identity.instance.to_string()),
            actor,
            now,
            place: deed.place,
            revived: BTreeSet::new(),
            paths: Rc::clone(&self.paths),
        };
        for record in records {
            self.seq = record.seq;
            let is_own = record.actor == case.actor && record.instance == case.instance;
            must!(is_own, "P12: {} {} tried again as {}", case.actor, case.instance, record.actor);
            match &record.task {
                Some(task) => {
                    must!(
                        comes_before(&record.kind, &deed.request.command),
                        "P10: {} before a request was tried again",
                        record.kind
                    );
                    self.follow(&mut case, task, record)?;
                }
                None => self.follow_project(record),
            }
        }
        self.signs_of_life(&case);
        self.settle(now);
        Ok(())
    }
}

impl Known {
    pub(super) fn give_up(&mut self, case: &Case<'_>, record: &Record) -> Verdict {
        let (id, ad_hoc) = (self.number, self.ad_hoc);
        let held = self.of_token(record)?;
        must!(ad_hoc, "P10: ON-{id} is planned work, and yielded to {}", case.actor);
        // The end of a turn may have been reported even for a process that cannot be seen from everywhere.
        let may_rest = held.resting || !held.is_live(case.now);
        must!(
            may_rest && held.ended.is_none(),
            "P10: ON-{id} yielded to {} in its turn: {held:?}",
            case.actor
        );
        let worktree = record.payload["worktree"].as_str();
        for file in globs(&record.payload["scope"]) {
            let is_there = |row: &Row| row.is_touched_in(worktree) && row.glob == file;
            must!(held.rows.iter().any(is_there), "P10: ON-{id} yielded {file}, which it had not touched");
            let path = file.replace('\\', "");
            let at = worktree.unwrap_or_default();
            must!(
                !case.now.is_dirty(at, &path),
                "P10: ON-{id} yielded {path}, which has uncommitted changes"
            );
            must!(!is_far(at), "P10: ON-{id} yielded {path} of another machine");
            held.rows.retain(|row| !is_there(row));
        }
        held.scope = held.rows.iter().map(|row| row.glob.clone()).collect();
        held.ground = Ground::of(&held.rows, &case.paths);
        Ok(())
    }
}

/// A touched file is marked as changed once.
pub(super) fn change(held: &mut Held, payload: &Value) -> Verdict {
    let worktree = payload["worktree"].as_str();
    for file in globs(&payload["scope"]) {
        // A conversation and its parts may all have touched it.
        let is_news = |row: &&Row| row.is_touched_in(worktree) && row.glob == file && !row.changed;
        let rows: Vec<Row> = held.rows.iter().filter(is_news).cloned().collect();
        must!(!rows.is_empty(), "P5: {file} was not touched, or was changed before: {held:?}");
        for row in rows {
            held.rows.remove(&row);
            held.rows.insert(row.now_changed());
        }
    }
    Ok(())
}
