//! Which side of the socket this server is on (`docs/spec/ipc.md#2-path-directory-modes`).

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Component, Path},
};

use countersign_config::{approvals::store::StoreError, settings::IpcRole};
use countersign_engine::Engine;

use super::socket_file::{Hosted, SocketFileError, socket_path};

/// The side that was taken.
#[derive(Debug)]
pub enum Joined {
    /// None: it is switched off, or the document is refused.
    Off,
    /// It asks people, and runs what it is asked to.
    Host(Hosted, OwnedFd),
    /// It asks the UI of another process.
    Client,
}

/// Why it is not the host that it should be.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Because of the place.
    #[error(transparent)]
    Place(#[from] SocketFileError),
    /// There is no token, and none can be stored.
    #[error("the approvals socket has no token, and none can be written into the approvals document")]
    Token(#[source] StoreError),
}

/// Takes a side. A host has socket and token when this returns. Blocks.
///
/// # Errors
/// [`JoinError`] when it should be the host and cannot be.
pub fn join(
    engine: &Engine,
    role: IpcRole,
    document: &Path,
    (root, home): (&Path, Option<&Path>),
) -> Result<Joined, JoinError> {
    let named = match role {
        IpcRole::Off => return Ok(Joined::Off),
        IpcRole::Client => return Ok(Joined::Client),
        IpcRole::Auto | IpcRole::Host => engine.socket().named(),
    };
    // Of a document that is refused nothing is believed, and nothing is written into it.
    let Some(named) = named else {
        return Ok(Joined::Off);
    };
    let path = socket_path(named.path.as_deref(), document, home);
    if role == IpcRole::Auto && !lies_in(&path, root) {
        return Ok(Joined::Client);
    }
    let (hosted, listener) = match Hosted::bind(&path, &**engine.clock()) {
        Err(SocketFileError::Hosted) if role == IpcRole::Auto => return Ok(Joined::Client),
        bound => bound?,
    };
    engine.socket().ensure_token().map_err(JoinError::Token)?;
    Ok(Joined::Host(hosted, listener))
}

/// Whether a path lies in a directory, links followed as far as they are there.
fn lies_in(path: &Path, root: &Path) -> bool {
    let Some(parent) = path.parent() else { return false };
    match (fs::canonicalize(parent), fs::canonicalize(root)) {
        (Ok(parent), Ok(root)) => parent.starts_with(root),
        // It is still to be made.
        (Err(_missing), Ok(_)) => {
            let is_plain = |component| !matches!(component, Component::ParentDir);
            parent.starts_with(root) && parent.components().all(is_plain)
        }
        (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_where_it_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, outside) = (scratch.path().join("root"), scratch.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        for (path, lies) in [
            ("s.sock", true),
            ("new/s.sock", true),
            ("link/s.sock", false),
            ("../outside/s.sock", false),
            ("new/../../s.sock", false),
        ] {
            assert_eq!(lies_in(&root.join(path), &root), lies, "{path}");
        }
    }
}
