//! From how a process ended to how its run ended. Pure.

use std::time::Duration;

use countersign_domain::{Exit, KillCause, Reason, RunEnd, RunStatus, UnixMillis};
use countersign_hosts::sandbox::docker::ClientEnd;

/// What a supervisor reports in place of a start when its last look finds something that was not judged.
const CHANGED: i32 = rustix::io::Errno::STALE.raw_os_error();

/// What of the output belongs into the record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OutputSummary {
    /// Whether text was cut in answers.
    pub(crate) truncated: bool,
    /// The last characters.
    pub(crate) tail: String,
}

/// The end of a run whose supervisor reported `exit`.
pub(crate) fn end_of(
    exit: &Exit,
    timeout: Option<Duration>,
    output: OutputSummary,
    now: UnixMillis,
) -> RunEnd {
    let (status, reason, detail) = classify(exit, timeout);
    RunEnd {
        status,
        reason,
        detail,
        exit_code: exit.code,
        exit_signal: exit.signal.map(signal_name),
        timed_out: exit.killed == Some(KillCause::Timeout),
        truncated: output.truncated || exit.kept_bytes < exit.output_bytes,
        output_bytes: exit.output_bytes,
        tail: output.tail,
        by_shell: exit.by_shell,
        ended_at: now,
    }
}

/// What the end of a container engine's client means, where it is not the end of the command itself.
pub(crate) fn end_of_client(exit: &Exit, output: &OutputSummary, now: UnixMillis) -> Option<RunEnd> {
    let (reason, detail) = match ClientEnd::of(exit) {
        ClientEnd::Ended(_) | ClientEnd::Killed => return None,
        ClientEnd::NotStarted => {
            let why = output.tail.trim_end().lines().last().unwrap_or_default();
            (
                Reason::NotStarted,
                format!("nothing was started in the container: {why}"),
            )
        }
        ClientEnd::EngineLost => (
            Reason::RunnerLost,
            "the container engine, or the container, went away while the command ran".to_owned(),
        ),
        ClientEnd::Vanished => (
            Reason::RunnerLost,
            "the supervisor of the command in the container was killed".to_owned(),
        ),
    };
    let end = end_without_exit(reason, Some(detail), output.clone(), now);
    Some(RunEnd {
        output_bytes: exit.output_bytes,
        ..end
    })
}

/// The end of a run about which nothing more will be known, or which never started.
pub(crate) fn end_without_exit(
    reason: Reason,
    detail: Option<String>,
    output: OutputSummary,
    now: UnixMillis,
) -> RunEnd {
    RunEnd {
        status: reason.run_status(),
        reason: Some(reason),
        detail,
        exit_code: None,
        exit_signal: None,
        timed_out: false,
        truncated: output.truncated,
        output_bytes: 0,
        tail: output.tail,
        by_shell: false,
        ended_at: now,
    }
}

fn classify(exit: &Exit, timeout: Option<Duration>) -> (RunStatus, Option<Reason>, Option<String>) {
    if exit.spawn_errno == Some(CHANGED) {
        return (
            RunStatus::Denied,
            Some(Reason::BindingMismatch),
            Some("at the last moment something was no longer what was judged".to_owned()),
        );
    }
    if let Some(errno) = exit.spawn_errno {
        let error = std::io::Error::from_raw_os_error(errno);
        return (
            RunStatus::Failed,
            Some(Reason::SpawnFailed),
            Some(format!("could not be started: {error}")),
        );
    }
    match exit.killed {
        Some(KillCause::Timeout) => {
            let limit = timeout.unwrap_or_default().as_secs_f64();
            (
                RunStatus::Failed,
                Some(Reason::Timeout),
                Some(format!("killed by its time limit of {limit} s")),
            )
        }
        Some(KillCause::Cancelled) => (RunStatus::Cancelled, Some(Reason::Cancelled), None),
        Some(KillCause::Shutdown) => (RunStatus::Cancelled, Some(Reason::Shutdown), None),
        Some(KillCause::Stopped) => (RunStatus::Cancelled, Some(Reason::Stopped), None),
        None if exit.code == Some(0) => (RunStatus::Completed, None, None),
        None => (RunStatus::Failed, None, None),
    }
}

/// The name of a Linux signal, `SIG40` and the like for those without one.
pub(crate) fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number)
        .ok()
        .and_then(|n| NAMES.get(n.checked_sub(1)?));
    name.map_or_else(|| format!("SIG{number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exit: &Exit, status: RunStatus, reason: Option<Reason>) {
        let end = end_of(
            exit,
            Some(Duration::from_secs(2)),
            OutputSummary::default(),
            UnixMillis::new(1),
        );
        assert_eq!((end.status, end.reason), (status, reason));
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
    fn an_exit_becomes_the_end_of_its_run() {
        check(
            &Exit {
                code: Some(0),
                ..Exit::default()
            },
            RunStatus::Completed,
            None,
        );
        check(
            &Exit {
                code: Some(3),
                ..Exit::default()
            },
            RunStatus::Failed,
            None,
        );
        check(
            &Exit {
                signal: Some(15),
                ..Exit::default()
            },
            RunStatus::Failed,
            None,
        );
        check(
            &Exit {
                spawn_errno: Some(2),
                ..Exit::default()
            },
            RunStatus::Failed,
            Some(Reason::SpawnFailed),
        );
        check(
            &Exit {
                spawn_errno: Some(CHANGED),
                ..Exit::default()
            },
            RunStatus::Denied,
            Some(Reason::BindingMismatch),
        );
        for (cause, status, reason) in [
            (KillCause::Timeout, RunStatus::Failed, Reason::Timeout),
            (KillCause::Cancelled, RunStatus::Cancelled, Reason::Cancelled),
            (KillCause::Shutdown, RunStatus::Cancelled, Reason::Shutdown),
            (KillCause::Stopped, RunStatus::Cancelled, Reason::Stopped),
        ] {
            check(
                &Exit {
                    signal: Some(9),
                    killed: Some(cause),
                    ..Exit::default()
                },
                status,
                Some(reason),
            );
        }
    }

    #[test]
    fn a_client_that_is_killed_or_loses_its_engine_leaves_the_outcome_unknown() {
        let output = OutputSummary {
            truncated: false,
            tail: "said\nno such directory\n".to_owned(),
        };
        let end = |signal: i32| {
            let exit = Exit {
                signal: Some(signal),
                ..Exit::default()
            };
            end_of_client(&exit, &output, UnixMillis::new(1)).unwrap()
        };
        for (signal, status) in [
            (9, RunStatus::Lost),
            (12, RunStatus::Lost),
            (10, RunStatus::Failed),
        ] {
            assert_eq!(end(signal).status, status, "{signal}");
        }
        assert!(end(10).detail.unwrap().ends_with("no such directory"));
        let code = Exit {
            code: Some(137),
            ..Exit::default()
        };
        assert_eq!(end_of_client(&code, &output, UnixMillis::new(1)), None);
    }

    #[test]
    fn bytes_that_were_not_kept_count_as_truncated() {
        let exit = Exit {
            code: Some(0),
            output_bytes: 2,
            kept_bytes: 1,
            ..Exit::default()
        };
        assert!(end_of(&exit, None, OutputSummary::default(), UnixMillis::new(1)).truncated);
    }

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(31), "SIGSYS");
        assert_eq!(signal_name(40), "SIG40");
        assert_eq!(signal_name(0), "SIG0");
    }
}
