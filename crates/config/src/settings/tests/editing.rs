//! Editing `openclaw.json`.

use serde_json::{Value, json};

use countersign_domain::AgentId;
use countersign_policy::preset::{Preset, PresetReach};

use super::*;

fn path(text: &str) -> KeyPath {
    KeyPath::parse(text).unwrap()
}

fn set(key: &str, value: Value) -> KeyEdit {
    KeyEdit::Set {
        path: path(key),
        value,
    }
}

fn unset(key: &str) -> KeyEdit {
    KeyEdit::Unset { path: path(key) }
}

fn edit(text: &str, edits: &[KeyEdit]) -> Result<Value, EditError> {
    let scene = Scene::new();
    let edited = config_edit(Some(text), edits, &scene.state_dir())?;
    Ok(policy_tree::parse(&edited.text).unwrap())
}

#[test]
fn paths_read_and_print_the_same() {
    for text in [
        "tools.exec.ask",
        "agents.list[0].tools.exec.node",
        "commands.allowFrom.\"*\"",
        "a[0][12].\"b.c\".\"\\\"\"",
    ] {
        assert_eq!(path(text).to_string(), text);
    }
    assert_eq!(path("commands.allowFrom.*"), path("commands.allowFrom.\"*\""));
    for bad in [
        "", ".", "a.", ".a", "a..b", "[0]", "a[", "a[]", "a[-1]", "a[+1]", "a[0", "a b", "\"a", "\"a\"b",
        "a]",
    ] {
        assert_eq!(KeyPath::parse(bad), Err(InvalidKeyPath), "{bad}");
    }
    assert_eq!(KeyPath::parse(&"a.".repeat(10_000)), Err(InvalidKeyPath));
}

#[test]
fn setting_keeps_unknown_keys_and_order() {
    let text = "{z: 1, /* gone */ tools: {web: {b: 1, a: 2}, exec: {ask: 'off', host: 'gateway'}}, a: [3]}";
    let edited = edit(
        text,
        &[
            set("tools.exec.ask", json!("always")),
            set("agents.entries.build.tools.exec.node", json!("n")),
        ],
    );
    let expect = json!({"z": 1, "tools": {"web": {"b": 1, "a": 2}, "exec": {"ask": "always", "host": "gateway"}}, "a": [3],
        "agents": {"entries": {"build": {"tools": {"exec": {"node": "n"}}}}}});
    assert_eq!(edited.unwrap().to_string(), expect.to_string());
    let edited = edit(text, &[unset("tools.exec.ask"), unset("tools.exec.node")]).unwrap();
    let expect = json!({"z": 1, "tools": {"web": {"b": 1, "a": 2}, "exec": {"host": "gateway"}}, "a": [3]});
    assert_eq!(edited.to_string(), expect.to_string());
}

#[test]
fn nothing_changed_leaves_the_text_alone() {
    let scene = Scene::new();
    let text = "{tools: {exec: {ask: 'off'}}} // kept\n";
    let edited = config_edit(
        Some(text),
        &[set("tools.exec.ask", json!("off")), unset("tools.exec.node")],
        &scene.state_dir(),
    );
    let edited = edited.unwrap();
    assert_eq!((edited.text.as_str(), edited.changed), (text, false));
    let made = config_edit(None, &[set("tools.exec.ask", json!("off"))], &scene.state_dir()).unwrap();
    assert_eq!(
        made.text,
        "{\n  \"tools\": {\n    \"exec\": {\n      \"ask\": \"off\"\n    }\n  }\n}\n"
    );
    assert!(made.changed);
}

#[test]
fn lists_grow_by_one_and_shrink() {
    let text = "{agents: {list: [{id: 'a'}]}}";
    let edited = edit(
        text,
        &[
            set("agents.list[1].id", json!("b")),
            set("agents.list[1].workspace", json!("/w")),
        ],
    );
    assert_eq!(
        edited.unwrap(),
        json!({"agents": {"list": [{"id": "a"}, {"id": "b", "workspace": "/w"}]}})
    );
    let gap = edit(text, &[set("agents.list[2].id", json!("b"))]);
    assert_eq!(
        gap,
        Err(EditError::NoSuchPlace {
            path: "agents.list[2].id".to_owned()
        })
    );
    let through = edit(
        "{tools: {exec: {ask: 'off'}}, commands: 5}",
        &[set("commands.allowFrom.x", json!(["a"]))],
    );
    assert_eq!(
        through,
        Err(EditError::NoSuchPlace {
            path: "commands.allowFrom.x".to_owned()
        })
    );
    assert_eq!(
        edit(text, &[unset("agents.list[0]")]).unwrap(),
        json!({"agents": {"list": []}})
    );
    assert_eq!(
        edit(text, &[unset("agents.list[7]")]).unwrap(),
        json!({"agents": {"list": [{"id": "a"}]}})
    );
}

