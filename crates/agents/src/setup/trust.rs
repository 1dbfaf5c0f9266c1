//! Whether an agent runs the hooks that are in its configuration. Codex and Gemini CLI skip hooks that nobody trusted, and without
//! a terminal they do so silently: the agent then works unguarded without anybody noticing.
//!
//! Tested with Codex 0.166 and Gemini CLI 0.61:
//!
//! - Codex keeps `[hooks.state."FILE:EVENT:GROUP:HOOK"]` in the user's `config.toml`, with a `trusted_hash` of what was trusted:
//!   SHA-256 over the hook as canonical JSON. `enabled = false` switches one off. `codex exec` trusts a project by itself, never
//!   its hooks.
//! - Gemini CLI keeps the folders that a person trusts in `trustedFolders.json` (`GEMINI_CLI_TRUSTED_FOLDERS_PATH` moves it), where
//!   the most specific one counts. It loads nothing of a project in any other folder, unless `security.folderTrust.enabled` is false
//!   or `GEMINI_CLI_TRUST_WORKSPACE` is true.
//!
//! A file that cannot be read is not judged: no answer means "nothing is known to be wrong".

use std::path::{Path, PathBuf};

use onus_core::text::hex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toml_edit::{Document, TableLike};

use super::files::{self, Bounds};
use super::{Level, SetupEnv};

/// Why hooks that are set up are not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// The file in which the agent keeps what it trusts.
    pub file: PathBuf,
    pub why: String,
    /// What a person can do about it.
    pub next: &'static str,
}

fn text_of(path: &Path) -> Option<String> {
    files::look(path, &Bounds::Own).ok()?.text
}

pub(super) fn codex(setup_env: &SetupEnv<'_>, home: &Path, mark: &str) -> Option<Distrust> {
    let folder = match setup_env.level {
        Level::Project => setup_env.root.join(".codex"),
        Level::User => home.to_owned(),
    };
    let hooks_file = folder.join("hooks.json");
    let hooks: Value = serde_json::from_str(&text_of(&hooks_file)?).ok()?;
    let file = home.join("config.toml");
    let config = Document::parse(text_of(&file).unwrap_or_default()).ok()?;
    let state = config.get("hooks").and_then(|hooks| hooks.as_table_like()?.get("state")?.as_table_like());
    // Codex may have reached it through a link.
    let names = [Some(hooks_file.clone()), hooks_file.canonicalize().ok()];
    let names: Vec<String> =
        names.into_iter().flatten().map(|path| path.to_string_lossy().into_owned()).collect();
    let trusts = own_hooks(&hooks, mark).map(|(place, hash)| {
        let known = names.iter().find_map(|name| state?.get(&format!("{name}:{place}"))?.as_table_like());
        trust(known, &hash)
    });
    let worst = trusts.max().unwrap_or(Trust::Given);
    let why = match worst {
        Trust::Given => return None,
        Trust::OfAnother => "hooks are there but not trusted as they are now: they were changed since",
        Trust::Off => "hooks are there but switched off",
        Trust::Never => {
            "hooks are there but not trusted: Codex runs none of them, and says nothing about it in codex exec"
        }
    };
    Some(Distrust {
        file,
        why: why.to_owned(),
        next: "enter /hooks in Codex, review the hooks of onus and trust them",
    })
}

/// From best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trust {
    Given,
    OfAnother,
    Off,
    Never,
}

fn trust(known: Option<&dyn TableLike>, hash: &str) -> Trust {
    let Some(known) = known else { return Trust::Never };
    if known.get("enabled").and_then(|enabled| enabled.as_bool()) == Some(false) {
        return Trust::Off;
    }
    match known.get("trusted_hash").and_then(|hash| hash.as_str()) {
        None => Trust::Never,
        Some(trusted) if trusted == hash => Trust::Given,
        Some(_) => Trust::OfAnother,
    }
}

/// Our hooks: the position of each in the file, in Codex's notation, and its hash.
fn own_hooks<'a>(hooks: &'a Value, mark: &'a str) -> impl Iterator<Item = (String, String)> + 'a {
    let events = hooks["hooks"].as_object().into_iter().flatten();
    let groups = events.flat_map(|(event, groups)| {
        groups.as_array().into_iter().flatten().enumerate().map(move |(at, group)| (event, at, group))
    });
    groups.flat_map(move |(event, at, group)| {
        let own = group["hooks"].as_array().into_iter().flatten().enumerate();
        let own =
            own.filter(move |(_, hook)| hook["command"].as_str().is_some_and(|text| text.contains(mark)));
        own.map(move |(number, hook)| {
            let event = snake(event);
            (format!("{event}:{at}:{number}"), hash(&event, &group["matcher"], hook))
        })
    })
}

