//! The simulated actors: who they are, what they believe, and what they request next.
//!
//! No actor looks into the store. It knows which tasks exist, what answers told it, and the tokens it got, which it keeps for
//! ever. So late, stale and mistaken requests need no special case.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::actor::{KnownBy, Tier};
use onus_core::command::{
    Act, Attachment, ChangedFiles, Command, Edit, Force, Guard, NewTask, PlannedTask, Presence, Schedule,
    SeatAct, SeatTerms, TaskLink, Terms, Yielding,
};
use onus_core::commit::{Extent, Tally};
use onus_core::constraint::{Constraint, ConstraintKind, Constraints};
use onus_core::gate::GateKey;
use onus_core::ids::{Number, TaskRef, Token, Version};
use onus_core::lease::{Lease, Mode, Process};
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::{Areas, Scope, Touched, WorktreeId};
use onus_core::seat::SeatName;
use onus_core::task::{Facts, NoteKind, Priority, Task, TaskBranch};
use onus_core::transition::Verb;
use onus_engine::{Ancestry, Answer, Identity, Reply, Request, TaskView};

use crate::dice::Dice;
use crate::fate::{Fate, HOST, PLACES, WORKTREES, worktree};
use crate::gates;
use crate::git::TARGETS;
use crate::oracle::UNIVERSE;

use chance::*;

pub(crate) mod chance;

/// The globs of requests: literals, one level, any depth, and forms that only an exact comparison distinguishes.
const GLOBS: [&str; 16] = [
    "a/x",
    "a/y",
    "b/x",
    "e",
    "a/*",
    "b/*",
    "c/**",
    "b/**",
    "*/x",
    "**/x",
    "a/?",
    "{a,b}/y",
    "g/h/*",
    "d/**",
    "c/d/",
    "shared.lock",
];

/// All seats.
const SEATS: [&str; 3] = ["dispatch", "land:main", "land:next"];

/// How many recent tasks most requests are about.
const HOT: u64 = 14;

/// One instance of an actor.
#[derive(Clone, Debug)]
pub struct Being {
    actor: String,
    instance: String,
    known_by: KnownBy,
    process: Option<Process>,
    /// The tokens it was granted, by task number. It keeps them even when they are long stale.
    tokens: BTreeMap<u64, u64>,
    /// Its tokens for seats, by name.
    seats: BTreeMap<String, u64>,
    /// Its harness reports its process, so that leases are bound to it.
    binds: bool,
}

impl Being {
    fn is_person(&self) -> bool {
        self.actor.starts_with("human:")
    }

    /// Its identity when it names no task.
    fn identity(&self) -> Identity {
        Identity {
            actor: parsed(&self.actor),
            instance: parsed(&self.instance),
            known_by: self.known_by,
            token: None,
            ancestry: Ancestry::Known(self.process.iter().cloned().collect()),
        }
    }

    /// Whether it has hooks, which identify a conversation by more than its folder.
    fn is_hooked(&self) -> bool {
        !self.is_person() && self.known_by != KnownBy::Worktree
    }
}

#[derive(Debug)]
pub struct Actors {
    beings: Vec<Being>,
    born: u64,
    requests: u64,
    /// Keys that were used, for reuse.
    keys: Vec<(usize, String)>,
    tasks: u64,
    /// The last known state of each task.
    board: BTreeMap<u64, String>,
}

/// A request, and the instance that waits for its answer.
#[derive(Clone, Debug)]
pub struct Asked {
    pub by: usize,
    pub request: Request,
}

impl Asked {
    pub(crate) fn new(by: usize, identity: Identity, command: Command) -> Asked {
        Asked { by, request: Request { identity, command, key: None } }
    }
}

