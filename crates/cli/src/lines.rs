//! Reads input line by line, with a limit on their length: a longer line is skipped, and the next one is still read.

use std::io::{BufRead, Read as _};

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
        let (mut line, most) = (Vec::new(), self.most as u64);
        self.reader.by_ref().take(most + 1).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() > self.most {
            self.reader.skip_until(b'\n')?;
            return Ok(Some(Line::TooLong));
        }
        Ok(Some(Line::Whole(line)))
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
