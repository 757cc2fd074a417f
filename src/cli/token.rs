//! `countersign token`: who may talk to the server, and what they may do.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use countersign_domain::{AgentId, Authority, Owner, Scope, UnixMillis};
use countersign_engine::{
    offers::{self, OfferError},
    tokens::{self, TokenRequest},
};
use countersign_ledger::auth;
use countersign_sys::clock::SystemIds;
use countersign_wire::{
    me::MeBody,
    token::{NewTokenBody, RotatedTokenBody, TokenBody},
};

use super::{
    candidates,
    client::{Answer, Client, read},
    console::Format,
    context::Context,
    discover::{self, Role},
    exit::ExitStatus,
    failure::Failure,
    ids,
    layout::Listing,
    moment::{End, parse_end},
    table::Table,
    value,
};

/// Make and revoke API tokens
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign token create ci --scope exec --agent build --expires 7d
  countersign token create phone --scope read,approve
  countersign token create ann --scope read,approve,admin --owner ann
  countersign token list
  countersign token accept TOKEN
  countersign token rotate operator
  countersign token revoke TOKEN
  countersign token recover

A token that may submit commands can never decide about them: exec goes with none of approve,
admin, relay. What an admin changes belongs to no agent: admin does not go with --agent.")]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is printed once
    #[command(after_help = "Examples:
  countersign token create watcher --scope read > watcher.token
  countersign token create ci --scope exec --agent build --expires 7d")]
    Create(CreateArgs),
    /// List tokens, newest first
    #[command(after_help = "Examples:
  countersign token list
  countersign token list --all --wide

Tokens that are revoked or have expired are left out, and of the tokens that `login-link --as` leaves,
one for each link, all but the newest of each person. How many is said; --json and --all have all.")]
    #[command(alias = "ls")]
    List(ListArgs),
    /// Let a token open what another owner proposed
    #[command(after_help = "Examples:
  countersign token accept TOKEN")]
    Accept {
        /// Its name where no other has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::tokens())]
        id: String,
    },
    /// Give a token a new secret; the old one opens nothing more
    #[command(after_help = "Examples:
  countersign token rotate gateway > gateway.token
  countersign token rotate operator

What the token may do stays as it is. Its open questions are withdrawn, and browsers that it signed
in are signed out. operator.token and gateway.token of the state directory are rewritten.")]
    Rotate {
        /// Its name, its id, or a unique part of the id of 8 characters or more
        #[arg(add = candidates::tokens())]
        name: String,
    },
    /// Make a new operator.token when the old one opens nothing; you must own the state directory
    #[command(after_help = "Examples:
  countersign token recover

The new token may read, approve and administrate, and the record says that it was made here.")]
    Recover,
    /// Revoke a token at once
    #[command(
        alias = "rm",
        alias = "remove",
        after_help = "Examples:
  countersign token revoke TOKEN
  countersign token revoke TOKEN --yes     # the one that this command line uses

Its name does, too, where no other token has it."
    )]
    Revoke {
        /// Its name where no other has it, its id, or a unique part of the id of 8 characters or more
        #[arg(value_name = "ID", add = candidates::tokens())]
        id: String,
        /// Revoke it although this command line uses it
        #[arg(long)]
        yes: bool,
    },
}

/// A new token.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateArgs {
    /// Its name for people
    name: String,
    /// Make it for this owner; you must own the state directory
    #[arg(long, value_name = "OWNER")]
    owner: Option<Owner>,
    /// What it may do: exec, relay, read, approve, admin; several with commas
    #[arg(long = "scope", required = true, value_delimiter = ',', value_name = "SCOPE", add = candidates::scopes())]
    scopes: Vec<Scope>,
    /// Bind it to this agent; may be repeated
    #[arg(long = "agent", value_name = "ID", add = candidates::agents())]
    agents: Vec<AgentId>,
    /// Put it into this group of approvers; may be repeated
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Let it end after so long (2h, 7d), or at this date or time (2026-11-23, 2026-11-23T09:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = parse_end)]
    expires: Option<End>,
}

