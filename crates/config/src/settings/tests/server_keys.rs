//! `countersign.toml`, variables and flags.

use std::{collections::BTreeSet, net::SocketAddr, path::Path, time::Duration};

use serde_json::{Value, json};

use super::{
    super::{
        server::KEYS,
        server_sources::{parse_environment, parse_file},
        values::Places,
    },
    *,
};

/// Every key with a good value, which is not its default, and bad ones.
const SAMPLES: &[(&str, &str, &[&str])] = &[
    (
        "http.listen",
        "\"127.0.0.1:0\"",
        &["\"127.0.0.1\"", "\"host:1\"", "18790"],
    ),
    ("http.unix_socket", "\"other.sock\"", &["false", "\"a\\u0000b\""]),
    ("http.insecure_bind", "true", &["\"true\"", "1"]),
    (
        "http.public_url",
        "\"https://approvals.example.org\"",
        &["\"approvals.example.org\"", "\"\"", "\"javascript:1\""],
    ),
    (
        "http.allowed_hosts",
        "[\"approvals.example.org\", \"[2001:db8::1]\"]",
        &["\"a\"", "[\"*\"]", "[\"a:80\"]", "[\"\"]", "[1]"],
    ),
    (
        "http.cors_origins",
        "[\"https://a.example\"]",
        &["[\"*\"]", "[\"https://a.example/\"]", "[\"null\"]"],
    ),
    (
        "http.trusted_proxies",
        "[\"10.0.0.0/8\"]",
        &["[\"10.0.0.0/33\"]", "\"10.0.0.0/8\""],
    ),
    ("tls.cert", "\"cert.pem\"", &["\"\"", "1"]),
    ("tls.key", "\"/etc/key.pem\"", &["\"\""]),
    ("tls.client_ca", "\"/etc/ca.pem\"", &["[]"]),
    ("auth.failures_per_minute", "11", &["0", "-1", "1.5", "\"11\""]),
    ("auth.session_hours", "1", &["0", "8761"]),
    ("auth.login_link_ttl_ms", "1000", &["999"]),
    (
        "database.url",
        "\"sqlite:other.db\"",
        &["\"other.db\"", "\"sqlite::memory:\"", "\"mysql://a\""],
    ),
    ("database.max_connections", "1", &["0", "1001"]),
    ("database.durability", "\"full\"", &["\"off\"", "true"]),
    ("database.keep_runs_days", "0", &["-1", "36501"]),
    ("database.keep_audit_days", "400", &["\"0\""]),
    ("events.keep_count", "1", &["0"]),
    ("events.keep_days", "1", &["0"]),
    ("bridge.enabled", "false", &["0"]),
    ("bridge.token", "\"secret\"", &["\"\"", "7"]),
    ("bridge.tick_ms", "1000", &["0"]),
    ("bridge.handshake_timeout_ms", "1", &["0"]),
    ("bridge.invoke_timeout_ms", "1", &["0"]),
    ("bridge.max_frame_bytes", "65536", &["65535"]),
    ("bridge.max_buffer_bytes", "65536", &["0"]),
    ("bridge.max_nodes", "1", &["0"]),
    ("bridge.allow_commands", "[\"camera.snap\"]", &["[\"\"]"]),
    ("bridge.deny_commands", "[\"camera.snap\"]", &["[[]]"]),
    ("ipc.role", "\"client\"", &["\"server\""]),
    ("ipc.require_v2", "true", &["\"yes\""]),
    ("ipc.trust_attached", "true", &["1"]),
    ("ipc.rate_limit", "0", &["-1"]),
    ("ipc.rate_burst", "1", &["1.5"]),
    ("ipc.max_connections", "0", &["-1"]),
    ("ipc.max_prompts_per_session", "0", &["\"\""]),
    (
        "approvals.path",
        "\"/srv/exec-approvals.json\"",
        &["\"exec-approvals.json\"", "\"\""],
    ),
    ("approvals.timeout_ms", "1000", &["999", "86400001"]),
    ("approvals.start_by_ms", "1", &["0"]),
    ("approvals.always_reachable", "true", &["\"true\""]),
    ("approvals.fallback_after_timeout", "false", &["0"]),
    ("approvals.max_pending", "1", &["0"]),
    ("approvals.max_pending_per_agent", "0", &["-1"]),
    ("approvals.max_pending_per_token", "0", &["-1"]),
    ("approvals.questions_per_minute_per_token", "0", &["-1"]),
    ("approvals.question_burst_per_token", "0", &["1.5"]),
    ("approvals.widening", "\"ask\"", &["\"no\""]),
    (
        "approvals.rules",
        "[{ agents = [\"main\"], hosts = [\"gateway\"], approvals_required = 2, decide_by_ms = 60000 }]",
        &[
            "{}",
            "[{ agent = [\"main\"] }]",
            "[{ hosts = [\"auto\"] }]",
            "[{ approvals_required = 0 }]",
            "[{ agents = [\"*\"] }]",
            "[{ patterns = [\"bin/kubectl\"] }]",
            "[{ decide_by_ms = 86400001 }]",
            "[1]",
        ],
    ),
    ("policy.path_case", "\"insensitive\"", &["\"lower\""]),
    ("policy.delegation_table", "false", &["\"\""]),
    ("policy.exact_text_grants", "true", &["[]"]),
    (
        "policy.skill_bins",
        "[{ name = \"jq\", path = \"/usr/bin/jq\" }]",
        &[
            "[{ name = \"jq\" }]",
            "[{ name = \"jq\", path = \"jq\" }]",
            "[{ name = \"jq\", path = \"/jq\", x = 1 }]",
        ],
    ),
    ("exec.shell", "\"/bin/bash\"", &["\"bash\"", "\"\""]),
    ("exec.direct", "\"off\"", &["\"on\"", "true"]),
    ("exec.record_input", "true", &["\"yes\"", "1"]),
    ("exec.run_as", "\"agent\"", &["\"\""]),
    (
        "exec.runner_socket",
        "\"/run/runner.sock\"",
        &["\"runner.sock\"", "\"\""],
    ),
    ("exec.isolation", "\"same-user\"", &["\"sandbox\"", "\"none\""]),
    ("exec.login_path", "false", &["0"]),
    ("exec.login_path_timeout_ms", "1", &["0"]),
    ("sandbox.backend", "\"off\"", &["\"podman\""]),
    (
        "sandbox.docker_socket",
        "\"/run/docker.sock\"",
        &["\"docker.sock\""],
    ),
    ("sandbox.start_timeout_ms", "1", &["0"]),
    ("limits.body_bytes", "1024", &["1023"]),
    ("limits.header_timeout_ms", "1", &["0"]),
    ("limits.requests_per_second", "0", &["-1"]),
    ("limits.request_burst", "0", &["-1"]),
    ("limits.anonymous_per_second", "0", &["-1"]),
    ("limits.anonymous_burst", "0", &["-1"]),
    ("limits.max_connections", "1", &["0"]),
    ("limits.max_running", "0", &["-1"]),
    ("limits.max_running_per_agent", "0", &["-1"]),
    ("limits.max_queued", "0", &["-1"]),
    ("limits.queue_timeout_ms", "0", &["-1"]),
    ("limits.max_sse_clients", "1", &["0"]),
    ("limits.max_sessions", "1", &["0"]),
    ("limits.run_memory_bytes", "1", &["-1"]),
    ("limits.run_cpu_percent", "100", &["-1"]),
    ("limits.run_pids", "1", &["-1"]),
    ("output.max_chars", "1", &["0"]),
    ("output.tail_chars", "0", &["-1"]),
    ("output.max_run_bytes", "0", &["-1"]),
    ("output.quota_bytes", "0", &["-1"]),
    ("output.keep_days", "1", &["0"]),
    ("shutdown.grace_ms", "0", &["-1", "31536000001"]),
    ("shutdown.background_runs", "\"kill\"", &["\"stop\""]),
    ("telemetry.log_format", "\"json\"", &["\"yaml\""]),
    (
        "telemetry.log_filter",
        "\"countersign=debug,info\"",
        &["\"a=b=c\"", "\"\""],
    ),
    ("telemetry.metrics_listen", "\"127.0.0.1:9090\"", &["\"9090\""]),
    (
        "telemetry.otlp_endpoint",
        "\"http://127.0.0.1:4318\"",
        &["\"127.0.0.1:4318\""],
    ),
];

