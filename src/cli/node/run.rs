//! `countersign node run`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use countersign_config::{
    settings::{LogFormat, StartOptions, StateDir},
    tls::Fingerprint,
};
use countersign_domain::Secret;
use countersign_nodes::node::{
    self, Acquaintance, AddressError, Companion, DeviceIdentity, DeviceTokens, GatewayAddress, GatewayEntry,
    IdentityError, NodeEvent, NodeFile, NodeOptions, Plaintext, Trust,
};
use countersign_policy::preset::Preset;
use countersign_sys::{
    clock::{Clock, SystemIds},
    fs::{open_regular, read_all},
    memory,
};

use super::super::{
    console::{Console, Format},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    serve,
};
use super::policy;

use crate::{
    app::{NodeError, Prepared, StartError, run_node},
    telemetry::Notes,
};

/// Where a gateway is looked for that nobody named.
const DEFAULT_HOST: &str = "127.0.0.1";
/// Our server's default port.
const DEFAULT_PORT: u16 = 18790;
/// A token is one short line.
const MAX_TOKEN_BYTES: usize = 4_096;

/// Where the gateway is, and as what the node comes. What is not given is as it was the last time.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GatewayArgs {
    /// The gateway's host name or address [default: as the last time, else 127.0.0.1]
    #[arg(long, value_name = "HOST")]
    pub(super) host: Option<String>,
    /// The gateway's port [default: as the last time, else 18790]
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// Speak TLS
    #[arg(long)]
    pub(super) tls: bool,
    /// Speak TLS and trust only the certificate with this SHA-256 fingerprint
    #[arg(long, value_name = "SHA256")]
    pub(super) tls_fingerprint: Option<String>,
    /// The node's name for people [default: as the last time, else the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub(super) display_name: Option<String>,
    /// A file with the token of the gateway, for the first connection (or the variable `OPENCLAW_GATEWAY_TOKEN`)
    #[arg(long, value_name = "FILE")]
    pub(super) token_file: Option<PathBuf>,
    /// Speak without TLS to a gateway outside of private networks, where anybody on the way reads along
    #[arg(long)]
    pub(super) insecure_plaintext: bool,
    /// This machine's own policy, where it has none yet: deny-all, cautious or yolo [default: asked for once at a
    /// terminal, else nothing runs]
    #[arg(long, value_name = "PRESET")]
    pub(super) policy: Option<Preset>,
    /// Serve only these commands, with commas between them
    #[arg(long, value_name = "COMMANDS", value_delimiter = ',')]
    pub(super) commands: Vec<String>,
}

/// Connect to a gateway and run what it sends
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign node run
  countersign node run --host gateway.local --port 18789
  countersign node run --host gateway.example --tls-fingerprint 5f2c...e1
  countersign node run --commands system.run,system.which
  countersign node run --policy cautious
  countersign node run --retry

Prints one line when it is connected. The first time a person has to approve it at the gateway;
it says so and goes on trying, as where the gateway cannot be reached. It ends with 77 where the
gateway does not know the token, or knows it no more, unless --retry or a service manager keeps it
going. Nothing is written before a gateway answers for the first time.
Then it asks, once and at a terminal, which policy this machine has; --policy answers that.
SIGTERM ends it: what runs is killed and reported.
Exit codes: 0; 64 a gateway that does not exist; 77 a token that the gateway does not know; 78 bad
settings, identity or state directory.")]
pub(crate) struct NodeRunArgs {
    #[command(flatten)]
    pub(super) gateway: GatewayArgs,
    /// Go on trying where the gateway does not know the token
    #[arg(long)]
    retry: bool,
    /// Another settings file.
    #[arg(
        long,
        value_name = "FILE",
        help = "Another countersign.toml [env: COUNTERSIGN_CONFIG]"
    )]
    config: Option<PathBuf>,
}

