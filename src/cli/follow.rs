//! Follows the event stream across dropped connections, without loss or repetition.

use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{
    client::{Client, EventStream, Query},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
};

/// How long a server that went away without a word is waited for.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Hands every event to `show` until Ctrl-C, the server's shutdown, or a server that does not come back.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    query: &Query,
    mut stream: EventStream,
    mut show: impl FnMut(&Value) -> Result<(), Failure>,
) -> Result<ExitStatus, Failure> {
    let mut last_id: Option<String> = None;
    loop {
        let event = tokio::select! {
            event = stream.next() => event?,
            _interrupted = tokio::signal::ctrl_c() => return Ok(ExitStatus::SUCCESS),
        };
        let Some(event) = event else {
            stream = reconnect(context, client, query, last_id.as_deref()).await?;
            continue;
        };
        if event.id.is_some() {
            last_id.clone_from(&event.id);
        }
        let data: Value = serde_json::from_str(&event.data).unwrap_or(Value::Null);
        show(&data)?;
        if event.kind == "server.shutdown" {
            context.console.note("the server stopped");
            return Ok(ExitStatus::SUCCESS);
        }
    }
}

async fn reconnect(
    context: &Context,
    client: &Client,
    query: &Query,
    last_id: Option<&str>,
) -> Result<EventStream, Failure> {
    context.console.note("the connection broke; connecting again …");
    let mut tries = 1;
    loop {
        match client.events(query, last_id).await {
            Err(failure) if failure.is_no_connection() && tries < TRIES => {
                tries += 1;
                sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}
