//! What an answer is bound to, beyond what the request says
//! (`docs/spec/approvals-store.md#12-binding-an-approval-to-what-runs`).

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use countersign_domain::{BoundInterpreter, BoundScript, EnvOverrides, hex};
use countersign_sys::fs::FileStamp;

/// Hex SHA-256 of the JSON array of `[name, value]` pairs sorted by name; `None` without any.
///
/// # Panics
/// Never: pairs of strings always serialise.
pub fn env_hash(overrides: &EnvOverrides) -> Option<String> {
    if overrides.is_empty() {
        return None;
    }
    let pairs: Vec<(&str, &str)> = overrides.iter().collect();
    let text = serde_json::to_vec(&pairs).expect("pairs of strings serialise");
    Some(hex(&Sha256::digest(&text)))
}

/// The most bytes of scripts that are read for one command.
const MAX_SCRIPT_BYTES: u64 = 16 << 20;

/// A file that an interpreter may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Where the file lies, absolute; only the first candidate of a path is bound.
    pub path: PathBuf,
    /// What its first line names, where it is started as a program itself.
    pub interpreter: Option<BoundInterpreter>,
}

impl Candidate {
    /// A file that stands among the arguments and is not started as a program itself.
    pub const fn operand(path: PathBuf) -> Self {
        Self {
            path,
            interpreter: None,
        }
    }
}

/// Binds the regular files among `candidates`, each once. `open` opens regular files only: a link is followed, a FIFO
/// or a device is never waited for.
pub fn bind_scripts(
    candidates: impl IntoIterator<Item = Candidate>,
    open: impl Fn(&Path) -> io::Result<File>,
) -> BoundScripts {
    let mut room = MAX_SCRIPT_BYTES;
    let mut scripts: Vec<BoundScript> = Vec::new();
    let mut are_whole = true;
    for Candidate { path, interpreter } in candidates {
        let text = path.to_string_lossy().into_owned();
        if scripts.iter().any(|known| known.path == text) {
            continue;
        }
        if let Ok(seen) = open(&path).and_then(|file| look_at(file, &mut room)) {
            are_whole &= seen.content.is_some();
            scripts.push(BoundScript {
                path: text,
                sha256: seen.digest,
                interpreter,
            });
        }
    }
    BoundScripts { scripts, are_whole }
}

/// What [`bind_scripts`] binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundScripts {
    /// One for each candidate that opened as a regular file, in their order.
    pub scripts: Vec<BoundScript>,
    /// Whether all of them were read.
    pub are_whole: bool,
}

impl Default for BoundScripts {
    fn default() -> Self {
        Self {
            scripts: Vec::new(),
            are_whole: true,
        }
    }
}

/// The first script's path with the hex SHA-256 of its content, or with a digest over all of them where there are
/// several.
///
/// # Panics
/// Never: paths and digests always serialise.
pub fn sum_of(scripts: &[BoundScript]) -> Option<(String, String)> {
    let first = scripts.first()?;
    if scripts.len() == 1 {
        return Some((first.path.clone(), first.sha256.clone()));
    }
    let pairs: Vec<_> = scripts
        .iter()
        .map(|script| (&script.path, &script.sha256))
        .collect();
    let text = serde_json::to_vec(&pairs).expect("pairs of strings serialise");
    Some((first.path.clone(), hex(&Sha256::digest(&text))))
}

/// Looks at scripts again: each as it must be from now on. The first that is not what was bound is the error.
///
/// # Errors
/// The path of a script that is gone or has another content.
pub fn look_again(
    scripts: &[BoundScript],
    open: impl Fn(&Path) -> io::Result<File>,
) -> Result<Vec<SeenScript>, PathBuf> {
    let mut room = MAX_SCRIPT_BYTES;
    scripts
        .iter()
        .map(|script| {
            let path = PathBuf::from(&script.path);
            match open(&path).and_then(|file| look_at(file, &mut room)) {
                Ok(seen) if seen.digest == script.sha256 => Ok(seen),
                Ok(_) | Err(_) => Err(path),
            }
        })
        .collect()
}

/// A script at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenScript {
    digest: String,
    /// Device, inode, size and times, which the supervisor compares once more before the start.
    pub stamp: FileStamp,
    /// The permission bits `rwxrwxrwx`, without set-user-ID and the like.
    pub mode: u32,
    /// Its content, unless it is too large to be read.
    pub content: Option<SeenContent>,
}

/// The content of a script as it was read, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenContent {
    /// Its SHA-256.
    pub sha256: [u8; 32],
    /// The whole file; all scripts of one command together hold at most 16 MiB.
    pub bytes: Vec<u8>,
}

/// A script with the hex SHA-256 of its content; of what is too large to be read, of what tells the file from another.
fn look_at(file: File, room: &mut u64) -> io::Result<SeenScript> {
    let metadata = file.metadata()?;
    let stamp = FileStamp::from_metadata(&metadata);
    let Some(left) = room.checked_sub(metadata.len()) else {
        let identity = serde_json::json!([
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            [metadata.mtime(), metadata.mtime_nsec()],
            [metadata.ctime(), metadata.ctime_nsec()],
        ]);
        return Ok(SeenScript {
            digest: hex(&Sha256::digest(identity.to_string().as_bytes())),
            stamp,
            mode: metadata.mode() & 0o777,
            content: None,
        });
    };
    *room = left;
    let mut bytes = Vec::new();
    file.take(metadata.len()).read_to_end(&mut bytes)?;
    let sha256: [u8; 32] = Sha256::digest(&bytes).into();
    Ok(SeenScript {
        digest: hex(&sha256),
        stamp,
        mode: metadata.mode() & 0o777,
        content: Some(SeenContent { sha256, bytes }),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn overrides(pairs: &[(&str, &str)]) -> EnvOverrides {
        EnvOverrides::accepted(
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn order_does_not_matter_and_borders_do() {
        assert_eq!(env_hash(&overrides(&[])), None);
        assert_eq!(
            env_hash(&overrides(&[("A", "1"), ("B", "2")])),
            env_hash(&overrides(&[("B", "2"), ("A", "1")]))
        );
        assert_ne!(
            env_hash(&overrides(&[("A", "1B"), ("C", "2")])),
            env_hash(&overrides(&[("A", "1"), ("BC", "2")]))
        );
    }

    proptest! {
        #[test]
        fn the_hash_changes_iff_the_overrides_do(
            a in prop::collection::btree_map("[A-Z]{1,3}", ".{0,4}", 0..4),
            b in prop::collection::btree_map("[A-Z]{1,3}", ".{0,4}", 0..4),
        ) {
            let hash = |map: &BTreeMap<String, String>| env_hash(&EnvOverrides::accepted(map.clone()));
            prop_assert_eq!(hash(&a) == hash(&b), a == b);
        }
    }
}