pub(crate) async fn run(context: &Context, command: TokenCommand) -> Result<ExitStatus, Failure> {
    if let TokenCommand::Create(args) = &command
        && let Some(owner) = &args.owner
    {
        check_scopes(args)?;
        offer(context, args, owner).await?;
        return Ok(ExitStatus::SUCCESS);
    }
    if matches!(command, TokenCommand::Recover) {
        recover(context).await?;
        return Ok(ExitStatus::SUCCESS);
    }
    let client = context.client(Role::Operator)?;
    match command {
        TokenCommand::Recover => {}
        TokenCommand::Rotate { name } => rotate(context, &client, &name).await?,
        TokenCommand::Create(args) => create(context, &client, args).await?,
        TokenCommand::List(listing) => list(context, &client, listing).await?,
        TokenCommand::Accept { id } => {
            let id = named(&client, &id, |token| token.proposed_by.is_some()).await?;
            let token: Value = client.post(&["v1", "tokens", &id, "accept"], &json!({})).await?;
            match context.console.format() {
                Format::Json => context.console.document(&token)?,
                Format::People => context
                    .console
                    .line(&format!("accepted {}", ids::short_of_target(&id)))?,
            }
        }
        TokenCommand::Revoke { id, yes } => revoke(context, &client, &id, yes).await?,
    }
    Ok(ExitStatus::SUCCESS)
}

/// Shows the tokens that there are.
const LISTED: &str = "countersign token list";

async fn revoke(context: &Context, client: &Client, id: &str, is_confirmed: bool) -> Result<(), Failure> {
    let typed = value::quoted(id);
    let id = named(client, id, |_token| true).await?;
    let own: MeBody = client.get(&["v1", "me"], &Vec::new()).await?;
    if own.token_id.as_str() == id && !is_confirmed {
        let short = ids::short(&id);
        let text = format!(
            "{short} is {}, the token that this command line uses: without it nothing works here any more",
            value::visible(&own.name)
        );
        return Err(Failure::usage(text).hint(format!("countersign token revoke {typed} --yes")));
    }
    client.delete(&["v1", "tokens", &id]).await?;
    match context.console.format() {
        Format::Json => context.console.document(&json!({"revoked": id})),
        Format::People => context
            .console
            .line(&format!("revoked {}", ids::short_of_target(&id))),
    }
}

/// No server need be asked whether scopes go together.
fn check_scopes(args: &CreateArgs) -> Result<(), Failure> {
    let agents = (!args.agents.is_empty()).then(|| args.agents.iter().cloned().collect());
    let authority = Authority::bound_to(agents);
    auth::check_scopes(&args.scopes.iter().copied().collect(), &authority)
        .map_err(|conflict| of_conflict(&conflict.to_string()))
}

fn of_conflict(text: &str) -> Failure {
    Failure::new("scope-conflict", text)
        .exit(ExitStatus::USAGE)
        .hint("countersign token create --help")
}

async fn create(context: &Context, client: &Client, args: CreateArgs) -> Result<(), Failure> {
    check_scopes(&args)?;
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
        body.insert("expiresAtMs".to_owned(), json!(expires.at(context.clock.now())));
    }
    let token: Value = client.post(&["v1", "tokens"], &Value::Object(body)).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&token);
    }
    let NewTokenBody { token, secret } = read(token)?;
    let (id, name) = (ids::short(token.id.as_str()), value::visible(&token.name));
    let scopes = value::joined(&token.scopes);
    let agents = match &token.agents {
        Some(agents) => format!(", for {} alone", agents_in_words(agents)),
        None => String::new(),
    };
    context
        .console
        .note(&format!("token {id} for {name}: {scopes}{agents}"));
    if token.proposed_by.is_some() {
        context.console.note(&format!(
            "it opens nothing until an admin of another owner accepts it: countersign token accept {id}"
        ));
    }
    context.console.note("its secret is shown this once:");
    // Alone on standard output, so that it can go straight into a file.
    context.console.line(&secret)
}

fn agents_in_words(agents: &BTreeSet<AgentId>) -> String {
    let word = if agents.len() == 1 { "agent" } else { "agents" };
    format!("{word} {}", value::joined(agents))
}

async fn rotate(context: &Context, client: &Client, name: &str) -> Result<(), Failure> {
    let id = named(client, name, |token| token.proposed_by.is_none()).await?;
    let token: Value = client.post(&["v1", "tokens", &id, "rotate"], &json!({})).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&token);
    }
    let RotatedTokenBody {
        token,
        secret,
        replaces: _,
        file,
    } = read(token)?;
    context.console.note(&format!(
        "token {} takes the place of {id}, which opens nothing more",
        token.id
    ));
    if let Some(file) = file {
        context.console.note(&format!("{file} holds the new secret"));
    }
    context.console.note("its secret is shown this once:");
    context.console.line(&secret)
}

