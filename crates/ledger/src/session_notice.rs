//! What the session of a run is told about it.

use countersign_domain::{Actor, Host, RunId};

use crate::events::{Event, EventKind, Subject, system_text::RunHost};

use super::{error::Fault, run_rows, tx::Tx};

/// Tells the session of a run that the run has ended, and asks for its agent's attention if nobody waits for the run.
/// Of a run that a caller waits for, the session is told only if the run is on a node: every run there is told of
/// (`docs/spec/bridge.md#13-ours`).
pub(super) fn tell_session(tx: &mut Tx<'_>, id: &RunId, text: &str, is_session: bool) -> Result<(), Fault> {
    let run = run_rows::brief(tx.connection, id)?;
    let Some(run) = run.filter(|run| is_session || run.subject.host == Some(Host::Node)) else {
        return Ok(());
    };
    let told = EventKind::SystemEvent {
        text: text.to_owned(),
    };
    let wake = EventKind::SessionWake {
        system_event: text.to_owned(),
    };
    for kind in [Some(told), is_session.then_some(wake)].into_iter().flatten() {
        let subject = run.subject.clone();
        tx.log(Event { subject, kind }, &Actor::system())?;
    }
    Ok(())
}

/// Tells a session something.
pub(super) fn tell(tx: &mut Tx<'_>, subject: Subject, text: String) -> Result<(), Fault> {
    let kind = EventKind::SystemEvent { text };
    tx.log(Event { subject, kind }, &Actor::system())
}

/// Where the run of an event is.
pub(super) fn run_host_of(subject: &Subject) -> RunHost<'_> {
    RunHost {
        host: subject.host.unwrap_or(Host::Gateway),
        node_id: subject.node_id.as_deref(),
    }
}
