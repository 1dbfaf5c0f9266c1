//! Answers git's hooks. The rule is the one that judges agents' edits (`onus_engine`'s guard); this module only finds out what git is
//! about to commit, and who commits it.
//!
//! **Only a refusal fails a commit.** If the store is missing, broken or busy, the agent cannot be identified, or git is too slow, the
//! commit passes unchecked, and a message says so once for the same cause.
//!
//! **Which hooks git runs:** `commit` and a merge that makes a commit run commit-msg, where they are judged; `commit` also runs
//! post-commit. Cherry-pick and rebase run prepare-commit-msg (so does `commit`) and post-commit. `revert`, `am` and
//! `rebase --apply` run no hook in time: post-commit warns about what they brought, and pre-push judges all commits again.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::command::{Command, Committed, Guard};
use onus_core::commit::{Extent, resolved_by};
use onus_core::decide::MAX_GLOBS;
use onus_core::policy::GuardPeople;
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::Glob;
use onus_engine::{AnyEngine, CommitLease, Files, Identity, Pushed, Request};
use onus_host::landing::Landings;
use onus_host::{Checkout, Host};
use onus_repo::git_hooks::{Hook, PROBE};
use onus_repo::landing::{Forward, Lander};
use onus_repo::{
    Describing, GitError, JudgedCommit, Place, Staging, add_trailers, checkout_of, describe, named_by,
    pushed, read_small,
};
use onus_store::Access;

use super::conversation;
use crate::commands::hook::{is_answer, is_unwritable, refused, told};
use crate::output::{note, path_line};

/// How long a commit waits for other writers.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most that git tells a hook about a push.
const MAX_INPUT: u64 = 1024 * 1024;

/// What was wrong last, in the common directory: said once.
const TOLD: &str = "onus-guard-told";

pub(super) fn run(name: &str, args: &[OsString]) -> u8 {
    if let Ok(nonce) = std::env::var(PROBE) {
        note(&format!("{name} {nonce}"));
        // What else is in the hook is not run.
        return Code::Nothing.exit_code();
    }
    let Some(hook) = Hook::named(name) else { return 0 };
    let mut input = String::new();
    if hook == Hook::PrePush {
        // Whatever is not read is not judged, and git must not wait for its reader.
        let _ = std::io::stdin().lock().take(MAX_INPUT).read_to_string(&mut input);
    }
    let elsewhere = std::env::var_os("GIT_DIR").filter(|dir| !dir.is_empty());
    let elsewhere = elsewhere.and_then(|dir| checkout_of(Path::new(&dir)));
    let host = match Host::new(elsewhere.as_deref(), None) {
        Ok(host) => host,
        Err(refusal) => {
            pass(None, &refusal);
            return 0;
        }
    };
    let Some(place) = host.place.clone().filter(|place| place.git_dir.is_some() && is_here(place)) else {
        return 0;
    };
    // The root that this checkout's files are named from.
    let root = onus_repo::calls::home(&place).map_or_else(|| place.root.clone(), |(root, _)| root);
    let checkout = host.checkout(&root);
    let call = GitHook { host: &host, place: &place, checkout, is_asked: Cell::new(false) };
    let message = args.first().map(Path::new);
    let outcome = match hook {
        Hook::PrepareCommitMsg => call.judge_picked(message),
        Hook::CommitMsg => call.judge_and_name(message),
        Hook::PostCommit => call.record(),
        Hook::PostMerge => call.recognise(),
        Hook::PrePush => call.judge_push(&input),
    };
    match outcome {
        Ok(()) => {
            if call.is_asked.get() {
                let _ = std::fs::remove_file(told_file(&place));
            }
            0
        }
        Err(Stop::Refused(refusal)) => {
            note(&refused(&refusal));
            refusal.exit_code()
        }
        Err(Stop::Trouble(refusal)) => {
            pass(Some(&place), &refusal);
            0
        }
    }
}

