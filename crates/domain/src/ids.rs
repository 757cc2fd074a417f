//! Ids, each a type of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A text does not have the form of the id it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{expected}")]
pub struct InvalidId {
    /// What the id must look like, for people.
    pub expected: &'static str,
}

macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $valid:path, $expected:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the form of a text and takes it as an id.
            ///
            /// # Errors
            /// [`InvalidId`] when the text does not have this id's form.
            pub fn parse(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                if $valid(&text) { Ok(Self(text)) } else { Err(InvalidId { expected: $expected }) }
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }
    };
}

id!(
    /// One run of one command, from its request to its end.
    RunId, is_opaque, "expected an id of a-z, 0-9 and -"
);
id!(
    /// One question to a person. A version 4 UUID when we make it.
    ApprovalId, is_opaque, "expected an id of a-z, 0-9 and -"
);
id!(
    /// One permission to start, written into the run file's fence.
    LaunchId, is_opaque, "expected an id of a-z, 0-9 and -"
);
id!(
    /// An API token's public id (never its secret).
    TokenId, is_opaque, "expected an id of a-z, 0-9 and -"
);
id!(
    /// A signed-in browser: the id of the token that it stands for, a hyphen, and a part of its own without one.
    SignInId, is_opaque, "expected an id of a-z, 0-9 and -"
);
id!(
    /// An allowlist entry, grant or deny rule. Foreign documents may hold ids that are no UUIDs; they are kept.
    EntryId, is_not_empty, "expected an id that is not empty"
);
id!(
    /// An agent, compared exactly (`docs/spec/http-api.md#conventions`). The wildcard `*` is not an agent.
    AgentId, is_agent_id, "expected 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit"
);
id!(
    /// A person who owns tokens: what takes two people takes two owners.
    Owner, is_agent_id, "expected 1 to 64 characters of A-Z a-z 0-9 . _ -, the first a letter or digit"
);
id!(
    /// A session of an agent: 1 to 256 characters, none of them a control character.
    SessionKey, is_session_key, "expected 1 to 256 characters without control characters"
);

impl AgentId {
    /// The agent of a call that names none.
    pub fn main() -> Self {
        Self("main".to_owned())
    }
}

impl Owner {
    /// Who owns the state directory: the files in it, the tokens in them, and every token without another owner.
    pub fn operator() -> Self {
        Self("operator".to_owned())
    }
}

impl SessionKey {
    /// The main session of an agent: `agent:<agentId>:main`.
    pub fn main_of(agent: &AgentId) -> Self {
        Self(format!("agent:{agent}:main"))
    }

    /// The agent named by a key of the form `agent:<agentId>:<rest>`; other forms say nothing.
    pub fn agent(&self) -> Option<AgentId> {
        let (agent, _rest) = self.0.strip_prefix("agent:")?.split_once(':')?;
        AgentId::parse(agent).ok()
    }
}

impl SignInId {
    /// The id of a sign-in that stands for a token.
    pub fn of(token: &TokenId, own: u64) -> Self {
        Self(format!("{token}-{own:016x}"))
    }

    /// The id of the token in the id of a sign-in.
    pub fn token(&self) -> Option<TokenId> {
        let (token, _own) = self.0.rsplit_once('-')?;
        TokenId::parse(token).ok()
    }
}

impl ApprovalId {
    /// The short form shown to people: the first 8 characters.
    pub fn slug(&self) -> &str {
        self.0.get(..8).unwrap_or(&self.0)
    }

    /// Whether it is a UUID, and so never what people type as the beginning of another one.
    pub fn is_uuid(&self) -> bool {
        self.0.len() == uuid::fmt::Hyphenated::LENGTH && uuid::Uuid::try_parse(&self.0).is_ok()
    }
}

fn is_opaque(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_not_empty(text: &str) -> bool {
    !text.is_empty()
}

fn is_agent_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 64
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_session_key(text: &str) -> bool {
    let count = text.chars().count();
    (1..=256).contains(&count) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_ids_follow_the_contract() {
        for good in ["main", "a", "A.b_c-9", &"x".repeat(64)] {
            assert!(AgentId::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "*", "-a", ".a", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(AgentId::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sign_in_names_its_token() {
        let token = TokenId::parse("0b0f6a4e-6f0c-4a9c-8a53-5d1f0c6f7d11").unwrap();
        let sign_in = SignInId::of(&token, 7);
        assert_eq!(sign_in.token(), Some(token));
        assert_eq!(SignInId::parse(sign_in.as_str()), Ok(sign_in));
        assert_eq!(SignInId::parse("x").unwrap().token(), None);
    }

    #[test]
    fn only_a_whole_uuid_is_one() {
        let is_uuid = |text: &str| ApprovalId::parse(text).unwrap().is_uuid();
        assert!(is_uuid("0b0f6a4e-6f0c-4a9c-8a53-5d1f0c6f7d11"));
        for other in [
            "0b0f6a4e",
            "0b0f6a4e-6f0c-4a9c-8a53-5d1f0c6f7d1",
            "0b0f6a4e-6f0c-4a9c-8a53-5d1f0c6f7d1x",
            "0b0f6a4e6f0c4a9c8a535d1f0c6f7d11",
            "0b0f6a4e6f0c4a9c8a535d1f0c6f7d110000",
        ] {
            assert!(!is_uuid(other), "{other}");
        }
    }

    #[test]
    fn session_key_names_its_agent_only_in_the_agent_form() {
        let agent_of = |key: &str| SessionKey::parse(key).unwrap().agent().map(String::from);
        assert_eq!(agent_of("agent:build:main"), Some("build".to_owned()));
        assert_eq!(agent_of("agent:build:a:b"), Some("build".to_owned()));
        assert_eq!(agent_of("agent:build"), None);
        assert_eq!(agent_of("telegram:42"), None);
        assert!(SessionKey::parse("a\u{7}").is_err());
    }
}
