//! Proves the ledger: verify, export, seal (P6).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use onus_core::chain::Record;
use onus_core::event::Body;
use onus_core::ids::{Number, Uid, Version};
use onus_core::refusal::{Code, Refusal, Step};
use onus_core::seal::{StreamHead, merkle_root};
use onus_core::text::{Field, Salt, digest, hex};
use onus_core::time::rfc3339;
use onus_store::{EventQuery, LedgerLine, Progress, Read, Store, StoreError};

use crate::Engine;
use crate::request::Stop;

/// Events read at a time.
const PAGE: u64 = 2_000;

pub(crate) const SCHEMA_VERSION: u64 = 1;

/// A ledger that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verified {
    pub ok: bool,
    pub events: u64,
    pub tasks: u64,
    pub seats: u64,
    /// Texts that were erased, by whom and why.
    pub erased: Vec<Erased>,
    /// Seals it was compared with.
    pub seals: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Erased {
    pub task: String,
    pub version: u64,
    pub field: String,
    pub by: String,
    pub at: String,
    pub reason: Option<String>,
}

/// Every stream's head, from one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealDocument {
    pub header: SealHeader,
    pub heads: Vec<StreamHead>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SealHeader {
    pub schema_version: u64,
    pub project: String,
    pub at: String,
    pub streams: u64,
    /// The Merkle root over the heads.
    pub root: String,
    /// The root of the seal before it.
    pub previous: Option<String>,
}

impl SealDocument {
    /// JSON Lines: the header, then one line per head.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(&self.header).unwrap_or_default();
        for head in &self.heads {
            text.push('\n');
            text.push_str(&serde_json::to_string(head).unwrap_or_default());
        }
        text.push('\n');
        text
    }

    /// Parses a seal, and checks that its root is that of its heads.
    pub fn parse(text: &str) -> Result<SealDocument, Refusal> {
        let bad = |why: String| Refusal::usage(format!("not a seal: {why}"));
        let mut lines = text.lines();
        let header: SealHeader = serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|error| bad(format!("its first line is unreadable: {error}")))?;
        let heads: Vec<StreamHead> = lines
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .map_err(|error| bad(format!("a stream is unreadable: {error}")))?;
        if merkle_root(&heads) != header.root {
            return Err(Refusal::new(
                Code::Tampered,
                format!("the seal itself was changed: its root should be {}", header.root),
            )
            .next(Step::plain("compare with another copy of the seal")));
        }
        Ok(SealDocument { header, heads })
    }
}

fn tampered(task: Option<String>, version: u64, why: &str) -> Refusal {
    let place = task.clone().unwrap_or_else(|| "the project's own stream".to_owned());
    let mut refusal = Refusal::new(Code::Tampered, format!("event {version} of {place}: {why}"))
        .next(Step::ExportLedger)
        .next(Step::plain("compare with a backup or a seal"));
    refusal.task = task;
    refusal.version = Some(version);
    refusal
}

/// Checks one stream as its events are read.
struct Checker {
    stream: String,
    id: Option<String>,
    /// The number that the task or seat was created with; None for the project's own stream.
    number: Option<Numbered>,
    previous: Option<Record>,
    missing: BTreeSet<(u64, String)>,
}

