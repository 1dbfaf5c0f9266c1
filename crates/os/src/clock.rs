//! The clock that decides on SQLite, where every party is on one machine (P9).
//!
//! `CLOCK_MONOTONIC` is shared by all processes of a boot, immune to NTP and `date`, and stops while the
//! machine sleeps, as the holders do. `CLOCK_BOOTTIME` would let everything expire on wake; the wall clock can be
//! stepped under live holders. A tick has a meaning only within one boot and one time namespace, so each is
//! tagged with both. Wall time is kept for people, and for comparisons with another boot.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use onus_core::sight::Mark;
use onus_core::time::{ClockDomain, Moment};

/// One reading, taken now. The store calls it inside its write transaction.
pub fn now() -> Moment {
    let tick = rustix::time::clock_gettime(TICKS);
    let wall_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default();
    Moment::new(wall_ms, in_ms(tick), domain().clone())
}

#[cfg(not(target_vendor = "apple"))]
const TICKS: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
/// On macOS `CLOCK_MONOTONIC` keeps running during sleep; this one stops.
#[cfg(target_vendor = "apple")]
const TICKS: rustix::time::ClockId = rustix::time::ClockId::UptimeRaw;

fn in_ms(time: rustix::time::Timespec) -> i64 {
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// This machine, this boot, this time namespace.
pub fn domain() -> &'static ClockDomain {
    static DOMAIN: OnceLock<ClockDomain> = OnceLock::new();
    DOMAIN.get_or_init(|| {
        let known = |mark: Mark| mark.known().unwrap_or_default().to_owned();
        ClockDomain::new(&known(machine()), &known(boot()), &known(offsets()))
    })
}

/// How long this boot has lasted, sleep included. None if a time namespace may count from another start.
pub fn uptime_ms() -> Option<i64> {
    #[cfg(target_os = "linux")]
    {
        let counts_from_boot = matches!(domain().time_ns().known(), Some(FROM_BOOT | NO_SUCH_NAMESPACE));
        counts_from_boot.then(|| in_ms(rustix::time::clock_gettime(rustix::time::ClockId::Boottime)))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// The offsets of the time namespace that a kernel starts with, and of every other one that shifts nothing.
const FROM_BOOT: &str = "monotonic 0 0 boottime 0 0";

/// By how much this process's time namespace shifts the clocks of its boot. This identifies a namespace's ticks; its inode does
/// not, because a kernel reuses the inode once a namespace is gone.
fn offsets() -> Mark {
    let own = namespace("time");
    if own.known() == Some(NO_SUCH_NAMESPACE) {
        return own;
    }
    // The file is about the namespace of future children, which may be another.
    if !own.is(&namespace("time_for_children")) {
        return Mark::UNKNOWN;
    }
    let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    Mark::from(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// Only a digest of the machine's id is kept: the id itself reveals too much for a ledger that people share.
fn machine() -> Mark {
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .map(|id| id.trim().to_owned())
        .find(|id| !id.is_empty())
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    digest_of("machine", &id)
}

fn boot() -> Mark {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    digest_of("boot", id.trim())
}

fn digest_of(what: &str, id: &str) -> Mark {
    if id.is_empty() {
        return Mark::UNKNOWN;
    }
    let mut digest = onus_core::text::digest(&[0; 16], &format!("onus {what} {id}"));
    digest.truncate(16);
    Mark::from(digest)
}

/// The value for a kind of namespace that this kernel does not have: all processes are in the same one.
const NO_SUCH_NAMESPACE: &str = "none";

/// The inode of one of this process's namespaces, as far as `/proc` shows it.
pub(crate) fn namespace(kind: &str) -> Mark {
    let link_of = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}"));
    match link_of(kind) {
        Ok(link) => {
            let link = link.to_string_lossy().into_owned();
            Mark::from(link.split_once('[').map(|(_, inode)| inode.trim_end_matches(']').to_owned()))
        }
        // Every kernel with namespaces has this one.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && link_of("mnt").is_ok() => {
            Mark::from(NO_SUCH_NAMESPACE)
        }
        Err(_) => Mark::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_and_are_tagged_with_this_boot() {
        let (first, second) = (now(), now());
        assert!(second.since_ms(&first) >= 0);
        assert!(!first.domain.machine().is_unknown() && !first.domain.boot().is_unknown());
    }
}
