//! The live tokens and signed-in browsers in memory: what a presented secret opens, without asking the ledger
//! each time.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::watch;

use countersign_domain::{Principal, SignIn, SignInId, Token, TokenId, UnixMillis};

use crate::auth::{SecretDigest, SignInSecretKind};

/// Uses that follow each other faster are noted as one.
const NOTED_EVERY: Duration = Duration::from_secs(10);

/// One token, or one browser that stands for a token, as the API sees it.
#[derive(Debug)]
pub struct Key {
    token_id: TokenId,
    browser: Option<Browser>,
    principal: Arc<Principal>,
    expires_at: Option<UnixMillis>,
    /// Milliseconds of the last use that was noted; 0 for none.
    noted: AtomicI64,
    /// Whether [`Keyring::remove`] took it away.
    removed: watch::Sender<bool>,
    number: u64,
}

#[derive(Debug)]
struct Browser {
    sign_in: SignInId,
    second: SecretDigest,
}

impl Key {
    /// The key of a live token.
    pub fn of_token(token: &Token) -> Self {
        Self::new(token, Principal::of_token(token), token.expires_at, None)
    }

    /// The key of a live sign-in, with the digest of its second secret, and the live token that it stands for.
    pub fn of_browser(sign_in: &SignIn, second: SecretDigest, token: &Token) -> Self {
        let ends = sign_in.expires_at;
        let ends = token.expires_at.map_or(ends, |token_ends| token_ends.min(ends));
        let browser = Browser {
            sign_in: sign_in.id.clone(),
            second,
        };
        Self::new(token, sign_in.principal(token), Some(ends), Some(browser))
    }

    fn new(
        token: &Token,
        principal: Principal,
        expires_at: Option<UnixMillis>,
        browser: Option<Browser>,
    ) -> Self {
        // Of the token, not of the secret: a token's browsers share its rate.
        let mut hasher = DefaultHasher::new();
        token.id.hash(&mut hasher);
        Self {
            token_id: token.id.clone(),
            browser,
            principal: Arc::new(principal),
            expires_at,
            noted: AtomicI64::new(0),
            removed: watch::Sender::new(false),
            number: hasher.finish(),
        }
    }

    /// The sign-in, when this is a browser.
    pub fn sign_in(&self) -> Option<&SignInId> {
        self.browser.as_ref().map(|browser| &browser.sign_in)
    }

    /// When it ends by itself, a browser no later than its token; `None` for never.
    pub const fn expires_at(&self) -> Option<UnixMillis> {
        self.expires_at
    }

    /// Whether this is a browser and `presented` its second secret.
    pub fn is_second_secret(&self, presented: &str) -> bool {
        let presented = SecretDigest::of_presented_sign_in(SignInSecretKind::Second, presented);
        match (&self.browser, presented) {
            (Some(browser), Some(presented)) => browser.second == presented,
            (None, _) | (_, None) => false,
        }
    }

    /// The public id of the token, or of the one that the browser stands for.
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// Actor, scopes and agents of a request with this key.
    pub const fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// A number that stands for this token in maps that are asked on every request.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it still opens anything: for what goes on long after it was admitted.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        !*self.removed.borrow() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Waits until [`Keyring::remove`] takes it away. The end of a token that ends by itself is [`Self::expires_at`].
    ///
    /// # Cancel safety
    /// Cancel safe: a key that was taken away stays so.
    #[crate::compiled_once]
    pub async fn removed(&self) {
        let mut removed = self.removed.subscribe();
        // The sender lives in this key, so it does not close.
        if removed.wait_for(|is_removed| *is_removed).await.is_err() {
            std::future::pending::<()>().await;
        }
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

/// Tokens and browsers that were looked up before. Reading never waits; changes replace the whole map.
#[derive(Debug, Default)]
pub struct Keyring {
    keys: ArcSwap<HashMap<SecretDigest, Arc<Key>>>,
    /// Counts removals, so that a token read before one is not kept after it.
    removals: AtomicU64,
}

impl Keyring {
    /// The key with this digest, unless it is unknown here or has ended.
    pub fn get(&self, digest: &SecretDigest, now: UnixMillis) -> Option<Arc<Key>> {
        let keys = self.keys.load();
        let key = keys.get(digest)?;
        key.is_live(now).then(|| Arc::clone(key))
    }

    /// When each token, or a browser of it, was last used, as far as that was noted.
    pub fn noted_uses(&self) -> HashMap<TokenId, UnixMillis> {
        let keys = self.keys.load();
        let noted = keys.values().filter_map(|key| {
            let noted = key.noted.load(Ordering::Relaxed);
            (noted != 0).then(|| (UnixMillis::new(noted), key.token_id.clone()))
        });
        let mut uses: Vec<_> = noted.collect();
        // Of the uses of one token and its browsers the last stays.
        uses.sort();
        uses.into_iter().map(|(at, id)| (id, at)).collect()
    }

    /// How many removals there were; to be read before a token is looked up elsewhere.
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// Keeps a key that was made from what was stored when [`Self::removals`] was `seen`. Does nothing and
    /// returns false when a token was removed since: it might be this one.
    #[must_use]
    pub fn keep(&self, digest: SecretDigest, key: &Arc<Key>, seen: u64, now: UnixMillis) -> bool {
        let mut kept = false;
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            kept = self.removals() == seen;
            if kept {
                // What has ended goes, so that the ring is never larger than what is live.
                keys.retain(|_, key| key.is_live(now));
                keys.insert(digest, Arc::clone(key));
            }
            keys
        });
        kept
    }

