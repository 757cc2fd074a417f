//! `traceparent` (W3C Trace Context): the trace of the caller goes on in our log and in our answer.
//!
//! Not `tower_http::trace`: it wraps every body, and none of its callbacks sees both the request and the answer.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use countersign_sys::clock::Ids;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Sampled, and a random trace id; other flags must not be passed on.
const KNOWN_FLAGS: u8 = 0b11;

/// A trace that a caller began, and our part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    id: String,
    /// The span of the caller.
    parent: String,
    span: String,
    flags: u8,
}

impl Trace {
    /// The trace of a request. Anything that is no valid `traceparent` is ignored, as the recommendation asks.
    pub(crate) fn continued(headers: &HeaderMap, ids: &dyn Ids) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).into_iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        let (id, parent, flags) = parse(value.to_str().ok()?)?;
        Some(Self {
            id: id.to_owned(),
            parent: parent.to_owned(),
            span: new_span(ids),
            flags,
        })
    }

    /// The span that lines of the log carry.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::info_span!(
            "request",
            trace.id = %self.id,
            parent.id = %self.parent,
            span.id = %self.span,
        )
    }

    /// The header of the answer: the same trace, our span.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(self.to_string()).ok()
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            parent: _,
            span,
            flags,
        } = self;
        write!(f, "00-{id}-{span}-{flags:02x}")
    }
}

/// Trace id, parent id and the flags that version 00 knows.
fn parse(text: &str) -> Option<(&str, &str, u8)> {
    let mut parts = text.splitn(5, '-');
    let (version, id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_newer = version != "00";
    let valid = is_hex(version, 2)
        && version != "ff"
        && is_hex(id, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && is_not_zero(id)
        && is_not_zero(parent)
        // Only a version to come may have more parts.
        && (is_newer || parts.next().is_none());
    let flags = u8::from_str_radix(flags, 16).ok()?;
    valid.then_some((id, parent, flags & KNOWN_FLAGS))
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_not_zero(text: &str) -> bool {
    text.bytes().any(|byte| byte != b'0')
}

/// Eight random bytes that are not all zero.
fn new_span(ids: &dyn Ids) -> String {
    let mut bytes = [0; 8];
    ids.secret_bytes(&mut bytes);
    format!("{:016x}", u64::from_le_bytes(bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::clock::SystemIds;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn continued(values: &[&str]) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        Trace::continued(&headers, &SystemIds)
    }

    #[test]
    fn a_trace_goes_on_with_a_span_of_ours() {
        let (one, other) = (
            continued(&[&format!("00-{TRACE}-{PARENT}-01")]).unwrap(),
            continued(&[&format!("00-{TRACE}-{PARENT}-01")]).unwrap(),
        );
        let text = one.to_string();
        assert!(
            text.starts_with(&format!("00-{TRACE}-")) && text.ends_with("-01"),
            "{text}"
        );
        assert!(parse(&text).is_some());
        assert_ne!(one.span, PARENT);
        assert_ne!(one.span, other.span);
    }

    #[test]
    fn later_versions_and_unknown_flags_are_read_as_version_00() {
        for value in [
            format!("cc-{TRACE}-{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01-what-comes"),
            format!("00-{TRACE}-{PARENT}-f1"),
        ] {
            let trace = continued(&[&value]).unwrap();
            assert!(
                trace.to_string().starts_with("00-") && trace.to_string().ends_with("-01"),
                "{value}"
            );
        }
    }

    #[test]
    fn what_is_malformed_is_ignored() {
        let good = format!("00-{TRACE}-{PARENT}-01");
        for value in [
            "",
            "00",
            &format!("ff-{TRACE}-{PARENT}-01"),
            &format!("00-{TRACE}-{PARENT}-01-more"),
            &format!("00-{TRACE}-{PARENT}"),
            &format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            &format!("00-{}-{PARENT}-01", "0".repeat(32)),
            &format!("00-{TRACE}-{}-01", "0".repeat(16)),
            &format!("00-{TRACE}x-{PARENT}-01"),
            &format!("00-{TRACE}-{PARENT}-0g"),
            &format!("{good},{good}"),
        ] {
            assert_eq!(continued(&[value]), None, "{value}");
        }
        assert_eq!(continued(&[&good, &good]), None);
        assert_eq!(continued(&[]), None);
    }
}
