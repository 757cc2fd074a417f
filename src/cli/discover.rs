//! Finds the server and the token (`docs/spec/cli.md#command-line`): flags, then environment, then the state directory.
//!
//! Invariant: a token read from the state directory goes only where the state directory says, and over a socket
//! only after the socket proved to be ours. A program that grabs a port must not be handed a token.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
};

use countersign_config::settings::StateDir;
use countersign_domain::Secret;
use countersign_engine::hint::hint;
use countersign_sys::fs::read_bounded;

use super::{
    client::{Address, Client},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
};

use crate::lifecycle::ServerFile;

/// A token or `server.json` is never larger.
const MAX_FILE_BYTES: usize = 64 * 1024;

/// As whom a command talks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The asker, who asks for commands: `gateway.token`.
    Gateway,
    /// The operator, who decides, reads and changes: `operator.token`.
    Operator,
}

impl Context {
    /// A client for the server that flags, environment or state directory name, with the token that this role uses.
    pub(crate) fn client(&self, role: Role) -> Result<Client, Failure> {
        let url = named_url(self);
        let token = token_for(self, role, url.as_deref())?;
        let address = address_of(self, url)?;
        match token {
            Some(token) => Client::new(&address, token),
            // What answers there says that one is missing.
            None => Client::anonymous(&address),
        }
    }

    /// Whether flags or environment name a server; else it is that of the state directory.
    pub(crate) fn names_a_server(&self) -> bool {
        named_url(self).is_some()
    }
}

/// The token for a server; `None` where nobody gave one, since those of the state directory are for its own server.
fn token_for(context: &Context, role: Role, url: Option<&str>) -> Result<Option<Secret>, Failure> {
    let token = context.server.token.clone();
    let token = token.or_else(|| variable(context, "COUNTERSIGN_TOKEN"));
    match (token, url) {
        (Some(token), _) => Ok(Some(Secret::new(token))),
        (None, Some(url)) if !is_url_of_our_server(&context.state_dir()?, url) => Ok(None),
        (None, _) => token_in(context, role).map(Some),
    }
}

/// A client for the server of the state directory, even if flags or environment name another one.
pub(crate) fn own_client(context: &Context, role: Role) -> Result<Client, Failure> {
    let address = address_of(context, None)?;
    Client::new(&address, token_in(context, role)?)
}

/// A client with this token, for the server of the state directory.
pub(crate) fn client_with(context: &Context, token: &str) -> Result<Client, Failure> {
    Client::new(&address_of(context, None)?, Secret::new(token.to_owned()))
}

/// A client without a token, for what anybody may ask of the server that flags, environment or state directory name.
pub(crate) fn anonymous(context: &Context) -> Result<Client, Failure> {
    Client::anonymous(&address_of(context, named_url(context))?)
}

fn named_url(context: &Context) -> Option<String> {
    let flag = context.server.url.clone();
    flag.or_else(|| variable(context, "COUNTERSIGN_URL"))
}

fn variable(context: &Context, name: &str) -> Option<String> {
    context.environment.get(name).filter(|value| !value.is_empty())
}

fn address_of(context: &Context, url: Option<String>) -> Result<Address, Failure> {
    match url {
        Some(url) => Ok(Address::Url(url)),
        None => address_in(&context.state_dir()?),
    }
}

/// Whether the server of the state directory says that this is its URL.
fn is_url_of_our_server(state_dir: &StateDir, url: &str) -> bool {
    let same = |file: ServerFile| file.url.trim_end_matches('/') == url.trim_end_matches('/');
    read_ours(&state_dir.server_json())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .is_some_and(same)
}

fn address_in(state_dir: &StateDir) -> Result<Address, Failure> {
    let path = state_dir.server_json();
    let file = match read_ours(&path) {
        Ok(bytes) => serde_json::from_slice::<ServerFile>(&bytes)
            .map_err(|error| Failure::unavailable(format!("{} cannot be read: {error}", path.display())))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Failure::unavailable(format!(
                "no server runs on the state directory {}",
                state_dir.root().display()
            ))
            .hint("countersign serve   (starts one; --url or --state-dir names another)"));
        }
        Err(error) => {
            return Err(Failure::unavailable(format!(
                "{} cannot be used: {error}",
                path.display()
            )));
        }
    };
    // The socket, when there is one, and nothing else: falling back to the port would hand the token to
    // any program that took the port after the server died.
    match file.socket {
        Some(socket) => {
            check_socket(&socket)?;
            Ok(Address::Socket(socket))
        }
        None => Ok(Address::Url(file.url)),
    }
}

