//! What an observer can know about a process.
//!
//! A pid has a meaning only in its pid namespace, a start time only in its boot and time namespace, and a namespace only
//! in its kernel. So an observer of a process first determines where it is itself: its [`Vantage`]. What the operating system
//! does not reveal is *unknown*, and unknown is neither equal nor different ([`Mark`]). So:
//!
//! - a process can be looked at only if machine, boot, pid and time namespace of both are known and equal;
//! - it belonged to an *earlier boot* only if the machine is known and equal, both boots are known and differ, and both
//!   are in the initial pid namespace, since a container may have a boot id of its own. Whether it lived until that boot
//!   ended follows from the uptime of the current one ([`Lease::liveness`](crate::lease::Lease::liveness));
//! - about every other process nothing is known, and its lease goes by the deadline.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::lease::Process;

/// What tells one machine, boot or namespace from another; unknown where the operating system did not say.
// `==` compares two records. `is` and `differs` say whether both mean the same thing; both are false if one is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Mark(Option<Cow<'static, str>>);

/// The inode of the pid namespace that a Linux kernel starts with: the same in every kernel.
const INITIAL_PID_NS: &str = "4026531836";

impl Mark {
    pub const UNKNOWN: Mark = Mark(None);
    /// The pid namespace of processes outside of containers.
    pub const INITIAL_PID_NS: Mark = Mark(Some(Cow::Borrowed(INITIAL_PID_NS)));

    pub fn known(&self) -> Option<&str> {
        self.0.as_deref()
    }

    pub fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    pub fn is(&self, other: &Mark) -> bool {
        are_same(self.known(), other.known()) == Some(true)
    }

    pub fn differs(&self, other: &Mark) -> bool {
        are_same(self.known(), other.known()) == Some(false)
    }
}

impl From<&str> for Mark {
    fn from(text: &str) -> Mark {
        Mark::from(text.to_owned())
    }
}

impl From<String> for Mark {
    /// An empty text means unknown.
    fn from(text: String) -> Mark {
        Mark(Some(text).filter(|text| !text.is_empty()).map(Cow::Owned))
    }
}

impl From<Option<String>> for Mark {
    fn from(text: Option<String>) -> Mark {
        text.map_or(Mark::UNKNOWN, Mark::from)
    }
}

/// Whether two marks are the same. None: one is unknown.
pub(crate) fn are_same(one: Option<&str>, other: Option<&str>) -> Option<bool> {
    Some(one? == other?)
}

/// The place from which an observer looks at processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vantage {
    pub machine: Mark,
    pub boot: Mark,
    pub pid_ns: Mark,
    pub time_ns: Mark,
    /// How long this boot has lasted, sleep included. None: unknown.
    pub uptime_ms: Option<i64>,
}

/// How far a process is from a [`Vantage`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// In the same pid namespace of the same running kernel: the observer can be believed.
    Near,
    /// On this machine, in a boot before the current one, which has lasted this long.
    EarlierBoot { uptime_ms: i64 },
    /// Elsewhere, or unknown.
    Far,
}

impl Vantage {
    pub fn sight_of(&self, process: &Process) -> Sight {
        if !self.machine.is(&process.machine) {
            return Sight::Far;
        }
        let in_no_container = |pid_ns: &Mark| pid_ns.is(&Mark::INITIAL_PID_NS);
        if self.boot.differs(&process.boot)
            && in_no_container(&self.pid_ns)
            && in_no_container(&process.pid_ns)
        {
            return self.uptime_ms.map_or(Sight::Far, |uptime_ms| Sight::EarlierBoot { uptime_ms });
        }
        let shares = self.boot.is(&process.boot)
            && self.pid_ns.is(&process.pid_ns)
            && self.time_ns.is(&process.time_ns);
        if shares { Sight::Near } else { Sight::Far }
    }
}

impl Process {
    /// Whether both can be one process: no known mark distinguishes them.
    fn may_be(&self, other: &Process) -> bool {
        fn marks(process: &Process) -> [&Mark; 4] {
            [&process.machine, &process.boot, &process.pid_ns, &process.time_ns]
        }
        let differ = marks(self).iter().zip(marks(other)).any(|(one, other)| one.differs(other));
        (self.pid, self.start) == (other.pid, other.start) && !differ
    }

