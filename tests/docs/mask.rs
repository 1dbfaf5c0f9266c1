//! What differs from run to run, made the same: times, durations, uids, hashes, processes.

/// `stands_in`: another command was run than is shown, and which of two workers came first is not ours to say.
pub(crate) fn mask(text: &str, stands_in: bool) -> Vec<String> {
    text.lines()
        .map(|line| {
            let line = line_mask(line.trim_end());
            if stands_in { line.replace("cyd", "ada") } else { line }
        })
        .collect()
}

fn line_mask(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        if !c.is_alphanumeric() {
            // Columns are as wide as what was masked in them.
            if c != ' ' || !out.ends_with(' ') {
                out.push(c);
            }
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(length);
        let core = word.trim_end_matches([':', '.', '-']);
        let masked = word_mask(core, &out);
        let number = Some(count_before(&out)).filter(|start| *start < out.len() && UNITS.contains(&core));
        if let Some(start) = number {
            out.truncate(start);
        }
        // `59 min 59 s` is one duration, `1 h` another way to say the same.
        if (number.is_some() || masked == "<span>") && out.ends_with("<span> ") {
            out.pop();
        } else {
            out.push_str(if number.is_some() { "<span>" } else { &masked });
        }
        out.push_str(&word[core.len()..]);
        rest = after;
    }
    out
}

const UNITS: [&str; 5] = ["ms", "s", "min", "h", "d"];

/// Where a number and a space begin that a line ends with; its end if there are none.
fn count_before(line: &str) -> usize {
    let Some(words) = line.strip_suffix(' ') else { return line.len() };
    let bare = words.strip_suffix("<number>").unwrap_or(words.trim_end_matches(|c: char| c.is_ascii_digit()));
    let is_word = bare.is_empty() || bare.ends_with([' ', '(', '"', ',']);
    if bare.len() < words.len() && is_word { bare.len() } else { line.len() }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, ':' | '.' | '-' | '+')
}

fn word_mask(word: &str, before: &str) -> String {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    // A commit's is cut to ten digits.
    let of_commit = ["commit ", " in main as ", " main "].iter().any(|it| before.ends_with(it));
    let is_long = word.len() >= 12 || word.len() == 10 && of_commit;
    let is_hex = is_long && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    if matches!(shape.as_str(), "00:00:00" | "00:00" | "0000-00-00") || shape.starts_with("0000-00-00T") {
        "<time>".to_owned()
    } else if is_hex {
        "<hash>".to_owned()
    } else if is_span(&shape) {
        "<span>".to_owned()
    } else if is_number
        && (word.len() >= 4 || ["process ", "-9 ", "_s\":"].iter().any(|b| before.ends_with(b)))
    {
        "<number>".to_owned()
    } else if word.starts_with("SHA256:") {
        "<key>".to_owned()
    } else {
        word.to_owned()
    }
}

/// A number and a unit of time, such as `41s` or `1.5s`.
fn is_span(shape: &str) -> bool {
    ["ms", "s", "m", "h", "d"].iter().any(|unit| {
        shape
            .strip_suffix(unit)
            .is_some_and(|number| number.starts_with('0') && number.bytes().all(|b| b == b'0' || b == b'.'))
    })
}

#[test]
fn what_differs_from_run_to_run_is_masked_and_nothing_else() {
    let same = |a: &str, b: &str| assert_eq!(mask(a, false), mask(b, false));
    let differ = |a: &str, b: &str| assert_ne!(mask(a, false), mask(b, false));
    same("since 2026-11-16, 09:12", "since 2027-01-01, 23:59");
    same("21:54:02 v1 bound to process 158", "07:00:59 v1 bound to process 15859");
    same("ON-1  a (token 1, for 1 h)", "ON-1  a (token 1, for 59 min 59 s)");
    same("root 1a57a01c6ab4865053a9", "root 2b57a01c6ab4865053a9");
    same("uid 01a1e133-fcf6-73da-8cac-1dda8d568653", "uid 01a1e133-fcf6-73da-8cac-1dda8d568654");
    same("T1   a, 5 s left", "T1 a, 10 min 2 s left");
    same("lapses in 59 min 59 s unless", "lapses in 1 h unless");
    same("ON-1 landed in main as 271586a400: a", "ON-1 landed in main as d405ea4a63: a");
    differ("5 tasks", "4 tasks");
    same("\"held_s\":0,\"expires_in_s\":3599", "\"held_s\":12,\"expires_in_s\":3");
    differ("ON-1 v3 agent:ada", "ON-1 v4 agent:ada");
    differ("(token 1)", "(token 2)");
    differ("11 events", "12 events");
    differ("5", "4");
    differ("agent:cyd", "agent:ada");
    assert_eq!(mask("agent:cyd", true), mask("agent:ada", true));
}
