//! Wraps prose to the screen: lines are broken between words, and continuation lines are indented.
//!
//! A next step stays on one line, however long, so that it can be copied. So does a single word that is too long.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Wraps each line to at most this many columns. Colours take no room.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    text.split('\n').map(|line| one(line, columns)).collect::<Vec<_>>().join("\n")
}

fn one(line: &str, columns: usize) -> String {
    let plain = without_colours(line);
    if plain.width() <= columns || plain.trim_start().starts_with("next: ") {
        return line.to_owned();
    }
    let indent = hanging(&plain, columns);
    let margin = line.len() - line.trim_start_matches(' ').len();
    let mut lines = vec![line[..margin].to_owned()];
    let mut taken = margin;
    let mut is_first = true;
    for word in words(&line[margin..]) {
        let (room, whole) = (without_colours(word.trim_end()).width(), without_colours(word).width());
        let Some(last) = lines.last_mut() else { break };
        if !is_first && taken + room > columns {
            last.truncate(last.trim_end().len());
            lines.push(format!("{indent}{word}"));
            taken = indent.width() + whole;
        } else {
            last.push_str(word);
            taken += whole;
        }
        is_first = is_first && word.trim().is_empty();
    }
    lines.join("\n")
}

/// The pieces between which a line may be broken: after a space, which stays with the word before it because runs of
/// spaces align columns; and after a double-width character, because such scripts have no spaces. A number stays with its
/// unit.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut begins, mut ends) = (0, 0);
    for piece in line.split_inclusive(|c: char| c == ' ' || c.width() == Some(2)) {
        ends += piece.len();
        let number = piece.trim_end();
        if number.is_empty() || number.bytes().any(|byte| !byte.is_ascii_digit()) {
            words.push(&line[begins..ends]);
            begins = ends;
        }
    }
    if begins < line.len() {
        words.push(&line[begins..]);
    }
    words
}

/// The indent of continuation lines: the bar of a quotation, the start of the last column, or a little more than the indent
/// of the first line.
fn hanging(plain: &str, columns: usize) -> String {
    let margin = plain.len() - plain.trim_start_matches(' ').len();
    let rest = &plain[margin..];
    if rest.starts_with("| ") {
        return format!("{}| ", " ".repeat(margin));
    }
    let columns_begin = rest.match_indices("  ").map(|(gap, _)| {
        let after = &rest[gap..];
        plain[..margin + gap].width() + (after.len() - after.trim_start_matches(' ').len())
    });
    let last = columns_begin.filter(|begin| *begin <= columns / 2).last();
    " ".repeat(last.unwrap_or(margin + 2))
}

fn without_colours(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or(piece, |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_fits_unless_one_word_does_not() {
        let text = "    how often a failed task may be tried again, unless the task says otherwise, and then as it says";
        for columns in [20, 40, 60, 80] {
            let lines = wrapped(text, columns);
            assert!(lines.lines().all(|line| line.width() <= columns), "{lines}");
            assert_eq!(
                lines.split_whitespace().collect::<Vec<_>>(),
                text.split_whitespace().collect::<Vec<_>>()
            );
        }
        let long = format!("    from /{}/onus.toml and more", "x".repeat(90));
        assert_eq!(wrapped(&long, 80).lines().count(), 3);
        assert_eq!(wrapped("a = b", 80), "a = b");
        assert_eq!(wrapped("双倍宽度双倍宽度", 10), "双倍宽度双\n  倍宽度");
    }

    #[test]
    fn the_indent_of_continuation_lines_depends_on_the_line() {
        assert_eq!(wrapped("  | one two three", 12), "  | one two\n  | three");
        assert_eq!(wrapped("  why  one two three", 16), "  why  one two\n       three");
        assert_eq!(wrapped("one two three", 8), "one two\n  three");
        assert_eq!(wrapped("held for 12 min", 11), "held for\n  12 min");
        assert_eq!(
            wrapped("    next: onus claim ON-1 --wait 10m", 20),
            "    next: onus claim ON-1 --wait 10m"
        );
        assert_eq!(wrapped("\u{1b}[2mone two\u{1b}[0m three", 8), "\u{1b}[2mone two\u{1b}[0m\n  three");
    }
}
