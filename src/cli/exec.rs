//! `countersign exec`: submit a command, wait for the decision, hand on output and exit code.
//!
//! Every call carries an idempotency key of its own, so that a connection that drops can ask again without
//! anything running twice. The call asks not to wait for a person; the wait is here, where the time left can be
//! shown, by looking at the run. What is waited for ends with this process, however that ends ([`super::caller_lease`]).
//! With `--pty` at a terminal the command goes on in the background at once, and the person who sits there is
//! connected to it ([`super::attach`]).

use std::{io::IsTerminal as _, path::PathBuf, time::Duration};

use clap::{Args as _, FromArgMatches as _};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use countersign_domain::{AgentId, Ask, HostChoice, RunId, Security, SessionKey, UnixMillis};
use countersign_sys::clock::{Ids as _, SystemIds};
use countersign_wire::{
    exec::{Answered, Pending, Started, WarningBody},
    problem::ProblemBody,
    run::{RunBody, RunDetail},
};

use super::{
    attach::{self, Served},
    caller_lease::{CallerLease, Endings},
    candidates,
    client::{Client, EndsWithCaller, Resending, SERVER_RETURN, read},
    console::{Format, Tone},
    context::Context,
    discover::Role,
    duration::{clock_face, parse_duration},
    exit::{ExitStatus, RunEnd},
    explain,
    failure::Failure,
    ids, terminal_text, value,
};

/// How often a waiting run is looked at: often at first, when a decision is likely to be a policy's.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const SLOWEST_LOOK: Duration = Duration::from_millis(500);
/// Run a command on a host, if policy and people allow it
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "countersign exec [OPTIONS] PROGRAM [ARG]...\n       countersign exec [OPTIONS] -c TEXT",
    after_help = "Examples:
  countersign exec git status --short          # options after the program are its own
  countersign exec --workdir . -c 'git log --oneline | head -5'
  countersign exec --agent build --timeout 10m -- cargo test
  countersign exec --no-wait -- make deploy     # 75 while a person is asked
  countersign exec --explain -- git push        # what would happen, and why
  countersign exec --pty -- htop                # at a terminal: keys go to it

A command in the foreground ends with this one, also when that is killed.
Exit codes: the command's own; 128+n for signal n; 124 time limit; 126 could not start; 77 denied;
75 still pending or running; 69 server unavailable; 64 usage."
)]
pub(crate) struct ExecArgs {
    /// Shell text to run instead of a program with arguments
    #[arg(
        short = 'c',
        long = "command",
        value_name = "TEXT",
        conflicts_with = "program"
    )]
    command: Option<String>,
    /// The program and its arguments; no shell reads them, and options after it are the program's
    #[arg(
        trailing_var_arg = true,
        value_name = "PROGRAM",
        required_unless_present = "command"
    )]
    program: Vec<String>,
    /// Where to run: auto, sandbox, gateway or node
    #[arg(long)]
    host: Option<HostChoice>,
    /// Agent that asks
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Session that asks
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Node to run on, with --host node
    #[arg(long, value_name = "NODE", add = candidates::nodes())]
    node: Option<String>,
    /// Working directory (default: the agent's workspace); `.` is the present one
    #[arg(long, alias = "cwd", value_name = "DIR")]
    workdir: Option<PathBuf>,
    /// Environment override; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_env)]
    env: Vec<(String, String)>,
    /// Kill the command after this time; 0s for no limit
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Give it a pseudo-terminal; at a terminal it is connected to yours
    #[arg(long)]
    pty: bool,
    /// Put it into the background at once
    #[arg(long)]
    background: bool,
    /// Ask more often than configured: off, on-miss or always
    #[arg(long)]
    ask: Option<Ask>,
    /// Be stricter than configured: deny, allowlist or full
    #[arg(long)]
    security: Option<Security>,
    /// Ask to leave the sandbox
    #[arg(long)]
    elevated: bool,
    /// Why: the person who is asked reads it
    #[arg(long, value_name = "TEXT")]
    justification: Option<String>,
    /// Where that person can read more
    #[arg(long, value_name = "URL")]
    context_url: Option<String>,
    /// Use this idempotency key: the same call again does not run again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Do not wait for a person or for the end: exit 75 instead
    #[arg(long)]
    no_wait: bool,
    /// Say what would happen and which rule says so; nothing runs
    #[arg(long, conflicts_with_all = ["no_wait", "idempotency_key"])]
    explain: bool,
}

