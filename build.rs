//! Strips the program that people install.
//!
//! Cargo forgets `strip` of a profile for a package that the profile has settings for, as `dist` has for this one.

#![expect(
    clippy::disallowed_methods,
    reason = "this is how a build script talks to cargo"
)]

use std::{env, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only the place of the output says which profile it is.
    let folder = env::var_os("OUT_DIR").unwrap_or_default();
    if Path::new(&folder).iter().any(|part| part == "dist") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
