//! How a device proves that it is one: a signature over who it is, what it wants to be, and this connection's nonce
//! (`docs/spec/bridge.md#4-device-identity-and-signature`).

use std::time::Duration;

use serde_json::{Value, json};

use countersign_domain::UnixMillis;

use super::{
    fields::{Fields, ShapeError},
    frame::MAX_ID,
    identity::{DeviceKey, DevicePublicKey, MAX_PUBLIC_KEY, MAX_SIGNATURE},
};

/// How far the clocks of both sides may lie apart. The first generation allows ten minutes, the present one two; a
/// node of either passes within ten, and the nonce alone keeps a proof from being used twice.
pub(crate) const MAX_SKEW: Duration = Duration::from_mins(10);

/// A device's proof, as sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// What it says that its id is.
    pub id: String,
    /// Base64 or PEM, at most 512 bytes, as [`DevicePublicKey::parse`] reads it.
    pub public_key: String,
    /// Base64 of the 64 bytes; [`verify_proof`] checks it.
    pub signature: String,
    /// When it signed, in Unix milliseconds.
    pub signed_at_ms: i64,
    /// The nonce that it signed.
    pub nonce: Option<String>,
}

/// Why a device's proof does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DeviceTrouble {
    /// The id is not that of the key.
    #[error("device identity mismatch")]
    IdMismatch,
    /// Signed too long ago, or in the future.
    #[error("device signature expired")]
    SignatureExpired,
    /// No nonce was signed.
    #[error("device nonce required")]
    NonceRequired,
    /// Another nonce was signed.
    #[error("device nonce mismatch")]
    NonceMismatch,
    /// The signature is not that of the key.
    #[error("device signature invalid")]
    SignatureInvalid,
    /// The key is none.
    #[error("device public key invalid")]
    PublicKeyInvalid,
}

impl Device {
    pub(super) fn of(mut fields: Fields) -> Result<Self, ShapeError> {
        let device = Self {
            id: fields.text("id", MAX_ID)?,
            public_key: fields.text("publicKey", MAX_PUBLIC_KEY)?,
            signature: fields.text("signature", MAX_SIGNATURE)?,
            signed_at_ms: fields.integer("signedAt")?,
            nonce: fields.optional_text("nonce", MAX_ID)?,
        };
        fields.finish()?;
        Ok(device)
    }

    pub(super) fn to_value(&self) -> Value {
        let mut value = json!({
            "id": self.id,
            "publicKey": self.public_key,
            "signature": self.signature,
            "signedAt": self.signed_at_ms,
        });
        if let (Some(members), Some(nonce)) = (value.as_object_mut(), &self.nonce) {
            members.insert("nonce".to_owned(), nonce.as_str().into());
        }
        value
    }
}

/// Which of the three forms was signed. It does not travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofVersion {
    /// Without a nonce. Never accepted by us.
    V1,
    /// With the nonce. Nodes of ours sign this one.
    V2,
    /// With platform and family besides.
    V3,
}

/// What a device signs, part by part.
#[derive(Debug, Clone, Copy)]
pub struct ProofInput<'a> {
    /// The device's id, as it sent it.
    pub device_id: &'a str,
    /// `client.id`, as it sent it.
    pub client_id: &'a str,
    /// `client.mode`, as it sent it.
    pub client_mode: &'a str,
    /// The role, as it sent it.
    pub role: &'a str,
    /// The scopes, as it sent them.
    pub scopes: &'a [String],
    /// When it signed, in Unix milliseconds.
    pub signed_at_ms: i64,
    /// The credential that it sent besides: shared token, else device token, else bootstrap token, else empty.
    pub token: &'a str,
    /// The nonce of the challenge.
    pub nonce: &'a str,
    /// `client.platform`, trimmed and in lower case when it is signed; only in [`ProofVersion::V3`].
    pub platform: &'a str,
    /// `client.deviceFamily`; empty when missing.
    pub device_family: &'a str,
}

impl ProofInput<'_> {
    /// The text that is signed.
    pub fn payload(&self, version: ProofVersion) -> String {
        let Self {
            device_id,
            client_id,
            client_mode,
            role,
            scopes,
            signed_at_ms,
            token,
            nonce,
            platform,
            device_family,
        } = *self;
        let scopes = scopes.join(",");
        let common = format!("{device_id}|{client_id}|{client_mode}|{role}|{scopes}|{signed_at_ms}|{token}");
        match version {
            ProofVersion::V1 => format!("v1|{common}"),
            ProofVersion::V2 => format!("v2|{common}|{nonce}"),
            ProofVersion::V3 => {
                let (platform, family) = (folded(platform), folded(device_family));
                format!("v3|{common}|{nonce}|{platform}|{family}")
            }
        }
    }

    /// The device's signature of it.
    pub fn sign(&self, key: &DeviceKey, version: ProofVersion) -> String {
        key.sign(&self.payload(version))
    }
}

/// Checks a device's proof against the nonce of its connection. `input.nonce` is not looked at.
///
/// # Errors
/// The first check that fails, in the product's order.
pub fn verify_proof(
    device: &Device,
    input: ProofInput<'_>,
    nonce: &str,
    now: UnixMillis,
) -> Result<(DevicePublicKey, ProofVersion), DeviceTrouble> {
    let key = DevicePublicKey::parse(&device.public_key).ok_or(DeviceTrouble::PublicKeyInvalid)?;
    if key.device_id().as_str() != device.id {
        return Err(DeviceTrouble::IdMismatch);
    }
    let signed_at = UnixMillis::new(device.signed_at_ms);
    if now.since(signed_at) > MAX_SKEW || signed_at.since(now) > MAX_SKEW {
        return Err(DeviceTrouble::SignatureExpired);
    }
    match device.nonce.as_deref() {
        None => return Err(DeviceTrouble::NonceRequired),
        Some(sent) if sent != nonce => return Err(DeviceTrouble::NonceMismatch),
        Some(_same) => {}
    }
    let input = ProofInput { nonce, ..input };
    [ProofVersion::V3, ProofVersion::V2]
        .into_iter()
        .find(|version| key.verifies(&input.payload(*version), &device.signature))
        .map(|version| (key.clone(), version))
        .ok_or(DeviceTrouble::SignatureInvalid)
}

fn folded(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}
