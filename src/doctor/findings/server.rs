//! What a server leaves and shares: its note of itself, and the approvals socket.

use countersign_ledger::audit::ProblemKind;

use crate::doctor::{Finding, InForce, Repair, ServerState, Severity, Snapshot, SocketState, WaitingSetting};

pub(super) fn record(snapshot: &Snapshot) -> Option<Finding> {
    let kind = snapshot.record?;
    let key = snapshot.state_dir.join("countersign").display().to_string();
    if kind == ProblemKind::Forgotten {
        return Some(Finding {
            id: "ledger-forgot-runs",
            severity: Severity::Error,
            key,
            explanation: "the ledger lost the records of runs that were started, by a loss of power or a damaged file; \
                          they are recorded as lost"
                .to_owned(),
            fix: "look at what they did: countersign runs list --status lost; then countersign audit reset --reason TEXT \
                  begins a new record"
                .to_owned(),
            repair: None,
        });
    }
    Some(Finding {
        id: "audit-broken",
        severity: Severity::Error,
        key,
        explanation: format!("the audit record was tampered with: {kind}"),
        fix: "keep a copy of the state directory; countersign audit verify --offline says what is wrong, and countersign audit \
              reset --reason TEXT begins a new record"
            .to_owned(),
        repair: None,
    })
}

pub(super) fn stopped(snapshot: &Snapshot) -> Option<Finding> {
    let explanation = match (&snapshot.stopped, &snapshot.server) {
        (Some(words), _) => words.clone(),
        (
            None,
            ServerState::Running {
                in_force:
                    Some(InForce {
                        unrecorded_stop: Some(words),
                        ..
                    }),
            },
        ) => format!(
            "{words}. The server cannot write the record now: the stop is in effect, and ends if the server ends before it can"
        ),
        (None, _) => return None,
    };
    Some(Finding {
        id: "stopped",
        severity: Severity::Warning,
        key: snapshot.state_dir.join("countersign").display().to_string(),
        explanation,
        fix: "countersign resume --reason TEXT lets everything go on".to_owned(),
        repair: None,
    })
}

pub(super) fn socket(snapshot: &Snapshot) -> Option<Finding> {
    match &snapshot.socket {
        SocketState::Fine => None,
        SocketState::Refused { path, why } => Some(Finding {
            id: "approvals-socket",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation: format!("the approvals socket cannot be used: {why}"),
            fix: format!(
                "name another place as socket.path in {}, or set [ipc] role = \"off\" in countersign.toml",
                snapshot.document_path.display()
            ),
            repair: None,
        }),
        SocketState::NoToken => Some(Finding {
            id: "approvals-socket-token",
            severity: Severity::Warning,
            key: snapshot.document_path.display().to_string(),
            explanation: "[ipc] role is client, and the approvals document has no socket.token: nobody is asked there"
                .to_owned(),
            fix: "start the program that hosts the socket once, or set [ipc] role = \"auto\" in countersign.toml"
                .to_owned(),
            repair: None,
        }),
    }
}

pub(super) fn server(server: &ServerState) -> Vec<Finding> {
    match server {
        ServerState::NotRunning | ServerState::Running { in_force: None } => Vec::new(),
        ServerState::Running {
            in_force: Some(in_force),
        } => in_force.waiting.iter().map(waiting).collect(),
        ServerState::Stale(path) => vec![Finding {
            id: "server-left",
            severity: Severity::Info,
            key: path.display().to_string(),
            explanation: "the last server did not stop cleanly; the next one recovers what it left"
                .to_owned(),
            fix: "countersign serve".to_owned(),
            repair: Some(Repair::Remove { path: path.clone() }),
        }],
    }
}

fn waiting(WaitingSetting { key, explanation }: &WaitingSetting) -> Finding {
    Finding {
        id: "setting-waits-for-restart",
        severity: Severity::Warning,
        key: key.clone(),
        explanation: explanation.clone(),
        fix: "restart the server, or take the change of countersign.toml back".to_owned(),
        repair: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::doctor::findings::{findings, tests::sound};

    use super::*;

    #[test]
    fn a_broken_record_is_an_error() {
        let mut snapshot = sound();
        snapshot.record = Some(ProblemKind::Missing);
        let found = findings(&snapshot);
        assert_eq!(
            (found[0].id, found[0].severity),
            ("audit-broken", Severity::Error)
        );
    }

    #[test]
    fn runs_that_the_ledger_forgot_are_an_error_of_their_own() {
        let mut snapshot = sound();
        snapshot.record = Some(ProblemKind::Forgotten);
        let found = findings(&snapshot);
        assert_eq!(
            (found[0].id, found[0].severity, found.len()),
            ("ledger-forgot-runs", Severity::Error, 1)
        );
    }

    #[test]
    fn what_waits_for_a_restart_is_told_key_by_key() {
        let mut snapshot = sound();
        snapshot.server = ServerState::Running {
            in_force: Some(InForce {
                waiting: vec![WaitingSetting {
                    key: "http.listen".to_owned(),
                    explanation: "the server has another one".to_owned(),
                }],
                ..InForce::default()
            }),
        };
        let found = findings(&snapshot);
        assert_eq!(
            (found[0].id, found[0].key.as_str(), found.len()),
            ("setting-waits-for-restart", "http.listen", 1)
        );
        assert!(found[0].is_risk());
    }

    #[test]
    fn a_stop_is_told_with_its_way_out() {
        let mut snapshot = sound();
        snapshot.stopped = Some("everything is stopped since then, by ann: keys leaked".to_owned());
        let found = findings(&snapshot);
        assert_eq!((found[0].id, found[0].severity), ("stopped", Severity::Warning));
        assert!(found[0].explanation.contains("keys leaked"));

        // The record does not have it, and the server says so.
        let unrecorded_stop = snapshot.stopped.take();
        snapshot.server = ServerState::Running {
            in_force: Some(InForce {
                unrecorded_stop,
                ..InForce::default()
            }),
        };
        let found = findings(&snapshot);
        assert_eq!((found[0].id, found[0].severity), ("stopped", Severity::Warning));
        assert!(
            found[0]
                .explanation
                .contains("keys leaked. The server cannot write")
        );
    }

    #[test]
    fn a_socket_that_cannot_be_used_is_told_with_its_way_out() {
        let mut snapshot = sound();
        snapshot.socket = SocketState::Refused {
            path: "/run/loose/s".into(),
            why: "its directory is not ours alone".to_owned(),
        };
        let found = findings(&snapshot);
        assert_eq!(
            (found[0].id, found[0].key.as_str()),
            ("approvals-socket", "/run/loose/s")
        );
        assert!(found[0].fix.contains("/state/exec-approvals.json"));
        snapshot.socket = SocketState::NoToken;
        assert_eq!(findings(&snapshot)[0].id, "approvals-socket-token");
    }
}
