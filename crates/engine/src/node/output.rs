//! From what a node answered to the end of the run and its output.

use std::time::Duration;

use countersign_domain::{KillCause, OutputStream, Reason, RunEnd, RunId, RunStatus, UnixMillis};
use countersign_hosts::node::answers::{self, RunAnswer};
use countersign_ledger::RunOutput;
use countersign_runner::{INLINE_BYTES, InlineFrames, output::Capture};
use countersign_sys::fs::{PRIVATE_FILE, replace_file};

use super::NodeRuns;

use crate::{
    capture,
    outcome::{self, OutputSummary},
};

/// The output of a run that a node sent whole.
#[derive(Debug)]
pub(super) struct SentOutput {
    pub(super) summary: OutputSummary,
    pub(super) bytes: u64,
    pub(super) kept: RunOutput,
}

/// The end of a run that a node answered for. `killed` is why it was told to end it, if it was.
pub(super) fn end_of_answer(
    answer: &RunAnswer,
    killed: Option<KillCause>,
    timeout: Option<Duration>,
    sent: &SentOutput,
    now: UnixMillis,
) -> RunEnd {
    let (status, reason, detail) = classify(answer, killed, timeout);
    RunEnd {
        exit_code: answer.exit_code,
        exit_signal: answer.signal.clone(),
        timed_out: answer.timed_out,
        output_bytes: sent.bytes,
        status,
        reason,
        ..outcome::end_without_exit(
            reason.unwrap_or(Reason::SpawnFailed),
            detail,
            sent.summary.clone(),
            now,
        )
    }
}

/// The end of a run whose fence was taken by the question about it.
pub(super) fn void(now: UnixMillis) -> RunEnd {
    let detail = Some("the node never started it".to_owned());
    outcome::end_without_exit(Reason::NotStarted, detail, OutputSummary::default(), now)
}

fn classify(
    answer: &RunAnswer,
    killed: Option<KillCause>,
    timeout: Option<Duration>,
) -> (RunStatus, Option<Reason>, Option<String>) {
    if answer.timed_out || (answer.exit_code.is_none() && killed == Some(KillCause::Timeout)) {
        let limit = timeout.map_or_else(
            || "killed by the node's own time limit".to_owned(),
            |limit| format!("killed by its time limit of {} s", limit.as_secs_f64()),
        );
        return (RunStatus::Failed, Some(Reason::Timeout), Some(limit));
    }
    match (answer.exit_code, killed) {
        (Some(0), _) => (RunStatus::Completed, None, None),
        (Some(_), _) => (RunStatus::Failed, None, None),
        (None, Some(KillCause::Shutdown)) => (RunStatus::Cancelled, Some(Reason::Shutdown), None),
        (None, Some(KillCause::Stopped)) => (RunStatus::Cancelled, Some(Reason::Stopped), None),
        (None, Some(KillCause::Cancelled | KillCause::Timeout)) => {
            (RunStatus::Cancelled, Some(Reason::Cancelled), None)
        }
        (None, None) if answer.success => (RunStatus::Completed, None, None),
        (None, None) if answer.signal.is_some() => (RunStatus::Failed, None, None),
        (None, None) => match &answer.error {
            Some(error) => (
                RunStatus::Failed,
                Some(Reason::SpawnFailed),
                Some(answers::not_started(error)),
            ),
            None => (
                RunStatus::Failed,
                None,
                Some("a signal ended it, which the node does not name".to_owned()),
            ),
        },
    }
}

impl NodeRuns {
    /// Keeps the output that came with an answer: here while it is small, else in a spool as that of every run.
    pub(super) async fn keep_sent_output(&self, run_id: &RunId, answer: &RunAnswer) -> SentOutput {
        let limits = capture::limits(&self.settings);
        let max_bytes = self.settings.current().server.output.max_run_bytes;
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let mut capture = Capture::new(limits);
        let mut frames = InlineFrames::default();
        let mut room = max_bytes;
        let mut is_cut = answer.truncated;
        for (stream, text) in streams(answer) {
            capture.push(stream, text.as_bytes());
            let kept = text.as_bytes().get(..room.min(text.len())).unwrap_or_default();
            is_cut |= kept.len() < text.len();
            room -= kept.len();
            frames.push(stream, kept);
        }
        capture.finish();
        let summary = OutputSummary {
            truncated: is_cut || capture.truncated(),
            tail: capture.tail(limits.tail_chars),
        };
        let bytes = capture.bytes();
        let kept = if usize::try_from(frames.payload()).unwrap_or(usize::MAX) > INLINE_BYTES {
            self.write_spool(run_id, frames).await
        } else {
            RunOutput::Inline(frames.into_bytes())
        };
        SentOutput { summary, bytes, kept }
    }

