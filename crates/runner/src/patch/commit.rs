//! The changes of a patch, made one after the other and taken back when one fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs::File,
    io::Write as _,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    },
    rc::Rc,
};

use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid},
    io::Errno,
};

use countersign_protocol::patch::{Failure, TEMPORARY_PREFIX};
use countersign_sys::{
    beneath::{self, Entry, Renames},
    faults::{self, WriteAt},
    hooks,
    process::{self, Pid},
};

use super::{
    Trouble,
    plan::{Changes, PlannedChange, Target},
};

/// A directory with more names than this is not searched for what patches left that died.
const MAX_SWEPT: usize = 20_000;
/// Mode of a new file before the umask, as the format has no other.
const NEW_FILE: Mode = Mode::from_raw_mode(0o644);
const NEW_DIRECTORY: Mode = Mode::from_raw_mode(0o777);

/// Makes the changes, or none of them.
pub(super) fn commit(changes: &Changes) -> Result<(), Failure> {
    commit_by(changes, Renames::AtOnce)
}

pub(super) fn commit_by(changes: &Changes, renames: Renames) -> Result<(), Failure> {
    sweep(changes);
    let mut work = Work {
        targets: &changes.targets,
        renames,
        names: Names::new(),
        done: Vec::new(),
        temporary: Vec::new(),
        made: Vec::new(),
        directories: BTreeMap::new(),
    };
    let made = work.stage(&changes.changes).and_then(|staged| {
        hooks::reach("patch.staged");
        hooks::pause("patch.staged");
        for change in &staged {
            work.make(change)?;
            hooks::reach("patch.placed");
            hooks::pause("patch.placed");
        }
        Ok(())
    });
    match made {
        Ok(()) => {
            hooks::reach("patch.finished");
            work.discard_temporary();
            Ok(())
        }
        Err(failure) => Err(Failure {
            not_restored: work.take_back(),
            ..failure
        }),
    }
}

/// A directory that was there, and the names that lead on from it.
type Key = ((u64, u64), Vec<OsString>);

/// A file of a directory.
type Named = (Rc<OwnedFd>, OsString);

struct Work<'a> {
    targets: &'a [Target],
    renames: Renames,
    names: Names,
    done: Vec<Done<'a>>,
    /// Files under names of ours.
    temporary: Vec<Named>,
    /// Directories that were made.
    made: Vec<Named>,
    /// Directories behind those that were there, each opened once.
    directories: BTreeMap<Key, Rc<OwnedFd>>,
}

