//! The live tokens in memory: what a presented secret opens, without asking the ledger each time.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;

use crate::{
    auth::TokenDigest,
    domain::{Principal, Token, TokenId, UnixMillis},
};

/// Uses that follow each other faster are noted as one.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// One token as the API door sees it.
#[derive(Debug)]
pub struct Key {
    token_id: TokenId,
    principal: Arc<Principal>,
    expires_at: Option<UnixMillis>,
    /// Milliseconds of the last use that was noted; 0 for none.
    noted: AtomicI64,
    /// Taken away by [`Keyring::remove`].
    removed: AtomicBool,
    number: u64,
}

impl Key {
    /// The key of a live token.
    pub fn new(digest: &TokenDigest, token: &Token) -> Self {
        let number = digest
            .as_bytes()
            .first_chunk::<8>()
            .map_or(0, |first| u64::from_le_bytes(*first));
        Self {
            token_id: token.id.clone(),
            principal: Arc::new(Principal::of_token(token)),
            expires_at: token.expires_at,
            noted: AtomicI64::new(0),
            removed: AtomicBool::new(false),
            number,
        }
    }

    /// The token's public id.
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// Who holds it.
    pub const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// A number that stands for this token in maps that are asked on every request.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it still opens anything: for what goes on long after it passed the door.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        !self.removed.load(Ordering::Acquire) && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether a use at `now` should be written down; says so once for uses close together.
    pub fn should_note_use(&self, now: UnixMillis) -> bool {
        let noted = self.noted.load(Ordering::Relaxed);
        let is_due = noted == 0 || now.since(UnixMillis::new(noted)) >= NOTED_EVERY;
        is_due
            && self
                .noted
                .compare_exchange(noted, now.get(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// Tokens that were looked up before. Reading never waits; changes replace the whole map.
#[derive(Debug, Default)]
pub struct Keyring {
    keys: ArcSwap<HashMap<TokenDigest, Arc<Key>>>,
    /// Counts removals, so that a token read before one is not kept after it.
    removals: AtomicU64,
}

impl Keyring {
    /// The key with this digest, unless it is unknown here or has ended.
    pub fn get(&self, digest: &TokenDigest, now: UnixMillis) -> Option<Arc<Key>> {
        let keys = self.keys.load();
        let key = keys.get(digest)?;
        key.is_live(now).then(|| Arc::clone(key))
    }

    /// How many removals there were; to be read before a token is looked up elsewhere.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// Keeps a key that was made from what was stored when [`Self::removals`] was `seen`. Does nothing and
    /// returns false when a token was removed since: it might be this one.
    #[must_use]
    pub fn keep(&self, digest: TokenDigest, key: &Arc<Key>, seen: u64) -> bool {
        let mut kept = false;
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            kept = self.removals() == seen;
            if kept {
                keys.insert(digest, Arc::clone(key));
            }
            keys
        });
        kept
    }

    /// Takes a token away; requests that are already past the door go on, streams end.
    pub fn remove(&self, id: &TokenId) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        for key in self.keys.load().values().filter(|key| key.token_id == *id) {
            key.removed.store(true, Ordering::Release);
        }
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            keys.retain(|_, key| key.token_id != *id);
            keys
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        auth::TokenSecret,
        clock::{Ids, SystemIds},
        domain::Scope,
    };

    fn token(expires_at: Option<UnixMillis>) -> Token {
        Token {
            id: SystemIds.token_id(),
            name: "t".to_owned(),
            scopes: BTreeSet::from([Scope::Read]),
            agents: None,
            groups: BTreeSet::new(),
            created_at: UnixMillis::new(1),
            expires_at,
            last_used_at: None,
            revoked_at: None,
        }
    }

    #[test]
    fn a_key_opens_until_it_ends_or_is_removed() {
        let ring = Keyring::default();
        let (digest, record) = (
            TokenSecret::generate(&SystemIds).digest(),
            token(Some(UnixMillis::new(100))),
        );
        assert!(ring.keep(digest, &Arc::new(Key::new(&digest, &record)), ring.removals()));

        let opened = ring.get(&digest, UnixMillis::new(99)).unwrap();
        assert_eq!(**opened.principal(), Principal::of_token(&record));
        assert!(ring.get(&digest, UnixMillis::new(100)).is_none());

        ring.remove(&record.id);
        assert!(ring.get(&digest, UnixMillis::new(99)).is_none());
        assert!(!opened.is_live(UnixMillis::new(99)));
    }

    #[test]
    fn a_token_read_before_a_removal_is_not_kept_after_it() {
        let ring = Keyring::default();
        let (digest, record) = (TokenSecret::generate(&SystemIds).digest(), token(None));
        let seen = ring.removals();
        ring.remove(&record.id);
        assert!(!ring.keep(digest, &Arc::new(Key::new(&digest, &record)), seen));
        assert!(ring.get(&digest, UnixMillis::new(5)).is_none());
    }

    #[test]
    fn uses_close_together_are_noted_once() {
        let digest = TokenSecret::generate(&SystemIds).digest();
        let key = Key::new(&digest, &token(None));
        let noted = [1_000, 1_001, 10_999, 11_000, 11_001].map(|at| key.should_note_use(UnixMillis::new(at)));
        assert_eq!(noted, [true, false, false, true, false]);
    }
}
