//! `countersign approvals`: what waits for a person, and the answer.

use serde_json::{Value, json};

use countersign_domain::{AgentId, ApprovalDecision, SessionKey, UnixMillis};
use countersign_policy::command::display;

use super::{
    client::{Client, Query},
    console::{Console, Format, Tone},
    context::Context,
    discover::Role,
    duration::clock_face,
    exit::ExitStatus,
    failure::Failure,
    follow,
    table::Table,
    value,
};

/// An id is a UUID; anything shorter is a prefix of one.
const WHOLE_ID: usize = 36;
const SHORTEST_PREFIX: usize = 8;

/// See and answer what waits for a person
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign approvals list
  countersign approvals show 1a2b3c4d
  countersign approvals resolve 1a2b3c4d allow-once --reason 'reviewed the script'
  countersign approvals watch")]
pub(crate) enum ApprovalsCommand {
    /// List approvals
    #[command(after_help = "Examples:
  countersign approvals list
  countersign approvals list --status all --json")]
    List(ListArgs),
    /// Show one approval whole
    #[command(after_help = "Examples:
  countersign approvals show 1a2b3c4d")]
    Show {
        /// Its id, or a unique prefix of 8 characters or more
        id: String,
    },
    /// Answer one
    #[command(after_help = "Examples:
  countersign approvals resolve 1a2b3c4d deny --reason 'not on a Friday'")]
    Resolve(ResolveArgs),
    /// Show approvals as they come and are answered
    #[command(after_help = "Examples:
  countersign approvals watch")]
    Watch,
}

/// Filters of the list.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// pending, allowed, denied, expired, cancelled or all
    #[arg(long, default_value = "pending")]
    status: String,
    /// Only this agent's
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Only this session's
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// At most this many
    #[arg(long, default_value_t = 500)]
    limit: usize,
}

/// An answer.
#[derive(Debug, clap::Args)]
pub(crate) struct ResolveArgs {
    /// The approval's id, or a unique prefix of 8 characters or more
    id: String,
    /// allow-once, allow-always or deny
    decision: ApprovalDecision,
    /// Why; kept with the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// With allow-always: store this proposed pattern instead of the default ones; may be repeated
    #[arg(long = "pattern", value_name = "PATTERN")]
    patterns: Vec<String>,
}

pub(crate) async fn run(context: &Context, command: ApprovalsCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        ApprovalsCommand::List(args) => list(context, &client, args).await,
        ApprovalsCommand::Show { id } => show(context, &client, &id).await,
        ApprovalsCommand::Resolve(args) => resolve(context, &client, args).await,
        ApprovalsCommand::Watch => watch(context, &client).await,
    }
}

async fn list(context: &Context, client: &Client, args: ListArgs) -> Result<ExitStatus, Failure> {
    let mut query: Query = vec![("status", args.status)];
    query.extend(args.agent.map(|agent| ("agentId", agent.to_string())));
    query.extend(args.session.map(|session| ("sessionKey", session.to_string())));
    let items = client.list(&["v1", "approvals"], &query, args.limit).await?;
    if context.console.format() == Format::Json {
        context.console.document(&json!({ "items": items }))?;
        return Ok(ExitStatus::SUCCESS);
    }
    let mut table = Table::new(&["ID", "STATUS", "LEFT", "AGENT", "HOST", "COMMAND"]);
    for item in &items {
        table.row([
            value::text(item, "slug"),
            status(item),
            time_left(context, item),
            value::text(item, "agentId"),
            value::text(item, "host"),
            shown_command(item),
        ]);
    }
    context.console.table(&table, "nothing waits for a person")?;
    Ok(ExitStatus::SUCCESS)
}

