//! Where a server is and how to connect to it: a `postgres://` address and its `sslmode`.
//!
//! The address may contain a password. Messages, logs and answers show only [`Address::shown`], which has
//! neither the password nor any option (`spelling.rs` says what of a text may be shown at all); the `Debug`
//! of an address does not print it either.
//!
//! `sslmode` is libpq's: `disable`, `prefer`, `require` (encrypted, whoever answers), `verify-ca`,
//! `verify-full`. The default is `prefer` for a server on this machine and `verify-full` for any other: an
//! address that only names a host reaches that host or fails. Roots are the system's, or those in
//! `sslrootcert`; as with libpq, `require` with such a file means `verify-ca`.
//!
//! **The password itself goes only to a verified server**: `verify-full`, or `verify-ca` with a root of one's
//! own (a system root vouches for everyone's servers). Any other server, even on this machine, gets only a
//! proof of it (SCRAM), never the password in the clear or its MD5: see `wire.rs`. A socket is trusted as
//! much as its folder: the file system says who may create one there.
//!
//! What a session needs (the schema, limits on every wait) is set after connecting, not by a startup option:
//! poolers refuse or drop those.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::{Result, StoreError, spelling};

use super::connection::drive;
use super::wire::{self, Dialer, Encryption};

/// Pause between attempts to reach a server that will soon be available.
const COMING_PAUSE: Duration = Duration::from_millis(50);

/// How certain the server's identity must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// Not encrypted at all.
    Disable,
    /// Encrypted if the server supports it.
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// A server's address. It may contain a password: show only [`Address::shown`].
#[derive(Clone)]
pub struct Address {
    pub(super) config: tokio_postgres::Config,
    trust: Trust,
    roots: Option<PathBuf>,
    shown: String,
    /// Whether the server is reached by a Unix socket.
    is_socket: bool,
    /// How long to wait for the server, and for others' locks.
    wait: Duration,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("shown", &self.shown).field("trust", &self.trust).finish()
    }
}

