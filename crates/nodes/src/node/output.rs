//! What a command wrote, as a result carries it (`docs/spec/bridge.md#92-caps`).

use std::{
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::Path,
};

use countersign_domain::OutputStream;
use countersign_engine::OutputBytes;
use countersign_protocol::bridge::{CappedStreams, MAX_RESULT_BYTES, Truncated};
use countersign_runner::output::spool;

/// How much of a spool is read at most: enough for all that is kept, also when every byte has a frame of its own.
const MAX_SPOOL_BYTES: u64 = 4 * 1024 * 1024;

/// The first of both streams, in the order in which they came.
///
/// # Errors
/// When the spool cannot be read.
pub(super) fn capped(bytes: Option<OutputBytes>) -> io::Result<CappedStreams> {
    let mut kept = StreamCollector::default();
    match bytes {
        None => {}
        Some(OutputBytes::Frames(frames)) => spool::replay(Cursor::new(frames), |stream, bytes| {
            kept.push(stream, bytes);
        })?,
        Some(OutputBytes::Spool(path)) => kept.read(&path)?,
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(CappedStreams::of_collected(
        text(kept.stdout),
        text(kept.stderr),
        kept.truncated.unwrap_or(Truncated::No),
    ))
}

#[derive(Default)]
struct StreamCollector {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    truncated: Option<Truncated>,
}

impl StreamCollector {
    fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let room = MAX_RESULT_BYTES.saturating_sub(self.stdout.len() + self.stderr.len());
        let (kept, left_out) = bytes.split_at(bytes.len().min(room));
        match stream {
            OutputStream::Stdout => self.stdout.extend_from_slice(kept),
            OutputStream::Stderr => self.stderr.extend_from_slice(kept),
        }
        if !left_out.is_empty() {
            self.truncated = Some(Truncated::Yes);
        }
    }

    fn read(&mut self, path: &Path) -> io::Result<()> {
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let beginning = Beginning {
            inner: file,
            left: MAX_SPOOL_BYTES,
        };
        spool::replay(beginning, |stream, bytes| self.push(stream, bytes))
    }
}

/// The beginning of a file; behind it there seems to be nothing.
struct Beginning<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Beginning<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = match buffer.get_mut(..most) {
            Some(buffer) => self.inner.read(buffer)?,
            None => 0,
        };
        self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

impl<R: Seek> Seek for Beginning<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files of the tests themselves")]
    use super::*;

    fn frames(pieces: &[(OutputStream, &[u8])]) -> Vec<u8> {
        let mut frames = Vec::new();
        for (stream, bytes) in pieces {
            spool::append(&mut frames, *stream, bytes).unwrap();
        }
        frames
    }

    #[test]
    fn short_output_is_whole() {
        let frames = frames(&[
            (OutputStream::Stdout, b"out\n"),
            (OutputStream::Stderr, b"err \xff\n"),
        ]);
        let streams = capped(Some(OutputBytes::Frames(frames.into()))).unwrap();
        assert_eq!(
            (streams.stdout.as_str(), streams.stderr.as_str()),
            ("out\n", "err \u{fffd}\n")
        );
        assert!(!streams.truncated);
        assert_eq!(capped(None).unwrap().stdout, "");
    }

    #[test]
    fn the_first_bytes_of_both_streams_are_kept() {
        let many = vec![b'a'; 30_000];
        let pieces: Vec<(OutputStream, &[u8])> =
            (0..10).map(|_| (OutputStream::Stdout, many.as_slice())).collect();
        let streams = capped(Some(OutputBytes::Frames(frames(&pieces).into()))).unwrap();
        assert_eq!(streams.stdout.len(), MAX_RESULT_BYTES + "\n... (truncated)".len());
        assert!(streams.truncated && streams.stderr.is_empty());
    }

    #[test]
    fn a_long_spool_is_read_no_further_than_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let single: Vec<(OutputStream, &[u8])> = (0..220_000)
            .map(|_| (OutputStream::Stderr, b"x".as_slice()))
            .collect();
        std::fs::write(&path, frames(&single)).unwrap();
        let streams = capped(Some(OutputBytes::Spool(path))).unwrap();
        assert_eq!(streams.stderr.len(), MAX_RESULT_BYTES + "\n... (truncated)".len());
        let missing = capped(Some(OutputBytes::Spool(folder.path().join("none")))).unwrap();
        assert_eq!(missing.stdout, "");
    }
}
