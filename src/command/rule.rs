//! The rules of `command-analysis.md` by their ids, and the switch that a test build has for each.
//!
//! Every decision of a rule goes through a [`RuleSet`], which hands back what it is given. A build with the
//! feature `test-hooks` can force one rule's answer, so that a test can tell a rule that decides from one that is dead.
//! No other build has a way to make a set in which a rule is off: the type has one value and no size.

use crate::domain::name::vocabulary;

vocabulary! {
    /// A rule (`command-analysis.md`).
    #[expect(missing_docs, reason = "the specification says what each of them means")]
    pub enum Rule("a rule id") {
        G1 = "G1", G2 = "G2", G3 = "G3", G4 = "G4", G5 = "G5",
        G6 = "G6", G7 = "G7", G8 = "G8", G9 = "G9", G10 = "G10",
        B1 = "B1",
        P1 = "P1", P2 = "P2", P3 = "P3", P4 = "P4", P5 = "P5", P6 = "P6",
        M1 = "M1", M2 = "M2", M3 = "M3", M4 = "M4", M5 = "M5", M6 = "M6",
        K1 = "K1",
        O1 = "O1",
        W1 = "W1", W2 = "W2", W3 = "W3", W4 = "W4", W5 = "W5",
        D1 = "D1",
        S1 = "S1", S2 = "S2", S3 = "S3", S4 = "S4",
        I1 = "I1", I2 = "I2",
        Sb1 = "SB1", Sb2 = "SB2", Sb3 = "SB3", Sb4 = "SB4", Sb5 = "SB5", Sb6 = "SB6",
        E1 = "E1", E2 = "E2", E3 = "E3",
        A1 = "A1", A2 = "A2", A3 = "A3",
    }
}

/// Which rules are in force: all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleSet {
    /// The one rule whose every answer is this.
    #[cfg(feature = "test-hooks")]
    forced: Option<(Rule, bool)>,
}

impl RuleSet {
    /// Every rule.
    pub const ALL: Self = Self {
        #[cfg(feature = "test-hooks")]
        forced: None,
    };

    /// Every rule, but one of them answers always the same: `false` takes it out, `true` overdoes it.
    #[cfg(feature = "test-hooks")]
    pub const fn forced(rule: Rule, answer: bool) -> Self {
        Self {
            forced: Some((rule, answer)),
        }
    }

    /// What a rule says: the condition it is given.
    #[inline]
    pub(crate) fn holds(self, rule: Rule, condition: bool) -> bool {
        self.answer_of(rule).unwrap_or(condition)
    }

    /// Whether a rule answers always the same.
    #[inline]
    pub(crate) fn is_forced(self, rule: Rule) -> bool {
        self.answer_of(rule).is_some()
    }

    /// Whether a rule is in force.
    #[inline]
    pub(crate) fn on(self, rule: Rule) -> bool {
        self.answer_of(rule) != Some(false)
    }

    #[cfg(feature = "test-hooks")]
    fn answer_of(self, rule: Rule) -> Option<bool> {
        self.forced
            .and_then(|(forced, answer)| (forced == rule).then_some(answer))
    }

    #[cfg(not(feature = "test-hooks"))]
    #[expect(
        clippy::unused_self,
        reason = "the same call as in a test build, where a rule may be forced"
    )]
    const fn answer_of(self, _rule: Rule) -> Option<bool> {
        None
    }
}

#[cfg(all(test, not(feature = "test-hooks")))]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_rules_holds_nothing_that_could_be_switched() {
        assert_eq!(size_of::<RuleSet>(), 0);
        assert!(Rule::ALL.iter().all(|rule| RuleSet::ALL.on(*rule)));
    }
}