fn places() -> Places {
    Places {
        home: Some("/home/somebody".into()),
        state: "/state".into(),
    }
}

fn toml_of(key: &str, value: &str) -> String {
    let (section, key) = key.split_once('.').unwrap();
    format!("[{section}]\n{key} = {value}\n")
}

#[test]
fn every_key_is_sampled() {
    let sampled: BTreeSet<&str> = SAMPLES.iter().map(|(key, _good, _bad)| *key).collect();
    let known: BTreeSet<&str> = KEYS.iter().map(|key| key.name).collect();
    assert_eq!(sampled, known);
}

#[test]
fn every_default_is_a_good_value() {
    for key in KEYS {
        let default = (key.default)();
        if !default.is_null() {
            assert_eq!((key.check)(&default, &places()), Ok(()), "{}", key.name);
        }
    }
    let store = Scene::new().load().unwrap();
    assert!(store.current().findings.is_empty());
    assert_eq!(store.current().generation, 0);
}

#[test]
fn every_key_takes_its_good_value_from_the_file() {
    for (key, good, _bad) in SAMPLES {
        let mut problems = Vec::new();
        let given = parse_file(
            &toml_of(key, good),
            Path::new("/c.toml"),
            &places(),
            &mut problems,
        );
        assert_eq!(problems, [], "{key} = {good}");
        let (value, source) = given.get(key).unwrap_or_else(|| panic!("{key}"));
        assert_eq!(*source, Source::File("/c.toml".into()), "{key}");
        let default = KEYS
            .iter()
            .find(|known| known.name == *key)
            .map(|known| (known.default)())
            .unwrap();
        assert_ne!(*value, default, "{key}: the sample should not be the default");
    }
}