impl Actors {
    pub fn new(dice: &mut Dice, fate: &mut Fate) -> Actors {
        let mut actors = Actors {
            beings: Vec::new(),
            born: 0,
            requests: 0,
            keys: Vec::new(),
            tasks: 0,
            board: BTreeMap::new(),
        };
        for name in ["human:ada", "human:bob", "human:cyd"] {
            let (actor, instance) = (name.to_owned(), "person".to_owned());
            let (tokens, seats) = (BTreeMap::new(), BTreeMap::new());
            let known_by = KnownBy::Person;
            actors.beings.push(Being {
                actor,
                instance,
                known_by,
                process: None,
                tokens,
                seats,
                binds: false,
            });
        }
        for _ in 0..22 {
            let being = actors.bear(dice, fate);
            actors.beings.push(being);
        }
        actors
    }

    /// Instances that have lived so far.
    pub fn born(&self) -> u64 {
        self.born + 3
    }

    fn bear(&mut self, dice: &mut Dice, fate: &mut Fate) -> Being {
        self.born += 1;
        let name = ["agent:codex", "agent:claude", "agent:gemini", "agent:old-name", "ci:main"]
            [dice.weighted(&[5, 5, 4, 1, 2])];
        let binds = dice.one_in(2);
        let place = if dice.one_in(3) { PLACES[dice.below(PLACES.len())] } else { HOST };
        // A sub-agent runs in the process of the conversation it is a part of.
        let parent = dice
            .one_in(5)
            .then(|| dice.pick(&self.beings).cloned())
            .flatten()
            .filter(|being| !being.is_person());
        let (actor, process) = match parent {
            Some(parent) => (parent.actor, parent.process),
            None => (name.to_owned(), binds.then(|| fate.spawn(dice.below(24), place)).flatten()),
        };
        let known_by = if dice.one_in(8) { KnownBy::Worktree } else { KnownBy::Name };
        // Two conversations in one folder have the same name.
        let instance = match known_by {
            KnownBy::Worktree => format!("folder-{}", dice.below(3)),
            _ => format!("i{}", self.born),
        };
        let (tokens, seats) = (BTreeMap::new(), BTreeMap::new());
        Being { actor, instance, known_by, process, tokens, seats, binds }
    }

    /// Replaces an agent by another; sometimes it only gets a new process.
    pub fn replace_one(&mut self, dice: &mut Dice, fate: &mut Fate) -> String {
        let at = 3 + dice.below(self.beings.len() - 3);
        if let Some(process) = self.beings[at].process.take()
            && dice.one_in(2)
        {
            fate.kill(&process);
        }
        if dice.one_in(3) {
            let being = &mut self.beings[at];
            if being.binds {
                being.process = fate.spawn(dice.below(24), HOST);
            }
            return format!(
                "{} {} goes on in {:?}",
                being.actor,
                being.instance,
                being.process.as_ref().map(|p| p.pid)
            );
        }
        let being = self.bear(dice, fate);
        let text = format!("{} {} is born", being.actor, being.instance);
        // Some are gone, others only silent: a stale holder comes back later.
        if dice.one_in(3) && self.beings.len() < 60 {
            self.beings.push(being);
        } else {
            self.beings[at] = being;
        }
        text
    }

    pub fn kill_one(&mut self, dice: &mut Dice, fate: &mut Fate) -> Option<String> {
        let bound: Vec<Process> = self.beings.iter().filter_map(|being| being.process.clone()).collect();
        let process = dice.pick(&bound)?;
        fate.kill(process);
        Some(format!("process {} (start {}) dies", process.pid, process.start))
    }

