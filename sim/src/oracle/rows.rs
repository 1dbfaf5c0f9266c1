//! Compares the store's rows and the engine's answers with what the judge knows.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::lease::Lease;
use onus_core::scope::Reservations;
use onus_core::task::Task;
use serde_json::Value;

use super::lease::{At, Held};
use super::paths::Paths;
use super::{Known, Oracle, Verdict, globs, must};
use crate::fate::{Fate, HOST, boot_name};

/// How a glob was reserved, according to the ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) glob: String,
    touched: bool,
    worktree: Option<String>,
    area: Option<String>,
    part: Option<String>,
    pub(super) changed: bool,
}

impl Row {
    /// A file touched in this worktree.
    pub(super) fn is_touched_in(&self, worktree: Option<&str>) -> bool {
        self.touched && self.worktree.as_deref() == worktree
    }

    pub(super) fn now_changed(self) -> Row {
        Row { changed: true, ..self }
    }

    /// Whether it counts in a worktree: a declared glob counts everywhere, a touched file only where it was touched.
    pub(super) fn applies_in(&self, worktree: Option<&str>) -> bool {
        !self.touched || self.worktree.as_deref() == worktree
    }
}

/// The paths of a lease: those declared, and those touched, by worktree. None: an unknown worktree.
#[derive(Clone, Debug, Default)]
pub(super) struct Ground {
    declared: u64,
    touched: BTreeMap<Option<String>, Files>,
}

/// Files touched by the holder itself and by its parts.
#[derive(Clone, Copy, Debug, Default)]
struct Files {
    own: u64,
    of_parts: u64,
}

/// How two holders are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinship {
    Strangers,
    /// One conversation with two leases. If a part of it touched a file, another of its leases may have that file as well.
    OneHolder,
    /// A conversation and a part of it, or two parts.
    Parts,
}

impl Kinship {
    /// Which of a lease's touched files the other may not touch.
    fn excluded(self, files: &Files) -> u64 {
        match self {
            Kinship::Strangers => files.own | files.of_parts,
            Kinship::OneHolder => files.own,
            Kinship::Parts => 0,
        }
    }
}

impl Ground {
    pub(super) fn of(rows: &BTreeSet<Row>, paths: &Paths) -> Ground {
        let mut ground = Ground::default();
        for row in rows {
            let mask = paths.mask(&BTreeSet::from([row.glob.clone()])) & !paths.shared();
            let files = ground.touched.entry(row.worktree.clone());
            match (row.touched, &row.part) {
                (true, None) => files.or_default().own |= mask,
                (true, Some(_)) => files.or_default().of_parts |= mask,
                (false, _) => ground.declared |= mask,
            }
        }
        ground
    }

    fn all_touched(&self, kinship: Kinship) -> u64 {
        self.touched.values().fold(0, |all, files| all | kinship.excluded(files))
    }

    /// P3: the paths that two live leases may not both reserve. Files that were touched in two worktrees are two files, unless the
    /// project refuses that; but an unknown worktree may be any. Nobody else may reserve a declared path; only a conversation may
    /// declare what a part of it has touched under a lease of its own.
    fn clash(&self, other: &Ground, refuses: bool, kinship: Kinship) -> u64 {
        let all_touched = |ground: &Ground| match kinship {
            Kinship::Parts => 0,
            _ => ground.all_touched(Kinship::Strangers),
        };
        let declared =
            self.declared & (other.declared | all_touched(other)) | all_touched(self) & other.declared;
        let touched = self.touched.iter().fold(0, |clash, (worktree, files)| {
            let touched_at = |at| other.touched.get(at).map_or(0, |files| kinship.excluded(files));
            let there = match worktree {
                Some(_) if !refuses => touched_at(worktree) | touched_at(&None),
                _ => other.all_touched(kinship),
            };
            clash | kinship.excluded(files) & there
        });
        declared | touched
    }
}

impl Held {
    /// P3: the paths that this lease and another may not both reserve while both are live.
    pub(super) fn clash(&self, other: &Held, refuses: bool) -> u64 {
        if self.shared && other.shared {
            return 0;
        }
        self.ground.clash(&other.ground, refuses, self.kinship(other))
    }

    fn kinship(&self, other: &Held) -> Kinship {
        let whole = |held: &Held| held.instance.split('/').next().map(str::to_owned);
        let is_part = |held: &Held| held.instance.contains('/');
        if self.actor != other.actor || whole(self) != whole(other) {
            Kinship::Strangers
        } else if is_part(self) || is_part(other) {
            Kinship::Parts
        } else {
            Kinship::OneHolder
        }
    }
}

/// The rows of an event that reserves something.
pub(super) fn rows_of(payload: &Value) -> BTreeSet<Row> {
    let touched = payload.get("touched").filter(|touched| touched.is_object());
    let of_touched = |name: &str| Some(touched?[name].as_str()?.to_owned());
    let area_of = |glob: &String| {
        let areas = payload["areas"].as_object().into_iter().flatten();
        areas.filter(|(_, named)| globs(named).contains(glob)).map(|(area, _)| area.clone()).min()
    };
    let rows = globs(&payload["scope"]).into_iter().map(|glob| Row {
        touched: touched.is_some(),
        worktree: of_touched("worktree"),
        part: of_touched("part"),
        area: area_of(&glob).filter(|_| touched.is_none()),
        changed: false,
        glob,
    });
    rows.collect()
}