#[cfg(test)]
impl ExecArgs {
    /// The program and its arguments.
    pub(super) fn program(&self) -> &[String] {
        &self.program
    }
}

pub(crate) async fn run(context: &Context, args: ExecArgs) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Gateway)?;
    let mut body = body_of(&args)?;
    if args.explain {
        return explain::run(context, &client, &body).await;
    }
    let key = args
        .idempotency_key
        .clone()
        .unwrap_or_else(|| SystemIds.random().to_string());
    let sits = args.pty && !args.background && !args.no_wait && context.console.can_connect();
    if sits && let Some(members) = body.as_object_mut() {
        members.insert("background".to_owned(), json!(true));
    }
    let held = (!sits && !args.no_wait && !args.background).then_some(EndsWithCaller::Run);
    let mut endings = Endings::listen();
    let call = Call {
        path: &["v1", "exec"],
        body: &body,
        key: &key,
        held,
    };
    let answer = match submit(context, &client, call, &mut endings).await {
        Err(failure) => return Err(with_run(context, &client, &body, failure).await?),
        Ok(answer) => answer,
    };
    let begun: Answered = read(answer.clone())?;
    show_warnings(context, &begun);
    let _lease = held
        .filter(|_| matches!(begun, Answered::Started(_)))
        .map(|held| CallerLease::begin(&client, &body, &key, held));
    match begun {
        Answered::Finished(finished) => finish(context, &client, &answer, finished.into()).await,
        Answered::Started(started) if sits => sit(context, &client, &started, &mut endings).await,
        Answered::Started(started) => {
            if let Started::Pending(pending) = &started {
                show_pending(context, pending);
            }
            if args.no_wait || (args.background && matches!(started, Started::Running(_))) {
                return finish_unended(context, &answer, started.run_id(), started.status());
            }
            wait_until_ended(context, &client, &started, &mut endings).await
        }
    }
}

/// A run that was denied at once is data as well; people read what would change it.
async fn with_run(
    context: &Context,
    client: &Client,
    body: &Value,
    failure: Failure,
) -> Result<Failure, Failure> {
    if failure.code != "exec-denied" {
        return Ok(failure);
    }
    match (context.console.format(), &failure.run_id) {
        (Format::People, _) => {
            let lines = explain::ways_out_of(client, body).await;
            let failure = failure.with_ways_out(lines);
            return Ok(match (&failure.hint, &failure.ways_out, &failure.run_id) {
                (None, None, Some(run)) => {
                    let why = format!("countersign policy why {}", ids::short(run));
                    failure.hint(why)
                }
                _ => failure,
            });
        }
        (Format::Json, Some(run)) => {
            let run: Value = client.get(&["v1", "runs", run], &Vec::new()).await?;
            context.console.document(&run)?;
        }
        (Format::Json, None) => {}
    }
    Ok(failure)
}

/// The body that `countersign exec` with these arguments would send.
pub(crate) fn body_of_line(arguments: &[String]) -> Result<Value, Failure> {
    let line = std::iter::once("exec").chain(arguments.iter().map(String::as_str));
    let matches = ExecArgs::augment_args(clap::Command::new("exec"))
        .try_get_matches_from(line)
        .and_then(|matches| ExecArgs::from_arg_matches(&matches));
    match matches {
        Ok(args) => body_of(&args),
        Err(error) => Err(Failure::usage(error.to_string())),
    }
}

fn parse_env(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn body_of(args: &ExecArgs) -> Result<Value, Failure> {
    let mut body = Map::new();
    match &args.command {
        Some(text) => body.insert("command".to_owned(), json!(text)),
        None => body.insert("argv".to_owned(), json!(args.program)),
    };
    let mut member = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    member("host", args.host.map(|host| json!(host)));
    member("agentId", args.agent.as_ref().map(|agent| json!(agent)));
    member("sessionKey", args.session.as_ref().map(|session| json!(session)));
    member("node", args.node.as_ref().map(|node| json!(node)));
    let workdir = args.workdir.as_ref().map(workdir).transpose()?;
    member("workdir", workdir.map(Value::from));
    let overrides: Map<String, Value> = args
        .env
        .iter()
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    member("env", (!overrides.is_empty()).then_some(Value::Object(overrides)));
    member("timeoutMs", args.timeout.map(millis));
    member("pty", args.pty.then_some(json!(true)));
    member("background", args.background.then_some(json!(true)));
    member("ask", args.ask.map(|ask| json!(ask)));
    member("security", args.security.map(|security| json!(security)));
    member("elevated", args.elevated.then_some(json!(true)));
    member("justification", args.justification.clone().map(Value::from));
    member("contextUrl", args.context_url.clone().map(Value::from));
    Ok(Value::Object(body))
}

/// `~/…` is the server's business; any other relative path starts here.
pub(super) fn workdir(path: &PathBuf) -> Result<String, Failure> {
    let path = if path.starts_with("~") || path.is_absolute() {
        path.clone()
    } else {
        std::path::absolute(path)
            .and_then(|path| path.canonicalize())
            .map_err(|error| Failure::usage(format!("--workdir {}: {error}", path.display())))?
    };
    path.into_os_string()
        .into_string()
        .map_err(|_not_utf8| Failure::usage("--workdir is not valid UTF-8"))
}

fn millis(timeout: Duration) -> Value {
    json!(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX))
}

