//! What a session wrote since it was asked last.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use countersign_domain::{OutputStream, Principal, ProcessKind, ProcessStatus};
use countersign_ledger::ProcessSession;

use super::{MAX_POLL, ProcessError, ProcessReply, Processes, reader::OutputReader};

impl Processes {
    /// The output of a session since this party's last poll. When there is none, waits for some or for the end.
    ///
    /// # Cancel safety
    /// Cancelled, it has told nothing.
    pub(super) async fn poll(
        &self,
        caller: &Principal,
        session: ProcessSession,
        timeout: Duration,
    ) -> Result<ProcessReply, ProcessError> {
        let deadline = Instant::now() + timeout.min(MAX_POLL);
        // A token and the browsers that stand for it are one party.
        let actor = &caller.actor;
        let party = actor.token().map_or_else(|| actor.id.clone(), String::from);
        let polled = self.state.polled(&session.id, party);
        let [mut stdout, mut stderr] = [String::new(), String::new()];
        if let Ok(mut reader) = timeout_at(deadline, polled.lock()).await {
            [stdout, stderr] = self.news(&session, &mut reader, deadline).await?;
        }
        let session = self.session_again(session).await?;
        Ok(ProcessReply::Polled {
            session: Box::new(session),
            stdout,
            stderr,
        })
    }

    async fn news(
        &self,
        session: &ProcessSession,
        reader: &mut OutputReader,
        deadline: Instant,
    ) -> Result<[String; 2], ProcessError> {
        let run_id = &session.run.id;
        let most = self.records.kept_chars().max(1);
        loop {
            // Before the look, so that nothing falls between it and the wait.
            let live = self.live.unfinished(run_id);
            let seen = live.as_ref().map(|live| live.watch_seen());
            let pieces = reader.read(&self.records, run_id, most).await?;
            let is_nothing = pieces.is_empty();
            let [mut stdout, mut stderr] = [String::new(), String::new()];
            for piece in pieces {
                match piece.stream {
                    OutputStream::Stdout => stdout.push_str(&piece.text),
                    OutputStream::Stderr => stderr.push_str(&piece.text),
                }
            }
            if !stdout.is_empty() || !stderr.is_empty() {
                return Ok([stdout, stderr]);
            }
            match (live, seen) {
                (Some(live), Some(mut seen)) => {
                    let change = async {
                        tokio::select! {
                            // The sender lives as long as `live`.
                            _changed = seen.changed() => {}
                            _ended = live.ended() => {}
                        }
                    };
                    if timeout_at(deadline, change).await.is_err() {
                        return Ok([stdout, stderr]);
                    }
                }
                _ if !is_nothing => {}
                _ => {
                    if session.kind == ProcessKind::Leftovers && session.status() == ProcessStatus::Running {
                        // They write nothing any more that is kept.
                        drop(timeout_at(deadline, self.live.is_gone(run_id)).await);
                    }
                    return Ok(reader.finish());
                }
            }
        }
    }
}
