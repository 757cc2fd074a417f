//! Other paths to the same directory.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    device: String,
    /// Which part of the file system is mounted.
    root: PathBuf,
    pub(super) at: PathBuf,
    pub(super) kind: String,
}

/// Everything that is mounted.
///
/// # Errors
/// When the list cannot be read.
pub(super) fn list() -> io::Result<Vec<Mount>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = String::from_utf8(fields.nth(2)?.to_vec()).ok()?;
    let root = unescape(fields.next()?);
    let at = unescape(fields.next()?);
    // Then come options and optional fields, which a lone dash ends.
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        device,
        root,
        at,
        kind: String::from_utf8_lossy(kind).into_owned(),
    })
}

/// White space and backslashes are written as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = after
            .get(if code.is_some() { 3 } else { 0 }..)
            .unwrap_or_default();
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// Every path under which a directory, or a part of it, may be found: the same file system can be mounted more than
/// once. The path itself is not among them.
///
/// A candidate may be covered by another mount, so compare before use; see [`same_directory`].
pub(super) fn aliases(mounts: &[Mount], path: &Path) -> Vec<PathBuf> {
    // The last mount on the way to the path is the one it is on.
    let Some(home) = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.at))
        .max_by_key(|mount| mount.at.as_os_str().as_bytes().len())
    else {
        return Vec::new();
    };
    let Ok(below) = path.strip_prefix(&home.at) else {
        return Vec::new();
    };
    let inner = join(&home.root, below);
    let mut found = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.device == home.device) {
        let alias = match (inner.strip_prefix(&mount.root), mount.root.strip_prefix(&inner)) {
            (Ok(below), _) => join(&mount.at, below),
            // Only a part of it is mounted there.
            (_, Ok(_)) => mount.at.clone(),
            _ => continue,
        };
        if alias != path && !alias.starts_with(path) && !found.contains(&alias) {
            found.push(alias);
        }
    }
    found
}

fn join(base: &Path, below: &Path) -> PathBuf {
    // `join` with nothing would leave a slash behind.
    if below.as_os_str().is_empty() {
        base.to_path_buf()
    } else {
        base.join(below)
    }
}

/// Whether two paths lead to one directory now.
pub(super) fn same_directory(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 254:1 /@home /home rw,relatime shared:3 - btrfs /dev/vdb rw
31 27 254:1 / /mnt/a\\040disk rw,relatime shared:4 master:2 - btrfs /dev/vdb rw
32 27 254:1 /@home/me/.openclaw/countersign /srv/part rw - btrfs /dev/vdb rw
33 27 254:1 /@snapshots /snap rw - btrfs /dev/vdb rw
";

    #[test]
    fn lines_are_read_with_their_odd_names() {
        let mounts = parse(MOUNTS.as_bytes());
        assert_eq!(mounts.len(), 6);
        assert_eq!(mounts[3].at, Path::new("/mnt/a disk"));
        assert_eq!(mounts[0].kind, "proc");
    }

    #[test]
    fn a_directory_is_found_on_every_mount_of_its_file_system() {
        let mounts = parse(MOUNTS.as_bytes());
        let found = aliases(&mounts, Path::new("/home/me/.openclaw"));
        assert_eq!(
            found,
            [
                Path::new("/mnt/a disk/@home/me/.openclaw"),
                Path::new("/srv/part")
            ]
        );
        assert_eq!(aliases(&mounts, Path::new("/etc")), Vec::<PathBuf>::new());
    }
}
