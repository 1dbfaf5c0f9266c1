//! Reads what a conversation used of models from the transcript that its harness keeps.
//!
//! A transcript is JSON Lines, and it belongs to the harness: its format may change any day, it may be cut off, and most of it is
//! conversation, which is none of our business. So a line is read only if it may contain usage; of such a line only the numbers,
//! the model, the time and the message's id are read, and anything unexpected is skipped.
//!
//! | harness | what it writes | how it is counted |
//! | --- | --- | --- |
//! | Claude Code | each part of an answer on a line of its own, each with the whole answer's id and usage | each id once; if its lines differ, by the larger numbers |
//! | Codex | `token_count` events with running totals, some of them repeated | the increase over the last total |
//! | Gemini CLI | an answer again whenever it changes | each id once |
//!
//! **Nothing counts twice.** The [`Cursor`] says how far the file was read: its name and the offset after its last complete line. It
//! also has the last ids, for an answer whose lines are written before and after a reading. A file that was rewritten is read from its
//! start, skipping what is older than the last answer that was counted.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use onus_core::session::{Cost, Usage, UsageSource};
use onus_core::time::parse_rfc3339;

use super::Dialect;
use super::scan::{Raw, members};

/// The most that is read at once. If there is more, only the end is read, by which running totals miss nothing.
pub const MAX_READ: u64 = 32 << 20;

/// How many answers are remembered because their last line may not be written yet.
const REMEMBERED: usize = 8;

/// How far a transcript was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cursor {
    /// The name of the file.
    file: String,
    /// After the last complete line.
    offset: u64,
    /// The time of the last answer that was counted, according to the harness.
    at_ms: i64,
    /// The last answers, newest last.
    last: Vec<(String, Tokens)>,
    /// The running total, if there is one.
    total: Option<Tokens>,
    /// The model of the running total.
    model: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tokens {
    /// Including those from a cache.
    #[serde(rename = "in")]
    went_in: u64,
    out: u64,
    cached: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    micros: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Tokens {
    fn by_field(self, other: Tokens, of: impl Fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            went_in: of(self.went_in, other.went_in),
            out: of(self.out, other.out),
            cached: of(self.cached, other.cached),
            micros: of(self.micros, other.micros),
        }
    }

    fn at_least(self, other: Tokens) -> bool {
        self.by_field(other, u64::max) == self
    }

    fn beyond(self, other: Tokens) -> Tokens {
        self.by_field(other, u64::saturating_sub)
    }

    fn usage(self, model: Option<String>) -> Usage {
        Usage {
            model,
            tokens_in: Some(self.went_in),
            tokens_out: Some(self.out),
            tokens_cached: Some(self.cached),
            source: UsageSource::Actual,
            cost: (self.micros > 0).then(|| Cost { micros: self.micros, currency: "USD".to_owned() }),
        }
    }
}

/// The usage of one answer, or of one more line of it, and its time, if the harness reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub at_ms: Option<i64>,
    pub usage: Usage,
}

/// Reads on from a cursor. `size`: the file's current size.
pub fn read(
    dialect: Dialect,
    file: &mut (impl Read + Seek),
    (name, size): (&str, u64),
    cursor: Cursor,
) -> std::io::Result<(Vec<Used>, Cursor)> {
    let mut reader = Reader::new(dialect, name, size, cursor);
    let from = reader.cursor.offset.max(size.saturating_sub(MAX_READ));
    let is_cut = from > reader.cursor.offset;
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.take((size - from).min(MAX_READ)).read_to_end(&mut text)?;
    // An incomplete line is read the next time.
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = text[..whole].split(|byte| *byte == b'\n');
    if is_cut {
        lines.next();
    }
    lines.for_each(|line| reader.line(line));
    let is_endless = whole == 0 && text.len() as u64 == MAX_READ;
    reader.cursor.offset = from + if is_endless { MAX_READ } else { whole as u64 };
    Ok(reader.finish())
}

struct Reader {
    dialect: Dialect,
    cursor: Cursor,
    /// Answers before this are counted already, unless they are remembered.
    old_ms: i64,
    /// Whether it is a different file, or was rewritten.
    is_anew: bool,
    answers: Vec<Answer>,
    /// The index of each answer by its id.
    places: BTreeMap<String, usize>,
}

struct Answer {
    id: Option<String>,
    at_ms: Option<i64>,
    model: Option<String>,
    /// What was counted before.
    before: Tokens,
    tokens: Tokens,
}

