//! The state directory: which one, whether it may be used, and where everything in it lies.

use std::path::{Path, PathBuf};

use countersign_sys::fs::PrivateDirError;

use super::{
    DatabaseUrl, Environment, Server,
    home::{expand_home, home_directory},
    problem::one_line,
};

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Nothing says where it is.
    #[error("no state directory: set --state-dir, OPENCLAW_STATE_DIR or HOME")]
    NoHome,
    /// A relative path leads nowhere, since there is no working directory.
    #[error("{}: cannot be made absolute", shown(.path))]
    Relative {
        /// The path as given, after `~` was expanded.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// It is not ours alone, or cannot be made.
    #[error(transparent)]
    NotPrivate(#[from] PrivateDirError),
    /// We cannot write into it.
    #[error("{}: cannot be written", shown(.path))]
    Unwritable {
        /// The state directory, or one of ours inside it.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
}

fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

/// The state directory and the paths in it. Knowing it does not mean it exists: [`StateDir::prepare`] sees to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
    home: Option<PathBuf>,
    tenant: Tenant,
}

/// Who keeps their own files in a state directory: both may live in one at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tenant {
    /// The server, in `countersign/`.
    Server,
    /// The node host, in `countersign/node/`.
    NodeHost,
}

impl StateDir {
    /// Finds the state directory: the flag, `OPENCLAW_STATE_DIR`, `OPENCLAW_HOME`/.openclaw, `~/.openclaw`.
    ///
    /// # Errors
    /// [`StateDirError::NoHome`] when none of these says where; [`StateDirError::Relative`] when a relative path
    /// cannot be made absolute.
    pub fn resolve(flag: Option<&Path>, environment: &dyn Environment) -> Result<Self, StateDirError> {
        let home = home_directory(environment);
        let named = |name: &str| {
            let text = environment.get(name)?;
            let text = text.trim();
            (!text.is_empty()).then(|| PathBuf::from(text))
        };
        let root = flag
            .map(Path::to_path_buf)
            .or_else(|| named("OPENCLAW_STATE_DIR"))
            .or_else(|| named("OPENCLAW_HOME").map(|home| home.join(".openclaw")))
            .or_else(|| home.as_ref().map(|home| home.join(".openclaw")))
            .ok_or(StateDirError::NoHome)?;
        let root = expand_home(&root, home.as_deref()).ok_or(StateDirError::NoHome)?;
        let root = std::path::absolute(&root).map_err(|source| StateDirError::Relative {
            path: root.clone(),
            source,
        })?;
        Ok(Self {
            root,
            home,
            tenant: Tenant::Server,
        })
    }

    /// The same, or `fallback` when neither the flag nor a variable names one.
    ///
    /// # Errors
    /// As [`StateDir::resolve`].
    pub fn resolve_or(
        flag: Option<&Path>,
        environment: &dyn Environment,
        fallback: &Path,
    ) -> Result<Self, StateDirError> {
        let is_named = ["OPENCLAW_STATE_DIR", "OPENCLAW_HOME"]
            .iter()
            .any(|name| environment.get(name).is_some_and(|text| !text.trim().is_empty()));
        let flag = flag.or_else(|| (!is_named).then_some(fallback));
        Self::resolve(flag, environment)
    }

    /// The same directory, where `~` means another home.
    #[must_use]
    pub fn with_home(self, home: PathBuf) -> Self {
        Self {
            home: Some(home),
            ..self
        }
    }

    /// The same directory as the node host sees it: ledger, run files, output and secrets of its own, in a folder of
    /// its own, with the settings and the policy of everybody else here.
    #[must_use]
    pub fn of_node_host(self) -> Self {
        Self {
            tenant: Tenant::NodeHost,
            ..self
        }
    }

    /// Creates the state directory and ours inside it with mode 0700, or checks those that are there.
    ///
    /// # Errors
    /// [`StateDirError`] when a directory is another user's, writable by others, or cannot be made or written.
    pub fn prepare(&self) -> Result<(), StateDirError> {
        for directory in [
            self.root.clone(),
            self.shared(),
            self.countersign(),
            self.runs(),
            self.output(),
        ] {
            prepare_directory(&directory)?;
        }
        Ok(())
    }

    /// The state directory itself, absolute; it need not exist yet.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home directory that `~` means, when there is one.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The directory of what is ours alone.
    pub fn countersign(&self) -> PathBuf {
        match self.tenant {
            Tenant::Server => self.shared(),
            Tenant::NodeHost => self.shared().join("node"),
        }
    }

    /// The directory of everything that is not the product's.
    fn shared(&self) -> PathBuf {
        self.root.join("countersign")
    }

    /// `countersign.toml`, unless `--config` names another.
    pub fn server_config(&self) -> PathBuf {
        self.shared().join("countersign.toml")
    }

    /// `openclaw.json`, the policy that is shared with the product.
    pub fn config(&self) -> PathBuf {
        self.root.join("openclaw.json")
    }

    /// The approvals document: `[approvals] path`, else `exec-approvals.json` here.
    pub fn document(&self, server: &Server) -> PathBuf {
        server
            .approvals
            .path
            .clone()
            .unwrap_or_else(|| self.root.join("exec-approvals.json"))
    }

