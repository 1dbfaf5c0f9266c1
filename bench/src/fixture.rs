//! Stores with many tasks: real events in real hash chains, folded by the core into real rows, so that
//! `onus ledger verify` has nothing to say about them. They go past the engine, in large transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use onus_core::actor::{ActorName, InstanceId, KnownBy, Tier};
use onus_core::apply::{RowChange, TaskFold};
use onus_core::chain::Record;
use onus_core::command::{Act, Command, Terms};
use onus_core::event::{Body, Event};
use onus_core::ids::{Number, Prefix, TaskRef, Token, Uid, Version};
use onus_core::lease::{Grant, LeaseEnd, Mode};
use onus_core::policy::Policy;
use onus_core::stretch::Stretch;
use onus_core::task::{Facts, NoteKind, Priority, State};
use onus_core::text::{Field, Salt, digest};
use onus_core::time::ClockDomain;
use onus_engine::{Ancestry, Engine, Identity, Request};
use onus_store::{Access, SqliteStore, Store as _, Write};

use crate::Result;
use crate::place::{Place, Repository};

/// Part of the cached stores' names: another number, when what is generated changes.
const FORMAT: u32 = 5;

const TASKS_A_TRANSACTION: u64 = 5_000;

/// How long a writer waits for its turn, as the command line's default.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

pub(crate) const BEGAN_MS: i64 = 1_750_000_000_000;

/// What the tasks of a store have behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum History {
    /// Added, and nothing else: one event each.
    Fresh,
    /// Five events each: six of ten tasks are done, three are open again, one is held by a person.
    Worked,
    /// Three dependencies each. A third is done, a third is open and waits for done ones alone, a third waits for those.
    Graph,
    /// Each done after one session of three seconds, a second apart.
    Done,
}

impl History {
    fn name(self) -> &'static str {
        match self {
            History::Fresh => "fresh",
            History::Worked => "worked",
            History::Graph => "graph",
            History::Done => "done",
        }
    }

    /// The number of the nth task that is open.
    pub(crate) fn open_task(self, n: u64) -> u64 {
        match self {
            History::Fresh | History::Done => n + 1,
            History::Worked => n / 3 * 10 + 6 + n % 3,
            History::Graph => n * 3 + 2,
        }
    }
}

/// A store with that many tasks, generated once and kept. Copy it: it is not to be written.
pub(crate) fn store(place: &Place, tasks: u64, history: History) -> Result<PathBuf> {
    let path = place.data.join(format!("{}-{tasks}-v{FORMAT}.db", history.name()));
    if path.exists() {
        return Ok(path);
    }
    let began = Instant::now();
    let building = place.data.join("building");
    if building.exists() {
        fs::remove_dir_all(&building)?;
    }
    fs::create_dir_all(&building)?;
    let new = building.join("onus.db");
    generate(&new, tasks, history)?;
    // Nothing stays in the log: what is copied is one file.
    let connection = rusqlite::Connection::open(&new)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    drop(connection);
    fs::rename(&new, &path)?;
    fs::remove_dir_all(&building)?;
    println!("  (made {} in {:.0} s)", path.display(), began.elapsed().as_secs_f64());
    Ok(path)
}

fn generate(path: &std::path::Path, tasks: u64, history: History) -> Result<()> {
    let identity = identity("fixture")?;
    let mut random = Random(1);
    let prefix: Prefix = "B".parse()?;
    let by = (&identity.actor, &identity.instance);
    let store = SqliteStore::create(path, &prefix, random.uid(BEGAN_MS), random.uid(BEGAN_MS), by, WAIT)?;
    let mut engine = Engine::new(store, Policy::default());
    for actor in ["agent:fixture", "human:fixture"] {
        let command = Command::RegisterActor { actor: actor.parse()?, tier: None };
        engine.run(&Request { identity: identity.clone(), command, key: None })?;
    }
    let mut store = engine.into_store();
    let mut number = 1;
    let mut uids = Vec::with_capacity(usize::try_from(tasks)?);
    while number <= tasks {
        let end = tasks.min(number + TASKS_A_TRANSACTION - 1);
        let streams = (number..=end)
            .map(|number| Stream::of_task(number, history, &mut uids, &mut random))
            .collect::<Result<Vec<_>>>()?;
        store.write(|write| {
            for stream in &streams {
                stream.write(write)?;
            }
            Ok(())
        })?;
        number = end + 1;
    }
    Ok(())
}

