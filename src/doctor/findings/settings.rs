//! Keys of the settings, and the files that they name for TLS.

use countersign_config::settings::{Problem, SettingsProblem};

use crate::doctor::{Finding, Remark, Repair, SettingsState, Severity, TlsState};

pub(super) fn settings(settings: &SettingsState) -> Vec<Finding> {
    match settings {
        SettingsState::Broken(problems) => problems.iter().map(broken).collect(),
        SettingsState::Loaded {
            remarks,
            is_open,
            metrics_are_open,
            path: _,
            always_reachable: _,
        } => {
            let mut found: Vec<Finding> = remarks.iter().map(remark).collect();
            if *is_open {
                found.push(Finding {
                    id: "listens-to-everybody",
                    severity: Severity::Warning,
                    key: "http.listen".to_owned(),
                    explanation:
                        "the API listens for other machines without TLS: tokens and commands travel readable"
                            .to_owned(),
                    fix:
                        "[tls] cert and key, or [http] listen = \"127.0.0.1:18790\" with a TLS proxy in front"
                            .to_owned(),
                    repair: None,
                });
            }
            if *metrics_are_open {
                found.push(Finding {
                    id: "metrics-for-everybody",
                    severity: Severity::Warning,
                    key: "telemetry.metrics_listen".to_owned(),
                    explanation: "other machines can read the metrics: no token is asked for there, and no TLS spoken"
                        .to_owned(),
                    fix: "[telemetry] metrics_listen = \"127.0.0.1:9464\", or GET /metrics with a token of scope read"
                        .to_owned(),
                    repair: None,
                });
            }
            found
        }
    }
}

/// Named by the key, or by the file, variable or flag where it is about all of that.
fn broken(problem: &SettingsProblem) -> Finding {
    let fix = if problem.problem == Problem::OthersMayWrite {
        // Not for us to do: with another mode what others wrote would count.
        format!("see that all of it is yours, then chmod o-w {}", problem.source)
    } else {
        "correct it; a server that runs keeps the last good settings, a new one does not start".to_owned()
    };
    Finding {
        id: "settings-broken",
        severity: Severity::Error,
        key: problem.key.clone().unwrap_or_else(|| problem.source.to_string()),
        explanation: problem.to_string(),
        fix,
        repair: None,
    }
}

/// The settings demand two owners, and there is one.
pub(super) fn owners(problem: &SettingsProblem) -> Finding {
    Finding {
        id: "one-owner",
        severity: Severity::Warning,
        key: problem.key.clone().unwrap_or_else(|| problem.source.to_string()),
        explanation: format!("{problem}. A server does not start with that, and one that runs rejects the edit"),
        fix: "countersign token create NAME --scope admin --owner OWNER, which takes no running server; or [approvals] widening \
              = \"apply\""
            .to_owned(),
        repair: None,
    }
}

pub(super) fn tls(state: &TlsState) -> Option<Finding> {
    match state {
        TlsState::Off | TlsState::Usable { key_of_group: None } => None,
        TlsState::Usable {
            key_of_group: Some(path),
        } => Some(Finding {
            id: "tls-key-of-group",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation:
                "the group may get at the private key of the API: fine if only programs that serve with it \
                          are in the group"
                    .to_owned(),
            fix: format!("chmod 0600 {}", path.display()),
            repair: None,
        }),
        TlsState::Refused(why) => Some(Finding {
            id: "tls-files-refused",
            severity: Severity::Error,
            key: "tls".to_owned(),
            explanation: format!(
                "{why}. A server that runs goes on with the last good files; a new one does not start"
            ),
            fix:
                "put a certificate and its key in place; a running server takes them with its next connection"
                    .to_owned(),
            repair: None,
        }),
    }
}

fn remark(remark: &Remark) -> Finding {
    match remark {
        Remark::GroupMayWrite(path) => Finding {
            id: "settings-group-writable",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation: "the group may write this file, and with it decide what agents may run".to_owned(),
            fix: format!("chmod g-w {}", path.display()),
            repair: Some(Repair::SetMode {
                path: path.clone(),
                mode: 0o600,
            }),
        },
        Remark::NotYetEffective(what) => Finding {
            id: "setting-not-yet-effective",
            severity: Severity::Info,
            key: key_of(what),
            explanation: what.clone(),
            fix: "nothing to do: the value is checked and kept for the version that uses it".to_owned(),
            repair: None,
        },
        Remark::Ignored(what) => Finding {
            id: "setting-ignored",
            severity: Severity::Info,
            key: key_of(what),
            explanation: what.clone(),
            fix: "take the key away if it should do something".to_owned(),
            repair: None,
        },
    }
}

/// Remarks begin with their key and a colon.
fn key_of(what: &str) -> String {
    what.split_once(": ").map_or(what, |(key, _rest)| key).to_owned()
}
