//! Sessions of clients that begin with a handshake. The server keeps none: the id that it hands out says all there
//! is to know, so that their number needs no bound and they survive a restart. An id opens nothing: it keeps the
//! request ids of one client apart from those of another with the same token, and remembers whether the client can
//! show links.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use uuid::Uuid;

use crate::problem::{Code, Problem};

const HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// End of the id of a client that can show links.
const LINKS: &str = "-links";

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Session {
    id: Uuid,
    /// Whether the client can show a link to its user.
    pub(super) shows_links: bool,
}

impl Session {
    /// The session that an `initialize` request with these parameters begins.
    pub(super) fn open(params: &Value, id: Uuid) -> Self {
        let shows_links = params
            .pointer("/capabilities/elicitation/url")
            .is_some_and(Value::is_object);
        Self { id, shows_links }
    }

    /// The session that a request names; `None` when it names none.
    pub(super) fn presented(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(HEADER).into_iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let text = value.to_str().ok().filter(|_| values.next().is_none());
        match text.and_then(Self::parse) {
            Some(session) => Ok(Some(session)),
            // What clients understand as "begin again".
            None => Err(Problem::new(Code::NotFound, "there is no such session")),
        }
    }

    pub(super) fn note_on(&self, headers: &mut HeaderMap) {
        if let Ok(value) = HeaderValue::from_str(&self.to_text()) {
            headers.insert(HEADER, value);
        }
    }

    pub(super) fn to_text(&self) -> String {
        let links = if self.shows_links { LINKS } else { "" };
        format!("{}{links}", self.id.simple())
    }

    fn parse(text: &str) -> Option<Self> {
        let (id, shows_links) = match text.strip_suffix(LINKS) {
            Some(id) => (id, true),
            None => (text, false),
        };
        let session = Self {
            id: Uuid::try_parse(id).ok()?,
            shows_links,
        };
        // One form only, so that one session has one name.
        (session.to_text() == text).then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_says_what_the_client_can_do() {
        for (capabilities, shows_links) in [
            (json!({}), false),
            (json!({"elicitation": {}}), false),
            (json!({"elicitation": {"form": {}}}), false),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
        ] {
            let session = Session::open(&json!({"capabilities": capabilities}), Uuid::from_u128(7));
            assert_eq!(session.shows_links, shows_links, "{capabilities}");
            assert_eq!(Session::parse(&session.to_text()), Some(session));
        }
    }

    #[test]
    fn other_texts_are_no_sessions() {
        let id = Uuid::from_u128(7);
        for text in [
            String::new(),
            "x".to_owned(),
            id.to_string(),
            id.simple().to_string().to_uppercase() + "A",
            format!("{}-link", id.simple()),
            format!("{{{id}}}"),
        ] {
            assert_eq!(Session::parse(&text), None, "{text}");
        }
    }
}
