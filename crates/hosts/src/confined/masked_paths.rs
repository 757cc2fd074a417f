//! Masked paths: what a confined command cannot reach, which is everything of the server and everything through which the
//! command could speak to a program outside that acts for the account.
//!
//! `MaskedPaths::find` reads the machine once, when the server starts. It must never leave out a path in silence: what
//! cannot be masked is listed as exposed, or is an [`Obstacle`]. How the masks are laid is in [`countersign_runner::confine`].

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::Access;

use countersign_runner::confine::{ConfinementPlan, Mask};

use super::{
    hidden,
    mounts::{self, Mount},
    openssh,
};

/// Whose commands are to be confined, and what they must not reach.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) uid: u32,
    pub(crate) home: Option<&'a Path>,
    pub(crate) state: &'a Path,
    /// Directories in it that commands work in, as far as they are there.
    pub(crate) open: &'a [PathBuf],
    /// Files that rule over the server, wherever they are.
    pub(crate) ruling: &'a [PathBuf],
    /// The program of the server: what runs outside when it is started the next time.
    pub(crate) program: Option<&'a Path>,
    /// The environment of the server.
    pub(crate) environment: &'a [(OsString, OsString)],
}

/// Why commands cannot be confined here.
#[derive(Debug, thiserror::Error)]
pub enum Obstacle {
    /// A file that rules over the server could be changed where it is.
    #[error("{0} lies outside of the state directory, and this account may change it")]
    OutsideStateDir(PathBuf),
    /// Another directory could be put in the place of the state directory.
    #[error(
        "{0} is a symbolic link on the way to the state directory, and this account may replace it; name the directory that it leads to"
    )]
    Link(PathBuf),
    /// The account can make a copy of the state directory that nothing covers.
    #[error(
        "this account may take snapshots of {0}, which has the state directory in it; make that a subvolume"
    )]
    Snapshots(PathBuf),
    /// Something cannot be looked at.
    #[error("cannot look at {path}")]
    Unreadable {
        /// The path that cannot be looked at.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MaskedPaths {
    /// What is to be covered.
    pub(crate) plan: ConfinementPlan,
    /// Sockets that variables name and that cannot be covered, since their directory holds other things.
    pub(crate) exposed: Vec<PathBuf>,
}

