//! What a command on a node wrote, as its node sent it (`docs/spec/bridge.md#92-caps`). Unlike every text for people it
//! keeps its escapes: the operator that called `node.invoke` gets what the node answered.

use std::io::{self, Cursor};

use countersign_domain::{OutputStream, Run};
use countersign_engine::{Engine, OutputBytes};
use countersign_protocol::bridge::{CappedStreams, Truncated};
use countersign_runner::output::spool;

/// Both streams of a run that has ended.
///
/// # Errors
/// When what was kept of them cannot be read.
pub(super) async fn of_run(engine: &Engine, run: &Run) -> io::Result<CappedStreams> {
    let bytes = engine
        .records()
        .output_bytes(&run.id)
        .await
        .map_err(io::Error::other)?;
    let sent = run.output_bytes;
    let read = tokio::task::spawn_blocking(move || streams(bytes, sent)).await;
    read.map_err(io::Error::other)?
}

/// What is kept of an answer is bounded where it comes in, so all of it is read.
fn streams(bytes: Option<OutputBytes>, sent: u64) -> io::Result<CappedStreams> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let piece = |stream, bytes: &[u8]| match stream {
        OutputStream::Stdout => stdout.extend_from_slice(bytes),
        OutputStream::Stderr => stderr.extend_from_slice(bytes),
    };
    match bytes {
        None => {}
        Some(OutputBytes::Frames(frames)) => spool::replay(Cursor::new(frames), piece)?,
        Some(OutputBytes::Spool(path)) => spool::replay(std::fs::File::open(path)?, piece)?,
    }
    let kept = u64::try_from(stdout.len() + stderr.len()).unwrap_or(u64::MAX);
    let truncated = if kept < sent {
        Truncated::Yes
    } else {
        Truncated::No
    };
    Ok(CappedStreams::of_sent(
        &String::from_utf8_lossy(&stdout),
        &String::from_utf8_lossy(&stderr),
        truncated,
    ))
}
