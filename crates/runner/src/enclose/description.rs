//! What a sandbox is made of, in the words of the supervisor that makes it, and how that goes over the wire.
//!
//! Decided elsewhere (`countersign_hosts::sandbox::builtin`): a supervisor puts up exactly this or starts nothing.

use std::ffi::CString;

use crate::wire::{Reader, Writer};

/// The sandbox of one run, which has one program.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Something at a place inside. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// What the machine has there, to be read: a link is the same link, and where there is nothing there is nothing.
    Mirror(CString),
    /// A directory or file of the machine.
    Bind {
        /// Which one.
        source: Source,
        /// Its path inside.
        inside: CString,
        /// Whether commands may change what is in it.
        writable: bool,
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
        content: Vec<u8>,
    },
}

/// Where a bind comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The directory that came as a descriptor.
    Workspace,
    /// A path without a link on it.
    Path(CString),
}

/// A limit, as the kernel numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessLimit {
    /// Number of the limit, as `setrlimit` takes it.
    pub resource: u8,
    /// Soft limit; `u64::MAX` is unlimited.
    pub soft: u64,
    /// Hard limit; `u64::MAX` is unlimited.
    pub hard: u64,
}

impl Enclosed {
    pub(crate) fn encode(&self, writer: &mut Writer) {
        let Self {
            host_name,
            nobody,
            pieces,
            writable_root,
            limits,
        } = self;
        writer.long(host_name.to_bytes());
        writer.number32(nobody.0);
        writer.number32(nobody.1);
        writer.byte(u8::from(*writable_root));
        writer.count(pieces.len());
        for piece in pieces {
            piece.encode(writer);
        }
        writer.count(limits.len());
        for ProcessLimit { resource, soft, hard } in limits {
            writer.byte(*resource);
            writer.number64(*soft);
            writer.number64(*hard);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            host_name: reader.path()?,
            nobody: (reader.u32()?, reader.u32()?),
            writable_root: reader.flag()?,
            pieces: reader.list(Piece::decode)?,
            limits: reader.list(|reader| {
                Some(ProcessLimit {
                    resource: reader.byte()?,
                    soft: reader.u64()?,
                    hard: reader.u64()?,
                })
            })?,
        })
    }
}

impl Piece {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Mirror(path) => {
                writer.byte(1);
                writer.long(path.to_bytes());
            }
            Self::Bind {
                source,
                inside,
                writable,
            } => {
                writer.byte(2);
                match source {
                    Source::Workspace => writer.byte(0),
                    Source::Path(path) => {
                        writer.byte(1);
                        writer.long(path.to_bytes());
                    }
                }
                writer.long(inside.to_bytes());
                writer.byte(u8::from(*writable));
            }
            Self::Memory {
                inside,
                bytes,
                files,
                mode,
                executable,
            } => {
                writer.byte(3);
                writer.long(inside.to_bytes());
                writer.number64(*bytes);
                writer.number64(*files);
                writer.number32(*mode);
                writer.byte(u8::from(*executable));
            }
            Self::File { inside, content } => {
                writer.byte(4);
                writer.long(inside.to_bytes());
                writer.long(content);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Self> {
        Some(match reader.byte()? {
            1 => Self::Mirror(reader.path()?),
            2 => Self::Bind {
                source: match reader.byte()? {
                    0 => Source::Workspace,
                    1 => Source::Path(reader.path()?),
                    _ => return None,
                },
                inside: reader.path()?,
                writable: reader.flag()?,
            },
            3 => Self::Memory {
                inside: reader.path()?,
                bytes: reader.u64()?,
                files: reader.u64()?,
                mode: reader.u32()?,
                executable: reader.flag()?,
            },
            4 => Self::File {
                inside: reader.path()?,
                content: reader.long_bytes()?.to_vec(),
            },
            _ => return None,
        })
    }
}
