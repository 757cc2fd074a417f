//! The one place that names the crypto provider.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// Makes the provider that of the whole process, for the HTTP client. To be called before the first one is made;
/// again does nothing.
pub fn install_provider() {
    // An error only says that it was done before: there is no other provider in this program.
    drop(ring::default_provider().install_default());
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
