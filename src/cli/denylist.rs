//! `countersign denylist`: what never runs, no matter what else allows it.

use serde_json::{Map, Value, json};

use countersign_domain::UnixMillis;
use countersign_wire::{entry::RuleBody, policy::AgentBody};

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
    layout::Listing,
    moment,
    policy_change::Held,
    table::Table,
    value,
};

const LIST: &str = "denylist";
/// Shows the rules that there are.
const LISTED: &str = "countersign denylist list";

/// See and change what never runs
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign denylist add dd --reason 'writes to devices'
  countersign denylist add '**/mkfs*'
  countersign denylist add git --arg-pattern '^push .*--force' --agent main
  countersign denylist list
  countersign denylist list --agent main --json")]
pub(crate) enum DenylistCommand {
    /// List deny rules, newest first
    #[command(after_help = "Examples:
  countersign denylist list
  countersign denylist list --agent main
  countersign denylist list --until 2026-12-01    # those that end before that day

--since and --until go by the end of a rule. A rule without an end is of no time.")]
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        owner: Bound,
        #[command(flatten)]
        listing: Listing,
    },
    /// Add a deny rule
    #[command(after_help = "Examples:
  countersign denylist add shutdown
  countersign denylist add git --arg-pattern '^push .*--force' --agent main")]
    Add(AddArgs),
    /// Remove a deny rule
    #[command(after_help = "Examples:
  countersign denylist remove 3f2a9c14

The pattern does, too, where no other rule has it.")]
    #[command(alias = "rm")]
    Remove {
        /// Its pattern where no other rule has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::deny_rules())]
        id: String,
        /// Only this agent's rules; unless given, those of every agent, `*`, and then those of each
        #[arg(long, value_name = "ID", value_parser = parse_owner, add = candidates::agents())]
        agent: Option<String>,
    },
    /// Show one deny rule
    #[command(after_help = "Examples:
  countersign denylist show 3f2a9c14")]
    Show {
        /// Its pattern where no other rule has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::deny_rules())]
        id: String,
        /// Only this agent's rules; unless given, those of every agent, `*`, and then those of each
        #[arg(long, value_name = "ID", value_parser = parse_owner, add = candidates::agents())]
        agent: Option<String>,
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
        DenylistCommand::List { owner, listing } => list(context, &client, &owner.into(), listing).await?,
        DenylistCommand::Add(args) => add(context, &client, args).await?,
        DenylistCommand::Remove { id, agent } => {
            let (owner, rule) = find_rule(&client, agent, &id).await?;
            let id = &rule.id;
            let path = ["v1", "agents", owner.agent(), LIST, id.as_str()];
            let before = Held::now(&client).await;
            client.delete(&path).await?;
            let is_held = Held::now(&client).await.is_wider_than(&before);
            match context.console.format() {
                Format::Json => context
                    .console
                    .document(&json!({"removed": rule, "held": is_held}))?,
                Format::People if is_held => {
                    context.console.line(&format!(
                        "{} ({}) is taken out of the deny rules of {}, and held: it counts until an admin accepts that",
                        ids::short(id.as_str()),
                        value::visible(&rule.pattern),
                        owner.in_words()
                    ))?;
                    context.console.hint("countersign policy diff   (shows it)");
                }
                Format::People => context.console.line(&format!(
                    "removed {} ({}) from the deny rules of {}",
                    ids::short(id.as_str()),
                    value::visible(&rule.pattern),
                    owner.in_words()
                ))?,
            }
        }
        DenylistCommand::Show { id, agent } => {
            let (owner, rule) = find_rule(&client, agent, &id).await?;
            show(context, &owner, &rule)?;
        }
    }
    Ok(ExitStatus::SUCCESS)
}

/// The rule with this id or pattern, and whom it binds: of the agent, or else of every agent, or else of any.
async fn find_rule(
    client: &Client,
    agent: Option<String>,
    id: &str,
) -> Result<(Owner, Answer<RuleBody>), Failure> {
    let is_any = agent.is_none();
    let owner = Owner::of(agent.unwrap_or_else(|| EVERY_AGENT.to_owned()));
    let not_found = match find(client, &owner, LIST, id, named).await {
        Ok(rule) => return Ok((owner, rule)),
        // A name of few letters may look like a part of an id.
        Err(failure) if is_any && is_none(&failure) => failure,
        Err(failure) => return Err(failure),
    };
    let agents: Vec<AgentBody> = client.list(&["v1", "agents"], &Vec::new(), usize::MAX).await?;
    let mut rules: Vec<(Owner, Answer<RuleBody>)> = Vec::new();
    for AgentBody { agent_id, .. } in agents {
        let owner = Owner::of(agent_id.to_string());
        let own: Vec<Answer<RuleBody>> = entries(client, &owner, LIST).await?;
        rules.extend(own.into_iter().map(|rule| (owner.clone(), rule)));
    }
    let known: Vec<_> = rules
        .iter()
        .map(|(owner, rule)| {
            let mut known = named(rule);
            known.what = format!("{}: {}", owner.in_words(), known.what);
            known
        })
        .collect();
    let at = match ids::find(&known, id, ("deny rule with the id or pattern", LISTED)) {
        Err(failure) if is_none(&failure) => return Err(not_found),
        found => found?,
    };
    drop(known);
    Ok(rules.swap_remove(at))
}

fn is_none(failure: &Failure) -> bool {
    ["not-found", "usage"].contains(&failure.code.as_str())
}

fn named(rule: &RuleBody) -> ids::Named<'_> {
    let arguments = rule.arg_pattern.as_deref().unwrap_or_default();
    let reason = rule.reason.as_ref().map(|reason| format!(" ({reason})"));
    ids::Named {
        id: rule.id.as_str(),
        name: Some(&rule.pattern),
        what: format!("{} {arguments}{}", rule.pattern, reason.unwrap_or_default()),
    }
}

async fn list(
    context: &Context,
    client: &Client,
    owner: &Owner,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let mut items: Vec<Answer<RuleBody>> = entries(client, owner, LIST).await?;
    // A new rule is added at the end.
    items.reverse();
    let items = period.within(context.clock.now(), items, |rule| {
        rule.expires_at_ms.map(UnixMillis::new)
    });
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
