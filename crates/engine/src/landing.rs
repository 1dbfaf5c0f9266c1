//! Landings that were begun, which must be settled before their task is changed; and what has still to land.
//!
//! A landing's intent is a git reference and an event ([`onus_core::landing`]). Only git knows the outcome,
//! and git is not asked inside a transaction: the request is rolled back, the references are looked at, what
//! they show is recorded in a transaction of its own, and the request is made again. The engine does not know
//! how to look at them.

use onus_core::command::Act;
use onus_core::constraint::Constraints;
use onus_core::decide::{constraints_of_landing, moves_task};
use onus_core::event::{Body, Draft};
use onus_core::gate::JudgementRow;
use onus_core::ids::{TaskRef, Uid};
use onus_core::landing::{Intent, Landed, Settled};
use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::task::Task;
use onus_store::{EventQuery, Store};

use crate::execution::Purpose;
use crate::query::QueryResult;
use crate::request::evidence::MOST_JUDGED;
use crate::request::{Stop, UnitOfWork};
use crate::view::{Notice, NoticeKind};
use crate::{Engine, Identity, TaskView};

/// How many tasks that have still to land are read.
const MOST: u64 = 10_000;

/// How many events are searched for how a task landed.
const MOST_EVENTS: u64 = 1_000;

/// A landing that was begun and whose outcome is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    pub task: Uid,
    /// The task's id, as people say it.
    pub id: String,
    pub intent: Intent,
}

/// The result of looking at the references.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleResult {
    Done(Settled),
    /// Its references are in another repository.
    Elsewhere,
    Failed(String),
}

/// A task with what landing it requires.
#[derive(Clone, Debug)]
pub struct Landable {
    pub task: Task,
    pub view: TaskView,
    /// The judgements of its gates, newest first.
    pub judged: Vec<JudgementRow>,
    /// The actor that held it last.
    pub last_actor: Option<String>,
    /// What its changes are bound by.
    pub constraints: Constraints,
}

impl UnitOfWork<'_> {
    /// Stops a request that would change a task whose landing was begun.
    pub(crate) fn settle_first(&self, task: Option<&Task>, drafts: &[Draft]) -> Result<(), Stop> {
        let begun = task.and_then(|task| Some((task, task.landing.intent.as_ref()?)));
        let Some((task, intent)) = begun.filter(|_| self.purpose == Purpose::Keep) else { return Ok(()) };
        match drafts.iter().any(|draft| moves_task(&draft.body)) {
            true => Err(Stop::Unsettled(Unsettled {
                task: task.uid,
                id: self.id(task.number),
                intent: intent.clone(),
            })),
            false => Ok(()),
        }
    }
}

impl<S: Store> Engine<S> {
    /// Records the outcome of a landing, according to its references. Returns what the caller should know.
    pub(crate) fn settle(&mut self, by: &Identity, unsettled: &Unsettled) -> Result<Notice, Refusal> {
        let Unsettled { id, intent, .. } = unsettled;
        let settled = match (self.outside.settle)(unsettled) {
            SettleResult::Done(settled) => settled,
            SettleResult::Elsewhere => {
                let on = intent.place.machine.as_deref().map(|machine| format!(" on machine {machine}"));
                let message = format!(
                    "{id} is being landed in {}{}: what became of that only shows there",
                    quote::name(&intent.place.repository),
                    on.unwrap_or_default()
                );
                return Err(Refusal::new(Code::Held, message).task(id).next(Step::MendStore));
            }
            SettleResult::Failed(why) => {
                let message = format!("what became of the landing of {id} cannot be told: {why}");
                return Err(Refusal::new(Code::Unavailable, message).task(id).next(Step::MendStore));
            }
        };
        let told = match settled {
            Settled::Landed => {
                format!("{id} had landed in {}: that is recorded now", quote::name(&intent.target))
            }
            Settled::Withdrawn => format!("a landing of {id} was begun and not finished: it is withdrawn"),
        };
        self.record_settled(by, unsettled, settled)?;
        Ok(Notice::new(NoticeKind::Info, Some(id.clone()), told))
    }

    /// Records the outcome of a landing.
    pub fn record_settled(
        &mut self,
        by: &Identity,
        unsettled: &Unsettled,
        settled: Settled,
    ) -> Result<(), Refusal> {
        let act = Act::SettleLanding { commit: unsettled.intent.commit.clone(), settled };
        self.attempt_act(by, unsettled.task, act).map(drop)
    }

    /// Settles every landing that was begun. Returns what the caller should know, and the refusals of those
    /// that could not be settled.
    pub fn settle_all(&mut self, by: &Identity) -> Result<(Vec<Notice>, Vec<Refusal>), Refusal> {
        let (mut notices, mut left) = (Vec::new(), Vec::new());
        for unsettled in self.unsettled()? {
            match self.settle(by, &unsettled) {
                Ok(notice) => notices.push(notice),
                Err(refusal) => left.push(refusal),
            }
        }
        Ok((notices, left))
    }

    /// Landings that were begun and whose outcome is not recorded.
    pub fn unsettled(&mut self) -> Result<Vec<Unsettled>, Refusal> {
        self.query(|snapshot| {
            let tasks = snapshot.read.to_land(MOST)?;
            let begun = tasks.into_iter().filter_map(|task| {
                let intent = task.landing.intent?;
                Some(Unsettled { task: task.uid, id: snapshot.id(task.number), intent })
            });
            Ok(begun.collect())
        })
    }

    /// A task with what landing it requires.
    pub fn landable(&mut self, identity: Option<&Identity>, task: Option<&TaskRef>) -> QueryResult<Landable> {
        self.ask(identity, |snapshot| {
            let task = snapshot.named_task(task, identity)?;
            Ok(snapshot.landable(task)?)
        })
    }

    /// How a task that was reopened had landed before, if nothing was committed for it since.
    pub fn landed_before(&mut self, task: Uid) -> Result<Option<Landed>, Refusal> {
        self.query(|snapshot| {
            let query =
                EventQuery { stream: Some(task), newest: true, limit: MOST_EVENTS, ..EventQuery::default() };
            for record in snapshot.read.events(&query)?.iter().rev() {
                match record.to_event().map(|event| event.body) {
                    Ok(Body::TaskLanded(landed)) => return Ok(Some(landed)),
                    Ok(Body::TaskBranched(_) | Body::CommitMade { .. }) | Err(_) => return Ok(None),
                    Ok(_) => {}
                }
            }
            Ok(None)
        })
    }

    /// Tasks that are done and have still to land.
    pub fn to_land(&mut self) -> Result<Vec<Landable>, Refusal> {
        self.query(|snapshot| {
            let tasks = snapshot.read.to_land(MOST)?;
            let awaited = tasks.into_iter().filter(|task| task.landing.awaited.is_some());
            let mut landable = Vec::new();
            for task in awaited {
                landable.push(snapshot.landable(task)?);
            }
            Ok(landable)
        })
    }
}

impl crate::snapshot::Snapshot<'_> {
    fn landable(&mut self, task: Task) -> onus_store::Result<Landable> {
        let view = self.task_view(&task)?;
        let judged = self.read.judgements_of(task.uid, MOST_JUDGED)?;
        let last = self.last_lease(&task)?;
        let constraints = constraints_of_landing(&task, last.as_ref());
        let last_actor = last.map(|lease| lease.actor.to_string());
        Ok(Landable { task, view, judged, last_actor, constraints })
    }
}
