//! An entry of an allowlist and a grant, as an analysis sees them.

use countersign_domain::UnixMillis;

use crate::confine::ConfineRule;

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

/// An item of an allowlist that lets matching commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// `*` or the agent whose list holds it.
    pub owner: &'a str,
    /// Its id in the approvals document. One made while reading lasts as long as the document in memory.
    pub id: &'a str,
    /// `pattern` as written: a path, a name, a glob, or the marker of one command text.
    pub pattern: &'a str,
    /// `argPattern` as written; without it any arguments, unless `source` makes that inert (M5).
    pub arg_pattern: Option<&'a str>,
    /// `source` as written. With `allow-always` only a generated `argPattern` matches anything.
    pub source: Option<&'a str>,
    /// `commandSha256` of a `=command:` entry.
    pub command_sha256: Option<&'a str>,
    /// What it says about open input.
    pub typing: Typing,
    /// What it says about what its program may do.
    pub confine: Option<&'a ConfineRule>,
}

impl<'a> Entry<'a> {
    /// One for a program with any arguments, which says nothing else.
    pub const fn plain(owner: &'a str, id: &'a str, pattern: &'a str) -> Self {
        Self {
            owner,
            id,
            pattern,
            arg_pattern: None,
            source: None,
            command_sha256: None,
            typing: Typing::Nothing,
            confine: None,
        }
    }
}

/// An entry with a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant<'a> {
    /// `*` or the agent whose list holds it.
    pub owner: &'a str,
    /// Its id in the approvals document, by which the ledger counts its uses.
    pub id: &'a str,
    /// `pattern` as written, read as that of an entry.
    pub pattern: &'a str,
    /// `argPattern` as written; without it any arguments.
    pub arg_pattern: Option<&'a str>,
    /// Expired at that instant.
    pub expires_at: Option<UnixMillis>,
    /// It covers nothing once it was used so often; `None` for no limit.
    pub max_uses: Option<u64>,
    /// Uses so far, as the ledger counts them.
    pub uses: u64,
    /// SHA-256 of the real executable's content, hex.
    pub sha256: Option<&'a str>,
    /// It covers programs that start in this directory or below it: a real path.
    pub directory: Option<&'a str>,
    /// Whether it is for calls of another session.
    pub is_of_other_session: bool,
    /// What it says about open input.
    pub typing: Typing,
    /// What it says about what its program may do.
    pub confine: Option<&'a ConfineRule>,
}

impl Grant<'_> {
    /// Whether time and uses leave something of it.
    pub fn is_live(&self, now: UnixMillis) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
            && self.max_uses.is_none_or(|max_uses| self.uses < max_uses)
    }
}