async fn show(context: &Context, client: &Client, id: &str) -> Result<ExitStatus, Failure> {
    let approval = find(client, id).await?;
    if context.console.format() == Format::Json {
        context.console.document(&approval)?;
        return Ok(ExitStatus::SUCCESS);
    }
    // The command stands alone and whole: it is what the person answers for.
    context.console.line(&shown_command_whole(&approval))?;
    let display = approval.get("display");
    if display.and_then(|display| display.get("truncated")) == Some(&Value::Bool(true)) {
        context.console.line("")?;
        context.console.line("the whole text:")?;
        context
            .console
            .line(&display::exact(&value::command(&approval)))?;
    }
    context.console.table(&facts(context, &approval), "")?;
    if value::string(&approval, "status") == "pending" {
        let slug = value::string(&approval, "slug");
        context.console.hint(&format!(
            "countersign approvals resolve {slug} allow-once   (or allow-always, deny)"
        ));
    }
    Ok(ExitStatus::SUCCESS)
}

/// What a person should know about an approval besides the command itself.
pub(super) fn facts(context: &Context, approval: &Value) -> Table {
    let mut table = Table::without_header();
    table.fact("id", &value::text(approval, "id"));
    table.fact("status", &status(approval));
    table.fact("time left", &time_left(context, approval));
    table.fact("allowed by", &progress(approval).unwrap_or_default());
    table.fact("groups", &groups(approval).unwrap_or_default());
    for vote in approval
        .get("votes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let by = vote
            .get("by")
            .map(|by| value::text(by, "name"))
            .unwrap_or_default();
        let said = [value::text(vote, "decision"), value::text(vote, "reason")];
        table.fact("vote", format!("{by}: {}", said.join(" ")).trim_end());
    }
    for member in [
        "agentId",
        "sessionKey",
        "host",
        "nodeId",
        "cwd",
        "resolvedPath",
        "input",
        "binding",
        "bindingDetail",
        "scripts",
        "security",
        "ask",
        "askFallback",
    ] {
        table.fact(member, &value::text(approval, member));
    }
    variables(&mut table, approval);
    let part = |object: &str, member: &str| {
        approval
            .get(object)
            .map(|inner| value::text(inner, member))
            .unwrap_or_default()
    };
    parts(&mut table, approval, "part ");
    table.fact("asked by", &part("requestedBy", "name"));
    table.fact("why", &part("why", "detail"));
    table.fact(
        "rule",
        &format!("{} ({})", part("why", "rule"), part("why", "layer")),
    );
    table.fact("in place of", &value::text(approval, "revises"));
    table.fact("replaced by", &value::text(approval, "revisedBy"));
    table.fact("decided by", &part("resolvedBy", "name"));
    table.fact("decision", &value::text(approval, "decision"));
    table.fact("reason", &value::text(approval, "reason"));
    table.fact("answers", &value::text(approval, "allowedDecisions"));
    for pattern in approval
        .get("proposedPatterns")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let stored = if pattern.get("default") == Some(&Value::Bool(true)) {
            "always stores"
        } else {
            "could store"
        };
        let (path, arguments) = (
            value::text(pattern, "pattern"),
            value::text(pattern, "argPattern"),
        );
        table.fact(stored, format!("{path} {arguments}").trim_end());
        table.fact("note", &value::text(pattern, "note"));
    }
    for warning in approval
        .get("display")
        .and_then(|display| display.get("warnings"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        table.fact("warning", &value::text(warning, "message"));
    }
    table
}

/// The environment overrides: by name, and those that could decide what runs with their values.
fn variables(table: &mut Table, approval: &Value) {
    let names = approval.get("envNames").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| approval.get("envValues")?.get(name)?.as_str();
    let (shown, named): (Vec<&str>, Vec<&str>) = names.partition(|name| value(name).is_some());
    for name in shown {
        table.fact(
            "environment",
            &format!("{name}={}", value(name).unwrap_or_default()),
        );
    }
    if !named.is_empty() {
        table.fact("environment", &named.join(", "));
    }
    if let Some(omitted) = approval.get("envOmitted").and_then(Value::as_u64) {
        table.fact("environment", &format!("{omitted} more variables, not named"));
    }
}

