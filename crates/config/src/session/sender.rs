//! Who sent a text, and whether a list of senders names them (`docs/spec/exec-tool.md#5-sessions-exec-elevated`).
//!
//! An entry may pin what it compares with a prefix (`id:`, `from:`, `e164:`, `name:`, `username:`, `tag:`); one without
//! a prefix is compared with all of them. Names are what people call themselves, so an entry that means one person is
//! pinned to an id.

use countersign_domain::ActorKind;

use crate::settings::SenderLists;

/// The provider of calls by token. No relay can vouch for it.
pub const API: &str = "api";

/// The longest provider and the longest of the other members, in characters.
const MAX_PROVIDER: usize = 64;
const MAX_CHARS: usize = 256;

/// Fewer digits are no phone number.
const MIN_DIGITS: usize = 5;

/// The sender of a text or a call, as its relay says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    provider: String,
    id: String,
    name: Option<String>,
    username: Option<String>,
    e164: Option<String>,
    tag: Option<String>,
}

/// What is said of a sender, not looked at yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelayedSender {
    /// Where they are known: `telegram`, `slack`.
    pub provider: String,
    /// Their id at the provider: 1 to 256 characters, compared exactly.
    pub id: String,
    /// What they call themselves.
    pub name: Option<String>,
    /// Their name of account.
    pub username: Option<String>,
    /// Their phone number, compared by its digits; with fewer than 5 it matches nothing.
    pub e164: Option<String>,
    /// Name and number, where a provider has that.
    pub tag: Option<String>,
}

/// A member of a sender cannot be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {expected}")]
pub struct InvalidSender {
    /// The member at fault, such as `sender.id`.
    pub path: &'static str,
    /// What it must be.
    pub expected: &'static str,
}

impl Sender {
    /// A sender that a relay vouches for.
    ///
    /// # Errors
    /// [`InvalidSender`] for a member that is blank, too long or holds a control character, and for the provider of
    /// calls by token: a relay cannot say that its sender came in by an entry point of this server.
    pub fn relayed(relayed: RelayedSender) -> Result<Self, InvalidSender> {
        let RelayedSender {
            provider,
            id,
            name,
            username,
            e164,
            tag,
        } = relayed;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if provider.is_empty() || provider.len() > MAX_PROVIDER || !provider.chars().all(is_word) {
            return Err(InvalidSender {
                path: "sender.provider",
                expected: "expected 1 to 64 characters of A-Z a-z 0-9 . _ -",
            });
        }
        let entry_points = ActorKind::ALL.iter().map(|kind| kind.as_str());
        if entry_points
            .chain([API])
            .any(|name| provider.eq_ignore_ascii_case(name))
        {
            return Err(InvalidSender {
                path: "sender.provider",
                expected: "api and the like are edges of the server; nobody can be relayed as coming through one",
            });
        }
        let optional = |path, text: Option<String>| text.map(|text| member(path, text)).transpose();
        Ok(Self {
            provider: provider.to_ascii_lowercase(),
            id: member("sender.id", id)?,
            name: optional("sender.name", name)?,
            username: optional("sender.username", username)?,
            e164: optional("sender.e164", e164)?,
            tag: optional("sender.tag", tag)?,
        })
    }

    /// The sender of a call by token: provider `api`, with the token's name as id.
    pub fn of_token(name: impl Into<String>) -> Self {
        Self {
            provider: API.to_owned(),
            id: name.into(),
            name: None,
            username: None,
            e164: None,
            tag: None,
        }
    }

    /// The sender of what comes through another entry point of ours; its own id there is theirs.
    pub fn of_entry_point(entry_point: ActorKind, id: impl Into<String>) -> Self {
        Self {
            provider: entry_point.as_str().to_owned(),
            ..Self::of_token(id)
        }
    }

    /// Where they are known.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The id at the provider; for a call by token the token's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What they call themselves.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the list of their provider names them.
    pub(crate) fn is_on(&self, lists: &SenderLists) -> bool {
        lists
            .iter()
            .filter(|(provider, _)| provider.eq_ignore_ascii_case(&self.provider))
            .any(|(_, entries)| self.matches_any(entries))
    }

    /// Whether the list of every provider (`*`) names them.
    pub(crate) fn is_on_everybodys(&self, lists: &SenderLists) -> bool {
        lists.get("*").is_some_and(|entries| self.matches_any(entries))
    }

    fn matches_any(&self, entries: &[String]) -> bool {
        entries.iter().any(|entry| self.matches(entry))
    }

    /// Whether an entry names them.
    pub fn matches(&self, entry: &str) -> bool {
        let entry = entry.trim();
        if entry == "*" {
            return true;
        }
        let pinned = entry
            .split_once(':')
            .and_then(|(kind, value)| Kind::named(kind).map(|kind| (kind, value.trim())));
        match pinned {
            Some((kind, value)) => self.matches_as(kind, value),
            None => Kind::ALL.into_iter().any(|kind| self.matches_as(kind, entry)),
        }
    }

    fn matches_as(&self, kind: Kind, value: &str) -> bool {
        if value.is_empty() {
            return false;
        }
        let same = |ours: &Option<String>| {
            ours.as_deref()
                .is_some_and(|ours| ours.trim().eq_ignore_ascii_case(value))
        };
        match kind {
            Kind::Id => self.id == value,
            Kind::From => {
                let of_provider = value.split_once(':').is_some_and(|(provider, id)| {
                    provider.eq_ignore_ascii_case(&self.provider) && id == self.id
                });
                of_provider || self.id == value || self.matches_as(Kind::E164, value)
            }
            Kind::E164 => {
                let ours = self.e164.as_deref().and_then(digits);
                ours.is_some() && ours == digits(value)
            }
            Kind::Name => same(&self.name),
            Kind::Username => {
                let bare = |name: &str| name.trim().trim_start_matches('@').to_owned();
                let value = bare(value);
                !value.is_empty()
                    && self
                        .username
                        .as_deref()
                        .is_some_and(|ours| bare(ours).eq_ignore_ascii_case(&value))
            }
            Kind::Tag => same(&self.tag),
        }
    }
}

