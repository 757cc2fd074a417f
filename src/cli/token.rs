//! `countersign token`: who may talk to the server, and what they may do.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{
    client::Client, console::Format, context::Context, discover::Role, duration::parse_duration,
    exit::ExitStatus, failure::Failure, table::Table, value,
};
use crate::domain::{AgentId, Scope, TokenId};

/// Make and revoke API tokens
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign token create ci --scope exec --agent build --expires 7d
  countersign token create phone --scope read,approve
  countersign token list
  countersign token revoke TOKEN

A token that may submit commands can never decide about them: exec goes with none of approve,
admin, relay. What an admin changes belongs to no agent: admin does not go with --agent.")]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is printed once
    #[command(after_help = "Examples:
  countersign token create watcher --scope read > watcher.token
  countersign token create ci --scope exec --agent build --expires 7d")]
    Create(CreateArgs),
    /// List tokens
    #[command(after_help = "Examples:
  countersign token list")]
    List,
    /// Revoke a token at once
    #[command(after_help = "Examples:
  countersign token revoke TOKEN")]
    Revoke {
        /// Its id
        id: TokenId,
    },
}

/// A new token.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Its name for people
    name: String,
    /// What it may do: exec, relay, read, approve, admin; several with commas
    #[arg(long = "scope", required = true, value_delimiter = ',', value_name = "SCOPE")]
    scopes: Vec<Scope>,
    /// Bind it to this agent; may be repeated
    #[arg(long = "agent", value_name = "ID")]
    agents: Vec<AgentId>,
    /// Put it into this group of approvers; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Let it end after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    expires: Option<Duration>,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, command: TokenCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        TokenCommand::Create(args) => create(context, &client, args).await?,
        TokenCommand::List => list(context, &client).await?,
        TokenCommand::Revoke { id } => {
            client.delete(&["v1", "tokens", id.as_str()]).await?;
            match context.console.format() {
                Format::Json => context.console.document(&json!({"revoked": id}))?,
                Format::People => context.console.line(&format!("revoked {id}"))?,
            }
        }
    }
    Ok(ExitStatus::SUCCESS)
}

async fn create(context: &Context, client: &Client, args: CreateArgs) -> Result<(), Failure> {
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(args.name));
    body.insert("scopes".to_owned(), json!(args.scopes));
    if !args.agents.is_empty() {
        body.insert("agents".to_owned(), json!(args.agents));
    }
    if !args.groups.is_empty() {
        body.insert("groups".to_owned(), json!(args.groups));
    }
    if let Some(expires) = args.expires {
        body.insert("expiresAtMs".to_owned(), json!(context.clock.now() + expires));
    }
    let token = client.post(&["v1", "tokens"], &Value::Object(body)).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&token);
    }
    context.console.note(&format!(
        "token {} for {}: {}",
        value::text(&token, "id"),
        value::visible(value::string(&token, "name")),
        value::text(&token, "scopes")
    ));
    context.console.note("its secret is shown this once:");
    // Alone on standard output, so that it can go straight into a file.
    context.console.line(value::string(&token, "secret"))
}

async fn list(context: &Context, client: &Client) -> Result<(), Failure> {
    let items = client.list(&["v1", "tokens"], &Vec::new(), usize::MAX).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&[
        "ID",
        "NAME",
        "SCOPES",
        "AGENTS",
        "LAST USED",
        "EXPIRES",
        "REVOKED",
    ]);
    for token in &items {
        table.row([
            value::text(token, "id"),
            value::text(token, "name"),
            value::text(token, "scopes"),
            value::text(token, "agents"),
            value::time(token, "lastUsedAtMs"),
            value::time(token, "expiresAtMs"),
            value::time(token, "revokedAtMs"),
        ]);
    }
    context.console.table(&table, "no tokens")
}