    /// Updates what the caller knows by an answer.
    pub fn learn(&mut self, by: usize, reply: &Reply) {
        let task = match &reply.answer {
            Answer::Task(task) | Answer::Lease { task, .. } | Answer::Guarded { task: Some(task), .. } => {
                task
            }
            Answer::Tasks(tasks) | Answer::Present { ended: tasks } => {
                tasks.iter().for_each(|task| self.hear_of(task));
                return;
            }
            Answer::Seat { seat, .. } => {
                let Some(being) = self.beings.get_mut(by) else { return };
                match &seat.lease {
                    Some(lease) if lease.actor == being.actor && lease.instance == being.instance => {
                        being.seats.insert(seat.name.clone(), lease.token);
                    }
                    // The token is kept: it is stale from now on.
                    _ => {}
                }
                return;
            }
            _ => return,
        };
        self.hear_of(task);
        let Some(number) = number(&task.id) else { return };
        let Some(being) = self.beings.get_mut(by) else { return };
        match &task.lease {
            Some(lease) if lease.actor == being.actor && lease.instance == being.instance => {
                being.tokens.insert(number, lease.token);
            }
            // One in four forgets that it released the task.
            None if number % 4 != 0 => drop(being.tokens.remove(&number)),
            _ => {}
        }
    }

    fn hear_of(&mut self, task: &TaskView) {
        if let Some(number) = number(&task.id) {
            self.tasks = self.tasks.max(number);
            self.board.insert(number, task.state.to_string());
        }
    }

    /// Most holders that learn that a task is no longer theirs forget its token; some continue to use it.
    pub fn regret(&mut self, dice: &mut Dice, asked: &Asked, refusal: &Refusal) {
        let gone = matches!(refusal.code, Code::Fenced | Code::NotAllowed | Code::Held | Code::NotFound);
        if let (true, Some(task), Some(being)) =
            (gone, named(&asked.request.command), self.beings.get_mut(asked.by))
            && !dice.one_in(4)
        {
            being.tokens.remove(&task);
        }
    }

    /// A task whose last known state is one of these, or any recent one.
    fn in_state(&self, dice: &mut Dice, states: &[&str], otherwise: u64) -> u64 {
        if dice.one_in(5) {
            return otherwise;
        }
        let fit: Vec<u64> = self
            .board
            .iter()
            .rev()
            .filter(|(_, state)| states.contains(&state.as_str()))
            .map(|(number, _)| *number)
            .take(8)
            .collect();
        dice.pick(&fit).copied().unwrap_or(otherwise)
    }

    pub fn ask(&mut self, dice: &mut Dice) -> Asked {
        let by = dice.below(self.beings.len());
        self.requests += 1;
        let mut command = self.command(dice, by);
        let being = &self.beings[by];
        let mut key = None;
        if dice.one_in(3) {
            key = Some(format!("k{}", self.requests));
        } else if dice.one_in(100)
            && let Some((_, used)) = dice.pick(&self.keys)
        {
            // Another request under a used key.
            key = Some(used.clone());
            if let Command::OnTask { act: Act::Note { text, .. }, .. } = &mut command {
                text.push_str(&self.requests.to_string());
            }
        }
        if let Some(key) = &key {
            self.keys.push((by, key.clone()));
        }
        let target = named(&command);
        // A token for the task that it names, or a stale one from its environment.
        let token = match target.and_then(|task| being.tokens.get_key_value(&task)) {
            Some((task, token)) if dice.one_in(2) => Some((*task, *token)),
            None if dice.one_in(12) => being.tokens.iter().next_back().map(|(task, token)| (*task, *token)),
            None if dice.one_in(12) => target.map(|task| (task, 1 + dice.below(3) as u64)),
            _ => None,
        };
        let mut token = token.map(|(task, token)| (Some(TaskRef::Number(Number(task))), Token(token)));
        if let Command::OnSeat { seat, .. } = &command {
            let known = being.seats.get(seat.as_str()).filter(|_| dice.one_in(2));
            token = known.map(|token| (None, Token(*token)));
        }
        let elsewhere = dice.one_in(8);
        let ancestry = being.process.iter().filter(|_| !elsewhere).cloned().collect();
        let identity = Identity { token, ancestry: Ancestry::Known(ancestry), ..being.identity() };
        Asked { by, request: Request { identity, command, key } }
    }

