//! What the node says when it connects, and what it does when it is refused (`docs/spec/bridge.md#3-handshake` to
//! `docs/spec/bridge.md#5-authentication-and-pairing`). Pure.

use std::time::Duration;

use countersign_domain::Secret;
use countersign_protocol::bridge::{
    Challenge, Client, ConnectParams, Credentials, Device, DeviceKey, NODE_HOST_ID, NODE_MODE, NOT_PAIRED,
    OUR_USER_AGENT, ProofVersion, Protocol, Role, WireError,
};

/// How far clocks may differ before the operator is told: what the present generation allows a signature.
pub(super) const CLOCK_TOLERANCE_MS: i64 = 120_000;
/// The longest pause that a gateway may ask for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[cfg(target_os = "macos")]
const PLATFORM: (&str, &str) = ("macos", "Mac");
#[cfg(not(target_os = "macos"))]
const PLATFORM: (&str, &str) = ("linux", "Linux");

/// Who the node says it is.
#[derive(Debug)]
pub(super) struct Introduction<'a> {
    pub(super) key: &'a DeviceKey,
    pub(super) display_name: &'a str,
    pub(super) instance_id: &'a str,
    pub(super) commands: &'a [String],
    pub(super) path_env: Option<&'a str>,
}

/// What opens the connection.
#[derive(Debug)]
pub(super) enum Credential {
    /// The token that the gateway gave this device.
    Device(Secret),
    /// The secret of all nodes.
    Shared(Secret),
    None,
}

impl Credential {
    /// The device's own token counts before the shared one.
    pub(super) fn choose(device: Option<Secret>, shared: Option<&Secret>) -> Self {
        match (device, shared) {
            (Some(token), _) => Self::Device(token),
            (None, Some(token)) => Self::Shared(token.clone()),
            (None, None) => Self::None,
        }
    }
}

/// The answer to a challenge.
pub(super) fn connect_params(
    introduction: &Introduction<'_>,
    credential: &Credential,
    protocol: Protocol,
    challenge: &Challenge,
    now_ms: i64,
) -> ConnectParams {
    let auth = match (credential, protocol) {
        (Credential::Device(token), Protocol::Four) => Credentials {
            device_token: Some(token.clone()),
            ..Credentials::default()
        },
        // The first generation looks for either token in one place.
        (Credential::Device(token) | Credential::Shared(token), _) => Credentials {
            token: Some(token.clone()),
            ..Credentials::default()
        },
        (Credential::None, _) => Credentials::default(),
    };
    let public = introduction.key.public();
    let device = Device {
        id: public.device_id().into(),
        public_key: public.to_text(),
        signature: String::new(),
        // The gateway's own time where it says it: what it compares with.
        signed_at_ms: challenge.ts.unwrap_or(now_ms),
        nonce: Some(challenge.nonce.clone()),
    };
    let (platform, family) = PLATFORM;
    let mut params = ConnectParams {
        min_protocol: protocol.number(),
        max_protocol: protocol.number(),
        client: Client {
            id: NODE_HOST_ID.to_owned(),
            mode: NODE_MODE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: platform.to_owned(),
            display_name: Some(introduction.display_name.to_owned()),
            device_family: Some(family.to_owned()),
            model_identifier: None,
            instance_id: Some(introduction.instance_id.to_owned()),
        },
        caps: vec!["system".to_owned()],
        commands: introduction.commands.to_vec(),
        permissions: std::collections::BTreeMap::new(),
        path_env: introduction.path_env.map(str::to_owned),
        role: Some(Role::Node.as_str().to_owned()),
        scopes: Vec::new(),
        device: None,
        auth,
        locale: None,
        user_agent: Some(format!("{OUR_USER_AGENT}{}", env!("CARGO_PKG_VERSION"))),
    };
    let mut input = params.proof_input(&device);
    input.nonce = &challenge.nonce;
    // The one version that gateways of both generations take.
    let signature = input.sign(introduction.key, ProofVersion::V2);
    params.device = Some(Device { signature, ..device });
    params
}

