//! Which scopes may stand together on one token.

use std::collections::BTreeSet;

use crate::domain::Scope;

/// A set of scopes that no token may have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeConflict {
    /// A token that may do nothing is a mistake.
    #[error("a token needs at least one scope")]
    Empty,
    /// Whoever asks cannot answer (`http-api.md`, authentication and scopes).
    #[error("a token with exec cannot have {0} too: who asks cannot answer")]
    AsksAndAnswers(Scope),
}

/// Checks that a token may carry these scopes.
///
/// # Errors
/// [`ScopeConflict`] for an empty set, and for `exec` together with `approve`, `admin` or `relay`.
pub fn check_scopes(scopes: &BTreeSet<Scope>) -> Result<(), ScopeConflict> {
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
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
                check_scopes(&scopes).is_ok(),
                mask != 0 && !conflict,
                "{scopes:?}"
            );
        }
    }
}
