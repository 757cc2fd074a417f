//! The secret text of a token, of a one-time link and of a signed-in browser, and the digest that stands for it
//! everywhere else.

use std::hash::{Hash, Hasher};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use countersign_domain::Secret;
use countersign_sys::clock::Ids;

/// What every token begins with, so that scanners of leaked text know one when they see it.
const TOKEN_PREFIX: &str = "cst_";
/// How many random bytes a secret has, which lasts for months.
const BYTES: usize = 32;
/// 32 bytes as base64url without padding.
const ENCODED_LENGTH: usize = 43;
/// How many a code has, which lasts for minutes and opens one browser: with it a link fits on a line of 80 columns.
const CODE_BYTES: usize = 24;
/// 24 bytes as base64url without padding.
const CODE_LENGTH: usize = 32;

/// A token's secret: `cst_` and 43 base64url characters.
#[derive(Debug, Clone)]
pub struct TokenSecret(Secret);

impl TokenSecret {
    /// Makes a new secret from 32 bytes that nobody can guess.
    pub fn generate(ids: &dyn Ids) -> Self {
        Self(generate(TOKEN_PREFIX, ids))
    }

    /// Takes a text that has the form of a secret; `None` for any other.
    pub fn parse(text: &str) -> Option<Self> {
        is_well_formed(TOKEN_PREFIX, text).then(|| Self(Secret::new(text.to_owned())))
    }

    /// What the ledger stores.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(self.0.expose())
    }

    /// The text, for the one answer that shows it and the file that keeps it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// What a secret of the browser sign-in opens. Each kind has a beginning of its own, so that none is ever taken
/// for another, or for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInSecretKind {
    /// The code of a one-time link.
    Code,
    /// The value of the cookie.
    Cookie,
    /// What the page sends besides the cookie.
    Second,
}

impl SignInSecretKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Code => "csl_",
            Self::Cookie => "css_",
            Self::Second => "csx_",
        }
    }

    const fn bytes(self) -> usize {
        match self {
            Self::Code => CODE_BYTES,
            Self::Cookie | Self::Second => BYTES,
        }
    }

    /// How many characters may stand behind the beginning. Earlier versions made codes as long as the other secrets.
    const fn lengths(self) -> &'static [usize] {
        match self {
            Self::Code => &[CODE_LENGTH, ENCODED_LENGTH],
            Self::Cookie | Self::Second => &[ENCODED_LENGTH],
        }
    }
}

/// A secret of the browser sign-in: four characters that say of which kind, and base64url characters: 32 of a code, 43 of the
/// others.
#[derive(Debug, Clone)]
pub struct SignInSecret(Secret);

impl SignInSecret {
    /// Makes a new secret from bytes that nobody can guess.
    pub fn generate(kind: SignInSecretKind, ids: &dyn Ids) -> Self {
        Self(generate_of(kind.prefix(), kind.bytes(), ids))
    }

    /// What the ledger stores.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(self.0.expose())
    }

    /// The text, for the one answer that shows it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

/// What every token of a paired node begins with.
const NODE_PREFIX: &str = "csn_";

/// The token that a node comes back with: four characters and 43 base64url characters.
#[derive(Debug, Clone)]
pub struct NodeSecret(Secret);

impl NodeSecret {
    /// Makes a new secret from 32 bytes that nobody can guess.
    pub fn generate(ids: &dyn Ids) -> Self {
        Self(generate(NODE_PREFIX, ids))
    }

    /// What the ledger stores.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(self.0.expose())
    }

    /// The secret, for the one answer that shows it.
    pub fn into_secret(self) -> Secret {
        self.0
    }
}

/// The secret that opens the first connection of every node: kept as its digest, so that comparing says nothing about
/// how much of a guess was right.
#[derive(Debug, Clone)]
pub struct SharedSecret(SecretDigest);

impl SharedSecret {
    /// Takes the text of a file or a setting; `None` for an empty one, which must open nothing.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(SecretDigest::of(text)))
    }

    /// Whether the presented text is this secret.
    pub fn is(&self, presented: &str) -> bool {
        SecretDigest::of(presented) == self.0
    }
}

/// SHA-256 of a secret's text.
#[derive(Debug, Clone, Copy)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// Wraps a stored digest.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest of a presented token; `None` when the text cannot be one.
    pub fn of_presented(text: &str) -> Option<Self> {
        is_well_formed(TOKEN_PREFIX, text).then(|| Self::of(text))
    }

    /// The digest of a presented secret of this kind; `None` when the text cannot be one.
    pub fn of_presented_sign_in(kind: SignInSecretKind, text: &str) -> Option<Self> {
        let is_one = kind
            .lengths()
            .iter()
            .any(|length| has_form(kind.prefix(), *length, text));
        is_one.then(|| Self::of(text))
    }

    /// The digest of a presented node token; `None` when the text cannot be one.
    pub fn of_presented_node(text: &str) -> Option<Self> {
        is_well_formed(NODE_PREFIX, text).then(|| Self::of(text))
    }

    /// A digest as the ledger keeps it, lower-case hex; `None` for any other text.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        // Checked here, since a sign is a digit to the parser of numbers.
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The bytes, as the ledger stores them.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

