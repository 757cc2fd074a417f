//! What the end of a client means.

use rustix::process::Signal;

use countersign_domain::Exit;

/// The signal by which a client ends that started nothing. Commands inside cannot end it by a signal: theirs arrive as
/// exit codes.
pub(super) const NOT_STARTED: Signal = Signal::USR1;

/// The signal by which a client ends that lost the engine while the command ran.
pub(super) const ENGINE_LOST: Signal = Signal::USR2;

/// How a run in a container ended, read from the end of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientEnd {
    /// The command ended with this code, 128 and the number when by a signal, as the engine reports it.
    Ended(i32),
    /// It was killed: its time was over, or it was cancelled. Nothing of it is left.
    Killed,
    /// The container could not be entered: nothing was started, and why is the last line of standard error. The run has
    /// failed.
    NotStarted,
    /// The engine went away, or stopped the container, while the command ran. How it ended is not known: the run is lost.
    EngineLost,
    /// Something other than its supervisor killed the client. The run is lost, and
    /// [`sweep`](super::DockerBackend::sweep) kills what is left.
    Vanished,
}

impl ClientEnd {
    /// Reads what a supervisor recorded of a client.
    pub fn of(exit: &Exit) -> Self {
        if exit.killed.is_some() {
            return Self::Killed;
        }
        match (exit.code, exit.signal) {
            (Some(code), _) => Self::Ended(code),
            (None, Some(signal)) if signal == NOT_STARTED.as_raw() => Self::NotStarted,
            (None, Some(signal)) if signal == ENGINE_LOST.as_raw() => Self::EngineLost,
            // A client that could not even be executed has started nothing.
            (None, None) if exit.spawn_errno.is_some() => Self::NotStarted,
            (None, Some(_) | None) => Self::Vanished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_domain::KillCause;

    #[test]
    fn every_end_of_a_client_has_one_meaning() {
        let code = |code| Exit {
            code: Some(code),
            ..Exit::default()
        };
        let signal = |signal: Signal| Exit {
            signal: Some(signal.as_raw()),
            ..Exit::default()
        };
        let cases = [
            (code(0), ClientEnd::Ended(0)),
            (code(137), ClientEnd::Ended(137)),
            (signal(Signal::USR1), ClientEnd::NotStarted),
            (signal(Signal::USR2), ClientEnd::EngineLost),
            (signal(Signal::KILL), ClientEnd::Vanished),
            (Exit::default(), ClientEnd::Vanished),
            (
                Exit {
                    spawn_errno: Some(7),
                    ..Exit::default()
                },
                ClientEnd::NotStarted,
            ),
            (
                Exit {
                    killed: Some(KillCause::Timeout),
                    ..signal(Signal::KILL)
                },
                ClientEnd::Killed,
            ),
        ];
        for (exit, expected) in cases {
            assert_eq!(ClientEnd::of(&exit), expected, "{exit:?}");
        }
    }
}