/// Why a hook ends without having done its work.
enum Stop {
    /// The commit is refused.
    Refused(Refusal),
    /// It passes unchecked.
    Trouble(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Trouble(refusal)
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Stop {
        Stop::Trouble(Refusal::new(Code::Unexpected, error.to_string()))
    }
}

/// Whether git works in the place that was found: whatever the files are that it commits, they are committed there.
fn is_here(place: &Place) -> bool {
    let Some(named) = std::env::var_os("GIT_DIR").filter(|dir| !dir.is_empty()) else { return true };
    let named = Path::new(&named).canonicalize();
    named.is_ok_and(|named| place.git_dir.as_ref().and_then(|dir| dir.canonicalize().ok()) == Some(named))
}

fn told_file(place: &Place) -> PathBuf {
    place.common_dir.as_deref().unwrap_or(&place.root).join(TOLD)
}

/// The commit passes unchecked. The same trouble is said once, until it is over.
fn pass(place: Option<&Place>, refusal: &Refusal) {
    let code = format!("{:?}", refusal.code);
    if let Some(place) = place {
        let file = told_file(place);
        if read_small(&file).is_ok_and(|told| told == code) {
            return;
        }
        // What cannot be remembered is said again.
        let _ = std::fs::write(file, &code);
    }
    note(&format!("onus: this commit was not checked: {}", refusal.message));
}

/// The leases under which a commit is made, and all that it changes, if that is known.
type Assessed = (Vec<CommitLease>, Option<Vec<String>>);

struct GitHook<'a> {
    host: &'a Host,
    place: &'a Place,
    checkout: Checkout,
    /// Whether the store was asked anything.
    is_asked: Cell<bool>,
}

