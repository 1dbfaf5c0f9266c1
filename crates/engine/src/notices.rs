//! What the caller should know besides its answer: its lease lapses soon or was taken, or someone left a
//! note.
//!
//! Readers see the same notices until they act: a changing command whose answer arrives clears them.
//!
//! **A lost lease is news until its holder has been told**, however long that takes and whatever the clocks
//! say meanwhile. The store remembers each loss from the moment it happens ([`onus_core::decide::is_lost`]);
//! what counts then is the token. Other news (notes, wishes) is what happened since the caller was last seen,
//! by the wall clock: setting that clock back may hide a note, but no safety depends on it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{self, ActorName, InstanceId, PendingKind, PendingNotice};
use onus_core::circle::Holder;
use onus_core::decide::spoken_place;
use onus_core::ids::{Token, Uid};
use onus_core::lease::{EndKind, Ended, LapseCause, Lease, Liveness};
use onus_core::quote;
use onus_core::refusal::{OnSeat, Step};
use onus_core::scope::{Glob, Reservations, Scope};
use onus_core::time::{MINUTE_MS, Moment, Span};
use onus_core::transition::Verb;
use onus_store::{ClosingRows, Result, Wish};

use crate::snapshot::Snapshot;
use crate::view::{Notice, NoticeKind};

/// A lease is lapsing when less than this share of its TTL, and less than this time, is left.
const LAPSING_SHARE: i64 = 5;
const LAPSING_MS: i64 = 10 * MINUTE_MS;

/// How many notices a caller is given at once, and how many of them about others that wait for paths of one
/// task.
const MAX_NOTICES: usize = 12;
const MAX_WANTED: usize = 3;

/// How many files a notice names: of those that were yielded at once, and of those that were changed.
const MAX_YIELDED: usize = 5;
const MAX_FILES: usize = 8;

/// What a caller should know.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) notices: Vec<Notice>,
    /// The losses among the notices, and those that no longer count because the caller has the task again: to
    /// be forgotten once the caller has heard the answer.
    pub(crate) losses: Vec<(Uid, Token)>,
    /// The stored notices among them: to be forgotten once the caller has heard the answer.
    pub(crate) pending: Vec<PendingNotice>,
}

