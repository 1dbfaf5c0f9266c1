//! What the manual pages say beyond the parser's help: exit codes, environment, files.

use onus_host::config::KEYS;

/// Exit codes are API.
pub(crate) const EXIT_CODES: [(u8, &str); 9] = [
    (0, "done"),
    (1, "unexpected"),
    (2, "usage or identity"),
    (3, "not found"),
    (4, "held by another, kept for another, or scope conflict"),
    (5, "fenced: your lease is no longer current"),
    (
        6,
        "not allowed: transition, dependency, cycle, tier, limit, constraint, gate, conflict, uncommitted work, policy",
    ),
    (7, "nothing to do"),
    (8, "store unavailable, read-only, busy or damaged"),
];

/// Environment variables that are not configuration keys.
const ENVIRONMENT: [(&str, &str); 10] = [
    ("ONUS_INSTANCE", "which instance of the actor is calling, one per conversation; ignored for people"),
    ("ONUS_TASK", "the task of commands that name none"),
    (
        "ONUS_TOKEN",
        "the token that the caller presents for ONUS_TASK, or if that is unset for the task named",
    ),
    (
        "ONUS_WORKTREE, ONUS_PORT_BASE, ONUS_GATE",
        "set for commands that onus starts in a task's worktree: where it is, the first of its own ports, and the gate's key",
    ),
    ("ONUS_GUARD_PROBE", "set by `onus guard status` to see whether git reaches the hooks"),
    ("VISUAL, EDITOR", "the editor of `onus edit`: a program and its arguments"),
    ("COLUMNS", "how wide lists are; the terminal's width if it is not set"),
    ("NO_COLOR", "set to anything: no colours"),
    ("XDG_CONFIG_HOME, XDG_STATE_HOME", "where your own files are; ~/.config and ~/.local/state if not set"),
    ("TZ", "the time zone of times for people; JSON has UTC"),
];

const FILES: [(&str, &str); 5] = [
    (".git/onus/onus.db", "the store of a repository and all its worktrees"),
    (".onus/onus.db", "the store of a folder outside git"),
    ("onus.toml", "the repository's configuration, at its root: shared and committed"),
    ("~/.config/onus/config.toml", "your own configuration"),
    ("~/.local/state/onus", "what onus remembers for you: which clones you confirmed, what setup wrote"),
];

/// The sections of the main page.
pub(crate) fn sections() -> String {
    let codes = EXIT_CODES.map(|(code, meaning)| (code.to_string(), meaning.to_owned()));
    let mut environment: Vec<(String, String)> =
        KEYS.iter().map(|key| (key.env.to_owned(), format!("{}: {}", key.name, key.about))).collect();
    environment.extend(ENVIRONMENT.map(|(name, meaning)| (name.to_owned(), meaning.to_owned())));
    let files = FILES.map(|(path, meaning)| (path.to_owned(), meaning.to_owned()));
    [section("EXIT STATUS", &codes), section("ENVIRONMENT", &environment), section("FILES", &files)].concat()
}

/// The end of every other page.
pub(crate) const SEE_ALSO: &str =
    ".SH \"EXIT STATUS\"\nAs in \\fBonus\\fR(1), which also names the environment and the files.\n";

fn section(title: &str, entries: &[(String, String)]) -> String {
    let mut text = format!(".SH \"{title}\"\n");
    for (name, meaning) in entries {
        text.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(meaning)));
    }
    text
}

/// Escapes a text so that roff takes no part of it as a request.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_variable_that_is_read_is_in_the_manual() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let page = sections();
        let (mut folders, mut found) = (vec![crates], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().contains("/src/")
                    && path.extension().is_some_and(|end| end == "rs")
                {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for name in text.split("\"ONUS_").skip(1).filter_map(|rest| rest.split_once('"')) {
                        let is_name = name.0.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
                        if is_name
                            && !name.0.is_empty()
                            && !name.0.starts_with("TEST")
                            && !name.0.starts_with("UPDATE")
                        {
                            assert!(
                                page.contains(&format!("ONUS_{}", name.0)),
                                "ONUS_{} of {}",
                                name.0,
                                path.display()
                            );
                            found += 1;
                        }
                    }
                }
            }
        }
        assert!(found > 20, "{found}");
    }

    #[test]
    fn every_exit_code_is_in_the_manual_and_no_other() {
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, (0..=8).collect::<Vec<u8>>());
    }

    #[test]
    fn a_line_that_begins_with_a_dot_is_no_command() {
        assert_eq!(escaped(".git/onus"), "\\&.git/onus");
        assert_eq!(escaped("a-b's \\"), "a\\-b\\(aqs \\e");
    }
}