#[test]
fn every_key_refuses_its_bad_values_and_names_itself() {
    for (key, _good, bad) in SAMPLES {
        for bad in bad.iter().chain(&["{ x = [1] }", "-1.5", "1979-05-27", "nan"]) {
            let mut problems = Vec::new();
            let given = parse_file(&toml_of(key, bad), Path::new("/c.toml"), &places(), &mut problems);
            assert!(given.is_empty(), "{key} = {bad}");
            assert_eq!(problems.len(), 1, "{key} = {bad}: {problems:?}");
            let line = problems[0].to_string();
            assert!(
                line.starts_with(&format!("/c.toml: {key}")) && !line.contains('\n'),
                "{key} = {bad}: {line}"
            );
        }
    }
}

#[test]
fn every_scalar_and_list_can_be_a_variable() {
    let only_in_file = ["approvals.rules", "policy.skill_bins"];
    for (key, good, _bad) in SAMPLES {
        let mut problems = Vec::new();
        let from_file = parse_file(
            &toml_of(key, good),
            Path::new("/c.toml"),
            &places(),
            &mut problems,
        );
        let expect = &from_file[key].0;
        let text = match expect {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts
                .iter()
                .map(|part| part.as_str().unwrap_or("x"))
                .collect::<Vec<_>>()
                .join(" , "),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => expect.to_string(),
        };
        let variable = KEYS.iter().find(|known| known.name == *key).unwrap().variable();
        let environment = MapEnvironment::new([(variable.clone(), text)]);
        let given = parse_environment(&environment, &places(), &mut problems);
        if only_in_file.contains(key) {
            let line = format!("{variable}: {key}: cannot be set by a variable, only in the file");
            assert_eq!(
                problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
                [line]
            );
        } else {
            assert_eq!(problems, []);
            assert_eq!(
                given.get(key),
                Some(&(expect.clone(), Source::Variable(variable)))
            );
        }
    }
}

