//! A state without fault, what each fault makes of it, and the order of findings.

use countersign_config::{
    approvals::{document::LostRules, store::LeftLock},
    settings::{Problem, SettingsProblem, Source},
};
use countersign_domain::{AgentId, Ask, HostChoice, Isolation, Security};
use countersign_engine::lint::DocumentRemarks;
use countersign_policy::lint::{self, RemarkCode};

use crate::doctor::{
    AgentRules, AgentSandbox, DirectoryState, DocumentState, DoubtfulToken, IsolationState, PrivateFile,
    Room, Scopes, ServerAccount, ServerState, SettingsState, Severity, Snapshot, SocketState, TlsState,
    TokenDoubt,
};

use super::{
    findings,
    machine::{CLOCK_TOLERANCE, LITTLE_DISK},
};

/// A state in which nothing is wrong.
pub(super) fn sound() -> Snapshot {
    Snapshot {
        state_dir: "/state".into(),
        directory: DirectoryState::Usable,
        settings: SettingsState::Loaded {
            remarks: Vec::new(),
            is_open: false,
            metrics_are_open: false,
            always_reachable: true,
            path: "/state/countersign/countersign.toml".into(),
        },
        tls: TlsState::Usable { key_of_group: None },
        document: DocumentState::Ok(Vec::new()),
        document_path: "/state/exec-approvals.json".into(),
        document_lock: None,
        edits: Vec::new(),
        lost: Vec::new(),
        rules: DocumentRemarks::default(),
        safe_bins: Vec::new(),
        agents: vec![main_rules()],
        private: vec![PrivateFile {
            path: "/state/countersign/operator.token".into(),
            mode: 0o600,
            owner: 1000,
            wanted: 0o600,
        }],
        record: None,
        doubtful_tokens: Ok(Vec::new()),
        stopped: None,
        one_owner: None,
        us: 1000,
        isolation: IsolationState::Confined { scopes: Scopes::Kept },
        replaceable_program: None,
        socket: SocketState::Fine,
        server: ServerState::Running { in_force: None },
        room: Room {
            disk_bytes: LITTLE_DISK,
            open_files: 1000,
            wanted_files: 1000,
        },
        ahead: Some(CLOCK_TOLERANCE),
    }
}

fn same_user() -> IsolationState {
    IsolationState::SameUser {
        why: "it is root".to_owned(),
        remedy: None,
    }
}

fn main_rules() -> AgentRules {
    AgentRules {
        agent: AgentId::main(),
        host: (HostChoice::Gateway, "tools.exec.host".to_owned()),
        security: (Security::Allowlist, "tools.exec.security".to_owned()),
        ask: (Ask::OnMiss, "tools.exec.ask".to_owned()),
        ask_fallback: (Security::Deny, "default".to_owned()),
        isolation: None,
        sandbox: AgentSandbox::Unneeded,
        sandbox_remarks: Vec::new(),
        wanted_security: Some((Security::Allowlist, "tools.exec.security".to_owned())),
        wanted_ask: None,
    }
}

#[track_caller]
pub(super) fn check(change: impl FnOnce(&mut Snapshot), expect: &[(&str, Severity, &str)]) {
    let mut snapshot = sound();
    change(&mut snapshot);
    let findings = findings(&snapshot);
    let seen: Vec<_> = findings
        .iter()
        .map(|finding| (finding.id, finding.severity, finding.key.as_str()))
        .collect();
    assert_eq!(seen, expect);
    assert!(
        findings
            .iter()
            .all(|finding| !finding.fix.is_empty() && !finding.explanation.is_empty())
    );
}

#[test]
fn a_sound_state_has_no_findings() {
    check(|_snapshot| {}, &[]);
}