impl MaskedPaths {
    /// Looks at the machine.
    ///
    /// # Errors
    /// [`Obstacle`].
    pub(crate) fn find(subject: &Subject<'_>) -> Result<Self, Obstacle> {
        let state = subject.state.canonicalize().map_err(unreadable(subject.state))?;
        if let Some(link) = replaceable_link(subject.state, subject.uid) {
            return Err(Obstacle::Link(link));
        }
        forbid_ruling_outside(subject.ruling, &state, subject.uid)?;
        forbid_snapshots(&state, subject.uid)?;
        let mounts = mounts::list().map_err(unreadable(Path::new("/proc/self/mountinfo")))?;
        let mut masks = runtime_masks(subject.uid)?;
        masks.extend(desktop_masks(subject.uid));
        masks.extend(engine_masks(subject.home));
        let mut exposed = Vec::new();
        for socket in hidden::named_sockets(subject.environment) {
            match socket_mask(&socket, subject, &state, &masks) {
                Named::Covered => {}
                Named::Cover(mask) => masks.push(mask),
                Named::Exposed => exposed.push(socket),
            }
        }
        masks.extend(openssh::masks(subject.uid, subject.home));
        // Last, so that nothing above can be in the way of it.
        masks.extend(state_masks(&state, subject.open, &mounts));
        let program = subject
            .program
            .and_then(|program| replaceable_program(program, subject.uid));
        let above_program = program
            .iter()
            .flat_map(|program| movable_ancestors(program, subject.uid));
        let mut pinned: Vec<PathBuf> = movable_ancestors(&state, subject.uid);
        pinned.extend(above_program);
        // Outer ones first.
        pinned.sort();
        pinned.dedup();
        let read_only = mounts.iter().filter(|mount| is_control_group(mount));
        let mut read_only: Vec<_> = read_only.map(|mount| mount.at.clone()).collect();
        // A mount that another covers cannot be reached by its path.
        read_only.retain(|path| path.is_dir());
        read_only.dedup();
        Ok(Self {
            plan: ConfinementPlan {
                pinned,
                fixed: program.into_iter().collect(),
                masks,
                read_only,
            },
            exposed,
        })
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Obstacle {
    let path = path.to_path_buf();
    move |source| Obstacle::Unreadable { path, source }
}

/// The files themselves, or a directory on the way in which they would be replaced.
fn forbid_ruling_outside(ruling: &[PathBuf], state: &Path, uid: u32) -> Result<(), Obstacle> {
    for path in ruling {
        // The name and, where it is a link, what it leads to.
        let real = path.canonicalize().ok();
        for place in [Some(path), real.as_ref()].into_iter().flatten() {
            let directory = place.parent().and_then(|directory| directory.canonicalize().ok());
            let Some(directory) = directory.filter(|directory| !directory.starts_with(state)) else {
                continue;
            };
            let may_change = rustix::fs::access(place, Access::WRITE_OK).is_ok()
                || may_write_in(&directory)
                || replaceable_link(place, uid).is_some()
                || !movable_ancestors(&directory.join("file"), uid).is_empty();
            if may_change {
                return Err(Obstacle::OutsideStateDir(place.clone()));
            }
        }
    }
    Ok(())
}

/// The directories above a path, which has no links in it, that the account could move away in order to put others in
/// their place: then all paths below mean something else, for the server as well. Outer ones first.
fn movable_ancestors(path: &Path, uid: u32) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    let mut movable: Vec<_> = above
        .filter(|directory| may_replace(directory, uid))
        .map(Path::to_path_buf)
        .collect();
    movable.reverse();
    movable
}

/// Where a program lies, its links followed, if the account could put another one there: write it, or replace it or a
/// directory on the way to it.
pub fn replaceable_program(program: &Path, uid: u32) -> Option<PathBuf> {
    let real = program.canonicalize().ok()?;
    let is_replaceable = rustix::fs::access(&real, Access::WRITE_OK).is_ok()
        || may_replace(&real, uid)
        || !movable_ancestors(&real, uid).is_empty();
    is_replaceable.then_some(real)
}

/// The same for another account than that of this process, as far as owners and modes tell: its groups are not known.
pub fn program_replaceable_by(program: &Path, uid: u32) -> Option<PathBuf> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let real = program.canonicalize().ok()?;
    let meta = |path: &Path| fs::symlink_metadata(path).ok();
    let may_write =
        |path: &Path| meta(path).is_some_and(|meta| meta.uid() == uid || meta.mode() & OTHERS_WRITE != 0);
    let may_replace = |entry: &Path| {
        entry.parent().is_some_and(|directory| {
            let is_sticky = meta(directory).is_some_and(|meta| meta.mode() & STICKY != 0);
            let is_its_own = |path: &Path| meta(path).is_some_and(|meta| meta.uid() == uid);
            may_write(directory) && (!is_sticky || is_its_own(directory) || is_its_own(entry))
        })
    };
    (may_write(&real) || real.ancestors().any(may_replace)).then_some(real)
}

/// The first symbolic link that is followed on the way to a path and that the account could replace.
pub fn replaceable_link(path: &Path, uid: u32) -> Option<PathBuf> {
    /// As many as the kernel follows.
    const MOST_LINKS: usize = 40;
    let mut links_left = MOST_LINKS;
    let mut found = PathBuf::new();
    let mut ahead: Vec<OsString> = components(path);
    while let Some(name) = ahead.pop() {
        if name == ".." {
            found.pop();
            continue;
        }
        found.push(name);
        let Ok(target) = fs::read_link(&found) else {
            continue;
        };
        links_left = links_left.checked_sub(1)?;
        if may_replace(&found, uid) {
            return Some(found);
        }
        found.pop();
        ahead.extend(components(&target));
    }
    None
}

/// The last one first. An absolute path begins with the root, which replaces any path that it is pushed to.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().rev();
    names.map(|name| name.as_os_str().to_owned()).collect()
}

fn may_write_in(directory: &Path) -> bool {
    rustix::fs::access(directory, Access::WRITE_OK).is_ok()
}

/// Whether the account could put something else in the place of an entry of a directory.
fn may_replace(entry: &Path, uid: u32) -> bool {
    const STICKY: u32 = 0o1000;
    let Some(directory) = entry.parent().filter(|directory| may_write_in(directory)) else {
        return false;
    };
    let of_account = |path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == uid);
    let is_sticky = fs::metadata(directory).is_ok_and(|meta| meta.mode() & STICKY != 0);
    !is_sticky || of_account(directory) || of_account(entry)
}

