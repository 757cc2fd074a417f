//! `countersign denylist`: what never runs, no matter what else allows it.

use serde_json::{Map, Value, json};

use countersign_domain::UnixMillis;
use countersign_wire::entry::RuleBody;

use super::{
    allowlist::{EVERY_AGENT, Owner, entries, find, parse_owner},
    candidates,
    client::{Answer, Client},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    ids,
    layout::Layout,
    moment,
    table::Table,
    value,
};

const LIST: &str = "denylist";

/// See and change what never runs
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign denylist add dd --reason 'writes to devices'
  countersign denylist add '**/mkfs*'
  countersign denylist add git --arg-pattern '^push .*--force' --agent main
  countersign denylist list
  countersign denylist list --agent main --json")]
pub(crate) enum DenylistCommand {
    /// List deny rules
    #[command(after_help = "Examples:
  countersign denylist list
  countersign denylist list --agent main")]
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        owner: Bound,
        #[command(flatten)]
        layout: Layout,
    },
    /// Add a deny rule
    #[command(after_help = "Examples:
  countersign denylist add shutdown
  countersign denylist add git --arg-pattern '^push .*--force' --agent main")]
    Add(AddArgs),
    /// Remove a deny rule
    #[command(after_help = "Examples:
  countersign denylist remove 3f2a9c14")]
    #[command(alias = "rm")]
    Remove {
        /// Its id, or a unique part of 8 characters or more
        #[arg(value_name = "ID", add = candidates::deny_rules())]
        id: String,
        #[command(flatten)]
        owner: Bound,
    },
    /// Show one deny rule
    #[command(after_help = "Examples:
  countersign denylist show 3f2a9c14")]
    Show {
        /// Its id, or a unique part of 8 characters or more
        #[arg(value_name = "ID", add = candidates::deny_rules())]
        id: String,
        #[command(flatten)]
        owner: Bound,
    },
}

/// Whom the rules bind.
#[derive(Debug, clap::Args)]
pub(crate) struct Bound {
    /// Only this agent; every agent, `*`, unless given
    #[arg(long, default_value = EVERY_AGENT, value_name = "ID", value_parser = parse_owner, add = candidates::agents())]
    agent: String,
}

/// A new deny rule.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// Name of the program, wherever it lies, or a path pattern
    pattern: String,
    #[command(flatten)]
    owner: Bound,
    /// Regular expression that the arguments must match; any arguments unless given
    #[arg(long, value_name = "REGEX")]
    arg_pattern: Option<String>,
    /// Programs of a run cannot start or read a match either, at the isolation level `confined`
    #[arg(long, conflicts_with = "arg_pattern")]
    children: bool,
    /// Why it is there
    #[arg(long, visible_alias = "note", value_name = "TEXT")]
    reason: Option<String>,
}

pub(crate) async fn run(context: &Context, command: DenylistCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        DenylistCommand::List { owner, layout } => list(context, &client, &owner.into(), layout).await?,
        DenylistCommand::Add(args) => add(context, &client, args).await?,
        DenylistCommand::Remove { id, owner } => {
            let owner = Owner::from(owner);
            let rule = find(&client, &owner, LIST, &id, |rule: &RuleBody| &rule.id).await?;
            let id = &rule.id;
            let path = ["v1", "agents", owner.agent(), LIST, id.as_str()];
            client.delete(&path).await?;
            match context.console.format() {
                Format::Json => context.console.document(&json!({"removed": rule}))?,
                Format::People => context.console.line(&format!(
                    "removed {} from the deny rules of {}",
                    ids::short(id.as_str()),
                    owner.in_words()
                ))?,
            }
        }
        DenylistCommand::Show { id, owner } => {
            let owner = Owner::from(owner);
            let rule = find(&client, &owner, LIST, &id, |rule: &RuleBody| &rule.id).await?;
            show(context, &owner, &rule)?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(context: &Context, client: &Client, owner: &Owner, layout: Layout) -> Result<(), Failure> {
    let items: Vec<Answer<RuleBody>> = entries(client, owner, LIST).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&["ID", "PATTERN", "ARGUMENTS", "CHILDREN", "ENDS", "REASON"]);
    for rule in &items {
        table.row([
            layout.id(rule.id.as_str()),
            rule.pattern.clone(),
            value::shown(rule.arg_pattern.as_ref()),
            value::shown(rule.children.then_some("denied")),
            layout.maybe_time(context, rule.expires_at_ms.map(UnixMillis::new)),
            value::shown(rule.reason.as_ref()),
        ]);
    }
    if owner.is_every_agent() && !layout.is_names() {
        context
            .console
            .hint("countersign denylist list --agent ID   (the rules that bind one agent alone)");
    }
    let ids = items.iter().map(|rule| rule.id.as_str());
    let nothing = format!("{} has no deny rules", owner.in_words());
    layout.print(context, ids, &table, &nothing)
}

async fn add(context: &Context, client: &Client, args: AddArgs) -> Result<(), Failure> {
    let AddArgs {
        pattern,
        owner,
        arg_pattern,
        children,
        reason,
    } = args;
    let owner = Owner::from(owner);
    let mut body = Map::from_iter([("pattern".to_owned(), json!(pattern))]);
    body.extend(arg_pattern.map(|text| ("argPattern".to_owned(), json!(text))));
    body.extend(children.then(|| ("children".to_owned(), json!(true))));
    body.extend(reason.map(|text| ("reason".to_owned(), json!(text))));
    let rule = client
        .post(&["v1", "agents", owner.agent(), LIST], &Value::Object(body))
        .await?;
    show(context, &owner, &owner.named_in(rule))
}

fn show(context: &Context, owner: &Owner, rule: &Answer<RuleBody>) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        return context.console.document(&rule.raw);
    }
    let mut table = Table::without_header();
    table.fact("binds", &owner.in_words());
    table.fact("id", rule.id.as_str());
    table.fact("pattern", &rule.pattern);
    table.each("argPattern", &rule.arg_pattern);
    if rule.children {
        table.fact("children", "denied at the level confined");
    }
    let until = rule.expires_at_ms.map(UnixMillis::new);
    table.fact("until", &moment::maybe_in_full(context, until));
    table.each("reason", &rule.reason);
    for warning in &rule.warnings {
        table.fact("warning", &warning.message);
    }
    context.console.table(&table, "")
}

impl From<Bound> for Owner {
    fn from(Bound { agent }: Bound) -> Self {
        Self::of(agent)
    }
}
