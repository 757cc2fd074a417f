//! The scripts of a run by all their names, and what a path of a caller is to them.

use std::{
    collections::{BTreeSet, HashSet},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{MemfdFlags, Mode},
    io::Errno,
};

use countersign_sys::fs::{own_position, seal};

use crate::wire::HeldScript;

use super::{
    Identity,
    paths::{PathAt, last_part, lexical, parts, plain, rest_beneath},
    processes::{Caller, identity},
    steps::Steps,
};

/// Names that one script may come to have: more are only made on purpose.
const MAX_NAMES: usize = 64;
/// Directories that are told by what they are: more are only made on purpose.
const MAX_DIRECTORIES: usize = 1024;

/// What a path of a caller is to the scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    Other,
    /// One that the run left alone, by its index.
    Script(usize),
    /// What would lie beneath one: nothing does.
    Beneath,
    /// It may be one, or another file.
    Unclear,
}

/// The scripts, by all their names.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(super) files: Vec<File>,
    bundle: OwnedFd,
    /// The programs that the run was judged with.
    pub(super) programs: Vec<Identity>,
    /// Those of them that copy files.
    pub(super) copiers: Vec<Identity>,
    /// Directories that are told by what they are, under any name that they have by now.
    pub(super) directories: Vec<(Identity, Vec<u8>)>,
    /// The last parts of all names.
    pub(super) endings: HashSet<Vec<u8>>,
    /// The other parts of them.
    inner_parts: HashSet<Vec<u8>>,
    pub(super) steps: Steps,
    /// The file system that the names are of: that of the first program.
    pub(super) view: Option<(Identity, Identity)>,
}

#[derive(Debug)]
pub(super) struct File {
    pub(super) names: Vec<Vec<u8>>,
    offset: u64,
    pub(super) length: u64,
    pub(super) mode: u32,
    pub(super) identity: Identity,
    content: Option<OwnedFd>,
    /// The run changed it itself.
    pub(super) is_released: bool,
}