/// The owner of a subvolume of btrfs may take a snapshot of it, with everything in it that is no subvolume itself.
fn forbid_snapshots(state: &Path, uid: u32) -> Result<(), Obstacle> {
    const BTRFS: rustix::fs::FsWord = 0x9123_683e;
    const SUBVOLUME: u64 = 256;
    let kind = rustix::fs::statfs(state)
        .map_err(io::Error::from)
        .map_err(unreadable(state))?;
    if kind.f_type != BTRFS {
        return Ok(());
    }
    for (depth, directory) in state.ancestors().enumerate() {
        let meta = fs::metadata(directory).map_err(unreadable(directory))?;
        if meta.ino() == SUBVOLUME {
            return if depth > 0 && meta.uid() == uid {
                Err(Obstacle::Snapshots(directory.to_path_buf()))
            } else {
                Ok(())
            };
        }
    }
    Ok(())
}

/// `/run`: what listens there comes and goes, and anything that comes later must not be there inside. So all of it is
/// covered, and what does no harm is put back.
fn runtime_masks(uid: u32) -> Result<Vec<Mask>, Obstacle> {
    let mut masks = Vec::new();
    for base in ["/run", "/var/run"].map(Path::new) {
        if !fs::symlink_metadata(base).is_ok_and(|meta| meta.is_dir()) {
            continue;
        }
        let user = base.join("user").join(uid.to_string());
        let mut mask = Mask {
            places: vec![user.clone()],
            ..Mask::over(base.to_path_buf())
        };
        for entry in fs::read_dir(base).map_err(unreadable(base))? {
            let entry = entry.map_err(unreadable(base))?;
            let kind = entry.file_type().map_err(unreadable(base))?;
            match entry.file_name().to_str() {
                Some(name) if is_harmless(name) => {}
                Some(_) | None => continue,
            }
            if kind.is_dir() || kind.is_file() {
                mask.keep.push(entry.path());
            } else if kind.is_symlink() {
                mask.links.push(entry.path());
            }
            // A socket or a pipe right here belongs to a service of the machine, and is left out.
        }
        mask.keep.sort();
        mask.links.sort();
        masks.push(mask);
        masks.push(Mask {
            writable: true,
            ..Mask::over(user)
        });
    }
    Ok(masks)
}

/// Whether a name in `/run` is of no service that does what it is told, with the rights of root or of the account.
fn is_harmless(name: &str) -> bool {
    const SERVICES: &[&str] = &[
        "balena",
        "buildkit",
        "containerd",
        "cri-dockerd",
        "crio",
        "dbus",
        "docker",
        "incus",
        "k0s",
        "k3s",
        "libvirt",
        "lxd",
        "podman",
        "screen",
        "snap.docker",
        "snapd",
        "tmux",
        "user",
    ];
    !SERVICES.iter().any(|service| name.starts_with(service))
}

/// Where terminals and editors of the account put their sockets: programs that may be started later, too.
fn private_places(uid: u32) -> [PathBuf; 2] {
    [format!("/tmp/tmux-{uid}"), format!("/tmp/emacs{uid}")].map(PathBuf::from)
}

/// Makes the directories that have to be there to be covered or kept, as the programs that need them would make them.
///
/// # Errors
/// [`Obstacle::Unreadable`] for one in the state directory. One in `/tmp` that cannot be made belongs to another user,
/// and its program refuses it.
pub(super) fn make_directories(uid: u32, open: &[PathBuf]) -> Result<(), Obstacle> {
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    for path in private_places(uid) {
        match private.create(path) {
            Ok(()) | Err(_) => {}
        }
    }
    private.recursive(true);
    for path in open {
        private.create(path).map_err(unreadable(path))?;
    }
    Ok(())
}

/// Terminals, editors, desktops and agents of the account.
fn desktop_masks(uid: u32) -> Vec<Mask> {
    let own = |path: PathBuf| Mask {
        writable: true,
        ..Mask::over(path)
    };
    let mut masks = Vec::new();
    let desktop = ["/tmp/.X11-unix", "/tmp/.ICE-unix"].map(PathBuf::from);
    masks.extend(
        private_places(uid)
            .into_iter()
            .chain(desktop)
            .filter(|path| is_directory(path))
            .map(own),
    );
    let agents = fs::read_dir("/tmp").into_iter().flatten().filter_map(Result::ok);
    let agents = agents.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with("ssh-"))
    });
    let mut agents: Vec<_> = agents
        .filter(|entry| {
            entry
                .metadata()
                .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
        })
        .map(|entry| Mask::over(entry.path()))
        .collect();
    agents.sort_by(|one, other| one.at.cmp(&other.at));
    masks.extend(agents);
    masks
}

