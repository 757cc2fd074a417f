//! `openclaw.json`.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde_json::{Value, json};

use countersign_domain::{AgentId, Ask, HostChoice, Isolation, Leftovers, OnMiss, Security};
use countersign_policy::layers::{Layer, Spoken};

use super::{
    super::{
        policy_config::{ParsedPolicy, parse},
        policy_keys::{KEYS, canonical},
        values::Places,
    },
    *,
};

/// Every key by its global path, with a good value and bad ones (`null` is added to each).
const SAMPLES: &[(&str, &str, &[&str])] = &[
    ("tools.exec.host", "'gateway'", &["'Gateway'", "1", "'localhost'"]),
    ("tools.exec.security", "'full'", &["'none'"]),
    ("tools.exec.ask", "'always'", &["'never'", "true"]),
    ("tools.exec.mode", "'full'", &["'yolo'"]),
    ("tools.exec.node", "'mac'", &["''", "5"]),
    ("tools.exec.timeoutSec", "0", &["-1", "1.5", "'5'"]),
    ("tools.exec.timeoutSeconds", "5.0", &["-1"]),
    ("tools.exec.backgroundMs", "1e3", &["-5"]),
    ("tools.exec.cleanupMs", "60000", &["59999", "10800001"]),
    ("tools.exec.notifyOnExit", "false", &["0"]),
    ("tools.exec.notifyOnExitEmptySuccess", "true", &["'true'"]),
    ("tools.exec.approvalRunningNoticeMs", "0", &["-1"]),
    ("tools.exec.strictInlineEval", "true", &["'yes'"]),
    ("tools.exec.strictDelegation", "false", &["[]"]),
    ("tools.exec.reads.nullRedirections", "true", &["1"]),
    ("tools.exec.reads.hereDocuments", "true", &["'yes'"]),
    ("tools.exec.reads.fileRedirections", "true", &["[]"]),
    ("tools.exec.reads.filePatterns", "true", &["'*'"]),
    ("tools.exec.reads.temporaryFiles", "true", &["'/tmp'"]),
    ("tools.exec.reads.foundFiles", "true", &["{}"]),
    ("tools.exec.reads.documentOperands", "true", &["'no'"]),
    ("tools.exec.reads.variables", "true", &["['HOME']"]),
    ("tools.exec.reads.substitutions", "true", &["'$?'"]),
    ("tools.exec.reads.braces", "true", &["'{a,b}'"]),
    ("tools.exec.reads.compoundCommands", "true", &["['if']"]),
    ("tools.exec.reads.loops", "true", &["['while']"]),
    ("tools.exec.reads.laterValues", "true", &["'$(date)'"]),
    ("tools.exec.reads.backgroundCommands", "true", &["'&'"]),
    ("tools.exec.reads.projectRunners", "true", &["['uv']"]),
    ("tools.exec.confineFallback", "'text'", &["'ask'"]),
    ("tools.exec.observe", "true", &["'refused'"]),
    ("tools.exec.leftovers", "'keep'", &["'ignore'"]),
    ("tools.exec.isolation", "'same-user'", &["'confined'", "'auto'"]),
    ("tools.exec.onMiss", "'held'", &["'deny'"]),
    (
        "tools.exec.pathPrepend",
        "['/opt/bin', '~/bin']",
        &["['bin']", "'/opt/bin'", "['~other/bin']"],
    ),
    ("tools.exec.safeBins", "[]", &["{}", "[1]", "['']"]),
    ("tools.exec.heldPrograms", "['awk']", &["'awk'", "[1]"]),
    ("tools.exec.safeBinTrustedDirs", "['/opt/bin']", &["['bin']"]),
    (
        "tools.exec.safeBinProfiles",
        "{cut: {minPositional: 0, maxPositional: 1, deniedFlags: ['-o']}}",
        &[
            "[]",
            "{cut: 1}",
            "{cut: {maxPositionals: 1}}",
            "{cut: {maxPositional: -1}}",
            "{cut: {deniedFlags: null}}",
        ],
    ),
    ("tools.exec.applyPatch.enabled", "false", &["'no'"]),
    ("tools.exec.applyPatch.workspaceOnly", "false", &["1"]),
    ("tools.exec.applyPatch.allowModels", "['m']", &["'m'"]),
    ("tools.allow", "['exec']", &["'exec'", "[1]"]),
    ("tools.deny", "['exec']", &["{}"]),
    ("tools.elevated.enabled", "false", &["'off'"]),
    (
        "tools.elevated.allowFrom",
        "{telegram: [42, 'id:7'], '*': []}",
        &["[]", "{telegram: 'x'}", "{telegram: [true]}"],
    ),
    ("agents.defaults.elevatedDefault", "'full'", &["'yes'"]),
    ("commands.useAccessGroups", "false", &["1"]),
    ("commands.allowFrom", "{'*': ['*']}", &["{'*': [null]}"]),
    ("agents.defaults.workspace", "'~/work'", &["'work'", "''"]),
    ("agents.defaults.sandbox.mode", "'non-main'", &["'on'"]),
    ("agents.defaults.sandbox.scope", "'shared'", &["'agents'"]),
    ("agents.defaults.sandbox.perSession", "true", &["'session'"]),
    ("agents.defaults.sandbox.workspaceAccess", "'rw'", &["'wr'"]),
    (
        "agents.defaults.sandbox.workspaceRoot",
        "'/srv/boxes'",
        &["'boxes'"],
    ),
    ("agents.defaults.sandbox.docker.image", "'debian'", &["''"]),
    ("agents.defaults.sandbox.docker.containerPrefix", "'x-'", &["1"]),
    ("agents.defaults.sandbox.docker.workdir", "'/w'", &["'w'"]),
    ("agents.defaults.sandbox.docker.readOnlyRoot", "false", &["'no'"]),
    ("agents.defaults.sandbox.docker.network", "'bridge'", &["false"]),
    ("agents.defaults.sandbox.docker.tmpfs", "['/tmp']", &["'/tmp'"]),
    ("agents.defaults.sandbox.docker.capDrop", "[]", &["'ALL'"]),
    ("agents.defaults.sandbox.docker.user", "'1000:1000'", &["1000"]),
    (
        "agents.defaults.sandbox.docker.setupCommand",
        "'apt-get update\\ntrue'",
        &["['a']", "''"],
    ),
    ("agents.defaults.sandbox.docker.pidsLimit", "100", &["-1"]),
    ("agents.defaults.sandbox.docker.memory", "'512m'", &["true", "-1"]),
    ("agents.defaults.sandbox.docker.memorySwap", "1073741824", &["[]"]),
    ("agents.defaults.sandbox.docker.cpus", "1.5", &["-1"]),
    (
        "agents.defaults.sandbox.docker.ulimits",
        "{nofile: {soft: 1024, hard: 2048}, nproc: 256}",
        &["[]", "{nofile: {sotf: 1}}"],
    ),
    (
        "agents.defaults.sandbox.docker.seccompProfile",
        "'/p.json'",
        &["{}"],
    ),
    ("agents.defaults.sandbox.docker.apparmorProfile", "'p'", &["''"]),
    (
        "agents.defaults.sandbox.docker.dns",
        "['1.1.1.1']",
        &["'1.1.1.1'"],
    ),
    (
        "agents.defaults.sandbox.docker.extraHosts",
        "['a:1.2.3.4']",
        &["{}"],
    ),
    ("agents.defaults.sandbox.docker.env", "{A: ''}", &["{A: 1}", "[]"]),
    (
        "agents.defaults.sandbox.docker.binds",
        "['/a:/b:ro', '/a:/b']",
        &["['/a']", "['a:/b']", "['/a:/b:rx']"],
    ),
    ("agents.defaults.sandbox.prune.idleHours", "0", &["-1"]),
    ("agents.defaults.sandbox.prune.maxAgeDays", "0", &["'7'"]),
    ("approvals.exec.enabled", "true", &["'x'"]),
    ("approvals.exec.mode", "'session'", &["1"]),
    ("approvals.exec.agentFilter", "['main']", &["'main'"]),
    ("approvals.exec.sessionFilter", "['x']", &["{}"]),
    ("approvals.exec.targets", "[{channel: 'x'}]", &["['x']"]),
    ("gateway.nodes.pairing.autoApproveLocal", "true", &["'x'"]),
];

