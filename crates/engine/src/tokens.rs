//! API tokens: made, listed, revoked, recognised, and the two that a first start leaves as files.
//!
//! The ledger has the records and their audit; secrets exist only in the answer that made them and in the
//! token files. Entry points: [`Tokens::authenticate`] for requests, [`Tokens::ensure_files`] at start.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use countersign_config::{approvals::broker::Broker, settings::Widening};
use countersign_domain::{Actor, AgentId, Authority, Owner, RunId, Scope, Token, TokenId, UnixMillis, hex};
use countersign_ledger::{
    Ledger, LedgerError, Listing, NewToken, Page, RevokedToken, Successor, TokenAcceptance, TokenRotation,
    auth::{self, Key, Keyring, ScopeConflict, SecretDigest, TokenSecret},
};
use countersign_sys::clock::{Clock, Ids};

use crate::{base::Base, lifecycle::Lifecycle, reply::StorageTrouble};

/// A token file holds one line of 47 characters; anything much longer is none.
const MAX_FILE_BYTES: usize = 1024;

/// What a new token is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRequest {
    /// Its name for people.
    pub name: String,
    /// Whose it is to be; its maker's unless given.
    pub owner: Option<Owner>,
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// The agents it is bound to; `None` for all.
    pub agents: Option<BTreeSet<AgentId>>,
    /// The approver groups it belongs to.
    pub groups: BTreeSet<String>,
    /// From this moment on it opens nothing; `None` for never.
    pub expires_at: Option<UnixMillis>,
}

/// A member of a [`TokenRequest`] that no token may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// The name is blank, too long, or has control characters.
    #[error("expected 1 to 100 characters without control characters")]
    Name,
    /// The list of agents is empty or too long.
    #[error("expected 1 to 1000 agents, or no such member for all")]
    Agents,
    /// There are too many groups, or one has an unusable name.
    #[error("expected at most 1000 names of 1 to 100 characters without control characters")]
    Groups,
}

impl InvalidToken {
    /// The name of the member in JSON.
    pub const fn member(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Agents => "agents",
            Self::Groups => "groups",
        }
    }
}

impl TokenRequest {
    /// Whether a token can have these texts and lists, no matter by which entry point they came in.
    ///
    /// # Errors
    /// [`InvalidToken`] with the first member that it cannot have.
    pub fn check(&self) -> Result<(), InvalidToken> {
        const MAX_NAME_CHARS: usize = 100;
        const MAX_LIST: usize = 1000;
        let is_label = |text: &String| {
            (1..=MAX_NAME_CHARS).contains(&text.chars().count())
                && !text.trim().is_empty()
                && !text.contains(char::is_control)
        };
        if !is_label(&self.name) {
            return Err(InvalidToken::Name);
        }
        let agents = self.agents.as_ref();
        if agents.is_some_and(|agents| !(1..=MAX_LIST).contains(&agents.len())) {
            return Err(InvalidToken::Agents);
        }
        if self.groups.len() > MAX_LIST || !self.groups.iter().all(is_label) {
            return Err(InvalidToken::Groups);
        }
        Ok(())
    }
}

