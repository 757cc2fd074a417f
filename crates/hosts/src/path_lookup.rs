//! The machine's files as the analysis sees them.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};

use countersign_domain::{FileIdentity, UnixMillis, hex};
use countersign_policy::command::{DirectoryTrust, Inspected, Listing, PathLookup, hashbang::Head, paths};
use countersign_sys::fs::FileStamp;

use crate::{
    found_programs::{FoundPrograms, Remembered},
    peer_fs::{Blind, Files, View},
    shebang_cache::{self, stamp_of},
};

/// Larger executables have no digest, so no grant that is bound to content covers them.
const MAX_HASHED_BYTES: u64 = 1 << 30;

/// Looks at the real file system with a fixed run PATH, for one analysis: by way of the file broker, what
/// was seen once is not looked at again.
#[derive(Debug)]
pub struct SystemLookup {
    directories: Arc<[PathBuf]>,
    home: String,
    view: View,
    /// What earlier looks found, where it may be used.
    remembered: Option<Remembered>,
    /// The variables that commands inherit, where they are known.
    variables: Option<Arc<InheritedVariables>>,
}

/// What is known of the variables that commands inherit.
#[derive(Debug, Default)]
pub struct InheritedVariables {
    /// The names of all of them.
    pub names: HashSet<String>,
    /// The value of `HOME`.
    pub home: Option<String>,
}

impl SystemLookup {
    /// A lookup over the run PATH (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`). Empty, relative and
    /// repeated directories are dropped. `home` is the account's home directory, never one from a request.
    pub fn new(path: impl IntoIterator<Item = PathBuf>, home: String, files: &Files) -> Self {
        let mut directories: Vec<PathBuf> = Vec::new();
        for directory in path {
            if directory.is_absolute() && !directories.contains(&directory) {
                directories.push(directory);
            }
        }
        Self::over(directories.into(), home, files)
    }

    /// The same over directories that [`compose`](crate::run_path::compose) gave, which has dropped those already.
    pub fn over(directories: Arc<[PathBuf]>, home: String, files: &Files) -> Self {
        Self {
            directories,
            home,
            view: files.view(),
            remembered: None,
            variables: None,
        }
    }

    /// The same with the variables that commands inherit.
    #[must_use]
    pub fn with_variables(mut self, variables: Arc<InheritedVariables>) -> Self {
        self.variables = Some(variables);
        self
    }

    /// The same with what earlier looks found by its name ([`PathLookup::find`]). What the file broker sees is not
    /// remembered: only the account of the commands can say that it is unchanged.
    #[must_use]
    pub fn remembering(mut self, found: Arc<FoundPrograms>, now: UnixMillis) -> Self {
        self.remembered = match self.view {
            View::Direct => Some(Remembered::new(found, now)),
            View::Remote(_) => None,
        };
        self
    }

    /// Whether everything that was asked so far was really looked at.
    ///
    /// # Errors
    /// [`Blind`] when it was not: then no conclusion from it may be acted on.
    pub fn check(&self) -> Result<(), Blind> {
        if self.view.is_blind() { Err(Blind) } else { Ok(()) }
    }

    /// What identifies the executable file that would be started from a path. `None` when there is none, and when the
    /// server itself finds a link there.
    pub fn identity(&self, path: &str) -> Option<FileIdentity> {
        self.view.identity(path)
    }

    /// Opens a regular file for reading, links followed. Nothing else is ever opened or waited for.
    ///
    /// # Errors
    /// `InvalidInput` for anything but a regular file, else what opening says.
    pub fn open_regular(&self, path: &Path) -> io::Result<File> {
        self.view.open_regular(path)
    }

    /// The directories of the real files of safe bins that lie in trusted directories, where nobody else may write.
    ///
    /// Where the core utilities are links into one place, that place is trusted for what they are
    /// (`docs/spec/command-analysis.md#3-executables`). Asked once, at start-up.
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

/// Whether a program becomes more than the process that starts it: it is set-uid, set-gid or has capabilities.
pub fn has_rights(file: &File) -> bool {
    const RIGHTS: u32 = 0o6000;
    // More than any version of them takes.
    let mut value = [0; 64];
    file.metadata()
        .map_or(true, |metadata| metadata.mode() & RIGHTS != 0)
        || rustix::fs::fgetxattr(file, "security.capability", &mut value).is_ok()
}

impl PathLookup for SystemLookup {
    fn search(&self, name: &str) -> Option<String> {
        if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
            return None;
        }
        self.view
            .search(&self.directories, name)
            .and_then(|file| file.into_os_string().into_string().ok())
            .map(|file| paths::normalise(&file))
    }