/// A call that happens once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) path: &'a [&'a str],
    pub(super) body: &'a Value,
    pub(super) key: &'a str,
    /// What ends with this process.
    pub(super) held: Option<EndsWithCaller>,
}

impl Call<'_> {
    async fn send(self, client: &Client) -> Result<Value, Failure> {
        let Self {
            path,
            body,
            key,
            held,
        } = self;
        match held {
            Some(held) => client.post_held(path, body, key, (held, Duration::ZERO)).await,
            None => client.post_once(path, body, key).await,
        }
    }
}

/// Sends the call, again under the same key when the connection broke: what was admitted goes on without us, and
/// asking again joins it, on the next server too. A signal cancels.
pub(super) async fn submit(
    context: &Context,
    client: &Client,
    call: Call<'_>,
    endings: &mut Endings,
) -> Result<Value, Failure> {
    let since = context.clock.now();
    let mut resending = Resending::default();
    loop {
        let sent = tokio::select! {
            sent = call.send(client) => sent,
            exit = endings.next() => return cancel_by_key(context, client, call, since, exit).await,
        };
        match sent {
            Err(failure) if resending.may_join(&failure) => {}
            other => return other,
        }
        context
            .console
            .progress("the server is gone; waiting for it to return …");
        sleep(SLOWEST_LOOK).await;
    }
}

/// The call was interrupted before it was answered. Asking again under the same key tells which run it is, but only
/// once that run ended, waits or moved to the background; so it is looked for as well, and cancelled when there can
/// be no doubt.
async fn cancel_by_key(
    context: &Context,
    client: &Client,
    call: Call<'_>,
    since: UnixMillis,
    exit: ExitStatus,
) -> Result<Value, Failure> {
    context.console.end_progress();
    context.console.note("cancelling …");
    let run_id = tokio::select! {
        answer = call.send(client) => read::<Whose>(answer?)?.run_id,
        run_id = only_run_since(client, call.body, since) => run_id?,
    };
    let cancelled = client
        .post::<IgnoredAny>(&["v1", "runs", run_id.as_str(), "cancel"], &json!({}))
        .await;
    match cancelled {
        Ok(_) => Err(interrupted("the run was cancelled").exit(exit)),
        Err(failure) if failure.code == "run-ended" => {
            Err(interrupted("the run had already ended").exit(exit))
        }
        Err(failure) => Err(failure),
    }
}

/// What every answer about a run says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whose {
    run_id: RunId,
}

/// The one run of this command that began since then; waits for ever when there is none or more than one.
async fn only_run_since(client: &Client, body: &Value, since: UnixMillis) -> Result<RunId, Failure> {
    let query = vec![
        ("status", "running".to_owned()),
        ("since", since.get().to_string()),
    ];
    let runs: Vec<RunBody> = client.list(&["v1", "runs"], &query, 50).await?;
    let (argv, command) = (body.get("argv"), body.get("command"));
    let is_same = |run: &RunBody| {
        run.argv.as_ref().map(|argv| json!(argv)).as_ref() == argv
            && run.command.as_deref() == command.and_then(Value::as_str)
    };
    let mut same = runs.into_iter().filter(is_same);
    match (same.next(), same.next()) {
        (Some(run), None) => Ok(run.run_id),
        (None, _) | (Some(_), Some(_)) => std::future::pending().await,
    }
}

fn interrupted(what: &str) -> Failure {
    Failure::new("interrupted", what).exit(ExitStatus::INTERRUPTED)
}

