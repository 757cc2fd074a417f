//! `sandbox.docker.setupCommand` of the built-in sandbox: once for a workspace, before its first command.
//!
//! Nothing of such a sandbox outlives its command but the workspace, so that is what it is done for. That it was done is
//! remembered in the server's own directory, where no command can reach it.

use std::{
    fs, io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use countersign_domain::{Confinement, Leftovers, OutputStream, RunId, hex};

use super::{GatewayHost, LaunchSpec, StartError, SupervisorEvent};

use crate::{
    Attempt, RunTerms,
    sandbox::{Enclosure, Inside, InsideCommand, Unusable},
};

/// How long it may take.
const TIMEOUT: Duration = Duration::from_mins(10);

/// Most bytes of what it says that a refusal repeats.
const MAX_SAID_BYTES: usize = 400;

impl GatewayHost {
    /// Runs the setup command of an enclosure if that was not done for its workspace. `spec` is the run that waits for it.
    ///
    /// # Cancel safety
    /// A command that was not done is killed, and done again for the next run.
    pub(super) async fn set_up(
        &self,
        spec: &LaunchSpec,
        enclosure: &Enclosure,
        workspace: &OwnedFd,
    ) -> Result<(), StartError> {
        let Some(command) = &enclosure.settings.setup_command else {
            return Ok(());
        };
        let mark = self.mark(enclosure, command, workspace)?;
        if mark.exists() {
            return Ok(());
        }
        let turn = self.setups.of(&mark);
        let _turn = turn.lock().await;
        if mark.exists() {
            return Ok(());
        }
        let own = RunId::parse(format!("{}-setup", spec.run_id))
            .map_err(|_too_long| Unusable("the setup command cannot be run".to_owned()))?;
        let setup = LaunchSpec {
            run_id: own.clone(),
            launch_id: spec.launch_id.clone(),
            isolation: spec.isolation,
            bound: spec.bound.clone(),
            start: None,
            cwd: enclosure.settings.workdir.clone(),
            cwd_dev: 0,
            cwd_ino: 0,
            executables: Vec::new(),
            scripts: Vec::new(),
            confinement: Confinement::default(),
            held: false,
            denied_children: Vec::new(),
            answered: false,
            timeout: Some(TIMEOUT),
            terms: RunTerms {
                // Another try of the run may have been interrupted in it.
                attempt: Attempt::Again,
                least_isolation: spec.terms.least_isolation,
                shell: None,
                env: Vec::new(),
                kill_grace: Duration::ZERO,
                leftovers: Leftovers::Kill,
                keep_when_orphaned: false,
                stdin_open: false,
                terminal: None,
                max_run_bytes: spec.terms.max_run_bytes,
                limits: spec.terms.limits,
                record_input: false,
                observe: false,
            },
        };
        self.forget(&own);
        let done = self.run_setup(setup, enclosure, command).await;
        self.forget(&own);
        done?;
        remember(&mark)
            .map_err(|error| Unusable(format!("the end of the setup command cannot be kept: {error}")))?;
        Ok(())
    }

    /// The file that says that this command was run for this very directory.
    fn mark(&self, enclosure: &Enclosure, command: &str, workspace: &OwnedFd) -> Result<PathBuf, StartError> {
        use rustix::fs::{AtFlags, StatxFlags};
        let flags = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(workspace, c"", AtFlags::EMPTY_PATH, flags).map_err(|errno| {
            StartError::WorkingDirectory {
                path: enclosure.workspace.clone(),
                source: errno.into(),
            }
        })?;
        let mut hash = Sha256::new();
        hash.update(found.stx_dev_major.to_le_bytes());
        hash.update(found.stx_dev_minor.to_le_bytes());
        hash.update(found.stx_ino.to_le_bytes());
        // Numbers are given again; zero where the file system does not remember when.
        hash.update(found.stx_btime.tv_sec.to_le_bytes());
        hash.update(found.stx_btime.tv_nsec.to_le_bytes());
        hash.update(command.as_bytes());
        let name = format!("{}.{}", enclosure.name, hex(&hash.finalize()));
        Ok(self.own_directory().join("sandbox-setups").join(name))
    }

    async fn run_setup(
        &self,
        setup: LaunchSpec,
        enclosure: &Enclosure,
        command: &str,
    ) -> Result<(), StartError> {
        let inside = Inside {
            command: InsideCommand::Shell(command.to_owned()),
            cwd: enclosure.settings.workdir.clone(),
            env: Vec::new(),
            path_prepend: None,
        };
        let mut supervised = self.enclose_ready(&setup, enclosure, &inside).await?;
        let mut said = Vec::new();
        let failed =
            |why: String| StartError::Sandbox(Unusable(format!("sandbox.docker.setupCommand {why}")));
        loop {
            match supervised.events.recv().await {
                Some(SupervisorEvent::Output {
                    stream: OutputStream::Stderr,
                    bytes,
                }) => {
                    said.extend(bytes);
                    let surplus = said.len().saturating_sub(MAX_SAID_BYTES);
                    said.drain(..surplus);
                }
                Some(
                    SupervisorEvent::Started { .. }
                    | SupervisorEvent::Output { .. }
                    | SupervisorEvent::Skipped { .. },
                ) => {}
                Some(SupervisorEvent::Exit(ended)) => {
                    supervised.control.stored();
                    let exit = ended.exit;
                    return match exit.code {
                        Some(0) => Ok(()),
                        Some(code) => Err(failed(format!(
                            "ended with {code}: {}",
                            String::from_utf8_lossy(&said).trim()
                        ))),
                        None if exit.killed.is_some() => Err(failed("took too long".to_owned())),
                        None => Err(failed("was killed or could not be executed".to_owned())),
                    };
                }
                Some(SupervisorEvent::NotStarted(why)) => {
                    return Err(failed(format!("was not started: {why}")));
                }
                Some(SupervisorEvent::Lost | SupervisorEvent::LeftoversEnded) | None => {
                    return Err(failed("was lost".to_owned()));
                }
            }
        }
    }
}

fn remember(mark: &Path) -> io::Result<()> {
    if let Some(directory) = mark.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    fs::File::create(mark)?;
    Ok(())
}
