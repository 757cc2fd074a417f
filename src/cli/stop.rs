//! `countersign stop` and `countersign resume`: the emergency stop.

use serde_json::{Value, json};

use countersign_wire::stop::{ResumeAnswerBody, StillRunning, StopAnswerBody};

use super::{
    client::read, console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure,
    table::Table, value,
};

/// Why everything is stopped, and what becomes of what runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign stop --reason 'keys leaked'
  countersign stop --kill --reason 'keys leaked'

Nothing starts any more, however it is asked for, and every question that waits ends as denied. What runs goes on
and is listed, unless --kill ends it. In force at once, even on a full disk, and after a restart.
Takes a token with approve or admin. `countersign resume` lets everything go on.")]
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
    let answer: Value = context
        .client(Role::Operator)?
        .post_patiently(&["v1", "stop"], &body)
        .await?;
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
    if !answer.killed.is_empty() {
        context
            .console
            .line(&format!("killed: {}", answer.killed.len()))?;
    }
    if answer.running.is_empty() {
        context.console.line("nothing runs")?;
    } else {
        context.console.line("still runs:")?;
        context.console.table(&table(answer.running), "")?;
        context.console.hint(
            "`countersign stop --kill --reason TEXT` ends all of them, `countersign runs cancel RUN` one",
        );
    }
    context
        .console
        .hint("`countersign resume --reason TEXT` lets everything go on");
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
            .hint("they say the same: `countersign resume --reason TEXT`");
    }
    Ok(exit)
}

/// Who stopped everything, when and why.
fn headline(StopAnswerBody { already, stop, .. }: &StopAnswerBody) -> String {
    let before = if *already {
        "everything was stopped already"
    } else {
        "everything is stopped"
    };
    let (since, by) = (value::local(stop.at_ms), &stop.by.name);
    value::visible(&format!("{before}: since {since}, by {by}: {}", stop.reason))
}

fn table(running: Vec<StillRunning>) -> Table {
    let mut table = Table::new(&["RUN", "AGENT", "HOST", "SINCE", "COMMAND"]);
    for run in running {
        table.row([
            run.run_id.to_string(),
            run.agent_id.to_string(),
            run.host.to_string(),
            run.started_at_ms.map(value::local).unwrap_or_default(),
            run.display_text.unwrap_or_default(),
        ]);
    }
    table
}
