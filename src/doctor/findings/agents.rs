//! What the policy says for each agent, and the sandbox that it has.

use std::collections::BTreeSet;

use countersign_domain::{Ask, Backend, HostChoice, Security};

use crate::doctor::{AgentRules, AgentSandbox, Finding, SettingsState, Severity, Snapshot};

pub(super) fn agent(rules: &AgentRules, settings: &SettingsState) -> Vec<Finding> {
    let AgentRules {
        agent,
        host,
        security,
        ask,
        ask_fallback,
        isolation: _,
        sandbox,
        sandbox_remarks: _,
        wanted_security,
        wanted_ask,
    } = rules;
    let mut found = Vec::new();
    let disagreement = |wanted: &str, wanted_by: &str, counts: &str, counts_by: &str, what: &str| Finding {
        id: "layers-disagree",
        severity: Severity::Info,
        key: wanted_by.to_owned(),
        explanation: format!(
            "{wanted_by} wants {what} {wanted} for the agent {agent}, and {counts_by} says {counts}: the stricter one, \
             {counts}, counts"
        ),
        fix: format!("set both to the value that you want: {wanted_by} and {counts_by}"),
        repair: None,
    };
    if let Some((wanted, by)) = wanted_security
        && *wanted > security.0
    {
        let (counts, counts_by) = security;
        found.push(disagreement(
            wanted.as_str(),
            by,
            counts.as_str(),
            counts_by,
            "security",
        ));
    }
    if let Some((wanted, by)) = wanted_ask
        && *wanted < ask.0
    {
        let (counts, counts_by) = ask;
        found.push(disagreement(
            wanted.as_str(),
            by,
            counts.as_str(),
            counts_by,
            "ask",
        ));
    }
    if let AgentSandbox::Missing(why) = sandbox {
        let (severity, what) = match host.0 {
            HostChoice::Sandbox => (Severity::Warning, "commands go to the sandbox, and fail"),
            HostChoice::Auto => (
                Severity::Info,
                "commands go to the gateway host, since there is no sandbox",
            ),
            HostChoice::Gateway | HostChoice::Node => (
                Severity::Info,
                "a miss is asked about although it might run in the sandbox (tools.exec.onMiss)",
            ),
        };
        found.push(Finding {
            id: "sandbox-unavailable",
            severity,
            key: key_or(&host.1, "tools.exec.host"),
            explanation: format!("agent {agent}: {what}: {why}"),
            fix: "what is missing is named there; without a sandbox tools.exec.host = \"gateway\" in openclaw.json, or \
                  countersign init --preset cautious"
                .to_owned(),
            repair: None,
        });
    }
    if security.0 == Security::Full && ask.0 != Ask::Always {
        found.push(Finding {
            id: "everything-runs",
            severity: Severity::Warning,
            key: key_or(&security.1, "tools.exec.security"),
            explanation: format!(
                "every command of the agent {agent} runs on this machine, and nobody is asked"
            ),
            fix: "tools.exec.security = \"allowlist\" and tools.exec.ask = \"on-miss\" in openclaw.json"
                .to_owned(),
            repair: None,
        });
    }
    if ask_fallback.0 == Security::Full && ask.0 != Ask::Off {
        found.push(Finding {
            id: "silence-allows",
            severity: Severity::Warning,
            key: key_or(&ask_fallback.1, "askFallback"),
            explanation: format!("a question about the agent {agent} that nobody answers is taken as a yes"),
            fix: "askFallback = \"deny\" in exec-approvals.json".to_owned(),
            repair: None,
        });
    }
    let asks = security.0 != Security::Deny && ask.0 != Ask::Off;
    if asks
        && matches!(
            settings,
            SettingsState::Loaded {
                always_reachable: false,
                ..
            }
        )
    {
        found.push(Finding {
            id: "questions-need-a-connected-approver",
            severity: Severity::Info,
            key: "approvals.always_reachable".to_owned(),
            explanation: format!(
                "a question about the agent {agent} waits only while an approver is connected; otherwise its fallback \
                 ({}) applies at once",
                ask_fallback.0
            ),
            fix: "[approvals] always_reachable = true in countersign.toml, or keep `countersign approvals watch` open"
                .to_owned(),
            repair: None,
        });
    }
    found
}

