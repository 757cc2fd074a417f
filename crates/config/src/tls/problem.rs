//! What can be wrong with the files of `[tls]`, one line each.

use std::{io, path::PathBuf};

/// What is wrong with the files of `[tls]`. Names keys and files, never what is in them.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    /// It is not there, or must not be read.
    #[error("[tls] {key}: {} cannot be read", path.display())]
    Unreadable {
        /// Which key of `[tls]` names the file: `cert`, `key` or `client_ca`.
        key: &'static str,
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// Another user could exchange it.
    #[error("[tls] {key}: {} belongs to user {owner}, neither to us nor to root", path.display())]
    ForeignOwner {
        /// Which key of `[tls]` names the file: `cert`, `key` or `client_ca`.
        key: &'static str,
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
    },
    /// Everybody may write it or, if it is the private key, read it.
    #[error("[tls] {key}: every account may {right} {}, take that right away with chmod o-rwx", path.display())]
    OpenToOthers {
        /// Which key of `[tls]` names the file: `cert`, `key` or `client_ca`.
        key: &'static str,
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
        /// What every account may do: `write` or `read`.
        right: &'static str,
    },
    /// Other text than certificates.
    #[error("[tls] {key}: {} holds no certificate in PEM form", path.display())]
    NoCertificate {
        /// Which key of `[tls]` names the file: `cert`, `key` or `client_ca`.
        key: &'static str,
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
    },
    /// Other text than a key, or one that needs a passphrase.
    #[error("[tls] key: {} holds no private key in PEM form without a passphrase", path.display())]
    NoKey {
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
    },
    /// Of two renewals, or of two names.
    #[error("[tls] cert and key: {} and {} do not belong together", cert.display(), key.display())]
    Mismatch {
        /// The file of `[tls] cert`.
        cert: PathBuf,
        /// The file of `[tls] key`.
        key: PathBuf,
    },
    /// A kind of key, or a certificate, that cannot be used.
    #[error("[tls] {key}: {} cannot be used", path.display())]
    Unusable {
        /// Which key of `[tls]` names the file: `cert`, `key` or `client_ca`.
        key: &'static str,
        /// The file; a relative setting is already below `countersign/`.
        path: PathBuf,
        /// What the TLS library says of it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl TlsProblem {
    /// The message with those of its causes, in one line.
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            line.push_str(": ");
            line.push_str(&next.to_string());
            cause = next.source();
        }
        line.replace(char::is_control, "?")
    }
}