/// What an entry compares.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Id,
    From,
    E164,
    Name,
    Username,
    Tag,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Id,
        Self::From,
        Self::E164,
        Self::Name,
        Self::Username,
        Self::Tag,
    ];

    fn named(word: &str) -> Option<Self> {
        let names = ["id", "from", "e164", "name", "username", "tag"];
        let position = names
            .into_iter()
            .position(|name| name.eq_ignore_ascii_case(word.trim()))?;
        Self::ALL.get(position).copied()
    }
}

fn member(path: &'static str, text: String) -> Result<String, InvalidSender> {
    let is_short = (1..=MAX_CHARS).contains(&text.chars().count());
    if is_short && !text.trim().is_empty() && !text.contains(char::is_control) {
        return Ok(text);
    }
    Err(InvalidSender {
        path,
        expected: "expected 1 to 256 characters, not blank, without control characters",
    })
}

/// The digits of a phone number; `None` for anything else. What people put between them says nothing.
fn digits(text: &str) -> Option<String> {
    let text = text.trim();
    let rest = text.strip_prefix('+').unwrap_or(text);
    let mut digits = String::new();
    for character in rest.chars() {
        match character {
            '0'..='9' => digits.push(character),
            ' ' | '-' | '(' | ')' | '.' => {}
            _ => return None,
        }
    }
    (digits.len() >= MIN_DIGITS).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> Sender {
        Sender::relayed(RelayedSender {
            provider: "Telegram".to_owned(),
            id: "42".to_owned(),
            name: Some("Ann B".to_owned()),
            username: Some("@ann".to_owned()),
            e164: Some("+49 170 1234567".to_owned()),
            tag: Some("ann#1".to_owned()),
        })
        .unwrap()
    }

    #[test]
    fn an_entry_names_by_anything_or_by_what_it_is_pinned_to() {
        for entry in [
            "*",
            "42",
            " 42 ",
            "id:42",
            "ID: 42 ",
            "from:42",
            "from:telegram:42",
            "telegram:42",
            "from:+491701234567",
            "e164:+49 (170) 123-45.67",
            "+491701234567",
            "Ann B",
            "ann b",
            "name:ANN B",
            "ann",
            "@Ann",
            "username:ann",
            "username:@ann",
            "tag:ANN#1",
            "ann#1",
        ] {
            assert!(ann().matches(entry), "{entry}");
        }
        for entry in [
            "",
            " ",
            "id:",
            "id:*",
            "id:Ann B",
            "name:42",
            "name:ann",
            "username:Ann B",
            "tag:ann",
            "e164:42",
            "e164:",
            "4",
            "420",
            "from:slack:42",
            "who:42",
            "\u{430}nn",
            "**",
        ] {
            assert!(!ann().matches(entry), "{entry}");
        }
    }

    #[test]
    fn what_is_not_said_of_a_sender_matches_nothing() {
        let relayed = |id: &str| RelayedSender {
            provider: "sms".to_owned(),
            id: id.to_owned(),
            ..RelayedSender::default()
        };
        let bare = Sender::relayed(relayed("7")).unwrap();
        for entry in ["name:", "username:", "username:@", "tag:", "e164:+", "@", "+"] {
            assert!(!bare.matches(entry), "{entry}");
        }
        // An id that looks like an entry is compared as an id only.
        let sly = Sender::relayed(relayed("name:Ann B")).unwrap();
        assert!(!sly.matches("name:Ann B"));
        assert!(!Sender::relayed(relayed("*")).unwrap().matches("42"));
        // Letters that only some alphabets fold together stay apart.
        let kelvin = Sender::relayed(RelayedSender {
            username: Some("\u{212a}im".to_owned()),
            ..relayed("8")
        });
        assert!(!kelvin.unwrap().matches("username:kim"));
    }

    #[test]
    fn lists_are_those_of_the_provider() {
        let lists = |provider: &str| SenderLists::from([(provider.to_owned(), vec!["42".to_owned()])]);
        assert!(ann().is_on(&lists("telegram")));
        assert!(ann().is_on(&lists("TELEGRAM")));
        assert!(!ann().is_on(&lists("slack")));
        assert!(!ann().is_on(&lists("*")));
        assert!(ann().is_on_everybodys(&lists("*")));
        assert!(!ann().is_on_everybodys(&lists("telegram")));
        assert!(!ann().is_on(&SenderLists::new()));
    }

    #[test]
    fn nobody_is_relayed_who_cannot_be() {
        let refused = |relayed: RelayedSender| Sender::relayed(relayed).unwrap_err().path;
        let of = |provider: &str, id: &str| RelayedSender {
            provider: provider.to_owned(),
            id: id.to_owned(),
            ..RelayedSender::default()
        };
        for provider in [
            "",
            "*",
            "a b",
            "api",
            "API",
            "bridge",
            "t\u{e9}l",
            &"x".repeat(65),
        ] {
            assert_eq!(refused(of(provider, "1")), "sender.provider", "{provider:?}");
        }
        for id in ["", " ", "a\nb", &"x".repeat(257)] {
            assert_eq!(refused(of("sms", id)), "sender.id", "{id:?}");
        }
        let name = Some("x\u{7}".to_owned());
        assert_eq!(
            refused(RelayedSender {
                name,
                ..of("sms", "1")
            }),
            "sender.name"
        );
        assert_eq!(Sender::of_token("ops").provider(), "api");
    }
}
