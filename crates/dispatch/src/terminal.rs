//! Lends the terminal to the command.
//!
//! A process group in the background may not read the terminal, and keys such as Ctrl-C reach only the group in the
//! foreground. The command has a group of its own, so for an interactive agent to work that group must be
//! in the foreground while it runs:
//!
//! - **at once**, if our input and output are terminals and we are in the foreground: a person is using it;
//! - **on demand** otherwise (when it was stopped for reading or changing the terminal): in `onus run … | less`,
//!   `less` reads the keys, and giving the terminal away would stop it.
//!
//! The terminal is taken back at the end; the modes are put back too if the command was killed and could not do it
//! itself. Taking back happens from the background: SIGTTOU is blocked ([`crate::signals`]).
//!
//! Stopping (Ctrl-Z) reaches only the command's group. The supervisor then stops its own group, as the key would have
//! done without us, and the shell that runs the jobs gets the terminal back. When it is continued, so is the command. If
//! there is no such shell (its group is orphaned) the kernel does not stop it, and the command continues after a moment: a
//! key that stops for ever helps nobody.

use std::fs::File;
use std::io::IsTerminal as _;

use rustix::process::{Pid, getpgrp};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    modes: Option<Termios>,
    /// Whether the command gets it whenever we have it.
    lends: bool,
    lent: bool,
}

impl Terminal {
    /// The terminal that controls this session, if there is one.
    pub(crate) fn controlling() -> Option<Terminal> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let modes = tcgetattr(&tty).ok();
        let lends = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        Some(Terminal { tty, modes, lends, lent: false })
    }

    /// Lends the terminal from now on, since the command needs it.
    pub(crate) fn lends_from_now(&mut self) {
        self.lends = true;
    }

    /// Puts the command's group into the foreground, if we are there.
    pub(crate) fn lend(&mut self, group: Pid) {
        if self.lends && tcgetpgrp(&self.tty) == Ok(getpgrp()) {
            self.lent = tcsetpgrp(&self.tty, group).is_ok();
        }
    }

    pub(crate) fn is_lent_to(&self, group: Pid) -> bool {
        self.lent && tcgetpgrp(&self.tty) == Ok(group)
    }

    /// Takes it back, if the command's group still has it. `restore`: also restores its modes.
    pub(crate) fn take_back(&mut self, group: Pid, restore: bool) {
        if !self.is_lent_to(group) {
            return;
        }
        self.lent = false;
        // Fails if the terminal hung up, which does not matter.
        let _ = tcsetpgrp(&self.tty, getpgrp());
        if let (Some(modes), true) = (&self.modes, restore) {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
    }
}
