//! Encryption: what each `sslmode` accepts of a real server with a real certificate, and what it refuses.

use std::path::{Path, PathBuf};
use std::process::Command;

use onus_store::conformance::server::{Server, fresh_name};
use tempfile::TempDir;

use crate::support::{Sandbox, human};

const PASSWORD: &str = "hunter2";

/// Who vouches for certificates.
struct Authority {
    folder: TempDir,
}

fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Authority {
    fn new() -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let new =
            ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test authority"];
        openssl(folder.path(), &[&new[..], &["-keyout", "ca.key", "-out", "ca.crt"]].concat());
        Authority { folder }
    }

    fn certificate(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// Gives a server a certificate for a host, and turns encryption on.
    fn vouch(&self, server: &Server, host: &str) {
        let folder = self.folder.path();
        let new = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a server"];
        openssl(folder, &[&new[..], &["-keyout", "server.key", "-out", "server.csr"]].concat());
        std::fs::write(folder.join("names"), format!("subjectAltName=DNS:{host}\n")).unwrap();
        let sign =
            ["x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"];
        openssl(folder, &[&sign[..], &["-days", "2", "-extfile", "names", "-out", "server.crt"]].concat());
        for name in ["server.key", "server.crt"] {
            server.keep(name, &std::fs::read(folder.join(name)).unwrap());
        }
        server.set("ssl = on\nssl_cert_file = 'server.crt'\nssl_key_file = 'server.key'");
    }
}

/// A project of a server, and how to reach it.
struct Reached {
    server: Server,
    database: String,
    sandbox: Sandbox,
}

/// `prepare` gives the server its certificate, or none. The role `sealed` is let in by a password, and only encrypted.
fn reached(prepare: impl FnOnce(&Server)) -> Reached {
    let server = Server::start();
    let address = server.database();
    let database = address.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let sandbox = Sandbox::on_server(&address, &fresh_name());
    sandbox.run(&human("ann"), &["init"]).ok();
    let role = format!("CREATE ROLE sealed LOGIN SUPERUSER PASSWORD '{PASSWORD}'");
    server.client().unwrap().batch_execute(&role).unwrap();
    prepare(&server);
    server.keep(
        "pg_hba.conf",
        b"hostssl all sealed 127.0.0.1/32 scram-sha-256\nhost all onus_owner 127.0.0.1/32 trust\n",
    );
    server.control(&["-w", "restart"]);
    Reached { server, database, sandbox }
}

impl Reached {
    fn address(&self, role: &str, host: &str, options: &str) -> String {
        let name = if role == "sealed" { format!("sealed:{PASSWORD}") } else { role.to_owned() };
        // Wherever a host is said to be, it is here.
        let here = if host == "localhost" { "" } else { "hostaddr=127.0.0.1&" };
        format!("postgres://{name}@{host}:{}/{}?{here}{options}", self.server.port, self.database)
    }

    #[track_caller]
    fn accepts(&mut self, role: &str, host: &str, options: &str) {
        self.sandbox.by(&self.address(role, host, options));
        self.sandbox.json(&human("ann"), &["list"]).ok();
    }

    #[track_caller]
    fn refuses(&mut self, role: &str, host: &str, options: &str, why: &str) {
        self.sandbox.by(&self.address(role, host, options));
        let ran = self.sandbox.json(&human("ann"), &["list"]);
        let refused = ran.refused(8);
        assert_eq!(refused["code"], "unavailable");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains(why) && message.contains(host), "{options}: {message}");
        assert!(!format!("{ran:?}").contains(PASSWORD), "{ran:?}");
    }
}

const ELSEWHERE: &str = "db.onus.test";

#[test]
fn a_server_is_spoken_to_only_as_sure_as_the_address_wants() {
    let (right, wrong) = (Authority::new(), Authority::new());
    let mut reached = reached(|server| right.vouch(server, "localhost"));
    let by = |mode: &str, authority: &Authority| {
        format!("sslmode={mode}&sslrootcert={}", authority.certificate().display())
    };
    // Only encrypted is this role let in.
    reached.refuses("sealed", "localhost", "sslmode=disable", "no encryption");
    for options in ["", "sslmode=prefer", "sslmode=require"] {
        reached.accepts("sealed", "localhost", options);
    }
    reached.accepts("onus_owner", "localhost", "sslmode=disable");
    for mode in ["require", "verify-ca", "verify-full"] {
        reached.accepts("sealed", "localhost", &by(mode, &right));
        reached.refuses("sealed", "localhost", &by(mode, &wrong), "certificate");
    }
    // The system's roots do not know this authority.
    reached.refuses("sealed", "localhost", "sslmode=verify-full", "certificate");
    reached.refuses("sealed", "localhost", "sslmode=verify-full&sslrootcert=/no/such/file", "sslrootcert");
    // Another name than the certificate's.
    reached.accepts("sealed", ELSEWHERE, &by("verify-ca", &right));
    reached.refuses("sealed", ELSEWHERE, &by("verify-ca", &wrong), "certificate");
    reached.refuses("sealed", ELSEWHERE, &by("verify-full", &right), "not valid for name");
    // Who names a host that is not this machine and says nothing else gets that host or nothing.
    reached.refuses("sealed", ELSEWHERE, "", "certificate");
    let roots = format!("sslrootcert={}", right.certificate().display());
    reached.refuses("sealed", ELSEWHERE, &roots, "not valid for name");
}

#[test]
fn a_host_elsewhere_is_checked_and_found_good() {
    let authority = Authority::new();
    let mut reached = reached(|server| authority.vouch(server, ELSEWHERE));
    let roots = format!("sslrootcert={}", authority.certificate().display());
    reached.accepts("sealed", ELSEWHERE, &roots);
    reached.refuses("sealed", "localhost", &format!("sslmode=verify-full&{roots}"), "not valid for name");
}

#[test]
fn a_server_without_encryption_is_refused_where_it_is_wanted() {
    let mut reached = reached(|_| ());
    for options in ["", "sslmode=disable", "sslmode=prefer"] {
        reached.accepts("onus_owner", "localhost", options);
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        reached.refuses("onus_owner", "localhost", &format!("sslmode={mode}"), "does not support TLS");
    }
    reached.refuses("onus_owner", ELSEWHERE, "", "does not support TLS");
    reached.accepts("onus_owner", ELSEWHERE, "sslmode=disable");
}

/// The password itself is for a server that was verified: to any other it is only proved.
#[test]
fn a_password_is_sent_to_a_verified_server_alone() {
    let authority = Authority::new();
    let mut reached = reached(|server| authority.vouch(server, "localhost"));
    let roots = |mode: &str| format!("sslmode={mode}&sslrootcert={}", authority.certificate().display());
    let weak = format!("SET password_encryption = 'md5'; ALTER ROLE sealed PASSWORD '{PASSWORD}'");
    reached.server.client().unwrap().batch_execute(&weak).unwrap();
    for (method, how) in [("password", "in the clear"), ("md5", "as MD5")] {
        let rules =
            format!("host all sealed 127.0.0.1/32 {method}\nhost all onus_owner 127.0.0.1/32 trust\n");
        reached.server.keep("pg_hba.conf", rules.as_bytes());
        reached.server.control(&["-w", "restart"]);
        for options in ["", "sslmode=disable", "sslmode=prefer", "sslmode=require"] {
            reached.refuses("sealed", "localhost", options, how);
        }
        for mode in ["require", "verify-ca", "verify-full"] {
            reached.accepts("sealed", "localhost", &roots(mode));
        }
    }
}
