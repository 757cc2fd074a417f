//! Publishes sealed heads of the audit chain to the system log, so that a history that is rewritten with the key can
//! be told from the one that happened (`docs/decisions/0010-who-may-answer.md`).
//!
//! Never waits and never queues: a log that does not take the newest head gets the next one. Entry point:
//! [`Witness::follow`].

use std::{
    convert::Infallible,
    io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use countersign_ledger::audit::{SealedHead, published};

/// Where every system log listens.
const SYSTEM_LOG: &str = "/dev/log";
/// How often heads are published at most.
const INTERVAL: Duration = Duration::from_secs(10);
/// Facility authpriv, severity info.
const PRIORITY: u8 = (10 << 3) | 6;

/// The one who tells the system log.
#[derive(Debug)]
pub(super) struct Witness {
    log: PathBuf,
    heads: watch::Receiver<SealedHead>,
    published: i64,
    has_failed: bool,
}

impl Witness {
    /// Publishes these heads to the system log, if there is one.
    pub(super) fn new(heads: watch::Receiver<SealedHead>) -> Self {
        Self::to(Path::new(SYSTEM_LOG), heads)
    }

    fn to(log: &Path, heads: watch::Receiver<SealedHead>) -> Self {
        Self {
            log: log.to_owned(),
            heads,
            published: 0,
            has_failed: false,
        }
    }

    /// Publishes every new head, the newest one at most every ten seconds, until it is dropped.
    #[expect(
        clippy::infinite_loop,
        reason = "it ends when the server stops, which drops it"
    )]
    pub(super) async fn follow(&mut self) -> Infallible {
        loop {
            self.tell();
            sleep_until(Instant::now() + INTERVAL).await;
            if self.heads.changed().await.is_err() {
                // The ledger is closed; its last head is told after that.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Publishes the newest head unless it was already.
    pub(super) fn tell(&mut self) {
        let head = self.heads.borrow_and_update().clone();
        if head.seq <= self.published {
            return;
        }
        match send(&self.log, &head) {
            Ok(()) => {
                self.published = head.seq;
                self.has_failed = false;
            }
            // Said once, not every time: containers often have no system log.
            Err(error) if !self.has_failed => {
                self.has_failed = true;
                tracing::info!(
                    error = &error as &dyn std::error::Error,
                    log = %self.log.display(),
                    "the system log does not take heads of the audit record"
                );
            }
            Err(_again) => {}
        }
    }
}

fn send(log: &Path, head: &SealedHead) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let line = format!(
        "<{PRIORITY}>countersign[{}]: {}",
        std::process::id(),
        published(head)
    );
    socket.send_to(line.as_bytes(), log).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::UnixMillis;
    use countersign_ledger::audit::read_witness;

    fn head(seq: i64) -> SealedHead {
        SealedHead {
            seq,
            hash: format!("{seq:064x}"),
            sealed_at: UnixMillis::new(seq),
        }
    }

    /// The heads that have arrived.
    fn received(log: &UnixDatagram) -> Vec<i64> {
        let mut seqs = Vec::new();
        let mut datagram = [0; 4096];
        log.set_nonblocking(true).unwrap();
        while let Ok(length) = log.recv(&mut datagram) {
            let text = std::str::from_utf8(&datagram[..length]).unwrap();
            assert!(text.starts_with("<86>countersign["), "{text}");
            for head in read_witness(text.as_bytes()).unwrap() {
                assert_eq!(head.hash, format!("{:064x}", head.seq));
                seqs.push(head.seq);
            }
        }
        seqs
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_head_is_published_now_and_then() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        let (heads, seen) = watch::channel(head(3));
        let mut witness = Witness::to(&path, seen);
        let follow = tokio::time::timeout(INTERVAL * 3, async {
            tokio::join!(witness.follow(), async {
                for seq in 4..=20 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    heads.send_replace(head(seq));
                }
            })
        });
        assert!(follow.await.is_err());
        let told = received(&log);
        assert!(
            matches!(told[..], [3, 12 | 13, 20]),
            "one at most every ten seconds: {told:?}"
        );
        heads.send_replace(head(21));
        witness.tell();
        witness.tell();
        assert_eq!(received(&log), [21]);
    }

    #[tokio::test]
    async fn a_log_that_is_not_there_or_full_holds_nothing_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let (heads, seen) = watch::channel(head(1));
        let mut witness = Witness::to(&path, seen);
        witness.tell();
        let log = UnixDatagram::bind(&path).unwrap();
        for seq in 2..5000 {
            heads.send_replace(head(seq));
            witness.tell();
        }
        let received = received(&log);
        assert!(
            !received.is_empty() && received.len() < 4998,
            "{}",
            received.len()
        );
        witness.tell();
        assert_eq!(
            self::received(&log),
            [4999],
            "the newest one is told as soon as there is room"
        );
    }
}