fn show_warnings(context: &Context, answer: &Answered) {
    let (warnings, input_closed) = match answer {
        Answered::Finished(finished) => (&finished.warnings, finished.input_closed),
        Answered::Started(Started::Running(running)) => (&running.warnings, running.input_closed),
        Answered::Started(Started::Pending(pending)) => (&pending.warnings, false),
    };
    if context.console.format() == Format::Json {
        // What waits is shown with its warnings.
        let waits = matches!(answer, Answered::Started(Started::Pending(_)));
        if !waits && (input_closed || !warnings.is_empty()) {
            let line = json!({ "warnings": warnings, "inputClosed": input_closed });
            context.console.note(&terminal_text::json(&line.to_string()));
        }
        return;
    }
    for WarningBody { code, message } in warnings {
        context
            .console
            .note(&format!("warning[{code}]: {}", value::visible(message)));
    }
    if input_closed {
        context
            .console
            .note("input closed: the entry that covers the command does not include an open one");
        context.console.hint("countersign allowlist add --input PATTERN");
    }
}

/// Says that a person is asked, and where. What a program reads is JSON, a line each.
pub(super) fn show_pending(context: &Context, pending: &Pending) {
    if context.console.format() == Format::Json {
        let line = terminal_text::json(&json!(pending).to_string());
        return context.console.note(&line);
    }
    let slug = &pending.approval_slug;
    context
        .console
        .note(&format!("a person is asked: approval {slug}"));
    if let Some(url) = &pending.approval_url {
        // Alone on its line, so that a terminal opens it and a person can copy it.
        context.console.note(&value::visible(url));
    }
    if let Some(url) = &pending.status_url {
        context.console.note(&format!("status: {}", value::visible(url)));
    }
    context.console.hint(&format!("countersign approve {slug}"));
    context.console.hint(&format!("countersign deny {slug}"));
}

/// Prints what is known of a run that goes on.
pub(super) fn finish_unended(
    context: &Context,
    answer: &Value,
    run_id: &RunId,
    status: &str,
) -> Result<ExitStatus, Failure> {
    match context.console.format() {
        Format::Json => context.console.document(answer)?,
        Format::People => {
            let short = ids::short(run_id.as_str());
            context.console.note(&format!("run {short} is {status}"));
            context.console.hint(&format!("countersign runs show {short}"));
        }
    }
    Ok(ExitStatus::PENDING)
}

/// Connects this terminal to the command once it runs.
async fn sit(
    context: &Context,
    client: &Client,
    started: &Started,
    endings: &mut Endings,
) -> Result<ExitStatus, Failure> {
    if let Started::Pending(pending) = started {
        show_pending(context, pending);
    }
    let run_id = started.run_id();
    let (answer, run) = match wait_until(context, client, started, Until::Running, endings).await? {
        Waited::Run(answer, run) => (answer, run),
        Waited::Cancelled(exit) => return Ok(exit),
    };
    let session = run
        .run
        .session_id
        .as_deref()
        .filter(|_| run.run.status == "running");
    let Some(session) = session else {
        if run.run.status == "running" {
            return wait_until_ended(context, client, started, endings).await;
        }
        return finish(context, client, &answer, (*run).into()).await;
    };
    match attach::connect(context, client, session, run.run.agent_id.as_str()).await? {
        Served::Ended => {}
        Served::Terminated => {
            cancel(context, client, run_id, ExitStatus::INTERRUPTED).await?;
            return Err(interrupted("the run was cancelled"));
        }
    }
    let answer: Value = client.get(&["v1", "runs", run_id.as_str()], &Vec::new()).await?;
    let end: RunEnd = read::<RunDetail>(answer.clone())?.into();
    if end.status == "running" {
        return finish_unended(context, &answer, run_id, &end.status);
    }
    show_end(context, &end);
    Ok(ExitStatus::of_run(&end))
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// It runs, or has ended.
    Running,
    Ended,
}

/// What came of waiting.
#[derive(Debug)]
enum Waited {
    /// The run as it is then, as it came and as it reads.
    Run(Value, Box<RunDetail>),
    /// It was cancelled from here.
    Cancelled(ExitStatus),
}

async fn wait_until_ended(
    context: &Context,
    client: &Client,
    started: &Started,
    endings: &mut Endings,
) -> Result<ExitStatus, Failure> {
    match wait_until(context, client, started, Until::Ended, endings).await? {
        Waited::Run(answer, run) => finish(context, client, &answer, (*run).into()).await,
        Waited::Cancelled(exit) => Ok(exit),
    }
}

