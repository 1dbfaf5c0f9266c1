//! Splits a shell command into words, redirections and pipelines, as far as it is understood.

use std::ops::Range;

/// One word, without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether no expansion can change it.
    pub(super) is_literal: bool,
    /// Whether no part of it is quoted.
    is_bare: bool,
}

impl Word {
    /// A word that is part of another.
    pub(super) fn part(text: &str, of: &Word) -> Word {
        Word { text: text.to_owned(), ..*of }
    }
}

/// A program with its arguments, and where its output goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Simple {
    pub(super) words: Vec<Word>,
    /// The targets of redirections.
    pub(super) targets: Vec<Word>,
    /// Here-documents: the text, and whether it is taken literally.
    pub(super) texts: Vec<(String, bool)>,
}

/// Programs connected by pipes.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) commands: Range<usize>,
    /// Whether the next one runs in the same shell, after this one.
    pub(super) is_followed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    pub(super) commands: Vec<Simple>,
    pub(super) pipelines: Vec<Pipeline>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// Into a file.
    Output,
    /// From a file, or from a word.
    Input,
    /// From the lines that follow: a here-document.
    Text {
        strips_tabs: bool,
    },
    Pipe,
    /// `;`, `&&` or the end of a line.
    Next {
        ends_line: bool,
    },
    /// `||` or `&`.
    Else,
    End,
    /// What is not understood.
    Unknown,
}

/// A here-document that begins after the current line.
#[derive(Debug)]
struct Awaited {
    mark: String,
    strips_tabs: bool,
    /// Of which command, and which of its texts.
    place: (usize, usize),
}

impl Script {
    pub(super) fn of_argv(argv: &[String]) -> Script {
        let word = |text: &String| Word { text: text.clone(), is_literal: true, is_bare: false };
        let simple = Simple { words: argv.iter().map(word).collect(), ..Simple::default() };
        Script::default().finish(simple, 0, true)
    }

    pub(super) fn read(command: &str) -> Script {
        let mut scanner = Scanner { rest: command };
        let (mut script, mut simple, mut awaited) = (Script::default(), Simple::default(), Vec::new());
        let mut begin = 0;
        loop {
            let token = scanner.token();
            let operand = match token {
                Token::Output | Token::Input | Token::Text { .. } => match scanner.token() {
                    Token::Word(word) => Some(word),
                    _ => return script.finish(simple, begin, false),
                },
                _ => None,
            };
            match (&token, operand) {
                (Token::Output, Some(word)) => simple.targets.push(word),
                (Token::Input, Some(_)) => {}
                (Token::Text { strips_tabs }, Some(word)) => {
                    let place = (script.commands.len(), simple.texts.len());
                    // With a quoted mark the text is taken literally.
                    simple.texts.push((String::new(), !word.is_bare));
                    awaited.push(Awaited { mark: word.text, strips_tabs: *strips_tabs, place });
                }
                (Token::Word(word), _) => {
                    // Other rules apply inside these.
                    if simple.words.is_empty()
                        && matches!(word.text.as_str(), "[[" | "function" | "case" | "select" | "coproc")
                    {
                        return script.finish(Simple::default(), begin, false);
                    }
                    simple.words.push(word.clone());
                }
                (Token::End, _) => return script.finish(simple, begin, true),
                (Token::Pipe | Token::Next { .. } | Token::Else, _) => {
                    script.push(std::mem::take(&mut simple));
                    if token == (Token::Next { ends_line: true }) {
                        for Awaited { mark, strips_tabs, place: (command, text) } in awaited.drain(..) {
                            let found = scanner.text(&mark, strips_tabs);
                            if let Some(simple) = script.commands.get_mut(command) {
                                simple.texts[text].0 = found;
                            }
                        }
                    }
                    let end = script.commands.len();
                    if token != Token::Pipe && begin < end {
                        let is_followed = token != Token::Else;
                        script.pipelines.push(Pipeline { commands: begin..end, is_followed });
                        begin = end;
                    }
                }
                _ => return script.finish(simple, begin, false),
            }
        }
    }

    fn push(&mut self, simple: Simple) {
        if !simple.words.is_empty() || !simple.targets.is_empty() || !simple.texts.is_empty() {
            self.commands.push(simple);
        }
    }

    /// Keeps what was understood; of a program whose arguments are not all known, only where its output goes.
    fn finish(mut self, mut simple: Simple, begin: usize, is_whole: bool) -> Script {
        if !is_whole {
            simple.words.clear();
        }
        self.push(simple);
        self.pipelines.push(Pipeline { commands: begin..self.commands.len(), is_followed: false });
        self
    }
}

struct Scanner<'a> {
    rest: &'a str,
}

