//! The hash chain: how an event is written, and how its hash is computed.
//!
//! `hash = sha256(canonical JSON of everything except seq and hash)`. Canonical is what `jq -cSj` prints: keys sorted,
//! no white space, integers and strings only. A reader with `jq` and `sha256sum` can check every line.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::actor::{ActorName, InstanceId};
use crate::event::{Body, Event};
use crate::ids::{Token, Uid, Version};
use crate::text::{Field, hex};
use crate::time::{parse_rfc3339, rfc3339};

/// An event as it is stored and exported. The payload is JSON, exactly as it was hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub seq: u64,
    pub uid: String,
    pub task: Option<String>,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub instance: String,
    pub token: Option<u64>,
    pub at: String,
    pub cause: Option<String>,
    pub payload: Value,
    pub prev: String,
    pub hash: String,
}

/// A stored event that this version of onus cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

impl Record {
    /// The event as a JSON object, `seq` and `hash` included.
    pub fn to_json(&self) -> Value {
        let mut object = self.hashed();
        object.insert("seq".into(), json!(self.seq));
        object.insert("hash".into(), json!(self.hash));
        Value::Object(object)
    }

    fn hashed(&self) -> Map<String, Value> {
        let Value::Object(object) = json!({
            "uid": self.uid, "task": self.task, "version": self.version, "kind": self.kind,
            "actor": self.actor, "instance": self.instance, "token": self.token, "at": self.at,
            "cause": self.cause, "payload": self.payload, "prev": self.prev,
        }) else {
            return Map::new();
        };
        object
    }

    /// The hash that the record must have.
    pub fn expected_hash(&self) -> String {
        let mut text = String::with_capacity(512);
        write_canonical(&Value::Object(self.hashed()), &mut text);
        hex(&Sha256::digest(text.as_bytes()))
    }

    /// The event with the hash that it must have.
    pub fn from_event(event: &Event) -> Record {
        let mut record = Record::as_written(event);
        record.hash = record.expected_hash();
        record
    }

    /// The event with the hash that it carries.
    pub fn as_written(event: &Event) -> Record {
        let tagged = serde_json::to_value(&event.body).unwrap_or_default();
        let kind = tagged.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut payload = match tagged.get("payload") {
            Some(Value::Object(map)) => map.clone(),
            _ => Map::new(),
        };
        payload.retain(|_, value| !value.is_null());
        if !event.texts.is_empty() {
            let texts = event.texts.iter().map(|(field, digest)| (field.as_str().to_owned(), json!(digest)));
            payload.insert("texts".into(), Value::Object(texts.collect()));
        }
        if !event.stretches.is_empty() {
            payload.insert("stretches".into(), json!(event.stretches));
        }
        if event.waited_ms > 0 {
            payload.insert("waited_ms".into(), json!(event.waited_ms));
        }
        Record {
            seq: 0,
            uid: event.uid.to_string(),
            task: event.task.map(|uid| uid.to_string()),
            version: event.version.0,
            kind,
            actor: event.actor.to_string(),
            instance: event.instance.to_string(),
            token: event.token.map(|token| token.0),
            at: rfc3339(event.at_ms),
            cause: event.cause.map(|uid| uid.to_string()),
            payload: Value::Object(payload),
            prev: event.prev.clone(),
            hash: event.hash.clone(),
        }
    }

    /// The body that the record spells, or what is wrong with its payload.
    pub fn body(&self) -> Result<Body, Unreadable> {
        let mut payload = self.payload.clone();
        if let Some(map) = payload.as_object_mut() {
            map.retain(|key, _| !matches!(key.as_str(), "texts" | "stretches" | "waited_ms"));
        }
        serde_json::from_value(json!({ "kind": self.kind, "payload": payload }))
            .map_err(|error| Unreadable(format!("its {} payload is unreadable: {error}", self.kind)))
    }

    /// The event that the record spells, or what is wrong with the record.
    pub fn to_event(&self) -> Result<Event, Unreadable> {
        let bad = |what: &str| Unreadable(format!("its {what} is unreadable"));
        let texts = match self.payload.get("texts") {
            Some(value) => serde_json::from_value(value.clone()).map_err(|_| bad("texts"))?,
            None => Default::default(),
        };
        let stretches = match self.payload.get("stretches") {
            Some(value) => serde_json::from_value(value.clone()).map_err(|_| bad("stretches"))?,
            None => Vec::new(),
        };
        let waited_ms = match self.payload.get("waited_ms") {
            Some(value) => value.as_i64().filter(|ms| *ms > 0).ok_or_else(|| bad("waited_ms"))?,
            None => 0,
        };
        let body = self.body()?;
        Ok(Event {
            uid: self.uid.parse().map_err(|_| bad("uid"))?,
            task: self.task.as_ref().map(|uid| uid.parse::<Uid>()).transpose().map_err(|_| bad("task"))?,
            version: Version(self.version),
            body,
            actor: self.actor.parse::<ActorName>().map_err(|_| bad("actor"))?,
            instance: self.instance.parse::<InstanceId>().map_err(|_| bad("instance"))?,
            token: self.token.map(Token),
            at_ms: parse_rfc3339(&self.at).ok_or_else(|| bad("time"))?,
            cause: self.cause.as_ref().map(|uid| uid.parse::<Uid>()).transpose().map_err(|_| bad("cause"))?,
            texts,
            stretches,
            waited_ms,
            prev: self.prev.clone(),
            hash: self.hash.clone(),
        })
    }

    /// The digests of the texts that are stored with this event.
    pub fn text_digests(&self) -> Vec<(Field, String)> {
        let Some(texts) = self.payload.get("texts").and_then(Value::as_object) else { return Vec::new() };
        Field::ALL
            .iter()
            .filter_map(|field| Some((*field, texts.get(field.as_str())?.as_str()?.to_owned())))
            .collect()
    }
}

/// Canonical JSON, as `jq -cSj` prints it.
pub fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_string(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}

/// `jq` also escapes DEL, which serde_json leaves as it is.
fn write_string(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string().replace('\u{7f}', "\\u007f"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_json_is_sorted_compact_and_escaped_like_jq() {
        let mut text = String::new();
        write_canonical(&json!({"b": [1, null, true], "a": "x\u{7f}\u{1}é😀/<\n"}), &mut text);
        assert_eq!(text, r#"{"a":"x\u007f\u0001é😀/<\n","b":[1,null,true]}"#);
    }
}