/// Runs the node until it is told to stop.
pub(super) fn run(context: &Context, args: NodeRunArgs) -> Result<ExitStatus, Failure> {
    let NodeRunArgs {
        gateway,
        retry,
        config,
    } = args;
    let console = context.console;
    let start = StartOptions {
        state_dir: context.server.state_dir.clone(),
        config,
        ..StartOptions::default()
    };
    // Before anything is started: what is wrong with the call is said first.
    let mut resolved = Resolved::of(context, &gateway)?;
    let variable = |name: &str| {
        context
            .environment
            .get(name)
            .filter(|value| !value.trim().is_empty())
    };
    let needs_app = variable("OPENCLAW_NODE_EXEC_HOST")
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("app"))
        || variable("OPENCLAW_NODE_EXEC_FALLBACK").is_some_and(|value| value.trim() == "0");
    let options = NodeOptions {
        address: resolved.address.clone(),
        display_name: resolved.display_name.clone(),
        instance_id: resolved.file.node_id.clone(),
        shared_token: resolved.token.clone(),
        commands: resolved.commands.clone(),
        path_env: variable("PATH"),
        companion: if needs_app {
            Companion::Required
        } else {
            Companion::NotNeeded
        },
    };
    let state_dir = context.state_dir()?;
    let root = state_dir.root().to_string_lossy().into_owned();
    // Who installed a service did not mistype.
    let is_typed = variable("NOTIFY_SOCKET").is_none();
    let teller = Teller {
        console,
        gateway: resolved.address.to_string(),
        root,
        notes: Notes::at_once(LogFormat::Text),
        unknown: (is_typed && !retry).then(CancellationToken::new),
    };
    let is_unknown = node::is_unknown(&state_dir).map_err(|error| identity_failure(&error))?;
    let acquaintance = if is_typed && is_unknown {
        match meet(context, &options, &teller)? {
            Some(acquaintance) => Some(acquaintance),
            None => return Ok(ExitStatus::DENIED),
        }
    } else {
        None
    };
    if acquaintance.is_some() {
        // Only now: an operator who mistyped the gateway is not asked twice.
        resolved.choose_policy(console, &state_dir, gateway.policy)?;
    } else if gateway.policy.is_some() {
        resolved.file.policy = gateway.policy;
    }
    memory::use_few_arenas();
    let prepared = Prepared::for_node_host(&start, &context.environment)
        .map_err(|error| serve::explain(console, &error))?;
    resolved.remember(prepared.state_dir(), &*context.clock)?;
    if let Some(acquaintance) = acquaintance {
        let kept = acquaintance.keep(prepared.state_dir(), &*context.clock);
        kept.map_err(|error| identity_failure(&error))?;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new("runtime", format!("the runtime cannot be made: {error}")))?;
    // From here on there may be more threads than this one.
    let notes = prepared.notes(match console.format() {
        Format::Json => LogFormat::Json,
        Format::People => LogFormat::Text,
    });
    let _writes = notes
        .write_aside()
        .map_err(|error| Failure::new("runtime", format!("a thread cannot be started: {error}")))?;
    let teller = Teller { notes, ..teller };
    let unknown = teller.unknown.clone().unwrap_or_default();
    let exit = || {
        if unknown.is_cancelled() {
            ExitStatus::DENIED
        } else {
            ExitStatus::SUCCESS
        }
    };
    runtime
        .block_on(run_node(
            prepared,
            options,
            Arc::clone(&context.clock),
            Arc::new(SystemIds),
            Box::new(move |event: &NodeEvent| teller.say(event)),
            unknown.clone(),
        ))
        .map(|()| exit())
        .map_err(|error| explain(console, &error))
}

/// Waits for a gateway that takes this machine, before anything is written; `None` where one does not know the token, and that ends
/// it. With a runtime of its own: what is prepared afterwards must be the only thread of this process.
fn meet(context: &Context, options: &NodeOptions, teller: &Teller) -> Result<Option<Acquaintance>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new("runtime", format!("the runtime cannot be made: {error}")))?;
    let unknown = teller.unknown.clone().unwrap_or_default();
    let tell = |event: &NodeEvent| teller.say(event);
    Ok(runtime.block_on(async {
        tokio::select! {
            acquaintance = node::meet(options, &*context.clock, &SystemIds, tell) => Some(acquaintance),
            () = unknown.cancelled() => None,
        }
    }))
}