#[test]
fn each_fault_has_its_finding() {
    check(
        |s| s.directory = DirectoryState::Missing,
        &[("state-dir-missing", Severity::Warning, "/state")],
    );
    check(
        |s| s.edits = vec![("/state/openclaw.json".into(), vec!["a".to_owned()])],
        &[("policy-edit-held", Severity::Warning, "/state/openclaw.json")],
    );
    check(
        |s| s.directory = DirectoryState::Refused("it is somebody else's".to_owned()),
        &[("state-dir-refused", Severity::Error, "/state")],
    );
    check(
        |s| {
            let problem = |key: Option<&str>, problem| SettingsProblem {
                source: Source::File("/state/openclaw.json".into()),
                key: key.map(str::to_owned),
                problem,
            };
            s.settings = SettingsState::Broken(vec![
                problem(Some("tools.exec.ask"), Problem::Null),
                problem(None, Problem::OthersMayWrite),
            ]);
        },
        &[
            ("settings-broken", Severity::Error, "tools.exec.ask"),
            ("settings-broken", Severity::Error, "/state/openclaw.json"),
        ],
    );
    check(
        |s| s.tls = TlsState::Refused("[tls] key: gone".to_owned()),
        &[("tls-files-refused", Severity::Error, "tls")],
    );
    for (doubt, finding) in [
        (TokenDoubt::UnboundExec, "unbound-exec-token"),
        (TokenDoubt::BoundAdmin, "bound-admin-token"),
        (TokenDoubt::PresumedApprover, "approver-not-declared"),
    ] {
        check(
            |s| {
                s.doubtful_tokens = Ok(vec![DoubtfulToken {
                    id: "tok_1".to_owned(),
                    name: "ci".to_owned(),
                    doubt,
                }]);
            },
            &[(finding, Severity::Warning, "tok_1")],
        );
    }
    check(
        |s| s.doubtful_tokens = Err("it is not there".to_owned()),
        &[("ledger-unread", Severity::Warning, "database.url")],
    );
    check(
        |s| {
            s.tls = TlsState::Usable {
                key_of_group: Some("/state/countersign/key.pem".into()),
            };
        },
        &[(
            "tls-key-of-group",
            Severity::Warning,
            "/state/countersign/key.pem",
        )],
    );
    check(
        |s| {
            s.settings = SettingsState::Loaded {
                remarks: Vec::new(),
                is_open: true,
                metrics_are_open: true,
                always_reachable: true,
                path: "x".into(),
            };
        },
        &[
            ("listens-to-everybody", Severity::Warning, "http.listen"),
            (
                "metrics-for-everybody",
                Severity::Warning,
                "telemetry.metrics_listen",
            ),
        ],
    );
    check(
        |s| s.isolation = same_user(),
        &[("isolation-same-user", Severity::Error, "exec.isolation")],
    );
    check(
        |s| {
            s.isolation = IsolationState::Confined {
                scopes: Scopes::Missing,
            };
        },
        &[("isolation-without-scopes", Severity::Warning, "exec.isolation")],
    );
    let apart = |server: ServerAccount| IsolationState::SeparateUser { server };
    check(
        |s| {
            s.isolation = apart(ServerAccount::Own);
            // Nobody is taken out of another account.
            s.agents[0].isolation = Some(Isolation::SameUser);
        },
        &[],
    );
    check(
        |s| s.isolation = apart(ServerAccount::Root),
        &[("server-is-root", Severity::Warning, "exec.run_as")],
    );
    check(
        |s| s.agents[0].isolation = Some(Isolation::SameUser),
        &[("agent-not-confined", Severity::Error, "tools.exec.isolation")],
    );
    check(
        |s| s.document = DocumentState::Missing,
        &[("document-missing", Severity::Info, "/state/exec-approvals.json")],
    );
    check(
        |s| s.document = DocumentState::Refused("not JSON".to_owned()),
        &[("document-refused", Severity::Error, "/state/exec-approvals.json")],
    );
    check(
        |s| s.document = DocumentState::Ok(vec!["loose mode".to_owned()]),
        &[(
            "document-warning",
            Severity::Warning,
            "/state/exec-approvals.json",
        )],
    );
    check(
        |s| {
            s.document_lock = Some(LeftLock {
                path: "/state/exec-approvals.json.lock".into(),
                pid: Some(7),
                is_of_this_boot: true,
            });
        },
        &[(
            "document-lock-stale",
            Severity::Error,
            "/state/exec-approvals.json.lock",
        )],
    );
    check(
        |s| {
            s.lost = vec![LostRules {
                agent: "*".to_owned(),
                deny_rules: vec![("rm".to_owned(), None)],
                grants: 2,
                unbound: vec![("id".to_owned(), "/usr/bin/git".to_owned())],
            }];
        },
        &[(
            "document-lost-rules",
            Severity::Error,
            "/state/exec-approvals.json",
        )],
    );
    check(
        |s| {
            s.safe_bins = vec![(
                "jq".to_owned(),
                lint::Remark {
                    code: RemarkCode::SafeBinRefused,
                    message: "it is never one".to_owned(),
                },
            )];
        },
        &[("safe-bin-refused", Severity::Info, "tools.exec.safeBins")],
    );
    check(
        |s| s.server = ServerState::Stale("/state/countersign/server.json".into()),
        &[("server-left", Severity::Info, "/state/countersign/server.json")],
    );
}

#[test]
fn only_a_lock_whose_holder_is_known_to_be_dead_is_removed_by_itself() {
    for (pid, is_of_this_boot) in [(Some(7), true), (Some(7), false), (None, false)] {
        let mut snapshot = sound();
        snapshot.document_lock = Some(LeftLock {
            path: "/state/exec-approvals.json.lock".into(),
            pid,
            is_of_this_boot,
        });
        let found = findings(&snapshot);
        assert_eq!(found[0].explanation.contains("process 7"), pid.is_some());
        assert!(found[0].fix.contains("/state/exec-approvals.json.lock"));
        assert_eq!(found[0].repair.is_some(), is_of_this_boot);
    }
}

#[test]
fn the_worst_comes_first() {
    check(
        |s| {
            s.server = ServerState::Stale("x".into());
            s.directory = DirectoryState::Missing;
            s.isolation = same_user();
        },
        &[
            ("isolation-same-user", Severity::Error, "exec.isolation"),
            ("state-dir-missing", Severity::Warning, "/state"),
            ("server-left", Severity::Info, "x"),
        ],
    );
}
