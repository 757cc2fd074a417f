//! The document as it was at one look, with what identifies its content.

use sha2::{Digest, Sha256};

use countersign_domain::hex;
use countersign_policy::combine::DocumentPolicy;
use countersign_sys::fs::FileStamp;

use super::document::{DenyRule, Document, Entry, Grant, Listed, Loaded, Refusal, RefusalReason, Warning};

/// What C and D of the product put before the hash of nothing when there is no file.
const MISSING_PREFIX: &str = "missing:";
/// Before a digest that stands for a file whose content could not be read.
const UNREADABLE_PREFIX: &str = "unreadable:";

/// What the document is at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentStatus {
    /// There is no file; that says nothing.
    Missing,
    /// It may be used.
    Ok,
    /// It must not be used: everything is denied.
    Refused(Refusal),
}

/// The document as it was when it was last looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whether there is a document, and whether it may be used.
    pub status: DocumentStatus,
    /// Identifies the content, for compare-and-swap: lower-case hex SHA-256 of the bytes, `missing:` and the hash
    /// of nothing without a file, `unreadable:` and a digest where the content could not be read.
    pub hash: String,
    /// What was odd about it.
    pub warnings: Vec<Warning>,
    document: Document,
}

impl Snapshot {
    /// There is no file.
    pub(super) fn missing() -> Self {
        Self {
            status: DocumentStatus::Missing,
            hash: format!("{MISSING_PREFIX}{}", sha256(b"")),
            warnings: Vec::new(),
            document: Document::default(),
        }
    }

    /// What could be read: the content. If the file itself is refused, so is the content, no matter what it says.
    pub(super) fn of_content(bytes: &[u8], file_refused: Option<RefusalReason>, loose: bool) -> Self {
        let hash = sha256(bytes);
        if let Some(reason) = file_refused {
            return Self::refused(Refusal::whole(reason), hash);
        }
        Self::of_parsed(Document::parse(bytes), hash, loose)
    }

    fn of_parsed(parsed: Result<Loaded, Refusal>, hash: String, loose: bool) -> Self {
        match parsed {
            Ok(Loaded {
                document,
                mut warnings,
            }) => {
                if loose {
                    warnings.insert(0, Warning::LooseMode);
                }
                Self {
                    status: DocumentStatus::Ok,
                    hash,
                    warnings,
                    document,
                }
            }
            Err(refusal) => Self::refused(refusal, hash),
        }
    }

    /// What could not be read. The hash stands for it, so that a replacement by force can say what it replaces.
    pub(super) fn unreadable(reason: RefusalReason, stamp: Option<FileStamp>) -> Self {
        let seen = stamp.map_or_else(String::new, |stamp| format!("{stamp:?}"));
        let hash = format!(
            "{UNREADABLE_PREFIX}{}",
            sha256(format!("{reason} {seen}").as_bytes())
        );
        let size = stamp
            .filter(|_| reason == RefusalReason::TooLarge)
            .map(|stamp| stamp.size);
        Self::refused(
            Refusal {
                size,
                ..Refusal::whole(reason)
            },
            hash,
        )
    }

    /// What was accepted earlier, from the text that was kept of it; no text for no file.
    pub fn of_accepted(text: Option<&[u8]>, hash: String) -> Self {
        match text {
            None => Self {
                hash,
                ..Self::missing()
            },
            Some(text) => Self::of_parsed(Document::parse_kept(text), hash, false),
        }
    }

    /// A document that is nowhere but in memory.
    pub fn of_edited(document: &Document) -> Self {
        let text = document.print();
        Self::of_parsed(
            Document::parse_kept(text.as_bytes()),
            sha256(text.as_bytes()),
            false,
        )
    }

    fn refused(refusal: Refusal, hash: String) -> Self {
        Self {
            status: DocumentStatus::Refused(refusal),
            hash,
            warnings: Vec::new(),
            document: Document::default(),
        }
    }

    /// The document; an empty one when there is no file, `None` while it is refused.
    pub fn document(&self) -> Option<&Document> {
        match self.status {
            DocumentStatus::Missing | DocumentStatus::Ok => Some(&self.document),
            DocumentStatus::Refused(_) => None,
        }
    }

    /// What the document says for an agent; deny while it is refused.
    pub fn policy(&self, agent: &str) -> DocumentPolicy {
        self.document()
            .map_or_else(DocumentPolicy::refused, |document| document.policy(agent))
    }

    /// The entries for an agent in matching order; none while the document is refused.
    pub fn entries(&self, agent: &str) -> Vec<Listed<'_, Entry>> {
        self.document()
            .map_or_else(Vec::new, |document| document.entries(agent))
    }

    /// How many entries there are for an agent.
    pub fn entry_count(&self, agent: &str) -> usize {
        self.document().map_or(0, |document| document.entry_count(agent))
    }

    /// The grants for an agent in matching order; none while the document is refused.
    pub fn grants(&self, agent: &str) -> Vec<Listed<'_, Grant>> {
        self.document()
            .map_or_else(Vec::new, |document| document.grants(agent))
    }

    /// The deny rules for an agent in matching order; while the document is refused nothing runs anyway.
    pub fn deny_rules(&self, agent: &str) -> Vec<Listed<'_, DenyRule>> {
        self.document()
            .map_or_else(Vec::new, |document| document.deny_rules(agent))
    }

    /// Whether a base hash that a client sends is that of this snapshot. For a missing file the older form of the
    /// hash counts too.
    pub fn has_hash(&self, base: &str) -> bool {
        base == self.hash
            || (self.status == DocumentStatus::Missing
                && self.hash.strip_prefix(MISSING_PREFIX) == Some(base))
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