/// The gateway and the name, from the call, the file of the last time, and the defaults.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    pub(super) address: GatewayAddress,
    pub(super) display_name: String,
    pub(super) commands: Vec<String>,
    token: Option<Secret>,
    /// What is remembered for the next time.
    file: NodeFile,
    /// What the gateway of the last time gave to this machine is not for this one.
    is_other_gateway: bool,
}

impl Resolved {
    pub(super) fn of(context: &Context, args: &GatewayArgs) -> Result<Self, Failure> {
        let state_dir = context.state_dir()?;
        let file = NodeFile::load(&state_dir).map_err(|error| identity_failure(&error))?;
        let mut file = file.unwrap_or_else(|| NodeFile::new(&SystemIds));
        let known = file.gateway.clone().unwrap_or_default();
        let host = args.host.clone().or_else(|| known.host.clone());
        let host = host.as_deref().map_or(DEFAULT_HOST, node::bare_host);
        // Another gateway has another port, another certificate and other tokens.
        let is_known = known.host.as_deref() == Some(host);
        let is_other_gateway = known.host.is_some() && !is_known;
        if is_other_gateway {
            file.token = None;
        }
        let port = args
            .port
            .or_else(|| known.port.filter(|_port| is_known))
            .unwrap_or(DEFAULT_PORT);
        let pinned = match &args.tls_fingerprint {
            Some(text) => Some(text.clone()),
            None => known.tls_fingerprint.clone().filter(|_text| is_known),
        };
        let pinned = pinned
            .map(|text| Fingerprint::parse(&text).map_err(|error| Failure::usage(error.to_string())))
            .transpose()?;
        let speaks_tls = args.tls || pinned.is_some() || (is_known && known.tls == Some(true));
        let trust = speaks_tls.then(|| pinned.map_or(Trust::Authorities, Trust::Pinned));
        let plaintext = if args.insecure_plaintext {
            Plaintext::Everywhere
        } else {
            Plaintext::PrivateOnly
        };
        let address =
            GatewayAddress::new(host, port, trust, plaintext).map_err(|error| address_failure(&error))?;
        let display_name = args
            .display_name
            .clone()
            .or_else(|| file.display_name.clone())
            .map(|name| name.trim().chars().take(128).collect::<String>())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(machine_name);
        let token = match &args.token_file {
            Some(path) => Some(read_token(path)?),
            None => context
                .environment
                .get("OPENCLAW_GATEWAY_TOKEN")
                .or_else(|| file.token.clone())
                .map(|token| token.trim().to_owned())
                .filter(|token| !token.is_empty())
                .map(Secret::new),
        };
        let commands = served(&args.commands)?;
        file.display_name = Some(display_name.clone());
        file.gateway = Some(GatewayEntry {
            host: Some(address.host().to_owned()),
            port: Some(address.port()),
            tls: Some(address.tls().is_some()),
            tls_fingerprint: address.fingerprint().map(|fingerprint| fingerprint.to_string()),
        });
        Ok(Self {
            address,
            display_name,
            commands,
            token,
            file,
            is_other_gateway,
        })
    }

    /// Has the policy of this machine chosen, if there is none.
    pub(super) fn choose_policy(
        &mut self,
        console: Console,
        state_dir: &StateDir,
        given: Option<Preset>,
    ) -> Result<(), Failure> {
        self.file.policy = policy::choose(console, state_dir, &self.file, given)?;
        Ok(())
    }

    /// The policy that was chosen, and that the node sets at its next start where there is none.
    pub(super) const fn chosen_policy(&self) -> Option<Preset> {
        self.file.policy
    }

