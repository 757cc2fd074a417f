//! The approvals socket of a server: joined before it is ready, served beside its listeners, and joined again where the
//! approvals document names another place or the socket is gone.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use countersign_config::settings::{IpcRole, StateDir};
use countersign_engine::Engine;
use countersign_nodes::ipc::{self, EngineUi, Host, Hosted, Joined, OtherUi};

/// How often it is looked whether the socket lies where it should.
const LOOK: Duration = Duration::from_secs(2);

/// This server's side of the socket, and what it takes to join it again.
pub(super) struct SocketMembership {
    joined: Joined,
    joiner: SocketJoiner,
}

struct SocketJoiner {
    role: IpcRole,
    root: PathBuf,
    home: Option<PathBuf>,
    document: PathBuf,
    /// Whether it was joined before. The UI that is asked does not change while the server runs: else a program that
    /// unlinks the socket and listens in its place would answer every question.
    was_joined: bool,
    /// What was last told of why it is not hosted.
    reported: Option<String>,
}

/// Why a server that hosted does not become the client of another host.
#[derive(Debug, thiserror::Error)]
#[error(
    "another process has the approvals socket, or the document names one elsewhere; restart to ask over that"
)]
struct TakenOver;

/// Takes the side of the socket that the settings say. What cannot be hosted is told of and does not keep the server from
/// starting.
pub(super) async fn join(
    engine: &Arc<Engine>,
    role: IpcRole,
    state_dir: &StateDir,
    document: &Path,
) -> SocketMembership {
    let mut joiner = SocketJoiner {
        role,
        root: state_dir.root().to_owned(),
        home: state_dir.home().map(Path::to_owned),
        document: document.to_owned(),
        was_joined: false,
        reported: None,
    };
    SocketMembership {
        joined: joiner.join(engine).await,
        joiner,
    }
}

/// Answers at the socket until `stop`, if this server hosts it.
pub(super) async fn serve(engine: Arc<Engine>, membership: SocketMembership, stop: CancellationToken) {
    let SocketMembership {
        mut joined,
        mut joiner,
    } = membership;
    loop {
        match joined {
            Joined::Host(hosted, listener) => {
                let moved = stop.child_token();
                let host = Host::new(
                    EngineUi::new(Arc::clone(&engine)),
                    (Arc::clone(engine.clock()), Arc::clone(engine.ids())),
                    &hosted,
                    Arc::clone(engine.socket().counts()),
                );
                let serving = host.serve(listener, moved.clone());
                let watching = async {
                    joiner.until_elsewhere(&engine, &hosted).await;
                    moved.cancel();
                    std::future::pending::<()>().await;
                };
                let served = tokio::select! {
                    served = serving => served,
                    () = watching => Ok(()),
                };
                // Only now: nobody may find the socket of a host that still answers gone.
                drop(hosted);
                match served {
                    Ok(()) if stop.is_cancelled() => return,
                    // A client that finds no socket concludes that nobody is at home.
                    Ok(()) => {
                        joined = joiner.join(&engine).await;
                        continue;
                    }
                    Err(error) => {
                        tracing::error!(%error, "the approvals socket cannot be served");
                        engine.socket().set_missing(true);
                    }
                }
            }
            Joined::Client => return,
            Joined::Off if joiner.role == IpcRole::Off => return,
            Joined::Off => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        joined = joiner.join(&engine).await;
    }
}

impl SocketJoiner {
    async fn join(&mut self, engine: &Arc<Engine>) -> Joined {
        let joining = {
            let (engine, role) = (Arc::clone(engine), self.role);
            let (document, root, home) = (self.document.clone(), self.root.clone(), self.home.clone());
            tokio::task::spawn_blocking(move || ipc::join(&engine, role, &document, (&root, home.as_deref())))
        };
        let was_joined = std::mem::replace(&mut self.was_joined, true);
        match joining.await {
            Ok(Ok(Joined::Client)) if was_joined => {
                engine.socket().set_missing(true);
                self.tell(&TakenOver);
                Joined::Off
            }
            Ok(Ok(joined)) => {
                engine.socket().set_missing(false);
                self.reported = None;
                if matches!(joined, Joined::Client) {
                    let (document, home) = (self.document.clone(), self.home.clone());
                    engine
                        .prompts()
                        .set_prompter(Arc::new(OtherUi::new(engine, document, home)));
                }
                joined
            }
            Ok(Err(error)) => {
                engine.socket().set_missing(true);
                self.tell(&error);
                Joined::Off
            }
            Err(_panicked) => {
                engine.socket().set_missing(true);
                Joined::Off
            }
        }
    }

    /// Tells why it is not hosted, once for each reason.
    fn tell(&mut self, error: &(dyn std::error::Error + 'static)) {
        let reason = error.to_string();
        if self.reported.as_ref() != Some(&reason) {
            tracing::warn!(
                error,
                "the approvals socket is not hosted; countersign doctor says what to do"
            );
            self.reported = Some(reason);
        }
    }

    /// Ends when the document in force names another place, when it has no token and gets none, or when the socket is
    /// gone. Of a document that is refused nothing is believed.
    async fn until_elsewhere(&self, engine: &Arc<Engine>, hosted: &Hosted) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(named) = engine.socket().named() else {
                continue;
            };
            let path = ipc::socket_path(named.path.as_deref(), &self.document, self.home.as_deref());
            if path != hosted.path() || !hosted.is_in_place() {
                return;
            }
            if named.token.is_none() {
                let engine = Arc::clone(engine);
                let made = tokio::task::spawn_blocking(move || engine.socket().ensure_token());
                if !matches!(made.await, Ok(Ok(_token))) {
                    return;
                }
            }
        }
    }
}