/// What a refusal means for the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// The gateway speaks the other protocol.
    OtherProtocol(Protocol),
    /// The credential does not count.
    Credential,
    /// A person has to approve this node.
    Pairing {
        /// What they approve, where the gateway says it.
        request_id: Option<String>,
    },
    /// The clocks differ too much.
    Clock,
    /// It may succeed after a pause.
    Later(Option<Duration>),
    /// For another reason, in the gateway's words.
    Other,
}

impl Refused {
    /// Reads the error of a refused `connect`, of either generation.
    pub(super) fn of(error: &WireError, asked: Protocol) -> Self {
        let detail = error.detail_code().unwrap_or_default();
        let details = error.details.as_ref();
        let text = |name: &str| details.and_then(|details| details.get(name)?.as_str());
        if error.message == "protocol mismatch" || detail == "PROTOCOL_MISMATCH" {
            let expected = details.and_then(|details| details.get("expectedProtocol")?.as_i64());
            return match expected.and_then(Protocol::of) {
                Some(expected) if expected != asked => Self::OtherProtocol(expected),
                Some(_) | None => Self::Other,
            };
        }
        // The first generation checks the form before the protocol, and takes no token of a device in a member of its own.
        if asked == Protocol::Four && error.message.starts_with("invalid connect params") {
            return Self::OtherProtocol(Protocol::Three);
        }
        let is_pairing = detail == "PAIRING_REQUIRED" || error.message.starts_with("pairing required");
        if is_pairing || (error.code == NOT_PAIRED && detail != "DEVICE_IDENTITY_REQUIRED") {
            let is_id = |id: &&str| {
                !id.is_empty() && id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_graphic())
            };
            return Self::Pairing {
                request_id: text("requestId").filter(is_id).map(str::to_owned),
            };
        }
        if detail.contains("SIGNATURE_EXPIRED") || error.message == "device signature expired" {
            return Self::Clock;
        }
        if error.retryable == Some(true) || detail == "AUTH_RATE_LIMITED" {
            let after = error.retry_after_ms.and_then(|after| u64::try_from(after).ok());
            return Self::Later(after.map(|after| Duration::from_millis(after).min(LONGEST_PAUSE)));
        }
        if detail.starts_with("AUTH_") || error.message.starts_with("unauthorized") {
            return Self::Credential;
        }
        Self::Other
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use countersign_domain::UnixMillis;
    use countersign_protocol::bridge::verify_proof;

    fn challenge() -> Challenge {
        Challenge {
            nonce: "n-1".to_owned(),
            ts: Some(1_000_000),
        }
    }

    fn params(credential: &Credential, protocol: Protocol) -> ConnectParams {
        let key = DeviceKey::from_seed(&[7; 32]);
        let commands = ["system.run".to_owned()];
        let introduction = Introduction {
            key: &key,
            display_name: "box",
            instance_id: "i",
            commands: &commands,
            path_env: None,
        };
        connect_params(&introduction, credential, protocol, &challenge(), 5)
    }

    fn secret() -> Secret {
        Secret::new("t".to_owned())
    }

    #[test]
    fn the_proof_verifies_and_is_bound_to_nonce_and_token() {
        for credential in [
            Credential::Device(secret()),
            Credential::Shared(secret()),
            Credential::None,
        ] {
            for protocol in [Protocol::Three, Protocol::Four] {
                let sent = params(&credential, protocol).to_value();
                let read = ConnectParams::parse(sent).unwrap();
                assert!(read.is_ours());
                let device = read.device.clone().unwrap();
                let now = UnixMillis::new(1_000_000);
                let input = read.proof_input(&device);
                assert!(verify_proof(&device, input, "n-1", now).is_ok());
                let input = read.proof_input(&device);
                assert!(verify_proof(&device, input, "n-2", now).is_err());
            }
        }
    }

