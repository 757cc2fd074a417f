//! Which scripts of a call it is bound to.

use countersign_domain::Security;
use countersign_policy::{combine::Effective, gate::Verdict};

use super::call::Call;
use crate::delivery_terms::Answers;

/// Which of the scripts of a command a run is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every one that it may read: a person answers for them, or a rule lets this very command run.
    Every,
    /// Those whose content was looked at before. Nothing else that a script holds was shown to anybody or decided
    /// anything, so a run that found another content would be no other run.
    LookedAt,
}

impl Scope {
    /// The scope of a call with this verdict: under `full`, where nobody is asked, only what was looked at.
    pub(crate) fn of(call: &Call, effective: &Effective, verdict: Verdict) -> Self {
        // A plan names its script under every policy, and a person may have answered for it where the call comes from.
        let is_answered_elsewhere = call.pins_scripts || call.answers == Answers::Promised;
        Self::by(effective.security.value, verdict, is_answered_elsewhere)
    }

    const fn by(security: Security, verdict: Verdict, is_answered_elsewhere: bool) -> Self {
        match (security, verdict) {
            (Security::Full, Verdict::Run) if !is_answered_elsewhere => Self::LookedAt,
            (Security::Full | Security::Allowlist | Security::Deny, _) => Self::Every,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::Reason;
    use countersign_policy::gate::{AskSpec, AskWhy};

    #[test]
    fn scripts_are_left_alone_only_where_everything_runs_and_nobody_answers() {
        let ask = Verdict::Ask(AskSpec {
            why: AskWhy::AskAlways,
            allow_always_offered: false,
        });
        let verdicts = [Verdict::Run, ask, Verdict::Deny(Reason::Denylist)];
        for security in [Security::Deny, Security::Allowlist, Security::Full] {
            for verdict in verdicts {
                for is_answered_elsewhere in [false, true] {
                    let runs_freely = security == Security::Full && verdict == Verdict::Run;
                    let expected = if runs_freely && !is_answered_elsewhere {
                        Scope::LookedAt
                    } else {
                        Scope::Every
                    };
                    assert_eq!(
                        Scope::by(security, verdict, is_answered_elsewhere),
                        expected,
                        "{security:?} {verdict:?} {is_answered_elsewhere}"
                    );
                }
            }
        }
    }
}
