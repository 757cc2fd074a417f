//! The samples of every generation, with `index.json` as the oracle, and what must hold for any document.

use std::{collections::HashSet, path::PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use countersign_domain::{Ask, EntryId, Secret, Security, UnixMillis};
use countersign_policy::{
    combine::{self, DocumentPolicy, Effective, PolicyLayers, Wanted},
    layers::{Layer, Spoken},
    preset::Preset,
};
use countersign_sys::clock::{Ids as _, SeededIds};

use super::*;

fn samples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/approvals")
}

fn index() -> Value {
    serde_json::from_slice(&std::fs::read(samples().join("index.json")).unwrap()).unwrap()
}

fn sample(file: &str) -> Vec<u8> {
    std::fs::read(samples().join(file)).unwrap()
}

fn cases(action: &str) -> Vec<Value> {
    let index = index();
    let cases = index["cases"].as_array().unwrap();
    cases
        .iter()
        .filter(|case| case["action"] == action)
        .cloned()
        .collect()
}

fn file_of(case: &Value) -> &str {
    case["file"].as_str().unwrap()
}

fn load(text: &str) -> Loaded {
    Document::parse(text.as_bytes()).unwrap_or_else(|refusal| panic!("{refusal}: {text}"))
}

fn document(text: &str) -> Document {
    load(text).document
}

#[track_caller]
fn refused(text: &str, reason: RefusalReason, pointer: &str) {
    assert_eq!(
        Document::parse(text.as_bytes()),
        Err(Refusal {
            pointer: pointer.to_owned(),
            ..Refusal::whole(reason)
        }),
        "{text}"
    );
}

fn id(text: &str) -> EntryId {
    EntryId::parse(text).unwrap()
}

const NOW: UnixMillis = UnixMillis::new(1_800_000_000_000);

/// Compares without regard to the order of members and the spelling of numbers; `<uuid>` stands for any UUID.
fn same(actual: &Value, expected: &Value) -> bool {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            actual.len() == expected.len()
                && expected
                    .iter()
                    .all(|(name, value)| actual.get(name).is_some_and(|found| same(found, value)))
        }
        (Value::Array(actual), Value::Array(expected)) => {
            actual.len() == expected.len()
                && actual
                    .iter()
                    .zip(expected)
                    .all(|(found, value)| same(found, value))
        }
        (Value::String(actual), Value::String(expected)) if expected == "<uuid>" => {
            Uuid::parse_str(actual).is_ok()
        }
        (Value::Number(actual), Value::Number(expected)) => actual.as_f64() == expected.as_f64(),
        (actual, expected) => actual == expected,
    }
}

#[test]
fn there_are_57_samples() {
    assert_eq!((cases("load").len(), cases("refuse").len()), (22, 35));
}

#[test]
fn loadable_samples_become_their_canonical_form() {
    for case in cases("load") {
        let loaded = Document::parse(&sample(file_of(&case))).unwrap();
        let actual: Value = serde_json::from_str(&loaded.document.print()).unwrap();
        assert!(
            same(&actual, &case["canonical"]),
            "{}: {actual:#}",
            file_of(&case)
        );
    }
}

