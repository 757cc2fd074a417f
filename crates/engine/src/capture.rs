//! How much of an output is kept as text, and that text of a spool.

use std::path::Path;

use countersign_config::settings::SettingsStore;
use countersign_runner::output::{Capture, CaptureLimits, spool};

/// How much is kept of each output (`[output]`).
pub(super) fn limits(settings: &SettingsStore) -> CaptureLimits {
    let output = &settings.current().server.output;
    CaptureLimits {
        max_chars: output.max_chars,
        tail_chars: output.tail_chars,
    }
}

/// The text of a whole spool.
pub(super) fn read_spool(path: &Path, limits: CaptureLimits) -> std::io::Result<Capture> {
    let mut capture = Capture::new(limits);
    match std::fs::File::open(path) {
        Ok(file) => spool::replay(std::io::BufReader::new(file), |stream, bytes| {
            capture.push(stream, bytes);
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    capture.finish();
    Ok(capture)
}
