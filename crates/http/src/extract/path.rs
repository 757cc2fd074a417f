//! Path parameters.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};

use countersign_domain::{AgentId, ApprovalId, EntryId, RunId, SessionKey, SignInId, TokenId};

use crate::problem::{Code, Problem};

/// What the path of a request names.
#[derive(Debug)]
pub(crate) struct AtPath<T>(pub(crate) T);

/// A value read from the parameters of a path.
pub(crate) trait PathParameters: Sized {
    /// Reads it; `get` gives a parameter by name, decoded.
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem>;
}

impl<T: PathParameters, State: Send + Sync> FromRequestParts<State> for AtPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Problem> {
        let parameters = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_not_utf8| Problem::not_found("resource"))?;
        let get = |name: &str| {
            parameters
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        T::read(get).map(AtPath)
    }
}

// A text that cannot be an id names nothing: it is looked up nowhere, least of all in a file system.

impl PathParameters for RunId {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        id(get("runId"), Self::parse).ok_or_else(Problem::unknown_run)
    }
}

impl PathParameters for ApprovalId {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        id(get("id"), Self::parse)
            .ok_or_else(|| Problem::new(Code::ApprovalNotFound, "there is no such approval"))
    }
}

impl PathParameters for TokenId {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        id(get("id"), Self::parse).ok_or_else(|| Problem::not_found("token"))
    }
}

impl PathParameters for SignInId {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        id(get("id"), Self::parse).ok_or_else(|| Problem::not_found("signed-in browser"))
    }
}

impl PathParameters for SessionKey {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        Self::parse(get("sessionKey").unwrap_or_default())
            .map_err(|invalid| Problem::field("sessionKey", invalid.to_string()))
    }
}

/// A process session. Any other text names none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessSessionName(String);

impl ProcessSessionName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl PathParameters for ProcessSessionName {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        // Its form is that of a run's id.
        id(get("sessionId"), RunId::parse)
            .map(|name| Self(name.into()))
            .ok_or_else(|| Problem::not_found("process session"))
    }
}

/// A node, by its id or a beginning or end of it of [`NodeName::SHORTEST`] characters or more. Any other text names none: a caller
/// who has only a name chooses the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeName(pub(crate) String);

impl NodeName {
    /// Fewer characters say too little.
    const SHORTEST: usize = 6;
    /// Ids are SHA-256 in hex.
    const WHOLE: usize = 64;

    /// Whether it is an id in full.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.len() == Self::WHOLE
    }
}

impl PathParameters for NodeName {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        let text = get("nodeId").unwrap_or_default();
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex && (1..Self::SHORTEST).contains(&text.len()) {
            return Err(Problem::unknown_node()
                .because("the id is too short: give 6 characters of its beginning or end, or more"));
        }
        let is_id = is_hex && (Self::SHORTEST..=Self::WHOLE).contains(&text.len());
        is_id
            .then(|| Self(text.to_owned()))
            .ok_or_else(Problem::unknown_node)
    }
}

/// A pairing request, by its whole id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PairingName(pub(crate) String);

impl PathParameters for PairingName {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        // Its form is that of an approval's id.
        id(get("requestId"), ApprovalId::parse)
            .map(|name| Self(name.into()))
            .ok_or_else(|| Problem::not_found("pairing request"))
    }
}

/// An agent under `/v1/agents/`, where alone `*` stands for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentScope(pub(crate) String);

impl AgentScope {
    /// The agent; `None` where the path says `*`.
    pub(crate) fn agent(&self) -> Option<AgentId> {
        // It was read as one, or is `*`, which is none.
        AgentId::parse(self.0.as_str()).ok()
    }
}

impl PathParameters for AgentScope {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        let text = get("agentId").unwrap_or_default();
        if text == "*" {
            return Ok(Self(text.to_owned()));
        }
        AgentId::parse(text)
            .map(|agent| Self(agent.into()))
            .map_err(|invalid| Problem::field("agentId", format!("{invalid}, or *")))
    }
}

/// An entry of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentEntry {
    pub(crate) agent: AgentScope,
    pub(crate) entry: EntryId,
}

impl PathParameters for AgentEntry {
    fn read<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Problem> {
        Ok(Self {
            agent: AgentScope::read(&get)?,
            entry: id(get("entryId"), EntryId::parse).ok_or_else(|| Problem::not_found("entry"))?,
        })
    }
}

fn id<T, E>(text: Option<&str>, parse: impl FnOnce(String) -> Result<T, E>) -> Option<T> {
    parse(text?.to_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_tricks_are_no_ids() {
        for text in ["..", "../x", "a/b", "A", "", "a%2fb", "a\0", &"x".repeat(65)] {
            let run = RunId::read(|_| Some(text)).unwrap_err();
            assert_eq!(run.code(), Code::NotFound, "{text:?}");
            let approval = ApprovalId::read(|_| Some(text)).unwrap_err();
            assert_eq!(approval.code(), Code::ApprovalNotFound, "{text:?}");
            let node = NodeName::read(|_| Some(text)).unwrap_err();
            assert_eq!(node.code(), Code::NodeNotFound, "{text:?}");
            let pairing = PairingName::read(|_| Some(text)).unwrap_err();
            assert_eq!(pairing.code(), Code::NotFound, "{text:?}");
        }
        assert!(RunId::read(|_| Some("0198-ab")).is_ok());
        for part in ["0198a", "0198ag", "0198AB"] {
            assert!(NodeName::read(|_| Some(part)).is_err(), "{part}");
        }
        assert!(NodeName::read(|_| Some("0198ab")).is_ok_and(|name| !name.is_whole()));
    }

    #[test]
    fn the_wildcard_is_an_agent_only_here() {
        assert_eq!(
            AgentScope::read(|_| Some("*")).unwrap(),
            AgentScope("*".to_owned())
        );
        assert_eq!(
            AgentScope::read(|_| Some("main")).unwrap(),
            AgentScope("main".to_owned())
        );
        assert_eq!(
            AgentScope::read(|_| Some("..")).unwrap_err().code(),
            Code::InvalidRequest
        );
    }
}
