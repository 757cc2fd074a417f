//! No input panics, and no edit makes a text that does not load.

use proptest::prelude::*;
use serde_json::Value;

use super::{
    super::{
        policy_config,
        policy_keys::KEYS,
        server_sources::{parse_environment, parse_file},
        values::Places,
    },
    *,
};

fn places() -> Places {
    Places {
        home: None,
        state: "/state".into(),
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z~/.*-]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z.\"*]{0,6}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn key_path() -> impl Strategy<Value = KeyPath> {
    let known = prop::sample::select(KEYS).prop_map(|key| KeyPath::parse(key.global).unwrap());
    let of_agent = ("[a-z]{1,3}", prop::sample::select(KEYS)).prop_map(|(id, key)| {
        let path = format!("agents.entries.{id}.{}", key.agent.unwrap_or("workspace"));
        KeyPath::parse(&path).unwrap()
    });
    prop_oneof![known, of_agent]
}

/// `a0…`, `a1…` and so on.
fn numbered(count: u32, after: &str) -> String {
    let parts: Vec<String> = (0..count).map(|number| format!("a{number}{after}")).collect();
    parts.concat()
}

#[test]
fn hostile_sizes_are_refused_quickly() {
    let lines = numbered(100_000, " = 1\n");
    let hostile = [
        format!("a = {}", "[".repeat(100_000)),
        format!("a = {}", "{a=".repeat(100_000)),
        format!("[{}a]", "a.".repeat(100_000)),
        format!("{}a = 1", "a.".repeat(100_000)),
        format!("[http]\n{lines}"),
        lines,
    ];
    for text in hostile {
        let mut problems = Vec::new();
        let given = parse_file(&text, Path::new("/c.toml"), &places(), &mut problems);
        assert!(
            given.is_empty() && (1..=100).contains(&problems.len()),
            "{}",
            problems.len()
        );
    }
    let (unknown, agents) = (numbered(100_000, ": 1,"), numbered(20_000, ": {},"));
    for text in [
        format!("{{tools: {{exec: {{{unknown}}}}}}}"),
        format!("{{agents: {{entries: {{{agents}}}}}}}"),
    ] {
        let problems = policy_config::parse(Some(&text), Path::new("/o.json"), &places()).unwrap_err();
        assert!((1..=100).contains(&problems.len()), "{}", problems.len());
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC*|[\\x00-\\x7f]{0,80}|[\\[\\]{}=:\"',.0-9a-z\\n]{0,60}") {
        let mut problems = Vec::new();
        let _given = parse_file(&text, Path::new("/c.toml"), &places(), &mut problems);
        let parsed = policy_config::parse(Some(&text), Path::new("/o.json"), &places());
        problems.extend(parsed.err().unwrap_or_default());
        for problem in problems {
            prop_assert!(!problem.to_string().contains(char::is_control));
        }
        if let Ok(path) = KeyPath::parse(&text) {
            prop_assert_eq!(KeyPath::parse(&path.to_string()), Ok(path));
        }
    }

    #[test]
    fn arbitrary_bytes_in_the_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let scene = Scene::new();
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        for path in [scene.state_dir().config(), scene.state_dir().server_config()] {
            std::fs::write(path, &bytes).unwrap();
        }
        if let Err(problems) = scene.load() {
            prop_assert!(!problems.is_empty());
        }
    }

    #[test]
    fn arbitrary_variables_never_panic(section in "[A-Z_]{0,9}", key in "[A-Z_]{0,9}", value in "\\PC{0,20}") {
        let environment = MapEnvironment::new([(format!("COUNTERSIGN_{section}__{key}"), value)]);
        let _given = parse_environment(&environment, &places(), &mut Vec::new());
    }

    #[test]
    fn arbitrary_values_at_known_keys_never_panic(key in prop::sample::select(KEYS), value in json()) {
        let text = key.global.rsplit('.').fold(value.to_string(), |inner, part| format!("{{{part}: {inner}}}"));
        let parsed = policy_config::parse(Some(&text), Path::new("/o.json"), &places());
        prop_assert_eq!(parsed.is_ok(), !value.is_null() && (key.check)(&value, &places()).is_ok());
    }

    #[test]
    fn what_an_edit_returns_loads_and_says_the_same(edits in prop::collection::vec((key_path(), prop::option::of(json())), 1..5)) {
        let scene = Scene::new();
        let edits: Vec<KeyEdit> = edits
            .into_iter()
            .map(|(path, value)| match value {
                Some(value) => KeyEdit::Set { path, value },
                None => KeyEdit::Unset { path },
            })
            .collect();
        if let Ok(edited) = config_edit(None, &edits, &scene.state_dir()) {
            let scene = scene.policy(&edited.text);
            prop_assert_eq!(&scene.load().unwrap().current().policy, &edited.policy);
        }
    }
}
