//! One of git's hooks, answered. The rule is the one that agents' edits are judged by (`onus_engine`'s guard); here is only what git
//! says of the commit, and who makes it.
//!
//! **Nothing that fails here fails a commit**, except a refusal of what an agent commits. A store that is missing, broken or busy,
//! an agent that cannot be told from another, a git that is too slow: the commit passes, and that is said, the same trouble once.
//!
//! **Which hooks git runs:** `commit` runs pre-commit, commit-msg and post-commit; a merge that makes a commit pre-merge-commit and
//! commit-msg; cherry-pick and rebase prepare-commit-msg, which `commit` runs as well, and post-commit. `revert`, `am` and
//! `rebase --apply` ask nobody in time: what they bring is looked at when it is there, and told. What is pushed is judged again.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::command::{Command, Committed, Guard};
use onus_core::commit::{CommitId, Extent, resolved_by};
use onus_core::decide::MAX_GLOBS;
use onus_core::policy::GuardPeople;
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::Glob;
use onus_engine::{CommitLease, Engine, Files, Identity, Pushed, Request};
use onus_host::landing::Landings;
use onus_host::{Checkout, Host};
use onus_repo::guard::{Hook, PROBE};
use onus_repo::landing::{Forward, Lander};
use onus_repo::{GitError, Place, Staging, add_trailers, head_commit, pushed, read_small};
use onus_store::{Access, AnyStore};

use super::conversation;
use crate::commands::hook::{is_answer, is_unwritable, refused, told};
use crate::output::{note, path_line};

/// How long a commit waits for other writers.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most that git tells a hook about a push.
const MAX_INPUT: u64 = 1024 * 1024;