/// The parts of a command, and below each those of the text that it hands to a shell.
fn parts(table: &mut Table, object: &Value, name: &str) {
    let segments = object.get("segments").and_then(Value::as_array);
    for (index, segment) in segments.into_iter().flatten().enumerate() {
        let name = format!("{name}{}", index + 1);
        let file = value::text(segment, "resolvedPath");
        let file = if file.is_empty() { "no such file" } else { &file };
        let covered = segment.get("match").map(|by| value::text(by, "kind"));
        let covered = covered.unwrap_or_default();
        table.fact(
            &name,
            &format!("{}  [{file}, {covered}]", value::command(segment)),
        );
        for note in segment
            .get("notes")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            table.fact("", &value::spelled(note));
        }
        parts(table, segment, &format!("{name}."));
    }
}

async fn resolve(context: &Context, client: &Client, args: ResolveArgs) -> Result<ExitStatus, Failure> {
    let approval = find(client, &args.id).await?;
    let id = value::string(&approval, "id");
    let mut body = json!({ "decision": args.decision });
    if let Some(members) = body.as_object_mut() {
        if let Some(reason) = args.reason {
            members.insert("reason".to_owned(), json!(reason));
        }
        if !args.patterns.is_empty() {
            members.insert("patterns".to_owned(), chosen(&approval, &args.patterns)?);
        }
    }
    let answer = client.post(&["v1", "approvals", id, "decision"], &body).await?;
    if context.console.format() == Format::Json {
        context.console.document(&answer)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let decided = answer.get("approval").unwrap_or(&Value::Null);
    let what = value::text(decided, "decision");
    let line =
        if let Some(progress) = progress(decided).filter(|_| value::string(decided, "status") == "pending") {
            let again = if answer.get("applied") == Some(&Value::Bool(true)) {
                ""
            } else {
                ", your answer was there already"
            };
            format!(
                "{} is allowed by {progress}{again}: it waits for an approver of another owner",
                value::string(decided, "slug")
            )
        } else if answer.get("applied") == Some(&Value::Bool(true)) {
            format!("{} is answered: {what}", value::string(decided, "slug"))
        } else {
            format!(
                "{} was already answered the same: {what}",
                value::string(decided, "slug")
            )
        };
    context.console.line(&line)?;
    Ok(ExitStatus::SUCCESS)
}

/// The proposed patterns that were named, in the form that the decision takes.
fn chosen(approval: &Value, names: &[String]) -> Result<Value, Failure> {
    let proposed: Vec<&Value> = approval
        .get("proposedPatterns")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect();
    let mut patterns = Vec::new();
    for name in names {
        let pattern = proposed
            .iter()
            .find(|pattern| value::string(pattern, "pattern") == name)
            .ok_or_else(|| Failure::usage(format!("{name} is not among the proposed patterns")))?;
        patterns.push(stored(pattern));
    }
    Ok(Value::Array(patterns))
}

/// A proposed pattern in the form that the decision takes.
pub(super) fn stored(pattern: &Value) -> Value {
    let mut stored = json!({ "pattern": value::string(pattern, "pattern") });
    if let (Some(members), Some(arguments)) = (stored.as_object_mut(), pattern.get("argPattern")) {
        members.insert("argPattern".to_owned(), arguments.clone());
    }
    stored
}

/// Finds an approval by its id or by a unique prefix.
async fn find(client: &Client, id: &str) -> Result<Value, Failure> {
    if id.len() >= WHOLE_ID {
        return client.get(&["v1", "approvals", id], &Vec::new()).await;
    }
    if id.len() < SHORTEST_PREFIX {
        return Err(
            Failure::usage(format!("{id} is too short: give 8 characters of the id or more"))
                .hint("countersign approvals list"),
        );
    }
    let query = vec![("status", "all".to_owned()), ("idPrefix", id.to_owned())];
    let mut found = client.list(&["v1", "approvals"], &query, 2).await?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => {
            client
                .get(&["v1", "approvals", value::string(&only, "id")], &Vec::new())
                .await
        }
        (Some(_), false) => Err(Failure::new(
            "approval-ambiguous",
            format!("several approvals begin with {id}"),
        )
        .hint("give more characters of the id")),
        (None, _) => Err(
            Failure::new("approval-not-found", format!("no approval begins with {id}"))
                .hint("countersign approvals list --status all"),
        ),
    }
}

