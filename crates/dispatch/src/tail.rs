//! Keeps the last lines of a command's output, for a note.

use std::collections::VecDeque;

pub(crate) const MAX_LINES: usize = 40;
pub(crate) const MAX_BYTES: usize = 8 * 1_024;

/// Whole lines in the order in which they ended, whichever stream they came from, and the unfinished line of each.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
    unfinished: [Vec<u8>; 2],
}

impl Tail {
    /// `cut`: something was left out before these bytes.
    pub(crate) fn push(&mut self, stream: usize, bytes: &[u8], cut: bool) {
        if cut {
            self.unfinished[stream].clear();
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = &mut self.unfinished[stream];
            line.extend_from_slice(piece);
            // Only the end of a very long line is kept.
            line.drain(..line.len().saturating_sub(MAX_BYTES));
            if piece.ends_with(b"\n") {
                let line = readable(line);
                self.unfinished[stream].clear();
                self.add(line);
            }
        }
    }

    fn add(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push_back(line);
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(gone) = self.lines.pop_front() else { break };
            self.bytes -= gone.len() + 1;
        }
    }

    pub(crate) fn text(mut self) -> String {
        for line in std::mem::take(&mut self.unfinished) {
            if !line.is_empty() {
                self.add(readable(&line));
            }
        }
        Vec::from(self.lines).join("\n").trim_matches('\n').to_owned()
    }
}

/// A line as a person saw it in the end: without overwritten text, colours and other control characters. Only the end of a
/// very long line is kept.
fn readable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    let text = text.rsplit('\r').next().unwrap_or(text);
    let mut clean = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\t' => clean.push(c),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    let from = clean.len().saturating_sub(MAX_BYTES - 1);
    let from = (from..=clean.len()).find(|at| clean.is_char_boundary(*at)).unwrap_or(clean.len());
    clean.split_off(from)
}

/// Skips what follows an escape character: `[…letter`, `]…` up to a bell or the string's end, or one character.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        Some('[') => {
            chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{1b}' && chars.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(pieces: &[(usize, &[u8])]) -> String {
        let mut tail = Tail::default();
        for (stream, bytes) in pieces {
            tail.push(*stream, bytes, false);
        }
        tail.text()
    }

    #[test]
    fn lines_of_both_streams_stay_whole_and_in_order() {
        let pieces: &[(usize, &[u8])] = &[(0, b"bui"), (1, b"warn"), (0, b"ld\n"), (1, b"ing\nlast")];
        assert_eq!(tail_of(pieces), "build\nwarning\nlast");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..1_000).map(|n| format!("line {n}\n")).collect();
        let tail = tail_of(&[(0, text.as_bytes())]);
        assert_eq!(tail.lines().count(), MAX_LINES);
        assert!(tail.starts_with("line 960\n") && tail.ends_with("line 999"), "{tail}");
    }

    #[test]
    fn no_output_is_too_long_for_it() {
        let long = vec![b'x'; 10 * MAX_BYTES];
        let mut line = long.clone();
        line.extend_from_slice(b"end\n");
        for pieces in
            [vec![(0, long.as_slice())], vec![(0, line.as_slice())], vec![(0, &line[..]), (1, &long)]]
        {
            let tail = tail_of(&pieces);
            assert!(tail.len() <= MAX_BYTES && tail.len() > MAX_BYTES / 2, "{}", tail.len());
        }
        let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert!(tail_of(&[(1, &noise)]).len() <= MAX_BYTES);
    }

    #[test]
    fn it_reads_as_a_person_saw_it() {
        let colours: &[u8] =
            b"\x1b[1;31merror\x1b[0m: no\x07\r\n\x1b]0;title\x07 10%\r 99%\r100%\n\xff\tok\0\n";
        assert_eq!(tail_of(&[(0, colours)]), "error: no\n100%\n\u{fffd}\tok");
    }

    #[test]
    fn what_was_left_out_does_not_join_two_lines() {
        let mut tail = Tail::default();
        tail.push(0, b"begin", false);
        tail.push(0, b"end\n", true);
        assert_eq!(tail.text(), "end");
    }
}