    /// Agents that were away continue with an edit, which is their first request.
    pub fn come_back(&mut self, dice: &mut Dice) -> Vec<Asked> {
        let away = (0..self.beings.len()).filter(|_| dice.one_in(2)).collect::<Vec<_>>();
        let hooked = away.into_iter().filter(|by| self.beings[*by].is_hooked());
        let asked = hooked.map(|by| (by, &self.beings[by]));
        asked.map(|(by, being)| Asked::new(by, being.identity(), guard(dice, being))).collect()
    }

    /// A random instance and its identity.
    pub fn anybody(&self, dice: &mut Dice) -> (usize, Identity) {
        let by = dice.below(self.beings.len());
        (by, self.beings[by].identity())
    }

    /// A request about a task that is about to land.
    pub fn on_landing(&self, dice: &mut Dice, by: usize, task: u64) -> Command {
        let being = &self.beings[by];
        let force = being.is_person().then(|| Force { reason: "it has to be".to_owned(), link: None });
        let task = Some(TaskRef::Number(Number(task)));
        let act = match dice.below(9) {
            0 | 1 => Act::Takeover(Terms { reason: Some("it stands".to_owned()), ..self.terms(dice, being) }),
            2 => return Command::Reset { task, reason: "all wrong".to_owned(), force },
            3 | 4 => plain(Verb::Reopen),
            5 => plain(Verb::Done),
            6 => plain(Verb::Release),
            7 => Act::Claim(self.terms(dice, being)),
            _ => Act::Handoff { to: parsed(&being.actor), reason: "you know it better".to_owned() },
        };
        Command::OnTask { task, act, force }
    }

    /// The token under which an instance has, or had, a seat.
    pub fn seat_token(&self, by: usize, seat: &SeatName) -> Option<Token> {
        self.beings.get(by)?.seats.get(seat.as_str()).map(|token| Token(*token))
    }

    /// The owner may continue with one of these files meanwhile.
    pub fn goes_on(&self, dice: &mut Dice, lease: &Lease, files: &[(WorktreeId, String)]) -> Option<Asked> {
        let is_it =
            |being: &&Being| being.actor == lease.actor.as_str() && being.instance == lease.instance.as_str();
        let by = self.beings.iter().position(|being| is_it(&being)).filter(|_| dice.one_in(2))?;
        let (worktree, path) = dice.pick(files)?.clone();
        let process = self.beings[by].process.clone();
        let identity = self.beings[by].identity();
        let touched = Touched { worktree: Some(worktree), part: None };
        let guard = Guard { paths: vec![path], process, touched, ..Guard::default() };
        Some(Asked::new(by, identity, Command::Guard(guard)))
    }

    /// Requests files of another's work, based on what git reported a while ago.
    pub fn wants(
        &self,
        dice: &mut Dice,
        task: &Task,
        lease: &Lease,
        files: Vec<(WorktreeId, String)>,
    ) -> Option<Asked> {
        let by = dice.below(self.beings.len());
        let being = &self.beings[by];
        let (worktree, _) = dice.pick(&files)?.clone();
        let paths = files.into_iter().filter(|(of, _)| *of == worktree).map(|(_, path)| path).collect();
        let files = Yielding { token: lease.token, renewals: lease.pulse.renewals, worktree, paths };
        let command =
            Command::OnTask { task: Some(TaskRef::Number(task.number)), act: Act::Yield(files), force: None };
        Some(Asked::new(by, being.identity(), command))
    }