impl Scanner<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn token(&mut self) -> Token {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
            if self.rest.starts_with('#') {
                self.rest = &self.rest[self.rest.find('\n').unwrap_or(self.rest.len())..];
            } else if !self.take("\\\n") {
                break;
            }
        }
        let Some(first) = self.rest.chars().next() else { return Token::End };
        match first {
            '\n' | ';' => {
                self.rest = &self.rest[1..];
                match first == ';' && self.rest.starts_with([';', '&']) {
                    true => Token::Unknown,
                    false => Token::Next { ends_line: first == '\n' },
                }
            }
            '&' if self.take("&&") => Token::Next { ends_line: false },
            '&' if self.take("&>>") || self.take("&>") => Token::Output,
            '&' => {
                self.rest = &self.rest[1..];
                Token::Else
            }
            '|' if self.take("||") => Token::Else,
            '|' => {
                let _ = self.take("|&") || self.take("|");
                Token::Pipe
            }
            '<' | '>' => self.redirection(),
            '(' | ')' => Token::Unknown,
            _ => self.word(),
        }
    }

    fn redirection(&mut self) -> Token {
        if self.take("<<<") {
            return Token::Input;
        }
        if self.take("<<-") {
            return Token::Text { strips_tabs: true };
        }
        if self.take("<<") {
            return Token::Text { strips_tabs: false };
        }
        if self.take("<&") {
            return Token::Input;
        }
        if self.take(">&") {
            // To another descriptor, or as `&>`.
            let is_number = self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '-');
            return if is_number { Token::Input } else { Token::Output };
        }
        if self.take("<>") || self.take(">>") || self.take(">|") || self.take(">") {
            return Token::Output;
        }
        self.rest = &self.rest[1..];
        Token::Input
    }

    fn word(&mut self) -> Token {
        let mut word = Word { text: String::new(), is_literal: true, is_bare: true };
        while let Some(c) = self.rest.chars().next() {
            if matches!(c, ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') {
                break;
            }
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '\'' => {
                    let Some(end) = self.rest.find('\'') else { return Token::Unknown };
                    word.text.push_str(&self.rest[..end]);
                    word.is_bare = false;
                    self.rest = &self.rest[end + 1..];
                }
                '"' => {
                    word.is_bare = false;
                    if !self.quoted(&mut word) {
                        return Token::Unknown;
                    }
                }
                '\\' => match self.rest.chars().next() {
                    Some('\n') => self.rest = &self.rest[1..],
                    Some(c) => {
                        word.text.push(c);
                        word.is_bare = false;
                        self.rest = &self.rest[c.len_utf8()..];
                    }
                    None => return Token::Unknown,
                },
                '`' => return Token::Unknown,
                '$' => {
                    if !self.variable(&mut word)
                        || self.rest.starts_with(['\'', '"']) && word.text.ends_with('$')
                    {
                        return Token::Unknown;
                    }
                }
                '~' if word.text.is_empty() && word.is_bare => {
                    word.text.push(c);
                    word.is_literal = false;
                }
                '*' | '?' | '[' | '{' | '}' => {
                    let is_alone = word.text.is_empty()
                        && matches!(c, '{' | '}' | '[')
                        && (self.rest.is_empty() || self.rest.starts_with([' ', '\t', '\n', ';', '[']));
                    word.text.push(c);
                    word.is_literal &= is_alone;
                }
                c => word.text.push(c),
            }
        }
        let is_descriptor = word.is_bare
            && !word.text.is_empty()
            && word.text.bytes().all(|byte| byte.is_ascii_digit())
            && self.rest.starts_with(['<', '>']);
        if is_descriptor { self.redirection() } else { Token::Word(word) }
    }

    /// Reads text between double quotes. False if it is not understood.
    fn quoted(&mut self, word: &mut Word) -> bool {
        while let Some(c) = self.rest.chars().next() {
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '"' => return true,
                '`' => return false,
                '$' => {
                    if !self.variable(word) {
                        return false;
                    }
                }
                '\\' => match self.rest.chars().next() {
                    Some('\n') => self.rest = &self.rest[1..],
                    Some(c @ ('$' | '`' | '"' | '\\')) => {
                        word.text.push(c);
                        self.rest = &self.rest[1..];
                    }
                    _ => word.text.push('\\'),
                },
                c => word.text.push(c),
            }
        }
        false
    }

    /// Reads a variable after a `$`. False if it is not understood.
    fn variable(&mut self, word: &mut Word) -> bool {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = match self.rest.strip_prefix('{') {
            Some(inside) => {
                let name = &inside[..inside.find(|c| !is_name(c)).unwrap_or(inside.len())];
                if !inside[name.len()..].starts_with('}') {
                    return false;
                }
                self.rest = &inside[name.len() + 1..];
                name
            }
            None if self.rest.starts_with('(') => return false,
            None => {
                let special = self.rest.starts_with(['?', '$', '!', '#', '@', '*', '-']);
                let end =
                    if special { 1 } else { self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len()) };
                let name = &self.rest[..end];
                self.rest = &self.rest[end..];
                name
            }
        };
        word.text.push('$');
        // A `$` alone is literal.
        if !name.is_empty() {
            word.text.push_str(name);
            word.is_literal = false;
        }
        true
    }

    /// Reads the lines up to a mark.
    fn text(&mut self, mark: &str, strips_tabs: bool) -> String {
        let from = self.rest;
        let mut length = 0;
        for line in from.split_inclusive('\n') {
            let bare = line.trim_end_matches(['\n', '\r']);
            let bare = if strips_tabs { bare.trim_start_matches('\t') } else { bare };
            if bare == mark {
                self.rest = &from[length + line.len()..];
                return from[..length].to_owned();
            }
            length += line.len();
        }
        self.rest = "";
        from.to_owned()
    }
}
