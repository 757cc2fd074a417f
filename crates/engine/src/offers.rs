//! Tokens that the owner of the state directory makes without asking the server: the way to a new owner.
//!
//! The command line writes an offer, a private file with the digest of the secret, into the state directory. The server
//! takes it when it starts, or when a caller shows a token that it does not know. Only the owner of the directory can write
//! there, and no scope of the API stands for that. Entry points: [`offer`], [`Tokens::take_offers`].

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use countersign_domain::{Actor, AgentId, Authority, Owner, Scope, UnixMillis, hex};
use countersign_ledger::{
    LedgerError, NewToken,
    auth::{self, TokenSecret},
};
use countersign_sys::clock::Ids;

use super::tokens::{InvalidToken, TokenRequest, Tokens};

use crate::reply::StorageTrouble;

/// Far more than an offer with a thousand agents has.
const MAX_OFFER_BYTES: usize = 256 * 1024;
/// The permission bits of everyone but the owner.
const OF_OTHERS: u32 = 0o077;
/// Files looked at together.
const MOST_OFFERS: usize = 1000;
/// After so long nobody goes on writing an offer: that takes moments.
const LEFT_AFTER: Duration = Duration::from_mins(10);

/// An offer as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Offer {
    name: String,
    owner: String,
    scopes: BTreeSet<Scope>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<BTreeSet<String>>,
    groups: BTreeSet<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<i64>,
    sha256: String,
}

/// Why nothing was offered.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// No token may be like this.
    #[error(transparent)]
    Token(#[from] auth::ScopeConflict),
    /// No token may have such a member.
    #[error("{}: {}", .0.member(), .0)]
    Member(#[from] InvalidToken),
    /// The offer cannot be written.
    #[error("the offer cannot be written")]
    File(#[from] io::Error),
    /// The directory belongs to another account, or must not be used for another reason.
    #[error(transparent)]
    Directory(#[from] countersign_sys::fs::PrivateDirError),
}

/// Offers a token to the server of a state directory; `directory` is where its offers are, in the directory of the server
/// `of`. Returns the secret.
///
/// # Errors
/// [`OfferError`]; nothing was offered.
pub fn offer(
    of: &Path,
    directory: &Path,
    request: TokenRequest,
    owner: &Owner,
    ids: &dyn Ids,
) -> Result<TokenSecret, OfferError> {
    request.check()?;
    let TokenRequest {
        name,
        owner: _,
        scopes,
        agents,
        groups,
        expires_at,
    } = request;
    auth::check_scopes(&scopes, &Authority::bound_to(agents.clone()))?;
    countersign_sys::fs::ensure_private_dir(of)?;
    countersign_sys::fs::ensure_private_dir(directory)?;
    let secret = TokenSecret::generate(ids);
    let offer = Offer {
        name,
        owner: owner.as_str().to_owned(),
        scopes,
        agents: agents.map(|agents| agents.into_iter().map(String::from).collect()),
        groups,
        expires_at_ms: expires_at.map(UnixMillis::get),
        sha256: hex(secret.digest().as_bytes()),
    };
    let path = directory.join(format!("{}.json", ids.token_id()));
    let text = serde_json::to_vec(&offer).map_err(io::Error::from)?;
    // Complete from the moment that it has its name: the server may look at any time.
    countersign_sys::fs::replace_file(&path, &text, countersign_sys::fs::PRIVATE_FILE)?;
    Ok(secret)
}

impl Tokens {
    /// Takes the offers of the owner of the state directory, if there are any, and counts those that became tokens. What is
    /// no offer is removed, with a line in the log.
    ///
    /// # Errors
    /// [`StorageTrouble`] when the ledger cannot be written; then the offers stay.
    pub(crate) async fn take_offers(&self) -> Result<(), StorageTrouble> {
        let Some(directory) = self.offers.get() else {
            return Ok(());
        };
        let Ok(entries) = fs::read_dir(directory) else {
            return Ok(());
        };
        for entry in entries.flatten().take(MOST_OFFERS) {
            let path = entry.path();
            if is_being_written(&entry.file_name()) {
                self.remove_if_left(&path);
                continue;
            }
            match read(&path, &*self.ids) {
                Ok(token) => match self.ledger.insert_token(token, Actor::state_directory()).await {
                    // One that is there already was taken before a crash, or by another call a moment ago.
                    Ok(_) | Err(LedgerError::Refused(_)) => {
                        // Before it is removed: who does not find it any more sees that it was taken.
                        self.offers_taken.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(error) => return Err(error.into()),
                },
                // Another call took it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    tracing::warn!(file.path = %path.display(), %error, "what is no offer of a token was removed");
                }
            }
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(file.path = %path.display(), %error, "an offer that was taken cannot be removed");
            }
        }
        Ok(())
    }

    /// Removes what a command line that was killed left of an offer.
    fn remove_if_left(&self, path: &Path) {
        let written = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(self.clock.wall().get()).unwrap_or(0));
        // One of the future is as good as new: the clock was set.
        let age = written.ok().and_then(|written| now.duration_since(written).ok());
        if age.is_some_and(|age| age >= LEFT_AFTER)
            && let Err(error) = fs::remove_file(path)
        {
            tracing::warn!(file.path = %path.display(), %error, "an offer that was never complete cannot be removed");
        }
    }
}

/// Whether a name of the directory is that of an offer that has no name of its own yet ([`countersign_sys::fs::replace_file`]).
fn is_being_written(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Reads an offer that the account of this process wrote.
fn read(path: &Path, ids: &dyn Ids) -> io::Result<NewToken> {
    let file = countersign_sys::fs::open_regular(path)?;
    expect_private(&file)?;
    let offer: Offer = serde_json::from_slice(&countersign_sys::fs::read_all(&file, MAX_OFFER_BYTES)?)?;
    let Offer {
        name,
        owner,
        scopes,
        agents,
        groups,
        expires_at_ms,
        sha256,
    } = offer;
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let agents = agents
        .map(|agents| {
            agents
                .into_iter()
                .map(AgentId::parse)
                .collect::<Result<BTreeSet<_>, _>>()
        })
        .transpose()
        .map_err(|invalid| wrong(invalid.to_string()))?;
    let authority = Authority::bound_to(agents.clone());
    auth::check_scopes(&scopes, &authority).map_err(|conflict| wrong(conflict.to_string()))?;
    let is_digest = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_digest {
        return Err(wrong("sha256: expected 64 hex digits".to_owned()));
    }
    let owner = Owner::parse(owner).map_err(|invalid| wrong(invalid.to_string()))?;
    let request = TokenRequest {
        name,
        owner: None,
        scopes,
        agents,
        groups,
        expires_at: expires_at_ms.map(UnixMillis::new),
    };
    request
        .check()
        .map_err(|invalid| wrong(OfferError::from(invalid).to_string()))?;
    Ok(NewToken {
        id: ids.token_id(),
        name: request.name,
        owner,
        proposed_by: None,
        sha256,
        scopes: request.scopes,
        agents: request.agents,
        groups: request.groups,
        expires_at: request.expires_at,
        replaces: None,
    })
}

/// Refuses a file that another account wrote or may read.
fn expect_private(file: &File) -> io::Result<()> {
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if is_own && metadata.mode() & OF_OTHERS == 0 {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a private file of this account",
        ))
    }
}
