//! Proofs: HMAC-SHA256 under the text of the token, as lower-case hex (`docs/spec/ipc.md#5-hmac`).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use countersign_domain::hex;

/// The proof over the parts, which are joined as they are.
pub(super) fn prove(token: &str, parts: &[&str]) -> String {
    // The key is the text, trimmed and not decoded: who wrote the document may have left white space around it.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(token.trim().as_bytes()).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part.as_bytes());
    }
    hex(&mac.finalize().into_bytes())
}

/// Whether a proof is the one over the parts. Upper case is another text.
pub(super) fn proves(token: &str, parts: &[&str], proof: &str) -> bool {
    is_same(&prove(token, parts), proof)
}

/// Compares secrets in a time that says nothing about where they differ.
pub(super) fn is_same(ours: &str, theirs: &str) -> bool {
    ours.as_bytes().ct_eq(theirs.as_bytes()).into()
}
