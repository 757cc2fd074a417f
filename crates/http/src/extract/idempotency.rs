//! The `Idempotency-Key` header.

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::problem::Problem;

/// Longest key (`docs/spec/http-api.md#post-v1exec-answers`).
const MAX_BYTES: usize = 255;

/// The key, when one was sent: 1 to 255 printable ASCII characters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyHeader(pub(crate) Option<String>);

impl<State: Send + Sync> FromRequestParts<State> for IdempotencyHeader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &State) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all("idempotency-key").into_iter();
        let Some(value) = values.next() else {
            return Ok(Self(None));
        };
        let bytes = value.as_bytes();
        let is_printable = bytes.iter().all(|byte| matches!(byte, b' '..=b'~'));
        let text = value.to_str().ok().filter(|text| {
            is_printable && !text.trim().is_empty() && text.len() <= MAX_BYTES && values.next().is_none()
        });
        match text {
            Some(text) => Ok(Self(Some(text.to_owned()))),
            None => Err(Problem::field(
                "Idempotency-Key",
                "expected one header of 1 to 255 printable ASCII characters",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, Request};

    use super::*;

    async fn key(values: &[&[u8]]) -> Option<Option<String>> {
        let mut request = Request::new(());
        for value in values {
            request
                .headers_mut()
                .append("idempotency-key", HeaderValue::from_bytes(value).unwrap());
        }
        let (mut parts, ()) = request.into_parts();
        IdempotencyHeader::from_request_parts(&mut parts, &())
            .await
            .ok()
            .map(|header| header.0)
    }

    #[tokio::test]
    async fn keys_are_1_to_255_printable_characters_sent_once() {
        assert_eq!(key(&[]).await, Some(None));
        assert_eq!(key(&[b"a b~"]).await, Some(Some("a b~".to_owned())));
        assert_eq!(key(&[&[b'x'; 255]]).await, Some(Some("x".repeat(255))));
        for bad in [
            &[&b""[..]][..],
            &[b"a\tb"],
            &["é".as_bytes()],
            &[&[b'x'; 256]],
            &[b"a", b"a"],
        ] {
            assert_eq!(key(bad).await, None, "{bad:?}");
        }
    }
}
