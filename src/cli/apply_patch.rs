//! `countersign apply-patch`: send a patch, wait for the decision, tell what it changed.
//!
//! The call carries an idempotency key of its own: the result is fetched by asking again under it, however often the
//! connection breaks, and the patch is applied once.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use countersign_domain::{AgentId, HostChoice, MAX_PATCH_BYTES, SessionKey};
use countersign_sys::clock::{Ids as _, SystemIds};
use countersign_wire::{
    exec::Started,
    patch::{Applied, ChangeBody},
    run::RunBody,
};

use super::{
    caller_lease::Endings,
    candidates,
    client::{Client, SERVER_RETURN, read},
    console::Format,
    context::Context,
    discover::Role,
    exec,
    exit::ExitStatus,
    failure::Failure,
    value,
};

/// How often a patch that waits is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Change files by a patch, if policy and people allow it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign apply-patch change.patch
  countersign apply-patch --no-wait change.patch      # 75 while a person is asked
  countersign apply-patch --no-wait --agent build < change.patch

A patch begins with `*** Begin Patch` and ends with `*** End Patch`; docs/apply-patch.md
describes it. All of it is applied, or nothing.
Exit codes: 0 applied; 1 it does not apply; 77 denied; 75 still pending; 69 server unavailable;
64 usage.")]
pub(crate) struct ApplyPatchArgs {
    /// The patch; `-` or nothing for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Where: auto, sandbox or gateway
    #[arg(long)]
    host: Option<HostChoice>,
    /// Agent that asks
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Session that asks
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Directory that its paths begin in (default: the agent's workspace); `.` is the present one
    #[arg(long, alias = "cwd", value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// The model that wrote it
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Use this idempotency key: the same call again does not change anything again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Do not wait for a person: exit 75 instead
    #[arg(long)]
    no_wait: bool,
}

pub(crate) async fn run(context: &Context, args: ApplyPatchArgs) -> Result<ExitStatus, Failure> {
    let input = read_patch(args.file.as_deref())?;
    let body = body_of(&args, &input)?;
    let client = context.client(Role::Gateway)?;
    let key = args
        .idempotency_key
        .clone()
        .unwrap_or_else(|| SystemIds.random().to_string());
    let path = ["v1", "apply-patch"];
    let call = exec::Call {
        path: &path,
        body: &body,
        key: &key,
        held: None,
    };
    let mut endings = Endings::listen();
    let mut answer = exec::submit(context, &client, call, &mut endings).await?;
    if let Ok(started) = countersign_wire::read(&answer) {
        if let Started::Pending(pending) = &started {
            exec::show_pending(context, pending);
        }
        if args.no_wait {
            return exec::finish_unended(context, &answer, started.run_id(), started.status());
        }
        wait_until_ended(context, &client, &started, &mut endings).await?;
        answer = exec::submit(context, &client, call, &mut endings).await?;
    }
    show(context, answer)
}

fn read_patch(file: Option<&Path>) -> Result<String, Failure> {
    let (name, read) = match file {
        Some(path) if path != Path::new("-") => {
            let file = File::open(path);
            (path.display().to_string(), file.and_then(bounded))
        }
        Some(_) | None => ("standard input".to_owned(), bounded(io::stdin())),
    };
    read.map_err(|error| Failure::usage(format!("{name}: {error}")))
}

/// One byte more than a patch may have is for the server to refuse.
fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let limit = u64::try_from(MAX_PATCH_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    from.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn body_of(args: &ApplyPatchArgs, input: &str) -> Result<Value, Failure> {
    let mut body = Map::new();
    body.insert("input".to_owned(), json!(input));
    let mut member = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    member("host", args.host.map(|host| json!(host)));
    member("agentId", args.agent.as_ref().map(|agent| json!(agent)));
    member("sessionKey", args.session.as_ref().map(|session| json!(session)));
    let workdir = args.workdir.as_ref().map(exec::workdir).transpose()?;
    member("workdir", workdir.map(Value::from));
    member("model", args.model.as_ref().map(|model| json!(model)));
    Ok(Value::Object(body))
}

/// Looks at the run until it has ended, with the time left on a terminal; a signal withdraws the question.
async fn wait_until_ended(
    context: &Context,
    client: &Client,
    started: &Started,
    endings: &mut Endings,
) -> Result<(), Failure> {
    let run_id = started.run_id();
    let mut shown = String::new();
    let mut unreachable = Duration::ZERO;
    loop {
        let looked = tokio::select! {
            looked = async { sleep(LOOK).await; client.get::<RunBody>(&["v1", "runs", run_id.as_str()], &Vec::new()).await } => looked,
            exit = endings.next() => {
                return exec::cancel(context, client, run_id, exit).await.map(|_ended| ());
            }
        };
        let run = match looked {
            Ok(run) => run,
            // The server restarts: the approval is still there when it is back.
            Err(failure) if failure.is_no_connection() && unreachable < SERVER_RETURN => {
                unreachable += LOOK;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        unreachable = Duration::ZERO;
        match run.status.as_ref() {
            "approval-pending" => context
                .console
                .progress_if_new(&mut shown, exec::waiting_line(context, started)),
            "queued" | "running" => context
                .console
                .progress_if_new(&mut shown, "being applied …".to_owned()),
            _ => {
                context.console.end_progress();
                return Ok(());
            }
        }
    }
}

fn show(context: &Context, answer: Value) -> Result<ExitStatus, Failure> {
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let applied: Applied = read(answer)?;
    for ChangeBody { path, kind, from } in applied.changed {
        let from = from.map(|from| format!(" (from {})", value::visible(&from)));
        context.console.line(&format!(
            "{kind:8} {}{}",
            value::visible(&path),
            from.unwrap_or_default()
        ))?;
    }
    Ok(ExitStatus::SUCCESS)
}
