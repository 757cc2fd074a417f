//! The three presets as data (`docs/spec/exec-tool.md#11-presets`). A caller that applies one writes both files or
//! neither.

use serde_json::{Value, json};

use countersign_domain::{AgentId, Ask, HostChoice, Security, vocabulary};

vocabulary! {
    /// A named policy, from strictest to loosest.
    pub enum Preset("deny-all, cautious or yolo") {
        /// Nothing runs.
        DenyAll = "deny-all",
        /// The allowlist runs, everything else is asked.
        Cautious = "cautious",
        /// Everything runs.
        Yolo = "yolo",
    }
}

#[cfg(feature = "schema")]
countersign_domain::word_schemas!(Preset);

/// Whom a preset is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresetReach {
    /// Everybody, but keys that agents have of their own stay and may say otherwise.
    Defaults,
    /// One agent.
    Agent(AgentId),
    /// Everybody: keys of the preset that agents have of their own are removed.
    EveryAgent,
}

/// What a preset sets, in the configuration and in the approvals document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresetValues {
    /// `tools.exec.host`, in the configuration alone.
    pub host: HostChoice,
    /// `security`, in both files.
    pub security: Security,
    /// `ask`, in both files.
    pub ask: Ask,
    /// `askFallback`, in the document alone.
    pub ask_fallback: Security,
}

/// One edit of the configuration, below the root for everybody and below an agent's own object for one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEdit {
    /// The key, such as `tools.exec.ask`.
    pub key: &'static str,
    /// Its new value; `None` takes the key away.
    pub value: Option<Value>,
}

impl Preset {
    /// What it sets in the configuration and in the approvals document.
    pub const fn values(self) -> PresetValues {
        match self {
            Self::DenyAll => PresetValues {
                host: HostChoice::Gateway,
                security: Security::Deny,
                ask: Ask::Off,
                ask_fallback: Security::Deny,
            },
            Self::Cautious => PresetValues {
                host: HostChoice::Gateway,
                security: Security::Allowlist,
                ask: Ask::OnMiss,
                ask_fallback: Security::Deny,
            },
            Self::Yolo => PresetValues {
                host: HostChoice::Gateway,
                security: Security::Full,
                ask: Ask::Off,
                ask_fallback: Security::Full,
            },
        }
    }

    /// What changes in the configuration. `tools.exec.mode` goes: beside `security` or `ask` it is an error.
    pub fn config_edits(self) -> Vec<ConfigEdit> {
        let PresetValues {
            host,
            security,
            ask,
            ask_fallback: _,
        } = self.values();
        let set = |key, word: &str| ConfigEdit {
            key,
            value: Some(json!(word)),
        };
        vec![
            set("tools.exec.host", host.as_str()),
            set("tools.exec.security", security.as_str()),
            set("tools.exec.ask", ask.as_str()),
            ConfigEdit {
                key: "tools.exec.mode",
                value: None,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_those_of_the_contract() {
        let words = |preset: Preset| {
            let values = preset.values();
            [
                values.host.as_str(),
                values.security.as_str(),
                values.ask.as_str(),
                values.ask_fallback.as_str(),
            ]
        };
        assert_eq!(words(Preset::DenyAll), ["gateway", "deny", "off", "deny"]);
        assert_eq!(
            words(Preset::Cautious),
            ["gateway", "allowlist", "on-miss", "deny"]
        );
        assert_eq!(words(Preset::Yolo), ["gateway", "full", "off", "full"]);
    }

    #[test]
    fn a_preset_replaces_mode() {
        assert_eq!(
            Preset::Cautious.config_edits(),
            [
                ("tools.exec.host", Some(json!("gateway"))),
                ("tools.exec.security", Some(json!("allowlist"))),
                ("tools.exec.ask", Some(json!("on-miss"))),
                ("tools.exec.mode", None),
            ]
            .map(|(key, value)| ConfigEdit { key, value })
        );
    }
}
