//! What is to be executed: a plan, as it travels in a start frame or in a memory file.

use std::ffi::CString;

use countersign_domain::StepJoin;
use countersign_sys::{fs::FileStamp, process::JudgedFile};

use super::bytes::{Reader, Writer};

use crate::enclose::Enclosed;

/// What is started, its environment and where it runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Path of the working directory. It is opened again inside the namespaces and must be the directory that came as
    /// a descriptor.
    pub directory: CString,
    /// Each ending with NUL.
    pub environment: Vec<u8>,
    /// Files that programs open by their paths, as they must be when the run begins.
    pub files: Vec<JudgedFile>,
    /// In order; a step that an earlier one rules out is passed over.
    pub steps: Vec<Step>,
    /// The sandbox that its one program runs in. Then all paths are meant inside of it, and the directory that came as a
    /// descriptor is the workspace.
    pub enclosed: Option<Enclosed>,
    /// Scripts whose content comes in a memory file, one behind the other: programs of the run read that.
    pub held: Vec<HeldScript>,
}

/// A script of which programs of the run read what was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldScript {
    /// Absolute paths by which it is known.
    pub names: Vec<CString>,
    /// Where its content begins in the memory file.
    pub offset: u64,
    /// Bytes of its content.
    pub length: u64,
    /// Permission bits of the script on disk; its stand-in has them, and its owner may read it.
    pub mode: u32,
    /// Device and inode of the script on disk when it was checked.
    pub identity: (u64, u64),
}

/// One step of a plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// `None` for the first.
    pub join: Option<StepJoin>,
    /// What it does.
    pub action: Action,
}

/// What a step does.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Starts a program.
    Program(Program),
    /// `cd`. The device and inode of where it must lead, if that is known.
    ChangeDirectory {
        /// Path of the new directory; relative to the one where the run stands.
        operand: Vec<u8>,
        /// `None` takes what is there.
        pinned: Option<(u64, u64)>,
    },
    /// `pwd`.
    PrintDirectory {
        /// With links resolved (`-P`); otherwise the path by which the run came there.
        physical: bool,
    },
    /// `true`, `:` or `false`.
    Settle {
        /// Whether its exit code is 0; otherwise 1.
        succeeds: bool,
    },
    /// A patch of the working directory.
    ApplyPatch(PatchOrder),
}

/// A patch, and how far it may reach.
#[derive(Debug, PartialEq, Eq)]
pub struct PatchOrder {
    /// The whole patch.
    pub text: String,
    /// It stays beneath the working directory.
    pub workspace_only: bool,
    /// Absolute paths by which the author of the patch knows the working directory.
    pub called: Vec<Vec<u8>>,
    /// Files and directories that no patch changes, as real paths.
    pub off_limits: Vec<Vec<u8>>,
    /// What lies in there and is changed nevertheless.
    pub spared: Vec<Vec<u8>>,
}

/// A program that a step starts.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Path of the program. In a sandbox a name without a slash is looked for in the `PATH` there.
    pub path: CString,
    /// Which of the descriptors it is started from.
    pub executable: Option<u8>,
    /// What that must still be.
    pub stamp: Option<FileStamp>,
    /// The file that the step names, which its path must still lead to: the program, or the script that it reads.
    pub file: Option<JudgedFile>,
    /// Scripts among its arguments, which an earlier step may have changed.
    pub operands: Vec<JudgedFile>,
    /// Each ending with NUL.
    pub arguments: Vec<u8>,
    /// Variables of this program alone, each ending with NUL.
    pub assignments: Vec<u8>,
}

impl Program {
    /// Everything that must be what was judged when it is started.
    pub fn files(&self) -> impl Iterator<Item = &JudgedFile> {
        self.file.iter().chain(&self.operands)
    }
}

impl Plan {
    /// The bytes that travel in a start frame or in a memory file.
    pub fn encode(&self) -> Vec<u8> {
        let Self {
            directory,
            environment,
            files,
            steps,
            enclosed,
            held,
        } = self;
        let mut writer = Writer(Vec::with_capacity(256 + environment.len()));
        writer.long(directory.to_bytes());
        writer.long(environment);
        writer.count(files.len());
        for file in files {
            writer.file(file);
        }
        writer.count(steps.len());
        for Step { join, action } in steps {
            writer.0.push(match join {
                None => 0,
                Some(StepJoin::Pipe) => 1,
                Some(StepJoin::And) => 2,
                Some(StepJoin::Or) => 3,
                Some(StepJoin::Sequence) => 4,
            });
            match action {
                Action::Program(program) => {
                    writer.0.push(1);
                    writer.program(program);
                }
                Action::ChangeDirectory { operand, pinned } => {
                    writer.0.push(2);
                    writer.long(operand);
                    writer.option(pinned.as_ref(), |writer, (dev, ino)| {
                        writer.0.extend(dev.to_le_bytes());
                        writer.0.extend(ino.to_le_bytes());
                    });
                }
                Action::PrintDirectory { physical } => writer.0.extend([3, u8::from(*physical)]),
                Action::Settle { succeeds } => writer.0.extend([4, u8::from(*succeeds)]),
                Action::ApplyPatch(patch) => {
                    writer.0.push(5);
                    writer.patch(patch);
                }
            }
        }
        writer.option(enclosed.as_ref(), |writer, enclosed| enclosed.encode(writer));
        writer.count(held.len());
        for script in held {
            writer.held(script);
        }
        writer.0
    }

