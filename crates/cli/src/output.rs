//! Answers for people and programs. With `--json`: exactly one document on stdout, prose only on stderr.

use std::io::{IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};

use onus_core::quote::is_hidden;
use onus_core::refusal::{Code, Forced, Refusal};
use onus_core::task::State;
use onus_engine::{Notice, Reply};

use crate::{wording, wrap};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    color: bool,
    /// Width of the screen in columns; None if the output does not go to a screen.
    pub(crate) width: Option<usize>,
}

impl Output {
    pub(crate) fn new(json: bool, color: &str) -> Output {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            "always" => true,
            "never" => false,
            _ => std::io::stdout().is_terminal() && !no_color,
        };
        Output { json, color: color && !json, width: screen_width(&std::io::stdout()) }
    }

    /// Prints JSON documents, one per line, even without `--json`.
    pub(crate) fn of_documents() -> Output {
        Output { json: true, color: false, width: None }
    }

    /// Prints a value as one document, with the notices inside it.
    pub(crate) fn document(&self, value: impl Serialize, notices: &[Notice]) {
        let mut value = serde_json::to_value(value).unwrap_or_default();
        if let (Value::Object(object), false) = (&mut value, notices.is_empty()) {
            let notices: Vec<_> = notices.iter().map(wording::notice).collect();
            object.insert("notices".into(), json!(notices));
        }
        self.line(&value.to_string());
    }

    /// Prints a report, with the refusal if not all is well, and returns the exit code.
    pub(crate) fn report(&self, mut report: Value, refusal: Option<&Refusal>) -> u8 {
        if let Some(refusal) = refusal {
            report["error"] = json!(wording::refusal(refusal));
        }
        self.document(report, &[]);
        refusal.map_or(0, Refusal::exit_code)
    }

    /// Prints a line on stdout. Hidden characters do not get through, except our own colours; in a document they become
    /// JSON escapes, which programs read as the original characters.
    pub(crate) fn line(&self, text: &str) {
        let shown = if self.json { json_escaped(text) } else { self.shown(text) };
        let mut stdout = std::io::stdout().lock();
        if let Err(error) = writeln!(stdout, "{shown}").and_then(|()| stdout.flush()) {
            unwritten(&error);
        }
    }

    /// Prints a text in a foreign format whose lines end in CRLF. No other hidden characters get through.
    pub(crate) fn file(&self, text: &str) {
        let lines: Vec<String> = text.split("\r\n").map(escape).collect();
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(lines.join("\r\n").as_bytes()).and_then(|()| stdout.flush());
        if let Err(error) = written {
            unwritten(&error);
        }
    }

    fn shown(&self, text: &str) -> String {
        if !self.color {
            return escape(text);
        }
        let mut shown = String::with_capacity(text.len());
        for (at, piece) in text.split('\u{1b}').enumerate() {
            let style = piece.strip_prefix('[').and_then(|rest| rest.find('m').map(|end| &piece[..end + 2]));
            let style = style
                .filter(|style| style[1..style.len() - 1].bytes().all(|b| b.is_ascii_digit() || b == b';'));
            match style {
                Some(style) if at > 0 => {
                    shown.push('\u{1b}');
                    shown.push_str(style);
                    shown.push_str(&escape(&piece[style.len()..]));
                }
                _ => {
                    shown.push_str(if at > 0 { "\\u{1b}" } else { "" });
                    shown.push_str(&escape(piece));
                }
            }
        }
        shown
    }

    /// Prints lines for people, wrapped to the screen.
    pub(crate) fn prose(&self, text: &str) {
        match self.width.filter(|_| !self.json) {
            Some(columns) => self.line(&wrap::wrapped(text, columns)),
            None => self.line(text),
        }
    }

    /// Prints a text as prose, or as the one field of a document.
    pub(crate) fn prose_answer(&self, name: &str, text: &str) {
        if self.json { self.answer(name, text) } else { self.prose(text) }
    }

    /// Prints a text as it is, or as the one field of a document.
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
            note(&format!("notice: {}", wording::notice_line(notice)));
        }
    }

    /// Prints an answer: a document for programs, prose for people, with its notices.
    pub(crate) fn show(&self, value: impl Serialize, notices: &[Notice], prose: impl FnOnce() -> String) {
        self.document_or(value, notices, || self.prose(&prose()));
    }

    /// Prints an answer: a document for programs, for people what `tell` prints, with its notices.
    pub(crate) fn document_or(&self, value: impl Serialize, notices: &[Notice], tell: impl FnOnce()) {
        if self.json {
            return self.document(value, notices);
        }
        tell();
        self.notices(notices);
    }

    /// Prints the answer to a change (a task, a lease or an actor) with its notices.
    pub(crate) fn reply(&self, reply: &Reply, mut value: Value, prose: impl FnOnce() -> String) {
        let flags =
            [("replayed", reply.replayed), ("existing", reply.existing), ("unchanged", reply.unchanged)];
        if let Value::Object(object) = &mut value {
            let set = flags.into_iter().filter(|(_, is_set)| *is_set);
            object.extend(set.map(|(name, _)| (name.to_owned(), json!(true))));
        }
        let again = if reply.replayed { " (already done, under the same key)" } else { "" };
        self.show(value, &reply.notices, || format!("{}{again}", prose()));
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

    /// A state in its colour.
    pub(crate) fn state(&self, state: State) -> String {
        self.styled(state_style(state), state.spoken())
    }

    pub(crate) fn styled(&self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// States that need somebody stand out; finished ones do not.
pub(crate) fn state_style(state: State) -> Style {
    match state {
        State::Proposed => AnsiColor::Magenta.on_default(),
        State::Open => Style::new(),
        State::InProgress => AnsiColor::Cyan.on_default(),
        State::Blocked | State::Failed => AnsiColor::Red.on_default(),
        State::Review => AnsiColor::Yellow.on_default(),
        State::Done => AnsiColor::Green.on_default(),
        State::Dropped => Style::new().dimmed(),
    }
}

/// `COLUMNS`, where it is set; else what the terminal says, if there is one.
fn screen_width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    said.filter(|columns| (1..=10_000).contains(columns)).or_else(|| {
        let size = stream.is_terminal().then(|| terminal_size::terminal_size_of(stream));
        size.flatten().map(|(terminal_size::Width(columns), _)| usize::from(columns))
    })
}

/// A document that may be long: it is written as it is serialized, and never in memory as a whole.
pub(crate) struct LongDocument(Escaping<std::io::BufWriter<std::io::StdoutLock<'static>>>);

impl Default for LongDocument {
    fn default() -> LongDocument {
        LongDocument(Escaping(std::io::BufWriter::new(std::io::stdout().lock())))
    }
}

impl LongDocument {
    /// Writes the text between values.
    pub(crate) fn raw(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap_or_else(|error| unwritten(&error));
    }

    pub(crate) fn value(&mut self, value: &impl Serialize) {
        serde_json::to_writer(&mut self.0, value).unwrap_or_else(|error| unwritten(&error.into()));
    }

    pub(crate) fn end(mut self) {
        self.raw("}\n");
        self.0.flush().unwrap_or_else(|error| unwritten(&error));
    }
}

/// Escapes the hidden characters in documents. A serializer never splits a character between two writes.
struct Escaping<W>(W);

impl<W: std::io::Write> std::io::Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !bytes.is_ascii() || bytes.contains(&0x7f) => {
                self.0.write_all(json_escaped(text).as_bytes())?;
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// Escapes the hidden characters of a document. They occur only inside its strings, where an escape means the same.
fn json_escaped(document: &str) -> String {
    let mut escaped = String::with_capacity(document.len());
    for c in document.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\t') {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Prints a refusal and returns its exit code.
pub(crate) fn refuse(json: bool, refusal: &Refusal) -> u8 {
    let said = wording::refusal(refusal);
    if json {
        Output::of_documents().line(&json!({ "error": said }).to_string());
    } else {
        note(&format!("onus: {}", refusal.message));
        for candidate in &refusal.candidates {
            note(&format!("  candidate: {candidate}"));
        }
        for step in &said.next {
            note(&format!("  next: {step}"));
        }
        if let Some(way) = &said.override_ {
            let is_recorded = refusal.overridable.as_ref().is_some_and(|way| way.by != Forced::LiveCopy);
            let recorded = if is_recorded { "; recorded" } else { "" };
            note(&format!("  override: {way}   # people only{recorded}"));
        }
    }
    refusal.exit_code()
}

/// Ends the process after a failed write to stdout. A reader that went away is no error: nobody is left to tell. An
/// answer that was lost on its way to a file is one.
pub(crate) fn unwritten(error: &std::io::Error) -> ! {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    note(&format!("onus: cannot write the answer: {error}"));
    std::process::exit(Code::Unexpected.exit_code().into());
}

/// Prints a line on stderr, with hidden characters escaped.
pub(crate) fn note(text: &str) {
    let text = escape(text);
    let stderr = std::io::stderr();
    let shown = match screen_width(&stderr) {
        Some(columns) => wrap::wrapped(&text, columns),
        None => text,
    };
    // If stderr is closed, there is nobody left to tell.
    let _ = writeln!(stderr.lock(), "{shown}");
}

pub(crate) use onus_core::quote::{visible as escape, visible_line as escape_line};

/// A path for JSON; bytes that are not UTF-8 become replacement characters.
pub(crate) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A path that is safe to print on a terminal.
pub(crate) fn path_line(path: &Path) -> String {
    escape_line(&path_text(path))
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

    #[test]
    fn a_long_document_is_what_a_short_one_would_be() {
        let texts = [
            "plain",
            "a\u{1b}[31mb\u{202e}c\u{7f}",
            "zwölf 漢字 🦀\n\t\"\\",
            "\u{e0001}\u{1f469}\u{200d}\u{1f52c}",
        ];
        let mut long = Escaping(Vec::new());
        serde_json::to_writer(&mut long, &texts).unwrap();
        assert_eq!(String::from_utf8(long.0).unwrap(), json_escaped(&json!(texts).to_string()));
    }

    #[test]
    fn only_our_own_colours_get_through() {
        let plain = Output { json: false, color: false, width: None };
        let coloured = Output { color: true, ..plain };
        let text = format!("{} \u{1b}]0;x\u{7} \u{1b}[2J \u{1b} \u{202e}", coloured.bold("a"));
        assert_eq!(
            coloured.shown(&text),
            "\u{1b}[1ma\u{1b}[0m \\u{1b}]0;x\\u{7} \\u{1b}[2J \\u{1b} \\u{202e}"
        );
        assert!(!plain.shown(&text).contains('\u{1b}'), "{}", plain.shown(&text));
    }
}