    fn inspect(&self, path: &str) -> Option<Inspected> {
        let identity = path.starts_with('/').then(|| self.view.inspect(path)).flatten()?;
        Some(Inspected {
            real: identity.path.clone(),
            identity,
        })
    }

    fn find(&self, name: &str) -> Option<(String, Inspected)> {
        let look = || {
            let path = self.search(name)?;
            let file = self.inspect(&path)?;
            Some((path, file))
        };
        match &self.remembered {
            Some(remembered) => remembered.find(&self.directories, name, look),
            None => look(),
        }
    }

    fn real(&self, path: &str) -> Option<String> {
        path.starts_with('/').then(|| self.view.real(path)).flatten()
    }

    fn list(&self, directory: &str) -> Listing {
        if directory.starts_with('/') {
            self.view.list(directory)
        } else {
            Listing::Unknown
        }
    }

    fn depends_on_process(&self, path: &str) -> bool {
        self.view.depends_on_process(path)
    }

    fn home(&self) -> &str {
        &self.home
    }

    fn is_set(&self, variable: &str) -> bool {
        self.variables
            .as_ref()
            .is_none_or(|variables| variables.names.contains(variable))
    }

    fn home_variable(&self) -> Option<&str> {
        self.variables.as_ref()?.home.as_deref()
    }

    fn directory_trust(&self, directory: &str) -> DirectoryTrust {
        self.view.trust(directory)
    }

    fn content_sha256(&self, file: &FileIdentity) -> Option<String> {
        let opened = self.open_regular(Path::new(&file.path)).ok()?;
        let is_same = || {
            opened
                .metadata()
                .is_ok_and(|metadata| FileStamp::from_metadata(&metadata) == stamp_of(file))
        };
        if file.size > MAX_HASHED_BYTES || !is_same() {
            return None;
        }
        let mut reader = (&opened).take(MAX_HASHED_BYTES);
        let mut digest = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer).ok()? {
                0 => return is_same().then(|| hex(&digest.finalize())),
                read => digest.update(buffer.get(..read)?),
            }
        }
    }

    fn gains_privileges(&self, file: &FileIdentity) -> bool {
        // What cannot be read is nearly always set-uid, too.
        self.open_regular(Path::new(&file.path))
            .map_or(true, |opened| has_rights(&opened))
    }

    fn is_machine_program(&self, file: &FileIdentity) -> bool {
        let opened = self.open_regular(Path::new(&file.path)).ok();
        let read = opened.and_then(shebang_cache::read);
        read.is_some_and(|(head, stamp)| head == Head::Program && stamp == stamp_of(file))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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
        let lookup = SystemLookup::new(path, "/home/agent".to_owned(), &Files::Direct);
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
        let lookup = SystemLookup::new([], "/home/agent".to_owned(), &Files::Direct);
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
        let lookup = SystemLookup::new([], "/home/agent".to_owned(), &Files::Direct);
        let safe_bins = ["head", "tail", "none", "../x"].map(str::to_owned);
        let found = lookup.safe_bin_directories(&safe_bins, &[tree.path("bin")]);
        assert!(found.contains(&tree.path("coreutils")));
        assert!(!found.contains(&tree.path("shared")));
    }

    #[test]
    fn content_is_digested() {
        let tree = Tree::new();
        tree.file("empty", 0o755);
        let lookup = SystemLookup::new([], "/home/agent".to_owned(), &Files::Direct);
        let empty = lookup.inspect(&tree.path("empty")).unwrap().identity;
        assert_eq!(
            lookup.content_sha256(&empty).as_deref(),
            Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        );
        // Another file at its path is not the one that would be started.
        tree.file("other", 0o755);
        std::fs::rename(tree.path("other"), tree.path("empty")).unwrap();
        assert_eq!(lookup.content_sha256(&empty), None);
    }
}
