//! Where races run: each has a project of its own, a clock that stands still, and a gate at which a caller is
//! stopped inside its transaction.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use onus_core::command::{Act, Command, NewTask, SeatAct, SeatTerms, Terms};
use onus_core::lease::{Mode, Seen};
use onus_core::refusal::Refusal;
use onus_core::seat::SeatName;
use onus_core::task::Facts;
use onus_core::time::{ClockDomain, Moment};
use onus_core::transition::Verb;
use onus_engine::{Answer, Engine, Identity, Outside, Reply, Request};
use onus_store::conformance::server::{Server, fresh_name, parsed};
use onus_store::{PostgresStore, Store as _};

use crate::world::{TTL_MS, on, policy, process, verb, who};

use super::judge::Judge;
use super::{Dice, GLOBS, Part, agent};

/// Where a caller is stopped: at one of the questions that its transaction asks the test.
#[derive(Debug, Default)]
struct Gate {
    passed: Mutex<Passed>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Passed {
    questions: usize,
    stop_at: Option<usize>,
    is_stopped: bool,
    has_ended: bool,
}

/// Nobody is stopped for longer than this, whatever goes wrong.
const LONGEST_STOP: Duration = Duration::from_secs(20);

impl Gate {
    fn pass(&self) {
        let mut passed = self.passed.lock().unwrap();
        passed.questions += 1;
        if passed.stop_at == Some(passed.questions) {
            passed.is_stopped = true;
            self.changed.notify_all();
            let wait = |passed: &mut Passed| passed.stop_at.is_some();
            passed = self.changed.wait_timeout_while(passed, LONGEST_STOP, wait).unwrap().0;
            passed.is_stopped = false;
        }
    }

    fn stop_at(&self, question: usize) {
        *self.passed.lock().unwrap() = Passed { stop_at: Some(question), ..Passed::default() };
    }

    fn open(&self) {
        self.passed.lock().unwrap().stop_at = None;
        self.changed.notify_all();
    }

    fn end(&self) {
        self.passed.lock().unwrap().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until its caller is stopped, has ended, or `also` says that it waits elsewhere. True: it is
    /// stopped.
    fn settles(&self, mut also: impl FnMut() -> bool) -> bool {
        let until = Instant::now() + LONGEST_STOP;
        let mut passed = self.passed.lock().unwrap();
        loop {
            if passed.is_stopped || passed.has_ended {
                return passed.is_stopped;
            }
            assert!(Instant::now() < until, "a caller is neither stopped, nor waiting, nor done");
            drop(passed);
            if also() {
                return false;
            }
            passed = self.passed.lock().unwrap();
            passed = self.changed.wait_timeout(passed, Duration::from_millis(5)).unwrap().0;
        }
    }
}

/// These tests are about order, not disks.
pub(crate) fn server() -> Server {
    Server::start_with("fsync = off\nsynchronous_commit = off\nfull_page_writes = off")
}

/// The database of all races.
pub(crate) struct Play {
    database: String,
}

impl Play {
    pub(crate) fn new(server: &Server) -> Play {
        Play { database: server.database() }
    }

    pub(crate) fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.database, postgres::NoTls).unwrap()
    }

    /// How often the server had to end one of two transactions that waited for one another.
    pub(crate) fn deadlocks(&self) -> i64 {
        let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        self.client().query_one(sql, &[]).unwrap().get(0)
    }
}

/// A task of the stage, and its current or former holder.
pub(crate) struct Prop {
    pub(crate) id: String,
    pub(crate) holder: Option<Identity>,
    /// Its lease has lapsed, and nobody has swept it.
    pub(crate) is_left: bool,
}

/// One caller, with an engine of its own behind a gate.
struct Player {
    engine: Engine<PostgresStore>,
    gate: Arc<Gate>,
}

pub(crate) struct Stage {
    pub(crate) name: String,
    pub(crate) looker: postgres::Client,
    pub(crate) tasks: Vec<Prop>,
    /// The current or former holder of the seat.
    pub(crate) seat_holder: Option<Identity>,
    address: String,
    now_ms: Arc<AtomicI64>,
    founder: Player,
}

/// How a race went.
pub(crate) struct Race {
    pub(crate) answers: Vec<Result<Reply, Refusal>>,
    /// Callers that were stopped inside their transaction, and those that waited for a lock then.
    pub(crate) stopped: usize,
    pub(crate) waited: usize,
}

fn moment(now_ms: i64) -> Moment {
    Moment::new(now_ms, now_ms, ClockDomain::new("machine", "boot-1", "time"))
}

fn player(mut store: PostgresStore, now_ms: &Arc<AtomicI64>) -> Player {
    let gate = Arc::new(Gate::default());
    let [clock, seen, uids] = [(); 3].map(|()| Arc::clone(&gate));
    let now_ms = Arc::clone(now_ms);
    store.set_clock(Box::new(move || {
        clock.pass();
        moment(now_ms.load(Ordering::SeqCst))
    }));
    let outside = Outside {
        observe: Box::new(move |_| {
            seen.pass();
            Seen::Alive
        }),
        new_uid: Box::new(move |wall_ms| {
            uids.pass();
            onus_engine::new_uid(wall_ms)
        }),
        ..Outside::default()
    };
    Player { engine: Engine::with_outside(store, policy(), outside), gate }
}