/// The id of the live token with this id or name.
/// The id of the token with this id or name, or with this beginning or end of the id. The name is that of a live token of which
/// `may` is so.
async fn named(client: &Client, name: &str, may: fn(&TokenBody) -> bool) -> Result<String, Failure> {
    let tokens: Vec<TokenBody> = client.list(&["v1", "tokens"], &Vec::new(), usize::MAX).await?;
    let named = tokens.iter().map(|token| ids::Named {
        id: token.id.as_str(),
        name: (token.revoked_at_ms.is_none() && may(token)).then_some(token.name.as_str()),
        what: format!("{}: {}", token.name, value::joined(&token.scopes)),
    });
    let named: Vec<_> = named.collect();
    let at = ids::find(&named, name, ("token", LISTED))?;
    Ok(named.get(at).map(|token| token.id.to_owned()).unwrap_or_default())
}

/// Makes a new token for `operator.token`, by an offer: for those who own the state directory and have no token that opens
/// anything.
async fn recover(context: &Context) -> Result<(), Failure> {
    discover::refuse_inside_a_run(context)?;
    refuse_other_server(context, "token recover")?;
    let state_dir = context.state_dir()?;
    let path = state_dir.operator_token();
    if let Ok(client) = context.client(Role::Operator)
        && client
            .get::<IgnoredAny>(&["v1", "tokens"], &Vec::new())
            .await
            .is_ok()
    {
        return Err(Failure::usage(format!("the token in {} is live", path.display()))
            .hint("countersign token rotate operator"));
    }
    let request = TokenRequest {
        name: "operator".to_owned(),
        owner: None,
        scopes: [Scope::Read, Scope::Approve, Scope::Admin].into(),
        agents: None,
        groups: BTreeSet::new(),
        expires_at: None,
    };
    let (of, offers) = (state_dir.countersign(), state_dir.token_offers());
    let secret = offers::offer(&of, &offers, request, &Owner::operator(), &SystemIds)
        .map_err(|error| of_offer(&error))?;
    tokens::write_token(&path, &secret).map_err(|error| {
        Failure::new(
            "state-dir",
            format!("{} cannot be written: {error}", path.display()),
        )
        .exit(ExitStatus::CONFIG)
        .advice(AS_OWNER)
    })?;
    let is_taken = is_known(context, secret.expose()).await;
    if context.console.format() == Format::Json {
        return context
            .console
            .document(&json!({ "file": path, "taken": is_taken }));
    }
    context
        .console
        .line(&format!("{} holds a new token", path.display()))?;
    if !is_taken {
        context
            .console
            .note("no server has taken it yet: that of this state directory does when it starts");
    }
    Ok(())
}

/// What is done in the state directory of this machine is not done at a server that was named.
fn refuse_other_server(context: &Context, what: &str) -> Result<(), Failure> {
    if !context.names_a_server() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{what} is for the state directory of this machine, and --url or COUNTERSIGN_URL names a server"
    ))
    .advice("leave the address out, as the account that owns the state directory"))
}

/// Offers a token of an owner to the server of the state directory, by a file that only who owns that can write. The server
/// takes it at once when it runs, else when it starts.
async fn offer(context: &Context, args: &CreateArgs, owner: &Owner) -> Result<(), Failure> {
    discover::refuse_inside_a_run(context)?;
    refuse_other_server(context, "--owner")?;
    let state_dir = context.state_dir()?;
    let request = TokenRequest {
        name: args.name.clone(),
        owner: None,
        scopes: args.scopes.iter().copied().collect(),
        agents: (!args.agents.is_empty()).then(|| args.agents.iter().cloned().collect()),
        groups: args.groups.iter().cloned().collect(),
        expires_at: args.expires.map(|expires| expires.at(context.clock.now())),
    };
    let (of, offers) = (state_dir.countersign(), state_dir.token_offers());
    let secret = offers::offer(&of, &offers, request, owner, &SystemIds).map_err(|error| of_offer(&error))?;
    let is_taken = is_known(context, secret.expose()).await;
    if context.console.format() == Format::Json {
        return context.console.document(&json!({
            "name": args.name, "owner": owner, "scopes": args.scopes, "secret": secret.expose(), "taken": is_taken,
        }));
    }
    context
        .console
        .note(&format!("token for {} of {owner}", value::visible(&args.name)));
    if !is_taken {
        context
            .console
            .note("no server has taken it yet: that of this state directory does when it starts");
    }
    context.console.note("its secret is shown this once:");
    context.console.line(secret.expose())
}