impl Checker {
    fn add(&mut self, line: &LedgerLine, erased: &mut Vec<Erased>) -> Result<(), Refusal> {
        let record = &line.record;
        let refuse = |version: u64, why: &str| Err(tampered(self.id.clone(), version, why));
        let (before, hash, seq) = self
            .previous
            .as_ref()
            .map_or((0, "", 0), |previous| (previous.version, previous.hash.as_str(), previous.seq));
        if record.version != before + 1 {
            return refuse(before + 1, &format!("it is missing: event {} comes next", record.version));
        }
        if record.prev != hash {
            return refuse(record.version, "its link to the event before it is broken");
        }
        // Not hashed, and different in each store; but it grows within a stream.
        if record.seq <= seq {
            return refuse(record.version, "it was moved before the event it follows");
        }
        if record.hash != record.expected_hash() {
            return refuse(record.version, "its content does not match its hash");
        }
        let event = match record.to_event() {
            Ok(event) => event,
            Err(error) => return refuse(record.version, &error.to_string()),
        };
        match &event.body {
            Body::TaskCreated { number, .. } if record.version == 1 => {
                self.number = Some(Numbered::Task(*number));
            }
            Body::SeatCreated { number, .. } if record.version == 1 => {
                self.number = Some(Numbered::Seat(*number));
            }
            _ if record.version == 1 && record.task.is_some() => {
                return refuse(1, "a task or a seat begins with its creation");
            }
            _ => {}
        }
        for (field, expected) in record.text_digests() {
            let stored = line.texts.iter().find(|text| text.field == field.as_str());
            match stored {
                Some(text) => {
                    let matches = Salt::try_from(text.salt.as_slice())
                        .is_ok_and(|salt| digest(&salt, &text.text) == expected);
                    if !matches {
                        return refuse(record.version, &format!("its {field} was changed"));
                    }
                }
                None => {
                    self.missing.insert((record.version, field.to_string()));
                }
            }
        }
        let named: Vec<Field> = record.text_digests().into_iter().map(|(field, _)| field).collect();
        if line.texts.iter().any(|text| !named.iter().any(|field| field.as_str() == text.field)) {
            return refuse(record.version, "it has a text that it does not name");
        }
        if let Body::TextRedacted { version, fields } = &event.body {
            for field in fields {
                if !self.missing.remove(&(version.0, field.to_string())) {
                    return refuse(version.0, &format!("its {field} was redacted but is still there"));
                }
                erased.push(Erased {
                    task: self.id.clone().unwrap_or_default(),
                    version: version.0,
                    field: field.to_string(),
                    by: record.actor.clone(),
                    at: record.at.clone(),
                    reason: line
                        .texts
                        .iter()
                        .find(|text| text.field == Field::Reason.as_str())
                        .map(|text| text.text.clone()),
                });
            }
        }
        self.previous = Some(record.clone());
        Ok(())
    }

    fn finish(&self, head: Option<&StreamHead>) -> Result<(), Refusal> {
        if let Some((version, field)) = self.missing.first() {
            return Err(tampered(
                self.id.clone(),
                *version,
                &format!("its {field} is gone, but nobody redacted it"),
            ));
        }
        let (version, hash) =
            self.previous.as_ref().map_or((0, ""), |previous| (previous.version, previous.hash.as_str()));
        match head {
            Some(head) if head.version == version && head.hash == hash => Ok(()),
            Some(head) if head.version == version => {
                Err(tampered(self.id.clone(), version, "its hash differs from the one in its row"))
            }
            Some(head) => Err(tampered(
                self.id.clone(),
                version.min(head.version) + 1,
                &format!("the row counts {} events, the ledger has {version}", head.version),
            )),
            None => Err(tampered(self.id.clone(), version, "the stream has no row")),
        }
    }
}

/// Tasks and seats are numbered separately.
#[derive(Clone, Copy)]
enum Numbered {
    Task(Number),
    Seat(Number),
}

/// The numbers of all tasks, and of all seats.
struct Census {
    tasks: Numbers,
    seats: Numbers,
}

impl Census {
    fn new(most: u64) -> Census {
        Census { tasks: Numbers { taken: Vec::new(), most }, seats: Numbers { taken: Vec::new(), most } }
    }

    fn take(&mut self, checker: &Checker) -> Result<(), Refusal> {
        match checker.number {
            Some(Numbered::Task(number)) => self.tasks.take(number, checker, "task"),
            Some(Numbered::Seat(number)) => self.seats.take(number, checker, "seat"),
            None => Ok(()),
        }
    }

    /// Checks that every number up to the last one assigned has its task, or its seat.
    fn check(&self, read: &mut dyn Read) -> Result<(), Stop> {
        let prefix = read.project()?.prefix;
        let (last_number, last_seat) = (read.last_number()?.0, read.last_seat()?.0);
        self.tasks.check(last_number, "task", |number| prefix.id(number))?;
        self.seats.check(last_seat, "seat", |number| format!("seat number {}", number.0))?;
        Ok(())
    }
}

/// The numbers of tasks, or of seats. Numbers are assigned one after the other, each in the transaction that
/// creates its task: a number without a task is a task that was removed.
struct Numbers {
    /// Whether each number is taken.
    taken: Vec<bool>,
    /// No number can be higher, since every task has an event: a forged one must not make us reserve memory.
    most: u64,
}

impl Numbers {
    fn take(&mut self, Number(number): Number, checker: &Checker, what: &str) -> Result<(), Refusal> {
        let at = usize::try_from(number).ok().filter(|_| number <= self.most);
        let Some(at) = at else { return Ok(()) };
        if self.taken.len() <= at {
            self.taken.resize(at + 1, false);
        }
        match std::mem::replace(&mut self.taken[at], true) {
            true => Err(tampered(checker.id.clone(), 1, &format!("another {what} has the same number"))),
            false => Ok(()),
        }
    }

