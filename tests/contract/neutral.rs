//! What decides names no interface: no command, option or variable of the command line is in its sources. Each interface has
//! its own words, in one file.

use std::path::{Path, PathBuf};

use regex::Regex;

use crate::contract::kit::commands;
use crate::support::{Sandbox, below};

fn sources(folder: &Path) -> Vec<PathBuf> {
    // The suite that stores are tested with starts servers.
    let mut found = below(folder, |path| !path.ends_with("conformance"));
    found.retain(|path| path.extension().is_some_and(|end| end == "rs") && !path.ends_with("tests.rs"));
    found
}

/// The code of a file, without its comments and tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// A command of the binary, as one would type it. There is also "an onus store".
pub(crate) fn commands_typed() -> Regex {
    let mut names = commands(&Sandbox::empty());
    assert!(names.remove("store") && names.len() > 40, "{names:?}");
    let names: Vec<String> = names.into_iter().chain(["store (copy|migrate)".to_owned()]).collect();
    Regex::new(&format!(r"\bonus ({})\b", names.join("|"))).unwrap()
}

#[test]
fn what_decides_names_no_command_option_or_variable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let command = commands_typed();
    // Of git and its like the crates further down run programs, with options of theirs.
    let own = Regex::new(r#"[ "'`]--[a-z]|\bONUS_"#).unwrap();
    let mut looked_at = 0;
    for (folder, is_pure) in [
        ("core/src", true),
        ("engine/src", true),
        ("store/src", true),
        ("repo/src", false),
        ("dispatch/src", false),
        ("agents/src/hook", true),
        ("server/src", true),
    ] {
        for file in sources(&root.join(folder)) {
            let code = code(&file);
            looked_at += 1;
            // What an agent's shell is asked to run has options of its own.
            if file.ends_with("git_hooks/script.rs") {
                // What git's hooks run is a command.
                continue;
            }
            let is_pure = is_pure && !file.components().any(|part| part.as_os_str() == "shell");
            let found = command.find(&code).or_else(|| own.find(&code).filter(|_| is_pure));
            assert!(found.is_none(), "{}: {:?}", file.display(), found.map(|found| found.as_str()));
        }
    }
    assert!(looked_at > 100, "{looked_at}");
}
