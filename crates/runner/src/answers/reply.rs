//! What each call of a caller comes to.

use std::os::fd::AsRawFd;

use rustix::{
    fs::{AtFlags, FileType, OFlags, Statx, StatxFlags},
    io::Errno,
};

use countersign_sys::{
    hooks,
    interception::{self, CloseOnExec, Flags, Wish},
};

use super::{
    Answer,
    paths::{PathAt, last_part, lexical, parts, plain, rest_beneath},
    processes::{Caller, identity, identity_of, kind_of, look_at},
    scripts::{Named, Scripts},
};

/// What a caller of `access` may want to do.
const EXECUTE: u64 = 1;
const WRITE: u64 = 2;
/// What the kernel puts behind the name of a directory that has none any more.
const DELETED: &[u8] = b" (deleted)";

impl Scripts {
    pub(super) fn answer(&mut self, caller: &Caller<'_>, wish: Wish) -> Result<Answer, Errno> {
        self.resolve_steps(caller);
        if self.view.is_none() {
            self.view = Some(caller.view()?);
        }
        match wish {
            // Of what is executed the kernel decides.
            Wish::Execute { .. } => Ok(Answer::Through),
            Wish::Open {
                directory,
                path,
                flags,
            } => {
                let place = caller.place(directory, path)?;
                self.opening(caller, &place, flags)
            }
            Wish::Change { directory, path } => {
                let place = caller.place(directory, path)?;
                if let Named::Script(index) = self.named(caller, &place)? {
                    self.release(index);
                }
                Ok(Answer::Through)
            }
            Wish::Rename { from, to } => {
                let from = caller.place(from.0, from.1)?;
                let to = caller.place(to.0, to.1)?;
                // One that fails moves nothing.
                if self.sees_the_same(caller)? && caller.finds(&from) {
                    for place in [from, to] {
                        for name in self.names_of(caller, &place) {
                            self.release_beneath(&name);
                        }
                    }
                }
                Ok(Answer::Through)
            }
            Wish::WorkingDirectory { buffer, size } => self.working_directory(caller, buffer, size),
            Wish::ReadLink {
                directory,
                path,
                buffer,
                size,
            } => {
                let place = caller.place(directory, path)?;
                self.link(caller, &place, (buffer, size))
            }
            Wish::Look {
                directory,
                path,
                follows,
                form,
                buffer,
            } => {
                let place = caller.place(directory, path)?;
                match self.asked(caller, &place)? {
                    Ok(index) => self.look(caller, &place, index, follows).map(|found| {
                        let bytes = form.bytes(&found);
                        Answer::Structure { bytes, buffer }
                    }),
                    Err(answer) => Ok(answer),
                }
            }
            Wish::Reach {
                directory,
                path,
                mode,
            } => {
                let place = caller.place(directory, path)?;
                match self.asked(caller, &place)? {
                    Ok(index) => self.reach(caller, &place, index, mode),
                    Err(answer) => Ok(answer),
                }
            }
            Wish::Enter { path } => {
                self.enter(caller, path)?;
                Ok(Answer::Through)
            }
            Wish::EnterOpen => {
                self.enter_open(caller);
                Ok(Answer::Through)
            }
            Wish::Clone {
                shares_directory,
                shares_parent,
            } => {
                if shares_directory {
                    self.share(caller);
                }
                if shares_parent {
                    self.steps.lineage.tangle();
                }
                Ok(Answer::Through)
            }
            Wish::Adopt => {
                self.steps.lineage.tangle();
                Ok(Answer::Through)
            }
        }
    }

