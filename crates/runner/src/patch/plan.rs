//! What a patch comes to: the files that it names as they are, and as they are to be.
//!
//! Each operation finds what those before it left, but nothing is written here. A file is known by the directory that it is
//! in and its name there, so two paths to one file are one file.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io::Read as _,
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};

use countersign_protocol::patch::{self, Failure, Hunk, MAX_FILE_BYTES, Operation, PatchPath, PathFault};
use countersign_sys::beneath::{self, Entry, LastLink, ResolvedPath, Root};

use super::Trouble;

use crate::wire::PatchOrder;

/// Text that one patch may work on, each time that it does.
const MAX_TEXT_BYTES: usize = 256 * 1024 * 1024;

/// The files that a patch names.
pub(super) struct Tree<'a> {
    root: &'a Root,
    order: &'a PatchOrder,
    nodes: Vec<Node>,
    known: BTreeMap<Key, usize>,
    /// Each directory is opened once.
    directories: BTreeMap<(u64, u64), Rc<OwnedFd>>,
    text_bytes: usize,
}

/// A directory that is there, and what leads on from it.
type Key = ((u64, u64), Vec<OsString>);

/// A file, there or not.
struct Node {
    /// As it was called first.
    path: PatchPath,
    resolved: ResolvedPath,
    found: Option<Entry>,
    /// What is to be there.
    wanted: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Nothing,
    /// What was found in the place of that node.
    Found(usize),
    Text {
        text: String,
        /// The node whose mode and owner it keeps.
        like: Option<usize>,
    },
}

/// All that is to be done.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) targets: Vec<Target>,
    pub(super) changes: Vec<PlannedChange>,
}

/// A place that changes.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) path: PatchPath,
    pub(super) resolved: ResolvedPath,
    pub(super) found: Option<Entry>,
}

/// What becomes of one place. Numbers are those of targets.
#[derive(Debug)]
pub(super) enum PlannedChange {
    Create {
        at: usize,
        content: Vec<u8>,
        like: Option<Entry>,
    },
    /// A file was there.
    Replace {
        at: usize,
        content: Vec<u8>,
        like: Entry,
    },
    /// Nothing was there, and what comes is moved as it is.
    Rename { from: usize, to: usize },
    /// What was there goes.
    Remove { at: usize },
}

impl<'a> Tree<'a> {
    pub(super) const fn new(root: &'a Root, order: &'a PatchOrder) -> Self {
        Self {
            root,
            order,
            nodes: Vec::new(),
            known: BTreeMap::new(),
            directories: BTreeMap::new(),
            text_bytes: 0,
        }
    }

    /// Takes one operation after the other.
    pub(super) fn take(&mut self, operation: &Operation) -> Result<(), Failure> {
        match operation {
            Operation::Add { path, content } => self.add(path, content).map_err(|trouble| trouble.at(path)),
            Operation::Delete { path } => self.delete(path).map_err(|trouble| trouble.at(path)),
            Operation::Update {
                path,
                to: None,
                hunks,
            } => self.update(path, hunks).map_err(|trouble| trouble.at(path)),
            Operation::Update {
                path,
                to: Some(to),
                hunks,
            } => {
                let target = self
                    .node(to, LastLink::Meant)
                    .and_then(|target| self.expect_nothing(target).map(|()| target))
                    .map_err(|trouble| trouble.at(to))?;
                self.relocate(path, target, hunks)
                    .map_err(|trouble| trouble.at(path))
            }
        }
    }

    fn add(&mut self, path: &PatchPath, content: &str) -> Result<(), Trouble> {
        let node = self.node(path, LastLink::Meant)?;
        self.expect_nothing(node)?;
        self.count(content.len())?;
        let text = Content::Text {
            text: content.to_owned(),
            like: None,
        };
        self.want(node, text);
        Ok(())
    }

    fn delete(&mut self, path: &PatchPath) -> Result<(), Trouble> {
        let node = self.node(path, LastLink::Meant)?;
        match self.wanted(node) {
            Content::Nothing => return Err(Trouble::Missing),
            Content::Found(found) => {
                let is_link = self.found(found).map(|found| found.kind) == Some(FileType::Symlink);
                if !is_link {
                    self.regular(found)?;
                }
            }
            Content::Text { .. } => {}
        }
        self.want(node, Content::Nothing);
        Ok(())
    }

    fn update(&mut self, path: &PatchPath, hunks: &[Hunk]) -> Result<(), Trouble> {
        let node = self.node(path, LastLink::Followed)?;
        if let Some(changed) = self.changed(node, hunks)? {
            self.want(node, changed);
        }
        Ok(())
    }