/// A change whose new content lies beside its place.
enum Staged<'a> {
    Create(&'a Target, Named, Named),
    Replace(&'a Target, Named, Named),
    Rename(&'a Target, &'a Target, Named),
    Remove(&'a Target),
}

/// A change that was made, and what takes it back.
struct Done<'a> {
    target: &'a Target,
    undo: Undo,
}

enum Undo {
    /// The file of that name is taken away again.
    Unlink(Named, Entry),
    /// The two are exchanged again.
    Exchange(Named, Named),
    /// The first gets the name of the second again.
    Move(Named, Named),
}

impl<'a> Work<'a> {
    /// Writes every new content beside its place, and makes the directories for that.
    fn stage<'c>(&mut self, changes: &'c [PlannedChange]) -> Result<Vec<Staged<'a>>, Failure>
    where
        'a: 'c,
    {
        let mut staged = Vec::with_capacity(changes.len());
        for change in changes {
            let at = match change {
                PlannedChange::Create { at, .. }
                | PlannedChange::Replace { at, .. }
                | PlannedChange::Remove { at } => *at,
                PlannedChange::Rename { to, .. } => *to,
            };
            let Some(target) = self.targets.get(at) else {
                continue;
            };
            let done = self
                .stage_one(change, target)
                .map_err(|trouble| trouble.at(&target.path))?;
            staged.extend(done);
        }
        Ok(staged)
    }

    fn stage_one(
        &mut self,
        change: &PlannedChange,
        target: &'a Target,
    ) -> Result<Option<Staged<'a>>, Trouble> {
        Ok(Some(match change {
            PlannedChange::Create { at: _, content, like } => {
                let place = (self.directory_of(target)?, target.resolved.name.clone());
                let new = self.write(&place.0, content, like.as_ref())?;
                Staged::Create(target, new, place)
            }
            PlannedChange::Replace { at: _, content, like } => {
                let place = (self.directory_of(target)?, target.resolved.name.clone());
                let new = self.write(&place.0, content, Some(like))?;
                Staged::Replace(target, new, place)
            }
            PlannedChange::Rename { from, to: _ } => {
                let place = (self.directory_of(target)?, target.resolved.name.clone());
                let Some(from) = self.targets.get(*from) else {
                    return Ok(None);
                };
                Staged::Rename(from, target, place)
            }
            PlannedChange::Remove { at: _ } => Staged::Remove(target),
        }))
    }

    fn make(&mut self, change: &Staged<'a>) -> Result<(), Failure> {
        let (target, made) = match change {
            Staged::Create(target, new, place) => (*target, self.create(new, place)),
            Staged::Replace(target, new, place) => (*target, self.replace(target, new, place)),
            Staged::Rename(from, target, place) => (*target, self.rename(from, place)),
            Staged::Remove(target) => (*target, self.put_aside(target)),
        };
        let undo = made.map_err(|trouble| trouble.at(&target.path))?;
        self.done.push(Done { target, undo });
        Ok(())
    }

    fn create(&self, new: &Named, place: &Named) -> Result<Undo, Trouble> {
        let entry = entry_of(new)?.ok_or(Trouble::Changed)?;
        self.move_new(new, place)?;
        Ok(Undo::Unlink(place.clone(), entry))
    }

    /// The old file ends up under the name of ours, and is looked at only then: nobody can exchange it any more.
    fn replace(&mut self, target: &Target, new: &Named, place: &Named) -> Result<Undo, Trouble> {
        let exchange = |work: &mut Self| {
            let spare = work.names.next();
            faults::fail_at("patch.rename")?;
            work.renames.exchange(&*place.0, &new.1, &place.1, &spare)
        };
        if let Err(errno) = exchange(self) {
            return Err(if is_what_was_found(place, target) {
                Trouble::system("it cannot be replaced", errno)
            } else {
                Trouble::Changed
            });
        }
        if is_what_was_found(new, target) {
            return Ok(Undo::Exchange(new.clone(), place.clone()));
        }
        exchange(self).map_err(|errno| Trouble::system("it changed, and cannot be put back", errno))?;
        Err(Trouble::Changed)
    }

    fn rename(&self, from: &Target, place: &Named) -> Result<Undo, Trouble> {
        let old = (Rc::clone(&from.resolved.directory), from.resolved.name.clone());
        self.move_checked(from, &old, place)?;
        Ok(Undo::Move(place.clone(), old))
    }

    fn put_aside(&mut self, target: &Target) -> Result<Undo, Trouble> {
        let place = (
            Rc::clone(&target.resolved.directory),
            target.resolved.name.clone(),
        );
        let aside = (Rc::clone(&place.0), self.names.next());
        self.move_checked(target, &place, &aside)?;
        self.temporary.push(aside.clone());
        Ok(Undo::Move(aside, place))
    }

    /// Moves what must be what was found.
    fn move_checked(&self, found: &Target, from: &Named, to: &Named) -> Result<(), Trouble> {
        self.move_new(from, to)?;
        if is_what_was_found(to, found) {
            return Ok(());
        }
        self.move_new(to, from)?;
        Err(Trouble::Changed)
    }

    fn move_new(&self, from: &Named, to: &Named) -> Result<(), Trouble> {
        let names = ((&*from.0, from.1.as_os_str()), (&*to.0, to.1.as_os_str()));
        let moved = faults::fail_at("patch.rename").and_then(|()| self.renames.move_new(names.0, names.1));
        moved.map_err(|errno| match errno {
            Errno::EXIST => Trouble::Exists,
            Errno::NOENT => Trouble::Changed,
            Errno::XDEV => Trouble::system("it lies on another file system", errno),
            errno => Trouble::system("it cannot be renamed", errno),
        })
    }

    /// The directory of a file, made where it is missing.
    fn directory_of(&mut self, target: &Target) -> Result<Rc<OwnedFd>, Trouble> {
        let mut directory = Rc::clone(&target.resolved.directory);
        let mut key = (target.resolved.identity, Vec::new());
        for name in &target.resolved.missing {
            key.1.push(name.clone());
            if let Some(known) = self.directories.get(&key) {
                directory = Rc::clone(known);
                continue;
            }
            let made = faults::fail_at("patch.make-directory")
                .and_then(|()| rustix::fs::mkdirat(&*directory, name, NEW_DIRECTORY));
            match made {
                Ok(()) => self.made.push((Rc::clone(&directory), name.clone())),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(Trouble::system("its directory cannot be made", errno)),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&*directory, name, flags, Mode::empty());
            directory = Rc::new(opened.map_err(|errno| match errno {
                Errno::NOTDIR | Errno::LOOP => Trouble::NotADirectory,
                errno => Trouble::system("its directory cannot be opened", errno),
            })?);
            self.directories.insert(key.clone(), Rc::clone(&directory));
        }
        Ok(directory)
    }

    /// Writes a new file of ours, with the mode and the owner of another.
    fn write(
        &mut self,
        directory: &Rc<OwnedFd>,
        content: &[u8],
        like: Option<&Entry>,
    ) -> Result<Named, Trouble> {
        let name = self.names.next();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = like.map_or(NEW_FILE, |_like| Mode::RUSR | Mode::WUSR);
        let file = faults::fail_at("patch.create")
            .and_then(|()| rustix::fs::openat(&**directory, &name, flags, mode))
            .map_err(|errno| Trouble::system("nothing can be written beside it", errno))?;
        let named = (Rc::clone(directory), name);
        self.temporary.push(named.clone());
        let file = File::from(file);
        let failed = |error: std::io::Error| {
            Trouble::system(
                "its new content cannot be written",
                Errno::from_io_error(&error).unwrap_or(Errno::IO),
            )
        };
        WriteAt::new("patch.write", &file)
            .write_all(content)
            .map_err(failed)?;
        if let Some(like) = like {
            let own =
                Entry::of_open(&file).map_err(|errno| Trouble::system("it cannot be looked at", errno))?;
            if own.owner != like.owner {
                let (user, group) = (Uid::from_raw(like.owner.0), Gid::from_raw(like.owner.1));
                rustix::fs::fchown(&file, Some(user), Some(group)).map_err(|_errno| Trouble::Owner)?;
            }
            // Bits that give the rights of the owner to anyone who starts the file go, as with any change of it.
            let mode = std::fs::Permissions::from_mode(like.mode & 0o777);
            file.set_permissions(mode).map_err(failed)?;
        }
        faults::fail_at("patch.sync")
            .map_err(std::io::Error::from)
            .and_then(|()| file.sync_data())
            .map_err(failed)?;
        Ok(named)
    }

    /// Takes everything back, the latest first. What cannot be taken back is told, and what is kept of it stays.
    fn take_back(&mut self) -> Vec<String> {
        let mut not_restored = Vec::new();
        for Done { target, undo } in std::mem::take(&mut self.done).into_iter().rev() {
            if let Err((_errno, kept)) = self.undo(&undo) {
                not_restored.push(target.path.as_str().to_owned());
                if let Some(kept) = kept {
                    not_restored.push(kept.to_string_lossy().into_owned());
                    self.temporary.retain(|(_directory, name)| *name != kept);
                }
            }
        }
        self.discard_temporary();
        for (directory, name) in self.made.drain(..).rev() {
            // Another process may have put something there meanwhile.
            rustix::fs::unlinkat(&*directory, &name, AtFlags::REMOVEDIR).unwrap_or(());
        }
        not_restored
    }

    /// Takes one change back; else says under which name of ours the old file is.
    fn undo(&mut self, undo: &Undo) -> Result<(), (Errno, Option<OsString>)> {
        match undo {
            Undo::Unlink(place, entry) => {
                let is_ours = beneath::entry(&*place.0, &place.1)
                    .is_ok_and(|now| now.is_some_and(|now| (now.dev, now.ino) == (entry.dev, entry.ino)));
                // Another process took it away or put something in its place: what is there is not ours.
                if !is_ours {
                    return Ok(());
                }
                rustix::fs::unlinkat(&*place.0, &place.1, AtFlags::empty()).map_err(|errno| (errno, None))
            }
            Undo::Exchange(old, place) => {
                let spare = self.names.next();
                self.renames
                    .exchange(&*place.0, &old.1, &place.1, &spare)
                    .map_err(|errno| (errno, Some(old.1.clone())))
            }
            Undo::Move(from, to) => self
                .renames
                .move_new((&*from.0, from.1.as_os_str()), (&*to.0, to.1.as_os_str()))
                .map_err(|errno| (errno, Some(from.1.clone()))),
        }
    }

    fn discard_temporary(&mut self) {
        for (directory, name) in self.temporary.drain(..) {
            // Most have another name by now; what stays is swept up by the next patch.
            rustix::fs::unlinkat(&*directory, &name, AtFlags::empty()).unwrap_or(());
        }
    }
}

