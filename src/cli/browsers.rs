//! `countersign browsers`: who is signed in, and signing them out.

use serde_json::json;

use countersign_domain::IdPart;
use countersign_wire::token::SignInBody;

use super::{
    client::Client, console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure,
    layout::Layout, table::Table, value,
};

/// More are never signed in.
const MOST: usize = 100_000;

/// See which browsers are signed in, and sign them out
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign browsers list
  countersign browsers revoke BROWSER")]
pub(crate) enum BrowsersCommand {
    /// List the browsers that are signed in, the newest first
    #[command(
        alias = "ls",
        after_help = "Examples:
  countersign browsers list
  countersign browsers list --json"
    )]
    List(Layout),
    /// Sign a browser out at once
    #[command(
        alias = "rm",
        after_help = "Examples:
  countersign browsers revoke BROWSER

A browser that signed in by a link for a person comes back with nothing but another link. To end all
browsers of a token: countersign token revoke TOKEN."
    )]
    Revoke {
        /// Its id, or a unique end of it as `list` shows it
        #[arg(value_name = "BROWSER")]
        id: String,
    },
}

pub(crate) async fn run(context: &Context, command: BrowsersCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        BrowsersCommand::List(layout) => list(context, &client, layout).await?,
        BrowsersCommand::Revoke { id } => {
            let browser = named(&client, &id).await?;
            client
                .delete(&["v1", "sign-ins", &browser.id.to_string()])
                .await?;
            match context.console.format() {
                Format::Json => context
                    .console
                    .document(&json!({"revoked": browser.id.to_string()}))?,
                Format::People => {
                    let name = value::visible(&browser.name);
                    context.console.line(&format!("signed out {name}"))?;
                }
            }
        }
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(context: &Context, client: &Client, layout: Layout) -> Result<(), Failure> {
    let browsers: Vec<SignInBody> = client.list(&["v1", "sign-ins"], &Vec::new(), MOST).await?;
    if context.console.format() == Format::Json {
        return context.console.document(&json!({"items": browsers}));
    }
    let mut table = Table::new(&["BROWSER", "NAME", "SCOPES", "SINCE", "UNTIL"]);
    for browser in &browsers {
        table.row([
            &layout.id(browser.id.as_str(), value::short_end(browser.id.as_str())),
            &browser.name,
            &value::joined(&browser.scopes),
            &layout.time(browser.created_at_ms, || value::local(browser.created_at_ms)),
            &layout.time(browser.expires_at_ms, || value::local(browser.expires_at_ms)),
        ]);
    }
    let ids = browsers.iter().map(|browser| browser.id.as_str());
    layout.print(context, ids, &table, "no browser is signed in")
}

/// The browser with this id, or with this beginning or end of it.
async fn named(client: &Client, name: &str) -> Result<SignInBody, Failure> {
    let browsers: Vec<SignInBody> = client.list(&["v1", "sign-ins"], &Vec::new(), MOST).await?;
    let part = IdPart::of(name);
    let fits = |browser: &SignInBody| {
        let id = browser.id.to_string();
        id == name || part.as_ref().is_some_and(|part| part.is_of(&id))
    };
    let mut fitting: Vec<SignInBody> = browsers.into_iter().filter(fits).collect();
    match (fitting.pop(), fitting.is_empty()) {
        (Some(browser), true) => Ok(browser),
        (Some(_), false) => Err(Failure::new(
            "id-ambiguous",
            format!("{name} begins or ends the ids of several browsers"),
        )
        .hint("`countersign browsers list --wide` has the ids in full")),
        (None, _) => Err(
            Failure::new("not-found", format!("no browser {name} is signed in"))
                .hint("countersign browsers list"),
        ),
    }
}
