//! What stands in a hook file: a script of ours, or one line of ours in somebody else's.
//!
//! Where there is a shell script already, one line is put behind its first: the script then runs as it did, under its own name and in
//! its own folder, with its arguments and its standard input. Any other hook is called by a script of ours.
//!
//! The line says nothing if the program is gone, except once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::{Hook, KEPT_INDEX, KEPT_TEMPLATE, PROBE};

/// Ends every line of ours.
const MARK: &[u8] = b" # onus guard";

/// Begins every script of ours.
const HEAD: &str = "#!/bin/sh\n# Checks commits: `onus guard uninstall` restores what was here before.\n";

/// Shells in whose scripts a line of ours means what it says.
const SHELLS: [&[u8]; 7] = [b"sh", b"bash", b"dash", b"ash", b"ksh", b"mksh", b"zsh"];

/// The line that runs the program. `is_alone`: there is nothing else in the hook.
fn line(hook: Hook, program: &Path, is_alone: bool) -> Vec<u8> {
    let mut line = b"onus=".to_vec();
    line.extend(quoted(program.as_os_str()));
    line.extend(b"; [ -x \"$onus\" ] || onus=$(command -v onus) || onus=; if [ -z \"$onus\" ]; then ");
    line.extend(b"if mkdir \"${0%/*}/.onus/told\" 2>/dev/null; then ");
    line.extend(b"echo 'onus: the program is gone, so commits are not checked (said once)' >&2; fi; ");
    line.extend(format!("else {}; fi", call(hook, "\"$onus\"", is_alone)).as_bytes());
    line.extend(MARK);
    line.push(b'\n');
    line
}

/// Only a refusal ends the hook, or a probe (7): a program that crashes, or is killed, fails no commit.
const REFUSED: &str = "case $onus_code in 4|5|6|7) exit 1 ;; esac";

/// How the program is called in a hook.
fn call(hook: Hook, program: &str, is_alone: bool) -> String {
    let name = hook.as_str();
    match hook {
        // It reads what the rest of the script reads again.
        Hook::PrePush => format!(
            "onus_in=$(mktemp) && {{ cat >\"$onus_in\"; onus_code=0; {program} guard hook {name} \"$@\" \
             <\"$onus_in\" || onus_code=$?; exec <\"$onus_in\"; rm -f \"$onus_in\"; {REFUSED}; }}"
        ),
        // Git has fixed the tree of the commit by now. An editor, or the hooks after this line, may change the index before
        // commit-msg judges it, so the index is kept under a second name. A template is kept, too: git does not commit one that
        // nobody touched. Only what is picked from elsewhere is judged here: no other commit waits for the program.
        Hook::PrepareCommitMsg => {
            // Git sets the editor to `:` for a commit that needs none.
            let if_needed = match is_alone {
                true => " && { [ \"${GIT_EDITOR:-}\" != : ] || [ -e \"$onus_kept\" ]; }",
                false => "",
            };
            // Git starts a hook in the worktree's root, and names the git directory only if it is not `.git` there.
            format!(
                "onus_in=${{GIT_INDEX_FILE:-}}; onus_dir=${{GIT_DIR:-.git}}; onus_kept=\"$onus_dir/{KEPT_INDEX}\"; \
             if [ -n \"$onus_in\" ]{if_needed}; then \
             ln -f \"$onus_in\" \"$onus_kept\" 2>/dev/null || rm -f \"$onus_kept\"; fi; \
             if [ \"${{2:-}}\" = template ]; then cp -f \"$1\" \"$onus_dir/{KEPT_TEMPLATE}\" 2>/dev/null || :; fi; \
             if [ -e \"$onus_dir/CHERRY_PICK_HEAD\" ] || [ -d \"$onus_dir/rebase-merge\" ] || \
             [ -d \"$onus_dir/reftable\" ] || [ -n \"${{{PROBE}:-}}\" ]; then {}; fi",
                plain(name, program)
            )
        }
        _ => plain(name, program),
    }
}

fn plain(name: &str, program: &str) -> String {
    format!("onus_code=0; {program} guard hook {name} \"$@\" || onus_code=$?; {REFUSED}")
}

/// A word of a shell's command line, whatever is in it.
fn quoted(word: &OsStr) -> Vec<u8> {
    let parts: Vec<&[u8]> = word.as_bytes().split(|byte| *byte == b'\'').collect();
    [b"'", parts.join(&b"'\\''"[..]).as_slice(), b"'"].concat()
}

/// A script of ours. `before`: the hook that there was, from the script's folder.
pub(super) fn whole(hook: Hook, program: &Path, before: Option<&str>) -> Vec<u8> {
    let mut text = HEAD.as_bytes().to_vec();
    text.extend(line(hook, program, before.is_none()));
    if let Some(before) = before {
        text.extend(format!("exec \"${{0%/*}}/{before}\" \"$@\"\n").as_bytes());
    }
    text
}

pub(super) fn is_whole(text: &[u8]) -> bool {
    text.starts_with(HEAD.as_bytes())
}

