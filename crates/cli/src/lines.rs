//! Reads input line by line, with a limit on their length: a longer line is skipped, and the next one is still read.

use std::io::BufRead;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Without its line break.
    Whole(Vec<u8>),
    TooLong,
}

#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    most: usize,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R, most: usize) -> Lines<R> {
        Lines { reader, most, number: 0 }
    }

    /// The number of the line that was read last, counted from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, or None at the end. The last line needs no line break.
    pub(crate) fn next_line(&mut self) -> std::io::Result<Option<Line>> {
        let (mut line, mut is_too_long, mut is_begun) = (Vec::new(), false, false);
        loop {
            let piece = match self.reader.fill_buf() {
                Ok(piece) => piece,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = piece.iter().position(|byte| *byte == b'\n');
            let read = end.unwrap_or(piece.len());
            is_too_long |= line.len() + read > self.most;
            if is_too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(&piece[..read]);
            }
            let is_over = piece.is_empty();
            is_begun |= !is_over;
            self.reader.consume(read + usize::from(end.is_some()));
            if end.is_some() || is_over {
                if !is_begun {
                    return Ok(None);
                }
                self.number += 1;
                return Ok(Some(if is_too_long { Line::TooLong } else { Line::Whole(line) }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let text = "ab\n\nabcd\nabcde\nabcdefghijklmnop\r\nlast";
        for capacity in [1, 2, 3, 64] {
            let mut lines = Lines::new(std::io::BufReader::with_capacity(capacity, text.as_bytes()), 4);
            let whole = |text: &str| Some(Line::Whole(text.as_bytes().to_vec()));
            for expected in [
                whole("ab"),
                whole(""),
                whole("abcd"),
                Some(Line::TooLong),
                Some(Line::TooLong),
                whole("last"),
                None,
            ] {
                assert_eq!(lines.next_line().unwrap(), expected, "{capacity}");
            }
            assert_eq!(lines.number(), 6);
        }
    }
}