impl Reader {
    fn new(dialect: Dialect, name: &str, size: u64, mut cursor: Cursor) -> Reader {
        let is_anew = cursor.file != name || size < cursor.offset;
        if is_anew {
            cursor = Cursor { file: name.to_owned(), offset: 0, total: None, ..cursor };
        }
        let old_ms = cursor.at_ms;
        Reader { dialect, cursor, old_ms, is_anew, answers: Vec::new(), places: BTreeMap::new() }
    }

    fn line(&mut self, line: &[u8]) {
        let may_tell = match self.dialect {
            Dialect::Claude => has(line, b"\"usage\""),
            Dialect::Codex => has(line, b"\"token_count\"") || has(line, b"\"turn_context\""),
            Dialect::Gemini => has(line, b"\"tokens\""),
        };
        if may_tell {
            // None: the line has no usage after all.
            let _ = match self.dialect {
                Dialect::Claude => self.claude(line),
                Dialect::Codex => self.codex(line),
                Dialect::Gemini => self.gemini(line),
            };
        }
    }

    fn claude(&mut self, line: &[u8]) -> Option<()> {
        let [kind, at, message, cost] =
            members(Raw::document(line), ["type", "timestamp", "message", "costUSD"])?;
        let [id, model, usage] = members(message?, ["id", "model", "usage"])?;
        let fields =
            ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
        let [input, created, cached, out] = members(usage?, fields)?.map(|field| field.and_then(number));
        let model = model.and_then(Raw::string);
        // Synthetic answers are the program's own, not a model's.
        let is_answer = kind?.string()? == "assistant" && model.as_deref() != Some("<synthetic>");
        if !is_answer || input.or(cached).or(out).is_none() {
            return None;
        }
        let (input, created) = (input.unwrap_or_default(), created.unwrap_or_default());
        let (cached, out) = (cached.unwrap_or_default(), out.unwrap_or_default());
        let went_in = input.saturating_add(created).saturating_add(cached);
        let tokens = Tokens { went_in, out, cached, micros: cost.and_then(micros).unwrap_or_default() };
        self.meet(id?.string()?, time(at), model, tokens);
        Some(())
    }

    fn gemini(&mut self, line: &[u8]) -> Option<()> {
        let fields = ["id", "timestamp", "model", "tokens"];
        let [id, at, model, tokens] = members(Raw::document(line), fields)?;
        let fields = ["input", "output", "cached", "thoughts", "tool"];
        let [input, out, cached, thoughts, tool] =
            members(tokens?, fields)?.map(|field| field.and_then(number));
        input.or(out)?;
        let sum = |one: Option<u64>, other: Option<u64>| {
            one.unwrap_or_default().saturating_add(other.unwrap_or_default())
        };
        let tokens = Tokens {
            went_in: sum(input, tool),
            out: sum(out, thoughts),
            cached: cached.unwrap_or_default(),
            micros: 0,
        };
        self.meet(id?.string()?, time(at), model.and_then(Raw::string), tokens);
        Some(())
    }

    fn codex(&mut self, line: &[u8]) -> Option<()> {
        let [at, kind, payload] = members(Raw::document(line), ["timestamp", "type", "payload"])?;
        let [told, info, model] = members(payload?, ["type", "info", "model"])?;
        if kind?.string()? == "turn_context" {
            self.cursor.model = model?.string();
            return None;
        }
        if told?.string()? != "token_count" {
            return None;
        }
        let [total, last] = members(info?, ["total_token_usage", "last_token_usage"])?;
        let total = running(total?)?;
        let more = match self.cursor.total.filter(|before| total.at_least(*before)) {
            Some(before) => total.beyond(before),
            // A forked conversation begins with the total of the original.
            None => last.and_then(running).unwrap_or(total),
        };
        self.cursor.total = Some(total);
        let at_ms = time(at);
        if more != Tokens::default() && !self.is_old(at_ms) {
            let model = self.cursor.model.clone();
            self.answers.push(Answer { id: None, at_ms, model, before: Tokens::default(), tokens: more });
        }
        Some(())
    }

    fn is_old(&self, at_ms: Option<i64>) -> bool {
        at_ms.is_some_and(|at_ms| at_ms < self.old_ms || self.is_anew && at_ms == self.old_ms)
    }

    /// Adds a line about an answer.
    fn meet(&mut self, id: String, at_ms: Option<i64>, model: Option<String>, tokens: Tokens) {
        if let Some(at) = self.places.get(&id) {
            let answer = &mut self.answers[*at];
            answer.tokens = answer.tokens.by_field(tokens, u64::max);
            return;
        }
        let before = self.cursor.last.iter().find(|(known, _)| *known == id).map(|(_, tokens)| *tokens);
        if before.is_none() && self.is_old(at_ms) {
            return;
        }
        let before = before.unwrap_or_default();
        self.places.insert(id.clone(), self.answers.len());
        let tokens = tokens.by_field(before, u64::max);
        self.answers.push(Answer { id: Some(id), at_ms, model, before, tokens });
    }

