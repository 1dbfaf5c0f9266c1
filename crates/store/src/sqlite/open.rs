//! Opening, creating and migrating a store.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use onus_core::actor::{ActorName, InstanceId};
use onus_core::event::{Body, Event};
use onus_core::ids::{Prefix, Uid, Version};

use crate::{Read as _, Result, Store as _, StoreError, Write as _, clock};

use super::queue::Queue;
use super::{Access, LOG_BYTES, SqliteStore, failed, filesystem_of, read, schema};

/// How long to wait for a program that is not onus and holds SQLite's own lock.
pub(super) const FOREIGN_WAIT: Duration = Duration::from_secs(5);

/// A store that cannot be opened in place, as it was: its file taken for one that cannot change, or a copy in a private
/// folder, removed with this.
#[derive(Debug)]
pub(super) struct Frozen {
    copy: Option<PathBuf>,
    /// Its files, before they were read.
    pub(super) times: Times,
}

/// Length and time of a store's file and of its log, where they are.
pub(super) type Times = [Option<(u64, SystemTime)>; 2];

pub(super) fn times_of(path: &Path) -> Times {
    let time = |path: &Path| {
        let file = fs::metadata(path).ok()?;
        Some((file.len(), file.modified().ok()?))
    };
    [time(path), time(&side_file(path, "-wal"))]
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(folder) = &self.copy {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl SqliteStore {
    /// Opens a store that exists, brings its schema up to date, and never creates one.
    pub fn open(path: &Path, access: Access, wait: Duration) -> Result<SqliteStore> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(StoreError::Missing(path.to_owned()));
            }
            Err(error) => {
                return Err(StoreError::Unavailable { path: path.to_owned(), why: error.to_string() });
            }
        };
        if metadata.is_dir() {
            return Err(StoreError::NotAStore { path: path.to_owned(), why: "it is a folder".to_owned() });
        }
        refuse_unsafe(path)?;
        // Where it may not make the log's side files, SQLite says only that it cannot open the file.
        let explain = |error| match error {
            StoreError::Unavailable { .. } if access == Access::Write && !is_writable(path) => {
                StoreError::ReadOnly(path.to_owned())
            }
            error => error,
        };
        let (connection, frozen) = match access {
            Access::Write => (connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(explain)?, None),
            Access::Read => connect_to_read(path)?,
        };
        let mut store = SqliteStore::new(connection, path, wait, frozen);
        let found = schema::version(&store.connection, path).map_err(explain)?;
        if access == Access::Write {
            keep_log_findable(path);
        }
        if found < schema::KNOWN {
            store.migrate()?;
        }
        store.load_project()?;
        Ok(store)
    }

    /// Makes a new store with its project. `Exists` if there is one.
    pub fn create(
        path: &Path,
        prefix: &Prefix,
        uid: Uid,
        event_uid: Uid,
        by: (&ActorName, &InstanceId),
        wait: Duration,
    ) -> Result<SqliteStore> {
        let folder = path.parent().unwrap_or(Path::new("."));
        let unavailable = |error: std::io::Error| StoreError::of_io(folder, &error);
        let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
        refuse_unsafe(existing)?;
        fs::create_dir_all(folder).map_err(unavailable)?;
        let mut queue = Queue::new(folder);
        // Two that begin at once: the second finds what the first has made.
        let seat = queue.sit(wait)?;
        if path.exists() {
            return Err(StoreError::Exists(path.to_owned()));
        }
        let building = path.with_extension("db.new");
        for leftover in [building.clone(), side_file(&building, "-wal"), side_file(&building, "-shm")] {
            let _ = fs::remove_file(leftover);
        }
        let connection =
            connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let fail = |error: rusqlite::Error| failed(&error, path);
        connection.pragma_update(None, "auto_vacuum", "none").map_err(fail)?;
        schema::migrate(&connection, 0).map_err(fail)?;
        let mut store = SqliteStore::new(connection, &building, wait, None);
        store.project = uid.to_string();
        store.record_project(prefix, uid, event_uid, by)?;
        connection_to_wal(&store.connection, path)?;
        store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(fail)?;
        drop(store);
        // The name appears with everything in place: nobody ever meets half a store.
        for side in ["-wal", "-shm"] {
            let _ = fs::remove_file(side_file(&building, side));
        }
        fs::rename(&building, path).map_err(unavailable)?;
        if let Ok(folder) = fs::File::open(folder) {
            let _ = folder.sync_all();
        }
        drop(seat);
        SqliteStore::open(path, Access::Write, wait)
    }

    /// A store without anything in it, for a copy of a project, or what an interrupted copy left. It has its name only when
    /// it is whole: see [`SqliteStore::finish_copy`].
    pub fn begin_copy(path: &Path, uid: Uid, wait: Duration) -> Result<SqliteStore> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        refuse_unsafe(folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder))?;
        if path.exists() {
            return Err(StoreError::Exists(path.to_owned()));
        }
        fs::create_dir_all(folder).map_err(|error| StoreError::of_io(folder, &error))?;
        let building = side_file(path, ".copying");
        let is_new = !building.exists();
        let connection =
            connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        if is_new {
            schema::migrate(&connection, 0).map_err(|error| failed(&error, path))?;
            connection_to_wal(&connection, path)?;
        }
        let mut store = SqliteStore::new(connection, &building, wait, None);
        store.project = uid.to_string();
        let other = store.read(|read| read.project()).ok().filter(|project| project.uid != uid);
        match other {
            Some(_) => Err(StoreError::Exists(building)),
            None => Ok(store),
        }
    }

    /// Gives a copy its name. Nobody has it open any more.
    pub fn finish_copy(path: &Path) -> Result<()> {
        let building = side_file(path, ".copying");
        let connection = connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(|error| failed(&error, path))?;
        drop(connection);
        for side in ["-wal", "-shm"] {
            let _ = fs::remove_file(side_file(&building, side));
        }
        // Unlike a rename this does not replace what somebody else made meanwhile.
        fs::hard_link(&building, path).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => StoreError::Exists(path.to_owned()),
            _ => StoreError::of_io(path, &error),
        })?;
        let _ = fs::remove_file(&building);
        if let Some(Ok(folder)) = path.parent().map(fs::File::open) {
            let _ = folder.sync_all();
        }
        Ok(())
    }

    fn record_project(
        &mut self,
        prefix: &Prefix,
        uid: Uid,
        event_uid: Uid,
        (actor, instance): (&ActorName, &InstanceId),
    ) -> Result<()> {
        let transaction = self.connection.transaction().map_err(|error| failed(&error, &self.path))?;
        let mut session = read::Session {
            connection: &transaction,
            path: &self.path,
            clock: &self.clock,
            project: &self.project,
        };
        let mut event = Event {
            uid: event_uid,
            task: None,
            version: Version(1),
            body: Body::ProjectCreated { uid, prefix: prefix.clone() },
            actor: actor.clone(),
            instance: instance.clone(),
            token: None,
            at_ms: session.now().wall_ms,
            cause: None,
            texts: Default::default(),
            prev: String::new(),
            hash: String::new(),
        };
        event.hash = onus_core::chain::Record::from_event(&event).hash;
        session.append(&event, &[])?;
        let changes = onus_core::apply::apply_to_project(None, &event)
            .map_err(|error| StoreError::Unexpected(error.to_string()))?;
        for change in &changes {
            session.apply(change)?;
        }
        transaction.commit().map_err(|error| failed(&error, &self.path))
    }

    fn new(connection: Connection, path: &Path, wait: Duration, frozen: Option<Frozen>) -> SqliteStore {
        let folder = path.parent().unwrap_or(Path::new("."));
        SqliteStore {
            connection,
            path: path.to_owned(),
            queue: Queue::new(folder),
            wait,
            clock: Box::new(clock::now),
            project: String::new(),
            frozen,
        }
    }

    fn load_project(&mut self) -> Result<()> {
        let project = self.read(|session| session.project())?;
        self.project = project.uid.to_string();
        Ok(())
    }

    fn migrate(&mut self) -> Result<()> {
        let _seat = self.queue.sit(self.wait)?;
        // Somebody else may have done it while we waited.
        let found = schema::version(&self.connection, &self.path)?;
        if found < schema::KNOWN {
            schema::migrate(&self.connection, found).map_err(|error| self.fail(&error))?;
        }
        Ok(())
    }
}