/// Codex's hash of a hook: its JSON with sorted keys, absent ones left out.
fn hash(event: &str, matcher: &Value, hook: &Value) -> String {
    let handler =
        json!({ "async": false, "command": hook["command"], "timeout": hook["timeout"], "type": "command" });
    let mut identity = json!({ "event_name": event, "hooks": [handler] });
    if !matcher.is_null() {
        identity["matcher"] = matcher.clone();
    }
    format!("sha256:{}", hex(&Sha256::digest(identity.to_string())))
}

/// `PreToolUse` as `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut name = String::with_capacity(event.len() + 4);
    for c in event.chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    name
}

pub(super) fn gemini(setup_env: &SetupEnv<'_>, home: &Path) -> Option<Distrust> {
    // The user's own hooks run everywhere.
    let is_asked = (setup_env.env)("GEMINI_CLI_TRUST_WORKSPACE").as_deref() != Some("true");
    if setup_env.level == Level::User || !is_asked {
        return None;
    }
    let settings = text_of(&home.join("settings.json")).unwrap_or_default();
    if switches_folder_trust_off(&settings) {
        return None;
    }
    let file = setup_env.set("GEMINI_CLI_TRUSTED_FOLDERS_PATH").unwrap_or(home.join("trustedFolders.json"));
    let folders: Value = match text_of(&file) {
        Some(text) => serde_json::from_str(&text).ok()?,
        None => json!({}),
    };
    let root = setup_env.root.canonicalize().unwrap_or_else(|_| setup_env.root.clone());
    let why = match word_about(&folders, &root).as_deref() {
        Some("DO_NOT_TRUST") => "hooks are there but not trusted: this folder is marked as not to be trusted",
        Some(_) => return None,
        None => {
            "hooks are there but not trusted: this folder is not among the trusted ones, and Gemini CLI loads nothing of it, \
             also with --skip-trust"
        }
    };
    let next = "start Gemini CLI in a terminal here and trust the folder, or enter /permissions in it";
    Some(Distrust { file, why: why.to_owned(), next })
}

/// Whether the settings, which may have comments, switch folder trust off. False if they are invalid.
fn switches_folder_trust_off(settings: &str) -> bool {
    super::json::value(settings, super::json::JsonSyntax::Comments)
        .is_some_and(|settings| settings["security"]["folderTrust"]["enabled"] == json!(false))
}

/// The entry of the most specific folder that contains this one.
fn word_about(folders: &Value, root: &Path) -> Option<String> {
    let about = folders.as_object()?.iter().filter_map(|(folder, word)| {
        let word = word.as_str()?;
        let folder = Path::new(folder);
        let holds = match word {
            "TRUST_PARENT" => folder.parent()?,
            _ => folder,
        };
        root.starts_with(holds).then(|| (holds.components().count(), word.to_owned()))
    });
    about.max().map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_has_the_hash_that_codex_keeps() {
        // The hashes that Codex 0.166 wrote.
        let command = "command -v onus >/dev/null 2>&1 && exec onus hook codex; cat >/dev/null; exit 0";
        let hooks = json!({ "hooks": {
            "PreToolUse": [
                { "hooks": [{ "type": "command", "command": "other" }] },
                { "matcher": "apply_patch|Edit|Write", "hooks": [{ "type": "command", "command": command, "timeout": 10 }] },
            ],
            "Stop": [{ "hooks": [{ "type": "command", "command": command, "timeout": 10 }] }],
        } });
        let own: Vec<(String, String)> = own_hooks(&hooks, "onus hook codex").collect();
        assert_eq!(
            own,
            [
                (
                    "pre_tool_use:1:0".to_owned(),
                    "sha256:023ba51a9f0786cb6bd7545f418eb5b1ab212199c008b68c80126d5bbe63d607".to_owned()
                ),
                (
                    "stop:0:0".to_owned(),
                    "sha256:fee30ca9230a3eecb9e32bfbf74eb026d5a85c8e75cdbd249487fb4b9c28d073".to_owned()
                ),
            ]
        );
        assert_eq!(snake("UserPromptSubmit"), "user_prompt_submit");
    }

    #[test]
    fn the_most_specific_folder_counts() {
        let folders = json!({
            "/a": "TRUST_FOLDER", "/a/b": "DO_NOT_TRUST", "/a/b/c": "TRUST_FOLDER", "/p/x": "TRUST_PARENT", "/n": 3,
        });
        let word = |folder: &str| word_about(&folders, Path::new(folder));
        assert_eq!(word("/a/z").as_deref(), Some("TRUST_FOLDER"));
        assert_eq!(word("/a/b").as_deref(), Some("DO_NOT_TRUST"));
        assert_eq!(word("/a/b/c/d").as_deref(), Some("TRUST_FOLDER"));
        assert_eq!(word("/p/y").as_deref(), Some("TRUST_PARENT"));
        assert_eq!(word("/ab"), None);
        assert_eq!(word("/n"), None);
    }
}
