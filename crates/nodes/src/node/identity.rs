//! Who this node is: its key, the tokens that gateways gave it, and what it remembers of its gateway.
//!
//! Three files of the state directory, in the shapes of the product's first generation
//! (`docs/spec/bridge.md#53-device-pairing-record-and-files` and `docs/spec/bridge.md#13-ours`). Each is made when it
//! is first needed, with mode 0600. It is refused when another user could have written it or, where it holds a secret,
//! read it: an identity that others know is nobody's.

use std::{
    borrow::Cow,
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use countersign_config::settings::StateDir;
use countersign_domain::Secret;
use countersign_policy::preset::Preset;
use countersign_protocol::bridge::DeviceKey;
use countersign_sys::{
    clock::{Clock, Ids},
    fs::{PRIVATE_FILE, PrivateDirError, ensure_private_dir, open_regular, read_all, replace_file},
};

/// The files are a few hundred bytes.
const MAX_BYTES: usize = 64 * 1024;
/// Rights that nobody but the owner may have.
const OTHERS: u32 = 0o077;
/// The one version of each file that there is.
const VERSION: u64 = 1;
/// The role whose token is a node's.
const ROLE: &str = "node";

/// An identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It could not be read or written.
    #[error("{} cannot be read or written", path.display())]
    Io {
        /// The file that was read or written.
        path: PathBuf,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
    /// Its directory is not ours alone.
    #[error(transparent)]
    Directory(#[from] PrivateDirError),
    /// It belongs to another user.
    #[error("{} belongs to user {owner}", path.display())]
    ForeignOwner {
        /// The file that is not ours.
        path: PathBuf,
        /// The owner's user id, which is not the effective one of this process.
        owner: u32,
    },
    /// Another user may read or write it.
    #[error("{} may be read or written by others (mode {mode:o}); if nobody did, chmod 600 it, else remove it and pair again", path.display())]
    Loose {
        /// The file that others may reach.
        path: PathBuf,
        /// Its permission bits; only the owner may have any.
        mode: u32,
    },
    /// It is not what it should be.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file with the wrong content.
        path: PathBuf,
        /// What is wrong, in words.
        what: &'static str,
    },
}

/// A device with its key.
#[derive(Debug)]
pub struct DeviceIdentity {
    pub(crate) key: DeviceKey,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeviceFile<'a> {
    version: u64,
    device_id: String,
    #[serde(default)]
    public_key_pem: String,
    /// Borrowed from what is wiped.
    private_key_pem: Cow<'a, str>,
    #[serde(default)]
    created_at_ms: i64,
}

impl DeviceIdentity {
    /// Reads the identity of a state directory, or makes one.
    ///
    /// # Errors
    /// [`IdentityError`] when there is one that must not be used.
    pub fn ensure(state_dir: &StateDir, clock: &dyn Clock, ids: &dyn Ids) -> Result<Self, IdentityError> {
        let path = state_dir.device_identity();
        if let Some(bytes) = read_private(&path)? {
            return Self::of_file(&path, &bytes);
        }
        let identity = Self::new(ids);
        identity.save(state_dir, clock)?;
        Ok(identity)
    }

    /// A device that nobody knows yet.
    pub fn new(ids: &dyn Ids) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        ids.secret_bytes(&mut *seed);
        Self {
            key: DeviceKey::from_seed(&seed),
        }
    }

    /// Keeps it in a state directory.
    ///
    /// # Errors
    /// [`IdentityError`] when it cannot be written.
    pub fn save(&self, state_dir: &StateDir, clock: &dyn Clock) -> Result<(), IdentityError> {
        let public = self.key.public();
        let pem = self.key.to_pem();
        let file = DeviceFile {
            version: VERSION,
            device_id: public.device_id().to_string(),
            public_key_pem: public.to_pem(),
            private_key_pem: Cow::Borrowed(&pem),
            created_at_ms: clock.now().get(),
        };
        write_private(&state_dir.device_identity(), &file)
    }

    fn of_file(path: &Path, bytes: &[u8]) -> Result<Self, IdentityError> {
        let content = |what| IdentityError::Content {
            path: path.to_owned(),
            what,
        };
        let file: DeviceFile<'_> =
            serde_json::from_slice(bytes).map_err(|_unnamed| content("this is no device identity"))?;
        if file.version != VERSION {
            return Err(content("this is a device identity of another version"));
        }
        let pem = Zeroizing::new(file.private_key_pem.into_owned());
        let key = DeviceKey::from_pem(&pem).ok_or_else(|| content("privateKeyPem is no Ed25519 key"))?;
        if key.public().device_id().as_str() != file.device_id {
            return Err(content("deviceId is not that of the key"));
        }
        Ok(Self { key })
    }

    /// The device's id, which is the node's id.
    pub fn id(&self) -> String {
        self.key.public().device_id().into()
    }
}

