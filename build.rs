//! Strips the program that people install.
//!
//! Cargo forgets `strip` of a profile for a package that the profile has settings for, as `dist` has for this one.

#![expect(
    clippy::disallowed_methods,
    reason = "this is how a build script talks to cargo"
)]

use std::{
    env,
    path::{Path, PathBuf},
};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only the place of the output says which profile it is: PROFILE/build/PACKAGE/out.
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let profile = folder.ancestors().nth(3).and_then(Path::file_name);
    if profile.is_some_and(|profile| profile == "dist") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
}
