//! Every way in which a `connect` is refused, with the error, the details and the close of each
//! (`docs/spec/bridge.md#3-handshake`). The texts are the product's: its clients compare them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    connect::Role,
    fields::ShapeError,
    frame::{NOT_PAIRED, UNAVAILABLE, WireError},
    proof::DeviceTrouble,
    version::{HIGHEST, LOWEST},
};

/// Longest reason of a close frame: 125 bytes less the code.
const MAX_REASON: usize = 123;

/// How a connection ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Close {
    /// WebSocket close code, such as [`POLICY`].
    pub code: u16,
    /// The reason, short enough to travel.
    pub reason: String,
}

/// Close code: a policy was violated, or credentials do not count.
pub const POLICY: u16 = 1008;
/// Close code: no protocol in common.
pub const PROTOCOL: u16 = 1002;
/// Close code: a message is too long.
pub const TOO_BIG: u16 = 1009;
/// Close code: the server restarts.
pub const RESTART: u16 = 1012;
/// Close code: try again later.
pub(crate) const TRY_LATER: u16 = 1013;
/// Close code of a client that missed the ticks.
pub const TICK_TIMEOUT: u16 = 4000;
/// Close code: what the client may changed under it.
pub const AUTH_CHANGED: u16 = 4001;

impl Close {
    /// A close whose reason is cut to what travels.
    pub fn new(code: u16, reason: &str) -> Self {
        let mut end = reason.len().min(MAX_REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            code,
            reason: reason.get(..end).unwrap_or_default().to_owned(),
        }
    }
}

/// Why a device may not connect yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairingReason {
    /// It is not paired.
    NotPaired,
    /// Its platform or family is not what it was.
    MetadataUpgrade,
}

impl PairingReason {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPaired => "not-paired",
            Self::MetadataUpgrade => "metadata-upgrade",
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::NotPaired => "pairing required: device is not approved yet",
            Self::MetadataUpgrade => "pairing required: device platform changed",
        }
    }
}

/// Why a `connect` is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Something else came first.
    NotConnect,
    /// The parameters do not have the form.
    Params(ShapeError),
    /// No protocol in common.
    Protocol {
        /// Lowest protocol that the client speaks.
        min: i64,
        /// Highest protocol that the client speaks.
        max: i64,
    },
    /// Nobody has that role here.
    Role,
    /// No device was sent.
    DeviceRequired,
    /// The device's proof does not count.
    Device(DeviceTrouble),
    /// The credentials open nothing, or not this role.
    Token,
    /// No credentials were sent.
    TokenMissing,
    /// A person must approve first.
    Pairing {
        /// Why a person must approve it.
        reason: PairingReason,
        /// The pairing request, which `countersign nodes approve` takes.
        request_id: String,
        /// The device that waits.
        device_id: String,
        /// The role that it asked for.
        role: Role,
    },
    /// Too many wrong credentials from this address.
    Throttled {
        /// When the next one is looked at.
        retry_after: Duration,
    },
    /// Too many nodes, or too many devices that wait for an approval.
    Full {
        /// Of what, for people.
        what: &'static str,
    },
    /// The server starts or stops, or its storage does not answer.
    Unavailable {
        /// What is wrong with the gateway, in words that follow "gateway".
        why: &'static str,
    },
}

impl Refusal {
    /// The error that is sent before the connection is closed.
    pub fn error(&self) -> WireError {
        match self {
            Self::NotConnect => WireError::invalid("invalid handshake: first request must be connect"),
            Self::Params(shape) => WireError::invalid(format!("invalid connect params: {shape}")),
            Self::Protocol { min, max } => WireError::invalid("protocol mismatch").with_details(json!({
                "code": "PROTOCOL_MISMATCH",
                "clientMinProtocol": min,
                "clientMaxProtocol": max,
                "expectedProtocol": HIGHEST,
                "minimumProbeProtocol": LOWEST,
            })),
            Self::Role => WireError::invalid("invalid role"),
            Self::DeviceRequired => WireError::new(NOT_PAIRED, "device identity required")
                .with_details(json!({"code": "DEVICE_IDENTITY_REQUIRED"})),
            Self::Device(trouble) => {
                WireError::invalid(trouble.to_string()).with_details(device_details(*trouble))
            }
            Self::Token => token_error("token_mismatch", "AUTH_TOKEN_MISMATCH", true),
            Self::TokenMissing => {
                WireError::invalid("unauthorized: gateway token missing (provide gateway auth token)")
                    .with_details(json!({"code": "AUTH_TOKEN_MISSING", "authReason": "token_missing"}))
            }
            Self::Pairing {
                reason,
                request_id,
                device_id,
                role,
            } => WireError::new(NOT_PAIRED, reason.message()).with_details(json!({
                "code": "PAIRING_REQUIRED",
                "reason": reason.as_str(),
                "requestId": request_id,
                "remediationHint": format!("Approve this device: countersign nodes approve {request_id}"),
                "deviceId": device_id,
                "requestedRole": role.as_str(),
                "recommendedNextStep": "wait_then_retry",
                "retryable": true,
                "pauseReconnect": false,
            })),
            Self::Throttled { retry_after } => WireError::new(
                UNAVAILABLE,
                "unauthorized: too many failed authentication attempts (retry later)",
            )
            .with_details(json!({
                "code": "AUTH_RATE_LIMITED",
                "authReason": "rate_limited",
                "recommendedNextStep": "wait_then_retry",
                "pauseReconnect": false,
            }))
            .retryable(Some(millis(*retry_after))),
            Self::Full { what } => WireError::unavailable(format!("too many {what}; retry later"))
                .with_details(json!({"reason": "full"}))
                .retryable(Some(5000)),
            Self::Unavailable { why } => WireError::unavailable(format!("gateway {why}; retry shortly"))
                .with_details(json!({"reason": "startup-sidecars"}))
                .retryable(Some(500)),
        }
    }