impl Snapshot<'_> {
    /// The news for the asker of a query.
    pub(crate) fn news_for(&mut self, caller: (&ActorName, &InstanceId)) -> Result<News> {
        let known = self.read.instance(caller.0, caller.1)?;
        let seen_at_ms = known.as_ref().map(|known| known.seen_at_ms);
        let rows = self.read.closing(caller.0, caller.1, seen_at_ms, None, &[])?;
        let waits = known.is_some_and(|known| known.wants.is_some());
        self.news(caller, seen_at_ms.filter(|_| waits), &rows, None)
    }

    /// The caller's news. `refused`: when the caller was last seen, if it has been refused something and may wait for it.
    /// `about`: the task it just acted on, whose lease it knows about.
    pub(crate) fn news(
        &mut self,
        caller: (&ActorName, &InstanceId),
        refused: Option<i64>,
        rows: &ClosingRows,
        about: Option<Uid>,
    ) -> Result<News> {
        let mut news = self.losses(caller, &rows.lost)?;
        news.notices.extend(self.stray_writes(&rows.notices)?);
        news.notices.extend(self.news_of_a_circle(caller, refused)?);
        news.notices.extend(self.merges_to_come(&rows.notices)?);
        news.notices.extend(self.conflicts_to_come(&rows.notices)?);
        news.notices.extend(self.opened(&rows.notices)?);
        news.pending.clone_from(&rows.notices);
        let notices = &mut news.notices;
        let noted: BTreeSet<Uid> = rows.notes.iter().map(|note| note.task).collect();
        let wanted_of: BTreeSet<Uid> = rows.wishes.iter().map(|wish| wish.task).collect();
        for lease in &rows.held {
            let lapses = about != Some(lease.task) && self.is_lapsing(lease);
            if !lapses && !noted.contains(&lease.task) && !wanted_of.contains(&lease.task) {
                continue;
            }
            if !lease.is_of_a_task() {
                notices.push(self.lapsing_seat(lease)?);
                continue;
            }
            let id = self.id_of(lease.task)?;
            if lapses {
                notices.push(self.lapsing(&id, lease));
            }
            let of_task = || rows.notes.iter().filter(|note| note.task == lease.task);
            let notes = of_task().filter(|note| note.yielded.is_none());
            notices.extend(notes_left(&id, &notes.map(|note| &note.actor).collect::<Vec<_>>()));
            notices
                .extend(of_task().filter_map(|note| Some(yielded(&id, &note.actor, note.yielded.as_ref()?))));
            let wishes = rows.wishes.iter().filter(|wish| wish.task == lease.task);
            if wanted_of.contains(&lease.task) {
                let reserved = self.read.scope_of(lease.task, lease.token)?.scope();
                notices.extend(wishes.clone().take(MAX_WANTED).map(|wish| wanted(&id, wish, &reserved)));
            }
            let more = wishes.count().saturating_sub(MAX_WANTED);
            if more > 0 {
                let message = format!("{more} more wait for paths that {id} reserves");
                notices.push(Notice::new(NoticeKind::Wanted, Some(id), message));
            }
        }
        limit(notices);
        Ok(news)
    }

    /// What others changed in worktrees of their own: one notice for each of them and each of the caller's
    /// tasks.
    fn merges_to_come(&mut self, pending: &[PendingNotice]) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for (first, paths) in grouped(pending, PendingKind::Merge, |notice| &notice.by) {
            let (Some((actor, instance)), Some(task)) = (first.by.clone(), first.by_task) else { continue };
            let (yours, theirs) = (self.id_of(first.task)?, self.id_of(task)?);
            let holder = Holder { actor, instance };
            let place = spoken_place(first.worktree.as_deref(), first.branch.as_deref());
            let message = format!(
                "a merge to come: {} changes {} too, for {theirs}{place}",
                holder.spoken(),
                quote::some_names(&paths)
            );
            notices.push(Notice::new(NoticeKind::Merge, Some(yours), message).next(Step::show(&theirs)));
        }
        Ok(notices)
    }

    /// Tasks that were opened for the caller's edits, if its harness passes nothing on before a tool is used.
    fn opened(&mut self, pending: &[PendingNotice]) -> Result<Vec<Notice>> {
        let opened = pending.iter().filter(|notice| notice.kind == PendingKind::Opened);
        let say = |notice: &PendingNotice| {
            let id = self.id_of(notice.task)?;
            let message = format!(
                "you held no task, so onus opened {id} for your edits; it ends with this conversation"
            );
            Ok(Notice::new(NoticeKind::Info, Some(id.clone()), message).next(Step::show(&id)))
        };
        opened.map(say).collect()
    }

    /// Files that were changed by others than their holders: one notice for everything that one party changed
    /// of one task's files. A file that is no longer reserved is not news: the holder released it, or yielded
    /// it and was told so.
    fn stray_writes(&mut self, pending: &[PendingNotice]) -> Result<Vec<Notice>> {
        let mut reserved: BTreeMap<(Uid, Token), Reservations> = BTreeMap::new();
        let mut groups: BTreeMap<_, Vec<&PendingNotice>> = BTreeMap::new();
        for stray in pending.iter().filter(|notice| notice.kind == PendingKind::Changed) {
            let lease = (stray.task, stray.token);
            if let Entry::Vacant(vacant) = reserved.entry(lease) {
                vacant.insert(self.read.scope_of(stray.task, stray.token)?);
            }
            if reserved[&lease].covers(&stray.path) {
                groups.entry((stray.task, stray.by.as_ref())).or_default().push(stray);
            }
        }
        let mut notices = Vec::with_capacity(groups.len());
        for group in groups.into_values() {
            let id = self.id_of(group[0].task)?;
            notices.push(strayed(&id, &group));
        }
        Ok(notices)
    }

    /// The circle that the caller waits in, if it closed since the caller was last seen. Only a caller that
    /// was refused something can be in one.
    fn news_of_a_circle(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        refused: Option<i64>,
    ) -> Result<Option<Notice>> {
        let Some(seen_at_ms) = refused else { return Ok(None) };
        let caller = Holder { actor: actor.clone(), instance: instance.clone() };
        let news = self.circle_of(&caller)?.filter(|circle| circle.closed_at_ms() >= seen_at_ms);
        Ok(news.map(|circle| {
            let notice = Notice::new(NoticeKind::Circle, None, circle.message());
            circle.step_for(&caller).into_iter().fold(notice, Notice::next)
        }))
    }

    /// The leases that the caller lost without having been told.
    pub(crate) fn losses(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        lost: &[Lease],
    ) -> Result<News> {
        let mut news = News::default();
        for lease in lost {
            news.losses.push((lease.task, lease.token));
            if !lease.is_of_a_task() {
                news.notices.extend(self.lost_seat((actor, instance), lease)?);
                continue;
            }
            let Some(task) = self.task(lease.task)? else { continue };
            // After a reset there is no later lease.
            let later = self.lease(task.uid, task.token)?.filter(|later| later.token > lease.token);
            if later.as_ref().is_some_and(|later| later.is_held_by(actor, instance)) {
                continue;
            }
            let id = self.id(task.number);
            let how = match lease.ended.as_ref().map(|ended| ended.how) {
                Some(EndKind::TakenOver) => "taken over",
                Some(EndKind::Revoked) => "revoked",
                Some(EndKind::Reset) => "reset",
                _ => "superseded",
            };
            let by = match &lease.ended {
                Some(ended) if matches!(ended.how, EndKind::Revoked | EndKind::Reset) => {
                    self.who_ended(lease, ended)?
                }
                _ => self.successor(lease, later)?,
            };
            let by = by.unwrap_or_default();
            let message = format!(
                "your lease on {id} (token {}) was {how}{by}: stop working on it; your files stay as they are",
                lease.token
            );
            news.notices.push(Notice::new(NoticeKind::Superseded, Some(id), message));
        }
        Ok(news)
    }

    /// Who ended a lease by force, as part of a sentence. Whoever holds the task now may be somebody else.
    fn who_ended(&mut self, lease: &Lease, ended: &Ended) -> Result<Option<String>> {
        let record = self.read.event(lease.task, ended.version)?;
        Ok(record.map(|record| format!(" by {}", record.actor)))
    }

    /// The holder that followed this lease, as part of a sentence. `latest`: the current holder, or the last one.
    fn successor(&mut self, lost: &Lease, latest: Option<Lease>) -> Result<Option<String>> {
        let Some(latest) = latest else { return Ok(None) };
        let next = Token(lost.token.0 + 1);
        let next = if next < latest.token { self.lease(lost.task, next)? } else { None };
        Ok(Some(format!(" by {}", next.unwrap_or(latest).holder())))
    }

    /// The notice that the caller lost a seat, unless it has the seat again.
    fn lost_seat(
        &mut self,
        (actor, instance): (&ActorName, &InstanceId),
        lease: &Lease,
    ) -> Result<Option<Notice>> {
        let seat = self.seat_of(lease.task)?;
        let later = self.lease(seat.uid, seat.token)?.filter(|later| later.token > lease.token);
        if later.as_ref().is_some_and(|later| later.is_held_by(actor, instance)) {
            return Ok(None);
        }
        let how = match lease.ended.as_ref().map(|ended| ended.how) {
            Some(EndKind::Revoked) => "revoked",
            _ => "taken over",
        };
        let by = match &lease.ended {
            Some(ended) if ended.how == EndKind::Revoked => self.who_ended(lease, ended)?,
            _ => self.successor(lease, later)?,
        };
        let by = by.unwrap_or_default();
        let message = format!(
            "your lease on {} (token {}) was {how}{by}: stop what you are doing under it",
            seat.name.spoken(),
            lease.token
        );
        Ok(Some(Notice::of_seat(NoticeKind::Superseded, &seat.name, message)))
    }

    /// The notice that the lease on a seat lapses.
    fn lapsing_seat(&mut self, lease: &Lease) -> Result<Notice> {
        let name = self.seat_of(lease.task)?.name;
        let (message, what) = match (self.liveness(lease), lease.pulse.deadline.as_ref()) {
            (Liveness::Live, Some(deadline)) => {
                let left = Span::from_ms(deadline.left_ms(self.now));
                (format!("your lease on {} lapses in {left}", name.spoken()), OnSeat::Renew)
            }
            (Liveness::Lapsed(LapseCause::Ttl), _) => {
                (format!("your lease on {} has lapsed", name.spoken()), OnSeat::Renew)
            }
            _ => (format!("your lease on {} has lapsed", name.spoken()), OnSeat::Take),
        };
        Ok(Notice::of_seat(NoticeKind::Lapsing, &name, message).next(Step::Seat(what, name)))
    }

    /// Whether a lease has lapsed, or soon will.
    fn is_lapsing(&self, lease: &Lease) -> bool {
        let ttl_ms = lease.grant.ttl_ms;
        let soon_ms = ttl_ms.map_or(LAPSING_MS, |ttl_ms| (ttl_ms / LAPSING_SHARE).min(LAPSING_MS));
        let is_short = |deadline: &Moment| deadline.left_ms(self.now) < soon_ms;
        self.liveness(lease) != Liveness::Live || lease.pulse.deadline.as_ref().is_some_and(is_short)
    }

    fn lapsing(&self, id: &str, lease: &Lease) -> Notice {
        let (message, step) = match (self.liveness(lease), lease.pulse.deadline.as_ref()) {
            (Liveness::Lapsed(LapseCause::Ttl), _) => (
                format!(
                    "your lease on {id} has lapsed: finish the task, or renew before somebody takes it over"
                ),
                Step::Renew(id.to_owned()),
            ),
            (Liveness::Lapsed(_), _) | (Liveness::Live, None) => (
                format!("your lease on {id} has lapsed: finish the task, or claim it again"),
                Step::verb(Verb::Claim, id),
            ),
            (Liveness::Live, Some(deadline)) => {
                let left = Span::from_ms(deadline.left_ms(self.now));
                (format!("your lease on {id} lapses in {left}"), Step::Renew(id.to_owned()))
            }
        };
        Notice::new(NoticeKind::Lapsing, Some(id.to_owned()), message).next(step)
    }
}

