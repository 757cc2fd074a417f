//! The audit key and what is derived from it: the MACs of the audit chain and the seal around environment
//! values of waiting approvals.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
};

use chacha20poly1305::{
    ChaCha20Poly1305, Nonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use countersign_domain::{ApprovalId, EnvOverrides, hex};
use countersign_sys::{
    clock::Ids,
    faults::{WriteAt, fail_at},
};

use super::error::OpenError;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 12;

/// Keyed operations of the ledger. The key itself stays inside.
#[derive(Clone)]
pub(super) struct Keys {
    mac: Hmac<Sha256>,
    seal: ChaCha20Poly1305,
}

/// A key that is in no file yet.
pub(super) struct NewKey(Zeroizing<String>);

impl NewKey {
    /// Writes it where the next start looks for it.
    pub(super) fn keep(self, path: &Path) -> Result<(), OpenError> {
        create_private(path, self.0.as_bytes()).map_err(|source| OpenError::File {
            path: path.to_owned(),
            source,
        })
    }
}

impl std::fmt::Debug for NewKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NewKey(..)")
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// Reads the key file, or makes a key when there is none. The caller keeps a new one once the head that it seals is
    /// there: a key without a head then always means that the head was taken away.
    pub(super) fn load_or_make(path: &Path, ids: &dyn Ids) -> Result<(Self, Option<NewKey>), OpenError> {
        match Self::load(path) {
            Err(OpenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                let mut key = Zeroizing::new([0; KEY_BYTES]);
                ids.secret_bytes(&mut *key);
                let new = NewKey(Zeroizing::new(format!("{}\n", hex(&*key))));
                Ok((Self::from_key(&key), Some(new)))
            }
            loaded => loaded.map(|keys| (keys, None)),
        }
    }

    /// Reads the key file.
    pub(super) fn load(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::File {
            path: path.to_owned(),
            source,
        };
        let mut text = Zeroizing::new(String::new());
        File::open(path)
            .map_err(failed)?
            .take(1024)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let key = parse_hex(text.trim()).ok_or_else(|| OpenError::BadKey {
            path: path.to_owned(),
        })?;
        Ok(Self::from_key(&key))
    }

    fn from_key(key: &[u8; KEY_BYTES]) -> Self {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        let seal_key = mac
            .clone()
            .chain_update(b"countersign environment seal 1")
            .finalize()
            .into_bytes();
        Self {
            seal: ChaCha20Poly1305::new_from_slice(&seal_key).expect("SHA-256 has the length of the key"),
            mac,
        }
    }

    /// HMAC-SHA256 of a text, lower-case hex.
    pub(super) fn mac(&self, text: &str) -> String {
        hex(&self
            .mac
            .clone()
            .chain_update(text.as_bytes())
            .finalize()
            .into_bytes())
    }

    /// Whether `mac` is that of `text`, compared in constant time.
    pub(super) fn is_mac(&self, text: &str, mac: &str) -> bool {
        parse_hex(mac).is_some_and(|mac| {
            self.mac
                .clone()
                .chain_update(text.as_bytes())
                .verify_slice(&*mac)
                .is_ok()
        })
    }

    /// Seals the values of an approval's environment overrides; nothing for none.
    pub(super) fn seal(&self, approval: &ApprovalId, env: &EnvOverrides, ids: &dyn Ids) -> Option<Vec<u8>> {
        if env.is_empty() {
            return None;
        }
        let values: BTreeMap<&str, &str> = env.iter().collect();
        let text = Zeroizing::new(serde_json::to_vec(&values).expect("names and values are plain text"));
        let mut nonce = [0; NONCE_BYTES];
        ids.secret_bytes(&mut nonce);
        let payload = Payload {
            msg: &text,
            aad: approval.as_str().as_bytes(),
        };
        let sealed = self
            .seal
            .encrypt(Nonce::from_slice(&nonce), payload)
            .expect("an environment is short");
        Some([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what [`Self::seal`] made for the same approval; `None` when it is anything else.
    pub(super) fn open(&self, approval: &ApprovalId, sealed: &[u8]) -> Option<EnvOverrides> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        let payload = Payload {
            msg: sealed,
            aad: approval.as_str().as_bytes(),
        };
        let text = Zeroizing::new(self.seal.decrypt(Nonce::from_slice(nonce), payload).ok()?);
        serde_json::from_slice(&text).ok().map(EnvOverrides::accepted)
    }
}

/// Makes a file of mode 0600 that must not exist yet. It appears whole or not at all: half a key would lock
/// the server out of its own audit chain.
fn create_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    fail_at("start.create-key")?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    WriteAt::new("start.write-key", &mut file).write_all(content)?;
    fail_at("start.sync-key")?;
    file.as_file().sync_all()?;
    fail_at("start.rename-key")?;
    file.persist_noclobber(path)?;
    fail_at("start.sync-directory")?;
    File::open(folder)?.sync_all()
}

fn parse_hex(text: &str) -> Option<Zeroizing<[u8; KEY_BYTES]>> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    if text.len() != KEY_BYTES * 2 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_sys::clock::SeededIds;

    #[test]
    fn a_seal_opens_only_for_its_approval_and_unchanged() {
        let keys = Keys::from_key(&[7; KEY_BYTES]);
        let id = ApprovalId::parse("a-1").unwrap();
        let env = EnvOverrides::accepted(BTreeMap::from([("TOKEN".to_owned(), "s3cret".to_owned())]));
        let mut sealed = keys.seal(&id, &env, &SeededIds::default()).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"s3cret"));
        assert_eq!(keys.open(&id, &sealed), Some(env));
        assert_eq!(keys.open(&ApprovalId::parse("a-2").unwrap(), &sealed), None);
        *sealed.last_mut().unwrap() ^= 1;
        assert_eq!(keys.open(&id, &sealed), None);
        assert_eq!(keys.open(&id, b"short"), None);
    }

    #[test]
    fn a_key_file_is_made_once_and_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        let ids = SeededIds::default();
        let (made, new) = Keys::load_or_make(&path, &ids).unwrap();
        assert!(!path.exists());
        new.expect("a new key").keep(&path).unwrap();
        let (read, new) = Keys::load_or_make(&path, &ids).unwrap();
        assert!(new.is_none());
        assert_eq!(made.mac("x"), read.mac("x"));
        assert!(read.is_mac("x", &made.mac("x")) && !read.is_mac("y", &made.mac("x")));
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[test]
    fn a_key_of_the_wrong_form_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.key");
        create_private(&path, b"short\n").unwrap();
        assert!(matches!(Keys::load(&path), Err(OpenError::BadKey { .. })));
    }
}
