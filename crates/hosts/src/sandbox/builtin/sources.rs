//! The places of the machine that go into a sandbox, looked at once more before they do.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use countersign_config::settings::DockerSettings;

use super::layout::Bound;

use crate::sandbox::{Enclosure, Unusable};

/// What is never seen inside, nor anything below.
const CLOSED_TREES: [&str; 4] = ["/proc", "/sys", "/dev", "/boot"];

/// What is never seen inside as a whole.
const CLOSED_PLACES: [&str; 7] = ["/", "/etc", "/root", "/home", "/run", "/var", "/var/run"];

/// Anyone who reaches one of these has the machine.
const ENGINES: [&str; 9] = [
    "/run/docker.sock",
    "/run/docker",
    "/run/containerd",
    "/run/podman",
    "/run/crio",
    "/run/user",
    "/run/dbus",
    "/run/systemd",
    "/run/libvirt",
];

/// The directories of the server, which no sandbox may see.
#[derive(Debug)]
pub(crate) struct Sources {
    state: PathBuf,
    /// Workspaces of sandboxes, the one place in the server's own directory that they may see a part of.
    sandboxes: PathBuf,
    /// The server's own directory.
    own: PathBuf,
}

impl Sources {
    /// For a server whose own directory this is, in its state directory.
    pub(crate) fn of(own: &Path) -> Self {
        let own = own.canonicalize().unwrap_or_else(|_missing| own.to_owned());
        Self {
            state: own.parent().unwrap_or(&own).to_owned(),
            sandboxes: own.join("sandboxes"),
            own,
        }
    }

    /// The workspace without a link on the way to it.
    pub(crate) fn workspace(&self, enclosure: &Enclosure) -> Result<PathBuf, Unusable> {
        let path = find(&enclosure.workspace)?;
        if !self.is_of_a_sandbox(&path) {
            self.check(&path)?;
        }
        Ok(path)
    }

    /// Whether a directory is one that the server made for a sandbox.
    pub(crate) fn is_of_a_sandbox(&self, path: &Path) -> bool {
        path.starts_with(&self.sandboxes) && path != self.sandboxes
    }

    /// Everything else that the settings and the agent's workspace put inside.
    pub(crate) fn binds(&self, enclosure: &Enclosure) -> Result<Vec<Bound>, Unusable> {
        let mut bound = Vec::new();
        if let Some(agent) = &enclosure.agent_workspace {
            let host = find(&agent.host)?;
            self.check(&host)?;
            bound.push(Bound {
                host,
                inside: agent.inside.clone(),
                writable: false,
            });
        }
        for bind in &enclosure.settings.binds {
            let host = find(&bind.host)?;
            self.check(&host)?;
            bound.push(Bound {
                host,
                inside: bind.inside.clone(),
                writable: bind.writable,
            });
        }
        Ok(bound)
    }

    /// Refuses what is the server's, an engine's, or the machine's as a whole.
    pub(crate) fn check(&self, path: &Path) -> Result<(), Unusable> {
        let overlaps = |other: &Path| path.starts_with(other) || other.starts_with(path);
        // What commands are meant to work in lies in the state directory, beside what is the server's.
        let is_server = overlaps(&self.own) || self.state.starts_with(path) || self.is_ruling(path);
        let is_closed = CLOSED_TREES.iter().any(|tree| overlaps(Path::new(tree)))
            || CLOSED_PLACES.iter().any(|place| path == Path::new(place))
            || ENGINES.iter().any(|engine| overlaps(Path::new(engine)));
        let why = if is_server {
            "the server's own files are there"
        } else if is_closed {
            "a program that sees it controls the machine, or has what lets programs control it"
        } else {
            return Ok(());
        };
        Err(Unusable(format!(
            "{} cannot be seen in a sandbox: {why}",
            path.display()
        )))
    }

    /// The files right in the state directory are those that rule.
    fn is_ruling(&self, path: &Path) -> bool {
        path.parent() == Some(&self.state) && !fs::metadata(path).is_ok_and(|meta| meta.is_dir())
    }
}

fn find(path: &Path) -> Result<PathBuf, Unusable> {
    let refuse = |why: io::Error| Unusable(format!("{} cannot be seen in a sandbox: {why}", path.display()));
    match path.canonicalize() {
        Ok(found) => Ok(found),
        // Reached by the account of the commands alone. There it is opened without following a link.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(path.to_owned()),
        Err(error) => Err(refuse(error)),
    }
}

/// Refuses what the settings want of a network: there is none.
pub(crate) fn check_network(settings: &DockerSettings) -> Result<(), Unusable> {
    if settings.network == "none" {
        return Ok(());
    }
    Err(Unusable(format!(
        "sandbox.docker.network is \"{}\", and the built-in sandbox has no network; set it to \"none\", or use \
         [sandbox] backend = \"docker\"",
        settings.network
    )))
}
