//! What a method answers when it does not do what it was asked (`bridge.md` 8.4, 10), in the words of each generation.

use serde_json::{Map, Value, json};

use super::{method::Opens, scope::OperatorScope};
use crate::{
    engine::reply::StorageTrouble,
    hosts::node::{InvokeFailure, NodeError},
    protocol::bridge::{Protocol, WireError},
};

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

/// No node of that id.
pub(super) fn unknown_node() -> WireError {
    WireError::invalid("unknown nodeId")
}

/// No pairing request of that id.
pub(super) fn unknown_request() -> WireError {
    WireError::invalid("unknown requestId")
}

/// A node answered with an error of its own.
pub(super) fn of_node(protocol: Protocol, error: &NodeError) -> WireError {
    let NodeError { code, message } = error;
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
        details.insert("nodeCommandDispatched".to_owned(), true.into());
    }
    WireError::unavailable(text).with_details(Value::Object(details))
}

/// A node did not answer.
pub(super) fn of_invoke(protocol: Protocol, failure: &InvokeFailure, command: &str) -> WireError {
    let node = |code: &str, message: String| {
        let code = code.to_owned();
        of_node(protocol, &NodeError { code, message })
    };
    match failure {
        InvokeFailure::NotConnected => not_connected(),
        InvokeFailure::NotAllowed { reason } => not_allowed(protocol, reason, command),
        InvokeFailure::Full => WireError::unavailable("too many calls wait for the node").retryable(None),
        InvokeFailure::TooLarge => WireError::invalid("the call is larger than what a node takes"),
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

/// The beginning of a word that somebody else chose, without what could hide in it.
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

        let error = NodeError {
            code: "INVALID_REQUEST".to_owned(),
            message: "command required".to_owned(),
        };
        let three = of_node(Protocol::Three, &error);
        assert_eq!(three.message, "command required");
        assert_eq!(
            three.details,
            Some(json!({ "nodeError": { "code": "INVALID_REQUEST", "message": "command required" } }))
        );
        let four = of_node(Protocol::Four, &error);
        assert_eq!(four.message, "INVALID_REQUEST: command required");
        assert_eq!(four.details.unwrap()["nodeCommandDispatched"], true);

        let late = of_invoke(Protocol::Four, &InvokeFailure::TimedOut, "system.run");
        assert_eq!(late.message, "TIMEOUT: node invoke timed out");
        let gone = of_invoke(Protocol::Three, &InvokeFailure::Disconnected, "system.run");
        assert_eq!(gone.message, "node disconnected (system.run)");
    }

    #[test]
    fn what_a_caller_wrote_is_repeated_harmlessly() {
        let refusal = unknown_method(&format!("x\u{1b}[2J\n{}", "y".repeat(10_000)));
        assert!(refusal.message.len() < 200, "{}", refusal.message.len());
        assert!(!refusal.message.contains(char::is_control));
    }
}
