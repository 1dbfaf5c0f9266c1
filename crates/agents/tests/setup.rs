//! Setting up and taking out, on the configurations that people have.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use onus_agents::setup::json::{self, Dialect, Hook};
use onus_agents::setup::{AGENTS, Agent, Done, Ground, Level, State, agent, apply, plan_removal, plan_setup};
use onus_core::refusal::Refusal;
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

/// A repository and a home, with nothing in them.
struct World {
    folder: TempDir,
}

/// Every file below a folder, with what is in it.
type Tree = BTreeMap<String, Vec<u8>>;

impl World {
    fn new() -> World {
        let world = World { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.root()).unwrap();
        fs::create_dir_all(world.home()).unwrap();
        world
    }

    fn with(files: &[(&str, &str)]) -> World {
        let world = World::new();
        for (path, text) in files {
            world.put(path, text);
        }
        world
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn receipts(&self) -> PathBuf {
        self.folder.path().join("store").join("setup")
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn tree(&self) -> Tree {
        tree(&self.root())
    }

    fn ground<T>(&self, level: Level, work: impl FnOnce(&Ground<'_>) -> T) -> T {
        let env = |_: &str| None;
        work(&Ground {
            level,
            root: self.root(),
            home: Some(self.home()),
            store: Some(self.folder.path().join("store")),
            receipts: self.receipts(),
            env: &env,
        })
    }

    fn set_up(&self, agents: &[&str]) -> Result<Vec<Done>, Refusal> {
        self.ground(Level::Project, |ground| apply(ground, &plan_setup(ground, &named(agents), false)?))
    }

    fn remove(&self, agents: &[&str]) -> Result<Vec<Done>, Refusal> {
        self.ground(Level::Project, |ground| apply(ground, &plan_removal(ground, &named(agents))?))
    }

    fn states(&self, name: &str) -> Vec<State> {
        let found = self.ground(Level::Project, |ground| agent(name).unwrap().found(ground)).unwrap();
        found.into_iter().map(|found| found.state).collect()
    }

    /// What a check says of an agent.
    fn differences(&self, name: &str) -> Vec<String> {
        let found = self.ground(Level::Project, |ground| agent(name).unwrap().found(ground)).unwrap();
        found.into_iter().flat_map(|found| found.differences).map(|one| one.to_string()).collect()
    }
}

fn named(agents: &[&str]) -> Vec<&'static Agent> {
    agents.iter().map(|name| agent(name).unwrap()).collect()
}

fn tree(root: &Path) -> Tree {
    let mut files = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                files.insert(format!("{name}/"), Vec::new());
                folders.push(path);
            } else {
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

// The golden files. Their names are disguised: an agent that works on this repository must not take them for its own
// configuration.

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn disguised(path: &str) -> String {
    path.split('/')
        .map(|part| match part.strip_prefix('.') {
            Some(rest) => format!("dot-{rest}"),
            None => part.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("/")
        + ".was"
}

fn plain(path: &str) -> Option<String> {
    let path = path.strip_suffix(".was")?;
    let parts = path.split('/').map(|part| match part.strip_prefix("dot-") {
        Some(rest) => format!(".{rest}"),
        None => part.to_owned(),
    });
    Some(parts.collect::<Vec<_>>().join("/"))
}

fn kept(folder: &Path) -> Tree {
    if !folder.exists() {
        return Tree::new();
    }
    tree(folder).into_iter().filter_map(|(path, text)| Some((plain(&path)?, text))).collect()
}

/// Compares files with what is kept for a case; `ONUS_UPDATE=1` keeps them.
#[track_caller]
fn is_golden(case: &str, stage: &str, files: &Tree) {
    let files: Tree =
        files.iter().filter(|(path, _)| !path.ends_with('/')).map(|(k, v)| (k.clone(), v.clone())).collect();
    let folder = golden().join(case).join(stage);
    if std::env::var_os("ONUS_UPDATE").is_some_and(|set| set == "1") {
        let _ = fs::remove_dir_all(&folder);
        for (path, text) in &files {
            let path = folder.join(disguised(path));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
    let kept = kept(&folder);
    assert_eq!(kept.keys().collect::<Vec<_>>(), files.keys().collect::<Vec<_>>(), "{case}, {stage}");
    for (path, text) in &files {
        let (is, was) = (String::from_utf8_lossy(text), String::from_utf8_lossy(&kept[path]));
        assert_eq!(is, was, "{case}, {stage}: {path}");
    }
}

fn cases() -> Vec<(String, World)> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(golden()).unwrap() {
        let path = entry.unwrap().path();
        let before = kept(&path.join("before"));
        if before.is_empty() {
            continue;
        }
        let world = World::new();
        for (name, text) in before {
            world.put(&name, text);
        }
        cases.push((path.file_name().unwrap().to_string_lossy().into_owned(), world));
    }
    assert!(cases.len() >= 9, "the golden files are gone");
    cases
}

fn agent_of(case: &str) -> &'static str {
    AGENTS.iter().map(|agent| agent.name).find(|name| case.starts_with(name)).unwrap()
}

#[test]
fn what_is_written_into_the_configurations_that_people_have() {
    for (case, world) in cases() {
        let name = agent_of(&case);
        world.set_up(&[name]).unwrap();
        is_golden(&case, "after", &world.tree());
        assert!(world.states(name).iter().all(|state| *state == State::Present), "{case}");
    }
}

#[test]
fn a_second_run_changes_nothing_not_even_a_time() {
    for (case, world) in cases() {
        let name = agent_of(&case);
        world.set_up(&[name]).unwrap();
        let times = |folder: &Path| -> BTreeMap<String, std::time::SystemTime> {
            let names = tree(folder).into_keys();
            names
                .map(|path| (path.clone(), folder.join(path).metadata().unwrap().modified().unwrap()))
                .collect()
        };
        let (files, receipts) = (times(&world.root()), times(&world.receipts()));
        std::thread::sleep(std::time::Duration::from_millis(20));
        let done = world.set_up(&[name]).unwrap();
        assert!(done.iter().all(|done| *done == Done::Unchanged), "{case}: {done:?}");
        assert_eq!(times(&world.root()), files, "{case}");
        assert_eq!(times(&world.receipts()), receipts, "{case}");
    }
}

#[test]
fn taken_out_everything_is_as_it_was_byte_for_byte() {
    for (case, world) in cases() {
        let (name, before) = (agent_of(&case), world.tree());
        world.set_up(&[name]).unwrap();
        assert_ne!(world.tree(), before, "{case}");
        world.remove(&[name]).unwrap();
        assert_eq!(world.tree(), before, "{case}");
        assert!(!world.receipts().exists(), "{case}: receipts were left");
        assert!(world.remove(&[name]).unwrap().is_empty(), "{case}: a second time there is nothing to do");
    }
}

#[test]
fn without_a_receipt_our_entries_alone_are_taken_out() {
    for (case, world) in cases() {
        let (name, before) = (agent_of(&case), world.tree());
        world.set_up(&[name]).unwrap();
        fs::remove_dir_all(world.receipts()).unwrap();
        world.remove(&[name]).unwrap();
        let after = world.tree();
        is_golden(&case, "without-receipt", &after);
        for (path, text) in before.iter().filter(|(path, _)| path.ends_with(".json")) {
            let Ok(mut was) = serde_json::from_slice::<Value>(text) else { continue };
            // An event without hooks says nothing, and cannot be told from one that only ours were in.
            if let Some(hooks) = was.get_mut("hooks").and_then(Value::as_object_mut) {
                hooks.retain(|_, groups| groups != &Value::Array(Vec::new()));
            }
            let is = after.get(path).map_or(Value::Object(Default::default()), |text| {
                serde_json::from_slice(text).unwrap_or_else(|error| panic!("{case}: {path}: {error}"))
            });
            assert_eq!(is, was, "{case}: {path}");
        }
    }
}

#[test]
fn all_agents_together_come_and_go() {
    let world = World::with(&[("AGENTS.md", "Mine.\n"), (".claude/settings.json", "{ \"a\": 1 }\n")]);
    let before = world.tree();
    let all: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
    world.set_up(&all).unwrap();
    for name in &all {
        assert!(world.states(name).iter().all(|state| *state == State::Present), "{name}");
    }
    world.remove(&all).unwrap();
    assert_eq!(world.tree(), before);
}

#[test]
fn a_file_that_was_changed_since_keeps_the_change() {
    let world =
        World::with(&[(".gemini/settings.json", "{\n  // mine\n  \"a\": 1\n}\n"), ("GEMINI.md", "Old.\n")]);
    world.set_up(&["gemini"]).unwrap();
    let text = world.get(".gemini/settings.json").replace("// mine\n", "// mine\n  \"theme\": \"dark\",\n");
    world.put(".gemini/settings.json", &text);
    world.put("GEMINI.md", format!("{}\nNew.\n", world.get("GEMINI.md")));
    world.remove(&["gemini"]).unwrap();
    assert_eq!(world.get(".gemini/settings.json"), "{\n  // mine\n  \"theme\": \"dark\",\n  \"a\": 1\n}\n");
    assert_eq!(world.get("GEMINI.md"), "Old.\n\nNew.\n");
    assert!(!world.receipts().exists());
}

#[test]
fn what_was_changed_since_is_what_a_later_set_up_goes_back_to() {
    let world = World::with(&[("CLAUDE.md", "Old.\n")]);
    world.set_up(&["claude"]).unwrap();
    let text = world.get("CLAUDE.md").replace("onus prime", "nothing").replace("Old.", "New.");
    world.put("CLAUDE.md", text);
    assert_eq!(world.states("claude"), [State::Present, State::Present, State::Changed]);
    world.set_up(&["claude"]).unwrap();
    assert_eq!(world.states("claude"), [State::Present; 3]);
    world.remove(&["claude"]).unwrap();
    assert_eq!(world.get("CLAUDE.md"), "New.\n");
}

#[test]
fn a_hook_that_was_changed_is_mended_and_others_beside_it_stay() {
    let world = World::new();
    world.set_up(&["claude"]).unwrap();
    let text = world.get(".claude/settings.json");
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["hooks"]["PreToolUse"][0]["matcher"] = "Bash".into();
    let theirs = serde_json::json!({ "type": "command", "command": "theirs" });
    value["hooks"]["Stop"][0]["hooks"].as_array_mut().unwrap().push(theirs);
    let old = serde_json::json!([{ "hooks": [{ "type": "command", "command": "onus hook claude" }] }]);
    value["hooks"]["Notification"] = old;
    world.put(".claude/settings.json", serde_json::to_string_pretty(&value).unwrap());
    assert_eq!(world.states("claude")[0], State::Changed);
    world.set_up(&["claude"]).unwrap();
    assert_eq!(world.states("claude")[0], State::Present);
    let value: Value = serde_json::from_str(&world.get(".claude/settings.json")).unwrap();
    assert_eq!(value["hooks"]["PreToolUse"].as_array().unwrap().len(), 1);
    assert_eq!(value["hooks"]["Stop"][0]["hooks"][0]["command"], "theirs");
    assert_eq!(value["hooks"]["Notification"], Value::Null, "an event that is not asked for any more");
}

/// Each runs something else than ours, or ours with something else in it: agent, file, its text, and what is told.
const NOT_OURS: &[(&str, &str, &str, &str)] = &[
    (
        "claude",
        ".mcp.json",
        "{\"mcpServers\": {\n\"onus\": {\"command\": \"./bin/onus\", \"args\": [\"mcp\"]}}}",
        "line 2: mcpServers.onus.command is not \"onus\"",
    ),
    (
        "claude",
        ".mcp.json",
        "{\"mcpServers\": {\"onus\": {\"command\": \"onus\", \"args\": [\"mcp\"], \"env\": {\"LD_PRELOAD\": \"./e.so\"}}}}",
        "line 1: mcpServers.onus.env.LD_PRELOAD should not be there",
    ),
    (
        "claude",
        ".mcp.json",
        "{\"mcpServers\": {\"onus\": {\"command\": \"onus\", \"args\": [\"-C\", \"/e\", \"mcp\"]}}}",
        "line 1: mcpServers.onus.args is not [\"mcp\"]",
    ),
    (
        "claude",
        ".mcp.json",
        "{\"mcpServers\": {\"o\\u006eus\": {\"type\": \"http\", \"command\": \"onus\", \"args\": [\"mcp\"]}}}",
        "line 1: mcpServers.onus.type should not be there",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\"mcpServers\": {\"onus\": {\"command\": \"onus\", \"args\": [\"mcp\"], \"cwd\": \"./e\"}}}",
        "line 1: mcpServers.onus.cwd should not be there",
    ),
    (
        "codex",
        ".codex/config.toml",
        "a = 1\n\n[mcp_servers.onus]\ncommand = \"/e/onus\"\nargs = [\"mcp\"]\n",
        "line 3: mcp_servers.onus.command is not \"onus\"",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.onus]\ncommand = \"onus\"\nargs = [\"mcp\"]\nenv.LD_PRELOAD = \"./e.so\"\n\n[b]\nc = 2\n",
        "line 1: mcp_servers.onus.env.LD_PRELOAD should not be there",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.onus]\ncommand = \"onus\"\nargs = [\"mcp\"]\n\n[mcp_servers.onus.env]\nLD_PRELOAD = \"./e.so\"\n",
        "line 1: mcp_servers.onus.env.LD_PRELOAD should not be there",
    ),
    (
        "codex",
        ".codex/config.toml",
        "[mcp_servers.onus]\ncommand = \"onus\"\nargs = [\"mcp\"]\n[[mcp_servers.onus.x]]\ne = \"./e.so\"\n",
        "line 1: mcp_servers.onus.x should not be there",
    ),
    (
        "codex",
        ".codex/config.toml",
        "mcp_servers = { onus = { command = \"onus\", args = [\"mcp\"], env = { LD_PRELOAD = \"./e.so\" } } }\n",
        "line 1: mcp_servers.onus.env.LD_PRELOAD should not be there",
    ),
];

#[test]
fn a_server_that_is_called_onus_and_is_not_ours_is_told_and_put_right() {
    for (name, path, text, told) in NOT_OURS {
        let world = World::new();
        world.set_up(&[name]).unwrap();
        world.put(path, text);
        assert!(world.states(name).contains(&State::Changed), "{text}");
        let differences = world.differences(name);
        assert!(differences.iter().any(|one| one == told), "{text}: {differences:?}");
        assert!(
            !differences.join("\n").contains("e.so"),
            "a value is nobody's to read here: {differences:?}"
        );
        world.set_up(&[name]).unwrap();
        assert!(
            world.states(name).iter().all(|state| *state == State::Present),
            "{text}: {}",
            world.get(path)
        );
        let after = world.get(path);
        assert!(!after.contains("e.so") && !after.contains("/e") && !after.contains("./"), "{after}");
        assert!(
            !text.contains("c = 2") || after.contains("[b]\nc = 2\n"),
            "what is another's stays: {after}"
        );
        let again = world.set_up(&[name]).unwrap();
        assert!(again.iter().all(|done| *done == Done::Unchanged), "{text}");
        // What ran `onus mcp` somehow was ours, and goes with the rest.
        world.remove(&[name]).unwrap();
        assert!(!fs::read_to_string(world.root().join(path)).unwrap_or_default().contains("onus"), "{text}");
    }
}

#[test]
fn another_server_that_took_our_name_comes_back_byte_for_byte() {
    for (name, path, text) in [
        ("claude", ".mcp.json", "{\"mcpServers\": { \"onus\" : {\"command\":\"theirs\"}, \"b\": {}}}"),
        ("codex", ".codex/config.toml", "[mcp_servers.onus] # theirs\ncommand = \"theirs\"\n"),
    ] {
        let world = World::with(&[(path, text)]);
        let before = world.tree();
        assert!(world.states(name).contains(&State::Changed), "{text}");
        world.set_up(&[name]).unwrap();
        assert_eq!(world.states(name), [State::Present; 3]);
        assert!(!world.get(path).contains("\"theirs\""));
        world.remove(&[name]).unwrap();
        assert_eq!(world.tree(), before);
        // It is not ours to take out.
        let refusal = world.remove(&[name]).unwrap_err();
        assert!(refusal.message.contains("is another server"), "{refusal:?}");
        assert_eq!(world.tree(), before);
    }
}

#[test]
fn what_an_agent_itself_writes_for_the_same_server_is_ours() {
    let same =
        "{\"mcpServers\":{\"onus\":{\"type\":\"stdio\",\"command\":\"onus\",\"args\":[\"mcp\"],\"env\":{}}}}";
    let world = World::with(&[(".mcp.json", same)]);
    world.set_up(&["claude"]).unwrap();
    assert_eq!(world.states("claude"), [State::Present; 3]);
    assert_eq!(world.get(".mcp.json"), same);
}

/// What somebody does to the hooks.
type Meddling = fn(&mut Value);

#[test]
fn a_hook_of_ours_with_anything_else_in_it_is_told_and_put_right() {
    let changes: &[(Meddling, &str)] = &[
        (
            |hooks| {
                let command = hooks["Stop"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
                hooks["Stop"][0]["hooks"][0]["command"] = format!("{command}; curl evil").into();
            },
            "hooks.Stop.hooks[0].command differs from what onus setup writes",
        ),
        (
            |hooks| hooks["PreToolUse"][0]["matcher"] = "Edit".into(),
            "hooks.PreToolUse.matcher is not \"Edit|",
        ),
        (|hooks| hooks["Stop"][0]["hooks"][0]["timeout"] = 0.into(), "hooks.Stop.hooks[0].timeout is not 10"),
        (
            |hooks| hooks["Stop"][0]["hooks"][0]["async"] = true.into(),
            "hooks.Stop.hooks[0].async should not be there",
        ),
        (
            |hooks| {
                let second = serde_json::json!({ "hooks": [{ "type": "command", "command": "evil; onus hook claude" }] });
                hooks["Stop"].as_array_mut().unwrap().push(second);
            },
            "hooks.Stop runs onus more than once",
        ),
        (|hooks| hooks["Evil"] = hooks["Stop"].clone(), "hooks.Evil is not an event that onus answers"),
        (
            |hooks| drop(hooks.as_object_mut().unwrap().remove("PreToolUse")),
            "hooks.PreToolUse does not run onus",
        ),
    ];
    for (change, told) in changes {
        let world = World::new();
        world.set_up(&["claude"]).unwrap();
        let clean: Value = serde_json::from_str(&world.get(".claude/settings.json")).unwrap();
        let mut value = clean.clone();
        change(&mut value["hooks"]);
        world.put(".claude/settings.json", serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(world.states("claude")[0], State::Changed, "{told}");
        let differences = world.differences("claude");
        assert!(differences.iter().any(|one| one.contains(told)), "{told}: {differences:?}");
        world.set_up(&["claude"]).unwrap();
        let value: Value = serde_json::from_str(&world.get(".claude/settings.json")).unwrap();
        assert_eq!(value, clean, "{told}");
    }
}

#[test]
fn one_broken_file_and_none_is_written() {
    let broken: &[(&str, &str, &str, &str)] = &[
        ("claude", ".claude/settings.json", "{\n  \"a\": 1,\n}\n", "settings.json:2:"),
        ("claude", ".claude/settings.json", "{\n  // why\n  \"a\": 1\n}\n", "settings.json:2:"),
        ("claude", ".claude/settings.json", "{\n  \"a\": 1\n", "settings.json:"),
        ("claude", ".claude/settings.json", "[]\n", "the top level is not an object"),
        (
            "claude",
            ".claude/settings.json",
            "{\n\n \"hooks\": []}\n",
            "settings.json:3: hooks is not an object",
        ),
        (
            "claude",
            ".claude/settings.json",
            "{\"hooks\": {\n\"Stop\": {}}}\n",
            "settings.json:2: Stop is not an array",
        ),
        (
            "claude",
            ".claude/settings.json",
            "{\"hooks\": {},\n\"hooks\": {}}",
            "settings.json:2: hooks occurs twice",
        ),
        ("claude", ".mcp.json", "{\n\"mcpServers\": 3}", ".mcp.json:2: mcpServers is not an object"),
        (
            "claude",
            ".mcp.json",
            "{\"mcpServers\": {\"onus\": {\"command\": \"x\",\n\"command\": \"onus\", \"args\": [\"mcp\"]}}}",
            ".mcp.json:2: command occurs twice",
        ),
        (
            "claude",
            "CLAUDE.md",
            "a\n<!-- onus:begin -->\nb\n",
            "CLAUDE.md:2: an onus:begin mark without its end",
        ),
        ("claude", "CLAUDE.md", "<!-- onus:end -->\n", "CLAUDE.md:1:"),
        ("codex", ".codex/hooks.json", "{ // no\n}", "hooks.json:1:"),
        ("codex", ".codex/config.toml", "a = 1\nb = = 2\n", "config.toml:2: not TOML"),
        ("gemini", ".gemini/settings.json", "{\n  \"a\": [1,], // why\n}\n", "settings.json:2:"),
    ];
    let all: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
    for (name, path, text, says) in broken {
        let world = World::with(&[(path, text), ("AGENTS.md", "Mine.\n")]);
        let before = world.tree();
        for agents in [&[*name][..], &all] {
            let refusal = world.set_up(agents).unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{refusal:?}");
            assert!(refusal.message.contains(says), "{text:?}: {}", refusal.message);
            assert_eq!(world.tree(), before, "{text:?}");
            assert!(!world.receipts().exists(), "{text:?}");
        }
    }
}

#[test]
fn what_is_no_plain_text_file_of_the_repository_is_refused() {
    let refused = |world: &World, says: &str| {
        let before = world.tree();
        let refusal = world.set_up(&["claude", "codex"]).unwrap_err();
        assert_eq!(refusal.exit_code(), 2, "{refusal:?}");
        assert!(refusal.message.contains(says), "{}", refusal.message);
        assert_eq!(world.tree(), before);
    };
    let world = World::new();
    fs::create_dir(world.root().join("CLAUDE.md")).unwrap();
    refused(&world, "is a folder");

    let world = World::new();
    fs::write(world.folder.path().join("elsewhere"), "theirs").unwrap();
    std::os::unix::fs::symlink("../elsewhere", world.root().join("AGENTS.md")).unwrap();
    refused(&world, "outside");
    assert_eq!(fs::read_to_string(world.folder.path().join("elsewhere")).unwrap(), "theirs");

    let world = World::new();
    fs::create_dir(world.folder.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", world.root().join(".codex")).unwrap();
    refused(&world, "outside");

    let world = World::new();
    std::os::unix::fs::symlink("nowhere", world.root().join("CLAUDE.md")).unwrap();
    let refusal = world.set_up(&["claude"]).unwrap_err();
    assert!(refusal.message.contains("leads nowhere"), "{}", refusal.message);

    let world = World::new();
    world.put("CLAUDE.md", b"one\ntwo \xff\n");
    refused(&world, "CLAUDE.md:2: is not UTF-8");

    let world = World::new();
    world.put(".claude/settings.json", format!("{{ \"a\": \"{}\" }}", "x".repeat(1024 * 1024)));
    refused(&world, "larger than 1024 KiB");

    let world = World::with(&[("CLAUDE.md", "Mine.\n")]);
    let mut kept = fs::metadata(world.root().join("CLAUDE.md")).unwrap().permissions();
    kept.set_readonly(true);
    fs::set_permissions(world.root().join("CLAUDE.md"), kept).unwrap();
    refused(&world, "read-only");
}

#[test]
fn a_link_into_the_folders_of_git_or_onus_is_neither_read_nor_written() {
    let links: &[(&str, &str, &str)] = &[
        ("CLAUDE.md", ".git/config", "[core]\n"),
        ("CLAUDE.md", ".GIT/config", "[core]\n"),
        ("CLAUDE.md", "sub/.git/hooks/pre-commit", "#!/bin/sh\n"),
        ("CLAUDE.md", ".onus/writer.lock", ""),
        (".claude/settings.json", "../.git/settings.json", "{}"),
        (".mcp.json", "step", "{}"),
    ];
    for (path, leads_to, text) in links {
        let world = World::with(&[(".claude/x", ""), (".git/inner", "{}")]);
        // A link to a link, and a folder on the way.
        std::os::unix::fs::symlink(".git/inner", world.root().join("step")).unwrap();
        let place = world.root().join(path).parent().unwrap().join(leads_to);
        if !place.exists() {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, text).unwrap();
        }
        std::os::unix::fs::symlink(leads_to, world.root().join(path)).unwrap();
        let before = world.tree();
        let check = world.ground(Level::Project, |ground| agent("claude").unwrap().found(ground)).map(drop);
        for refused in [check, world.set_up(&["claude"]).map(drop), world.remove(&["claude"]).map(drop)] {
            let refusal = refused.unwrap_err();
            assert_eq!(refusal.exit_code(), 2, "{path}: {refusal:?}");
            assert!(refusal.message.contains("belongs to git or onus"), "{path}: {refusal:?}");
        }
        assert_eq!(world.tree(), before, "{path}");
        assert!(!world.receipts().exists());
    }
    // A folder that is a link, for a file that is not there yet.
    let world = World::with(&[(".git/config", "[core]\n")]);
    std::os::unix::fs::symlink(".git", world.root().join(".claude")).unwrap();
    let before = world.tree();
    assert_eq!(world.set_up(&["claude"]).unwrap_err().exit_code(), 2);
    assert_eq!(world.tree(), before);
}

#[test]
fn a_pipe_or_a_device_is_not_waited_for() {
    let world = World::new();
    let made = std::process::Command::new("mkfifo").arg(world.root().join("CLAUDE.md")).status().unwrap();
    assert!(made.success());
    let refusal = world.set_up(&["claude"]).unwrap_err();
    assert!(refusal.message.contains("is not a plain file"), "{refusal:?}");
    let world = World::new();
    std::os::unix::fs::symlink("/dev/zero", world.root().join("CLAUDE.md")).unwrap();
    assert!(world.set_up(&["claude"]).unwrap_err().message.contains("outside"));
}

#[test]
fn an_error_shows_nothing_of_what_is_in_a_file() {
    for (name, path, text) in [
        ("codex", ".codex/config.toml", "s3cret = 1\ns3cret = 2\n"),
        ("codex", ".codex/config.toml", "a = 1\ns3cret\n"),
        ("claude", ".mcp.json", "s3cret"),
        ("claude", ".mcp.json", "{\"mcpServers\": \"s3cret\"}"),
        ("gemini", ".gemini/settings.json", "{\"a\": s3cret}"),
    ] {
        let world = World::with(&[(path, text)]);
        let refusal = world.set_up(&[name]).unwrap_err();
        assert!(!format!("{refusal:?}").contains("s3cret"), "{refusal:?}");
    }
}

#[test]
fn a_link_in_the_home_may_lead_anywhere_that_is_the_users_own() {
    let world = World::new();
    let dotfiles = world.folder.path().join("dotfiles");
    fs::create_dir_all(dotfiles.join("codex")).unwrap();
    // Larger than a repository's file may be: the agent keeps its state there.
    let state = format!("{{\"history\": \"{}\"}}", "x".repeat(2 * 1024 * 1024));
    fs::write(dotfiles.join("claude.json"), &state).unwrap();
    fs::write(dotfiles.join("codex/config.toml"), "model = \"o\"\n").unwrap();
    std::os::unix::fs::symlink(dotfiles.join("claude.json"), world.home().join(".claude.json")).unwrap();
    std::os::unix::fs::symlink("../dotfiles/codex", world.home().join(".codex")).unwrap();
    let before = tree(&dotfiles);
    let agents = named(&["claude", "codex"]);
    world.ground(Level::User, |ground| {
        apply(ground, &plan_setup(ground, &agents, false).unwrap()).unwrap();
        assert!(fs::read_to_string(dotfiles.join("claude.json")).unwrap().contains("\"onus\""));
        assert!(dotfiles.join("codex/hooks.json").exists());
        assert!(world.home().join(".claude.json").is_symlink() && world.home().join(".codex").is_symlink());
        apply(ground, &plan_removal(ground, &agents).unwrap()).unwrap();
    });
    assert_eq!(tree(&dotfiles), before);
    assert!(world.home().join(".claude.json").is_symlink());

    // Another user's: root makes one, and for anybody else root's will do.
    let theirs = if rustix::process::geteuid().is_root() {
        let theirs = world.folder.path().join("theirs");
        fs::write(&theirs, "{}").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        theirs
    } else {
        PathBuf::from("/etc/passwd")
    };
    fs::remove_file(world.home().join(".claude.json")).unwrap();
    std::os::unix::fs::symlink(&theirs, world.home().join(".claude.json")).unwrap();
    let refusal = world.ground(Level::User, |ground| plan_setup(ground, &agents, false)).unwrap_err();
    assert!(refusal.message.contains("another user"), "{refusal:?}");
}

#[test]
fn a_file_that_takes_the_place_of_ours_before_it_is_made_changes_nothing() {
    let world = World::with(&[("victim", "theirs\n"), ("CLAUDE.md", "Mine.\n")]);
    let guessed = format!(".CLAUDE.md.onus-{}", std::process::id());
    std::os::unix::fs::symlink("victim", world.root().join(&guessed)).unwrap();
    world.set_up(&["claude"]).unwrap();
    assert_eq!(world.get("victim"), "theirs\n");
    assert!(world.get("CLAUDE.md").contains("onus:begin"));
    let left: Vec<String> = world.tree().into_keys().filter(|path| path.contains(".onus-")).collect();
    assert_eq!(left, [guessed], "nothing of ours is left behind");
}

#[test]
fn the_owner_of_a_file_stays() {
    use std::os::unix::fs::MetadataExt as _;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let world = World::with(&[("CLAUDE.md", "Mine.\n")]);
    let file = world.root().join("CLAUDE.md");
    std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
    world.set_up(&["claude"]).unwrap();
    let owner = |path: &Path| (fs::metadata(path).unwrap().uid(), fs::metadata(path).unwrap().gid());
    assert_eq!(owner(&file), (65534, 65534));
    world.remove(&["claude"]).unwrap();
    assert_eq!((owner(&file), world.get("CLAUDE.md").as_str()), ((65534, 65534), "Mine.\n"));
}

#[test]
fn a_receipt_that_names_other_folders_removes_none_of_them() {
    let world = World::new();
    world.set_up(&["claude"]).unwrap();
    let other = world.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for entry in fs::read_dir(world.receipts()).unwrap() {
        let path = entry.unwrap().path();
        let mut receipt: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        receipt["made"].as_array_mut().unwrap().push(other.to_str().unwrap().into());
        fs::write(&path, receipt.to_string()).unwrap();
    }
    world.remove(&["claude"]).unwrap();
    assert!(other.exists());
    assert_eq!(world.tree(), Tree::new());
}

#[test]
fn a_link_inside_the_repository_is_followed_and_stays_a_link() {
    let world = World::with(&[("AGENTS.md", "Mine.\n")]);
    std::os::unix::fs::symlink("AGENTS.md", world.root().join("CLAUDE.md")).unwrap();
    let before = world.tree();
    world.set_up(&["claude", "codex"]).unwrap();
    assert!(world.root().join("CLAUDE.md").is_symlink());
    assert_eq!(world.get("AGENTS.md").matches("onus:begin").count(), 1);
    // The other goes on reading it.
    world.remove(&["claude"]).unwrap();
    assert_eq!(world.states("codex"), [State::Present; 3]);
    world.remove(&["codex"]).unwrap();
    assert_eq!(world.tree(), before);
    assert!(world.root().join("CLAUDE.md").is_symlink());
}

#[test]
fn instructions_that_another_agent_reads_stay_until_it_goes() {
    for with_receipts in [true, false] {
        let world = World::new();
        let before = world.tree();
        world.set_up(&["codex"]).unwrap();
        world.set_up(&["agents-md"]).unwrap();
        if !with_receipts {
            fs::remove_dir_all(world.receipts()).unwrap();
        }
        world.remove(&["agents-md"]).unwrap();
        assert_eq!(world.states("codex"), [State::Present; 3], "{with_receipts}");
        world.remove(&["codex"]).unwrap();
        assert_eq!(world.tree(), before, "{with_receipts}");
    }
}

#[test]
fn permissions_stay_and_receipts_are_their_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(&[(".claude/settings.json", "{}\n")]);
    let file = world.root().join(".claude/settings.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    world.set_up(&["claude"]).unwrap();
    assert_eq!(mode(&file), 0o640);
    for entry in fs::read_dir(world.receipts()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    world.remove(&["claude"]).unwrap();
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn the_users_own_configuration_is_written_below_the_home_directory() {
    let world = World::new();
    fs::write(world.home().join(".claude.json"), "{\"numStartups\": 3}").unwrap();
    let before = tree(&world.home());
    world.ground(Level::User, |ground| {
        let agents = named(&["claude", "codex", "gemini"]);
        apply(ground, &plan_setup(ground, &agents, false).unwrap()).unwrap();
        let files: Vec<String> =
            tree(&world.home()).into_keys().filter(|path| !path.ends_with('/')).collect();
        assert_eq!(
            files,
            [
                ".claude.json",
                ".claude/CLAUDE.md",
                ".claude/settings.json",
                ".codex/AGENTS.md",
                ".codex/config.toml",
                ".codex/hooks.json",
                ".gemini/GEMINI.md",
                ".gemini/settings.json",
            ]
        );
        apply(ground, &plan_removal(ground, &agents).unwrap()).unwrap();
        assert_eq!(plan_setup(ground, &named(&["agents-md"]), false).unwrap_err().exit_code(), 2);
    });
    assert_eq!(tree(&world.home()), before);
    assert_eq!(world.tree(), Tree::new());
}

#[test]
fn the_store_in_a_sandbox_is_written_when_asked_for_and_taken_out_with_the_rest() {
    let world = World::with(&[(".claude/settings.json", "{}\n")]);
    fs::create_dir(world.home().join(".codex")).unwrap();
    fs::write(world.home().join(".codex/config.toml"), "model = \"o\" # mine\n").unwrap();
    let before = (world.tree(), tree(&world.home()));
    let agents = named(&["claude", "codex", "gemini"]);
    world.ground(Level::Project, |ground| {
        apply(ground, &plan_setup(ground, &agents, false).unwrap()).unwrap();
        assert!(agents.iter().all(|agent| !agent.is_allowed(ground)), "not without being asked");
        assert_eq!(tree(&world.home()), before.1);
        apply(ground, &plan_setup(ground, &agents, true).unwrap()).unwrap();
        assert!(agents.iter().all(|agent| agent.is_allowed(ground)));
        apply(ground, &plan_removal(ground, &agents).unwrap()).unwrap();
    });
    assert_eq!((world.tree(), tree(&world.home())), before);
}

#[test]
fn what_cannot_be_written_half_way_is_put_back() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = World::with(&[("CLAUDE.md", "Mine.\n"), (".gemini/x", "")]);
    // A folder that nothing can be made in; who may do everything makes the test say nothing, and passes it.
    fs::set_permissions(world.root().join(".gemini"), fs::Permissions::from_mode(0o555)).unwrap();
    let before = world.tree();
    let outcome = world.set_up(&["claude", "gemini"]);
    fs::set_permissions(world.root().join(".gemini"), fs::Permissions::from_mode(0o755)).unwrap();
    if outcome.is_err() {
        assert_eq!(world.tree(), before);
        assert!(!world.receipts().exists());
    }
}

#[test]
fn a_missing_onus_passes_in_silence_and_is_told_once_a_session() {
    let world = World::new();
    world.set_up(&["claude", "codex", "gemini"]).unwrap();
    for (path, first) in [
        (".claude/settings.json", "SessionStart"),
        (".codex/hooks.json", "SessionStart"),
        (".gemini/settings.json", "SessionStart"),
    ] {
        let value: Value = serde_json::from_str(&world.get(path)).unwrap();
        for (event, groups) in value["hooks"].as_object().unwrap() {
            let command = groups[0]["hooks"][0]["command"].as_str().unwrap();
            let shell = std::process::Command::new("/bin/sh")
                .args(["-c", command])
                .env("PATH", "/usr/bin:/bin")
                .stdin(std::process::Stdio::null())
                .output()
                .unwrap();
            assert!(shell.status.success(), "{path}: {event}");
            assert!(shell.stderr.is_empty(), "{path}: {event}");
            if event == first {
                let said: Value = serde_json::from_slice(&shell.stdout).unwrap();
                assert!(said["systemMessage"].as_str().unwrap().contains("not on PATH"));
            } else {
                assert!(shell.stdout.is_empty(), "{path}: {event}");
            }
        }
    }
}

// For any object: put in and taken out is nothing done.

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~äé\\n\"\\\\]{0,12}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// A settings file: anything, and often hooks and servers of others. None of them is empty: one that is says nothing, and
/// is gone if only our own entries made it say something.
fn settings() -> impl Strategy<Value = Value> {
    let group = prop::collection::vec("[a-z ]{1,9}", 1..3).prop_map(|commands| {
        let hooks: Vec<Value> = commands
            .iter()
            .map(|command| serde_json::json!({ "type": "command", "command": command }))
            .collect();
        serde_json::json!({ "matcher": "x", "hooks": hooks })
    });
    let event = prop::sample::select(vec!["PreToolUse", "Stop", "Notification", "SessionStart"]);
    let hooks = prop::collection::btree_map(event, prop::collection::vec(group, 1..3), 1..3);
    let servers = prop::collection::btree_map("[a-z]{1,3}", value(), 1..3);
    let others = prop::collection::btree_map("[a-zA-Z]{1,6}", value(), 0..4);
    (others, prop::option::of(hooks), prop::option::of(servers)).prop_map(|(others, hooks, servers)| {
        let mut all: serde_json::Map<String, Value> = others.into_iter().collect();
        all.remove("hooks");
        all.extend(hooks.map(|hooks| ("hooks".to_owned(), serde_json::json!(hooks))));
        all.extend(servers.map(|servers| ("mcpServers".to_owned(), serde_json::json!(servers))));
        Value::Object(all)
    })
}

fn some_hooks() -> Vec<Hook> {
    let hook =
        |event, matcher| Hook { event, matcher, name: None, command: "onus hook claude".into(), timeout: 10 };
    vec![hook("PreToolUse", Some("Edit")), hook("Stop", None), hook("SessionEnd", None)]
}

proptest! {
    #[test]
    fn for_any_settings_put_in_and_taken_out_is_nothing_done(value in settings(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let hooks = some_hooks();
        let with = json::with_hooks(&text, Dialect::Strict, &hooks, "onus hook claude").unwrap();
        let with = json::with_server(&with, Dialect::Strict).unwrap();
        let all: Value = serde_json::from_str(&with).unwrap();
        for (key, old) in value.as_object().unwrap() {
            if key != "hooks" && key != "mcpServers" {
                prop_assert_eq!(&all[key], old);
            }
        }
        let compared = json::compared_hooks(&with, Dialect::Strict, &hooks, "onus hook claude");
        prop_assert_eq!(compared, Ok(Some(Vec::new())));
        let again = json::with_hooks(&with, Dialect::Strict, &hooks, "onus hook claude").unwrap();
        prop_assert_eq!(json::with_server(&again, Dialect::Strict).unwrap(), with.clone());
        let without = json::without_server(&with, Dialect::Strict).unwrap();
        let without = json::without_hooks(&without, Dialect::Strict, "onus hook claude").unwrap();
        if pretty {
            prop_assert_eq!(&without, &text);
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&without).unwrap(), value);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn for_any_settings_a_receipt_brings_every_byte_back(value in settings(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let world = World::with(&[(".claude/settings.json", &text)]);
        let before = world.tree();
        world.set_up(&["claude"]).unwrap();
        world.remove(&["claude"]).unwrap();
        prop_assert_eq!(world.tree(), before);
    }
}

/// Whoever is late finds the folders that another made, and takes none of them away again.
#[test]
fn folders_that_several_make_at_the_same_time_are_there_for_all() {
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/b/c/d/file");
        let start = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    onus_agents::setup::files::make_folders(&file).unwrap();
                    assert!(file.parent().unwrap().is_dir());
                });
            }
        });
    }
}
