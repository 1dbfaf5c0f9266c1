//! Ways to write where a store is: a file's path, a server's address, or neither; and which part of that may
//! be shown.
//!
//! A text meant as an address may contain a password anywhere, especially if it is misspelt: `POSTGRES://`,
//! `host=… password=…`, an `@` in the password. So only an obvious path is shown as it is. Of an address,
//! only user, host and database are shown, each only if it is a plain name; of anything else, nothing.
//!
//! **An ambiguous address is refused.** With an unescaped `@`, `/` or `?` in a password, a piece of the
//! password would be taken for the host, and looked up on the network.

use std::path::{Path, PathBuf};

#[cfg(feature = "postgres")]
use tokio_postgres::{Config, config::Host};

/// Replaces what must not be shown.
const HIDDEN: &str = "…";

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// What a text that says where a store is can mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling {
    File(PathBuf),
    Server,
    /// It may contain a password, and must not be repeated.
    Neither,
}

impl Spelling {
    pub fn of(text: &str) -> Spelling {
        if without_scheme(text).is_some() {
            return Spelling::Server;
        }
        let path = text.strip_prefix("sqlite:").unwrap_or(text);
        if is_plain_path(path) { Spelling::File(PathBuf::from(path)) } else { Spelling::Neither }
    }
}

/// The form of a store's address that may be shown.
pub fn mask(text: &str) -> String {
    match Spelling::of(text) {
        Spelling::File(_) => text.to_owned(),
        Spelling::Server => shown(text),
        Spelling::Neither => HIDDEN.to_owned(),
    }
}

/// Whether any text looks like an address that was meant to contain a password.
pub fn may_hold_a_password(text: &str) -> bool {
    let is_misspelt = || text.to_ascii_lowercase().contains("postgres") && text.contains(':');
    text.contains("://") || names_password(text) || has_credentials(text) || is_misspelt()
}

/// Whether a text is an obvious path. One that begins like a path may contain anything but what makes an
/// address; any other only characters of plain names.
fn is_plain_path(text: &str) -> bool {
    let is_rooted = Path::new(text).is_absolute() || text.starts_with("./") || text.starts_with("../");
    let is_plain = |c: char| !c.is_control() && !"=@:?&;%'\"\\".contains(c);
    match is_rooted && !text.starts_with("//") {
        true => !may_hold_a_password(text) && !text.contains(char::is_control),
        false => !text.is_empty() && text.chars().all(is_plain),
    }
}

/// Whether the text contains `password=…` in any spelling, including as an option of an address.
fn names_password(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.match_indices("passw").any(|(at, _)| {
        let rest = text[at..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_-".contains(c));
        let rest = rest.trim_start();
        rest.starts_with('=') || rest.starts_with(':') || rest.starts_with("%3d")
    })
}

/// `…:…@`
fn has_credentials(text: &str) -> bool {
    text.find(':').is_some_and(|colon| text[colon..].contains('@'))
}

fn without_scheme(text: &str) -> Option<&str> {
    SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme))
}

/// The address and its options; None if it is ambiguous.
#[cfg(feature = "postgres")]
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let rest = without_scheme(text)?;
    if let Some((who, place)) = rest.split_once('@')
        && (who.contains(['/', '?']) || place.contains('@'))
    {
        return None;
    }
    Some(text.split_once('?').unwrap_or((text, "")))
}

/// Whether user, host and database are names, and not pieces of something else.
#[cfg(feature = "postgres")]
pub(crate) fn names_are_names(config: &Config) -> bool {
    let is_name = |name: &str| {
        !name.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#&;=:\\'\"".contains(c))
    };
    let is_host = |host: &Host| match host {
        Host::Tcp(name) => name.chars().all(|c| c.is_alphanumeric() || ".-_:%".contains(c)),
        Host::Unix(path) => is_plain_path(&path.to_string_lossy()),
    };
    config.get_user().is_none_or(is_name)
        && config.get_dbname().is_none_or(is_name)
        && config.get_hosts().iter().all(is_host)
}

/// What may be shown of an address: user, host and database; nothing of one that cannot be parsed.
#[cfg(feature = "postgres")]
pub(crate) fn shown(text: &str) -> String {
    let config = split(text).and_then(|(base, _)| base.parse::<Config>().ok()).filter(names_are_names);
    let Some(config) = config else { return format!("{}{HIDDEN}", SCHEMES[0]) };
    let plain = |name: &str| match name.chars().all(|c| c.is_alphanumeric() || "._-$+".contains(c)) {
        true => name.to_owned(),
        false => HIDDEN.to_owned(),
    };
    let hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let ports = config.get_ports();
    let places: Vec<String> = hosts
        .enumerate()
        .map(|(n, host)| match ports.get(n).or(ports.first().filter(|_| ports.len() == 1)) {
            Some(port) if *port != 5432 => format!("{host}:{port}"),
            _ => host,
        })
        .collect();
    let user = config.get_user().map(|user| format!("{}@", plain(user))).unwrap_or_default();
    let database = config.get_dbname().map(|name| format!("/{}", plain(name))).unwrap_or_default();
    format!("{}{user}{}{database}", SCHEMES[0], places.join(","))
}