impl PartialEq for SecretDigest {
    /// Constant-time, so that the time of an answer says nothing about a stored digest.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretDigest {}

impl Hash for SecretDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

fn generate(prefix: &str, ids: &dyn Ids) -> Secret {
    generate_of(prefix, BYTES, ids)
}

fn generate_of(prefix: &str, bytes: usize, ids: &dyn Ids) -> Secret {
    let mut bytes = vec![0; bytes];
    ids.secret_bytes(&mut bytes);
    let text = format!("{prefix}{}", URL_SAFE_NO_PAD.encode(&bytes));
    bytes.zeroize();
    Secret::new(text)
}

fn is_well_formed(prefix: &str, text: &str) -> bool {
    has_form(prefix, ENCODED_LENGTH, text)
}

fn has_form(prefix: &str, length: usize, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|encoded| {
        encoded.len() == length
            && encoded
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::clock::SystemIds;

    #[test]
    fn a_generated_secret_has_the_form_of_the_contract_and_is_new_each_time() {
        let (one, other) = (
            TokenSecret::generate(&SystemIds),
            TokenSecret::generate(&SystemIds),
        );
        assert_eq!(one.expose().len(), 47);
        assert!(TokenSecret::parse(one.expose()).is_some());
        assert_ne!(one.digest(), other.digest());
        assert_eq!(SecretDigest::of_presented(one.expose()), Some(one.digest()));
    }

    #[test]
    fn other_texts_are_no_secrets() {
        for text in [
            "",
            "cst_",
            &format!("cst_{}", "a".repeat(42)),
            &format!("cst_{}", "a".repeat(44)),
        ] {
            assert_eq!(SecretDigest::of_presented(text), None, "{text}");
        }
        assert_eq!(
            SecretDigest::of_presented(&format!("cst_{}", "+".repeat(43))),
            None
        );
        assert_eq!(
            SecretDigest::of_presented(&format!("xyz_{}", "a".repeat(43))),
            None
        );
        assert!(SecretDigest::of_presented(&format!("cst_{}", "a".repeat(43))).is_some());
    }

    #[test]
    fn no_secret_is_taken_for_one_of_another_kind() {
        let kinds = [
            SignInSecretKind::Code,
            SignInSecretKind::Cookie,
            SignInSecretKind::Second,
        ];
        for made in kinds {
            let secret = SignInSecret::generate(made, &SystemIds);
            let is_code = made == SignInSecretKind::Code;
            assert_eq!(secret.expose().len(), if is_code { 36 } else { 47 });
            assert_eq!(SecretDigest::of_presented(secret.expose()), None);
            for kind in kinds {
                let digest = SecretDigest::of_presented_sign_in(kind, secret.expose());
                assert_eq!(digest, (kind == made).then(|| secret.digest()), "{kind:?}");
            }
        }
    }

    #[test]
    fn a_code_of_an_earlier_version_opens_what_it_opened() {
        let digest = |kind, length| {
            let prefix = SignInSecretKind::prefix(kind);
            SecretDigest::of_presented_sign_in(kind, &format!("{prefix}{}", "a".repeat(length)))
        };
        assert!(digest(SignInSecretKind::Code, 43).is_some());
        assert!(digest(SignInSecretKind::Code, 32).is_some());
        for length in [0, 31, 33, 42, 44] {
            assert_eq!(digest(SignInSecretKind::Code, length), None, "{length}");
        }
        for kind in [SignInSecretKind::Cookie, SignInSecretKind::Second] {
            assert!(digest(kind, 43).is_some() && digest(kind, 32).is_none());
        }
    }

    #[test]
    fn an_empty_shared_secret_opens_nothing() {
        assert!(SharedSecret::of("").is_none());
        assert!(SharedSecret::of(" \n").is_none());
        let secret = SharedSecret::of("word\n").unwrap();
        assert!(secret.is("word"));
        assert!(!secret.is("") && !secret.is("wor") && !secret.is("word\n"));
    }

    #[test]
    fn a_node_token_is_no_other_secret() {
        let made = NodeSecret::generate(&SystemIds);
        let digest = made.digest();
        let text = made.into_secret();
        assert_eq!(SecretDigest::of_presented_node(text.expose()), Some(digest));
        assert_eq!(SecretDigest::of_presented(text.expose()), None);
        let token = TokenSecret::generate(&SystemIds);
        assert_eq!(SecretDigest::of_presented_node(token.expose()), None);
    }

    #[test]
    fn a_digest_survives_the_ledger() {
        let digest = TokenSecret::generate(&SystemIds).digest();
        let text = countersign_domain::hex(digest.as_bytes());
        assert_eq!(SecretDigest::from_hex(&text), Some(digest));
        for wrong in ["", "+0", &format!("{text}0"), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(SecretDigest::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn debug_output_hides_the_secret() {
        let secret = TokenSecret::generate(&SystemIds);
        assert!(!format!("{secret:?}").contains(secret.expose()));
    }
}
