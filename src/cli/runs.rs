//! `countersign runs`: the history, one run, its output, its end.

use serde_json::{Value, json};

use countersign_domain::{AgentId, DecidedBy, Host, OutputStream, RunId, RunVerdict, SessionKey};
use countersign_wire::{
    approval::ApprovalView,
    ruling::RulingBody,
    run::{DecisionBody, RunBody, RunBriefBody, RunDetail},
    sentence, words,
};

use super::{
    candidates,
    client::{Client, Query, read},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    explain,
    failure::Failure,
    ids,
    layout::{self, Layout},
    moment::{self, Period},
    nodes, replay, state,
    table::Table,
    terminal_text,
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
        #[arg(value_parser = ids::parse_run, add = candidates::runs())]
        run: RunId,
    },
    /// Print what it wrote: its exact bytes, or for a terminal the text with control characters spelled out
    #[command(after_help = "Examples:
  countersign runs output RUN > everything.bin
  countersign runs output RUN --stream stderr
  countersign runs output RUN --raw     # a terminal gets the exact bytes too")]
    Output {
        /// Its id, or a unique part of 8 characters or more
        #[arg(value_parser = ids::parse_run, add = candidates::runs())]
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
        #[arg(value_parser = ids::parse_run, add = candidates::runs())]
        run: RunId,
    },
}

/// Filters of the list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// queued, approval-pending, running, completed, failed, denied, cancelled or lost
    #[arg(long, add = candidates::run_statuses())]
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
    #[arg(long, default_value_t = 50, value_parser = layout::parse_limit)]
    limit: usize,
}

pub(crate) async fn run(context: &Context, command: RunsCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        RunsCommand::List(args) => list(context, &client, args).await,
        RunsCommand::Show { run } => show(context, &client, &ids::run(&run)?).await,
        RunsCommand::Output { run, stream, raw } => {
            let query: Query = stream
                .map(|stream| ("stream", stream.to_string()))
                .into_iter()
                .collect();
            let run = ids::run(&run)?;
            let path = ["v1", "runs", &run, "output"];
            output(context, &client, &path, &query, raw).await?;
            Ok(ExitStatus::SUCCESS)
        }
        RunsCommand::Replay(args) => {
            replay::run(context, &client, args).await?;
            Ok(ExitStatus::SUCCESS)
        }
        RunsCommand::Cancel { run } => {
            let run = ids::run(&run)?;
            let cancelled: Value = client.post(&["v1", "runs", &run, "cancel"], &json!({})).await?;
            match context.console.format() {
                Format::Json => context.console.document(&cancelled)?,
                Format::People => {
                    let cancelled: RunBody = read(cancelled)?;
                    let id = ids::short(cancelled.run_id.as_str());
                    context.console.line(&format!("{id} is {}", cancelled.status))?;
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
    // As the table has it.
    let status = args.status.map(|status| match status.as_str() {
        "waiting" => "approval-pending".to_owned(),
        _ => status,
    });
    query.extend(status.map(|status| ("status", status)));
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    query.extend(args.host.map(|host| ("host", host.to_string())));
    if let Some(node) = args.node {
        query.push(("nodeId", nodes::node_id(client, node).await?));
    }
    query.extend(args.search.map(|text| ("q", text)));
    query.extend(args.period.query(context.clock.now()));
    if context.console.format() == Format::Json {
        let items: Vec<Value> = client.list(&["v1", "runs"], &query, args.limit).await?;
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    query.push(("view", ApprovalView::Brief.to_string()));
    let runs: Vec<RunBriefBody> = client.list(&["v1", "runs"], &query, args.limit).await?;
    let mut table = Table::new(&["RUN", "CREATED", "STATUS", "CODE", "AGENT", "HOST", "COMMAND"])
        .plainly("HOST", "gateway")
        .keeping("STATUS")
        .keeping("CODE")
        .with_states("STATUS", state::tone);
    for run in &runs {
        table.row([
            layout.id(run.run_id.as_str()),
            layout.time(context, run.created_at_ms),
            layout.either(&run.status, state::of_run(&run.status)),
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

async fn show(context: &Context, client: &Client, run: &str) -> Result<ExitStatus, Failure> {
    let run: Value = client.get(&["v1", "runs", run], &Vec::new()).await?;
    if context.console.format() == Format::Json {
        context.console.document(&run)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let RunDetail {
        run,
        decided_by,
        user_reason,
        ..
    } = read(run)?;
    let now = context.clock.now();
    let mut table = Table::without_header();
    table.fact("run", run.run_id.as_str());
    table.fact("command", &run.display_text);
    table.fact("status", &run.status);
    table.each("decided", decided_in_words(&run, decided_by.as_ref()));
    table.each("in their words", &user_reason);
    table.each("reason", &run.reason);
    table.each("detail", &run.detail);
    table.each("exitCode", run.exit_code);
    table.each("exitSignal", &run.exit_signal);
    if run.timed_out {
        table.fact("time limit", "it ran into it");
    }
    // What never started took no time.
    let took = run.duration_ms.filter(|_| run.started_at_ms.is_some());
    table.each("durationMs", took.map(sentence::duration));
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
    table.each("outputBytes", Some(run.output_bytes).filter(|bytes| *bytes > 0));
    if run.truncated {
        table.fact("truncated", "only the beginning and the end are kept");
    }
    table.fact("created", &moment::in_full(now, run.created_at_ms));
    table.fact("started", &moment::maybe_in_full(context, run.started_at_ms));
    table.fact("ended", &moment::maybe_in_full(context, run.ended_at_ms));
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
    } else if run.status == "approval-pending" {
        let approval = run.approval_id.as_ref().map(|id| id.slug().to_owned());
        for (verb, approval) in ["approve", "deny"].into_iter().zip(std::iter::repeat(&approval)) {
            if let Some(approval) = approval {
                context.console.hint(&format!("countersign {verb} {approval}"));
            }
        }
    } else if run.output_bytes > 0 || run.ended_at_ms.is_none() {
        let output = format!("countersign runs output {}", ids::short(run.run_id.as_str()));
        context.console.hint(&output);
    }
    Ok(ExitStatus::SUCCESS)
}

/// Who decided what: `denied by ann`, `allowed by policy`.
fn decided_in_words(run: &RunBody, by: Option<&RulingBody>) -> Option<String> {
    let DecisionBody { verdict, by: kind } = run.decision.as_ref()?;
    let what = if *verdict == RunVerdict::Deny {
        "denied"
    } else if *verdict == RunVerdict::Run {
        "allowed"
    } else {
        return Some("not yet: it waits for a person".to_owned());
    };
    let name = by.and_then(|by| by.name.as_deref());
    let who = match name {
        Some(name) => name.to_owned(),
        None => kind_in_words(kind),
    };
    Some(format!("{what} by {who}"))
}

fn kind_in_words(kind: &words::DecidedBy) -> String {
    if *kind == DecidedBy::Policy {
        "the policy, without a question".to_owned()
    } else if *kind == DecidedBy::Person {
        "a person".to_owned()
    } else if *kind == DecidedBy::Fallback {
        "askFallback, since nobody answered".to_owned()
    } else {
        kind.to_string()
    }
}