    fn is_taken(&self, number: u64) -> bool {
        usize::try_from(number).is_ok_and(|at| self.taken.get(at) == Some(&true))
    }

    fn count(&self) -> u64 {
        self.taken.iter().filter(|taken| **taken).count() as u64
    }

    fn check(&self, last: u64, what: &str, name: impl Fn(Number) -> String) -> Result<(), Refusal> {
        let there = self.count();
        let missing = (1..=last).find(|number| !self.is_taken(*number));
        if let Some(number) = missing {
            let why =
                format!("the {what} is missing: {last} numbers were assigned, but there are {there} {what}s");
            return Err(tampered(Some(name(Number(number))), 1, &why));
        }
        if there > last {
            let why = format!("its number is beyond the last one assigned, {last}");
            let number = (last + 1..=self.most).find(|number| self.is_taken(*number)).unwrap_or(last + 1);
            return Err(tampered(Some(name(Number(number))), 1, &why));
        }
        Ok(())
    }
}

fn check_seal(read: &mut dyn Read, seal: &SealDocument, project: Uid) -> Result<(), Stop> {
    if seal.header.project != project.to_string() {
        return Err(Refusal::usage(format!(
            "the seal is of another project ({}), not of this one ({project})",
            seal.header.project
        ))
        .into());
    }
    for head in &seal.heads {
        let uid: Uid = head
            .uid
            .parse()
            .map_err(|_| Refusal::usage(format!("the seal names an invalid stream: {}", head.uid)))?;
        let task = name_of(read, &head.uid, project)?;
        let found = read.event(uid, Version(head.version))?;
        match found {
            Some(record) if record.hash == head.hash => {}
            Some(_) => {
                let why = format!("it is not the event that was sealed at {}", seal.header.at);
                return Err(tampered(task, head.version, &why).into());
            }
            None => {
                let why = format!("it was sealed at {} and is now missing", seal.header.at);
                return Err(tampered(task, head.version, &why).into());
            }
        }
    }
    Ok(())
}

fn id_of(read: &mut dyn Read, uid: Uid) -> Result<Option<String>, StoreError> {
    let prefix = read.project()?.prefix;
    // An unreadable row is for a rebuild to repair: what is wrong with the ledger is reported all the same.
    let task = match read.task(uid) {
        Err(StoreError::Damaged(_)) => None,
        task => task?,
    };
    match task {
        Some(task) => Ok(Some(prefix.id(task.number))),
        None => match read.seat(uid) {
            Err(StoreError::Damaged(_)) => Ok(None),
            seat => Ok(seat?.map(|seat| seat.name.spoken())),
        },
    }
}

fn verify(
    read: &mut dyn Read,
    seals: &[(String, SealDocument)],
    progress: &mut dyn FnMut(Progress),
) -> Result<Verified, Stop> {
    let project = read.project()?.uid;
    let total = read.count_events()?;
    let (mut events, mut streams) = (0_u64, 0_u64);
    let mut erased = Vec::new();
    let mut numbers = Census::new(total);
    let mut checker: Option<Checker> = None;
    let mut after = None;
    loop {
        let page = match read.ledger_page(after.as_ref(), PAGE) {
            Err(StoreError::Tampered { stream, version, why }) => {
                return Err(tampered(name_of(read, &stream, project)?, version, &why).into());
            }
            page => page?,
        };
        let Some(last) = page.last() else { break };
        after = Some((last.stream.clone(), last.record.version));
        for line in &page {
            let mut current = match checker.take() {
                Some(current) if current.stream == line.stream => current,
                finished => {
                    if let Some(finished) = finished {
                        finished.finish(read.head(&finished.stream)?.as_ref())?;
                        numbers.take(&finished)?;
                    }
                    streams += 1;
                    Checker {
                        stream: line.stream.clone(),
                        id: name_of(read, &line.stream, project)?,
                        number: None,
                        previous: None,
                        missing: BTreeSet::new(),
                    }
                }
            };
            current.add(line, &mut erased)?;
            checker = Some(current);
            events += 1;
        }
        progress(Progress { done: events, total });
    }
    if let Some(finished) = checker {
        finished.finish(read.head(&finished.stream)?.as_ref())?;
        numbers.take(&finished)?;
    }
    if let Some((stream, version)) = read.stray_text()? {
        let why = "there is a text but no event for it";
        return Err(tampered(name_of(read, &stream, project)?, version, why).into());
    }
    let mut rows = 0;
    read.walk_heads(&mut |_| {
        rows += 1;
        Ok(())
    })?;
    if rows != streams {
        find_row_without_events(read)?;
    }
    numbers.check(read)?;
    for (_, seal) in seals {
        check_seal(read, seal, project)?;
    }
    let seals = seals.iter().map(|(name, _)| name.clone()).collect();
    let (tasks, seats) = (numbers.tasks.count(), numbers.seats.count());
    Ok(Verified { ok: true, events, tasks, seats, erased, seals })
}

