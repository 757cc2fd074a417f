//! Runs that the gateway's supervisors hold for the sandbox host.

use std::{
    ffi::{CStr, CString, OsStr},
    fs, io,
    os::{
        fd::OwnedFd,
        unix::{
            ffi::OsStrExt as _,
            fs::{MetadataExt as _, PermissionsExt as _},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{Mode, OFlags};

use countersign_config::settings::DockerSettings;
use countersign_domain::{Bound, Command, Isolation, Leftovers};
use countersign_ledger::launch::Permit;
use countersign_runner::{
    RunLimits,
    wire::{Plan, Program},
};
use countersign_sys::mounts;

use super::{
    GatewayHost, StartError, Supervised,
    launch_spec::LaunchSpec,
    plan::{Opened, alone, c_path, list_of, push_environment},
    rulesets::expect_nothing_to_keep,
};

use crate::{
    RunTerms,
    patching::patching,
    peer_fs::FileAccessError,
    sandbox::{
        Enclosure, Inside, Unusable,
        builtin::{self, Layout, Sources},
        docker::{Client, Terms},
    },
};

/// Where clients stand: it is always there, and pins nothing.
const ROOT: &CStr = c"/";

/// How long a client may take to end what is inside, beyond the grace. After that it is killed, and what is left inside
/// is swept.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(45);

impl GatewayHost {
    /// Starts a command inside an enclosure that a supervisor makes: the built-in sandbox.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was started.
    pub(crate) async fn run_enclosed(
        &self,
        permit: Permit,
        terms: RunTerms,
        enclosure: &Enclosure,
        inside: &Inside,
    ) -> Result<Supervised, StartError> {
        let terms = RunTerms {
            limits: limits_of(&enclosure.settings).or(terms.limits),
            ..terms
        };
        let spec = LaunchSpec {
            cwd: inside.cwd.clone(),
            ..LaunchSpec::new(permit, terms)?
        };
        self.enclose(spec, enclosure, inside).await
    }

    /// The same without a permit, for tests of the sandbox, which have no ledger. Of the specification the terms count.
    /// No other build has this.
    ///
    /// # Errors
    /// As [`Self::run_enclosed`].
    #[cfg(feature = "test-hooks")]
    #[crate::compiled_once]
    pub async fn start_enclosed(
        &self,
        spec: LaunchSpec,
        enclosure: &Enclosure,
        inside: &Inside,
    ) -> Result<Supervised, StartError> {
        self.enclose(spec, enclosure, inside).await
    }

    async fn enclose(
        &self,
        spec: LaunchSpec,
        enclosure: &Enclosure,
        inside: &Inside,
    ) -> Result<Supervised, StartError> {
        expect_sandbox(&spec)?;
        builtin::check_network(&enclosure.settings)?;
        if enclosure.settings.setup_command.is_some() {
            let workspace = self.open_workspace(&Sources::of(self.own_directory()).workspace(enclosure)?)?;
            self.set_up(&spec, enclosure, &workspace).await?;
        }
        self.enclose_ready(&spec, enclosure, inside).await
    }

    /// Starts a command in a sandbox whose setup was done, or is this.
    pub(super) async fn enclose_ready(
        &self,
        spec: &LaunchSpec,
        enclosure: &Enclosure,
        inside: &Inside,
    ) -> Result<Supervised, StartError> {
        let sources = Sources::of(self.own_directory());
        let workspace = sources.workspace(enclosure)?;
        let layout = Layout {
            settings: &enclosure.settings,
            workspace_writable: enclosure.workspace_writable,
            binds: sources.binds(enclosure)?,
        };
        let (name, arguments) = builtin::program(inside);
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let plan = Plan {
            directory: c_path(inside.cwd.as_os_str())?,
            environment: push_environment(&builtin::environment(&enclosure.settings, inside))?,
            files: Vec::new(),
            steps: vec![alone(Program::plain(
                c_path(OsStr::new(&name))?,
                list_of(&words)?,
            ))],
            enclosed: Some(layout.describe()?),
            held: Vec::new(),
            direct: None,
            masked: Vec::new(),
        };
        if self.is_separate_user() && sources.is_of_a_sandbox(&workspace) {
            open_to_the_account(&workspace)?;
        }
        let directory = self.open_workspace(&workspace)?;
        self.dispatch(spec, &directory, &Opened::default(), plan.encode())
            .await
    }

    /// Applies the patch of a permit to the workspace of a sandbox. Nothing of it is read or run inside: it is done from
    /// outside, by way of nothing but what lies in the workspace.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was started.
    pub(crate) async fn run_patch(
        &self,
        permit: Permit,
        terms: RunTerms,
        enclosure: &Enclosure,
    ) -> Result<Supervised, StartError> {
        if self.is_separate_user() {
            return Err(Unusable(
                "patches of a sandbox are not applied where commands have an account of their own; change the files with \
                 exec"
                    .to_owned(),
            )
            .into());
        }
        let Command::Patch(text) = &permit.binding().command else {
            return Err(StartError::NotPassable);
        };
        let bound = Bound::Patch {
            text: text.clone(),
            workspace_only: true,
            off_limits: Vec::new(),
            spared: Vec::new(),
        };
        let workspace = Sources::of(self.own_directory()).workspace(enclosure)?;
        let directory = self.open_workspace(&workspace)?;
        let step = patching(&bound, &enclosure.settings.workdir).ok_or(StartError::NotPassable)?;
        let plan = Plan {
            directory: c_path(workspace.as_os_str())?,
            environment: Vec::new(),
            files: Vec::new(),
            steps: vec![step],
            enclosed: None,
            held: Vec::new(),
            direct: None,
            masked: Vec::new(),
        };
        let terms = RunTerms {
            stdin_open: false,
            terminal: None,
            limits: RunLimits::default(),
            ..terms
        };
        let spec = LaunchSpec::new(permit, terms)?;
        expect_sandbox(&spec)?;
        self.dispatch(&spec, &directory, &Opened::default(), plan.encode())
            .await
    }

    /// The workspace, by the server's rights or those of the commands' account.
    fn open_workspace(&self, path: &Path) -> Result<OwnedFd, StartError> {
        let failure = |source: io::Error| StartError::WorkingDirectory {
            path: path.to_owned(),
            source,
        };
        let text = CString::new(path.as_os_str().as_bytes()).map_err(|_nul| StartError::NotPassable)?;
        match mounts::open_without_links(&text) {
            Ok(directory) => Ok(directory),
            Err(rustix::io::Errno::ACCESS) => {
                self.files().open_directory(path).map_err(|error| match error {
                    FileAccessError::Refused(error) => failure(error),
                    FileAccessError::Blind(blind) => blind.into(),
                })
            }
            Err(errno) => Err(failure(errno.into())),
        }
    }

    /// Starts the client of a container engine, which runs the command elsewhere: this program in a hidden mode,
    /// under the server's own account and not confined.
    ///
    /// # Errors
    /// [`StartError`]; then nothing was started.
    pub(crate) async fn run_client(
        &self,
        permit: Permit,
        terms: RunTerms,
        client: Client,
    ) -> Result<Supervised, StartError> {
        let terms = RunTerms {
            // The command's is among the instructions; the client itself needs none.
            env: Vec::new(),
            limits: RunLimits::default(),
            ..terms
        };
        let spec = LaunchSpec {
            cwd: PathBuf::from("/"),
            ..LaunchSpec::new(permit, terms)?
        };
        self.launch_client(spec, client).await
    }

    /// Starts a client without a permit, for tests of backends, which have no ledger. No other build has this.
    ///
    /// # Errors
    /// As [`Self::run_client`].
    #[cfg(feature = "test-hooks")]
    #[crate::compiled_once]
    pub async fn start_client(&self, spec: LaunchSpec, client: Client) -> Result<Supervised, StartError> {
        self.launch_client(spec, client).await
    }

    async fn launch_client(&self, mut spec: LaunchSpec, client: Client) -> Result<Supervised, StartError> {
        expect_sandbox(&spec)?;
        let host = self.own_account().ok_or_else(|| {
            Unusable("there is no runner of the server's own account for container engines".to_owned())
        })?;
        let terms = Terms {
            grace: spec.terms.kill_grace,
            leftovers: spec.terms.leftovers,
        };
        // The client ends what is inside within the grace, and is itself killed only if it does not come to an end.
        spec.terms.kill_grace = spec.terms.kill_grace.saturating_add(CLIENT_TIMEOUT);
        // It leaves nothing on this side.
        spec.terms.leftovers = Leftovers::Kill;
        let directory = rustix::fs::open(
            ROOT,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|error| StartError::WorkingDirectory {
            path: PathBuf::from("/"),
            source: error.into(),
        })?;
        let plan = plan_of(client, terms)?;
        host.dispatch(&spec, &directory, &Opened::default(), plan.encode())
            .await
    }
}

/// Lets the account of the commands write into a workspace that the server made. Nobody else gets there: it lies in a
/// directory that is the server's alone, and supervisors get it as a descriptor.
fn open_to_the_account(workspace: &Path) -> Result<(), StartError> {
    const OPEN: u32 = 0o777;
    let failure = |source: io::Error| StartError::WorkingDirectory {
        path: workspace.to_owned(),
        source,
    };
    let found = fs::metadata(workspace).map_err(failure)?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if is_own && found.mode() & OPEN != OPEN {
        fs::set_permissions(workspace, fs::Permissions::from_mode(OPEN)).map_err(failure)?;
    }
    Ok(())
}

/// What a supervisor executes as a client: this program, even when its file was replaced meanwhile.
fn plan_of(client: Client, terms: Terms) -> Result<Plan, StartError> {
    let text = |texts: &mut Vec<u8>, parts: &[&OsStr]| {
        if parts.iter().any(|part| part.as_bytes().contains(&0)) {
            return Err(StartError::NotPassable);
        }
        for part in parts {
            texts.extend_from_slice(part.as_bytes());
        }
        texts.push(0);
        Ok(())
    };
    let Client {
        arguments,
        environment,
    } = client;
    let (mut all_arguments, mut all_variables) = (Vec::new(), Vec::new());
    text(&mut all_arguments, &[OsStr::new("countersign-docker")])?;
    for argument in &arguments {
        text(&mut all_arguments, &[argument])?;
    }
    for (name, value) in environment.iter().chain([&terms.variable()]) {
        text(&mut all_variables, &[name, OsStr::new("="), value])?;
    }
    // In the supervisor this is its own program.
    let program = Program::plain(c"/proc/self/exe".to_owned(), all_arguments);
    Ok(Plan {
        directory: ROOT.to_owned(),
        environment: all_variables,
        files: Vec::new(),
        steps: vec![alone(program)],
        enclosed: None,
        held: Vec::new(),
        direct: None,
        masked: Vec::new(),
    })
}

/// What was recorded as anything else is not started by way of a sandbox.
fn expect_sandbox(spec: &LaunchSpec) -> Result<(), StartError> {
    expect_nothing_to_keep(&spec.confinement)?;
    if spec.isolation == Isolation::Sandbox {
        return Ok(());
    }
    Err(StartError::Isolation {
        recorded: spec.isolation,
        now: Isolation::Sandbox,
    })
}

/// The limits of a sandbox as control groups have them; what is not set is none.
fn limits_of(settings: &DockerSettings) -> RunLimits {
    /// Billionths of a processor in one percent of it.
    const NANO_CPUS: u64 = 10_000_000;
    RunLimits {
        memory_bytes: settings.memory_bytes.unwrap_or(0),
        cpu_percent: settings.nano_cpus.map_or(0, |most| most.div_ceil(NANO_CPUS)),
        processes: settings.pids_limit.unwrap_or(0),
    }
}
