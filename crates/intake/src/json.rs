//! Fields of a JSON document, by their paths. Every error names the path.

use std::fmt;

use onus_core::quote::name;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::ask::{Fault, Found};

/// Parses one document. serde_json refuses more than 127 levels of nesting.
pub(crate) fn document(bytes: &[u8]) -> Result<Value, Fault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let Unambiguous(value) = serde_json::from_slice(bytes)
        .map_err(|error| Fault::whole(format!("it is not one JSON document: {error}")))?;
    match value {
        Value::Object(_) => Ok(value),
        other => Err(Fault::whole(format!("expected an object, found {}", kind(&other)))),
    }
}

/// A value in which no object has a key twice. Two readers of a duplicate key may see two different asks.
struct Unambiguous(Value);

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unambiguous, D::Error> {
        deserializer.deserialize_any(UnambiguousVisitor).map(Unambiguous)
    }
}

struct UnambiguousVisitor;

impl<'de> Visitor<'de> for UnambiguousVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unambiguous(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let Unambiguous(value) = fields.next_value()?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key {} occurs twice", name(&key))));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

/// The value at a path, such as `issue.labels.0.name`. None: it is absent, or null.
pub(crate) fn at<'v>(document: &'v Value, path: &str) -> Result<Option<&'v Value>, Fault> {
    let mut value = document;
    let mut end = 0;
    for name in path.split('.') {
        let next = match value {
            Value::Object(fields) => fields.get(name),
            Value::Array(items) => name.parse().ok().and_then(|index: usize| items.get(index)),
            Value::Null => None,
            other => {
                let above = path.get(..end).unwrap_or_default();
                return Err(Fault::new(above, format!("expected an object, found {}", kind(other))));
            }
        };
        let Some(next) = next else { return Ok(None) };
        value = next;
        end += name.len() + usize::from(end > 0);
    }
    Ok(Some(value).filter(|value| !value.is_null()))
}

/// An optional text.
pub(crate) fn text(document: &Value, path: &str) -> Result<Option<Found>, Fault> {
    match at(document, path)? {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(Found::new(path, text))),
        Some(other) => Err(Fault::new(path, format!("expected a string, found {}", kind(other)))),
    }
}

/// A required text.
pub(crate) fn need(document: &Value, path: &str) -> Result<Found, Fault> {
    text(document, path)?.ok_or_else(|| Fault::missing(path))
}

/// An optional identifier: a text or a whole number. Other numbers are not exact.
pub(crate) fn id(document: &Value, path: &str) -> Result<Option<Found>, Fault> {
    match at(document, path)? {
        Some(Value::Number(number)) if number.is_u64() || number.is_i64() => {
            Ok(Some(Found::new(path, number.to_string())))
        }
        Some(Value::Number(_)) => {
            Err(Fault::new(path, "expected a whole number or a string, found a number with a point"))
        }
        None | Some(_) => text(document, path),
    }
}

pub(crate) fn need_id(document: &Value, path: &str) -> Result<Found, Fault> {
    id(document, path)?.ok_or_else(|| Fault::missing(path))
}

/// The names in a list of texts, or of objects that have one of these fields.
pub(crate) fn names(document: &Value, path: &str, fields: &[&str]) -> Result<Vec<String>, Fault> {
    let items = match at(document, path)? {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(Fault::new(path, format!("expected a list, found {}", kind(other)))),
    };
    let name = |(index, item): (usize, &Value)| {
        let named = fields.iter().find_map(|field| item.get(field)).unwrap_or(item);
        match named {
            Value::String(text) => Ok(text.clone()),
            other => {
                Err(Fault::new(format!("{path}.{index}"), format!("expected a label, found {}", kind(other))))
            }
        }
    };
    items.iter().enumerate().map(name).collect()
}

pub(crate) fn is_object(document: &Value, path: &str) -> bool {
    document.get(path).is_some_and(Value::is_object)
}

pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_path_leads_to_a_field_or_names_what_is_in_its_way() {
        let document = json!({"a": {"b": [{"c": "x"}], "n": null, "s": "t"}});
        assert_eq!(text(&document, "a.b.0.c").unwrap().unwrap().text, "x");
        for absent in ["a.n", "a.n.x", "a.b.7", "a.b.x", "z", ""] {
            assert_eq!(at(&document, absent), Ok(None), "{absent}");
        }
        let fault = at(&document, "a.s.x.y").unwrap_err();
        assert_eq!(fault.to_string(), "a.s: expected an object, found a string");
        assert_eq!(text(&document, "a.b").unwrap_err().to_string(), "a.b: expected a string, found a list");
        assert_eq!(need(&document, "a.z").unwrap_err().to_string(), "a.z is missing");
    }

    #[test]
    fn what_is_no_object_or_nested_too_deep_is_no_document() {
        for bytes in [&b"[]"[..], b"\"x\"", b"", b"{", b"{} {}", b"\xff", &b"[".repeat(100_000)] {
            assert_eq!(document(bytes).unwrap_err().field, "");
        }
        let deep = format!("{{\"a\":{}0{}}}", "[".repeat(200), "]".repeat(200));
        assert!(document(deep.as_bytes()).unwrap_err().problem.contains("recursion limit"));
        assert!(document(b"\xef\xbb\xbf{}").is_ok());
    }

    #[test]
    fn a_key_that_occurs_twice_is_named() {
        for (bytes, key) in [
            (r#"{"title":"a","title":"b"}"#, "title"),
            (r#"{"issue":{"number":1,"x":[{"y":1,"y":1}]}}"#, "y"),
            (r#"{"a":1,"\u0061":1}"#, "a"),
        ] {
            let fault = document(bytes.as_bytes()).unwrap_err();
            assert!(fault.problem.contains(&format!("the key {} occurs twice", name(key))), "{fault}");
        }
        let whole = br#"{"a":[1,-2,0.5,true,null,"x",{"b":{}}],"b":{"a":"a"}}"#;
        assert_eq!(document(whole).unwrap(), serde_json::from_slice::<Value>(whole).unwrap());
    }

    #[test]
    fn a_number_that_is_not_exact_identifies_nothing() {
        let document =
            json!({"i": 18446744073709551615u64, "f": 1355517523.000005, "s": "1355517523.000005"});
        assert_eq!(need_id(&document, "i").unwrap().text, "18446744073709551615");
        assert_eq!(need_id(&document, "s").unwrap().text, "1355517523.000005");
        assert_eq!(need_id(&document, "f").unwrap_err().field, "f");
    }
}
