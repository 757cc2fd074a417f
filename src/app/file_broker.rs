//! The file broker of a server: one process that opens files as the account of the commands, and another one whenever
//! one does not answer any more.
//!
//! It starts brokers and must never decide what an access that failed means: until there is a broker again, nothing can
//! be read and nothing is allowed. What a broker does, and how it is asked, is in [`countersign_hosts::peer_fs`].

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use countersign_hosts::peer_fs::{Files, Remote};
use countersign_runner::{FileBrokerSource, Runner};
use countersign_sys::account::Account;

/// How soon a start that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The connection to the broker, and where the next broker comes from.
#[derive(Debug)]
pub(super) struct FileBroker {
    remote: Arc<Remote>,
    source: FileBrokerSource,
}

impl FileBroker {
    /// Starts the first one. The runner must be that of the account.
    pub(super) fn of(runner: &Runner, account: &Account) -> io::Result<Self> {
        let source = runner.file_broker().ok_or(io::ErrorKind::Unsupported)?;
        let remote = Arc::new(Remote::new(account.identity.uid, account.home.clone()));
        remote.connect(source.start()?)?;
        Ok(Self { remote, source })
    }

    /// The files as the broker sees them.
    pub(super) fn files(&self) -> Files {
        Files::Remote(Arc::clone(&self.remote))
    }

    /// Starts another one whenever one does not answer. Until then nothing can be read and nothing is allowed.
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
                tracing::error!(%error, "the file broker of the account of the commands cannot be started");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}
