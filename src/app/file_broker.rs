//! A process that looks at files as the account of the commands, and another one when it does not answer any more.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use crate::{
    hosts::peer_fs::{Files, Remote},
    runner::{EyesSource, Runner},
    sys::account::Account,
};

/// How soon a start that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The process that looks, and where the next one comes from.
#[derive(Debug)]
pub(super) struct Sight {
    remote: Arc<Remote>,
    source: EyesSource,
}

impl Sight {
    /// Starts the first one. The runner must be that of the account.
    pub(super) fn of(runner: &Runner, account: &Account) -> io::Result<Self> {
        let source = runner.eyes().ok_or(io::ErrorKind::Unsupported)?;
        let remote = Arc::new(Remote::new(account.identity.uid, account.home.clone()));
        remote.connect(source.start()?)?;
        Ok(Self { remote, source })
    }

    /// The files that it sees.
    pub(super) fn files(&self) -> Files {
        Files::Remote(Arc::clone(&self.remote))
    }

    /// Starts another one whenever one does not answer. Until then nothing is seen and nothing allowed.
    #[expect(clippy::infinite_loop, reason = "it ends with the server, which drops it")]
    pub(super) async fn keep(&self) -> Infallible {
        loop {
            self.remote.disconnected().await;
            let source = self.source.clone();
            let started = tokio::task::spawn_blocking(move || source.start()).await;
            let connected = started
                .map_err(io::Error::other)
                .and_then(|started| self.remote.connect(started?));
            if let Err(error) = connected {
                tracing::error!(%error, "no process can be started that sees files as the account of the commands");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}
