//! The PATH of gateway runs: the one that look-up and execution both use
//! (`docs/spec/exec-tool.md#6-environment-and-shell-gateway-host`).

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// What every run gets after everything else.
const LAST: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin"];

/// The directories of the run PATH, in order: `prepend`, the login shell's, the server's own, the fixed
/// ones. Empty, relative and repeated entries are dropped.
pub fn compose(prepend: &[PathBuf], login: Option<&str>, own: Option<&str>) -> Vec<PathBuf> {
    let split = |text: Option<&str>| -> Vec<PathBuf> {
        text.map(|text| text.split(':').map(PathBuf::from).collect())
            .unwrap_or_default()
    };
    let mut seen = BTreeSet::new();
    prepend
        .iter()
        .cloned()
        .chain(split(login))
        .chain(split(own))
        .chain(LAST.iter().map(PathBuf::from))
        .filter(|dir| dir.is_absolute() && !has_separator(dir))
        .filter(|dir| seen.insert(dir.clone()))
        .collect()
}

/// The directories as the value of `PATH`.
pub fn join(dirs: &[PathBuf]) -> OsString {
    let mut text = OsString::new();
    for dir in dirs {
        if !text.is_empty() {
            text.push(":");
        }
        text.push(dir);
    }
    text
}

fn has_separator(dir: &Path) -> bool {
    dir.as_os_str().as_encoded_bytes().contains(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_prepend_login_own_fixed_without_doubles() {
        let dirs = compose(
            &["/opt/x/bin".into(), "rel".into()],
            Some("/bin::/l"),
            Some("/own:.:/l"),
        );
        assert_eq!(join(&dirs), "/opt/x/bin:/bin:/l:/own:/usr/local/bin:/usr/bin");
    }

    #[test]
    fn a_directory_with_a_colon_cannot_smuggle_another() {
        assert_eq!(
            join(&compose(&["/a:/tmp".into()], None, None)),
            "/usr/local/bin:/usr/bin:/bin"
        );
    }
}
