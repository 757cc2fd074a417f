//! What a method answers when it does not do what it was asked (`docs/spec/bridge.md#84-operator-rpc`,
//! `docs/spec/bridge.md#10-exec-approval-rpcs-operator-scope-operatorapprovals`), in the words of each generation.

use serde_json::{Map, Value, json};

use countersign_engine::reply::StorageTrouble;
use countersign_hosts::node::{InvokeFailure, NodeError};
use countersign_protocol::bridge::{Protocol, WireError};

use super::{method::Opens, scope::OperatorScope};

/// There is no such method.
pub(super) fn unknown_method(name: &str) -> WireError {
    WireError::unknown_method(&shown(name))
}

/// Parameters that do not have the form of the method.
pub(super) fn params(method: &str, why: &str) -> WireError {
    WireError::invalid(format!("invalid {method} params: {}", shown(why)))
}

/// The caller lacks a scope.
pub(super) fn missing_scope(protocol: Protocol, missing: OperatorScope, opens: Opens) -> WireError {
    let required: Vec<&str> = opens.scopes().iter().map(|scope| scope.as_str()).collect();
    let message = format!("missing scope: {}", missing.as_str());
    match protocol {
        Protocol::Three => WireError::invalid(message),
        Protocol::Four => WireError::new("FORBIDDEN", message).with_details(json!({
            "code": "MISSING_SCOPE",
            "missingScope": missing.as_str(),
            "requiredScopes": required,
        })),
    }
}

/// The token is bound to agents, and what it asked for belongs to none.
pub(super) fn bound_token(protocol: Protocol) -> WireError {
    const MESSAGE: &str = "the token is bound to agents, and this belongs to none of them";
    match protocol {
        Protocol::Three => WireError::invalid(MESSAGE),
        Protocol::Four => WireError::new("FORBIDDEN", MESSAGE),
    }
}

/// No node of that id.
pub(super) fn unknown_node() -> WireError {
    WireError::invalid("unknown nodeId")
}

/// No pairing request of that id.
pub(super) fn unknown_request() -> WireError {
    WireError::invalid("unknown requestId")
}

/// Whether the node was sent what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dispatched {
    /// It was, or that is not known.
    Yes,
    /// It certainly was not.
    No,
}

/// A node answered with an error of its own, or this server says what the node would have said.
pub(super) fn of_node(protocol: Protocol, error: &NodeError, dispatched: Dispatched) -> WireError {
    // Which file of the node says so is for people here alone.
    let NodeError {
        code,
        message,
        rule: _,
    } = error;
    let text = match protocol {
        _ if message.is_empty() => "node invoke failed".to_owned(),
        Protocol::Four if !code.is_empty() => format!("{code}: {message}"),
        Protocol::Three | Protocol::Four => message.clone(),
    };
    let mut details = Map::new();
    details.insert(
        "nodeError".to_owned(),
        json!({ "code": code, "message": message }),
    );
    if protocol == Protocol::Four {
        let was_sent = dispatched == Dispatched::Yes;
        details.insert("nodeCommandDispatched".to_owned(), was_sent.into());
    }
    WireError::unavailable(text).with_details(Value::Object(details))
}

/// A node did not answer. `dispatched` is about the command alone, not about what the node was asked before it.
pub(super) fn of_invoke(
    protocol: Protocol,
    failure: &InvokeFailure,
    command: &str,
    dispatched: Dispatched,
) -> WireError {
    let node = |code: &str, message: String| {
        let code = code.to_owned();
        of_node(protocol, &NodeError::new(code, message), dispatched)
    };
    match failure {
        InvokeFailure::NotConnected => not_connected(),
        InvokeFailure::NotAllowed { reason } => not_allowed(protocol, reason, command),
        InvokeFailure::Full => WireError::unavailable("too many calls wait for the node").retryable(None),
        InvokeFailure::TooLarge(size) => WireError::invalid(size.to_string()),
        InvokeFailure::Disconnected => {
            node("DISCONNECTED", format!("node disconnected ({})", shown(command)))
        }
        InvokeFailure::TimedOut => node("TIMEOUT", "node invoke timed out".to_owned()),
    }
}

