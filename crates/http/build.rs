//! Makes the reference page at `/docs` from the contract and the catalogue of errors that are checked in, and packs both the
//! page and the contract: together they are a megabyte of text.

#![expect(
    clippy::disallowed_methods,
    reason = "this is how a build script talks to cargo"
)]

use std::{env, error::Error, fs, io::Write as _, path::PathBuf};

use flate2::{Compression, write::GzEncoder};

#[path = "reference/render.rs"]
mod render;

const CONTRACT: &str = "../../openapi/openapi.json";
const ERRORS: &str = "../../docs/errors.md";

fn main() -> Result<(), Box<dyn Error>> {
    for input in [CONTRACT, ERRORS, "reference"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let contract = fs::read_to_string(CONTRACT)?;
    let page = render::render(serde_json::from_str(&contract)?, &fs::read_to_string(ERRORS)?)?;
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo names no directory")?);
    for (name, text) in [("openapi.json.gz", contract), ("reference.html.gz", page)] {
        let mut packed = GzEncoder::new(fs::File::create(folder.join(name))?, Compression::best());
        packed.write_all(text.as_bytes())?;
        packed.finish()?;
    }
    Ok(())
}
