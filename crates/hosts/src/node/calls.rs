//! What a node is called with (`docs/spec/bridge.md#9-exec-commands` and `docs/spec/bridge.md#13-ours`). Pure.

use serde_json::{Value, json};

use countersign_domain::{AgentId, Command, EnvOverrides, RunId, SessionKey, UnixMillis};
use countersign_protocol::bridge::{ApprovalSource, RunApproval, RunParams};

use super::{NodeGeneration, NodePlan};

/// What lets a command run, as the node is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Our policy, which rests on nothing that the node must look at itself.
    ByPolicy,
    /// Our policy, because the node's own allowlist covers the command as far as can be seen from here. The node looks at its
    /// files, so it decides.
    ByAllowlist,
    /// A person, with this answer.
    ByPerson(RunApproval),
    /// The fallback, since nobody answered. `whole` when it asks for no allowlist.
    ByFallback {
        /// Whether the fallback is `full`.
        whole: bool,
    },
}

/// Whether this server knew the node's own approvals document when it decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeGate {
    /// It did: what it decided is no weaker than that.
    Seen,
    /// It did not, so the node has the last word.
    Unseen,
}

/// The command of a call, as every request about it names it.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// The command as sent.
    pub command: &'a Command,
    /// Where, if the caller said so.
    pub cwd: Option<&'a str>,
    /// Variables that the caller set; without any the member `env` is not sent.
    pub env: &'a EnvOverrides,
    /// The agent of the call, as `agentId`.
    pub agent: &'a AgentId,
    /// The session of the call, as `sessionKey`.
    pub session: &'a SessionKey,
}

/// A call of `system.run`, as the launch allowed it.
#[derive(Debug, Clone, Copy)]
pub struct AllowedCall<'a> {
    /// What was asked for; with a plan its arguments, text and directory are sent in place of these.
    pub called: Called<'a>,
    /// What the node made of it.
    pub plan: Option<&'a NodePlan>,
    /// Its id, which is also that of the call.
    pub run_id: &'a RunId,
    /// Its time limit in milliseconds, 0 for none.
    pub timeout_ms: u64,
    /// Why it may run.
    pub allowed: Allowed,
    /// Whether that took the node's own document into account.
    pub gate: NodeGate,
    /// After this it must not start any more.
    pub not_after: UnixMillis,
}

/// The arguments that a node is to start: shell text goes to a login shell, arguments go as they are.
pub fn argv_of(command: &Command) -> Vec<String> {
    match command {
        Command::Argv(argv) => argv.clone(),
        Command::Shell(text) | Command::Patch(text) => ["/bin/sh", "-lc", text].map(str::to_owned).to_vec(),
    }
}

/// Parameters of `system.run.prepare`.
pub fn prepare_params(called: Called<'_>) -> Value {
    params_of(called).to_value()
}

/// Parameters of `system.run` for a node of this generation.
pub fn run_params(call: AllowedCall<'_>, generation: NodeGeneration) -> Value {
    let AllowedCall {
        called,
        plan,
        run_id,
        timeout_ms,
        allowed,
        gate,
        not_after,
    } = call;
    let decision = decision_for(allowed, gate, generation);
    let is_fallback = matches!(allowed, Allowed::ByFallback { .. });
    let mut params = RunParams {
        timeout_ms: i64::try_from(timeout_ms).ok().filter(|limit| *limit != 0),
        run_id: Some(run_id.to_string()),
        approved: decision.map(|_| true),
        approval_decision: decision,
        approval_source: is_fallback.then_some(ApprovalSource::AskFallback),
        not_after_ms: (generation == NodeGeneration::Ours).then_some(not_after.get()),
        ..params_of(called)
    };
    if let Some(plan) = plan {
        // What was judged and shown is the plan, word for word.
        params.command = plan.argv();
        params.raw_command = Some(plan.command_text().to_owned());
        params.cwd = plan.cwd().map(str::to_owned).or(params.cwd);
        params.system_run_plan = Some(plan.as_value());
    }
    params.to_value()
}