#[test]
fn loadable_samples_resolve_as_in_the_product() {
    let configs = index()["configs"].clone();
    let mut compared = 0;
    for case in cases("load") {
        let document = Document::parse(&sample(file_of(&case))).unwrap().document;
        for (agent, expected) in case["resolved"].as_object().unwrap() {
            let place = format!("{} {agent}", file_of(&case));
            let patterns: Vec<&str> = document
                .entries(agent)
                .iter()
                .map(|listed| listed.item.pattern.as_str())
                .collect();
            assert_eq!(json!(patterns), expected["allowlist"], "{place}");
            for (name, config) in configs.as_object().unwrap() {
                let actual = resolved(&document.policy(agent), config);
                assert_eq!(actual, expected[name], "{place} {name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 80, "{compared}");
}

fn resolved(policy: &DocumentPolicy, config: &Value) -> Value {
    fn parse<T: std::str::FromStr>(value: &Value) -> T {
        value.as_str().unwrap().parse().ok().unwrap()
    }
    fn source<T>(spoken: &[Spoken<T>]) -> Option<String> {
        let source = spoken
            .last()?
            .source
            .strip_prefix("exec-approvals.json#/")
            .unwrap();
        Some(source.replace('/', "."))
    }
    fn last<T: Copy>(spoken: &[Spoken<T>], otherwise: T) -> T {
        spoken.last().map_or(otherwise, |said| said.value)
    }
    let (security, ask): (Security, Ask) = (parse(&config["security"]), parse(&config["ask"]));
    let effective = effective(policy, security, ask);
    json!({
        "host": {
            "security": last(&policy.security, security),
            "ask": last(&policy.ask, ask),
            "askFallback": last(&policy.ask_fallback, Security::Deny),
            "autoAllowSkills": last(&policy.auto_allow_skills, false),
        },
        "sources": {
            "security": source(&policy.security),
            "ask": source(&policy.ask),
            "askFallback": source(&policy.ask_fallback),
            "autoAllowSkills": source(&policy.auto_allow_skills),
        },
        "effective": {
            "security": effective.security.value,
            "ask": effective.ask.value,
            "askFallback": effective.ask_fallback.value,
        },
    })
}

fn effective(policy: &DocumentPolicy, security: Security, ask: Ask) -> Effective {
    combine::combine(PolicyLayers {
        security: &[Spoken::new(Layer::Global, "tools.exec.security", security)],
        ask: &[Spoken::new(Layer::Global, "tools.exec.ask", ask)],
        session: Wanted::default(),
        elevated: Wanted::default(),
        call: Wanted::default(),
        document: policy,
    })
}

#[test]
fn refused_samples_say_why_and_where() {
    for case in cases("refuse") {
        let refusal = Document::parse(&sample(file_of(&case))).unwrap_err();
        let actual = json!({"reason": refusal.reason.as_str(), "pointer": refusal.pointer});
        let reason = case["reason"].as_str().unwrap().replace('_', "-");
        assert_eq!(
            actual,
            json!({"reason": reason, "pointer": case["pointer"]}),
            "{}",
            file_of(&case)
        );
    }
}

#[test]
fn a_refused_document_leaves_deny_for_everybody() {
    // Under a configuration that leaves everything to the document.
    let effective = effective(&DocumentPolicy::refused(), Security::Full, Ask::Off);
    let actual = json!({
        "security": effective.security.value,
        "ask": effective.ask.value,
        "askFallback": effective.ask_fallback.value,
        "autoAllowSkills": effective.auto_allow_skills.value,
    });
    assert!(effective.document_refused);
    for case in cases("refuse") {
        assert_eq!(actual, case["effective"], "{}", file_of(&case));
    }
}

#[test]
fn every_reason_of_the_oracle_has_its_word() {
    let index = index();
    let mut expected: Vec<String> = index["reasons"]
        .as_object()
        .unwrap()
        .keys()
        .map(|name| name.replace('_', "-"))
        .collect();
    let mut actual: Vec<String> = RefusalReason::ALL
        .iter()
        .map(|reason| reason.as_str().to_owned())
        .collect();
    expected.sort();
    actual.sort();
    assert_eq!(actual, expected);
}

#[test]
fn documents_of_the_product_are_written_back_byte_for_byte() {
    for file in ["03-first-release-full.json", "04-generated-entries.json"] {
        let bytes = sample(file);
        let document = Document::parse(&bytes).unwrap().document;
        assert_eq!(document.print(), String::from_utf8(bytes).unwrap(), "{file}");
    }
}

#[test]
fn writing_is_stable_for_every_sample() {
    for case in cases("load") {
        let document = Document::parse(&sample(file_of(&case))).unwrap().document;
        let again = load(&document.print()).document;
        assert_eq!(again, document, "{}", file_of(&case));
        assert_eq!(again.print(), document.print());
    }
}

#[test]
fn numbers_are_written_as_they_were() {
    for (file, numbers) in [
        ("05-mac-app-writer.json", vec!["1737150000123.4561"]),
        (
            "22-whole-number-forms.json",
            vec!["1.737e12", "-1", "9007199254740993"],
        ),
    ] {
        let text = Document::parse(&sample(file)).unwrap().document.print();
        for number in numbers {
            assert!(
                text.lines().any(|line| line
                    .trim_end_matches(',')
                    .ends_with(&format!("\"lastUsedAt\": {number}"))),
                "{file}: {text}"
            );
        }
    }
}

#[test]
fn odd_but_usable_documents_carry_warnings() {
    let warnings = |file: &str| -> Vec<String> {
        let warnings = Document::parse(&sample(file)).unwrap().warnings;
        warnings
            .iter()
            .map(|warning| format!("{} {warning}", warning.code()))
            .collect()
    };
    assert_eq!(
        warnings("12-missing-and-empty-ids.json"),
        [
            "id-not-uuid the id at /agents/main/allowlist/2/id is not a UUID, which early macOS apps cannot read"
        ]
    );
    assert_eq!(
        warnings("13-duplicate-ids.json"),
        ["duplicate-id the id at /agents/main/allowlist/1/id occurred before and was replaced"]
    );
    assert_eq!(
        warnings("19-lone-surrogate.json"),
        ["lone-surrogate half a surrogate pair was replaced at /agents/main/allowlist/0/lastUsedCommand"]
    );
    assert_eq!(warnings("03-first-release-full.json"), [] as [&str; 0]);
}

#[test]
fn reading_the_same_bytes_again_makes_the_same_ids() {
    for file in [
        "10-string-entries.json",
        "12-missing-and-empty-ids.json",
        "13-duplicate-ids.json",
    ] {
        assert_eq!(
            Document::parse(&sample(file)),
            Document::parse(&sample(file)),
            "{file}"
        );
    }
    let twice =
        document(r#"{"version":1,"agents":{"main":{"allowlist":["/a","/a"]},"b":{"allowlist":["/a"]}}}"#);
    let ids: HashSet<&str> = twice
        .agents
        .iter()
        .flatten()
        .flat_map(|(_name, agent)| agent.allowlist.iter().flatten())
        .map(|keyed| keyed.id.as_str())
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn made_ids_stay_what_they_were() {
    // Ids are addresses that clients keep, and grants count their uses by them.
    let made = document(
        r#"{"version":1,"agents":{"main":{"allowlist":["/a",{"id":"","pattern":"/a","argPattern":"x"},"/b","/a"]}}}"#,
    );
    let ids: Vec<&str> = made
        .entries("main")
        .into_iter()
        .map(|listed| listed.id.as_str())
        .collect();
    let slowly_made = |pattern: &str, arg_pattern: &str, occurrence: u64| {
        let mut digest = Sha256::new();
        for part in ["main", "allowlist", pattern, arg_pattern] {
            digest.update(format!("{}\0{part}", part.len()));
        }
        digest.update(occurrence.to_string());
        let bytes: [u8; 32] = digest.finalize().into();
        let bytes: [u8; 16] = bytes[..16].try_into().unwrap();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    };
    let first = slowly_made("/a", "", 0);
    let expected = [
        first.clone(),
        slowly_made("/a", "x", 0),
        slowly_made("/b", "", 0),
        slowly_made("/a", "", 1),
    ];
    assert_eq!(ids, expected);
    // An id that the file gives to another item is passed over.
    let taken = document(&format!(
        r#"{{"version":1,"agents":{{"main":{{"allowlist":["/a",{{"id":"{first}","pattern":"/c"}}]}}}}}}"#
    ));
    let ids: Vec<&str> = taken
        .entries("main")
        .into_iter()
        .map(|listed| listed.id.as_str())
        .collect();
    assert_eq!(ids, [slowly_made("/a", "", 1), first]);
}

/// Documents of this length take minutes where something compares each item with each other.
const MANY: usize = 20_000;

#[test]
fn equal_items_without_ids_are_read_in_one_pass() {
    let many = document(&format!(
        r#"{{"version":1,"agents":{{"main":{{"allowlist":[{}]}}}}}}"#,
        vec![r#""a""#; MANY].join(",")
    ));
    let ids: HashSet<&str> = many
        .entries("main")
        .into_iter()
        .map(|listed| listed.id.as_str())
        .collect();
    assert_eq!(ids.len(), MANY);
    assert_eq!(
        many.difference(&many, UnixMillis::new(0)).change,
        ChangeDirection::Neutral
    );
}

#[test]
fn long_documents_are_compared_and_replaced_in_one_pass() {
    let agents = |what: &str| {
        let agents: Vec<String> = (0..MANY).map(|at| format!(r#""agent{at}":{what}"#)).collect();
        document(&format!(r#"{{"version":1,"agents":{{{}}}}}"#, agents.join(",")))
    };
    let with_rules = agents(r#"{"denylist":[{"pattern":"rm"}]}"#);
    let empty = agents("{}");
    let difference = with_rules.difference(&empty, UnixMillis::new(0));
    assert_eq!(difference.change, ChangeDirection::Widens);
    assert_eq!(difference.lost_members.len(), MANY);
    let lost = with_rules.lost_rules(&empty);
    assert_eq!(lost.len(), MANY);
    assert_eq!(LostRules::still_missing(lost.clone(), &empty), lost);
    assert_eq!(LostRules::still_missing(lost, &with_rules), []);
    let mut replaced = with_rules.clone();
    replaced.replace(empty, Incoming::Product);
    assert_eq!(replaced, with_rules);

    let members: Vec<String> = (0..MANY).map(|at| format!(r#""x{at}":{at}"#)).collect();
    let items: Vec<String> = (0..MANY)
        .map(|at| format!(r#"{{"id":"id{at}","pattern":"/p{at}","note":"n","x":{at}}}"#))
        .collect();
    let unknown = |agents: &str| {
        document(&format!(
            r#"{{"version":1,{},"agents":{agents}}}"#,
            members.join(",")
        ))
    };
    let agent = format!(r#"{{{},"allowlist":[{}]}}"#, members.join(","), items.join(","));
    let original = unknown(&format!(r#"{{"main":{agent}}}"#));
    assert_eq!(original.unknown_members(&original), [""; 0]);
    for incoming in [Incoming::Ours, Incoming::Product] {
        let mut replaced = original.clone();
        replaced.replace(original.clone(), incoming);
        assert_eq!(replaced, original);
    }
    let merged = unknown(&format!(r#"{{"main":{agent},"default":{agent}}}"#));
    assert_eq!(merged, original);
}

#[test]
fn the_token_never_leaves_in_an_answer() {
    let redacted = Document::parse(&sample("09-unknown-fields.json"))
        .unwrap()
        .document
        .redacted();
    assert_eq!(redacted["socket"], json!({"path": "~/s.sock"}));
    let only_token = document(r#"{"version":1,"socket":{"token":"abc"}}"#);
    assert_eq!(only_token.redacted(), json!({"version": 1}));
    assert!(!format!("{only_token:?}").contains("abc"));
}

#[test]
fn members_of_ours_are_checked_like_any_known_member() {
    use RefusalReason::{BlankPattern, MissingPattern, Type, Value};
    let agent = |text: &str| format!(r#"{{"version":1,"agents":{{"main":{text}}}}}"#);
    let grants = |text: &str| agent(&format!(r#"{{"grants":[{text}]}}"#));
    let place = "/agents/main/grants/0";
    refused(&agent(r#"{"grants":{}}"#), Type, "/agents/main/grants");
    refused(&agent(r#"{"denylist":null}"#), Type, "/agents/main/denylist");
    refused(&grants(r#""/bin/ls""#), Type, place);
    refused(&grants(r#"{"maxUses":1}"#), MissingPattern, place);
    refused(
        &grants(r#"{"pattern":" ","maxUses":1}"#),
        BlankPattern,
        &format!("{place}/pattern"),
    );
    refused(&grants(r#"{"pattern":"/bin/ls"}"#), Value, place);
    refused(
        &grants(r#"{"pattern":"/bin/ls","maxUses":0}"#),
        Value,
        &format!("{place}/maxUses"),
    );
    refused(
        &grants(r#"{"pattern":"/bin/ls","maxUses":1.5}"#),
        Value,
        &format!("{place}/maxUses"),
    );
    refused(
        &grants(r#"{"pattern":"/bin/ls","maxUses":"3"}"#),
        Type,
        &format!("{place}/maxUses"),
    );
    refused(
        &grants(r#"{"pattern":"/bin/ls","expiresAtMs":"soon"}"#),
        Type,
        &format!("{place}/expiresAtMs"),
    );
    refused(
        &grants(r#"{"pattern":"/bin/ls","sha256":"ab"}"#),
        Value,
        &format!("{place}/sha256"),
    );
    refused(
        &agent(r#"{"denylist":[{"pattern":"rm","reason":7}]}"#),
        Type,
        "/agents/main/denylist/0/reason",
    );
    for rule in [
        r#"{"pattern":"git","argPattern":"^push","children":true}"#,
        r#"{"pattern":"*","children":true}"#,
        r#"{"pattern":"/opt/**","children":true}"#,
        r#"{"pattern":"/opt/*/bin/x","children":true}"#,
        r#"{"pattern":"**/a/**/x","children":true}"#,
    ] {
        refused(
            &agent(&format!(r#"{{"denylist":[{rule}]}}"#)),
            Value,
            "/agents/main/denylist/0/children",
        );
    }
    refused(
        &agent(r#"{"denylist":[{"pattern":"rm","children":1}]}"#),
        Type,
        "/agents/main/denylist/0/children",
    );
    refused(
        &agent(r#"{"allowlist":[{"pattern":"/bin/ls","note":1}]}"#),
        Type,
        "/agents/main/allowlist/0/note",
    );
    for wrong in ["5", "null"] {
        refused(
            &agent(&format!(
                r#"{{"allowlist":[{{"pattern":"/bin/ls","commandText":{wrong}}}]}}"#
            )),
            Type,
            "/agents/main/allowlist/0/commandText",
        );
    }
    refused(
        &agent(r#"{"allowlist":[{"pattern":"/bin/ls","commandSha256":false}]}"#),
        Type,
        "/agents/main/allowlist/0/commandSha256",
    );
    refused(
        r#"{"version":1,"agents":{"a/b":{"ask":1}}}"#,
        Type,
        "/agents/a~1b/ask",
    );
}

#[test]
fn a_grant_is_read_with_all_its_limits() {
    let sha256 = "AB".repeat(32);
    let loaded = document(&format!(
        r#"{{"version":1,"agents":{{"main":{{"grants":[{{"id":"3f0e7c5a-1b2d-4c3e-8f40-000000000001",
        "pattern":"/bin/ls","argPattern":"^-l$","note":"n","createdAtMs":1,"expiresAtMs":2.5,"maxUses":3.0,
        "uses":1,"sha256":"{sha256}","future":null}}]}}}}}}"#
    ));
    let grants = loaded.grants("main");
    let grant = grants.first().unwrap();
    assert_eq!(
        (grant.owner, grant.id.as_str()),
        ("main", "3f0e7c5a-1b2d-4c3e-8f40-000000000001")
    );
    assert_eq!(grant.item.expires_at_ms.as_ref().unwrap().floor(), 2);
    assert_eq!(grant.item.max_uses, Some(3));
    assert_eq!(grant.item.sha256.as_deref(), Some("ab".repeat(32).as_str()));
    assert_eq!(grant.item.extra, [("future".to_owned(), Json::Null)]);
}

#[test]
fn a_session_and_a_directory_limit_a_grant_and_only_as_what_they_are() {
    let of = |limits: &str| {
        format!(r#"{{"version":1,"agents":{{"main":{{"grants":[{{"pattern":"/bin/ls",{limits}}}]}}}}}}"#)
    };
    let kept = document(&of(r#""sessionKey":"agent:main:x","directory":"/srv/p""#));
    let printed: Value = serde_json::from_str(&kept.print()).unwrap();
    assert_eq!(
        printed["agents"]["main"]["grants"][0]["sessionKey"],
        "agent:main:x"
    );
    assert_eq!(printed["agents"]["main"]["grants"][0]["directory"], "/srv/p");
    assert!(kept.entries("main").is_empty());
    for (limits, reason, member) in [
        (r#""directory":"srv""#, RefusalReason::Value, "/directory"),
        (r#""directory":"/srv/../p""#, RefusalReason::Value, "/directory"),
        (r#""directory":"/srv/""#, RefusalReason::Value, "/directory"),
        (r#""directory":"""#, RefusalReason::Value, "/directory"),
        (r#""directory":5"#, RefusalReason::Type, "/directory"),
        (r#""sessionKey":"""#, RefusalReason::Value, "/sessionKey"),
        (r#""sessionKey":"a\u0000b""#, RefusalReason::Value, "/sessionKey"),
        (r#""sessionKey":null"#, RefusalReason::Type, "/sessionKey"),
        (r#""note":"nothing limits it""#, RefusalReason::Value, ""),
    ] {
        refused(&of(limits), reason, &format!("/agents/main/grants/0{member}"));
    }
}

#[test]
fn a_grant_for_another_session_or_a_wider_directory_widens() {
    let of = |limits: &str| {
        document(&format!(
            r#"{{"version":1,"agents":{{"main":{{"grants":[{{"id":"3f0e7c5a-1b2d-4c3e-8f40-000000000001",
            "pattern":"/bin/ls",{limits}}}]}}}}}}"#
        ))
    };
    let here = r#""sessionKey":"a","directory":"/srv/p""#;
    for (limits, change) in [
        (
            r#""sessionKey":"a","directory":"/srv/p/below""#,
            ChangeDirection::Narrows,
        ),
        (
            r#""sessionKey":"a","directory":"/srv/p","expiresAtMs":5"#,
            ChangeDirection::Narrows,
        ),
        (
            r#""sessionKey":"b","directory":"/srv/p""#,
            ChangeDirection::Widens,
        ),
        (r#""sessionKey":"a","directory":"/srv""#, ChangeDirection::Widens),
        (r#""sessionKey":"a""#, ChangeDirection::Widens),
        (r#""directory":"/srv/p""#, ChangeDirection::Widens),
        (here, ChangeDirection::Neutral),
    ] {
        assert_eq!(
            of(here).difference(&of(limits), UnixMillis::new(0)).change,
            change,
            "{limits}"
        );
    }
}

#[test]
fn a_deny_rule_about_a_text_may_end_and_one_about_a_program_may_not() {
    let digest = "ab".repeat(32);
    let of = |rule: &str| format!(r#"{{"version":1,"agents":{{"main":{{"denylist":[{rule}]}}}}}}"#);
    let text = |more: &str| {
        of(&format!(
            r#"{{"pattern":"=command:abababababababab","commandSha256":"{digest}"{more}}}"#
        ))
    };
    let kept = document(&text(r#","expiresAtMs":50"#));
    let rules = kept.deny_rules("main");
    let denies = |at| rules[0].item.denies_text(&digest, UnixMillis::new(at));
    assert!(rules[0].item.is_of_text() && denies(49) && !denies(50));
    assert!(!rules[0].item.denies_text(&"00".repeat(32), UnixMillis::new(0)));
    let place = "/agents/main/denylist/0";
    for (text, member) in [
        (of(r#"{"pattern":"rm","expiresAtMs":5}"#), "expiresAtMs"),
        (
            of(&format!(r#"{{"pattern":"rm","commandSha256":"{digest}"}}"#)),
            "commandSha256",
        ),
        (text(r#","argPattern":"x""#), "commandSha256"),
        (
            of(r#"{"pattern":"=command:abababababababab","commandSha256":"abab"}"#),
            "commandSha256",
        ),
    ] {
        refused(&text, RefusalReason::Value, &format!("{place}/{member}"));
    }
    // One that ends earlier allows what it denied.
    let change = |one: &str, other: &str| {
        document(&text(one))
            .difference(&document(&text(other)), UnixMillis::new(0))
            .change
    };
    let (soon, later, never) = (r#","expiresAtMs":5"#, r#","expiresAtMs":9"#, "");
    assert_eq!(change(soon, later), ChangeDirection::Narrows);
    assert_eq!(change(later, never), ChangeDirection::Narrows);
    assert_eq!(change(never, later), ChangeDirection::Widens);
    assert_eq!(change(later, soon), ChangeDirection::Widens);
    // Nor does one with another end of the digest, which its pattern does not show, deny the same text.
    let other = text("").replace(&digest, &format!("{}{}", "ab".repeat(8), "00".repeat(24)));
    let difference = document(&text("")).difference(&document(&other), UnixMillis::new(0));
    assert_eq!(difference.change, ChangeDirection::Widens);
}

#[test]
fn rules_about_texts_are_bounded_and_those_that_ended_make_room() {
    let ids = SeededIds::default();
    let mut edited = Document::default();
    let mut add = |number: usize, end: i64| {
        let digest = format!("{number:064x}");
        let rule = DenyRule {
            pattern: countersign_policy::pattern::marker_of_digest(&digest),
            command_sha256: Some(digest),
            expires_at_ms: Some(end.into()),
            ..DenyRule::default()
        };
        edited
            .add_text_rule("main", ids.entry_id(), rule, UnixMillis::new(10))
            .map(|rule| rule.item.expires_at_ms.unwrap().floor())
    };
    for number in 0..256 {
        assert_eq!(
            add(number, if number < 5 { 9 } else { 50 }),
            Some(if number < 5 { 9 } else { 50 })
        );
    }
    assert_eq!(add(300, 60), Some(60), "five have ended");
    for number in 301..305 {
        assert_eq!(add(number, 60), Some(60));
    }
    assert_eq!(add(305, 60), None);
    assert_eq!(add(300, 55), Some(60), "the one that lasts longer stays");
    assert_eq!(add(300, 70), Some(70));
    assert_eq!(edited.deny_rules("main").len(), 256);
}

#[test]
fn a_rule_about_questions_ends_and_counts_as_no_rule_about_a_program() {
    let of = |rules: &str| {
        document(&format!(
            r#"{{"version":1,"agents":{{"main":{{"denylist":[{rules}]}}}}}}"#
        ))
    };
    let muted = |end: i64| format!(r#"{{"pattern":"=questions","questions":true,"expiresAtMs":{end}}}"#);
    let kept = of(&muted(50));
    let rules = kept.deny_rules("main");
    let denies = |at| rules[0].item.denies_questions(UnixMillis::new(at));
    // The clock that is set back has it last longer, and never ends it early.
    assert!(denies(i64::MIN) && denies(49) && !denies(50) && !denies(i64::MAX));
    assert!(!rules[0].item.is_of_text());
    let written = Document::parse(kept.print().as_bytes()).unwrap().document;
    assert_eq!(written, kept);

    let change = |one: &str, other: &str| of(one).difference(&of(other), UnixMillis::new(0)).change;
    let (soon, later) = (muted(5), muted(9));
    let looks_like_it = r#"{"pattern":"=questions"}"#;
    assert_eq!(change("", &soon), ChangeDirection::Narrows);
    assert_eq!(change(&soon, &later), ChangeDirection::Narrows);
    assert_eq!(change(&later, &soon), ChangeDirection::Widens);
    assert_eq!(change(&later, ""), ChangeDirection::Widens);
    assert_eq!(change(&later, looks_like_it), ChangeDirection::Widens);
    // What has ended denies nothing, so that nothing is lost with it.
    let change_at = |now, one: &str, other: &str| of(one).difference(&of(other), UnixMillis::new(now)).change;
    assert_eq!(change_at(8, &later, ""), ChangeDirection::Widens);
    assert_eq!(change_at(9, &later, ""), ChangeDirection::Neutral);
    assert_eq!(change_at(9, "", &later), ChangeDirection::Neutral);
    assert_eq!(change_at(7, &soon, &later), ChangeDirection::Narrows);

    let ids = SeededIds::default();
    let mut edited = of(r#"{"pattern":"rm"}"#);
    let mut add = |end: i64| {
        let rule = DenyRule {
            pattern: QUESTIONS.to_owned(),
            questions: Some(true),
            expires_at_ms: Some(end.into()),
            ..DenyRule::default()
        };
        let kept = edited.add_text_rule("main", ids.entry_id(), rule, UnixMillis::new(10));
        kept.unwrap().item.end()
    };
    assert_eq!([add(50), add(40), add(60)], [50, 50, 60]);
    assert_eq!(
        edited.deny_rules("main").len(),
        2,
        "the rule about a program stays"
    );
    assert_eq!(edited.remove_mutes("main", UnixMillis::new(10)).len(), 1);
    assert_eq!(edited.remove_mutes("main", UnixMillis::new(10)).len(), 0);
    assert_eq!(edited.deny_rules("main")[0].item.pattern, "rm");
    // One that has ended is not taken away, and an agent that says nothing any more goes with its mute.
    let mut ended = of(&later);
    assert_eq!(ended.remove_mutes("main", UnixMillis::new(9)), []);
    assert_eq!(ended, of(&later));
    assert_eq!(ended.remove_mutes("main", UnixMillis::new(8)).len(), 1);
    assert_eq!(ended.agent("main"), None);
}

#[test]
fn lists_are_in_matching_order_with_their_owner() {
    let loaded = document(
        r#"{"version":1,"agents":{
            "main":{"allowlist":["/own"],"denylist":[{"pattern":"own"}]},
            "*":{"allowlist":["/any"],"denylist":[{"pattern":"any"}]}}}"#,
    );
    let entries = |agent: &str| -> Vec<(String, String)> {
        let entries = loaded.entries(agent);
        entries
            .iter()
            .map(|listed| (listed.owner.to_owned(), listed.item.pattern.clone()))
            .collect()
    };
    let pair = |owner: &str, pattern: &str| (owner.to_owned(), pattern.to_owned());
    assert_eq!(entries("main"), [pair("*", "/any"), pair("main", "/own")]);
    assert_eq!(entries(" "), entries("main"));
    assert_eq!(entries("other"), [pair("*", "/any")]);
    assert_eq!(entries("*"), [pair("*", "/any")]);
    let rules: Vec<&str> = loaded
        .deny_rules("main")
        .iter()
        .map(|listed| listed.item.pattern.as_str())
        .collect();
    assert_eq!(rules, ["any", "own"]);
    assert_eq!(loaded.agent_ids().collect::<Vec<_>>(), ["main"]);
}

#[test]
fn sources_point_at_the_member() {
    let policy = document(
        r#"{"version":1,"defaults":{"ask":"off"},"agents":{"*":{"ask":"on-miss"},"a~/b":{"ask":"always"}}}"#,
    )
    .policy("a~/b");
    assert_eq!(
        policy.ask,
        [
            Spoken::new(
                Layer::DocumentDefaults,
                "exec-approvals.json#/defaults/ask",
                Ask::Off
            ),
            Spoken::new(
                Layer::DocumentWildcard,
                "exec-approvals.json#/agents/*/ask",
                Ask::OnMiss
            ),
            Spoken::new(
                Layer::DocumentAgent,
                "exec-approvals.json#/agents/a~0~1b/ask",
                Ask::Always
            ),
        ]
    );
}

#[test]
fn children_are_kept_and_added_to_a_rule_that_is_there() {
    let rules = ["ssh", "**/mkfs*", "/usr/bin/ssh", "/opt/x/bin/*", "~/bin/x?"];
    let items = rules.map(|pattern| format!(r#"{{"pattern":"{pattern}","children":true,"more":1}}"#));
    let kept = document(&format!(
        r#"{{"version":1,"agents":{{"main":{{"denylist":[{}]}}}}}}"#,
        items.join(",")
    ));
    let printed: Value = serde_json::from_str(&kept.print()).unwrap();
    for (at, pattern) in rules.iter().enumerate() {
        let item = &printed["agents"]["main"]["denylist"][at];
        assert_eq!(
            (&item["pattern"], &item["children"], &item["more"]),
            (&json!(pattern), &json!(true), &json!(1))
        );
    }

    let ids = SeededIds::default();
    let mut edited = Document::default();
    let rule = |children| DenyRule {
        pattern: "ssh".to_owned(),
        children,
        ..DenyRule::default()
    };
    let mut add = |children| edited.add_deny_rule("main", ids.entry_id(), rule(children));
    assert!(add(None).created);
    assert!(!add(Some(false)).created);
    assert!(add(Some(true)).created, "it denies more");
    assert!(!add(None).created, "one of them includes it");
    assert_eq!(edited.deny_rules("main").len(), 2);
}

#[test]
fn the_legacy_agent_hands_over_what_main_lacks() {
    let merged = document(
        r#"{"version":1,"agents":{
            "main":{"future":1,"denylist":[{"pattern":"rm"},{"pattern":"/usr/bin/id","argPattern":" "}]},
            "default":{"future":2,"other":3,"allowlist":[],
                "denylist":[{"pattern":"rm","reason":"again"},{"pattern":"/usr/bin/id"},{"pattern":"dd"}]}}}"#,
    );
    let value: Value = serde_json::from_str(&merged.print()).unwrap();
    // Only a deny rule that says exactly the same gives way: the shorter one here denies all arguments.
    let expected = json!({"version": 1, "agents": {"main": {
        "denylist": [
            {"id": "<uuid>", "pattern": "rm"},
            {"id": "<uuid>", "pattern": "/usr/bin/id", "argPattern": " "},
            {"id": "<uuid>", "pattern": "/usr/bin/id"},
            {"id": "<uuid>", "pattern": "dd"},
        ],
        "future": 1,
        "other": 3,
    }}});
    assert!(same(&value, &expected), "{value:#}");
}

#[test]
fn adding_a_pattern_again_changes_nothing() {
    let ids = SeededIds::default();
    let mut edited = Document::default();
    let new = |pattern: &str| NewPattern {
        pattern: pattern.to_owned(),
        ..NewPattern::default()
    };
    let first = edited.add_pattern("main", ids.entry_id(), new(" /bin/ls "), NOW);
    assert!(first.created);
    let before = edited.clone();
    let again = edited.add_pattern("main", ids.entry_id(), new("/bin/ls"), NOW);
    assert_eq!(
        again,
        Added {
            id: first.id.clone(),
            created: false
        }
    );
    assert_eq!(edited, before);
    assert_eq!(
        edited.redacted(),
        json!({"version": 1, "agents": {"main": {"allowlist": [
            {"id": first.id.as_str(), "pattern": "/bin/ls", "lastUsedAt": NOW.get()}
        ]}}})
    );
    assert_eq!(edited.remove_pattern("main", &ids.entry_id()), None);
    assert!(matches!(
        edited.remove_pattern("main", &first.id),
        Some(Removed::Entry(_))
    ));
    assert_eq!(edited.agents, Some(Vec::new()));
}

#[test]
fn a_limit_makes_a_grant_that_other_programs_do_not_see() {
    let ids = SeededIds::default();
    let mut edited = Document::default();
    let new = NewPattern {
        pattern: "/bin/ls".to_owned(),
        limits: Limits {
            max_uses: Some(2),
            ..Limits::default()
        },
        ..NewPattern::default()
    };
    let added = edited.add_pattern("main", ids.entry_id(), new.clone(), NOW);
    assert!(!edited.add_pattern("main", ids.entry_id(), new, NOW).created);
    assert!(edited.entries("main").is_empty());
    edited.record_grant_uses("main", &added.id, 1);
    assert_eq!(
        edited.redacted()["agents"]["main"],
        json!({"grants": [
            {"id": added.id.as_str(), "pattern": "/bin/ls", "createdAtMs": NOW.get(), "maxUses": 2, "uses": 1}
        ]})
    );
}

#[test]
fn a_grant_that_is_added_takes_the_place_of_those_that_ended() {
    let ids = SeededIds::default();
    let mut edited = Document::default();
    let mut add = |pattern: &str, lasts: Option<i64>, after: i64| {
        let grant = Grant {
            pattern: pattern.to_owned(),
            expires_at_ms: lasts.map(|lasts| (NOW.get() + lasts).into()),
            ..Grant::default()
        };
        edited.add_grant("main", ids.entry_id(), grant, UnixMillis::new(NOW.get() + after));
        let known = edited.grants("main");
        known
            .iter()
            .map(|one| one.item.pattern.clone())
            .collect::<Vec<_>>()
    };
    add("/bin/a", Some(10), 0);
    add("/bin/b", Some(11), 0);
    add("/bin/c", None, 9);
    assert_eq!(add("/bin/d", Some(99), 10), ["/bin/b", "/bin/c", "/bin/d"]);
    assert_eq!(add("/bin/e", Some(99), 11), ["/bin/c", "/bin/d", "/bin/e"]);
}

#[test]
fn an_entry_moves_to_the_grants_with_its_first_limit_and_back() {
    let entry_id = id("3f0e7c5a-1b2d-4c3e-8f40-000000000028");
    let mut edited = Document::parse(&sample("09-unknown-fields.json"))
        .unwrap()
        .document;
    let limit = PatternChange {
        max_uses: Some(Some(1)),
        note: Some(Some("once".to_owned())),
        ..PatternChange::default()
    };
    edited.change_pattern("main", &entry_id, limit).unwrap();
    let agent = edited.redacted()["agents"]["main"].clone();
    assert_eq!(agent.get("allowlist"), None);
    assert_eq!(
        agent["grants"],
        json!([{"id": entry_id.as_str(), "pattern": "/usr/bin/env", "note": "once", "maxUses": 1, "futureEntry": ["q"]}])
    );
    let unlimit = PatternChange {
        max_uses: Some(None),
        pattern: Some("/usr/bin/id".to_owned()),
        ..PatternChange::default()
    };
    edited.change_pattern("main", &entry_id, unlimit).unwrap();
    let agent = edited.redacted()["agents"]["main"].clone();
    assert_eq!(agent.get("grants"), None);
    assert_eq!(
        agent["allowlist"],
        json!([{"id": entry_id.as_str(), "pattern": "/usr/bin/id", "note": "once", "futureEntry": ["q"]}])
    );
    assert_eq!(
        edited.change_pattern("ops", &entry_id, PatternChange::default()),
        None
    );
}

#[test]
fn a_bound_entry_replaces_the_unbound_ones_of_earlier_decisions() {
    let ids = SeededIds::default();
    let mut edited = Document::parse(&sample("04-generated-entries.json"))
        .unwrap()
        .document;
    let bound = Entry {
        pattern: "/usr/bin/cargo".to_owned(),
        arg_pattern: Some(format!("sha256:cwd-argv:v1:{}", "01".repeat(32))),
        source: Some("allow-always".to_owned()),
        ..Entry::default()
    };
    let entry_id = ids.entry_id();
    assert!(edited.add_entry("main", entry_id.clone(), bound.clone()).created);
    let cargo: Vec<Entry> = edited
        .entries("main")
        .into_iter()
        .filter(|listed| listed.item.pattern == "/usr/bin/cargo")
        .map(|listed| listed.item.clone())
        .collect();
    assert_eq!(cargo, std::slice::from_ref(&bound));
    let before = edited.clone();
    assert!(!edited.add_entry("main", entry_id, bound).created);
    assert_eq!(edited, before);
}

#[test]
fn a_use_is_noted_at_its_owner_and_without_the_text_behind_a_digest() {
    let mut edited = Document::parse(&sample("04-generated-entries.json"))
        .unwrap()
        .document;
    let used = Use {
        at: NOW,
        command: "secret text",
        resolved_path: Some("/usr/bin/x"),
    };
    let by_hand = id("3f0e7c5a-1b2d-4c3e-8f40-00000000000a");
    let generated = id("3f0e7c5a-1b2d-4c3e-8f40-00000000000c");
    edited.record_use("main", &by_hand, used);
    edited.record_use("main", &generated, used);
    let before = edited.clone();
    edited.record_use("*", &by_hand, used);
    edited.record_use("main", &id("unknown"), used);
    assert_eq!(edited, before);
    let commands: Vec<Option<&str>> = edited
        .entries("main")
        .iter()
        .filter(|listed| *listed.id == by_hand || *listed.id == generated)
        .map(|listed| {
            assert_eq!(listed.item.last_used_at, Some(NOW.get().into()));
            assert_eq!(listed.item.last_resolved_path.as_deref(), Some("/usr/bin/x"));
            listed.item.last_used_command.as_deref()
        })
        .collect();
    assert_eq!(commands, [Some("secret text"), None]);
}

#[test]
fn a_policy_is_replaced_whole_and_an_empty_agent_goes() {
    let mut edited = document(r#"{"version":1,"agents":{"a":{"security":"full"},"b":{"ask":"off","x":1}}}"#);
    edited.set_policy(PolicyTarget::Agent("a"), PolicyFields::default());
    edited.set_policy(PolicyTarget::Agent("b"), PolicyFields::default());
    edited.set_policy(PolicyTarget::Agent("none"), PolicyFields::default());
    edited.set_policy(
        PolicyTarget::Defaults,
        PolicyFields {
            security: Some(Security::Deny),
            ..PolicyFields::default()
        },
    );
    assert_eq!(
        edited.redacted(),
        json!({"version": 1, "defaults": {"security": "deny"}, "agents": {"b": {"x": 1}}})
    );
}

#[test]
fn a_preset_changes_one_target_and_keeps_the_skills() {
    let mut edited = document(r#"{"version":1,"agents":{"a":{"autoAllowSkills":true,"ask":"always"}}}"#);
    edited.apply_preset(PolicyTarget::Agent("a"), Preset::Yolo);
    edited.apply_preset(PolicyTarget::Defaults, Preset::Cautious);
    assert_eq!(
        edited.redacted(),
        json!({
            "version": 1,
            "defaults": {"security": "allowlist", "ask": "on-miss", "askFallback": "deny"},
            "agents": {"a": {
                "security": "full", "ask": "off", "askFallback": "full", "autoAllowSkills": true
            }},
        })
    );
}

#[test]
fn a_redacted_document_goes_back_unharmed() {
    let original = Document::parse(&sample("09-unknown-fields.json"))
        .unwrap()
        .document;
    // As a client of the product sends it: nothing that its schema does not know.
    let sent = document(
        r#"{"version":1,"socket":{"path":"~/s.sock"},"defaults":{"security":"allowlist","ask":"on-miss"},
            "agents":{"main":{"allowlist":[{"id":"3f0e7c5a-1b2d-4c3e-8f40-000000000028","pattern":"/usr/bin/env"}]}}}"#,
    );
    for incoming in [Incoming::Ours, Incoming::Product] {
        let mut replaced = original.clone();
        replaced.replace(sent.clone(), incoming);
        assert_eq!(
            serde_json::from_str::<Value>(&replaced.print()).unwrap(),
            serde_json::from_str::<Value>(&original.print()).unwrap()
        );
        assert_eq!(
            replaced.socket_token().map(Secret::expose),
            original.socket_token().map(Secret::expose)
        );
    }
}

#[test]
fn only_a_sender_that_knows_deny_rules_can_take_them_away() {
    let original = document(
        r#"{"version":1,"agents":{
            "main":{"security":"full","denylist":[{"pattern":"rm"}],"grants":[{"pattern":"/x","maxUses":1}],
                "allowlist":[{"id":"a","pattern":"=command:0123456789abcdef","note":"n","commandSha256":"cd"}]},
            "ops":{"denylist":[{"pattern":"dd"}]}}}"#,
    );
    let sent = document(
        r#"{"version":1,"agents":{"main":{"security":"deny",
            "allowlist":[{"id":"a","pattern":"=command:0123456789abcdef"}]}}}"#,
    );
    let mut by_product = original.clone();
    by_product.replace(sent.clone(), Incoming::Product);
    let mut expected = original.clone();
    expected.set_policy(
        PolicyTarget::Agent("main"),
        PolicyFields {
            security: Some(Security::Deny),
            ..PolicyFields::default()
        },
    );
    assert_eq!(by_product, expected);
    let mut by_us = original;
    by_us.replace(sent.clone(), Incoming::Ours);
    assert_eq!(by_us, sent);
}

#[test]
fn unknown_members_are_named() {
    let loaded = Document::parse(&sample("09-unknown-fields.json"))
        .unwrap()
        .document;
    assert_eq!(
        loaded.unknown_members(&Document::default()),
        [
            "/$schema",
            "/futureTop",
            "/socket/futureSocket",
            "/defaults/futureDefault",
            "/agents/main/futureAgent",
            "/agents/main/allowlist/0/futureEntry"
        ]
    );
    assert_eq!(
        loaded.unknown_members(&loaded),
        [""; 0],
        "what was there is no typing error"
    );
}

#[test]
fn unknown_members_of_items_are_compared_by_id_and_value() {
    let present = document(
        r#"{"version":1,"agents":{"main":{"denylist":[{"id":"a","pattern":"x"},{"id":"b","pattern":"y","more":1}]}}}"#,
    );
    let moved =
        document(r#"{"version":1,"agents":{"main":{"denylist":[{"id":"b","pattern":"y","more":1}]}}}"#);
    assert_eq!(moved.unknown_members(&present), [""; 0]);
    let changed =
        document(r#"{"version":1,"agents":{"main":{"denylist":[{"id":"b","pattern":"y","more":2}]}}}"#);
    assert_eq!(
        changed.unknown_members(&present),
        ["/agents/main/denylist/0/more"]
    );
}

#[test]
fn an_unknown_number_may_come_back_in_another_spelling() {
    let text = |members: &str| document(&format!(r#"{{"version":1,"agents":{{"main":{{{members}}}}}}}"#));
    let present = text(
        r#""a":1.50,"b":{"y":[1e3],"x":-0},"c":123456789012345678901,"d":9007199254740993,"e":1.737e12"#,
    );
    let mut answered: Value = present.redacted();
    let sent = Document::parse(answered.to_string().as_bytes()).unwrap().document;
    assert_eq!(sent.unknown_members(&present), [""; 0], "{answered}");
    let mut replaced = present.clone();
    replaced.replace(sent, Incoming::Ours);
    assert_eq!(replaced.print(), present.print());
    // As another language writes the same numbers.
    let sent = text(
        r#""a":15e-1,"b":{"x":0,"y":[1000]},"c":123456789012345680000,"d":9007199254740993,"e":1737000000000.0"#,
    );
    assert_eq!(sent.unknown_members(&present), [""; 0]);
    for (member, value) in [
        ("a", json!(1.25)),
        ("d", json!(9_007_199_254_740_992_u64)),
        ("b", json!({"x": 0, "y": [1001]})),
    ] {
        let was = std::mem::replace(&mut answered["agents"]["main"][member], value);
        let changed = Document::parse(answered.to_string().as_bytes()).unwrap().document;
        assert_eq!(
            changed.unknown_members(&present),
            [format!("/agents/main/{member}")]
        );
        answered["agents"]["main"][member] = was;
    }
}

#[test]
fn differences_say_which_way_they_go() {
    use ChangeDirection::{Narrows, Neutral, Widens};
    #[track_caller]
    fn check(before: &str, after: &str, change: ChangeDirection, back: ChangeDirection) {
        let wrap = |text: &str| document(&format!(r#"{{"version":1,"agents":{text}}}"#));
        assert_eq!(
            wrap(before).difference(&wrap(after), UnixMillis::new(0)).change,
            change,
            "{before} to {after}"
        );
        assert_eq!(
            wrap(after).difference(&wrap(before), UnixMillis::new(0)).change,
            back,
            "{after} to {before}"
        );
    }
    check("{}", r#"{"main":{"future":1}}"#, Neutral, Neutral);
    check("{}", r#"{"*":{"security":"deny"}}"#, Narrows, Widens);
    check("{}", r#"{"main":{"ask":"always"}}"#, Narrows, Widens);
    check("{}", r#"{"main":{"askFallback":"full"}}"#, Widens, Narrows);
    check("{}", r#"{"main":{"allowlist":["/a"]}}"#, Widens, Narrows);
    check(
        "{}",
        r#"{"main":{"denylist":[{"pattern":"a"}]}}"#,
        Narrows,
        Widens,
    );
    let (texts, children) = (
        r#"{"main":{"denylist":[{"pattern":"a"}]}}"#,
        r#"{"main":{"denylist":[{"pattern":"a","children":true}]}}"#,
    );
    check("{}", children, Narrows, Widens);
    check(texts, children, Narrows, Widens);
    check(
        texts,
        r#"{"main":{"denylist":[{"pattern":"a","children":false}]}}"#,
        Neutral,
        Neutral,
    );
    // The rule for everybody includes it.
    let all = r#"{"*":{"denylist":[{"pattern":"a","children":true}]},"main":{"denylist":[{"pattern":"a"}]}}"#;
    let both = r#"{"*":{"denylist":[{"pattern":"a","children":true}]},"main":{"denylist":[{"pattern":"a","children":true}]}}"#;
    check(both, all, Neutral, Neutral);
    check(
        r#"{"main":{"grants":[{"pattern":"/a","maxUses":1}]}}"#,
        r#"{"main":{"grants":[{"pattern":"/a","maxUses":2}]}}"#,
        Widens,
        Narrows,
    );
    check(
        r#"{"main":{"allowlist":["/a"],"ask":"always"}}"#,
        r#"{"main":{"allowlist":["/b"],"ask":"always"}}"#,
        Widens,
        Widens,
    );
    check(
        r#"{"*":{"security":"full"},"ops":{"security":"deny"}}"#,
        r#"{"*":{"security":"full"}}"#,
        Widens,
        Narrows,
    );
    let with = |confine: &str| {
        format!(r#"{{"main":{{"allowlist":[{{"id":"a","pattern":"/a","confine":{confine}}}]}}}}"#)
    };
    let without = r#"{"main":{"allowlist":[{"id":"a","pattern":"/a"}]}}"#;
    check(without, &with(r#"{"writes":["workspace"]}"#), Narrows, Widens);
    check(without, &with(r#"{"connects":[22]}"#), Narrows, Widens);
    // A list lets arguments pass that were asked about.
    check(without, &with(r#"{"starts":["ssh"]}"#), Widens, Widens);
    check(
        &with(r#"{"starts":["ssh"]}"#),
        &with(r#"{"starts":["ssh","gpg"]}"#),
        Widens,
        Narrows,
    );
    check(
        &with(r#"{"starts":[]}"#),
        &with(r#"{"starts":"judged"}"#),
        Widens,
        Narrows,
    );
    check(
        &with(r#"{"writes":["tmp"]}"#),
        &with(r#"{"writes":["workspace"]}"#),
        Widens,
        Widens,
    );
    // What is not understood covers nothing.
    check(
        &with(r#"{"starts":[]}"#),
        &with(r#"{"starts":[],"reads":[]}"#),
        Narrows,
        Widens,
    );
    check(
        r#"{"main":{"grants":[{"id":"a","pattern":"/a","maxUses":2,"confine":{"connects":[22]}}]}}"#,
        r#"{"main":{"grants":[{"id":"a","pattern":"/a","maxUses":2,"confine":{"connects":[22,80]}}]}}"#,
        Widens,
        Narrows,
    );
}

#[test]
fn what_a_program_may_do_is_kept_as_it_is_written() {
    let text = r#"{"version":1,"agents":{"main":{
        "allowlist":[
            {"id":"a","pattern":"/a","confine":{"starts":["judged","ssh"],"connects":[22.0],"writes":"any"}},
            {"id":"b","pattern":"/b","confine":{"reads":[1.50,{"x":null}]},"theirs":1},
            {"id":"c","pattern":"/c","confine":"all"}],
        "grants":[{"id":"d","pattern":"/d","maxUses":1,"confine":null}]}}}"#;
    let read = document(text);
    let printed = read.print();
    assert_eq!(document(&printed), read);
    for part in ["22.0", "1.50", "\"all\"", "null", "theirs"] {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let entries = read.entries("main");
    let understood: Vec<bool> = entries
        .iter()
        .map(|listed| {
            listed
                .item
                .confine
                .as_ref()
                .unwrap()
                .rule()
                .understood()
                .is_some()
        })
        .collect();
    assert_eq!(understood, [true, false, false]);
    assert!(
        read.grants("main")[0]
            .item
            .confine
            .as_ref()
            .unwrap()
            .rule()
            .problem()
            .is_some()
    );
    // A program that does not know the member leaves it as it is, and ours can take it away.
    let sent = document(r#"{"version":1,"agents":{"main":{"allowlist":[{"id":"a","pattern":"/a"}]}}}"#);
    let mut by_product = read.clone();
    by_product.replace(sent.clone(), Incoming::Product);
    assert_eq!(
        by_product.entries("main")[0].item.confine,
        entries[0].item.confine
    );
    let mut by_us = read.clone();
    by_us.replace(sent, Incoming::Ours);
    assert_eq!(by_us.entries("main")[0].item.confine, None);
}

#[test]
fn a_writer_that_dropped_our_members_is_noticed() {
    let before = document(
        r#"{"version":1,"agents":{"*":{"denylist":[{"pattern":"rm"}]},"main":{"grants":[{"pattern":"/x","maxUses":1}]},
            "ops":{"denylist":[{"pattern":"a"},{"pattern":"b"}]}}}"#,
    );
    let after = document(r#"{"version":1,"agents":{"ops":{"denylist":[{"pattern":"a"}]}}}"#);
    assert_eq!(
        before.difference(&after, UnixMillis::new(0)).lost_members,
        ["*", "main"]
    );
}

fn any_document() -> impl Strategy<Value = Document> {
    let policy = (
        prop::option::of(prop::sample::select(Security::ALL)),
        prop::option::of(prop::sample::select(Ask::ALL)),
        prop::option::of(prop::sample::select(Security::ALL)),
        prop::option::of(any::<bool>()),
    )
        .prop_map(|(security, ask, ask_fallback, auto_allow_skills)| PolicyFields {
            security,
            ask,
            ask_fallback,
            auto_allow_skills,
        });
    let extra = prop::collection::btree_map("x[a-z/~]{0,3}", any::<i64>(), 0..2).prop_map(|members| {
        let members = members.into_iter();
        members
            .map(|(name, value)| (name, Json::Number(value.into())))
            .collect::<Members>()
    });
    let entry = (
        "[a-z/*~=:\u{20}-\u{2f}é]{0,8}a",
        any::<Option<String>>(),
        any::<Option<i64>>(),
        extra.clone(),
    )
        .prop_map(|(pattern, arg_pattern, last_used_at, extra)| Entry {
            pattern,
            arg_pattern,
            last_used_at: last_used_at.map(Number::from),
            extra,
            ..Entry::default()
        });
    let grant = ("[a-z/]{1,4}", 1_u64..5, any::<Option<i64>>()).prop_map(|(pattern, max_uses, at)| Grant {
        pattern,
        max_uses: Some(max_uses),
        expires_at_ms: at.map(Number::from),
        ..Grant::default()
    });
    let rule = "[a-z]{1,4}".prop_map(|pattern| DenyRule {
        pattern,
        ..DenyRule::default()
    });
    let agent = (
        policy.clone(),
        prop::option::of(prop::collection::vec(entry, 0..4)),
        prop::option::of(prop::collection::vec(grant, 0..3)),
        prop::option::of(prop::collection::vec(rule, 0..3)),
        extra.clone(),
    );
    let agents = prop::collection::btree_map("main|[*]|[A-Za-z/~é]{1,5}", agent, 0..4);
    (
        prop::option::of(policy),
        prop::option::of(agents),
        extra,
        any::<Option<String>>(),
    )
        .prop_map(|(defaults, agents, extra, token)| {
            let ids = SeededIds::default();
            let agents = agents.map(|agents| {
                let agents = agents.into_iter().filter(|(name, _agent)| name != "default");
                agents
                    .map(|(name, (policy, allowlist, grants, denylist, extra))| {
                        let agent = Agent {
                            policy,
                            allowlist: allowlist.map(|list| keyed(list, &ids)),
                            grants: grants.map(|list| keyed(list, &ids)),
                            denylist: denylist.map(|list| keyed(list, &ids)),
                            extra,
                        };
                        (name, agent)
                    })
                    .collect()
            });
            let token = token.map(|token| format!("t{token}t"));
            Document {
                socket: token.map(|token| Socket {
                    token: Some(Secret::new(token)),
                    ..Socket::default()
                }),
                defaults: defaults.map(|policy| Defaults {
                    policy,
                    extra: Members::new(),
                }),
                agents,
                extra,
            }
        })
}

fn keyed<T>(list: Vec<T>, ids: &SeededIds) -> Vec<Keyed<T>> {
    list.into_iter()
        .map(|item| Keyed {
            id: ids.entry_id(),
            item,
        })
        .collect()
}

proptest! {
    #[test]
    fn reading_what_was_printed_gives_the_same_document(document in any_document()) {
        let loaded = Document::parse(document.print().as_bytes());
        prop_assert_eq!(loaded, Ok(Loaded { document, warnings: Vec::new() }));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(loaded) = Document::parse(&bytes) {
            prop_assert!(Document::parse(loaded.document.print().as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_damaged_document_never_panics_and_is_stable_if_it_loads(
        file in prop::sample::select(vec!["03-first-release-full.json", "07-legacy-default-merged.json", "09-unknown-fields.json"]),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = sample(file);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(loaded) = Document::parse(&bytes) {
            let again = Document::parse(loaded.document.print().as_bytes());
            prop_assert_eq!(again.map(|again| again.document), Ok(loaded.document));
        }
    }

    #[test]
    fn a_document_sent_back_as_it_is_changes_nothing(document in any_document()) {
        let mut replaced = document.clone();
        replaced.replace(document.clone(), Incoming::Ours);
        prop_assert_eq!(&replaced, &document);
        prop_assert_eq!(document.difference(&replaced, UnixMillis::new(0)).change, ChangeDirection::Neutral);
    }

    #[test]
    fn what_widens_one_way_narrows_or_widens_the_other(one in any_document(), other in any_document()) {
        let there = one.difference(&other, UnixMillis::new(0)).change;
        let back = other.difference(&one, UnixMillis::new(0)).change;
        prop_assert_eq!(there == ChangeDirection::Neutral, back == ChangeDirection::Neutral);
        prop_assert!(there != ChangeDirection::Narrows || back == ChangeDirection::Widens);
    }
}