impl Address {
    /// `password`: for an address without one. `wait`: how long to wait for the server, and for others'
    /// locks.
    pub fn parse(text: &str, password: Option<&str>, wait: Duration) -> Result<Address> {
        let shown = spelling::shown(text);
        let refuse = |why: String| StoreError::Unavailable {
            path: PathBuf::from(&shown),
            why: format!("its address {why}"),
        };
        const FORM: &str = "postgres://USER@HOST:PORT/DATABASE, with the password in PGPASSWORD, \
                            or in the address with @ : / ? # and % written as %40 %3A %2F %3F %23 and %25";
        let (base, options) =
            spelling::split(text).ok_or_else(|| refuse(format!("is invalid: write {FORM}")))?;
        let (mut trust, mut roots, mut rest) = (None, None, Vec::new());
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslmode", mode)) => {
                    trust = Some(match mode {
                        "disable" => Trust::Disable,
                        "allow" | "prefer" => Trust::Prefer,
                        "require" => Trust::Require,
                        "verify-ca" => Trust::VerifyCa,
                        "verify-full" => Trust::VerifyFull,
                        _ => {
                            let modes = "disable, prefer, require, verify-ca and verify-full";
                            return Err(refuse(format!("has an unknown sslmode: use one of {modes}")));
                        }
                    });
                }
                Some(("sslrootcert", file)) => {
                    roots = Some(percent_decode_str(file).decode_utf8_lossy().into_owned().into());
                }
                _ => rest.push(option),
            }
        }
        let plain = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        // The parser's own message may repeat a piece of the password.
        let mut config: tokio_postgres::Config =
            plain.parse().map_err(|_| refuse(format!("is invalid: write {FORM}")))?;
        if !spelling::names_are_names(&config) {
            return Err(refuse(format!("contains an invalid name: write {FORM}")));
        }
        if config.get_hosts().is_empty() {
            let names: Vec<String> = config.get_hostaddrs().iter().map(ToString::to_string).collect();
            if names.is_empty() {
                config.host("localhost");
            }
            for name in names {
                config.host(name);
            }
        }
        // Of several hosts, the one that accepts writes, unless the address says otherwise: the others are standbys.
        if config.get_hosts().len() > 1
            && !rest.iter().any(|option| option.starts_with("target_session_attrs="))
        {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let is_local = config.get_hosts().iter().all(is_local)
            && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
        let trust = match trust {
            // Naming a root means that it must be checked.
            Some(Trust::Require) if roots.is_some() => Trust::VerifyCa,
            Some(trust) => trust,
            None if is_local => Trust::Prefer,
            None => Trust::VerifyFull,
        };
        let sockets = config.get_hosts().iter().filter(|host| is_socket(host)).count();
        if sockets > 0 && sockets < config.get_hosts().len() {
            return Err(refuse("mixes sockets and hosts: use only one kind".to_owned()));
        }
        if let (None, Some(password)) = (config.get_password(), password) {
            config.password(password);
        }
        config.application_name("onus");
        let is_socket = sockets > 0;
        Ok(Address { config, trust, roots, shown, is_socket, wait }.within(wait))
    }

    /// The same address with a different limit on waiting.
    pub(super) fn within(&self, wait: Duration) -> Address {
        let mut address = self.clone();
        address.wait = wait.max(Duration::from_millis(1));
        let (connect, statement) = (address.wait.max(Duration::from_secs(1)), address.statement_wait());
        address
            .config
            .connect_timeout(connect)
            .tcp_user_timeout(statement)
            .keepalives_idle(Duration::from_secs(20))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3);
        address
    }

    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    /// The longest that the server may work on one statement, including its waits.
    fn statement_wait(&self) -> Duration {
        self.wait * 2 + Duration::from_secs(20)
    }

    /// The settings of every session: where the tables are; limits on every wait; statements are planned once
    /// (each names a project and a key, so no value would make another plan better); and an acknowledged
    /// commit is on the disk, whatever the database's default is.
    pub(super) fn settings(&self) -> String {
        let statement = self.statement_wait();
        format!(
            "SET search_path = onus, pg_temp; SET timezone = 'UTC'; SET client_min_messages = error; \
             SET plan_cache_mode = force_generic_plan; \
             SET lock_timeout = {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
             SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
            self.wait.as_millis(),
            statement.as_millis(),
            (statement * 2).as_millis(),
        )
    }

    /// The address without password and options.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Identifies the database and its server, whatever the user and `sslmode`.
    pub fn place(&self) -> String {
        let (addresses, ports) = (self.config.get_hostaddrs(), self.config.get_ports());
        let hosts = self.config.get_hosts().iter().enumerate().map(|(n, host)| {
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => {
                    let at = addresses.get(n).map(|address| format!("={address}")).unwrap_or_default();
                    format!("{name}{at}:{port}")
                }
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        format!("{}/{database}", hosts.collect::<Vec<_>>().join(","))
    }

    pub(super) fn fails(&self, why: impl fmt::Display) -> StoreError {
        StoreError::Unavailable { path: PathBuf::from(&self.shown), why: why.to_string() }
    }

    /// How long to wait for an answer: longer than the server works on any statement.
    pub(super) fn patience(&self) -> Duration {
        self.statement_wait() + Duration::from_secs(5)
    }

    /// Connects, and starts the task that drives the connection. Also gives up on a server that accepts the
    /// connection and then says nothing.
    pub(super) async fn connect(
        &self,
        heard: Option<UnboundedSender<()>>,
    ) -> Result<(Client, JoinHandle<()>)> {
        let (dial, until) = (self.dial()?, Instant::now() + self.wait);
        let connecting = async {
            loop {
                match self.try_to_connect(dial.clone(), heard.clone()).await {
                    Err(error) if will_accept_soon(&error) && Instant::now() < until => {
                        tokio::time::sleep(COMING_PAUSE).await;
                    }
                    connected => return connected,
                }
            }
        };
        let patience = self.wait.max(Duration::from_secs(1)) * 2;
        match tokio::time::timeout(patience, connecting).await {
            Ok(connected) => connected.map_err(|error| self.fails(message_of(&error))),
            Err(_) => Err(self.fails(format!("it did not answer within {} s", patience.as_secs()))),
        }
    }

    async fn try_to_connect(
        &self,
        dial: Option<Dialer>,
        heard: Option<UnboundedSender<()>>,
    ) -> std::result::Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let mut config = self.config.clone();
        let (client, driver) = match dial {
            None => {
                config.ssl_mode(match self.trust {
                    Trust::Disable | Trust::Prefer => SslMode::Disable,
                    Trust::Require | Trust::VerifyCa | Trust::VerifyFull => SslMode::Require,
                });
                let (client, connection) = config.connect(NoTls).await?;
                (client, drive(connection, heard))
            }
            Some(dial) => {
                // The client leaves everything before its startup message to the dial.
                config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
                let (client, connection) = config.connect(dial).await?;
                (client, drive(connection, heard))
            }
        };
        client.batch_execute(&self.settings()).await?;
        Ok((client, driver))
    }

    /// How to reach the server over a network; None for a socket.
    pub(super) fn dial(&self) -> Result<Option<Dialer>> {
        if self.is_socket {
            return Ok(None);
        }
        let is_direct = self.config.get_ssl_negotiation() == SslNegotiation::Direct;
        let encryption = match self.trust {
            Trust::Disable => Encryption::Off,
            Trust::Prefer if !is_direct => Encryption::IfOffered,
            _ if is_direct => Encryption::FromTheStart,
            _ => Encryption::AskedFor,
        };
        let mut tls = self.tls_for(self.trust)?;
        if is_direct {
            tls.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(Some(Dialer::new(tls, encryption, self.is_verified())))
    }

    /// Whether the server was proved to be the one that is meant.
    fn is_verified(&self) -> bool {
        match self.trust {
            Trust::VerifyFull => true,
            Trust::VerifyCa => self.roots.is_some(),
            Trust::Disable | Trust::Prefer | Trust::Require => false,
        }
    }

    fn tls_for(&self, trust: Trust) -> Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| self.fails(error))?
            .dangerous();
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Disable | Trust::Prefer | Trust::Require => Arc::new(Lenient { provider, strict: None }),
            Trust::VerifyCa | Trust::VerifyFull => {
                let roots = Arc::new(self.roots()?);
                let strict = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .map_err(|error| self.fails(format!("certificates cannot be checked: {error}")))?;
                match trust {
                    Trust::VerifyFull => strict,
                    _ => Arc::new(Lenient { provider, strict: Some(strict) }),
                }
            }
        };
        Ok(builder.with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        match &self.roots {
            Some(file) => {
                let unreadable = |error: rustls::pki_types::pem::Error| {
                    let file = spelling::mask(&file.to_string_lossy());
                    self.fails(format!("cannot read sslrootcert {file}: {error}"))
                };
                for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
                    roots.add(certificate.map_err(unreadable)?).map_err(|error| self.fails(error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(self.fails(
                "there are no root certificates to check the server's against: name a file with sslrootcert=FILE",
            ));
        }
        Ok(roots)
    }
}

/// What a client's error says, without the contents of rows.
pub(super) fn message_of(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().to_owned(),
        None => {
            if let Some(asked) = wire::asked_for_password(error) {
                return asked.to_string();
            }
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(error) = cause {
                text = format!("{text}: {error}");
                cause = error.source();
            }
            text
        }
    }
}

/// Whether a server is there and will soon accept writes: it is starting, or it is a standby that may be
/// about to take over.
fn will_accept_soon(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<std::io::Error>());
    // The client reports a read-only server with this kind of error; an error of the system would have a
    // number.
    let stands_by = cause.is_some_and(|cause| {
        cause.kind() == std::io::ErrorKind::PermissionDenied && cause.raw_os_error().is_none()
    });
    stands_by || error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
}