    /// Reads those bytes; `None` where they are not one whole plan.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let directory = reader.path()?;
        let environment = reader.long_bytes()?.to_vec();
        let files = reader.list(Reader::file)?;
        let steps = reader.list(|reader| {
            let join = match reader.byte()? {
                0 => None,
                1 => Some(StepJoin::Pipe),
                2 => Some(StepJoin::And),
                3 => Some(StepJoin::Or),
                4 => Some(StepJoin::Sequence),
                _ => return None,
            };
            let action = match reader.byte()? {
                1 => Action::Program(reader.program()?),
                2 => Action::ChangeDirectory {
                    operand: reader.path()?.into_bytes(),
                    pinned: reader.option(|reader| Some((reader.u64()?, reader.u64()?)))?,
                },
                3 => Action::PrintDirectory {
                    physical: reader.byte()? == 1,
                },
                4 => Action::Settle {
                    succeeds: reader.byte()? == 1,
                },
                5 => Action::ApplyPatch(reader.patch()?),
                _ => return None,
            };
            Some(Step { join, action })
        })?;
        let enclosed = reader.option(Enclosed::decode)?;
        let held = reader.list(Reader::held)?;
        // Only the first step follows nothing.
        let is_joined = steps
            .iter()
            .enumerate()
            .all(|(at, step)| (at == 0) == step.join.is_none());
        (reader.0.is_empty() && !steps.is_empty() && is_joined).then_some(Self {
            directory,
            environment,
            files,
            steps,
            enclosed,
            held,
        })
    }
}

impl Writer {
    fn held(&mut self, script: &HeldScript) {
        let HeldScript {
            names,
            offset,
            length,
            mode,
            identity: (device, inode),
        } = script;
        self.count(names.len());
        for name in names {
            self.long(name.to_bytes());
        }
        self.number64(*offset);
        self.number64(*length);
        self.number32(*mode);
        self.number64(*device);
        self.number64(*inode);
    }

    fn stamp(&mut self, stamp: &FileStamp) {
        let FileStamp {
            dev,
            ino,
            size,
            mtime_ns,
            ctime_ns,
        } = stamp;
        for number in [dev, ino, size] {
            self.0.extend(number.to_le_bytes());
        }
        for number in [mtime_ns, ctime_ns] {
            self.0.extend(number.to_le_bytes());
        }
    }

    fn file(&mut self, JudgedFile { path, stamp, sha256 }: &JudgedFile) {
        self.long(path.to_bytes());
        self.stamp(stamp);
        self.option(sha256.as_ref(), |writer, sha256| writer.0.extend(sha256));
    }

    fn patch(&mut self, patch: &PatchOrder) {
        let PatchOrder {
            text,
            workspace_only,
            called,
            off_limits,
            spared,
        } = patch;
        self.long(text.as_bytes());
        self.0.push(u8::from(*workspace_only));
        for paths in [called, off_limits, spared] {
            self.count(paths.len());
            for path in paths {
                self.long(path);
            }
        }
    }

    fn program(&mut self, program: &Program) {
        let Program {
            path,
            executable,
            stamp,
            file,
            operands,
            arguments,
            assignments,
        } = program;
        self.long(path.to_bytes());
        self.option(executable.as_ref(), |writer, index| writer.0.push(*index));
        self.option(stamp.as_ref(), Self::stamp);
        self.option(file.as_ref(), Self::file);
        self.count(operands.len());
        for operand in operands {
            self.file(operand);
        }
        self.long(arguments);
        self.long(assignments);
    }
}

impl Reader<'_> {
    fn held(&mut self) -> Option<HeldScript> {
        Some(HeldScript {
            names: self.list(Reader::path)?,
            offset: self.u64()?,
            length: self.u64()?,
            mode: self.u32()?,
            identity: (self.u64()?, self.u64()?),
        })
    }

    fn patch(&mut self) -> Option<PatchOrder> {
        let text = str::from_utf8(self.long_bytes()?).ok()?.to_owned();
        // What is not said to be unbounded is bounded.
        let workspace_only = self.byte()? != 0;
        let [called, off_limits, spared] = [self.paths()?, self.paths()?, self.paths()?];
        Some(PatchOrder {
            text,
            workspace_only,
            called,
            off_limits,
            spared,
        })
    }

    fn paths(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(|reader| reader.long_bytes().map(<[u8]>::to_vec))
    }

    fn stamp(&mut self) -> Option<FileStamp> {
        Some(FileStamp {
            dev: self.u64()?,
            ino: self.u64()?,
            size: self.u64()?,
            mtime_ns: self.i128()?,
            ctime_ns: self.i128()?,
        })
    }

    fn file(&mut self) -> Option<JudgedFile> {
        Some(JudgedFile {
            path: self.path()?,
            stamp: self.stamp()?,
            sha256: self.option(Self::array)?,
        })
    }

    fn program(&mut self) -> Option<Program> {
        let program = Program {
            path: self.path()?,
            executable: self.option(Self::byte)?,
            stamp: self.option(Self::stamp)?,
            file: self.option(Self::file)?,
            operands: self.list(Self::file)?,
            arguments: self.long_bytes()?.to_vec(),
            assignments: self.long_bytes()?.to_vec(),
        };
        (!program.arguments.is_empty()).then_some(program)
    }
}
