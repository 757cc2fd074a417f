//! Paths as text: joining and lexical normalisation (P2, P5). Nothing here looks at a file system.

/// The home-relative remainder of `~` or `~/…` joined to `home`; anything else unchanged.
pub fn expand_home(text: &str, home: &str) -> String {
    match text.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.trim_end_matches('/')),
        _ => text.to_owned(),
    }
}

/// `path` made absolute against `base` and freed of `.`, `..` and doubled slashes.
pub fn join_normalised(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        normalise(path)
    } else {
        normalise(&format!("{base}/{path}"))
    }
}

/// An absolute path without `.`, `..` and doubled slashes. `..` at the root stays there.
pub fn normalise(path: &str) -> String {
    let mut normalised = String::with_capacity(path.len() + 1);
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => normalised.truncate(normalised.rfind('/').unwrap_or(0)),
            part => {
                normalised.push('/');
                normalised.push_str(part);
            }
        }
    }
    if normalised.is_empty() {
        normalised.push('/');
    }
    normalised
}

/// The last component.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Everything before the last component; `/` for a file of the root.
pub fn directory(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((directory, _)) => directory,
    }
}

/// Whether a normalised path is `directory` or lies below it.
pub fn is_within(path: &str, directory: &str) -> bool {
    let directory = directory.trim_end_matches('/');
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_lexically() {
        for (base, path, expected) in [
            ("/srv", "a/../b", "/srv/b"),
            ("/srv", "/x//y/./z", "/x/y/z"),
            ("/srv", "../../../etc", "/etc"),
            ("/", "a", "/a"),
            ("/srv", ".", "/srv"),
        ] {
            assert_eq!(join_normalised(base, path), expected, "{base} {path}");
        }
        assert_eq!(expand_home("~/x", "/home/a"), "/home/a/x");
        assert_eq!(expand_home("~", "/home/a"), "/home/a");
        assert_eq!(expand_home("~x", "/home/a"), "~x");
        assert_eq!(
            (base_name("/usr/bin/rg"), directory("/usr/bin/rg")),
            ("rg", "/usr/bin")
        );
        assert_eq!(directory("/rg"), "/");
    }

    #[test]
    fn within_compares_whole_components() {
        assert!(is_within("/srv/a", "/srv"));
        assert!(is_within("/srv", "/srv/"));
        assert!(is_within("/srv", "/"));
        assert!(!is_within("/srvx", "/srv"));
    }
}
