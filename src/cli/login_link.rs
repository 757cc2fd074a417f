//! `countersign login-link`: a way in for a browser.

use serde_json::{Value, json};

use super::{console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure, value};

/// Print a one-time link that signs a browser in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign login-link
  countersign login-link --json

The link opens the approvals page with the rights of the operator's token. It works once and for
some minutes ([auth] login_link_ttl_ms); anyone who has it can sign in, so send it to nobody else.")]
pub(crate) struct LoginLinkArgs {}

/// Runs the command.
pub(crate) async fn run(context: &Context, LoginLinkArgs {}: LoginLinkArgs) -> Result<ExitStatus, Failure> {
    let link = context
        .client(Role::Operator)?
        .post(&["v1", "login-links"], &json!({}))
        .await?;
    if context.console.format() == Format::Json {
        context.console.document(&link)?;
        return Ok(ExitStatus::SUCCESS);
    }
    // Alone on standard output, so that it can go straight to a browser.
    context.console.line(&url(&link))?;
    let until = value::time(&link, "expiresAtMs");
    context
        .console
        .note(&format!("signs one browser in, once, until {until}"));
    Ok(ExitStatus::SUCCESS)
}

/// The link in an answer, safe for a terminal.
pub(crate) fn url(link: &Value) -> String {
    value::visible(value::string(link, "url"))
}
