//! A private PostgreSQL server: started on first use, on a socket in a temporary folder, with `fsync` on as
//! in production; ended and removed with the process that started it, even if that panics or is killed.
//!
//! The server refuses to run as root: then it runs as an unprivileged user. If it is not installed, tests
//! fail.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{Address, PostgresStore};

/// A running server.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    pub port: u16,
}

/// Ends the server when this process is gone, however it went: its end of the pipe closes with it.
const KEEPER: &str = r#"
cat >/dev/null
"$1" -D "$2/data" -m immediate -w stop >/dev/null 2>&1
rm -rf "$2"
"#;

fn program(name: &str) -> PathBuf {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    // A link in a common folder may hide where the rest of the server is.
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).unwrap_or_else(|| {
        panic!("there is no {name}: PostgreSQL is not installed; scripts/test installs it")
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An unprivileged user that exists.
fn user() -> &'static str {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_there = |name: &&str| users.lines().any(|line| line.starts_with(&format!("{name}:")));
    ["postgres", "nobody"].into_iter().find(is_there).expect("there is an unprivileged user")
}

/// Runs a command as the user that may run a server.
fn unprivileged(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={}", user())).arg("--clear-groups").arg(program);
    command
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} cannot be run: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Server {
    /// The one server of this process.
    pub fn shared() -> &'static Server {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Server::start)
    }

    /// A server of its own, for a test that restarts or ends it.
    pub fn start() -> Server {
        Server::start_with("")
    }

    /// The same, with more settings.
    pub fn start_with(settings: &str) -> Server {
        let server = Server::unborn();
        must(
            unprivileged(&program("initdb"))
                .current_dir(&server.folder)
                .args(["-A", "trust", "-U", "onus_owner", "-E", "UTF8", "--locale=C", "-D"])
                .arg(server.data()),
        );
        server.set(&format!(
            "listen_addresses = '127.0.0.1'\nmax_connections = 120\nshared_buffers = 128MB\nfsync = on\n\
             deadlock_timeout = 200ms\nlog_min_messages = fatal\n{settings}"
        ));
        server.control(&["-w", "-t", "60", "start"]);
        server
    }

    /// A running copy of it, which follows it and is called `standby` there.
    pub fn standby(&self) -> Server {
        let standby = Server::unborn();
        // Beside the others: in a common folder it may be a wrapper.
        must(
            unprivileged(&program("initdb").with_file_name("pg_basebackup"))
                .current_dir(&standby.folder)
                .args(["-R", "-c", "fast", "-X", "stream", "-D"])
                .arg(standby.data())
                .args([
                    "-d",
                    &format!("{}&application_name=standby", self.address_of("onus_owner", "postgres")),
                ]),
        );
        standby.set("synchronous_standby_names = ''");
        standby.control(&["-w", "-t", "60", "start"]);
        standby
    }

    /// A folder for a server, and what ends it.
    #[allow(clippy::zombie_processes, reason = "the keeper outlives this process: it waits for its end")]
    fn unborn() -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("onus-pg-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        if is_root() {
            must(Command::new("chown").arg(user()).arg(&folder));
        } else {
            fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let mut keeper = unprivileged(Path::new("setsid"))
            .args(["sh", "-c", KEEPER, "keeper"])
            .arg(program("pg_ctl"))
            .arg(&folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Held open until this process ends.
        std::mem::forget(keeper.stdin.take());
        Server { folder, port: free_port() }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Settings from its next start on, besides its own port and folder.
    pub fn set(&self, settings: &str) {
        let mut config =
            fs::OpenOptions::new().append(true).open(self.data().join("postgresql.conf")).unwrap();
        let folder = self.folder.display();
        writeln!(config, "port = {}\nunix_socket_directories = '{folder}'\n{settings}", self.port).unwrap();
    }

    /// Runs `pg_ctl` on it.
    pub fn control(&self, what: &[&str]) {
        must(
            unprivileged(&program("pg_ctl"))
                .current_dir(&self.folder)
                .arg("-D")
                .arg(self.data())
                .arg("-l")
                .arg(self.folder.join("log"))
                .args(what)
                .stdout(Stdio::null()),
        );
    }

    /// Whether it runs, or has not ended yet.
    pub fn is_up(&self) -> bool {
        self.data().join("postmaster.pid").exists()
    }

    /// The address by which a role reaches one of its databases.
    pub fn address_of(&self, role: &str, database: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// A file of its own that nobody else reads.
    pub fn keep(&self, name: &str, content: &[u8]) {
        let path = self.data().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            must(Command::new("chown").arg(user()).arg(&path));
        }
    }

    /// A connection of its owner.
    pub fn client(&self) -> std::result::Result<postgres::Client, postgres::Error> {
        postgres::Client::connect(&self.address_of("onus_owner", "postgres"), postgres::NoTls)
    }

    /// A new database with our tables, and the owner's address.
    pub fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("d{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        self.client().unwrap().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        let address = self.address_of("onus_owner", &name);
        PostgresStore::migrate(&parsed(&address)).unwrap();
        address
    }

    /// The database that most tests share.
    pub fn shared_database(&self) -> &'static str {
        static DATABASE: OnceLock<String> = OnceLock::new();
        DATABASE.get_or_init(|| self.database())
    }

    /// A fresh project of the shared database.
    pub fn project(&self) -> PostgresStore {
        self.project_in(self.shared_database(), &fresh_name())
    }

    /// A fresh project of this name.
    pub fn project_in(&self, database: &str, name: &str) -> PostgresStore {
        let (actor, instance) = ("human:founder".parse().unwrap(), "person".parse().unwrap());
        let uid = |n: u32| format!("01900000-0000-7000-8000-{n:04x}{:08x}", hash_of(name)).parse().unwrap();
        let wait = Duration::from_secs(10);
        let uids = (uid(0), uid(1));
        let prefix = "ON".parse().unwrap();
        PostgresStore::create(&parsed(database), name, &prefix, uids, (&actor, &instance), wait).unwrap()
    }
}

/// A name that no other project of this process has.
pub fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("p{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn hash_of(name: &str) -> u32 {
    let digest = onus_core::text::digest(&[1; 16], name);
    u32::from_str_radix(&digest[..8], 16).unwrap()
}

/// An address for tests, that waits for ten seconds.
pub fn parsed(address: &str) -> Address {
    Address::parse(address, None, Duration::from_secs(10)).unwrap()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port()
}

/// Waits until something holds, and fails if it never does.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < until, "it never came to be: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