fn entry_of((directory, name): &Named) -> Result<Option<Entry>, Trouble> {
    beneath::entry(&**directory, name).map_err(|errno| Trouble::system("it cannot be looked at", errno))
}

fn is_what_was_found(file: &Named, target: &Target) -> bool {
    let found = target.found.as_ref();
    entry_of(file)
        .is_ok_and(|now| now.is_some_and(|now| found.is_some_and(|found| now.is_same_content(found))))
}

/// Names of our own, which say whose they are.
struct Names {
    pid: Pid,
    start_time: u64,
    next: u64,
}

impl Names {
    fn new() -> Self {
        let own = process::current();
        Self {
            pid: process::own_id(),
            start_time: own.map_or(0, |own| own.start_time),
            next: 0,
        }
    }

    fn next(&mut self) -> OsString {
        self.next += 1;
        let Self {
            pid,
            start_time,
            next,
        } = self;
        OsString::from(format!("{TEMPORARY_PREFIX}{pid}-{start_time}-{next}"))
    }
}

/// Whether a name is one of a process that has ended.
fn is_abandoned(name: &OsStr) -> bool {
    let numbers = name
        .to_str()
        .and_then(|name| name.strip_prefix(TEMPORARY_PREFIX))
        .map(|rest| rest.split('-').collect::<Vec<_>>());
    let Some([pid, start_time, count]) = numbers.as_deref() else {
        return false;
    };
    let (Ok(pid), Ok(start_time), Ok(_)) = (pid.parse(), start_time.parse::<u64>(), count.parse::<u64>())
    else {
        return false;
    };
    process::inspect(pid).is_none_or(|process| process.is_zombie || process.start_time != start_time)
}