    fn relocate(&mut self, path: &PatchPath, to: usize, hunks: &[Hunk]) -> Result<(), Trouble> {
        let node = self.node(path, LastLink::Meant)?;
        if let Content::Found(found) = self.wanted(node)
            && self.found(found).map(|found| found.kind) == Some(FileType::Symlink)
        {
            return Err(Trouble::Link);
        }
        let content = if hunks.is_empty() {
            None
        } else {
            self.changed(node, hunks)?
        };
        let content = match content {
            Some(content) => content,
            None => match self.wanted(node) {
                Content::Nothing => return Err(Trouble::Missing),
                Content::Found(found) => {
                    self.regular(found)?;
                    Content::Found(found)
                }
                text @ Content::Text { .. } => text,
            },
        };
        self.want(node, Content::Nothing);
        self.want(to, content);
        Ok(())
    }

    /// The text of a file after its hunks, unless that is the same.
    fn changed(&mut self, node: usize, hunks: &[Hunk]) -> Result<Option<Content>, Trouble> {
        let (old, like) = match self.wanted(node) {
            Content::Nothing => return Err(Trouble::Missing),
            Content::Found(found) => {
                let bytes = self.read(found, For::Changing)?;
                let text = String::from_utf8(bytes).map_err(|_bytes| Trouble::NotText)?;
                (text, Some(found))
            }
            Content::Text { text, like } => (text, like),
        };
        self.count(old.len())?;
        let new = patch::apply(&old, hunks).map_err(Trouble::Hunk)?;
        if new.len() > MAX_FILE_BYTES {
            return Err(Trouble::TooLarge);
        }
        Ok((new != old).then_some(Content::Text { text: new, like }))
    }

    /// The file of a path, which may lead by another way to one that is known.
    fn node(&mut self, path: &PatchPath, last: LastLink) -> Result<usize, Trouble> {
        let mut resolved = self.root.find(&self.path_below_root(path)?, last)?;
        self.check_resolved(&resolved)?;
        let known = self.directories.entry(resolved.identity);
        resolved.directory = Rc::clone(known.or_insert(resolved.directory));
        let mut names = resolved.missing.clone();
        names.push(resolved.name.clone());
        let key = (resolved.identity, names);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let found = if resolved.missing.is_empty() {
            beneath::entry(&*resolved.directory, &resolved.name).map_err(|errno| match errno {
                Errno::NAMETOOLONG => Trouble::Path(PathFault::TooLong),
                errno => Trouble::system("it cannot be looked at", errno),
            })?
        } else {
            None
        };
        let number = self.nodes.len();
        self.nodes.push(Node {
            path: path.clone(),
            resolved,
            found,
            wanted: found.map_or(Content::Nothing, |_found| Content::Found(number)),
        });
        self.known.insert(key, number);
        Ok(number)
    }

    /// A path that names the workspace as those call it who see it is one inside of it.
    fn path_below_root(&self, path: &PatchPath) -> Result<PathBuf, Trouble> {
        let path = Path::new(path.as_str());
        if !path.is_absolute() || !self.order.workspace_only {
            return Ok(path.to_owned());
        }
        self.order
            .called
            .iter()
            .find_map(|name| path.strip_prefix(OsStr::from_bytes(name)).ok())
            .filter(|rest| !rest.as_os_str().is_empty())
            .map(Path::to_owned)
            .ok_or(Trouble::Outside)
    }

    /// Links may have led where the path itself does not.
    fn check_resolved(&self, resolved: &ResolvedPath) -> Result<(), Trouble> {
        let path = resolved
            .real_path()
            .map_err(|errno| Trouble::system("its place cannot be told", errno))?;
        let is_within = |places: &[Vec<u8>]| {
            places
                .iter()
                .any(|resolved| path.starts_with(OsStr::from_bytes(resolved)))
        };
        if is_within(&self.order.off_limits) && !is_within(&self.order.spared) {
            return Err(Trouble::OffLimits);
        }
        if let Some(fault) = PathFault::of_place(&path.to_string_lossy()) {
            return Err(Trouble::Path(fault));
        }
        if resolved
            .name
            .as_bytes()
            .starts_with(patch::TEMPORARY_PREFIX.as_bytes())
        {
            return Err(Trouble::Path(PathFault::Temporary));
        }
        Ok(())
    }

    fn expect_nothing(&self, node: usize) -> Result<(), Trouble> {
        match self.wanted(node) {
            Content::Nothing => Ok(()),
            Content::Found(_) | Content::Text { .. } => Err(Trouble::Exists),
        }
    }

    fn wanted(&self, node: usize) -> Content {
        self.nodes
            .get(node)
            .map_or(Content::Nothing, |node| node.wanted.clone())
    }