#[test]
fn parts_of_a_value_can_be_set() {
    let edited = edit(
        "{}",
        &[
            set("commands.allowFrom.\"*\"", json!(["me"])),
            set("tools.exec.safeBins[0]", json!("jq")),
            set("agents.defaults.sandbox.docker.env.TZ", json!("UTC")),
        ],
    );
    let expect = json!({"commands": {"allowFrom": {"*": ["me"]}}, "tools": {"exec": {"safeBins": ["jq"]}},
        "agents": {"defaults": {"sandbox": {"docker": {"env": {"TZ": "UTC"}}}}}});
    assert_eq!(edited.unwrap(), expect);
}

#[test]
fn only_keys_that_we_read_can_be_set() {
    let unknown = |key: &str, nearest: &str| {
        let expect = EditError::UnknownKey {
            path: key.to_owned(),
            nearest: nearest.to_owned(),
        };
        assert_eq!(edit("{}", &[set(key, json!("x"))]), Err(expect));
    };
    unknown("tools.exec.aks", "tools.exec.ask");
    unknown("agents.list[0].tools.exec.aks", "agents.list[0].tools.exec.ask");
    unknown(
        "agents.entries.\"a.b\".workspac",
        "agents.entries.\"a.b\".workspace",
    );
    unknown("command.useAccessGroups", "commands.useAccessGroups");
    let global_only = edit(
        "{}",
        &[set("agents.entries.a.commands.useAccessGroups", json!(true))],
    );
    assert!(matches!(global_only, Err(EditError::UnknownKey { .. })));
}

#[test]
fn a_result_that_would_not_load_is_refused() {
    let scene = Scene::new();
    let refused = |text: &str, edits: &[KeyEdit]| match config_edit(Some(text), edits, &scene.state_dir()) {
        Err(EditError::Rejected(problems)) => scene.lines(&problems),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused("{}", &[set("tools.exec.ask", json!("maybe"))]),
        ["openclaw.json: tools.exec.ask: expected off, on-miss or always"]
    );
    assert_eq!(
        refused(
            "{tools: {exec: {mode: 'full'}}}",
            &[set("tools.exec.ask", json!("off"))]
        ),
        ["openclaw.json: tools.exec.mode: conflicts with tools.exec.ask at the same level, keep one of them"]
    );
    assert_eq!(
        refused("{}", &[set("agents.list[0].workspace", json!("/w"))]),
        ["openclaw.json: agents.list[0].id: expected the agent's id"]
    );
    assert!(matches!(
        config_edit(Some("{"), &[], &scene.state_dir()),
        Err(EditError::Unreadable(_))
    ));
    let repaired = edit("{tools: {exec: {secuirty: 1}}}", &[unset("tools.exec.secuirty")]);
    assert_eq!(repaired.unwrap(), json!({"tools": {"exec": {}}}));
}

#[test]
fn a_preset_finds_the_agent_in_its_spelling() {
    let agent = AgentId::parse("build").unwrap();
    let exec = json!({"host": "gateway", "security": "full", "ask": "off"});
    let check = |text: &str, agent: Option<&AgentId>, expect: Value| {
        let edits = preset_edits(
            Some(text),
            Preset::Yolo,
            &agent.map_or(PresetReach::Defaults, |agent: &AgentId| {
                PresetReach::Agent(agent.clone())
            }),
        )
        .unwrap();
        assert_eq!(edit(text, &edits).unwrap(), expect, "{text}");
    };
    check(
        "{tools: {exec: {mode: 'deny'}}}",
        None,
        json!({"tools": {"exec": exec}}),
    );
    check(
        "{}",
        Some(&agent),
        json!({"agents": {"entries": {"build": {"tools": {"exec": exec}}}}}),
    );
    check(
        "{agents: {list: [{id: 'a'}]}}",
        Some(&agent),
        json!({"agents": {"list": [{"id": "a"}, {"id": "build", "tools": {"exec": exec}}]}}),
    );
    check(
        "{agents: {list: [{id: 'a'}, {id: 'build', tools: {exec: {mode: 'ask'}}}]}}",
        Some(&agent),
        json!({"agents": {"list": [{"id": "a"}, {"id": "build", "tools": {"exec": exec}}]}}),
    );
    check(
        "{agents: {list: [{id: 'a'}], entries: {build: {}}}}",
        Some(&agent),
        json!({"agents": {"list": [{"id": "a"}], "entries": {"build": {"tools": {"exec": exec}}}}}),
    );
}

