//! Runs whose programs the kernel holds to limits, written down by hand.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use countersign_domain::{
    Bound, BoundAction, BoundStep, Confinement, FileIdentity, NotKept, ProgramLimits, Startable, StepJoin,
    WritePlace,
};
use countersign_hosts::gateway::{LaunchSpec, StartError};

use crate::{
    runner::harness::{Report, RunnerDirs, Server, identity},
    support::write_file_mode,
};

/// A program by its name, as the file that it really is.
#[track_caller]
pub(crate) fn program(name: &str) -> FileIdentity {
    let found = ["/usr/local/bin", "/usr/bin", "/bin", ""]
        .iter()
        .map(|directory| Path::new(directory).join(name))
        .find_map(|path| fs::canonicalize(path).ok());
    identity(&found.unwrap_or_else(|| panic!("no {name} here")))
}

pub(crate) fn startable(name: &str) -> Startable {
    Startable::File(program(name))
}

/// These files besides the program's own.
pub(crate) fn starting(names: &[&str]) -> ProgramLimits {
    ProgramLimits {
        starts: Some(names.iter().map(|name| startable(name)).collect()),
        ..ProgramLimits::default()
    }
}

pub(crate) fn writing(places: &[WritePlace]) -> ProgramLimits {
    ProgramLimits {
        writes: Some(places.iter().cloned().collect()),
        ..ProgramLimits::default()
    }
}

pub(crate) fn connecting(ports: &[u16]) -> ProgramLimits {
    ProgramLimits {
        connects: Some(ports.iter().copied().collect::<BTreeSet<_>>()),
        ..ProgramLimits::default()
    }
}

pub(crate) struct Scene {
    pub(crate) dirs: RunnerDirs,
    pub(crate) server: Server,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let dirs = RunnerDirs::new();
        let server = dirs.server();
        Self { dirs, server }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dirs.file(name)
    }

    /// An executable file in the workspace.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.file(name);
        write_file_mode(&path, text, 0o755);
        path.to_str().unwrap().to_owned()
    }

    /// One program with its limits.
    pub(crate) fn spec(&self, argv: &[&str], limits: ProgramLimits) -> LaunchSpec {
        let identity = program(argv[0]);
        let mut spec = self.server.spec(Bound::Exec {
            path: identity.path.clone(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            identity: Some(identity.clone()),
        });
        spec.executables = vec![identity];
        spec.confinement = Confinement {
            programs: vec![ProgramLimits {
                program: argv[0].to_owned(),
                ..limits
            }],
            not_kept: None,
        };
        spec
    }

    /// Several programs, one after the other, each with its limits.
    pub(crate) fn plan(&self, steps: &[(StepJoin, &[&str], ProgramLimits)]) -> LaunchSpec {
        let mut bound = Vec::new();
        let mut confinement = Confinement::default();
        let mut executables = Vec::new();
        for (at, (join, argv, limits)) in steps.iter().enumerate() {
            let identity = program(argv[0]);
            bound.push(BoundStep {
                join: (at > 0).then_some(*join),
                action: BoundAction::Program {
                    path: identity.path.clone(),
                    argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                    assignments: vec![],
                    identity: identity.clone(),
                    redirections: vec![],
                    fills: vec![],
                },
            });
            executables.push(identity);
            confinement.programs.push(ProgramLimits {
                program: argv[0].to_owned(),
                ..limits.clone()
            });
        }
        let mut spec = self.server.spec(Bound::Plan { steps: bound });
        spec.executables = executables;
        spec.confinement = confinement;
        spec
    }

    /// What a run comes to, and whether the file `m` is there then.
    pub(crate) async fn run(&self, spec: LaunchSpec) -> (Report, bool) {
        let mark = self.file("m");
        drop(fs::remove_file(&mark));
        let report = self.server.run(spec).await;
        (report, mark.exists())
    }

    pub(crate) async fn refused(&self, spec: LaunchSpec) -> StartError {
        match self.server.host.start(spec).await {
            Ok(_) => panic!("it was started"),
            Err(error) => error,
        }
    }
}

/// The same without limits, which says that they are not kept.
pub(crate) fn unkept(mut spec: LaunchSpec) -> LaunchSpec {
    spec.confinement = Confinement {
        programs: vec![],
        not_kept: Some(NotKept::Unsupported),
    };
    spec
}