/// Why a token was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateTokenError {
    /// No token may carry these scopes.
    #[error(transparent)]
    Scopes(#[from] ScopeConflict),
    /// It takes another owner to accept it, and there is none.
    #[error("it takes another owner to accept this token, and there is no other owner with the scope admin")]
    NobodyElse,
    /// It would end before it begins.
    #[error("the token would already have ended")]
    AlreadyEnded,
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

/// Why the token files of a start are not in order.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The token file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file holds something else; remove it to get a new token.
    #[error("{} does not hold a token", path.display())]
    NoToken {
        /// The token file.
        path: PathBuf,
    },
    /// The ledger cannot be used.
    #[error("the ledger cannot be used")]
    Ledger(#[from] LedgerError),
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

/// The API tokens of this server.
#[derive(Debug)]
pub struct Tokens {
    pub(super) ledger: Ledger,
    pub(super) keyring: Keyring,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn Ids>,
    /// The files that [`Self::ensure_files`] saw to.
    files: OnceLock<TokenFiles>,
    /// Where the owner of the state directory offers tokens.
    pub(super) offers: OnceLock<PathBuf>,
    /// How many of them became tokens so far.
    pub(super) offers_taken: AtomicU64,
}

/// The two files whose tokens a first start makes.
#[derive(Debug)]
struct TokenFiles {
    operator: PathBuf,
    gateway: PathBuf,
}

/// Why a token was not replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RotateTokenError {
    /// Its secret would give its owner's rights to another owner.
    #[error("the token belongs to another owner, and only an admin of that owner replaces it")]
    OfOtherOwner,
    /// There is none that opens anything.
    #[error("there is no such live token")]
    NoneLive,
    /// The ledger cannot be written.
    #[error("the ledger cannot be written")]
    Storage(#[from] StorageTrouble),
}

/// A token that took the place of another one.
#[derive(Debug)]
pub struct RotatedToken {
    /// The record of the new token; its id is new, too.
    pub token: Token,
    /// Its secret, which is shown to nobody but the caller.
    pub secret: TokenSecret,
    /// The file of the state directory that held the old secret, and holds the new one.
    pub file: Option<PathBuf>,
    /// The runs that waited for an answer to a question of the old one, and were denied.
    denied: Vec<RunId>,
}

impl Tokens {
    /// The tokens of a ledger.
    pub fn new(ledger: Ledger, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self {
            ledger,
            keyring: Keyring::default(),
            clock,
            ids,
            files: OnceLock::new(),
            offers: OnceLock::new(),
            offers_taken: AtomicU64::new(0),
        }
    }

    /// Who presents a secret; `None` when it opens nothing. Asks the ledger once per token and start.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger must be asked and cannot be.
    #[crate::compiled_once]
    pub async fn authenticate(&self, presented: &str) -> Result<Option<Arc<Key>>, StorageTrouble> {
        let Some(digest) = SecretDigest::of_presented(presented) else {
            return Ok(None);
        };
        let now = self.clock.now();
        let key = match self.keyring.get(&digest, now) {
            Some(key) => key,
            None => match self.look_up_or_take(digest, now).await? {
                Some(key) => key,
                None => return Ok(None),
            },
        };
        if key.should_note_use(now) {
            self.ledger.touch_token(key.token_id().clone(), now);
        }
        Ok(Some(key))
    }

    /// Makes a token of the caller's owner. One of another owner, and any where `widening` says that nobody widens alone,
    /// opens nothing until another owner accepts it. The secret is shown to nobody but the caller.
    ///
    /// # Errors
    /// [`CreateTokenError`]; nothing was made then.
    #[crate::compiled_once]
    pub async fn create(
        &self,
        by: &Actor,
        request: TokenRequest,
        widening: Widening,
    ) -> Result<(Token, TokenSecret), CreateTokenError> {
        auth::check_scopes(&request.scopes, &Authority::bound_to(request.agents.clone()))?;
        if request.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(CreateTokenError::AlreadyEnded);
        }
        let own = by.person();
        let is_of_other = request.owner.as_ref().is_some_and(|owner| *owner != own);
        let is_held = is_of_other || widening == Widening::Ask;
        if is_held && !self.admin_owners()?.iter().any(|owner| *owner != own) {
            return Err(CreateTokenError::NobodyElse);
        }
        let secret = TokenSecret::generate(&*self.ids);
        let token = self
            .insert(by, request, is_held.then(|| by.clone()), &secret)
            .await
            .map_err(StorageTrouble::from)?;
        // Names are quoted, with everything spelled out that would look like another field.
        tracing::info!(
            token.name = ?token.name,
            token.scopes = words(&token.scopes),
            token.held = token.proposed_by.is_some(),
            actor.name = ?by.name,
            "a token was made"
        );
        Ok((token, secret))
    }

    /// Lets a token open what another owner proposed.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then it opens nothing still.
    #[crate::compiled_once]
    pub async fn accept(&self, by: &Actor, id: &TokenId) -> Result<TokenAcceptance, StorageTrouble> {
        let accepted = self.ledger.accept_token(id.clone(), by.clone()).await?;
        if let TokenAcceptance::Accepted(token) = &accepted {
            tracing::info!(token.name = ?token.name, actor.name = ?by.name, "a token was accepted");
        }
        Ok(accepted)
    }

    /// The owners that have a live token with `admin`.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    pub fn admin_owners(&self) -> Result<BTreeSet<Owner>, StorageTrouble> {
        Ok(self.ledger.admin_owners(self.clock.now())?)
    }

    /// Says where the owner of the state directory offers tokens, and takes those that are there.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written.
    #[crate::compiled_once]
    pub async fn take_offers_of(&self, directory: &Path) -> Result<(), StorageTrouble> {
        self.offers.get_or_init(|| directory.to_owned());
        self.take_offers().await
    }

    /// Tokens in the order of making, revoked ones too.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be read.
    #[crate::compiled_once]
    pub async fn list(&self, page: Page) -> Result<Listing<Token>, StorageTrouble> {
        let mut tokens = self.ledger.tokens(page).await?;
        // The ledger is told later, with the next write; a reader need not wait for that.
        let uses = self.keyring.noted_uses();
        for token in &mut tokens.items {
            token.last_used_at = token.last_used_at.max(uses.get(&token.id).copied());
        }
        Ok(tokens)
    }

    /// Revokes a token; `None` when there is none. It opens nothing more once this returns, and what it asked is
    /// withdrawn; [`TokenAdmin::revoke`] also tells the callers who wait for that.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then the token still opens.
    #[crate::compiled_once]
    pub async fn revoke(&self, by: &Actor, id: &TokenId) -> Result<Option<RevokedToken>, StorageTrouble> {
        let revoked = self.ledger.revoke_token(id.clone(), by.clone()).await?;
        self.keyring.remove(id);
        if let Some(RevokedToken { token, .. }) = &revoked {
            tracing::info!(token.name = ?token.name, actor.name = ?by.name, "a token was revoked");
        }
        Ok(revoked)
    }

    /// Puts a token with a new secret and a new id in the place of a live one of the caller's owner. What the old one asked is
    /// withdrawn, and browsers that it signed in are signed out. Where a file of the state directory holds the old secret,
    /// it gets the new one. [`TokenAdmin::rotate`] also tells the callers who wait.
    ///
    /// # Errors
    /// [`RotateTokenError`]; the old one opens what it did then.
    async fn rotate(&self, by: &Actor, id: &TokenId) -> Result<RotatedToken, RotateTokenError> {
        let file = self.file_of(id).await?;
        let secret = TokenSecret::generate(&*self.ids);
        let successor = Successor {
            id: self.ids.token_id(),
            sha256: hex(secret.digest().as_bytes()),
        };
        let rotation = self.ledger.rotate_token(id.clone(), successor, by.clone()).await;
        let (token, old) = match rotation.map_err(StorageTrouble::from)? {
            TokenRotation::Rotated { token, old } => (*token, *old),
            TokenRotation::OfOtherOwner => return Err(RotateTokenError::OfOtherOwner),
            TokenRotation::NoneLive => return Err(RotateTokenError::NoneLive),
        };
        self.keyring.remove(id);
        tracing::info!(token.name = ?token.name, actor.name = ?by.name, "a token got a new secret");
        let file = file.filter(|path| match write_token(path, &secret) {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(file.path = %path.display(), %error, "the new secret of a token cannot be written into its file");
                false
            }
        });
        Ok(RotatedToken {
            token,
            secret,
            file,
            denied: old.denied,
        })
    }

    /// The file of the state directory that holds the secret of a token.
    async fn file_of(&self, id: &TokenId) -> Result<Option<PathBuf>, StorageTrouble> {
        let files = self.files.get();
        for path in files
            .into_iter()
            .flat_map(|files| [&files.operator, &files.gateway])
        {
            if self.in_file(path).await?.is_some_and(|token| token.id == *id) {
                return Ok(Some(path.clone()));
            }
        }
        Ok(None)
    }

    /// The token in `operator.token`, live or not; `None` where that holds none that the ledger knows.
    pub(super) async fn operator(&self) -> Result<Option<Token>, StorageTrouble> {
        match self.files.get() {
            Some(files) => self.in_file(&files.operator).await,
            None => Ok(None),
        }
    }

    async fn in_file(&self, path: &Path) -> Result<Option<Token>, StorageTrouble> {
        // A file that cannot be read, or holds something else, holds no token.
        let Ok(Some(secret)) = read_token(path) else {
            return Ok(None);
        };
        let sha256 = hex(secret.digest().as_bytes());
        Ok(self.ledger.token_by_sha256(&sha256).await?)
    }

    /// Makes sure that both token files exist and that their tokens are known: `operator` with read, approve and
    /// admin, `gateway` with exec. A file with a token that the ledger does not know (the ledger is new) is
    /// taken over; a revoked or expired one stays so.
    ///
    /// # Errors
    /// [`TokenFileError`]; the server must not start then.
    #[crate::compiled_once]
    pub async fn ensure_files(&self, operator: &Path, gateway: &Path) -> Result<(), TokenFileError> {
        let answering = BTreeSet::from([Scope::Read, Scope::Approve, Scope::Admin]);
        // Each waits for the disk, and one waiting is enough for both.
        let (of_operator, of_gateway) =
            tokio::try_join!(self.ensured_file(operator), self.ensured_file(gateway))?;
        tokio::try_join!(
            self.ensure_known(&of_operator, "operator", answering),
            self.ensure_known(&of_gateway, "gateway", BTreeSet::from([Scope::Exec])),
        )?;
        // Once per life of a server; a second time would name the same files.
        self.files.get_or_init(|| TokenFiles {
            operator: operator.to_owned(),
            gateway: gateway.to_owned(),
        });
        Ok(())
    }

    /// The token in a file, a new one where there is no file. The file comes first: a token that is known but in no file
    /// would be lost to everybody.
    async fn ensured_file(&self, path: &Path) -> Result<TokenSecret, TokenFileError> {
        if let Some(secret) = read_token(path)? {
            return Ok(secret);
        }
        let secret = TokenSecret::generate(&*self.ids);
        let file = path.to_owned();
        let written = tokio::task::spawn_blocking(move || write_token(&file, &secret).map(|()| secret));
        let written = written.await.map_err(io::Error::other);
        written.flatten().map_err(file_error(path))
    }

    async fn ensure_known(
        &self,
        secret: &TokenSecret,
        name: &str,
        scopes: BTreeSet<Scope>,
    ) -> Result<(), TokenFileError> {
        let known = self
            .ledger
            .token_by_sha256(&hex(secret.digest().as_bytes()))
            .await?;
        if known.is_some() {
            return Ok(());
        }
        let request = TokenRequest {
            name: name.to_owned(),
            owner: None,
            scopes,
            agents: None,
            groups: BTreeSet::new(),
            expires_at: None,
        };
        self.insert(&Actor::system(), request, None, secret).await?;
        Ok(())
    }

    async fn insert(
        &self,
        by: &Actor,
        request: TokenRequest,
        proposed_by: Option<Actor>,
        secret: &TokenSecret,
    ) -> Result<Token, LedgerError> {
        let TokenRequest {
            name,
            owner,
            scopes,
            agents,
            groups,
            expires_at,
        } = request;
        let token = NewToken {
            id: self.ids.token_id(),
            name,
            owner: owner.unwrap_or_else(|| by.person()),
            proposed_by,
            sha256: hex(secret.digest().as_bytes()),
            scopes,
            agents,
            groups,
            expires_at,
            replaces: None,
        };
        self.ledger.insert_token(token, by.clone()).await
    }

    /// A token that is not known may have been offered a moment ago, and taken by another request since it was looked up.
    async fn look_up_or_take(
        &self,
        digest: SecretDigest,
        now: UnixMillis,
    ) -> Result<Option<Arc<Key>>, StorageTrouble> {
        let seen = self.offers_taken.load(Ordering::SeqCst);
        if let Some(key) = self.look_up(digest, now).await? {
            return Ok(Some(key));
        }
        self.take_offers().await?;
        if self.offers_taken.load(Ordering::SeqCst) == seen {
            return Ok(None);
        }
        self.look_up(digest, now).await
    }

    async fn look_up(
        &self,
        digest: SecretDigest,
        now: UnixMillis,
    ) -> Result<Option<Arc<Key>>, StorageTrouble> {
        loop {
            let seen = self.keyring.removals();
            let token = self.ledger.token_by_sha256(&hex(digest.as_bytes())).await?;
            let Some(token) = token.filter(|token| token.is_live(now)) else {
                return Ok(None);
            };
            let key = Arc::new(Key::of_token(&token));
            // Only a key on the ring learns that its token was revoked.
            if self.keyring.keep(digest, &key, seen, now) {
                return Ok(Some(key));
            }
        }
    }
}

