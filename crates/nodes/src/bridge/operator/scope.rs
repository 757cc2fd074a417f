//! What an operator may do: the scopes of the wire, from the scopes of an API token (`docs/spec/bridge.md#13-ours`).
//!
//! On the product's wire one scope implies others; on ours none does. So an implication only widens what a client
//! *asks* for, and never what its token holds.

use std::collections::BTreeSet;

use countersign_domain::{Principal, Scope};

/// A scope of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OperatorScope {
    /// Look at nodes and runs.
    Read,
    /// Have nodes do something.
    Write,
    /// Ask and answer approvals.
    Approvals,
    /// Decide who is paired.
    Pairing,
    /// Change policy and nodes.
    Admin,
}

impl OperatorScope {
    pub(super) const ALL: &'static [Self] = &[
        Self::Read,
        Self::Write,
        Self::Approvals,
        Self::Pairing,
        Self::Admin,
    ];

    /// Its name on the wire.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "operator.read",
            Self::Write => "operator.write",
            Self::Approvals => "operator.approvals",
            Self::Pairing => "operator.pairing",
            Self::Admin => "operator.admin",
        }
    }

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == word)
    }

    /// The scopes that a client which asks for this one means, too.
    const fn implied(self) -> &'static [Self] {
        match self {
            Self::Admin => Self::ALL,
            Self::Write => &[Self::Write, Self::Read],
            Self::Read => &[Self::Read],
            Self::Approvals => &[Self::Approvals],
            Self::Pairing => &[Self::Pairing],
        }
    }
}

/// What a caller gets who asks for some scopes: what was asked for or is implied by it, as far as the token holds it.
/// Unknown words, and scopes that the token does not hold, are dropped.
pub(super) fn granted(principal: &Principal, asked: &[String]) -> BTreeSet<OperatorScope> {
    let held = held_by(principal);
    asked
        .iter()
        .filter_map(|word| OperatorScope::named(word))
        .flat_map(OperatorScope::implied)
        .copied()
        .filter(|scope| held.contains(scope))
        .collect()
}

fn held_by(principal: &Principal) -> BTreeSet<OperatorScope> {
    let of_scope = |scope: &Scope| -> &'static [OperatorScope] {
        match scope {
            Scope::Read => &[OperatorScope::Read],
            Scope::Approve => &[OperatorScope::Approvals],
            Scope::Admin => &[OperatorScope::Admin, OperatorScope::Pairing],
            Scope::Exec => &[OperatorScope::Write],
            // Chat text of people does not come over the Bridge.
            Scope::Relay => &[],
        }
    };
    principal.scopes.iter().flat_map(of_scope).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::{Actor, Authority};

    fn check(scopes: &[Scope], asked: &[&str], expected: &[OperatorScope]) {
        let principal = Principal {
            actor: Actor::system(),
            scopes: scopes.iter().copied().collect(),
            authority: Authority::EVERYTHING,
        };
        let asked: Vec<String> = asked.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(
            granted(&principal, &asked),
            expected.iter().copied().collect(),
            "{scopes:?} {asked:?}"
        );
    }

    #[test]
    fn nobody_gets_more_than_the_token_holds() {
        use OperatorScope::{Admin, Approvals, Pairing, Read, Write};
        let operator = [Scope::Read, Scope::Approve, Scope::Admin];
        check(&operator, &["operator.admin"], &[Read, Approvals, Pairing, Admin]);
        check(&operator, &["operator.write"], &[Read]);
        check(&operator, &["operator.pairing"], &[Pairing]);
        check(&operator, &[], &[]);
        check(&[Scope::Exec], &["operator.admin"], &[Write]);
        check(&[Scope::Exec], &["operator.approvals", "operator.pairing"], &[]);
        check(&[Scope::Exec, Scope::Read], &["operator.write"], &[Read, Write]);
        check(&[Scope::Admin], &["operator.admin"], &[Pairing, Admin]);
        check(
            &[Scope::Approve],
            &["operator.admin", "operator.root", "*", ""],
            &[Approvals],
        );
        check(&[Scope::Relay], &["operator.admin"], &[]);
    }

    #[test]
    fn no_token_that_asks_gets_a_scope_that_answers() {
        let asking = Scope::ALL.iter().filter(|scope| {
            countersign_ledger::auth::check_scopes(
                &BTreeSet::from([Scope::Exec, **scope]),
                &Authority::EVERYTHING,
            )
            .is_ok()
        });
        let principal = Principal {
            actor: Actor::system(),
            scopes: asking.copied().collect(),
            authority: Authority::EVERYTHING,
        };
        let all: Vec<String> = OperatorScope::ALL
            .iter()
            .map(|scope| scope.as_str().to_owned())
            .collect();
        let got = granted(&principal, &all);
        for answering in [
            OperatorScope::Approvals,
            OperatorScope::Pairing,
            OperatorScope::Admin,
        ] {
            assert!(!got.contains(&answering), "{answering:?}");
        }
    }
}
