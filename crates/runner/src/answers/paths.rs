//! Paths as their text says them. Nothing here looks at the disk.

use countersign_sys::interception;

/// Links of `/proc` in one path that are followed.
const MAX_OWN_LINKS: usize = 16;

/// A path of a caller, and the directory that it begins at if it is relative.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathAt {
    pub(super) directory: i32,
    pub(super) path: Vec<u8>,
}

impl PathAt {
    /// Without what `/proc` calls the caller's own: that is its root, its working directory or one of its descriptors.
    pub(super) fn new(directory: i32, path: Vec<u8>) -> Self {
        let mut place = Self { directory, path };
        for _ in 0..MAX_OWN_LINKS {
            match place.behind_own_link() {
                Some(behind) => place = behind,
                None => break,
            }
        }
        place
    }

    fn behind_own_link(&self) -> Option<Self> {
        let mut parts = parts(&self.path).filter(|part| *part != b".");
        let is_own = self.path.starts_with(b"/")
            && parts.next() == Some(b"proc")
            && matches!(parts.next(), Some(b"self" | b"thread-self"));
        let mut link = parts.next().filter(|_| is_own)?;
        if link == b"task" {
            parts.next()?;
            link = parts.next()?;
        }
        let (directory, begin): (i32, &[u8]) = match link {
            b"root" => (self.directory, b"/"),
            b"cwd" => (interception::WORKING_DIRECTORY, b""),
            b"fd" => (str::from_utf8(parts.next()?).ok()?.parse().ok()?, b""),
            _ => return None,
        };
        let rest: Vec<&[u8]> = parts.collect();
        if rest.is_empty() {
            // The link itself.
            return None;
        }
        let end: &[u8] = if self.path.ends_with(b"/") { b"/" } else { b"" };
        Some(Self {
            directory,
            path: [begin, &rest.join(&b'/'), end].concat(),
        })
    }

    /// The directory of the caller whose name a link of `/proc` says.
    pub(super) fn named_by_link(&self) -> Option<i32> {
        let name = lexical(&self.path);
        let parts: Vec<&[u8]> = parts(&name).collect();
        match parts.as_slice() {
            _ if !self.is_absolute() => None,
            [b"proc", b"self" | b"thread-self", b"fd", number] | [b"dev", b"fd", number] => {
                str::from_utf8(number).ok()?.parse().ok()
            }
            // Of another process too: in most cases one that this one comes from and stands beside.
            [b"proc", _, b"cwd"] | [b"proc", _, b"fd", _] => Some(interception::WORKING_DIRECTORY),
            _ => None,
        }
    }

    /// Whether it begins at a directory that a process, told by its number, has open.
    pub(super) fn is_of_process(&self) -> bool {
        let name = lexical(&self.path);
        let mut parts = parts(&name);
        match (parts.next(), parts.next()) {
            _ if !self.is_absolute() => false,
            (Some(b"dev"), Some(b"fd")) => parts.count() > 1,
            (Some(b"proc"), Some(process)) if process.iter().all(u8::is_ascii_digit) => {
                let link = parts.find(|part| matches!(*part, b"cwd" | b"root" | b"fd"));
                parts.count() > usize::from(link == Some(b"fd"))
            }
            _ => false,
        }
    }

    pub(super) fn is_absolute(&self) -> bool {
        self.path.starts_with(b"/")
    }

    /// Whether only a directory can be there.
    pub(super) fn is_of_directory(&self) -> bool {
        self.path.ends_with(b"/") || matches!(parts(&self.path).last(), Some(b"." | b".."))
    }

    /// The directory that its last part lies in.
    pub(super) fn parent(&self) -> Self {
        let end = self.path.iter().rposition(|byte| *byte == b'/');
        let path = match end {
            Some(end) => self.path.get(..=end).unwrap_or_default().to_vec(),
            None => b".".to_vec(),
        };
        Self {
            directory: self.directory,
            path,
        }
    }
}

pub(super) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// What a name has behind that of a directory, its slash included; nothing for the directory itself.
pub(super) fn rest_beneath<'a>(name: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(directory)?;
    (rest.is_empty() || rest.starts_with(b"/") || directory == b"/").then_some(rest)
}

/// A path without `.` and double slashes. `..` stays: behind a link it leads elsewhere.
pub(super) fn plain(path: &[u8]) -> Vec<u8> {
    let parts = parts(path).filter(|part| *part != b".");
    parts.fold(Vec::with_capacity(path.len()), |mut name, part| {
        name.push(b'/');
        name.extend(part);
        name
    })
}

/// The same without `..`, as programs that do not look at links make it.
pub(super) fn lexical(path: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in parts(path) {
        match part {
            b"." => {}
            b".." => drop(kept.pop()),
            part => kept.push(part),
        }
    }
    kept.iter()
        .flat_map(|part| [b"/".as_slice(), part].concat())
        .collect()
}

pub(super) fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_by_its_text_as_typed_and_as_programs_shorten_it() {
        for (path, as_typed, shortened) in [
            ("/w//./x", "/w/x", "/w/x"),
            ("/w/d/../x/", "/w/d/../x", "/w/x"),
            ("/../x", "/../x", "/x"),
            ("/", "", ""),
        ] {
            assert_eq!(plain(path.as_bytes()), as_typed.as_bytes(), "{path}");
            assert_eq!(lexical(path.as_bytes()), shortened.as_bytes(), "{path}");
        }
    }

    #[test]
    fn what_proc_calls_the_callers_own_is_what_it_means() {
        let here = interception::WORKING_DIRECTORY;
        for (path, directory, expected) in [
            ("/proc/self/cwd/x", here, "x"),
            ("/proc/./thread-self/cwd/../x/", here, "../x/"),
            ("/proc/self/root/w/x", 5, "/w/x"),
            ("/proc/self/task/77/root/w/x", 5, "/w/x"),
            ("/proc/self/fd/9/x", 9, "x"),
            ("/proc/self/root/proc/self/cwd/x", here, "x"),
            ("/proc/self/fd/9", 5, "/proc/self/fd/9"),
            ("/proc/self/cwd", 5, "/proc/self/cwd"),
            ("/proc/1/cwd/x", 5, "/proc/1/cwd/x"),
            ("proc/self/cwd/x", 5, "proc/self/cwd/x"),
        ] {
            let place = PathAt::new(5, path.as_bytes().to_vec());
            assert_eq!(
                (place.directory, place.path.as_slice()),
                (directory, expected.as_bytes()),
                "{path}"
            );
        }
    }

    #[test]
    fn what_a_process_has_open_is_told_from_what_has_a_name() {
        let here = interception::WORKING_DIRECTORY;
        for (path, is_of_process, named) in [
            ("/proc/77/cwd/x", true, None),
            ("/proc/77/task/78/root/w/x", true, None),
            ("/proc/77/fd/9/x", true, None),
            ("/dev/fd/9/x", true, None),
            ("/dev/fd/9", false, Some(9)),
            ("/proc/77/fd/9", false, Some(here)),
            ("/proc/77/cwd", false, Some(here)),
            ("/proc/self/cwd", false, Some(here)),
            ("/proc/thread-self/fd/9", false, Some(9)),
            ("/proc/77/status", false, None),
            ("/proc/sys/x", false, None),
            ("proc/77/cwd/x", false, None),
            ("/w/x", false, None),
        ] {
            let place = PathAt::new(5, path.as_bytes().to_vec());
            assert_eq!(
                (place.is_of_process(), place.named_by_link()),
                (is_of_process, named),
                "{path}"
            );
        }
    }
}
