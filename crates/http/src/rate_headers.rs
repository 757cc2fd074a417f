//! `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, structured fields): how a caller
//! stands with the limit that counts for them.

use std::fmt::Write as _;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::BytesMut;

use countersign_ledger::auth::{Policy, RateStatus};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Room for the longest value: a name and two numbers.
const ROOM: usize = 64;

/// Writes both headers, unless a limit that counts more for this answer wrote them before.
pub(crate) fn write(rate_status: RateStatus, headers: &mut HeaderMap) {
    if headers.contains_key(&RATE_LIMIT) {
        return;
    }
    let RateStatus {
        policy: Policy { name, quota, window },
        remaining,
        reset,
    } = rate_status;
    for (header, first, one, second, other) in [
        (RATE_LIMIT, "r", remaining, "t", reset),
        (RATE_LIMIT_POLICY, "q", quota, "w", window),
    ] {
        // On the way of every request: one allocation, no check of what cannot be wrong twice.
        let mut text = BytesMut::with_capacity(ROOM);
        let written = write!(text, "\"{name}\";{first}={one};{second}={other}");
        if written.is_ok()
            && let Ok(value) = HeaderValue::from_maybe_shared(text.freeze())
        {
            headers.insert(header, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_status(name: &'static str) -> RateStatus {
        RateStatus {
            policy: Policy {
                name,
                quota: 10_000,
                window: 2,
            },
            remaining: 9_999,
            reset: 1,
        }
    }

    #[test]
    fn both_headers_are_structured_fields() {
        let mut headers = HeaderMap::new();
        write(rate_status("token"), &mut headers);
        assert_eq!(headers[RATE_LIMIT], "\"token\";r=9999;t=1");
        assert_eq!(headers[RATE_LIMIT_POLICY], "\"token\";q=10000;w=2");
    }

    #[test]
    fn the_limit_that_was_met_is_the_one_that_is_told_of() {
        let mut headers = HeaderMap::new();
        write(rate_status("credentials"), &mut headers);
        write(rate_status("token"), &mut headers);
        assert_eq!(headers[RATE_LIMIT], "\"credentials\";r=9999;t=1");
        assert_eq!(headers.get_all(RATE_LIMIT).iter().count(), 1);
    }
}
