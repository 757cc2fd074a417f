//! `countersign stop` and `countersign resume`: the emergency stop.

use serde_json::{Value, json};

use countersign_domain::{ApprovalStatus, TerminalReason};
use countersign_wire::{
    approval::ApprovalBody,
    sentence,
    stop::{ResumeAnswerBody, StillRunning, StopAnswerBody},
};

use super::{
    client::{Client, Query, read},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    ids, moment,
    table::Table,
    value,
};

/// So many questions are looked through for those that the stop denied.
const MOST_LOOKED_AT: usize = 200;
/// So many commands are named; of more it is said how many.
const MOST_NAMED: usize = 10;

/// Why everything is stopped, and what becomes of what runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign stop --reason 'keys leaked'
  countersign stop --kill --reason 'keys leaked'

Nothing starts any more, however it is asked for, and every question that waits ends as denied. What runs goes on
and is listed, unless --kill ends it. In force at once, even on a full disk, and after a restart.
Takes a token with approve or admin. `countersign resume` lets everything go on. What the stop denied
and killed is named, at most 10 of each.")]
pub(crate) struct StopArgs {
    /// Why, for those who are refused and for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Kill what runs, too
    #[arg(long)]
    kill: bool,
}

/// Why everything goes on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign resume --reason 'keys changed'

Takes a token with admin. With [approvals] widening = \"ask\" the first call proposes it, and the same
call by an admin of another owner accepts it. What the stop denied stays denied.")]
pub(crate) struct ResumeArgs {
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(crate) async fn stop(context: &Context, args: StopArgs) -> Result<ExitStatus, Failure> {
    let StopArgs { reason, kill } = args;
    let body = json!({ "reason": reason, "kill": kill });
    let client = context.client(Role::Operator)?;
    let answer: Value = client.post_patiently(&["v1", "stop"], &body).await?;
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let answer: StopAnswerBody = read(answer)?;
    context.console.line(&headline(&answer))?;
    if !answer.durable {
        context
            .console
            .note("the record cannot be written now: the stop is in force, and ends if the server ends before it can");
    }
    // Afterwards: nothing may hold the stop up.
    name(context, "denied", "question", &denied(&client, &answer).await)?;
    let killed: Vec<String> = answer
        .killed
        .iter()
        .map(|run| {
            let command = run.display_text.as_deref().unwrap_or_default();
            format!("{}: {}", run.agent_id, sentence::command_line(command).0)
        })
        .collect();
    name(context, "killed", "run", &killed)?;
    if answer.running.is_empty() {
        context.console.line("nothing runs")?;
    } else {
        let running = value::counted(answer.running.len(), "run");
        let goes_on = if answer.running.len() == 1 { "goes" } else { "go" };
        context.console.line(&format!("{running} {goes_on} on:"))?;
        context.console.table(&table(context, answer.running), "")?;
        context
            .console
            .hint("countersign stop --kill --reason TEXT   (ends all of them; countersign runs cancel RUN ends one)");
    }
    context
        .console
        .hint("countersign resume --reason TEXT   (lets everything go on)");
    Ok(ExitStatus::SUCCESS)
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<ExitStatus, Failure> {
    let body = json!({ "reason": args.reason });
    let answer: Value = context
        .client(Role::Operator)?
        .post(&["v1", "resume"], &body)
        .await?;
    let ResumeAnswerBody { stopped, resumed, .. } = read(answer.clone())?;
    let exit = if stopped {
        ExitStatus::PENDING
    } else {
        ExitStatus::SUCCESS
    };
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(exit);
    }
    context.console.line(match (stopped, resumed) {
        (true, _) => "everything is still stopped: it takes an admin of another owner",
        (false, true) => "everything goes on",
        (false, false) => "nothing was stopped",
    })?;
    if stopped {
        context
            .console
            .hint("countersign resume --reason TEXT   (an admin of another owner says the same)");
    }
    Ok(exit)
}

/// The questions that the stop denied, as far as the newest are among them. Nothing where this token may not read them, or where
/// everything was stopped before.
async fn denied(client: &Client, answer: &StopAnswerBody) -> Vec<String> {
    if answer.already {
        return Vec::new();
    }
    let query: Query = vec![("status", ApprovalStatus::Denied.to_string())];
    let newest = client.list::<ApprovalBody>(&["v1", "approvals"], &query, MOST_LOOKED_AT);
    let newest = newest.await.unwrap_or_default();
    let by_stop = |asked: &&ApprovalBody| {
        asked
            .terminal_reason
            .as_ref()
            .is_some_and(|reason| *reason == TerminalReason::Stopped)
            && asked.resolved_at_ms.is_some_and(|at| at >= answer.stop.at_ms)
    };
    let line = |asked: &ApprovalBody| {
        let command = sentence::command_line(&asked.command).0;
        format!("{}: {command}", asked.agent_id)
    };
    newest.iter().filter(by_stop).map(line).collect()
}

/// Says how many there are, and which, a line each.
fn name(context: &Context, verb: &str, what: &str, lines: &[String]) -> Result<(), Failure> {
    let console = context.console;
    if lines.is_empty() {
        return Ok(());
    }
    console.line(&format!("{verb} {}:", value::counted(lines.len(), what)))?;
    let mut table = Table::without_header();
    for line in lines.iter().take(MOST_NAMED) {
        table.row(["", line.as_str()]);
    }
    console.table(&table, "")?;
    let more = lines.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        console.line(&format!("  and {more} more"))?;
    }
    Ok(())
}

/// Who stopped everything, when and why.
fn headline(StopAnswerBody { already, stop, .. }: &StopAnswerBody) -> String {
    let before = if *already {
        "everything was stopped already"
    } else {
        "everything is stopped"
    };
    let (since, by) = (moment::with_zone(stop.at_ms), &stop.by.name);
    value::visible(&format!("{before}: since {since}, by {by}: {}", stop.reason))
}

fn table(context: &Context, running: Vec<StillRunning>) -> Table {
    let now = context.clock.now();
    let mut table = Table::new(&["RUN", "AGENT", "HOST", "SINCE", "COMMAND"]);
    for run in running {
        table.row([
            ids::short(run.run_id.as_str()).to_owned(),
            run.agent_id.to_string(),
            run.host.to_string(),
            run.started_at_ms
                .map(|at| moment::from_now(now, at))
                .unwrap_or_default(),
            run.display_text.unwrap_or_default(),
        ]);
    }
    table
}