/// Ends tokens, and with a token the questions that it asked.
#[derive(Debug)]
pub struct TokenAdmin {
    tokens: Arc<Tokens>,
    /// Wakes the callers who wait for an answer.
    broker: Arc<Broker>,
    lifecycle: Arc<Lifecycle>,
}

impl TokenAdmin {
    pub(crate) fn new(base: &Base, tokens: Arc<Tokens>) -> Self {
        Self {
            tokens,
            broker: Arc::clone(&base.broker),
            lifecycle: Arc::clone(&base.lifecycle),
        }
    }

    /// Revokes a token; `None` when there is none. Its questions end, and the callers who wait for an answer get theirs.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then the token still opens.
    #[crate::compiled_once]
    pub async fn revoke(&self, by: &Actor, id: &TokenId) -> Result<Option<Token>, StorageTrouble> {
        let (tokens, broker) = (Arc::clone(&self.tokens), Arc::clone(&self.broker));
        let (by, id) = (by.clone(), id.clone());
        // In a task of its own: what is in the ledger is followed up even if the caller left.
        let task = self.lifecycle.spawn(async move {
            let revoked = tokens.revoke(&by, &id).await?;
            Ok(revoked.map(|RevokedToken { token, denied }| {
                for run in &denied {
                    broker.touch(run);
                }
                token
            }))
        });
        task.await.unwrap_or(Err(StorageTrouble::Unavailable))
    }