impl Stage {
    /// A project with some tasks, in any state that leases can reach.
    pub(crate) fn set(play: &Play, dice: &mut Dice) -> Stage {
        let name = fresh_name();
        let now_ms = Arc::new(AtomicI64::new(1_700_000_000_000));
        let uid = |n: usize| format!("01900000-0000-7000-8000-{n:012x}");
        let (first, second) = (
            dice.below(usize::MAX >> 20) & 0xffff_ffff_ffff,
            dice.below(usize::MAX >> 20) & 0xffff_ffff_ffff,
        );
        let uids = (uid(first).parse().unwrap(), uid(second).parse().unwrap());
        let founder = ("human:founder".parse().unwrap(), "person".parse().unwrap());
        let store = PostgresStore::create(
            &parsed(&play.database),
            &name,
            &"ON".parse().unwrap(),
            uids,
            (&founder.0, &founder.1),
            Duration::from_secs(10),
        );
        let founder = player(store.unwrap(), &now_ms);
        let mut stage = Stage {
            name,
            looker: play.client(),
            tasks: Vec::new(),
            seat_holder: None,
            address: play.database.clone(),
            now_ms,
            founder,
        };
        // New actors wait for the project's row: all are registered, so that only the race is between them.
        for caller in stage.callers() {
            let register = Command::RegisterActor { actor: caller.actor, tier: None };
            stage.tell(&who("human:founder", ""), register).unwrap();
        }
        for _ in 0..2 + dice.below(3) {
            stage.add(dice);
        }
        // First those that lapse, then those that stay live.
        let fates: Vec<usize> = (0..stage.tasks.len()).map(|_| dice.below(10)).collect();
        for (task, fate) in fates.iter().enumerate().filter(|(_, fate)| **fate < 5) {
            stage.claim(dice, task, *fate);
        }
        let seat_fate = dice.below(6);
        if seat_fate < 2 {
            stage.take_seat(dice);
        }
        stage.now_ms.fetch_add(TTL_MS + 1_000, Ordering::SeqCst);
        if (2..5).contains(&seat_fate) {
            stage.take_seat(dice);
        }
        if let (4, Some(holder)) = (seat_fate, stage.seat_holder.clone()) {
            stage.tell(&holder, on_seat(SeatAct::Release)).unwrap();
        }
        for (task, fate) in stage.tasks.iter_mut().zip(&fates) {
            task.is_left = task.holder.is_some() && (3..5).contains(fate);
        }
        for (task, _) in fates.iter().enumerate().filter(|(_, fate)| **fate < 3) {
            stage.sweep(task);
        }
        for (task, fate) in fates.iter().enumerate().filter(|(_, fate)| **fate >= 5) {
            match fate {
                5..8 => stage.claim(dice, task, *fate),
                8 => {
                    stage.claim(dice, task, 0);
                    let ends = [Verb::Release, Verb::Submit, Verb::Fail, Verb::Block, Verb::Done];
                    stage.by_holder(task, ends[dice.below(ends.len())]);
                }
                _ => {}
            }
        }
        stage
    }

    pub(crate) fn callers(&self) -> Vec<Identity> {
        vec![agent(1), agent(2), agent(3), who("human:ada", "")]
    }

    fn tell(&mut self, by: &Identity, command: Command) -> Result<Reply, Refusal> {
        self.founder.engine.run(&Request { identity: by.clone(), command, key: None })
    }

    fn add(&mut self, dice: &mut Dice) {
        // Half of them want the folder that everybody wants.
        let scope = match dice.below(4) {
            0 | 1 => [GLOBS[0].0.parse().unwrap()].into_iter().collect(),
            2 => dice.scope(),
            _ => Default::default(),
        };
        let mode = if dice.one_in(6) { Mode::Shared } else { Mode::Exclusive };
        let facts = Facts { scope, mode, ..Facts::default() };
        let new = Command::Add(NewTask { facts, ..NewTask::titled("t") });
        let reply = self.tell(&who("human:founder", ""), new).unwrap();
        let Answer::Task(task) = reply.answer else { panic!("no task") };
        self.tasks.push(Prop { id: task.id, holder: None, is_left: false });
    }

    /// Lets somebody claim it, if its paths are free.
    fn claim(&mut self, dice: &mut Dice, task: usize, fate: usize) {
        let by = agent(1 + dice.below(3));
        // Only the lease knows what it reserves beyond what its task declares.
        let scope = if dice.one_in(2) { dice.scope() } else { Default::default() };
        let process = (fate == 5).then(|| process(7, 1));
        let act = Act::Claim(Terms { process, scope, ..Terms::default() });
        let id = self.tasks[task].id.clone();
        if self.tell(&by, on(&id, act)).is_ok() {
            self.tasks[task].holder = Some(by);
        }
    }