/// The paths of pending notices of one kind, together for each task, other task and `key`; with the first notice.
pub(crate) fn grouped<'p, K: PartialEq>(
    pending: &'p [PendingNotice],
    kind: PendingKind,
    key: impl Fn(&'p PendingNotice) -> K,
) -> Vec<(&'p PendingNotice, Vec<&'p str>)> {
    let key = |notice: &'p PendingNotice| (notice.task, notice.by_task, key(notice));
    let mut groups: Vec<(&PendingNotice, Vec<&str>)> = Vec::new();
    for notice in pending.iter().filter(|notice| notice.kind == kind) {
        match groups.iter_mut().find(|(first, _)| key(first) == key(notice)) {
            Some((_, paths)) => paths.push(&notice.path),
            None => groups.push((notice, vec![&notice.path])),
        }
    }
    groups
}

/// Limits notices to what a caller can read. The first stay: lost leases.
fn limit(notices: &mut Vec<Notice>) {
    if notices.len() > MAX_NOTICES {
        let more = notices.len() - (MAX_NOTICES - 1);
        notices.truncate(MAX_NOTICES - 1);
        notices.push(Notice::info(format!("and {more} more notices")).next(Step::Status));
    }
}

/// The notice that others left notes on a task, the latest last.
fn notes_left(id: &str, authors: &[&ActorName]) -> Option<Notice> {
    let latest = quote::name(authors.last()?.as_str());
    let message = match authors.len() {
        1 => format!("{latest} left a note on {id}"),
        count => format!("{count} new notes on {id}, the latest by {latest}"),
    };
    Some(Notice::new(NoticeKind::Note, Some(id.to_owned()), message).next(Step::show(id)))
}

