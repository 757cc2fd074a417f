//! Broken and risky states, one at a time: each is found by its id and not without it.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::support::{Finished, Members, Scratch, countersign, run_program, write_file, write_file_mode};

fn doctor(state: &Path, arguments: &[&str]) -> Finished {
    let call = countersign()
        .args(&["doctor", "--json"])
        .args(arguments)
        .env("OPENCLAW_STATE_DIR", state);
    run_program(&call)
}

fn report(state: &Path, arguments: &[&str]) -> Value {
    let doctor = doctor(state, arguments);
    serde_json::from_str(&doctor.stdout).unwrap_or_else(|error| panic!("{error}: {doctor:?}"))
}

/// The ids and severities that are found.
fn found(state: &Path) -> Vec<(String, String)> {
    let report = report(state, &[]);
    let findings = report.list("findings");
    findings
        .iter()
        .map(|finding| {
            for member in ["key", "explanation", "fix"] {
                assert!(
                    !finding[member].as_str().unwrap_or_default().is_empty(),
                    "{finding:#}"
                );
            }
            let text = |member: &str| finding[member].as_str().expect(member).to_owned();
            (text("id"), text("severity"))
        })
        .collect()
}

fn config(state: &Path, exec: &Value) {
    write_file(
        &state.join("openclaw.json"),
        json!({ "tools": { "exec": exec } }).to_string(),
    );
}

fn server(state: &Path, text: &str) {
    write_file(&state.join("countersign/countersign.toml"), text);
}

fn document(state: &Path, agents: &Value) {
    let document = json!({ "version": 1, "agents": agents });
    write_file_mode(&state.join("exec-approvals.json"), document.to_string(), 0o600);
}

fn allowlist(state: &Path, entry: &Value) {
    document(state, &json!({ "main": { "allowlist": [entry] } }));
}

/// A lock of the document that nobody holds any more.
fn lock_of_a_dead_process(state: &Path, created_at_ms: i64) {
    let created_at = jiff::Timestamp::from_millisecond(created_at_ms).expect("a time");
    // Larger than any process id the system gives.
    let holder = json!({ "pid": 0x7fff_fff0, "createdAt": format!("{created_at:.3}"), "nonce": "n" });
    write_file_mode(
        &state.join("exec-approvals.json.lock"),
        format!("{holder}\n"),
        0o600,
    );
}

/// A state directory in order.
fn sound(state: &Path) {
    fs::create_dir_all(state.join("countersign")).expect("a directory");
    fs::set_permissions(state.join("countersign"), fs::Permissions::from_mode(0o700)).expect("its mode");
    config(
        state,
        &json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }),
    );
    server(state, "[approvals]\nalways_reachable = true\n");
    document(state, &json!({}));
}

type Prepare = fn(&Path);