fn places() -> Places {
    Places {
        home: Some("/home/somebody".into()),
        state: "/state".into(),
    }
}

fn read(text: &str) -> Result<ParsedPolicy, Vec<String>> {
    let lines = |problems: Vec<SettingsProblem>| problems.iter().map(ToString::to_string).collect();
    parse(Some(text), Path::new("/o.json"), &places()).map_err(lines)
}

#[track_caller]
fn good(text: &str) -> PolicyConfig {
    read(text)
        .unwrap_or_else(|problems| panic!("{text}: {problems:?}"))
        .config
}

#[track_caller]
fn bad(text: &str) -> Vec<String> {
    let problems = read(text).expect_err(text);
    problems
        .iter()
        .map(|line| line.strip_prefix("/o.json: ").unwrap_or(line).to_owned())
        .collect()
}

/// A text with one value at a path.
fn nested(path: &str, value: &str) -> String {
    path.rsplit('.')
        .fold(value.to_owned(), |inner, part| format!("{{{part}: {inner}}}"))
}

fn agent(id: &str) -> AgentId {
    AgentId::parse(id).unwrap()
}

#[test]
fn every_key_is_sampled() {
    let sampled: BTreeSet<&str> = SAMPLES.iter().map(|(key, _good, _bad)| *key).collect();
    let known: BTreeSet<&str> = KEYS.iter().map(|key| key.global).collect();
    assert_eq!(sampled, known);
}