pub(super) fn has_line(text: &[u8]) -> bool {
    lines(text).any(is_ours)
}

/// A shell script with our line behind its first. None: it is not one.
pub(super) fn with_line(text: &[u8], hook: Hook, program: &Path) -> Option<Vec<u8>> {
    let bare = without_line(text);
    let first = lines(&bare).next().filter(|first| is_shell(first))?.to_vec();
    let mut with = first.clone();
    if !with.ends_with(b"\n") {
        with.push(b'\n');
    }
    with.extend(line(hook, program, false));
    with.extend(&bare[first.len()..]);
    Some(with)
}

/// The same without our line.
pub(super) fn without_line(text: &[u8]) -> Vec<u8> {
    lines(text).filter(|line| !is_ours(line)).flatten().copied().collect()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn is_ours(line: &[u8]) -> bool {
    line.strip_suffix(b"\n").unwrap_or(line).ends_with(MARK) && line.starts_with(b"onus=")
}

/// Whether a first line has a shell run what follows: `#!/bin/sh -e`, `#!/usr/bin/env bash`.
fn is_shell(first: &[u8]) -> bool {
    let Some(command) = first.strip_prefix(b"#!") else { return false };
    let mut words = command.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let base = |word: &[u8]| word.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
    let program = words.next().map(base);
    let program = match program.as_deref() {
        Some(b"env") => words.find(|word| !word.starts_with(b"-")).map(base),
        _ => program,
    };
    program.is_some_and(|program| SHELLS.contains(&program.as_slice()))
}

/// Whether a script that is not ours seems to call us.
pub(super) fn calls_us(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains("onus guard hook")
}

/// The line for a folder that is not ours to write.
pub fn line_to_add(hook: Hook) -> String {
    format!("if command -v onus >/dev/null; then {}; fi", call(hook, "onus", false))
}

#[cfg(test)]
#[path = "../../../../tests/support/program.rs"]
mod program;

#[cfg(test)]
mod tests {
    use super::program::program as write_program;
    use super::*;

    #[test]
    fn a_line_goes_into_shell_scripts_only_and_comes_out_again() {
        let program = Path::new("/opt/o'nus/onus");
        for script in
            ["#!/bin/sh\necho a\n", "#! /usr/bin/env -S bash -e\n\nexit 3", "#!/bin/dash\n", "#!/bin/zsh"]
        {
            for &hook in Hook::ALL {
                let with = with_line(script.as_bytes(), hook, program).unwrap();
                assert!(has_line(&with) && !has_line(script.as_bytes()));
                assert_eq!(lines(&with).filter(|line| is_ours(line)).count(), 1);
                assert_eq!(with_line(&with, hook, program).unwrap(), with, "twice is once");
                let back = without_line(&with);
                assert_eq!(String::from_utf8_lossy(&back).trim_end(), script.trim_end());
            }
        }
        for other in
            ["#!/usr/bin/python3\n", "#!/usr/bin/env fish\n", "echo no first line\n", "", "\u{7f}ELF\0"]
        {
            assert!(with_line(other.as_bytes(), Hook::CommitMsg, program).is_none(), "{other}");
        }
    }

    /// Runs a hook's text in a real shell, with a program in the place of ours.
    fn ran(text: &[u8], folder: &Path, input: &str) -> (Option<i32>, String) {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let hook = folder.join("hook");
        std::fs::write(&hook, text).unwrap();
        let path = std::env::join_paths(
            std::iter::once(folder.to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new("/bin/sh");
        command.arg("-eu").arg(&hook).env("PATH", path.unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap();
        (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
    }

    #[test]
    fn only_a_refusal_ends_a_hook_and_the_rest_of_it_reads_what_git_says() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("onus");
        for (end, expected) in [
            ("exit 0", 0),
            ("exit 1", 0),
            ("exit 2", 0),
            ("exit 8", 0),
            ("exit 101", 0),
            ("kill -SEGV $$", 0),
            ("kill -KILL $$", 0),
            ("exit 4", 1),
            ("exit 5", 1),
            ("exit 6", 1),
            ("exit 7", 1),
        ] {
            write_program(&program, format!("#!/bin/sh\ncat >/dev/null\n{end}\n"));
            for hook in [Hook::CommitMsg, Hook::PrePush] {
                let rest = if hook == Hook::PrePush { "cat\n" } else { "echo ran\n" };
                let said = if hook == Hook::PrePush { "one\ntwo\n" } else { "ran\n" };
                let own = [b"#!/bin/sh\n".as_slice(), &line(hook, &program, false), rest.as_bytes()].concat();
                let added = format!("#!/bin/sh\n{}\n{rest}", line_to_add(hook)).into_bytes();
                for text in [own, added] {
                    let (code, out) = ran(&text, folder.path(), "one\ntwo\n");
                    let out_expected = if expected == 0 { said } else { "" };
                    assert_eq!((code, out.as_str()), (Some(expected), out_expected), "{end}, {hook:?}");
                }
            }
        }
    }
}