/// Container engines and agents that have their sockets elsewhere.
fn engine_masks(home: Option<&Path>) -> Vec<Mask> {
    const IN_HOME: &[&str] = &[
        ".colima",
        ".docker/desktop",
        ".docker/run",
        ".rd",
        ".screen",
        ".ssh/agent",
    ];
    const ELSEWHERE: &[&str] = &["/var/lib/incus", "/var/lib/lxd", "/var/snap/lxd/common/lxd"];
    let in_home = home
        .into_iter()
        .flat_map(|home| IN_HOME.iter().map(|place| home.join(place)));
    in_home
        .chain(ELSEWHERE.iter().map(PathBuf::from))
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| is_directory(path))
        .map(Mask::over)
        .collect()
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// What is to be done about a socket that a variable names.
enum Named {
    Covered,
    Cover(Mask),
    /// Nothing can be done.
    Exposed,
}

/// The permission bits of group and others.
const OF_OTHERS: u32 = 0o077;

fn socket_mask(socket: &Path, subject: &Subject<'_>, state: &Path, masks: &[Mask]) -> Named {
    let Some(directory) = socket
        .parent()
        .and_then(|directory| directory.canonicalize().ok())
    else {
        return Named::Covered;
    };
    let plan = ConfinementPlan {
        masks: masks.to_vec(),
        ..ConfinementPlan::default()
    };
    if hidden::Hidden::by(&plan).hides(&directory) || directory.starts_with(state) {
        return Named::Covered;
    }
    let is_ancestor = |path: &Path| path.starts_with(&directory);
    let home = subject.home.and_then(|home| home.canonicalize().ok());
    let is_needed = is_ancestor(state)
        || is_ancestor(Path::new("/tmp"))
        || home.is_some_and(|home| is_ancestor(&home) || directory == home.join(".ssh"));
    let meta = fs::symlink_metadata(&directory);
    let is_its_own =
        meta.is_ok_and(|meta| meta.is_dir() && meta.uid() == subject.uid && meta.mode() & OF_OTHERS == 0);
    if is_its_own && !is_needed {
        Named::Cover(Mask::over(directory))
    } else {
        Named::Exposed
    }
}

/// The state directory under every path that leads to it.
fn state_masks(state: &Path, open: &[PathBuf], mounts: &[Mount]) -> Vec<Mask> {
    // One that is a link leads elsewhere: what is there is not covered, and if it is, it is not to be uncovered.
    let keep = open.iter().filter(|directory| is_directory(directory));
    let keep = keep.filter_map(|directory| directory.canonicalize().ok());
    let keep = keep
        .filter(|real| real.starts_with(state) && real != state)
        .collect();
    let mut masks = vec![Mask {
        keep,
        ..Mask::over(state.to_path_buf())
    }];
    for alias in mounts::aliases(mounts, state) {
        if is_directory(&alias) && leads_inside(&alias, state) {
            masks.push(Mask::over(alias));
        }
    }
    masks
}

/// Whether a path that the table of mounts gives for the state directory, or for a part of it, is one now.
fn leads_inside(alias: &Path, state: &Path) -> bool {
    // A part of it has the name of that part somewhere below; looking for it would cost more than a cover too many.
    mounts::same_directory(alias, state) || fs::metadata(alias).is_ok_and(|meta| same_device(&meta, state))
}

fn same_device(meta: &fs::Metadata, state: &Path) -> bool {
    fs::metadata(state).is_ok_and(|state| state.dev() == meta.dev())
}

