//! What a lease reserves, row by row: a glob and its basis. Either it was *declared*, directly or by the name of an area, and
//! holds in every worktree of the repository; or it is a file that was *touched* in one worktree.
//!
//! [`collide`] alone decides which reservations of two live leases exclude one another (P3).

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::actor::InstanceId;
use crate::ids::{checked_text, shortened};
use crate::policy::AcrossWorktrees;
use crate::refusal::Refusal;
use crate::task::{is_word, words};
use crate::text::hex;

use super::overlap::{Witness, overlap_where};
use super::{Glob, Scope, ScopeError, covers_where};

/// The name of an area: a set of globs that a project has named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct AreaName(String);

impl FromStr for AreaName {
    type Err = Refusal;

    /// Messages contain the name unquoted, so it has no characters that would need quoting.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
        if is_word(text) && text.chars().all(is_plain) {
            return Ok(AreaName(text.to_owned()));
        }
        Err(Refusal::usage(format!(
            "'{}' is not the name of an area: use 1 to 64 letters, digits and - _ . /",
            shortened(text)
        )))
    }
}

checked_text!(AreaName);

/// Identifies a worktree: a digest of the machine and of what identifies the worktree there. The same path on two machines is two
/// worktrees, and a worktree that was moved is still the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct WorktreeId(String);

impl WorktreeId {
    /// 128 bits are enough to distinguish worktrees.
    pub const LEN: usize = 32;

    /// `machine`: the machine's mark, empty if it has none. `own`: what distinguishes the worktree from others on that machine.
    pub fn new(machine: &str, own: &str) -> WorktreeId {
        let mut digest = hex(&Sha256::digest(format!("onus: worktree\n{machine}\n{own}")));
        digest.truncate(Self::LEN);
        WorktreeId(digest)
    }
}

impl FromStr for WorktreeId {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let is_digest =
            text.len() == Self::LEN && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match is_digest {
            true => Ok(WorktreeId(text.to_owned())),
            false => Err(Refusal::usage(format!("'{}' is not a worktree's id", shortened(text)))),
        }
    }
}

checked_text!(WorktreeId);

/// Which of some globs were named by an area, and by which. Only the globs decide; the names are for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Areas(BTreeMap<AreaName, Scope>);

impl Areas {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, area: AreaName, globs: impl IntoIterator<Item = Glob>) {
        self.0.entry(area).or_default().extend(globs);
    }

    pub fn extend(&mut self, others: &Areas) {
        for (area, scope) in &others.0 {
            self.insert(area.clone(), scope.globs().iter().cloned());
        }
    }

    /// Keeps only the globs of this scope.
    pub fn retain(&mut self, scope: &Scope) {
        for globs in self.0.values_mut() {
            *globs = globs.globs().iter().filter(|glob| scope.has(glob)).cloned().collect();
        }
        self.0.retain(|_, globs| !globs.is_empty());
    }

    /// The first area that has this glob.
    pub fn of(&self, glob: &Glob) -> Option<&AreaName> {
        self.0.iter().find(|(_, scope)| scope.has(glob)).map(|(area, _)| area)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&AreaName, &Scope)> {
        self.0.iter()
    }
}

/// Where a file was touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Touched {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeId>,
    /// The sub-agent that touched it: a part of the conversation that holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<InstanceId>,
}

words! {
    /// How a glob was reserved.
    ReservationKind("kind of reservation") {
        Declared = "declared",
        Touched = "touched",
    }
}

/// How a glob was reserved, with the details.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// For every worktree of the repository. `area`: the area that named it.
    Declared {
        area: Option<AreaName>,
    },
    Touched(Touched),
}

impl Basis {
    pub fn kind(&self) -> ReservationKind {
        match self {
            Basis::Declared { .. } => ReservationKind::Declared,
            Basis::Touched(_) => ReservationKind::Touched,
        }
    }

    pub fn area(&self) -> Option<&AreaName> {
        match self {
            Basis::Declared { area } => area.as_ref(),
            Basis::Touched(_) => None,
        }
    }

    pub fn worktree(&self) -> Option<&WorktreeId> {
        match self {
            Basis::Declared { .. } => None,
            Basis::Touched(touched) => touched.worktree.as_ref(),
        }
    }

    pub fn part(&self) -> Option<&InstanceId> {
        match self {
            Basis::Declared { .. } => None,
            Basis::Touched(touched) => touched.part.as_ref(),
        }
    }
}

/// One row of what a lease reserves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reservation {
    pub glob: Glob,
    pub basis: Basis,
    /// Whether the tool that touched the file has also changed it.
    pub is_changed: bool,
}

impl AsRef<Glob> for Reservation {
    fn as_ref(&self) -> &Glob {
        &self.glob
    }
}

impl Reservation {
    /// A new row, not changed yet.
    pub fn new(glob: Glob, basis: Basis) -> Reservation {
        Reservation { glob, basis, is_changed: false }
    }

    /// Whether it is a file that was touched in this worktree.
    pub fn is_touched_in(&self, worktree: Option<&WorktreeId>) -> bool {
        self.basis.kind() == ReservationKind::Touched && self.basis.worktree() == worktree
    }

    /// Its identity among the rows of its lease: a file is declared once, and touched once per worktree by the conversation and
    /// by each of its parts.
    fn key(&self) -> (&Glob, ReservationKind, Option<&WorktreeId>, Option<&InstanceId>) {
        (&self.glob, self.basis.kind(), self.basis.worktree(), self.basis.part())
    }

    /// Whether it reserves its paths in this worktree.
    pub fn applies_in(&self, worktree: Option<&WorktreeId>) -> bool {
        match &self.basis {
            Basis::Declared { .. } => true,
            Basis::Touched(touched) => touched.worktree.as_ref() == worktree,
        }
    }
}