    fn finish(mut self) -> (Vec<Used>, Cursor) {
        let mut used = Vec::new();
        for Answer { id, at_ms, model, before, tokens } in self.answers {
            self.cursor.at_ms = self.cursor.at_ms.max(at_ms.unwrap_or_default());
            if let Some(id) = id {
                self.cursor.last.retain(|(known, _)| *known != id);
                self.cursor.last.push((id, tokens));
            }
            let more = tokens.beyond(before);
            if more != Tokens::default() {
                used.push(Used { at_ms, usage: more.usage(model.filter(|model| is_name(model))) });
            }
        }
        let over = self.cursor.last.len().saturating_sub(REMEMBERED);
        self.cursor.last.drain(..over);
        (used, self.cursor)
    }
}

fn running(total: Raw<'_>) -> Option<Tokens> {
    let fields = ["input_tokens", "cached_input_tokens", "output_tokens"];
    let [went_in, cached, out] = members(total, fields)?.map(|field| field.and_then(number));
    Some(Tokens { went_in: went_in?, out: out?, cached: cached.unwrap_or_default(), micros: 0 })
}

/// A number of tokens. The limit is more than any answer uses, and keeps sums from overflowing.
fn number(value: Raw<'_>) -> Option<u64> {
    value.literal()?.parse().ok().filter(|number| *number <= 1_000_000_000)
}

/// Dollars, in millionths.
fn micros(value: Raw<'_>) -> Option<u64> {
    let dollars: f64 = value.literal()?.parse().ok().filter(|dollars| (0.0..1e6).contains(dollars))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was compared")]
    Some((dollars * 1e6).round() as u64)
}

fn time(at: Option<Raw<'_>>) -> Option<i64> {
    parse_rfc3339(&at?.string()?)
}

fn is_name(model: &str) -> bool {
    let usage = Usage { cost: None, ..Tokens::default().usage(Some(model.to_owned())) };
    usage.check().is_ok()
}

