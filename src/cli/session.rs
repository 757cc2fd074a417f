//! `countersign session`: what a session overrides, and what people say in it.

use reqwest::Method;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use countersign_domain::{AgentId, Ask, ElevatedLevel, HostChoice, Security, SessionKey};
use countersign_wire::session::{CommandedBody, OverridesBody, SetByBody};

use super::{
    candidates,
    client::{Answer, Client, Query},
    console::Format,
    context::Context,
    discover::Role,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    value,
};

/// See and change what a session overrides
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign session show
  countersign session show agent:build:main --json
  countersign session set agent:main:main --host gateway --ask always
  countersign session clear agent:main:main
  countersign session command agent:main:main '/exec' --provider telegram --sender 42

Overrides are in memory only: after a restart everything is as configured.")]
pub(crate) enum SessionCommand {
    /// Show what a session overrides
    #[command(after_help = "Examples:
  countersign session show agent:main:main")]
    Show {
        #[command(flatten)]
        which: Which,
    },
    /// Replace what a session overrides: what is not given is not overridden any more
    #[command(after_help = "Examples:
  countersign session set agent:main:main --security allowlist --ask always")]
    Set(SetArgs),
    /// Make a session override nothing
    #[command(after_help = "Examples:
  countersign session clear agent:main:main")]
    Clear {
        #[command(flatten)]
        which: Which,
    },
    /// Post a text as a person would write it in a chat
    #[command(after_help = "Examples:
  countersign session command agent:main:main '/exec ask=always' --provider telegram --sender 42
  countersign session command agent:main:main '/elevated' --provider irc --sender U1 --username ann")]
    Command(CommandArgs),
}

/// Which session.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Its key; the main session of the agent unless given
    #[arg(value_name = "KEY")]
    key: Option<SessionKey>,
    /// Whose session, for a key that does not say it
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
}

/// What it is to override.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    which: Which,
    /// Where commands run: auto, sandbox, gateway or node
    #[arg(long)]
    host: Option<HostChoice>,
    /// deny, allowlist or full
    #[arg(long)]
    security: Option<Security>,
    /// off, on-miss or always
    #[arg(long)]
    ask: Option<Ask>,
    /// Which node, with host node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// off, on, ask or full
    #[arg(long, value_name = "LEVEL")]
    elevated: Option<ElevatedLevel>,
}

/// Who says what.
#[derive(Debug, clap::Args)]
pub(crate) struct CommandArgs {
    /// Key of the session
    #[arg(value_name = "KEY")]
    key: SessionKey,
    /// The text
    text: String,
    /// Whose session, for a key that does not say it
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Where the sender is known, such as telegram
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The sender's id there
    #[arg(long, value_name = "ID")]
    sender: String,
    /// What the sender is called
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// The name of the sender's account
    #[arg(long, value_name = "TEXT")]
    username: Option<String>,
    /// The sender's phone number
    #[arg(long, value_name = "NUMBER")]
    e164: Option<String>,
    /// The sender's tag, where the provider has that
    #[arg(long, value_name = "TEXT")]
    tag: Option<String>,
}

pub(crate) async fn run(context: &Context, command: SessionCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        SessionCommand::Show { which } => {
            let (key, query) = which.resolve();
            let overrides = client.get(&path(&key, "overrides"), &query).await?;
            show(context, &overrides)?;
        }
        SessionCommand::Set(args) => set(context, &client, args).await?,
        SessionCommand::Clear { which } => {
            let (key, query) = which.resolve();
            client
                .change::<IgnoredAny>(Method::DELETE, &path(&key, "overrides"), &query, None)
                .await?;
            match context.console.format() {
                Format::Json => context.console.document(&json!({ "cleared": key }))?,
                Format::People => context.console.line(&format!("{key} overrides nothing"))?,
            }
        }
        SessionCommand::Command(args) => say(context, &client, args).await?,
    }
    Ok(ExitStatus::SUCCESS)
}

async fn set(context: &Context, client: &Client, args: SetArgs) -> Result<(), Failure> {
    let SetArgs {
        which,
        host,
        security,
        ask,
        node,
        elevated,
    } = args;
    let (key, query) = which.resolve();
    let mut body = Map::new();
    body.extend(host.map(|host| ("host".to_owned(), json!(host))));
    body.extend(security.map(|security| ("security".to_owned(), json!(security))));
    body.extend(ask.map(|ask| ("ask".to_owned(), json!(ask))));
    body.extend(node.map(|node| ("node".to_owned(), json!(node))));
    body.extend(elevated.map(|level| ("elevated".to_owned(), json!(level))));
    let body = Value::Object(body);
    let overrides = client
        .change(Method::PUT, &path(&key, "overrides"), &query, Some(&body))
        .await?;
    show(context, &overrides)
}

async fn say(context: &Context, client: &Client, args: CommandArgs) -> Result<(), Failure> {
    let CommandArgs {
        key,
        text,
        agent,
        provider,
        sender,
        name,
        username,
        e164,
        tag,
    } = args;
    let mut told = Map::from_iter([
        ("provider".to_owned(), json!(provider)),
        ("id".to_owned(), json!(sender)),
    ]);
    for (member, value) in [
        ("name", name),
        ("username", username),
        ("e164", e164),
        ("tag", tag),
    ] {
        told.extend(value.map(|value| (member.to_owned(), json!(value))));
    }
    let body = json!({ "text": text, "sender": told });
    let path = path(&key, "commands");
    let answer: Answer<CommandedBody> = client
        .change(Method::POST, &path, &for_agent(agent), Some(&body))
        .await?;
    if context.console.format() == Format::Json {
        return context.console.document(&answer.raw);
    }
    let Some(reply) = &answer.reply else {
        return context.console.line("there is no directive in this text");
    };
    // A sender's id may stand in it.
    reply
        .lines()
        .try_for_each(|line| context.console.line(&value::visible(line)))
}

impl Which {
    fn resolve(self) -> (SessionKey, Query) {
        let Self { key, agent } = self;
        match key {
            Some(key) => (key, for_agent(agent)),
            None => (
                SessionKey::main_of(&agent.unwrap_or_else(AgentId::main)),
                Query::new(),
            ),
        }
    }
}

fn for_agent(agent: Option<AgentId>) -> Query {
    agent
        .into_iter()
        .map(|agent| ("agentId", agent.to_string()))
        .collect()
}

fn path<'a>(key: &'a SessionKey, resource: &'a str) -> [&'a str; 4] {
    ["v1", "sessions", key.as_str(), resource]
}

fn show(context: &Context, overrides: &Answer<OverridesBody>) -> Result<(), Failure> {
    if context.console.format() == Format::Json {
        return context.console.document(&overrides.raw);
    }
    let mut table = Table::without_header();
    table.fact("sessionKey", overrides.session_key.as_str());
    table.each("host", &overrides.host);
    table.each("security", &overrides.security);
    table.each("ask", &overrides.ask);
    table.each("node", &overrides.node);
    table.each("elevated", [&overrides.elevated]);
    if let Some(SetByBody { name, sender, .. }) = &overrides.set_by {
        let sender = sender.as_ref();
        let sender = sender.map(|sender| format!(" for {}:{}", sender.provider, sender.id));
        table.fact("set by", &format!("{name}{}", value::shown(sender)));
    }
    context.console.table(&table, "")
}
