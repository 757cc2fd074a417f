//! `countersign serve`: the server.

use std::{net::TcpListener, path::PathBuf, sync::Arc};

use serde_json::json;

use countersign_config::settings::StartOptions;
use countersign_http::ListenError;
use countersign_sys::{clock::SystemIds, memory, process, socket};

use super::{
    activation,
    console::{Console, Format},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    mock, qr,
    runtime::with_runtime,
};

use crate::app::{self, Invitation, Prepared, Ready, StartError};

/// Run the server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign serve
  countersign serve --listen 127.0.0.1:0
  countersign --state-dir /srv/agent serve
  countersign serve --mock script.yaml   # for tests of a gateway: plays a script, runs nothing

Prints one line on standard output when it is ready; on a terminal a one-time link follows that
signs a browser in, below its QR code unless --no-qr is given. SIGTERM drains: no new runs,
foreground ones get [shutdown] grace_ms; a second one kills everything. SIGHUP reads the settings
again. A listening TCP socket that systemd passes (LISTEN_FDS) is taken where it is that of [http]
listen.
Exit codes: 0; 78 bad settings or state directory; 69 address in use.")]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 picks one [default: 127.0.0.1:18790]
    #[arg(long, alias = "bind", value_name = "ADDRESS")]
    listen: Option<String>,
    /// Another settings file.
    #[arg(
        long,
        value_name = "FILE",
        help = "Another countersign.toml [env: COUNTERSIGN_CONFIG]"
    )]
    config: Option<PathBuf>,
    /// Allow an address that is not loopback without TLS
    #[arg(long)]
    insecure_bind: bool,
    /// Print the sign-in link without its QR code
    #[arg(long)]
    no_qr: bool,
    /// Run commands as this account; needs root or the account's countersign-runner@ACCOUNT.socket
    #[arg(long, value_name = "ACCOUNT")]
    run_as: Option<String>,
    /// Play a script for the tests of a gateway, on loopback: starts no process and keeps nothing. Without a file: the
    /// cases of check-gateway.
    #[arg(
        long,
        value_name = "SCRIPT",
        num_args = 0..=1,
        conflicts_with_all = ["config", "insecure_bind", "run_as"],
        help = "Play a script for the tests of a gateway; starts no process, keeps nothing (docs/gateways.md)"
    )]
    #[expect(clippy::option_option, reason = "the flag alone, or with a file")]
    mock: Option<Option<PathBuf>>,
}

/// Runs the server until it is told to stop.
pub(crate) fn run(context: &Context, args: ServeArgs) -> Result<ExitStatus, Failure> {
    let ServeArgs {
        listen,
        config,
        insecure_bind,
        no_qr,
        run_as,
        mock,
    } = args;
    if let Some(script) = mock {
        return with_runtime(mock::serve(context, listen.as_deref(), script.as_deref()));
    }
    let options = StartOptions {
        state_dir: context.server.state_dir.clone(),
        config,
        listen,
        insecure_bind,
        run_as,
    };
    let console = context.console;
    // Before anything is started that could have it, too.
    let listener = passed_listener(context)?;
    memory::use_few_arenas();
    let outcome = Prepared::new(&options, &context.environment).and_then(|prepared| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|source| StartError::System {
            what: "the runtime cannot be made",
            source,
        })?;
        let clock = Arc::clone(&context.clock);
        // A link opens the server to anyone who reads it, so it is for a terminal alone.
        let invitation = if console.is_read_by_people() {
            Invitation::LoginLink
        } else {
            Invitation::None
        };
        let announce = |ready: &Ready| announce(console, ready, !no_qr);
        runtime.block_on(app::serve(
            prepared.listening_at(listener),
            clock,
            Arc::new(SystemIds),
            invitation,
            announce,
        ))
    });
    outcome
        .map(|()| ExitStatus::SUCCESS)
        .map_err(|error| explain(console, &error))
}

/// The socket at which systemd listens for this server, if it passed one.
fn passed_listener(context: &Context) -> Result<Option<TcpListener>, Failure> {
    let refused = |what: String| Err(Failure::new("listen", what).exit(ExitStatus::CONFIG));
    match activation::passed_sockets(context).as_deref() {
        None => Ok(None),
        Some("1") => match process::inherited_descriptors(activation::FIRST) {
            Ok([descriptor]) if socket::listens_for_connections(&descriptor) => Ok(Some(descriptor.into())),
            Ok(_) | Err(_) => {
                refused("descriptor 3 is no listening TCP socket (ListenStream=ADDRESS:PORT)".to_owned())
            }
        },
        Some(count) => refused(format!("{count} sockets were passed; one is needed")),
    }
}