    fn command(&mut self, dice: &mut Dice, by: usize) -> Command {
        let being = self.beings[by].clone();
        if self.requests < 8 && being.is_person() {
            return Command::AddAlias { actor: parsed("agent:codex"), alias: parsed("agent:old-name") };
        }
        if self.tasks < 6 || dice.one_in(28) {
            return self.add(dice, &being);
        }
        if dice.one_in(9) {
            return self.on_seat(dice, &being);
        }
        let held = dice.below(being.tokens.len().max(1));
        let held = being.tokens.keys().rev().nth(held).copied();
        let any = self.tasks - self.tasks.min(HOT).min(dice.below(14) as u64);
        let any = if dice.one_in(12) {
            1 + dice.below(usize::try_from(self.tasks).unwrap_or(1)) as u64
        } else {
            any
        };
        // Holders mostly name what they hold.
        let own = held.filter(|_| !dice.one_in(6)).unwrap_or(any);
        let person = being.is_person();
        let hooked = being.is_hooked();
        let force =
            (person && dice.one_in(6)).then(|| Force { reason: "it has to be".to_owned(), link: None });
        let on = |task: u64, act: Act, force: Option<Force>| Command::OnTask {
            task: Some(TaskRef::Number(Number(task))),
            act,
            force,
        };
        let verb = plain;
        match dice.weighted(&[
            20, 9, 8, 11, 5, 3, 4, 6, 4, 4, 3, 2, 2, 4, 6, 4, 3, 3, 2, 3, 3, 2, 4, 3, 1, 10, 7, 4, 2, 1, 1,
            3, 4, 6, 3, 3, 7, 5, 9,
        ]) {
            0 => on(self.in_state(dice, &["open"], any), Act::Claim(self.terms(dice, &being)), force),
            1 => Command::ClaimNext(self.terms(dice, &being)),
            2 => on(
                own,
                Act::Renew { ttl_ms: dice.one_in(4).then(|| dice.ms(1_000, 120_000)), progress: false },
                None,
            ),
            3 => on(
                own,
                Act::Touch { paths: paths(dice), touched: touched(dice, &being), extent: Default::default() },
                None,
            ),
            4 => {
                let scope = scope(dice);
                on(own, Act::AddScope { areas: areas(dice, &scope), scope }, None)
            }
            5 => on(own, Act::RemoveScope { scope: scope(dice) }, None),
            6 => {
                let kind = [NoteKind::Progress, NoteKind::Finding, NoteKind::Decision][dice.below(3)];
                on(own, Act::Note { text: "how it goes".to_owned(), kind, link: None }, force)
            }
            7 => on(own, verb(Verb::Done), force),
            8 => on(own, verb(Verb::Submit), force),
            9 => on(own, verb(Verb::Release), force),
            10 => on(own, verb(Verb::Fail), force),
            11 => on(own, verb(Verb::Block), force),
            12 => on(own, verb(Verb::Drop), force),
            13 => {
                let to = dice.pick(&self.beings).map_or(being.actor.clone(), |other| other.actor.clone());
                on(own, Act::Handoff { to: parsed(&to), reason: "you know it better".to_owned() }, force)
            }
            14 => on(
                self.in_state(dice, &["in_progress"], any),
                Act::Takeover(Terms { reason: Some("it lapsed".to_owned()), ..self.terms(dice, &being) }),
                force,
            ),
            15 => on(self.in_state(dice, &["review"], any), verb(Verb::Approve), force),
            16 => on(self.in_state(dice, &["review"], any), verb(Verb::Reject), force),
            17 => on(self.in_state(dice, &["blocked"], any), verb(Verb::Unblock), force),
            18 => on(self.in_state(dice, &["done", "dropped"], any), verb(Verb::Reopen), force),
            19 => on(self.in_state(dice, &["proposed"], any), verb(Verb::Accept), force),
            20 => {
                let task = Some(TaskRef::Number(Number(self.in_state(dice, &["failed"], any))));
                Command::Retry { task, message: Some("again".to_owned()), force }
            }
            21 => {
                let task = Some(TaskRef::Number(Number(any)));
                Command::Reset { task, reason: "all wrong".to_owned(), force }
            }
            22 => on(any, Act::Edit(edit(dice)), force),
            23 => on(any, Act::AddDeps { on: vec![self.some_task(dice)] }, force),
            24 => on(any, Act::RemoveDeps { on: vec![self.some_task(dice)] }, force),
            25 if hooked => guard(dice, &being),
            26 if hooked => Command::Presence(
                [Presence::Here, Presence::TurnBegun, Presence::TurnOver, Presence::Gone]
                    [dice.weighted(&[3, 3, 4, 1])],
            ),
            27 => match being.process {
                Some(process) => Command::RegisterInstance {
                    actor: parsed(&being.actor),
                    instance: parsed(&being.instance),
                    process,
                    group: None,
                },
                None => on(any, verb([Verb::Done, Verb::Submit, Verb::Fail][dice.below(3)]), force),
            },
            28 => Command::RegisterActor {
                actor: parsed(&being.actor),
                tier: dice.one_in(3).then_some(Tier(2)),
            },
            29 => match dice.below(3) {
                0 => Command::AddAlias { actor: parsed("agent:codex"), alias: parsed("agent:old-name") },
                _ => Command::SetTier { actor: parsed("agent:gemini"), tier: Tier([1, 2][dice.below(2)]) },
            },
            30 => on(
                any,
                Act::Redact {
                    version: Version(1 + dice.below(6) as u64),
                    fields: Vec::new(),
                    reason: "a secret".to_owned(),
                },
                force,
            ),
            31 => Command::OnTask {
                task: None,
                act: verb([Verb::Done, Verb::Release][dice.below(2)]),
                force: None,
            },
            // The verbs that claim in passing, on tasks of others and on free ones.
            32 => {
                let task = self.in_state(dice, &["in_progress"], any);
                on(task, verb([Verb::Done, Verb::Submit, Verb::Fail][dice.below(3)]), force)
            }
            33 => {
                let to = dice.pick(&self.beings).map_or(being.actor.clone(), |other| other.actor.clone());
                let keep_ms = dice.one_in(2).then(|| dice.ms(1_000, 200_000));
                let task = self.in_state(dice, &["open", "in_progress"], any);
                on(task, Act::Assign { to: parsed(&to), keep_ms, reason: "you are free".to_owned() }, force)
            }
            34 => on(own, Act::Tick { line: 1 + dice.below(3) as u64, undo: dice.one_in(4) }, force),
            // By its name in another system.
            35 => Command::OnTask {
                task: Some(elsewhere(dice)),
                act: Act::Claim(self.terms(dice, &being)),
                force,
            },
            36 => {
                let id = touched(dice, &being).worktree;
                let path = format!("/w/{}", dice.below(WORKTREES));
                let branch = format!("work-{}", dice.below(WORKTREES));
                let target = TARGETS[dice.below(TARGETS.len())].to_owned();
                let line = TaskBranch { branch: branch.clone(), base: "0".repeat(40), target };
                let line = (!dice.one_in(4)).then_some(line);
                on(own, Act::Attach(Attachment { id, path, branch: Some(branch), own: line }), None)
            }
            37 if hooked => {
                let worktree = touched(dice, &being).worktree;
                Command::Changed(ChangedFiles { paths: paths(dice), worktree })
            }
            38 => {
                let task =
                    if dice.one_in(3) { self.in_state(dice, &["in_progress", "review"], any) } else { own };
                on(task, Act::Judge(gates::judging(dice)), force)
            }
            _ => on(any, verb([Verb::Done, Verb::Submit][dice.below(2)]), force),
        }
    }

