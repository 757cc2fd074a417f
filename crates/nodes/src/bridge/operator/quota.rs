//! How many operators are connected, in all and with each token: no token takes the connections of the server away from
//! everybody else.

use std::sync::Arc;

use countersign_domain::TokenId;
use countersign_protocol::bridge::Refusal;

use crate::bridge::token_quota::{QuotaExceeded, QuotaPermit, TokenQuota};

/// Most operators at once.
const MOST: usize = 256;
/// Most of them with one token.
const MOST_OF_TOKEN: usize = 32;

/// The permits of operators.
#[derive(Debug)]
pub(in crate::bridge) struct OperatorQuota(Arc<TokenQuota>);

impl OperatorQuota {
    /// Permits for operators where a listener has so many connections: half of them are never theirs, and half of theirs
    /// never one token's.
    pub(in crate::bridge) fn among(connections: usize) -> Self {
        let most = MOST.min((connections / 2).max(1));
        Self(TokenQuota::new(most, MOST_OF_TOKEN.min((most / 2).max(1))))
    }

    /// A permit for an operator with this token.
    ///
    /// # Errors
    /// [`Refusal::Full`] when all of them are taken, or all that this token may have.
    pub(super) fn take(&self, token: &TokenId) -> Result<QuotaPermit, Refusal> {
        self.0.take(Some(token)).map_err(|none| Refusal::Full {
            what: match none {
                QuotaExceeded::OfToken => "operators are connected with this token",
                QuotaExceeded::Full => "operators are connected",
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> TokenId {
        TokenId::parse(name).unwrap()
    }

    #[test]
    fn no_token_takes_the_places_of_others() {
        let quota = OperatorQuota::among(8192);
        let mut held: Vec<QuotaPermit> = (0..MOST_OF_TOKEN)
            .map(|_| quota.take(&token("a")).unwrap())
            .collect();
        let refused = quota.take(&token("a")).unwrap_err();
        assert_eq!(
            refused.error().message,
            "too many operators are connected with this token; retry later"
        );
        drop(quota.take(&token("b")).unwrap());
        held.pop();
        held.push(quota.take(&token("a")).unwrap());
    }

    #[test]
    fn all_tokens_together_leave_half_of_the_connections() {
        let quota = OperatorQuota::among(100);
        let mut held = Vec::new();
        for name in ["a", "b"] {
            for _ in 0..25 {
                held.push(quota.take(&token(name)).unwrap());
            }
        }
        let refused = quota.take(&token("c")).unwrap_err();
        assert_eq!(
            refused.error().message,
            "too many operators are connected; retry later"
        );
        drop(held);
        drop(quota.take(&token("c")).unwrap());
        // One is always let in.
        let few = OperatorQuota::among(1);
        let _one = few.take(&token("a")).unwrap();
        assert!(few.take(&token("b")).is_err());
    }
}
