//! The output of a run from any place on, as text, while it grows and afterwards.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek},
};

use countersign_domain::{OutputStream, RunId};
use countersign_runner::output::{SpoolFollower, Utf8Decoder, sanitize};

use crate::{
    records::{OutputBytes, Records},
    reply::StorageTrouble,
};

/// A piece of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputText {
    /// Bytes of both streams before it.
    pub offset: u64,
    /// Bytes of both streams up to its end.
    pub end: u64,
    /// Where the command wrote it.
    pub stream: OutputStream,
    /// What can be shown of it. A character belongs to the piece that has its last byte.
    pub text: String,
    /// The same as it was written: `end - offset` bytes.
    pub bytes: Vec<u8>,
}

/// A place in the output of a run. What was read up to any place and what is read from there on is the whole.
#[derive(Debug)]
pub(super) struct OutputReader {
    offset: u64,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
    /// Whether the decoders know what was before the place.
    is_taken_up: bool,
    spool: Option<SpoolFollower<File>>,
}

impl Default for OutputReader {
    fn default() -> Self {
        Self::at(0)
    }
}

/// What was found in a source.
#[derive(Default)]
struct Found {
    /// The last bytes of what was passed on the way.
    passed: Vec<(OutputStream, Vec<u8>)>,
    pieces: Vec<(OutputStream, Vec<u8>)>,
}

impl OutputReader {
    /// After so many bytes of both streams.
    pub(super) fn at(offset: u64) -> Self {
        Self {
            offset,
            stdout: Utf8Decoder::default(),
            stderr: Utf8Decoder::default(),
            is_taken_up: offset == 0,
            spool: None,
        }
    }

    /// What there is after the place, about `most` bytes of it; nothing when there is nothing now.
    ///
    /// # Cancel safety
    /// Cancelled, it has read nothing.
    pub(super) async fn read(
        &mut self,
        records: &Records,
        run_id: &RunId,
        most: usize,
    ) -> Result<Vec<OutputText>, StorageTrouble> {
        let Some(source) = records.output_after(run_id, self.offset).await? else {
            return Ok(Vec::new());
        };
        let offset = self.offset;
        let found = match source {
            OutputBytes::Frames(frames) => {
                let mut follower = SpoolFollower::new(Cursor::new(frames));
                find(&mut follower, offset, most)
            }
            OutputBytes::Spool(path) => {
                let open = self.spool.take();
                let read = tokio::task::spawn_blocking(move || {
                    let Some(mut follower) = open.map_or_else(|| open_spool(&path), |open| Ok(Some(open)))?
                    else {
                        return Ok(None);
                    };
                    let found = find(&mut follower, offset, most)?;
                    Ok(Some((found, follower)))
                });
                match read
                    .await
                    .unwrap_or_else(|_panic| Err(io::ErrorKind::Other.into()))
                {
                    Ok(Some((found, follower))) => {
                        self.spool = Some(follower);
                        Ok(found)
                    }
                    Ok(None) => Ok(Found::default()),
                    Err(error) => Err(error),
                }
            }
        };
        let found = found.map_err(|error| {
            tracing::error!(run.id = %run_id, %error, "output cannot be read");
            StorageTrouble::Unavailable
        })?;
        Ok(self.take(found))
    }

    /// The output has ended: a character that never became whole is one that cannot be shown.
    pub(super) fn finish(&mut self) -> [String; 2] {
        [&mut self.stdout, &mut self.stderr].map(|decoder| {
            let mut text = String::new();
            decoder.finish(|piece| text.push_str(piece));
            text
        })
    }

    fn take(&mut self, found: Found) -> Vec<OutputText> {
        let Found { passed, pieces } = found;
        if !self.is_taken_up {
            for (stream, tail) in passed {
                self.decoder(stream).take_up(&tail);
            }
            // As long as nothing came, the place may not have been reached.
            self.is_taken_up = !pieces.is_empty();
            if pieces.is_empty() {
                self.spool = None;
                (self.stdout, self.stderr) = (Utf8Decoder::default(), Utf8Decoder::default());
            }
        }
        let mut texts = Vec::new();
        for (stream, bytes) in pieces {
            let offset = self.offset;
            self.offset += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let mut text = String::new();
            self.decoder(stream)
                .push(&bytes, |piece| text.push_str(&sanitize(piece)));
            texts.push(OutputText {
                offset,
                end: self.offset,
                stream,
                text,
                bytes,
            });
        }
        texts
    }

    const fn decoder(&mut self, stream: OutputStream) -> &mut Utf8Decoder {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }
}

fn open_spool(path: &std::path::Path) -> io::Result<Option<SpoolFollower<File>>> {
    match countersign_sys::fs::open_regular(path) {
        Ok(file) => Ok(Some(SpoolFollower::new(file))),
        // Nothing was kept, or it was removed to make room.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn find<R: Read + Seek>(follower: &mut SpoolFollower<R>, offset: u64, most: usize) -> io::Result<Found> {
    const BUFFER: usize = 64 * 1024;
    let mut found = Found::default();
    follower.pass(offset, |stream, tail| {
        keep_tail(&mut found.passed, stream, tail);
    })?;
    if follower.offset() < offset {
        return Ok(Found::default());
    }
    let mut buffer = vec![0; BUFFER.min(most.max(1))];
    let mut length = 0;
    while length < most {
        let Some((stream, read)) = follower.read(&mut buffer)? else {
            break;
        };
        length += read;
        let bytes = buffer.get(..read).unwrap_or_default().to_vec();
        found.pieces.push((stream, bytes));
    }
    Ok(found)
}

/// Keeps the last tails only: what was before three bytes of a stream says nothing any more.
fn keep_tail(passed: &mut Vec<(OutputStream, Vec<u8>)>, stream: OutputStream, tail: &[u8]) {
    let of_stream =
        |passed: &[(OutputStream, Vec<u8>)]| passed.iter().filter(|(other, _)| *other == stream).count();
    if tail.len() >= 3 {
        passed.retain(|(other, _)| *other != stream);
    } else if of_stream(passed) >= 4
        // Each has a byte, so four are more than enough.
        && let Some(oldest) = passed.iter().position(|(other, _)| *other == stream)
    {
        passed.remove(oldest);
    }
    passed.push((stream, tail.to_vec()));
}