    /// Requests about seats. There are few, so that they are contested.
    fn on_seat(&self, dice: &mut Dice, being: &Being) -> Command {
        // An instance that has, or had, a seat mostly names that one.
        let own = being.seats.keys().next_back().filter(|_| !dice.one_in(4));
        let seat = own.map_or(SEATS[dice.below(SEATS.len())], String::as_str);
        let Terms { ttl_ms, process, reason, .. } = self.terms(dice, being);
        let terms = SeatTerms { ttl_ms, process, reason, ..SeatTerms::default() };
        let forced = being.is_person() && dice.one_in(3);
        let weights = if own.is_some() { [3, 6, 4, 2, 6] } else { [12, 1, 1, 5, 1] };
        let (act, force) = match dice.weighted(&weights) {
            0 => (SeatAct::Take(terms), None),
            1 => (SeatAct::Renew { ttl_ms: dice.one_in(4).then(|| dice.ms(1_000, 120_000)) }, None),
            2 => (SeatAct::Release, None),
            3 => {
                let force = forced.then(|| Force { reason: "it has to be".to_owned(), link: None });
                (SeatAct::Takeover(terms), force)
            }
            // A write that needs the seat, under the token that its writer believes to be current.
            _ => {
                let token = Token(being.seats.get(seat).copied().unwrap_or(1));
                let command = Box::new(Command::Add(NewTask::titled("done from a seat")));
                return Command::Seated { seat: parsed(seat), token, command };
            }
        };
        Command::OnSeat { seat: parsed(seat), act, force }
    }

