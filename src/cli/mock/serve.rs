//! The mock as a program: where it listens, what it prints, when it ends.

use std::{net::SocketAddr, path::Path, sync::Arc};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use countersign_config::settings::{MapEnvironment, StateDir};
use countersign_http::mock::{Heard, Mock, MockError, Script};
use countersign_policy::command::redaction;
use countersign_sys::{
    clock::{Ids as _, SystemIds},
    fs::create_private_file,
};

use super::script;
use crate::{
    cli::{
        console::{Console, Format},
        context::Context,
        exit::ExitStatus,
        failure::Failure,
        value,
    },
    lifecycle::{ServerFile, Signals, Stop, WrittenServerFile},
};

/// Where it listens unless it is told otherwise: where a server does, for the gateway that has its address.
const DEFAULT_ADDRESS: &str = "127.0.0.1:18790";
/// Longest line about a call.
const LINE: usize = 160;

/// Serves a script until it is told to stop. Without a file it is that of the cases.
pub(crate) async fn serve(
    context: &Context,
    listen: Option<&str>,
    file: Option<&Path>,
) -> Result<ExitStatus, Failure> {
    refuse_names_of_servers(context)?;
    let address = listen.unwrap_or(DEFAULT_ADDRESS);
    let address: SocketAddr = address.parse().map_err(|_no_address| {
        Failure::usage(format!("--listen {address}: expected an address and a port"))
            .hint("countersign serve --mock --listen 127.0.0.1:0")
    })?;
    let script = match file {
        Some(file) => script::read(file)?,
        None => script::cases(),
    };
    let rules = script.len();
    let signals = Signals::catch()?;
    let console = context.console;
    let mock = open(context, address, script, move |heard| say(console, heard)).await?;
    let place = Place::make(context, &mock)?;
    announce(console, &mock, &place, rules)?;
    let stop = Stop::default();
    let done = CancellationToken::new();
    tokio::select! {
        () = signals.follow(&stop, || {}) => {}
        () = stop.drain.cancelled() => {}
        () = mock.serve(done.clone()) => {}
    }
    drop(place);
    Ok(ExitStatus::SUCCESS)
}

/// Opens the listener of a mock.
pub(crate) async fn open(
    context: &Context,
    address: SocketAddr,
    script: Script,
    listener: impl Fn(&Heard) + Send + Sync + 'static,
) -> Result<Mock, Failure> {
    let sources = (Arc::clone(&context.clock), Arc::new(SystemIds) as _);
    Mock::bind(address, script, sources, listener)
        .await
        .map_err(|error| match error {
            MockError::NotLoopback(_) => {
                Failure::usage(error.to_string()).hint("countersign serve --mock --listen 127.0.0.1:0")
            }
            MockError::Listen { address, source } => {
                let in_use = source.kind() == std::io::ErrorKind::AddrInUse;
                let code = if in_use { "address-in-use" } else { "listen" };
                Failure::new(code, format!("cannot listen on {address}: {source}"))
                    .exit(ExitStatus::UNAVAILABLE)
                    .hint("countersign serve --mock --listen 127.0.0.1:0   (picks a free port)")
            }
        })
}

/// A token as servers make them. It opens the mock and nothing else.
pub(crate) fn token() -> String {
    let mut bytes = [0_u8; 32];
    SystemIds.secret_bytes(&mut bytes);
    format!("cst_{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// It has nothing to do with a server.
fn refuse_names_of_servers(context: &Context) -> Result<(), Failure> {
    let flags = &context.server;
    let named = [
        ("--state-dir", flags.state_dir.is_some()),
        ("--url", flags.url.is_some()),
        ("--token", flags.token.is_some()),
    ];
    match named.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(Failure::usage(format!(
            "a mock uses no server and no state directory of yours; leave out {flag}"
        ))),
        None => Ok(()),
    }
}

/// A state directory of its own, so that the commands of this program find the mock; it goes with it.
struct Place {
    folder: TempDir,
    token: String,
    _written: WrittenServerFile,
}

impl Place {
    fn make(context: &Context, mock: &Mock) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("countersign-mock-").tempdir()?;
        let state_dir = StateDir::resolve(Some(folder.path()), &MapEnvironment::default());
        let state_dir = state_dir.map_err(|error| Failure::new("state-dir", error.to_string()))?;
        state_dir
            .prepare()
            .map_err(|error| Failure::new("state-dir", error.to_string()))?;
        let token = token();
        for file in [state_dir.gateway_token(), state_dir.operator_token()] {
            create_private_file(&file, token.as_bytes())?;
        }
        let file = ServerFile {
            url: mock.url(),
            socket: None,
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at_ms: context.clock.now().get(),
        };
        let written = file.write(&state_dir.server_json())?;
        Ok(Self {
            folder,
            token,
            _written: written,
        })
    }
}

fn announce(console: Console, mock: &Mock, place: &Place, rules: usize) -> Result<(), Failure> {
    let (url, token, state_dir) = (mock.url(), &place.token, place.folder.path().display());
    match console.format() {
        Format::Json => console.json_line(&json!({
            "status": "ready", "mock": true, "url": url, "token": token, "stateDir": state_dir.to_string(),
            "rules": rules,
        })),
        Format::People => console.line(&format!(
            "countersign mock ready {url} rules={rules} token={token} state-dir={state_dir}"
        )),
    }
}

/// One line about each call.
fn say(console: Console, heard: &Heard) {
    let line = redaction::masked(&heard.to_string());
    console.note(&value::shortened(&value::visible(&line), LINE));
}
