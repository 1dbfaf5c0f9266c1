//! Reads only a few members of a JSON document.
//!
//! A hook's payload contains what an agent is about to write, and that may be anything: half a surrogate pair, bytes that are
//! not UTF-8, a thousand nested brackets. A parser that requires all of it to be valid would let exactly such a write pass
//! unguarded. So members that are not requested are skipped by their structure alone (quotes, backslashes, brackets), in one pass,
//! without a stack and without a copy. Only requested members are decoded, with invalid characters replaced by U+FFFD, as
//! in paths (`onus_core::scope`) and as harnesses pass them to the operating system.

use std::borrow::Cow;

/// One value, not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raw<'a> {
    text: &'a [u8],
    /// Whether it is complete. In a document that was cut off, the last value is not.
    pub(super) is_whole: bool,
}

/// The members of an object with these names, in the order of the names. Of duplicates the last counts, as it
/// does for the harness. None if it is not an object.
pub(super) fn members<'a, const N: usize>(object: Raw<'a>, names: [&str; N]) -> Option<[Option<Raw<'a>>; N]> {
    let mut scanner = Scanner::inside(object, b'{')?;
    let mut found = [None; N];
    while let Some(byte) = scanner.peek() {
        match byte {
            b'"' => {
                let key = scanner.value();
                if scanner.peek() != Some(b':') {
                    continue;
                }
                scanner.at += 1;
                let Some(first) = scanner.peek() else { break };
                if matches!(first, b',' | b'}') {
                    continue;
                }
                let value = scanner.value();
                let key = key.string();
                if let Some(index) = names.iter().position(|name| key.as_deref() == Some(name)) {
                    found[index] = Some(value);
                }
            }
            b'}' => break,
            _ => scanner.at += 1,
        }
    }
    Some(found)
}

impl<'a> Raw<'a> {
    pub(super) fn document(text: &'a [u8]) -> Raw<'a> {
        Scanner { text, at: 0 }.value()
    }

    pub(super) fn is_null(self) -> bool {
        self.text == b"null"
    }

    /// The content of a string. None if it is not a string, or incomplete.
    pub(super) fn string(self) -> Option<String> {
        let inside = self.text.strip_prefix(b"\"").filter(|_| self.is_whole)?;
        inside.strip_suffix(b"\"").map(decoded)
    }

    /// The text of a number or another literal. None for strings, objects and arrays.
    pub(super) fn literal(self) -> Option<&'a str> {
        let is_one = !matches!(self.text.first(), None | Some(b'"' | b'{' | b'['));
        std::str::from_utf8(self.text).ok().filter(|_| is_one)
    }

    /// The elements of an array; none for anything else.
    pub(super) fn elements(self) -> impl Iterator<Item = Raw<'a>> {
        let mut scanner = Scanner::inside(self, b'[');
        std::iter::from_fn(move || {
            let scanner = scanner.as_mut()?;
            while scanner.peek() == Some(b',') {
                scanner.at += 1;
            }
            scanner.peek().filter(|byte| *byte != b']').map(|_| scanner.value())
        })
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Starts after the bracket that a value opens with.
    fn inside(value: Raw<'a>, bracket: u8) -> Option<Scanner<'a>> {
        (value.text.first() == Some(&bracket)).then_some(Scanner { text: value.text, at: 1 })
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.get(self.at..)?;
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.get(self.at).copied()
    }

    /// Skips the value that begins here, and returns it.
    fn value(&mut self) -> Raw<'a> {
        let first = self.peek();
        let from = self.at;
        let is_whole = match first {
            Some(b'"') => self.pass_string(),
            Some(b'{' | b'[') => self.pass_brackets(),
            _ => {
                let rest = &self.text[from..];
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                // At least one byte, so that the scan always advances.
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += length.max(1).min(rest.len());
                length < rest.len()
            }
        };
        Raw { text: &self.text[from..self.at], is_whole }
    }

