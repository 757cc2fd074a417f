//! A quota of permits, in all and for each token: no token takes all of them away from the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use countersign_domain::TokenId;

/// Permits of one kind.
#[derive(Debug)]
pub(super) struct TokenQuota {
    most: usize,
    most_of_token: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_token: HashMap<TokenId, usize>,
}

/// One permit, free again when it is dropped.
#[derive(Debug)]
pub(super) struct QuotaPermit {
    quota: Arc<TokenQuota>,
    token: Option<TokenId>,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaExceeded {
    /// All of them are taken.
    Full,
    /// The token has as many as it may.
    OfToken,
}

impl TokenQuota {
    /// So many permits, and so many of them for one token.
    pub(super) fn new(most: usize, most_of_token: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_token,
            taken: Mutex::default(),
        })
    }

    /// A permit for the holder of this token; `None` is this server itself, which has no share that it could exceed.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when all of them are taken, or all that this token may have.
    pub(super) fn take(self: &Arc<Self>, token: Option<&TokenId>) -> Result<QuotaPermit, QuotaExceeded> {
        let mut taken = self.taken();
        let own = token.and_then(|token| taken.of_token.get(token));
        if own.is_some_and(|own| *own >= self.most_of_token) {
            return Err(QuotaExceeded::OfToken);
        }
        if taken.all >= self.most {
            return Err(QuotaExceeded::Full);
        }
        taken.all += 1;
        if let Some(token) = token {
            *taken.of_token.entry(token.clone()).or_default() += 1;
        }
        drop(taken);
        Ok(QuotaPermit {
            quota: Arc::clone(self),
            token: token.cloned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut taken = self.quota.taken();
        taken.all = taken.all.saturating_sub(1);
        let Some(token) = &self.token else { return };
        if let Some(own) = taken.of_token.get_mut(token) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                taken.of_token.remove(token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(name: &str) -> TokenId {
        TokenId::parse(name).unwrap()
    }

    #[test]
    fn no_token_takes_the_permits_of_others() {
        let quota = TokenQuota::new(5, 2);
        let (a, b) = (token("a"), token("b"));
        let mut held = vec![quota.take(Some(&a)).unwrap(), quota.take(Some(&a)).unwrap()];
        assert_eq!(quota.take(Some(&a)).unwrap_err(), QuotaExceeded::OfToken);
        drop(quota.take(Some(&b)).unwrap());
        held.pop();
        held.push(quota.take(Some(&a)).unwrap());
        held.clear();
        assert!(quota.taken().of_token.is_empty());
        assert_eq!(quota.taken().all, 0);
    }

    #[test]
    fn this_server_has_no_share_and_still_no_more_than_there_is() {
        let quota = TokenQuota::new(3, 1);
        let mut held: Vec<QuotaPermit> = (0..3).map(|_| quota.take(None).unwrap()).collect();
        assert_eq!(quota.take(None).unwrap_err(), QuotaExceeded::Full);
        assert_eq!(quota.take(Some(&token("a"))).unwrap_err(), QuotaExceeded::Full);
        held.pop();
        drop(quota.take(Some(&token("a"))).unwrap());
        held.clear();
        assert_eq!(quota.taken().all, 0);
    }
}