/// What is found, how bad it is, and what leads to it.
#[expect(clippy::disallowed_methods, reason = "the time of a file that a test makes")]
const STATES: &[(&str, &str, Prepare)] = &[
    ("settings-broken", "error", |state| {
        config(state, &json!({ "ask": "maybe" }));
    }),
    ("settings-broken", "error", |state| {
        server(state, "[http]\nlisten = 7\n");
    }),
    ("settings-group-writable", "warning", |state| {
        let path = state.join("openclaw.json");
        fs::set_permissions(path, fs::Permissions::from_mode(0o660)).expect("its mode");
    }),
    ("listens-to-everybody", "warning", |state| {
        server(
            state,
            "[http]\nlisten = \"0.0.0.0:18790\"\ninsecure_bind = true\n",
        );
    }),
    ("metrics-for-everybody", "warning", |state| {
        server(
            state,
            "[http]\ninsecure_bind = true\n[telemetry]\nmetrics_listen = \"0.0.0.0:9464\"\n",
        );
    }),
    ("tls-files-refused", "error", |state| {
        server(
            state,
            "[tls]\ncert = \"/nonexistent/c\"\nkey = \"/nonexistent/k\"\n",
        );
    }),
    ("isolation-same-user", "error", |state| {
        server(state, "[exec]\nisolation = \"same-user\"\n");
    }),
    ("document-missing", "info", |state| {
        fs::remove_file(state.join("exec-approvals.json")).expect("the document");
    }),
    ("document-refused", "error", |state| {
        write_file_mode(&state.join("exec-approvals.json"), "{", 0o600);
    }),
    ("document-lock-stale", "error", |state| {
        lock_of_a_dead_process(state, 1_000_000_000_000);
    }),
    ("document-warning", "warning", |state| {
        let path = state.join("exec-approvals.json");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("its mode");
    }),
    ("everything-runs", "warning", |state| {
        config(
            state,
            &json!({ "host": "gateway", "security": "full", "ask": "off" }),
        );
    }),
    ("silence-allows", "warning", |state| {
        document(state, &json!({ "main": { "askFallback": "full" } }));
        config(
            state,
            &json!({ "host": "gateway", "security": "full", "ask": "always" }),
        );
    }),
    ("questions-need-a-connected-approver", "info", |state| {
        server(state, "");
    }),
    ("layers-disagree", "info", |state| {
        document(state, &json!({ "main": { "security": "deny" } }));
    }),
    ("layers-disagree", "info", |state| {
        document(state, &json!({ "main": { "ask": "always" } }));
    }),
    ("sandbox-unavailable", "warning", |state| {
        config(state, &json!({ "host": "sandbox" }));
        server(state, "[sandbox]\nbackend = \"off\"\n");
    }),
    ("safe-bin-refused", "info", |state| {
        config(
            state,
            &json!({ "host": "gateway", "security": "allowlist", "safeBins": ["jq"] }),
        );
    }),
    ("safe-bin-refused", "info", |state| {
        config(
            state,
            &json!({ "host": "gateway", "security": "allowlist", "safeBins": ["python3"] }),
        );
    }),
    ("safe-bin-without-profile", "info", |state| {
        config(
            state,
            &json!({ "host": "gateway", "security": "allowlist", "safeBins": ["column"] }),
        );
    }),
    ("rule-interpreter", "warning", |state| {
        allowlist(state, &json!({ "id": "a", "pattern": "/usr/bin/python3" }));
    }),
    ("rule-too-broad", "warning", |state| {
        allowlist(state, &json!({ "id": "a", "pattern": "*" }));
    }),
    ("rule-writable-directory", "warning", |state| {
        allowlist(state, &json!({ "id": "a", "pattern": "/tmp/**" }));
    }),
    ("rule-missing-file", "info", |state| {
        allowlist(
            state,
            &json!({ "id": "a", "pattern": "/usr/bin/there-is-no-such-program" }),
        );
    }),
    ("rule-confine-not-understood", "warning", |state| {
        let confine = json!({ "reads": [] });
        allowlist(
            state,
            &json!({ "id": "a", "pattern": "/usr/bin/git", "confine": confine }),
        );
    }),
    ("rule-confine-too-wide", "warning", |state| {
        let confine = json!({ "starts": ["bash"] });
        allowlist(
            state,
            &json!({ "id": "a", "pattern": "/usr/bin/git", "confine": confine }),
        );
    }),
    ("rule-confine-too-wide", "warning", |state| {
        let confine = json!({ "writes": ["~/.bashrc"] });
        allowlist(
            state,
            &json!({ "id": "a", "pattern": "/usr/bin/git", "confine": confine }),
        );
    }),
    ("rule-confine-idle", "info", |state| {
        let confine = json!({ "starts": ["/usr/bin/there-is-no-such-program"] });
        allowlist(
            state,
            &json!({ "id": "a", "pattern": "/usr/bin/git", "confine": confine }),
        );
    }),
    ("children-not-kept", "warning", |state| {
        server(state, "[exec]\nisolation = \"same-user\"\n");
        let rules = json!([{ "id": "a", "pattern": "sudo", "children": true }]);
        document(state, &json!({ "*": { "denylist": rules } }));
    }),
    ("rule-shadowed", "info", |state| {
        let entries =
            json!([{ "id": "a", "pattern": "/usr/bin/*" }, { "id": "b", "pattern": "/usr/bin/git" }]);
        document(state, &json!({ "main": { "allowlist": entries } }));
    }),
    ("grant-expired", "info", |state| {
        let grants = json!([{ "id": "a", "pattern": "/usr/bin/git", "expiresAtMs": 1 }]);
        document(state, &json!({ "main": { "grants": grants } }));
    }),
    ("file-not-private", "warning", |state| {
        write_file_mode(&state.join("countersign/operator.token"), "t", 0o640);
    }),
    ("ledger-unread", "warning", |state| {
        write_file_mode(&state.join("countersign/countersign.db"), "no ledger", 0o600);
    }),
    ("server-left", "info", |state| {
        let gone = json!({ "url": "http://127.0.0.1:1", "pid": 1, "version": "0", "startedAtMs": 1 });
        write_file_mode(&state.join("countersign/server.json"), gone.to_string(), 0o600);
    }),
    ("clock-set-back", "warning", |state| {
        let head = state.join("countersign/audit.head");
        write_file_mode(&head, "", 0o600);
        let later = SystemTime::now() + Duration::from_hours(1);
        File::options()
            .write(true)
            .open(&head)
            .and_then(|file| file.set_modified(later))
            .expect("its time");
    }),
    ("few-open-files", "warning", |state| {
        server(state, "[limits]\nmax_connections = 900000000\n");
    }),
    ("setting-ignored", "info", |state| {
        let text = json!({ "gateway": { "nodes": { "pairing": { "autoApproveLocal": true } } } });
        write_file(&state.join("openclaw.json"), text.to_string());
    }),
];

