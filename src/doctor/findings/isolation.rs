//! What keeps commands on the gateway host from the server.

use countersign_domain::Isolation;
use countersign_domain::quoting::quoted;

use crate::doctor::{AgentRules, Finding, IsolationState, Scopes, ServerAccount, Severity, Snapshot};

pub(super) fn isolation(state: &IsolationState) -> Option<Finding> {
    match state {
        IsolationState::SameUser { why, remedy } => Some(Finding {
            id: "isolation-same-user",
            severity: Severity::Error,
            key: "exec.isolation".to_owned(),
            explanation: format!(
                "commands on the gateway host run with the server's own rights: one that runs can read the operator's \
                 token and edit the policy. Approvals are a guard rail here, not a boundary. They are not confined: {why}"
            ),
            fix: remedy
                .unwrap_or(
                    "run the server under an ordinary account of its own, where user namespaces are allowed, and \
                     leave [exec] isolation at \"auto\"; until then give agents nothing on it that you would not run \
                     yourself",
                )
                .to_owned(),
            repair: None,
        }),
        IsolationState::Confined {
            scopes: Scopes::Missing,
        } => Some(Finding {
            id: "isolation-without-scopes",
            severity: Severity::Warning,
            key: "exec.isolation".to_owned(),
            explanation: "this kernel cannot keep signals and abstract sockets of confined commands inside: one that \
                          runs cannot read anything of the server, but it can stop it"
                .to_owned(),
            fix: "use Linux 6.12 or later with Landlock".to_owned(),
            repair: None,
        }),
        IsolationState::SeparateUser {
            server: ServerAccount::Root,
        } => Some(Finding {
            id: "server-is-root",
            severity: Severity::Warning,
            key: "exec.run_as".to_owned(),
            explanation: "commands run under an account of their own, but the server is root's: an attacker who takes it over has \
                          the machine"
                .to_owned(),
            fix: "useradd --system --user-group --home-dir /var/lib/countersign --shell /usr/sbin/nologin countersign; \
                  the next start uses it"
                .to_owned(),
            repair: None,
        }),
        IsolationState::SeparateUser {
            server: ServerAccount::Own,
        }
        | IsolationState::Confined { scopes: Scopes::Kept } => None,
    }
}

/// What runs outside, with the server's rights, the next time it is started.
pub(super) fn program(snapshot: &Snapshot) -> Option<Finding> {
    let path = snapshot.replaceable_program.as_ref()?.display().to_string();
    let meanwhile = match snapshot.isolation {
        IsolationState::Confined { .. } => {
            ". While a server runs from there its confined commands cannot; what they leave behind, and commands of agents \
             that are taken out, can"
        }
        IsolationState::SameUser { .. } | IsolationState::SeparateUser { .. } => "",
    };
    Some(Finding {
        id: "program-replaceable",
        severity: Severity::Warning,
        explanation: format!(
            "commands may write where the program of the server lies: one that runs can put another program there, and \
             the next countersign that you or a service starts is that one, beside the operator's token{meanwhile}"
        ),
        fix: format!(
            "sudo install -o root -g root -m 0755 {} /usr/local/bin/countersign, remove the one that is there, and start \
             the server again",
            quoted(&path)
        ),
        key: path,
        repair: None,
    })
}

/// An agent whose commands have more rights than those of others.
pub(super) fn taken_out(rules: &AgentRules, state: &IsolationState) -> Option<Finding> {
    let is_worse = match (rules.isolation, state) {
        (Some(Isolation::SameUser), IsolationState::Confined { .. }) => true,
        (
            _,
            IsolationState::Confined { .. }
            | IsolationState::SameUser { .. }
            | IsolationState::SeparateUser { .. },
        ) => false,
    };
    is_worse.then(|| Finding {
        id: "agent-not-confined",
        severity: Severity::Error,
        key: "tools.exec.isolation".to_owned(),
        explanation: format!(
            "commands of the agent {} run with the server's own rights: one that runs can read the operator's token \
             and edit the policy, which binds every other agent, too",
            rules.agent
        ),
        fix: "remove tools.exec.isolation from openclaw.json, or run these tools on another machine".to_owned(),
        repair: None,
    })
}
