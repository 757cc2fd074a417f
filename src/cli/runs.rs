//! `countersign runs`: the history, one run, its output, its end.

use serde_json::{Value, json};

use countersign_domain::{AgentId, Host, OutputStream, RunId, SessionKey};
use countersign_wire::{
    approval::ApprovalView,
    run::{DecisionBody, RunBody, RunBriefBody},
};

use super::{
    candidates,
    client::{Client, Query, read},
    console::Format,
    context::Context,
    discover::Role,
    duration::rough,
    exit::ExitStatus,
    explain,
    failure::Failure,
    layout::Layout,
    moment::Period,
    replay,
    table::Table,
    terminal_text, value,
};

/// Look at what ran
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign runs list --status denied --since 2h
  countersign runs show RUN
  countersign runs output RUN --stream stdout > result.bin
  countersign runs replay RUN
  countersign runs cancel RUN")]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    #[command(after_help = "Examples:
  countersign runs list --agent main --limit 10
  countersign runs list --search git --since 1d --json
  countersign runs list --status running -o name | xargs -n 1 countersign runs cancel
  countersign runs list --since 2026-11-23T00:00:00Z --until 1h")]
    #[command(alias = "ls")]
    List(ListArgs),
    /// Show one run
    #[command(after_help = "Examples:
  countersign runs show RUN")]
    Show {
        /// Its id, or a unique part of 8 characters or more
        #[arg(add = candidates::runs())]
        run: RunId,
    },
    /// Print what it wrote: its exact bytes, or for a terminal the text with control characters spelled out
    #[command(after_help = "Examples:
  countersign runs output RUN > everything.bin
  countersign runs output RUN --stream stderr
  countersign runs output RUN --raw     # a terminal gets the exact bytes too")]
    Output {
        /// Its id, or a unique part of 8 characters or more
        #[arg(add = candidates::runs())]
        run: RunId,
        /// Only stdout or stderr
        #[arg(long)]
        stream: Option<OutputStream>,
        /// Send the exact bytes to a terminal too, which obeys what is in them
        #[arg(long)]
        raw: bool,
    },
    /// Show what its terminal showed, again; in a pipe it is the recording (asciicast v3)
    #[command(after_help = "Examples:
  countersign runs replay RUN
  countersign runs replay RUN --speed 4 --idle 500ms
  countersign runs replay RUN > run.cast")]
    Replay(replay::ReplayArgs),
    /// Kill it, or withdraw its question
    #[command(after_help = "Examples:
  countersign runs cancel RUN")]
    Cancel {
        /// Its id, or a unique part of 8 characters or more
        #[arg(add = candidates::runs())]
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
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Only on this host
    #[arg(long)]
    host: Option<Host>,
    /// Only on this node, by its full id
    #[arg(long, value_name = "ID")]
    node: Option<String>,
    /// Only commands that contain this text
    #[arg(long = "search", value_name = "TEXT")]
    search: Option<String>,
    #[command(flatten)]
    period: Period,
    #[command(flatten)]
    layout: Layout,
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
        RunsCommand::Replay(args) => {
            replay::run(context, &client, args).await?;
            Ok(ExitStatus::SUCCESS)
        }
        RunsCommand::Cancel { run } => {
            let cancelled: Value = client
                .post(&["v1", "runs", run.as_str(), "cancel"], &json!({}))
                .await?;
            match context.console.format() {
                Format::Json => context.console.document(&cancelled)?,
                Format::People => {
                    let cancelled: RunBody = read(cancelled)?;
                    context.console.line(&format!("{run} is {}", cancelled.status))?;
                }
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
    let layout = args.layout;
    let mut query: Query = Vec::new();
    query.extend(args.status.map(|status| ("status", status)));
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    query.extend(args.host.map(|host| ("host", host.to_string())));
    query.extend(args.node.map(|node| ("nodeId", node)));
    query.extend(args.search.map(|text| ("q", text)));
    query.extend(args.period.query(context.clock.now()));
    if context.console.format() == Format::Json {
        let items: Vec<Value> = client.list(&["v1", "runs"], &query, args.limit).await?;
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    query.push(("view", ApprovalView::Brief.to_string()));
    let runs: Vec<RunBriefBody> = client.list(&["v1", "runs"], &query, args.limit).await?;
    let mut table = Table::new(&["RUN", "CREATED", "STATUS", "CODE", "AGENT", "HOST", "COMMAND"]);
    for run in &runs {
        table.row([
            layout.id(run.run_id.as_str(), value::short_end(run.run_id.as_str())),
            layout.time(run.created_at_ms, || {
                format!("{} ago", rough(context.clock.now().since(run.created_at_ms)))
            }),
            run.status.to_string(),
            how_it_ended(run),
            run.agent_id.to_string(),
            run.host.to_string(),
            run.line.clone(),
        ]);
    }
    let ids = runs.iter().map(|run| run.run_id.as_str());
    layout.print(context, ids, &table, "no runs")?;
    Ok(ExitStatus::SUCCESS)
}

fn how_it_ended(run: &RunBriefBody) -> String {
    let code = run.exit_code.map(|code| code.to_string());
    let signal = || run.exit_signal.clone();
    let reason = || run.reason.as_ref().map(ToString::to_string);
    code.or_else(signal).or_else(reason).unwrap_or_default()
}

async fn show(context: &Context, client: &Client, run: &RunId) -> Result<ExitStatus, Failure> {
    let run: Value = client.get(&["v1", "runs", run.as_str()], &Vec::new()).await?;
    if context.console.format() == Format::Json {
        context.console.document(&run)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let run: RunBody = read(run)?;
    let mut table = Table::without_header();
    table.fact("run", run.run_id.as_str());
    table.fact("command", &run.display_text);
    if let Some(DecisionBody { verdict, by }) = &run.decision {
        table.fact("decision", &format!("{verdict}, by {by}"));
    }
    table.fact("status", &run.status);
    table.each("reason", &run.reason);
    table.each("detail", &run.detail);
    table.each("exitCode", run.exit_code);
    table.each("exitSignal", &run.exit_signal);
    table.each("timedOut", [run.timed_out]);
    table.each("durationMs", run.duration_ms);
    table.each("host", [&run.host]);
    table.each("nodeId", &run.node_id);
    table.each("isolation", [&run.isolation]);
    table.each("binding", &run.binding);
    table.each("start", &run.start);
    table.each("scripts", &run.scripts);
    table.each("confined", &run.confined);
    let observed = run.observed.as_ref();
    table.each("observed", observed.and_then(|observed| observed.line.as_ref()));
    table.each("justification", &run.justification);
    table.each("contextUrl", &run.context_url);
    table.each("agentId", [&run.agent_id]);
    table.each("sessionKey", [&run.session_key]);
    table.fact("cwd", &run.cwd);
    table.each("envNames", &run.env_names);
    table.each("input", &run.input);
    table.each("security", [&run.security]);
    table.each("ask", [&run.ask]);
    table.each("approvalId", &run.approval_id);
    table.each("sessionId", &run.session_id);
    table.each("pid", run.pid);
    table.each("outputBytes", [run.output_bytes]);
    table.each("truncated", [run.truncated]);
    table.fact("created", &value::local(run.created_at_ms));
    table.each("started", run.started_at_ms.map(value::local));
    table.each("ended", run.ended_at_ms.map(value::local));
    table.fact("asked by", &run.requested_by.name);
    context.console.table(&table, "")?;
    if run.status == "denied" {
        let lines = match explain::call_of(&run) {
            Some(call) => explain::ways_out_of(client, &call).await,
            None => Vec::new(),
        };
        for line in lines {
            context.console.note(&line);
        }
    } else {
        let output = format!("countersign runs output {}", run.run_id);
        context.console.hint(&output);
    }
    Ok(ExitStatus::SUCCESS)
}
