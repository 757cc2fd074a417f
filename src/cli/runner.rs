//! `countersign runner`: starts commands for a server of another account.

use std::path::PathBuf;

use sd_notify::NotifyState;

use countersign_runner::{UnitError, UnitNotice, UnitOptions, UnitSocket};
use countersign_sys::account::Account;

use super::{activation, context::Context, exit::ExitStatus, failure::Failure, serve::with_causes};

use crate::lifecycle;

/// Start commands as this account, for a server of another account
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign runner --server-account countersign --socket /srv/alice/runner.sock

Runs as the account whose commands it starts; the server has another one, names this account in
[exec] run_as, and finds the socket at /run/countersign/runner-ACCOUNT.sock or where [exec]
runner_socket says. Takes the listening socket that systemd passes (LISTEN_FDS), else makes one,
mode 0660: put it where its directory gives it the group of the server (setgid). Serves one
server at a time and nobody but the server's account.
Exit codes: 0 for a server of another version, which wants the runner that is installed now; 78
wrong account or socket.")]
pub(crate) struct RunnerArgs {
    /// The account of the server, a name or UID
    #[arg(long, value_name = "ACCOUNT", default_value = "countersign")]
    server_account: String,
    /// Where to listen without systemd
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Serves until it is killed.
pub(crate) fn run(context: &Context, args: RunnerArgs) -> Result<ExitStatus, Failure> {
    let RunnerArgs {
        server_account,
        socket,
    } = args;
    let server = Account::named(&server_account)
        .map_err(|error| {
            Failure::new(
                "runner",
                format!("the accounts of this machine cannot be read: {error}"),
            )
        })?
        .ok_or_else(|| refused(format!("there is no account {server_account}")))?;
    let options = UnitOptions {
        server: server.identity.uid,
        socket: choose_socket(context, socket)?,
    };
    let console = context.console;
    let mut tell = |notice: UnitNotice| match notice {
        UnitNotice::Ready => {
            lifecycle::notify(NotifyState::Ready);
            console.note(&format!("runner ready for servers of {server}"));
        }
        UnitNotice::Served => console.note("a server is served"),
        UnitNotice::Left => console.note("the server is gone; what it left running goes on"),
        UnitNotice::Foreign(uid) => console.note(&format!("user {uid} was sent away: not the server")),
        UnitNotice::Second => console.note("a second server was sent away"),
    };
    match countersign_runner::serve_unit(&options, &mut tell) {
        Ok(()) => {
            console.note("the server is of another version, and wants the runner that is installed now");
            Ok(ExitStatus::SUCCESS)
        }
        Err(error @ UnitError::System(_)) => {
            Err(Failure::new("runner", with_causes(&error)).exit(ExitStatus::SOFTWARE))
        }
        Err(error) => Err(refused(with_causes(&error))),
    }
}

fn refused(what: String) -> Failure {
    Failure::new("runner", what)
        .exit(ExitStatus::CONFIG)
        .advice("start it as the account of the commands, with --server-account naming that of the server")
}

/// That of systemd counts, if it passed one to this process.
fn choose_socket(context: &Context, named: Option<PathBuf>) -> Result<UnitSocket, Failure> {
    match (activation::passed_sockets(context).as_deref(), named) {
        (Some("1"), _) => Ok(UnitSocket::Passed),
        (Some(count), _) => Err(refused(format!("{count} sockets were passed; one is needed"))),
        (None, Some(path)) => Ok(UnitSocket::At(path)),
        (None, None) => Err(refused("no socket was passed, and none is named".to_owned())
            .advice("start it by countersign-runner@ACCOUNT.socket, or name one with --socket")),
    }
}