    /// Puts a new secret in the place of a token's. Its questions end, and the callers who wait for an answer get theirs.
    ///
    /// # Errors
    /// [`RotateTokenError`]; the old secret opens what it did then.
    #[crate::compiled_once]
    pub async fn rotate(&self, by: &Actor, id: &TokenId) -> Result<RotatedToken, RotateTokenError> {
        let (tokens, broker) = (Arc::clone(&self.tokens), Arc::clone(&self.broker));
        let (by, id) = (by.clone(), id.clone());
        // In a task of its own, as a revocation.
        let task = self.lifecycle.spawn(async move {
            let rotated = tokens.rotate(&by, &id).await?;
            for run in &rotated.denied {
                broker.touch(run);
            }
            Ok(rotated)
        });
        task.await.unwrap_or(Err(StorageTrouble::Unavailable.into()))
    }
}

/// Scopes on one line.
fn words(scopes: &BTreeSet<Scope>) -> String {
    let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    words.join(" ")
}

/// The live tokens of a ledger that may ask for commands in the name of any agent, and the admins that are bound to
/// agents. That in the file `gateway.token` is not among them: it is for a gateway that speaks for all agents.
///
/// # Errors
/// When the ledger cannot be read.
pub fn doubtful(ledger: &Path, gateway: &Path, now: UnixMillis) -> Result<Vec<Token>, LedgerError> {
    // A file that holds no token names none that could be left out.
    let gateway = read_token(gateway).ok().flatten();
    let gateway = gateway.map(|secret| hex(secret.digest().as_bytes()));
    countersign_ledger::doubtful_tokens(ledger, now, gateway.as_deref())
}

