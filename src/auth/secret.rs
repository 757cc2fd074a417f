//! The secret text of a token, and the digest that stands for it everywhere else.

use std::hash::{Hash, Hasher};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::{clock::Ids, domain::Secret};

/// What every token begins with, so that scanners of leaked text know one when they see it.
const PREFIX: &str = "cst_";
/// 32 bytes as base64url without padding.
const ENCODED_LENGTH: usize = 43;

/// A token's secret: `cst_` and 43 base64url characters.
#[derive(Debug, Clone)]
pub struct TokenSecret(Secret);

impl TokenSecret {
    /// Makes a new secret from 32 bytes that nobody can guess.
    pub fn generate(ids: &dyn Ids) -> Self {
        let mut bytes = [0; 32];
        ids.secret_bytes(&mut bytes);
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        bytes.zeroize();
        Self(Secret::new(text))
    }

    /// Takes a text that has the form of a secret; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        is_well_formed(text).then(|| Self(Secret::new(text.to_owned())))
    }

    /// What the ledger stores.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest::of(self.0.expose())
    }

    /// The text, for the one answer that shows it and the file that keeps it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// SHA-256 of a secret's text.
#[derive(Debug, Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Wraps a stored digest.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of presented text; `None` when it cannot be a secret at all.
    pub fn of_presented(text: &str) -> Option<Self> {
        is_well_formed(text).then(|| Self::of(text))
    }

    /// The bytes, as the ledger stores them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl PartialEq for TokenDigest {
    /// Constant-time, so that the time of an answer says nothing about a stored digest.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for TokenDigest {}

impl Hash for TokenDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

fn is_well_formed(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|encoded| {
        encoded.len() == ENCODED_LENGTH
            && encoded
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemIds;

    #[test]
    fn a_generated_secret_has_the_form_of_the_contract_and_is_new_each_time() {
        let (one, other) = (
            TokenSecret::generate(&SystemIds),
            TokenSecret::generate(&SystemIds),
        );
        assert_eq!(one.expose().len(), 47);
        assert!(TokenSecret::parse(one.expose()).is_some());
        assert_ne!(one.digest(), other.digest());
        assert_eq!(TokenDigest::of_presented(one.expose()), Some(one.digest()));
    }

    #[test]
    fn other_texts_are_no_secrets() {
        for text in [
            "",
            "cst_",
            &format!("cst_{}", "a".repeat(42)),
            &format!("cst_{}", "a".repeat(44)),
        ] {
            assert_eq!(TokenDigest::of_presented(text), None, "{text}");
        }
        assert_eq!(
            TokenDigest::of_presented(&format!("cst_{}", "+".repeat(43))),
            None
        );
        assert_eq!(
            TokenDigest::of_presented(&format!("xyz_{}", "a".repeat(43))),
            None
        );
        assert!(TokenDigest::of_presented(&format!("cst_{}", "a".repeat(43))).is_some());
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = TokenSecret::generate(&SystemIds);
        assert!(!format!("{secret:?}").contains(secret.expose()));
    }
}
