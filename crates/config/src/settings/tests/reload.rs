//! Loading and reloading real files.

use std::fs;

use countersign_domain::{AgentId, Ask, Security};

use super::*;

fn security(store: &SettingsStore) -> Security {
    store
        .current()
        .policy
        .security(&AgentId::main())
        .pop()
        .unwrap()
        .value
}

fn config_error(store: &SettingsStore) -> Option<String> {
    let mut rejected = store.rejected_files();
    assert!(rejected.len() < 2, "{rejected:?}");
    rejected.pop().map(|file| file.problem)
}

fn reloaded(restart_needed: &[&str]) -> Refresh {
    Refresh::Reloaded {
        restart_needed: restart_needed.iter().map(|key| (*key).to_owned()).collect(),
    }
}

#[test]
fn an_unchanged_file_changes_nothing() {
    let scene = Scene::new()
        .policy("{tools: {exec: {security: 'full'}}}")
        .server("[limits]\nmax_queued = 1");
    let store = scene.load().unwrap();
    let before = store.current();
    for _ in 0..3 {
        assert_eq!(store.refresh(), Refresh::Unchanged);
    }
    write(&scene.state_dir().config(), "{tools: {exec: {security: 'full'}}}");
    assert_eq!(store.refresh(), Refresh::Unchanged);
    assert!(Arc::ptr_eq(&before, &store.current()));
}

/// `full` and `deny` are of one length, and both writes fall within one step of the file system's clock.
#[test]
fn a_change_of_the_same_length_right_after_the_start_counts() {
    let scene = Scene::new().policy("{tools: {exec: {security: 'full'}}}");
    let store = scene.load().unwrap();
    for (word, expect) in [
        ("deny", Security::Deny),
        ("full", Security::Full),
        ("deny", Security::Deny),
    ] {
        write(
            &scene.state_dir().config(),
            &format!("{{tools: {{exec: {{security: '{word}'}}}}}}"),
        );
        assert_eq!(store.refresh(), reloaded(&[]));
        assert_eq!(security(&store), expect);
    }
    assert_eq!(store.current().generation, 3);
}

#[test]
fn a_file_that_appears_or_disappears_is_a_change() {
    let scene = Scene::new();
    let store = scene.load().unwrap();
    assert_eq!(security(&store), Security::Deny);
    let scene = scene
        .policy("{tools: {exec: {security: 'full'}}}")
        .server("[limits]\nmax_queued = 1");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!(
        (security(&store), store.current().server.limits.max_queued),
        (Security::Full, 1)
    );
    fs::remove_file(scene.state_dir().config()).unwrap();
    fs::remove_file(scene.state_dir().server_config()).unwrap();
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!(
        (security(&store), store.current().server.limits.max_queued),
        (Security::Deny, 1024)
    );
}

#[test]
fn a_broken_edit_keeps_the_last_good_settings_and_is_told_once() {
    let scene = Scene::new().policy("{tools: {exec: {security: 'allowlist'}}}");
    let store = scene.load().unwrap();
    let scene = scene.policy("{tools: {exec: {security: 'full',\n secuirty: 1}}}");
    let Refresh::Rejected(problems) = store.refresh() else {
        panic!("a broken edit should be rejected")
    };
    let line =
        "openclaw.json: tools.exec.secuirty: unknown key, the nearest known one is tools.exec.security";
    assert_eq!(scene.lines(&problems), [line]);
    assert_eq!(security(&store), Security::Allowlist);
    assert!(config_error(&store).unwrap().ends_with(line));
    assert_eq!(store.refresh(), Refresh::Unchanged);
    assert!(config_error(&store).is_some());

    let scene = scene.policy("{tools: {exec: {security: 'full'");
    assert!(matches!(store.refresh(), Refresh::Rejected(_)));
    assert_eq!(security(&store), Security::Allowlist);

    let _scene = scene.policy("{tools: {exec: {security: 'deny'}}}");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!((security(&store), config_error(&store)), (Security::Deny, None));
}

#[test]
fn one_broken_file_does_not_keep_the_other_from_being_tightened() {
    let scene = Scene::new()
        .policy("{tools: {exec: {security: 'full'}}}")
        .server("");
    let store = scene.load().unwrap();
    let scene = scene.server("[htp]");
    assert!(matches!(store.refresh(), Refresh::Rejected(_)));
    let scene = scene.policy("{tools: {exec: {security: 'deny'}}}");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!(security(&store), Security::Deny);
    assert!(config_error(&store).is_some());
    let _scene = scene
        .policy("{tools: {exec: {security: 'allowlist'}}}")
        .server("[limits]\nmax_queued = 2");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!(
        (store.current().server.limits.max_queued, config_error(&store)),
        (2, None)
    );
}

