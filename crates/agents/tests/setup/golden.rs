//! What is written into the configurations that people have, and that it goes again.

use super::*;

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