fn is_socket(host: &Host) -> bool {
    match host {
        Host::Tcp(_) => false,
        Host::Unix(_) => true,
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// Encrypts, and checks less than the server's whole identity.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    /// Accepts a server that one of its roots vouches for, under any name. None: accepts any server.
    strict: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let Some(strict) = &self.strict else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Address> {
        Address::parse(text, None, Duration::from_secs(5))
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        for text in [
            "postgres://ada:s3cret@db.example/onus",
            "postgres://ada:s3c%40ret@db.example/onus?sslmode=require",
            "postgres://ada@db.example/onus?password=s3cret",
            "postgres://ada:s3cret#x@db.example/onus",
            "postgres://ada:s3cret@db.example/onus?sslmode=s3cret",
            "postgres://ada:s3cret@db.example/onus?s3cret=1",
            "postgres://ada:s3cret@db.example/onus?sslrootcert=/no/password=s3cret",
        ] {
            let shown = match parse(text) {
                Ok(address) => format!(
                    "{address:?} {} {:?} {}",
                    address.fails("x"),
                    address.dial().err(),
                    address.place()
                ),
                Err(error) => format!("{error:?} {error}"),
            };
            assert!(!shown.contains("s3c"), "{shown}");
            assert!(shown.contains("db.example"), "{text}: {shown}");
        }
        // What can be read in two ways is not read: a piece of the password would be a host, and be looked up.
        for text in [
            "postgres://ada:s3cret@db.example:notaport/onus",
            "postgres://ada:s3cret",
            "postgres://s3cret:x:y",
            "postgres://ada:pw@s3cret@db.example/onus",
            "postgres://ada:x/s3cret@db.example/onus",
            "postgres://ada:s3cret?x@db.example/onus",
            "postgres://db.example:5432/onus?user=ada&password=x@s3cret",
            "postgres://ada:x@db.example/onus?password=a@s3cret",
            "postgres://ada%3As3cret@db.example/onus",
            "postgres://ada@db.example/onus;password=s3cret",
            "postgres://ada@db.example/onus%20password=s3cret",
            "postgres://ada@db.example%2Cs3cret/onus",
            "POSTGRES://ada:s3cret@db.example/onus",
            "host=db.example password=s3cret",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!format!("{error:?} {error} {}", spelling::mask(text)).contains("s3c"), "{error:?}");
        }
    }

    #[test]
    fn a_password_goes_to_a_verified_server_alone() {
        let is_verified =
            |options: &str| parse(&format!("postgres://a@db.example/onus{options}")).unwrap().is_verified();
        assert!(is_verified("") && is_verified("?sslmode=verify-full"));
        assert!(
            is_verified("?sslmode=verify-ca&sslrootcert=ca.pem")
                && is_verified("?sslmode=require&sslrootcert=ca.pem")
        );
        // Any server that anybody vouches for.
        assert!(!is_verified("?sslmode=verify-ca"));
        for mode in ["disable", "prefer", "require"] {
            assert!(!is_verified(&format!("?sslmode={mode}")), "{mode}");
        }
        assert!(!parse("postgres://a@localhost/onus").unwrap().is_verified());
    }

    #[test]
    fn a_socket_is_not_tried_beside_a_host() {
        assert!(parse("postgres://a@localhost,%2Frun%2Fpostgresql/onus").is_err());
        assert!(parse("postgres:///onus?host=/run/postgresql").unwrap().dial().unwrap().is_none());
    }

    #[test]
    fn a_host_elsewhere_is_checked_unless_the_address_says_otherwise() {
        let trust = |text: &str| parse(text).unwrap().trust;
        assert_eq!(trust("postgres://a@db.example/onus"), Trust::VerifyFull);
        assert_eq!(trust("postgres://a@10.0.0.7/onus"), Trust::VerifyFull);
        assert_eq!(trust("postgres://a@localhost/onus"), Trust::Prefer);
        assert_eq!(trust("postgres://a@127.0.0.1:5433/onus"), Trust::Prefer);
        assert_eq!(trust("postgresql:///onus?host=/run/postgresql"), Trust::Prefer);
        assert_eq!(trust("postgres://a@localhost/onus?hostaddr=10.0.0.7"), Trust::VerifyFull);
        assert_eq!(trust("postgres:///onus?hostaddr=10.0.0.7"), Trust::VerifyFull);
        assert_eq!(trust("postgres://a@db.example/onus?sslmode=require&sslrootcert=ca.pem"), Trust::VerifyCa);
        for (mode, wanted) in [
            ("disable", Trust::Disable),
            ("prefer", Trust::Prefer),
            ("require", Trust::Require),
            ("verify-ca", Trust::VerifyCa),
            ("verify-full", Trust::VerifyFull),
        ] {
            assert_eq!(trust(&format!("postgres://a@db.example/onus?sslmode={mode}")), wanted);
        }
        assert!(parse("postgres://a@db.example/onus?sslmode=maybe").is_err());
        assert_eq!(trust("postgres:///onus?user=a&hostaddr=127.0.0.1"), Trust::Prefer);
        assert_eq!(trust("postgres://a@localhost,db.example/onus"), Trust::VerifyFull);
    }

    #[test]
    fn of_several_hosts_it_is_the_one_that_takes_writes() {
        let wanted = |text: &str| parse(text).unwrap().config.get_target_session_attrs();
        assert_eq!(wanted("postgres://a@one,two:5433/onus"), TargetSessionAttrs::ReadWrite);
        assert_eq!(wanted("postgres://a@one,two/onus?target_session_attrs=any"), TargetSessionAttrs::Any);
        assert_eq!(wanted("postgres://a@one/onus"), TargetSessionAttrs::Any);
        assert_eq!(
            parse("postgres://a:s3cret@one,two:5433/onus").unwrap().shown(),
            "postgres://a@one,two:5433/onus"
        );
    }
}
