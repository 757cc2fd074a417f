//! `countersign stop` and `countersign resume`: the emergency stop.

use serde_json::{Value, json};

use super::{
    console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure, table::Table,
    value,
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
    let answer = context
        .client(Role::Operator)?
        .post_patiently(&["v1", "stop"], &body)
        .await?;
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(ExitStatus::SUCCESS);
    }
    context.console.line(&headline(&answer))?;
    if answer.get("durable") == Some(&Value::Bool(false)) {
        context
            .console
            .note("the record cannot be written now: the stop is in force, and ends if the server ends before it can");
    }
    let killed = runs(&answer, "killed");
    if !killed.is_empty() {
        context.console.line(&format!("killed: {}", killed.len()))?;
    }
    let running = runs(&answer, "running");
    if running.is_empty() {
        context.console.line("nothing runs")?;
    } else {
        context.console.line("still runs:")?;
        context.console.table(&table(running), "")?;
        context
            .console
            .hint("countersign stop --kill --reason TEXT ends all of them, countersign runs cancel RUN one");
    }
    context
        .console
        .hint("countersign resume --reason TEXT lets everything go on");
    Ok(ExitStatus::SUCCESS)
}

pub(crate) async fn resume(context: &Context, args: ResumeArgs) -> Result<ExitStatus, Failure> {
    let body = json!({ "reason": args.reason });
    let answer: Value = context
        .client(Role::Operator)?
        .post(&["v1", "resume"], &body)
        .await?;
    let is_stopped = answer.get("stopped") == Some(&Value::Bool(true));
    let exit = if is_stopped {
        ExitStatus::PENDING
    } else {
        ExitStatus::SUCCESS
    };
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(exit);
    }
    let is_resumed = answer.get("resumed") == Some(&Value::Bool(true));
    context.console.line(match (is_stopped, is_resumed) {
        (true, _) => "everything is still stopped: it takes an admin of another owner",
        (false, true) => "everything goes on",
        (false, false) => "nothing was stopped",
    })?;
    if is_stopped {
        context
            .console
            .hint("they say the same: countersign resume --reason TEXT");
    }
    Ok(exit)
}

/// Who stopped everything, when and why.
fn headline(answer: &Value) -> String {
    let stop = answer.get("stop").unwrap_or(&Value::Null);
    let by = stop
        .get("by")
        .map(|by| value::text(by, "name"))
        .unwrap_or_default();
    let before = if answer.get("already") == Some(&Value::Bool(true)) {
        "everything was stopped already"
    } else {
        "everything is stopped"
    };
    value::visible(&format!(
        "{before}: since {}, by {by}: {}",
        value::time(stop, "atMs"),
        value::text(stop, "reason")
    ))
}

fn runs<'a>(answer: &'a Value, member: &str) -> &'a [Value] {
    answer
        .get(member)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn table(running: &[Value]) -> Table {
    let mut table = Table::new(&["RUN", "AGENT", "HOST", "SINCE", "COMMAND"]);
    for run in running {
        table.row([
            value::text(run, "runId"),
            value::text(run, "agentId"),
            value::text(run, "host"),
            value::time(run, "startedAtMs"),
            value::text(run, "displayText"),
        ]);
    }
    table
}
