//! One seed: a history, step by step, with everything that may happen between two steps.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onus_core::command::{Act, Command, Guard, Presence};
use onus_core::landing::DepsMet;
use onus_core::lease::Lease;
use onus_core::policy::{AcrossWorktrees, Policy, Unclaimed};
use onus_core::refusal::{Code, Refusal};
use onus_core::scope::WorktreeId;
use onus_core::task::Task;
use onus_engine::{Engine, Reply, Request};
use onus_store::{Access, EventQuery, Read, Seats, SqliteStore, Store};

use crate::actors::{Actors, Asked};
use crate::dice::Dice;
use crate::fate::{HOST, PLACES, Place, World, is_far};
use crate::faulty::{Fault, FaultyStore, Fell};
use crate::gates;
use crate::landers::Lander;
use crate::oracle::{Deed, Oracle};
use crate::report::{Report, Violation};

const TTL_MS: i64 = 60_000;
const MAX_HOLD_MS: i64 = 600_000;
const KEEP_MS: i64 = 30_000;
const DAY_MS: i64 = 86_400_000;
const LAST: usize = 30;
/// The handles: two that see the machine's processes, and one in each place that shows less.
const HANDLES: [&Place; 7] = [HOST, PLACES[0], PLACES[1], PLACES[2], PLACES[3], PLACES[4], PLACES[5]];

fn policy(dice: &mut Dice) -> Policy {
    Policy {
        ttl_ms: TTL_MS,
        max_hold_ms: MAX_HOLD_MS,
        keep_ms: KEEP_MS,
        idle_ms: crate::oracle::IDLE_MS,
        indefinite_per_actor: 1,
        indefinite_per_store: 2,
        unclaimed: [Unclaimed::Adopt, Unclaimed::Warn, Unclaimed::Refuse][dice.weighted(&[8, 1, 1])],
        across_worktrees: [AcrossWorktrees::Tell, AcrossWorktrees::Refuse, AcrossWorktrees::Ignore]
            [dice.weighted(&[6, 1, 1])],
        deps_met: [None, Some(DepsMet::Done), Some(DepsMet::Landed)][dice.weighted(&[1, 1, 3])],
        scope_shared: crate::oracle::SHARED
            .iter()
            .filter_map(|glob| glob.parse::<onus_core::scope::Glob>().ok())
            .collect(),
        ..Policy::default()
    }
}

pub(crate) struct Run {
    pub(crate) dice: Dice,
    pub(crate) world: World,
    pub(crate) actors: Actors,
    pub(crate) oracle: Oracle,
    policy: Policy,
    file: PathBuf,
    folder: PathBuf,
    cuts: u64,
    pub(crate) engines: Vec<Engine<FaultyStore>>,
    /// Requests on their way, with the step at which they arrive.
    pub(crate) flying: Vec<(u64, Asked)>,
    pub(crate) landers: Vec<Lander>,
    pub(crate) report: Report,
    last: VecDeque<String>,
}

pub(crate) type Step<T> = Result<T, String>;

/// What came back to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Done,
    Refused,
    /// The answer was lost, and its process with it.
    Nothing,
}

/// Runs one seed in a folder of its own under `base`.
pub fn run(seed: u64, steps: u64, base: &Path) -> Report {
    let folder = match tempfile::Builder::new().prefix("onus-sim-").tempdir_in(base) {
        Ok(folder) => folder,
        Err(error) => {
            let what = format!("no folder under {}: {error}", base.display());
            let violation = Violation { seed, steps, at: 0, what, last: Vec::new() };
            return Report { violations: vec![violation], ..Report::default() };
        }
    };
    let mut at = 0;
    let mut last = Vec::new();
    let mut report = Report::default();
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::new(seed, folder.path())?;
        let mut outcome = Ok(());
        while at < steps && outcome.is_ok() {
            outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run.step(at)))
                .unwrap_or_else(|panic| Err(format!("it panicked: {}", said(&panic))));
            at += 1;
        }
        let outcome = outcome.and_then(|()| run.finish());
        run.report.actors = run.actors.born();
        run.report.events = run.oracle.seq();
        run.report.lapses = run.oracle.lapses.clone();
        last = run.last.iter().cloned().collect();
        report = std::mem::take(&mut run.report);
        outcome
    }));
    report.seeds = 1;
    let outcome = outcome.unwrap_or_else(|panic| Err(format!("it panicked: {}", said(&panic))));
    if let Err(what) = outcome {
        report.violations.push(Violation { seed, steps, at: at.saturating_sub(1), what, last });
    }
    report
}

