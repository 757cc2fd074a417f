//! `countersign events`: what happened, and what happens. [`super::story`] has the sentences.

use serde_json::Value;

use countersign_domain::{AgentId, RunId, SessionKey, intended};
use countersign_ledger::events::EventType;
use countersign_policy::command::redaction;
use countersign_wire::{event::EventBody, run::RunBody};

use super::{
    candidates,
    client::Query,
    console::{Console, Format},
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    follow, ids,
    layout::{self, Output},
    moment::{self, Period},
    pager,
    story::Story,
    table::Table,
    value,
};

/// So many runs are looked up whose beginnings are not among the events.
const MOST_LOOKED_UP: usize = 20;

/// Show the retained events, or follow new ones
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign events --types exec.denied --since 1h
  countersign events --json --limit 20
  countersign events --follow --since 10m --types exec,policy
  countersign events --raw --types exec.finished
  countersign events --follow --run RUN

The newest come first, as in every list; --oldest-first reads as a story, and so do --follow and
--after, which go on from an event. --limit shows the newest of those that fit; with --after, the
first ones after that event. A run is one line, where its first event stands; --wide has ids and
times in full.")]
pub(crate) struct EventsArgs {
    /// Stay and show events as they come
    #[arg(long, short)]
    follow: bool,
    /// Only types that begin with one of these, e.g. exec,policy
    #[arg(long, value_delimiter = ',', value_name = "PREFIX", add = candidates::event_types())]
    types: Vec<String>,
    /// Only this agent's
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Only this run's; a unique part of its id of 8 characters or more is enough
    #[arg(long, value_name = "ID", value_parser = ids::parse_run, add = candidates::runs())]
    run: Option<RunId>,
    /// Only events after this sequence number, the first ones of them
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Without --follow: at most this many, the newest ones
    #[arg(long, default_value_t = 100_000, value_parser = layout::parse_limit)]
    limit: usize,
    #[command(flatten)]
    period: Period,
    /// Show the members of each event instead of sentences
    #[arg(long)]
    raw: bool,
    /// In the order in which they happened
    #[arg(long, conflicts_with = "follow")]
    oldest_first: bool,
    /// The newest first, also with --after
    #[arg(long, hide = true, conflicts_with_all = ["follow", "oldest_first"])]
    newest_first: bool,
    /// Show full ids and times with their date and zone
    #[arg(long)]
    wide: bool,
    /// Print only the numbers of the events, one a line, as --after takes them
    #[arg(short, long, value_name = "name", conflicts_with_all = ["raw", "json", "wide"], hide_possible_values = true)]
    output: Option<Output>,
}

pub(crate) async fn run(context: &Context, args: EventsArgs) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    warn_of_unknown(context.console, &args.types);
    let mut printer = Printer::of(context, &args);
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
    let run = args.run.as_ref().map(ids::run).transpose()?;
    query.extend(run.map(|run| ("runId", run)));
    query.extend(args.period.query(context.clock.now()));
    let after = args.after.map(|after| after.to_string());
    if args.follow {
        if args.period.ends() {
            return Err(Failure::usage(
                "--until goes without --follow, which ends with Ctrl-C",
            ));
        }
        // A token that can only read answers nothing.
        query.push(("approver", "false".to_owned()));
        let stream = client.events(&query, after.as_deref()).await?;
        let show = async |event: &Value| printer.show(context.console, event);
        return follow::follow(context, &client, &query, stream, show).await;
    }
    // What goes on from an event is read in order.
    let reads_on = args.oldest_first || (after.is_some() && !args.newest_first);
    let is_newest = after.is_none();
    match after {
        Some(after) => query.push(("after", after)),
        None => query.push(("order", "newest".to_owned())),
    }
    let mut events: Vec<Value> = client.list(&["v1", "events"], &query, args.limit).await?;
    if let Printer::Sentences(story) = &mut printer {
        for run in story.unknown_runs(&events).into_iter().take(MOST_LOOKED_UP) {
            // A run that is gone stays a number.
            if let Ok(found) = client.get::<RunBody>(&["v1", "runs", &run], &Vec::new()).await {
                story.call(run, found.agent_id.as_str(), &found.display_text);
            }
        }
    }
    // A story is told in order, whichever way it is read.
    if is_newest {
        events.reverse();
    }
    printer.show_all(context, &events, reads_on)?;
    Ok(ExitStatus::SUCCESS)
}

/// Says which prefixes no event type has: nothing would ever be shown for them.
fn warn_of_unknown(console: Console, types: &[String]) {
    let known = || EventType::ALL.iter().map(|known| known.as_str());
    for prefix in types {
        if known().any(|known| known.starts_with(prefix.as_str())) {
            continue;
        }
        console.note(&format!(
            "warning[unknown-type]: no event type begins with {}",
            value::visible(prefix)
        ));
        match intended(prefix, known()) {
            Some(meant) => console.hint(&format!("countersign events --types {meant}")),
            None => console.note(&format!(
                "the types are {}",
                known().collect::<Vec<_>>().join(", ")
            )),
        }
    }
}

/// How events are printed.
enum Printer {
    /// As JSON lines.
    Json,
    /// Their members, a line each.
    Raw,
    /// Their numbers.
    Names,
    /// In sentences.
    Sentences(Box<Story>),
}

impl Printer {
    fn of(context: &Context, args: &EventsArgs) -> Self {
        match (context.console.format(), args.output, args.raw) {
            (Format::Json, ..) => Self::Json,
            (Format::People, Some(Output::Name), _) => Self::Names,
            (Format::People, None, true) => Self::Raw,
            (Format::People, None, false) => {
                Self::Sentences(Box::new(Story::new(context.clock.now(), args.wide)))
            }
        }
    }

    /// Prints an event as it comes.
    fn show(&mut self, console: Console, event: &Value) -> Result<(), Failure> {
        match self {
            Self::Json => console.json_line(event),
            Self::Raw => console.line(&line(event)),
            Self::Names => event
                .get("seq")
                .map_or(Ok(()), |seq| console.line(&value::spelled(seq))),
            Self::Sentences(story) => story.goes_on(event).map_or(Ok(()), |line| console.line(&line)),
        }
    }

    /// Prints all of them, which are in the order in which they happened; those of a run together.
    fn show_all(&mut self, context: &Context, events: &[Value], oldest_first: bool) -> Result<(), Failure> {
        let mut lines = match self {
            // Documents go through no pager.
            Self::Json => {
                let show = |event: &Value| context.console.json_line(event);
                return if oldest_first {
                    events.iter().try_for_each(show)
                } else {
                    events.iter().rev().try_for_each(show)
                };
            }
            Self::Raw => events.iter().map(line).collect(),
            Self::Names => {
                let numbers = events.iter().filter_map(|event| event.get("seq"));
                numbers.map(value::spelled).collect()
            }
            Self::Sentences(story) => story.told(events),
        };
        if lines.is_empty() {
            context.console.note("no events");
        }
        if !oldest_first {
            lines.reverse();
        }
        pager::print(context, &lines)
    }
}

fn line(event: &Value) -> String {
    // What is no event is shown as one without a number and a type.
    let EventBody {
        seq,
        ts,
        at_ms: _,
        r#type: kind,
        members,
    } = countersign_wire::read(event).unwrap_or_default();
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
    table.row([
        value::shown(seq),
        ts.map(moment::with_zone).unwrap_or_default(),
        format!("{kind:24}"),
    ]);
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
