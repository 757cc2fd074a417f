//! Makes the reference page at `/docs` from the contract and the catalogue of errors that are checked in.

#![expect(
    clippy::disallowed_methods,
    reason = "this is how a build script talks to cargo"
)]

use std::{env, error::Error, fs, path::PathBuf};

#[path = "reference/render.rs"]
mod render;

const CONTRACT: &str = "../../openapi/openapi.json";
const ERRORS: &str = "../../docs/errors.md";

fn main() -> Result<(), Box<dyn Error>> {
    for input in [CONTRACT, ERRORS, "reference"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let contract = serde_json::from_str(&fs::read_to_string(CONTRACT)?)?;
    let page = render::render(contract, &fs::read_to_string(ERRORS)?)?;
    let folder = env::var_os("OUT_DIR").ok_or("cargo names no directory")?;
    Ok(fs::write(PathBuf::from(folder).join("reference.html"), page)?)
}
