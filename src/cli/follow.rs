//! Follows the event stream across dropped connections, without loss or repetition.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::{
    client::{Client, Query},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    sse::EventStream,
};

/// How long a server that went away without a word is waited for.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Hands every event to `show` until Ctrl-C, the server's shutdown, or a server that does not come back.
pub(crate) async fn follow(
    context: &Context,
    client: &Client,
    query: &Query,
    stream: EventStream,
    mut show: impl AsyncFnMut(&Value) -> Result<(), Failure>,
) -> Result<ExitStatus, Failure> {
    let mut follower = Follower::new(context, client, query, stream);
    // Of all the time: one that comes together with an event is seen after it.
    let mut interrupted = signal(SignalKind::interrupt())?;
    loop {
        let event = tokio::select! {
            event = follower.next() => event?,
            _interrupted = interrupted.recv() => return Ok(ExitStatus::SUCCESS),
        };
        show(&event.data).await?;
        if event.is_shutdown {
            context.console.note("the server stopped");
            return Ok(ExitStatus::SUCCESS);
        }
    }
}

/// The events of a stream one after the other, even when the connection breaks.
pub(crate) struct Follower<'a> {
    context: &'a Context,
    client: &'a Client,
    query: &'a Query,
    stream: EventStream,
    last_id: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) data: Value,
    /// Whether it says that the server stops: nothing comes after it.
    pub(crate) is_shutdown: bool,
}

impl<'a> Follower<'a> {
    /// Follows a stream that was opened with `query`.
    pub(crate) fn new(
        context: &'a Context,
        client: &'a Client,
        query: &'a Query,
        stream: EventStream,
    ) -> Self {
        Self {
            context,
            client,
            query,
            stream,
            last_id: None,
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// What the server, or its not coming back, says.
    ///
    /// # Cancel safety
    /// Cancel safe: an event that was taken from the stream is returned without another wait.
    pub(crate) async fn next(&mut self) -> Result<Followed, Failure> {
        loop {
            let Some(event) = self.stream.next().await? else {
                self.stream = self.reconnect().await?;
                continue;
            };
            if !event.id.is_empty() {
                self.last_id = Some(event.id);
            }
            return Ok(Followed {
                data: serde_json::from_str(&event.data).unwrap_or(Value::Null),
                is_shutdown: event.event == "server.shutdown",
            });
        }
    }

    async fn reconnect(&self) -> Result<EventStream, Failure> {
        self.context
            .console
            .note("the connection broke; connecting again …");
        let mut tries = 1;
        loop {
            match self.client.events(self.query, self.last_id.as_deref()).await {
                Err(failure) if failure.is_no_connection() && tries < TRIES => {
                    tries += 1;
                    sleep(PAUSE).await;
                }
                other => return other,
            }
        }
    }
}