/// Whether two rows that match a common path are a merge to come, which excludes only if the project says so: both are touched
/// files, in worktrees that are known to differ.
///
/// An unknown worktree may be any, also the other's: then the two files count as one.
pub fn is_merge(one: &Reservation, other: &Reservation) -> bool {
    match (&one.basis, &other.basis) {
        (Basis::Touched(one), Basis::Touched(other)) => {
            one.worktree.as_ref().zip(other.worktree.as_ref()).is_some_and(|(one, other)| one != other)
        }
        _ => false,
    }
}

/// Whether a path that both match may not be reserved by two live leases (P3).
pub fn collide(one: &Reservation, other: &Reservation, across: AcrossWorktrees) -> bool {
    across == AcrossWorktrees::Refuse || !is_merge(one, other)
}

/// A shortest path in which two leases with these reservations collide. None: they do not collide.
pub fn collision(
    ours: &[Reservation],
    theirs: &[Reservation],
    shared: &[Glob],
    across: AcrossWorktrees,
) -> Result<Option<Witness>, ScopeError> {
    overlap_where(ours, theirs, shared, |one, other| collide(one, other, across))
}

/// The files that both have touched, in worktrees of their own, so that both changes will have to be merged.
pub fn merges<'r>(
    ours: &'r [Reservation],
    theirs: &'r [Reservation],
    shared: &'r Scope,
) -> impl Iterator<Item = &'r str> {
    let meets =
        move |one: &&Reservation| theirs.iter().any(|other| one.glob == other.glob && is_merge(one, other));
    ours.iter().filter(meets).filter_map(|row| row.glob.path()).filter(|path| !shared.covers(path))
}

/// What a lease reserves: rows in the order of their globs, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reservations {
    rows: Vec<Reservation>,
}

impl Reservations {
    /// The rows of what an event or a request names: all touched in one worktree, or all declared.
    pub fn of(scope: &Scope, areas: &Areas, touched: Option<&Touched>) -> Reservations {
        let row = |glob: &Glob| {
            let basis = match touched {
                Some(touched) => Basis::Touched(touched.clone()),
                None => Basis::Declared { area: areas.of(glob).cloned() },
            };
            Reservation::new(glob.clone(), basis)
        };
        scope.globs().iter().map(row).collect()
    }

    pub fn rows(&self) -> &[Reservation] {
        &self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The globs alone.
    pub fn scope(&self) -> Scope {
        self.rows.iter().map(|row| row.glob.clone()).collect()
    }

    pub fn insert(&mut self, row: Reservation) {
        if let Err(at) = self.rows.binary_search_by(|there| there.key().cmp(&row.key())) {
            self.rows.insert(at, row);
        }
    }

    /// Removes a glob, however it was reserved.
    pub fn remove(&mut self, glob: &Glob) {
        self.rows.retain(|row| row.glob != *glob);
    }

    /// Marks these files, touched in this worktree, as changed.
    pub fn change(&mut self, files: &Scope, worktree: Option<&WorktreeId>) {
        let rows = self.rows.iter_mut().filter(|row| row.is_touched_in(worktree) && files.has(&row.glob));
        rows.for_each(|row| row.is_changed = true);
    }

    /// Removes these files, touched in this worktree.
    pub fn give_up(&mut self, files: &Scope, worktree: &WorktreeId) {
        self.rows.retain(|row| !row.is_touched_in(Some(worktree)) || !files.has(&row.glob));
    }

    fn of_glob(&self, glob: &Glob) -> &[Reservation] {
        let from = self.rows.partition_point(|row| row.glob < *glob);
        let until = from + self.rows[from..].partition_point(|row| row.glob == *glob);
        &self.rows[from..until]
    }

    /// Whether it has exactly this glob.
    pub fn has(&self, glob: &Glob) -> bool {
        !self.of_glob(glob).is_empty()
    }

    pub fn declares(&self, glob: &Glob) -> bool {
        self.of_glob(glob).iter().any(|row| row.basis.kind() == ReservationKind::Declared)
    }

    /// Whether a row matches the path, in whatever worktree.
    pub fn covers(&self, path: &str) -> bool {
        covers_where(&self.rows, path, |_| true)
    }

    /// Whether a row reserves the path in this worktree.
    pub fn holds(&self, path: &str, worktree: Option<&WorktreeId>) -> bool {
        covers_where(&self.rows, path, |row| row.applies_in(worktree))
    }

    /// Whether the holder itself, or this part of it, has the path in this worktree. Declared paths belong to the holder.
    pub fn covers_for(&self, part: Option<&InstanceId>, path: &str, worktree: Option<&WorktreeId>) -> bool {
        covers_where(&self.rows, path, |row| row.applies_in(worktree) && row.basis.part() == part)
    }
}

/// Of several rows with one key, the first stays, as in a store.
impl FromIterator<Reservation> for Reservations {
    fn from_iter<I: IntoIterator<Item = Reservation>>(rows: I) -> Reservations {
        let mut rows = Vec::from_iter(rows);
        rows.sort_by(|one, other| one.key().cmp(&other.key()));
        rows.dedup_by(|later, first| later.key() == first.key());
        Reservations { rows }
    }
}

impl Extend<Reservation> for Reservations {
    fn extend<I: IntoIterator<Item = Reservation>>(&mut self, more: I) {
        let rows = std::mem::take(&mut self.rows);
        *self = rows.into_iter().chain(more).collect();
    }
}

impl IntoIterator for Reservations {
    type Item = Reservation;
    type IntoIter = std::vec::IntoIter<Reservation>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}
