//! What there is to reach: secrets, somebody else's workspace, a process with a secret, services.

use std::{
    fs,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::{MetadataExt as _, PermissionsExt as _},
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    thread,
};

use super::{Outcome, table::Needs};
use crate::{
    runner::harness::{RunnerDirs, Server, started},
    support::{Scratch, program, write_file, write_file_mode},
};

/// From where a script looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Viewpoint {
    Inside,
    Outside,
}

/// A number of seconds that nothing else sleeps.
const VICTIM: &str = "100047";

pub(crate) struct Scene {
    pub(crate) dirs: RunnerDirs,
    pub(crate) server: Server,
    victim: i32,
    port: u16,
    name: String,
    read_only: Scratch,
    /// Listen as long as the scene is there.
    _sockets: (UnixListener, UnixListener),
    _victim: countersign_hosts::gateway::Supervised,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let dirs = RunnerDirs::new();
        let server = dirs.server();
        let host = dirs.path().to_owned();
        fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).unwrap();
        for directory in ["sandboxes/one", "sandboxes/two", "outside"] {
            fs::create_dir_all(host.join(directory)).unwrap();
        }
        let read_only = Scratch::new();
        for name in ["id", "cat"] {
            let copy = read_only.join(name);
            fs::copy(Path::new("/usr/bin").join(name), &copy).unwrap();
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).unwrap();
        }

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || answer(&listener));
        let name = format!("countersign-{}", dirs.mark);
        let abstract_socket =
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let socket = UnixListener::bind(host.join("socket")).unwrap();

        let mut spec = server.argv(&["/bin/sleep", VICTIM]);
        spec.terms.env.push(("SECRET".into(), dirs.mark.clone().into()));
        let mut victim = server.host.start(spec).await.unwrap();
        let scene = Self {
            victim: started(&mut victim).await,
            port,
            name,
            read_only,
            _sockets: (abstract_socket, socket),
            _victim: victim,
            server,
            dirs,
        };
        scene.restore();
        scene
    }

    fn host(&self) -> &Path {
        self.dirs.path()
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.host().join("sandboxes/one")
    }

    /// What is bound at `/ro`.
    pub(crate) fn read_only(&self) -> PathBuf {
        self.read_only.path()
    }

    /// A script as it is meant from there.
    pub(crate) fn fill(&self, needs: Needs, script: &str, seen: Viewpoint) -> String {
        let read_only = match seen {
            Viewpoint::Inside => "/ro".to_owned(),
            Viewpoint::Outside => self.read_only().display().to_string(),
        };
        let disk = fs::metadata("/").unwrap().dev();
        let disk = format!("{} {}", rustix::fs::major(disk), rustix::fs::minor(disk));
        let root_home = fs::metadata("/root").unwrap();
        let root_home = format!("{}:{}", root_home.dev(), root_home.ino());
        // Of the same machine as its first process, which may not be for everybody to look into.
        let processes = fs::read_link("/proc/self/ns/pid").unwrap();
        let mut filled = script.to_owned();
        for (word, value) in [
            ("{host}", self.host().display().to_string()),
            ("{workspace}", self.workspace().display().to_string()),
            ("{ro}", read_only),
            ("{pid}", self.victim.to_string()),
            ("{victim}", VICTIM.to_owned()),
            ("{mark}", self.dirs.mark.clone()),
            ("{port}", self.port.to_string()),
            ("{abstract}", self.name.clone()),
            ("{disk}", disk),
            ("{root_home}", root_home),
            ("{processes}", processes.display().to_string()),
        ] {
            filled = filled.replace(word, &value);
        }
        match needs {
            Needs::Shell => filled,
            Needs::Python => format!("python3 - <<'END_OF_PROGRAM'\n{filled}\nEND_OF_PROGRAM\n"),
        }
    }

    /// Runs a script with the rights of the server.
    pub(crate) async fn outside(&self, script: &str) -> Outcome {
        let mut spec = self.server.script(script);
        spec.cwd = self.host().join("outside");
        let directory = fs::metadata(&spec.cwd).unwrap();
        (spec.cwd_dev, spec.cwd_ino) = (directory.dev(), directory.ino());
        let report = self.server.run(spec).await;
        Outcome {
            code: report.exit().code,
            output: format!("{}{}", report.out(), String::from_utf8_lossy(&report.stderr)),
        }
    }

    /// Everything as it was.
    pub(crate) fn restore(&self) {
        let host = self.host();
        fs::remove_file(host.join("trace")).unwrap_or(());
        write_file_mode(&host.join("secret"), "hidden", 0o600);
        write_file(&host.join("sandboxes/two/file"), "theirs");
        write_file(&self.read_only.join("file"), "as it is");
    }

    /// What an attempt left where it should not have come.
    pub(crate) fn trace(&self) -> Option<String> {
        let host = self.host();
        let read_only = fs::read_to_string(self.read_only.join("file")).unwrap_or_default();
        let found = [
            (host.join("trace").exists(), "a file beside the workspace"),
            (
                self.read_only.join("trace").exists(),
                "a file in a read-only bind",
            ),
            (read_only != "as it is", "another content of a read-only bind"),
        ];
        found
            .iter()
            .find(|(is_there, _)| *is_there)
            .map(|(_, what)| (*what).to_owned())
    }
}

/// Whether the machine has a program.
pub(crate) fn has_program(name: &str) -> bool {
    program(name).is_some()
}

fn answer(listener: &TcpListener) {
    use std::io::{Read as _, Write as _};
    while let Ok((mut stream, _)) = listener.accept() {
        // What it asks does not matter.
        drop(stream.read(&mut [0; 1024]));
        stream
            .write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok")
            .unwrap_or(());
    }
}