#[test]
fn every_default_is_a_good_value() {
    for key in KEYS {
        let default = key.default(&places());
        if !default.is_null() {
            assert_eq!((key.check)(&default, &places()), Ok(()), "{}", key.global);
        }
    }
    let parsed = parse(None, Path::new("/o.json"), &places()).unwrap();
    assert!(parsed.findings.is_empty() && parsed.values.iter().all(|value| value.source == Source::Default));
}

#[test]
fn every_key_takes_its_good_value_at_every_level() {
    for key in KEYS {
        let (_key, sample, _bad) = SAMPLES
            .iter()
            .find(|(name, _good, _bad)| *name == key.global)
            .unwrap();
        let parsed = read(&nested(key.global, sample)).unwrap_or_else(|p| panic!("{}: {p:?}", key.global));
        let shown = KEYS
            .iter()
            .find(|shown| shown.global == canonical(key.global))
            .unwrap();
        let listed = parsed
            .values
            .iter()
            .find(|value| value.key == shown.global)
            .unwrap();
        assert_eq!(listed.source, Source::File("/o.json".into()), "{}", key.global);
        assert_ne!(
            listed.value, listed.default,
            "{}: the sample should not be the default",
            key.global
        );
        let (Some(own), Some(shown)) = (key.agent, shown.agent) else {
            continue;
        };
        let inner = nested(own, sample);
        let in_entries = read(&format!("{{agents: {{entries: {{build: {inner}}}}}}}")).unwrap();
        let name = format!("agents.entries.build.{shown}");
        assert!(in_entries.values.iter().any(|value| value.key == name), "{name}");
        let members = inner.strip_prefix('{').unwrap();
        let in_list = read(&format!("{{agents: {{list: [{{id: 'build', {members}]}}}}")).unwrap();
        assert_eq!(
            in_list.config.exec(&agent("build")).timeout,
            in_entries.config.exec(&agent("build")).timeout
        );
        let name = format!("agents.list[0].{shown}");
        assert!(in_list.values.iter().any(|value| value.key == name), "{name}");
    }
}

#[test]
fn every_key_refuses_its_bad_values_at_every_level() {
    for key in KEYS {
        let (_key, _good, samples) = SAMPLES
            .iter()
            .find(|(name, _good, _bad)| *name == key.global)
            .unwrap();
        for sample in samples.iter().chain(&["null"]) {
            let problems = bad(&nested(key.global, sample));
            assert!(
                problems.len() == 1 && problems[0].starts_with(key.global),
                "{} {sample}: {problems:?}",
                key.global
            );
            let Some(own) = key.agent else { continue };
            let text = format!("{{agents: {{entries: {{'a.b': {}}}}}}}", nested(own, sample));
            let name = format!("agents.entries.\"a.b\".{own}");
            let problems = bad(&text);
            assert!(
                problems.len() == 1 && problems[0].starts_with(&name),
                "{text}: {problems:?}"
            );
        }
    }
}

