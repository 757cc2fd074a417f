//! `countersign browsers`: who is signed in, and signing them out.

use serde_json::json;

use countersign_wire::token::SignInBody;

use super::{
    candidates, client::Client, console::Format, context::Context, discover::Role, exit::ExitStatus,
    failure::Failure, ids, layout::Listing, table::Table, value,
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
    List(Listing),
    /// Sign a browser out at once
    #[command(
        alias = "rm",
        after_help = "Examples:
  countersign browsers revoke BROWSER

A browser that signed in by a link for a person comes back with nothing but another link. To end all
browsers of a token: countersign token revoke TOKEN."
    )]
    Revoke {
        /// Its id, or a unique part of 8 characters or more, as `list` shows it
        #[arg(value_name = "BROWSER", add = candidates::browsers())]
        id: String,
    },
}

pub(crate) async fn run(context: &Context, command: BrowsersCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        BrowsersCommand::List(listing) => list(context, &client, listing).await?,
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

async fn list(
    context: &Context,
    client: &Client,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let browsers: Vec<SignInBody> = client.list(&["v1", "sign-ins"], &Vec::new(), MOST).await?;
    let browsers = period.newest(context.clock.now(), browsers, |browser| {
        Some(browser.created_at_ms)
    });
    if context.console.format() == Format::Json {
        return context.console.document(&json!({"items": browsers}));
    }
    let mut table = Table::new(&["BROWSER", "NAME", "SCOPES", "SINCE", "ENDS"]);
    for browser in &browsers {
        table.row([
            &layout.id(browser.id.as_str()),
            &browser.name,
            &value::joined(&browser.scopes),
            &layout.time(context, browser.created_at_ms),
            &layout.time(context, browser.expires_at_ms),
        ]);
    }
    let ids = browsers.iter().map(|browser| browser.id.as_str());
    layout.print(context, ids, &table, "no browser is signed in")
}

/// The browser with this id or name, or with this beginning or end of the id.
async fn named(client: &Client, name: &str) -> Result<SignInBody, Failure> {
    let mut browsers: Vec<SignInBody> = client.list(&["v1", "sign-ins"], &Vec::new(), MOST).await?;
    let named = browsers.iter().map(|browser| ids::Named {
        id: browser.id.as_str(),
        name: Some(&browser.name),
        what: format!("{}: {}", browser.name, value::joined(&browser.scopes)),
    });
    let named: Vec<_> = named.collect();
    let what = ("browser that is signed in as", "countersign browsers list");
    let at = ids::find(&named, name, what)?;
    Ok(browsers.swap_remove(at))
}