/// What is pending, then what changes. Being connected makes this terminal an approver that can be reached, unless its
/// token may only read.
async fn watch(context: &Context, client: &Client) -> Result<ExitStatus, Failure> {
    let query = |approver: bool| {
        let types = ("types", "exec.approval,server.shutdown".to_owned());
        vec![types, ("approver", approver.to_string())]
    };
    // The stream is opened before the list is read: what comes between appears twice rather than never.
    let (query, stream) = match client.events(&query(true), None).await {
        Err(failure) if failure.code == "forbidden" => {
            let stream = client.events(&query(false), None).await?;
            context
                .console
                .note("this token cannot answer, so nobody counts as reachable because of this terminal");
            (query(false), stream)
        }
        stream => (query(true), stream?),
    };
    let pending = client
        .list(&["v1", "approvals"], &vec![("status", "pending".to_owned())], 500)
        .await?;
    for approval in &pending {
        match context.console.format() {
            Format::Json => context.console.json_line(approval)?,
            Format::People => context.console.line(&pending_line(context.console, approval))?,
        }
    }
    context.console.note("watching for approvals; Ctrl-C ends");
    follow::follow(context, client, &query, stream, |event| {
        match context.console.format() {
            Format::Json => context.console.json_line(event),
            // Everybody is told of the server's end on standard error.
            Format::People if value::string(event, "type") == "server.shutdown" => Ok(()),
            Format::People => context.console.line(&event_line(context.console, event)),
        }
    })
    .await
}

fn pending_line(console: Console, approval: &Value) -> String {
    let slug = approval
        .get("slug")
        .or_else(|| approval.get("approvalId"))
        .and_then(Value::as_str)
        .and_then(|id| id.get(..8))
        .unwrap_or_default();
    let mut line = Table::without_header();
    line.row([
        value::text(approval, "agentId"),
        value::text(approval, "host"),
        shown_command(approval),
    ]);
    format!(
        "{} {slug}  {}",
        console.paint(Tone::Caution, "asked   "),
        line.lines().concat()
    )
}

fn event_line(console: Console, event: &Value) -> String {
    if value::string(event, "type") == "exec.approval.requested" {
        return pending_line(console, event);
    }
    let slug = value::string(event, "approvalId").get(..8).unwrap_or_default();
    if value::string(event, "type") == "exec.approval.voted" {
        return format!(
            "{} {slug}  {}",
            console.paint(Tone::Caution, "voted   "),
            vote_in_words(event)
        );
    }
    let status = value::string(event, "status");
    let tone = match status {
        "allowed" => Tone::Good,
        "denied" => Tone::Bad,
        _ => Tone::Dim,
    };
    let by = event
        .get("resolvedBy")
        .map(|by| value::text(by, "name"))
        .unwrap_or_default();
    let mut line = Table::without_header();
    line.row([value::text(event, "decision"), by]);
    format!(
        "{} {slug}  {}",
        console.paint(tone, &format!("{status:8}")),
        line.lines().concat()
    )
}

/// Who allowed what takes several people, and how many have: of the event `exec.approval.voted`.
pub(super) fn vote_in_words(event: &Value) -> String {
    let by = event
        .get("by")
        .map(|by| value::visible(value::string(by, "name")))
        .unwrap_or_default();
    let count = |name| event.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (votes, required) = (count("votes"), count("approvalsRequired"));
    format!("{by} allowed it, {votes} of {required}")
}