fn said(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// The leases of seats that have not ended, each with its seat as the rules see it.
fn leased_seats(read: &mut dyn Read) -> onus_store::Result<Vec<(Task, Lease)>> {
    let mut leases = Vec::new();
    for seat in read.seats(Seats::Leased, 10_000)? {
        leases.extend(read.lease(seat.uid, seat.token)?.map(|lease| (seat.as_task(), lease)));
    }
    Ok(leases)
}

pub(crate) fn text<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

impl Run {
    fn new(seed: u64, folder: &Path) -> Step<Run> {
        let mut dice = Dice::new(seed);
        let world = World::new();
        let file = folder.join("onus.db");
        let (actor, instance) =
            ("human:founder".parse().map_err(text::<Refusal>)?, "person".parse().map_err(text::<Refusal>)?);
        let prefix = "ON".parse().map_err(text::<Refusal>)?;
        let (uid, event) = (world.new_uid(), world.new_uid());
        SqliteStore::create(&file, &prefix, uid, event, (&actor, &instance), Duration::from_secs(10))
            .map_err(text)?;
        let policy = policy(&mut dice);
        let actors = Actors::new(&mut dice, &mut world.fate());
        let mut run = Run {
            dice,
            world,
            actors,
            oracle: Oracle::new(
                policy.unclaimed == Unclaimed::Adopt,
                policy.across_worktrees == AcrossWorktrees::Refuse,
                policy.deps_met.map(|met| met.to_string()),
            ),
            policy,
            file,
            folder: folder.to_owned(),
            cuts: 0,
            engines: Vec::new(),
            flying: Vec::new(),
            landers: Vec::new(),
            report: Report::default(),
            last: VecDeque::new(),
        };
        for place in HANDLES {
            let engine = run.open(place)?;
            run.engines.push(engine);
        }
        let records = run.new_events(0)?;
        run.oracle.begin(&records);
        Ok(run)
    }

    fn open(&self, place: &'static Place) -> Step<Engine<FaultyStore>> {
        let mut store = SqliteStore::open(&self.file, Access::Write, Duration::from_secs(10))
            .map_err(|error| format!("P5: the store cannot be opened again: {error}"))?;
        store.set_clock(self.world.clock());
        Ok(Engine::with_outside(FaultyStore::new(store), self.policy.clone(), self.world.outside(place)))
    }

    fn reopen(&mut self, handle: usize) -> Step<()> {
        self.engines[handle] = self.open(HANDLES[handle])?;
        Ok(())
    }

    pub(crate) fn note(&mut self, at: u64, what: String) {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        let fate = self.world.fate();
        let when = format!("{at:>6} boot {} tick {:>9} wall {:>14}", fate.boot, fate.tick_ms, fate.wall_ms);
        drop(fate);
        self.last.push_back(format!("{when}  {what}"));
    }

    pub(crate) fn new_events(&mut self, handle: usize) -> Step<Vec<onus_core::chain::Record>> {
        let query = EventQuery { after_seq: self.oracle.seq(), limit: 10_000, ..EventQuery::default() };
        self.engines[handle].store().read(|read| read.events(&query)).map_err(text)
    }

    fn step(&mut self, at: u64) -> Step<()> {
        self.let_time_pass(at)?;
        // A delayed request arrives, before or after the current one.
        let due: Vec<usize> = (0..self.flying.len()).filter(|index| self.flying[*index].0 <= at).collect();
        if let Some(index) = self.dice.pick(&due).copied()
            && !self.dice.one_in(3)
        {
            let (_, asked) = self.flying.swap_remove(index);
            return self.deliver(at, vec![asked], "late").map(drop);
        }
        self.land(at)?;
        if self.dice.one_in(4) {
            self.look_at_files(at)?;
        }
        let asked = self.ask();
        if self.dice.one_in(12) {
            self.report.fault("duplicated");
            self.later(at, 40, asked.clone());
        }
        if self.dice.one_in(5) {
            self.report.fault("delayed");
            self.later(at, 60, asked);
            return Ok(());
        }
        let mut batch = vec![asked];
        if self.dice.one_in(10) {
            // A server's batch: several requests, one commit. Each by another caller, so that it is clear whose an event is.
            for _ in 0..3 {
                let asked = self.ask();
                let of = |asked: &Asked| {
                    let identity = &asked.request.identity;
                    (self.oracle.actor(identity.actor.as_str()), identity.instance.clone())
                };
                if batch.iter().all(|other| of(other) != of(&asked)) {
                    batch.push(asked);
                }
            }
        }
        self.deliver(at, batch, "").map(drop)
    }

    /// A request that arrives within so many steps.
    pub(crate) fn later(&mut self, at: u64, within: usize, asked: Asked) {
        let delay = 1 + self.dice.below(within) as u64;
        self.flying.push((at + delay, asked));
    }

    /// A request, with what its caller sees in the repository at that time.
    fn ask(&mut self) -> Asked {
        let mut asked = self.actors.ask(&mut self.dice);
        gates::complete(&mut asked.request.command, &self.world.fate().git);
        asked
    }

    /// Passes requests to a handle, with or without a fault, and lets the oracle judge the result.
    pub(crate) fn deliver(&mut self, at: u64, batch: Vec<Asked>, how: &str) -> Step<Vec<Heard>> {
        let handle = self.dice.below(HANDLES.len());
        let fault = match self.fault() {
            // Otherwise it would be unknown which requests of a batch were refused.
            Fault::CrashAfterCommit if batch.len() > 1 => Fault::None,
            fault => fault,
        };
        let name = match &fault {
            Fault::None => "",
            Fault::CrashAt(_) => "crash in transaction",
            Fault::PowerCutAt(..) => "power cut in transaction",
            Fault::CrashAfterCommit => "crash after commit",
            Fault::RunTwice(_) => "transaction run twice",
        };
        let cut = match &fault {
            Fault::PowerCutAt(_, folder) => Some(folder.clone()),
            _ => None,
        };
        // Only with a single request is it clear for whom files were yielded.
        self.world.fate().hides_files = batch.len() > 1;
        let requests: Vec<Request> = batch.iter().map(|asked| asked.request.clone()).collect();
        let engine = &mut self.engines[handle];
        engine.store().fault = fault;
        let answers = match requests.as_slice() {
            [request] => vec![engine.run(request)],
            requests => engine.execute(requests),
        };
        let fell = engine.store().fell;
        engine.store().fault = Fault::None;
        for (request, answer) in requests.iter().zip(&answers) {
            self.tally(request, answer, fell);
            let told = match answer {
                _ if fell != Fell::Nothing => format!("{fell:?}"),
                Ok(reply) if reply.replayed => "replayed".to_owned(),
                Ok(_) => "ok".to_owned(),
                Err(refusal) => format!("{:?}: {}", refusal.code, refusal.message),
            };
            let place = HANDLES[handle].name;
            let line = format!("{how} [{handle}: {place}] {} -> {told} {name}", told_briefly(request));
            self.note(at, line);
        }
        if fell == Fell::Nothing {
            let sick = answers
                .iter()
                .filter_map(|answer| answer.as_ref().err())
                .find(|refusal| !is_healthy(refusal.code));
            if let Some(refusal) = sick {
                return Err(format!("P5: a healthy store failed: {:?}: {}", refusal.code, refusal.message));
            }
        }
        if fell != Fell::Nothing || name == "transaction run twice" {
            self.report.fault(name);
        }
        match (fell, cut) {
            (Fell::BeforeCommit, Some(folder)) => self.power_cut(at, &folder)?,
            (Fell::Nothing, _) => {}
            _ => self.reopen(handle)?,
        }
        self.judge(handle, &batch, &answers, fell)?;
        if at.is_multiple_of(16) || fell != Fell::Nothing {
            self.compare()?;
        }
        let heard = answers.iter().map(|answer| match answer {
            _ if fell != Fell::Nothing => Heard::Nothing,
            Ok(_) => Heard::Done,
            Err(_) => Heard::Refused,
        });
        Ok(heard.collect())
    }

    fn fault(&mut self) -> Fault {
        let at = |dice: &mut Dice| {
            let most = if dice.one_in(2) { 15 } else { 60 };
            1 + u32::try_from(dice.below(most)).unwrap_or_default()
        };
        match self.dice.below(100) {
            0..4 => Fault::CrashAt(at(&mut self.dice)),
            4..7 => Fault::CrashAfterCommit,
            7..10 => Fault::RunTwice(at(&mut self.dice)),
            10 if self.dice.one_in(5) => {
                self.cuts += 1;
                Fault::PowerCutAt(at(&mut self.dice), self.folder.join(format!("after-cut-{}", self.cuts)))
            }
            _ => Fault::None,
        }
    }

    fn judge(
        &mut self,
        handle: usize,
        batch: &[Asked],
        answers: &[Result<Reply, Refusal>],
        fell: Fell,
    ) -> Step<()> {
        let records = self.new_events(handle)?;
        for record in records.iter().filter(|record| record.kind.contains("land")) {
            let asked = batch.iter().any(|asked| crate::landers::speaks_of_landing(&asked.request.command));
            let by = if asked { "" } else { " before a request" };
            *self.report.landings.entry(format!("{}{by}", record.kind)).or_default() += 1;
        }
        let mut rest = records.as_slice();
        let after_commit = fell == Fell::AfterCommit;
        for (asked, answer) in batch.iter().zip(answers) {
            let identity = &asked.request.identity;
            let (actor, instance) = (self.oracle.actor(identity.actor.as_str()), identity.instance.as_str());
            let own =
                rest.iter().take_while(|record| record.actor == actor && record.instance == instance).count();
            let (own, others) = rest.split_at(if batch.len() == 1 { rest.len() } else { own });
            rest = others;
            let committed = after_commit || answer.is_ok();
            let answer = Some(answer).filter(|_| fell == Fell::Nothing);
            let deed = Deed { request: &asked.request, committed, place: HANDLES[handle], answer };
            self.oracle.judge(&deed, own, &self.world.fate())?;
            match deed.answer {
                Some(Ok(reply)) => {
                    self.use_tools(asked);
                    self.take_branch(asked, reply);
                    self.actors.learn(asked.by, reply);
                }
                Some(Err(refusal)) => self.actors.regret(&mut self.dice, asked, refusal),
                None => {}
            }
        }
        match rest.first() {
            Some(record) => Err(format!(
                "P12: {} by {} {}, whom nobody asked",
                record.kind, record.actor, record.instance
            )),
            None => Ok(()),
        }
    }

    /// An instance that may change files mostly does, and sometimes commits.
    fn use_tools(&mut self, asked: &Asked) {
        let (Command::Guard(Guard { paths, touched, .. })
        | Command::OnTask { act: Act::Touch { paths, touched, .. }, .. }) = &asked.request.command
        else {
            return;
        };
        if matches!(asked.request.command, Command::Guard(_)) && self.dice.one_in(2) {
            let command = Command::Presence(Presence::TurnOver);
            let request = Request { command, key: None, ..asked.request.clone() };
            self.flying.push((0, Asked { by: asked.by, request }));
        }
        let Some(worktree) = touched.worktree.as_ref().map(ToString::to_string) else { return };
        for path in paths {
            if self.dice.one_in(2) {
                self.world.fate().change(&worktree, path);
            }
        }
        if self.dice.one_in(2) {
            self.world.fate().commit(&worktree);
        }
    }

    /// Git looks at the files of a resting agent, for a request that arrives later, whatever happens in between.
    fn look_at_files(&mut self, at: u64) -> Step<()> {
        let rows = self.engines[0].store().read(|read| read.open_leases(10_000)).map_err(text)?;
        let resting: Vec<_> =
            rows.into_iter().filter(|(task, lease)| task.facts.ad_hoc && lease.pulse.resting).collect();
        let Some((task, lease)) = self.dice.pick(&resting).cloned() else { return Ok(()) };
        let scope =
            self.engines[0].store().read(|read| read.scope_of(task.uid, lease.token)).map_err(text)?;
        let is_clean = |worktree: &WorktreeId, path: &str| {
            !self.world.fate().is_dirty(worktree.as_str(), path) && !is_far(worktree.as_str())
        };
        let files = scope.rows().iter().filter_map(|row| {
            let (worktree, path) = (row.basis.worktree()?.clone(), row.glob.path()?.to_owned());
            is_clean(&worktree, &path).then_some((worktree, path))
        });
        let files: Vec<_> = files.collect();
        let goes_on = self.actors.goes_on(&mut self.dice, &lease, &files);
        if let Some(asked) = self.actors.wants(&mut self.dice, &task, &lease, files) {
            self.later(at, 20, asked);
            self.flying.extend(goes_on.map(|asked| (at + 1, asked)));
        }
        Ok(())
    }

    fn tally(&mut self, request: &Request, answer: &Result<Reply, Refusal>, fell: Fell) {
        self.report.operations += 1;
        let counts = self.report.commands.entry(request.command.verb()).or_default();
        match answer {
            Ok(_) => counts.0 += 1,
            Err(_) if fell != Fell::Nothing => {}
            Err(refusal) => {
                counts.1 += 1;
                *self.report.refusals.entry(format!("{:?}", refusal.code)).or_default() += 1;
            }
        }
    }

    /// Compares what the store and the engine's readers say about leases with what the oracle knows.
    fn compare(&mut self) -> Step<()> {
        let rows = self.engines[0].store().read(|read| read.open_leases(10_000)).map_err(text)?;
        let seats = self.engines[0].store().read(leased_seats).map_err(text)?;
        let all: Vec<(Task, Lease)> = rows.iter().cloned().chain(seats).collect();
        self.oracle.compare_leases(&all, &self.world.fate())?;
        let unsettled = self.engines[0].store().read(|read| read.to_land(10_000)).map_err(text)?;
        self.oracle.compare_landings(&unsettled)?;
        if let Some((task, lease)) = self.dice.pick(&rows).cloned() {
            let scope =
                self.engines[0].store().read(|read| read.scope_of(task.uid, lease.token)).map_err(text)?;
            self.oracle.compare_scope(&task, &scope)?;
            self.compare_live(task.number.0)?;
        }
        Ok(())
    }

    fn compare_live(&mut self, number: u64) -> Step<()> {
        let reference = onus_core::ids::TaskRef::Number(onus_core::ids::Number(number));
        let shown = self.engines[0].show(None, Some(&reference)).map_err(text)?.value;
        let is_live = shown.lease.is_some_and(|lease| lease.live);
        self.oracle.compare_live(number, is_live, &self.world.fate())
    }

    /// Time passes, and sometimes the world does something else.
    fn let_time_pass(&mut self, at: u64) -> Step<()> {
        let ms = match self.dice.below(40) {
            0..4 => 0,
            4..26 => self.dice.ms(1, 400),
            26..38 => self.dice.ms(1, 4_000),
            38 => self.dice.ms(1, 30_000),
            _ => self.dice.ms(1, 90_000),
        };
        self.world.fate().pass(ms);
        let event = self.dice.below(400);
        let is_about_time = event < 6;
        let what = match event {
            0..4 => {
                let ms = self.dice.ms(-7_200_000, 7_200_000);
                self.world.fate().step_wall(ms);
                self.report.fault("wall clock step");
                if self.dice.one_in(2) {
                    self.come_back(at);
                }
                format!("the wall clock is stepped by {ms} ms")
            }
            4..6 => {
                let ms = self.dice.ms(1_000, 28_800_000);
                self.world.fate().sleep(ms);
                self.report.fault("suspend");
                format!("the machine sleeps for {ms} ms")
            }
            6 if self.dice.one_in(4) => {
                let ms = self.away_ms(600_000);
                self.world.fate().reboot(ms);
                self.report.fault(if ms < 0 { "reboot, wall clock set back" } else { "reboot" });
                for handle in 0..HANDLES.len() {
                    self.reopen(handle)?;
                }
                format!("the machine is started again, {ms} ms later by the wall")
            }
            7..15 => {
                let killed = self.actors.kill_one(&mut self.dice, &mut self.world.fate());
                let Some(what) = killed else { return Ok(()) };
                self.report.fault("process killed");
                what
            }
            15..27 => {
                self.report.fault("instance replaced");
                self.actors.replace_one(&mut self.dice, &mut self.world.fate())
            }
            27 if self.dice.one_in(4) => {
                self.report.fault("rebuild under way");
                self.rebuild()?;
                "the rows are derived anew".to_owned()
            }
            29 if self.dice.one_in(2) => {
                let ms = self.dice.ms(DAY_MS, 4 * DAY_MS);
                self.world.fate().pass(ms);
                self.report.fault("days pass");
                self.come_back(at);
                format!("{ms} ms pass")
            }
            28 => {
                self.report.fault("handle reopened");
                let handle = self.dice.below(HANDLES.len());
                self.reopen(handle)?;
                format!("handle {handle} is opened anew")
            }
            _ => return self.oracle.look(&self.world.fate()),
        };
        self.note(at, what);
        self.oracle.look(&self.world.fate())?;
        if is_about_time {
            for number in self.oracle.leased() {
                self.compare_live(number)?;
            }
        }
        self.compare()
    }

    /// Agents that were silent for long continue, one after the other.
    fn come_back(&mut self, at: u64) {
        for asked in self.actors.come_back(&mut self.dice) {
            self.later(at, 20, asked);
        }
    }

    /// By how much the wall clock has advanced when the machine is back. Sometimes it was set back meanwhile.
    fn away_ms(&mut self, most_ms: i64) -> i64 {
        if self.dice.one_in(3) { self.dice.ms(-7_200_000, 0) } else { self.dice.ms(1_000, most_ms) }
    }

    /// The machine crashed in the middle of a transaction and comes back with the files as they were.
    fn power_cut(&mut self, at: u64, folder: &Path) -> Step<()> {
        self.engines.clear();
        self.file = folder.join("onus.db");
        let ms = self.away_ms(60_000);
        self.world.fate().reboot(ms);
        for place in HANDLES {
            let engine = self.open(place)?;
            self.engines.push(engine);
        }
        self.note(at, format!("the power was cut; back after {ms} ms"));
        self.oracle.look(&self.world.fate())
    }

    /// P5: the rows are the fold of the ledger.
    fn rebuild(&mut self) -> Step<()> {
        let rebuilt = self.engines[0].store().rebuild(&mut |_| {}).map_err(text)?;
        if rebuilt.changed.is_empty() {
            Ok(())
        } else {
            Err(format!("P5: a rebuild changed {:?}", rebuilt.changed))
        }
    }

    fn finish(&mut self) -> Step<()> {
        // P10: the ledger has the outcome of every landing.
        self.settle_all(0)?;
        self.oracle.all_recorded(&self.world.fate())?;
        // P6: the ledger is intact.
        self.engines[1].verify(&[], &mut |_| {}).map_err(|refusal| format!("P6: {}", refusal.message))?;
        self.rebuild()?;
        self.compare()
    }
}

fn told_briefly(request: &Request) -> String {
    let identity = &request.identity;
    let token = identity.token.as_ref().map(|(_, token)| format!(" token {token}")).unwrap_or_default();
    let key = request.key.as_ref().map(|key| format!(" key {key}")).unwrap_or_default();
    let mut command = format!("{:?}", request.command);
    if command.len() > 300 {
        command.truncate(command.floor_char_boundary(300));
        command.push('…');
    }
    format!("{} {}{token}{key}: {command}", identity.actor, identity.instance)
}

/// Whether a healthy store may refuse like this.
fn is_healthy(code: Code) -> bool {
    code.exit_code() != 8 && code != Code::Unexpected
}