    async fn write_spool(&self, run_id: &RunId, frames: InlineFrames) -> RunOutput {
        let (path, bytes) = (self.gateway.spool(run_id), frames.into_bytes());
        let written = tokio::task::spawn_blocking(move || {
            let written = replace_file(&path, &bytes, PRIVATE_FILE);
            (written, bytes)
        });
        match written.await {
            Ok((Ok(()), _bytes)) => RunOutput::Spooled,
            Ok((Err(error), bytes)) => {
                tracing::error!(run.id = %run_id, error = %error, "output of a node cannot be spooled; the beginning is kept");
                RunOutput::Inline(bytes)
            }
            Err(_panicked) => RunOutput::Inline(Vec::new()),
        }
    }
}

/// Both streams in the order in which they are shown: which of them wrote when is not sent.
pub(super) fn streams(answer: &RunAnswer) -> [(OutputStream, &str); 2] {
    [
        (OutputStream::Stdout, answer.stdout.as_str()),
        (OutputStream::Stderr, answer.stderr.as_str()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> RunAnswer {
        RunAnswer::default()
    }

    #[track_caller]
    fn check(answer: &RunAnswer, killed: Option<KillCause>, status: RunStatus, reason: Option<Reason>) {
        let limit = Some(Duration::from_secs(5));
        let sent = SentOutput {
            summary: OutputSummary::default(),
            bytes: 3,
            kept: RunOutput::Inline(Vec::new()),
        };
        let end = end_of_answer(answer, killed, limit, &sent, UnixMillis::new(9));
        assert_eq!(
            (end.status, end.reason),
            (status, reason),
            "{answer:?} {killed:?}"
        );
        assert_eq!((end.exit_code, end.output_bytes), (answer.exit_code, 3));
        if let Some(reason) = end.reason {
            // A stop ends what had started as `cancelled`, and what had not as `denied`.
            let status = if reason == Reason::Stopped {
                RunStatus::Cancelled
            } else {
                reason.run_status()
            };
            assert_eq!(status, end.status);
        }
    }

    #[test]
    fn exits_timeouts_signals_and_failed_starts_become_ends() {
        let exited = |code| RunAnswer {
            exit_code: Some(code),
            success: code == 0,
            ..answer()
        };
        check(&exited(0), None, RunStatus::Completed, None);
        check(&exited(3), None, RunStatus::Failed, None);
        // It had ended by itself before the kill arrived.
        check(&exited(0), Some(KillCause::Cancelled), RunStatus::Completed, None);
        let late = RunAnswer {
            exit_code: Some(124),
            timed_out: true,
            ..answer()
        };
        check(&late, None, RunStatus::Failed, Some(Reason::Timeout));
        let late_without_code = RunAnswer {
            exit_code: None,
            ..late
        };
        check(&late_without_code, None, RunStatus::Failed, Some(Reason::Timeout));
        let missing = RunAnswer {
            error: Some("spawn x ENOENT".to_owned()),
            ..answer()
        };
        check(&missing, None, RunStatus::Failed, Some(Reason::SpawnFailed));
        let killed = RunAnswer {
            signal: Some("SIGKILL".to_owned()),
            ..answer()
        };
        check(&killed, None, RunStatus::Failed, None);
        check(&answer(), None, RunStatus::Failed, None);
        for (cause, reason) in [
            (KillCause::Cancelled, Reason::Cancelled),
            (KillCause::Shutdown, Reason::Shutdown),
            (KillCause::Stopped, Reason::Stopped),
        ] {
            check(&answer(), Some(cause), RunStatus::Cancelled, Some(reason));
            check(&missing, Some(cause), RunStatus::Cancelled, Some(reason));
        }
    }
}
