//! Browser sign-in: one-time links, the two secrets of a signed-in browser, and what they open.
//!
//! A browser always stands for a token: its rights are those of the token and end with it. It proves itself by
//! a cookie *and* a second secret, since a cookie goes to every port of its host.

use std::{sync::Arc, time::Duration};

use std::collections::BTreeSet;

use countersign_config::settings::Widening;
use countersign_domain::{Actor, Scope, Secret, SignIn, SignInId, Token, UnixMillis, hex};
use countersign_ledger::{
    LinkFor, NewLoginLink, NewSignIn, SignInBy, StoredSignIn,
    auth::{Key, SecretDigest, SignInSecret, SignInSecretKind},
};

use countersign_policy::command::characters::is_escaped_in_display;

use crate::{
    reply::StorageTrouble,
    tokens::{CreateTokenError, InvalidToken, TokenRequest, Tokens},
};

/// What a person shows to sign a browser in.
#[derive(Debug, Clone)]
pub enum Shown {
    /// The code of a one-time link.
    Code(Secret),
    /// An API token; its browser gets the rights of that token.
    Token(Secret),
}

/// A browser that has just signed in.
#[derive(Debug)]
pub struct SignedIn {
    /// The record of it: which token, since when, until when.
    pub sign_in: SignIn,
    /// The token that it stands for.
    pub token: Token,
    /// The value of its cookie.
    pub cookie: SignInSecret,
    /// What it sends besides.
    pub second: SignInSecret,
}

/// For whom a link is, where it is not for the operator: the record names them, and they may do no more than this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkPerson {
    /// Their name, as the record has it.
    pub name: String,
    /// What they may do.
    pub scopes: BTreeSet<Scope>,
    /// How long their browser may stay signed in.
    pub session: Duration,
    /// Whether nobody widens alone.
    pub widening: Widening,
}

/// A one-time link that signs a browser in.
#[derive(Debug)]
pub struct LoginLink {
    /// Its code, for the one who asked.
    pub code: SignInSecret,
    /// From this moment on the code opens nothing.
    pub expires_at: UnixMillis,
    /// The token that was made for it; `None` for a link with the rights of the operator's token.
    pub token: Option<Token>,
}