#[test]
fn variables_are_spelled_by_section_and_key() {
    let scene = Scene::new().variable("COUNTERSIGN_APPROVALS__TIMEOUT_MS", "60000");
    let settings = scene.load().unwrap().current();
    assert_eq!(settings.server.approvals.timeout, Duration::from_mins(1));
    let scene = Scene::new().variable("COUNTERSIGN_HTTP__ALLOWED_HOSTS", "");
    assert!(
        scene
            .load()
            .unwrap()
            .current()
            .server
            .http
            .allowed_hosts
            .is_empty()
    );
}

#[test]
fn file_yields_to_variable_and_variable_to_flag() {
    let listen = |scene: Scene| {
        let settings = scene.load().unwrap().current();
        let value = value_of(&settings, "http.listen");
        (
            settings.server.http.listen.port(),
            value.value,
            value.source,
            value.default,
        )
    };
    let address = |port: u16| json!(format!("127.0.0.1:{port}"));
    let default = address(18790);
    assert_eq!(
        listen(Scene::new()),
        (18790, default.clone(), Source::Default, default.clone())
    );
    let scene = Scene::new().server("[http]\nlisten = \"127.0.0.1:1\"");
    let file = Source::File(scene.state_dir().server_config());
    assert_eq!(listen(scene), (1, address(1), file, default.clone()));
    let with_variable = || {
        Scene::new()
            .server("[http]\nlisten = \"127.0.0.1:1\"")
            .variable("COUNTERSIGN_HTTP__LISTEN", "127.0.0.1:2")
    };
    let variable = Source::Variable("COUNTERSIGN_HTTP__LISTEN".to_owned());
    assert_eq!(
        listen(with_variable()),
        (2, address(2), variable, default.clone())
    );
    let options = StartOptions {
        listen: Some("127.0.0.1:3".to_owned()),
        ..StartOptions::default()
    };
    assert_eq!(
        listen(with_variable().options(options)),
        (3, address(3), Source::Flag("--listen"), default)
    );
}

#[test]
fn a_bad_value_is_refused_although_a_stronger_one_replaces_it() {
    let scene = Scene::new()
        .server("[approvals]\ntimeout_ms = 1")
        .variable("COUNTERSIGN_APPROVALS__TIMEOUT_MS", "60000");
    assert_eq!(
        scene.problems(),
        ["countersign/countersign.toml: approvals.timeout_ms: expected a whole number from 1000 to 86400000"]
    );
}

#[test]
fn unknown_keys_are_named_with_the_nearest_known_one() {
    let scene = Scene::new()
        .server("[http]\nlisen = \"127.0.0.1:1\"\n[aprovals]\ntimeout_ms = 5\n[limits]\nmax_runing = 1\n[[approvals.rules]]\nagent = [\"a\"]")
        .variable("COUNTERSIGN_APPROVALS__TIMEOUT", "60000")
        .variable("COUNTERSIGN_TEST_KILL", "x")
        .variable("COUNTERSIGN_URL", "x")
        .variable("COUNTERSIGN_TOKEN", "x");
    let file = "countersign/countersign.toml";
    let mut problems = scene.problems();
    problems.sort();
    let mut expected = vec![
        "COUNTERSIGN_APPROVALS__TIMEOUT: unknown variable, the nearest known one is COUNTERSIGN_APPROVALS__TIMEOUT_MS".to_owned(),
        format!("{file}: approvals.rules[0].agent: unknown key, the nearest known one is agents"),
        format!("{file}: aprovals: unknown key, the nearest known one is approvals"),
        format!("{file}: http.lisen: unknown key, the nearest known one is http.listen"),
        format!("{file}: limits.max_runing: unknown key, the nearest known one is limits.max_running"),
    ];
    if !cfg!(feature = "test-hooks") {
        expected.insert(
            1,
            "COUNTERSIGN_TEST_KILL: unknown variable, the nearest known one is COUNTERSIGN_TLS__KEY"
                .to_owned(),
        );
    }
    assert_eq!(problems, expected);
}

