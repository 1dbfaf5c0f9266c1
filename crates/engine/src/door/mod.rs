//! One request inside the batch's transaction.

mod actors;
mod graph;
mod guard;
mod next;
mod replay;
pub(crate) mod scene;

use onus_core::actor::{Actor, ActorName, Caller, KnownBy, Tier};
use onus_core::apply::{Change, Project, apply_to_project, apply_to_task};
use onus_core::chain::Record;
use onus_core::command::{Act, Command, Edit, Force, Presence, Terms};
use onus_core::decide::{Decision, decide};
use onus_core::event::{Body, Draft, Event};
use onus_core::ids::{TaskRef, Token, Uid, Version, no_such_task};
use onus_core::lease::{Lease, Liveness, Pulse, Seen};
use onus_core::policy::Policy;
use onus_core::refusal::{Code, Refusal};
use onus_core::task::Task;
use onus_core::text::{Field, Salt, TextKey, digest};
use onus_core::time::Moment;
use onus_core::transition::Verb;
use onus_store::{CallerRows, KnownInstance, Reach, Read, StoreError, Write};

use crate::notices::{self, Watch};
use crate::orphans::Orphan;
use crate::view::{ActorView, InstanceView, Notice, NoticeKind, Renderer, TouchedView};
use crate::{Answer, Identity, Outside, Reply, Request};

/// Why a request ends without an answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It was refused: undo it alone.
    Refused(Refusal),
    /// The store failed: nothing of the batch can stand.
    Failed(StoreError),
    /// A dead holder's processes must be ended first: then the batch is run again.
    Orphan(Orphan),
}

impl Stop {
    /// The same for a question, which grants nothing and so meets no orphans.
    pub(crate) fn of_reader(self) -> std::result::Result<Refusal, StoreError> {
        match self {
            Stop::Refused(refusal) => Ok(refusal),
            Stop::Failed(error) => Err(error),
            Stop::Orphan(_) => Err(StoreError::Unexpected("a question met an orphan".to_owned())),
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Stop {
        Stop::Refused(refusal)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Failed(error)
    }
}

type Result<T> = std::result::Result<T, Stop>;

pub(crate) struct Door<'a> {
    pub(crate) write: &'a mut dyn Write,
    policy: &'a Policy,
    outside: &'a mut Outside,
    request: &'a Request,
    now: Moment,
    project: Project,
    actor: Actor,
    caller: Caller,
    /// When the caller was last seen before this request, for what is news to it.
    watch: Watch,
    /// The first event of this request: the cause of those that follow.
    first: Option<Uid>,
    /// Things the caller should know.
    asides: Vec<String>,
    /// Process groups that were ended for this batch.
    pub(crate) ended_groups: &'a [u32],
}

/// What a command did, before it is rendered.
struct Outcome {
    made: Made,
    task: Option<Uid>,
    /// The lease it got.
    token: Option<Token>,
    notices: Vec<String>,
    existing: bool,
}

enum Made {
    Task,
    Tasks(Vec<Uid>),
    Reset(Vec<TouchedView>),
    Lease { renewed: bool, takeover: bool },
    Actor(ActorName),
    Instance(KnownInstance),
    Guarded { adopted: bool },
    Present(Vec<Uid>),
    Sealed,
}

impl Outcome {
    fn of(made: Made) -> Outcome {
        Outcome { made, task: None, token: None, notices: Vec::new(), existing: false }
    }

    fn on(made: Made, task: Uid) -> Outcome {
        Outcome { task: Some(task), ..Outcome::of(made) }
    }
}

impl<'a> Door<'a> {
    pub(crate) fn new(
        write: &'a mut dyn Write,
        policy: &'a Policy,
        outside: &'a mut Outside,
        request: &'a Request,
        ended_groups: &'a [u32],
    ) -> Result<Door<'a>> {
        let Identity { actor, instance, known_by, .. } = &request.identity;
        let CallerRows { project, name: actor, actor: known, instance: seen } =
            write.caller(actor, instance)?;
        let now = write.now();
        let watch = Watch::from(seen);
        let caller = Caller {
            actor: actor.clone(),
            instance: instance.clone(),
            known_by: *known_by,
            token: None,
            ancestry: Vec::new(),
        };
        let is_new = known.is_none();
        let row = known.unwrap_or(Actor { name: actor, tier: Tier::DEFAULT, registered_at_ms: now.wall_ms });
        let mut door = Door {
            write,
            policy,
            outside,
            request,
            now,
            project,
            actor: row,
            caller,
            watch,
            first: None,
            asides: Vec::new(),
            ended_groups,
        };
        if is_new {
            let name = door.actor.name.clone();
            door.register(&name, Tier::DEFAULT)?;
        }
        Ok(door)
    }