#[test]
fn each_broken_state_is_found_and_a_sound_one_is_not() {
    let scratch = Scratch::new();
    let state = scratch.dir("sound");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("its mode");
    sound(&state);
    let in_order = found(&state);
    let mut wrong = Vec::new();
    for (number, (id, severity, prepare)) in STATES.iter().enumerate() {
        // What the machine itself brings along is there either way.
        let is_there_anyway = in_order.iter().any(|(there, _)| there == id);
        let state = scratch.dir(&format!("state-{number}"));
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("its mode");
        sound(&state);
        prepare(&state);
        let seen = found(&state);
        let expected = ((*id).to_owned(), (*severity).to_owned());
        if !seen.contains(&expected) || (is_there_anyway && *id != "isolation-same-user") {
            wrong.push(format!(
                "{number} {id} ({severity}): {seen:?}, in order: {in_order:?}"
            ));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_the_settings_is_named_by_its_key() {
    let scratch = Scratch::new();
    let state = scratch.path();
    let broken = || {
        let report = report(&state, &["--fix"]);
        let findings = report.list("findings").clone();
        let of_settings = findings
            .into_iter()
            .filter(|found| found["id"] == "settings-broken");
        let members = |found: Value| ["key", "fix"].map(|member| found.text(member).to_owned());
        of_settings.map(members).collect::<Vec<_>>()
    };
    sound(&state);
    config(&state, &json!({ "ask": "maybe", "hots": "x" }));
    server(&state, "[http]\nlisten = 7\n");
    let keys: Vec<String> = broken().into_iter().map(|[key, _fix]| key).collect();
    assert_eq!(keys, ["http.listen", "tools.exec.ask", "tools.exec.hots"]);

    // Whoever mends the mode says that what is in the file is theirs.
    sound(&state);
    let path = state.join("openclaw.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).expect("its mode");
    let path = path.display();
    let fix = format!("see that all of it is yours, then chmod o-w {path}");
    assert_eq!(broken(), [[path.to_string(), fix]]);
}

#[test]
fn what_can_be_mended_without_loosening_is() {
    let scratch = Scratch::new();
    let state = scratch.path();
    sound(&state);
    config(
        &state,
        &json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "safeBins": ["column", "jq"] }),
    );
    let token = state.join("countersign/operator.token");
    write_file_mode(&token, "t", 0o644);

    // What an agent runs changes no policy.
    let inside = countersign()
        .args(&["doctor", "--json", "--fix"])
        .env("OPENCLAW_STATE_DIR", &state)
        .env("OPENCLAW_SHELL", "exec");
    run_program(&inside);
    let policy = || fs::read_to_string(state.join("openclaw.json")).expect("the settings");
    assert!(!policy().contains("safeBinProfiles"), "{}", policy());

    let fixed = report(&state, &["--fix"]);
    let repaired = fixed.list("repaired").clone();
    assert!(
        repaired.contains(&json!("safe-bin-without-profile")),
        "{repaired:?}"
    );
    let settings: Value = serde_json::from_str(&policy()).expect("JSON");
    let exec = &settings["tools"]["exec"];
    assert_eq!(exec["safeBinProfiles"], json!({ "column": {} }));
    assert_has!(exec, { "security": "allowlist", "ask": "on-miss", "safeBins": ["column", "jq"] });
    let mode = fs::metadata(&token).expect("the token").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left = found(&state);
    assert!(left.iter().any(|(id, _)| id == "safe-bin-refused"), "{left:?}");
    for mended in ["safe-bin-without-profile", "file-not-private"] {
        assert!(!left.iter().any(|(id, _)| id == mended), "{left:?}");
    }
}

#[test]
fn the_lock_of_a_dead_process_is_removed_for_an_operator_alone() {
    let scratch = Scratch::new();
    let state = scratch.path();
    sound(&state);
    let lock = state.join("exec-approvals.json.lock");
    let fix = || {
        let finding = report(&state, &[])
            .list("findings")
            .iter()
            .find(|finding| finding["id"] == "document-lock-stale")
            .expect("the lock")
            .clone();
        assert_eq!(finding["key"], json!(fs::canonicalize(&lock).expect("a path")));
        assert!(
            finding["explanation"].to_string().contains("2147483632"),
            "{finding}"
        );
        finding["fixable"].clone()
    };
    // Whose a lock is that is older than the start of the machine, only a person can tell.
    lock_of_a_dead_process(&state, 1_000_000_000_000);
    assert_eq!(fix(), false);
    report(&state, &["--fix"]);
    assert!(lock.exists());

    lock_of_a_dead_process(&state, SystemClock.now().get());
    assert_eq!(fix(), true);
    let inside = countersign()
        .args(&["doctor", "--json", "--fix"])
        .env("OPENCLAW_STATE_DIR", &state)
        .env("OPENCLAW_SHELL", "exec");
    run_program(&inside);
    assert!(lock.exists());
    let repaired = report(&state, &["--fix"])["repaired"].clone();
    assert_eq!(repaired, json!(["document-lock-stale"]));
    assert!(!lock.exists());
}

#[test]
fn an_audit_of_the_security_names_the_risks_alone() {
    let scratch = Scratch::new();
    let state = scratch.path();
    sound(&state);
    let audit = |arguments: &[&str]| {
        let call = countersign()
            .args(&["security", "audit"])
            .args(arguments)
            .env("OPENCLAW_STATE_DIR", &state);
        run_program(&call)
    };
    let ids = || -> (Option<i32>, Vec<String>) {
        let done = audit(&["--json"]);
        let report: Value = serde_json::from_str(&done.stdout).expect("JSON");
        assert!(report.get("settings").is_none(), "{report:#}");
        let findings = report.list("findings");
        let id = |finding: &Value| finding.text("id").to_owned();
        (done.code, findings.iter().map(id).collect())
    };
    let sound_ids = ids().1;

    // A rule that leads nowhere is untidy; one that takes in interpreters, and a secret that others write, are risks.
    document(
        &state,
        &json!({ "main": { "allowlist": [{ "pattern": "/opt/nothing/here" }, { "pattern": "/usr/bin/*" }] } }),
    );
    write_file_mode(&state.join("countersign/operator.token"), "t", 0o646);
    let all: Vec<String> = found(&state).into_iter().map(|(id, _)| id).collect();
    assert!(all.iter().any(|id| id == "rule-missing-file"), "{all:?}");
    let (code, risks) = ids();
    assert_eq!(code, Some(1), "{risks:?}");
    assert!(!risks.iter().any(|id| id == "rule-missing-file"), "{risks:?}");
    let new: Vec<&String> = risks.iter().filter(|id| !sound_ids.contains(id)).collect();
    assert_eq!(new, ["file-not-private", "rule-interpreter"], "{all:?}");

    let people = audit(&[]).stdout;
    assert!(
        people.contains("error[file-not-private]")
            && people.contains("  fix: ")
            && !people.contains("SETTING"),
        "{people}"
    );
    // It mends as doctor does.
    audit(&["--fix"]);
    assert!(!ids().1.iter().any(|id| id == "file-not-private"));
}
