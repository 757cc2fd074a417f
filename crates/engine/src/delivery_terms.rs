//! On which terms a call was delivered: who answers a question about it, until when it may start, and what was approved
//! of it where it comes from.

use countersign_domain::{Ask, Reason, Security, UnixMillis};
use countersign_policy::gate::Verdict;

use crate::{evaluator::judgement::Judgement, reply::ExecError};

/// Who answers a question about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Approvers of this server, if any can be reached.
    Approvers,
    /// A person whose answer is at hand, or will be.
    Promised,
    /// Nobody, and that is known: the fallback counts at once.
    Fallback,
    /// Nobody may be asked: the call is refused.
    Refused,
}

/// How a call was delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Who answers a question about it.
    pub answers: Answers,
    /// From this moment on it must not start.
    pub start_before: Option<UnixMillis>,
    /// What was approved of it where it comes from; `None` when it was sent without a plan.
    pub planned: Option<Planned>,
}

/// What a plan says that was approved elsewhere, as far as it has to hold until the call begins: it may wait for a place
/// to run in, and files and policy change meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The script that would be run: its path and the SHA-256 of its content.
    pub script: Option<(String, String)>,
    /// Security and ask of this machine then. Under stricter ones a person has to look again.
    pub policy: Option<(Security, Ask)>,
}

impl Planned {
    /// Whether policy became stricter than it was for the plan.
    pub fn is_outdated(&self, security: Security, ask: Ask) -> bool {
        self.policy
            .is_some_and(|(then_security, then_ask)| security < then_security || ask > then_ask)
    }
}

impl Delivery {
    /// What a look says of the call, unless it is no longer what was approved: then it is refused.
    pub(super) fn hold_to_plan(&self, judged: Judgement) -> Judgement {
        let Some(planned) = &self.planned else {
            return judged;
        };
        if matches!(judged.verdict, Verdict::Deny(_)) {
            return judged;
        }
        let is_bound = |(path, sha256): &(String, String)| {
            let mut scripts = judged.binding.scripts.iter();
            scripts.any(|script| script.path == *path && script.sha256 == *sha256)
        };
        if planned.script.as_ref().is_some_and(|script| !is_bound(script)) {
            return judged.refused(
                Reason::BindingMismatch,
                "the script is not the one that was approved",
            );
        }
        let effective = &judged.effective;
        if planned.is_outdated(effective.security.value, effective.ask.value) {
            return judged.refused(
                Reason::ApprovalRequired,
                "the policy of this machine became stricter than it was for the plan",
            );
        }
        judged
    }
}

/// Whether a delivered call may still start.
pub(super) fn expect_in_time(delivery: Option<&Delivery>, now: UnixMillis) -> Result<(), ExecError> {
    let is_late = delivery
        .and_then(|delivery| delivery.start_before)
        .is_some_and(|limit| now >= limit);
    if is_late {
        Err(ExecError::Overloaded)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_may_start_before_its_limit_and_not_at_it() {
        let at = |limit| Delivery {
            answers: Answers::Refused,
            start_before: limit,
            planned: None,
        };
        let now = UnixMillis::new(1_000);
        assert!(expect_in_time(None, now).is_ok());
        assert!(expect_in_time(Some(&at(None)), now).is_ok());
        assert!(expect_in_time(Some(&at(Some(UnixMillis::new(1_001)))), now).is_ok());
        assert!(expect_in_time(Some(&at(Some(now))), now).is_err());
    }

    #[test]
    fn a_plan_outlives_a_policy_that_became_looser_and_none_that_became_stricter() {
        let planned = |policy| Planned { script: None, policy };
        let made = planned(Some((Security::Allowlist, Ask::OnMiss)));
        for (security, ask) in [
            (Security::Allowlist, Ask::OnMiss),
            (Security::Full, Ask::OnMiss),
            (Security::Allowlist, Ask::Off),
        ] {
            assert!(!made.is_outdated(security, ask), "{security:?} {ask:?}");
        }
        for (security, ask) in [
            (Security::Deny, Ask::OnMiss),
            (Security::Allowlist, Ask::Always),
            (Security::Full, Ask::Always),
        ] {
            assert!(made.is_outdated(security, ask), "{security:?} {ask:?}");
        }
        assert!(!planned(None).is_outdated(Security::Deny, Ask::Always));
    }
}
