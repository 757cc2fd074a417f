//! A node host from its first to its last moment.

use std::{path::Path, sync::Arc};

use countersign_config::{
    approvals::store::DocumentStatus,
    settings::{IpcRole, StateDir},
};
use countersign_domain::{Actor, AgentId};
use countersign_engine::{Unstarted, preset::PresetError, prompter::Prompter};
use countersign_hosts::node::NoNodes;
use countersign_nodes::{
    ipc::OtherUi,
    node::{
        DeviceIdentity, IdentityError, NodeDaemon, NodeEvent, NodeFile, NodeOptions, NodeParts, PolicyNews,
        TellPeople,
    },
};
use countersign_policy::{layers::Layer, preset::PresetReach};
use countersign_sys::clock::{Clock, Ids};
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

use super::{EngineRoom, Opened, Prepared, StartError};
use crate::lifecycle::{self, Signals, Stop};

/// A node does not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The engine behind it does not.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Its identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The policy that was chosen for this machine cannot be set.
    #[error("the policy of this machine cannot be set")]
    Policy(#[from] PresetError),
}

/// Runs a node until it is told to stop, and stops it in order: what runs is killed and reported. `tell` hears of
/// everything that people may want to know. `gives_up` ends it as a signal does.
///
/// # Errors
/// [`NodeError`] when it could not start; stopping is no error.
pub async fn run_node(
    prepared: Prepared,
    options: NodeOptions,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    tell: TellPeople,
    gives_up: CancellationToken,
) -> Result<(), NodeError> {
    let signals = Signals::catch().map_err(|source| StartError::System {
        what: "signals cannot be caught",
        source,
    })?;
    let _log_thread = prepared.log.write_aside().map_err(|source| StartError::System {
        what: "the thread of the log cannot be started",
        source,
    })?;
    let stop = Stop::default();
    let state_dir = prepared.state_dir().clone();
    // First the ledger: its lock says that no other node runs in this directory.
    let opened = Opened::new(prepared, Arc::clone(&clock), Arc::clone(&ids))?;
    let identity = DeviceIdentity::ensure(&state_dir, &*clock, &*ids)?;
    let room = opened
        .into_engine_room(Arc::new(NoNodes), Unstarted::Void)
        .await?;
    let policy = apply_chosen_policy(&room, &state_dir).await?;
    let node = NodeDaemon::new(NodeParts {
        engine: Arc::clone(&room.engine),
        prompter: prompter(&room, &state_dir),
        state_dir,
        options,
        identity,
        clock,
        ids,
        tell,
    })?;
    node.tell_people(&NodeEvent::Started);
    if let Some(news) = policy {
        node.tell_people(&NodeEvent::Policy(news));
    }
    lifecycle::notify(NotifyState::Ready);
    let room = serve(&node, room, signals, (&stop, &gives_up)).await;
    node.tell_people(&NodeEvent::Stopping);
    drop(node);
    room.close().await;
    tracing::info!("stopped");
    Ok(())
}

/// Sets the policy that was chosen for this machine, where it has none; the choice is done with then. What there is to say.
async fn apply_chosen_policy(
    room: &EngineRoom,
    state_dir: &StateDir,
) -> Result<Option<PolicyNews>, NodeError> {
    let file = NodeFile::load(state_dir)?;
    let chosen = file.as_ref().and_then(|file| file.policy);
    let news = match (chosen, has_policy(room)) {
        (Some(preset), false) => {
            let owner = Actor::state_directory();
            room.engine
                .policy_admin()
                .apply_preset(&owner, preset, PresetReach::Defaults)
                .await?;
            PolicyNews::Set(preset)
        }
        (Some(preset), true) => PolicyNews::Kept(preset),
        (None, false) => PolicyNews::Missing,
        (None, true) => return Ok(None),
    };
    if let Some(mut file) = file.filter(|_file| chosen.is_some()) {
        file.policy = None;
        file.save(state_dir)?;
    }
    Ok(Some(news))
}

/// Whether anything says what may run on this machine: its approvals document, or a key of its configuration.
fn has_policy(room: &EngineRoom) -> bool {
    let document = room.engine.policy_admin().document_view().status;
    let settings = room.settings.current();
    let agent = AgentId::main();
    let (security, ask) = (settings.policy.security(&agent), settings.policy.ask(&agent));
    let layers = security.iter().map(|said| said.layer);
    let is_configured = layers
        .chain(ask.iter().map(|said| said.layer))
        .any(|layer| layer != Layer::Default);
    is_configured || !matches!(document, DocumentStatus::Missing)
}

/// The way to a person at this machine: the approvals socket that another process hosts, a server of ours for one. A
/// node never hosts it.
fn prompter(room: &EngineRoom, state_dir: &StateDir) -> Option<Arc<dyn Prompter>> {
    match room.settings.current().server.ipc.role {
        IpcRole::Off => None,
        IpcRole::Auto | IpcRole::Host | IpcRole::Client => Some(Arc::new(OtherUi::new(
            &room.engine,
            room.engine.documents().path().to_path_buf(),
            state_dir.home().map(Path::to_path_buf),
        ))),
    }
}

async fn serve(
    node: &NodeDaemon,
    room: EngineRoom,
    signals: Signals,
    (stop, gives_up): (&Stop, &CancellationToken),
) -> EngineRoom {
    let work = async {
        tokio::select! {
            () = stop.drain.cancelled() => {}
            () = gives_up.cancelled() => {}
        }
        lifecycle::notify(NotifyState::Stopping);
        node.withdraw_questions();
        room.engine.kill_all().await;
        // The connection stands until everything is answered that was asked.
        node.say_goodbye().await;
    };
    let beside = async {
        tokio::join!(
            room.keep(&|| {}),
            signals.follow(stop, || room.reload()),
            lifecycle::feed_watchdog()
        )
    };
    let both = async { tokio::join!(node.keep_connected(), work) };
    tokio::select! {
        ((), ()) = both => {}
        // A second signal: the node leaves unsaid what it still has to say.
        () = stop.abort.cancelled() => {}
        (never, (), _) = beside => match never {},
    }
    room
}