/// Shows a token to the server of the state directory, which takes an offer when it sees a token that it does not know.
async fn is_known(context: &Context, token: &str) -> bool {
    let Ok(client) = discover::client_with(context, token) else {
        return false;
    };
    match client.get::<IgnoredAny>(&["v1", "tokens"], &Vec::new()).await {
        Ok(_) => true,
        // It may not list tokens, and is one.
        Err(failure) => failure.code == "forbidden",
    }
}

/// Who may offer tokens.
const AS_OWNER: &str =
    "run this as the account that owns the state directory, such as: sudo -u ACCOUNT countersign token list";

fn of_offer(error: &OfferError) -> Failure {
    match error {
        OfferError::Token(conflict) => of_conflict(&conflict.to_string()),
        OfferError::Member(_) => Failure::usage(error.to_string()),
        OfferError::File(source) => Failure::new("state-dir", format!("{error}: {source}"))
            .exit(ExitStatus::CONFIG)
            .advice(AS_OWNER),
        OfferError::Directory(_) => Failure::new("state-dir", error.to_string())
            .exit(ExitStatus::CONFIG)
            .advice(AS_OWNER),
    }
}

/// Which tokens are listed.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    listing: Listing,
    /// Those too that open nothing any more, and older ones of the same person
    #[arg(long)]
    all: bool,
}

/// Tokens that the list leaves out.
#[derive(Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// They open nothing any more.
    ended: usize,
    /// Of the same person as a newer one, each for one browser.
    older: usize,
}

impl LeftOut {
    /// Takes out what people seldom look for. The items are the newest first.
    fn from(items: &mut Vec<Answer<TokenBody>>, now: UnixMillis) -> Self {
        let mut left_out = Self::default();
        let mut seen = BTreeSet::new();
        items.retain(|token| {
            let has_ended =
                token.revoked_at_ms.is_some() || token.expires_at_ms.is_some_and(|end| end <= now);
            if has_ended {
                left_out.ended += 1;
                return false;
            }
            // Each link of `login-link --as` leaves one, which ends by itself.
            let is_first = token.expires_at_ms.is_none()
                || seen.insert((
                    token.name.clone(),
                    token.owner.to_string(),
                    value::joined(&token.scopes),
                ));
            if !is_first {
                left_out.older += 1;
            }
            is_first
        });
        left_out
    }

    fn say(&self, context: &Context) {
        let Self { ended, older } = self;
        let parts = [
            (*ended > 0).then(|| format!("{ended} revoked or expired")),
            (*older > 0).then(|| format!("{older} older of the same name, scopes and owner, which expire")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            context.console.note(&format!("left out: {}", parts.join("; ")));
            context.console.hint("countersign token list --all");
        }
    }
}

async fn list(
    context: &Context,
    client: &Client,
    ListArgs { listing, all }: ListArgs,
) -> Result<(), Failure> {
    let Listing { period, layout } = listing;
    let items: Vec<Answer<TokenBody>> = client.list(&["v1", "tokens"], &Vec::new(), usize::MAX).await?;
    let now = context.clock.now();
    let mut items = period.newest(now, items, |token| Some(token.created_at_ms));
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let left_out = if all {
        LeftOut::default()
    } else {
        LeftOut::from(&mut items, now)
    };
    left_out.say(context);
    let mut table = Table::new(&[
        "ID",
        "NAME",
        "OWNER",
        "SCOPES",
        "AGENTS",
        "LAST USED",
        "EXPIRES",
        "REVOKED",
        "WAITS",
    ]);
    for token in &items {
        table.row([
            layout.id(token.id.as_str()),
            token.name.clone(),
            token.owner.to_string(),
            value::joined(&token.scopes),
            value::joined(token.agents.iter().flatten()),
            layout.maybe_time(context, token.last_used_at_ms),
            layout.maybe_time(context, token.expires_at_ms),
            layout.maybe_time(context, token.revoked_at_ms),
            token
                .proposed_by
                .as_ref()
                .map(|by| by.name.clone())
                .unwrap_or_default(),
        ]);
    }
    let ids = items.iter().map(|token| token.id.as_str());
    layout.print(context, ids, &table, "no tokens")
}