/// The token that a gateway gave this device for the role of a node.
#[derive(Debug)]
pub struct DeviceTokens {
    path: PathBuf,
    device_id: String,
}

impl DeviceTokens {
    /// The tokens of a device in a state directory.
    pub fn of(state_dir: &StateDir, device_id: String) -> Self {
        Self {
            path: state_dir.device_tokens(),
            device_id,
        }
    }

    /// The token, if there is one for this device.
    ///
    /// # Errors
    /// [`IdentityError`] when the file must not be used.
    pub fn load(&self) -> Result<Option<Secret>, IdentityError> {
        let Some(file) = self.file()? else { return Ok(None) };
        let token = file
            .pointer("/tokens/node/token")
            .and_then(Value::as_str)
            .filter(|token| !token.is_empty());
        Ok(token.map(|token| Secret::new(token.to_owned())))
    }

    /// Keeps a token in the place of the one before.
    ///
    /// # Errors
    /// [`IdentityError`] when it cannot be written.
    pub fn store(&self, token: &Secret, scopes: &[String], clock: &dyn Clock) -> Result<(), IdentityError> {
        let mut tokens = self.others()?;
        let entry = json!({
            "token": token.expose(), "role": ROLE, "scopes": scopes, "updatedAtMs": clock.now().get(),
        });
        tokens.insert(ROLE.to_owned(), entry);
        self.write(&tokens)
    }

    /// Forgets the token.
    ///
    /// # Errors
    /// [`IdentityError`] when it cannot be written.
    pub fn forget(&self) -> Result<(), IdentityError> {
        let tokens = self.others()?;
        self.write(&tokens)
    }

    /// The file, unless it is about another device: its tokens are of no use to this one.
    fn file(&self) -> Result<Option<Value>, IdentityError> {
        let Some(bytes) = read_private(&self.path)? else {
            return Ok(None);
        };
        let file: Value = serde_json::from_slice(&bytes).map_err(|_unnamed| IdentityError::Content {
            path: self.path.clone(),
            what: "these are no device tokens",
        })?;
        let is_own = file.get("deviceId").and_then(Value::as_str) == Some(self.device_id.as_str());
        Ok(Some(file).filter(|_file| is_own))
    }

    /// The tokens of other roles.
    fn others(&self) -> Result<Map<String, Value>, IdentityError> {
        let tokens = self
            .file()?
            .and_then(|mut file| file.get_mut("tokens").map(Value::take));
        let mut tokens = match tokens {
            Some(Value::Object(tokens)) => tokens,
            Some(_) | None => Map::new(),
        };
        tokens.remove(ROLE);
        Ok(tokens)
    }

    fn write(&self, tokens: &Map<String, Value>) -> Result<(), IdentityError> {
        write_private(
            &self.path,
            &json!({"version": VERSION, "deviceId": self.device_id, "tokens": tokens}),
        )
    }
}

/// `node.json`: what the node host remembers of its gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeFile {
    version: u64,
    /// A random id of this installation; on the wire the node is called by its device's id.
    pub node_id: String,
    /// A token that the product may have written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Where the gateway is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayEntry>,
    /// The policy that was chosen for this machine, until the node has set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Preset>,
}

