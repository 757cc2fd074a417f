//! `countersign openapi`: the contract of the HTTP API.

use super::{console::Console, exit::ExitStatus, failure::Failure};

/// Prints the document, the same as `GET /openapi.json` and the file in the repository.
pub(crate) fn run(console: Console) -> Result<ExitStatus, Failure> {
    console.raw_out(countersign_http::document().as_bytes())?;
    Ok(ExitStatus::SUCCESS)
}