fn check_socket(path: &Path) -> Result<(), Failure> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(
                Failure::unavailable("the server is gone without having stopped cleanly")
                    .hint("countersign serve"),
            );
        }
        Err(error) => return Err(Failure::unavailable(format!("{}: {error}", path.display()))),
    };
    if !metadata.file_type().is_socket() {
        return Err(Failure::unavailable(format!(
            "{} is not a socket",
            path.display()
        )));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return Err(Failure::unavailable(format!(
            "{} does not belong to you alone, so no token is sent to it",
            path.display()
        )));
    }
    Ok(())
}

fn token_in(context: &Context, role: Role) -> Result<Secret, Failure> {
    let state_dir = context.state_dir()?;
    let path = match role {
        Role::Gateway => state_dir.gateway_token(),
        Role::Operator => {
            refuse_inside_a_run(context)?;
            state_dir.operator_token()
        }
    };
    let bytes = read_ours(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            let hint = match &context.server.state_dir {
                Some(directory) => hint(&["--state-dir", &directory.to_string_lossy(), "serve"]),
                None => hint(&["serve"]),
            };
            let state_dir = state_dir.root().display();
            return Failure::new("no-server", format!("no server has run on {state_dir} yet"))
                .exit(ExitStatus::UNAVAILABLE)
                .hint(hint);
        }
        Failure::new(
            "no-token",
            format!("the token file {} cannot be used: {error}", path.display()),
        )
        .exit(ExitStatus::UNAVAILABLE)
        .advice("give a token with --token or COUNTERSIGN_TOKEN")
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_not_text| Failure::new("no-token", format!("{} holds no token", path.display())))?;
    Ok(Secret::new(text.trim().to_owned()))
}

/// A command that an agent runs must not decide with its operator's credentials
/// (`docs/decisions/0010-who-may-answer.md`). This is a guard rail: the run could read the file itself at the level
/// `same-user`.
pub(crate) fn refuse_inside_a_run(context: &Context) -> Result<(), Failure> {
    if context.environment.get("OPENCLAW_SHELL").as_deref() == Some("exec") {
        return Err(Failure::new(
            "operator-refused",
            "the operator's token is not used from inside a command that an agent runs (OPENCLAW_SHELL=exec)",
        )
        .exit(ExitStatus::DENIED)
        .advice("run this in a terminal of your own, or give a token with --token"));
    }
    Ok(())
}