#[test]
fn both_files_in_one_look_one_good_one_broken() {
    let scene = Scene::new().policy("{}").server("");
    let store = scene.load().unwrap();
    let _scene = scene
        .policy("{tools: {exec: {ask: 'always'}}}")
        .server("nonsense");
    assert!(matches!(store.refresh(), Refresh::Rejected(_)));
    assert_eq!(
        store.current().policy.ask(&AgentId::main()).pop().unwrap().value,
        Ask::Always
    );
}

#[test]
fn keys_that_need_a_restart_keep_their_value() {
    let scene = Scene::new().server("[http]\nlisten = \"127.0.0.1:1\"\n[approvals]\nmax_pending = 5");
    let store = scene.load().unwrap();
    let scene = scene
        .server("[http]\nlisten = \"0.0.0.0:2\"\n[approvals]\nmax_pending = 6\n[output]\ntail_chars = 1");
    assert!(
        matches!(store.refresh(), Refresh::Rejected(_)),
        "such a file could not start"
    );
    let scene = scene
        .server("[http]\nlisten = \"127.0.0.1:2\"\n[approvals]\nmax_pending = 6\n[output]\ntail_chars = 1");
    assert_eq!(store.refresh(), reloaded(&["http.listen", "output.tail_chars"]));
    let settings = store.current();
    assert_eq!(settings.server.http.listen, "127.0.0.1:1".parse().unwrap());
    assert_eq!(
        (
            settings.server.approvals.max_pending,
            settings.server.output.tail_chars
        ),
        (6, 20_000)
    );
    assert_eq!(
        value_of(&settings, "http.listen").value,
        serde_json::json!("127.0.0.1:1")
    );
    let waiting: Vec<_> = settings
        .waiting
        .iter()
        .map(
            |WaitingValue {
                 key,
                 value,
                 waits_for,
             }| (key.as_str(), value.clone(), *waits_for),
        )
        .collect();
    let expected = [
        ("http.listen", serde_json::json!("127.0.0.1:2"), WaitsFor::Restart),
        ("output.tail_chars", serde_json::json!(1), WaitsFor::Restart),
    ];
    assert_eq!(waiting, expected);
    let _scene = scene.server("[http]\nlisten = \"127.0.0.1:1\"\n[approvals]\nmax_pending = 6");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert!(store.current().waiting.is_empty());
}

#[test]
fn a_guard_is_put_up_at_once_and_taken_down_by_a_second_person_and_a_restart() {
    let mut scene = Scene::new().server("");
    let store = scene.load().unwrap();
    store.look_for_owners(|| true).unwrap();
    let widening = || store.current().server.approvals.widening;
    for looser in ["[approvals]\nwidening = \"apply\"", ""] {
        scene = scene.server("[approvals]\nwidening = \"ask\"");
        assert_eq!((store.refresh(), widening()), (reloaded(&[]), Widening::Ask));
        scene = scene.server(looser);
        let kept = reloaded(&["approvals.widening"]);
        assert_eq!((store.refresh(), widening()), (kept, Widening::Ask), "{looser}");
    }
    let waiting = |settings: &Settings| -> Vec<_> {
        let waiting = settings.waiting.iter();
        waiting
            .map(|waiting| (waiting.key.clone(), waiting.waits_for))
            .collect()
    };
    let key = || "approvals.widening".to_owned();
    assert_eq!(waiting(&store.current()), [(key(), WaitsFor::Acceptance)]);
    let restarted = scene.load().unwrap();
    restarted.look_for_owners(|| true).unwrap();
    let settings = restarted.current();
    assert_eq!(settings.server.approvals.widening, Widening::Ask);
    assert_eq!(waiting(&settings), [(key(), WaitsFor::Acceptance)]);
    assert!(!restarted.accept_guards("another content").unwrap());
    assert!(restarted.accept_guards(&settings.server_hash).unwrap());
    assert!(
        !restarted.accept_guards(&settings.server_hash).unwrap(),
        "nothing waits any more"
    );
    let accepted = restarted.current();
    assert_eq!(accepted.server.approvals.widening, Widening::Ask);
    assert_eq!(waiting(&accepted), [(key(), WaitsFor::Restart)]);
    assert!(accepted.generation > settings.generation);
    let restarted = scene.load().unwrap();
    assert_eq!(restarted.current().server.approvals.widening, Widening::Apply);
    assert_eq!(waiting(&restarted.current()), []);
}

