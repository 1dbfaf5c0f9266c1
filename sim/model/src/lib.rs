//! The lease protocol, every interleaving within bounds.
//!
//! **What is checked is our code.** A state is task rows and lease rows as `onus-core` folds them; a step is a request that
//! [`decide`](onus_core::decide::decide) allows, folded by [`TaskFold`](onus_core::apply::TaskFold). The model adds no rule of its own.
//!
//! **Who acts:** an agent whose lease lives by its TTL, an agent bound to a process that may die and whose turn may be over,
//! and a person who may force. Each may at any time do anything, without a token or with *any* token it was ever granted.
//! That is what a slow holder is: a write that was sent long ago and arrives now, after whatever happened since. Requests in
//! flight therefore need no place in the state.
//!
//! **What is abstracted.** The store (one request at a time, all or nothing: SQLite's write lock), texts, hashes, versions
//! and wall times (set to constants, so that histories which differ in nothing else are one state), tiers, dependencies,
//! schedules, idempotency keys, and the glue that the engine puts between rows and the view: which lease is current, who
//! else is near, a sign of life for the caller's live leases, a turn's begin and end. That glue is written down here again, in
//! `Protocol::view`, `Protocol::live_on` and `work.rs`; the simulation checks the engine's own. Time is a few ticks, by which the wall
//! goes too; observers see every process. Work is looked at in searches of its own ([`Breadth::Work`]): elsewhere it is set to nothing.
//!
//! **What must hold:** in no state two holders are able to write one task; no two live leases reserve one path; tokens grow;
//! from every state a task whose holder died or went silent can be taken over; and the stretches of a lease are what was worked
//! under it: apart from one another, while it was live, up to signs of life, with no rest among them.

mod landing;
mod state;
mod work;

use std::sync::Arc;

use onus_core::actor::{Actor, Caller, KnownBy, Tier};
use onus_core::command::{Act, Force, Terms};
use onus_core::decide::{self, Named, Rival, Surroundings, View, decide};
use onus_core::event::{Body, Draft};
use onus_core::ids::{Token, Version};
use onus_core::lease::{Lease, Liveness, Pulse, Seen};
use onus_core::policy::Policy;
use onus_core::refusal::Refusal;
use onus_core::scope::Scope;
use onus_core::stretch::Sign;
use onus_core::transition::Verb;
use stateright::{Model, Property};

pub use landing::{BrokenLanding, LandingBounds, LandingState, LandingStep, Landings};
pub use state::Saw;
pub use state::State;
use state::{ACTORS, BOUND, PERSON, actor, event, instance, is_held_by, moment, process};
pub use work::Account;

/// How far the search goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub tasks: usize,
    /// Tokens that a task may see.
    pub tokens: u64,
    pub ticks: i64,
    pub ttl: i64,
    pub max_hold: i64,
    pub breadth: Breadth,
}

/// What may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breadth {
    /// Every task declares the one path: claim, and `done`, which claims in passing. No process dies or rests.
    Passing,
    /// Claim, takeover, renew, note, release, and the begin and end of turns, with the work under each lease.
    Work,
    /// Claim, takeover, renew, release, and the one path.
    Paths,
    /// Claim, takeover (forced, too), renew, release, done, a holder's handoff, reset.
    Holding,
    /// The same, reviews, reopening, notes, and handing on what nobody holds.
    All,
}

/// A rule left out, to see that the checker notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Whatever token is presented counts as the current one.
    Fence,
    /// A late renewal looks at nobody else's paths.
    LateRenewal,
    /// Who finishes in passing what another's lapsed lease holds looks at nobody's paths.
    Passing,
    /// The sweep ends leases without asking whether they lapsed.
    Sweep,
    /// A reset leaves old tokens usable.
    Reset,
    /// A dead process is never noticed.
    Liveness,
    /// The end of a turn ends no work.
    Rest,
    /// Work under a lapsed lease ends when that is noticed, not at the last sign of life.
    Lapse,
}

