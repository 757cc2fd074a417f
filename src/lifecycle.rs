//! The life of a server from outside: signals, systemd, and the file that says where it is.
//!
//! Stopping is soft, then hard. SIGTERM or SIGINT once: no new runs, what runs gets its grace. Twice: everything
//! is killed. SIGHUP looks at the settings again.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use sd_notify::NotifyState;
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use countersign_sys::fs::{PRIVATE_FILE, read_bounded, replace_passing_file};

/// `server.json` is a few hundred bytes.
const MAX_SERVER_FILE_BYTES: usize = 64 * 1024;

/// The two stages of stopping, for everybody who has to take part.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    /// Take nothing new and finish.
    pub drain: CancellationToken,
    /// Cancelled by the second signal: everything that runs is killed.
    pub abort: CancellationToken,
}

/// The signals that a server follows, already caught.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Catches the signals. From here on none of them ends the process by itself.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Follows the signals until everything is to end: `reload` at each SIGHUP, [`Stop::drain`] at the first
    /// SIGTERM or SIGINT, [`Stop::abort`] at the second.
    ///
    /// # Cancel safety
    /// Cancel safe; a signal that comes while nobody waits is seen by the next wait.
    pub async fn follow(mut self, stop: &Stop, reload: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.hangup.recv() => reload(),
                _ = self.terminate.recv() => stop.advance(),
                _ = self.interrupt.recv() => stop.advance(),
            }
            if stop.abort.is_cancelled() {
                return;
            }
        }
    }
}

impl Stop {
    fn advance(&self) {
        if self.drain.is_cancelled() {
            tracing::warn!("told to stop again: everything that runs is killed");
            self.abort.cancel();
        } else {
            tracing::info!("told to stop");
            self.drain.cancel();
        }
    }
}

/// Tells systemd; without systemd nothing happens.
pub fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "systemd could not be notified");
    }
}

/// Answers systemd's watchdog at twice the asked rate; never returns when there is none.
#[expect(
    clippy::infinite_loop,
    reason = "it ends when the server stops, which drops it"
)]
pub async fn feed_watchdog() -> std::convert::Infallible {
    let Some(deadline) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval((deadline / 2).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        notify(NotifyState::Watchdog);
    }
}

/// Where a running server can be reached: `countersign/server.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerFile {
    /// URL of the API over TCP with the bound IP address, without a slash at the end.
    pub url: String,
    /// Its socket, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Process id of the server; in a stale file, of a process that is gone.
    pub pid: u32,
    /// Version of the program that serves.
    pub version: String,
    /// Unix time in milliseconds at which the server began to start.
    pub started_at_ms: i64,
}

impl ServerFile {
    /// Reads what a server wrote.
    ///
    /// # Errors
    /// `NotFound` when there is no file; `InvalidData` when it is none of ours.
    pub fn read(path: &Path) -> io::Result<Self> {
        let bytes = read_bounded(path, MAX_SERVER_FILE_BYTES)?;
        serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Writes it, mode 0600, and returns a guard that removes it on a clean stop.
    ///
    /// # Errors
    /// What the file system answers.
    pub fn write(&self, path: &Path) -> io::Result<WrittenServerFile> {
        let text = serde_json::to_vec(self).map_err(io::Error::from)?;
        // Another start writes it anew, so a crash of the machine may take it.
        replace_passing_file(path, &text, PRIVATE_FILE)?;
        Ok(WrittenServerFile {
            path: path.to_path_buf(),
        })
    }

    /// The address in its URL.
    pub fn address(&self) -> Option<SocketAddr> {
        self.url
            .strip_prefix("http://")
            .or_else(|| self.url.strip_prefix("https://"))?
            .trim_end_matches('/')
            .parse()
            .ok()
    }
}

/// The file of this server; dropping it removes the file.
#[derive(Debug)]
#[must_use]
pub struct WrittenServerFile {
    path: PathBuf,
}

impl Drop for WrittenServerFile {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, "server.json could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_signal_drains_and_the_second_aborts() {
        let stop = Stop::default();
        stop.advance();
        assert!(stop.drain.is_cancelled() && !stop.abort.is_cancelled());
        stop.advance();
        assert!(stop.abort.is_cancelled());
    }

    #[test]
    fn the_server_file_is_private_and_goes_with_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.json");
        let file = ServerFile {
            url: "http://127.0.0.1:18790".to_owned(),
            socket: Some("/state/countersign/api.sock".into()),
            pid: 7,
            version: "0.1.0".to_owned(),
            started_at_ms: 1,
        };
        let written = file.write(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ServerFile::read(&path).unwrap(), file);
        assert_eq!(file.address(), Some(([127, 0, 0, 1], 18790).into()));
        drop(written);
        assert_eq!(
            ServerFile::read(&path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_foreign_server_file_is_no_server() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.json");
        replace_passing_file(&path, b"{}", PRIVATE_FILE).unwrap();
        assert_eq!(
            ServerFile::read(&path).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