    #[test]
    fn a_token_is_sent_where_its_generation_looks_for_it() {
        let auth = |credential: &Credential, protocol| {
            let value = params(credential, protocol).to_value();
            value.get("auth").cloned().unwrap_or(Value::Null)
        };
        let (device, shared) = (Credential::Device(secret()), Credential::Shared(secret()));
        assert_eq!(auth(&device, Protocol::Four), json!({"deviceToken": "t"}));
        assert_eq!(auth(&device, Protocol::Three), json!({"token": "t"}));
        assert_eq!(auth(&shared, Protocol::Four), json!({"token": "t"}));
        assert_eq!(auth(&Credential::None, Protocol::Four), Value::Null);
        assert!(matches!(
            Credential::choose(Some(secret()), Some(&secret())),
            Credential::Device(_)
        ));
        assert!(matches!(
            Credential::choose(None, Some(&secret())),
            Credential::Shared(_)
        ));
    }

    #[test]
    fn refusals_of_both_generations_are_understood() {
        #[track_caller]
        fn check(code: &str, message: &str, details: Option<Value>, expect: &Refused) {
            let mut error = WireError::new(code, message);
            error.details = details;
            assert_eq!(Refused::of(&error, Protocol::Four), *expect, "{message}");
        }
        let pairing = |id: Option<&str>| Refused::Pairing {
            request_id: id.map(str::to_owned),
        };
        check(
            "INVALID_REQUEST",
            "protocol mismatch",
            Some(json!({"expectedProtocol": 3})),
            &Refused::OtherProtocol(Protocol::Three),
        );
        check(
            "INVALID_REQUEST",
            "protocol mismatch",
            Some(json!({"expectedProtocol": 4})),
            &Refused::Other,
        );
        check("INVALID_REQUEST", "protocol mismatch", None, &Refused::Other);
        let malformed = "invalid connect params: at /auth: unexpected property 'deviceToken'";
        check(
            "INVALID_REQUEST",
            malformed,
            None,
            &Refused::OtherProtocol(Protocol::Three),
        );
        let of_the_other = WireError::new("INVALID_REQUEST", malformed);
        assert_eq!(Refused::of(&of_the_other, Protocol::Three), Refused::Other);
        check(
            "NOT_PAIRED",
            "pairing required",
            Some(json!({"requestId": "r"})),
            &pairing(Some("r")),
        );
        check(
            "NOT_PAIRED",
            "pairing required: device is not approved yet",
            Some(json!({"code": "PAIRING_REQUIRED", "requestId": "a b\u{1b}[2J"})),
            &pairing(None),
        );
        check(
            "INVALID_REQUEST",
            "unauthorized: gateway token mismatch (provide gateway auth token)",
            None,
            &Refused::Credential,
        );
        check(
            "INVALID_REQUEST",
            "x",
            Some(json!({"code": "AUTH_TOKEN_MISMATCH"})),
            &Refused::Credential,
        );
        check(
            "INVALID_REQUEST",
            "device signature expired",
            None,
            &Refused::Clock,
        );
        check(
            "INVALID_REQUEST",
            "device signature invalid",
            None,
            &Refused::Other,
        );
        let starting = WireError::unavailable("gateway starting; retry shortly").retryable(Some(500));
        assert_eq!(
            Refused::of(&starting, Protocol::Four),
            Refused::Later(Some(Duration::from_millis(500)))
        );
        let forever = WireError::unavailable("x").retryable(Some(i64::MAX));
        assert_eq!(
            Refused::of(&forever, Protocol::Four),
            Refused::Later(Some(LONGEST_PAUSE))
        );
        let past = WireError::unavailable("x").retryable(Some(-1));
        assert_eq!(Refused::of(&past, Protocol::Four), Refused::Later(None));
    }
}