impl GitHook<'_> {
    fn engine(&self) -> Result<AnyEngine, Refusal> {
        self.is_asked.set(true);
        let wait = self.host.config.store_wait().min(PATIENCE);
        match self.host.engine_within(Access::Write, wait) {
            Err(refusal) if is_unwritable(&refusal) => self.host.engine_within(Access::Read, wait),
            engine => engine,
        }
    }

    fn staging(&self) -> Staging<'_> {
        Staging::of(self.place, &|name| std::env::var_os(name))
    }

    /// A commit is about to be made: judges it, and names the tasks that it belongs to in its message.
    fn judge_and_name(&self, message: Option<&Path>) -> Result<(), Stop> {
        let staging = self.staging().with_kept_index();
        let judged = self.judge(&staging, &[]);
        staging.forget_kept_index();
        let (leases, paths) = judged?;
        let named = match message {
            Some(message) => self.name(&staging, message, &self.trailers(&leases)),
            None => Ok(()),
        };
        JudgedCommit::leave(self.place, paths.as_deref());
        Ok(named?)
    }

    fn name(&self, staging: &Staging<'_>, message: &Path, trailers: &[String]) -> Result<(), GitError> {
        let message = std::path::absolute(message).unwrap_or_else(|_| message.to_owned());
        match trailers.is_empty() || staging.is_untouched_template(&message) {
            true => Ok(()),
            false => add_trailers(self.place, &message, trailers),
        }
    }

    /// Judges what is about to be committed, except what was judged before. Returns the leases under which it is done, and all that it
    /// changes, if that is known.
    fn judge(&self, staging: &Staging<'_>, before: &[String]) -> Result<Assessed, Stop> {
        // Whoever commits waits for the longer of both, git and the store.
        let (listing, engine) = std::thread::scope(|scope| {
            let listing = scope.spawn(|| staging.list());
            let engine = self.engine();
            (listing.join(), engine)
        });
        let listing = listing.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let mut engine = engine?;
        let Some(identity) = self.host.committer(&mut engine)? else {
            return Ok((Vec::new(), None));
        };
        let staged = listing.staged()?;
        let is_judged = |path: &String| !before.contains(path) && Glob::literal(path).is_ok();
        let names: Vec<String> = staged.paths.into_iter().filter(is_judged).collect();
        let mut leases = self.leases(&mut engine, &identity, &names)?;
        if identity.actor.is_person() {
            self.warn_person(&mut engine, &identity, &names)?;
        } else {
            let counted = leases.iter().find(|lease| lease.has_size_limit());
            let tally = counted.map(|lease| staging.tally(&lease.commits)).transpose()?;
            let extent = Extent { removed: staged.removed, tally };
            // A merge may resolve the conflict that somebody is to be told of: post-commit tells what is left of it.
            let is_heard = staging.merged.is_empty();
            // A merge or a moved commit may bring in what the task is counted by, and change nothing else.
            let is_moved = !is_heard || !before.is_empty();
            let is_asked = !names.is_empty() || (is_moved && !leases.is_empty());
            if !is_asked {
                // A commit that changes nothing, or a merge: it may still be on a branch that is another's.
                self.refuse_anothers(&mut engine, &identity, &[])?;
            } else if self.guard(&mut engine, &identity, &names, (extent, is_heard), &leases)? {
                // It may have claimed the task of this worktree, or opened one.
                leases = self.leases(&mut engine, &identity, &names)?;
            }
        }
        // Of a merge, or of what is moved, this is not all.
        let is_all = staging.merged.is_empty() && before.is_empty();
        // The process ends with this answer: see `Context::run_with` for what that gains.
        std::mem::forget(engine);
        Ok((leases, is_all.then_some(names)))
    }

    /// A commit is about to be picked from elsewhere, by `cherry-pick` or in a rebase. What its maker moves to another base was judged
    /// when it was made, except for what is counted; what is staged beside it, where the rebase stopped, was not.
    fn judge_picked(&self, message: Option<&Path>) -> Result<(), Stop> {
        let Some(git_dir) = &self.place.git_dir else { return Ok(()) };
        let picked = named_by(self.place, "CHERRY_PICK_HEAD");
        if !git_dir.join("rebase-merge").is_dir() {
            return picked.map_or(Ok(()), |_| self.judge_and_name(message));
        }
        let Some(moved) = picked.clone().or_else(|| named_by(self.place, "REBASE_HEAD")) else {
            return Ok(());
        };
        let mut engine = self.engine()?;
        let Some(identity) = self.host.committer(&mut engine)? else { return Ok(()) };
        let is_own = engine.has_made((&identity.actor, &identity.instance), &moved)?;
        drop(engine);
        // Where a rebase stopped to have a commit edited, HEAD is that commit, and all that is staged is new.
        let is_edited = picked.is_none() && git_dir.join("rebase-merge").join("amend").is_file();
        let before = match is_own && !is_edited {
            true => describe(self.place, moved.as_str())?.made()?.paths,
            false => Vec::new(),
        };
        self.judge(&self.staging(), &before)?;
        JudgedCommit::leave(self.place, None);
        Ok(())
    }

    fn leases(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        names: &[String],
    ) -> Result<Vec<CommitLease>, Refusal> {
        engine.leases_of_commit((&identity.actor, &identity.instance), names, self.checkout.id.as_ref())
    }

    /// The same rule as for an agent's edits. Returns whether anything was written: the caller may hold another task then.
    fn guard(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        names: &[String],
        (extent, is_heard): (Extent, bool),
        leases: &[CommitLease],
    ) -> Result<bool, Stop> {
        let conversation = conversation(identity, &self.checkout);
        let is_free = leases.iter().all(|lease| lease.constraints.is_empty()) && identity.token.is_none();
        let is_many = names.len() > MAX_GLOBS;
        if is_free && !is_many && engine.call(&conversation, names, Files::ToChange)?.is_settled {
            return Ok(false);
        }
        if !is_many {
            match self.ask(engine, identity, names, (&extent, is_heard)) {
                Err(Stop::Refused(refusal)) if refusal.code == Code::Limit => {}
                answer => return answer,
            }
        }
        // Too many to reserve one by one. What others have is refused all the same, and the first of them stands for the rest in
        // all that does not depend on which files they are: a lease that was lost, constraints.
        self.refuse_anothers(engine, identity, names)?;
        match self.ask(engine, identity, &names[..names.len().min(1)], (&extent, is_heard)) {
            Err(Stop::Refused(refusal)) if refusal.code == Code::Limit => {
                self.ask(engine, identity, &[], (&extent, is_heard))
            }
            answer => answer,
        }
    }

    /// Refuses files that are another's, and a worktree that is, as far as a snapshot shows.
    fn refuse_anothers(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        names: &[String],
    ) -> Result<(), Stop> {
        match engine.reserved_by_another(&conversation(identity, &self.checkout), names)? {
            Some(refusal) => Err(Stop::Refused(refusal)),
            None => Ok(()),
        }
    }

    /// Asks to change these files.
    fn ask(
        &self,
        engine: &mut AnyEngine,
        identity: &Identity,
        names: &[String],
        (extent, is_heard): (&Extent, bool),
    ) -> Result<bool, Stop> {
        let asked = Guard {
            paths: names.to_vec(),
            worktree: self.checkout.path.clone(),
            branch: self.checkout.branch.clone(),
            touched: onus_core::scope::Touched { worktree: self.checkout.id.clone(), part: None },
            extent: extent.clone(),
            is_heard,
            is_brief: true,
            ..Guard::default()
        };
        let request = Request { identity: identity.clone(), command: Command::Guard(asked), key: None };
        match engine.run(&request) {
            Ok(reply) => {
                if is_heard {
                    told(&reply.notices).iter().for_each(|news| note(news));
                }
                Ok(true)
            }
            Err(refusal) if is_answer(&refusal) => {
                if let Some(conflict) = &refusal.conflict {
                    let by = (&identity.actor, &identity.instance);
                    // The holder learns of it if this works; the commit is refused in any case.
                    let worktree = self.checkout.id.as_ref();
                    let _ = engine.record_wish(by, &conflict.task, Some(&conflict.path), worktree);
                }
                Err(Stop::Refused(refusal))
            }
            Err(trouble) if is_unwritable(&trouble) => {
                self.refuse_anothers(engine, identity, names)?;
                Err(Stop::Trouble(trouble))
            }
            Err(trouble) => Err(Stop::Trouble(trouble)),
        }
    }

    /// People are warned, and refused only where that is configured.
    fn warn_person(&self, engine: &mut AnyEngine, identity: &Identity, names: &[String]) -> Result<(), Stop> {
        let people = self.host.config.guard_people();
        if people == GuardPeople::Off {
            return Ok(());
        }
        let found = engine.reserved_by_another(&conversation(identity, &self.checkout), names)?;
        self.tell_person(found, "git commit --no-verify")
    }

    fn tell_person(&self, found: Option<Refusal>, overriding: &str) -> Result<(), Stop> {
        let Some(mut refusal) = found else { return Ok(()) };
        if self.host.config.guard_people() == GuardPeople::Refuse {
            // What else a conflict calls for is for agents to read.
            refusal.conflict = None;
            refusal.next.push(onus_core::refusal::Step::plain(format!("{overriding}   # if it has to be")));
            return Err(Stop::Refused(refusal));
        }
        note(&format!("onus: careful: {}", refusal.message));
        Ok(())
    }

    /// The lines that a commit's message gets.
    fn trailers(&self, leases: &[CommitLease]) -> Vec<String> {
        let has_token = self.host.config.has_token_trailer();
        let of_lease = |CommitLease { task, token, .. }: &CommitLease| {
            let token = has_token.then(|| format!("Onus-Token: {task}#{token}"));
            std::iter::once(format!("Onus-Task: {task}")).chain(token)
        };
        leases.iter().flat_map(of_lease).collect()
    }

    /// A commit was made.
    fn record(&self) -> Result<(), Stop> {
        let judged = JudgedCommit::take(self.place);
        let was_judged = judged.is_some();
        let made = match judged.and_then(|judged| judged.made(self.place)) {
            Some(made) => Ok(made),
            None => Err(describe(self.place, "HEAD")?),
        };
        let mut engine = self.engine()?;
        // In the middle of a rebase there is no branch yet that anything could be said of.
        if self.place.branch.is_some() {
            self.host.tell_of_conflicts(&mut engine);
        }
        let Some(identity) = self.host.committer(&mut engine)? else { return Ok(()) };
        let made = made.or_else(Describing::made)?;
        // Another committed here in the moment between this commit and its hook.
        if engine.is_made_by_another((&identity.actor, &identity.instance), &made.commit)? {
            return Ok(());
        }
        let paths: Vec<String> = made.paths.into_iter().filter(|path| Glob::literal(path).is_ok()).collect();
        if !was_judged {
            let conversation = conversation(&identity, &self.checkout);
            if let Some(refusal) = engine.reserved_by_another(&conversation, &paths)? {
                note(&format!(
                    "onus: careful: commit {} changes a file that another task has reserved: {}",
                    made.commit.short(),
                    refusal.message
                ));
            }
        }
        let resolves = resolved_by(&made.message);
        let leases = self.leases(&mut engine, &identity, &paths)?;
        if leases.is_empty() && resolves.is_empty() {
            return Ok(());
        }
        let worktree = self.checkout.id.clone();
        let committed = Committed { commit: made.commit, paths, worktree, resolves };
        let request = Request { identity, command: Command::Committed(committed), key: None };
        let outcome = engine.run(&request);
        std::mem::forget(engine);
        match outcome {
            Ok(reply) => {
                told(&reply.notices).iter().for_each(|news| note(news));
                Ok(())
            }
            Err(refusal) => Err(Stop::Trouble(refusal)),
        }
    }

    /// A merge or a pull is done: what it brought may be tasks that landed elsewhere.
    fn recognise(&self) -> Result<(), Stop> {
        // What landed beside a checkout comes in as soon as nothing is in the way.
        if let Ok(Some(lander)) = Lander::of(self.place) {
            let before = lander.behind().unwrap_or_default();
            for (target, checkout) in lander.bring_all_forward().unwrap_or_default() {
                let was_behind = before.iter().any(|behind| behind.target == target);
                if was_behind && checkout.outcome == Forward::UpToDate {
                    let path = path_line(&checkout.path);
                    note(&format!("onus: {path} has been brought forward to what landed in {target}"));
                }
            }
        }
        // Whoever is nobody in particular, or has no store, merges as ever.
        let Ok(mut engine) = self.engine() else { return Ok(()) };
        if engine.to_land().is_ok_and(|waiting| waiting.is_empty()) {
            return Ok(());
        }
        let Ok(Some(by)) = self.host.committer(&mut engine) else { return Ok(()) };
        drop(engine);
        let Ok(mut landings) = Landings::of(self.host, Some(by), None, None) else { return Ok(()) };
        for (id, commit) in landings.recognise().unwrap_or_default() {
            note(&format!(
                "onus: {id} has landed: its changes are in {} at {}",
                landings.target,
                commit.short()
            ));
        }
        Ok(())
    }

    /// Commits are about to be pushed.
    fn judge_push(&self, lines: &str) -> Result<(), Stop> {
        let commits = pushed(self.place, lines)?;
        if commits.is_empty() {
            return Ok(());
        }
        let mut engine = self.engine()?;
        let Some(identity) = self.host.committer(&mut engine)? else { return Ok(()) };
        if identity.actor.is_person() && self.host.config.guard_people() == GuardPeople::Off {
            return Ok(());
        }
        let commits: Vec<Pushed> = commits
            .into_iter()
            .map(|(commit, mut paths)| {
                paths.retain(|path| Glob::literal(path).is_ok());
                Pushed { commit, paths }
            })
            .collect();
        let found = engine.may_not_push(&conversation(&identity, &self.checkout), &commits)?;
        match found {
            Some(refusal) if !identity.actor.is_person() => Err(Stop::Refused(refusal)),
            found => self.tell_person(found, "git push --no-verify"),
        }
    }
}
