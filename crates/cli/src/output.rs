//! Answers for people and programs. With `--json`: exactly one document on stdout, prose only on stderr.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};

use onus_core::refusal::{Code, Refusal};
use onus_engine::{Notice, Reply};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    color: bool,
}

impl Output {
    pub(crate) fn new(json: bool, color: &str) -> Output {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            "always" => true,
            "never" => false,
            _ => std::io::stdout().is_terminal() && !no_color,
        };
        Output { json, color: color && !json }
    }

    /// A value as one document, with its notices inside it.
    pub(crate) fn document(&self, value: impl Serialize, notices: &[Notice]) {
        let mut value = serde_json::to_value(value).unwrap_or_default();
        if let (Value::Object(object), false) = (&mut value, notices.is_empty()) {
            object.insert("notices".into(), json!(notices));
        }
        self.line(&value.to_string());
    }

    /// A line on stdout.
    pub(crate) fn line(&self, text: &str) {
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
            unwritten(&error);
        }
    }

    /// A text as it is, or as the one field of a document.
    pub(crate) fn answer(&self, name: &str, text: &str) {
        if self.json {
            self.line(&json!({ name: text }).to_string());
        } else {
            self.line(text);
        }
    }

    pub(crate) fn notices(&self, notices: &[Notice]) {
        if self.json {
            return;
        }
        for notice in notices {
            note(&format!("notice: {}", escape(&notice.message)));
        }
    }

    /// The answer to a change: a task, a lease or an actor, with what goes beside it.
    pub(crate) fn reply(&self, reply: &Reply, value: Value, prose: impl FnOnce() -> String) {
        if self.json {
            let mut value = value;
            if let Value::Object(object) = &mut value {
                if reply.replayed {
                    object.insert("replayed".into(), json!(true));
                }
                if reply.existing {
                    object.insert("existing".into(), json!(true));
                }
            }
            return self.document(value, &reply.notices);
        }
        let again = if reply.replayed { " (done before, under the same key)" } else { "" };
        self.line(&format!("{}{again}", prose()));
        self.notices(&reply.notices);
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    pub(crate) fn good(&self, text: &str) -> String {
        self.styled(AnsiColor::Green.on_default(), text)
    }

    pub(crate) fn bad(&self, text: &str) -> String {
        self.styled(AnsiColor::Red.on_default(), text)
    }

    fn styled(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// A refusal, and the exit code that goes with it.
pub(crate) fn refuse(json: bool, refusal: &Refusal) -> u8 {
    if json {
        Output { json: true, color: false }.line(&json!({ "error": refusal }).to_string());
    } else {
        note(&format!("onus: {}", escape(&refusal.message)));
        for candidate in &refusal.candidates {
            note(&format!("  candidate: {}", escape(candidate)));
        }
        for step in &refusal.next {
            note(&format!("  next: {}", escape(step)));
        }
    }
    refusal.exit_code()
}

/// Ends the process after stdout could not be written. A reader that went away is no error: there is nobody left to
/// tell. An answer that got lost on its way to a file is one.
pub(crate) fn unwritten(error: &std::io::Error) -> ! {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    note(&format!("onus: the answer cannot be written: {error}"));
    std::process::exit(Code::Unexpected.exit_code().into());
}

/// A line on stderr.
pub(crate) fn note(text: &str) {
    // Nobody listens: nothing to do about it.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Text as it may stand on a terminal: control characters, and those that turn the direction of writing, are shown
/// as escapes, so that no title can paint over what stands around it. Line breaks and tabs stay.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// The same for what must stay on its line.
pub(crate) fn escape_line(text: &str) -> String {
    escape(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// A path as JSON can carry it: what is not UTF-8 in it is marked.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A path as it may stand on a terminal.
pub(crate) fn path_line(path: &Path) -> String {
    escape_line(&path_text(path))
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{061c}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_on_a_terminal_can_hide_or_repaint() {
        assert_eq!(escape("a\u{1b}[31mb\u{202e}c\u{7f}"), "a\\u{1b}[31mb\\u{202e}c\\u{7f}");
        assert_eq!(escape("zwölf 漢字 🦀\n"), "zwölf 漢字 🦀\n");
        assert_eq!(escape_line("a\nb"), "a\\nb");
    }
}
