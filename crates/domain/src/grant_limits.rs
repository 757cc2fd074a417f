//! What limits a grant.

use serde::{Deserialize, Serialize};

use super::{SessionKey, UnixMillis};

/// What limits an entry that an answer leaves behind. With none of them it is an entry for good.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
// A limit that an earlier version does not know must not be passed over.
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantLimits {
    /// It covers nothing from this instant on.
    #[serde(rename = "expiresAtMs", skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<UnixMillis>,
    /// How many runs it covers in all, the one that was asked about among them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_uses: Option<u64>,
    /// It covers calls of this session alone.
    #[serde(rename = "sessionKey", skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionKey>,
    /// It covers programs that start in this directory or below it: a real path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub directory: Option<String>,
}

impl GrantLimits {
    /// Whether nothing is limited.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What both say together; `None` where no directory is in both of theirs.
    pub(super) fn and(&self, other: &Self) -> Option<Self> {
        let directory = match (&self.directory, &other.directory) {
            (Some(one), Some(two)) if is_within(one, two) => Some(one),
            (Some(one), Some(two)) if is_within(two, one) => Some(two),
            (Some(_), Some(_)) => return None,
            (one, two) => one.as_ref().or(two.as_ref()),
        };
        Some(Self {
            expires_at: least(self.expires_at, other.expires_at),
            max_uses: least(self.max_uses, other.max_uses),
            session: self.session.as_ref().or(other.session.as_ref()).cloned(),
            directory: directory.cloned(),
        })
    }

    /// The limits in words, each with a comma before it; empty without any.
    pub(super) fn words(&self) -> String {
        let Self {
            expires_at,
            max_uses,
            session,
            directory,
        } = self;
        let until = expires_at.map(|at| format!(", until {at}"));
        let uses = max_uses.map(|uses| format!(", {uses} runs in all"));
        let session = session.as_ref().map(|session| format!(", in session {session}"));
        let directory = directory
            .as_ref()
            .map(|directory| format!(", in {directory} and below"));
        [directory, session, uses, until].into_iter().flatten().collect()
    }
}

fn least<T: Ord>(one: Option<T>, two: Option<T>) -> Option<T> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

/// Whether a normalised path is a directory or lies below it.
pub fn is_within(path: &str, directory: &str) -> bool {
    path == directory
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/') || directory == "/")
}

/// Whether a text is an absolute path that says in one way only where it leads, as far as a text can.
pub fn is_plain_directory(path: &str) -> bool {
    path == "/"
        || path.strip_prefix('/').is_some_and(|rest| {
            let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
            rest.split('/').all(is_plain)
        })
}