/// Reads a small private file of ours; refuses one that others could have written.
pub(crate) fn read_ours(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_bounded(path, MAX_FILE_BYTES)?;
    let metadata = fs::symlink_metadata(path)?;
    let owner = metadata.uid();
    if (owner != rustix::process::geteuid().as_raw() && owner != 0) || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it does not belong to you alone",
        ));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, os::unix::net::UnixListener, path::PathBuf, sync::Arc};

    use super::*;
    use countersign_config::settings::MapEnvironment;
    use countersign_sys::fs::create_private_file;

    use crate::cli::{
        console::{ColorChoice, Console, Format},
        context::ServerFlags,
    };

    /// A state directory with tokens and, if wanted, the traces of a server.
    struct TestStateDir {
        folder: tempfile::TempDir,
    }

    impl TestStateDir {
        fn new() -> Self {
            countersign_config::tls::install_provider();
            let test_dir = Self {
                folder: tempfile::tempdir().unwrap(),
            };
            let state_dir = test_dir.context(&[], ServerFlags::default()).state_dir().unwrap();
            state_dir.prepare().unwrap();
            create_private_file(&state_dir.operator_token(), b"operator\n").unwrap();
            create_private_file(&state_dir.gateway_token(), b"gateway\n").unwrap();
            test_dir
        }

        fn context(&self, variables: &[(&str, &str)], flags: ServerFlags) -> Context {
            let environment = Arc::new(MapEnvironment::new(variables.iter().copied()));
            let console = Console::new(Format::People, ColorChoice::Never, environment.as_ref());
            let flags = ServerFlags {
                state_dir: Some(self.folder.path().to_path_buf()),
                ..flags
            };
            Context::new(console, environment, flags)
        }

        fn server(&self, socket: Option<&Path>) {
            let file = ServerFile {
                url: "http://127.0.0.1:1".to_owned(),
                socket: socket.map(Path::to_path_buf),
                pid: 1,
                version: "0".to_owned(),
                started_at_ms: 0,
            };
            let path = self.folder.path().join("countersign/server.json");
            create_private_file(&path, &serde_json::to_vec(&file).unwrap()).unwrap();
        }

        fn socket(&self, mode: u32) -> (PathBuf, UnixListener) {
            let path = self.folder.path().join("countersign/api.sock");
            let listener = UnixListener::bind(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            (path, listener)
        }
    }

    #[track_caller]
    fn refused(context: &Context, role: Role) -> Failure {
        context.client(role).expect_err("a client was made")
    }

    #[test]
    fn without_a_server_it_says_how_to_start_one() {
        let test_dir = TestStateDir::new();
        let failure = refused(&test_dir.context(&[], ServerFlags::default()), Role::Gateway);
        assert_eq!(failure.exit, ExitStatus::UNAVAILABLE);
        assert!(failure.hint.unwrap().contains("countersign serve"));
    }

    #[test]
    fn a_socket_that_others_can_reach_gets_no_token() {
        for (mode, ok) in [(0o600, true), (0o660, false), (0o666, false)] {
            let test_dir = TestStateDir::new();
            let (path, _listener) = test_dir.socket(mode);
            test_dir.server(Some(&path));
            let made = test_dir
                .context(&[], ServerFlags::default())
                .client(Role::Gateway);
            assert_eq!(made.is_ok(), ok, "{mode:o}");
        }
    }

    #[test]
    fn a_file_in_place_of_the_socket_is_refused_and_the_port_is_not_tried() {
        let test_dir = TestStateDir::new();
        let path = test_dir.folder.path().join("countersign/api.sock");
        test_dir.server(Some(&path));
        assert_eq!(
            refused(&test_dir.context(&[], ServerFlags::default()), Role::Gateway).exit,
            ExitStatus::UNAVAILABLE
        );
        create_private_file(&path, b"").unwrap();
        assert_eq!(
            refused(&test_dir.context(&[], ServerFlags::default()), Role::Gateway).exit,
            ExitStatus::UNAVAILABLE
        );
    }

    #[test]
    fn the_operators_token_is_not_used_inside_a_run() {
        let test_dir = TestStateDir::new();
        test_dir.server(None);
        let inside = test_dir.context(&[("OPENCLAW_SHELL", "exec")], ServerFlags::default());
        assert_eq!(refused(&inside, Role::Operator).code, "operator-refused");
        assert!(inside.client(Role::Gateway).is_ok());
        let with_own_token = ServerFlags {
            token: Some("t".to_owned()),
            ..ServerFlags::default()
        };
        assert!(
            test_dir
                .context(&[("OPENCLAW_SHELL", "exec")], with_own_token)
                .client(Role::Operator)
                .is_ok()
        );
    }

    #[test]
    fn tokens_of_the_state_directory_go_to_no_other_url() {
        let test_dir = TestStateDir::new();
        test_dir.server(None);
        let token = |variables: &[(&str, &str)], url| {
            let context = test_dir.context(variables, ServerFlags::default());
            token_for(&context, Role::Operator, url).unwrap().is_some()
        };
        assert!(token(&[], None));
        assert!(token(&[], Some("http://127.0.0.1:1/")));
        assert!(!token(&[], Some("http://127.0.0.1:2")));
        assert!(!token(&[], Some("http://example.com")));
        assert!(token(&[("COUNTERSIGN_TOKEN", "t")], Some("http://example.com")));
    }

    #[test]
    fn a_token_file_that_others_may_write_is_refused() {
        let test_dir = TestStateDir::new();
        test_dir.server(None);
        let token = test_dir.folder.path().join("countersign/operator.token");
        fs::set_permissions(token, fs::Permissions::from_mode(0o622)).unwrap();
        assert_eq!(
            refused(&test_dir.context(&[], ServerFlags::default()), Role::Operator).code,
            "no-token"
        );
    }
}
