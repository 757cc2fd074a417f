//! `countersign login-link`: a way in for a browser.

use serde_json::json;

use countersign_wire::token::LoginLinkBody;

use super::{
    client::Answer, console::Format, context::Context, discover::Role, exit::ExitStatus, failure::Failure,
    qr, value,
};

/// Print a one-time link that signs a browser in
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign login-link
  countersign login-link --qr            # for a phone
  countersign login-link --json

The link opens the approvals page with the rights of the operator's token. It works once and for
some minutes ([auth] login_link_ttl_ms); anyone who has it can sign in, so send it to nobody else.")]
pub(crate) struct LoginLinkArgs {
    /// Draw the link as a QR code, too
    #[arg(long)]
    qr: bool,
}

/// Runs the command.
pub(crate) async fn run(
    context: &Context,
    LoginLinkArgs { qr }: LoginLinkArgs,
) -> Result<ExitStatus, Failure> {
    let link: Answer<LoginLinkBody> = context
        .client(Role::Operator)?
        .post(&["v1", "login-links"], &json!({}))
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
    let until = value::local(link.expires_at_ms);
    context
        .console
        .note(&format!("signs one browser in, once, until {until}"));
    Ok(ExitStatus::SUCCESS)
}

/// The link in an answer, safe for a terminal.
pub(crate) fn url(link: &LoginLinkBody) -> String {
    value::visible(&link.url)
}
