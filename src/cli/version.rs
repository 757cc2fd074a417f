//! `countersign version`: what this program is.

use serde_json::json;

use super::{console::Format, context::Context, exit::ExitStatus, failure::Failure};

/// Prints the version of this program, which need not be that of the server.
pub(crate) fn run(context: &Context) -> Result<ExitStatus, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match context.console.format() {
        Format::Json => {
            let document = json!({ "name": "countersign", "version": version });
            context.console.document(&document)?;
        }
        Format::People => context.console.line(&format!("countersign {version}"))?,
    }
    Ok(ExitStatus::SUCCESS)
}