/// Why there is no link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginLinkError {
    /// A link stands for the operator's token, and that one was revoked or has ended.
    #[error("the operator's token has ended")]
    NoOperator,
    /// The operator's token is of another owner than the one who asks.
    #[error("a link signs in as the operator's token, which another owner has")]
    OtherOwner,
    /// No token can have this name.
    #[error(transparent)]
    Invalid(#[from] InvalidToken),
    /// A person could not see all of the name.
    #[error("expected a name of which every character can be seen")]
    Unseen,
    /// Another token has the name, and the record could not tell them apart.
    #[error("a live token has this name already")]
    Taken,
    /// No token can have these scopes, or be made.
    #[error(transparent)]
    NoToken(#[from] CreateTokenError),
    /// The ledger cannot be used.
    #[error("the ledger cannot be used")]
    Storage(#[from] StorageTrouble),
}

impl Tokens {
    /// Makes a one-time link that signs a browser in with the rights of the operator's token, for an admin of the same
    /// owner: with a link another one would be two people.
    ///
    /// # Errors
    /// [`LoginLinkError`]; there is no link then.
    #[crate::compiled_once]
    pub async fn make_login_link(&self, by: &Actor, lasts: Duration) -> Result<LoginLink, LoginLinkError> {
        let now = self.clock.now();
        let operator = self.operator().await?;
        let Some(operator) = operator.filter(|operator| operator.is_live(now)) else {
            return Err(LoginLinkError::NoOperator);
        };
        if operator.owner != by.person() {
            return Err(LoginLinkError::OtherOwner);
        }
        self.insert_link(by, lasts, None).await
    }

    /// Makes a one-time link that signs a browser in under a name of its own, with scopes of its own: a token whose secret
    /// nobody has, of the owner of the one who asks. The token ends with the longest session that the link can begin.
    ///
    /// # Errors
    /// [`LoginLinkError`]; there is no link then.
    #[crate::compiled_once]
    pub async fn make_login_link_for(
        &self,
        by: &Actor,
        lasts: Duration,
        person: LinkPerson,
    ) -> Result<LoginLink, LoginLinkError> {
        let LinkPerson {
            name,
            scopes,
            session,
            widening,
        } = person;
        let request = TokenRequest {
            name,
            owner: None,
            scopes,
            agents: None,
            groups: BTreeSet::new(),
            expires_at: Some(self.clock.now() + lasts + session),
        };
        request.check()?;
        if request.name.contains(is_escaped_in_display) {
            return Err(LoginLinkError::Unseen);
        }
        let (owner, now) = (by.person(), self.clock.now());
        let other = self.ledger.other_token_named(&request.name, &owner, now).await;
        if other.map_err(StorageTrouble::from)?.is_some() {
            return Err(LoginLinkError::Taken);
        }
        let (token, _secret) = self.create(by, request, widening).await?;
        self.insert_link(by, lasts, Some(token)).await
    }

    async fn insert_link(
        &self,
        by: &Actor,
        lasts: Duration,
        token: Option<Token>,
    ) -> Result<LoginLink, LoginLinkError> {
        let code = SignInSecret::generate(SignInSecretKind::Code, &*self.ids);
        let link = NewLoginLink {
            sha256: hex(code.digest().as_bytes()),
            lasts,
            made_by: by.token(),
            token: token.as_ref().map(|token| token.id.clone()),
        };
        let expires_at = self
            .ledger
            .insert_login_link(link)
            .await
            .map_err(StorageTrouble::from)?;
        let whom = token.as_ref().map(|token| tracing::field::debug(&token.name));
        tracing::info!(token.name = whom, actor.name = ?by.name, "a sign-in link was made");
        Ok(LoginLink {
            code,
            expires_at,
            token,
        })
    }

    /// The browsers that are signed in, the newest first, each with its token.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn sign_ins(&self) -> Result<Vec<(SignIn, Token)>, StorageTrouble> {
        Ok(self.ledger.sign_ins(self.clock.now()).await?)
    }

    /// Signs another browser out; `false` where it is not signed in. It opens nothing more once this returns.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then it is still signed in.
    #[crate::compiled_once]
    pub async fn revoke_sign_in(&self, by: &Actor, sign_in: &SignInId) -> Result<bool, StorageTrouble> {
        let was_signed_in = self.ledger.revoke_sign_in(sign_in.clone(), by.clone()).await?;
        self.keyring.remove_browsers(std::slice::from_ref(sign_in));
        if was_signed_in {
            tracing::info!(actor.name = ?by.name, "a browser was signed out");
        }
        Ok(was_signed_in)
    }

    /// Signs a browser in and ends what it was signed in as before. `None` when what was shown opens nothing;
    /// of many who show the same code one is signed in.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be used; nothing was used up then.
    #[crate::compiled_once]
    pub async fn sign_in(
        &self,
        shown: &Shown,
        before: Option<&Key>,
        lasts: Duration,
        address: String,
    ) -> Result<Option<SignedIn>, StorageTrouble> {
        let (token, link) = match shown {
            Shown::Code(code) => {
                let digest = SecretDigest::of_presented_sign_in(SignInSecretKind::Code, code.expose());
                let Some(link) = digest.map(|digest| hex(digest.as_bytes())) else {
                    return Ok(None);
                };
                // Which token it is never changes; whether both can still be used is seen where the link is used up.
                let token = match self.ledger.link_for(&link).await? {
                    None => return Ok(None),
                    Some(LinkFor::Token(token)) => Some(token),
                    Some(LinkFor::Operator) => self.operator().await?.map(|operator| operator.id),
                };
                match token {
                    Some(token) => (token, Some(link)),
                    None => return Ok(None),
                }
            }
            Shown::Token(token) => match self.authenticate(token.expose()).await? {
                Some(key) => (key.token_id().clone(), None),
                None => return Ok(None),
            },
        };
        let cookie = SignInSecret::generate(SignInSecretKind::Cookie, &*self.ids);
        let second = SignInSecret::generate(SignInSecretKind::Second, &*self.ids);
        let (own, _rest) = self.ids.random().as_u64_pair();
        let begun = self
            .ledger
            .sign_in(NewSignIn {
                id: SignInId::of(&token, own),
                token,
                link,
                sha256: hex(cookie.digest().as_bytes()),
                second_sha256: hex(second.digest().as_bytes()),
                lasts,
                replaces: before.and_then(Key::sign_in).cloned(),
                address,
            })
            .await?;
        let Some(begun) = begun else { return Ok(None) };
        let how = match shown {
            Shown::Code(_) => "link",
            Shown::Token(_) => "token",
        };
        tracing::info!(actor.name = ?begun.token.name, by = how, "a browser signed in");
        if !begun.ended.is_empty() {
            self.keyring.remove_browsers(&begun.ended);
        }
        Ok(Some(SignedIn {
            sign_in: begun.sign_in,
            token: begun.token,
            cookie,
            second,
        }))
    }

    /// Writes down that what was shown opened nothing.
    #[crate::compiled_once]
    pub async fn record_failed_sign_in(&self, shown: &Shown, address: String) {
        tracing::info!(address, "a sign-in was refused");
        let by = match shown {
            Shown::Code(_) => SignInBy::Link,
            Shown::Token(_) => SignInBy::Token,
        };
        if let Err(error) = self.ledger.record_failed_sign_in(address, by).await {
            tracing::warn!(%error, "a failed sign-in is not in the audit record");
        }
    }

    /// Whose cookie this is; `None` when it opens nothing. Its second secret is still to be checked
    /// ([`Key::is_second_secret`]). Asks the ledger once per sign-in and start.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger must be asked and cannot be.
    #[crate::compiled_once]
    pub async fn browser_of(&self, cookie: &str) -> Result<Option<Arc<Key>>, StorageTrouble> {
        let Some(digest) = SecretDigest::of_presented_sign_in(SignInSecretKind::Cookie, cookie) else {
            return Ok(None);
        };
        let now = self.clock.now();
        let key = match self.keyring.get(&digest, now) {
            Some(key) => Some(key),
            None => self.look_up_browser(digest, now).await?,
        };
        if let Some(key) = &key
            && key.should_note_use(now)
        {
            self.ledger.touch_token(key.token_id().clone(), now);
        }
        Ok(key)
    }

    /// Signs a browser out. It opens nothing more once this returns.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then it is still signed in.
    #[crate::compiled_once]
    pub async fn sign_out(&self, sign_in: &SignInId) -> Result<(), StorageTrouble> {
        self.ledger.sign_out(sign_in.clone()).await?;
        self.keyring.remove_browsers(std::slice::from_ref(sign_in));
        Ok(())
    }

    async fn look_up_browser(
        &self,
        digest: SecretDigest,
        now: UnixMillis,
    ) -> Result<Option<Arc<Key>>, StorageTrouble> {
        loop {
            let seen = self.keyring.removals();
            let stored = self.ledger.sign_in_by_sha256(&hex(digest.as_bytes())).await?;
            let live = stored.filter(|stored| stored.sign_in.is_live(now) && stored.token.is_live(now));
            let Some(StoredSignIn {
                sign_in,
                second_sha256,
                token,
            }) = live
            else {
                return Ok(None);
            };
            let Some(second) = SecretDigest::from_hex(&second_sha256) else {
                tracing::error!(sign_in.id = %sign_in.id, "a stored digest is none");
                return Ok(None);
            };
            let key = Arc::new(Key::of_browser(&sign_in, second, &token));
            // Only a key on the ring learns that it was signed out.
            if self.keyring.keep(digest, &key, seen, now) {
                return Ok(Some(key));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use countersign_domain::Scope;
    use countersign_ledger::{Ledger, LedgerConfig, LedgerThread, PolicyStamp, PolicyWatch, Tuning};
    use countersign_sys::clock::{Clock as _, Ids, ManualClock, SystemIds};

    use crate::tokens::TokenRequest;

    const MINUTE: Duration = Duration::from_mins(1);
    const HOUR: Duration = Duration::from_hours(1);
    const MOMENT: Duration = Duration::from_millis(1);

    #[derive(Debug)]
    struct AnyPolicy;

    impl PolicyWatch for AnyPolicy {
        fn stamp(&self) -> PolicyStamp {
            PolicyStamp::default()
        }
    }

    /// Tokens with a clock that stands still, after a first start.
    struct Server {
        tokens: Tokens,
        clock: Arc<ManualClock>,
        thread: Option<LedgerThread>,
        _directory: tempfile::TempDir,
    }

    impl Drop for Server {
        fn drop(&mut self) {
            if let Some(thread) = self.thread.take() {
                thread.stop();
            }
        }
    }

    impl Server {
        async fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            let config = LedgerConfig {
                path: at("countersign.db"),
                audit_key: at("audit.key"),
                audit_head: at("audit.head"),
                boot_id: "test".to_owned(),
                readers: 1,
                tuning: Tuning::default(),
            };
            let clock = Arc::new(ManualClock::at(UnixMillis::new(1_000_000)));
            let ids: Arc<dyn Ids> = Arc::new(SystemIds);
            let opened = Ledger::open(
                config,
                Arc::<ManualClock>::clone(&clock),
                Arc::clone(&ids),
                Arc::new(AnyPolicy),
            );
            let (ledger, thread) = opened.unwrap();
            let tokens = Tokens::new(ledger, Arc::<ManualClock>::clone(&clock), ids);
            tokens
                .ensure_files(&at("operator.token"), &at("gateway.token"))
                .await
                .unwrap();
            Self {
                tokens,
                clock,
                thread: Some(thread),
                _directory: directory,
            }
        }

        async fn code(&self, lasts: Duration) -> Shown {
            let link = self
                .tokens
                .make_login_link(&Actor::system(), lasts)
                .await
                .unwrap();
            assert_eq!(link.expires_at, self.clock.now() + lasts);
            Shown::Code(Secret::new(link.code.expose().to_owned()))
        }

        async fn sign_in(&self, shown: &Shown) -> Option<SignedIn> {
            let address = "127.0.0.1".to_owned();
            self.tokens.sign_in(shown, None, HOUR, address).await.unwrap()
        }

        async fn is_signed_in(&self, browser: &SignedIn) -> bool {
            let key = self.tokens.browser_of(browser.cookie.expose()).await.unwrap();
            key.is_some_and(|key| key.is_second_secret(browser.second.expose()))
        }
    }

    #[tokio::test]
    async fn a_link_opens_until_its_time_is_over() {
        let server = Server::new().await;
        let (one, other) = (server.code(MINUTE).await, server.code(MINUTE).await);
        server.clock.advance(MINUTE.saturating_sub(MOMENT));
        assert!(server.sign_in(&one).await.is_some());
        server.clock.advance(MOMENT);
        assert!(server.sign_in(&other).await.is_none());
        assert!(server.sign_in(&one).await.is_none());
    }

    #[tokio::test]
    async fn a_session_opens_until_its_time_is_over() {
        let server = Server::new().await;
        let browser = server.sign_in(&server.code(MINUTE).await).await.unwrap();
        assert_eq!(browser.sign_in.expires_at, server.clock.now() + HOUR);
        server.clock.advance(HOUR.saturating_sub(MOMENT));
        assert!(server.is_signed_in(&browser).await);
        server.clock.advance(MOMENT);
        assert!(!server.is_signed_in(&browser).await);
    }

    #[tokio::test]
    async fn a_session_never_outlives_its_token() {
        let server = Server::new().await;
        let request = TokenRequest {
            name: "short".to_owned(),
            owner: None,
            scopes: BTreeSet::from([Scope::Read]),
            agents: None,
            groups: BTreeSet::new(),
            expires_at: Some(server.clock.now() + MINUTE),
        };
        let (_token, secret) = server
            .tokens
            .create(&Actor::system(), request, Widening::Apply)
            .await
            .unwrap();
        let shown = Shown::Token(Secret::new(secret.expose().to_owned()));
        let browser = server.sign_in(&shown).await.unwrap();
        assert_eq!(browser.sign_in.expires_at, server.clock.now() + MINUTE);
        assert!(server.is_signed_in(&browser).await);
        server.clock.advance(MINUTE);
        assert!(!server.is_signed_in(&browser).await);
        assert!(server.sign_in(&shown).await.is_none());
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_open_links_goes() {
        let server = Server::new().await;
        let first = server.code(HOUR).await;
        server.clock.advance(MOMENT);
        let second = server.code(HOUR).await;
        for _ in 2..=100 {
            server.clock.advance(MOMENT);
            server.code(HOUR).await;
        }
        assert!(server.sign_in(&first).await.is_none());
        assert!(server.sign_in(&second).await.is_some());
    }

    #[tokio::test]
    async fn who_signs_out_while_a_look_up_is_under_way_stays_signed_out() {
        let server = Server::new().await;
        let browser = server.sign_in(&server.code(MINUTE).await).await.unwrap();
        let key = server
            .tokens
            .browser_of(browser.cookie.expose())
            .await
            .unwrap()
            .unwrap();
        server.tokens.sign_out(&browser.sign_in.id).await.unwrap();
        assert!(!key.is_live(server.clock.now()), "streams end");
        assert!(!server.is_signed_in(&browser).await);
        server.tokens.sign_out(&browser.sign_in.id).await.unwrap();
    }
}
