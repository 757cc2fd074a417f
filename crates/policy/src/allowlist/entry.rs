//! An entry of an allowlist and a grant, as an analysis sees them.

use countersign_domain::UnixMillis;

/// What an entry or a grant includes of a call whose input stays open, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Typing {
    /// Nothing: it covers commands that read end of file.
    #[default]
    Nothing,
    /// An open input (`input`), at a terminal without pagers and editors that take commands.
    Guarded,
    /// Anything that is typed (`input` and `unguarded`).
    Anything,
}

impl Typing {
    /// What the members `input` and `unguarded` say together.
    pub const fn of(input: bool, unguarded: bool) -> Self {
        match (input, unguarded) {
            (false, _) => Self::Nothing,
            (true, false) => Self::Guarded,
            (true, true) => Self::Anything,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// `*` or the agent whose list holds it.
    pub owner: &'a str,
    pub id: &'a str,
    pub pattern: &'a str,
    pub arg_pattern: Option<&'a str>,
    pub source: Option<&'a str>,
    /// `commandSha256` of a `=command:` entry.
    pub command_sha256: Option<&'a str>,
    /// What it says about open input.
    pub typing: Typing,
}

/// An entry with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<'a> {
    /// `*` or the agent whose list holds it.
    pub owner: &'a str,
    pub id: &'a str,
    pub pattern: &'a str,
    pub arg_pattern: Option<&'a str>,
    /// Expired at that instant.
    pub expires_at: Option<UnixMillis>,
    pub max_uses: Option<u64>,
    /// Uses so far, as the ledger counts them.
    pub uses: u64,
    /// SHA-256 of the real executable's content, hex.
    pub sha256: Option<&'a str>,
    /// What it says about open input.
    pub typing: Typing,
}

impl Grant<'_> {
    /// Whether time and uses leave something of it.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
            && self.max_uses.is_none_or(|max_uses| self.uses < max_uses)
    }
}
