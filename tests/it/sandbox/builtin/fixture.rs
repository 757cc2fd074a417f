//! A gateway host whose supervisors make sandboxes, with the directories of one sandbox.

use std::{collections::BTreeMap, fs, path::PathBuf};

use countersign_config::settings::{BindMount, DockerSettings};
use countersign_domain::{Bound, Isolation};
use countersign_hosts::{
    gateway::{LaunchSpec, Supervised},
    sandbox::{Enclosure, Inside, InsideCommand},
};

use crate::{
    runner::harness::{Report, RunnerDirs, Server},
    support::{Scratch, countersign, needed, run_program},
};

/// What every test of these sandboxes needs; `None` where they cannot be made.
pub(crate) fn possible() -> Option<()> {
    // The program's own look: this process has no such mode.
    let said = run_program(&countersign().arg("__sandbox-probe"));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    needed(said.stdout.is_empty(), &format!("sandboxes: {}", said.stdout))
}

/// One sandbox.
pub(crate) struct Sandbox {
    pub(crate) dirs: RunnerDirs,
    /// A place of the machine that is nothing of the server's.
    pub(crate) beside: Scratch,
    pub(crate) server: Server,
    pub(crate) enclosure: Enclosure,
}

impl Sandbox {
    /// `None` where none can be made.
    pub(crate) fn new() -> Option<Self> {
        possible()?;
        let dirs = RunnerDirs::new();
        let workspace = dirs.path().join("sandboxes/one");
        fs::create_dir_all(&workspace).unwrap();
        let server = dirs.server();
        Some(Self {
            beside: Scratch::new(),
            server,
            enclosure: enclosure(workspace),
            dirs,
        })
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.enclosure.workspace.clone()
    }

    /// Adds a mount of a directory.
    pub(crate) fn bind(&mut self, host: PathBuf, inside: &str, writable: bool) {
        self.enclosure.settings.binds.push(BindMount {
            host,
            inside: inside.into(),
            writable,
        });
    }

    /// Terms of a run.
    pub(crate) fn spec(&self) -> LaunchSpec {
        spec_of(&self.server)
    }

    pub(crate) async fn start(&self, spec: LaunchSpec, inside: &Inside) -> Supervised {
        self.server
            .host
            .start_enclosed(spec, &self.enclosure, inside)
            .await
            .unwrap()
    }

    /// Why a start is refused.
    pub(crate) async fn refusal(&self, inside: &Inside) -> String {
        let started = self
            .server
            .host
            .start_enclosed(self.spec(), &self.enclosure, inside)
            .await;
        match started {
            Ok(_) => panic!("it was started"),
            Err(error) => error.to_string(),
        }
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, inside: &Inside) -> Report {
        let report = Report::of(self.start(self.spec(), inside).await).await;
        report.control.stored();
        report
    }

    /// Runs shell text to its end.
    pub(crate) async fn shell(&self, text: &str) -> Report {
        self.run(&self.script(text)).await
    }

    /// What shell text that succeeds prints.
    pub(crate) async fn printed(&self, text: &str) -> String {
        let report = self.shell(text).await;
        assert_eq!(
            report.exit().code,
            Some(0),
            "{text}\n{}\n{}",
            report.out(),
            String::from_utf8_lossy(&report.stderr)
        );
        report.out().trim_end().to_owned()
    }

    /// A command at the workdir.
    pub(crate) fn script(&self, text: &str) -> Inside {
        self.inside(InsideCommand::Shell(text.to_owned()))
    }

    pub(crate) fn argv(&self, argv: &[&str]) -> Inside {
        self.inside(InsideCommand::Argv(
            argv.iter().map(|word| (*word).to_owned()).collect(),
        ))
    }

    fn inside(&self, command: InsideCommand) -> Inside {
        let mark = vec![("MARK".to_owned(), self.dirs.mark.clone())];
        inside(&self.enclosure, command, mark)
    }
}

/// Terms of a run in a sandbox.
pub(crate) fn spec_of(server: &Server) -> LaunchSpec {
    LaunchSpec {
        isolation: Isolation::Sandbox,
        ..server.spec(Bound::Text {
            shell: String::new(),
            text: String::new(),
        })
    }
}

/// Shell text at the workdir.
pub(crate) fn shell_inside(enclosure: &Enclosure, text: &str, env: Vec<(String, String)>) -> Inside {
    inside(enclosure, InsideCommand::Shell(text.to_owned()), env)
}

fn inside(enclosure: &Enclosure, command: InsideCommand, env: Vec<(String, String)>) -> Inside {
    Inside {
        command,
        cwd: enclosure.settings.workdir.clone(),
        env,
        path_prepend: None,
    }
}

pub(crate) fn enclosure(workspace: PathBuf) -> Enclosure {
    Enclosure {
        scope_key: "shared".to_owned(),
        name: "countersign-sbx-shared".to_owned(),
        workspace,
        workspace_writable: true,
        agent_workspace: None,
        settings: settings(),
    }
}

/// The settings that nobody changed.
fn settings() -> DockerSettings {
    DockerSettings {
        image: String::new(),
        container_prefix: "countersign-sbx-".to_owned(),
        workdir: "/workspace".into(),
        read_only_root: true,
        network: "none".to_owned(),
        tmpfs: ["/tmp", "/var/tmp", "/run"].map(str::to_owned).to_vec(),
        cap_drop: vec!["ALL".to_owned()],
        user: None,
        setup_command: None,
        pids_limit: None,
        memory_bytes: None,
        memory_swap_bytes: None,
        nano_cpus: None,
        ulimits: BTreeMap::new(),
        seccomp_profile: None,
        apparmor_profile: None,
        dns: Vec::new(),
        extra_hosts: Vec::new(),
        env: BTreeMap::from([("LANG".to_owned(), "C.UTF-8".to_owned())]),
        binds: Vec::new(),
    }
}