#[test]
fn messages_name_the_key_and_what_is_allowed() {
    assert_eq!(
        bad("{tools: {exec: {ask: 'x'}}}"),
        ["tools.exec.ask: expected off, on-miss or always"]
    );
    assert_eq!(
        bad("{agents: {list: [{id: 'a', tools: {exec: {security: 'x'}}}]}}"),
        ["agents.list[0].tools.exec.security: expected deny, allowlist or full"]
    );
    assert_eq!(
        bad("{tools: {exec: {ask: null}}}"),
        ["tools.exec.ask: null is not a value, remove the key instead"]
    );
    assert_eq!(
        bad("{tools: {exec: {pathPrepend: ['/a', 'b']}}}"),
        ["tools.exec.pathPrepend[1]: expected an absolute path or one that begins with ~/"]
    );
    assert_eq!(
        bad("{commands: {allowFrom: {'*': [null]}}}"),
        ["commands.allowFrom.\"*\"[0]: null is not a value, remove the key instead"]
    );
}

#[test]
fn a_wrong_group_is_reported_once() {
    assert_eq!(bad("{tools: 5}"), ["tools: expected an object"]);
    assert_eq!(bad("{tools: {exec: []}}"), ["tools.exec: expected an object"]);
    assert_eq!(
        bad("{tools: {exec: null}}"),
        ["tools.exec: null is not a value, remove the key instead"]
    );
    assert_eq!(bad("{agents: []}"), ["agents: expected an object"]);
    assert_eq!(bad("{agents: {list: {}}}"), ["agents.list: expected a list"]);
    assert_eq!(
        bad("{agents: {entries: null}}"),
        ["agents.entries: null is not a value, remove the key instead"]
    );
    assert_eq!(
        bad("{agents: {entries: {a: 1}}}"),
        ["agents.entries.a: expected an object"]
    );
    assert_eq!(
        bad("{agents: {list: [7]}}"),
        ["agents.list[0]: expected an object"]
    );
}

#[test]
fn unknown_keys_are_errors_only_in_the_strict_parts() {
    assert_eq!(
        bad("{tools: {exec: {secuirty: 'full'}}}"),
        ["tools.exec.secuirty: unknown key, the nearest known one is tools.exec.security"]
    );
    assert_eq!(
        bad("{tools: {exec: {applyPatch: {enable: true}}}}"),
        ["tools.exec.applyPatch.enable: unknown key, the nearest known one is tools.exec.applyPatch.enabled"]
    );
    assert_eq!(
        bad("{agents: {list: [{id: 'a', tools: {exec: {aks: 'off'}}}]}}"),
        [
            "agents.list[0].tools.exec.aks: unknown key, the nearest known one is agents.list[0].tools.exec.ask"
        ]
    );
    assert_eq!(
        bad("{tools: {elevated: {allow: {}}}}"),
        ["tools.elevated.allow: unknown key, the nearest known one is tools.elevated.allowFrom"]
    );
    assert_eq!(
        bad("{agents: {defaults: {sandbox: {docker: {imgae: 'x'}}}}}"),
        [
            "agents.defaults.sandbox.docker.imgae: unknown key, the nearest known one is agents.defaults.sandbox.docker.image"
        ]
    );
    good(
        "{tools: {web: {x: 1}, exec: {commandHighlighting: 1, reviewer: {a: null}}}, models: null, gateway: {port: 1}}",
    );
    good(
        "{agents: {defaults: {model: 'x', sandbox: {browser: {a: 1}, ssh: null, podman: 5}}, list: [{id: 'a', name: 'b'}]}}",
    );
}

#[test]
fn unknown_keys_of_an_agents_sandbox_are_findings() {
    let parsed = read("{agents: {list: [{id: 'a', sandbox: {workspaceAcess: 'rw', browser: {}}}]}}").unwrap();
    let found: Vec<String> = parsed.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "agents.list[0].sandbox.workspaceAcess: unknown, ignored; the nearest known one is agents.list[0].sandbox.workspaceAccess"
        ]
    );
}

#[test]
fn silent_pairing_is_known_and_ignored() {
    let parsed = read("{gateway: {nodes: {pairing: {autoApproveLocal: true}}}}").unwrap();
    let key = "gateway.nodes.pairing.autoApproveLocal".to_owned();
    assert_eq!(parsed.findings, [SettingsFinding::Ignored { key }]);
}

