//! Files of a workspace, or of the temporary directory, that redirections name: found from an open directory on, and never by
//! way of it.

use serde::{Deserialize, Serialize};

/// A directory by its real path, and by what tells it from another one there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PinnedDirectory {
    /// Its real path.
    pub path: String,
    /// The number of its device.
    pub dev: u64,
    /// The number of its inode.
    pub ino: u64,
}

/// A path of a file below a directory: names with one `/` between them. No name is `.` or `..`, and none has a NUL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathBelow(String);

/// A path does not lead to a file below a directory by its text alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the path does not name a file below a directory")]
pub struct NotBelow;

impl PathBelow {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PathBelow {
    type Error = NotBelow;

    fn try_from(path: String) -> Result<Self, NotBelow> {
        let is_name = |part: &str| !matches!(part, "" | "." | "..");
        let is_below = path.split('/').all(is_name) && !path.contains('\0');
        is_below.then_some(Self(path)).ok_or(NotBelow)
    }
}

impl From<PathBelow> for String {
    fn from(path: PathBelow) -> Self {
        path.0
    }
}

/// What a program uses a file for that a redirection names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileUse {
    /// `<`: it reads the file.
    Input,
    /// `>`: its output takes the place of what was in the file.
    Output,
    /// `>>`: its output is put behind what is in the file.
    OutputAppended,
    /// `2>`: its errors take the place of what was in the file.
    Errors,
    /// `2>>`: its errors are put behind what is in the file.
    ErrorsAppended,
}

impl FileUse {
    /// The operator as every POSIX shell reads it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "<",
            Self::Output => ">",
            Self::OutputAppended => ">>",
            Self::Errors => "2>",
            Self::ErrorsAppended => "2>>",
        }
    }

    /// The descriptor that it changes.
    pub const fn descriptor(self) -> u8 {
        match self {
            Self::Input => 0,
            Self::Output | Self::OutputAppended => 1,
            Self::Errors | Self::ErrorsAppended => 2,
        }
    }

    /// Whether the file is written.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Input)
    }

    /// Whether what is in the file stays.
    pub const fn appends(self) -> bool {
        matches!(self, Self::OutputAppended | Self::ErrorsAppended)
    }
}

/// A file of a workspace, or of the temporary directory, in place of standard input, output or error.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileRedirection {
    /// What the file is used for.
    pub used_as: FileUse,
    /// The workspace or the temporary directory, as it was when the command was judged.
    pub workspace: PinnedDirectory,
    /// Where the file lies in it.
    pub path: PathBelow,
}

impl FileRedirection {
    /// The absolute path of the file.
    pub fn whole_path(&self) -> String {
        format!(
            "{}/{}",
            self.workspace.path.trim_end_matches('/'),
            self.path.as_str()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_below_a_directory_are_paths_there() {
        for path in ["a", "a/b c", ".git/x", "..a", "-x", "a/.b"] {
            assert_eq!(
                PathBelow::try_from(path.to_owned()).map(String::from),
                Ok(path.to_owned())
            );
        }
        for path in ["", "/", "/a", "a/", "a//b", ".", "a/.", "..", "a/../b", "a\0"] {
            assert_eq!(PathBelow::try_from(path.to_owned()), Err(NotBelow), "{path:?}");
            let text = serde_json::to_string(path).unwrap();
            assert!(serde_json::from_str::<PathBelow>(&text).is_err(), "{path:?}");
        }
    }
}
