//! `countersign login-link`: a way in for a browser.

use std::time::Duration;

use serde_json::{Map, Value, json};

use countersign_domain::Scope;
use countersign_wire::token::LoginLinkBody;

use super::{
    candidates, client::Answer, console::Format, context::Context, discover::Role, duration::parse_duration,
    exit::ExitStatus, failure::Failure, moment, qr, value,
};

/// Print a one-time link that signs a browser in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign login-link                           # for you: the rights of the operator's token
  countersign login-link --as ann --qr             # for Ann's phone: approve and read
  countersign login-link --as rita --scope read --ttl 1h
  countersign login-link --json

The link works once and for some minutes ([auth] login_link_ttl_ms, or --ttl); anyone who has it can
sign in, so send it to nobody else. With --as the record names that person, and their browser may do
what --scope says: approve and read unless given, so that a lost phone changes no policy. The name
must differ from those of live tokens, but for earlier links of the same person. A rule that needs two
people counts a link as its maker: the names differ, the owner is one (docs/two-people.md). Without
--as the browser is the operator, who may do everything but ask. `countersign browsers` lists the
browsers that are signed in and signs them out.")]
pub(crate) struct LoginLinkArgs {
    /// Whom the record names
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// What they may do, several with commas: read (see everything), approve (answer), admin (change
    /// everything), exec (run commands, alone), relay (act for a chat) [default: approve,read]
    #[arg(
        long = "scope",
        requires = "name",
        value_delimiter = ',',
        value_name = "SCOPE",
        add = candidates::scopes()
    )]
    scopes: Vec<Scope>,
    /// How long the link can be used
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// Draw the link as a QR code, too
    #[arg(long)]
    qr: bool,
}

/// Runs the command.
pub(crate) async fn run(context: &Context, args: LoginLinkArgs) -> Result<ExitStatus, Failure> {
    let LoginLinkArgs {
        name,
        scopes,
        ttl,
        qr,
    } = args;
    let mut body = Map::new();
    body.extend(name.map(|name| ("name".to_owned(), json!(name))));
    if !scopes.is_empty() {
        body.insert("scopes".to_owned(), json!(scopes));
    }
    body.extend(ttl.map(|ttl| {
        (
            "ttlMs".to_owned(),
            json!(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
        )
    }));
    let link: Answer<LoginLinkBody> = context
        .client(Role::Operator)?
        .post(&["v1", "login-links"], &Value::Object(body))
        .await?;
    if context.console.format() == Format::Json {
        context.console.document(&link.raw)?;
        return Ok(ExitStatus::SUCCESS);
    }
    if qr {
        for line in qr::lines(&link.url).into_iter().flatten() {
            context.console.note(&line);
        }
    }
    // Alone on standard output, so that it can go straight to a browser.
    context.console.line(&url(&link))?;
    let until = moment::with_zone(link.expires_at_ms);
    let whom = match &link.token {
        Some(token) => format!(
            "as {}, with the scopes {}",
            value::visible(&token.name),
            value::joined(&token.scopes)
        ),
        None => "as the operator, with all rights; --as NAME is for others".to_owned(),
    };
    context
        .console
        .note(&format!("signs one browser in, once, until {until}, {whom}"));
    if let Some(token) = link.token.as_ref().filter(|token| token.proposed_by.is_some()) {
        context.console.note(&format!(
            "it opens nothing until an admin of another owner accepts it: countersign token accept {}",
            token.id
        ));
    }
    Ok(ExitStatus::SUCCESS)
}

/// The link in an answer, safe for a terminal.
pub(crate) fn url(link: &LoginLinkBody) -> String {
    value::visible(&link.url)
}
