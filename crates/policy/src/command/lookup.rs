//! From a command word to a file (P1 to P4).

use std::fmt::Debug;

use countersign_domain::FileIdentity;

use super::{
    Rule, RuleSet, paths,
    syntax::{Word, WordClass},
};

/// What the analysis may ask about files, and about the environment. Paths are absolute text; a path that is not UTF-8 does not exist here.
pub trait PathLookup: Debug + Send + Sync {
    /// The first executable regular file of that name in the run PATH (P1). `name` holds no `/`.
    fn search(&self, name: &str) -> Option<String>;
    /// The file at a path if it is a regular file with an execute bit.
    fn inspect(&self, path: &str) -> Option<Inspected>;
    /// The program of a name in the run PATH: where it is found, and its file. `name` holds no `/`.
    fn find(&self, name: &str) -> Option<(String, Inspected)> {
        let path = self.search(name).filter(|path| path.starts_with('/'))?;
        let file = self.inspect(&path)?;
        Some((path, file))
    }
    /// The real path of anything that exists.
    fn real(&self, path: &str) -> Option<String>;
    /// What is in a directory.
    fn list(&self, _directory: &str) -> Listing {
        Listing::Unknown
    }
    /// Whether a path leads another process to another place than us: by way of its working directory or its
    /// descriptors below `/proc`, links to them included.
    fn depends_on_process(&self, path: &str) -> bool;
    /// The account's home directory, never from a request.
    fn home(&self) -> &str;
    /// Whether the environment that commands inherit has a variable. Where that is not known it may.
    fn is_set(&self, _variable: &str) -> bool {
        true
    }
    /// The value of `HOME` that commands inherit; `None` where it is not known.
    fn home_variable(&self) -> Option<&str> {
        None
    }
    /// Who may change what a directory holds.
    fn directory_trust(&self, directory: &str) -> DirectoryTrust;
    /// SHA-256 of a file's content as lower-case hex, for grants that are bound to it; `None` when it is another file
    /// by now.
    fn content_sha256(&self, file: &FileIdentity) -> Option<String>;
    /// Whether a program becomes more than the process that starts it: it is set-uid, set-gid or has capabilities. What
    /// cannot be looked into may.
    fn gains_privileges(&self, _file: &FileIdentity) -> bool {
        true
    }
    /// Whether a file is a program of the machine, and none that begins with `#!`, whose interpreter gets other words. What cannot be
    /// looked into is none.
    fn is_machine_program(&self, _file: &FileIdentity) -> bool {
        false
    }
}

/// What is in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listing {
    /// No directory is there.
    NotThere,
    /// The directory with this real path has these names. Both are of one opened file, so that no link that is changed meanwhile
    /// puts the names of another directory here.
    Names {
        /// With all links resolved.
        real: String,
        /// In any order.
        names: Vec<String>,
    },
    /// The names cannot be known, or are too many.
    Unknown,
}

/// An executable regular file at the moment of the look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// Its real path, with all links resolved.
    pub real: String,
    /// Its identity, `path` being the real path.
    pub identity: FileIdentity,
}

/// Whether a bare name that was found in a directory may be believed (P3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryTrust {
    /// Root's or ours, and nobody else may write.
    Ours,
    /// An account other than root and ours owns it or may write to it, or it cannot be read.
    Foreign,
}

/// How an executable was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutableForm {
    /// A name, searched in PATH.
    Name,
    /// A path: absolute, relative or below the home directory.
    Path,
}

/// A command word that names a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The word after quote removal.
    pub typed: String,
    pub(crate) form: ExecutableForm,
    /// The file it names, normalised; its last component is what a multi-call binary looks at.
    pub resolved: String,
    /// Its real path: what path patterns match.
    pub real: String,
    /// What the file was when it was looked up; its path is `real`.
    pub identity: FileIdentity,
}

/// Why a command word names no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unresolved {
    /// A shell might expand it.
    Dynamic,
    /// A relative path while the directory is not certain.
    DirectoryUnknown,
    /// There is no such executable.
    NotFound,
}

impl Executable {
    /// Finds the file a command word names. `directory` is `None` when it is not certain.
    ///
    /// # Errors
    /// [`Unresolved`] says why there is none.
    pub fn resolve(
        word: &Word,
        directory: Option<&str>,
        lookup: &dyn PathLookup,
    ) -> Result<Self, Unresolved> {
        Self::resolve_under(RuleSet::ALL, word, directory, lookup)
    }

    pub(crate) fn resolve_under(
        rules: RuleSet,
        word: &Word,
        directory: Option<&str>,
        lookup: &dyn PathLookup,
    ) -> Result<Self, Unresolved> {
        let typed = word.value.clone();
        // For the kernel that is a directory. The name would be empty besides, by which some files tell what to do.
        let names_directory = ["/", "/.", "/.."].iter().any(|end| typed.ends_with(end));
        if rules.holds(Rule::P2, names_directory) {
            return Err(Unresolved::NotFound);
        }
        let (form, resolved) = match word.class {
            WordClass::InnerTilde | WordClass::BothTildes | WordClass::Found | WordClass::Substituted => {
                return Err(Unresolved::Dynamic);
            }
            WordClass::HomeTilde => (
                ExecutableForm::Path,
                paths::normalise(&paths::expand_home(&typed, lookup.home())),
            ),
            WordClass::Literal if typed.starts_with('/') => (ExecutableForm::Path, paths::normalise(&typed)),
            WordClass::Literal if typed.contains('/') => {
                let directory = directory.ok_or(Unresolved::DirectoryUnknown)?;
                (ExecutableForm::Path, paths::join_normalised(directory, &typed))
            }
            WordClass::Literal => {
                let is_absolute = |path: &String| rules.holds(Rule::P1, path.starts_with('/'));
                let found = lookup.search(&typed).filter(is_absolute);
                (ExecutableForm::Name, found.ok_or(Unresolved::NotFound)?)
            }
        };
        let found = lookup.inspect(&resolved);
        if form == ExecutableForm::Path && rules.holds(Rule::P2, found.is_none()) {
            return Err(Unresolved::NotFound);
        }
        let Inspected { real, identity } = found.ok_or(Unresolved::NotFound)?;
        let real = if rules.on(Rule::P4) {
            real
        } else {
            resolved.clone()
        };
        Ok(Self {
            typed,
            form,
            resolved,
            real,
            identity,
        })
    }

    /// Whether its real path identifies the program, no matter by which name it is called: some files are several
    /// programs, and each name of them is another.
    pub(crate) fn is_identified_by_path(&self) -> bool {
        let own = paths::base_name(&self.real);
        !super::multi_call::tells_by_name(own) || paths::base_name(&self.resolved) == own
    }

    /// The path to start it by and its `argv[0]`, when `typed` stands for the command word. Programs with several names
    /// look at the last part of that, interpreters and scripts find what belongs to them by the whole; so a link that is
    /// no part of what was judged is not told to them, nor a way through one (`link/../tool`).
    pub fn start(&self, typed: &str, keeps_link: bool) -> (String, String) {
        if !keeps_link && self.resolved != self.real {
            return (self.real.clone(), self.real.clone());
        }
        let goes_back = typed.split('/').any(|component| component == "..");
        let name = if goes_back { &self.resolved } else { typed };
        (self.resolved.clone(), name.to_owned())
    }

    /// Every name it goes by, each once: as typed, as found, and that of the real file (P4).
    pub fn names(&self) -> Vec<&str> {
        let mut names = vec![paths::base_name(&self.typed)];
        for file in [&self.resolved, &self.real] {
            let name = paths::base_name(file);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}
