//! What the kernel keeps of the programs of a run, as rulesets that a supervisor gives them.
//!
//! A ruleset allows files by what they are, never by their names: one that takes the place of an allowed file is not
//! allowed. Rulesets are remembered with everything that was looked at for them, and used again as long as all of that is
//! the same. What cannot be kept is refused: nothing starts with fewer limits than its record says.

use std::{
    collections::VecDeque,
    ffi::CString,
    io,
    os::{
        fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use countersign_domain::{
    Confinement, FileIdentity, Isolation, NotKept, Observed, ProgramLimits, Startable, WritePlace,
};
use countersign_runner::wire::{Kept, SeenStart};
use countersign_sys::{
    fs::{FileStamp, path_of_descriptor},
    hooks,
    landlock::{Handled, PlaceKind, Ruleset},
    stamp,
};

use super::error::{Mismatch, StartError, Unkept};
use crate::{
    loader::{self, Needs},
    peer_fs::{FileAccessError, Files},
    shebang_cache::stamp_of,
};

/// Rulesets that are remembered: those of the programs that are run again and again.
const MAX_KNOWN: usize = 48;
/// Different rulesets of one run.
const MAX_RULESETS: usize = 32;
/// Interpreters of interpreters, as deep as the kernel follows them.
const MAX_DEPTH: usize = 5;

/// Always writable, since what is written there goes nowhere or to the terminal of the writer.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];

/// What [`WritePlace::Tmp`] stands for.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// Rulesets that were made before, the latest first.
#[derive(Debug, Default)]
pub(super) struct Rulesets(Mutex<VecDeque<Known>>);

#[derive(Debug)]
struct Known {
    /// The files that the program is started from.
    own: Vec<FileIdentity>,
    limits: ProgramLimits,
    /// The working directory, where that is writable.
    workspace: Option<(u64, u64)>,
    /// Everything that was looked at, as it was.
    seen: Vec<Seen>,
    ruleset: Arc<MadeRuleset>,
}

/// A ruleset, and which files it lets be executed.
#[derive(Debug)]
pub(super) struct MadeRuleset {
    ruleset: OwnedFd,
    starts: Arc<StartsAllowed>,
}

/// The files that a ruleset lets be executed.
#[derive(Debug, Default)]
pub(super) struct StartsAllowed {
    /// Device and inode number of each.
    files: Vec<(u64, u64)>,
    /// Real paths of directories.
    below: Vec<String>,
}

impl MadeRuleset {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.ruleset.as_fd()
    }

    pub(super) const fn starts(&self) -> &Arc<StartsAllowed> {
        &self.starts
    }
}

impl StartsAllowed {
    /// Whether a program that is held by it can start what was seen.
    fn lets_start(&self, seen: &SeenStart) -> bool {
        let Self { files, below } = self;
        let is_below = |directory: &String| {
            seen.path
                .strip_prefix(directory.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        files.contains(&(seen.dev, seen.ino)) || below.iter().any(is_below)
    }
}

/// What was seen of the starts of a run, sorted by whether its rulesets allow them.
pub(super) fn observed(rulesets: &[Arc<StartsAllowed>], starts: Vec<SeenStart>, more: bool) -> Observed {
    let mut observed = Observed {
        more,
        ..Observed::default()
    };
    for seen in starts {
        let Some(ruleset) = rulesets.get(usize::from(seen.ruleset)) else {
            continue;
        };
        let list = if ruleset.lets_start(&seen) {
            &mut observed.started
        } else {
            &mut observed.refused
        };
        if !list.contains(&seen.path) {
            list.push(seen.path);
        }
    }
    observed
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: CString,
    found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// This very file with this content.
    File(FileStamp),
    /// This very directory or device, whatever is in it.
    Place(u64, u64),
    Nothing,
}

impl Found {
    fn of(stat: &Stat) -> Self {
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            Self::File(stamp::of_stat(stat))
        } else {
            Self::Place(stat.st_dev, stat.st_ino)
        }
    }
}

/// The rulesets of one run, each once.
#[derive(Debug)]
pub(super) struct RunRulesets<'a> {
    confinement: &'a Confinement,
    isolation: Isolation,
    known: &'a Rulesets,
    files: &'a Files,
    directory: BorrowedFd<'a>,
    next: usize,
    made: Vec<Arc<MadeRuleset>>,
}

impl<'a> RunRulesets<'a> {
    /// For a run that begins in `directory`.
    pub(super) const fn new(
        confinement: &'a Confinement,
        isolation: Isolation,
        known: &'a Rulesets,
        files: &'a Files,
        directory: BorrowedFd<'a>,
    ) -> Self {
        Self {
            confinement,
            isolation,
            known,
            files,
            directory,
            next: 0,
            made: Vec::new(),
        }
    }

    /// What is kept of the next program of the plan, which is started from these files.
    pub(super) fn next(&mut self, own: &[&FileIdentity]) -> Result<Option<Kept>, StartError> {
        let confinement = self.confinement;
        let at = self.next;
        self.next += 1;
        if nothing_to_keep(confinement) {
            return Ok(None);
        }
        let limits = confinement.programs.get(at);
        let limits = limits.ok_or_else(|| contradiction(confinement))?;
        if limits.is_open() {
            return Ok(None);
        }
        let refused = |why| unkept(&limits.program, why);
        // Of what a program gains nothing can be kept; of what the kernel cannot keep, the rest is.
        if confinement.not_kept == Some(NotKept::GainsPrivileges) {
            return Err(refused(Unkept::Contradiction));
        }
        let handled = Handled {
            starts: limits.starts.is_some(),
            writes: limits.writes.is_some(),
            connects: limits.connects.is_some(),
            scopes: false,
        };
        if own.is_empty() {
            return Err(refused(Unkept::NotJudged));
        }
        let ruleset = self.ruleset(limits, handled, own)?;
        let known = self.made.iter().position(|made| Arc::ptr_eq(made, &ruleset));
        let index = match known {
            Some(index) => index,
            None if self.made.len() == MAX_RULESETS => return Err(refused(Unkept::TooMany)),
            None => {
                self.made.push(ruleset);
                self.made.len() - 1
            }
        };
        Ok(Some(Kept {
            ruleset: u8::try_from(index).map_err(|_too_many| refused(Unkept::TooMany))?,
            starts: handled.starts,
            connects: handled.connects,
        }))
    }

    /// All that were made, once every program was asked for.
    pub(super) fn finish(self) -> Result<Vec<Arc<MadeRuleset>>, StartError> {
        if nothing_to_keep(self.confinement) || self.confinement.programs.len() == self.next {
            Ok(self.made)
        } else {
            Err(contradiction(self.confinement))
        }
    }

    fn ruleset(
        &self,
        limits: &ProgramLimits,
        handled: Handled,
        own: &[&FileIdentity],
    ) -> Result<Arc<MadeRuleset>, StartError> {
        let writes_workspace = limits
            .writes
            .as_ref()
            .is_some_and(|places| places.contains(&WritePlace::Workspace));
        let workspace = if writes_workspace {
            let stat =
                rustix::fs::fstat(self.directory).map_err(|errno| machine("the working directory", errno))?;
            Some((stat.st_dev, stat.st_ino))
        } else {
            None
        };
        let matches = |known: &Known| {
            known.workspace == workspace
                && known.own.iter().eq(own.iter().copied())
                && same_limits(&known.limits, limits)
        };
        let found = {
            let mut known = self.known.lock();
            let found = known.iter().position(matches);
            found.and_then(|at| known.remove(at))
        };
        let known = match found {
            Some(known) if known.seen.iter().all(|seen| self.is_as_seen(seen)) => known,
            Some(_) | None => self.make(limits, handled, own, workspace)?,
        };
        let ruleset = Arc::clone(&known.ruleset);
        let mut all = self.known.lock();
        all.push_front(known);
        all.truncate(MAX_KNOWN);
        Ok(ruleset)
    }

    fn make(
        &self,
        limits: &ProgramLimits,
        handled: Handled,
        own: &[&FileIdentity],
        workspace: Option<(u64, u64)>,
    ) -> Result<Known, StartError> {
        let ruleset = Ruleset::new(handled).map_err(|error| failed(limits, &error))?;
        if handled.starts && !handled.writes {
            // What it writes and moves is not limited.
            let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| machine("/", errno))?;
            ruleset
                .allow_moving(root.as_fd())
                .map_err(|error| failed(limits, &error))?;
        }
        let mut making = Making {
            files: self.files,
            ruleset,
            starts: StartsAllowed::default(),
            seen: Vec::new(),
            limits,
        };
        for identity in own {
            let file = making.judged(identity)?;
            if self.isolation != Isolation::Confined && gains_privileges(&file) {
                return Err(unkept(&limits.program, Unkept::GainsPrivileges));
            }
            if handled.starts {
                making.allow_execute(&file, &identity.path)?;
            }
        }
        for startable in limits.starts.iter().flatten() {
            match startable {
                Startable::File(identity) => {
                    let file = making.judged(identity)?;
                    making.allow_execute(&file, &identity.path)?;
                }
                Startable::Below(directory) => making.allow_below(directory)?,
            }
        }
        if handled.writes {
            for device in DEVICES {
                if let Some((place, _)) = making.place(device)? {
                    making.write(&place, PlaceKind::File)?;
                }
            }
        }
        for place in limits.writes.iter().flatten() {
            match place {
                WritePlace::Workspace => {
                    let written = making.ruleset.allow_write(self.directory, PlaceKind::Directory);
                    written.map_err(|error| failed(limits, &error))?;
                }
                WritePlace::Tmp => {
                    for path in TEMPORARY {
                        making.allow_write(path)?;
                    }
                }
                WritePlace::Path(path) => making.allow_write_by_real_path(path)?,
            }
        }
        for port in limits.connects.iter().flatten() {
            let allowed = making.ruleset.allow_port(*port);
            allowed.map_err(|error| failed(limits, &error))?;
        }
        let Making {
            ruleset,
            starts,
            seen,
            ..
        } = making;
        Ok(Known {
            own: own.iter().map(|identity| (*identity).clone()).collect(),
            limits: limits.clone(),
            workspace,
            seen,
            ruleset: Arc::new(MadeRuleset {
                ruleset: ruleset.finish(),
                starts: Arc::new(starts),
            }),
        })
    }

    /// Whether a path still leads to what it led to.
    fn is_as_seen(&self, seen: &Seen) -> bool {
        let Seen { path, found } = seen;
        // Found by the server's own eyes it is as good as by those of the commands' account: it is the very same.
        let direct = rustix::fs::statat(rustix::fs::CWD, path.as_c_str(), AtFlags::empty());
        let direct = match direct {
            Ok(stat) => Some(Found::of(&stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Some(Found::Nothing),
            Err(_) => None,
        };
        match self.files {
            Files::Direct => direct == Some(*found),
            Files::Remote(_) if direct == Some(*found) && *found != Found::Nothing => true,
            Files::Remote(_) => look(self.files, &path.to_string_lossy())
                .is_ok_and(|looked| looked.map_or(Found::Nothing, |(_, found)| found) == *found),
        }
    }
}

impl Rulesets {
    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ruleset that is being made.
struct Making<'a> {
    files: &'a Files,
    ruleset: Ruleset,
    starts: StartsAllowed,
    seen: Vec<Seen>,
    limits: &'a ProgramLimits,
}

impl Making<'_> {
    /// A file that was judged, if it is still that.
    fn judged(&mut self, identity: &FileIdentity) -> Result<OwnedFd, StartError> {
        let expected = Found::File(stamp_of(identity));
        let path = &identity.path;
        // By the server's own eyes first: it is the same file or none.
        let direct = look(&Files::Direct, path).ok().flatten();
        let found = match (direct, self.files) {
            (Some((file, found)), _) if found == expected => Some(file),
            (_, Files::Remote(_)) => self
                .look(path)?
                .filter(|(_, found)| *found == expected)
                .map(|(file, _)| file),
            (_, Files::Direct) => None,
        };
        let file = found.ok_or_else(|| StartError::BindingMismatch {
            what: Mismatch::Executable,
            path: path.into(),
        })?;
        self.note(path, expected)?;
        Ok(file)
    }

    /// What a path leads to, noted; `None` for nothing.
    fn place(&mut self, path: &str) -> Result<Option<(OwnedFd, Found)>, StartError> {
        let looked = self.look(path)?;
        self.note(path, looked.as_ref().map_or(Found::Nothing, |(_, found)| *found))?;
        Ok(looked)
    }

    fn look(&self, path: &str) -> Result<Option<(OwnedFd, Found)>, StartError> {
        look(self.files, path)
    }

    fn note(&mut self, path: &str, found: Found) -> Result<(), StartError> {
        let path = CString::new(path).map_err(|_nul| StartError::NotPassable)?;
        let seen = Seen { path, found };
        if !self.seen.contains(&seen) {
            self.seen.push(seen);
        }
        Ok(())
    }

    /// A file with everything that the kernel opens to execute it.
    fn allow_execute(&mut self, file: &OwnedFd, path: &str) -> Result<(), StartError> {
        self.execute(file)?;
        let mut stamp = stamp::of_open(file).map_err(|errno| machine(path, errno))?;
        let mut path = path.to_owned();
        for _ in 0..MAX_DEPTH {
            match self.needs(&path, &stamp) {
                Ok(Needs::Nothing) => return Ok(()),
                Ok(Needs::File(next)) => {
                    let Some((file, Found::File(found))) = self.place(&next)? else {
                        return Ok(());
                    };
                    self.execute(&file)?;
                    (path, stamp) = (next, found);
                }
                // Executable and not readable: a program, then.
                Err(_) => return self.allow_usual_loaders(),
            }
        }
        Ok(())
    }

    /// What the file of this stamp needs. Another one at its path says nothing of it.
    fn needs(&self, path: &str, stamp: &FileStamp) -> io::Result<Needs> {
        let file = self.files.open_regular(Path::new(path))?;
        let needs = Needs::of(&file)?;
        if stamp::of_open(&file)? == *stamp {
            Ok(needs)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn allow_below(&mut self, directory: &str) -> Result<(), StartError> {
        let looked = self.place(directory)?;
        // By its real path: a link could be turned to another directory.
        match looked {
            Some((place, Found::Place(..))) if is_at(&place, directory) => {
                self.execute(&place)?;
                self.starts.below.push(directory.to_owned());
            }
            Some(_) | None => {
                return Err(StartError::BindingMismatch {
                    what: Mismatch::Executable,
                    path: directory.into(),
                });
            }
        }
        self.allow_usual_loaders()
    }

    fn allow_usual_loaders(&mut self) -> Result<(), StartError> {
        for loader in loader::USUAL {
            if let Some((file, Found::File(_))) = self.place(loader)? {
                self.execute(&file)?;
            }
        }
        Ok(())
    }

    fn execute(&mut self, file: &OwnedFd) -> Result<(), StartError> {
        if let Ok(stat) = rustix::fs::fstat(file) {
            self.starts.files.push((stat.st_dev, stat.st_ino));
        }
        let allowed = self.ruleset.allow_execute(file.as_fd());
        allowed.map_err(|error| failed(self.limits, &error))
    }

    fn write(&self, place: &OwnedFd, kind: PlaceKind) -> Result<(), StartError> {
        let allowed = self.ruleset.allow_write(place.as_fd(), kind);
        allowed.map_err(|error| failed(self.limits, &error))
    }

    fn allow_write(&mut self, path: &str) -> Result<(), StartError> {
        if let Some((place, _)) = self.place(path)? {
            self.write(&place, kind_of(&place))?;
        }
        Ok(())
    }

    /// What is not there cannot be allowed, nor what a link leads to: the program could turn that elsewhere.
    fn allow_write_by_real_path(&mut self, path: &str) -> Result<(), StartError> {
        match self.place(path)? {
            Some((place, _)) if is_at(&place, path) => self.write(&place, kind_of(&place)),
            Some(_) | None => Ok(()),
        }
    }
}

/// Refuses what a record says that the kernel keeps of a run which is started in another way.
pub(super) fn expect_nothing_to_keep(confinement: &Confinement) -> Result<(), StartError> {
    if nothing_to_keep(confinement) {
        Ok(())
    } else {
        Err(contradiction(confinement))
    }
}

fn nothing_to_keep(confinement: &Confinement) -> bool {
    confinement.programs.iter().all(ProgramLimits::is_open) || hooks::protection_off("starts")
}

fn contradiction(confinement: &Confinement) -> StartError {
    let mut limited = confinement.programs.iter().filter(|limits| !limits.is_open());
    let name = limited.next().map_or("", |limits| limits.program.as_str());
    unkept(name, Unkept::Contradiction)
}

/// Whatever the programs are called.
fn same_limits(one: &ProgramLimits, other: &ProgramLimits) -> bool {
    let ProgramLimits {
        program: _,
        starts,
        writes,
        connects,
    } = one;
    (starts, writes, connects) == (&other.starts, &other.writes, &other.connects)
}

/// What a path leads to; `None` for nothing.
fn look(files: &Files, path: &str) -> Result<Option<(OwnedFd, Found)>, StartError> {
    match files.open_program(Path::new(path)) {
        Ok(opened) => {
            let stat = rustix::fs::fstat(&opened).map_err(|errno| machine(path, errno))?;
            let found = Found::of(&stat);
            Ok(Some((opened, found)))
        }
        Err(FileAccessError::Blind(blind)) => Err(blind.into()),
        Err(FileAccessError::Refused(error)) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
            Some(_) | None => Err(StartError::of_file(error, Mismatch::Executable, path)),
        },
    }
}

fn is_at(place: &OwnedFd, path: &str) -> bool {
    path_of_descriptor(place.as_fd())
        .is_ok_and(|real| real.to_bytes() == Path::new(path).as_os_str().as_bytes())
}

fn kind_of(place: &OwnedFd) -> PlaceKind {
    let kind = rustix::fs::fstat(place).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if kind == Ok(FileType::Directory) {
        PlaceKind::Directory
    } else {
        PlaceKind::File
    }
}

/// Whether executing a file changes who the process is. What cannot be found out counts as if it did.
fn gains_privileges(file: &OwnedFd) -> bool {
    const SET_ID: u32 = 0o6000;
    let Ok(stat) = rustix::fs::fstat(file) else {
        return true;
    };
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut value = [0_u8; 64];
    let capabilities = rustix::fs::getxattr(by_descriptor, "security.capability", &mut value);
    stat.st_mode & SET_ID != 0 || !matches!(capabilities, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

fn machine(path: &str, errno: Errno) -> StartError {
    StartError::Machine {
        path: path.into(),
        source: errno.into(),
    }
}

fn unkept(program: &str, why: Unkept) -> StartError {
    StartError::Unkept {
        program: program.to_owned(),
        why,
    }
}

fn failed(limits: &ProgramLimits, error: &io::Error) -> StartError {
    if error.kind() == io::ErrorKind::Unsupported {
        return unkept(&limits.program, Unkept::Kernel);
    }
    unkept(&limits.program, Unkept::Failed(error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_makes_no_other_ruleset() {
        let limits = |program: &str, port| ProgramLimits {
            program: program.to_owned(),
            connects: Some([port].into()),
            ..ProgramLimits::default()
        };
        assert!(same_limits(&limits("a", 1), &limits("b", 1)));
        assert!(!same_limits(&limits("a", 1), &limits("a", 2)));
    }

    #[test]
    fn what_was_seen_is_sorted_by_the_limits_of_the_program_that_asked() {
        let made = |files: &[(u64, u64)], below: &[&str]| {
            Arc::new(StartsAllowed {
                files: files.to_vec(),
                below: below.iter().map(|path| (*path).to_owned()).collect(),
            })
        };
        let seen = |ruleset, ino, path: &str| SeenStart {
            ruleset,
            dev: 1,
            ino,
            path: path.to_owned(),
        };
        let rulesets = [made(&[(1, 7)], &[]), made(&[], &["/opt/parts"])];
        let starts = vec![
            seen(0, 7, "/bin/a"),
            seen(1, 7, "/bin/a"),
            seen(0, 8, "/opt/parts/b"),
            seen(1, 8, "/opt/parts/b"),
            seen(1, 9, "/opt/parts-of-others/c"),
            seen(1, 10, "/opt/parts-of-others/c"),
            seen(9, 7, "/bin/of/no/program"),
        ];
        let texts = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        let expected = Observed {
            started: texts(&["/bin/a", "/opt/parts/b"]),
            refused: texts(&["/bin/a", "/opt/parts/b", "/opt/parts-of-others/c"]),
            more: true,
        };
        assert_eq!(observed(&rulesets, starts, true), expected);
    }
}
