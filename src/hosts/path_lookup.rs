//! The machine's files as the analysis sees them.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, Metadata},
    io::Read as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Component, Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    command::{DirectoryTrust, Inspected, PathLookup, paths},
    domain::{FileIdentity, hex},
};

/// Larger executables have no digest, so no grant that is bound to content covers them.
const MAX_HASHED_BYTES: u64 = 1 << 30;

/// Looks at the real file system with a fixed run PATH.
#[derive(Debug, Clone)]
pub struct SystemLookup {
    directories: Vec<PathBuf>,
    home: String,
    account: u32,
}

impl SystemLookup {
    /// A lookup over the run PATH (`exec-tool.md` 6). Empty, relative and repeated directories are dropped. `home` is
    /// the account's home directory, never one from a request.
    pub fn new(path: impl IntoIterator<Item = PathBuf>, home: String) -> Self {
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in path {
            if directory.is_absolute() && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Self {
            directories,
            home,
            account: rustix::process::geteuid().as_raw(),
        }
    }

    /// The directories of the real files of safe bins that lie in trusted directories, where nobody else may write.
    ///
    /// Where the core utilities are links into one place, that place is trusted for what they are
    /// (`command-analysis.md` 3). Asked once, at start-up.
    pub fn safe_bin_directories(&self, safe_bins: &[String], trusted_dirs: &[String]) -> Vec<String> {
        let mut directories: Vec<String> = Vec::new();
        for trusted in ["/bin", "/usr/bin"]
            .into_iter()
            .chain(trusted_dirs.iter().map(String::as_str))
        {
            for name in safe_bins.iter().filter(|name| !name.contains('/')) {
                let Some(file) = self.inspect(&paths::join_normalised(trusted, name)) else {
                    continue;
                };
                let directory = paths::directory(&file.real).to_owned();
                if !directories.contains(&directory)
                    && self.directory_trust(&directory) == DirectoryTrust::Ours
                {
                    directories.push(directory);
                }
            }
        }
        directories
    }

    /// The directories that are searched, in order.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}

/// Links below `/proc` that lead each process somewhere else.
const PER_PROCESS: [&str; 2] = ["cwd", "fd"];
/// As many as Linux follows; a path with more leads nowhere.
const MAX_LINKS: usize = 40;

fn is_standard_stream(name: &OsStr) -> bool {
    ["0", "1", "2"].iter().any(|standard| name == *standard)
}

/// The parts of a path, last one first, without what means nothing.
fn components_of(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    parts.collect()
}

impl PathLookup for SystemLookup {
    fn search(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
            return None;
        }
        self.directories
            .iter()
            .map(|directory| directory.join(name))
            .find(|file| std::fs::metadata(file).is_ok_and(|metadata| is_executable(&metadata)))
            .and_then(|file| file.into_os_string().into_string().ok())
            .map(|file| paths::normalise(&file))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let identity = identity_now(&self.real(path)?)?;
        Some(Inspected {
            real: identity.path.clone(),
            identity,
        })
    }

    fn real(&self, path: &str) -> Option<String> {
        if !path.starts_with('/') {
            return None;
        }
        std::fs::canonicalize(path)
            .ok()?
            .into_os_string()
            .into_string()
            .ok()
    }

    fn depends_on_process(&self, path: &str) -> bool {
        let mut at = PathBuf::from("/");
        let mut ahead: Vec<OsString> = components_of(Path::new(path));
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            at.push(&part);
            if at.starts_with("/proc") && PER_PROCESS.iter().any(|name| part == *name) {
                // `/dev/stdin` and its like are what the command was given.
                let is_standard = part == "fd" && matches!(&ahead[..], [last] if is_standard_stream(last));
                return !is_standard;
            }
            let Ok(target) = std::fs::read_link(&at) else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return false;
            }
            if target.is_absolute() {
                at = PathBuf::from("/");
            } else {
                at.pop();
            }
            ahead.extend(components_of(&target));
        }
        false
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        let ours = std::fs::metadata(directory).is_ok_and(|metadata| {
            let is_owned = metadata.uid() == 0 || metadata.uid() == self.account;
            metadata.is_dir() && is_owned && metadata.mode() & 0o022 == 0
        });
        if ours {
            DirectoryTrust::Ours
        } else {
            DirectoryTrust::Foreign
        }
    }

    fn content_sha256(&self, path: &str) -> Option<String> {
        let file = File::open(Path::new(path)).ok()?;
        if file.metadata().ok()?.len() > MAX_HASHED_BYTES {
            return None;
        }
        let mut file = file.take(MAX_HASHED_BYTES);
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).ok()? {
                0 => return Some(hex(&digest.finalize())),
                read => digest.update(buffer.get(..read)?),
            }
        }
    }
}