    /// Keeps what was resolved for the next time. Forgets the token of another gateway first: it would be shown to this one.
    pub(super) fn remember(&self, state_dir: &StateDir, clock: &dyn Clock) -> Result<(), Failure> {
        if self.is_other_gateway {
            DeviceIdentity::ensure(state_dir, clock, &SystemIds)
                .and_then(|identity| DeviceTokens::of(state_dir, identity.id()).forget())
                .map_err(|error| identity_failure(&error))?;
        }
        let known = NodeFile::load(state_dir).map_err(|error| identity_failure(&error))?;
        if known.as_ref() != Some(&self.file) {
            self.file
                .save(state_dir)
                .map_err(|error| identity_failure(&error))?;
        }
        Ok(())
    }
}

fn served(wanted: &[String]) -> Result<Vec<String>, Failure> {
    if wanted.is_empty() {
        return Ok(node::commands().map(str::to_owned).collect());
    }
    for name in wanted {
        if !node::commands().any(|known| known == name) {
            let known: Vec<&str> = node::commands().collect();
            return Err(Failure::usage(format!("a node does not serve {name:?}"))
                .advice(&format!("it can serve {}", known.join(", "))));
        }
    }
    Ok(wanted.to_vec())
}

fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "node".to_owned() } else { name }
}

fn read_token(path: &Path) -> Result<Secret, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(
            "token-file",
            format!("{} cannot be read: {error}", path.display()),
        )
        .exit(ExitStatus::CONFIG)
    };
    let file = open_regular(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if std::os::unix::fs::MetadataExt::mode(&metadata) & 0o077 != 0 {
        return Err(
            Failure::new("token-file", format!("{} may be read by others", path.display()))
                .exit(ExitStatus::CONFIG)
                .hint(format!("chmod 600 {}", path.display())),
        );
    }
    let text = read_all(&file, MAX_TOKEN_BYTES).map_err(failed)?;
    let text = String::from_utf8(text).unwrap_or_default();
    let token = text.trim();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(
            Failure::new("token-file", format!("{} holds no token", path.display())).exit(ExitStatus::CONFIG),
        );
    }
    Ok(Secret::new(token.to_owned()))
}

fn address_failure(error: &AddressError) -> Failure {
    let failure = Failure::usage(error.to_string());
    match error {
        AddressError::Host { .. } => failure.advice("--host takes a name or an address, and --port the port"),
        AddressError::Port => failure,
        AddressError::Plaintext { .. } => failure.advice(
            "--tls, or --tls-fingerprint SHA256; --insecure-plaintext if you know that nobody listens",
        ),
    }
}

pub(super) fn identity_failure(error: &IdentityError) -> Failure {
    Failure::new("node-identity", serve::with_causes(error))
        .exit(ExitStatus::CONFIG)
        .advice("the node's files are node.json and identity/ in the state directory")
}

fn explain(console: Console, error: &NodeError) -> Failure {
    match error {
        NodeError::Start(StartError::Ledger(problem @ countersign_ledger::OpenError::InUse { .. })) => {
            Failure::new("node-in-use", serve::with_causes(problem))
                .exit(ExitStatus::CONFIG)
                .hint("countersign node status   (another node runs on this state directory)")
        }
        NodeError::Start(error) => serve::explain(console, error),
        NodeError::Identity(error) => identity_failure(error),
        NodeError::Policy(error) => Failure::new("policy", serve::with_causes(error))
            .exit(ExitStatus::CONFIG)
            .hint("countersign doctor"),
    }
}

/// Says what happens to a node, one line for each thing.
struct Teller {
    console: Console,
    gateway: String,
    root: String,
    notes: Notes,
    /// Cancelled when the gateway does not know the token, where that ends the node.
    unknown: Option<CancellationToken>,
}