#[test]
fn an_agent_is_defined_once_and_has_a_proper_id() {
    assert_eq!(
        bad("{agents: {list: [{id: 'a'}, {id: 'a'}]}}"),
        ["agents.list[1].id: agent a is already defined at agents.list[0]"]
    );
    assert_eq!(
        bad("{agents: {list: [{id: 'a'}], entries: {a: {}}}}"),
        ["agents.entries.a: agent a is already defined at agents.list[0]"]
    );
    let expected = "expected 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit";
    assert_eq!(
        bad("{agents: {entries: {'*': {}}}}"),
        [format!("agents.entries.\"*\": {expected}")]
    );
    assert_eq!(
        bad("{agents: {list: [{id: ''}]}}"),
        [format!("agents.list[0].id: {expected}")]
    );
    assert_eq!(
        bad("{agents: {list: [{}]}}"),
        ["agents.list[0].id: expected the agent's id"]
    );
    assert_eq!(
        good("{agents: {list: [{id: 'b'}], entries: {a: {}}}}").agents(),
        [agent("a"), agent("b")]
    );
}

#[test]
fn keys_that_say_the_same_conflict_at_one_level_only() {
    let conflict =
        |one: &str, other: &str| format!("{one}: conflicts with {other} at the same level, keep one of them");
    assert_eq!(
        bad("{tools: {exec: {mode: 'full', security: 'deny', ask: 'off'}}}"),
        [
            conflict("tools.exec.mode", "tools.exec.security"),
            conflict("tools.exec.mode", "tools.exec.ask")
        ]
    );
    assert_eq!(
        bad("{agents: {entries: {a: {tools: {exec: {mode: 'full', ask: 'off'}}}}}}"),
        [conflict(
            "agents.entries.a.tools.exec.mode",
            "agents.entries.a.tools.exec.ask"
        )]
    );
    assert_eq!(
        bad("{tools: {exec: {timeoutSec: 1, timeoutSeconds: 1}}}"),
        [conflict("tools.exec.timeoutSeconds", "tools.exec.timeoutSec")]
    );
    assert_eq!(
        bad("{agents: {entries: {a: {sandbox: {scope: 'agent', perSession: true}}}}}"),
        [conflict(
            "agents.entries.a.sandbox.perSession",
            "agents.entries.a.sandbox.scope"
        )]
    );
    good("{tools: {exec: {mode: 'full'}}, agents: {entries: {a: {tools: {exec: {ask: 'always'}}}}}}");
}

#[test]
fn layers_speak_in_order_with_their_keys() {
    let text = "{tools: {exec: {host: 'gateway', mode: 'ask'}},
        agents: {list: [{id: 'a', tools: {exec: {ask: 'always', node: 'n'}}}], entries: {b: {tools: {exec: {mode: 'full'}}}}}}";
    let config = good(text);
    assert_eq!(
        config.host(&agent("a")),
        [
            Spoken::new(Layer::Default, "default", HostChoice::Sandbox),
            Spoken::new(Layer::Global, "tools.exec.host", HostChoice::Gateway),
        ]
    );
    assert_eq!(
        config.ask(&agent("a")),
        [
            Spoken::new(Layer::Default, "default", Ask::OnMiss),
            Spoken::new(Layer::Global, "tools.exec.mode", Ask::OnMiss),
            Spoken::new(Layer::Agent, "agents.list[0].tools.exec.ask", Ask::Always),
        ]
    );
    assert_eq!(
        config.security(&agent("b")),
        [
            Spoken::new(Layer::Default, "default", Security::Deny),
            Spoken::new(Layer::Global, "tools.exec.mode", Security::Allowlist),
            Spoken::new(Layer::Agent, "agents.entries.b.tools.exec.mode", Security::Full),
        ]
    );
    let node = Spoken::new(Layer::Agent, "agents.list[0].tools.exec.node", "n".to_owned());
    assert_eq!(
        (config.node(&agent("a")), config.node(&agent("c"))),
        (vec![node], vec![])
    );
    assert_eq!(config.ask(&agent("c")).len(), 2);
}

