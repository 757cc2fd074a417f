//! Who calls: token secrets, the scopes they may carry, the ring of keys that opens the API, and the
//! limits that slow down callers who guess.
//!
//! This module owns no storage: `ledger` keeps digests, `engine::tokens` makes, lists and revokes. It must never store,
//! log or compare a secret other than through its digest, in constant time. Entry points: [`Keyring::get`],
//! [`TokenSecret::generate`], [`check_scopes`] and [`Throttle`].

mod keyring;
mod scopes;
mod secret;
mod throttle;

pub use keyring::{Key, Keyring};
pub use scopes::{ScopeConflict, check_scopes};
pub use secret::{NodeSecret, SecretDigest, SharedSecret, SignInSecret, SignInSecretKind, TokenSecret};
pub use throttle::{Limited, Policy, Rate, RateStatus, Throttle, ThrottleRates};
