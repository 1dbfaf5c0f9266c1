//! Opens, creates and migrates a store.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use onus_core::actor::{ActorName, InstanceId};
use onus_core::ids::{Prefix, Uid};
use onus_os::clock;

use crate::rows::write::create_project;
use crate::{Result, Store as _, StoreError};

use super::files::{
    Identity, Journal, Times, folder_of, identity_of, journal_of, length_of, log_is_empty, must_be, publish,
    real_path, refuse_stray_log, remove, remove_side_files, side_file, sync_folder, times_of,
};
use super::private::{OWN_FOLDER, file_mode, make_folder, new_file};
use super::queue::Queue;
use super::{Access, LOG_BYTES, SqliteStore, commit, empty_log, failed, filesystem_of, read, schema};

/// How long to wait for a program other than onus that holds SQLite's own lock.
pub(super) const FOREIGN_WAIT: Duration = Duration::from_secs(5);

/// A store that cannot be opened in place, as it was then: its file opened as immutable, or a copy in a
/// private folder, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Frozen {
    copy: Option<PathBuf>,
    /// Lengths and times of its files before they were read.
    pub(super) times: Times,
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some(folder) = &self.copy {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

impl SqliteStore {
    /// Opens an existing store and brings its schema up to date. Never creates one.
    pub fn open(path: &Path, access: Access, wait: Duration) -> Result<SqliteStore> {
        let path = &real_path(path);
        let file = match identity_of(path) {
            // A log without its database is somebody's work: this is not simply a place without a store.
            Err(missing @ StoreError::Missing(_)) => {
                refuse_stray_log(path)?;
                return Err(missing);
            }
            file => file?,
        };
        // SQLite would consider the log of an empty file orphaned, and remove it.
        if length_of(path) == 0 {
            refuse_stray_log(path)?;
        }
        refuse_unsafe(path)?;
        let journal = journal_of(path, file)?;
        // If it may not create the log's side files, SQLite only reports that it cannot open the file.
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
        let mut store = SqliteStore::new(connection, (path, file), wait, frozen);
        let found = schema::version(&store.connection, path).map_err(explain)?;
        // That read opened the log by its name: it is this file's log if the file still has its name.
        must_be(path, file)?;
        if access == Access::Write {
            keep_log_findable(path)?;
            store.prepare(journal, found)?;
        }
        store.load_project()?;
        Ok(store)
    }

    /// Creates a store with its project. `Exists` if there is one.
    pub fn create(
        path: &Path,
        prefix: &Prefix,
        uid: Uid,
        event_uid: Uid,
        by: (&ActorName, &InstanceId),
        wait: Duration,
    ) -> Result<SqliteStore> {
        let path = &real_path(path);
        let folder = folder_of(path);
        refuse_unsafe(folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder))?;
        make_folder(folder, OWN_FOLDER).map_err(|error| StoreError::of_io(folder, &error))?;
        // If two create a store at once, the second finds the first one's.
        let lock = Queue::new(folder).lock(wait)?;
        if path.exists() {
            return Err(StoreError::Exists(path.to_owned()));
        }
        refuse_stray_log(path)?;
        let building = path.with_extension("db.new");
        let clear = || remove_side_files(&building).and_then(|()| remove(&building));
        // Remove what a killed process left.
        clear()?;
        // The name appears only when the store is complete: nobody ever finds half a store.
        let made = SqliteStore::build(&building, wait, |store| {
            store.project = uid.to_string();
            store.record_project(prefix, uid, event_uid, by)
        })
        .and_then(|()| publish(&building, path));
        if let Err(error) = made {
            let _ = clear();
            return Err(error);
        }
        drop(lock);
        // The store exists now: a later error must not suggest that it does not.
        SqliteStore::open(path, Access::Write, wait).map_err(|error| StoreError::Unknown {
            place: path.to_owned(),
            why: format!("cannot open the new store ({error})"),
        })
    }

    /// Builds a database with all tables and what `fill` puts into it, in one file that still has to get its
    /// name.
    fn build(
        building: &Path,
        wait: Duration,
        fill: impl FnOnce(&mut SqliteStore) -> Result<()>,
    ) -> Result<()> {
        make_database(building)?;
        let connection = connect(building, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let fail = |error: rusqlite::Error| failed(&error, building);
        connection.pragma_update(None, "auto_vacuum", "none").map_err(fail)?;
        schema::migrate(&connection, 0).map_err(fail)?;
        let mut store = SqliteStore::new(connection, (building, identity_of(building)?), wait, None);
        fill(&mut store)?;
        connection_to_wal(&store.connection, building)?;
        close_whole(store.connection, building)
    }

    /// An empty store to copy a project into, or what an interrupted copy left. It gets its name only when it
    /// is complete: see [`SqliteStore::finish_copy`].
    pub fn begin_copy(path: &Path, uid: Uid, wait: Duration) -> Result<SqliteStore> {
        let path = &real_path(path);
        let folder = folder_of(path);
        refuse_unsafe(folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder))?;
        if path.exists() {
            return Err(StoreError::Exists(path.to_owned()));
        }
        refuse_stray_log(path)?;
        make_folder(folder, OWN_FOLDER).map_err(|error| StoreError::of_io(folder, &error))?;
        let building = side_file(path, ".copying");
        match building.symlink_metadata() {
            Err(_) => {
                refuse_stray_log(&building)?;
                make_database(&building)?;
            }
            // Left by an interrupted copy of our own: not a link, and not what another user put there.
            Ok(left) if left.is_file() && left.uid() == rustix::process::geteuid().as_raw() => {}
            Ok(_) => return Err(StoreError::Exists(building)),
        }
        let connection = connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let fail = |error: rusqlite::Error| failed(&error, &building);
        // A copy that was killed before it had any tables left an empty file.
        let found: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(fail)?;
        if found == 0 {
            schema::migrate(&connection, 0).map_err(fail)?;
        }
        schema::version(&connection, &building)?;
        connection_to_wal(&connection, &building)?;
        keep_log_findable(&building)?;
        let mut store = SqliteStore::new(connection, (&building, identity_of(&building)?), wait, None);
        store.project = uid.to_string();
        let other = store.read(|read| read.project()).ok().filter(|project| project.uid != uid);
        match other {
            Some(_) => Err(StoreError::Exists(building)),
            None => Ok(store),
        }
    }

    /// Gives a complete copy its name. Nobody may have it open any more.
    pub fn finish_copy(path: &Path, wait: Duration) -> Result<()> {
        let path = &real_path(path);
        let building = side_file(path, ".copying");
        let _lock = Queue::new(folder_of(path)).lock(wait)?;
        close_whole(connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE)?, &building)?;
        publish(&building, path)
    }

    fn record_project(
        &mut self,
        prefix: &Prefix,
        uid: Uid,
        event_uid: Uid,
        by: (&ActorName, &InstanceId),
    ) -> Result<()> {
        let transaction = self.connection.transaction().map_err(|error| failed(&error, &self.path))?;
        let mut session = read::Session::begin(&transaction, &self.path, &self.clock, &self.project)?;
        create_project(&mut session, (prefix, uid), event_uid, by)?;
        transaction.commit().map_err(|error| failed(&error, &self.path))
    }

    fn new(
        connection: Connection,
        (path, file): (&Path, Identity),
        wait: Duration,
        frozen: Option<Frozen>,
    ) -> SqliteStore {
        SqliteStore {
            connection,
            path: path.to_owned(),
            file,
            queue: Queue::new(folder_of(path)),
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

    /// Makes what was found a current store: a backup gets a log, an older schema the missing steps.
    fn prepare(&mut self, journal: Journal, found: i64) -> Result<()> {
        if journal == Journal::Log && found == schema::KNOWN {
            return Ok(());
        }
        let _lock = self.lock_writer()?;
        connection_to_wal(&self.connection, &self.path)?;
        // Another process may have done it while we waited.
        let found = schema::version(&self.connection, &self.path)?;
        if found < schema::KNOWN {
            schema::migrate(&self.connection, found)
                .map_err(|error| commit::settle(&self.connection, &self.path, &error))?;
        }
        Ok(())
    }
}

/// Creates an empty file for SQLite to fill, with the permissions of all files in its folder. SQLite gives
/// the log and its index the same.
fn make_database(path: &Path) -> Result<()> {
    let made = new_file(path, file_mode(folder_of(path)));
    made.map(drop).map_err(|error| StoreError::of_io(path, &error))
}

/// Whether this process may write the file and create others beside it.
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

/// Makes the log's name durable before anything is written into it. As built here, SQLite leaves that to us:
/// it would sync the folder in every process that writes. Whoever opens a log that is not empty follows a
/// process that did this, and while a connection is open nobody removes the file.
fn keep_log_findable(path: &Path) -> Result<()> {
    if !log_is_empty(path) {
        return Ok(());
    }
    sync_folder(path).map_err(|error| StoreError::of_io(folder_of(path), &error))
}

/// Moves the log into the database and closes it: everything is in the one file then.
fn close_whole(connection: Connection, path: &Path) -> Result<()> {
    if !empty_log(&connection).map_err(|error| failed(&error, path))? {
        return Err(StoreError::Busy { pid: None, waited: FOREIGN_WAIT });
    }
    drop(connection);
    remove_side_files(path)
}

fn connection_to_wal(connection: &Connection, path: &Path) -> Result<()> {
    set_journal(connection, "wal").map_err(|error| failed(&error, path))
}

/// Changes the journal mode of a database. SQLite returns the new mode before it commits it: only the end of
/// the statement shows whether that worked.
pub(super) fn set_journal(connection: &Connection, mode: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(&format!("PRAGMA journal_mode = {mode}"))?;
    let modes: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    if modes == [mode] {
        return Ok(());
    }
    let why = format!("the journal stayed in mode {}", modes.join(", "));
    Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN), Some(why)))
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
    // Plans must not depend on bound values: a cached statement is not compiled again for each new value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A file may come from anywhere. Our tables have no triggers; nothing else in the file may run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; \
         PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_BYTES}; PRAGMA temp_store = MEMORY;"
    ))
}