fn has(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor as Bytes;

    use proptest::prelude::*;

    use super::*;

    /// Written by the real programs with a scripted model, with the conversation removed.
    const CLAUDE: &str = include_str!("transcripts/claude.jsonl");
    const CODEX: &str = include_str!("transcripts/codex.jsonl");
    const GEMINI: &str = include_str!("transcripts/gemini.jsonl");

    fn read_all(dialect: Dialect, text: &[u8], cursor: Cursor) -> (Vec<Used>, Cursor) {
        read(dialect, &mut Bytes::new(text), ("t.jsonl", text.len() as u64), cursor).unwrap()
    }

    fn sum(used: &[Used]) -> Vec<(Option<String>, u64, u64, u64)> {
        let mut sums: BTreeMap<Option<String>, Usage> = BTreeMap::new();
        for Used { usage, .. } in used {
            let sum = match sums.remove(&usage.model) {
                Some(sum) => sum.and(usage),
                None => usage.clone(),
            };
            sums.insert(usage.model.clone(), sum);
        }
        let of = |number: Option<u64>| number.unwrap_or_default();
        sums.into_iter()
            .map(|(model, sum)| (model, of(sum.tokens_in), of(sum.tokens_out), of(sum.tokens_cached)))
            .collect()
    }

    #[test]
    fn what_the_real_programs_write_is_counted_once_an_answer() {
        for (dialect, text, model, counted) in [
            (Dialect::Claude, CLAUDE, "claude-sonnet-4-5", (425, 40, 20)),
            (Dialect::Codex, CODEX, "gpt-6.1-sol", (400, 40, 30)),
            (Dialect::Gemini, GEMINI, "gemini-2.5-flash", (307, 35, 50)),
        ] {
            let (used, cursor) = read_all(dialect, text.as_bytes(), Cursor::default());
            let (went_in, out, cached) = counted;
            assert_eq!(sum(&used), [(Some(model.to_owned()), went_in, out, cached)], "{dialect:?}");
            assert!(used.iter().all(|used| used.at_ms.is_some() && used.usage.source == UsageSource::Actual));
            // Reading again finds nothing, nor does reading the same content under another name, as after a resume.
            assert_eq!(read_all(dialect, text.as_bytes(), cursor.clone()).0, []);
            let moved = Cursor { file: "elsewhere.jsonl".to_owned(), ..cursor };
            assert_eq!(read_all(dialect, text.as_bytes(), moved).0, [], "{dialect:?}");
        }
    }

    #[test]
    fn what_is_no_answer_of_a_model_is_passed_over() {
        for line in [
            r#"{"type":"assistant","timestamp":"2026-11-17T10:00:00Z","message":{"id":"m","model":"<synthetic>","usage":{"input_tokens":5,"output_tokens":5}}}"#,
            r#"{"type":"user","message":{"id":"m","model":"c","usage":{"input_tokens":5,"output_tokens":5}}}"#,
            r#"{"type":"assistant","message":{"id":"m","model":"c","usage":{"input_tokens":"5"}}}"#,
            r#"{"type":"assistant","message":{"id":"m","model":"c","usage":{"input_tokens":-5}}}"#,
            r#"{"type":"assistant","message":{"id":"m","model":"c","usage":{"input_tokens":99999999999999}}}"#,
            r#"{"type":"assistant","message":{"model":"c","usage":{"input_tokens":5}}}"#,
            r#"{"type":"assistant","message":{"id":"m","usage":{"input_tok"#,
            "\"usage\"",
            "[[[[[[[[",
        ] {
            assert_eq!(
                read_all(Dialect::Claude, format!("{line}\n").as_bytes(), Cursor::default()).0,
                [],
                "{line}"
            );
        }
        let odd =
            r#"{"type":"assistant","message":{"id":"m","model":"a\u0007b","usage":{"input_tokens":5}}}"#;
        let used = read_all(Dialect::Claude, format!("{odd}\n").as_bytes(), Cursor::default()).0;
        assert_eq!(sum(&used), [(None, 5, 0, 0)]);
    }

    #[test]
    fn a_total_that_starts_anew_or_was_inherited_counts_by_its_last_step() {
        let line = |total: u64, last: u64| {
            format!(
                r#"{{"timestamp":"2026-11-17T10:00:00Z","type":"event_msg","payload":{{"type":"token_count","info":{{"total_token_usage":{{"input_tokens":{total},"output_tokens":1}},"last_token_usage":{{"input_tokens":{last},"output_tokens":1}}}}}}}}"#
            ) + "\n"
        };
        let text = [line(900, 50), line(900, 50), line(960, 60), line(40, 40)].concat();
        let used = read_all(Dialect::Codex, text.as_bytes(), Cursor::default()).0;
        assert_eq!(sum(&used)[0].1, 50 + 60 + 40);
    }

    #[test]
    fn of_an_endless_line_and_of_a_huge_file_only_the_end_is_read() {
        let size = MAX_READ as usize + 1_000;
        let mut text = vec![b'x'; size];
        let (used, cursor) = read_all(Dialect::Claude, &text, Cursor::default());
        assert_eq!((used, cursor.offset), (Vec::new(), size as u64));
        text.push(b'\n');
        text.extend(CLAUDE.as_bytes());
        let (used, _) = read_all(Dialect::Claude, &text, Cursor::default());
        assert_eq!(sum(&used)[0].1, 425);
    }

    proptest! {
        /// However the file grows between two readings, the sum is that of one reading of it all.
        #[test]
        fn readings_add_up_wherever_they_stop(
            cuts in proptest::collection::vec(0.0..1.0f64, 0..6),
            which in 0..3usize,
        ) {
            let (dialect, text) =
                [(Dialect::Claude, CLAUDE), (Dialect::Codex, CODEX), (Dialect::Gemini, GEMINI)][which];
            let whole = sum(&read_all(dialect, text.as_bytes(), Cursor::default()).0);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a place in a small file")]
            let mut ends: Vec<usize> = cuts.iter().map(|cut| (cut * text.len() as f64) as usize).collect();
            ends.sort_unstable();
            ends.push(text.len());
            let (mut used, mut cursor) = (Vec::new(), Cursor::default());
            for end in ends {
                let (more, next) = read_all(dialect, &text.as_bytes()[..end], cursor);
                used.extend(more);
                // Serialized, as it is stored.
                cursor = serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap();
            }
            prop_assert_eq!(sum(&used), whole);
        }

        #[test]
        fn whatever_is_in_a_transcript_reading_it_ends(text in proptest::collection::vec(any::<u8>(), 0..400), which in 0..3usize) {
            let mut bytes = b"{\"usage\":\"token_count\",\"tokens\":".to_vec();
            bytes.extend(&text);
            bytes.push(b'\n');
            let (_, cursor) = read_all(Dialect::ALL[which], &bytes, Cursor::default());
            prop_assert_eq!(cursor.offset, bytes.len() as u64);
        }
    }
}
