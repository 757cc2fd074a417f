//! Progress notifications, for clients that asked for them.

use std::{
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};

/// How often a client that waits is told that it does.
const EVERY: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Progress(Option<Channel>);

#[derive(Debug)]
struct Channel {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    /// Must grow with every notification.
    count: Mutex<f64>,
}

impl Progress {
    /// Goes to the client that sent the request, if it asked for progress.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        Self(context.meta.get_progress_token().map(|token| Channel {
            peer: context.peer.clone(),
            token,
            count: Mutex::new(0.0),
        }))
    }

    /// Says how things stand. That the client is gone shows elsewhere.
    pub(super) async fn report(&self, message: String) {
        let Some(Channel { peer, token, count }) = &self.0 else {
            return;
        };
        let number = {
            let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1.0;
            *count
        };
        let note = ProgressNotificationParam::new(token.clone(), number).with_message(message);
        if let Err(error) = peer.notify_progress(note).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }

    /// Waits for `work` and says every now and then what `describe` says.
    pub(super) async fn during<T, Description: Future<Output = String>>(
        &self,
        work: impl Future<Output = T>,
        describe: impl Fn() -> Description,
    ) -> T {
        let mut work = pin!(work);
        loop {
            match tokio::time::timeout(EVERY, &mut work).await {
                Ok(done) => return done,
                Err(_elapsed) if self.0.is_none() => return work.await,
                Err(_elapsed) => self.report(describe().await).await,
            }
        }
    }
}
