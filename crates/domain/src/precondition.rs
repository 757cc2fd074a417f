//! What a client saw of a file that it changes.

/// Which content a change was made for. Contents are named by their hash, and comparing is exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// Any content that is there.
    Any,
    /// One of these contents; of none of them when the list is empty.
    OneOf(Vec<String>),
}

impl Precondition {
    /// Whether a change that was made for this may be made of the content with this hash.
    pub fn allows(&self, hash: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(hashes) => hashes.iter().any(|known| known == hash),
        }
    }
}