/// A connection for reading only. Tries, in this order: the file in place; the file as immutable, if its log
/// is empty; a private copy of file and log. Readers write nothing, so an older schema is always read from a
/// copy, which gets the missing steps.
fn connect_to_read(path: &Path) -> Result<(Connection, Option<Frozen>)> {
    let is_current = |connection: &Connection| Ok(schema::version(connection, path)? == schema::KNOWN);
    let in_place = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
        // Only a first read shows whether the log's side files can be used.
        .and_then(|connection| is_current(&connection).map(|current| current.then_some(connection)));
    match in_place {
        Ok(Some(connection)) => return Ok((connection, None)),
        Err(unopened @ (StoreError::Unavailable { .. } | StoreError::ReadOnly(_))) if log_is_empty(path) => {
            let frozen = Some(Frozen { copy: None, times: times_of(path) });
            let uri = format!("file:{}?immutable=1", uri_path(path));
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            let connection = connect(Path::new(&uri), flags).map_err(|_| unopened)?;
            if is_current(&connection)? {
                return Ok((connection, frozen));
            }
        }
        Ok(None) | Err(StoreError::Unavailable { .. } | StoreError::ReadOnly(_)) => {}
        Err(error) => return Err(error),
    }
    let (folder, frozen) = copy_of(path)
        .map_err(|error| StoreError::Unavailable { path: path.to_owned(), why: error.to_string() })?;
    let connection = connect(&folder.join("onus.db"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let found = schema::version(&connection, path)?;
    if found < schema::KNOWN {
        schema::migrate(&connection, found).map_err(|error| failed(&error, path))?;
    }
    Ok((connection, Some(frozen)))
}

/// Copies database and log until neither changes meanwhile.
fn copy_of(path: &Path) -> std::io::Result<(PathBuf, Frozen)> {
    let folder =
        std::env::temp_dir().join(format!("onus-read-{}-{}", std::process::id(), clock::now().tick_ms));
    // Private, like the store it is copied from.
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let mut copy = Frozen { copy: Some(folder.clone()), times: times_of(path) };
    let (log, its_copy) = (side_file(path, "-wal"), folder.join("onus.db-wal"));
    for _ in 0..10 {
        copy.times = times_of(path);
        fs::copy(path, folder.join("onus.db"))?;
        match fs::copy(&log, &its_copy) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let _ = fs::remove_file(&its_copy);
            }
            copied => drop(copied?),
        }
        if times_of(path) == copy.times {
            return Ok((folder, copy));
        }
    }
    Err(std::io::Error::other("it changes too fast to be copied"))
}

