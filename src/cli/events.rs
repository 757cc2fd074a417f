//! `countersign events`: what happened, and what happens.

use serde::Deserialize as _;
use serde_json::Value;

use countersign_domain::{AgentId, RunId, SessionKey};
use countersign_policy::command::redaction;
use countersign_wire::event::EventBody;

use super::{
    client::Query,
    console::{Console, Format},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    follow,
    table::Table,
    value,
};

/// Show the retained events, or follow new ones
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign events --types exec.denied
  countersign events --json --limit 20
  countersign events --follow --types exec,policy
  countersign events --follow --run RUN")]
pub(crate) struct EventsArgs {
    /// Stay and show events as they come
    #[arg(long, short)]
    follow: bool,
    /// Only types that begin with one of these, e.g. exec,policy
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    types: Vec<String>,
    /// Only this agent's
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Only this run's
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,
    /// Only events after this sequence number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Without --follow: at most this many
    #[arg(long, default_value_t = 100_000)]
    limit: usize,
}

pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    let mut query: Query = Vec::new();
    if !args.types.is_empty() {
        // A caller who follows always wants to know that the server ends.
        let always: &[&str] = if args.follow { &["server.shutdown"] } else { &[] };
        let types: Vec<&str> = args
            .types
            .iter()
            .map(String::as_str)
            .chain(always.iter().copied())
            .collect();
        query.push(("types", types.join(",")));
    }
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    query.extend(args.run.map(|run| ("runId", run.to_string())));
    let after = args.after.map(|after| after.to_string());
    if args.follow {
        // A token that can only read answers nothing.
        query.push(("approver", "false".to_owned()));
        let stream = client.events(&query, after.as_deref()).await?;
        let show = async |event: &Value| show(context.console, event);
        return follow::follow(context, &client, &query, stream, show).await;
    }
    // Without a starting point the page begins with the oldest retained event.
    query.push(("after", after.unwrap_or_else(|| "0".to_owned())));
    for event in client.list(&["v1", "events"], &query, args.limit).await? {
        show(context.console, &event)?;
    }
    Ok(ExitStatus::SUCCESS)
}

fn show(console: Console, event: &Value) -> Result<(), Failure> {
    match console.format() {
        Format::Json => console.json_line(event),
        Format::People => console.line(&line(event)),
    }
}

fn line(event: &Value) -> String {
    // What is no event is shown as one without a number and a type.
    let EventBody {
        seq,
        ts,
        r#type: kind,
        members,
    } = EventBody::deserialize(event).unwrap_or_default();
    let mut details = String::new();
    for (name, member) in members {
        if name != "tail" {
            details.push_str(&name);
            details.push('=');
            details.push_str(&redaction::masked(&value::spelled(&member)));
            details.push(' ');
        }
    }
    let mut table = Table::without_header();
    table.row([value::shown(seq), value::moment(ts), format!("{kind:24}")]);
    let details = value::visible(details.trim_end());
    format!("{}  {details}", table.lines().concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_number_type_and_members_but_no_output() {
        let event = json!({"seq": 7, "ts": 0, "type": "exec.finished", "runId": "r", "exitCode": 0, "tail": "secret"});
        let line = line(&event);
        assert!(line.starts_with("7  "), "{line}");
        assert!(line.ends_with("exec.finished  runId=r exitCode=0"), "{line}");
    }

    #[test]
    fn a_line_masks_what_looks_like_a_secret() {
        let event = json!({"seq": 8, "ts": 0, "type": "exec.started", "command": "x --token abcdef0123"});
        assert!(line(&event).ends_with("command=x --token ⟨secret of 10 characters⟩"));
    }
}
