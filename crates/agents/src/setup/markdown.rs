//! The marked block in an instruction file. What stands outside the marks is not ours.

use super::{Broken, State};

pub const BEGIN: &str = "<!-- onus:begin -->";
pub const END: &str = "<!-- onus:end -->";

/// What an agent is told, the same for all of them: one file may be read by several.
pub const TEXT: &str = "\
## Shared work: onus

Work in this repository is coordinated by `onus`: it decides who holds which task.
Run `onus prime` first: it says who you are, what you hold and what to do next.
The loop: `onus ready`, `onus claim ID`, work, `onus note ID TEXT`, then `onus done ID -m NOTE` or `onus release ID`.
If a command or an edit is refused, do not work around it: do what its `next` says, or take another task.
Exit codes: 0 done, 2 usage, 3 not found, 4 held by another, 5 your lease is over: stop, 6 not allowed, 7 nothing to do, 8 store.";

/// The lines of the text: where each begins, and what it says without its line end.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let begins = at;
        at += line.len();
        (begins, line.trim_end_matches(['\n', '\r']))
    })
}

/// Where the block is: from its first mark to the end of the line of its last.
fn find(text: &str) -> Result<Option<std::ops::Range<usize>>, Broken> {
    let mut begun: Option<(usize, usize)> = None;
    let mut found = None;
    for (number, (at, line)) in lines(text).enumerate() {
        let number = number + 1;
        let broken = |why: &str| Err(Broken { line: number, why: why.to_owned() });
        match line.trim() {
            BEGIN if begun.is_some() || found.is_some() => return broken("a second onus:begin mark"),
            BEGIN => begun = Some((at, number)),
            END => match begun.take() {
                Some((from, _)) => found = Some(from..at + line.len()),
                None => return broken("an onus:end mark without its beginning"),
            },
            _ => {}
        }
    }
    match begun {
        Some((_, line)) => Err(Broken { line, why: "an onus:begin mark without its end".into() }),
        None => Ok(found),
    }
}

fn line_end(text: &str) -> &'static str {
    if text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" }
}

fn block(end: &str) -> String {
    format!("{BEGIN}\n{TEXT}\n{END}").replace('\n', end)
}

/// The text with the block: where it stands already, else at the end, after an empty line.
pub fn with_block(text: &str) -> Result<String, Broken> {
    let end = line_end(text);
    if let Some(place) = find(text)? {
        return Ok(format!("{}{}{}", &text[..place.start], block(end), &text[place.end..]));
    }
    let before = match text {
        "" => String::new(),
        text if text.ends_with('\n') => format!("{text}{end}"),
        text => format!("{text}{end}{end}"),
    };
    Ok(format!("{before}{}{end}", block(end)))
}

/// The text without the block and the empty line before it.
pub fn without_block(text: &str) -> Result<String, Broken> {
    let Some(place) = find(text)? else { return Ok(text.to_owned()) };
    let (before, after) = (&text[..place.start], &text[place.end..]);
    let after = after.strip_prefix("\r\n").or(after.strip_prefix('\n')).unwrap_or(after);
    let shorter = before.strip_suffix("\r\n").or(before.strip_suffix('\n')).unwrap_or(before);
    let empty_line_before = shorter.is_empty() || shorter.ends_with('\n');
    let before = if empty_line_before { shorter } else { before };
    Ok(format!("{before}{after}"))
}

pub fn state(text: &str) -> Result<State, Broken> {
    Ok(match find(text)? {
        None => State::Missing,
        Some(place) if text[place.clone()] == block(line_end(text)) => State::Present,
        Some(_) => State::Changed,
    })
}