/// What lies beside one event.
type Texts = Vec<(Field, Salt, String)>;

/// One task's events with their texts, and what they fold into.
struct Stream {
    uid: Uid,
    actor: ActorName,
    at_ms: i64,
    lines: Vec<(Event, Texts)>,
    fold: TaskFold,
}

impl Stream {
    /// `uids`: of the tasks before it, and then its own too.
    fn of_task(number: u64, history: History, uids: &mut Vec<Uid>, random: &mut Random) -> Result<Stream> {
        let at_ms = BEGAN_MS + i64::try_from(number)? * 1_000;
        let held_by_a_person = history == History::Worked && number % 10 == 9;
        let actor = if held_by_a_person { "human:fixture" } else { "agent:fixture" }.parse()?;
        let uid = random.uid(at_ms);
        let deps = if history == History::Graph { upstream(number, uids, random) } else { BTreeSet::new() };
        uids.push(uid);
        let mut stream = Stream { uid, actor, at_ms, lines: Vec::new(), fold: TaskFold::default() };
        let priority = [Priority::P1, Priority::P2, Priority::P2, Priority::P3][(number % 4) as usize];
        let created = Body::TaskCreated {
            number: Number(number),
            state: State::Open,
            facts: Facts { priority, ..Facts::default() },
            origin: None,
            body: false,
            deps,
        };
        let title = format!("Task {number}: make the {} of module {} better", random.word(), random.word());
        stream.add(random, created, None, Some((Field::Title, title)))?;
        if history == History::Fresh || history == History::Graph && number % 3 != 1 {
            return Ok(stream);
        }
        let token = Some(Token(1));
        let grant = Grant {
            tier: Tier::DEFAULT,
            tick_ms: 1_000,
            domain: ClockDomain::new("bench", "boot", "0"),
            ttl_ms: None,
            max_hold_ms: None,
            process: None,
            worktree: None,
            worktree_id: None,
            branch: None,
            mode: Mode::Exclusive,
            constraints: Default::default(),
            reserve: false,
            handoff_version: None,
        };
        let lease = LeaseEnd { renewals: 2, last_sign_ms: at_ms + 3_000, active_ms: 3_000 };
        let note = |random: &mut Random| {
            (Field::Note, format!("WithNotices at {} and {}: it goes on", random.word(), random.word()))
        };
        let (scope, areas) = (Default::default(), Default::default());
        let acquired = Body::LeaseAcquired { grant, scope, areas, touched: None, own_clock: None };
        stream.add(random, acquired, token, None)?;
        if matches!(history, History::Graph | History::Done) {
            stream.add(random, Body::TaskDone { lease, awaits_landing: None }, token, None)?;
            return Ok(stream);
        }
        for _ in 0..2 {
            let text = note(random);
            stream.add(
                random,
                Body::NoteAdded { kind: NoteKind::Progress, link: None },
                token,
                Some(text),
            )?;
        }
        match number % 10 {
            0..=5 => stream.add(random, Body::TaskDone { lease, awaits_landing: None }, token, None)?,
            6..=8 => stream.add(random, Body::LeaseReleased { lease }, token, None)?,
            _ => {
                let text = note(random);
                stream.add(
                    random,
                    Body::NoteAdded { kind: NoteKind::Progress, link: None },
                    token,
                    Some(text),
                )?;
            }
        }
        Ok(stream)
    }

    fn add(
        &mut self,
        random: &mut Random,
        mut body: Body,
        token: Option<Token>,
        text: Option<(Field, String)>,
    ) -> Result<()> {
        let before = self.fold.task.as_ref();
        let at_ms = self.at_ms + 100 * i64::try_from(self.lines.len())?;
        let texts: Texts = text.into_iter().map(|(field, text)| (field, random.salt(), text)).collect();
        // All that was worked is told at the end.
        let start_ms = self.at_ms;
        let ended = body.lease_end_mut().map(|end| Stretch { start_ms, active_ms: end.active_ms });
        let stretches = ended.into_iter().collect();
        let mut event = Event {
            uid: random.uid(at_ms),
            task: Some(self.uid),
            version: before.map_or(Version(1), |task| task.version.next()),
            body,
            actor: self.actor.clone(),
            instance: InstanceId::person(),
            token,
            at_ms,
            cause: None,
            texts: texts
                .iter()
                .map(|(field, salt, text)| (*field, digest(salt, text)))
                .collect::<BTreeMap<_, _>>(),
            stretches,
            waited_ms: 0,
            prev: before.map(|task| task.head.clone()).unwrap_or_default(),
            hash: String::new(),
        };
        event.hash = Record::from_event(&event).hash;
        self.fold.add(&event)?;
        self.lines.push((event, texts));
        Ok(())
    }