/// Whether this process may write the file and make others beside it.
fn is_writable(path: &Path) -> bool {
    let may = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    may(path) && path.parent().is_none_or(may)
}

fn refuse_unsafe(path: &Path) -> Result<()> {
    match filesystem_of(path) {
        Some(filesystem) => Err(StoreError::UnsafeFilesystem { path: path.to_owned(), filesystem }),
        None => Ok(()),
    }
}

/// Makes the log's name durable before anything is written into it. SQLite, as it is built here, leaves that to us: it
/// would sync the folder in every process that writes. Whoever opens a log with something in it follows one who did
/// this, and while a connection is open nobody removes the file.
fn keep_log_findable(path: &Path) {
    let is_empty = fs::metadata(side_file(path, "-wal")).map_or(true, |log| log.len() == 0);
    if is_empty && let Ok(folder) = fs::File::open(path.parent().unwrap_or(Path::new("."))) {
        // Where a folder cannot be synced there is no other way to do it either.
        let _ = folder.sync_all();
    }
}

fn connection_to_wal(connection: &Connection, path: &Path) -> Result<()> {
    let mode: String = connection
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))
        .map_err(|error| failed(&error, path))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(StoreError::Unavailable { path: path.to_owned(), why: format!("the journal stayed in mode {mode}") })
}

pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let fail = |error: rusqlite::Error| failed(&error, path);
    let connection =
        Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(fail)?;
    configure(&connection).map_err(fail)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(FOREIGN_WAIT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Plans that do not depend on bound values: a cached statement is not compiled again for each new value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; \
         PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_BYTES}; PRAGMA temp_store = MEMORY;"
    ))
}

/// A connection for reading alone. Tries, in this order: the file as it is; the file as something that cannot
/// change, if its log is empty; a private copy of file and log.
fn connect_to_read(path: &Path) -> Result<(Connection, Option<Frozen>)> {
    let in_place = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|connection| {
        // Only a first read shows whether the log's side files can be used.
        schema::version(&connection, path)?;
        Ok(connection)
    });
    match in_place {
        Err(StoreError::Unavailable { .. } | StoreError::ReadOnly(_)) => {}
        other => return other.map(|connection| (connection, None)),
    }
    let times = times_of(path);
    let log_is_empty = fs::metadata(side_file(path, "-wal")).map_or(true, |log| log.len() == 0);
    if log_is_empty {
        let uri = format!("file:{}?immutable=1", uri_path(path));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let frozen = Some(Frozen { copy: None, times });
        return connect(Path::new(&uri), flags).map(|connection| (connection, frozen));
    }
    let (folder, frozen) = copy_of(path)
        .map_err(|error| StoreError::Unavailable { path: path.to_owned(), why: error.to_string() })?;
    let connection = connect(&folder.join("onus.db"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    Ok((connection, Some(frozen)))
}

/// Copies database and log until neither changed meanwhile.
fn copy_of(path: &Path) -> std::io::Result<(PathBuf, Frozen)> {
    let folder =
        std::env::temp_dir().join(format!("onus-read-{}-{}", std::process::id(), clock::now().tick_ms));
    // For nobody else's eyes, like the store it was made from.
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let mut copy = Frozen { copy: Some(folder.clone()), times: times_of(path) };
    let log = side_file(path, "-wal");
    for _ in 0..10 {
        copy.times = times_of(path);
        fs::copy(path, folder.join("onus.db"))?;
        fs::copy(&log, folder.join("onus.db-wal"))?;
        if times_of(path) == copy.times {
            return Ok((folder, copy));
        }
    }
    Err(std::io::Error::other("it changes too fast to be copied"))
}

pub(super) fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// A path as SQLite's URIs spell it.
fn uri_path(path: &Path) -> String {
    let path = path.to_string_lossy();
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KnownInstance;

    #[test]
    fn the_log_stays_short_though_every_process_writes_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("onus.db");
        let (actor, instance) = ("agent:a".parse().unwrap(), InstanceId::person());
        let uid = |n: u128| Uid(uuid::Uuid::from_u128(n));
        let wait = Duration::from_secs(10);
        let by = (&actor, &instance);
        drop(SqliteStore::create(&path, &"T".parse().unwrap(), uid(1), uid(2), by, wait).unwrap());
        for n in 0..3 * i64::from(super::super::LOG_PAGES) {
            let mut store = SqliteStore::open(&path, Access::Write, wait).unwrap();
            let known = KnownInstance {
                actor: actor.clone(),
                instance: instance.clone(),
                process: None,
                group: None,
                seen_at_ms: n,
                wants: None,
            };
            store.write(|write| write.put_instance(&known)).unwrap();
        }
        let length = fs::metadata(side_file(&path, "-wal")).unwrap().len();
        assert!(length < 2 * u64::from(super::super::LOG_PAGES) * 4_096, "{length} bytes");
    }
}