#[test]
fn only_what_is_ours_can_be_taken_away() {
    let text = "{gateway: {auth: {token: 's'}}, tools: {web: {}, exec: {ask: 'off', reviewer: {model: 'm'}}}, \
                agents: {list: [{id: 'a', model: 'm'}, {id: 'b', tools: {exec: {node: 'n'}}}], \
                entries: {c: {workspace: '/w'}}}}";
    for path in [
        "gateway.auth.token",
        "gateway.auth",
        "gateway",
        "tools.web",
        "tools",
        "tools.exec",
        "tools.exec.reviewer",
        "tools.exec.reviewer.model",
        "agents",
        "agents.list",
        "agents.list[0]",
        "agents.list[0].model",
        "agents.entries",
        "tools.exec.aks",
        "x.y",
        "agents.list.x",
    ] {
        let refused = edit(text, &[unset(path)]);
        assert!(
            matches!(
                refused,
                Err(EditError::UnknownKey { .. } | EditError::NotOurs { .. })
            ),
            "{path}: {refused:?}"
        );
    }
    for path in [
        "tools.exec.ask",
        "agents.list[1]",
        "agents.list[1].tools",
        "agents.list[1].tools.exec",
        "agents.entries.c",
        "commands",
    ] {
        assert!(edit(text, &[unset(path)]).is_ok(), "{path}");
    }
}

#[test]
fn prototypes_are_no_names() {
    for (path, value) in [
        ("commands.allowFrom.__proto__", json!(["x"])),
        ("agents.entries.__proto__.workspace", json!("/w")),
        ("commands.allowFrom", json!({"__proto__": ["x"]})),
        ("approvals.exec.targets", json!([{"a": {"__proto__": 1}}])),
    ] {
        assert!(
            matches!(
                edit("{}", &[set(path, value)]),
                Err(EditError::ReservedName { .. })
            ),
            "{path}"
        );
    }
}

#[test]
fn values_are_found_by_path_with_their_origin() {
    let scene = Scene::new();
    let text = "{tools: {exec: {ask: 'off', host: 'gateway'}}, commands: {allowFrom: {'*': ['me']}}, \
                agents: {entries: {build: {tools: {exec: {ask: 'always'}}}}}}";
    let values = config_values(Some(text), &scene.state_dir()).unwrap();
    let check = |key: &str, value: Value, default: Value, is_set: bool| {
        let ConfigPart::Key(found) = config_part(&values, &path(key)).unwrap() else {
            panic!("{key} is a key");
        };
        assert_eq!((&found.value, &found.default), (&value, &default), "{key}");
        assert_eq!(found.source != Source::Default, is_set, "{key}");
    };
    check("tools.exec.ask", json!("off"), json!("on-miss"), true);
    check("tools.exec.security", json!("deny"), json!("deny"), false);
    check("tools.exec.mode", json!(null), json!(null), false);
    check(
        "agents.entries.build.tools.exec.ask",
        json!("always"),
        json!("off"),
        true,
    );
    check(
        "agents.entries.build.tools.exec.host",
        json!("gateway"),
        json!("gateway"),
        true,
    );
    check(
        "agents.entries.other.tools.exec.security",
        json!("deny"),
        json!("deny"),
        false,
    );
    check("commands.allowFrom.*", json!(["me"]), json!(null), true);
    check("tools.exec.safeBins[1]", json!("uniq"), json!("uniq"), false);
    let unknown = config_part(&values, &path("tools.exec.aks"));
    assert!(matches!(unknown, Err(EditError::UnknownKey { nearest, .. }) if nearest == "tools.exec.ask"));
    let group = config_part(&values, &path("agents.entries.build.tools.elevated")).unwrap();
    let ConfigPart::Group(group) = group else {
        panic!("a group of keys");
    };
    let keys: Vec<&str> = group.iter().map(|value| value.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "agents.entries.build.tools.elevated.enabled",
            "agents.entries.build.tools.elevated.allowFrom"
        ]
    );
}

