//! Which calls are the same call.
//!
//! * A request that is sent again in its session (same request id, same arguments) is the same call.
//! * So is a retry that echoes the `requestState` of an answer that asked to show a link, and one that names its key
//!   in `_meta` ([`KEY_META`]).
//! * So is a call with the same arguments as one that still waits for a person (see [`super::pending_calls`]).
//! * Everything else is a call of its own.
//!
//! How long a caller wants to wait does not change what is run, so `approvalWaitMs` and `yieldMs` do not count as
//! arguments here. A key opens nothing that its token could not do with an `Idempotency-Key`: keys of different tokens
//! never meet, and one that comes with other arguments is refused.

use rmcp::model::{JsonObject, RequestId, RequestMetaObject};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use countersign_domain::hex;

/// Member of a request's `_meta` that names its idempotency key.
pub const KEY_META: &str = "countersign/idempotencyKey";

/// Longest key (`docs/spec/http-api.md#post-v1exec-answers`).
const MAX_BYTES: usize = 255;
/// Arguments that say how long to wait and not what to run.
const HOW_LONG: [&str; 2] = ["approvalWaitMs", "yieldMs"];

/// What arguments say about what is run, in one number.
pub(super) fn digest(arguments: &JsonObject) -> [u8; 32] {
    let mut hash = Sha256::new();
    let what = arguments
        .iter()
        .filter(|(name, _)| !HOW_LONG.contains(&name.as_str()));
    absorb_members(&mut hash, what);
    hash.finalize().into()
}

/// The key of a request that can be sent again in its session.
pub(super) fn of_request(session: &str, id: &RequestId, digest: &[u8; 32]) -> String {
    let mut hash = Sha256::new();
    for part in [session, &id.to_string()] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    // A number and a string that look alike are two ids.
    hash.update([u8::from(matches!(id, RequestId::Number(_)))]);
    hash.update(digest);
    format!("mcp-{}", hex(&hash.finalize()))
}

/// The id of a request as JSON: a number and a string that look alike are two ids.
pub(super) fn request_name(id: &RequestId) -> String {
    match id {
        RequestId::Number(number) => number.to_string(),
        RequestId::String(text) => Value::from(&**text).to_string(),
    }
}

/// The key that a request names itself.
///
/// # Errors
/// When it is no key.
pub(super) fn named(meta: &RequestMetaObject) -> Result<Option<String>, BadKey> {
    match meta.get(KEY_META) {
        None => Ok(None),
        Some(Value::String(key)) => check(key).map(Some),
        Some(_) => Err(BadKey),
    }
}

/// A key that came from outside.
///
/// # Errors
/// When it is no key.
pub(super) fn check(key: &str) -> Result<String, BadKey> {
    let printable = key.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if printable && !key.trim().is_empty() && key.len() <= MAX_BYTES {
        Ok(key.to_owned())
    } else {
        Err(BadKey)
    }
}

/// Something that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to 255 printable ASCII characters")]
pub(super) struct BadKey;

/// Every value with its kind and length, members by name: two different values never absorb alike.
fn absorb(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => absorb_members(hash, members.iter()),
        Value::Array(items) => {
            hash.update(b"[");
            hash.update(items.len().to_be_bytes());
            for item in items {
                absorb(hash, item);
            }
        }
        Value::String(text) => absorb_text(hash, b's', text),
        Value::Null | Value::Bool(_) | Value::Number(_) => absorb_text(hash, b'v', &value.to_string()),
    }
}

fn absorb_members<'a>(hash: &mut Sha256, members: impl Iterator<Item = (&'a String, &'a Value)>) {
    let mut members: Vec<_> = members.collect();
    members.sort_by_key(|(name, _)| *name);
    hash.update(b"{");
    hash.update(members.len().to_be_bytes());
    for (name, value) in members {
        absorb_text(hash, b'k', name);
        absorb(hash, value);
    }
}

fn absorb_text(hash: &mut Sha256, kind: u8, text: &str) {
    hash.update([kind]);
    hash.update(text.len().to_be_bytes());
    hash.update(text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(arguments: &Value) -> [u8; 32] {
        digest(arguments.as_object().unwrap())
    }

    #[test]
    fn order_and_waiting_do_not_change_what_is_run() {
        let call = of(&json!({"command": "a", "env": {"A": "1", "B": "2"}}));
        for same in [
            json!({"env": {"B": "2", "A": "1"}, "command": "a"}),
            json!({"command": "a", "env": {"A": "1", "B": "2"}, "approvalWaitMs": 5, "yieldMs": 10}),
        ] {
            assert_eq!(of(&same), call, "{same}");
        }
    }

    #[test]
    fn different_calls_have_different_digests() {
        let calls = [
            json!({}),
            json!({"command": "a"}),
            json!({"command": "b"}),
            json!({"argv": ["a"]}),
            json!({"argv": ["a", "b"]}),
            json!({"argv": ["ab"]}),
            json!({"argv": ["a", ["b"]]}),
            json!({"argv": [["a", "b"]]}),
            json!({"command": "a", "timeout": 1}),
            json!({"command": "a", "timeout": "1"}),
            json!({"command": "a", "timeout": null}),
            json!({"command": "a", "env": {"approvalWaitMs": "1"}}),
            json!({"command": "a", "env": {"approvalWaitMs": "2"}}),
        ];
        let digests: std::collections::BTreeSet<_> = calls.iter().map(of).collect();
        assert_eq!(digests.len(), calls.len());
    }

    #[test]
    fn a_request_has_one_key_in_its_session_and_shares_it_with_no_other() {
        let (one, two) = (RequestId::Number(1), RequestId::String("1".into()));
        let (a, b) = (of(&json!({"command": "a"})), of(&json!({"command": "b"})));
        let keys = [
            of_request("s", &one, &a),
            of_request("s", &one, &b),
            of_request("s", &two, &a),
            of_request("t", &one, &a),
            of_request("s1", &RequestId::String("".into()), &a),
        ];
        assert_eq!(keys[0], of_request("s", &one, &a));
        assert_eq!(check(&keys[0]), Ok(keys[0].clone()));
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn only_printable_text_is_a_key() {
        for bad in ["", " ", "a\nb", "ä", &"x".repeat(256)] {
            assert_eq!(check(bad), Err(BadKey), "{bad:?}");
        }
        let mut meta = RequestMetaObject::new();
        assert_eq!(named(&meta), Ok(None));
        meta.0.insert(KEY_META.to_owned(), json!(7));
        assert_eq!(named(&meta), Err(BadKey));
    }
}
