//! Who calls: token secrets, the scopes they may carry, the ring of keys that opens the API, and the
//! limits that slow down callers who guess.
//!
//! Owns no storage: `ledger` keeps digests, `engine::tokens` makes, lists and revokes. A secret is never
//! stored, logged or compared other than through its digest, in constant time.

mod keyring;
mod scopes;
mod secret;
mod throttle;

pub use keyring::{Key, Keyring};
pub use scopes::{ScopeConflict, check_scopes};
pub use secret::{NodeSecret, SecretDigest, SharedSecret, SignInSecret, SignInSecretKind, TokenSecret};
pub use throttle::{Limited, Policy, Rate, RateStatus, Throttle, ThrottleRates};
