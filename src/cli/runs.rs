//! `countersign runs`: the history, one run, its output, its end.

use std::time::Duration;

use serde_json::{Value, json};

use countersign_domain::{AgentId, Host, OutputStream, RunId, SessionKey, UnixMillis};

use super::{
    client::{Client, Query},
    console::Format,
    context::Context,
    discover::Role,
    duration::parse_duration,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    terminal_text, value,
};

/// Look at what ran
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign runs list --status denied --since 2h
  countersign runs show RUN
  countersign runs output RUN --stream stdout > result.bin
  countersign runs cancel RUN")]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    #[command(after_help = "Examples:
  countersign runs list --agent main --limit 10
  countersign runs list --search git --since 1d --json")]
    List(ListArgs),
    /// Show one run
    #[command(after_help = "Examples:
  countersign runs show RUN")]
    Show {
        /// Its id
        run: RunId,
    },
    /// Print what it wrote: its exact bytes, or for a terminal the text with control characters spelled out
    #[command(after_help = "Examples:
  countersign runs output RUN > everything.bin
  countersign runs output RUN --stream stderr
  countersign runs output RUN --raw     # a terminal gets the exact bytes too")]
    Output {
        /// Its id
        run: RunId,
        /// Only stdout or stderr
        #[arg(long)]
        stream: Option<OutputStream>,
        /// Send the exact bytes to a terminal too, which obeys what is in them
        #[arg(long)]
        raw: bool,
    },
    /// Kill it, or withdraw its question
    #[command(after_help = "Examples:
  countersign runs cancel RUN")]
    Cancel {
        /// Its id
        run: RunId,
    },
}

/// Filters of the list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// queued, approval-pending, running, completed, failed, denied, cancelled or lost
    #[arg(long)]
    status: Option<String>,
    /// Only this agent's
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Only on this host
    #[arg(long)]
    host: Option<Host>,
    /// Only on this node, by its whole id
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Only commands that contain this text
    #[arg(long = "search", value_name = "TEXT")]
    search: Option<String>,
    /// Only runs of the last …
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    since: Option<Duration>,
    /// At most this many
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

pub(crate) async fn run(context: &Context, command: RunsCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        RunsCommand::List(args) => list(context, &client, args).await,
        RunsCommand::Show { run } => show(context, &client, &run).await,
        RunsCommand::Output { run, stream, raw } => {
            let query: Query = stream
                .map(|stream| ("stream", stream.to_string()))
                .into_iter()
                .collect();
            let path = ["v1", "runs", run.as_str(), "output"];
            output(context, &client, &path, &query, raw).await?;
            Ok(ExitStatus::SUCCESS)
        }
        RunsCommand::Cancel { run } => {
            let cancelled = client
                .post(&["v1", "runs", run.as_str(), "cancel"], &json!({}))
                .await?;
            match context.console.format() {
                Format::Json => context.console.document(&cancelled)?,
                Format::People => context
                    .console
                    .line(&format!("{run} is {}", value::string(&cancelled, "status")))?,
            }
            Ok(ExitStatus::SUCCESS)
        }
    }
}

/// Prints what a command wrote: its exact bytes, but for a terminal, which would obey them.
async fn output(
    context: &Context,
    client: &Client,
    path: &[&str],
    query: &Query,
    raw: bool,
) -> Result<(), Failure> {
    let console = context.console;
    if raw || !console.is_terminal() {
        return client.bytes(path, query, |piece| console.raw_out(piece)).await;
    }
    let mut output = terminal_text::Output::default();
    client
        .bytes(path, query, |piece| {
            console.raw_out(output.piece(piece).as_bytes())
        })
        .await?;
    console.raw_out(output.end().as_bytes())
}

async fn list(context: &Context, client: &Client, args: ListArgs) -> Result<ExitStatus, Failure> {
    let mut query: Query = Vec::new();
    query.extend(args.status.map(|status| ("status", status)));
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    query.extend(args.host.map(|host| ("host", host.to_string())));
    query.extend(args.node.map(|node| ("nodeId", node)));
    query.extend(args.search.map(|text| ("q", text)));
    query.extend(
        args.since
            .map(|since| ("since", start_of(context.clock.now(), since))),
    );
    let items = client.list(&["v1", "runs"], &query, args.limit).await?;
    if context.console.format() == Format::Json {
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::new(&["RUN", "CREATED", "STATUS", "CODE", "AGENT", "HOST", "COMMAND"]);
    for run in &items {
        table.row([
            value::text(run, "runId"),
            value::time(run, "createdAtMs"),
            value::text(run, "status"),
            how_it_ended(run),
            value::text(run, "agentId"),
            value::text(run, "host"),
            value::masked_command(run),
        ]);
    }
    context.console.table(&table, "no runs")?;
    Ok(ExitStatus::SUCCESS)
}

fn start_of(now: UnixMillis, since: Duration) -> String {
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    now.get().saturating_sub(millis).max(0).to_string()
}

fn how_it_ended(run: &Value) -> String {
    ["exitCode", "exitSignal", "reason"]
        .iter()
        .map(|member| value::text(run, member))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

async fn show(context: &Context, client: &Client, run: &RunId) -> Result<ExitStatus, Failure> {
    let run = client.get(&["v1", "runs", run.as_str()], &Vec::new()).await?;
    if context.console.format() == Format::Json {
        context.console.document(&run)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::without_header();
    table.fact("run", &value::text(&run, "runId"));
    table.fact("command", &value::masked_command(&run));
    if let Some(decision) = run.get("decision") {
        let (verdict, by) = (value::text(decision, "verdict"), value::text(decision, "by"));
        table.fact("decision", &format!("{verdict}, by {by}"));
    }
    for member in [
        "status",
        "reason",
        "detail",
        "exitCode",
        "exitSignal",
        "timedOut",
        "durationMs",
        "host",
        "nodeId",
        "isolation",
        "binding",
        "scripts",
        "agentId",
        "sessionKey",
        "cwd",
        "envNames",
        "input",
        "security",
        "ask",
        "approvalId",
        "sessionId",
        "pid",
        "outputBytes",
        "truncated",
    ] {
        if run.get(member).is_some() {
            table.fact(member, &value::text(&run, member));
        }
    }
    for member in ["createdAtMs", "startedAtMs", "endedAtMs"] {
        if run.get(member).is_some() {
            table.fact(member.trim_end_matches("AtMs"), &value::time(&run, member));
        }
    }
    if let Some(by) = run.get("requestedBy") {
        table.fact("asked by", &value::text(by, "name"));
    }
    context.console.table(&table, "")?;
    context.console.hint(&format!(
        "countersign runs output {}",
        value::string(&run, "runId")
    ));
    Ok(ExitStatus::SUCCESS)
}
