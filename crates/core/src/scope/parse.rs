//! Parses a glob's text into its pattern, or into a fault that says what to write instead.
//!
//! The first pass makes the steps. A second one follows every way through the braces, because some faults only show there:
//! `{.,x}{.,y}` hides a `..`, `a/{b,}/c` an empty segment, `{a,}**` a `**` that is not a whole segment.

use super::Fault;
use super::class::Class;
use super::path::Progress;
use super::pattern::{Pattern, Step};

/// A parsed glob.
pub(super) struct Parsed {
    pub(super) anchor: String,
    /// None: the anchor is the whole path.
    pub(super) pattern: Option<Pattern>,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Fault> {
    if text.is_empty() {
        return Err(Fault::Empty);
    }
    if text.starts_with('/') {
        return Err(Fault::Absolute);
    }
    if text.starts_with('!') {
        return Err(Fault::Exception);
    }
    let mut parser = Parser { rest: text, pattern: Pattern::default(), tail_from: 0, open: Vec::new() };
    let plain = parser.plain()?;
    if parser.rest.is_empty() {
        let segments = plain.split('/');
        check_segments(segments)?;
        return Ok(Parsed { anchor: plain, pattern: None });
    }
    let (anchor, begun) = plain.split_at(plain.rfind('/').map_or(0, |at| at + 1));
    check_segments(anchor.strip_suffix('/').into_iter().flat_map(|folders| folders.split('/')))?;
    parser.pattern.steps.reserve(begun.len() + parser.rest.len() + 3);
    parser.pattern.steps.extend(begun.chars().map(Step::Char));
    parser.rest()?;
    check_ways(&parser.pattern)?;
    Ok(Parsed { anchor: anchor.to_owned(), pattern: Some(parser.pattern) })
}

fn check_segments<'a>(mut segments: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
    segments.try_for_each(|segment| match segment {
        "" => Err(Fault::EmptySegment),
        "." | ".." => Err(Fault::Dots),
        _ => Ok(()),
    })
}

/// Open braces: the fork that may still get another alternative, and the jumps after each alternative that ended.
struct Braces {
    fork: usize,
    jumps: Vec<usize>,
    starts_at: usize,
}

struct Parser<'a> {
    rest: &'a str,
    pattern: Pattern,
    /// Where the literal steps begin with which every match ends.
    tail_from: usize,
    open: Vec<Braces>,
}