/// The notice that somebody got files of ad-hoc work while its turn was over.
fn yielded(id: &str, by: &ActorName, files: &Scope) -> Notice {
    let names: Vec<String> =
        files.globs().iter().map(|glob| quote::name(glob.path().unwrap_or(glob.as_str()))).collect();
    let message = format!(
        "{by} got {} from {id} while your turn was over, since nothing in it was uncommitted: read it again before \
         you change it",
        first_of(&names, MAX_YIELDED)
    );
    Notice::new(NoticeKind::Yielded, Some(id.to_owned()), message)
}

/// The notice that one party changed files of one task.
fn strayed(id: &str, group: &[&PendingNotice]) -> Notice {
    let named: Vec<String> = group.iter().map(|stray| quote::name(&stray.path)).collect();
    let files = first_of(&named, MAX_FILES);
    let message = match &group[0].by {
        Some(_) if group[0].is_own() => format!(
            "while your command ran, {files}, reserved by {id}, changed: its holder is told. If that was you, leave it as it is now, and \
             change it no further"
        ),
        Some((actor, instance)) => format!(
            "{files}, reserved by {id}, changed while a command of {} ran: look at it again before you go on",
            actor::spoken(actor.as_str(), instance.as_str())
        ),
        None => format!(
            "{files}, reserved by {id}, changed meanwhile, it cannot be told by whom: look at it again before you go on"
        ),
    };
    let notice = Notice::new(NoticeKind::Changed, Some(id.to_owned()), message).next(Step::show(id));
    // The party that changed it is asked to leave it; its holder decides what to bring back.
    match group[0].is_own() {
        true => notice,
        false => notice.next(Step::BringBack(group[0].path.clone())),
    }
}