/// The one line. That nobody reads it is no reason to stop.
fn announce(console: Console, ready: &Ready, draws: bool) {
    let url = ready.url();
    let is_open = ready.endpoint.is_open();
    let printed = match console.format() {
        Format::Json => console.json_line(&json!({
            "status": "ready", "url": url, "socket": ready.socket, "isolation": ready.isolation,
            "insecureBind": is_open, "metrics": ready.metrics.map(|endpoint| endpoint.url()),
        })),
        Format::People => {
            let socket = ready
                .socket
                .as_ref()
                .map(|path| format!(" socket={}", path.display()))
                .unwrap_or_default();
            let metrics = ready
                .metrics
                .map(|endpoint| format!(" metrics={}/metrics", endpoint.url()))
                .unwrap_or_default();
            let open = if is_open { " insecure-bind" } else { "" };
            console
                .line(&format!(
                    "countersign ready {url} isolation={}{socket}{metrics}{open}",
                    ready.isolation
                ))
                .and_then(|()| invite(console, ready, draws))
        }
    };
    if let Err(failure) = printed {
        tracing::warn!(error = %failure.message, "the ready line could not be printed");
    }
}

/// The one-time link, alone on its line, so that it can be clicked and copied, and as a QR code that has room.
fn invite(console: Console, ready: &Ready, draws: bool) -> Result<(), Failure> {
    let Some(link) = &ready.login_link else {
        return Ok(());
    };
    let link = link.expose();
    let code = qr::lines(link).filter(|_| draws).unwrap_or_default();
    let widest = code.iter().map(|line| line.chars().count()).max();
    if console.has_room_for(widest.unwrap_or_default()) {
        for line in &code {
            console.line(line)?;
        }
    }
    console.line(link)?;
    let place = if is_for_others(link) {
        ""
    } else {
        ", on this machine"
    };
    console.note(&format!(
        "signs one browser in{place}, once; `countersign login-link` makes another"
    ));
    Ok(())
}

/// Whether a link leads anywhere from another machine.
fn is_for_others(link: &str) -> bool {
    let host = link.split_once("//").map_or(link, |(_, rest)| rest);
    let here = ["127.", "localhost", "[::1]"];
    !here.iter().any(|here| host.starts_with(here))
}