    /// How the connection is closed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    pub fn close(&self) -> Close {
        let reason = match self {
            Self::Pairing {
                reason, request_id, ..
            } => format!("{} (requestId: {request_id})", reason.message()),
            _other => self.error().message,
        };
        let code = match self {
            Self::Protocol { .. } => PROTOCOL,
            Self::Full { .. } | Self::Unavailable { .. } => TRY_LATER,
            Self::NotConnect
            | Self::Params(_)
            | Self::Role
            | Self::DeviceRequired
            | Self::Device(_)
            | Self::Token
            | Self::TokenMissing
            | Self::Pairing { .. }
            | Self::Throttled { .. } => POLICY,
        };
        Close::new(code, &reason)
    }

    /// A word for counts and logs.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NotConnect => "not-connect",
            Self::Params(_) => "params",
            Self::Protocol { .. } => "protocol",
            Self::Role => "role",
            Self::DeviceRequired => "device-required",
            Self::Device(_) => "device",
            Self::Token | Self::TokenMissing => "token",
            Self::Pairing { .. } => "pairing",
            Self::Throttled { .. } => "throttled",
            Self::Full { .. } => "full",
            Self::Unavailable { .. } => "unavailable",
        }
    }
}

fn token_error(reason: &str, code: &str, can_retry: bool) -> WireError {
    WireError::invalid("unauthorized: gateway token mismatch (provide gateway auth token)").with_details(
        json!({
            "code": code,
            "authReason": reason,
            "canRetryWithDeviceToken": can_retry,
            "recommendedNextStep": "retry_with_device_token",
        }),
    )
}

fn device_details(trouble: DeviceTrouble) -> Value {
    let (code, reason) = match trouble {
        DeviceTrouble::IdMismatch => ("DEVICE_AUTH_DEVICE_ID_MISMATCH", "device-id-mismatch"),
        DeviceTrouble::SignatureExpired => ("DEVICE_AUTH_SIGNATURE_EXPIRED", "device-signature-stale"),
        DeviceTrouble::NonceRequired => ("DEVICE_AUTH_NONCE_REQUIRED", "device-nonce-missing"),
        DeviceTrouble::NonceMismatch => ("DEVICE_AUTH_NONCE_MISMATCH", "device-nonce-mismatch"),
        DeviceTrouble::SignatureInvalid => ("DEVICE_AUTH_SIGNATURE_INVALID", "device-signature"),
        DeviceTrouble::PublicKeyInvalid => ("DEVICE_AUTH_PUBLIC_KEY_INVALID", "device-public-key"),
    };
    json!({"code": code, "reason": reason})
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_travels_whole_or_cut_between_characters() {
        assert_eq!(Close::new(1000, "bye").reason, "bye");
        assert_eq!(Close::new(1000, &"x".repeat(200)).reason.len(), MAX_REASON);
        assert_eq!(Close::new(1000, &"é".repeat(100)).reason, "é".repeat(61));
    }

    #[test]
    fn a_client_that_must_wait_is_told_so_and_no_other_is() {
        let pairing = Refusal::Pairing {
            reason: PairingReason::NotPaired,
            request_id: "r".to_owned(),
            device_id: "d".to_owned(),
            role: Role::Node,
        };
        assert_eq!(pairing.error().detail_code(), Some("PAIRING_REQUIRED"));
        assert_eq!(
            pairing
                .error()
                .details
                .as_ref()
                .and_then(|details| details.get("pauseReconnect")),
            Some(&json!(false))
        );
        assert!(pairing.close().reason.ends_with("(requestId: r)"));
        let full = Refusal::Full { what: "nodes" };
        assert_eq!(
            (full.error().retryable, full.close().code),
            (Some(true), TRY_LATER)
        );
        assert_eq!(Refusal::Token.error().retryable, None);
        assert_eq!(Refusal::Protocol { min: 9, max: 9 }.close().code, PROTOCOL);
    }
}
