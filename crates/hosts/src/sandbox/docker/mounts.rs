//! Which directories of the host a container may see.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_config::settings::BindMount;

use super::{super::Unusable, supervision::text_of};

/// Nobody mounts these, nor anything in them: anyone who has them has the machine.
const SYSTEM: [&str; 5] = ["/proc", "/sys", "/dev", "/etc", "/boot"];

/// Anyone who can write to one of these is root. Neither these nor a directory above them is mounted.
const ENGINES: [&str; 6] = [
    "/run/docker.sock",
    "/run/containerd",
    "/run/crio",
    "/run/podman",
    "/var/lib/docker",
    "/var/lib/containerd",
];

/// Places inside that are the container's own.
const INSIDE: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What is mounted nowhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Forbidden {
    /// As they really are. Neither they, nor what is in them, nor what they are in.
    places: Vec<PathBuf>,
}

impl Forbidden {
    /// These besides the system's own.
    pub(super) fn new(places: impl IntoIterator<Item = PathBuf>) -> Self {
        let engines = ENGINES.iter().map(PathBuf::from);
        // What does not exist is forbidden by its name.
        let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        Self {
            places: places.into_iter().chain(engines).map(real).collect(),
        }
    }

    /// The same bind with the path that is really mounted, so that a link that changes later changes nothing.
    pub(super) fn check(&self, bind: &BindMount) -> Result<BindMount, Unusable> {
        let host = real(&bind.host)?;
        self.check_host(&host).map_err(|why| refused(&bind.host, &why))?;
        check_inside(&bind.inside).map_err(|why| refused(&bind.inside, &why))?;
        Ok(BindMount { host, ..bind.clone() })
    }

    fn check_host(&self, host: &Path) -> Result<(), String> {
        if host == Path::new("/") {
            return Err("it is the whole machine".to_owned());
        }
        if SYSTEM.iter().any(|place| host.starts_with(place)) {
            return Err("it is the system's own".to_owned());
        }
        let is_near = |place: &&PathBuf| host.starts_with(place) || place.starts_with(host);
        match self.places.iter().find(is_near) {
            Some(place) => Err(format!("it would show {}", place.display())),
            None => Ok(()),
        }
    }
}

/// A workspace may be in the state directory, but not be the machine or the system.
pub(super) fn check_workspace(path: &Path) -> Result<PathBuf, Unusable> {
    let found = real(path)?;
    Forbidden::default()
        .check_host(&found)
        .map_err(|why| refused(path, &why))?;
    if !found.is_dir() {
        return Err(refused(path, "it is no directory"));
    }
    Ok(found)
}

/// Whether something may be mounted there inside.
pub(super) fn check_inside(path: &Path) -> Result<(), String> {
    use std::path::Component;
    let is_plain = path.is_absolute()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !is_plain || path == Path::new("/") || INSIDE.iter().any(|place| path.starts_with(place)) {
        return Err("nothing can be mounted there inside".to_owned());
    }
    Ok(())
}

fn real(path: &Path) -> Result<PathBuf, Unusable> {
    fs::canonicalize(path).map_err(|error| {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "it does not exist".to_owned()
        } else {
            error.to_string()
        };
        refused(path, &why)
    })
}

fn refused(path: &Path, why: &str) -> Unusable {
    Unusable(format!("a sandbox cannot mount {}: {why}", text_of(path)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn bind(host: &Path, inside: &str) -> BindMount {
        BindMount {
            host: host.to_owned(),
            inside: inside.into(),
            writable: true,
        }
    }

    #[test]
    fn nothing_is_mounted_that_opens_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("state/countersign/sandboxes")).unwrap();
        fs::create_dir(at("data")).unwrap();
        fs::create_dir(at("engine")).unwrap();
        let socket = UnixListener::bind(at("engine/docker.sock")).unwrap();
        symlink("/etc", at("innocent")).unwrap();
        symlink(at("state"), at("data/link")).unwrap();
        let forbidden = Forbidden::new([at("engine/docker.sock"), at("state")]);
        let is_refused = |host: &Path| forbidden.check(&bind(host, "/inside")).is_err();
        for host in [
            "/",
            "/etc",
            "/etc/ssl",
            "/proc",
            "/proc/self",
            "/sys",
            "/dev",
            "/dev/null",
            "/..",
            "/usr/../etc",
            "/var/lib",
            "/run",
            "/var/run",
            "/nonexistent",
        ] {
            assert!(is_refused(Path::new(host)), "{host}");
        }
        for host in [
            "engine",
            "engine/docker.sock",
            "innocent",
            "state",
            "state/countersign",
            "data/link",
            "data/../state",
            ".",
        ] {
            assert!(is_refused(&at(host)), "{host}");
        }
        drop(socket);
        let allowed = forbidden.check(&bind(&at("data"), "/inside")).unwrap();
        assert_eq!(allowed.host, at("data").canonicalize().unwrap());
    }

    #[test]
    fn a_link_is_mounted_as_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let link = folder.path().join("link");
        symlink(&target, &link).unwrap();
        let checked = Forbidden::default().check(&bind(&link, "/inside")).unwrap();
        assert_eq!(checked.host, target.canonicalize().unwrap());
    }

    #[test]
    fn the_containers_own_places_stay_its_own() {
        for inside in [
            "/",
            "/proc",
            "/proc/1",
            "/sys/fs",
            "/dev/shm",
            "data",
            "/a/../proc",
        ] {
            assert!(check_inside(Path::new(inside)).is_err(), "{inside}");
        }
        assert_eq!(check_inside(Path::new("/data/x")), Ok(()));
    }

    #[test]
    fn a_workspace_is_a_directory_and_not_the_machine() {
        for path in ["/", "/etc", "/bin/sh", "/nonexistent"] {
            assert!(check_workspace(Path::new(path)).is_err(), "{path}");
        }
        let folder = tempfile::tempdir().unwrap();
        assert!(check_workspace(folder.path()).is_ok());
    }
}
