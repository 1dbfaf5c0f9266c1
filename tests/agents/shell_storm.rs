//! A storm of commands by four conversations in one checkout, and a judge that knows who wrote what because it reads every file
//! before and after every command: whoever changed another's file hears it in that command's answer, its holder hears it at its next
//! hook, and nobody hears of what it did not do.
//!
//! `STORM=2000` runs the long one; `STORM_SEED` chooses another.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::agents::harness::Harness;
use crate::agents::payload::Kind;
use crate::agents::shell_writes::committed;
use crate::support::Sandbox;

const NAMES: [&str; 4] = ["north", "east", "south", "west"];
const KINDS: [Kind; 4] = [Kind::Claude, Kind::Codex, Kind::Gemini, Kind::Claude];
/// Of each conversation, at the beginning.
const FILES: [&str; 4] = ["lib.rs", "a b.rs", "it's.rs", "deep/er/mod.rs"];

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// What one conversation has still to hear about a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum News {
    By(usize),
    Meanwhile,
}

struct Storm {
    sandbox: Sandbox,
    agents: Vec<Harness>,
    dice: Dice,
    /// Who has which file.
    owners: BTreeMap<String, usize>,
    /// What each has to hear, by file. Of several about one file the last is told.
    owed: Vec<BTreeMap<String, News>>,
    /// Everything that each ever wrote of another's.
    wrote: BTreeSet<(usize, String)>,
    /// Each file that changed while several ran commands.
    unclear: BTreeSet<String>,
    told: usize,
    refused: usize,
    made: usize,
}

type Contents = BTreeMap<String, Option<Vec<u8>>>;

impl Storm {
    fn new(seed: u64) -> Storm {
        let of = |who: usize| FILES.iter().map(move |file| format!("{}/{file}", NAMES[who]));
        let files: Vec<String> = (0..4).flat_map(of).collect();
        let sandbox = committed(&files.iter().map(String::as_str).collect::<Vec<_>>());
        let agent = |who: usize| Harness::new(KINDS[who], &sandbox, NAMES[who]);
        let agents: Vec<Harness> = (0..4).map(agent).collect();
        let mut owners = BTreeMap::new();
        for (who, agent) in agents.iter().enumerate() {
            agent.start();
            for file in of(who) {
                agent.edit(&file).allowed();
                agent.after_tool(agent.kind.edit_tool()).allowed();
                owners.insert(file, who);
            }
        }
        Storm {
            sandbox,
            agents,
            dice: Dice(seed),
            owners,
            owed: vec![BTreeMap::new(); 4],
            wrote: BTreeSet::new(),
            unclear: BTreeSet::new(),
            told: 0,
            refused: 0,
            made: 0,
        }
    }

    fn contents(&self) -> Contents {
        self.owners.keys().map(|file| (file.clone(), fs::read(self.sandbox.path().join(file)).ok())).collect()
    }

    fn any_file(&mut self) -> String {
        let at = self.dice.roll(self.owners.len());
        self.owners.keys().nth(at).unwrap().clone()
    }

    /// A command that changes a file in a way that names it to nobody but the shell.
    fn write(&mut self, file: &str) -> String {
        let quoted = file.replace('\'', r"'\''");
        let text = format!("line {}", self.dice.roll(1_000_000));
        match self.dice.roll(9) {
            0 => format!("f='{quoted}'; mkdir -p \"$(dirname \"$f\")\"; printf '%s\\n' '{text}' >> \"$f\""),
            1 => format!("f='{quoted}'; cat > \"$f\" <<EOF\n{text} > not/a/file.rs\nrm '{quoted}'\nEOF"),
            2 => format!("(f='{quoted}'; echo {text} > \"$f\")"),
            3 => format!(
                "eval \"echo {text} > '\"'{quoted}'\"'\" 2>/dev/null || python3 -c 'import sys; open(sys.argv[1], \"w\").write(sys.argv[2])' '{quoted}' '{text}'"
            ),
            4 => format!(
                "python3 - '{quoted}' <<'EOF'\nimport sys\nopen(sys.argv[1], 'a').write('{text}\\n')\nEOF"
            ),
            5 => format!("f='{quoted}'; echo {text} > \"$f.new\"; mv \"$f.new\" \"$f\""),
            6 => format!("f='{quoted}'; rm -f \"$f\""),
            7 => format!(
                "printf '%s\\n' '{quoted}' | while read -r f; do echo '{text}' | tee \"$f\" > /dev/null; done"
            ),
            // Nothing comes of it.
            _ => format!("f='{quoted}'; touch \"$f\"; grep -c '> {quoted}' \"$f\" || true"),
        }
    }

