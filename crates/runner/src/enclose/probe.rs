//! A sandbox that is made for nothing but to see whether it can be: a mode of this program, which says why not.

use std::{
    ffi::{CStr, CString},
    os::fd::AsFd,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use countersign_sys::process;

use super::{Begun, Enclosed, Enclosing, NotBegun, Piece, Source, Workshop, reap_all};
use crate::wire::{Action, NotStarted, Plan, Program, Step};

/// The word that makes this program try. Not for people.
pub const MODE: &str = "__sandbox-probe";

/// Shown as the workspace: it is on every machine, and nothing is written to it.
const WORKSPACE: &CStr = c"/usr";

pub(crate) fn main() -> ! {
    let why = attempt().err().map(|why| why.to_string()).unwrap_or_default();
    rustix::io::write(rustix::stdio::stdout(), why.as_bytes()).unwrap_or(0);
    process::exit_now(0)
}

fn attempt() -> Result<(), NotStarted> {
    let system = |errno: Errno| NotStarted::System(errno.raw_os_error());
    let io = |error: std::io::Error| NotStarted::System(error.raw_os_error().unwrap_or(0));
    process::forbid_dumping().map_err(io)?;
    process::reset_dispositions().map_err(io)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = rustix::fs::open(WORKSPACE, flags, Mode::empty()).map_err(system)?;
    let plan = plan();
    let enclosing = Enclosing {
        workshop: &Workshop::default(),
        enclosed: plan.enclosed.as_ref().ok_or(NotStarted::NoReport)?,
        plan: &plan,
        workspace: workspace.as_fd(),
        standard: [
            rustix::stdio::stdin(),
            rustix::stdio::stderr(),
            rustix::stdio::stderr(),
        ],
        on_terminal: false,
    };
    match enclosing.launch(&mut |_process| Ok(())) {
        Ok(Begun::Running(_, life)) => {
            drop(life);
            reap_all();
            Ok(())
        }
        Ok(Begun::NotExecuted(errno)) | Err(NotBegun::BeforeExecution(errno)) => Err(system(errno)),
        Err(NotBegun::Sandbox(obstacle, errno)) => Err(NotStarted::Sandbox(obstacle, errno.raw_os_error())),
    }
}

fn plan() -> Plan {
    let mirrored = ["/usr", "/bin", "/lib", "/lib64"].map(|path| CString::new(path).map(Piece::Mirror));
    let mut pieces: Vec<Piece> = mirrored.into_iter().flatten().collect();
    pieces.push(Piece::Memory {
        inside: c"/tmp".to_owned(),
        bytes: 1 << 20,
        files: 64,
        mode: 0o1777,
        executable: false,
    });
    pieces.push(Piece::Bind {
        source: Source::Workspace,
        inside: c"/workspace".to_owned(),
        writable: false,
        executable: true,
    });
    Plan {
        directory: c"/workspace".to_owned(),
        environment: Vec::new(),
        files: Vec::new(),
        steps: vec![Step {
            join: None,
            action: Action::Program(Program::plain(
                c"/bin/sh".to_owned(),
                b"sh\0-c\0exit 0\0".to_vec(),
            )),
        }],
        enclosed: Some(Enclosed {
            host_name: c"sandbox".to_owned(),
            nobody: (65_534, 65_534),
            pieces,
            writable_root: false,
            limits: Vec::new(),
            held: None,
        }),
        held: Vec::new(),
        direct: None,
        masked: Vec::new(),
    }
}
