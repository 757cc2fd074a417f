//! Files that decide what programs start, load or trust without being named again: those of Git, start-up files of shells
//! and editors, and configurations that hold commands. One list for what commands write (rule D1) and for patches.

/// Directories in which every file counts.
const DIRECTORIES: &[&str] = &[
    ".aws", ".docker", ".emacs.d", ".git", ".gnupg", ".hg", ".kube", ".mvn", ".ssh", ".vim",
];

/// The same inside a directory of another name.
const INNER_DIRECTORIES: &[(&str, &str)] = &[
    (".config", "autostart"),
    (".config", "environment.d"),
    (".config", "fish"),
    (".config", "gh"),
    (".config", "git"),
    (".config", "nvim"),
    (".config", "systemd"),
    (".gradle", "init.d"),
];

/// Files in a directory of that name.
const INNER_FILES: &[(&str, &str)] = &[(".cargo", "config"), (".cargo", "config.toml"), (".cargo", "env")];

/// Files, wherever they lie.
const FILES: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".cshrc",
    ".curlrc",
    ".emacs",
    ".envrc",
    ".exrc",
    ".gdbinit",
    ".gitconfig",
    ".inputrc",
    ".irbrc",
    ".kshrc",
    ".lesskey",
    ".lldbinit",
    ".login",
    ".npmrc",
    ".nvimrc",
    ".pam_environment",
    ".pnpmfile.cjs",
    ".profile",
    ".psqlrc",
    ".rprofile",
    ".screenrc",
    ".sqliterc",
    ".tcshrc",
    ".terraformrc",
    ".tmux.conf",
    ".vimrc",
    ".wgetrc",
    ".xinitrc",
    ".xprofile",
    ".yarnrc",
    ".yarnrc.yml",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// Beginnings of absolute paths.
const SYSTEM: &[&str] = &[
    "/etc/bash",
    "/etc/cron",
    "/etc/environment",
    "/etc/gitconfig",
    "/etc/init.d",
    "/etc/ld.so",
    "/etc/profile",
    "/etc/sudoers",
    "/etc/systemd",
    "/etc/zsh",
    "/var/spool/at",
    "/var/spool/cron",
];

/// What a path leads into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deciding {
    /// A directory of Git.
    Git,
    /// Another file of the list.
    Other,
}

/// Whether a path is, or lies in, one of these files. Names are compared without case, since some file systems do.
pub fn deciding(path: &str) -> Option<Deciding> {
    let path = path.to_ascii_lowercase();
    let mut before = "";
    let mut found = None;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".git" {
            return Some(Deciding::Git);
        }
        let pair = (before, part);
        if DIRECTORIES.contains(&part)
            || FILES.contains(&part)
            || INNER_DIRECTORIES.contains(&pair)
            || INNER_FILES.contains(&pair)
        {
            found = Some(Deciding::Other);
        }
        before = part;
    }
    let is_system = || SYSTEM.iter().any(|beginning| path.starts_with(beginning));
    found.or_else(|| is_system().then_some(Deciding::Other))
}

/// Whether a path leads to a directory that holds such a file under a name that counts only there, so that what is put
/// into it, or in its place, may be one.
pub fn may_hold_deciding(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    INNER_DIRECTORIES
        .iter()
        .chain(INNER_FILES)
        .any(|(outer, _)| outer.eq_ignore_ascii_case(name))
}

/// The last parts of the paths of the list. Some of them count only in one directory.
pub fn deciding_names() -> impl Iterator<Item = &'static str> {
    let inner = INNER_DIRECTORIES.iter().chain(INNER_FILES).map(|(_, name)| *name);
    DIRECTORIES.iter().chain(FILES).copied().chain(inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_decide_what_starts_are_known_wherever_they_lie() {
        for (path, expected) in [
            (".git", Some(Deciding::Git)),
            ("a/.GIT/hooks/pre-commit", Some(Deciding::Git)),
            (".git/../.git/config", Some(Deciding::Git)),
            ("x/.cargo/config.toml", Some(Deciding::Other)),
            (".cargo/./config", Some(Deciding::Other)),
            (".cargo/registry/x", None),
            ("/home/a/.bashrc", Some(Deciding::Other)),
            ("/home/a/.config/git/config", Some(Deciding::Other)),
            ("/home/a/.config/app/x", None),
            (".ssh/config", Some(Deciding::Other)),
            ("/etc/cron.d/x", Some(Deciding::Other)),
            ("/var/spool/cron/crontabs/root", Some(Deciding::Other)),
            ("/etc/hosts", None),
            (".gitignore", None),
            (".github/workflows/x.yml", None),
            ("x.git/config", None),
            ("package.json", None),
        ] {
            assert_eq!(deciding(path), expected, "{path}");
        }
    }
}
