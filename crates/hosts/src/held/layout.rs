//! What a held text has around it. Pure but for the look at libraries.

use std::{
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use countersign_domain::FileIdentity;
use countersign_runner::enclose::{Enclosed, HeldWalls, Piece, ProcessLimit, Source};

use super::{Fixed, libraries};
use crate::{
    sandbox::{Unusable, builtin},
    shebang_cache::stamp_of,
};

/// Directories of the system, which every account may read.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Files of `/etc` that every account may read and programs want, besides those of the sandbox.
const CONFIGURATION: [&str; 8] = [
    "gitconfig",
    "group",
    "host.conf",
    "hostname",
    "hosts",
    "localtime",
    "nsswitch.conf",
    "passwd",
];

/// Variables that shells and loaders read code from, or that lead to a directory which is not there.
const TAKEN_OUT: [&str; 11] = [
    "BASHOPTS",
    "BASH_ENV",
    "CDPATH",
    "ENV",
    "GCONV_PATH",
    "GLOBIGNORE",
    "PS4",
    "SHELLOPTS",
    "TEMP",
    "TMP",
    "TMPDIR",
];

const HOST_NAME: &str = "held";
/// Most bytes and files of `/tmp`.
const MEMORY_BYTES: u64 = 256 << 20;
const MEMORY_FILES: u64 = 65_536;
/// As in the sandbox: enough for any build, and no trouble for the machine.
const PROCESSES: u64 = 4096;
const CORE: u8 = 4;
const PROCESS_COUNT: u8 = 6;

/// One held text.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) shell: &'a FileIdentity,
    pub(crate) programs: &'a [FileIdentity],
    pub(crate) loaders: &'a [FileIdentity],
    /// Real path of the agent's workspace.
    pub(crate) workspace: &'a Path,
    pub(crate) fixed: Vec<Fixed>,
    /// Device and inode of the working directory.
    pub(crate) directory: (u64, u64),
}

/// The description for a supervisor.
pub(crate) fn describe(held: &Held<'_>) -> Result<Enclosed, Unusable> {
    let Held {
        shell,
        programs,
        loaders,
        workspace,
        fixed,
        directory,
    } = held;
    let mut pieces = Vec::with_capacity(128);
    for path in SYSTEM {
        pieces.push(Piece::Shown(text(path)?));
    }
    let mut configuration: Vec<&str> = builtin::CONFIGURATION
        .iter()
        .chain(&CONFIGURATION)
        .copied()
        .collect();
    configuration.sort_unstable();
    configuration.dedup();
    for name in configuration {
        pieces.push(Piece::Shown(text(format!("/etc/{name}"))?));
    }
    let libraries = libraries::of_this_machine()?;
    for directory in &libraries.directories {
        pieces.push(Piece::Mirror(text(directory)?));
    }
    for program in &libraries.barred {
        pieces.push(Piece::Shown(text(program)?));
    }
    let executables: Vec<&FileIdentity> = std::iter::once(*shell).chain(*programs).chain(*loaders).collect();
    for identity in &executables {
        pieces.push(Piece::Mirror(text(&identity.path)?));
    }
    pieces.push(Piece::Memory {
        inside: text("/tmp")?,
        bytes: MEMORY_BYTES,
        files: MEMORY_FILES,
        mode: 0o1777,
        executable: false,
    });
    pieces.push(Piece::Bind {
        source: Source::Workspace,
        inside: text(workspace)?,
        writable: true,
        executable: false,
    });
    for Fixed { path, inode, decides } in fixed {
        pieces.push(Piece::Bind {
            source: Source::Itself(text(path)?, *inode),
            inside: text(path)?,
            writable: !decides,
            executable: false,
        });
    }
    let both = |resource, number| ProcessLimit {
        resource,
        soft: number,
        hard: number,
    };
    Ok(Enclosed {
        host_name: text(HOST_NAME)?,
        // Held texts are not for a server of root.
        nobody: (65_534, 65_534),
        pieces,
        writable_root: false,
        // The kernel starts the machine's handler of crashes, as root, with any limit but this one.
        limits: vec![both(CORE, 1), both(PROCESS_COUNT, PROCESSES)],
        held: Some(HeldWalls {
            executables: executables
                .into_iter()
                .map(|identity| Ok((text(&identity.path)?, stamp_of(identity))))
                .collect::<Result<_, Unusable>>()?,
            directory: *directory,
        }),
    })
}

/// The environment of a run without what a shell or a loader would take code from.
pub(crate) fn environment(all: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let is_kept = |name: &OsStr| {
        let bytes = name.as_bytes();
        !TAKEN_OUT.iter().any(|taken| name == *taken)
            && !bytes.starts_with(b"LD_")
            && !bytes.starts_with(b"BASH_FUNC_")
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    };
    let kept = all.iter().filter(|(name, value)| {
        // Older shells read a function from any variable.
        is_kept(name) && !value.as_bytes().starts_with(b"() {")
    });
    kept.cloned().collect()
}

fn text(text: impl AsRef<OsStr>) -> Result<CString, Unusable> {
    let text = text.as_ref();
    CString::new(text.as_bytes()).map_err(|_nul| Unusable(format!("{} holds a NUL", text.display())))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::environment;

    #[test]
    fn nothing_that_shells_and_loaders_run_is_handed_on() {
        let pair = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let all = [
            ("BASH_ENV", "x"),
            ("BASH_FUNC_ls%%", "() { touch m; }"),
            ("ENV", "x"),
            ("HOME", "/home/a"),
            ("LD_PRELOAD", "x.so"),
            ("OLD", "() { :; }; touch m"),
            ("PATH", "/usr/bin"),
            ("PS4", "$(touch m)"),
            ("TMPDIR", "/nowhere"),
            ("a-b", "x"),
        ]
        .map(pair);
        let kept = [("HOME", "/home/a"), ("PATH", "/usr/bin")].map(pair);
        assert_eq!(environment(&all), kept);
    }
}
