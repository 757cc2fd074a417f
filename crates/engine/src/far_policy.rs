//! The policy of a node, as far as what people are told of it names it: the node, and where its approvals document lies.

use countersign_policy::combine::DocumentPolicy;

/// A node, as what is said about its policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FarPolicy {
    /// Its name for people, harmless.
    pub(super) node: String,
    /// Where its approvals document lies there, harmless; absent where it did not say so.
    pub(super) file: Option<String>,
}

impl FarPolicy {
    /// Where a source of the approvals document lies; `None` for one of this machine.
    pub(super) fn place_of(&self, source: &str) -> Option<String> {
        let key = key_in_document(source)?;
        let file = self.file.as_deref().unwrap_or(DocumentPolicy::FILE);
        Some(format!("{key} in {file} on node {}", self.node))
    }

    /// Where the deny rules of an owner lie.
    pub(super) fn deny_rules_of(&self, owner: &str) -> String {
        let file = self.file.as_deref().unwrap_or(DocumentPolicy::FILE);
        format!("agents.{owner}.denylist in {file} on node {}", self.node)
    }
}

/// The key behind a source of the approvals document, such as `agents.main.security`.
pub(super) fn key_in_document(source: &str) -> Option<String> {
    let pointer = source.strip_prefix(DocumentPolicy::FILE)?.strip_prefix("#/")?;
    Some(pointer.replace('/', "."))
}
