//! The approvals socket of a server: joined before it is ready, served beside its listeners.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use crate::{
    engine::Engine,
    ipc::{self, Desk, Host, Joined, OtherUi},
    settings::{IpcRole, StateDir},
};

/// Takes the side of the socket that the settings say. What cannot be hosted is told of and does not keep the server from
/// starting.
pub(super) async fn join(
    engine: &Arc<Engine>,
    role: IpcRole,
    state_dir: &StateDir,
    document: &Path,
) -> Joined {
    let (document, root) = (document.to_owned(), state_dir.root().to_owned());
    let home: Option<PathBuf> = state_dir.home().map(Path::to_owned);
    let joining = {
        let (engine, document, home) = (Arc::clone(engine), document.clone(), home.clone());
        tokio::task::spawn_blocking(move || ipc::join(&engine, role, &document, (&root, home.as_deref())))
    };
    match joining.await {
        Ok(Ok(Joined::Client)) => {
            engine.set_prompter(Arc::new(OtherUi::new(engine, document, home)));
            Joined::Client
        }
        Ok(Ok(joined)) => joined,
        Ok(Err(error)) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the approvals socket is not hosted; countersign doctor says what to do"
            );
            engine.miss_socket();
            Joined::Off
        }
        Err(_panicked) => {
            engine.miss_socket();
            Joined::Off
        }
    }
}

/// Answers at the socket until `stop`, if this server hosts it.
pub(super) async fn serve(engine: Arc<Engine>, joined: Joined, stop: CancellationToken) {
    let (hosted, listener) = match joined {
        Joined::Host(hosted, listener) => (hosted, listener),
        Joined::Client | Joined::Off => return,
    };
    let host = Host::new(
        Desk::new(Arc::clone(&engine)),
        (Arc::clone(engine.clock()), Arc::clone(engine.ids())),
        &hosted,
        Arc::clone(engine.socket_counts()),
    );
    if let Err(error) = host.serve(listener, stop).await {
        tracing::error!(%error, "the approvals socket cannot be served");
        engine.miss_socket();
    }
    // Only now: nobody may find the socket of a host that still answers gone.
    drop(hosted);
}
