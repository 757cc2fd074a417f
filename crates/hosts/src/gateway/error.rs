//! Why a run was not started.

use std::{io, path::PathBuf};

use rustix::io::Errno;

use countersign_domain::{Isolation, RunId};

use crate::{confined::denied_programs::Unmasked, peer_fs::Blind, sandbox::Unusable};

/// What is no longer what was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// The directory is gone, or another one has its path.
    WorkingDirectory,
    /// A program is gone or is another file, or the record does not show which one was judged.
    Executable,
    /// A script is gone, has other content, or is too large to be held.
    Script,
    /// The sandbox is another one, or what belongs into a sandbox came to the gateway host.
    Sandbox,
    /// What is held came without its walls.
    Held,
    /// What belongs to a node came to the gateway host.
    Node,
    /// What its asker starts, who wanted only an answer, came to the gateway host.
    Elsewhere,
}

/// Why the kernel does not keep what a record says of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unkept {
    /// It does not know how.
    #[error("the kernel of this machine cannot")]
    Kernel,
    /// The program is set-uid, set-gid or has capabilities, which it would lose.
    #[error("the program gains privileges when it starts")]
    GainsPrivileges,
    /// The record does not show which file was judged.
    #[error("the record does not show which file was judged")]
    NotJudged,
    /// The record names limits of other programs than those that it starts, or limits that it says are not kept.
    #[error("the record contradicts itself")]
    Contradiction,
    /// More programs with limits of their own than a run can have.
    #[error("too many programs have different limits")]
    TooMany,
    /// The kernel refused.
    #[error("the kernel refused: {0}")]
    Failed(io::ErrorKind),
}

/// Why a host started nothing for a permit.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Something is no longer what was judged.
    #[error("{path} is no longer what was judged")]
    BindingMismatch {
        /// What kind of thing.
        what: Mismatch,
        /// Its path; for a sandbox its name or the working directory, for a node and elsewhere the working directory.
        path: PathBuf,
    },
    /// The machine lacks what opening a file takes, which says nothing about the file.
    #[error("the machine cannot open {path} now")]
    Machine {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        #[source]
        source: io::Error,
    },
    /// The working directory cannot be opened.
    #[error("cannot open the working directory {path}")]
    WorkingDirectory {
        /// The working directory as the record names it.
        path: PathBuf,
        /// Any error but that nothing, or no directory, is there, which is a mismatch.
        #[source]
        source: io::Error,
    },
    /// Its record names a level that this server does not have, or the settings demand more by now.
    #[error("the run was recorded as {recorded}, and this server would run it as {now}")]
    Isolation {
        /// The level that the record names.
        recorded: Isolation,
        /// What there is, or what is demanded.
        now: Isolation,
    },
    /// Confined commands do not see the working directory.
    #[error("confined commands cannot see the working directory {0}")]
    HiddenDirectory(PathBuf),
    /// A directory that confined commands see is not the one of the start.
    #[error(
        "{0} was made again while the server ran; confined commands see it after a restart of the server"
    )]
    ReplacedDirectory(PathBuf),
    /// The kernel would not keep what the record says that it does.
    #[error("what {program} may start, write or reach cannot be kept: {why}")]
    Unkept {
        /// The name of the program; empty where the record names none.
        program: String,
        /// Why.
        why: Unkept,
    },
    /// What a deny rule with `children` masks.
    #[error(transparent)]
    DeniedPrograms(#[from] Unmasked),
    /// A text for the program holds a NUL, or a name of the environment is empty or holds `=`.
    #[error("an argument or variable cannot be passed to a program")]
    NotPassable,
    /// The program was found nowhere: its name is no path, and no directory but those of PATH is looked into.
    #[error("{0}: no such program in the run PATH")]
    NoProgram(String),
    /// A run file is there although this is the first attempt.
    #[error("run {0} was attempted before")]
    AttemptedBefore(RunId),
    /// The run file cannot be made.
    #[error("cannot make the file of run {run_id}")]
    RunFile {
        /// The run, whose id is the name of the file.
        run_id: RunId,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The sandbox cannot be made or entered.
    #[error(transparent)]
    Sandbox(#[from] Unusable),
    /// The files of the run cannot be looked at.
    #[error(transparent)]
    Blind(#[from] Blind),
    /// The runner cannot be reached.
    #[error("cannot hand the run to the runner")]
    Runner(#[source] io::Error),
}

impl StartError {
    /// What stands against a file: that it is no longer what was judged, or that the machine could not open it.
    pub(super) fn of_file(source: io::Error, what: Mismatch, path: &str) -> Self {
        let path = PathBuf::from(path);
        if is_lack(&source) {
            Self::Machine { path, source }
        } else {
            Self::BindingMismatch { what, path }
        }
    }

    /// Whether the machine lacks something, which says nothing about the command.
    pub fn is_lack_of_machine(&self) -> bool {
        if let Self::WorkingDirectory { source, .. } = self {
            return is_lack(source);
        }
        matches!(self, Self::Machine { .. })
    }
}

/// Whether an error says what the machine lacks, and nothing of the file that was to be opened.
pub(super) fn is_lack(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::MFILE
                | Errno::NFILE
                | Errno::NOMEM
                | Errno::NOBUFS
                | Errno::NOSPC
                | Errno::DQUOT
                | Errno::ROFS
                | Errno::IO
        )
    )
}