/// Looks at the run, with the time left on a terminal; a signal cancels it.
async fn wait_until(
    context: &Context,
    client: &Client,
    started: &Started,
    until: Until,
    endings: &mut Endings,
) -> Result<Waited, Failure> {
    let run_id = started.run_id();
    let mut pause = FIRST_LOOK;
    let mut unreachable = Duration::ZERO;
    let mut shown = String::new();
    let path = ["v1", "runs", run_id.as_str()];
    loop {
        let looked = tokio::select! {
            looked = async { sleep(pause).await; client.get::<Value>(&path, &Vec::new()).await } => looked,
            exit = endings.next() => {
                return cancel(context, client, run_id, exit).await.map(Waited::Cancelled);
            }
        };
        pause = (pause * 2).min(SLOWEST_LOOK);
        let answer = match looked {
            Ok(answer) => answer,
            // The server restarts: the approval is still there when it is back.
            Err(failure) if failure.is_no_connection() && unreachable < SERVER_RETURN => {
                unreachable += pause;
                context
                    .console
                    .progress("the server is gone; waiting for it to return …");
                continue;
            }
            Err(failure) => return Err(failure),
        };
        unreachable = Duration::ZERO;
        let run: Box<RunDetail> = read(answer.clone())?;
        match run.run.status.as_ref() {
            "approval-pending" => context
                .console
                .progress_if_new(&mut shown, waiting_line(context, started)),
            "running" if until == Until::Running => {
                context.console.end_progress();
                return Ok(Waited::Run(answer, run));
            }
            "queued" | "running" => context
                .console
                .progress_if_new(&mut shown, "running …".to_owned()),
            _ => {
                context.console.end_progress();
                return Ok(Waited::Run(answer, run));
            }
        }
    }
}

/// The time left for a decision.
pub(super) fn waiting_line(context: &Context, started: &Started) -> String {
    let (slug, left) = match started {
        Started::Pending(pending) => (
            pending.approval_slug.as_str(),
            pending.expires_at_ms.since(context.clock.now()),
        ),
        Started::Running(_) => ("", Duration::ZERO),
    };
    format!("waiting for a decision on {slug} … {} left", clock_face(left))
}

pub(super) async fn cancel(
    context: &Context,
    client: &Client,
    run_id: &RunId,
    exit: ExitStatus,
) -> Result<ExitStatus, Failure> {
    context.console.end_progress();
    context.console.note("cancelling …");
    match client
        .post::<IgnoredAny>(&["v1", "runs", run_id.as_str(), "cancel"], &json!({}))
        .await
    {
        Ok(_) => Err(interrupted("the run was cancelled").exit(exit)),
        Err(failure) if failure.code == "run-ended" => {
            let answer: Value = client.get(&["v1", "runs", run_id.as_str()], &Vec::new()).await?;
            let run: RunDetail = read(answer.clone())?;
            finish(context, client, &answer, run.into()).await
        }
        Err(failure) => Err(failure),
    }
}

/// Hands on the output of an ended run and its exit code.
async fn finish(
    context: &Context,
    client: &Client,
    answer: &Value,
    end: RunEnd,
) -> Result<ExitStatus, Failure> {
    let exit = ExitStatus::of_run(&end);
    if context.console.format() == Format::Json {
        context.console.document(answer)?;
        // As where policy says it at once: the run, and the problem on standard error.
        return if end.status == "denied" {
            Err(denied(end))
        } else {
            Ok(exit)
        };
    }
    if end.status == "denied" {
        let lines = explain::ways_out_of_run(client, &end.run_id).await;
        return Err(denied(end).with_ways_out(lines));
    }
    output(context, client, &end).await?;
    show_end(context, &end);
    Ok(exit)
}

fn show_end(context: &Context, end: &RunEnd) {
    if let Some(note) = ending_note(end) {
        let painted = if std::io::stderr().is_terminal() {
            context.console.paint(Tone::Caution, &note)
        } else {
            note
        };
        context.console.note(&painted);
    }
}

/// A denial that came after the wait looks like one that came at once.
fn denied(end: RunEnd) -> Failure {
    let problem = ProblemBody {
        r#type: "/docs#exec-denied".to_owned(),
        title: "The command was denied".into(),
        instance: format!("/v1/runs/{}", end.run_id),
        code: "exec-denied".into(),
        detail: end.detail.unwrap_or_else(|| "the command did not run".to_owned()),
        reason: end.reason.map(|reason| reason.to_string().into()),
        ..ProblemBody::default()
    };
    Failure {
        hint: Some(format!("countersign runs show {}", ids::short(&end.run_id))),
        run_id: Some(end.run_id),
        ..Failure::of_problem(403, problem)
    }
}