/// What identifies the executable file at a real path at this moment; `None` when there is none, also when
/// `path` goes through a link by now.
pub fn identity_now(path: &str) -> Option<FileIdentity> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    if !is_executable(&metadata) {
        return None;
    }
    Some(FileIdentity {
        path: path.to_owned(),
        dev: metadata.dev(),
        ino: metadata.ino(),
        size: metadata.size(),
        mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    })
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Tree {
        root: tempfile::TempDir,
    }

    impl Tree {
        fn new() -> Self {
            Self {
                root: tempfile::tempdir().unwrap(),
            }
        }

        fn path(&self, name: &str) -> String {
            let root = self.root.path().canonicalize().unwrap();
            root.join(name).into_os_string().into_string().unwrap()
        }

        fn directory(&self, name: &str, mode: u32) -> PathBuf {
            let path = PathBuf::from(self.path(name));
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn file(&self, name: &str, mode: u32) {
            let path = PathBuf::from(self.path(name));
            drop(File::create(&path).unwrap());
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn the_first_executable_regular_file_wins() {
        let tree = Tree::new();
        let (first, second) = (tree.directory("a", 0o755), tree.directory("b", 0o755));
        tree.file("a/data", 0o644);
        tree.file("b/data", 0o755);
        tree.directory("a/tool", 0o755);
        tree.file("b/tool", 0o755);
        symlink(tree.path("b/tool"), tree.path("a/link")).unwrap();
        symlink(tree.path("gone"), tree.path("a/dangling")).unwrap();
        let path = [
            "".into(),
            "relative".into(),
            first.clone(),
            second.clone(),
            first.clone(),
        ];
        let lookup = SystemLookup::new(path, "/home/agent".to_owned());
        assert_eq!(lookup.directories(), [first, second]);
        assert_eq!(lookup.search("data"), Some(tree.path("b/data")));
        assert_eq!(lookup.search("tool"), Some(tree.path("b/tool")));
        assert_eq!(lookup.search("link"), Some(tree.path("a/link")));
        for name in ["dangling", "none", "", "..", ".", "a/tool"] {
            assert_eq!(lookup.search(name), None, "{name}");
        }
        let inspected = lookup.inspect(&tree.path("a/link")).unwrap();
        assert_eq!(inspected.real, tree.path("b/tool"));
        assert_eq!(inspected.identity.path, inspected.real);
        assert_eq!(lookup.inspect(&tree.path("a/data")), None);
        assert_eq!(lookup.inspect(&tree.path("a")), None);
        assert_eq!(lookup.real("relative"), None);
    }

    #[test]
    fn only_directories_that_others_cannot_write_are_ours() {
        let tree = Tree::new();
        let lookup = SystemLookup::new([], "/home/agent".to_owned());
        for (name, mode, expected) in [
            ("closed", 0o755, DirectoryTrust::Ours),
            ("group", 0o775, DirectoryTrust::Foreign),
            ("others", 0o757, DirectoryTrust::Foreign),
        ] {
            tree.directory(name, mode);
            assert_eq!(lookup.directory_trust(&tree.path(name)), expected, "{name}");
        }
        assert_eq!(
            lookup.directory_trust(&tree.path("none")),
            DirectoryTrust::Foreign
        );
    }

    #[test]
    fn the_place_behind_a_safe_bin_is_found() {
        let tree = Tree::new();
        for (name, mode) in [("bin", 0o755), ("coreutils", 0o755), ("shared", 0o777)] {
            tree.directory(name, mode);
        }
        for (name, target) in [("head", "coreutils/all"), ("tail", "shared/all")] {
            tree.file(target, 0o755);
            symlink(tree.path(target), tree.path(&format!("bin/{name}"))).unwrap();
        }
        let lookup = SystemLookup::new([], "/home/agent".to_owned());
        let safe_bins = ["head", "tail", "none", "../x"].map(str::to_owned);
        let found = lookup.safe_bin_directories(&safe_bins, &[tree.path("bin")]);
        assert!(found.contains(&tree.path("coreutils")));
        assert!(!found.contains(&tree.path("shared")));
    }

    #[test]
    fn content_is_digested() {
        let tree = Tree::new();
        tree.file("empty", 0o755);
        let lookup = SystemLookup::new([], "/home/agent".to_owned());
        assert_eq!(
            lookup.content_sha256(&tree.path("empty")).as_deref(),
            Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        );
        assert_eq!(lookup.content_sha256(&tree.path("none")), None);
    }
}