#[test]
fn every_problem_of_every_source_is_reported_on_its_own_line() {
    let scene = Scene::new()
        .server("http = 1\n[auth]\nfailures_per_minute = 0")
        .policy("{tools: {exec: {ask: 'sometimes'}}}")
        .variable("COUNTERSIGN_EXEC__LOGIN_PATH", "maybe")
        .options(StartOptions {
            listen: Some("nowhere".to_owned()),
            ..StartOptions::default()
        });
    assert_eq!(
        scene.problems(),
        [
            "countersign/countersign.toml: auth.failures_per_minute: expected a whole number from 1 to 1000000000",
            "countersign/countersign.toml: http: expected a table, written as [http]",
            "COUNTERSIGN_EXEC__LOGIN_PATH: exec.login_path: expected true or false",
            "--listen: http.listen: expected an address such as 127.0.0.1:18790 or [::1]:18790",
            "openclaw.json: tools.exec.ask: expected off, on-miss or always",
        ]
    );
}

#[test]
fn a_key_cannot_forge_a_second_line() {
    let scene = Scene::new().server("[http]\n\"a\\nb\" = 1");
    let problems = scene.problems();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].contains("http.a\\nb: unknown key") && !problems[0].contains('\n'),
        "{problems:?}"
    );
}

#[test]
fn broken_toml_is_located() {
    let scene = Scene::new().server("[http]\nlisten = \n");
    let problems = scene.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].ends_with("at line 2, column 10"), "{problems:?}");
}

#[test]
fn what_this_version_cannot_keep_refuses_the_start() {
    let check = |text: &str, expect: &str| {
        let problems = Scene::new().server(text).problems();
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].contains(expect), "{text}: {problems:?}");
    };
    check(
        "[http]\nlisten = \"0.0.0.0:0\"",
        "http.listen: not a loopback address",
    );
    check(
        "[http]\nlisten = \"[::]:0\"",
        "http.listen: not a loopback address",
    );
    check(
        "[tls]\ncert = \"c\"",
        "tls.cert: does nothing without tls.key, set both or neither",
    );
    check(
        "[tls]\nkey = \"k\"",
        "tls.key: does nothing without tls.cert, set both or neither",
    );
    check(
        "[tls]\nclient_ca = \"c\"",
        "tls.client_ca: does nothing without tls.cert and tls.key",
    );
    check(
        "[database]\nurl = \"postgres://db/countersign\"",
        "database.url: not yet",
    );
    check(
        "[exec]\nisolation = \"separate-user\"",
        "exec.isolation: does nothing without exec.run_as or --run-as",
    );
    check(
        "[exec]\nrunner_socket = \"/run/x.sock\"",
        "exec.runner_socket: does nothing without exec.run_as or --run-as",
    );
}

#[test]
fn a_demanded_account_can_be_named_by_the_flag() {
    let options = StartOptions {
        run_as: Some("agent".to_owned()),
        ..StartOptions::default()
    };
    let scene = Scene::new().server("[exec]\nisolation = \"separate-user\"");
    scene.options(options).load().expect("the account is named");
}

#[test]
fn every_way_to_write_an_open_address_is_refused_without_tls() {
    for open in [
        "0.0.0.0:0",
        "[::]:0",
        "[::ffff:0.0.0.0]:0",
        "[::ffff:192.0.2.1]:0",
        "192.0.2.1:0",
        "[::127.0.0.1]:0",
    ] {
        for (table, key) in [("http", "listen"), ("telemetry", "metrics_listen")] {
            let problems = Scene::new()
                .server(&format!("[{table}]\n{key} = \"{open}\""))
                .problems();
            assert_eq!(problems.len(), 1, "{open}: {problems:?}");
            assert!(
                problems[0].contains(&format!("{table}.{key}: not a loopback address")),
                "{problems:?}"
            );
            assert!(problems[0].contains("--insecure-bind"), "{problems:?}");
        }
        let tls = format!("[http]\nlisten = \"{open}\"\n[tls]\ncert = \"c\"\nkey = \"k\"");
        assert!(Scene::new().server(&tls).load().is_ok(), "{open}");
        // What TLS guards is the API; the metrics stay plain.
        let metrics = format!("[telemetry]\nmetrics_listen = \"{open}\"\n[tls]\ncert = \"c\"\nkey = \"k\"");
        assert_eq!(Scene::new().server(&metrics).problems().len(), 1, "{open}");
    }
    // Names are no addresses: what they lead to could change after the check.
    for name in [
        "example.org:80",
        "localhost",
        "127.1:80",
        "0:80",
        "localhost.:80",
        "LOCALHOST:80",
    ] {
        let problems = Scene::new()
            .server(&format!("[http]\nlisten = \"{name}\""))
            .problems();
        assert!(
            problems[0].contains("expected an address"),
            "{name}: {problems:?}"
        );
    }
    for loopback in [
        "127.0.0.1:0",
        "127.8.9.10:0",
        "[::1]:0",
        "[::ffff:127.0.0.1]:0",
        "localhost:0",
    ] {
        assert!(
            Scene::new()
                .server(&format!("[http]\nlisten = \"{loopback}\""))
                .load()
                .is_ok(),
            "{loopback}"
        );
    }
}