/// One line per error; the last of them is the failure itself.
pub(super) fn explain(console: Console, error: &StartError) -> Failure {
    match error {
        StartError::Settings(problems) => {
            let mut lines = problems.iter().map(ToString::to_string);
            let last = lines.next_back().unwrap_or_else(|| error.to_string());
            for line in lines {
                console.failure(&Failure::new("settings", line));
            }
            Failure::new("settings", last)
                .exit(ExitStatus::CONFIG)
                .hint("countersign doctor --all")
        }
        StartError::StateDir(problem) => Failure::new("state-dir", with_causes(problem))
            .exit(ExitStatus::CONFIG)
            .advice("--state-dir or OPENCLAW_STATE_DIR names another directory"),
        StartError::Listen(problem @ ListenError::Elsewhere { .. }) => {
            Failure::new("listen", with_causes(problem))
                .exit(ExitStatus::CONFIG)
                .advice("ListenStream= of the socket unit and [http] listen must name one address")
        }
        StartError::Listen(problem) => {
            let in_use = is_in_use(problem);
            Failure::new(
                if in_use { "address-in-use" } else { "listen" },
                with_causes(problem),
            )
            .exit(if in_use {
                ExitStatus::UNAVAILABLE
            } else {
                ExitStatus::CONFIG
            })
            .hint("countersign serve --listen 127.0.0.1:0   (picks a free port)")
        }
        StartError::Ledger(problem @ countersign_ledger::OpenError::InUse { .. }) => {
            Failure::new("state-dir-in-use", with_causes(problem))
                .exit(ExitStatus::CONFIG)
                .hint("countersign status   (another server runs on this state directory; --state-dir names another)")
        }
        StartError::Ledger(problem) => Failure::new("ledger", with_causes(problem)).exit(ExitStatus::CONFIG),
        StartError::Tokens(problem) => Failure::new("tokens", with_causes(problem)).exit(ExitStatus::CONFIG),
        StartError::Tls(problem) => Failure::new("tls", problem.line())
            .exit(ExitStatus::CONFIG)
            .advice("[tls] cert and key in countersign.toml name PEM files, relative to countersign/"),
        StartError::Isolation(problem) => Failure::new("isolation", with_causes(error))
            .exit(ExitStatus::CONFIG)
            .advice(
                problem
                    .remedy()
                    .unwrap_or("[exec] isolation = \"auto\" takes the best level there is"),
            ),
        StartError::Account(problem @ app::AccountProblem::NoUnit { account, .. }) => {
            Failure::new("run-as", with_causes(problem))
                .exit(ExitStatus::CONFIG)
                .hint(format!(
                    "sudo countersign serve --run-as {account}   (root starts the server and it gives root up; or the runner is a \
                     unit of its own: sudo systemctl enable --now countersign-runner@{account}.socket)"
                ))
        }
        StartError::Account(problem) => Failure::new("run-as", with_causes(problem))
            .exit(ExitStatus::CONFIG)
            .hint("sudo countersign serve --run-as ACCOUNT   (the account that agents work as, neither root nor the server)"),
        StartError::NodeHostOfRoot => Failure::new("run-as", error.to_string())
            .exit(ExitStatus::CONFIG)
            .hint(
                "sudo systemctl enable --now countersign-runner@ACCOUNT.socket   (the runner as a unit of its own; then start the \
                 server as the account that owns the state directory)",
            ),
        StartError::Shell(problem) => Failure::new("shell", with_causes(problem))
            .exit(ExitStatus::CONFIG)
            .advice("[exec] shell = \"/bin/sh\" in countersign.toml"),
        StartError::Log(problem) => Failure::new("log", with_causes(problem)).exit(ExitStatus::CONFIG),
        StartError::Runner(problem) => {
            Failure::new("runner", with_causes(problem)).exit(ExitStatus::SOFTWARE)
        }
        StartError::FewOpenFiles { least, .. } => Failure::new("open-files", error.to_string())
            .exit(ExitStatus::CONFIG)
            .advice(&format!("ulimit -Hn {least} or more, or LimitNOFILE= of its unit")),
        StartError::Recover(_) | StartError::System { .. } => {
            Failure::new("start", with_causes(error)).exit(ExitStatus::SOFTWARE)
        }
    }
}

fn is_in_use(error: &ListenError) -> bool {
    match error {
        ListenError::Tcp { source, .. } | ListenError::Unix { source, .. } => {
            source.kind() == std::io::ErrorKind::AddrInUse
        }
        ListenError::Elsewhere { .. } => false,
    }
}

/// The message with those of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::console::ColorChoice;

    #[test]
    fn an_address_in_use_is_not_a_wrong_setting() {
        let error = |kind: std::io::ErrorKind| {
            let source = std::io::Error::from(kind);
            StartError::Listen(ListenError::Tcp {
                purpose: countersign_http::Purpose::Api,
                address: ([127, 0, 0, 1], 1).into(),
                source,
            })
        };
        let console = Console::new(
            Format::People,
            ColorChoice::Never,
            &countersign_config::settings::MapEnvironment::default(),
        );
        let exit = |kind| explain(console, &error(kind)).exit;
        assert_eq!(exit(std::io::ErrorKind::AddrInUse), ExitStatus::UNAVAILABLE);
        assert_eq!(exit(std::io::ErrorKind::PermissionDenied), ExitStatus::CONFIG);
    }

    #[test]
    fn a_phone_needs_no_code_for_a_link_that_it_cannot_reach() {
        assert!(is_for_others("https://c.example/login#code=x"));
        for here in [
            "http://127.0.0.1:1/login",
            "http://localhost/login",
            "http://[::1]:1/login",
        ] {
            assert!(!is_for_others(here), "{here}");
        }
    }

    #[test]
    fn causes_are_part_of_the_line() {
        let source = std::io::Error::other("because");
        assert_eq!(
            with_causes(&StartError::System {
                what: "it failed",
                source
            }),
            "it failed: because"
        );
    }
}
