//! What an agent's hooks ask on every tool call. Most calls change nothing that anyone could notice, so most
//! are answered from one snapshot and write nothing; the rest go through the engine like everything else.

use onus_core::actor::{ActorName, InstanceId};
use onus_core::command::{Guard, Look};
use onus_core::decide::{Rival, reserved_by};
use onus_core::kin::{Within, kin, within};
use onus_core::lease::{Lease, Liveness, Process};
use onus_core::policy::ScopeMode;
use onus_core::refusal::Refusal;
use onus_core::scope::{Glob, Reservations, Scope, Touched, WorktreeId};
use onus_core::time::MINUTE_MS;
use onus_store::{KnownInstance, Store, StoreError};

use crate::Engine;
use crate::snapshot::Snapshot;

/// How many instances of one process are read: enough to say that there are several, and which.
pub(crate) const MOST_OF_A_PROCESS: u64 = 20;

/// A sign of life is written again after this long.
const FRESH_MS: i64 = MINUTE_MS;

/// A conversation, as a hook's payload identifies it.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub actor: ActorName,
    pub instance: InstanceId,
    /// A sub-agent of it that works by itself, in the same process.
    pub sub_agent: Option<InstanceId>,
    /// The process that runs it.
    pub process: Option<Process>,
    /// Where it changes files; only set if it is about to.
    pub worktree: Option<WorktreeId>,
    /// The branch that is checked out there.
    pub branch: Option<String>,
    /// Whether that process runs one conversation at a time, as far as its harness is known.
    pub is_alone: bool,
}

/// What a hook's call says about files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// They are about to be changed.
    ToChange,
    /// They were changed.
    Changed,
}

/// How to handle a hook's call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    /// Who acts: the conversation, or a sub-agent of it.
    pub instance: InstanceId,
    /// The process is not yet registered for this conversation.
    pub registers: bool,
    /// There is nothing to write and nothing to report.
    pub is_settled: bool,
    /// A person was asked whether a tool may be used, and has not answered yet.
    pub is_asked: bool,
}

impl<S: Store> Engine<S> {
    /// Who makes a hook's call, and whether it needs a write. `paths`: files that a tool is about to change,
    /// or has changed.
    pub fn call(
        &mut self,
        conversation: &Conversation,
        paths: &[String],
        files: Files,
    ) -> Result<HookCall, Refusal> {
        self.query(|snapshot| {
            let Conversation { actor, instance, sub_agent, process, worktree, is_alone, branch: _ } =
                conversation;
            let actor = snapshot.actor_behind(actor)?;
            let registers = match process {
                Some(process) => !is_registered(snapshot, (&actor, instance), process, *is_alone)?,
                None => false,
            };
            let whole = snapshot.read.leases_held_by(&actor, instance)?;
            let (instance, leases) = match sub_agent {
                None => (instance, whole),
                Some(part) => {
                    let own = snapshot.read.leases_held_by(&actor, part)?;
                    let is_at_work = whole.iter().any(Lease::is_of_a_task);
                    let is_the_conversations = is_at_work
                        && (own.is_empty()
                            || covers(snapshot, &whole, paths, |own, path| {
                                own.holds(path, worktree.as_ref())
                            })?);
                    if is_the_conversations { (instance, whole) } else { (part, own) }
                }
            };
            let mut is_settled = !registers;
            for lease in &leases {
                is_settled &= is_fresh(snapshot, lease);
            }
            let part = sub_agent.as_ref().filter(|part| *part != instance);
            if let Some(part) = part.filter(|_| is_settled && !paths.is_empty()) {
                // A sub-agent that continues after its end was reported, or its conversation's turn was over,
                // is running again.
                is_settled = snapshot.read.instance(&actor, part)?.is_some_and(|known| known.is_live());
            }
            is_settled = is_settled
                && match files {
                    _ if paths.is_empty() => true,
                    Files::ToChange => {
                        covers(snapshot, &leases, paths, |own, path| {
                            own.covers_for(part, path, worktree.as_ref())
                        })? && !is_constrained(snapshot, &leases)?
                    }
                    Files::Changed => !is_news(snapshot, (&actor, instance), paths, worktree.as_ref())?,
                };
            if is_settled {
                is_settled = snapshot.news_for((&actor, instance))?.notices.is_empty();
            }
            let is_asked = leases.iter().any(|lease| lease.pulse.work.is_asked());
            Ok(HookCall { instance: instance.clone(), registers, is_settled, is_asked })
        })
    }

    /// How far the transcript of an instance was read for its usage.
    pub fn read_so_far(
        &mut self,
        actor: &ActorName,
        instance: &InstanceId,
    ) -> Result<Option<String>, Refusal> {
        self.query(|snapshot| {
            let actor = snapshot.actor_behind(actor)?;
            Ok(snapshot.read.instance(&actor, instance)?.and_then(|known| known.read))
        })
    }

    /// The files that anybody has touched in a worktree and still reserves.
    pub fn touched_in(&mut self, worktree: Option<&WorktreeId>) -> Result<Vec<String>, Refusal> {
        let touched = self.query(|snapshot| Ok(snapshot.read.touched_in(worktree)?))?;
        Ok(touched.iter().filter_map(Glob::path).map(str::to_owned).collect())
    }