#[derive(Clone, Debug)]
pub struct Protocol {
    pub bounds: Bounds,
    pub broken: Broken,
    pub saw: Arc<Saw>,
    policy: Policy,
    rows: Vec<Actor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Tick,
    /// The bound agent's process dies.
    Die,
    /// The bound agent begins a turn.
    TurnBegun,
    /// The bound agent's turn is over: its TTL counts.
    TurnOver,
    /// A retry upstream frees what dead holders keep.
    Sweep {
        task: usize,
    },
    Reset {
        task: usize,
    },
    Ask {
        by: usize,
        task: usize,
        token: Option<u64>,
        deed: Deed,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Claim,
    Takeover,
    ForcedTakeover,
    Renew,
    Touch,
    Done,
    Submit,
    Release,
    Handoff,
    Note,
    Reopen,
    Reject,
}

const DEEDS: [Deed; 12] = [
    Deed::Claim,
    Deed::Takeover,
    Deed::ForcedTakeover,
    Deed::Renew,
    Deed::Touch,
    Deed::Done,
    Deed::Submit,
    Deed::Release,
    Deed::Handoff,
    Deed::Note,
    Deed::Reopen,
    Deed::Reject,
];

/// The one path that everybody may want.
const PATH: &str = "x";

fn path() -> Scope {
    PATH.parse().map(|glob| [glob].into_iter().collect()).unwrap_or_default()
}

impl Deed {
    pub(crate) fn act(self, by: usize) -> (Act, Option<Force>) {
        let force = Some(Force { reason: "it has to be".to_owned(), link: None });
        let terms = || Terms {
            process: (by == BOUND).then(process),
            reason: Some("to do it".to_owned()),
            ..Terms::default()
        };
        let verb =
            |verb| Act::Move { verb, message: Some("so it is".to_owned()), uncommitted: None, demand: None };
        match self {
            Deed::Claim => (Act::Claim(terms()), None),
            Deed::Takeover => (Act::Takeover(terms()), None),
            Deed::ForcedTakeover => (Act::Takeover(terms()), force),
            Deed::Renew => (Act::Renew { ttl_ms: None, progress: false }, None),
            Deed::Touch => (
                Act::Touch {
                    paths: vec![PATH.to_owned()],
                    touched: Default::default(),
                    extent: Default::default(),
                },
                None,
            ),
            Deed::Done => (verb(Verb::Done), None),
            Deed::Submit => (verb(Verb::Submit), None),
            Deed::Release => (verb(Verb::Release), None),
            Deed::Handoff => {
                (Act::Handoff { to: actor((by + 1) % ACTORS), reason: "yours".to_owned() }, None)
            }
            Deed::Note => (Act::note("how it goes"), None),
            Deed::Reopen => (verb(Verb::Reopen), None),
            Deed::Reject => (verb(Verb::Reject), None),
        }
    }
}

impl Protocol {
    pub fn new(bounds: Bounds, broken: Broken) -> Protocol {
        let policy = Policy {
            ttl_ms: bounds.ttl,
            max_hold_ms: bounds.max_hold,
            keep_ms: 2,
            idle_ms: 1,
            ..Policy::default()
        };
        let rows = (0..ACTORS)
            .map(|index| Actor { name: actor(index), tier: Tier::DEFAULT, registered_at_ms: 0 })
            .collect();
        Protocol { bounds, broken, saw: Arc::default(), policy, rows }
    }

    fn seen(&self, state: &State, lease: &Lease) -> Seen {
        match &lease.grant.process {
            None => Seen::Unseen,
            Some(_) if state.alive || self.broken == Broken::Liveness => Seen::Alive,
            Some(_) => Seen::Dead,
        }
    }

    fn is_live(&self, state: &State, lease: &Lease) -> bool {
        let seen = self.seen(state, lease);
        lease.ended.is_none() && lease.liveness(&moment(state.now), seen) == Liveness::Live
    }

