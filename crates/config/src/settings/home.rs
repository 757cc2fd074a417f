//! The home directory: where it is, and paths that begin with `~`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::Environment;

/// `~` and `~/x` under the home directory; other paths as they are. `None` without a home directory.
pub(super) fn expand_home(path: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => home.map(|home| {
            if rest.as_os_str().is_empty() {
                home.to_path_buf()
            } else {
                home.join(rest)
            }
        }),
        Err(_not_below_home) => Some(path.to_path_buf()),
    }
}

pub(super) fn home_directory(environment: &dyn Environment) -> Option<PathBuf> {
    let from_variable = environment
        .get("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    from_variable.or_else(|| {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        home_in_passwd(&passwd, rustix::process::geteuid().as_raw())
    })
}

fn home_in_passwd(passwd: &str, uid: u32) -> Option<PathBuf> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let line_uid: u32 = fields.next()?.parse().ok()?;
        let home = PathBuf::from(fields.nth(2)?);
        (line_uid == uid && home.is_absolute()).then_some(home)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_directory_of_our_account_is_found() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nme:x:1000:1000:Me:/home/me:/bin/sh\nno:x:1001:1001::relative:";
        assert_eq!(home_in_passwd(passwd, 1000), Some("/home/me".into()));
        assert_eq!(home_in_passwd(passwd, 0), Some("/root".into()));
        assert_eq!(home_in_passwd(passwd, 1001), None);
        assert_eq!(home_in_passwd(passwd, 2), None);
    }

    #[test]
    fn the_home_sign_expands_only_at_the_beginning() {
        let expand = |path: &str| expand_home(Path::new(path), Some(Path::new("/home/me")));
        assert_eq!(expand("~"), Some("/home/me".into()));
        assert_eq!(expand("~/a/~"), Some("/home/me/a/~".into()));
        assert_eq!(expand("~other/a"), Some("~other/a".into()));
        assert_eq!(expand_home(Path::new("~/a"), None), None);
    }
}