/// What the exit code alone would not tell.
fn ending_note(end: &RunEnd) -> Option<String> {
    let detail = end.detail.as_deref().map(value::visible);
    match (end.status.as_ref(), &end.reason) {
        ("lost", _) => Some(
            "the outcome is unknown: the server lost sight of the command; it is not run again".to_owned(),
        ),
        ("cancelled", _) => Some("the run was cancelled".to_owned()),
        ("completed", _) | (_, None) => None,
        (_, Some(reason)) => Some(match detail {
            Some(detail) => format!("the run failed: {reason}: {detail}"),
            None => format!("the run failed: {reason}"),
        }),
    }
}

/// The exact bytes of both streams. The answer's text is used only where it provably is those bytes.
async fn output(context: &Context, client: &Client, end: &RunEnd) -> Result<(), Failure> {
    if is_exact(&end.stdout, &end.stderr, end.output_bytes) {
        context.console.raw_out(end.stdout.as_bytes())?;
        return context.console.raw_err(end.stderr.as_bytes());
    }
    let path = ["v1", "runs", &end.run_id, "output"];
    let of = |stream: &str| vec![("stream", stream.to_owned())];
    client
        .bytes(&path, &of("stdout"), |piece| context.console.raw_out(piece))
        .await?;
    client
        .bytes(&path, &of("stderr"), |piece| context.console.raw_err(piece))
        .await
}

/// Nothing was removed (the lengths agree) and nothing replaced (no replacement character).
fn is_exact(stdout: &str, stderr: &str, output_bytes: u64) -> bool {
    let length = u64::try_from(stdout.len() + stderr.len()).unwrap_or(u64::MAX);
    length == output_bytes && !stdout.contains('\u{fffd}') && !stderr.contains('\u{fffd}')
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ExecArgs,
    }

    fn body(line: &[&str]) -> Value {
        let args = Line::try_parse_from(std::iter::once(&"exec").chain(line))
            .unwrap()
            .args;
        body_of(&args).unwrap()
    }

    #[test]
    fn flags_become_the_members_of_the_call() {
        assert_eq!(
            body(&["--", "git", "status", "--short"]),
            json!({"argv": ["git", "status", "--short"]})
        );
        assert_eq!(
            body(&[
                "-c",
                "a | b",
                "--host",
                "gateway",
                "--agent",
                "build",
                "--session",
                "s",
                "--workdir",
                "/tmp",
                "--env",
                "A=b=c",
                "--timeout",
                "10m",
                "--background",
                "--ask",
                "always",
                "--security",
                "allowlist"
            ]),
            json!({"command": "a | b", "host": "gateway", "agentId": "build", "sessionKey": "s", "workdir": "/tmp",
                "env": {"A": "b=c"}, "timeoutMs": 600_000, "background": true, "ask": "always", "security": "allowlist"})
        );
    }

    #[test]
    fn a_home_directory_is_left_to_the_server() {
        assert_eq!(
            body(&["--workdir", "~/x", "--", "ls"]),
            json!({"argv": ["ls"], "workdir": "~/x"})
        );
    }

    #[test]
    fn fractions_of_seconds_are_kept() {
        assert_eq!(millis(Duration::from_millis(1500)), json!(1500));
    }

    #[test]
    fn wrong_calls_are_refused() {
        for line in [
            &[][..],
            &["-c", "x", "--", "y"],
            &["--env", "=x", "--", "y"],
            &["--env", "novalue", "--", "y"],
            &["--timeout", "5", "--", "y"],
            &["--host", "example.com", "--", "y"],
            &["--agent", "*", "--", "y"],
            &["--no-wiat", "git"],
        ] {
            assert!(
                Line::try_parse_from(std::iter::once(&"exec").chain(line)).is_err(),
                "{line:?}"
            );
        }
    }

    #[test]
    fn text_counts_as_exact_only_when_nothing_was_removed_or_replaced() {
        assert!(is_exact("ab", "c", 3));
        assert!(is_exact("", "", 0));
        assert!(!is_exact("ab", "", 3));
        assert!(!is_exact("\u{fffd}", "", 3));
    }
}