    /// Skips a string. Returns whether it is complete.
    fn pass_string(&mut self) -> bool {
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => {
                    self.at += 1;
                    return true;
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at = self.text.len();
        false
    }

    fn pass_brackets(&mut self) -> bool {
        let mut depth = 0_usize;
        while let Some(byte) = self.text.get(self.at) {
            match byte {
                b'"' => {
                    if !self.pass_string() {
                        return false;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return true;
            }
        }
        false
    }
}

/// Decodes the text between the quotes of a string.
fn decoded(inside: &[u8]) -> String {
    let text = String::from_utf8_lossy(inside);
    if !text.contains('\\') {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = Cow::as_ref(&text);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut after = rest[at + 1..].chars();
        let escaped = after.next();
        rest = after.as_str();
        out.push(match escaped {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => unit(&mut rest),
            Some(c) => c,
            None => char::REPLACEMENT_CHARACTER,
        });
    }
    out.push_str(rest);
    out
}

/// The character after `\u`. Half of a surrogate pair becomes U+FFFD.
fn unit(rest: &mut &str) -> char {
    let hex = |text: &str| {
        let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        u32::from_str_radix(digits, 16).ok()
    };
    let Some(first) = hex(rest) else { return char::REPLACEMENT_CHARACTER };
    *rest = &rest[4..];
    if let 0xd800..0xdc00 = first
        && let Some(second) = rest.strip_prefix("\\u").and_then(hex)
        && let 0xdc00..0xe000 = second
    {
        *rest = &rest[6..];
        let paired = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return char::from_u32(paired).unwrap_or(char::REPLACEMENT_CHARACTER);
    }
    char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Any JSON that is not too deep for the parser of the comparison.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\\\\\"{}\\[\\],:a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map("[ab\\\\\"{]{0,3}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn strings(value: Option<Raw<'_>>) -> Option<String> {
        value.and_then(Raw::string)
    }

    proptest! {
        #[test]
        fn what_a_parser_understands_is_read_as_the_parser_reads_it(
            fields in prop::collection::hash_map("[abc]", any_json(), 0..5), pretty: bool
        ) {
            let object = Value::Object(fields.into_iter().collect());
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let names = ["a", "b", "c"];
            let found = members(Raw::document(text.as_bytes()), names).unwrap();
            for (name, found) in names.into_iter().zip(found) {
                prop_assert_eq!(found.is_some(), object.get(name).is_some(), "{}", name);
                let expected = object.get(name).and_then(Value::as_str).map(str::to_owned);
                prop_assert_eq!(strings(found), expected);
                let array = object.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
                let elements: Vec<_> =
                    found.into_iter().flat_map(Raw::elements).map(Raw::string).collect();
                let expected: Vec<_> = array.iter().map(|v| v.as_str().map(str::to_owned)).collect();
                prop_assert_eq!(elements, expected);
            }
        }

        #[test]
        fn whatever_it_is_it_comes_to_an_end(bytes in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\u0 a".to_vec())], 0..200
        )) {
            if let Some(found) = members(Raw::document(&bytes), ["a", "u0"]) {
                for value in found.into_iter().flatten() {
                    prop_assert!(value.elements().count() <= bytes.len());
                    prop_assert!(value.string().is_none_or(|text| text.len() <= 3 * bytes.len()));
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_shown_is_marked_and_pairs_are_one_character() {
        let read = |text: &str| strings(Some(Raw::document(text.as_bytes())));
        assert_eq!(read(r#""a\ud83d\ude00b""#).as_deref(), Some("a\u{1f600}b"));
        assert_eq!(read(r#""a\ud83db""#).as_deref(), Some("a\u{fffd}b"));
        assert_eq!(read(r#""\ude00\u00e4\uzzzz\x""#).as_deref(), Some("\u{fffd}ä\u{fffd}zzzzx"));
        assert_eq!(strings(Some(Raw::document(b"\"a\xffb\""))).as_deref(), Some("a\u{fffd}b"));
        assert_eq!((read("\"cut"), read("\"cut\\\""), read("7")), (None, None, None));
    }

    #[test]
    fn the_last_of_two_counts_and_what_is_cut_off_is_not_whole() {
        let text = br#"{"a": 1, "\u0061": "x", "b": {"a": "inner"}, "c": "cut of"#;
        let [a, b, c] = members(Raw::document(text), ["a", "b", "c"]).unwrap();
        assert_eq!(strings(a).as_deref(), Some("x"));
        assert!(b.unwrap().is_whole && !c.unwrap().is_whole);
        assert_eq!(strings(c), None);
        assert_eq!(members(Raw::document(b"[1]"), ["a"]), None);
    }
}
