//! Exit codes (`docs/spec/cli.md#exit-codes`): scripts branch on them, so each has one meaning.

use std::{borrow::Cow, process::ExitCode};

use countersign_wire::{exec::Finished, run::RunDetail, words::Reason};

/// What a run came to: an exec answer says it, and the run itself.
#[derive(Debug, Default)]
pub(crate) struct RunEnd {
    pub(crate) run_id: String,
    pub(crate) status: Cow<'static, str>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) exit_signal: Option<String>,
    pub(crate) timed_out: bool,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<String>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) output_bytes: u64,
}

impl From<Finished> for RunEnd {
    fn from(answer: Finished) -> Self {
        Self {
            run_id: answer.run_id.into(),
            status: answer.status,
            exit_code: answer.exit_code,
            exit_signal: answer.exit_signal,
            timed_out: answer.timed_out,
            reason: answer.reason,
            detail: answer.detail,
            stdout: answer.stdout,
            stderr: answer.stderr,
            output_bytes: answer.output_bytes,
        }
    }
}

impl From<RunDetail> for RunEnd {
    fn from(detail: RunDetail) -> Self {
        let run = detail.run;
        Self {
            run_id: run.run_id.into(),
            status: run.status,
            exit_code: run.exit_code,
            exit_signal: run.exit_signal,
            timed_out: run.timed_out,
            reason: run.reason,
            detail: run.detail,
            stdout: detail.stdout,
            stderr: detail.stderr,
            output_bytes: run.output_bytes,
        }
    }
}

/// What the process exits with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitStatus(u8);

impl ExitStatus {
    pub(crate) const SUCCESS: Self = Self(0);
    /// It did not, and no other code fits; also a failed check.
    pub(crate) const FAILURE: Self = Self(1);
    /// A hook stops the command of its agent: the one code that agents take for that.
    pub(crate) const BLOCKS: Self = Self(2);
    /// The call itself is wrong (`EX_USAGE`).
    pub(crate) const USAGE: Self = Self(64);
    /// No server answers, it cannot help now, or the address is in use (`EX_UNAVAILABLE`).
    pub(crate) const UNAVAILABLE: Self = Self(69);
    /// A fault of the server (`EX_SOFTWARE`).
    pub(crate) const SOFTWARE: Self = Self(70);
    /// The command waits for a person, or still runs (`EX_TEMPFAIL`).
    pub(crate) const PENDING: Self = Self(75);
    /// Policy, a person or a scope said no (`EX_NOPERM`).
    pub(crate) const DENIED: Self = Self(77);
    /// Settings or state directory are bad (`EX_CONFIG`).
    pub(crate) const CONFIG: Self = Self(78);
    /// The command ran into its time limit (as `timeout(1)`).
    pub(crate) const TIMED_OUT: Self = Self(124);
    /// The command could not be started (as a shell).
    pub(crate) const NOT_STARTED: Self = Self(126);
    /// The caller's terminal went away (128 + SIGHUP).
    pub(crate) const HUNG_UP: Self = Self(129);
    /// The caller pressed Ctrl-C (128 + SIGINT).
    pub(crate) const INTERRUPTED: Self = Self(130);
    /// The caller was told to end (128 + SIGTERM).
    pub(crate) const TERMINATED: Self = Self(143);
    /// The reader of standard output left (128 + SIGPIPE).
    pub(crate) const BROKEN_PIPE: Self = Self(141);

    /// The code for a problem document.
    pub(crate) fn of_problem(status: u16, code: &str) -> Self {
        match (status, code) {
            // That an answer does not fit the question that waits is no fault of how it was typed.
            (422, "decision-not-allowed") => Self::FAILURE,
            (400 | 413 | 415 | 422, _) => Self::USAGE,
            (401 | 403, _) => Self::DENIED,
            (503 | 429, _) => Self::UNAVAILABLE,
            (500..=599, _) => Self::SOFTWARE,
            _ => Self::FAILURE,
        }
    }

