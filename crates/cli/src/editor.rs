//! Editing a text in the user's own editor.
//!
//! The editor is `VISUAL`, else `EDITOR`, else vi: a program and its arguments, split as a shell would split them, but
//! started without a shell. The text is in a folder that only the user can open. It is never lost: if the edit is refused,
//! the file stays and the refusal says where it is.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;

use onus_core::quote;
use onus_core::refusal::{Code, Refusal, Step};
use onus_host::env;
use tempfile::TempDir;

use crate::temporary::temporary_folder;

/// This line and everything after it are instructions, and are not read back.
const SCISSORS: &str = "# ------------------------ >8 ------------------------";

/// The most bytes that are read back.
const MAX_BYTES: u64 = 1 << 20;

/// The title and the body as the user left them.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) title: String,
    pub(crate) body: Option<String>,
    folder: TempDir,
    file: PathBuf,
}

/// Opens a task's texts in the editor, and reads back the result.
pub(crate) fn edit(id: &str, title: &str, body: Option<&str>) -> Result<Draft, Refusal> {
    let folder =
        temporary_folder("edit").map_err(|error| failed("a folder for the text cannot be made", &error))?;
    let file = folder.path().join(format!("{id}.md"));
    std::fs::write(&file, form(id, title, body))
        .map_err(|error| failed("the text cannot be written", &error))?;
    let argv = editor()?;
    let (program, arguments) = argv.split_first().ok_or_else(no_editor)?;
    let status = Command::new(program).args(arguments).arg(&file).status();
    let named = quote::name(program);
    let status = status.map_err(|error| failed(&format!("the editor {named} cannot be started"), &error))?;
    if !status.success() {
        let message = format!("nothing was changed: the editor {named} ended with {status}");
        return Err(Refusal::new(Code::Nothing, message));
    }
    let mut text = String::new();
    let read = std::fs::File::open(&file).and_then(|opened| opened.take(MAX_BYTES).read_to_string(&mut text));
    read.map_err(|error| failed("the text cannot be read", &error))?;
    let (title, body) = parse(&text);
    Ok(Draft { title, body, folder, file })
}

impl Draft {
    /// Keeps the file, and adds where it is to the refusal.
    pub(crate) fn kept(self, refusal: Refusal) -> Refusal {
        let _ = self.folder.keep();
        let place = quote::name(&self.file.to_string_lossy());
        refusal.next(Step::plain(format!("your text is kept in {place}")))
    }
}

fn failed(what: &str, error: &std::io::Error) -> Refusal {
    Refusal::usage(format!("{what}: {error}"))
}

fn no_editor() -> Refusal {
    Refusal::usage("VISUAL or EDITOR is set, but names no program")
}

fn editor() -> Result<Vec<String>, Refusal> {
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(env).find(|text| !text.trim().is_empty());
    let Some(named) = named else { return Ok(vec!["vi".to_owned()]) };
    shlex::split(&named).filter(|argv| !argv.is_empty()).ok_or_else(no_editor)
}

fn form(id: &str, title: &str, body: Option<&str>) -> String {
    let body = body.map(|body| format!("{body}\n\n")).unwrap_or_default();
    format!(
        "{title}\n\n{body}{SCISSORS}\n# {id}: the first line is the title, the rest its body. Whatever is below that line is left out.\n\
         # Leave both as they are, or end the editor with an error, and nothing is changed.\n"
    )
}

fn parse(text: &str) -> (String, Option<String>) {
    let kept: Vec<&str> = text.lines().take_while(|line| *line != SCISSORS).collect();
    let kept = kept.join("\n");
    let (title, body) = kept.trim().split_once('\n').unwrap_or((kept.trim(), ""));
    let body = body.trim();
    (title.trim().to_owned(), (!body.is_empty()).then(|| body.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_heading_in_a_body_is_part_of_it() {
        assert_eq!(
            parse("Title\n\n# How\n\nlike this\n"),
            ("Title".to_owned(), Some("# How\n\nlike this".to_owned()))
        );
        assert_eq!(parse("\n\nTitle\n"), ("Title".to_owned(), None));
        assert_eq!(parse(""), (String::new(), None));
    }

    proptest! {
        #[test]
        fn what_nobody_touched_comes_back_as_it_was(title in "[^\\s][^\\n\\r]{0,40}", body in proptest::option::of("(\\PC|\\n){1,80}")) {
            let (title, body) = (title.trim(), body.as_deref().map(str::trim).filter(|body| !body.is_empty()));
            prop_assume!(!title.is_empty());
            prop_assert_eq!(parse(&form("ON-1", title, body)), (title.to_owned(), body.map(str::to_owned)));
        }
    }
}
