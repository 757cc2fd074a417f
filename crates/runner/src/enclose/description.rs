//! What a sandbox is made of, in the words of the supervisor that makes it, and how that goes over the wire.
//!
//! Decided elsewhere (`countersign_hosts::sandbox::builtin`): a supervisor puts up exactly this or starts nothing.

use std::ffi::CString;

use serde::{Deserialize, Serialize};

use countersign_sys::fs::FileStamp;

/// The sandbox of one run, which has one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclosed {
    /// Name of the machine, inside.
    pub host_name: CString,
    /// Who the command is outside when the supervisor is root's.
    pub nobody: (u32, u32),
    /// What there is besides `/proc` and `/dev`, outer places first.
    pub pieces: Vec<Piece>,
    /// Whether places that no piece covers can be written, in memory.
    pub writable_root: bool,
    /// Limits of the command, set before it is executed.
    pub limits: Vec<ProcessLimit>,
    /// What is kept of a text that was not read; `None` for a sandbox.
    pub held: Option<HeldWalls>,
}

/// What is kept of a text that nobody could read: who it is, where it stands, and what alone it can execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldWalls {
    /// The only files that can be executed: real paths, and what must be there.
    pub executables: Vec<(CString, FileStamp)>,
    /// Device and inode of the working directory.
    pub directory: (u64, u64),
}

/// Something at a place inside. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// What the machine has there, to be read: a link is the same link, and where there is nothing there is nothing.
    Mirror(CString),
    /// The same, and nothing in it can be executed, or mapped as a program.
    Shown(CString),
    /// A directory or file of the machine.
    Bind {
        /// Which one.
        source: Source,
        /// Its path inside.
        inside: CString,
        /// Whether commands may change what is in it.
        writable: bool,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// An empty directory in memory.
    Memory {
        /// Its path inside.
        inside: CString,
        /// Most bytes that its files take together.
        bytes: u64,
        /// Most inodes, those of directories included.
        files: u64,
        /// Permission bits of the directory itself, such as `0o1777`.
        mode: u32,
        /// Whether files in it can be executed.
        executable: bool,
    },
    /// A file that is made for the sandbox.
    File {
        /// Its path inside.
        inside: CString,
        /// All of its bytes.
        #[serde(with = "serde_bytes")]
        content: Vec<u8>,
    },
}

/// Where a bind comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// The directory that came as a descriptor.
    Workspace,
    /// A path without a link on it.
    Path(CString),
    /// The same, for what is laid over itself: this device and inode are at the path, and at the place inside that is covered.
    Itself(CString, (u64, u64)),
}

/// A limit, as the kernel numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimit {
    /// Number of the limit, as `setrlimit` takes it.
    pub resource: u8,
    /// Soft limit; `u64::MAX` is unlimited.
    pub soft: u64,
    /// Hard limit; `u64::MAX` is unlimited.
    pub hard: u64,
}
