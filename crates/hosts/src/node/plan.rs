//! What a node makes of a command before it runs it (`docs/spec/bridge.md#94-systemrunprepare-p4-only`). Pure.

use serde::Deserialize;
use serde_json::Value;

use countersign_domain::{Ask, Security};
use countersign_protocol::bridge::{OWN_RULE, OwnRule, RunPlan};

/// Most bytes of a plan, policy and all, and of what `allow-always` would store. They lie in the record of every approval
/// that is bound to it.
const MAX_BYTES: usize = 512 * 1024;
/// Most patterns that `allow-always` would store.
const MAX_PATTERNS: usize = 64;
/// Most bytes of one of them, and of the pattern of its arguments.
const MAX_PATTERN_BYTES: usize = 4096;

/// A node's plan of one command.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePlan {
    /// Exactly as the node sent it, for it compares.
    raw: Value,
    /// What of it says what runs. The node compares its policy itself, so that is left out.
    command: RunPlan,
    policy: Option<(Security, Ask)>,
    coverage: Vec<Coverage>,
    /// The rule of its own policy by which a node of ours would refuse it as things are. Text for people.
    refusal: Option<Box<OwnRule>>,
}

/// An entry that the node would store for `allow-always`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// The program, in the node's own form; at most 4096 bytes.
    pub pattern: String,
    /// Its arguments, in the node's own form; `None` for any.
    #[serde(default)]
    pub arg_pattern: Option<String>,
}

/// Why a plan is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusablePlan {
    /// It has not the members that a plan has.
    #[error("the node's plan of the command is unreadable")]
    Unreadable,
    /// It is larger than any honest one.
    #[error("the node's plan of the command is too large")]
    TooLarge,
    /// It is for another agent or session.
    #[error("the node's plan is for another agent or session")]
    Foreign,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CoverageWire {
    complete: bool,
    patterns: Vec<Coverage>,
}

impl Coverage {
    fn is_short(&self) -> bool {
        let is_short = |text: &str| text.len() <= MAX_PATTERN_BYTES;
        is_short(&self.pattern) && self.arg_pattern.as_deref().is_none_or(is_short)
    }

    fn bytes(&self) -> usize {
        self.pattern.len() + self.arg_pattern.as_ref().map_or(0, String::len)
    }
}

impl CoverageWire {
    /// Whether it covers the command, with patterns that a person would read.
    fn is_offered(&self) -> bool {
        self.complete && self.patterns.len() <= MAX_PATTERNS && self.patterns.iter().all(Coverage::is_short)
    }
}

impl NodePlan {
    /// The plan in the answer to `system.run.prepare`.
    ///
    /// # Errors
    /// [`UnusablePlan`] when there is none that could be bound.
    pub fn of_prepared(answer: &Value) -> Result<Self, UnusablePlan> {
        let raw = answer.get("plan").ok_or(UnusablePlan::Unreadable)?;
        let mut plan = Self::of_raw(raw.clone())?;
        plan.refusal = OwnRule::read(answer.get(OWN_RULE)).map(Box::new);
        let coverage = answer.get("allowAlwaysCoverage").cloned().unwrap_or_default();
        let coverage: CoverageWire = serde_json::from_value(coverage).unwrap_or_default();
        if !coverage.is_offered() {
            return Ok(plan);
        }
        let stored: usize = coverage.patterns.iter().map(Coverage::bytes).sum();
        if plan.to_text().len().saturating_add(stored) > MAX_BYTES {
            return Err(UnusablePlan::TooLarge);
        }
        plan.coverage = coverage.patterns;
        Ok(plan)
    }

    /// A plan that was kept as text.
    ///
    /// # Errors
    /// [`UnusablePlan`] when it is no plan.
    pub fn of_text(text: &str) -> Result<Self, UnusablePlan> {
        let raw = serde_json::from_str(text).map_err(|_malformed| UnusablePlan::Unreadable)?;
        Self::of_raw(raw)
    }

    fn of_raw(raw: Value) -> Result<Self, UnusablePlan> {
        if raw.to_string().len() > MAX_BYTES {
            return Err(UnusablePlan::TooLarge);
        }
        let mut command: RunPlan =
            serde_json::from_value(raw.clone()).map_err(|_malformed| UnusablePlan::Unreadable)?;
        let policy = command.policy();
        command.policy_snapshot = None;
        if command
            .argv
            .first()
            .is_none_or(|program| program.trim().is_empty())
        {
            return Err(UnusablePlan::Unreadable);
        }
        Ok(Self {
            raw,
            command,
            policy,
            coverage: Vec::new(),
            refusal: None,
        })
    }

    /// The same plan, if it is for this agent and session.
    ///
    /// # Errors
    /// [`UnusablePlan::Foreign`] when it names others.
    pub fn for_caller(self, agent: &str, session: &str) -> Result<Self, UnusablePlan> {
        let is = |own: &Option<String>, wanted: &str| own.as_deref().is_none_or(|own| own == wanted);
        if is(&self.command.agent_id, agent) && is(&self.command.session_key, session) {
            Ok(self)
        } else {
            Err(UnusablePlan::Foreign)
        }
    }

    /// The rule of the node's own policy by which it would refuse the command, where it says so.
    pub fn refusal(&self) -> Option<&OwnRule> {
        self.refusal.as_deref()
    }

    /// The policy under which the node made the plan, where it tells it.
    pub const fn policy(&self) -> Option<(Security, Ask)> {
        self.policy
    }

    /// The arguments that would be started.
    pub fn argv(&self) -> Vec<String> {
        self.command.argv.clone()
    }