/// Writes a token into its file, and nothing else.
///
/// # Errors
/// When the file cannot be written; then it holds what it held.
pub fn write_token(path: &Path, secret: &TokenSecret) -> io::Result<()> {
    let line = zeroize::Zeroizing::new(format!("{}\n", secret.expose()));
    countersign_sys::fs::replace_file(path, line.as_bytes(), 0o600)
}

/// The token in a file; `None` when there is no file.
fn read_token(path: &Path) -> Result<Option<TokenSecret>, TokenFileError> {
    let bytes = match countersign_sys::fs::read_bounded(path, MAX_FILE_BYTES) {
        Ok(bytes) => zeroize::Zeroizing::new(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file_error(path)(error)),
    };
    let secret = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|text| TokenSecret::parse(text.trim()));
    secret.map(Some).ok_or_else(|| TokenFileError::NoToken {
        path: path.to_owned(),
    })
}

fn file_error(path: &Path) -> impl FnOnce(io::Error) -> TokenFileError {
    let path = path.to_owned();
    |source| TokenFileError::File { path, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use countersign_ledger::{LedgerConfig, LedgerThread, PolicyStamp, PolicyWatch, Tuning};
    use countersign_sys::clock::{SystemClock, SystemIds};

    use crate::offers;

    #[derive(Debug)]
    struct AnyPolicy;

    impl PolicyWatch for AnyPolicy {
        fn stamp(&self) -> PolicyStamp {
            PolicyStamp::default()
        }
    }

    /// The tokens of a ledger of their own, and where its files are.
    struct TestTokens {
        tokens: Tokens,
        thread: Option<LedgerThread>,
        directory: tempfile::TempDir,
    }

    impl Drop for TestTokens {
        fn drop(&mut self) {
            if let Some(thread) = self.thread.take() {
                thread.stop();
            }
        }
    }

    impl TestTokens {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let config = LedgerConfig {
                path: directory.path().join("countersign.db"),
                audit_key: directory.path().join("audit.key"),
                audit_head: directory.path().join("audit.head"),
                boot_id: "test".to_owned(),
                readers: 1,
                tuning: Tuning::default(),
            };
            let (clock, ids): (Arc<dyn Clock>, Arc<dyn Ids>) = (Arc::new(SystemClock), Arc::new(SystemIds));
            let opened = Ledger::open(config, Arc::clone(&clock), Arc::clone(&ids), Arc::new(AnyPolicy));
            let (ledger, thread) = opened.unwrap();
            Self {
                tokens: Tokens::new(ledger, clock, ids),
                thread: Some(thread),
                directory,
            }
        }

        fn operator(&self) -> PathBuf {
            self.directory.path().join("operator.token")
        }

        fn gateway(&self) -> PathBuf {
            self.directory.path().join("gateway.token")
        }

        async fn start(&self) -> Result<(), TokenFileError> {
            self.tokens.ensure_files(&self.operator(), &self.gateway()).await
        }

        async fn scopes_in(&self, file: &Path) -> Option<BTreeSet<Scope>> {
            let text = std::fs::read_to_string(file).unwrap();
            let key = self.tokens.authenticate(text.trim()).await.unwrap()?;
            Some(key.principal().scopes.clone())
        }

        async fn names(&self) -> Vec<String> {
            let listed = self.tokens.list(Page::first(10)).await.unwrap().items;
            listed.into_iter().map(|token| token.name).collect()
        }
    }

    #[tokio::test]
    async fn a_first_start_leaves_two_private_files_and_a_later_one_keeps_them() {
        let server = TestTokens::new();
        server.start().await.unwrap();
        let answering = BTreeSet::from([Scope::Read, Scope::Approve, Scope::Admin]);
        assert_eq!(server.scopes_in(&server.operator()).await, Some(answering));
        assert_eq!(
            server.scopes_in(&server.gateway()).await,
            Some(BTreeSet::from([Scope::Exec]))
        );
        for file in [server.operator(), server.gateway()] {
            assert_eq!(
                std::fs::metadata(file).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }

        let before = std::fs::read(server.operator()).unwrap();
        server.start().await.unwrap();
        assert_eq!(std::fs::read(server.operator()).unwrap(), before);
        assert_eq!(server.names().await, ["gateway", "operator"]);
    }

    #[tokio::test]
    async fn a_new_ledger_takes_the_files_over_but_a_revoked_token_stays_revoked() {
        let server = TestTokens::new();
        let secret = TokenSecret::generate(&SystemIds);
        countersign_sys::fs::create_private_file(&server.gateway(), secret.expose().as_bytes()).unwrap();
        server.start().await.unwrap();
        assert_eq!(
            server.scopes_in(&server.gateway()).await,
            Some(BTreeSet::from([Scope::Exec]))
        );

        let listed = server.tokens.list(Page::first(10)).await.unwrap().items;
        let id = &listed.iter().find(|token| token.name == "gateway").unwrap().id;
        server.tokens.revoke(&Actor::system(), id).await.unwrap().unwrap();
        server.start().await.unwrap();
        assert_eq!(server.scopes_in(&server.gateway()).await, None);
    }

    #[tokio::test]
    async fn a_file_that_holds_no_token_stops_the_start() {
        let server = TestTokens::new();
        countersign_sys::fs::create_private_file(&server.operator(), b"hello\n").unwrap();
        let refused = server.start().await.unwrap_err();
        assert!(matches!(refused, TokenFileError::NoToken { .. }), "{refused}");
        assert_eq!(server.names().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn scopes_that_conflict_and_ends_in_the_past_make_no_token() {
        let server = TestTokens::new();
        let create = async |scopes: &[Scope], expires_at| {
            let request = TokenRequest {
                name: "t".to_owned(),
                owner: None,
                scopes: scopes.iter().copied().collect(),
                agents: None,
                groups: BTreeSet::new(),
                expires_at,
            };
            server
                .tokens
                .create(&Actor::system(), request, Widening::Apply)
                .await
                .map(|_made| ())
        };
        let conflict = ScopeConflict::AsksAndAnswers(Scope::Approve);
        let refused = create(&[Scope::Exec, Scope::Approve], None).await;
        assert_eq!(refused, Err(CreateTokenError::Scopes(conflict)));
        let refused = create(&[Scope::Read], Some(UnixMillis::new(1))).await;
        assert_eq!(refused, Err(CreateTokenError::AlreadyEnded));
        assert_eq!(server.names().await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_offer_is_complete_from_the_moment_that_it_has_its_name() {
        use rustix::fs::inotify;

        let server = TestTokens::new();
        let (of, offers) = (server.directory.path(), server.directory.path().join("offers"));
        countersign_sys::fs::ensure_private_dir(&offers).unwrap();
        server.tokens.take_offers_of(&offers).await.unwrap();
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(
            &watch,
            &offers,
            inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO,
        )
        .unwrap();
        let request = TokenRequest {
            name: "t".to_owned(),
            owner: None,
            scopes: BTreeSet::from([Scope::Read]),
            agents: None,
            groups: BTreeSet::new(),
            expires_at: None,
        };
        let secret = offers::offer(of, &offers, request, &Owner::operator(), &SystemIds).unwrap();
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&watch, &mut buffer);
        let mut named = Vec::new();
        while let Ok(event) = events.next() {
            let name = event.file_name().unwrap().to_bytes();
            if !name.starts_with(b".") {
                named.push(event.events());
            }
        }
        assert_eq!(named, [inotify::ReadFlags::MOVED_TO]);

        // What another process still writes is left alone.
        let unfinished = offers.join(".later.json.1.0.tmp");
        countersign_sys::fs::create_private_file(&unfinished, b"{").unwrap();
        assert!(
            server
                .tokens
                .authenticate(secret.expose())
                .await
                .unwrap()
                .is_some()
        );
        assert!(unfinished.exists());
    }
}
