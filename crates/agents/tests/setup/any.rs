//! For any object: put in and taken out is nothing done.

use super::*;

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
        let with = json::with_hooks(&text, JsonSyntax::Strict, &hooks, "onus hook claude").unwrap();
        let with = json::with_server(&with, JsonSyntax::Strict).unwrap();
        let all: Value = serde_json::from_str(&with).unwrap();
        for (key, old) in value.as_object().unwrap() {
            if key != "hooks" && key != "mcpServers" {
                prop_assert_eq!(&all[key], old);
            }
        }
        let compared = json::compared_hooks(&with, JsonSyntax::Strict, &hooks, "onus hook claude");
        prop_assert_eq!(compared, Ok(Some(Vec::new())));
        let again = json::with_hooks(&with, JsonSyntax::Strict, &hooks, "onus hook claude").unwrap();
        prop_assert_eq!(json::with_server(&again, JsonSyntax::Strict).unwrap(), with.clone());
        let without = json::without_server(&with, JsonSyntax::Strict).unwrap();
        let without = json::without_hooks(&without, JsonSyntax::Strict, "onus hook claude").unwrap();
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