    fn write(&self, write: &mut dyn Write) -> onus_store::Result<()> {
        for (event, texts) in &self.lines {
            write.append(event, texts)?;
        }
        if let Some(task) = &self.fold.task {
            write.apply(&RowChange::PutTask(Box::new(task.clone())))?;
            write.apply(&RowChange::NumberTaken(task.number))?;
        }
        if !self.fold.deps.is_empty() {
            write.apply(&RowChange::AddDeps { task: self.uid, on: self.fold.deps.clone() })?;
        }
        for lease in self.fold.leases.values() {
            write.apply(&RowChange::OpenLease(Box::new(lease.clone())))?;
        }
        write.apply(&RowChange::AddStretches(self.fold.stretches.clone()))?;
        for key in &self.fold.indexed {
            write.apply(&RowChange::Index(*key))?;
        }
        Ok(())
    }
}

/// Up to three tasks before this one that it depends on. Every third task is done, the next is ready, the next waits.
fn upstream(number: u64, uids: &[Uid], random: &mut Random) -> BTreeSet<Uid> {
    let kind = if number.is_multiple_of(3) { 2 } else { 1 };
    let choices = (number.saturating_sub(1)) / 3;
    let mut deps = BTreeSet::new();
    for _ in 0..3 {
        let place = if choices == 0 { continue } else { random.next() % choices * 3 + kind - 1 };
        deps.extend(usize::try_from(place).ok().and_then(|place| uids.get(place)));
    }
    deps
}

/// The same numbers every time (splitmix64): two machines generate the same store.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn uid(&mut self, at_ms: i64) -> Uid {
        let mut random = [0; 10];
        random[..8].copy_from_slice(&self.next().to_le_bytes());
        random[8..].copy_from_slice(&self.next().to_le_bytes()[..2]);
        Uid(uuid::Builder::from_unix_timestamp_millis(at_ms.cast_unsigned(), &random).into_uuid())
    }

    fn salt(&mut self) -> Salt {
        let mut salt = Salt::default();
        salt[..8].copy_from_slice(&self.next().to_le_bytes());
        salt[8..].copy_from_slice(&self.next().to_le_bytes());
        salt
    }

    /// One of some ten thousand words, as a vocabulary has them.
    fn word(&mut self) -> String {
        const PARTS: [&str; 22] = [
            "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va",
            "we", "xi", "yo", "zu", "ar", "el",
        ];
        (0..3).map(|_| PARTS[(self.next() % PARTS.len() as u64) as usize]).collect()
    }
}

pub(crate) fn identity(instance: &str) -> Result<Identity> {
    Ok(Identity {
        actor: "agent:bench".parse()?,
        instance: instance.parse()?,
        known_by: KnownBy::Name,
        token: None,
        ancestry: Ancestry::Known(Vec::new()),
    })
}

pub(crate) fn request(instance: &str, command: Command) -> Result<Request> {
    Ok(Request { identity: identity(instance)?, command, key: None })
}

pub(crate) fn on_task(number: u64, instance: &str, act: Act) -> Result<Request> {
    let task = Some(TaskRef::Number(Number(number)));
    request(instance, Command::OnTask { task, act, force: None })
}

/// A claim of one task by an instance of its own, as a fleet makes them: nobody collects leases.
pub(crate) fn claim(number: u64, instance: &str) -> Result<Request> {
    on_task(number, instance, Act::Claim(Terms::default()))
}

/// A repository with a copy of such a store.
pub(crate) fn repository(place: &Place, name: &str, tasks: u64, history: History) -> Result<Repository> {
    let repository = place.repository(name)?;
    repository.fill(&store(place, tasks, history)?)?;
    Ok(repository)
}

pub(crate) fn engine(path: &std::path::Path, access: Access) -> Result<Engine<SqliteStore>> {
    Ok(Engine::new(SqliteStore::open(path, access, WAIT)?, Policy::default()))
}