    /// Asks the core, with the view that the engine would put together.
    pub(crate) fn view<T>(
        &self,
        state: &State,
        (by, task, token): (usize, usize, Option<u64>),
        deed: Option<Deed>,
        ask: impl FnOnce(&View<'_>) -> T,
    ) -> Option<T> {
        let fold = &state.tasks[task];
        let row = fold.task.as_ref()?;
        let lease = fold.leases.get(&row.token);
        let presented = match (self.broken, token) {
            (Broken::Fence, Some(_)) => Some(row.token),
            (_, token) => token.map(Token),
        };
        let caller = Caller {
            whole: None,
            actor: actor(by),
            instance: instance(by),
            known_by: if by == PERSON { KnownBy::Person } else { KnownBy::Name },
            token: presented,
            ancestry: if by == BOUND { vec![process()] } else { Vec::new() },
            in_turn: by == BOUND && state.in_turn,
            own_clock: None,
            process: None,
        };
        let mine = fold.leases.values().rev().find(|lease| lease.is_held_by(&caller.actor, &caller.instance));
        let named = Named::default();
        let now = moment(state.now);
        let mut view = View {
            now: &now,
            policy: &self.policy,
            caller: &caller,
            actor: &self.rows[by],
            task: row,
            id: "ON-1",
            lease,
            seen: lease.map_or(Seen::Unseen, |lease| self.seen(state, lease)),
            mine,
            indefinite: (0, 0),
            caller_worked_on_it: false,
            title: None,
            body: None,
            named: &named,
            around: None,
            waits_for: &[],
            redactable: None,
            session: None,
            has_reserved: false,
            rescued: None,
            judged: &[],
            kept: &[],
        };
        let around = deed.and_then(|deed| self.surroundings(state, task, &view, (by, deed)));
        view.around = around.as_ref();
        Some(ask(&view))
    }

    /// What is reserved around what the core says that a deed may come to reserve.
    fn surroundings(
        &self,
        state: &State,
        task: usize,
        view: &View<'_>,
        (by, deed): (usize, Deed),
    ) -> Option<Surroundings> {
        let wish = decide::reserves(view, &deed.act(by).0)?;
        let mut rivals = Vec::new();
        for (other, fold) in state.tasks.iter().enumerate().filter(|(other, _)| *other != task) {
            for lease in fold.leases.values().filter(|lease| self.is_live(state, lease)) {
                let reserved = fold.scopes.get(&lease.token).cloned().unwrap_or_default();
                let (id, reserved) = (format!("ON-{other}"), reserved.into_iter().collect());
                rivals.push(Rival { id, is_ad_hoc: false, lease: lease.clone(), reserved });
            }
        }
        match (self.broken, deed) {
            (Broken::LateRenewal, Deed::Renew) | (Broken::Passing, Deed::Done) => rivals.clear(),
            _ => {}
        }
        let scopes = &state.tasks[task].scopes;
        let own = view.lease.and_then(|lease| scopes.get(&lease.token)).cloned().unwrap_or_default();
        let mut asked = wish.scope;
        asked.extend(Vec::from(own.scope()));
        Some(Surroundings {
            asked,
            own_len: own.rows().len(),
            own,
            is_whole: true,
            rivals,
            running: Default::default(),
        })
    }

    fn decided(
        &self,
        state: &State,
        (by, task, token): (usize, usize, Option<u64>),
        deed: Deed,
    ) -> Option<Result<decide::Decision, Refusal>> {
        let (act, force) = deed.act(by);
        self.view(state, (by, task, token), Some(deed), |view| decide(view, &act, force.as_ref()))
    }

    /// Folds what was decided into the rows.
    pub(crate) fn write(&self, state: &mut State, (by, task): (usize, usize), drafts: Vec<Draft>) {
        for mut draft in drafts {
            if self.broken == Broken::Lapse {
                self.work_on_until_noticed(state, task, &mut draft);
            }
            let fold = &mut state.tasks[task];
            let version = fold.task.as_ref().map_or(Version(0), |row| row.version).next();
            if fold.add(&event(by, task, version, state.now, draft)).is_err() {
                state.misplaced = true;
            }
        }
    }

    /// A successful request shows that its caller lives.
    fn live_on(&self, state: &mut State, by: usize, renewed: Option<(usize, Token)>) {
        let now = moment(state.now);
        for task in 0..state.tasks.len() {
            let tokens: Vec<Token> = state.tasks[task].leases.keys().copied().collect();
            for token in tokens {
                let lease = &state.tasks[task].leases[&token];
                let own = is_held_by(lease, by) || renewed == Some((task, token));
                if !own || !self.is_live(state, lease) {
                    continue;
                }
                let in_turn = by == BOUND && state.in_turn;
                let sign = Sign { now: &now, own: None, in_turn, idle_ms: self.policy.idle_ms };
                let pulse = Pulse {
                    deadline: lease.renewed_deadline(&now, None),
                    resting: false,
                    last: now.clone(),
                    work: self.policy.work_after(lease, sign),
                    ..lease.pulse.clone()
                };
                if let Some(lease) = state.tasks[task].leases.get_mut(&token) {
                    lease.pulse = pulse;
                }
            }
        }
    }

    /// Every lease whose holder could change the task now, by its token or by its name.
    fn writers(&self, state: &State, task: usize) -> Vec<Token> {
        let leases = state.tasks[task].leases.values();
        let able = leases.filter(|lease| {
            let Some(by) = (0..ACTORS).find(|by| is_held_by(lease, *by)) else { return false };
            [Deed::Note, Deed::Renew, Deed::Touch, Deed::Release, Deed::Done].into_iter().any(|deed| {
                let asked = (by, task, Some(lease.token.0));
                self.decided(state, asked, deed).is_some_and(|decided| decided.is_ok())
            })
        });
        able.map(|lease| lease.token).collect()
    }

    /// Names of live leases that reserve the path.
    fn reserving(&self, state: &State) -> usize {
        let path = path();
        let reserving = state.tasks.iter().flat_map(|fold| {
            fold.leases.values().filter(|lease| {
                self.is_live(state, lease)
                    && fold.scopes.get(&lease.token).is_some_and(|reserved| reserved.scope() == path)
            })
        });
        reserving.count()
    }

    /// Whether a task whose holder is heard of no more can be had: at once if it is dead, else when its time is over.
    fn can_be_had(&self, state: &State, task: usize) -> bool {
        let Some(row) = state.tasks[task].task.as_ref() else { return false };
        let Some(lease) = state.tasks[task].leases.get(&row.token).filter(|lease| lease.ended.is_none())
        else {
            return true;
        };
        if is_held_by(lease, PERSON) {
            // A person's lease is never taken by a timer; another person takes it over by force.
            return true;
        }
        let dead = lease.grant.process.is_some() && !state.alive;
        let mut later = state.clone();
        if !dead {
            later.now = state.now.saturating_add(self.bounds.max_hold);
        }
        // Others' paths are theirs: alone, the task can be had.
        for (other, fold) in later.tasks.iter_mut().enumerate() {
            if other != task {
                fold.leases.clear();
            }
        }
        let decided = self.decided(&later, (PERSON, task, None), Deed::Takeover);
        decided.is_some_and(|decided| decided.is_ok())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let declared = if self.bounds.breadth == Breadth::Passing { path() } else { Scope::default() };
        vec![State::begin(self.bounds.tasks, &declared, self.bounds.breadth == Breadth::Work)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        if state.now < self.bounds.ticks {
            actions.push(Step::Tick);
        }
        if state.alive && self.bounds.breadth > Breadth::Passing {
            actions.extend([Step::Die, Step::TurnOver]);
        }
        let breadth = self.bounds.breadth;
        if state.alive && breadth == Breadth::Work {
            actions.push(Step::TurnBegun);
        }
        for task in 0..state.tasks.len() {
            actions.push(Step::Sweep { task });
            if breadth >= Breadth::Holding {
                actions.push(Step::Reset { task });
            }
            for by in 0..ACTORS {
                let held = state.tasks[task].leases.values();
                let own = held.filter(|lease| is_held_by(lease, by));
                let tokens: Vec<Option<u64>> =
                    std::iter::once(None).chain(own.map(|lease| Some(lease.token.0))).collect();
                for deed in DEEDS {
                    let possible = match deed {
                        _ if breadth == Breadth::Passing => matches!(deed, Deed::Claim | Deed::Done),
                        Deed::Note if breadth == Breadth::Work => tokens.len() > 1,
                        Deed::Note | Deed::Submit | Deed::Reopen | Deed::Reject if breadth < Breadth::All => {
                            false
                        }
                        Deed::ForcedTakeover | Deed::Done | Deed::Handoff if breadth < Breadth::Holding => {
                            false
                        }
                        Deed::Handoff if breadth < Breadth::All && tokens.len() == 1 => false,
                        // Paths matter only where another may want them.
                        Deed::Touch => state.tasks.len() > 1,
                        Deed::ForcedTakeover | Deed::Reopen | Deed::Reject => by == PERSON,
                        // A dead process asks for nothing new; what it had sent may still arrive.
                        Deed::Claim | Deed::Takeover => by != BOUND || state.alive,
                        _ => true,
                    };
                    if possible {
                        let asks = tokens.iter().map(|token| Step::Ask { by, task, token: *token, deed });
                        actions.extend(asks);
                    }
                }
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Tick => {
                state.now += 1;
                self.account_for_tick(last, &mut state);
            }
            Step::Die => state.alive = false,
            Step::TurnBegun => self.begin_turn(last, &mut state),
            Step::TurnOver => self.end_turn(last, &mut state),
            Step::Sweep { task } => {
                let draft = match self.broken {
                    Broken::Sweep => self.swept_blindly(last, task),
                    _ => self.view(last, (PERSON, task, None), None, decide::freed)?,
                };
                let drafts = vec![draft?];
                self.watch(last, &mut state, task, &drafts);
                self.write(&mut state, (PERSON, task), drafts);
                self.account_for_deed(last, &mut state, PERSON);
            }
            Step::Reset { task } => {
                let force = Force { reason: "all wrong".to_owned(), link: None };
                let reset = self.view(last, (PERSON, task, None), None, |view| {
                    decide::reset(view, true, "all wrong", Some(&force))
                })?;
                let Ok(decide::Reset::Back(drafts)) = reset else { return None };
                let fenced = last.tasks[task].task.as_ref().map(|row| row.fenced_token);
                state.reset[task] = last.tasks[task].task.as_ref().map_or(0, |row| row.token.0);
                self.write(&mut state, (PERSON, task), drafts);
                if self.broken == Broken::Reset
                    && let (Some(row), Some(fenced)) = (state.tasks[task].task.as_mut(), fenced)
                {
                    row.fenced_token = fenced;
                }
                self.account_for_deed(last, &mut state, PERSON);
            }
            Step::Ask { by, task, token, deed } => {
                let Ok(decision) = self.decided(last, (by, task, token), deed)? else { return None };
                self.watch(last, &mut state, task, &decision.drafts);
                self.write(&mut state, (by, task), decision.drafts);
                let renewed = decision.renew.map(|renewal| (task, renewal.token));
                self.live_on(&mut state, by, renewed);
                self.account_for_deed(last, &mut state, by);
            }
        }
        state.normalize();
        (state != *last).then_some(state)
    }

    fn within_boundary(&self, state: &State) -> bool {
        let tokens = |fold: &onus_core::apply::TaskFold| fold.task.as_ref().map_or(0, |row| row.token.0);
        state.now <= self.bounds.ticks && state.tasks.iter().all(|fold| tokens(fold) <= self.bounds.tokens)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        type Holds = fn(&Protocol, &State) -> bool;
        let always: [(&'static str, Holds); 12] = [
            ("no two holders are able to write", |model, state| {
                (0..state.tasks.len()).all(|task| model.writers(state, task).len() <= 1)
            }),
            ("one lease at most, and it is the latest", |_, state| {
                state.tasks.iter().all(|fold| {
                    let open: Vec<Token> =
                        fold.leases.values().filter(|l| l.ended.is_none()).map(|l| l.token).collect();
                    let latest = fold.leases.keys().next_back().copied();
                    open.is_empty() || open.len() == 1 && open.first().copied() == latest
                })
            }),
            ("no live lease was ended as if it had lapsed", |_, state| !state.robbed),
            ("a reset fences every earlier token", |model, state| {
                (0..state.tasks.len())
                    .all(|task| model.writers(state, task).iter().all(|token| token.0 > state.reset[task]))
            }),
            ("live leases share no path", |model, state| model.reserving(state) <= 1),
            ("nothing is begun on another's paths", |_, state| !state.trespassed),
            ("the rows follow from the ledger", |_, state| !state.misplaced),
            ("a silent holder's task can be taken over", |model, state| {
                (0..state.tasks.len()).all(|task| model.can_be_had(state, task))
            }),
            ("the stretches of a lease are apart", |_, state| {
                Protocol::each_lease(state, |_, stretches, _| work::are_apart(stretches))
            }),
            ("work is done under a lease that is live", |_, state| {
                Protocol::each_lease(state, |account, stretches, _| {
                    work::is_under_a_lease(account, stretches)
                })
            }),
            ("work ends at a sign of life, and is no rest", |_, state| {
                Protocol::each_lease(state, |account, stretches, _| work::ends_at_a_sign(account, stretches))
            }),
            ("stretches add up to what was worked", |_, state| Protocol::each_lease(state, work::adds_up)),
        ];
        always.map(|(name, holds)| Property::always(name, holds)).into()
    }
}

impl Protocol {
    /// Looks at what is about to be written: no live lease ends as if it had lapsed.
    fn watch(&self, last: &State, state: &mut State, task: usize, drafts: &[Draft]) {
        let fold = &last.tasks[task];
        let current = fold.task.as_ref().and_then(|row| fold.leases.get(&row.token));
        let is_live = current.is_some_and(|lease| self.is_live(last, lease));
        self.saw.note(drafts, current.is_some() && !is_live);
        let lapses =
            |draft: &Draft| matches!(draft.body, Body::LeaseTakenOver { .. } | Body::LeaseLapsed { .. });
        state.robbed |= is_live && drafts.iter().any(lapses);
        // What is begun and ended in one request is in no state: it is looked at here.
        let taken =
            |draft: &Draft| matches!(&draft.body, Body::LeaseAcquired { scope, .. } if !scope.is_empty());
        let others = last.tasks.iter().enumerate().filter(|(other, _)| *other != task);
        let mut reserving = others.flat_map(|(_, fold)| {
            fold.leases.values().filter(|lease| {
                self.is_live(last, lease)
                    && fold.scopes.get(&lease.token).is_some_and(|scope| !scope.is_empty())
            })
        });
        state.trespassed |= drafts.iter().any(taken) && reserving.next().is_some();
    }

    fn swept_blindly(&self, state: &State, task: usize) -> Option<Draft> {
        let fold = &state.tasks[task];
        let lease = fold.leases.values().find(|lease| lease.ended.is_none())?;
        let cause = onus_core::lease::LapseCause::Ttl;
        let body = Body::LeaseLapsed { cause, lease: lease.end(&moment(state.now), false) };
        Some(Draft::new(body).token(lease.token))
    }
}