/// The command as the server made it safe to show.
fn shown_command(approval: &Value) -> String {
    approval
        .get("display")
        .map(|display| value::text(display, "text"))
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| value::command(approval))
}

/// The same string as every other surface shows, line breaks included. The server has spelled out what is hidden; a
/// terminal must not have to trust that.
pub(super) fn shown_command_whole(approval: &Value) -> String {
    let shown = shown_command(approval);
    let lines: Vec<String> = shown.split('\n').map(|line| display::escape(line).text).collect();
    lines.join("\n")
}

/// The state, with how many people have allowed it where it takes several.
fn status(approval: &Value) -> String {
    let status = value::text(approval, "status");
    match progress(approval) {
        Some(progress) if status == "pending" => format!("{status}, {progress}"),
        Some(_) | None => status,
    }
}

/// How many people have allowed it, of how many; nothing where one is enough.
pub(super) fn progress(approval: &Value) -> Option<String> {
    let required = approval
        .get("approvalsRequired")
        .and_then(Value::as_u64)
        .filter(|required| *required > 1)?;
    let votes = approval.get("votes").and_then(Value::as_array);
    let allowing = votes.map_or(0, |votes| {
        let allows = |vote: &&Value| value::string(vote, "decision") != "deny";
        votes.iter().filter(allows).count()
    });
    Some(format!("{allowing} of {required}"))
}

/// Of which groups an approver must be; nothing for any.
pub(super) fn groups(explained: &Value) -> Option<String> {
    let groups = explained.get("groups").and_then(Value::as_array)?;
    Some(if groups.is_empty() {
        "nobody is of the groups of all its parts".to_owned()
    } else {
        value::text(explained, "groups")
    })
}

fn time_left(context: &Context, approval: &Value) -> String {
    match (
        value::string(approval, "status"),
        approval.get("expiresAtMs").and_then(Value::as_i64),
    ) {
        ("pending", Some(end)) => clock_face(UnixMillis::new(end).since(context.clock.now())),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_patterns_keep_their_arguments() {
        let approval = json!({"proposedPatterns": [
            {"pattern": "/usr/bin/git", "argPattern": "^status$", "default": true},
            {"pattern": "/usr/bin/ls", "default": false}]});
        assert_eq!(
            chosen(&approval, &["/usr/bin/git".to_owned(), "/usr/bin/ls".to_owned()]),
            Ok(json!([{"pattern": "/usr/bin/git", "argPattern": "^status$"}, {"pattern": "/usr/bin/ls"}]))
        );
    }

    #[test]
    fn progress_is_said_only_where_it_takes_several() {
        assert_eq!(progress(&json!({ "approvalsRequired": 1 })), None);
        let two =
            json!({ "approvalsRequired": 2, "status": "pending", "votes": [{ "decision": "allow-once" }] });
        assert_eq!(progress(&two).as_deref(), Some("1 of 2"));
        assert_eq!(status(&two), "pending, 1 of 2");
        let denied = json!({ "approvalsRequired": 2, "status": "denied", "votes": [{ "decision": "deny" }] });
        assert_eq!(
            (progress(&denied).as_deref(), status(&denied).as_str()),
            (Some("0 of 2"), "denied")
        );
    }

    #[test]
    fn the_terminal_gets_the_string_that_every_surface_gets() {
        let shown = |text: &str| shown_command_whole(&json!({"command": "raw", "display": {"text": text}}));
        let escaped = display::escape("ls \u{202e}x\nrm y").text;
        assert_eq!(shown(&escaped), escaped);
        // A server that is none of ours could send anything.
        assert_eq!(shown("a\u{1b}[2Kb\nc"), "a\\u{1B}[2Kb\nc");
    }

    #[test]
    fn a_pattern_that_was_not_proposed_is_refused() {
        let approval = json!({"proposedPatterns": []});
        assert_eq!(
            chosen(&approval, &["/bin/*".to_owned()]).unwrap_err().exit,
            ExitStatus::USAGE
        );
    }
}