/// How a refusal names a stream: by the task's id or the seat, otherwise by its uid; None for the project's
/// own.
fn name_of(read: &mut dyn Read, stream: &str, project: Uid) -> Result<Option<String>, StoreError> {
    match stream.parse::<Uid>() {
        Ok(uid) if uid == project => Ok(None),
        Ok(uid) => Ok(Some(id_of(read, uid)?.unwrap_or_else(|| stream.to_owned()))),
        Err(_) => Ok(Some(stream.to_owned())),
    }
}

fn find_row_without_events(read: &mut dyn Read) -> Result<(), Stop> {
    for StreamHead { uid, .. } in read.heads()? {
        let Ok(uid) = uid.parse::<Uid>() else {
            return Err(tampered(Some(uid), 1, "a row has this uid, which no event can have").into());
        };
        if read.event(uid, Version(1))?.is_none() {
            let id = id_of(read, uid)?;
            return Err(tampered(id, 1, "it has a row but no events").into());
        }
    }
    Ok(())
}

impl<S: Store> Engine<S> {
    /// Recomputes every hash, follows every chain, and compares with the rows and with seals.
    pub fn verify(
        &mut self,
        seals: &[(String, SealDocument)],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Verified, Refusal> {
        self.query(|snapshot| verify(snapshot.read, seals, progress))
    }

    /// The whole ledger as JSON values, one per line, each with `schema_version`.
    pub fn export(
        &mut self,
        emit: &mut dyn FnMut(serde_json::Value) -> Result<(), StoreError>,
    ) -> Result<u64, Refusal> {
        self.query(|snapshot| {
            let (read, project) = (&mut *snapshot.read, snapshot.project);
            emit(serde_json::json!({
                "schema_version": SCHEMA_VERSION,
                "project": { "uid": project.uid, "prefix": project.prefix, "created_at": rfc3339(project.created_at_ms) },
            }))?;
            let (mut after, mut events) = (None, 0);
            loop {
                let page = read.ledger_page(after.as_ref(), PAGE)?;
                let Some(last) = page.last() else { return Ok(events) };
                after = Some((last.stream.clone(), last.record.version));
                for line in &page {
                    emit(serde_json::json!({ "schema_version": SCHEMA_VERSION, "event": line.record.to_json() }))?;
                    for text in &line.texts {
                        emit(serde_json::json!({
                            "schema_version": SCHEMA_VERSION,
                            "text": {
                                "event": line.record.uid, "field": text.field,
                                "salt": hex(&text.salt), "text": text.text,
                            },
                        }))?;
                    }
                    events += 1;
                }
            }
        })
    }

    /// Every stream's head, from one snapshot, after the ledger was found intact.
    pub fn prepare_seal(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<SealDocument, Refusal> {
        self.query(|snapshot| {
            let (read, project) = (&mut *snapshot.read, snapshot.project);
            verify(read, &[], progress)?;
            let at = rfc3339(read.now().wall_ms);
            let previous = latest_seal(read, project.uid)?;
            let heads = read.heads()?;
            let header = SealHeader {
                schema_version: SCHEMA_VERSION,
                project: project.uid.to_string(),
                at,
                streams: heads.len() as u64,
                root: merkle_root(&heads),
                previous,
            };
            Ok(SealDocument { header, heads })
        })
    }
}

/// The root of the newest seal recorded in the ledger.
fn latest_seal(read: &mut dyn Read, project: Uid) -> Result<Option<String>, StoreError> {
    let (mut after_seq, mut latest) = (0, None);
    loop {
        let query = EventQuery { stream: Some(project), after_seq, limit: PAGE, ..EventQuery::default() };
        let page: Vec<Record> = read.events(&query)?;
        let Some(last) = page.last() else { return Ok(latest) };
        after_seq = last.seq;
        let mut roots = page.iter().filter_map(|record| match record.body() {
            Ok(Body::LedgerSealed { root, .. }) => Some(root),
            _ => None,
        });
        latest = roots.next_back().or(latest);
    }
}