/// Takes away what patches left that died, in the directories that this one changes.
fn sweep(changes: &Changes) {
    // Where nothing is said of processes, every name would look abandoned.
    if process::inspect(process::own_id()).is_none() {
        return;
    }
    let mut seen = BTreeSet::new();
    for target in &changes.targets {
        if seen.insert(target.resolved.identity) {
            sweep_directory(&target.resolved.directory);
        }
    }
}

fn sweep_directory(directory: &OwnedFd) {
    // One that cannot be read keeps what is there.
    let Ok(listing) = beneath::list(directory) else {
        return;
    };
    let own = rustix::process::geteuid().as_raw();
    for listed in listing.take(MAX_SWEPT) {
        let Ok(listed) = listed else { return };
        let name = beneath::name_of(listed.file_name());
        if !name.as_bytes().starts_with(TEMPORARY_PREFIX.as_bytes()) || !is_abandoned(&name) {
            continue;
        }
        let is_ours = beneath::entry(directory, &name).is_ok_and(|found| {
            found.is_some_and(|found| {
                matches!(found.kind, FileType::RegularFile | FileType::Symlink) && found.owner.0 == own
            })
        });
        if is_ours {
            rustix::fs::unlinkat(directory, &name, AtFlags::empty()).unwrap_or(());
        }
    }
}
