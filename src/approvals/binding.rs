//! What an answer is bound to, beyond what the request says (`approvals-store.md` 12).

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::domain::{EnvOverrides, hex};

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

/// Binds the files among `candidates`: the first one's path with the hex SHA-256 of its content, or with a
/// digest over all of them where there are several. `None` when none of them is a regular file. `open` opens regular
/// files only: a link is followed, a FIFO or a device is never waited for.
///
/// # Panics
/// Never: paths and digests always serialise.
pub fn bind_scripts(
    candidates: impl IntoIterator<Item = PathBuf>,
    open: impl Fn(&Path) -> io::Result<File>,
) -> Option<(String, String)> {
    let mut room = MAX_SCRIPT_BYTES;
    let mut scripts: Vec<(String, String)> = Vec::new();
    for candidate in candidates {
        let path = candidate.to_string_lossy().into_owned();
        if scripts.iter().any(|(known, _digest)| *known == path) {
            continue;
        }
        let digest = open(&candidate).and_then(|file| script_digest(file, &mut room));
        if let Ok(digest) = digest {
            scripts.push((path, digest));
        }
    }
    match scripts.as_slice() {
        [] | [_] => scripts.pop(),
        [(first, _digest), ..] => {
            let text = serde_json::to_vec(&scripts).expect("pairs of strings serialise");
            Some((first.clone(), hex(&Sha256::digest(&text))))
        }
    }
}

/// Hex SHA-256 of a script's content; of what is too large to be read, of what tells the file from another.
fn script_digest(file: File, room: &mut u64) -> io::Result<String> {
    let metadata = file.metadata()?;
    let Some(left) = room.checked_sub(metadata.len()) else {
        let identity = serde_json::json!([
            metadata.dev(),
            metadata.ino(),
            metadata.len(),
            [metadata.mtime(), metadata.mtime_nsec()],
            [metadata.ctime(), metadata.ctime_nsec()],
        ]);
        return Ok(hex(&Sha256::digest(identity.to_string().as_bytes())));
    };
    *room = left;
    let mut content = Vec::new();
    file.take(metadata.len()).read_to_end(&mut content)?;
    Ok(hex(&Sha256::digest(&content)))
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
