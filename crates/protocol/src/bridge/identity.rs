//! A device: an Ed25519 key, and the id that follows from it (`docs/spec/bridge.md#4-device-identity-and-signature`).

use std::fmt;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::URL_SAFE_NO_PAD},
};
use ed25519_dalek::{
    Signature, Signer as _, SigningKey, VerifyingKey,
    pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _, spki::der::pem::LineEnding},
};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use countersign_domain::hex;

/// Longest text of a public key that is read; a PEM is the longest form.
pub(super) const MAX_PUBLIC_KEY: usize = 512;
/// Longest text of a signature that is read: padded base64.
pub(super) const MAX_SIGNATURE: usize = 128;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);

/// What a device is called on the wire: 64 lower-case hexadecimal digits, the SHA-256 of its public key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(String);

impl DeviceId {
    /// Takes a text that has the form of one.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        (text.len() == 64 && text.as_bytes().iter().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// The 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<DeviceId> for String {
    fn from(id: DeviceId) -> Self {
        id.0
    }
}

/// A device's public key.
#[derive(Clone, PartialEq, Eq)]
pub struct DevicePublicKey(VerifyingKey);

impl DevicePublicKey {
    /// Reads the raw key in base64 of either alphabet, padded or not, or a PEM. Keys of small order, for which
    /// anybody can make signatures, are none.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_PUBLIC_KEY {
            return None;
        }
        let key = if text.contains("BEGIN") {
            VerifyingKey::from_public_key_pem(text.trim()).ok()?
        } else {
            let raw: [u8; 32] = decode(text)?.try_into().ok()?;
            VerifyingKey::from_bytes(&raw).ok()?
        };
        (!key.is_weak()).then_some(Self(key))
    }

    /// The id of the device that has this key.
    pub fn device_id(&self) -> DeviceId {
        DeviceId(hex(&Sha256::digest(self.0.as_bytes())))
    }

    /// The raw key in base64url without padding, as it travels.
    pub fn to_text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0.as_bytes())
    }

    /// The key as PEM.
    pub fn to_pem(&self) -> String {
        // Encoding 32 bytes of a fixed form has no way to fail.
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// Whether a signature in base64 is this key's for a text. Strict: one signature has one form.
    pub(crate) fn verifies(&self, text: &str, signature: &str) -> bool {
        if signature.len() > MAX_SIGNATURE {
            return false;
        }
        let bytes: Option<[u8; 64]> = decode(signature).and_then(|bytes| bytes.try_into().ok());
        bytes.is_some_and(|bytes| {
            self.0
                .verify_strict(text.as_bytes(), &Signature::from_bytes(&bytes))
                .is_ok()
        })
    }
}

impl fmt::Debug for DevicePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DevicePublicKey").field(&self.to_text()).finish()
    }
}

/// A device's own key. Its `Debug` does not show it, and it is wiped when dropped.
#[derive(Clone)]
pub struct DeviceKey(SigningKey);

impl DeviceKey {
    /// The key that a seed makes; `clock::Ids::secret_bytes` makes seeds.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Reads a PKCS #8 PEM.
    pub fn from_pem(pem: &str) -> Option<Self> {
        SigningKey::from_pkcs8_pem(pem.trim()).ok().map(Self)
    }

    /// The key as PKCS #8 PEM of the shortest form, which both products read.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let mut der = Zeroizing::new(PKCS8_PREFIX.to_vec());
        der.extend_from_slice(self.0.as_bytes());
        let body = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(&*der));
        Zeroizing::new(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            &*body
        ))
    }

    /// The key that gateways check signatures with.
    pub fn public(&self) -> DevicePublicKey {
        DevicePublicKey(self.0.verifying_key())
    }

    /// The id that gateways derive from the public key.
    pub fn device_id(&self) -> DeviceId {
        self.public().device_id()
    }

    /// The signature of a text, in base64url without padding.
    pub fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.0.sign(text.as_bytes()).to_bytes())
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceKey").finish_non_exhaustive()
    }
}

/// What stands before a seed in PKCS #8 version 1 (`docs/spec/bridge.md#4-device-identity-and-signature`). The encoder
/// at hand writes version 2, with the public key, which the first generation does not read.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE
        .decode(text)
        .or_else(|_other_alphabet| STANDARD.decode(text))
        .ok()
}