/// The node is not there.
pub(super) fn not_connected() -> WireError {
    WireError::unavailable("node not connected")
        .with_details(json!({ "code": "NOT_CONNECTED" }))
        .retryable(None)
}

/// There is no such node. The present generation calls that a pairing that changed.
pub(super) fn nobody(protocol: Protocol) -> WireError {
    match protocol {
        Protocol::Three => not_connected(),
        Protocol::Four => WireError::unavailable("node pairing changed while invocation was active")
            .with_details(json!({ "code": "PAIRING_CHANGED" }))
            .retryable(None),
    }
}

/// The same refusal with something more in its details.
pub(super) fn with_detail(mut refused: WireError, name: &str, value: Value) -> WireError {
    let details = refused.details.get_or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(members) = details {
        members.insert(name.to_owned(), value);
    }
    refused
}

/// The node does not offer a command, or may not be sent it.
fn not_allowed(protocol: Protocol, reason: &str, command: &str) -> WireError {
    let message = match protocol {
        Protocol::Three => "node command not allowed".to_owned(),
        Protocol::Four => format!("node command not allowed: {reason}"),
    };
    WireError::invalid(message).with_details(json!({ "reason": reason, "command": shown(command) }))
}

/// The ledger cannot be used.
pub(super) fn storage(trouble: StorageTrouble) -> WireError {
    WireError::unavailable(trouble.to_string()).retryable(None)
}

/// The beginning of a word that the client chose, without what could hide in it.
fn shown(word: &str) -> String {
    const MOST: usize = 128;
    word.chars()
        .take(MOST)
        .map(|character| {
            if character.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                character
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_generation_hears_its_own_words() {
        let opens = Opens::AnyOf(&[OperatorScope::Approvals]);
        let missing = |protocol| missing_scope(protocol, OperatorScope::Approvals, opens);
        assert_eq!(
            missing(Protocol::Three),
            WireError::invalid("missing scope: operator.approvals")
        );
        let four = missing(Protocol::Four);
        assert_eq!(
            (four.code.as_str(), four.message.as_str()),
            ("FORBIDDEN", "missing scope: operator.approvals")
        );
        assert_eq!(
            four.details,
            Some(json!({
                "code": "MISSING_SCOPE",
                "missingScope": "operator.approvals",
                "requiredScopes": ["operator.approvals"],
            }))
        );

        let error = NodeError::new("INVALID_REQUEST", "command required");
        let three = of_node(Protocol::Three, &error, Dispatched::Yes);
        assert_eq!(three.message, "command required");
        assert_eq!(
            three.details,
            Some(json!({ "nodeError": { "code": "INVALID_REQUEST", "message": "command required" } }))
        );
        for (dispatched, was_sent) in [(Dispatched::Yes, true), (Dispatched::No, false)] {
            let four = of_node(Protocol::Four, &error, dispatched);
            assert_eq!(four.message, "INVALID_REQUEST: command required");
            assert_eq!(four.details.unwrap()["nodeCommandDispatched"], was_sent);
        }

        let of = |protocol, failure| of_invoke(protocol, &failure, "system.run", Dispatched::Yes);
        let late = of(Protocol::Four, InvokeFailure::TimedOut);
        assert_eq!(late.message, "TIMEOUT: node invoke timed out");
        let gone = of(Protocol::Three, InvokeFailure::Disconnected);
        assert_eq!(gone.message, "node disconnected (system.run)");
    }

    #[test]
    fn what_a_caller_wrote_is_repeated_harmlessly() {
        let refusal = unknown_method(&format!("x\u{1b}[2J\n{}", "y".repeat(10_000)));
        assert!(refusal.message.len() < 200, "{}", refusal.message.len());
        assert!(!refusal.message.contains(char::is_control));
    }
}