impl Parser<'_> {
    /// The characters before the first special one, without their backslashes.
    fn plain(&mut self) -> Result<String, Fault> {
        let mut plain = String::with_capacity(self.rest.len());
        while !self.rest.starts_with(['*', '?', '[', '{', '}'])
            && let Some(c) = self.next()
        {
            plain.push(self.literal(c)?);
        }
        Ok(plain)
    }

    fn rest(&mut self) -> Result<(), Fault> {
        while let Some(c) = self.next() {
            match c {
                '*' => self.star()?,
                '?' => self.special(Step::One),
                '[' => self.class()?,
                '{' => self.open_braces(),
                '}' => self.close_braces()?,
                ',' if !self.open.is_empty() => self.next_alternative(),
                c => {
                    let c = self.literal(c)?;
                    self.pattern.steps.push(Step::Char(c));
                }
            }
        }
        if !self.open.is_empty() {
            return Err(Fault::UnclosedBraces);
        }
        let tail = self.pattern.steps.iter().skip(self.tail_from);
        self.pattern.tail =
            tail.filter_map(|s| if let Step::Char(c) = s { Some(*c) } else { None }).collect();
        self.pattern.steps.push(Step::End);
        Ok(())
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn next_is(&mut self, c: char) -> bool {
        self.rest.strip_prefix(c).map(|rest| self.rest = rest).is_some()
    }

    /// A literal character, or one that a backslash makes literal.
    fn literal(&mut self, c: char) -> Result<char, Fault> {
        match c {
            '\\' => match self.next() {
                Some(c) if c.is_alphanumeric() || c == '/' => Err(Fault::Backslash),
                Some(c) if c.is_control() => Err(Fault::Control),
                Some(c) => Ok(c),
                None => Err(Fault::Backslash),
            },
            c if c.is_control() => Err(Fault::Control),
            c => Ok(c),
        }
    }

    fn special(&mut self, step: Step) {
        self.pattern.steps.push(step);
        self.tail_from = self.pattern.steps.len();
    }

    fn star(&mut self) -> Result<(), Fault> {
        if !self.next_is('*') {
            self.special(Step::Run);
        } else if self.next_is('*') {
            return Err(Fault::PartOfSegment);
        } else if self.next_is('/') {
            self.pattern.steps.extend([Step::Folders, Step::Deep]);
            self.special(Step::Char('/'));
        } else {
            self.special(Step::Deep);
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), Fault> {
        let negated = self.next_is('!') || self.next_is('^');
        let mut ranges = Vec::new();
        loop {
            let c = self.next().ok_or(Fault::UnclosedClass)?;
            if c == ']' && !ranges.is_empty() {
                break;
            }
            if c == '[' && self.rest.starts_with(':') {
                return Err(Fault::NamedClass);
            }
            let low = self.member(c)?;
            let spans = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let high = match (spans && self.next_is('-')).then(|| self.next()) {
                None => low,
                Some(c) => self.member(c.ok_or(Fault::UnclosedClass)?)?,
            };
            if high < low {
                return Err(Fault::Backwards { low, high });
            }
            ranges.push((low, high));
        }
        let class = Class::new(ranges, negated);
        if class.is_empty() {
            return Err(Fault::EmptyClass);
        }
        let number = self.pattern.classes.len() as u32;
        self.pattern.classes.push(class);
        self.special(Step::Class(number));
        Ok(())
    }

    fn member(&mut self, c: char) -> Result<char, Fault> {
        if c == '/' { Err(Fault::SlashInClass) } else { self.literal(c) }
    }

    fn open_braces(&mut self) {
        let fork = self.pattern.steps.len();
        self.special(Step::Fork(0));
        self.open.push(Braces { fork, jumps: Vec::new(), starts_at: self.rest.len() });
    }

    fn next_alternative(&mut self) {
        let here = self.pattern.steps.len();
        if let Some(braces) = self.open.last_mut() {
            braces.jumps.push(here);
            self.pattern.steps[braces.fork] = Step::Fork(here as u32 + 1);
            braces.fork = here + 1;
        }
        self.pattern.steps.push(Step::Jump(0));
        self.special(Step::Fork(0));
    }

    fn close_braces(&mut self) -> Result<(), Fault> {
        let braces = self.open.pop().ok_or(Fault::UnopenedBraces)?;
        if braces.starts_at == self.rest.len() + 1 {
            return Err(Fault::EmptyBraces);
        }
        let end = self.pattern.steps.len();
        self.pattern.steps[braces.fork] = Step::Jump(braces.fork as u32 + 1);
        for jump in braces.jumps {
            self.pattern.steps[jump] = Step::Jump(end as u32);
        }
        self.tail_from = end;
        Ok(())
    }
}

/// Follows every way through the braces once. Tracks what was read of the current segment, as far as the text determines it.
/// None: after a `**` that has no `/` of its own.
fn check_ways(pattern: &Pattern) -> Result<(), Fault> {
    let bit = |read: Option<Progress>| read.map_or(16_u8, |progress| 1 << progress as u8);
    let mut seen = vec![0_u8; pattern.steps.len()];
    let mut ways = vec![(0_u32, Some(Progress::Start))];
    while let Some((at, read)) = ways.pop() {
        let Some(seen) = seen.get_mut(at as usize).filter(|seen| **seen & bit(read) == 0) else { continue };
        *seen |= bit(read);
        match (pattern.step(at), read) {
            (Step::Fork(_) | Step::Jump(_), _) => {
                ways.extend(pattern.leads(at).into_iter().flatten().map(|next| (next, read)));
            }
            (Step::End, Some(Progress::Start)) => return Err(Fault::OpenEnd),
            (Step::End, Some(Progress::Dot | Progress::DotDot)) => return Err(Fault::Dots),
            (Step::End, Some(Progress::Name) | None) => {}
            (Step::Folders, Some(Progress::Start)) => ways.push((at + 3, read)),
            (Step::Deep, Some(Progress::Start)) => ways.push((at + 1, None)),
            (Step::Folders | Step::Deep, _) => return Err(Fault::PartOfSegment),
            (Step::Char('/'), None) => return Err(Fault::DeepInBraces),
            (_, None) => return Err(Fault::PartOfSegment),
            (Step::Char(c), Some(progress)) => match progress.after(c) {
                Some(next) => ways.push((at + 1, Some(next))),
                None if progress == Progress::Start => return Err(Fault::EmptySegment),
                None => return Err(Fault::Dots),
            },
            (Step::One | Step::Class(_) | Step::Run, _) => ways.push((at + 1, Some(Progress::Name))),
        }
    }
    Ok(())
}