/// The notice that somebody was refused a path, or the task.
fn wanted(id: &str, wish: &Wish, reserved: &Scope) -> Notice {
    let by = &wish.actor;
    let Some(path) = &wish.path else {
        let message = format!("{by} waits for {id}: if you are done with it, say so");
        return Notice::new(NoticeKind::Wanted, Some(id.to_owned()), message)
            .next(Step::verb(Verb::Done, id));
    };
    let (name, literal) = (quote::name(path), Glob::literal(path).ok());
    // A reservation is given back under the glob by which it was made.
    let globs: Vec<&Glob> = reserved.globs().iter().filter(|glob| glob.matches(path)).collect();
    let message = match globs.as_slice() {
        [] => {
            let message = format!("{by} waited for {name}, which {id} no longer reserves");
            return Notice::new(NoticeKind::Wanted, Some(id.to_owned()), message);
        }
        [glob] if literal.as_ref() != Some(*glob) => format!(
            "{by} waits for {name}, which {id} reserves as {}: if you no longer need that, release it",
            quote::name(glob.as_str())
        ),
        _ => format!("{by} waits for {name}, which {id} reserves: if you no longer need it, release it"),
    };
    let notice = Notice::new(NoticeKind::Wanted, Some(id.to_owned()), message);
    let give_back = |glob: &&Glob| Step::GiveBack { task: id.to_owned(), glob: (*glob).clone() };
    globs.iter().map(give_back).fold(notice, Notice::next).next(Step::verb(Verb::Done, id))
}

/// The first of some names, and how many more there are.
pub(crate) fn first_of<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