/// A command that moves itself into another control group would escape from being killed with its supervisor, and
/// could stop the server's.
fn is_control_group(mount: &Mount) -> bool {
    matches!(mount.kind.as_str(), "cgroup" | "cgroup2")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            for directory in ["state/countersign", "agent", "elsewhere"] {
                let path = home.path().join(directory);
                fs::create_dir_all(&path).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
            }
            home
        }

        fn path(&self) -> PathBuf {
            self.0.path().canonicalize().unwrap()
        }

        fn find(
            &self,
            ruling: &[PathBuf],
            environment: &[(OsString, OsString)],
        ) -> Result<MaskedPaths, Obstacle> {
            let home = self.path();
            let uid = rustix::process::geteuid().as_raw();
            let open = [home.join("state/workspace")];
            make_directories(uid, &open)?;
            MaskedPaths::find(&Subject {
                uid,
                home: Some(&home),
                state: &home.join("state"),
                open: &open,
                ruling,
                program: Some(&home.join("elsewhere/program")),
                environment,
            })
        }
    }

    #[test]
    fn the_state_directory_is_covered_and_its_workspace_is_made_and_kept() {
        let home = Home::new();
        let places = home.find(&[home.path().join("state/x.json")], &[]).unwrap();
        let state = home.path().join("state");
        let mask = places.plan.masks.iter().find(|mask| mask.at == state).unwrap();
        assert_eq!(
            (&mask.keep, mask.writable),
            (&vec![state.join("workspace")], false)
        );
        let hidden = hidden::Hidden::by(&places.plan);
        for socket in [
            "/run/docker.sock",
            "/run/dbus/system_bus_socket",
            "/run/user/0/bus",
        ] {
            assert!(hidden.hides(Path::new(socket)), "{socket}");
        }
    }

    #[test]
    fn a_policy_that_commands_could_replace_is_an_obstacle() {
        let home = Home::new();
        let outside = home.path().join("elsewhere/policy.json");
        assert!(matches!(
            home.find(std::slice::from_ref(&outside), &[]),
            Err(Obstacle::OutsideStateDir(path)) if path == outside
        ));
    }

    #[test]
    fn what_leads_to_the_state_directory_cannot_be_exchanged() {
        let home = Home::new();
        let pinned = home.find(&[], &[]).unwrap().plan.pinned;
        assert_eq!(pinned.last(), Some(&home.path()), "{pinned:?}");
        assert!(pinned.iter().is_sorted(), "{pinned:?}");
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(replaceable_link(&home.path().join("state"), uid), None);
        let link = home.path().join("link");
        for target in [home.path(), PathBuf::from("."), PathBuf::from("elsewhere/..")] {
            std::os::unix::fs::symlink(target, &link).unwrap();
            let by_link = link.join("state");
            assert_eq!(replaceable_link(&by_link, uid).as_ref(), Some(&link));
            let subject = Subject {
                uid,
                home: None,
                state: &by_link,
                open: &[],
                ruling: &[],
                program: None,
                environment: &[],
            };
            assert!(matches!(MaskedPaths::find(&subject), Err(Obstacle::Link(path)) if path == link));
            fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn the_program_is_fixed_where_the_account_may_replace_it() {
        let home = Home::new();
        assert_eq!(
            home.find(&[], &[]).unwrap().plan.fixed,
            Vec::<PathBuf>::new(),
            "none is there"
        );
        let program = home.path().join("elsewhere/program");
        fs::File::create(&program).unwrap();
        let plan = home.find(&[], &[]).unwrap().plan;
        assert_eq!(plan.fixed, std::slice::from_ref(&program));
        assert!(
            plan.pinned.contains(&home.path().join("elsewhere")),
            "{:?}",
            plan.pinned
        );
        assert!(plan.pinned.is_sorted(), "{:?}", plan.pinned);
        let uid = rustix::process::geteuid().as_raw();
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&program, &link).unwrap();
        assert_eq!(replaceable_program(&link, uid), Some(program.clone()));
        // Another account, that owns nothing of it.
        let other = uid + 1;
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&program, 0o755);
        assert_eq!(program_replaceable_by(&program, other), None);
        assert_eq!(program_replaceable_by(&program, uid), Some(program.clone()));
        mode(&program, 0o757);
        assert_eq!(program_replaceable_by(&program, other), Some(program.clone()));
        mode(&program, 0o755);
        mode(&home.path().join("elsewhere"), 0o777);
        assert_eq!(program_replaceable_by(&program, other), Some(program.clone()));
        mode(&home.path().join("elsewhere"), 0o1777);
        assert_eq!(program_replaceable_by(&program, other), None);
    }

    #[test]
    fn the_directory_of_an_agent_is_covered_unless_others_need_it() {
        let home = Home::new();
        let variable = |path: PathBuf| [(OsString::from("SSH_AUTH_SOCK"), path.into_os_string())];
        let own = home.path().join("agent");
        let places = home.find(&[], &variable(own.join("s"))).unwrap();
        assert!(places.plan.masks.contains(&Mask::over(own)));
        assert_eq!(places.exposed, Vec::<PathBuf>::new());
        let shared = home.path().join("agent.sock");
        let places = home.find(&[], &variable(shared.clone())).unwrap();
        assert_eq!(places.exposed, [shared]);
    }

    #[test]
    fn services_of_the_machine_are_not_put_back() {
        for name in [
            "docker.sock",
            "containerd",
            "dbus",
            "snapd.socket",
            "user",
            "podman",
        ] {
            assert!(!is_harmless(name), "{name}");
        }
        for name in ["lock", "systemd", "postgresql", "utmp"] {
            assert!(is_harmless(name), "{name}");
        }
    }
}