    /// Takes a token away, and its browsers; requests that were already admitted go on, streams end.
    pub fn remove(&self, id: &TokenId) {
        self.remove_where(|key| key.token_id == *id);
    }

    /// Takes browsers away, as [`Self::remove`] does.
    pub fn remove_browsers(&self, sign_ins: &[SignInId]) {
        self.remove_where(|key| key.sign_in().is_some_and(|sign_in| sign_ins.contains(sign_in)));
    }

    fn remove_where(&self, goes: impl Fn(&Key) -> bool) {
        self.removals.fetch_add(1, Ordering::SeqCst);
        for key in self.keys.load().values().filter(|key| goes(key)) {
            key.removed.send_replace(true);
        }
        self.keys.rcu(|keys| {
            let mut keys = HashMap::clone(keys);
            keys.retain(|_, key| !goes(key));
            keys
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use countersign_domain::{Owner, Scope};
    use countersign_sys::clock::{Ids, SystemIds};

    use crate::auth::{SignInSecret, TokenSecret};

    fn token(expires_at: Option<UnixMillis>) -> Token {
        Token {
            id: SystemIds.token_id(),
            name: "t".to_owned(),
            owner: Owner::operator(),
            proposed_by: None,
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
        let key = Arc::new(Key::of_token(&record));
        assert!(ring.keep(digest, &key, ring.removals(), UnixMillis::new(1)));

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
        assert!(!ring.keep(
            digest,
            &Arc::new(Key::of_token(&record)),
            seen,
            UnixMillis::new(5)
        ));
        assert!(ring.get(&digest, UnixMillis::new(5)).is_none());
    }

    fn browser(token: &Token, ends: i64) -> (SignIn, SignInSecret, Arc<Key>) {
        let sign_in = SignIn {
            id: SignInId::of(&token.id, ends.unsigned_abs()),
            token: token.id.clone(),
            created_at: UnixMillis::new(1),
            expires_at: UnixMillis::new(ends),
        };
        let second = SignInSecret::generate(SignInSecretKind::Second, &SystemIds);
        let key = Arc::new(Key::of_browser(&sign_in, second.digest(), token));
        (sign_in, second, key)
    }

    #[test]
    fn a_browser_ends_with_its_token_and_knows_its_second_secret() {
        let record = token(Some(UnixMillis::new(100)));
        let (_, second, key) = browser(&record, 1000);
        assert_eq!(key.expires_at(), Some(UnixMillis::new(100)));
        let (_, foreign, _) = browser(&record, 50);
        assert!(key.is_second_secret(second.expose()));
        for wrong in [foreign.expose(), "", &second.expose().replace("csx_", "css_")] {
            assert!(!key.is_second_secret(wrong));
        }
        assert!(!Key::of_token(&record).is_second_secret(second.expose()));
        assert_eq!(key.number(), Key::of_token(&record).number());
    }

    #[test]
    fn a_browser_is_taken_away_alone_or_with_its_token() {
        let ring = Keyring::default();
        let (record, now) = (token(None), UnixMillis::new(1));
        let digests = [0, 1].map(|_| SignInSecret::generate(SignInSecretKind::Cookie, &SystemIds).digest());
        let [one, other] = [10, 20].map(|ends| browser(&record, ends));
        for (digest, (_, _, key)) in digests.iter().zip([&one, &other]) {
            assert!(ring.keep(*digest, key, ring.removals(), now));
        }
        ring.remove_browsers(&[one.0.id]);
        assert!(ring.get(&digests[0], now).is_none() && !one.2.is_live(now));
        assert!(ring.get(&digests[1], now).is_some());
        ring.remove(&record.id);
        assert!(ring.get(&digests[1], now).is_none() && !other.2.is_live(now));
    }

    #[test]
    fn the_ring_forgets_what_has_ended() {
        let ring = Keyring::default();
        for ends in 1..50_i64 {
            let (_, _, key) = browser(&token(None), ends);
            let digest = SignInSecret::generate(SignInSecretKind::Cookie, &SystemIds).digest();
            assert!(ring.keep(digest, &key, ring.removals(), UnixMillis::new(ends - 1)));
        }
        assert_eq!(ring.keys.load().len(), 1);
    }

    #[test]
    fn uses_close_together_are_noted_once() {
        let key = Key::of_token(&token(None));
        let noted = [1_000, 1_001, 10_999, 11_000, 11_001].map(|at| key.should_note_use(UnixMillis::new(at)));
        assert_eq!(noted, [true, false, false, true, false]);
    }
}
