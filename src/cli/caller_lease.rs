//! The command line's side of a caller lease: what a command asked for ends with it (`POST /v1/exec`, `held`).
//!
//! The server notices that a connection broke, and nothing else tells it that a process was killed. So one call stays open
//! for as long as the command waits, and is repeated under the same key. It must never begin a second run. The server's
//! side: `engine/caller_lease.rs`.

use std::time::Duration;

use serde_json::Value;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time::sleep,
};

use countersign_wire::exec::{Answered, Started};

use super::{
    client::{Client, EndsWithCaller},
    exit::ExitStatus,
    failure::Failure,
};

/// The longest that one call waits.
const WAIT: Duration = Duration::from_mins(10);
/// Pause before a broken connection is tried again. The server allows 3 s.
const PAUSE: Duration = Duration::from_millis(500);

/// A call under a lease, which is given up when this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct CallerLease(JoinHandle<()>);

impl CallerLease {
    /// Keeps the lease of what a call of `POST /v1/exec` began. Its first answer came a moment ago.
    pub(crate) fn begin(client: &Client, body: &Value, key: &str, held: EndsWithCaller) -> Self {
        let (client, body, key) = (client.clone(), body.clone(), key.to_owned());
        Self(tokio::spawn(async move {
            while goes_on(
                client.post_held(&["v1", "exec"], &body, &key, (held, WAIT)).await,
                held,
            )
            .await
            {}
        }))
    }
}

impl Drop for CallerLease {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn goes_on(answer: Result<Answered, Failure>, held: EndsWithCaller) -> bool {
    match answer {
        Ok(Answered::Started(Started::Pending(_))) => true,
        Ok(Answered::Started(Started::Running(_))) => held == EndsWithCaller::Run,
        Err(failure) if failure.is_no_connection() => {
            sleep(PAUSE).await;
            true
        }
        Ok(Answered::Finished(_)) | Err(_) => false,
    }
}

/// The signals that end a command.
#[derive(Debug)]
pub(crate) struct Endings {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Endings {
    /// Listens from now on. A signal that this process was started to ignore (`nohup`) stays ignored.
    pub(crate) fn listen() -> Self {
        let ignored = ignored();
        let listen = |kind: SignalKind| {
            let bit = u32::try_from(kind.as_raw_value() - 1).ok()?;
            let is_ignored = 1_u64.checked_shl(bit).is_some_and(|bit| ignored & bit != 0);
            if is_ignored { None } else { signal(kind).ok() }
        };
        Self {
            interrupt: listen(SignalKind::interrupt()),
            terminate: listen(SignalKind::terminate()),
            hang_up: listen(SignalKind::hangup()),
        }
    }

    /// Waits for the first of them; the code that a shell gives a command that it ended.
    ///
    /// # Cancel safety
    /// A signal that came while nobody waited is seen by the next call.
    pub(crate) async fn next(&mut self) -> ExitStatus {
        tokio::select! {
            () = received(self.interrupt.as_mut()) => ExitStatus::INTERRUPTED,
            () = received(self.terminate.as_mut()) => ExitStatus::TERMINATED,
            () = received(self.hang_up.as_mut()) => ExitStatus::HUNG_UP,
        }
    }
}

async fn received(signal: Option<&mut Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

/// The signals that this process ignores, one bit each; none where that cannot be read.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
