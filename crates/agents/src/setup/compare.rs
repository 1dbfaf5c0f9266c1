//! Compares an entry of ours with what it should be: the whole entry, since any part of it can change what it runs.

use onus_core::quote::is_hidden;
use serde_json::{Map, Value, json};

use super::Difference;

/// The most that is shown of a name or a value.
const SHOWN: usize = 60;
/// The most differences that are listed.
const MOST: usize = 8;

/// The entry of our MCP server, the same for every agent.
pub(super) fn server() -> Value {
    json!({ "command": "onus", "args": ["mcp"] })
}

/// Whether a server's entry runs `onus mcp`, whatever else it has: then it is ours to remove, even if it was changed.
pub(super) fn runs_onus(entry: &Value) -> bool {
    let program = entry["command"].as_str().unwrap_or_default();
    let program = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let args = entry["args"].as_array();
    matches!(program, "onus" | "onus.exe") && args.is_some_and(|args| args.iter().any(|word| word == "mcp"))
}

/// Where an entry that begins on a line differs, by its keys. Of unexpected entries only the names are reported.
pub(super) fn differences(at: &str, line: usize, should: &Value, is: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(at, should, is, &mut found);
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("{at} differs in {more} more places"));
    }
    found.into_iter().map(|what| Difference { line, what }).collect()
}

fn compare(at: &str, should: &Value, is: &Value, found: &mut Vec<String>) {
    match (should, is) {
        (Value::Object(should), Value::Object(is)) => {
            for (name, should) in should {
                match is.get(name) {
                    Some(is) => compare(&format!("{at}.{name}"), should, is, found),
                    None => found.push(format!("{at}.{name} is missing")),
                }
            }
            for (name, extra) in is.iter().filter(|(name, _)| !should.contains_key(*name)) {
                let at = format!("{at}.{}", shown(name));
                match extra {
                    Value::Object(inner) if !inner.is_empty() => {
                        compare(&at, &Value::Object(Map::new()), extra, found);
                    }
                    _ => found.push(format!("{at} should not be there")),
                }
            }
        }
        (Value::Array(should), Value::Array(is)) if should.len() == is.len() => {
            for (number, (should, is)) in should.iter().zip(is).enumerate() {
                compare(&format!("{at}[{number}]"), should, is, found);
            }
        }
        (should, is) if should == is => {}
        (should, _) => match should.to_string() {
            short if short.len() <= SHOWN => found.push(format!("{at} is not {short}")),
            _ => found.push(format!("{at} differs from what onus setup writes")),
        },
    }
}

/// A name that somebody else chose, shortened and made visible.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(SHOWN).map(|c| if is_hidden(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_is_named_and_no_value_is_shown() {
        let evil = json!({
            "command": "onus", "args": ["mcp", "x"], "env": { "LD_PRELOAD": "s3cret", "b\u{1b}[2J": "" }, "cwd": "s3cret",
        });
        let told: Vec<String> =
            differences("mcpServers.onus", 3, &server(), &evil).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "line 3: mcpServers.onus.args is not [\"mcp\"]",
                "line 3: mcpServers.onus.cwd should not be there",
                "line 3: mcpServers.onus.env.LD_PRELOAD should not be there",
                "line 3: mcpServers.onus.env.b?[2J should not be there",
            ]
        );
        assert!(differences("x", 1, &server(), &server()).is_empty());
        assert_eq!(differences("x", 1, &server(), &json!(3)).len(), 1);
        let many: Map<String, Value> = (0..1000).map(|n| (n.to_string(), Value::Null)).collect();
        assert_eq!(differences("x", 1, &json!({}), &Value::Object(many)).len(), MOST + 1);
    }
}