    /// What somebody hears must be true, and all that is owed to it must be in it.
    fn hears(&mut self, who: usize, told: &str, is_command: bool) {
        let about = |line: &str, file: &str| line.contains(file) || line.contains(&file.replace('\'', "\\'"));
        for line in told.lines() {
            for (file, owner) in &self.owners {
                if !about(line, file) {
                    continue;
                }
                if line.contains("while your command ran,") && line.contains("reserved by") {
                    assert!(
                        is_command && *owner != who && self.wrote.contains(&(who, file.clone())),
                        "{}: {line}",
                        NAMES[who]
                    );
                } else if line.contains("a command of") {
                    let by = (0..4).find(|by| line.contains(&format!("({})", NAMES[*by]))).unwrap();
                    assert!(
                        *owner == who && self.wrote.contains(&(by, file.clone())),
                        "{}: {line}",
                        NAMES[who]
                    );
                } else if line.contains("changed meanwhile") {
                    assert!(*owner == who && self.unclear.contains(file), "{}: {line}", NAMES[who]);
                }
            }
        }
        for (file, news) in std::mem::take(&mut self.owed[who]) {
            let word = match &news {
                News::By(by) => format!("({})", NAMES[*by]),
                News::Meanwhile => "changed meanwhile".to_owned(),
            };
            let is_told = told.lines().any(|line| about(line, &file) && line.contains(&word));
            assert!(is_told, "{} was not told of {file} {news:?}: {told}", NAMES[who]);
            self.told += 1;
        }
    }

    /// What is different now, and whose that was.
    fn judge(&mut self, before: &Contents, writers: &[usize]) -> Vec<String> {
        let after = self.contents();
        let changed: Vec<String> =
            before.iter().filter(|(file, old)| after[*file] != **old).map(|(file, _)| file.clone()).collect();
        for file in &changed {
            let owner = self.owners[file];
            match writers {
                [only] if *only == owner => {}
                [only] => {
                    self.wrote.insert((*only, file.clone()));
                    self.owed[owner].insert(file.clone(), News::By(*only));
                }
                _ => {
                    self.unclear.insert(file.clone());
                    self.owed[owner].insert(file.clone(), News::Meanwhile);
                }
            }
        }
        changed
    }

    /// One command, from its first hook to its last.
    fn alone(&mut self, who: usize, command: &str) {
        let before = self.contents();
        let first = self.agents[who].before_shell(command);
        if first.refusal.is_some() {
            panic!("{command}: {first:?}");
        }
        self.hears_before(who, first.told());
        self.agents[who].shell(command);
        let changed = self.judge(&before, &[who]);
        let last = self.agents[who].after_shell(command);
        for file in changed.iter().filter(|file| self.owners[*file] != who) {
            let is_told = last
                .told()
                .lines()
                .any(|line| line.contains("while your command ran,") && line.contains(file.as_str()));
            assert!(is_told, "{} changed {file} by {command:?} and was told {:?}", NAMES[who], last.told());
        }
        self.hears(who, last.told(), true);
    }

    /// Before a command some hear what is owed to them.
    fn hears_before(&mut self, who: usize, told: &str) {
        if !told.is_empty() {
            self.hears(who, told, false);
        }
    }

