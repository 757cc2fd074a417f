//! Who may use directives, and what stands between a call and the world outside of the sandbox
//! (`docs/spec/exec-tool.md#5-sessions-exec-elevated`).

use countersign_domain::AgentId;

use super::{overrides::Overrides, sender::Sender};

use crate::settings::{ElevatedLevel, ElevatedSettings, KeyPath, PolicyConfig, Step};

/// What names the session itself among the gates.
pub(crate) const SESSION_GATE: &str = "session.elevated";

/// A gate that is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// The key that would open it, or [`SESSION_GATE`].
    pub key: String,
    /// Why it is closed, in words.
    pub why: String,
}

/// Whether a sender may use directives.
pub fn may_command(policy: &PolicyConfig, sender: &Sender) -> bool {
    let commands = policy.commands();
    !commands.use_access_groups
        || sender.is_on(&commands.allow_from)
        || sender.is_on_everybodys(&commands.allow_from)
}

/// The gates that are closed to a sender; none means that they may be elevated for the agent.
pub fn closed(policy: &PolicyConfig, agent: &AgentId, sender: &Sender) -> Vec<Gate> {
    let ElevatedSettings {
        enabled,
        agent_enabled,
        allow_from,
        agent_allow_from,
        default_level: _,
    } = policy.elevated(agent);
    let mut gates = Vec::new();
    let mut close = |key: String, why: String| gates.push(Gate { key, why });
    if !enabled {
        close("tools.elevated.enabled".to_owned(), "is false".to_owned());
    }
    if !agent_enabled {
        close(
            policy.agent_key(agent, "tools.elevated.enabled"),
            "is false".to_owned(),
        );
    }
    let list = allow_from_key(sender.provider());
    let missing = || format!("does not name {}", sender.id().escape_debug());
    if !sender.is_on(allow_from) {
        close(list.clone(), missing());
    }
    if let Some(own) = agent_allow_from
        && !sender.is_on(own)
    {
        close(policy.agent_key(agent, &list), missing());
    }
    gates
}

/// The level of a call that asks to be elevated, or what refuses it. `sender` is the call's own.
///
/// # Errors
/// The gates that are closed.
pub fn level_of_call(
    policy: &PolicyConfig,
    agent: &AgentId,
    overrides: &Overrides,
    sender: &Sender,
) -> Result<ElevatedLevel, Vec<Gate>> {
    let default = policy.elevated(agent).default_level;
    let chosen = overrides.elevated.as_ref();
    if chosen.is_some_and(|elevated| elevated.level == ElevatedLevel::Off) {
        return Err(vec![Gate {
            key: SESSION_GATE.to_owned(),
            why: "is off in this session; /elevated on lifts that".to_owned(),
        }]);
    }
    // A level lasts as long as the sender who chose it may be elevated.
    if let Some(elevated) = chosen.filter(|elevated| closed(policy, agent, &elevated.sender).is_empty()) {
        return Ok(elevated.level);
    }
    let mut gates = closed(policy, agent, sender);
    if default == ElevatedLevel::Off {
        gates.push(Gate {
            key: "agents.defaults.elevatedDefault".to_owned(),
            why: "is off, here or for the agent".to_owned(),
        });
    }
    if gates.is_empty() { Ok(default) } else { Err(gates) }
}

fn allow_from_key(provider: &str) -> String {
    let steps = ["tools", "elevated", "allowFrom", provider].map(|step| Step::Key(step.to_owned()));
    KeyPath::new(steps.to_vec()).map_or_else(
        |_never_too_long| "tools.elevated.allowFrom".to_owned(),
        |path| path.to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::policy_of;

    fn policy(text: &str) -> PolicyConfig {
        policy_of(text)
    }

    fn ops() -> Sender {
        Sender::of_token("ops")
    }

    fn keys(text: &str, agent: &str) -> Vec<String> {
        let agent = AgentId::parse(agent).unwrap();
        let gates = closed(&policy(text), &agent, &ops());
        gates.into_iter().map(|gate| gate.key).collect()
    }

    #[test]
    fn every_closed_gate_is_named_with_the_key_that_opens_it() {
        assert_eq!(keys("{}", "main"), ["tools.elevated.allowFrom.api"]);
        assert_eq!(
            keys("{tools: {elevated: {allowFrom: {api: ['ops']}}}}", "main"),
            [""; 0]
        );
        assert_eq!(
            keys("{tools: {elevated: {allowFrom: {'*': ['*']}}}}", "main"),
            ["tools.elevated.allowFrom.api"]
        );
        let closed = "{tools: {elevated: {enabled: false}}, agents: {list: [{id: 'a', tools: {elevated: \
                      {enabled: false, allowFrom: {api: ['other']}}}}]}}";
        assert_eq!(
            keys(closed, "a"),
            [
                "tools.elevated.enabled",
                "agents.list[0].tools.elevated.enabled",
                "tools.elevated.allowFrom.api",
                "agents.list[0].tools.elevated.allowFrom.api"
            ]
        );
        let both = "{tools: {elevated: {allowFrom: {api: ['ops']}}}, agents: {entries: {a: {tools: {elevated: \
                    {allowFrom: {api: ['id:ops']}}}}}}}";
        assert_eq!(keys(both, "a"), [""; 0]);
    }

    #[test]
    fn the_level_is_the_sessions_as_long_as_its_sender_may() {
        let agent = AgentId::main();
        let open = policy("{tools: {elevated: {allowFrom: {api: ['ops'], chat: ['7']}}}}");
        let sender = |id: &str| {
            Sender::relayed(super::super::sender::RelayedSender {
                provider: "chat".to_owned(),
                id: id.to_owned(),
                ..Default::default()
            })
            .unwrap()
        };
        let level = |overrides: &Overrides| level_of_call(&open, &agent, overrides, &ops());
        let none = Overrides::default();
        assert_eq!(level(&none), Ok(ElevatedLevel::On));
        let full = none.clone().with_elevated(ElevatedLevel::Full, sender("7"));
        assert_eq!(level(&full), Ok(ElevatedLevel::Full));
        let stranger = none.clone().with_elevated(ElevatedLevel::Full, sender("8"));
        assert_eq!(level(&stranger), Ok(ElevatedLevel::On));
        let off = none.with_elevated(ElevatedLevel::Off, sender("7"));
        assert_eq!(level(&off).unwrap_err()[0].key, SESSION_GATE);
        let by_default_off = policy(
            "{tools: {elevated: {allowFrom: {api: ['ops']}}}, agents: {defaults: {elevatedDefault: 'off'}}}",
        );
        let gates = level_of_call(&by_default_off, &agent, &Overrides::default(), &ops()).unwrap_err();
        assert_eq!(gates[0].key, "agents.defaults.elevatedDefault");
    }

    #[test]
    fn directives_are_for_those_who_are_named() {
        let may = |text: &str| may_command(&policy(text), &ops());
        assert!(!may("{}"));
        assert!(may("{commands: {allowFrom: {api: ['ops']}}}"));
        assert!(may("{commands: {allowFrom: {'*': ['ops']}}}"));
        assert!(!may("{commands: {allowFrom: {chat: ['ops']}}}"));
        assert!(may("{commands: {useAccessGroups: false}}"));
    }
}
