//! Which scopes may stand together on one token.

use std::collections::BTreeSet;

use countersign_domain::{Authority, Scope};

/// A set of scopes that no token may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeConflict {
    /// A token that may do nothing is a mistake.
    #[error("a token needs at least one scope")]
    Empty,
    /// A token that asks cannot answer (`docs/spec/http-api.md#authentication-and-scopes`).
    #[error("a token with exec cannot have {0} too: who asks cannot answer")]
    AsksAndAnswers(Scope),
    /// What an admin changes belongs to no agent.
    #[error("a token that is bound to agents cannot have admin: what an admin changes belongs to no agent")]
    BoundAdmin,
}

/// Checks that a new token with this authority may carry these scopes.
///
/// # Errors
/// [`ScopeConflict`] for an empty set, for `exec` together with `approve`, `admin` or `relay`, and for `admin` where the
/// token is bound to agents.
pub fn check_scopes(scopes: &BTreeSet<Scope>, authority: &Authority) -> Result<(), ScopeConflict> {
    if scopes.is_empty() {
        return Err(ScopeConflict::Empty);
    }
    if scopes.contains(&Scope::Exec) {
        for answering in [Scope::Approve, Scope::Admin, Scope::Relay] {
            if scopes.contains(&answering) {
                return Err(ScopeConflict::AsksAndAnswers(answering));
            }
        }
    }
    if scopes.contains(&Scope::Admin) && authority.agents().is_some() {
        return Err(ScopeConflict::BoundAdmin);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::AgentId;

    #[test]
    fn exec_stands_alone_or_with_read() {
        for mask in 0..32_usize {
            let scopes: BTreeSet<Scope> = Scope::ALL
                .iter()
                .enumerate()
                .filter(|(bit, _)| mask & (1 << bit) != 0)
                .map(|(_, scope)| *scope)
                .collect();
            let answers = [Scope::Approve, Scope::Admin, Scope::Relay];
            let conflict =
                scopes.contains(&Scope::Exec) && answers.iter().any(|scope| scopes.contains(scope));
            assert_eq!(
                check_scopes(&scopes, &Authority::EVERYTHING).is_ok(),
                mask != 0 && !conflict,
                "{scopes:?}"
            );
            let bound = Authority::bound_to(Some(BTreeSet::from([AgentId::main()])));
            assert_eq!(
                check_scopes(&scopes, &bound).is_ok(),
                mask != 0 && !conflict && !scopes.contains(&Scope::Admin),
                "bound: {scopes:?}"
            );
        }
    }
}