#[test]
fn an_old_spelling_is_shown_as_the_key_that_it_stands_for() {
    let scene = Scene::new();
    let text = "{tools: {exec: {timeoutSeconds: 700}}, agents: {defaults: {sandbox: {perSession: true}}, \
                list: [{id: 'a', tools: {exec: {timeoutSeconds: 5}}, sandbox: {perSession: false}}]}}";
    let values = config_values(Some(text), &scene.state_dir()).unwrap();
    let check = |keys: [&str; 2], value: Value, default: Value| {
        let [of, old] = keys.map(|key| config_part(&values, &path(key)).unwrap());
        let listed = values.iter().find(|value| value.key == keys[0]);
        assert_eq!(
            Some(&of),
            listed.cloned().map(ConfigPart::Key).as_ref(),
            "{keys:?}"
        );
        assert_eq!(of, old, "{keys:?}");
        let ConfigPart::Key(of) = of else {
            panic!("{keys:?} are keys");
        };
        assert_eq!((of.value, of.default), (value, default), "{keys:?}");
        assert_ne!(of.source, Source::Default, "{keys:?}");
        assert!(values.iter().all(|value| value.key != keys[1]), "{keys:?}");
    };
    let timeout = ["tools.exec.timeoutSec", "tools.exec.timeoutSeconds"];
    check(timeout, json!(700), json!(1800));
    let scope = [
        "agents.defaults.sandbox.scope",
        "agents.defaults.sandbox.perSession",
    ];
    check(scope, json!("session"), json!("agent"));
    let own = [
        "agents.list[0].tools.exec.timeoutSec",
        "agents.list[0].tools.exec.timeoutSeconds",
    ];
    check(own, json!(5), json!(700));
    let own = [
        "agents.list[0].sandbox.scope",
        "agents.list[0].sandbox.perSession",
    ];
    check(own, json!("shared"), json!("session"));
    let id = config_part(&values, &path("agents.list[0].id")).unwrap();
    assert!(matches!(id, ConfigPart::Key(id) if id.value == json!("a") && id.default.is_null()));
}

#[test]
fn a_word_is_json5_or_itself() {
    let check = |text: &str, value: Value| assert_eq!(ConfigValue::from_word(text).0, value, "{text}");
    check("off", json!("off"));
    check("true", json!(true));
    check("1800", json!(1800));
    check("['a', 'b',]", json!(["a", "b"]));
    check("{a: 1}", json!({"a": 1}));
    check("\"1\"", json!("1"));
    check("NaN", json!("NaN"));
    check("{a: 1, a: 2}", json!("{a: 1, a: 2}"));
    check("/usr/bin", json!("/usr/bin"));
    check("", json!(""));
}

#[test]
fn a_file_is_changed_whole_and_the_text_before_is_kept() {
    let scene = Scene::new().policy("{} // first\n");
    let path = scene.state_dir().config();
    set_mode(&path, 0o640);
    let held = ConfigFile::hold(&scene.state_dir()).unwrap();
    assert_eq!(held.text(), Some("{} // first\n"));
    let staged = held.stage("{}\n").unwrap();
    let hash = staged.hash().to_owned();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "{} // first\n");
    staged.commit().unwrap();
    drop(held);
    assert_eq!(ConfigFile::hold(&scene.state_dir()).unwrap().hash(), hash);
    let kept = scene.root().join("openclaw.json.bak");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "{} // first\n");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o640);
}

#[test]
fn a_link_is_not_written_through_and_one_writer_waits_for_the_other() {
    let scene = Scene::new();
    let elsewhere = scene.root().join("elsewhere.json");
    write(&elsewhere, "{}");
    let state_dir = scene.state_dir();
    std::os::unix::fs::symlink(&elsewhere, state_dir.config()).unwrap();
    assert!(matches!(ConfigFile::hold(&state_dir), Err(ConfigFileError::Link)));
    std::fs::remove_file(state_dir.config()).unwrap();
    let held = ConfigFile::hold(&state_dir).unwrap();
    assert_eq!((held.text(), held.hash().starts_with("missing:")), (None, true));
    assert!(matches!(
        ConfigFile::hold(&state_dir),
        Err(ConfigFileError::Locked)
    ));
    assert!(matches!(
        held.stage(&" ".repeat(4 * 1024 * 1024 + 1)),
        Err(ConfigFileError::TooLarge(4_194_305))
    ));
    drop(held);
    assert!(ConfigFile::hold(&state_dir).is_ok());
}