    pub(crate) fn run(mut self) -> Result<Reply> {
        let request = self.request;
        if let Some(key) = &request.key
            && let Some(reply) = self.replay(key)?
        {
            return Ok(reply);
        }
        let outcome = self.perform(&request.command)?;
        let progressed = outcome.task.filter(|_| request.command.is_progress());
        match request.command {
            // Whoever says that it rests is not woken by saying so.
            Command::Presence(Presence::TurnOver | Presence::Gone) => {}
            _ => self.sign_of_life(progressed)?,
        }
        self.remember_caller()?;
        if let Some(key) = &request.key {
            self.keep(key, &outcome)?;
        }
        self.reply(outcome, false)
    }

    fn perform(&mut self, command: &Command) -> Result<Outcome> {
        match command {
            Command::Add(new) => self.add(new),
            Command::AddPlan(plan) => self.add_plan(plan),
            Command::Reset { task, reason, force } => {
                let uid = self.target(task.as_ref())?;
                self.reset(uid, reason, force.as_ref())
            }
            Command::Retry { task, message, force } => {
                let uid = self.target(task.as_ref())?;
                self.retry(uid, message.as_deref(), force.as_ref())
            }
            Command::OnTask { task, act, force } => {
                let uid = match (task, act) {
                    (None, Act::Touch { .. }) => self.latest_held()?,
                    (task, _) => self.target(task.as_ref())?,
                };
                self.on_task(uid, act, force.as_ref())
            }
            Command::ClaimNext(terms) => self.claim_next(&self.bound(terms)),
            Command::Guard(guard) => self.guard(guard),
            Command::Presence(presence) => self.presence(*presence),
            Command::RegisterActor { actor, tier } => self.register_actor(actor, *tier),
            Command::SetTier { actor, tier } => self.set_tier(actor, *tier),
            Command::AddAlias { actor, alias } => self.add_alias(actor, alias),
            Command::RegisterInstance { actor, instance, process, group } => {
                let actor = self.introduced(actor)?;
                // One that goes on in another process has not heard what happened meanwhile.
                let before = self.write.instance(&actor, instance)?;
                let known = KnownInstance {
                    actor,
                    instance: instance.clone(),
                    process: Some(process.clone()),
                    group: *group,
                    seen_at_ms: before.map_or(self.now.wall_ms, |before| before.seen_at_ms),
                    wants: None,
                };
                self.write.put_instance(&known)?;
                if known.actor == self.caller.actor && known.instance == self.caller.instance {
                    self.watch.process = known.process.clone();
                    self.watch.group = known.group;
                }
                Ok(Outcome::of(Made::Instance(known)))
            }
            Command::RecordSeal { root, streams, previous } => {
                self.append_to_project(Draft::new(Body::LedgerSealed {
                    root: root.clone(),
                    streams: *streams,
                    previous: previous.clone(),
                }))?;
                Ok(Outcome::of(Made::Sealed))
            }
        }
    }

    // ---- tasks

    /// The task a command is about: the one it names, or the one that the caller holds.
    fn target(&mut self, reference: Option<&TaskRef>) -> Result<Uid> {
        if let Some(reference) = reference {
            return self.resolve(reference);
        }
        let held = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
        match held.as_slice() {
            [lease] => Ok(lease.task),
            [] => Err(Refusal::usage(format!(
                "name a task: {} ({}) holds none",
                self.caller.actor, self.caller.instance
            ))
            .next("onus ready   # what can be worked on")
            .into()),
            many => {
                let mut refusal = Refusal::new(
                    Code::Ambiguous,
                    format!("name a task: {} holds {} of them", self.caller.actor, many.len()),
                )
                .next("onus status   # what you hold");
                for lease in many.iter().take(10) {
                    let task = self.write.task(lease.task)?;
                    refusal.candidates.extend(task.map(|task| self.project.prefix.id(task.number)));
                }
                Err(refusal.into())
            }
        }
    }

