//! Opening, creating and migrating a store.

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
        let path = &real_path(path);
        let file = match identity_of(path) {
            // A log without its database is somebody's work, not a place without a store.
            Err(missing @ StoreError::Missing(_)) => {
                refuse_stray_log(path)?;
                return Err(missing);
            }
            file => file?,
        };
        // SQLite would take the log of an empty file for nobody's, and remove it.
        if length_of(path) == 0 {
            refuse_stray_log(path)?;
        }
        refuse_unsafe(path)?;
        let journal = journal_of(path, file)?;
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
        let mut store = SqliteStore::new(connection, (path, file), wait, frozen);
        let found = schema::version(&store.connection, path).map_err(explain)?;
        // That read has opened the log by its name: it is the log of this file if the file has kept its own.
        must_be(path, file)?;
        if access == Access::Write {
            keep_log_findable(path)?;
            store.prepare(journal, found)?;
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
        let path = &real_path(path);
        let folder = folder_of(path);
        refuse_unsafe(folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder))?;
        make_folder(folder, OWN_FOLDER).map_err(|error| StoreError::of_io(folder, &error))?;
        // Two that begin at once: the second finds what the first has made.
        let lock = Queue::new(folder).lock(wait)?;
        if path.exists() {
            return Err(StoreError::Exists(path.to_owned()));
        }
        refuse_stray_log(path)?;
        let building = path.with_extension("db.new");
        let clear = || remove_side_files(&building).and_then(|()| remove(&building));
        // What one left that was killed.
        clear()?;
        // The name appears with everything in place: nobody ever meets half a store.
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
        // It is made: an error from here on does not mean that it was not.
        SqliteStore::open(path, Access::Write, wait).map_err(|error| StoreError::Unknown {
            place: path.to_owned(),
            why: format!("cannot open the new store ({error})"),
        })
    }

    /// A database with all tables and what `fill` puts into it, in one file, to be given its name.
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

    /// A store without anything in it, for a copy of a project, or what an interrupted copy left. It has its name only when
    /// it is whole: see [`SqliteStore::finish_copy`].
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
            // What an interrupted copy of one's own left: not a link, and not what another user put there.
            Ok(left) if left.is_file() && left.uid() == rustix::process::geteuid().as_raw() => {}
            Ok(_) => return Err(StoreError::Exists(building)),
        }
        let connection = connect(&building, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let fail = |error: rusqlite::Error| failed(&error, &building);
        // One that was killed before it had any tables left a file without.
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

    /// Gives a copy its name. Nobody has it open any more.
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

    /// Makes what was found into a store of today: a backup gets a log, an older schema the steps that are missing.
    fn prepare(&mut self, journal: Journal, found: i64) -> Result<()> {
        if journal == Journal::Log && found == schema::KNOWN {
            return Ok(());
        }
        let _lock = self.lock_writer()?;
        connection_to_wal(&self.connection, &self.path)?;
        // Somebody else may have done it while we waited.
        let found = schema::version(&self.connection, &self.path)?;
        if found < schema::KNOWN {
            schema::migrate(&self.connection, found)
                .map_err(|error| commit::settle(&self.connection, &self.path, &error))?;
        }
        Ok(())
    }
}

/// An empty file for SQLite to fill, for the same eyes as all others of its folder. Its log and index follow it.
fn make_database(path: &Path) -> Result<()> {
    let made = new_file(path, file_mode(folder_of(path)));
    made.map(drop).map_err(|error| StoreError::of_io(path, &error))
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
fn keep_log_findable(path: &Path) -> Result<()> {
    if !log_is_empty(path) {
        return Ok(());
    }
    sync_folder(path).map_err(|error| StoreError::of_io(folder_of(path), &error))
}

/// Moves the log into the database and closes it: all of it is in the one file then.
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

/// Changes how a database is written. The new mode is told before it is committed: only the statement's end shows
/// whether that worked.
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
    // Plans that do not depend on bound values: a cached statement is not compiled again for each new value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // A file may come from anywhere. The tables have no triggers: what else is in it runs nothing.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; \
         PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = {LOG_BYTES}; PRAGMA temp_store = MEMORY;"
    ))
}

/// A connection for reading alone. Tries, in this order: the file as it is; the file as something that cannot
/// change, if its log is empty; a private copy of file and log. An older schema can be read only as a copy, which gets
/// the steps that are missing: readers write nothing.
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

/// Copies database and log until neither changed meanwhile.
fn copy_of(path: &Path) -> std::io::Result<(PathBuf, Frozen)> {
    let folder =
        std::env::temp_dir().join(format!("onus-read-{}-{}", std::process::id(), clock::now().tick_ms));
    // For nobody else's eyes, like the store it was made from.
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

    /// Readers write nothing: an older schema is read as a copy that has the steps it lacks.
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