/// Where the gateway is, as `node.json` has it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayEntry {
    /// Name or IP address, IPv6 without brackets; `None` while nobody named a gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// TCP port; `None` stands for the default port, 18790.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether it is spoken to over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// SHA-256 of its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_fingerprint: Option<String>,
}

impl NodeFile {
    /// Reads the file of a state directory; `None` when there is none.
    ///
    /// # Errors
    /// [`IdentityError`] when there is one that must not be used.
    pub fn load(state_dir: &StateDir) -> Result<Option<Self>, IdentityError> {
        let path = state_dir.node_json();
        let Some(bytes) = read_private(&path)? else {
            return Ok(None);
        };
        let file: Self = serde_json::from_slice(&bytes).map_err(|_unnamed| IdentityError::Content {
            path: path.clone(),
            what: "this is no node.json",
        })?;
        if file.version != VERSION {
            return Err(IdentityError::Content {
                path,
                what: "this is a node.json of another version",
            });
        }
        Ok(Some(file))
    }

    /// The file of a node that was never started.
    pub fn new(ids: &dyn Ids) -> Self {
        Self {
            version: VERSION,
            node_id: ids.random().to_string(),
            token: None,
            display_name: None,
            gateway: None,
            policy: None,
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`IdentityError`] when it cannot be written.
    pub fn save(&self, state_dir: &StateDir) -> Result<(), IdentityError> {
        write_private(&state_dir.node_json(), self)
    }
}

/// Reads a file that nobody else may have touched; `None` when there is none.
fn read_private(path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, IdentityError> {
    let io = |source| IdentityError::Io {
        path: path.to_owned(),
        source,
    };
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    expect_own(path, &file.metadata().map_err(io)?)?;
    read_all(&file, MAX_BYTES)
        .map(Zeroizing::new)
        .map(Some)
        .map_err(io)
}

fn expect_own(path: &Path, metadata: &Metadata) -> Result<(), IdentityError> {
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(IdentityError::ForeignOwner {
            path: path.to_owned(),
            owner: metadata.uid(),
        });
    }
    if metadata.mode() & OTHERS != 0 {
        return Err(IdentityError::Loose {
            path: path.to_owned(),
            mode: metadata.mode() & 0o7777,
        });
    }
    Ok(())
}

fn write_private(path: &Path, content: &impl Serialize) -> Result<(), IdentityError> {
    let io = |source| IdentityError::Io {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path.parent() {
        ensure_private_dir(directory)?;
    }
    // A link in its place would be replaced; a file of another user is refused before.
    if let Ok(metadata) = fs::symlink_metadata(path) {
        expect_own(path, &metadata)?;
    }
    let mut text = Zeroizing::new(serde_json::to_vec_pretty(content).map_err(|error| io(error.into()))?);
    text.push(b'\n');
    replace_file(path, &text, PRIVATE_FILE).map_err(io)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files of the tests themselves")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use countersign_config::settings::MapEnvironment;
    use countersign_domain::UnixMillis;
    use countersign_sys::clock::{ManualClock, SeededIds};

    struct IdentityFixture {
        _folder: tempfile::TempDir,
        state_dir: StateDir,
        clock: ManualClock,
        ids: SeededIds,
    }

    impl IdentityFixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let state_dir = StateDir::resolve(Some(folder.path()), &MapEnvironment::default()).unwrap();
            Self {
                _folder: folder,
                state_dir,
                clock: ManualClock::at(UnixMillis::new(7)),
                ids: SeededIds::default(),
            }
        }

        fn identity(&self) -> Result<DeviceIdentity, IdentityError> {
            DeviceIdentity::ensure(&self.state_dir, &self.clock, &self.ids)
        }
    }

