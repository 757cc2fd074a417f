//! What of a sandbox could not be made.

use std::{fmt, io};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The step that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// A process or a pipe.
    Process,
    /// Becoming a user without rights, and whose files are whose.
    Account,
    /// New namespaces, and that no more can be made inside.
    Namespaces,
    /// The only account in the new user namespace.
    AccountMap,
    /// The loopback interface, the name of the machine.
    Network,
    /// The new root, a file system in memory.
    Root,
    /// What the system needs.
    System,
    /// A file of the sandbox.
    File,
    /// A directory in memory.
    Memory,
    /// The directory of the commands: entering it, or showing it inside.
    Workspace,
    /// A directory that the settings bind.
    Bind,
    /// Something in the workspace that stays where it is.
    Itself,
    /// What is in `/dev`.
    Devices,
    /// The table of processes.
    Processes,
    /// Entering the new root.
    Enter,
    /// Limits of the command.
    Limits,
    /// Entering the working directory inside, which the call chose.
    Directory,
    /// The filter of system calls.
    Filter,
    /// A program of a text that is held: it is not what was judged any more.
    Program,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "a process cannot be made",
            Self::Account => "files cannot be given to the account inside",
            Self::Namespaces => "the kernel does not make namespaces",
            Self::AccountMap => "the account cannot be mapped into a user namespace",
            Self::Network => "the network inside cannot be set up",
            Self::Root => "a new root cannot be made",
            Self::System => "directories of the system cannot be shown",
            Self::File => "a file inside cannot be made",
            Self::Memory => "a directory in memory cannot be made",
            Self::Workspace => "the workspace cannot be shown",
            Self::Bind => "a directory of sandbox.docker.binds cannot be shown",
            Self::Itself => {
                "a file that decides what starts, or a directory that holds one, moved while the text was starting"
            }
            Self::Devices => "devices cannot be shown",
            Self::Processes => {
                "/proc cannot be mounted, as in a container that covers a part of its own (for Docker: \
                 --security-opt systempaths=unconfined)"
            }
            Self::Enter => "the new root cannot be entered",
            Self::Limits => "limits cannot be set",
            Self::Directory => "the working directory cannot be entered inside",
            Self::Filter => "system calls cannot be filtered",
            Self::Program => "a program that the text can execute is not what was judged",
        })
    }
}

/// A step that failed, with why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) obstacle: Obstacle,
    pub(super) errno: Errno,
}

/// Names the step that an error of the kernel belongs to.
pub(super) trait At<T> {
    fn at(self, obstacle: Obstacle) -> Result<T, Failure>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, obstacle: Obstacle) -> Result<T, Failure> {
        self.map_err(|errno| Failure { obstacle, errno })
    }
}

impl<T> At<T> for io::Result<T> {
    fn at(self, obstacle: Obstacle) -> Result<T, Failure> {
        self.map_err(|error| Failure {
            obstacle,
            errno: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })
    }
}