    /// A file that is touched joins the latest of the caller's tasks.
    fn latest_held(&mut self) -> Result<Uid> {
        let held = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
        match held.last() {
            Some(lease) => Ok(lease.task),
            None => self.target(None),
        }
    }

    fn resolve(&mut self, reference: &TaskRef) -> Result<Uid> {
        resolve(self.write, &self.project, reference)
    }

    /// The token that counts for this task.
    fn token_for(&mut self, uid: Uid) -> Result<Option<Token>> {
        match &self.request.identity.token {
            None => Ok(None),
            Some((None, token)) => Ok(Some(*token)),
            Some((Some(reference), token)) => match self.resolve(reference) {
                Ok(task) => Ok(Some(*token).filter(|_| task == uid)),
                Err(Stop::Refused(_)) => Ok(None),
                Err(failed) => Err(failed),
            },
        }
    }

    fn on_task(&mut self, uid: Uid, act: &Act, force: Option<&Force>) -> Result<Outcome> {
        let named;
        let act = match act {
            Act::Claim(terms) => {
                named = Act::Claim(self.bound(terms));
                &named
            }
            Act::Takeover(terms) => {
                named = Act::Takeover(self.bound(terms));
                &named
            }
            Act::Handoff { to, reason } => {
                named = Act::Handoff { to: self.introduced(to)?, reason: reason.clone() };
                &named
            }
            act => act,
        };
        self.lock_for(uid, act)?;
        let task = self.locked(uid)?;
        self.caller.token = self.token_for(uid)?;
        let decision = self.decide(&task, act, force)?;
        self.carry_out(task, act, decision)
    }