    /// Lets somebody take the seat, which nobody has.
    fn take_seat(&mut self, dice: &mut Dice) {
        let by = agent(1 + dice.below(3));
        self.tell(&by, on_seat(SeatAct::Take(SeatTerms::default()))).unwrap();
        self.seat_holder = Some(by);
    }

    /// Another's `block` sweeps a lapsed lease; `unblock` opens the task again.
    fn sweep(&mut self, task: usize) {
        let (person, id) = (who("human:founder", ""), self.tasks[task].id.clone());
        for step in [Verb::Block, Verb::Unblock] {
            // A task that could not be claimed has nothing to sweep, and is left as it is.
            let _ = self.tell(&person, on(&id, verb(step)));
        }
    }

    fn by_holder(&mut self, task: usize, step: Verb) {
        let Some(holder) = self.tasks[task].holder.clone() else { return };
        let id = self.tasks[task].id.clone();
        self.tell(&holder, on(&id, verb(step))).unwrap();
    }

    /// What is known before a race.
    pub(crate) fn judged(&mut self) -> Judge {
        let now_ms = self.now_ms.load(Ordering::SeqCst);
        Judge::of(&mut self.looker, &self.name, now_ms)
    }

    /// The first is stopped inside its transaction, then the second, if there is a third; the last runs until
    /// it has ended or waits; then they continue, the last stopped first.
    pub(crate) fn race(&mut self, dice: &mut Dice, parts: &[Part]) -> Race {
        // Alone, each would ask this many questions; one that waits for another asks more.
        let players: Vec<(Player, usize)> = parts
            .iter()
            .map(|part| {
                let mut player = self.another();
                let questions = player.rehearsed(part);
                (player, questions)
            })
            .collect();
        let mut race = Race { answers: Vec::new(), stopped: 0, waited: 0 };
        let (mut gates, mut running) = (Vec::new(), Vec::new());
        for (at, (mut player, questions)) in players.into_iter().enumerate() {
            let is_last = at + 1 == parts.len();
            // The last questions are those between the decision and the commit.
            let back = if dice.one_in(2) { dice.below(3) } else { dice.below(questions.max(1)) };
            player.gate.stop_at(if is_last { usize::MAX } else { questions.saturating_sub(back).max(1) });
            let gate = Arc::clone(&player.gate);
            let requests = requests(&parts[at]);
            let waiting = self.waiting();
            running.push(thread::spawn(move || {
                let answers = match requests.as_slice() {
                    [request] => vec![player.engine.run(request)],
                    batch => player.engine.execute(batch),
                };
                player.gate.end();
                answers
            }));
            let mut waits = false;
            race.stopped += usize::from(gate.settles(|| {
                waits = self.waiting() > waiting;
                waits
            }));
            race.waited += usize::from(waits);
            gates.push(gate);
        }
        for gate in gates.iter().rev() {
            gate.open();
            gate.settles(|| self.waiting() > 0);
        }
        race.answers = running.into_iter().flat_map(|one| one.join().unwrap()).collect();
        race
    }

    /// How many wait for a lock.
    fn waiting(&mut self) -> i64 {
        let sql = "SELECT COUNT(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.looker.query_one(sql, &[]).unwrap().get(0)
    }

    fn another(&self) -> Player {
        let store = PostgresStore::open(&parsed(&self.address), &self.name, Duration::from_secs(10)).unwrap();
        player(store, &self.now_ms)
    }

    /// Checks that the ledger is intact, and every row is its fold.
    pub(crate) fn is_whole(&mut self, told: &str) {
        let engine = &mut self.founder.engine;
        engine.verify(&[], &mut |_| {}).unwrap_or_else(|refusal| panic!("{told}\n{refusal:?}"));
        let rebuilt = engine.store().rebuild(&mut |_| {}).unwrap();
        assert!(rebuilt.changed.is_empty(), "{told}\na rebuild changed {:?}", rebuilt.changed);
    }
}

/// The one seat that everybody may want.
pub(crate) fn seat() -> SeatName {
    "land:main".parse().unwrap()
}

pub(crate) fn on_seat(act: SeatAct) -> Command {
    Command::OnSeat { seat: seat(), act, force: None }
}

fn requests(part: &Part) -> Vec<Request> {
    let request =
        |command: &Command| Request { identity: part.by.clone(), command: command.clone(), key: None };
    part.batch.iter().map(request).collect()
}

impl Player {
    /// How many questions its last request asks. Its changes are rolled back.
    fn rehearsed(&mut self, part: &Part) -> usize {
        let Some(request) = requests(part).pop() else { return 0 };
        // Its answer does not matter here.
        let _ = self.engine.rehearse(&request);
        self.gate.passed.lock().unwrap().questions
    }
}
