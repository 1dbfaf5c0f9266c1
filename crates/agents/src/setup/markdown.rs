//! The marked block in an instruction file. Text outside the marks is not ours.

use super::{Broken, Difference};

pub const BEGIN: &str = "<!-- onus:begin -->";
pub const END: &str = "<!-- onus:end -->";

/// The text for agents. It is the same for all of them, since several may read one file.
pub const TEXT: &str = "\
## Shared work: onus

`onus` coordinates the work in this repository: it decides who holds which task.
Run `onus prime` first: it says who you are, what you hold and what to do next.
The loop: `onus ready`, `onus claim ID`, work, `onus note ID TEXT`, then `onus done ID -m NOTE` or `onus release ID`.
Where your shell cannot write the store, as in a sandbox, use the tools of the MCP server `onus` instead: `ready`, `claim`,
`touch`, `note`, `done`, `release`, `block`, `show`, `add`, `status`. If you see no list of tools, search for them: `mcp__onus__claim`.
If a command or an edit is refused, do not work around it: do what its `next` says, or take another task.
Exit codes: 0 done, 2 usage, 3 not found, 4 held by another, 5 your lease is over: stop, 6 not allowed, 7 nothing to do, 8 store.";

/// The lines of a text without their line endings, each with its offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let begins = at;
        at += line.len();
        (begins, line.trim_end_matches(['\n', '\r']))
    })
}

/// The range of the block: from its first mark to the end of the line of its last.
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

/// The line ending of a text, by its first line.
pub(super) fn line_end(text: &str) -> &'static str {
    if text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" }
}

fn block(end: &str) -> String {
    format!("{BEGIN}\n{TEXT}\n{END}").replace('\n', end)
}

/// The text with the block: in place of an existing one, otherwise at the end, after an empty line.
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

/// How the block in the text differs from what would be written. None if there is none.
pub fn compared(text: &str) -> Result<Option<Vec<Difference>>, Broken> {
    let Some(place) = find(text)? else { return Ok(None) };
    if text[place.clone()] == block(line_end(text)) {
        return Ok(Some(Vec::new()));
    }
    let line = lines(text).take_while(|(at, _)| *at <= place.start).count();
    let what = "the text between the onus marks differs from what onus setup writes".to_owned();
    Ok(Some(vec![Difference { line, what }]))
}