    fn opening(&mut self, caller: &Caller<'_>, place: &PathAt, flags: Flags) -> Result<Answer, Errno> {
        let bits = flag_bits(caller.flags(flags)?);
        let opening = Opening::of(bits);
        if opening == Opening::Changes {
            if let Named::Script(index) = self.named(caller, place)? {
                self.release(index);
            }
            return Ok(Answer::Through);
        }
        let Some(ways) = self.approach(caller, place) else {
            return Ok(Answer::Fails(Errno::ACCESS));
        };
        if !ways.is_empty() {
            // What else a structure of flags demands is not looked at.
            let flags = matches!(flags, Flags::Are(_)).then_some(bits);
            return self.way(caller, place, (ways, flags));
        }
        Ok(match (self.asked(caller, place)?, opening) {
            (Err(answer), _) => answer,
            (Ok(index), Opening::Reads(closes)) => Answer::Content(index, closes),
            (Ok(_), Opening::Directory) => Answer::Fails(Errno::NOTDIR),
            (Ok(_), Opening::Looks | Opening::Changes) => Answer::Through,
        })
    }

    /// A directory on the way to a script, by its names: the one that is opened here is that directory from now on.
    fn way(
        &mut self,
        caller: &Caller<'_>,
        place: &PathAt,
        (ways, flags): (Vec<Vec<u8>>, Option<OFlags>),
    ) -> Result<Answer, Errno> {
        if self.sees_the_same(caller)? {
            self.learn_ways(caller, &ways);
            hooks::pause("sup.entering");
            if let Some(flags) = flags
                && let Some(directory) = caller.open_directory(place, flags)
            {
                let opened = identity(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
                for way in &ways {
                    self.learn(opened, way);
                }
                return Ok(Answer::Opened(directory, closes_on_exec(flags)));
            }
        }
        self.take(ways);
        Ok(Answer::Through)
    }

    /// What a path of a caller is to the scripts that the run left alone. To one that sees other files a script's name is
    /// unclear.
    fn named(&self, caller: &Caller<'_>, place: &PathAt) -> Result<Named, Errno> {
        // Nearly every path ends here.
        if !parts(&place.path).any(|part| self.endings.contains(part)) {
            return Ok(Named::Other);
        }
        let names = self.names_of(caller, place);
        let named = match self.named_by(&names, place) {
            Named::Other if self.is_hidden(caller, place) => return Ok(Named::Unclear),
            Named::Other => self.nearly_named(caller, place, &names),
            named @ (Named::Script(_) | Named::Beneath | Named::Unclear) => named,
        };
        Ok(match named {
            Named::Other => Named::Other,
            named if self.sees_the_same(caller)? => named,
            Named::Script(_) => Named::Unclear,
            Named::Beneath | Named::Unclear => Named::Other,
        })
    }

    /// Whether a path that ends like a script begins where only the kernel knows: at a directory that may be another one
    /// than its process means, or at what `/proc` says of a process by its number.
    fn is_hidden(&self, caller: &Caller<'_>, place: &PathAt) -> bool {
        if place.is_absolute() {
            return place.is_of_process() && self.ends_like_one(last_part(&place.path));
        }
        parts(&place.path).any(|part| self.ends_like_one(part)) && self.strays(caller, place.directory)
    }

    /// By the text without `..`, if that leads to the same directory.
    fn nearly_named(&self, caller: &Caller<'_>, place: &PathAt, names: &[Vec<u8>]) -> Named {
        if parts(&place.path).any(|part| part == b"..") {
            for name in names.iter().map(|name| lexical(name)) {
                match self.of_name(&name) {
                    Some(_) if place.is_of_directory() => return Named::Beneath,
                    Some(index) if caller.leads_to(place, &name) => return Named::Script(index),
                    Some(_) => return Named::Unclear,
                    None => {}
                }
            }
        }
        Named::Other
    }

    /// The script that an interpreter asks for, or what there is to say otherwise.
    fn asked(&self, caller: &Caller<'_>, place: &PathAt) -> Result<Result<usize, Answer>, Errno> {
        let named = self.named(caller, place)?;
        Ok(match named {
            Named::Other => Err(Answer::Through),
            _ if !caller.interprets(self) => Err(Answer::Through),
            Named::Script(index) => Ok(index),
            Named::Beneath => Err(Answer::Fails(Errno::NOTDIR)),
            Named::Unclear => Err(Answer::Fails(Errno::ACCESS)),
        })
    }

    /// The file that was judged, even if something else is there by now. What the run did to its mode and times is seen
    /// as long as that file is there.
    fn look(
        &mut self,
        caller: &Caller<'_>,
        place: &PathAt,
        index: usize,
        follows: bool,
    ) -> Result<Statx, Errno> {
        let flags = if follows {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let seen = look_at(&caller.seen(place), flags).ok();
        if let Some(link) = seen.filter(|found| kind_of(found) == FileType::Symlink) {
            // Where it leads is answered too.
            return Ok(link);
        }
        let file = self.files.get(index).ok_or(Errno::NOENT)?;
        let is_this =
            |found: &Statx| kind_of(found) == FileType::RegularFile && identity_of(found) == file.identity;
        let (length, mode) = (file.length, file.mode);
        let mut found = match seen.filter(is_this) {
            Some(found) => found,
            None => self.look_at_content(index, mode)?,
        };
        found.stx_size = length;
        Ok(found)
    }

    fn look_at_content(&mut self, index: usize, mode: u32) -> Result<Statx, Errno> {
        let content = self.content(index)?;
        let mut found = rustix::fs::statx(content, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        let mode = FileType::RegularFile.as_raw_mode() | (mode & 0o777);
        found.stx_mode = u16::try_from(mode).map_err(|_no_mode| Errno::IO)?;
        Ok(found)
    }

    /// It can be read. Executing it is a question of its mode alone; no script is chosen because it can be written.
    fn reach(
        &mut self,
        caller: &Caller<'_>,
        place: &PathAt,
        index: usize,
        mode: u64,
    ) -> Result<Answer, Errno> {
        if mode & WRITE != 0 {
            return Ok(Answer::Through);
        }
        let is_refused = mode & EXECUTE != 0 && self.look(caller, place, index, true)?.stx_mode & 0o111 == 0;
        Ok(if is_refused {
            Answer::Fails(Errno::ACCESS)
        } else {
            Answer::Number(0)
        })
    }

    /// The name of a directory in which scripts are found by relative paths: a program that makes an absolute path of it
    /// opens that.
    fn working_directory(&mut self, caller: &Caller<'_>, buffer: u64, size: u64) -> Result<Answer, Errno> {
        if self.strays(caller, interception::WORKING_DIRECTORY) {
            let meant = self
                .meant(caller)
                .map(|name| directory_name(name, (buffer, size)));
            return Ok(meant.unwrap_or(Answer::Fails(Errno::ACCESS)));
        }
        let Some((identity, name)) = caller.directory(interception::WORKING_DIRECTORY) else {
            return Ok(Answer::Through);
        };
        let known: Vec<Vec<u8>> = self
            .directories
            .iter()
            .filter(|(known, _)| *known == identity)
            .map(|(_, name)| name.clone())
            .collect();
        if known.is_empty()
            || !name.starts_with(b"/")
            || name.ends_with(DELETED)
            || !self.sees_the_same(caller)?
        {
            return Ok(Answer::Through);
        }
        for old in known {
            if let Err(errno) = self.add_names(&old, &[plain(&name)]) {
                return Ok(Answer::Fails(errno));
            }
        }
        if !self.directories.contains(&(identity, plain(&name))) {
            self.directories.push((identity, plain(&name)));
        }
        Ok(directory_name(&name, (buffer, size)))
    }

    /// Where a link leads on the way to a script, or that there is none.
    fn link(
        &mut self,
        caller: &Caller<'_>,
        place: &PathAt,
        (buffer, size): (u64, u64),
    ) -> Result<Answer, Errno> {
        let is_on_the_way = |name: &Vec<u8>| {
            let mut held = self.files.iter().filter(|file| !file.is_released);
            !name.is_empty()
                && held.any(|file| file.names.iter().any(|other| rest_beneath(other, name).is_some()))
        };
        let is_astray = |number: i32| caller.is_directory(number) && self.strays(caller, number);
        if place.named_by_link().is_some_and(is_astray) {
            return Ok(Answer::Fails(Errno::ACCESS));
        }
        let names = self.names_of(caller, place);
        let Some(name) = names.iter().find(|name| is_on_the_way(name)).cloned() else {
            let is_beneath = self.named_by(&names, place) == Named::Beneath && self.sees_the_same(caller)?;
            return Ok(if is_beneath && caller.interprets(self) {
                Answer::Fails(Errno::NOTDIR)
            } else {
                Answer::Through
            });
        };
        if !self.sees_the_same(caller)? {
            return Ok(Answer::Through);
        }
        let seen = [caller.proc("root").as_bytes(), name.as_slice()].concat();
        let target = match rustix::fs::readlink(seen, Vec::new()) {
            Ok(target) => target.into_bytes(),
            // No link, even if nothing is there by now.
            Err(_) if self.of_name(&name).is_some() && caller.interprets(self) => {
                return Ok(Answer::Fails(Errno::INVAL));
            }
            Err(errno) => return Ok(Answer::Fails(errno)),
        };
        let end = name.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let leads_to = if target.starts_with(b"/") {
            target.clone()
        } else {
            [name.get(..=end).unwrap_or_default(), target.as_slice()].concat()
        };
        if let Err(errno) = self.add_names(&name, &[plain(&leads_to), lexical(&leads_to)]) {
            return Ok(Answer::Fails(errno));
        }
        let room = usize::try_from(size).unwrap_or(usize::MAX).min(target.len());
        Ok(Answer::Text {
            text: target.get(..room).unwrap_or_default().to_vec(),
            buffer,
        })
    }
}

fn directory_name(name: &[u8], (buffer, size): (u64, u64)) -> Answer {
    let text = [name, b"\0"].concat();
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > size {
        return Answer::Fails(Errno::RANGE);
    }
    Answer::Text { text, buffer }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Reads(CloseOnExec),
    Changes,
    /// To begin at, if it is a directory.
    Directory,
    Looks,
}

impl Opening {
    fn of(flags: OFlags) -> Self {
        if flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::TRUNC) {
            return Self::Changes;
        }
        if flags.contains(OFlags::DIRECTORY) {
            return Self::Directory;
        }
        // Nothing reads its script like that.
        if flags.contains(OFlags::PATH) || flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Self::Looks;
        }
        Self::Reads(closes_on_exec(flags))
    }
}

fn flag_bits(flags: u64) -> OFlags {
    OFlags::from_bits_retain(u32::try_from(flags & u64::from(u32::MAX)).unwrap_or(0))
}

fn closes_on_exec(flags: OFlags) -> CloseOnExec {
    if flags.contains(OFlags::CLOEXEC) {
        CloseOnExec::Yes
    } else {
        CloseOnExec::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_gets_the_content() {
        let of = |flags: OFlags| Opening::of(flag_bits(flags.bits().into()));
        assert_eq!(of(OFlags::RDONLY), Opening::Reads(CloseOnExec::No));
        assert_eq!(
            of(OFlags::CLOEXEC | OFlags::NOFOLLOW),
            Opening::Reads(CloseOnExec::Yes)
        );
        for changes in [
            OFlags::WRONLY,
            OFlags::RDWR,
            OFlags::TRUNC,
            OFlags::WRONLY | OFlags::CREATE,
        ] {
            assert_eq!(of(changes), Opening::Changes, "{changes:?}");
        }
        for looks in [OFlags::PATH, OFlags::CREATE | OFlags::EXCL] {
            assert_eq!(of(looks), Opening::Looks, "{looks:?}");
        }
        for directory in [OFlags::DIRECTORY, OFlags::DIRECTORY | OFlags::PATH] {
            assert_eq!(of(directory), Opening::Directory, "{directory:?}");
        }
        // On a file that is there it does nothing.
        assert_eq!(of(OFlags::CREATE), Opening::Reads(CloseOnExec::No));
    }
}