/// What settings of sandboxes say to Docker and not, or not quite so, to the built-in backend, where that is what there is.
pub(super) fn remarks_on_sandboxes(snapshot: &Snapshot) -> Vec<Finding> {
    let is_builtin = |rules: &&AgentRules| rules.sandbox == AgentSandbox::Usable(Backend::Builtin);
    let agents = snapshot.agents.iter().filter(is_builtin);
    let remarks: BTreeSet<&String> = agents.flat_map(|rules| &rules.sandbox_remarks).collect();
    let finding = |remark: &String| Finding {
        id: "sandbox-key-ignored",
        severity: Severity::Info,
        key: remark.split(' ').next().unwrap_or_default().to_owned(),
        explanation: remark.clone(),
        fix: "take the key out, or [sandbox] backend = \"docker\" in countersign.toml".to_owned(),
        repair: None,
    };
    remarks.into_iter().map(finding).collect()
}

fn key_or(source: &str, key: &str) -> String {
    if source == "default" {
        key.to_owned()
    } else {
        source.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use crate::doctor::findings::tests::check;

    use super::*;

    #[test]
    fn each_loose_policy_has_its_finding() {
        let change =
            |change: fn(&mut AgentRules)| move |s: &mut Snapshot| s.agents.iter_mut().for_each(change);
        let missing = || AgentSandbox::Missing("it is off".to_owned());
        let unavailable = |severity| [("sandbox-unavailable", severity, "tools.exec.host")];
        check(
            change(|r| r.host = (HostChoice::Sandbox, "default".to_owned())),
            &[],
        );
        for (host, severity) in [
            (HostChoice::Sandbox, Severity::Warning),
            (HostChoice::Auto, Severity::Info),
            (HostChoice::Gateway, Severity::Info),
        ] {
            check(
                |s| {
                    for rules in &mut s.agents {
                        rules.host = (host, "default".to_owned());
                        rules.sandbox = missing();
                    }
                },
                &unavailable(severity),
            );
        }
        let key = "sandbox.docker.dns";
        let ignored = |backend| {
            move |s: &mut Snapshot| {
                for rules in &mut s.agents {
                    rules.sandbox_remarks = vec![format!("{key} is ignored")];
                    rules.sandbox = AgentSandbox::Usable(backend);
                }
            }
        };
        check(
            ignored(Backend::Builtin),
            &[("sandbox-key-ignored", Severity::Info, key)],
        );
        check(ignored(Backend::Docker), &[]);
        check(
            change(|r| r.security = (Security::Full, "agents.list[0].tools.exec.security".to_owned())),
            &[(
                "everything-runs",
                Severity::Warning,
                "agents.list[0].tools.exec.security",
            )],
        );
        check(
            change(|r| {
                r.security.0 = Security::Full;
                r.ask.0 = Ask::Always;
            }),
            &[],
        );
        check(
            change(|r| {
                r.ask_fallback = (
                    Security::Full,
                    "exec-approvals.json#/defaults/askFallback".to_owned(),
                );
            }),
            &[(
                "silence-allows",
                Severity::Warning,
                "exec-approvals.json#/defaults/askFallback",
            )],
        );
    }

    #[test]
    fn a_question_that_reaches_nobody_is_explained() {
        check(
            |s| {
                s.settings = SettingsState::Loaded {
                    remarks: Vec::new(),
                    is_open: false,
                    metrics_are_open: false,
                    always_reachable: false,
                    path: "x".into(),
                };
            },
            &[(
                "questions-need-a-connected-approver",
                Severity::Info,
                "approvals.always_reachable",
            )],
        );
    }

    #[test]
    fn settings_that_ask_for_more_than_the_document_gives_are_told() {
        let asks_for = |security: Security, ask: Ask| {
            move |s: &mut Snapshot| {
                for rules in &mut s.agents {
                    rules.wanted_security = Some((security, "tools.exec.security".to_owned()));
                    rules.wanted_ask = Some((ask, "tools.exec.ask".to_owned()));
                }
            }
        };
        check(asks_for(Security::Deny, Ask::Always), &[]);
        check(
            asks_for(Security::Full, Ask::Off),
            &[
                ("layers-disagree", Severity::Info, "tools.exec.security"),
                ("layers-disagree", Severity::Info, "tools.exec.ask"),
            ],
        );
    }
}
