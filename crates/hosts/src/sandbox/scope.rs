//! Who shares a sandbox, and what it is called.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use countersign_config::settings::{SandboxScope, SandboxSettings};
use countersign_domain::{AgentId, SessionKey, hex};

/// Most characters of the configured beginning of a name.
const MAX_PREFIX: usize = 20;
/// Most characters of a name that are there to be read.
const MAX_SLUG: usize = 20;
/// Hexadecimal digits of a name that tell it from every other one: nobody finds a second key with the same ones.
const HASH_DIGITS: usize = 20;

/// Who shares a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Two calls with the same key share one sandbox.
    pub key: String,
    /// The name that goes with the key, for a container and a directory: at most 62 letters, digits, `_`, `.` and `-`.
    pub name: String,
}

impl Scope {
    /// The scope of a call. `mounted` is the agent's workspace, where the sandbox sees it.
    pub fn of(
        settings: &SandboxSettings,
        agent: &AgentId,
        session: &SessionKey,
        mounted: Option<&Path>,
    ) -> Self {
        let key = scope_key(settings.scope, agent, session, mounted);
        Self {
            name: name(&settings.docker.container_prefix, &key),
            key,
        }
    }
}

/// The key of a scope: `shared`, `agent:<agentId>` or `session:<agentId>:<sessionKey>`. The sessions of two agents are
/// never one, even if both call theirs the same. Agents whose workspaces differ share no sandbox that sees them: the
/// workspace is part of the key then, `shared:<path>`.
pub fn scope_key(
    scope: SandboxScope,
    agent: &AgentId,
    session: &SessionKey,
    mounted: Option<&Path>,
) -> String {
    match (scope, mounted) {
        (SandboxScope::Shared, None) => "shared".to_owned(),
        (SandboxScope::Shared, Some(workspace)) => format!("shared:{}", workspace.display()),
        (SandboxScope::Agent, _) => format!("agent:{agent}"),
        (SandboxScope::Session, _) => format!("session:{agent}:{session}"),
    }
}

fn name(prefix: &str, key: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
    let plain = |text: &str, most: usize| -> String {
        text.chars()
            .map(|letter| if is_plain(letter) { letter } else { '-' })
            .take(most)
            .collect()
    };
    let prefix = plain(prefix, MAX_PREFIX);
    let slug = plain(key, MAX_SLUG);
    let hash = hex(&Sha256::digest(key));
    let hash = hash.get(..HASH_DIGITS).unwrap_or(&hash);
    // A container's name begins with a letter or digit.
    format!("{prefix}{slug}-{hash}")
        .trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric())
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const PREFIX: &str = "countersign-sbx-";

    fn key(scope: SandboxScope, agent: &str, session: &str, mounted: Option<&str>) -> String {
        let agent = AgentId::parse(agent).unwrap();
        let session = SessionKey::parse(session).unwrap();
        scope_key(scope, &agent, &session, mounted.map(Path::new))
    }

    #[test]
    fn whoever_does_not_share_has_a_name_of_their_own() {
        let keys = [
            key(SandboxScope::Shared, "a", "s", None),
            key(SandboxScope::Shared, "a", "s", Some("/w")),
            key(SandboxScope::Shared, "a", "s", Some("/v")),
            key(SandboxScope::Agent, "a", "s", None),
            key(SandboxScope::Agent, "A", "s", None),
            key(SandboxScope::Agent, "shared", "s", None),
            key(SandboxScope::Session, "a", "shared", None),
            key(SandboxScope::Session, "a", "agent:a", None),
            key(SandboxScope::Session, "a", "s", None),
            // The same name of a session, said by another agent.
            key(SandboxScope::Session, "b", "s", None),
            key(SandboxScope::Session, "a", "s/", None),
            key(SandboxScope::Session, "a", "s-", None),
            key(SandboxScope::Session, "a", "../../etc", None),
            key(SandboxScope::Session, "a", "é", None),
        ];
        let names: BTreeSet<String> = keys.iter().map(|key| name(PREFIX, key)).collect();
        assert_eq!(names.len(), keys.len(), "{names:#?}");
    }

    #[test]
    fn whoever_shares_has_the_same() {
        for (one, other) in [
            (
                key(SandboxScope::Shared, "a", "s", Some("/w")),
                key(SandboxScope::Shared, "b", "t", Some("/w")),
            ),
            (
                key(SandboxScope::Agent, "a", "s", Some("/w")),
                key(SandboxScope::Agent, "a", "t", None),
            ),
        ] {
            assert_eq!(one, other);
        }
    }

    #[test]
    fn names_can_be_read() {
        let name = name(PREFIX, "agent:build");
        assert!(name.starts_with("countersign-sbx-agent-build-"), "{name}");
    }

    proptest! {
        #[test]
        fn names_are_those_of_a_container_and_of_one_directory(prefix in ".{0,40}", key in ".{1,300}") {
            let name = name(&prefix, &key);
            prop_assert!(name.len() <= 62, "{name}");
            prop_assert!(name.starts_with(|first: char| first.is_ascii_alphanumeric()), "{name}");
            let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
            prop_assert!(name.chars().all(is_valid), "{name}");
        }
    }
}