    /// The code for a run object or an exec answer: the command's own where it ran to its end.
    pub(crate) fn of_run(end: &RunEnd) -> Self {
        match end.status.as_ref() {
            "completed" => Self::SUCCESS,
            "queued" | "running" | "approval-pending" => Self::PENDING,
            "denied" => Self::DENIED,
            "lost" => Self::SOFTWARE,
            // failed, cancelled
            _ if end.timed_out => Self::TIMED_OUT,
            _ => of_end(end),
        }
    }
}

fn of_end(end: &RunEnd) -> ExitStatus {
    if let Some(code) = end.exit_code {
        return u8::try_from(code).map_or(ExitStatus::FAILURE, ExitStatus);
    }
    let signal = end.exit_signal.as_deref().and_then(signal_number);
    match (signal, end.status.as_ref()) {
        (Some(number), _) => ExitStatus(128_u8.saturating_add(number)),
        (None, "cancelled") => ExitStatus::INTERRUPTED,
        (None, _) => ExitStatus::NOT_STARTED,
    }
}

/// Numbers of the signals that Linux shares between architectures; the record carries names.
fn signal_number(name: &str) -> Option<u8> {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let short = name.strip_prefix("SIG").unwrap_or(name);
    if let Some(index) = NAMES.iter().position(|known| *known == short) {
        return u8::try_from(index + 1).ok();
    }
    // Real-time signals are recorded by number.
    short.parse().ok().filter(|number| (1..=64).contains(number))
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_map_to_the_commands_own_code() {
        #[track_caller]
        fn check(status: &'static str, end: RunEnd, expect: u8) {
            let end = RunEnd {
                status: status.into(),
                ..end
            };
            assert_eq!(ExitStatus::of_run(&end), ExitStatus(expect), "{end:?}");
        }
        let code = |code| RunEnd {
            exit_code: Some(code),
            ..RunEnd::default()
        };
        let signal = |signal: &str| RunEnd {
            exit_signal: Some(signal.to_owned()),
            ..RunEnd::default()
        };
        check("completed", code(0), 0);
        check("failed", code(3), 3);
        check("failed", code(255), 255);
        check("failed", signal("SIGKILL"), 137);
        check("failed", signal("SIGTERM"), 143);
        check("failed", signal("34"), 162);
        let timed_out = RunEnd {
            timed_out: true,
            ..signal("SIGKILL")
        };
        check("failed", timed_out, 124);
        check("failed", RunEnd::default(), 126);
        check("cancelled", signal("SIGKILL"), 137);
        check("cancelled", RunEnd::default(), 130);
        check("denied", RunEnd::default(), 77);
        check("approval-pending", RunEnd::default(), 75);
        check("running", RunEnd::default(), 75);
        check("lost", RunEnd::default(), 70);
    }

    #[test]
    fn problems_map_to_sysexits() {
        #[track_caller]
        fn check(status: u16, code: &str, expect: ExitStatus) {
            assert_eq!(ExitStatus::of_problem(status, code), expect, "{status} {code}");
        }
        check(400, "invalid-request", ExitStatus::USAGE);
        check(400, "workdir-unavailable", ExitStatus::USAGE);
        check(400, "blocked-env", ExitStatus::USAGE);
        check(413, "body-too-large", ExitStatus::USAGE);
        check(422, "idempotency-mismatch", ExitStatus::USAGE);
        check(401, "unauthorized", ExitStatus::DENIED);
        check(403, "exec-denied", ExitStatus::DENIED);
        check(404, "approval-not-found", ExitStatus::FAILURE);
        check(409, "approval-already-resolved", ExitStatus::FAILURE);
        check(429, "rate-limited", ExitStatus::UNAVAILABLE);
        check(500, "internal", ExitStatus::SOFTWARE);
        check(503, "shutting-down", ExitStatus::UNAVAILABLE);
        check(507, "storage-full", ExitStatus::SOFTWARE);
    }
}