/// Without PostgreSQL, no address can be parsed.
#[cfg(not(feature = "postgres"))]
fn shown(_text: &str) -> String {
    format!("{}{HIDDEN}", SCHEMES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_path_and_nothing_else_is() {
        for path in [
            "/var/lib/onus/onus.db",
            "./a:b=c.db",
            "../ann@work/my store.db",
            "store.db",
            "my stores/onus.db",
            "sqlite:onus.db",
            "sqlite:/srv/onus.db",
            "/srv/passwords/onus.db",
            "zwölf/漢字.db",
        ] {
            assert!(matches!(Spelling::of(path), Spelling::File(_)), "{path}");
            assert_eq!(mask(path), path);
        }
        for other in [
            "",
            "POSTGRES://u:s3cret@db/onus",
            "Postgresql://u:s3cret@db/onus",
            "postgres:/u:s3cret@db/onus",
            "postgres:u:s3cret@db/onus",
            "//u:s3cret@db/onus",
            "/u:s3cret@db/onus",
            "u:s3cret@db/onus",
            "host=db password=s3cret",
            "host=db user=u password = s3cret",
            "./host=db PassWord=s3cret",
            "/run/postgresql?passwd=s3cret",
            "/run/postgresql?password%3ds3cret",
            "jdbc:postgresql://db/onus?user=u&password=s3cret",
            "sqlite:postgres://u:s3cret@db/onus",
            "mysql://u:s3cret@db/onus",
            " postgres://u:s3cret@db/onus",
            "'postgres://u:s3cret@db/onus'",
            "/srv/s3cret\n.db",
        ] {
            assert_eq!((Spelling::of(other), mask(other).as_str()), (Spelling::Neither, HIDDEN), "{other}");
        }
        assert_eq!(Spelling::of("postgresql://u@db/onus"), Spelling::Server);
    }

    #[test]
    fn what_is_shown_of_an_address_is_plain() {
        for (text, wanted) in [
            (
                "postgres://ada:s3cret@db.example:5433/onus?sslmode=require",
                "postgres://ada@db.example:5433/onus",
            ),
            ("postgresql://a:s3cret@one,two:5433/onus", "postgres://a@one,two:5433/onus"),
            ("postgres://a@[::1]:5433/onus", "postgres://a@[::1]:5433/onus"),
            ("postgres://a@%2Frun%2Fpostgresql/onus", "postgres://a@/run/postgresql/onus"),
            ("postgres://ann%40corp:s3cret@db/onus", "postgres://…@db/onus"),
            ("postgres://a:pw@s3cret@db/onus", "postgres://…"),
            ("postgres://a:x/s3cret@db/onus", "postgres://…"),
            ("postgres://a:x?s3cret@db/onus", "postgres://…"),
            ("postgres://db:5432/onus?user=a&password=x@s3cret", "postgres://…"),
            ("postgres://a%3As3cret@db/onus", "postgres://…"),
            ("postgres://a@db/onus;password=s3cret", "postgres://…"),
            ("postgres://a@db/onus&password=s3cret", "postgres://…"),
            ("postgres://a@db:s3cret/onus", "postgres://…"),
        ] {
            assert_eq!(mask(text), wanted, "{text}");
        }
    }

    /// Whatever surrounds a password, right or wrong: nothing of it comes out.
    #[test]
    fn a_password_among_anything_is_hidden() {
        const PIECES: &[&str] = &[
            "postgres://",
            "postgresql://",
            "POSTGRES://",
            "sqlite:",
            "ann",
            "db.example",
            "onus",
            "5432",
            "/",
            "//",
            "./",
            "@",
            ":",
            "?",
            "&",
            "=",
            "#",
            ",",
            ";",
            " ",
            "%40",
            "%3A",
            "%2F",
            "[::1]",
            "host=",
            "user=ann",
            "sslmode=disable",
            "sslrootcert=/x",
            "ü",
        ];
        const PASSWORDS: &[&str] = &[
            ":s3cret@",
            ":pw@s3cret@",
            "password=s3cret",
            "PassWord = 's3cret'",
            "passwd=s3cret",
            ":pw%40s3cret@",
        ];
        let mut state = 7_u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as usize % bound
        };
        let mut servers = 0;
        for _ in 0..100_000 {
            let [before, after] = [below(5), below(6)];
            let mut text: String = (0..before).map(|_| PIECES[below(PIECES.len())]).collect();
            text.push_str(PASSWORDS[below(PASSWORDS.len())]);
            text.extend((0..after).map(|_| PIECES[below(PIECES.len())]));
            let shown = mask(&text);
            assert!(!shown.contains("s3cret"), "{text}: {shown}");
            assert!(may_hold_a_password(&text), "{text}");
            if Spelling::of(&text) == Spelling::Server {
                servers += 1;
                let said = match crate::Address::parse(&text, None, std::time::Duration::from_secs(1)) {
                    Ok(address) => format!("{address:?} {} {}", address.shown(), address.place()),
                    Err(error) => format!("{error:?} {error}"),
                };
                assert!(!said.contains("s3cret"), "{text}: {said}");
            }
        }
        assert!(servers > 1_000, "{servers}");
    }
}