/// The trailers of the commit that is being made, in its worktree's git directory: written when it was judged.
const JUDGED: &str = "onus-commit";

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
    let host = match Host::new(None, None) {
        Ok(host) => host,
        Err(refusal) => {
            pass(None, &refusal);
            return 0;
        }
    };
    let Some(place) = host.place.clone().filter(|place| place.git_dir.is_some() && is_here(place)) else {
        return 0;
    };
    let call = GitHook {
        host: &host,
        place: &place,
        checkout: host.checkout(&host_root(&place)),
        is_asked: Cell::new(false),
    };
    let outcome = match hook {
        Hook::PreCommit | Hook::PreMergeCommit => call.judge(),
        Hook::PrepareCommitMsg => call.judge_picked(args.first().map(PathBuf::from).as_deref()),
        Hook::CommitMsg => call.name_tasks(args.first().map(PathBuf::from).as_deref()),
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

/// Whether git works in the place that the folder leads to: with `--git-dir` it may be elsewhere.
fn is_here(place: &Place) -> bool {
    let Some(named) = std::env::var_os("GIT_DIR").filter(|dir| !dir.is_empty()) else { return true };
    let named = Path::new(&named).canonicalize();
    named.is_ok_and(|named| place.git_dir.as_ref().and_then(|dir| dir.canonicalize().ok()) == Some(named))
}

/// The root that this checkout's files are named from.
fn host_root(place: &Place) -> PathBuf {
    onus_repo::calls::home(place).map_or_else(|| place.root.clone(), |(root, _)| root)
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

struct GitHook<'a> {
    host: &'a Host,
    place: &'a Place,
    checkout: Checkout,
    /// Whether the store was asked anything.
    is_asked: Cell<bool>,
}

impl GitHook<'_> {
    fn engine(&self) -> Result<Engine<AnyStore>, Refusal> {
        self.is_asked.set(true);
        let wait = self.host.config.store_wait().min(PATIENCE);
        match self.host.engine_within(Access::Write, wait) {
            Err(refusal) if is_unwritable(&refusal) => self.host.engine_within(Access::Read, wait),
            engine => engine,
        }
    }

    /// The store, opened while git is asked: whoever commits waits for the longer of both.
    fn engine_while<T: Send>(
        &self,
        ask: impl FnOnce() -> Result<T, GitError> + Send,
    ) -> Result<(T, Engine<AnyStore>), Stop> {
        std::thread::scope(|scope| {
            let asked = scope.spawn(ask);
            let engine = self.engine();
            let answer = asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((answer?, engine?))
        })
    }

    /// A commit is about to be made.
    fn judge(&self) -> Result<(), Stop> {
        let staging = Staging::of(self.place, &|name| std::env::var_os(name));
        let (staged, mut engine) = self.engine_while(|| staging.changes())?;
        let Some(identity) = self.host.committer(&mut engine)? else {
            self.judged(&[]);
            return Ok(());
        };
        let names: Vec<String> =
            staged.paths.into_iter().filter(|path| Glob::literal(path).is_ok()).collect();
        let mut leases = self.leases(&mut engine, &identity, &names)?;
        if identity.actor.is_person() {
            self.warn_person(&mut engine, &identity, &names)?;
        } else {
            let counted = leases.iter().find(|lease| lease.counts());
            let tally = counted.map(|lease| staging.tally(&lease.commits)).transpose()?;
            let extent = Extent { removed: staged.removed, tally };
            self.guard(&mut engine, &identity, &names, extent, &leases)?;
            if leases.is_empty() {
                leases = self.leases(&mut engine, &identity, &names)?;
            }
        }
        self.judged(&leases);
        // The process ends with this answer: see `Context::run_with` for what that gains.
        std::mem::forget(engine);
        Ok(())
    }

    /// A commit is about to be picked from elsewhere, by `cherry-pick` or in a rebase. What its maker moves to another base was judged
    /// when it was made.
    fn judge_picked(&self, message: Option<&Path>) -> Result<(), Stop> {
        let Some(git_dir) = &self.place.git_dir else { return Ok(()) };
        let picked = read_small(&git_dir.join("CHERRY_PICK_HEAD")).ok();
        let Some(picked) = picked.and_then(|hash| hash.trim().parse::<CommitId>().ok()) else {
            return Ok(());
        };
        if !git_dir.join("rebase-merge").is_dir() {
            self.judge()?;
            return self.name_tasks(message);
        }
        let mut engine = self.engine()?;
        match self.host.committer(&mut engine)? {
            Some(identity) if engine.has_made((&identity.actor, &identity.instance), &picked)? => Ok(()),
            Some(_) => self.judge(),
            None => Ok(()),
        }
    }

    fn leases(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        names: &[String],
    ) -> Result<Vec<CommitLease>, Refusal> {
        engine.leases_of_commit((&identity.actor, &identity.instance), names, self.checkout.id.as_ref())
    }

    /// The same rule as for an agent's edits.
    fn guard(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        names: &[String],
        extent: Extent,
        leases: &[CommitLease],
    ) -> Result<(), Stop> {
        let conversation = conversation(identity, self.checkout.id.clone());
        if names.len() > MAX_GLOBS {
            // Too many to reserve one by one; what others have is refused all the same.
            return match engine.reserved_by_another(&conversation, names)? {
                Some(refusal) => Err(Stop::Refused(refusal)),
                None => Ok(()),
            };
        }
        let is_free = leases.iter().all(|lease| lease.constraints.is_empty()) && identity.token.is_none();
        if names.is_empty() || is_free && engine.call(&conversation, names, Files::ToChange)?.is_settled {
            return Ok(());
        }
        let asked = Guard {
            paths: names.to_vec(),
            worktree: self.checkout.path.clone(),
            branch: self.checkout.branch.clone(),
            touched: onus_core::scope::Touched { worktree: self.checkout.id.clone(), part: None },
            extent,
            is_heard: true,
            is_brief: true,
            ..Guard::default()
        };
        let request = Request { identity: identity.clone(), command: Command::Guard(asked), key: None };
        match engine.run(&request) {
            Ok(reply) => {
                told(&reply.notices).iter().for_each(|news| note(news));
                Ok(())
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
                match engine.reserved_by_another(&conversation, names)? {
                    Some(refusal) => Err(Stop::Refused(refusal)),
                    None => Err(Stop::Trouble(trouble)),
                }
            }
            Err(trouble) => Err(Stop::Trouble(trouble)),
        }
    }

    /// People are warned, and refused only where that is configured.
    fn warn_person(
        &self,
        engine: &mut Engine<AnyStore>,
        identity: &Identity,
        names: &[String],
    ) -> Result<(), Stop> {
        let people = self.host.config.guard_people();
        if people == GuardPeople::Off {
            return Ok(());
        }
        let found = engine.reserved_by_another(&conversation(identity, self.checkout.id.clone()), names)?;
        self.tell_person(found, "git commit --no-verify")
    }

    fn tell_person(&self, found: Option<Refusal>, overriding: &str) -> Result<(), Stop> {
        let Some(mut refusal) = found else { return Ok(()) };
        if self.host.config.guard_people() == GuardPeople::Refuse {
            refusal.next.push(onus_core::refusal::Step::plain(format!("{overriding}   # if it has to be")));
            return Err(Stop::Refused(refusal));
        }
        note(&format!("onus: careful: {}", refusal.message));
        Ok(())
    }

    /// Remembers that the commit was judged, and what its message is to say.
    fn judged(&self, leases: &[CommitLease]) {
        let Some(git_dir) = &self.place.git_dir else { return };
        let mut lines = String::new();
        for CommitLease { task, token, .. } in leases {
            lines.push_str(&format!("Onus-Task: {task}\n"));
            if self.host.config.has_token_trailer() {
                lines.push_str(&format!("Onus-Token: {task}#{token}\n"));
            }
        }
        // Without it the message names no task.
        let _ = std::fs::write(git_dir.join(JUDGED), lines);
    }

    /// The message is about to be committed.
    fn name_tasks(&self, message: Option<&Path>) -> Result<(), Stop> {
        let judged = self.place.git_dir.as_ref().and_then(|dir| read_small(&dir.join(JUDGED)).ok());
        let trailers: Vec<String> = judged.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
        let Some(message) = message.filter(|_| !trailers.is_empty()) else { return Ok(()) };
        let message = std::path::absolute(message).unwrap_or_else(|_| message.to_owned());
        Ok(add_trailers(self.place, &message, &trailers)?)
    }

    /// A commit was made.
    fn record(&self) -> Result<(), Stop> {
        let judged = self.place.git_dir.as_ref().map(|dir| dir.join(JUDGED));
        let was_judged = judged.is_some_and(|file| std::fs::remove_file(file).is_ok());
        let place = self.place;
        let (made, mut engine) = self.engine_while(|| head_commit(place))?;
        // In the middle of a rebase there is no branch yet that anything could be said of.
        if self.place.branch.is_some() {
            self.host.tell_of_conflicts(&mut engine);
        }
        let Some(identity) = self.host.committer(&mut engine)? else { return Ok(()) };
        let paths: Vec<String> = made.paths.into_iter().filter(|path| Glob::literal(path).is_ok()).collect();
        if !was_judged {
            let conversation = conversation(&identity, self.checkout.id.clone());
            if let Some(refusal) = engine.reserved_by_another(&conversation, &paths)? {
                note(&format!(
                    "onus: careful: {} changes what is another's: {}",
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
        let Ok(mut landings) = Landings::recognising(self.host, by) else { return Ok(()) };
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
        let found = engine.may_not_push(&conversation(&identity, self.checkout.id.clone()), &commits)?;
        match found {
            Some(refusal) if !identity.actor.is_person() => Err(Stop::Refused(refusal)),
            found => self.tell_person(found, "git push --no-verify"),
        }
    }
}