#[test]
fn every_mode_is_its_pair() {
    let check = |mode: &str, security, ask| {
        let config = good(&format!("{{tools: {{exec: {{mode: '{mode}'}}}}}}"));
        let last = (
            config.security(&agent("main")).pop().unwrap(),
            config.ask(&agent("main")).pop().unwrap(),
        );
        assert_eq!((last.0.value, last.1.value), (security, ask), "{mode}");
    };
    check("deny", Security::Deny, Ask::Off);
    check("allowlist", Security::Allowlist, Ask::Off);
    check("ask", Security::Allowlist, Ask::OnMiss);
    check("auto", Security::Allowlist, Ask::OnMiss);
    check("full", Security::Full, Ask::Off);
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = good("{}");
    let exec = config.exec(&AgentId::main());
    assert_eq!(exec.timeout, Some(Duration::from_mins(30)));
    assert_eq!(exec.background_after, Duration::from_secs(10));
    assert_eq!(exec.cleanup, Duration::from_mins(30));
    assert_eq!(exec.approval_running_notice, Some(Duration::from_secs(10)));
    assert!(exec.notify_on_exit && !exec.notify_on_exit_empty_success);
    assert!(!exec.strict_inline_eval.value && exec.strict_delegation.value);
    assert_eq!(
        (exec.leftovers, exec.on_miss.value, exec.isolation),
        (Leftovers::Kill, OnMiss::Ask, None)
    );
    assert_eq!(exec.safe_bins, ["cut", "uniq", "head", "tail", "tr", "wc"]);
    assert_eq!(
        exec.safe_bin_trusted_dirs,
        [Path::new("/bin"), Path::new("/usr/bin")]
    );
    assert!(exec.path_prepend.is_empty() && exec.safe_bin_profiles.is_empty());
    assert!(
        exec.apply_patch.enabled
            && exec.apply_patch.workspace_only
            && exec.apply_patch.allow_models.is_empty()
    );
    assert_eq!(config.workspace(&AgentId::main()), Path::new("/state/workspace"));
    assert_eq!(config.named_workspace(&AgentId::main()), None);
    let sandbox = config.sandbox(&AgentId::main());
    assert_eq!((sandbox.mode, sandbox.scope), (None, SandboxScope::Agent));
    assert_eq!(sandbox.workspace_root, Path::new("/state/countersign/sandboxes"));
    assert!(config.commands().use_access_groups && config.commands().allow_from.is_empty());
    let elevated = config.elevated(&AgentId::main());
    assert!(elevated.enabled && elevated.agent_enabled && elevated.agent_allow_from.is_none());
    assert_eq!(elevated.default_level, ElevatedLevel::On);
    assert_eq!(config.tool_policy(&AgentId::main()).denied_by(Tool::Exec), None);
}

#[test]
fn an_agent_replaces_adds_or_merges_as_its_key_says() {
    let text = "{tools: {exec: {timeoutSec: 5, pathPrepend: ['/g'], safeBins: ['g'], safeBinTrustedDirs: ['/g'],
            safeBinProfiles: {x: {maxPositional: 1}, y: {}}, strictInlineEval: true, isolation: 'same-user'}, deny: ['process']},
        agents: {defaults: {sandbox: {perSession: true}}, entries: {a: {workspace: '/w', tools: {exec: {timeoutSeconds: 0, pathPrepend: ['~/a'],
            safeBins: [], safeBinTrustedDirs: ['/a', '/g'], safeBinProfiles: {x: {maxPositional: 2}}}, allow: ['process']}}}}}";
    let config = good(text);
    let (own, other) = (config.exec(&agent("a")), config.exec(&agent("b")));
    assert_eq!((own.timeout, other.timeout), (None, Some(Duration::from_secs(5))));
    assert_eq!(own.path_prepend, [Path::new("/home/somebody/a")]);
    assert_eq!((own.safe_bins.len(), other.safe_bins.len()), (0, 1));
    assert_eq!(
        own.safe_bin_trusted_dirs,
        ["/bin", "/usr/bin", "/g", "/a"].map(Path::new)
    );
    let limits = |exec: &ExecSettings| {
        exec.safe_bin_profiles
            .values()
            .map(|p| p.max_positional)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (limits(own), limits(other)),
        (vec![Some(2), None], vec![Some(1), None])
    );
    assert_eq!(own.strict_inline_eval.source, "tools.exec.strictInlineEval");
    assert_eq!(
        (own.strict_inline_eval.value, own.strict_inline_eval.layers.len()),
        (true, 2)
    );
    assert_eq!(own.isolation, Some(Isolation::SameUser));
    assert_eq!(config.workspace(&agent("a")), Path::new("/w"));
    assert_eq!(config.named_workspace(&agent("a")), Some(Path::new("/w")));
    assert_eq!(config.named_workspace(&agent("b")), None);
    let for_all = good("{agents: {defaults: {workspace: '/state/workspace'}}}");
    let named = Some(Path::new("/state/workspace"));
    assert_eq!(for_all.named_workspace(&agent("b")), named, "said is said");
    assert_eq!(config.sandbox(&agent("a")).scope, SandboxScope::Session);
    let denied = |id: &str, tool| config.tool_policy(&agent(id)).denied_by(tool).map(str::to_owned);
    assert_eq!(
        denied("a", Tool::Exec),
        Some("agents.entries.a.tools.allow".to_owned())
    );
    assert_eq!(denied("a", Tool::Process), Some("tools.deny".to_owned()));
    assert_eq!(denied("b", Tool::Exec), None);
}