impl Scripts {
    /// For these scripts, whose contents lie one after the other in `bundle`. `begins` is the directory in which the run
    /// begins, with its name.
    pub(crate) fn new(scripts: &[HeldScript], bundle: OwnedFd, begins: (Identity, &[u8])) -> Self {
        let (identity, name) = begins;
        let files = scripts.iter().map(|script| {
            let mut names: Vec<Vec<u8>> = Vec::new();
            for name in &script.names {
                for name in [plain(name.as_bytes()), lexical(name.as_bytes())] {
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
            }
            File {
                names,
                offset: script.offset,
                length: script.length,
                mode: script.mode,
                identity: script.identity,
                content: None,
                is_released: false,
            }
        });
        let mut scripts = Self {
            endings: HashSet::new(),
            inner_parts: HashSet::new(),
            steps: Steps::new(),
            files: Vec::new(),
            bundle,
            programs: Vec::new(),
            copiers: Vec::new(),
            directories: vec![(identity, plain(name))],
            view: None,
        };
        for file in files {
            for name in &file.names {
                scripts.note_parts(name);
            }
            scripts.files.push(file);
        }
        scripts.know_ways();
        scripts
    }

    /// A directory that a step of the plan changes to, which is told by its identity.
    pub(crate) fn know_directory(&mut self, identity: Identity, name: &[u8]) {
        self.directories.push((identity, plain(name)));
    }

    /// A program that the run was judged with.
    pub(crate) fn know_program(&mut self, identity: Identity) {
        self.programs.push(identity);
    }

    /// One of them that copies files and interprets none.
    pub(crate) fn know_copier(&mut self, identity: Identity) {
        self.copiers.push(identity);
    }

    fn note_parts(&mut self, name: &[u8]) {
        self.endings.insert(last_part(name).to_vec());
        let count = parts(name).count().saturating_sub(1);
        self.inner_parts
            .extend(parts(name).take(count).map(<[u8]>::to_vec));
    }

    /// The directories that lie on the way to a script. Where another one has such a name at this moment, it is taken for
    /// that one: what is in it is answered with the content.
    fn know_ways(&mut self) {
        for way in self.all_ways() {
            let is_new = !self.directories.iter().any(|(_, known)| *known == way);
            if is_new && let Ok(identity) = identity(way.as_slice()) {
                self.learn(identity, &way);
            }
        }
    }

    /// The names of all directories that lie on the way to a script.
    pub(super) fn all_ways(&self) -> BTreeSet<Vec<u8>> {
        let names = self.files.iter().flat_map(|file| &file.names);
        let ways = names.flat_map(|name| {
            let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            ends.filter_map(|(end, _)| name.get(..end).filter(|way| !way.is_empty()))
        });
        ways.map(<[u8]>::to_vec).collect()
    }

    /// Whether a path may be that of a directory on the way to a script. Nearly none is.
    pub(super) fn may_be_way(&self, path: &[u8]) -> bool {
        let leads_up = parts(path).any(|part| part == b"..");
        match parts(path).filter(|part| *part != b".").last() {
            Some(last) => leads_up || self.inner_parts.contains(last),
            None => path.starts_with(b"."),
        }
    }

    pub(super) fn is_known_as(&self, identity: Identity, name: &[u8]) -> bool {
        let mut directories = self.directories.iter();
        directories.any(|(known, known_name)| *known == identity && known_name == name)
    }

    pub(super) fn learn(&mut self, identity: Identity, name: &[u8]) {
        let known = (identity, name.to_vec());
        if self.directories.len() < MAX_DIRECTORIES && !self.directories.contains(&known) {
            self.directories.push(known);
        }
    }

    /// Whether the name of a directory is that of one in which a script lies, however deep.
    pub(super) fn is_on_the_way(&self, name: &[u8]) -> bool {
        let mut held = self.files.iter().filter(|file| !file.is_released);
        let is_beneath = |other: &Vec<u8>| rest_beneath(other, name).is_some_and(|rest| !rest.is_empty());
        !name.is_empty() && held.any(|file| file.names.iter().any(is_beneath))
    }

    /// Whether a path means to this caller what it means to the others.
    pub(super) fn sees_the_same(&self, caller: &Caller<'_>) -> Result<bool, Errno> {
        Ok(Some(caller.view()?) == self.view)
    }

    pub(super) fn ends_like_one(&self, part: &[u8]) -> bool {
        let mut held = self.files.iter().filter(|file| !file.is_released);
        held.any(|file| file.names.iter().any(|name| last_part(name) == part))
    }

    /// By the text of the path as it was typed.
    pub(super) fn named_by(&self, names: &[Vec<u8>], place: &PathAt) -> Named {
        if let Some(index) = names.iter().find_map(|name| self.of_name(name)) {
            return if place.is_of_directory() {
                Named::Beneath
            } else {
                Named::Script(index)
            };
        }
        let mut held = self.files.iter().filter(|file| !file.is_released);
        let is_beneath = |file: &File| {
            names.iter().any(|name| {
                let rests = file.names.iter().filter_map(|other| rest_beneath(name, other));
                rests.into_iter().any(|rest| !rest.is_empty())
            })
        };
        if held.any(is_beneath) {
            Named::Beneath
        } else {
            Named::Other
        }
    }

    pub(super) fn of_name(&self, name: &[u8]) -> Option<usize> {
        let is_this = |file: &File| !file.is_released && file.names.iter().any(|other| other == name);
        self.files.iter().position(is_this)
    }

    /// What a path of a caller is called in full. A relative one begins at a directory that has more than one name when
    /// it was renamed.
    pub(super) fn names_of(&self, caller: &Caller<'_>, place: &PathAt) -> Vec<Vec<u8>> {
        let path = place.path.as_slice();
        if place.is_absolute() {
            return vec![plain(path)];
        }
        let Some((identity, name)) = caller.directory(place.directory) else {
            return Vec::new();
        };
        let known = self
            .directories
            .iter()
            .filter(|(known, _)| *known == identity)
            .map(|(_, name)| name.as_slice());
        let bases = known.chain([name.as_slice()]);
        bases.map(|base| plain(&[base, b"/", path].concat())).collect()
    }

    pub(super) fn release(&mut self, index: usize) {
        if let Some(file) = self.files.get_mut(index) {
            file.is_released = true;
        }
    }

    /// What has this name, or lies in the directory of this name.
    pub(super) fn release_beneath(&mut self, directory: &[u8]) {
        for file in &mut self.files {
            file.is_released |= file
                .names
                .iter()
                .any(|name| rest_beneath(name, directory).is_some());
        }
    }

    /// What lies beneath a directory of one name lies beneath it under the others too.
    pub(super) fn add_names(&mut self, directory: &[u8], others: &[Vec<u8>]) -> Result<(), Errno> {
        let mut noted: Vec<Vec<u8>> = Vec::new();
        for file in &mut self.files {
            let mut more: Vec<Vec<u8>> = Vec::new();
            for name in &file.names {
                let Some(rest) = rest_beneath(name, directory) else {
                    continue;
                };
                for other in others {
                    let other = [other.as_slice(), rest].concat();
                    for other in [plain(&other), lexical(&other)] {
                        if !file.names.contains(&other) && !more.contains(&other) {
                            more.push(other);
                        }
                    }
                }
            }
            if file.names.len() + more.len() > MAX_NAMES {
                return Err(Errno::LOOP);
            }
            noted.extend(more.iter().cloned());
            file.names.append(&mut more);
        }
        for name in &noted {
            self.note_parts(name);
        }
        Ok(())
    }

    /// The checked content, with a position of its own.
    pub(super) fn open(&mut self, index: usize) -> Result<OwnedFd, Errno> {
        own_position(self.content(index)?)
    }

    pub(super) fn content(&mut self, index: usize) -> Result<BorrowedFd<'_>, Errno> {
        let file = self.files.get_mut(index).ok_or(Errno::NOENT)?;
        if file.content.is_none() {
            file.content = Some(sealed_part(&self.bundle, file.offset, file.length, file.mode)?);
        }
        file.content.as_ref().map(AsFd::as_fd).ok_or(Errno::IO)
    }
}