/// Escapes a path for SQLite's URIs.
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
        let (actor, instance): (ActorName, _) = ("agent:a".parse().unwrap(), InstanceId::person());
        let wait = Duration::from_secs(10);
        drop(created(&path));
        for n in 0..3 * i64::from(super::super::LOG_PAGES) {
            let mut store = SqliteStore::open(&path, Access::Write, wait).unwrap();
            let known = KnownInstance::seen(actor.clone(), instance.clone(), n);
            store.write(|write| write.put_instance(&known)).unwrap();
        }
        let length = fs::metadata(side_file(&path, "-wal")).unwrap().len();
        assert!(length < 2 * u64::from(super::super::LOG_PAGES) * 4_096, "{length} bytes");
    }

    fn created(path: &Path) -> SqliteStore {
        let (actor, instance) = ("agent:a".parse().unwrap(), InstanceId::person());
        let uid = |n: u128| Uid(uuid::Uuid::from_u128(n));
        let by = (&actor, &instance);
        SqliteStore::create(path, &"T".parse().unwrap(), uid(1), uid(2), by, Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn a_writer_does_not_write_into_a_store_that_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("onus.db");
        let mut store = created(&path);
        fs::rename(&path, folder.path().join("old.db")).unwrap();
        let gone = store.write(|write| write.project());
        assert!(matches!(gone, Err(StoreError::Missing(_))), "{gone:?}");
        fs::copy(folder.path().join("old.db"), &path).unwrap();
        let replaced = store.write(|write| write.project());
        assert!(matches!(replaced, Err(StoreError::Unavailable { .. })), "{replaced:?}");
        fs::rename(folder.path().join("old.db"), &path).unwrap();
        store.write(|write| write.project()).unwrap();
        fs::hard_link(&path, folder.path().join("other.db")).unwrap();
        let twice = store.write(|write| write.project());
        assert!(matches!(twice, Err(StoreError::TwoNames { names: 2, .. })), "{twice:?}");
    }

    /// Readers write nothing: an older schema is read from a copy, which gets the missing steps.
    #[test]
    fn an_older_schema_is_read_without_being_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("onus.db");
        let older = Connection::open(&path).unwrap();
        older.pragma_update(None, "journal_mode", "wal").unwrap();
        schema::migrate_to(&older, 0, 1).unwrap();
        older
            .execute(
                "INSERT INTO project VALUES (1, '01900000-0000-7000-8000-000000000001', 'OLD', 5, 1, 'h', 0, 0)",
                [],
            )
            .unwrap();
        for with_log in [true, false] {
            if !with_log {
                assert!(empty_log(&older).unwrap());
            }
            let before = fs::read(&path).unwrap();
            let mut store = SqliteStore::open(&path, Access::Read, Duration::from_secs(1)).unwrap();
            assert!(store.is_frozen());
            assert_eq!(store.read(|read| read.project()).unwrap().prefix.to_string(), "OLD");
            assert_eq!(store.read(|read| read.count_events()).unwrap(), 0);
            assert!(fs::read(&path).unwrap() == before);
        }
        drop(SqliteStore::open(&path, Access::Write, Duration::from_secs(1)).unwrap());
        assert!(!SqliteStore::open(&path, Access::Read, Duration::from_secs(1)).unwrap().is_frozen());
    }
}