    fn want(&mut self, node: usize, content: Content) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.wanted = content;
        }
    }

    fn found(&self, node: usize) -> Option<Entry> {
        self.nodes.get(node).and_then(|node| node.found)
    }

    fn count(&mut self, bytes: usize) -> Result<(), Trouble> {
        self.text_bytes = self.text_bytes.saturating_add(bytes);
        if self.text_bytes > MAX_TEXT_BYTES {
            return Err(Trouble::TooMuch);
        }
        Ok(())
    }

    fn regular(&self, node: usize) -> Result<Entry, Trouble> {
        let found = self.found(node).ok_or(Trouble::Missing)?;
        if found.kind == FileType::RegularFile {
            Ok(found)
        } else if found.kind == FileType::Directory {
            Err(Trouble::Directory)
        } else {
            Err(Trouble::Special)
        }
    }

    /// The bytes that were found in a place.
    fn read(&mut self, node: usize, purpose: For) -> Result<Vec<u8>, Trouble> {
        let found = self.regular(node)?;
        let size = usize::try_from(found.size).unwrap_or(usize::MAX);
        if size > MAX_FILE_BYTES {
            return Err(Trouble::TooLarge);
        }
        self.count(size)?;
        let access = match purpose {
            For::Changing if found.mode & 0o222 == 0 => return Err(Trouble::ReadOnly),
            // The kernel says who may write.
            For::Changing => OFlags::RDWR,
            For::Copying => OFlags::RDONLY,
        };
        let resolved = &self.nodes.get(node).ok_or(Trouble::Missing)?.resolved;
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*resolved.directory, &resolved.name, flags, Mode::empty()).map_err(
            |errno| match errno {
                Errno::ACCESS | Errno::PERM | Errno::ROFS => Trouble::ReadOnly,
                Errno::NOENT | Errno::LOOP | Errno::NXIO => Trouble::Changed,
                errno => Trouble::system("it cannot be opened", errno),
            },
        )?;
        let bytes = read_bounded(file, &found)?;
        Ok(bytes)
    }

    /// What has to be done for all of that.
    pub(super) fn into_changes(mut self) -> Result<Changes, Failure> {
        let mut changes = Vec::new();
        let mut renamed = vec![false; self.nodes.len()];
        for at in 0..self.nodes.len() {
            let change = self.change_of(at, &mut renamed);
            let path = self.nodes.get(at).map(|node| &node.path);
            match (change, path) {
                (Ok(change), _) => changes.extend(change),
                (Err(trouble), Some(path)) => return Err(trouble.at(path)),
                (Err(_), None) => {}
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let goes = node.found.is_some() && matches!(node.wanted, Content::Nothing);
            if goes && renamed.get(at) == Some(&false) {
                changes.push(PlannedChange::Remove { at });
            }
        }
        let targets = self
            .nodes
            .into_iter()
            .map(
                |Node {
                     path,
                     resolved,
                     found,
                     ..
                 }| Target {
                    path,
                    resolved,
                    found,
                },
            )
            .collect();
        Ok(Changes { targets, changes })
    }

    /// The change that brings something into a place, if one does.
    fn change_of(&mut self, at: usize, renamed: &mut [bool]) -> Result<Option<PlannedChange>, Trouble> {
        let (content, like) = match self.wanted(at) {
            Content::Nothing => return Ok(None),
            Content::Found(from) if from == at => return Ok(None),
            Content::Found(from) => {
                let leaves = matches!(self.wanted(from), Content::Nothing);
                if leaves && self.found(at).is_none() {
                    if let Some(renamed) = renamed.get_mut(from) {
                        *renamed = true;
                    }
                    return Ok(Some(PlannedChange::Rename { from, to: at }));
                }
                // Both places have something before and after: a copy never leaves either of them empty.
                (self.read(from, For::Copying)?, self.found(from))
            }
            Content::Text { text, like } => (text.into_bytes(), like.and_then(|like| self.found(like))),
        };
        Ok(Some(match self.found(at) {
            None => PlannedChange::Create { at, content, like },
            // What is put in the place of a link is a new file.
            Some(found) => PlannedChange::Replace {
                at,
                content,
                like: like.unwrap_or(found),
            },
        }))
    }
}

/// What a file is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Changing,
    Copying,
}

/// Reads a file that must be the one that was found, to its end.
fn read_bounded(file: OwnedFd, found: &Entry) -> Result<Vec<u8>, Trouble> {
    let is_it = |file: &OwnedFd| Entry::of_open(file).is_ok_and(|now| now.is_same_content(found));
    if !is_it(&file) {
        return Err(Trouble::Changed);
    }
    let file = std::fs::File::from(file);
    let mut bytes = Vec::new();
    let limit = found.size.saturating_add(1);
    (&file).take(limit).read_to_end(&mut bytes).map_err(|error| {
        Trouble::system(
            "it cannot be read",
            Errno::from_io_error(&error).unwrap_or(Errno::IO),
        )
    })?;
    if u64::try_from(bytes.len()) != Ok(found.size) || !is_it(&file.into()) {
        return Err(Trouble::Changed);
    }
    Ok(bytes)
}