impl Caller<'_> {
    /// Whether it is one of these programs, or what the first process executed in its own place: `env` finds the interpreter
    /// like that. What cannot be looked at is.
    pub(super) fn interprets(
        &self,
        Scripts {
            programs, copiers, ..
        }: &Scripts,
    ) -> bool {
        let Ok(program) = identity(self.proc("exe")) else {
            return true;
        };
        !copiers.contains(&program)
            && (programs.contains(&program)
                || self.call.pid == self.first
                || self.group().is_none_or(|group| group == self.first))
    }
}

/// A piece of the bundle, as a file that cannot be changed.
fn sealed_part(bundle: &OwnedFd, offset: u64, length: u64, mode: u32) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create(
        c"countersign-script",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    let mut buffer = [0; 16 * 1024];
    let mut done = 0;
    while done < length {
        let room = usize::try_from(length - done)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = rustix::io::pread(bundle, buffer.get_mut(..room).unwrap_or_default(), offset + done)?;
        let mut rest = buffer
            .get(..read)
            .filter(|rest| !rest.is_empty())
            .ok_or(Errno::IO)?;
        done += u64::try_from(read).unwrap_or(0);
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
    // Readable at least to the account that the run has.
    rustix::fs::fchmod(&file, Mode::from_bits_retain(mode & 0o777 | 0o400))?;
    seal(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(names: &[&str]) -> Scripts {
        let held = HeldScript {
            names: names
                .iter()
                .map(|name| std::ffi::CString::new(*name).unwrap())
                .collect(),
            offset: 0,
            length: 0,
            mode: 0o644,
            identity: (1, 2),
        };
        let bundle = countersign_sys::fs::sealed(c"bundle", b"").unwrap();
        Scripts::new(&[held], bundle, ((1, 2), b"/w"))
    }

    #[test]
    fn a_script_has_its_name_as_typed_and_as_programs_shorten_it() {
        let scripts = scripts(&["/w/d/../x"]);
        let names: Vec<&[u8]> = scripts.files[0].names.iter().map(Vec::as_slice).collect();
        assert_eq!(names, [b"/w/d/../x".as_slice(), b"/w/x"]);
    }

    #[test]
    fn what_lies_in_a_directory_has_a_name_for_each_of_its_names() {
        let mut scripts = scripts(&["/w/d/x"]);
        scripts.add_names(b"/w", &[b"/v".to_vec()]).unwrap();
        scripts.add_names(b"/v/d/x", &[b"/u/y".to_vec()]).unwrap();
        // Another directory whose name only begins so.
        scripts.add_names(b"/w/dd", &[b"/t".to_vec()]).unwrap();
        let names: Vec<&[u8]> = scripts.files[0].names.iter().map(Vec::as_slice).collect();
        assert_eq!(names, [b"/w/d/x".as_slice(), b"/v/d/x", b"/u/y"]);
        let endless =
            (0..MAX_NAMES).try_for_each(|n| scripts.add_names(b"/w", &[format!("/{n}").into_bytes()]));
        assert_eq!(endless, Err(Errno::LOOP));
    }

    #[test]
    fn nothing_is_beneath_a_script() {
        let scripts = scripts(&["/w/x"]);
        for (path, expected) in [
            ("/w/x", Named::Script(0)),
            ("/w/./x", Named::Script(0)),
            ("/w/x/", Named::Beneath),
            ("/w/x/.", Named::Beneath),
            ("/w/x/__main__.py", Named::Beneath),
            ("/w/x.js", Named::Other),
            ("/w/y/x", Named::Other),
            ("/w", Named::Other),
        ] {
            let place = PathAt::new(0, path.as_bytes().to_vec());
            assert_eq!(
                scripts.named_by(&[plain(path.as_bytes())], &place),
                expected,
                "{path}"
            );
        }
        assert!(scripts.is_on_the_way(b"/w"));
        assert!(
            !scripts.is_on_the_way(b"/w/x") && !scripts.is_on_the_way(b"") && !scripts.is_on_the_way(b"/v")
        );
    }

    #[test]
    fn a_run_that_moves_a_directory_of_a_script_gets_what_lies_there() {
        for (moved, is_released) in [
            ("/w", true),
            ("/w/d/x", true),
            ("/w/d/xx", false),
            ("/w/e", false),
        ] {
            let mut scripts = scripts(&["/w/d/x"]);
            scripts.release_beneath(moved.as_bytes());
            assert_eq!(scripts.files[0].is_released, is_released, "{moved}");
        }
    }

    #[test]
    fn content_is_sealed_and_each_opening_has_a_position_of_its_own() {
        let bundle = countersign_sys::fs::sealed(c"bundle", b"onetwo").unwrap();
        let part = sealed_part(&bundle, 3, 3, 0o600).unwrap();
        assert!(rustix::io::pwrite(&part, b"x", 0).is_err());
        for _ in 0..2 {
            let mut text = [0; 8];
            let opened = own_position(part.as_fd()).unwrap();
            assert_eq!(rustix::io::read(&opened, &mut text), Ok(3));
            assert_eq!(&text[..3], b"two");
        }
        assert!(sealed_part(&bundle, 3, 4, 0o600).is_err());
    }
}
