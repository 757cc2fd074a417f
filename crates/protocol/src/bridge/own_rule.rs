//! Which rule of a node's own policy refused a command: a member that nodes of ours add to their answers, for gateways of
//! ours alone. It explains and decides nothing: what a refusal means is in the words that both products know.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use countersign_domain::Reason;

use super::connect::visible;

/// The member that has it, in the error of an answer and in the answer to `system.run.prepare`.
pub const OWN_RULE: &str = "countersign";

/// Longest name of a layer.
const MAX_LAYER_CHARS: usize = 32;
/// Most characters of a key.
const MAX_KEY_CHARS: usize = 200;
/// Most characters of a path.
const MAX_FILE_CHARS: usize = 1_024;

/// The rule of a machine's own policy that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnRule {
    /// Why it does not run.
    pub reason: Reason,
    /// The layer of the policy, such as `document-agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    /// The key that says so, such as `agents.main.security`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The file with that key, on that machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl OwnRule {
    /// A reason without a rule.
    pub const fn of_reason(reason: Reason) -> Self {
        Self {
            reason,
            layer: None,
            key: None,
            file: None,
        }
    }

    /// What is to be read of this member. The sender may have written anything: without a reason of ours it is nothing,
    /// and any other part that is no short text of the expected form is left out.
    pub fn read(member: Option<&Value>) -> Option<Self> {
        let members = member?.as_object()?;
        let text = |name: &str, most: usize| {
            let text = members.get(name)?.as_str()?;
            let is_short = !text.is_empty() && text.len() <= most.saturating_mul(4);
            (is_short && text.chars().count() <= most).then(|| text.to_owned())
        };
        let is_word = |layer: &String| {
            layer
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        Some(Self {
            reason: members.get("reason")?.as_str()?.parse().ok()?,
            layer: text("layer", MAX_LAYER_CHARS).filter(is_word),
            key: text("key", MAX_KEY_CHARS),
            file: text("file", MAX_FILE_CHARS).filter(|file| file.starts_with('/')),
        })
    }

    /// The member as it travels, without the parts that are `None`.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// For people, on one line, without anything that cannot be seen.
    pub fn in_words(&self) -> String {
        let Self {
            reason,
            layer,
            key,
            file,
        } = self;
        let mut words = reason.as_str().to_owned();
        let mut add = |before: &str, text: &Option<String>, after: &str| {
            if let Some(text) = text {
                words.push_str(before);
                words.push_str(&visible(text));
                words.push_str(after);
            }
        };
        add(" by ", key, "");
        add(" in ", file, "");
        add(" (layer ", layer, ")");
        words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(member: &Value) -> Option<String> {
        OwnRule::read(Some(member)).map(|rule| rule.in_words())
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        let rule = OwnRule {
            reason: Reason::SecurityDeny,
            layer: Some("document-agent".to_owned()),
            key: Some("agents.main.security".to_owned()),
            file: Some("/home/a b/.openclaw/exec-approvals.json".to_owned()),
        };
        assert_eq!(OwnRule::read(Some(&rule.to_value())), Some(rule.clone()));
        assert_eq!(
            rule.in_words(),
            "security-deny by agents.main.security in /home/a b/.openclaw/exec-approvals.json (layer document-agent)"
        );
        let bare = OwnRule::of_reason(Reason::Preflight);
        assert_eq!(bare.to_value(), json!({"reason": "preflight"}));
        assert_eq!(OwnRule::read(Some(&bare.to_value())), Some(bare));
    }

    #[test]
    fn what_is_no_rule_is_left_out() {
        for nothing in [
            json!(null),
            json!("security-deny"),
            json!([{"reason": "security-deny"}]),
            json!({}),
            json!({"reason": 7}),
            json!({"reason": "because"}),
            json!({"reason": "x".repeat(100_000)}),
        ] {
            assert_eq!(read(&nothing), None, "{nothing}");
        }
        let long = json!({"reason": "denylist", "layer": "l".repeat(33), "key": "k".repeat(201), "file": "/".repeat(1025)});
        assert_eq!(read(&long).as_deref(), Some("denylist"));
        let wrong =
            json!({"reason": "denylist", "layer": "Layer 1", "key": ["k"], "file": "relative", "more": {}});
        assert_eq!(read(&wrong).as_deref(), Some("denylist"));
        let hostile = json!({"reason": "denylist", "key": "a\u{202e}\nb\u{1b}[2J", "file": "/x\u{0}"});
        let shown = read(&hostile).unwrap();
        assert!(
            !shown.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{shown}"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_sent_the_words_are_short_and_harmless(layer in ".*", key in ".*", file in ".*") {
            let member = json!({"reason": "denylist", "layer": layer, "key": key, "file": format!("/{file}")});
            let words = read(&member).unwrap();
            prop_assert!(words.len() < 16_000);
            prop_assert!(!words.chars().any(char::is_control));
        }
    }
}