#[test]
fn an_open_address_needs_consent() {
    let open = || Scene::new().server("[http]\nlisten = \"0.0.0.0:0\"");
    let listen = |scene: Scene| scene.load().unwrap().current().server.http.listen;
    let expect: SocketAddr = "0.0.0.0:0".parse().unwrap();
    assert_eq!(
        listen(open().variable("COUNTERSIGN_HTTP__INSECURE_BIND", "true")),
        expect
    );
    assert_eq!(
        listen(open().options(StartOptions {
            insecure_bind: true,
            ..StartOptions::default()
        })),
        expect
    );
    assert_eq!(
        listen(Scene::new().server("[http]\nlisten = \"localhost:7\"")),
        "127.0.0.1:7".parse().unwrap()
    );
}

#[test]
fn keys_without_effect_yet_are_found_when_set() {
    let scene = Scene::new()
        .server("[bridge]\ntoken = \"hidden\"\n[telemetry]\notlp_endpoint = \"http://127.0.0.1:4317\"");
    let settings = scene.load().unwrap().current();
    let found: Vec<String> = settings.findings.iter().map(ToString::to_string).collect();
    let file = scene.state_dir().server_config();
    assert_eq!(
        found,
        [format!(
            "telemetry.otlp_endpoint: not yet effective (set by {})",
            file.display()
        )]
    );
    assert!(!value_of(&settings, "telemetry.otlp_endpoint").effective_now);
    assert!(value_of(&settings, "http.listen").effective_now);
    assert_eq!(value_of(&settings, "bridge.token").value, json!("(secret)"));
    assert!(!format!("{settings:?}").contains("hidden"));
}

#[test]
fn typed_values_carry_their_units() {
    let text = "[database]\nkeep_runs_days = 0\nkeep_audit_days = 2\n[http]\nunix_socket = \"\"\n[exec]\nshell = \"~/bin/sh\"";
    let scene = Scene::new().server(text);
    let settings = scene.load().unwrap().current();
    let server = &settings.server;
    assert_eq!(server.database.keep_runs, None);
    assert_eq!(server.database.keep_audit, Some(Duration::from_hours(48)));
    assert_eq!(scene.state_dir().api_socket(server), None);
    assert_eq!(server.exec.shell, Some("/home/somebody/bin/sh".into()));
    assert_eq!(
        scene.state_dir().ledger(server),
        scene.root().join("countersign/countersign.db")
    );
    assert_eq!(
        scene.state_dir().document(server),
        scene.root().join("exec-approvals.json")
    );
}

#[test]
fn a_named_file_must_be_there() {
    let missing = Scene::new().variable("COUNTERSIGN_CONFIG", "/nowhere/countersign.toml");
    assert_eq!(missing.problems(), ["/nowhere/countersign.toml: no such file"]);
    let scene = Scene::new();
    let other = scene.root().join("other.toml");
    write(&other, "[limits]\nmax_queued = 3");
    let options = StartOptions {
        config: Some(other.clone()),
        ..StartOptions::default()
    };
    let scene = scene
        .variable("COUNTERSIGN_CONFIG", "/nowhere/countersign.toml")
        .options(options);
    let store = scene.load().unwrap();
    assert_eq!(store.current().server.limits.max_queued, 3);
    assert_eq!(store.server_file(), other);
}
