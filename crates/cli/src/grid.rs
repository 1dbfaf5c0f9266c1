//! A table with column headings: on a terminal, in Markdown, and as CSV for spreadsheets.

use unicode_width::UnicodeWidthStr as _;

use crate::output::{Output, escape_line};
use crate::table::shortened;
use crate::wrap::wrapped;

/// The narrowest that a shrinking column may get.
const MIN_WIDTH: usize = 16;
const GAP: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// Shrinks if the screen is too narrow.
    Title,
    /// Right-aligned.
    Number,
}

/// A column: its heading, its kind, and what is in it for a row, on one line.
pub(crate) type Column<R> = (&'static str, Kind, fn(&R) -> String);

#[derive(Debug, Default)]
pub(crate) struct Grid {
    columns: Vec<(&'static str, Kind)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(crate) fn of<R>(columns: &[Column<R>], rows: &[R]) -> Grid {
        let cells = |row: &R| columns.iter().map(|(.., cell)| cell(row)).collect();
        Grid {
            columns: columns.iter().map(|(name, kind, _)| (*name, *kind)).collect(),
            rows: rows.iter().map(cells).collect(),
        }
    }

    pub(crate) fn text(&self, out: &Output) -> String {
        let widest = |at: usize| {
            let cells = self.rows.iter().map(|row| row[at].width());
            cells.chain([self.columns[at].0.width()]).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = (0..self.columns.len()).map(widest).collect();
        let whole: usize = widths.iter().map(|width| width + GAP).sum();
        if let Some(room) = out.width {
            let excess = (whole - GAP).saturating_sub(room);
            let title = self.columns.iter().position(|(_, kind)| *kind == Kind::Title);
            match title.filter(|at| widths[*at] >= excess + MIN_WIDTH) {
                _ if excess == 0 => {}
                Some(at) => widths[at] -= excess,
                None => return self.blocks(out),
            }
        }
        let line = |cells: &[String]| {
            let mut text = String::new();
            let columns = self.columns.iter().zip(&widths);
            for (at, (cell, ((_, kind), width))) in cells.iter().zip(columns).enumerate() {
                text.push_str(&" ".repeat(if at > 0 { GAP } else { 0 }));
                let cell = if *kind == Kind::Title { shortened(cell, *width) } else { cell.clone() };
                let space = " ".repeat(width.saturating_sub(cell.width()));
                text.push_str(&if *kind == Kind::Number {
                    format!("{space}{cell}")
                } else {
                    format!("{cell}{space}")
                });
            }
            text.truncate(text.trim_end().len());
            text
        };
        let head: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let rows = self.rows.iter().map(|row| line(row));
        std::iter::once(out.dim(&line(&head))).chain(rows).collect::<Vec<_>>().join("\n")
    }

    /// Each row as a block, for a screen that is too narrow for the table: the first two cells, and below them one line
    /// per cell, with its heading. Empty cells are left out.
    fn blocks(&self, out: &Output) -> String {
        let names = self.columns.iter().map(|(name, _)| *name);
        let rows = self.rows.iter().map(|row| {
            let head = row.iter().take(2).map(String::as_str).collect::<Vec<_>>().join("  ");
            let rest = names.clone().zip(row).skip(2).filter(|(_, cell)| !cell.is_empty());
            let rest = rest.map(|(name, cell)| format!("  {} {cell}", out.dim(&format!("{name}:"))));
            std::iter::once(head).chain(rest).collect::<Vec<_>>().join("\n")
        });
        let text = rows.collect::<Vec<_>>().join("\n");
        out.width.map_or(text.clone(), |columns| wrapped(&text, columns))
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let head = line(self.columns.iter().map(|(name, _)| (*name).to_owned()).collect());
        let rule = self.columns.iter().map(|(_, kind)| if *kind == Kind::Number { "---:" } else { "---" });
        let rule = line(rule.map(str::to_owned).collect());
        let rows = self.rows.iter().map(|row| line(row.iter().map(|cell| markdown(cell)).collect()));
        [head, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }

    /// The first line has the headings.
    pub(crate) fn csv(&self) -> String {
        let head = self.columns.iter().map(|(name, _)| csv_cell(name, Kind::Word));
        let mut lines = vec![head.collect::<Vec<_>>().join(",")];
        lines.extend(self.rows.iter().map(|row| {
            let cells = row.iter().zip(&self.columns).map(|(cell, (_, kind))| csv_cell(cell, *kind));
            cells.collect::<Vec<_>>().join(",")
        }));
        lines.join("\n")
    }
}

/// A cell of a text that there may be.
pub(crate) fn text(text: &Option<String>) -> String {
    escape_line(text.as_deref().unwrap_or_default())
}

/// A cell of a task's tags, if there are any.
pub(crate) fn tags(tags: &Option<Vec<String>>) -> String {
    escape_line(&tags.as_deref().unwrap_or_default().join(", "))
}

/// Escapes a text that others wrote, so that Markdown shows it as it is.
pub(crate) fn markdown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&') {
            plain.push('\\');
        }
        plain.push(if c.is_control() { ' ' } else { c });
    }
    plain
}

/// A cell of CSV. A spreadsheet would run a text that looks like a formula, so it gets an apostrophe; numbers are our own.
fn csv_cell(text: &str, kind: Kind) -> String {
    let is_formula = kind != Kind::Number && text.trim_start().starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    match text.contains(['"', ',', '\n', '\r', ';', '\t']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(title: &str) -> Grid {
        let columns: [Column<[&str; 3]>; 3] = [
            ("task", Kind::Word, |row| row[0].to_owned()),
            ("title", Kind::Title, |row| row[1].to_owned()),
            ("hours", Kind::Number, |row| row[2].to_owned()),
        ];
        Grid::of(&columns, &[["WS-1", title, "1:00:00"], ["WS-12", "b", "-0:30:00"]])
    }

    #[test]
    fn the_title_gives_way_and_numbers_end_under_one_another() {
        let mut out = Output::new(false, "never");
        out.width = Some(34);
        assert_eq!(
            grid("A title that is far too long for this").text(&out),
            "task   title                 hours\nWS-1   A title that is…    1:00:00\nWS-12  b                  -0:30:00"
        );
        out.width = Some(20);
        assert_eq!(
            grid("A title that is far too long for this").text(&out),
            "WS-1  A title that\n      is far too\n      long for this\n  hours: 1:00:00\nWS-12  b\n  hours: -0:30:00"
        );
        out.width = None;
        assert!(grid("A title that is far too long for this").text(&out).contains("for this   1:00:00"));
    }

    #[test]
    fn a_formula_is_text_in_a_spreadsheet_and_a_number_stays_one() {
        for (title, cell) in [
            ("=HYPERLINK(\"http://x\",\"y\")", "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\""),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("  =1", "'  =1"),
            ("\t=1", "\"'\t=1\""),
            ("plain, or not", "\"plain, or not\""),
            ("a=b", "a=b"),
        ] {
            let csv = grid(title).csv();
            assert_eq!(csv, format!("task,title,hours\nWS-1,{cell},1:00:00\nWS-12,b,-0:30:00"));
        }
    }

    #[test]
    fn markdown_says_only_what_was_written() {
        assert_eq!(markdown("a | b *c* [x](y) <i>"), "a \\| b \\*c\\* \\[x\\](y) \\<i\\>");
        assert!(grid("a|b").markdown().contains("| WS-1 | a\\|b | 1:00:00 |"));
    }
}