#[test]
fn an_agent_can_only_switch_elevation_off() {
    let config = good(
        "{tools: {elevated: {enabled: false, allowFrom: {x: [1]}}},
          agents: {entries: {a: {elevatedDefault: 'full', tools: {elevated: {enabled: true, allowFrom: {}}}}}}}",
    );
    let own = config.elevated(&agent("a"));
    assert!(!own.enabled && own.agent_enabled);
    assert_eq!(own.allow_from.get("x"), Some(&vec!["1".to_owned()]));
    assert_eq!(
        (own.agent_allow_from.clone(), own.default_level),
        (Some(SenderLists::new()), ElevatedLevel::Full)
    );
    assert!(config.elevated(&agent("b")).agent_allow_from.is_none());
}

#[test]
fn listed_values_name_file_default_and_effect() {
    let parsed = read(
        "{tools: {exec: {ask: 'off', node: 'n'}}, agents: {entries: {a: {tools: {exec: {ask: 'always'}}}}}}",
    );
    let parsed = parsed.unwrap();
    let value = |key: &str| parsed.values.iter().find(|value| value.key == key).cloned();
    let expect = |key: &str, value: Value, source, default: Value, effective_now| {
        Some(EffectiveValue {
            key: key.to_owned(),
            value,
            source,
            default,
            effective_now,
        })
    };
    let file = || Source::File("/o.json".into());
    assert_eq!(
        value("tools.exec.ask"),
        expect("tools.exec.ask", json!("off"), file(), json!("on-miss"), true)
    );
    let own = "agents.entries.a.tools.exec.ask";
    assert_eq!(
        value(own),
        expect(own, json!("always"), file(), json!("off"), true)
    );
    assert_eq!(
        value("tools.exec.node"),
        expect("tools.exec.node", json!("n"), file(), json!(null), true)
    );
    let host = "tools.exec.host";
    assert_eq!(
        value(host),
        expect(host, json!("sandbox"), Source::Default, json!("sandbox"), true)
    );
    assert_eq!(value("tools.exec.timeoutSeconds"), None);
    assert_eq!(parsed.findings, []);
}

#[test]
fn json5_is_read_and_its_errors_are_located() {
    good("// a comment\n{tools: {'exec': {\"ask\": 'off', timeoutSec: 0x10, /* all */},},}\n");
    good("\u{feff}{}");
    assert_eq!(
        bad("{\n  tools: {exec: {ask 'off'}}\n}"),
        ["expected colon at line 2, column 22"]
    );
    assert_eq!(bad("{} x"), ["trailing characters at line 1, column 4"]);
    assert_eq!(bad("{tools:\n"), ["EOF parsing value at line 2, column 1"]);
    assert_eq!(bad(""), ["EOF parsing value at line 1, column 1"]);
    assert_eq!(bad("[]"), ["expected an object"]);
    let twice = bad("{tools: {exec: {ask: 'always',\n ask: 'off'}}}");
    assert!(
        twice.len() == 1 && twice[0].starts_with("the same key twice in one object at line"),
        "{twice:?}"
    );
    let deep = bad(&format!("{{a: {}", "[".repeat(100_000)));
    assert!(
        deep.len() == 1 && deep[0].starts_with("nested too deeply at line 1"),
        "{deep:?}"
    );
    let number = bad("{a: Infinity}");
    assert!(
        number.len() == 1 && number[0].starts_with("a number that JSON cannot hold"),
        "{number:?}"
    );
}