    /// The `SQLite` file of the ledger.
    pub fn ledger(&self, server: &Server) -> PathBuf {
        if self.tenant == Tenant::NodeHost {
            // What the settings name is the server's.
            return self.countersign().join("countersign.db");
        }
        let DatabaseUrl::Sqlite(path) = &server.database.url else {
            // A server with another database does not pass the checks of a start.
            return self.countersign().join("countersign.db");
        };
        self.countersign().join(path)
    }

    /// The directory of run files.
    pub fn runs(&self) -> PathBuf {
        self.countersign().join("runs")
    }

    /// The directory of spools.
    pub fn output(&self) -> PathBuf {
        self.countersign().join("output")
    }

    /// Where supervisors of another account wait for a server.
    pub fn attach(&self) -> PathBuf {
        self.countersign().join("attach")
    }

    /// Says under whom a server that runs starts commands, when that is not its own account.
    pub fn commands_account(&self) -> PathBuf {
        self.countersign().join("run-as")
    }

    /// The default working directory.
    pub fn workspace(&self) -> PathBuf {
        self.root.join("workspace")
    }

    /// What says that a preset has to be finished.
    pub fn preset_journal(&self) -> PathBuf {
        self.countersign().join("preset.json")
    }

    /// The last forecast that was saved.
    pub fn forecast(&self) -> PathBuf {
        self.countersign().join("forecast.json")
    }

    /// The approvals document that counts while an edit of it is held.
    pub fn accepted_document(&self) -> PathBuf {
        self.countersign().join("accepted-document.json")
    }

    /// The `openclaw.json` that counts while an edit of it is held.
    pub fn accepted_config(&self) -> PathBuf {
        self.countersign().join("accepted-config.json")
    }

    /// The guards of `countersign.toml` that count until two people loosen them.
    pub fn accepted_guards(&self) -> PathBuf {
        self.countersign().join("accepted-guards.json")
    }

    /// The file of the token with the scopes `read`, `approve` and `admin`.
    pub fn operator_token(&self) -> PathBuf {
        self.countersign().join("operator.token")
    }

    /// Where the owner of this directory offers tokens to the server.
    pub fn token_offers(&self) -> PathBuf {
        self.countersign().join("token-offers")
    }

    /// The file of the token with the scope `exec`.
    pub fn gateway_token(&self) -> PathBuf {
        self.countersign().join("gateway.token")
    }

    /// The file of the token that opens the role *node* of the Bridge.
    pub fn bridge_token(&self) -> PathBuf {
        self.countersign().join("bridge.token")
    }

    /// What the node host remembers of its gateway (`docs/spec/bridge.md#53-device-pairing-record-and-files` and
    /// `docs/spec/bridge.md#13-ours`).
    pub fn node_json(&self) -> PathBuf {
        self.root.join("node.json")
    }

    /// The key of this device.
    pub fn device_identity(&self) -> PathBuf {
        self.root.join("identity/device.json")
    }

    /// The tokens that gateways gave this device.
    pub fn device_tokens(&self) -> PathBuf {
        self.root.join("identity/device-auth.json")
    }

    /// How the node host of this directory stands.
    pub fn node_status(&self) -> PathBuf {
        self.shared().join("node/status.json")
    }

    /// Key of the audit chain.
    pub fn audit_key(&self) -> PathBuf {
        self.countersign().join("audit.key")
    }

    /// Last sealed record of the audit chain.
    pub fn audit_head(&self) -> PathBuf {
        self.countersign().join("audit.head")
    }

    /// Where a running server says how to reach it.
    pub fn server_json(&self) -> PathBuf {
        self.countersign().join("server.json")
    }

    /// The socket of the API, unless it is switched off.
    pub fn api_socket(&self, server: &Server) -> Option<PathBuf> {
        server
            .http
            .unix_socket
            .as_ref()
            .map(|path| self.countersign().join(path))
    }
}

fn prepare_directory(path: &Path) -> Result<(), StateDirError> {
    countersign_sys::fs::ensure_private_dir(path)?;
    // Root may write anywhere but on a read-only file system; this tells in both cases.
    let wanted = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(path, wanted).map_err(|errno| StateDirError::Unwritable {
        path: path.to_path_buf(),
        source: errno.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::MapEnvironment;

    #[test]
    fn a_fallback_counts_only_when_nothing_else_is_named() {
        let resolve = |flag: Option<&str>, variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (*name, *value));
            let environment = MapEnvironment::new(variables);
            let fallback = Path::new("/var/lib/x");
            StateDir::resolve_or(flag.map(Path::new), &environment, fallback)
                .unwrap()
                .root
        };
        let home = ("HOME", "/root");
        assert_eq!(resolve(None, &[home]), Path::new("/var/lib/x"));
        assert_eq!(
            resolve(None, &[home, ("OPENCLAW_STATE_DIR", " ")]),
            Path::new("/var/lib/x")
        );
        assert_eq!(resolve(Some("/flag"), &[home]), Path::new("/flag"));
        assert_eq!(
            resolve(None, &[("OPENCLAW_STATE_DIR", "/named")]),
            Path::new("/named")
        );
        assert_eq!(
            resolve(None, &[("OPENCLAW_HOME", "/h")]),
            Path::new("/h/.openclaw")
        );
    }
}