    /// Whether a caller with this ancestry, itself first, is this process or was started by it. A caller in another pid
    /// namespace, as in a sandbox, cannot see who started it, and is accepted.
    pub fn is_at_or_above(&self, ancestry: &[Process]) -> bool {
        ancestry.iter().any(|above| above.may_be(self))
            || ancestry.first().is_some_and(|own| !own.pid_ns.is(&self.pid_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(boot: &str) -> Process {
        Process {
            machine: "m".into(),
            boot: boot.into(),
            pid_ns: Mark::INITIAL_PID_NS,
            time_ns: "t".into(),
            pid: 7,
            start: 9,
            unique: false,
        }
    }

    fn vantage(boot: &str) -> Vantage {
        Vantage {
            machine: "m".into(),
            boot: boot.into(),
            pid_ns: Mark::INITIAL_PID_NS,
            time_ns: "t".into(),
            uptime_ms: Some(50),
        }
    }

    #[test]
    fn unknown_is_neither_equal_nor_different() {
        let (unknown, known, other) = (Mark::UNKNOWN, Mark::from("a"), Mark::from("b"));
        assert_eq!(Mark::from(""), unknown);
        for (one, two) in [(&unknown, &unknown), (&unknown, &known), (&known, &unknown)] {
            assert!(!one.is(two) && !one.differs(two), "{one:?} {two:?}");
        }
        assert!(known.is(&known.clone()) && !known.differs(&known.clone()));
        assert!(known.differs(&other) && !known.is(&other));
    }

    #[test]
    fn a_process_is_looked_at_only_where_all_of_its_place_is_known_and_the_same() {
        assert_eq!(vantage("b").sight_of(&process("b")), Sight::Near);
        for part in 0..4 {
            for mark in [Mark::UNKNOWN, Mark::from("another")] {
                let (mut there, mut here) = (process("b"), vantage("b"));
                *[&mut there.machine, &mut there.boot, &mut there.pid_ns, &mut there.time_ns][part] =
                    mark.clone();
                assert_ne!(here.sight_of(&there), Sight::Near, "process {part} {mark:?}");
                // Unknown on both sides is not the same either.
                *[&mut here.machine, &mut here.boot, &mut here.pid_ns, &mut here.time_ns][part] =
                    Mark::UNKNOWN;
                assert_eq!(here.sight_of(&there), Sight::Far, "both {part} {mark:?}");
                assert_eq!(here.sight_of(&process("b")), Sight::Far, "observer {part}");
            }
        }
    }

    #[test]
    fn an_earlier_boot_is_one_of_this_very_machine_outside_of_containers() {
        assert_eq!(vantage("later").sight_of(&process("b")), Sight::EarlierBoot { uptime_ms: 50 });
        // Its time namespace ended with the boot.
        let elsewhen = Process { time_ns: "another".into(), ..process("b") };
        assert_eq!(vantage("later").sight_of(&elsewhen), Sight::EarlierBoot { uptime_ms: 50 });
        let far = |vantage: Vantage, process: Process| {
            assert_eq!(vantage.sight_of(&process), Sight::Far, "{vantage:?} {process:?}");
        };
        for mark in [Mark::UNKNOWN, Mark::from("container")] {
            far(Vantage { pid_ns: mark.clone(), ..vantage("later") }, process("b"));
            far(vantage("later"), Process { pid_ns: mark.clone(), ..process("b") });
            far(Vantage { machine: mark.clone(), ..vantage("later") }, process("b"));
            far(vantage("later"), Process { machine: mark.clone(), ..process("b") });
        }
        far(vantage(""), process("b"));
        far(vantage("later"), process(""));
        far(Vantage { uptime_ms: None, ..vantage("later") }, process("b"));
    }

    #[test]
    fn whoever_cannot_see_its_ancestors_is_not_called_a_stranger() {
        let holder = process("b");
        let below = |own: Process| holder.is_at_or_above(&[own]);
        assert!(below(holder.clone()));
        assert!(below(Process { boot: Mark::UNKNOWN, ..holder.clone() }), "its boot id is hidden");
        assert!(!below(Process { pid: 8, ..holder.clone() }));
        assert!(!below(Process { start: 8, ..holder.clone() }));
        assert!(!below(Process { boot: "another".into(), ..holder.clone() }));
        assert!(below(Process { pid_ns: "sandbox".into(), pid: 1, ..holder.clone() }));
        assert!(!holder.is_at_or_above(&[]), "nothing is known of it");
    }
}
