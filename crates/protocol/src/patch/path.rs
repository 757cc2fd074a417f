//! The path of a file in a patch.

use std::fmt;

use countersign_domain::{Deciding, deciding};

use super::limits::{MAX_DEPTH, MAX_PATH_BYTES};

/// How the names of files begin that a patch makes for itself while it is applied.
pub const TEMPORARY_PREFIX: &str = ".countersign-patch-";

/// A path that can be meant: no `.`, no `..`, no doubled slash, nothing that hides, not into Git's own files and no other
/// that decides what programs start. Whether it may be reached is another question.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PatchPath(String);

/// Why a path cannot be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It is empty, or names the directory itself.
    #[error("the path names no file")]
    Empty,
    /// Longer than any path.
    #[error("the path is too long")]
    TooLong,
    /// It leads through too many directories.
    #[error("the path leads through more than {MAX_DEPTH} directories")]
    TooDeep,
    /// It ends with a slash.
    #[error("the path names a directory")]
    Directory,
    /// A part of it is `..`.
    #[error("the path must not contain \"..\"")]
    Up,
    /// It holds control characters, or such as move or hide text.
    #[error("the path holds characters that cannot be shown")]
    Unshowable,
    /// It leads to what Git runs and trusts.
    #[error("the path leads into .git, where Git keeps what it runs")]
    Git,
    /// It leads to a file that decides what programs start or load.
    #[error(
        "the path leads to a file that decides what programs start, such as a start-up file of a shell or .npmrc"
    )]
    Deciding,
    /// It names a file that patches make for themselves.
    #[error("the path begins like the temporary files of patches")]
    Temporary,
}

impl PathFault {
    /// Why nothing may be changed at a path, wherever links have led to it.
    pub fn of_place(path: &str) -> Option<Self> {
        deciding(path).map(|found| match found {
            Deciding::Git => Self::Git,
            Deciding::Other => Self::Deciding,
        })
    }
}

impl PatchPath {
    /// Reads a path as it stands in a patch.
    ///
    /// # Errors
    /// [`PathFault`]
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        if text.len() > MAX_PATH_BYTES {
            return Err(PathFault::TooLong);
        }
        if text.chars().any(is_unshowable) {
            return Err(PathFault::Unshowable);
        }
        if text.ends_with('/') {
            return Err(PathFault::Directory);
        }
        let mut parts = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(PathFault::Up),
                part if part.starts_with(TEMPORARY_PREFIX) => return Err(PathFault::Temporary),
                part => parts.push(part),
            }
        }
        if parts.is_empty() || text.ends_with("/.") {
            return Err(PathFault::Empty);
        }
        if let Some(fault) = PathFault::of_place(text) {
            return Err(fault);
        }
        if parts.len() > MAX_DEPTH {
            return Err(PathFault::TooDeep);
        }
        let root = if text.starts_with('/') { "/" } else { "" };
        Ok(Self(format!("{root}{}", parts.join("/"))))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters and those that Unicode has for changing how others look.
fn is_unshowable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

impl fmt::Display for PatchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PatchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_without_detours_or_not_at_all() {
        #[track_caller]
        fn check(text: &str, expected: Result<&str, PathFault>) {
            let parsed = PatchPath::parse(text);
            assert_eq!(
                parsed.as_ref().map(PatchPath::as_str),
                expected.as_ref().map(|path| *path)
            );
        }
        check("a", Ok("a"));
        check("./a//b/./c", Ok("a/b/c"));
        check("//a", Ok("/a"));
        check("a b/ü", Ok("a b/ü"));
        check("...", Ok("..."));
        check(".gitignore", Ok(".gitignore"));
        for empty in ["", ".", "./."] {
            check(empty, Err(PathFault::Empty));
        }
        check("a/", Err(PathFault::Directory));
        check("/", Err(PathFault::Directory));
        for up in ["..", "a/../b", "/..", "a/.."] {
            check(up, Err(PathFault::Up));
        }
        for git in [".git", ".git/hooks/x", "a/.GIT/config", "/r/.Git/x"] {
            check(git, Err(PathFault::Git));
        }
        for deciding in [".npmrc", "a/.cargo/config.toml", "/home/a/.BASHRC", ".ssh/config"] {
            check(deciding, Err(PathFault::Deciding));
        }
        for hidden in ["a\u{202e}b", "a\tb", "a\0b", "a\u{200b}", "\u{7f}"] {
            check(hidden, Err(PathFault::Unshowable));
        }
        check("d/.countersign-patch-1-2-3", Err(PathFault::Temporary));
        check(&"a".repeat(4096), Err(PathFault::TooLong));
        check(&"a/".repeat(200).replace("/a/", "/b/"), Err(PathFault::Directory));
        check(&format!("{}x", "a/".repeat(200)), Err(PathFault::TooDeep));
    }
}