    /// Whether a look found anything that must be written: somebody to tell, or files to reserve or to mark
    /// as changed. `by`: who acts, as in [`HookCall`].
    pub fn is_concerned_by(
        &mut self,
        conversation: &Conversation,
        by: &InstanceId,
        look: &Look,
    ) -> Result<bool, Refusal> {
        self.query(|snapshot| {
            let Conversation { actor, instance: whole, .. } = conversation;
            let actor = snapshot.actor_behind(actor)?;
            let findings = snapshot.findings((&actor, whole), look)?;
            let is_concerned = !findings.strays.is_empty() || !findings.joining.is_empty();
            let Guard { paths, touched, .. } = &look.joining;
            Ok(is_concerned || is_news(snapshot, (&actor, by), paths, touched.worktree.as_ref())?)
        })
    }

    /// Why one of these files is another's, as far as a snapshot shows: for when nothing can be written in
    /// time. A conversation and its sub-agents are not others to each other.
    pub fn reserved_by_another(
        &mut self,
        conversation: &Conversation,
        paths: &[String],
    ) -> Result<Option<Refusal>, Refusal> {
        self.query(|snapshot| {
            if snapshot.policy.scope_mode != ScopeMode::Strict {
                return Ok(None);
            }
            let actor = snapshot.actor_behind(&conversation.actor)?;
            let whole = &conversation.instance;
            let here = conversation.worktree.as_ref();
            if let Some(refusal) = snapshot.worktree_of_another((&actor, whole), here)? {
                return Ok(Some(refusal));
            }
            let asker = conversation.sub_agent.as_ref().unwrap_or(whole);
            let asked: Scope = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
            let mut rivals = snapshot.rivals(&asked)?;
            for rival in rivals.iter_mut().filter(|rival| rival.lease.actor == actor) {
                let Rival { lease, reserved, .. } = rival;
                let mut others = Vec::new();
                for row in reserved.drain(..) {
                    let owner = row.basis.part().unwrap_or(&lease.instance);
                    let is_running =
                        snapshot.read.instance(&actor, owner)?.is_some_and(|known| known.is_live());
                    if !matches!(
                        within(kin(whole, asker, owner), is_running),
                        Some(Within::Free | Within::Told)
                    ) {
                        others.push(row);
                    }
                }
                *reserved = others;
            }
            let touched = Touched { worktree: conversation.worktree.clone(), part: None };
            let (policy, now) = (snapshot.policy, snapshot.now);
            Ok(paths.iter().find_map(|path| reserved_by(&rivals, path, &touched, policy, now)))
        })
    }
}

/// Whether the registry says that a process runs this conversation. If a harness runs one conversation after
/// another, the current one was registered last.
fn is_registered(
    snapshot: &mut Snapshot<'_>,
    (actor, instance): (&ActorName, &InstanceId),
    process: &Process,
    is_alone: bool,
) -> Result<bool, StoreError> {
    let is_it = |known: &KnownInstance| known.actor == *actor && known.instance == *instance;
    if is_alone {
        let known = snapshot.read.instances_of(process, MOST_OF_A_PROCESS)?;
        let mut spoken_for = known.iter().filter(|known| known.instance.of_connection().is_none());
        return Ok(spoken_for.next().is_some_and(|latest| is_it(latest) && latest.is_live()));
    }
    let known = snapshot.read.instance(actor, instance)?;
    Ok(known.is_some_and(|known| known.process.as_ref() == Some(process) && known.is_live()))
}

fn is_fresh(snapshot: &Snapshot<'_>, lease: &Lease) -> bool {
    snapshot.liveness(lease) == Liveness::Live
        && !lease.pulse.resting
        && lease.is_at_work()
        && (0..FRESH_MS).contains(&snapshot.now.since_ms(&lease.pulse.last))
}

/// Whether the conversation or a sub-agent of it has touched one of these files here without having reported
/// a change yet.
fn is_news(
    snapshot: &mut Snapshot<'_>,
    (actor, instance): (&ActorName, &InstanceId),
    paths: &[String],
    worktree: Option<&WorktreeId>,
) -> Result<bool, StoreError> {
    let files: Scope = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
    for (task, token, row) in snapshot.read.scopes_near(&files)? {
        if row.is_touched_in(worktree)
            && !row.is_changed
            && files.has(&row.glob)
            && snapshot
                .read
                .lease(task, token)?
                .is_some_and(|lease| lease.actor == *actor && instance.is_one_with(&lease.instance))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether one of these leases is constrained: then each change is judged, whatever is reserved.
fn is_constrained(snapshot: &mut Snapshot<'_>, leases: &[Lease]) -> Result<bool, StoreError> {
    for lease in leases {
        let task = snapshot.task(lease.task)?;
        let of_task = task.map(|task| task.facts.constraints).unwrap_or_default();
        if !lease.constraints_now(&of_task).is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether all of the paths are reserved by these leases, in the sense of `reserve`, or shared by all.
fn covers(
    snapshot: &mut Snapshot<'_>,
    leases: &[Lease],
    paths: &[String],
    reserve: impl Fn(&Reservations, &str) -> bool,
) -> Result<bool, StoreError> {
    let asked: Vec<Glob> = paths.iter().filter_map(|path| Glob::literal(path).ok()).collect();
    if asked.len() < paths.len() {
        return Ok(false);
    }
    let near = snapshot.read.scopes_near(&asked.iter().cloned().collect())?;
    let own: Reservations = near
        .into_iter()
        .filter(|(task, token, _)| leases.iter().any(|lease| lease.task == *task && lease.token == *token))
        .map(|(_, _, reserved)| reserved)
        .collect();
    let shared = &snapshot.policy.scope_shared;
    Ok(asked.iter().filter_map(Glob::path).all(|path| reserve(&own, path) || shared.covers(path)))
}