    #[test]
    fn an_identity_is_made_once_and_is_private() {
        let fixture = IdentityFixture::new();
        let id = fixture.identity().unwrap().id();
        assert_eq!(id.len(), 64);
        let path = fixture.state_dir.device_identity();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fixture.identity().unwrap().id(), id);
        let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(file.get("version"), Some(&json!(1)));
        assert_eq!(file.get("deviceId"), Some(&json!(id)));
        assert_eq!(file.get("createdAtMs"), Some(&json!(7)));
        let pem = |member: &str| file.get(member).and_then(Value::as_str).unwrap().to_owned();
        assert!(pem("publicKeyPem").starts_with("-----BEGIN PUBLIC KEY-----"));
        assert!(pem("privateKeyPem").starts_with("-----BEGIN PRIVATE KEY-----"));
    }

    #[test]
    fn an_identity_that_others_may_know_or_changed_is_refused() {
        let fixture = IdentityFixture::new();
        fixture.identity().unwrap();
        let path = fixture.state_dir.device_identity();
        let text = fs::read_to_string(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            fixture.identity(),
            Err(IdentityError::Loose { mode: 0o640, .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for changed in [
            text.replace("\"deviceId\": \"", "\"deviceId\": \"0"),
            text.replace("\"version\": 1", "\"version\": 2"),
            text.replace("PRIVATE KEY", "SECRET"),
            "{}".to_owned(),
        ] {
            fs::write(&path, changed).unwrap();
            assert!(matches!(fixture.identity(), Err(IdentityError::Content { .. })));
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        assert!(matches!(fixture.identity(), Err(IdentityError::Io { .. })));
    }

    #[test]
    fn a_token_is_kept_for_its_device_alone() {
        let fixture = IdentityFixture::new();
        let tokens = DeviceTokens::of(&fixture.state_dir, "a".repeat(64));
        assert!(tokens.load().unwrap().is_none());
        let secret = Secret::new("device-token".to_owned());
        tokens.store(&secret, &[], &fixture.clock).unwrap();
        assert_eq!(tokens.load().unwrap().unwrap().expose(), "device-token");
        let other = DeviceTokens::of(&fixture.state_dir, "b".repeat(64));
        assert!(other.load().unwrap().is_none());
        tokens.forget().unwrap();
        assert!(tokens.load().unwrap().is_none());
        let file = fs::read_to_string(fixture.state_dir.device_tokens()).unwrap();
        assert!(!file.contains("device-token"), "{file}");
    }

    #[test]
    fn tokens_of_other_roles_stay() {
        let fixture = IdentityFixture::new();
        let path = fixture.state_dir.device_tokens();
        let tokens = DeviceTokens::of(&fixture.state_dir, "a".repeat(64));
        write_private(
            &path,
            &json!({"version": 1, "deviceId": "a".repeat(64), "tokens": {"operator": {"token": "o"}}}),
        )
        .unwrap();
        tokens
            .store(&Secret::new("n".to_owned()), &[], &fixture.clock)
            .unwrap();
        tokens.forget().unwrap();
        let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(file.get("tokens"), Some(&json!({"operator": {"token": "o"}})));
    }

    #[test]
    fn the_node_file_is_read_back() {
        let fixture = IdentityFixture::new();
        assert_eq!(NodeFile::load(&fixture.state_dir).unwrap(), None);
        let mut file = NodeFile::new(&fixture.ids);
        file.display_name = Some("box".to_owned());
        file.gateway = Some(GatewayEntry {
            host: Some("gw.local".to_owned()),
            port: Some(1),
            tls: Some(true),
            tls_fingerprint: None,
        });
        file.save(&fixture.state_dir).unwrap();
        assert_eq!(NodeFile::load(&fixture.state_dir).unwrap(), Some(file));
        let products =
            r#"{"version":1,"nodeId":"x","token":"t","gateway":{"host":"h","port":2,"tls":false}}"#;
        fs::write(fixture.state_dir.node_json(), products).unwrap();
        let read = NodeFile::load(&fixture.state_dir).unwrap().unwrap();
        assert_eq!((read.node_id.as_str(), read.token.as_deref()), ("x", Some("t")));
    }
}
