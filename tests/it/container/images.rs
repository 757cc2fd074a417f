//! The images that the build starts from, made from what this machine has.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use super::engine::{Engine, succeeds};
use crate::support::{Invocation, program, released, write_file_mode};

/// Names of the two images.
pub(super) const RUNTIME: &str = "made-here/runtime:test";
pub(super) const TOOLCHAIN: &str = "made-here/toolchain:test";

/// What the compiler may see: neither history nor state nor what earlier builds left.
pub(super) const EXPECTED: [&str; 11] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "benches",
    "build.rs",
    "crates",
    "docs",
    "migrations",
    "openapi",
    "src",
    "web",
];

/// Says what it was given and hands over the program that was compiled already.
const CARGO: &str = r#"#!/bin/sh
set -e
[ "$*" = "build --profile dist --locked --bin countersign" ]
for name in $(ls -A); do echo "handed over: $name"; done
mkdir -p target/dist
cp /compiled/countersign target/dist/countersign
"#;

/// Makes both and gives them to the engine.
pub(super) async fn make(engine: &Engine) {
    let root = engine.scratch().dir("root");
    base(&root).await;
    import(engine, &root, RUNTIME).await;
    write_file_mode(&root.join("usr/local/bin/cargo"), CARGO, 0o755);
    let compiled = root.join("compiled");
    fs::create_dir(&compiled).expect("a directory of the image");
    fs::copy(released(), compiled.join("countersign")).expect("the program");
    import(engine, &root, TOOLCHAIN).await;
}

/// What the stand-in for the compiler was given, in order.
pub(super) fn handed_over(output: &str) -> Vec<&str> {
    let names = output
        .lines()
        .filter_map(|line| line.strip_prefix("handed over: "));
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}

/// A small system: busybox under all its names, the libraries of the program, root.
async fn base(root: &Path) {
    for directory in [
        "bin",
        "etc",
        "usr/bin",
        "usr/local/bin",
        "var/lib",
        "proc",
        "sys",
        "dev",
    ] {
        fs::create_dir_all(root.join(directory)).expect("a directory of the image");
    }
    let busybox = program("busybox").expect("busybox was there a moment ago");
    fs::copy(&busybox, root.join("bin/busybox")).expect("busybox");
    let names = succeeds(Invocation::new(busybox).args(&["--list"])).await;
    for name in names.lines().filter(|name| *name != "busybox") {
        symlink("busybox", root.join("bin").join(name)).expect("a name of busybox");
    }
    let libraries = succeeds(Invocation::new("ldd").arg(released())).await;
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let place = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(place.parent().expect("a file has a parent")).expect("a directory of the image");
        fs::copy(library, place).expect("a library");
    }
    let temporary = root.join("tmp");
    fs::create_dir(&temporary).expect("a directory of the image");
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o1777)).expect("its mode");
    write_file_mode(&root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n", 0o644);
    write_file_mode(&root.join("etc/group"), "root:x:0:\n", 0o644);
}

async fn import(engine: &Engine, root: &Path, image: &str) {
    let archive: PathBuf = engine.scratch().join("image.tar");
    let packed = Invocation::new("tar")
        .arg("-C")
        .arg(root)
        .arg("-cf")
        .arg(&archive)
        .arg(".");
    succeeds(packed).await;
    let archive = archive.to_str().expect("a plain path");
    engine.docker(&["import", archive, image]).await;
}