#[test]
fn a_rejected_content_is_never_in_force_and_cannot_be_accepted() {
    let looser = "[approvals]\nwidening = \"apply\"";
    let mut scene = Scene::new().server("[approvals]\nwidening = \"ask\"");
    let store = scene.load().unwrap();
    store.look_for_owners(|| true).unwrap();
    scene = scene.server(looser);
    drop(store.refresh());
    let waits_for = |settings: &Settings| -> Vec<_> {
        let waiting = settings.waiting.iter();
        waiting.map(|waiting| waiting.waits_for).collect()
    };
    let hash = store.current().server_hash.clone();
    assert!(!store.reject_guards("another content").unwrap());
    assert!(store.reject_guards(&hash).unwrap());
    assert!(!store.reject_guards(&hash).unwrap(), "it waits no more");
    let restarted = scene.load().unwrap();
    restarted.look_for_owners(|| true).unwrap();
    for store in [&store, &restarted] {
        assert_eq!(waits_for(&store.current()), [WaitsFor::Change]);
        assert!(!store.accept_guards(&hash).unwrap());
        assert_eq!(store.current().server.approvals.widening, Widening::Ask);
    }
    let _scene = scene.server(&format!("{looser}\nmax_pending = 7"));
    drop(restarted.refresh());
    assert_eq!(restarted.current().server.approvals.widening, Widening::Ask);
    assert!(waits_for(&restarted.current()).contains(&WaitsFor::Acceptance));
}

#[test]
fn a_variable_still_wins_after_a_reload() {
    let scene = Scene::new().variable("COUNTERSIGN_APPROVALS__MAX_PENDING", "7");
    let store = scene.load().unwrap();
    let _scene = scene.server("[approvals]\nmax_pending = 8");
    assert_eq!(store.refresh(), reloaded(&[]));
    assert_eq!(store.current().server.approvals.max_pending, 7);
}

#[test]
fn files_that_others_may_write_are_refused_and_group_ones_found() {
    for file in [StateDir::config, StateDir::server_config] {
        let scene = Scene::new().policy("{}").server("");
        let path = file(&scene.state_dir());
        let name = path.strip_prefix(scene.root()).unwrap().display().to_string();
        set_mode(&path, 0o646);
        assert_eq!(
            scene.problems(),
            [format!(
                "{name}: others may write it, take that right away with chmod o-w"
            )]
        );
        set_mode(&path, 0o664);
        let store = scene.load().unwrap();
        assert_eq!(
            store.current().findings,
            [SettingsFinding::GroupMayWrite(path.clone())]
        );
        set_mode(&path, 0o666);
        assert!(matches!(store.refresh(), Refresh::Rejected(_)));
        set_mode(&path, 0o644);
        assert_eq!(store.refresh(), reloaded(&[]));
        assert_eq!((store.current().findings.len(), config_error(&store)), (0, None));
    }
}

#[test]
fn what_is_no_readable_file_is_refused() {
    let scene = Scene::new();
    fs::create_dir(scene.state_dir().config()).unwrap();
    assert_eq!(scene.problems(), ["openclaw.json: not a regular file"]);
    let scene = Scene::new();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        scene.state_dir().config(),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    assert_eq!(scene.problems(), ["openclaw.json: not a regular file"]);
    let scene = Scene::new().policy(&format!("{{}}{}", " ".repeat(5 * 1024 * 1024)));
    assert_eq!(scene.problems(), ["openclaw.json: longer than 4194304 bytes"]);
}

#[test]
fn the_state_directory_is_made_private_and_checked() {
    let scene = Scene::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for path in [
        scene.root(),
        scene.root().join("countersign"),
        scene.state_dir().runs(),
        scene.state_dir().output(),
    ] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    set_mode(&scene.root(), 0o755);
    scene.state_dir().prepare().unwrap();
    set_mode(&scene.root(), 0o770);
    assert!(scene.state_dir().prepare().is_err());
    set_mode(&scene.root(), 0o700);
    set_mode(&scene.state_dir().countersign(), 0o702);
    assert!(scene.state_dir().prepare().is_err());
    set_mode(&scene.state_dir().countersign(), 0o700);
    fs::remove_dir(scene.state_dir().runs()).unwrap();
    write(&scene.state_dir().runs(), "");
    assert!(scene.state_dir().prepare().is_err());
}

#[test]
fn the_state_directory_is_found_in_order() {
    let root = |flag: Option<&str>, variables: &[(&str, &str)]| {
        let environment = MapEnvironment::new(variables.iter().copied());
        let found = StateDir::resolve(flag.map(Path::new), &environment).unwrap();
        found.root().to_path_buf()
    };
    let home = ("HOME", "/home/me");
    assert_eq!(root(None, &[home]), Path::new("/home/me/.openclaw"));
    assert_eq!(
        root(None, &[home, ("OPENCLAW_HOME", "~/x")]),
        Path::new("/home/me/x/.openclaw")
    );
    let both = [home, ("OPENCLAW_HOME", "/x"), ("OPENCLAW_STATE_DIR", "  ~/s ")];
    assert_eq!(root(None, &both), Path::new("/home/me/s"));
    assert_eq!(root(Some("/flag"), &both), Path::new("/flag"));
    assert_eq!(
        root(None, &[home, ("OPENCLAW_STATE_DIR", " ")]),
        Path::new("/home/me/.openclaw")
    );
    assert!(root(Some("relative"), &[home]).is_absolute());
}