    /// Locks all that an act may change beside the task itself, before the task is locked.
    fn lock_for(&mut self, uid: Uid, act: &Act) -> Result<()> {
        match act {
            Act::AddDeps { on } | Act::RemoveDeps { on } => {
                self.write.lock_graph()?;
                let mut ends = self.resolve_all(on)?;
                ends.insert(uid);
                self.write.lock_tasks(&Vec::from_iter(ends), Reach::Rows)?;
            }
            Act::Edit(Edit { parent: Some(parent), .. }) => {
                self.write.lock_graph()?;
                let mut ends = vec![uid];
                if let Some(parent) = parent {
                    ends.push(self.resolve(parent)?);
                }
                // The parent that it had is among its neighbours.
                self.write.lock_tasks(&ends, Reach::Neighbours)?;
            }
            // Who is finished, or no longer, counts with its neighbours.
            Act::Move { verb: Verb::Done | Verb::Approve | Verb::Drop | Verb::Reopen, .. } => {
                self.write.lock_tasks(&[uid], Reach::Neighbours)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// An agent whose process is registered holds what it claims as long as that process lives.
    fn bound(&self, terms: &Terms) -> Terms {
        let mut terms = terms.clone();
        if terms.process.is_none() && !self.caller.actor.is_person() {
            terms.process = self.watch.process.clone().filter(|process| {
                let ancestry = self.request.identity.ancestry.processes();
                (self.outside.observe)(process) != Seen::Dead
                    && (ancestry.contains(process)
                        || ancestry.first().is_some_and(|own| own.pid_ns != process.pid_ns))
            });
        }
        terms
    }

    fn decide(&mut self, task: &Task, act: &Act, force: Option<&Force>) -> Result<Decision> {
        let scene = self.scene(task, Some(act))?;
        let decision = decide(&self.view(task, &scene), act, force)?;
        self.end_orphans_first(&scene.id, scene.lease.as_ref(), &decision)?;
        Ok(decision)
    }

    pub(crate) fn seen(&self, lease: Option<&Lease>) -> Seen {
        lease.and_then(|lease| lease.grant.process.as_ref()).map_or(Seen::Unseen, &self.outside.observe)
    }

    fn carry_out(&mut self, task: Task, act: &Act, decision: Decision) -> Result<Outcome> {
        let uid = task.uid;
        let has = |test: fn(&Body) -> bool| decision.drafts.iter().any(|draft| test(&draft.body));
        let acquired = has(|body| matches!(body, Body::LeaseAcquired { .. }));
        let takeover = has(|body| matches!(body, Body::LeaseTakenOver { .. } | Body::LeaseRevoked { .. }));
        let mut task = Some(task);
        self.append_to_task(uid, &mut task, decision.drafts)?;
        if let Act::Redact { version, .. } = act {
            self.erase(uid, *version, &task)?;
        }
        if let Some(renewal) = decision.renew {
            self.pulse(uid, renewal.token, renewal.ttl_ms, renewal.progress)?;
        }
        let token = task.as_ref().map(|task| task.token).filter(|token| *token > Token(0));
        let made = match act {
            Act::Claim(_)
            | Act::Takeover(_)
            | Act::Renew { .. }
            | Act::Handoff { .. }
            | Act::AddScope { .. }
            | Act::RemoveScope { .. }
            | Act::Touch { .. } => {
                Made::Lease { renewed: !acquired && !matches!(act, Act::Handoff { .. }), takeover }
            }
            Act::Edit(_)
            | Act::AddDeps { .. }
            | Act::RemoveDeps { .. }
            | Act::Note { .. }
            | Act::Move { .. }
            | Act::Redact { .. } => Made::Task,
        };
        let got_lease = matches!(
            act,
            Act::Claim(_)
                | Act::Takeover(_)
                | Act::Renew { .. }
                | Act::AddScope { .. }
                | Act::RemoveScope { .. }
                | Act::Touch { .. }
        );
        Ok(Outcome {
            token: token.filter(|_| got_lease),
            notices: decision.notices,
            ..Outcome::on(made, uid)
        })
    }

    /// The words go after their event is written: what was erased is in it.
    fn erase(&mut self, uid: Uid, version: Version, task: &Option<Task>) -> Result<()> {
        let Some(head) = task.as_ref().map(|task| task.version) else { return Ok(()) };
        let Some(record) = self.write.event(uid, head)? else { return Ok(()) };
        let event = record.to_event().map_err(|error| StoreError::Damaged(error.to_string()))?;
        if let Body::TextRedacted { fields, .. } = event.body {
            for field in fields {
                self.write.erase(TextKey { stream: uid, version, field })?;
            }
        }
        Ok(())
    }

    // ---- events

    /// Stamps each draft into the task's chain and applies it. `task` is the row before, then after.
    fn append_to_task(&mut self, uid: Uid, task: &mut Option<Task>, drafts: Vec<Draft>) -> Result<()> {
        for draft in drafts {
            let (version, head) =
                task.as_ref().map_or((Version(0), String::new()), |task| (task.version, task.head.clone()));
            let (event, texts) = self.stamp(Some(uid), version, head, draft);
            let changes = apply_to_task(task.as_ref(), &event)
                .map_err(|error| StoreError::Damaged(error.to_string()))?;
            self.write.append(&event, &texts)?;
            for change in &changes {
                self.write.apply(change)?;
                if let Change::PutTask(after) | Change::MoveTask(after) = change {
                    *task = Some((**after).clone());
                }
            }
        }
        Ok(())
    }

    fn append_to_project(&mut self, draft: Draft) -> Result<()> {
        let project = self.write.lock_project()?;
        let (event, texts) = self.stamp(None, project.version, project.head.clone(), draft);
        let changes = apply_to_project(Some(&project), &event)
            .map_err(|error| StoreError::Damaged(error.to_string()))?;
        self.write.append(&event, &texts)?;
        for change in &changes {
            self.write.apply(change)?;
        }
        Ok(())
    }

    fn stamp(
        &mut self,
        task: Option<Uid>,
        version: Version,
        prev: String,
        draft: Draft,
    ) -> (Event, Vec<(Field, Salt, String)>) {
        let uid = (self.outside.new_uid)(self.now.wall_ms);
        let texts: Vec<(Field, Salt, String)> =
            draft.texts.into_iter().map(|(field, text)| (field, (self.outside.new_salt)(), text)).collect();
        let mut event = Event {
            uid,
            task,
            version: version.next(),
            body: draft.body,
            actor: self.caller.actor.clone(),
            instance: self.caller.instance.clone(),
            token: draft.token,
            at_ms: self.now.wall_ms,
            cause: self.first,
            texts: texts.iter().map(|(field, salt, text)| (*field, digest(salt, text))).collect(),
            prev,
            hash: String::new(),
        };
        event.hash = Record::from_event(&event).hash;
        // Registering an actor is not why it acts.
        if task.is_some() {
            self.first.get_or_insert(uid);
        }
        (event, texts)
    }

    // ---- signs of life

    fn pulse(&mut self, task: Uid, token: Token, ttl_ms: Option<i64>, progress: bool) -> Result<()> {
        let now = self.steady_now()?;
        let Some(lease) = self.write.lease(task, token)? else { return Ok(()) };
        if now.is_some() && !self.is_live(&lease, now.as_ref()) {
            // It lapsed while this waited: whether it may go on is another question.
            return Err(StoreError::Again.into());
        }
        self.beat(&lease, now, ttl_ms, progress)
    }

    fn beat(
        &mut self,
        lease: &Lease,
        now: Option<Moment>,
        ttl_ms: Option<i64>,
        progress: bool,
    ) -> Result<()> {
        let now = now.unwrap_or_else(|| self.now.clone());
        let pulse = Pulse {
            progress: if progress { now.clone() } else { lease.pulse.progress.clone() },
            renewals: lease.pulse.renewals + 1,
            deadline: lease.renewed_deadline(&now, ttl_ms),
            resting: false,
            last: now,
        };
        Ok(self.write.pulse(lease.task, lease.token, &pulse)?)
    }

    /// Before a deadline is moved. None: nothing was waited for, and the time is what it was.
    pub(super) fn steady_now(&mut self) -> Result<Option<Moment>> {
        Ok(if self.write.steady_scopes()? { Some(self.write.now()) } else { None })
    }

    pub(super) fn is_live(&self, lease: &Lease, now: Option<&Moment>) -> bool {
        let liveness = lease.liveness(now.unwrap_or(&self.now), self.seen(Some(lease)));
        lease.ended.is_none() && liveness == Liveness::Live
    }

    /// A changing command shows that the caller lives: its live leases are renewed.
    /// `progressed`: the task on which something came of it.
    fn sign_of_life(&mut self, progressed: Option<Uid>) -> Result<()> {
        // One known only by its folder may be another conversation: it renews nothing silently.
        if self.caller.known_by != KnownBy::Worktree {
            let mut leases = self.write.leases_held_by(&self.caller.actor, &self.caller.instance)?;
            // First the one that was worked on, whose row is waited for; of the others none is, so that no two wait for
            // one another.
            leases.sort_by_key(|lease| progressed != Some(lease.task));
            for lease in leases {
                let progress = progressed == Some(lease.task);
                if !self.is_live(&lease, None)
                    || !progress && !lease.pulse.resting && lease.pulse.last == self.now
                {
                    continue;
                }
                if progress {
                    // Another command of this caller may have the row, and come to nothing.
                    self.pulse(lease.task, lease.token, None, true)?;
                    continue;
                }
                let now = self.steady_now()?;
                // Whoever has it just now is at work on it: that is a sign of life, or its end.
                let Some(lease) = self.write.lock_lease(lease.task, lease.token)? else { continue };
                if self.is_live(&lease, now.as_ref()) && (lease.pulse.resting || lease.pulse.last != self.now)
                {
                    self.beat(&lease, now, None, false)?;
                }
            }
        }
        Ok(())
    }

    /// What was news to the caller is no longer, if it hears the answer.
    fn remember_caller(&mut self) -> Result<()> {
        let seen_at_ms = self.watch.seen_at_ms.filter(|_| !self.request.command.is_heard());
        let known = KnownInstance {
            actor: self.caller.actor.clone(),
            instance: self.caller.instance.clone(),
            process: self.watch.process.clone(),
            group: self.watch.group,
            seen_at_ms: seen_at_ms.unwrap_or(self.now.wall_ms),
            wants: self.watch.wants.clone(),
        };
        Ok(self.write.put_instance(&known)?)
    }

    // ---- answers

    /// What the caller should know. `about`: the task it acts on, about whose lease it knows.
    fn news(&mut self, about: Option<Uid>) -> Result<Vec<Notice>> {
        Ok(notices::for_caller(
            self.write,
            &self.project,
            &self.now,
            &self.outside.observe,
            (&self.caller.actor, &self.caller.instance),
            &self.watch,
            about,
        )?)
    }

    fn reply(&mut self, outcome: Outcome, replayed: bool) -> Result<Reply> {
        let mut notices = self.news(outcome.task)?;
        let asides = std::mem::take(&mut self.asides);
        notices.extend(outcome.notices.into_iter().chain(asides).map(|message| Notice {
            kind: NoticeKind::Info,
            task: None,
            message,
        }));
        let answer = self.render(outcome.made, outcome.task)?;
        Ok(Reply { answer, replayed, existing: outcome.existing, notices })
    }

    fn render(&mut self, made: Made, task: Option<Uid>) -> Result<Answer> {
        match made {
            Made::Actor(name) => Ok(Answer::Actor(self.actor_view(&name)?)),
            Made::Instance(known) => {
                let observe = &self.outside.observe;
                Ok(Answer::Instance(InstanceView::of(&known, observe)))
            }
            Made::Sealed => Ok(Answer::Sealed),
            Made::Tasks(uids) => Ok(Answer::Tasks(self.render_all(uids)?)),
            Made::Present(ended) => Ok(Answer::Present { ended: self.render_all(ended)? }),
            Made::Guarded { adopted } => {
                let is_brief = matches!(&self.request.command, Command::Guard(guard) if guard.is_brief);
                let task = match task.filter(|_| adopted || !is_brief) {
                    Some(uid) => self.render_all(vec![uid])?.pop().map(Box::new),
                    None => None,
                };
                Ok(Answer::Guarded { task, adopted })
            }
            Made::Task | Made::Reset(_) | Made::Lease { .. } => {
                let task = match task {
                    Some(uid) => self.write.task(uid)?,
                    None => None,
                };
                let task = task.ok_or_else(|| StoreError::Damaged("the answer names no task".to_owned()))?;
                let view = Box::new(self.renderer().task(&task)?);
                Ok(match made {
                    Made::Reset(touched) => Answer::Reset { task: view, touched },
                    Made::Lease { renewed, takeover } => {
                        let lease = view.lease.clone().map(Box::new);
                        Answer::Lease { task: view, lease, renewed, takeover }
                    }
                    _ => Answer::Task(view),
                })
            }
        }
    }

    fn renderer(&mut self) -> Renderer<'_> {
        Renderer {
            read: self.write,
            project: &self.project,
            now: &self.now,
            policy: self.policy,
            observe: &self.outside.observe,
        }
    }

    fn actor_view(&mut self, name: &ActorName) -> Result<ActorView> {
        let actor = self.write.actor(name)?;
        let actor = actor.ok_or_else(|| StoreError::Damaged("an actor vanished".to_owned()))?;
        let aliases = self.write.aliases()?;
        Ok(ActorView::of(&actor, &aliases))
    }
}

/// The one task a reference names: exit 3 if none, exit 2 with the candidates if several.
pub(crate) fn resolve(
    read: &mut dyn Read,
    project: &Project,
    reference: &TaskRef,
) -> std::result::Result<Uid, Stop> {
    let found = read.resolve(reference)?;
    match found.as_slice() {
        [uid] => Ok(*uid),
        [] => Err(no_such_task(reference).into()),
        many => {
            let mut refusal = Refusal::new(Code::Ambiguous, format!("'{reference}' may mean several tasks"))
                .next("use more characters of the uid, or the id");
            for uid in many {
                if let Some(task) = read.task(*uid)? {
                    refusal.candidates.push(format!("{} ({uid})", project.prefix.id(task.number)));
                }
            }
            Err(refusal.into())
        }
    }
}