    fn step(&mut self) {
        let who = self.dice.roll(4);
        match self.dice.roll(12) {
            // Two at once: whatever changes, nobody is blamed.
            0 | 1 => {
                let other = (who + 1 + self.dice.roll(3)) % 4;
                let (one, two) = (self.any_file(), self.any_file());
                let (first, second) = (self.write(&one), self.write(&two));
                let before = self.contents();
                for (who, command) in [(who, &first), (other, &second)] {
                    let verdict = self.agents[who].before_shell(command);
                    self.hears_before(who, verdict.allowed().told());
                }
                self.agents[who].shell(&first);
                self.agents[other].shell(&second);
                self.judge(&before, &[who, other]);
                for (who, command) in [(who, &first), (other, &second)] {
                    let told = self.agents[who].after_shell(command);
                    self.hears(who, told.told(), true);
                }
            }
            // A name in plain words.
            2 => {
                let file = self.any_file();
                let command = format!("echo x > '{}'", file.replace('\'', r"'\''"));
                if self.owners[&file] == who {
                    return self.alone(who, &command);
                }
                let verdict = self.agents[who].before_shell(&command);
                assert!(verdict.refused().contains(NAMES[self.owners[&file]]), "{verdict:?}");
                self.refused += 1;
            }
            // The edit tool, while another's command runs.
            3 => {
                let other = (who + 1 + self.dice.roll(3)) % 4;
                let verdict = self.agents[other].before_shell("sleep 9");
                self.hears_before(other, verdict.allowed().told());
                let own: Vec<String> = self
                    .owners
                    .iter()
                    .filter(|(_, owner)| **owner == who)
                    .map(|(file, _)| file.clone())
                    .collect();
                let file = &own[self.dice.roll(own.len())];
                let verdict = self.agents[who].edit(file);
                self.hears_before(who, verdict.allowed().told());
                let path = self.sandbox.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{}", self.dice.roll(1_000_000))).unwrap();
                let verdict = self.agents[who].after_tool(KINDS[who].edit_tool());
                self.hears(who, verdict.told(), false);
                let verdict = self.agents[other].after_shell("sleep 9");
                self.hears(other, verdict.told(), true);
            }
            // Code is generated.
            4 => {
                self.made += 1;
                let (dir, n) = (NAMES[who], self.made);
                let command =
                    format!("cd {dir}; for i in 1 2; do echo \"pub fn f$i() {{}}\" > gen{n}_$i.rs; done");
                self.alone(who, &command);
                for i in 1..=2 {
                    self.owners.insert(format!("{dir}/gen{n}_{i}.rs"), who);
                }
            }
            // All of somebody's at once.
            5 => {
                let dir = NAMES[self.dice.roll(4)];
                let n = self.dice.roll(1_000_000);
                self.alone(who, &format!("for f in {dir}/l*.rs {dir}/a*.rs; do [ -e \"$f\" ] && echo '{n}' >> \"$f\"; done; true"));
            }
            6 => {
                let told = self.agents[who].after_tool("Read");
                self.hears(who, told.told(), false);
            }
            _ => {
                let file = self.any_file();
                let command = self.write(&file);
                self.alone(who, &command);
            }
        }
        // Notices name at most eight files at once.
        for who in 0..4 {
            if self.owed[who].len() > 4 {
                let told = self.agents[who].after_tool("Read");
                self.hears(who, told.told(), false);
            }
        }
    }
}

#[test]
fn every_stray_write_is_told_to_both_and_nobody_is_blamed_for_anothers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let steps = number("STORM").unwrap_or(120);
    let seed = number("STORM_SEED").unwrap_or(7);
    let mut storm = Storm::new(seed);
    for _ in 0..steps {
        storm.step();
    }
    for who in 0..4 {
        let told = storm.agents[who].after_tool("Read");
        storm.hears(who, told.told(), false);
    }
    // What was generated is its writer's.
    for (file, owner) in &storm.owners {
        let holder = crate::agents::kit::holder_of(&storm.sandbox, file).map(|(_, holder)| holder);
        assert_eq!(holder.as_deref(), Some(NAMES[*owner]), "{file}");
    }
    assert!(Path::new(&storm.sandbox.path().join(".git/onus-calls")).exists());
    assert!(
        storm.told > 0 && storm.wrote.len() > 3 && storm.refused > 0,
        "a storm in which nothing happened"
    );
    eprintln!(
        "storm: {steps} steps, {} stray writes told, {} refused, {} files generated",
        storm.told,
        storm.refused,
        2 * storm.made
    );
}