impl Teller {
    /// That nobody reads it is no reason to wait or to stop.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "every other case, a later one too, is treated alike"
    )]
    fn say(&self, event: &NodeEvent) {
        let Self {
            console,
            gateway,
            root,
            notes,
            unknown,
        } = self;
        let ends = unknown
            .as_ref()
            .filter(|_| matches!(event, NodeEvent::Unauthorized { .. }));
        match console.format() {
            Format::Json => notes.data(&console.json_text(&as_json(gateway, event))),
            Format::People => match event {
                NodeEvent::Connected { version, protocol } => {
                    let version = if version.is_empty() {
                        "unknown version"
                    } else {
                        version
                    };
                    notes.data(&format!(
                        "countersign node connected to {gateway} ({version}, protocol {protocol})"
                    ));
                }
                NodeEvent::Started | NodeEvent::Stopping => {}
                event => {
                    for line in in_words(gateway, root, event) {
                        let is_over = ends.is_some() && line == TRIES_AGAIN;
                        notes.note(if is_over { ENDS } else { &line });
                    }
                }
            },
        }
        if let Some(ends) = ends {
            ends.cancel();
        }
    }
}

/// Below an error that ends nothing.
const TRIES_AGAIN: &str = "trying again, less and less often, until it works; Ctrl-C ends it";

/// Below an error that ends the node.
const ENDS: &str = "note: the node ends; countersign node run --retry goes on trying";

fn in_words(gateway: &str, root: &str, event: &NodeEvent) -> Vec<String> {
    match event {
        NodeEvent::Policy(news) => vec![policy::in_words(*news, root)],
        NodeEvent::Started | NodeEvent::Stopping | NodeEvent::Connected { .. } => Vec::new(),
        NodeEvent::Pairing { request_id } => {
            let what = request_id.as_deref().unwrap_or("REQUEST");
            vec![
                format!("waiting: a person has to approve this node at {gateway}"),
                format!(
                    "hint: countersign nodes approve {what}   (there; OpenClaw: openclaw devices approve {what})"
                ),
            ]
        }
        NodeEvent::Unauthorized { of_device } => {
            let what = if *of_device {
                "the gateway does not know this node's token any more"
            } else {
                "the gateway does not know the token, or wants one"
            };
            vec![
                format!("error[unauthorized]: {what} ({gateway})"),
                "hint: countersign node run --token-file FILE   (or OPENCLAW_GATEWAY_TOKEN; of a countersign server it is \
                 countersign/bridge.token in its state directory)"
                    .to_owned(),
                TRIES_AGAIN.to_owned(),
            ]
        }
        NodeEvent::Refused { message } => vec![
            format!("error[refused]: {gateway}: {message}"),
            TRIES_AGAIN.to_owned(),
        ],
        NodeEvent::ClockSkew { ahead_ms } => {
            let (seconds, which) = (
                ahead_ms.unsigned_abs() / 1_000,
                if *ahead_ms > 0 { "behind" } else { "ahead of" },
            );
            vec![
                format!("warning: the clock of this machine is {seconds} s {which} the gateway's"),
                "hint: sudo timedatectl set-ntp true   (gateways refuse nodes whose clock differs by minutes)"
                    .to_owned(),
            ]
        }
        NodeEvent::Disconnected { message } => {
            vec![format!("not connected to {gateway}: {message}; trying again")]
        }
    }
}

fn as_json(gateway: &str, event: &NodeEvent) -> serde_json::Value {
    match event {
        NodeEvent::Started => json!({"status": "started", "gateway": gateway}),
        NodeEvent::Connected { version, protocol } => {
            json!({"status": "connected", "gateway": gateway, "version": version, "protocol": protocol})
        }
        NodeEvent::Pairing { request_id } => {
            json!({"status": "pairing", "gateway": gateway, "requestId": request_id})
        }
        NodeEvent::Unauthorized { of_device } => {
            json!({"status": "unauthorized", "gateway": gateway, "deviceToken": of_device})
        }
        NodeEvent::Refused { message } => {
            json!({"status": "refused", "gateway": gateway, "message": message})
        }
        NodeEvent::ClockSkew { ahead_ms } => {
            json!({"status": "clock-skew", "gateway": gateway, "aheadMs": ahead_ms})
        }
        NodeEvent::Disconnected { message } => {
            json!({"status": "disconnected", "gateway": gateway, "message": message})
        }
        NodeEvent::Policy(news) => policy::as_json(*news),
        NodeEvent::Stopping => json!({"status": "stopping", "gateway": gateway}),
    }
}