/// The decision that a node is shown, if it is shown any.
///
/// The first generation does not know who decided, and its own base policy (`allowlist`, `on-miss`) cannot be read: it is told
/// of every decision of ours that does not rest on its own allowlist. What it is told takes the place of its ask and its
/// allowlist, so where they were not seen only a person's answer is told: our layers alone may be weaker than its own. It
/// stores names of programs for `allow-always`, which would cover any arguments, so it is never told that.
const fn decision_for(allowed: Allowed, gate: NodeGate, generation: NodeGeneration) -> Option<RunApproval> {
    match (generation, allowed, gate) {
        (NodeGeneration::Present | NodeGeneration::Ours, Allowed::ByPerson(decision), _) => Some(decision),
        (NodeGeneration::Present | NodeGeneration::Ours, _, _)
        | (NodeGeneration::First, Allowed::ByAllowlist | Allowed::ByFallback { whole: false }, _)
        | (
            NodeGeneration::First,
            Allowed::ByPolicy | Allowed::ByFallback { whole: true },
            NodeGate::Unseen,
        ) => None,
        (NodeGeneration::First, Allowed::ByPerson(_), _)
        | (NodeGeneration::First, Allowed::ByPolicy | Allowed::ByFallback { whole: true }, NodeGate::Seen) => {
            Some(RunApproval::AllowOnce)
        }
    }
}

/// Parameters of `system.which`.
pub fn which_params<'a>(names: impl IntoIterator<Item = &'a str>) -> Value {
    let names: Vec<&str> = names.into_iter().collect();
    json!({ "bins": names })
}

/// Parameters of `countersign.run.status`.
pub fn status_params(run_id: &RunId) -> Value {
    json!({ "runId": run_id.as_str() })
}

