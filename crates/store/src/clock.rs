//! The clock that decides on SQLite, where every party is on one machine (P9).
//!
//! `CLOCK_MONOTONIC` is shared by all processes of a boot, immune to NTP and `date`, and stands still while the
//! machine sleeps, as the holders do. `CLOCK_BOOTTIME` would let everything expire on wake; the wall clock can be
//! stepped under live holders. A tick means something only within one boot and one time namespace, so each is
//! tagged with both. Wall time is kept for people, and for what comes from another boot.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use onus_core::time::{ClockDomain, Moment};

/// One reading, taken now. The store calls it inside its write transaction.
pub fn now() -> Moment {
    let tick = rustix::time::clock_gettime(TICKS);
    let wall_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default();
    Moment { wall_ms, tick_ms: tick.tv_sec * 1_000 + tick.tv_nsec / 1_000_000, domain: domain().clone() }
}

#[cfg(not(target_vendor = "apple"))]
const TICKS: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
/// On macOS `CLOCK_MONOTONIC` goes on during sleep; this one stands still.
#[cfg(target_vendor = "apple")]
const TICKS: rustix::time::ClockId = rustix::time::ClockId::UptimeRaw;

/// This machine, this boot, this time namespace.
pub fn domain() -> &'static ClockDomain {
    static DOMAIN: OnceLock<ClockDomain> = OnceLock::new();
    DOMAIN.get_or_init(|| ClockDomain::new(&machine(), &boot(), &namespace("time")))
}

/// The machine's id says too much to be written into a ledger that people share: only a digest of it is kept.
fn machine() -> String {
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .map(|id| id.trim().to_owned())
        .find(|id| !id.is_empty())
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    digest_of("machine", &id)
}

fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    digest_of("boot", id.trim())
}

fn digest_of(what: &str, id: &str) -> String {
    if id.is_empty() {
        return String::new();
    }
    let mut digest = onus_core::text::digest(&[0; 16], &format!("onus {what} {id}"));
    digest.truncate(16);
    digest
}

/// The inode of one of this process's namespaces, or empty where there are none.
pub fn namespace(kind: &str) -> String {
    std::fs::read_link(format!("/proc/self/ns/{kind}"))
        .ok()
        .and_then(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.split_once('[')?.1.trim_end_matches(']').to_owned())
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_grow_and_are_tagged_with_this_boot() {
        let (first, second) = (now(), now());
        assert!(second.since_ms(&first) >= 0);
        assert!(!first.domain.machine().is_empty() && !first.domain.boot().is_empty());
    }
}
