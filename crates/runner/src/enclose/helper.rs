//! The helper: it leaves the machine for new namespaces and makes the two processes there.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{io::Errno, pipe::PipeFlags};

use countersign_sys::{
    enclosure,
    mounts::{self, Attributes},
    process::{self, Alone, Forked, Pid},
};

use super::{
    Enclosing, Ends, INSIDE, Obstacle, Piece, Prepared, Source, Walls,
    build::{self, Held},
    command,
    obstacle::{At as _, Failure},
    say,
};
use crate::wire::Program;

pub(super) fn main(
    enclosing: &Enclosing<'_>,
    program: &Program,
    walls: &Walls<'_>,
    nobody: Option<(u32, u32)>,
    ends: &Ends,
) -> ! {
    let said = work(enclosing, program, walls, nobody, ends);
    let is_done = said.is_ok();
    say(&ends.report, said);
    process::exit_now(i32::from(!is_done))
}

fn work(
    enclosing: &Enclosing<'_>,
    program: &Program,
    walls: &Walls<'_>,
    nobody: Option<(u32, u32)>,
    ends: &Ends,
) -> Result<Pid, Failure> {
    let prepared = walls.prepared;
    let alone = Alone::prove().at(Obstacle::Process)?;
    leave_behind(enclosing, walls, ends)?;
    process::leave_session_keyring().at(Obstacle::Account)?;
    let held = if let Some(nobody) = nobody {
        let held = hold(enclosing, prepared, nobody)?;
        enclosure::become_nobody(nobody.0, nobody.1).at(Obstacle::Account)?;
        held
    } else {
        // The way to a directory that is reached by its descriptor only: where a process stands goes along into a new
        // mount namespace, while descriptors stay with the old one.
        rustix::process::fchdir(enclosing.workspace).at(Obstacle::Workspace)?;
        Held::new()
    };
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    // The files of the map are this account's only while it may be looked at; what there was to see is closed by now.
    process::allow_dumping().at(Obstacle::Account)?;
    enclosure::unshare().at(Obstacle::Namespaces)?;
    // A text that is held has the account that every run has, by its own name.
    let inside = if enclosing.enclosed.held.is_some() {
        own
    } else {
        INSIDE
    };
    enclosure::map_account(own, inside).at(Obstacle::AccountMap)?;
    process::forbid_dumping().at(Obstacle::Account)?;
    enclosure::forbid_user_namespaces().at(Obstacle::Namespaces)?;
    enclosure::set_host_name(&enclosing.enclosed.host_name).at(Obstacle::Network)?;
    enclosure::bring_loopback_up().at(Obstacle::Network)?;

    let (ready, built) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).at(Obstacle::Process)?;
    match alone.fork_sibling().at(Obstacle::Process)? {
        Forked::Child => {
            drop(ready);
            build::first_process(enclosing.enclosed, held, &built, &ends.life)
        }
        Forked::Parent(_) => drop((held, built)),
    }
    super::hear(&ready)?;
    match alone.fork_sibling().at(Obstacle::Process)? {
        Forked::Child => command::main(enclosing, program, walls, ends),
        Forked::Parent(pid) => Ok(pid),
    }
}

/// Closes everything of the supervisor but what is needed: the lock of the run file above all.
fn leave_behind(enclosing: &Enclosing<'_>, walls: &Walls<'_>, ends: &Ends) -> Result<(), Failure> {
    let Walls {
        prepared,
        executables,
    } = walls;
    let Ends {
        report,
        life,
        go,
        executed,
    } = ends;
    let kept = [report, life, go, executed].map(AsFd::as_fd);
    let kept = kept
        .into_iter()
        .chain(enclosing.standard)
        .chain([enclosing.workspace])
        .chain(prepared.scopes.as_ref().map(AsFd::as_fd))
        .chain(executables.as_ref().map(AsFd::as_fd))
        .chain(prepared.maps.values().map(AsFd::as_fd));
    process::close_all_but(3, kept).at(Obstacle::Process)
}

/// What only root reaches, and what changes its owner on the way in.
fn hold(enclosing: &Enclosing<'_>, prepared: &Prepared, nobody: (u32, u32)) -> Result<Held, Failure> {
    let mut held = Held::new();
    for (at, piece) in enclosing.enclosed.pieces.iter().enumerate() {
        let Piece::Bind {
            source,
            inside: _,
            writable,
            executable,
        } = piece
        else {
            continue;
        };
        let attributes = build::attributes(*writable, *executable);
        let mount = match source {
            Source::Workspace => own(
                enclosing.workspace,
                attributes,
                prepared,
                nobody,
                Obstacle::Workspace,
            )?,
            Source::Path(path) => {
                let opened = mounts::open_without_links(path).at(Obstacle::Bind)?;
                own(opened.as_fd(), attributes, prepared, nobody, Obstacle::Bind)?
            }
            // Only held texts have these, which root has not.
            Source::Itself(..) => return Err(Errno::PERM).at(Obstacle::Account),
        };
        held.push((at, mount));
    }
    Ok(held)
}

/// A mount on which the files of the owner belong to the command.
fn own(
    opened: BorrowedFd<'_>,
    attributes: Attributes,
    prepared: &Prepared,
    nobody: (u32, u32),
    obstacle: Obstacle,
) -> Result<OwnedFd, Failure> {
    let mount = mounts::clone_open(opened).at(obstacle)?;
    let map = prepared.map_of(opened, nobody)?;
    match mounts::restrict(mount.as_fd(), attributes, map) {
        // A file system that cannot do that. What everybody may do there, the command may.
        Err(Errno::INVAL) if map.is_some() => {
            mounts::restrict(mount.as_fd(), attributes, None).at(obstacle)?;
        }
        other => other.at(obstacle)?,
    }
    Ok(mount)
}
