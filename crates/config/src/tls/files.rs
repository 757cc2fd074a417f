//! The files of `[tls]`: who may read and write them, and what is in them.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::{TlsProblem, provider::provider};
use crate::settings::{Server, StateDir};

/// Far above any chain or list of authorities.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// HTTP/1.1 is what the listeners speak; a client that insists on another protocol is told so in the handshake.
const PROTOCOL: &[u8] = b"http/1.1";

/// Where the files of `[tls]` are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain in PEM form, the server's own first.
    pub cert: PathBuf,
    /// Its private key in PEM form, without a passphrase.
    pub key: PathBuf,
    /// Authorities of client certificates, when those are required.
    pub client_ca: Option<PathBuf>,
}

/// What was read, before anything is made of it.
pub(super) struct Material {
    cert: Zeroizing<Vec<u8>>,
    key: Zeroizing<Vec<u8>>,
    client_ca: Option<Zeroizing<Vec<u8>>>,
}

impl TlsFiles {
    /// The files that the settings name, relative ones below `countersign/`; `None` without TLS.
    pub fn of(state_dir: &StateDir, server: &Server) -> Option<Self> {
        let place = |path: &PathBuf| state_dir.countersign().join(path);
        Some(Self {
            cert: server.tls.cert.as_ref().map(place)?,
            key: server.tls.key.as_ref().map(place)?,
            client_ca: server.tls.client_ca.as_ref().map(place),
        })
    }

    /// Each with the key that names it.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let client_ca = self.client_ca.as_deref().map(|path| ("client_ca", path));
        [("cert", self.cert.as_path()), ("key", self.key.as_path())]
            .into_iter()
            .chain(client_ca)
    }

    /// Whether a server can serve with these files as they are now.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), TlsProblem> {
        self.read()
            .and_then(|material| self.configure(&material))
            .map(drop)
    }

    pub(super) fn read(&self) -> Result<Material, TlsProblem> {
        Ok(Material {
            cert: read("cert", &self.cert)?,
            key: read("key", &self.key)?,
            client_ca: self
                .client_ca
                .as_deref()
                .map(|path| read("client_ca", path))
                .transpose()?,
        })
    }

    /// What connections are served with.
    pub(super) fn configure(&self, material: &Material) -> Result<ServerConfig, TlsProblem> {
        let Material { cert, key, client_ca } = material;
        let provider = provider();
        let chain = certificates("cert", &self.cert, cert)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_none| TlsProblem::NoKey {
            path: self.key.clone(),
        })?;
        let certified =
            CertifiedKey::from_der(chain, key, &provider).map_err(|error| self.refuse_pair(error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|error| unusable("key", &self.key, error))?;
        let builder = match (client_ca, &self.client_ca) {
            (Some(text), Some(path)) => {
                let authorities = certificates("client_ca", path, text)?;
                builder.with_client_cert_verifier(verifier(path, authorities)?)
            }
            (None, _) | (_, None) => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }

    fn refuse_pair(&self, error: rustls::Error) -> TlsProblem {
        if matches!(error, rustls::Error::InconsistentKeys(_)) {
            TlsProblem::Mismatch {
                cert: self.cert.clone(),
                key: self.key.clone(),
            }
        } else if matches!(error, rustls::Error::InvalidCertificate(_)) {
            unusable("cert", &self.cert, error)
        } else {
            unusable("key", &self.key, error)
        }
    }
}

impl Material {
    /// Tells one content from another without keeping a private key for it.
    pub(super) fn digest(&self) -> [u8; 32] {
        let Self { cert, key, client_ca } = self;
        let none = Zeroizing::new(Vec::new());
        let mut digest = Sha256::new();
        for part in [cert, key, client_ca.as_ref().unwrap_or(&none)] {
            digest.update(part.len().to_le_bytes());
            digest.update(part.as_slice());
        }
        digest.finalize().into()
    }
}

fn verifier(
    path: &Path,
    authorities: Vec<CertificateDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsProblem> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots
            .add(authority)
            .map_err(|error| unusable("client_ca", path, error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| unusable("client_ca", path, error))
}

fn certificates(
    key: &'static str,
    path: &Path,
    text: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| unusable(key, path, error))?;
    if found.is_empty() {
        return Err(TlsProblem::NoCertificate {
            key,
            path: path.to_owned(),
        });
    }
    Ok(found)
}

fn unusable(
    key: &'static str,
    path: &Path,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> TlsProblem {
    TlsProblem::Unusable {
        key,
        path: path.to_owned(),
        source: error.into(),
    }
}

/// Follows links: programs that renew certificates swap them.
fn read(key: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsProblem> {
    let unreadable = |source| TlsProblem::Unreadable {
        key,
        path: path.to_owned(),
        source,
    };
    let file = open(path).map_err(unreadable)?;
    // The open file is checked, not the name: what was checked is what is read.
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        )));
    }
    check(
        key,
        path,
        metadata.uid(),
        metadata.mode(),
        rustix::process::geteuid().as_raw(),
    )?;
    countersign_sys::fs::read_all(&file, MAX_BYTES)
        .map(Zeroizing::new)
        .map_err(unreadable)
}

fn open(path: &Path) -> io::Result<File> {
    // Without waiting: a pipe in the file's place must not hold the server up.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(nonblocking).open(path)
}

fn check(key: &'static str, path: &Path, owner: u32, mode: u32, us: u32) -> Result<(), TlsProblem> {
    if owner != us && owner != 0 {
        return Err(TlsProblem::ForeignOwner {
            key,
            path: path.to_owned(),
            owner,
        });
    }
    let right = if mode & 0o002 != 0 {
        Some("write")
    } else {
        (key == "key" && mode & 0o004 != 0).then_some("read")
    };
    match right {
        None => Ok(()),
        Some(right) => Err(TlsProblem::OpenToOthers {
            key,
            path: path.to_owned(),
            right,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn checked(key: &'static str, owner: u32, mode: u32, expect: &str) {
        let result = check(key, Path::new("/f"), owner, mode, 1000);
        assert_eq!(
            result.map_or_else(|problem| problem.line(), |()| "fine".to_owned()),
            expect
        );
    }

    #[test]
    fn only_what_no_stranger_can_change_is_used_and_the_key_is_no_strangers_to_read() {
        checked("cert", 1000, 0o100_644, "fine");
        checked("cert", 0, 0o100_664, "fine");
        checked("key", 0, 0o100_640, "fine");
        checked(
            "key",
            1000,
            0o100_644,
            "[tls] key: every account may read /f, take that right away with chmod o-rwx",
        );
        checked(
            "client_ca",
            1000,
            0o100_646,
            "[tls] client_ca: every account may write /f, take that right away with chmod o-rwx",
        );
        checked(
            "client_ca",
            1001,
            0o100_600,
            "[tls] client_ca: /f belongs to user 1001, neither to us nor to root",
        );
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let line = read("cert", &pipe).map(drop).unwrap_err().line();
        assert!(
            line.ends_with("cannot be read: it is not a regular file"),
            "{line}"
        );
    }
}
