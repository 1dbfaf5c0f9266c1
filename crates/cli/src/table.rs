//! Rows that fit a terminal. The title is cut to the room that the other columns leave. The aside of a task (its holder,
//! what it waits for) is at the end of its row, or below it if there is no room: a holder's name is never cut.
//!
//! If the width of the screen is unknown, nothing is cut: a pipe or a file gets everything.

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::output::Output;

/// The narrowest title: an aside that would leave less goes below.
const MIN_TITLE: usize = 24;
/// Between two columns.
const GAP: usize = 2;

pub(crate) struct Row {
    /// Short words, aligned in columns.
    pub(crate) cells: Vec<(String, Style)>,
    pub(crate) title: String,
    pub(crate) aside: Option<Aside>,
}

/// A remark beside a task.
pub(crate) enum Aside {
    /// Never cut.
    Whole(String),
    /// Cut to the room there is.
    Cut(String),
}

impl Aside {
    fn text(&self) -> &str {
        match self {
            Aside::Whole(text) | Aside::Cut(text) => text,
        }
    }

    fn in_room(&self, room: usize) -> String {
        match self {
            Aside::Whole(text) => text.clone(),
            Aside::Cut(text) => shortened(text, room),
        }
    }
}

/// Cuts a text to this many columns, with an ellipsis if something is missing.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        let before = short.len();
        short.push(c);
        if short.width() + 1 > columns {
            short.truncate(before);
            break;
        }
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

pub(crate) fn table(out: &Output, rows: &[Row]) -> String {
    let count = rows.iter().map(|row| row.cells.len()).max().unwrap_or_default();
    let widest = |at: usize| rows.iter().filter_map(|row| Some(row.cells.get(at)?.0.width())).max();
    let widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or_default()).collect();
    let fixed: usize = widths.iter().map(|width| width + GAP).sum();
    let longest = rows.iter().map(|row| row.title.width()).max().unwrap_or_default();
    // The columns left for title and aside; None if there is no limit.
    let room = out.width.map(|width| width.saturating_sub(fixed).max(MIN_TITLE / 2));
    let beside_at_most = room.map(|room| room.saturating_sub(longest.min(MIN_TITLE) + GAP));
    let beside = |aside: &Aside| beside_at_most.is_none_or(|most| aside.text().width() <= most);
    let asides = rows.iter().filter_map(|row| row.aside.as_ref());
    let aside_width = asides.filter(|aside| beside(aside)).map(|aside| aside.text().width()).max();
    let title_width = match (room, aside_width) {
        (Some(room), Some(aside)) => longest.min(room.saturating_sub(aside + GAP)),
        (Some(room), None) => longest.min(room),
        (None, _) => longest,
    };
    let mut lines = Vec::new();
    for row in rows {
        let mut line = String::new();
        for ((text, style), width) in row.cells.iter().zip(&widths) {
            line.push_str(&out.styled(*style, text));
            line.push_str(&" ".repeat(width.saturating_sub(text.width()) + GAP));
        }
        match &row.aside {
            Some(aside) if beside(aside) => {
                line.push_str(&padded(&shortened(&row.title, title_width), title_width + GAP));
                line.push_str(&out.dim(aside.text()));
            }
            aside => {
                // Without anything beside it, the title has all the room.
                line.push_str(&shortened(&row.title, room.unwrap_or(usize::MAX)));
                if let (Some(aside), Some(width)) = (aside, out.width) {
                    lines.push(std::mem::take(&mut line).trim_end().to_owned());
                    let indent = widths.first().copied().unwrap_or_default() + GAP;
                    let text = aside.in_room(width.saturating_sub(indent));
                    line = format!("{}{}", " ".repeat(indent), out.dim(&text));
                }
            }
        }
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn out(width: Option<usize>) -> Output {
        let mut out = Output::new(false, "never");
        out.width = width;
        out
    }

    fn row(id: &str, title: &str, aside: Option<Aside>) -> Row {
        Row { cells: vec![(id.to_owned(), Style::new())], title: title.to_owned(), aside }
    }

    #[test]
    fn a_text_is_cut_by_the_columns_it_takes() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("longer", 5), "long…");
        assert_eq!(shortened("漢字漢字", 5), "漢字…");
        assert_eq!(shortened("漢字漢字", 6), "漢字…", "half of a character is none");
        assert_eq!(shortened("a b c", 3), "a…", "no space before the ellipsis");
        assert_eq!(shortened("abc", 1), "…");
    }

    #[test]
    fn a_holder_is_whole_and_goes_below_where_there_is_no_room() {
        let holder = "agent:claude (0193-a-long-conversation), 45m left";
        let rows = || {
            [row("ON-1", &"word ".repeat(40), Some(Aside::Whole(holder.into()))), row("ON-2", "short", None)]
        };
        let wide = table(&out(Some(140)), &rows());
        assert_eq!(wide.lines().count(), 2, "{wide}");
        let narrow = table(&out(Some(60)), &rows());
        assert_eq!(narrow.lines().count(), 3, "{narrow}");
        assert_eq!(narrow.lines().nth(1), Some(&*format!("      {holder}")), "{narrow}");
        for table in [wide, narrow, table(&out(None), &rows())] {
            assert!(table.contains(holder), "{table}");
        }
        assert!(!table(&out(None), &rows()).contains('…'), "a pipe gets all of it");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_screen_but_for_a_holder(
            width in 40..160usize,
            rows in proptest::collection::vec(("[a-z]{1,6}", "\\PC{0,220}", proptest::option::of(("[a-z ]{1,60}", any::<bool>()))), 1..6),
        ) {
            let rows: Vec<Row> = rows
                .into_iter()
                .map(|(id, title, aside)| {
                    let title = onus_core::quote::visible_line(&title);
                    row(&id, &title, aside.map(|(text, whole)| if whole { Aside::Whole(text) } else { Aside::Cut(text) }))
                })
                .collect();
            let holders: Vec<&str> = rows.iter().filter_map(|row| match &row.aside {
                Some(Aside::Whole(text)) => Some(text.trim()),
                _ => None,
            }).collect();
            let shown = table(&out(Some(width)), &rows);
            for line in shown.lines() {
                prop_assert!(line.width() <= width || holders.contains(&line.trim()), "{}: {line}", line.width());
            }
            for holder in holders {
                prop_assert!(shown.contains(holder));
            }
        }
    }
}