    /// The directory that the node would start it in; `None` where the plan names none.
    pub fn cwd(&self) -> Option<&str> {
        self.command.cwd.as_deref()
    }

    /// The arguments as text, in the node's form.
    pub fn command_text(&self) -> &str {
        &self.command.command_text
    }

    /// What the node would store for `allow-always`; nothing when that would not cover the command.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Exactly as the node sent it.
    pub(crate) fn as_value(&self) -> Value {
        self.raw.clone()
    }

    /// The same as text, to be bound.
    pub fn to_text(&self) -> String {
        self.raw.to_string()
    }

    /// Whether it is of the same command as another. The node's policy may differ: the node compares that itself and asks for
    /// another approval.
    pub fn is_same_command(&self, other: &Self) -> bool {
        self.command == other.command
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prepared() -> Value {
        json!({
            "plan": { "argv": ["/usr/bin/id", "-u"], "cwd": "/tmp", "commandText": "/usr/bin/id -u",
                "commandPreview": null, "agentId": "main", "sessionKey": "agent:main:main",
                "mutableFileOperand": { "argvIndex": 0, "path": "/usr/bin/id", "sha256": "ab" },
                "policySnapshot": { "security": "allowlist" }, "later": [1] },
            "execPolicy": { "security": "allowlist", "ask": "always" },
            "allowAlwaysCoverage": { "complete": true, "patterns": [{ "pattern": "/usr/bin/id", "argPattern": "x" }] },
        })
    }

    #[test]
    fn a_plan_survives_being_kept_as_text_with_members_that_nobody_knows() {
        let plan = NodePlan::of_prepared(&prepared()).unwrap();
        assert_eq!(plan.coverage().len(), 1);
        let kept = NodePlan::of_text(&plan.to_text()).unwrap();
        assert_eq!(kept.as_value(), prepared().get("plan").cloned().unwrap());
        assert!(kept.is_same_command(&plan));
    }

    #[test]
    fn whatever_says_what_runs_makes_another_command_and_the_policy_does_not() {
        let plan = NodePlan::of_prepared(&prepared()).unwrap();
        for (pointer, value, same) in [
            ("/plan/argv", json!(["/usr/bin/id", "-g"]), false),
            ("/plan/cwd", json!("/root"), false),
            ("/plan/cwd", json!(null), false),
            ("/plan/commandText", json!("/usr/bin/id"), false),
            ("/plan/mutableFileOperand/sha256", json!("cd"), false),
            ("/plan/sessionKey", json!("other"), false),
            ("/plan/policySnapshot", json!({ "security": "full" }), true),
        ] {
            let mut changed = prepared();
            *changed.pointer_mut(pointer).unwrap() = value;
            let changed = NodePlan::of_prepared(&changed).unwrap();
            assert_eq!(plan.is_same_command(&changed), same, "{pointer}");
        }
    }

    #[test]
    fn what_is_no_plan_or_not_ours_is_not_used() {
        let unusable = |value: Value| NodePlan::of_prepared(&value).unwrap_err();
        assert_eq!(unusable(json!({})), UnusablePlan::Unreadable);
        assert_eq!(unusable(json!({ "plan": "x" })), UnusablePlan::Unreadable);
        assert_eq!(
            unusable(json!({ "plan": { "argv": [], "commandText": "" } })),
            UnusablePlan::Unreadable
        );
        let huge = "x".repeat(MAX_BYTES);
        assert_eq!(
            unusable(json!({ "plan": { "argv": ["x"], "commandText": huge } })),
            UnusablePlan::TooLarge
        );
        let plan = NodePlan::of_prepared(&prepared()).unwrap();
        assert!(plan.clone().for_caller("main", "agent:main:main").is_ok());
        assert_eq!(
            plan.clone().for_caller("other", "agent:main:main"),
            Err(UnusablePlan::Foreign)
        );
        assert_eq!(plan.for_caller("main", "x"), Err(UnusablePlan::Foreign));
    }

    #[test]
    fn patterns_without_end_are_not_kept() {
        let offering = |patterns: Value| {
            let mut prepared = prepared();
            *prepared.pointer_mut("/allowAlwaysCoverage/patterns").unwrap() = patterns;
            NodePlan::of_prepared(&prepared)
        };
        let longest = "p".repeat(MAX_PATTERN_BYTES);
        let offered = |patterns: Value| offering(patterns).unwrap().coverage().len();
        assert_eq!(offered(json!([{ "pattern": longest }])), 1);
        assert_eq!(offered(json!([{ "pattern": format!("{longest}p") }])), 0);
        assert_eq!(
            offered(json!([{ "pattern": "/usr/bin/id", "argPattern": format!("{longest}p") }])),
            0
        );
        assert_eq!(
            offered(json!(vec![json!({ "pattern": "p" }); MAX_PATTERNS + 1])),
            0
        );
        // Each is short enough, and together with the plan they are not.
        let entry = json!({ "pattern": longest, "argPattern": longest });
        assert_eq!(
            offering(json!(vec![entry; MAX_PATTERNS])),
            Err(UnusablePlan::TooLarge)
        );
    }

    #[test]
    fn coverage_that_is_not_complete_offers_nothing() {
        let mut partly = prepared();
        *partly.pointer_mut("/allowAlwaysCoverage/complete").unwrap() = json!(false);
        assert!(NodePlan::of_prepared(&partly).unwrap().coverage().is_empty());
        *partly.pointer_mut("/allowAlwaysCoverage").unwrap() = json!("all");
        assert!(NodePlan::of_prepared(&partly).unwrap().coverage().is_empty());
    }
}