    fn some_task(&self, dice: &mut Dice) -> TaskRef {
        let back = dice.below(usize::try_from(HOT).unwrap_or(1)) as u64;
        TaskRef::Number(Number(self.tasks.saturating_sub(back).max(1)))
    }

    fn add(&mut self, dice: &mut Dice, being: &Being) -> Command {
        let scope = if dice.one_in(2) { scope(dice) } else { Scope::default() };
        let facts = Facts {
            scope_areas: areas(dice, &scope),
            scope,
            priority: [Priority::P1, Priority::P2, Priority::P3][dice.below(3)],
            required_tier: if dice.one_in(12) { Tier(2) } else { Tier::DEFAULT },
            mode: if dice.one_in(5) { Mode::Shared } else { Mode::Exclusive },
            constraints: constraints(dice),
            refs: if dice.one_in(4) { [called(dice)].into() } else { BTreeMap::new() },
            gates: gates_of(dice),
            ..Facts::default()
        };
        let mut new = NewTask { facts, ..NewTask::titled("something to do") };
        new.propose = dice.one_in(8);
        new.acceptance = (0..dice.below(4)).map(|line| format!("line {line} is true")).collect();
        new.origin = dice.one_in(6).then(|| parsed(&format!("chat:room#{}", dice.below(40))));
        new.not_before = dice.one_in(15).then(|| Schedule::In { ms: dice.ms(1_000, 90_000) });
        if self.tasks > 4 && dice.one_in(4) {
            new.deps = vec![TaskLink::Task(self.some_task(dice))];
        }
        if self.tasks > 4 && dice.one_in(12) {
            new.parent = Some(TaskLink::Task(self.some_task(dice)));
        }
        if being.is_person() && dice.one_in(5) {
            let mut second = NewTask::titled("and then this");
            second.deps = vec![TaskLink::Planned("first".to_owned())];
            return Command::AddPlan(vec![
                PlannedTask { name: None, task: second },
                PlannedTask { name: Some("first".to_owned()), task: new },
            ]);
        }
        Command::Add(new)
    }

    fn terms(&self, dice: &mut Dice, being: &Being) -> Terms {
        let scope = if dice.one_in(3) { scope(dice) } else { Scope::default() };
        Terms {
            scope_areas: areas(dice, &scope),
            scope,
            worktree_id: touched(dice, being).worktree,
            ttl_ms: match dice.below(12) {
                0 => Some(0),
                1 | 2 => Some(dice.ms(2_000, 40_000)),
                _ => None,
            },
            process: being.process.clone().filter(|_| dice.one_in(2)),
            reserve: dice.one_in(7),
            shared: dice.one_in(8),
            constraints: constraints(dice),
            reason: Some("to do it".to_owned()),
            ..Terms::default()
        }
    }
}
