//! What branches change that their target lacks, and where that meets what the target changed meanwhile.
//!
//! One process lists it for all branches: every commit above what they have in common, with its parents and its files. The parents
//! tell which commit belongs to which branch. Of a merge, only what no parent has counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use onus_core::forecast::{Change, Changes};
use serde::{Deserialize, Serialize};

use super::memory::Known;
use super::{Forecast, Tip};
use crate::git::GitError;

/// Beyond these limits, the changes of a branch are unknown, and it is assumed to meet every other branch.
const MOST_COMMITS: usize = 10_000;
const MOST_CHANGES: usize = 10_000;

/// A branch beside its target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct History {
    /// What it changes and the target lacks.
    pub(super) own: Changes,
    /// The files where that meets what the target has and it lacks.
    pub(super) meeting: Vec<String>,
}

struct Logged {
    parents: Vec<String>,
    files: Vec<(String, Change)>,
}

/// Reads the histories of branches that moved, or whose target did.
pub(super) fn learn(
    forecast: &Forecast,
    tips: &[Tip<'_>],
    known: &mut Known,
    deadline: Instant,
) -> Result<(), GitError> {
    let mut by_target: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for tip in tips.iter().filter(|tip| !known.histories.contains_key(&key(&tip.target.hash, tip.commit))) {
        by_target.entry(&tip.target.hash).or_default().push(tip.commit);
    }
    for (target, new) in by_target {
        let log = log(forecast, target, &new, deadline)?;
        let of_target = log.as_ref().map(|log| reachable(log, target));
        for tip in new {
            let history = log.as_ref().zip(of_target.as_ref()).and_then(|(log, of_target)| {
                let of_tip = reachable(log, tip);
                let own = changes(log, of_tip.difference(of_target));
                let theirs = changes(log, of_target.difference(&of_tip));
                let meeting = own.meeting(&theirs).into_iter().map(str::to_owned).collect();
                (own.len() <= MOST_CHANGES).then_some(History { own, meeting })
            });
            known.histories.insert(key(target, tip), history);
        }
    }
    Ok(())
}

pub(super) fn key(target: &str, tip: &str) -> String {
    format!("{target} {tip}")
}

/// Every commit of these above what all of them have in common. None if there are too many.
fn log(
    forecast: &Forecast,
    target: &str,
    tips: &[&str],
    deadline: Instant,
) -> Result<Option<BTreeMap<String, Logged>>, GitError> {
    let base = forecast.git(deadline).words(&["merge-base", "--octopus", target]).words(tips).line();
    let words = ["log", "-z", "--format=%x01%H %P", "--root", "-c", "--name-status", "--no-renames"];
    let call = forecast.git(deadline).words(&words).words(&["--no-show-signature", "--no-notes"]);
    let call = call.word(format!("--max-count={MOST_COMMITS}")).word(target).words(tips);
    let call = match &base {
        Ok(base) => call.words(&["--not", base]),
        // They have nothing in common.
        Err(_) => call,
    };
    let log = parsed(&call.words(&["--"]).run()?);
    Ok((log.len() < MOST_COMMITS).then_some(log))
}

/// `\x01HASH PARENTS`, then `STATUS NAME` for each file: every field ends with a NUL, and a line feed precedes the first status.
fn parsed(out: &[u8]) -> BTreeMap<String, Logged> {
    let mut log = BTreeMap::new();
    let mut latest: Option<(String, Logged)> = None;
    let mut fields = out.split(|byte| *byte == 0);
    while let Some(field) = fields.next() {
        let field = field.strip_prefix(b"\n").unwrap_or(field);
        if let Some(header) = field.strip_prefix(b"\x01") {
            log.extend(latest.take());
            let header = String::from_utf8_lossy(header);
            let mut hashes = header.split(' ').filter(|hash| !hash.is_empty()).map(str::to_owned);
            let hash = hashes.next().unwrap_or_default();
            latest = Some((hash, Logged { parents: hashes.collect(), files: Vec::new() }));
        } else if !field.is_empty()
            && let (Some(name), Some((_, logged))) = (fields.next(), &mut latest)
        {
            // A merge has one letter for each parent.
            let change = Change { added: field.contains(&b'A'), removed: field.contains(&b'D') };
            logged.files.push((String::from_utf8_lossy(name).into_owned(), change));
        }
    }
    log.extend(latest);
    log
}

fn reachable<'a>(log: &'a BTreeMap<String, Logged>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = vec![from];
    while let Some(hash) = open.pop() {
        if let Some((hash, logged)) = log.get_key_value(hash)
            && found.insert(hash.as_str())
        {
            open.extend(logged.parents.iter().map(String::as_str));
        }
    }
    found
}

fn changes<'a>(log: &BTreeMap<String, Logged>, commits: impl Iterator<Item = &'a &'a str>) -> Changes {
    let mut changes = Changes::default();
    for (path, change) in commits.filter_map(|hash| log.get(*hash)).flat_map(|logged| &logged.files) {
        changes.add(path, *change);
    }
    changes
}
