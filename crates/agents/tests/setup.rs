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

/// Compares files with what is kept for a case; `UPDATE_GOLDEN=1` keeps them.
#[track_caller]
fn is_golden(case: &str, stage: &str, files: &Tree) {
    let files: Tree =
        files.iter().filter(|(path, _)| !path.ends_with('/')).map(|(k, v)| (k.clone(), v.clone())).collect();
    let folder = golden().join(case).join(stage);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
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
            "settings.json:2: hooks stands there twice",
        ),
        ("claude", ".mcp.json", "{\n\"mcpServers\": 3}", ".mcp.json:2: mcpServers is not an object"),
        (
            "claude",
            ".mcp.json",
            "{\"mcpServers\": {\n\"onus\": {\"command\": \"x\"}}}",
            ".mcp.json:2: mcpServers.onus is another",
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
        prop_assert_eq!(json::state_of_hooks(&with, Dialect::Strict, &hooks, "onus hook claude"), Ok(State::Present));
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