/// If a glob is declared twice, or touched twice in one worktree by one part, the first counts.
pub(super) fn add(rows: &mut BTreeSet<Row>, more: BTreeSet<Row>) {
    for new in more {
        let is_same = |row: &Row| {
            (&row.glob, row.touched, &row.worktree, &row.part)
                == (&new.glob, new.touched, &new.worktree, &new.part)
        };
        if !rows.iter().any(is_same) {
            rows.insert(new);
        }
    }
}

impl Oracle {
    /// P5 along the way: the leases that have not ended are those of the ledger, with the deadlines that follow from it.
    pub fn compare_leases(&self, rows: &[(Task, Lease)], now: &Fate) -> Verdict {
        let open = self.tasks.values().filter_map(Known::current).filter(|held| held.ended.is_none()).count();
        must!(open == rows.len(), "P5: {} leases are open, the ledger knows {open}", rows.len());
        let at = At::of(now);
        for (task, lease) in rows {
            let known = self.tasks.get(&task.uid.to_string());
            let Some((known, held)) = known.and_then(|known| Some((known, known.current()?))) else {
                return Err(format!("P5: nobody was granted {}", task.number.0));
            };
            let number = known.number;
            must!(
                task.state.to_string() == known.state,
                "P5: ON-{number} is {}, the ledger says {}",
                task.state,
                known.state
            );
            must!(
                held.token == lease.token.0 && held.is_of(lease.actor.as_str(), lease.instance.as_str()),
                "P1: ON-{number} is held with token {} by {}, the ledger says {held:?}",
                lease.token,
                lease.actor
            );
            let grant = &lease.grant;
            let place = [
                grant.worktree_id.as_ref().map(ToString::to_string),
                grant.worktree.clone(),
                grant.branch.clone(),
            ];
            must!(held.place == place, "P5: ON-{number} is worked on in {place:?}, not in {:?}", held.place);
            must!(
                held.process.as_ref().map(|process| (process.pid, process.start))
                    == grant.process.as_ref().map(|process| (process.pid, process.start)),
                "P5: ON-{number} is bound to {:?}, the ledger says {:?}",
                grant.process,
                held.process
            );
            // A lease that lapsed once, or whose process is gone, may look different from elsewhere.
            if held.over || !held.is_live(now) {
                continue;
            }
            must!(
                held.resting == lease.pulse.resting,
                "P9: ON-{number} rests: {}, not {}: {held:?}",
                lease.pulse.resting,
                held.resting
            );
            let row = lease.pulse.deadline.as_ref();
            let row_ms = row.map(|row| {
                if row.domain.boot().known() == Some(boot_name(now.boot).as_str()) {
                    row.tick_ms - at.tick_ms
                } else {
                    row.wall_ms - at.latest_ms
                }
            });
            let own_ms = held.deadline.map(|deadline| deadline.left_ms(&at));
            must!(row_ms == own_ms, "P9: ON-{number} lapses in {row_ms:?} ms, not in {own_ms:?}: {held:?}");
        }
        Ok(())
    }

    /// Compares the rows of a lease's reservations with the ledger.
    pub fn compare_scope(&self, task: &Task, reserved: &Reservations) -> Verdict {
        let stored: BTreeSet<Row> = reserved
            .rows()
            .iter()
            .map(|row| Row {
                glob: row.glob.to_string(),
                touched: row.basis.kind() == onus_core::scope::ReservationKind::Touched,
                worktree: row.basis.worktree().map(ToString::to_string),
                area: row.basis.area().map(ToString::to_string),
                part: row.basis.part().map(ToString::to_string),
                changed: row.is_changed,
            })
            .collect();
        let known = self.tasks.get(&task.uid.to_string()).and_then(Known::current);
        must!(
            known.is_some_and(|held| held.rows == stored),
            "P3: {} reserves {stored:?}, the ledger says {known:?}",
            task.number.0
        );
        Ok(())
    }

    /// P9: readers report a lease as live exactly while it is.
    pub fn compare_live(&self, number: u64, said_live: bool, now: &Fate) -> Verdict {
        let Some(known) = self.numbers.get(&number).and_then(|uid| self.tasks.get(uid)) else {
            return Ok(());
        };
        let Some(held) = known.current().filter(|held| held.ended.is_none()) else { return Ok(()) };
        let live = held.is_live(now);
        must!(said_live || !held.is_surely_live(now), "P9: ON-{number} is live and called lapsed: {held:?}");
        let seen = held.process.as_ref().is_none_or(|process| HOST.sees(process, now))
            || held.is_of_an_earlier_boot(now);
        let excused = held.over && held.may_be_revived(now);
        must!(
            live || !said_live || excused || !seen,
            "P9: ON-{number} has lapsed and is called live: {held:?}"
        );
        Ok(())
    }

    /// The numbers of tasks whose lease has not ended.
    pub fn leased(&self) -> Vec<u64> {
        let open = |known: &&Known| !known.seat && known.current().is_some_and(|held| held.ended.is_none());
        self.tasks.values().filter(open).map(|known| known.number).collect()
    }
}
