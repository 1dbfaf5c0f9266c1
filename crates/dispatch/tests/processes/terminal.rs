//! The command at a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::stage::{PUPPET, Stage, Supervisor, eventually, state};

/// A terminal with somebody at its keys, and a session of its own.
struct Desk {
    keys: File,
    shown: Receiver<Vec<u8>>,
    screen: String,
    stage: Stage,
    session: Option<Supervisor>,
}

impl Desk {
    fn new() -> Desk {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let keys = File::from(terminal);
        let mut screen = keys.try_clone().unwrap();
        let (show, shown) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1_024];
            while let Ok(length @ 1..) = screen.read(&mut bytes) {
                if show.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Desk { keys, shown, screen: String::new(), stage: Stage::new(), session: None }
    }

    /// Runs a command as the leader of the terminal's session.
    fn runs(&mut self, command: &[&str]) {
        let name = ptsname(&self.keys, Vec::new()).unwrap().into_string().unwrap();
        let mut session = Command::new(PUPPET);
        session.args(["session", &name, "--"]).args(command);
        session.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.session = Some(self.stage.adopt(session.spawn().unwrap()));
    }

    /// The words that supervise a script there. `$S` is the stage's folder.
    fn supervised(&self, settings: &[&str], script: &str) -> Vec<String> {
        let folder = self.stage.path().to_str().unwrap();
        let mut words = vec![PUPPET.to_owned(), "supervise".to_owned(), folder.to_owned()];
        words.extend(settings.iter().map(|setting| (*setting).to_owned()));
        words.extend(["--", "/bin/sh", "-c", &script.replace("$S", folder)].map(str::to_owned));
        words
    }

    fn supervises(&mut self, script: &str) {
        let words = self.supervised(&[], script);
        self.runs(&words.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// What a script reads from it, it waits for without starting anything: dash starts programs with vfork, and one that
    /// is stopped by a key in that moment hangs its shell, with or without us.
    fn gate(&self, name: &str) -> File {
        let path = self.stage.path().join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // For both ways, so that opening it waits for nobody.
        File::options().read(true).write(true).open(path).unwrap()
    }

    fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn shows(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_secs(60);
        while !self.screen.contains(text) {
            match self.shown.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.screen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("no '{text}' on the screen ({error}): {}", self.screen),
            }
        }
    }

    #[track_caller]
    fn ends(&mut self) {
        self.session.as_mut().unwrap().ends();
    }
}

#[test]
fn an_interactive_command_has_the_terminal() {
    let mut desk = Desk::new();
    desk.supervises("[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo ready && read line && echo \"got $line\"");
    desk.shows("ready");
    desk.types("hello\n");
    desk.shows("got hello");
    desk.ends();
    assert!(desk.stage.report().starts_with("Code(0)\n"));
    assert_eq!(desk.stage.read("tail").trim(), "", "what goes to a terminal is not read");
}

#[test]
fn ctrl_c_reaches_the_command_and_counts_as_an_interruption() {
    for (script, exit) in
        [("echo ready; read _", "Signal(2)\n"), ("trap 'exit 130' INT; echo ready; read _", "Code(130)\n")]
    {
        let mut desk = Desk::new();
        desk.supervises(script);
        desk.shows("ready");
        desk.types("\u{3}");
        desk.ends();
        let report = desk.stage.report();
        assert!(report.starts_with(exit), "{report}");
        assert!(report.contains("interrupted Some"), "{report}");
    }
}

#[test]
fn the_terminal_is_ours_again_and_as_it_was_after_the_command_was_killed() {
    let mut desk = Desk::new();
    let script = "stty raw -echo; echo ready; kill -9 $$";
    let words = desk
        .supervised(&[], script)
        .iter()
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect::<Vec<_>>();
    // A shell below which the supervisor runs and after which it reads a line: it has to have the terminal for that.
    let shell =
        format!("{}; read line; echo \"then $line\"; stty -a | tr '\\n' ' '; echo over", words.join(" "));
    desk.runs(&["/bin/sh", "-c", &shell]);
    desk.shows("ready");
    desk.stage.report();
    desk.types("hello\n");
    desk.shows("then hello");
    desk.shows("over");
    assert!(desk.screen.contains(" icanon ") && desk.screen.contains(" echo "), "{}", desk.screen);
    desk.ends();
}

/// Nobody runs jobs here: what a key stops would stand still for ever.
#[test]
fn ctrl_z_hangs_nobody() {
    let mut desk = Desk::new();
    let mut gate = desk.gate("end");
    desk.supervises("echo ready; read _ < $S/end; exit 4");
    desk.shows("ready");
    desk.types("\u{1a}");
    desk.shows("^Z");
    gate.write_all(b"\n").unwrap();
    desk.ends();
    assert!(desk.stage.report().starts_with("Code(4)\n"));
}

/// A shell that runs jobs: Ctrl-Z gives it the terminal back, `fg` goes on.
#[test]
fn ctrl_z_stops_both_and_fg_goes_on_with_both() {
    let mut desk = Desk::new();
    let mut gate = desk.gate("end");
    let script = "echo $$ > $S/child; echo ready; read _ < $S/end; read line; echo got $line";
    let words = desk.supervised(&[], script).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
    let shell = format!(
        "set -m; {}; echo suspended; read line; echo \"back $line\"; fg; echo finished",
        words.join(" ")
    );
    desk.runs(&["bash", "-c", &shell]);
    desk.shows("ready");
    let child = desk.stage.pid("child");
    desk.types("\u{1a}");
    desk.shows("suspended");
    eventually("it to stop", || (state(child) == Some('T')).then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(state(child), Some('T'), "it stays stopped until somebody goes on with it");
    desk.types("one\n");
    desk.shows("back one");
    gate.write_all(b"\n").unwrap();
    desk.types("two\n");
    desk.shows("got two");
    desk.shows("finished");
    desk.ends();
    assert!(desk.stage.report().starts_with("Code(0)\n"));
}

/// The keys belong to the reader of our output (`less`), until the command asks for them.
#[test]
fn in_a_pipeline_the_command_gets_the_terminal_only_when_it_asks() {
    let mut desk = Desk::new();
    let script = "echo $$ > $S/child; while [ ! -e $S/ask ]; do sleep 0.02; done; read line; echo got $line";
    let words = desk.supervised(&[], script).iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
    // The reader of the pipe reads a key first, then what comes through the pipe.
    let reader = "sh -c 'echo ready > /dev/tty; read key < /dev/tty; echo \"key $key\" > /dev/tty; cat'";
    desk.runs(&["bash", "-c", &format!("{} | {reader}; echo finished", words.join(" "))]);
    desk.shows("ready");
    desk.stage.pid("child");
    desk.types("q\n");
    desk.shows("key q");
    std::fs::write(desk.stage.path().join("ask"), "").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    desk.types("line\n");
    desk.shows("got line");
    desk.shows("finished");
    desk.ends();
}
