//! What an agent says about its call: words for the person who answers. Nobody checked them, and they decide nothing.

use serde::{Deserialize, Serialize};

/// Characters of a justification.
pub const MAX_JUSTIFICATION_CHARS: usize = 500;
/// Bytes of an address.
pub const MAX_CONTEXT_URL_BYTES: usize = 2048;

/// Why an agent wants something, and where to read more (`docs/spec/exec-tool.md#1-parameters-of-one-exec-call`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentNote {
    /// Its reason: one line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub justification: Option<Justification>,
    /// An address with the context.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context_url: Option<ContextUrl>,
}

impl AgentNote {
    /// Whether it said nothing.
    pub const fn is_empty(&self) -> bool {
        self.justification.is_none() && self.context_url.is_none()
    }
}

/// A reason in an agent's words: at most [`MAX_JUSTIFICATION_CHARS`] characters on one line, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Justification(String);

/// The address of a page, with the scheme http or https.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct ContextUrl(String);

/// Why a text is none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNote {
    /// Not a reason.
    #[error("expected 1 to 500 characters, not all of them blank, without control characters")]
    Justification,
    /// Not an address.
    #[error(
        "expected an address that begins with http:// or https://, of at most 2048 printable ASCII characters"
    )]
    ContextUrl,
}

impl Justification {
    /// Blanks and line breaks at its ends are removed; those within it become one space.
    ///
    /// # Errors
    /// If it is blank, too long or has other control characters.
    pub fn parse(text: &str) -> Result<Self, InvalidNote> {
        let is_odd = |character: char| character.is_control() && !matches!(character, '\t' | '\n' | '\r');
        if text.chars().count() > MAX_JUSTIFICATION_CHARS || text.chars().any(is_odd) {
            return Err(InvalidNote::Justification);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.is_empty() {
            return Err(InvalidNote::Justification);
        }
        Ok(Self(words.join(" ")))
    }

    /// What of a text can be one: its beginning, without control characters. `None` where nothing is left.
    pub fn of_any(text: &str) -> Option<Self> {
        let plain = text
            .chars()
            .map(|character| if character.is_control() { ' ' } else { character });
        let plain: String = plain.take(MAX_JUSTIFICATION_CHARS).collect();
        Self::parse(&plain).ok()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ContextUrl {
    /// # Errors
    /// If it has another scheme, nothing behind it, a blank, or characters outside of printable ASCII.
    pub fn parse(text: &str) -> Result<Self, InvalidNote> {
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"))
            .ok_or(InvalidNote::ContextUrl)?;
        let is_plain = !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic());
        if is_plain && text.len() <= MAX_CONTEXT_URL_BYTES {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidNote::ContextUrl)
        }
    }

    /// The address.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Justification {
    type Error = InvalidNote;

    fn try_from(text: String) -> Result<Self, InvalidNote> {
        Self::parse(&text)
    }
}

impl TryFrom<String> for ContextUrl {
    type Error = InvalidNote;

    fn try_from(text: String) -> Result<Self, InvalidNote> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_justification_is_one_line_that_says_something() {
        let parsed = |text: &str| Justification::parse(text).map(|said| said.as_str().to_owned());
        assert_eq!(parsed("the tests need it"), Ok("the tests need it".to_owned()));
        assert_eq!(parsed(" a\n\tb\r\n"), Ok("a b".to_owned()));
        assert!(parsed(&"é".repeat(500)).is_ok());
        for bad in ["", " \n", "a\0b", "a\u{1b}[31m", "a\u{9b}b", &"é".repeat(501)] {
            assert_eq!(parsed(bad), Err(InvalidNote::Justification), "{bad:?}");
        }
        let of_any = |text: &str| Justification::of_any(text).map(|said| said.as_str().to_owned());
        assert_eq!(of_any("a\u{1b}b\n"), Some("a b".to_owned()));
        assert_eq!(of_any(&"é".repeat(600)), Some("é".repeat(500)));
        assert_eq!(of_any("\0\n"), None);
    }

    #[test]
    fn an_address_is_one_of_the_web() {
        assert!(ContextUrl::parse("https://example.org/a?b#c").is_ok());
        assert!(ContextUrl::parse("http://[::1]:8080/").is_ok());
        let long = format!("https://{}", "a".repeat(2041));
        for bad in [
            "",
            "https://",
            "javascript:alert(1)",
            "file:///etc",
            "https://a b",
            "https://é",
            &long,
        ] {
            assert_eq!(ContextUrl::parse(bad), Err(InvalidNote::ContextUrl), "{bad:?}");
        }
    }

    #[test]
    fn it_is_stored_as_it_was_read() {
        let note = AgentNote {
            justification: Some(Justification::parse("why").unwrap()),
            context_url: None,
        };
        let text = serde_json::to_string(&note).unwrap();
        assert_eq!(text, r#"{"justification":"why"}"#);
        assert_eq!(serde_json::from_str::<AgentNote>(&text).unwrap(), note);
        assert!(serde_json::from_str::<AgentNote>("{}").unwrap().is_empty());
        assert!(serde_json::from_str::<AgentNote>(r#"{"contextUrl":"ftp://x"}"#).is_err());
    }
}