fn params_of(called: Called<'_>) -> RunParams {
    let Called {
        command,
        cwd,
        env,
        agent,
        session,
    } = called;
    RunParams {
        command: argv_of(command),
        raw_command: match command {
            Command::Shell(text) => Some(text.clone()),
            Command::Argv(_) | Command::Patch(_) => None,
        },
        cwd: cwd.map(str::to_owned),
        env: (!env.is_empty()).then(|| {
            let owned = env
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()));
            owned.collect()
        }),
        agent_id: Some(agent.to_string()),
        session_key: Some(session.to_string()),
        ..RunParams::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ALL: [Allowed; 6] = [
        Allowed::ByPolicy,
        Allowed::ByAllowlist,
        Allowed::ByPerson(RunApproval::AllowOnce),
        Allowed::ByPerson(RunApproval::AllowAlways),
        Allowed::ByFallback { whole: true },
        Allowed::ByFallback { whole: false },
    ];

    struct Story {
        command: Command,
        env: EnvOverrides,
        agent: AgentId,
        session: SessionKey,
        run_id: RunId,
    }

    impl Story {
        fn of(command: Command) -> Self {
            let agent = AgentId::main();
            Self {
                command,
                env: EnvOverrides::default(),
                session: SessionKey::main_of(&agent),
                agent,
                run_id: RunId::parse("r-1").unwrap(),
            }
        }

        fn called(&self) -> Called<'_> {
            Called {
                command: &self.command,
                cwd: Some("/srv"),
                env: &self.env,
                agent: &self.agent,
                session: &self.session,
            }
        }

        fn params(&self, plan: Option<&NodePlan>, allowed: Allowed, generation: NodeGeneration) -> Value {
            self.params_with(plan, allowed, NodeGate::Seen, generation)
        }

        fn params_with(
            &self,
            plan: Option<&NodePlan>,
            allowed: Allowed,
            gate: NodeGate,
            generation: NodeGeneration,
        ) -> Value {
            let call = AllowedCall {
                called: self.called(),
                plan,
                run_id: &self.run_id,
                timeout_ms: 5_000,
                allowed,
                gate,
                not_after: UnixMillis::new(77),
            };
            run_params(call, generation)
        }
    }

    fn argv(words: &[&str]) -> Command {
        Command::argv(words.iter().map(|word| (*word).to_owned()).collect()).unwrap()
    }

    fn plan() -> NodePlan {
        let prepared = json!({ "plan": {
            "argv": ["/usr/bin/id", "-u"], "cwd": "/tmp", "commandText": "/usr/bin/id -u", "commandPreview": null,
            "agentId": "main", "sessionKey": "agent:main:main",
            "policySnapshot": { "security": "allowlist", "ask": "always", "askFallback": "deny", "autoAllowSkills": false,
                "allowlistRules": [] },
        }, "execPolicy": { "security": "allowlist", "ask": "always" } });
        NodePlan::of_prepared(&prepared).unwrap()
    }

    #[test]
    fn shell_text_goes_to_a_login_shell_and_arguments_go_as_they_are() {
        let text = Story::of(Command::shell("echo 'a  b'".to_owned()).unwrap());
        assert_eq!(
            prepare_params(text.called()),
            json!({ "command": ["/bin/sh", "-lc", "echo 'a  b'"], "rawCommand": "echo 'a  b'", "cwd": "/srv",
                "agentId": "main", "sessionKey": "agent:main:main" })
        );
        let mut words = Story::of(argv(&["echo", "a;b", ""]));
        words.env = EnvOverrides::accepted(BTreeMap::from([("TZ".to_owned(), "UTC".to_owned())]));
        assert_eq!(
            prepare_params(Called {
                cwd: None,
                ..words.called()
            }),
            json!({ "command": ["echo", "a;b", ""], "env": { "TZ": "UTC" }, "agentId": "main",
                "sessionKey": "agent:main:main" })
        );
    }

    #[test]
    fn a_plan_is_sent_back_unchanged_and_stands_for_the_command() {
        let story = Story::of(argv(&["id", "-u"]));
        let plan = plan();
        let allowed = Allowed::ByPerson(RunApproval::AllowOnce);
        let params = story.params(Some(&plan), allowed, NodeGeneration::Present);
        assert_eq!(
            params,
            json!({ "command": ["/usr/bin/id", "-u"], "rawCommand": "/usr/bin/id -u", "cwd": "/tmp",
                "systemRunPlan": plan.as_value(), "timeoutMs": 5000, "agentId": "main",
                "sessionKey": "agent:main:main", "runId": "r-1", "approved": true, "approvalDecision": "allow-once" })
        );
    }

    #[test]
    fn every_generation_is_told_who_allowed_it_in_its_own_way() {
        let story = Story::of(argv(&["id"]));
        let said = |allowed, generation| {
            let params = story.params(None, allowed, generation);
            let word = |name: &str| params.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
            let approved = params.get("approved") == Some(&json!(true));
            assert_eq!(approved, params.get("approvalDecision").is_some());
            assert_eq!(
                params.get("notAfterMs").is_some(),
                generation == NodeGeneration::Ours
            );
            format!("{} {}", word("approvalDecision"), word("approvalSource"))
        };
        let first: Vec<String> = ALL.map(|allowed| said(allowed, NodeGeneration::First)).to_vec();
        assert_eq!(
            first,
            [
                "allow-once -",
                "- -",
                "allow-once -",
                "allow-once -",
                "allow-once ask-fallback",
                "- ask-fallback"
            ]
        );
        for generation in [NodeGeneration::Present, NodeGeneration::Ours] {
            let later: Vec<String> = ALL.map(|allowed| said(allowed, generation)).to_vec();
            assert_eq!(
                later,
                [
                    "- -",
                    "- -",
                    "allow-once -",
                    "allow-always -",
                    "- ask-fallback",
                    "- ask-fallback"
                ]
            );
        }
    }

    #[test]
    fn where_its_document_was_not_seen_only_a_person_speaks_for_the_first_generation() {
        let story = Story::of(argv(&["id"]));
        let told = |gate, generation| {
            ALL.map(|allowed| {
                let params = story.params_with(None, allowed, gate, generation);
                let is_told = params.get("approvalDecision").is_some();
                assert_eq!(params.get("approved").is_some(), is_told);
                is_told
            })
        };
        assert_eq!(
            told(NodeGate::Unseen, NodeGeneration::First),
            [false, false, true, true, false, false]
        );
        // The others decide by their own gate in any case.
        for generation in [NodeGeneration::Present, NodeGeneration::Ours] {
            assert_eq!(
                told(NodeGate::Unseen, generation),
                told(NodeGate::Seen, generation)
            );
        }
    }

    #[test]
    fn no_time_limit_is_no_member() {
        let story = Story::of(argv(&["id"]));
        let call = AllowedCall {
            called: story.called(),
            plan: None,
            run_id: &story.run_id,
            timeout_ms: 0,
            allowed: Allowed::ByPolicy,
            gate: NodeGate::Seen,
            not_after: UnixMillis::new(1),
        };
        assert_eq!(run_params(call, NodeGeneration::First).get("timeoutMs"), None);
    }
}
