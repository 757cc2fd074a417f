//! Reads a spool while it grows: what there is, and later what has come since.

use std::io::{self, Read, Seek, SeekFrom};

use countersign_domain::OutputStream;

use super::spool::{FrameKind, HEADER_BYTES, MAX_PAYLOAD_BYTES};

/// So many bytes before a place in a stream say in the middle of which character that is.
const CHARACTER_TAIL: usize = 3;

/// A place in a spool that may still grow.
#[derive(Debug)]
pub struct SpoolFollower<R> {
    spool: R,
    /// Where to read next.
    position: u64,
    /// Bytes of output before that.
    offset: u64,
    /// The frame that is being read, and how much of its payload is left.
    frame: Option<(OutputStream, u64)>,
}

impl<R: Read + Seek> SpoolFollower<R> {
    /// Begins at the beginning.
    pub const fn new(spool: R) -> Self {
        Self {
            spool,
            position: 0,
            offset: 0,
            frame: None,
        }
    }

    /// Bytes of output before the place.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes forward to `offset`, or as far as there is something. `passed` gets the last bytes, three or all, of every
    /// piece that it passes.
    ///
    /// # Errors
    /// What the reader answers.
    pub fn pass(&mut self, offset: u64, mut passed: impl FnMut(OutputStream, &[u8])) -> io::Result<()> {
        while self.offset < offset {
            let Some((stream, left)) = self.enter_frame()? else {
                return Ok(());
            };
            let length = left.min(offset - self.offset);
            let tail_length = length.min(CHARACTER_TAIL as u64);
            let mut tail = [0; CHARACTER_TAIL];
            let Some(tail) = usize::try_from(tail_length)
                .ok()
                .and_then(|length| tail.get_mut(..length))
            else {
                return Ok(());
            };
            self.spool
                .seek(SeekFrom::Start(self.position + length - tail_length))?;
            match self.spool.read_exact(tail) {
                Ok(()) => {}
                // It is only being written.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
            passed(stream, tail);
            self.advance(stream, left, length);
        }
        Ok(())
    }

    /// Reads the next piece of one stream; `None` when there is nothing, now or for ever.
    ///
    /// # Errors
    /// What the reader answers.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<(OutputStream, usize)>> {
        let Some((stream, left)) = self.enter_frame()? else {
            return Ok(None);
        };
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(wanted) = buffer.get_mut(..most) else {
            return Ok(None);
        };
        self.spool.seek(SeekFrom::Start(self.position))?;
        let read = self.spool.read(wanted)?;
        if read == 0 {
            return Ok(None);
        }
        self.advance(stream, left, u64::try_from(read).unwrap_or(u64::MAX));
        Ok(Some((stream, read)))
    }

    /// The frame at the place with what is left of it; `None` when there is none, or only a part of its head.
    fn enter_frame(&mut self) -> io::Result<Option<(OutputStream, u64)>> {
        while self.frame.is_none_or(|(_, left)| left == 0) {
            let mut header = [0; HEADER_BYTES];
            self.spool.seek(SeekFrom::Start(self.position))?;
            match self.spool.read_exact(&mut header) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(error) => return Err(error),
            }
            let [kind, length @ ..] = header;
            let length = u32::from_le_bytes(length);
            let is_possible = usize::try_from(length).is_ok_and(|length| length <= MAX_PAYLOAD_BYTES);
            let Some(kind) = FrameKind::of(kind).filter(|_| is_possible) else {
                return Ok(None);
            };
            self.position += HEADER_BYTES as u64;
            match kind {
                FrameKind::Output(stream) => self.frame = Some((stream, u64::from(length))),
                FrameKind::Time | FrameKind::Size | FrameKind::Input => self.position += u64::from(length),
            }
        }
        Ok(self.frame)
    }

    const fn advance(&mut self, stream: OutputStream, left: u64, length: u64) {
        self.position += length;
        self.offset += length;
        self.frame = Some((stream, left.saturating_sub(length)));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::{super::spool, *};

    type Pieces = Vec<(OutputStream, Vec<u8>)>;

    /// Both streams on their own.
    fn apart(pieces: &[(OutputStream, Vec<u8>)]) -> [Vec<u8>; 2] {
        [OutputStream::Stdout, OutputStream::Stderr].map(|wanted| {
            pieces
                .iter()
                .filter(|(stream, _)| *stream == wanted)
                .flat_map(|(_, bytes)| bytes.clone())
                .collect()
        })
    }

    fn read_all(follower: &mut SpoolFollower<Cursor<Vec<u8>>>, size: usize) -> Pieces {
        let mut buffer = vec![0; size];
        let mut pieces = Vec::new();
        while let Some((stream, length)) = follower.read(&mut buffer).unwrap() {
            pieces.push((stream, buffer[..length].to_vec()));
        }
        pieces
    }

    fn pieces() -> impl Strategy<Value = Pieces> {
        prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..20)), 0..12).prop_map(
            |pieces| {
                let stream = |err| {
                    if err {
                        OutputStream::Stderr
                    } else {
                        OutputStream::Stdout
                    }
                };
                pieces
                    .into_iter()
                    .map(|(err, bytes)| (stream(err), bytes))
                    .collect()
            },
        )
    }

    proptest! {
        #[test]
        fn a_spool_that_grows_byte_by_byte_is_read_once_and_whole(pieces in pieces(), size in 1_usize..9) {
            let mut file = Vec::new();
            for (stream, bytes) in &pieces {
                spool::append(&mut file, *stream, bytes).unwrap();
            }
            let mut follower = SpoolFollower::new(Cursor::new(Vec::new()));
            let mut read = Vec::new();
            for end in 0..=file.len() {
                follower.spool = Cursor::new(file[..end].to_vec());
                read.extend(read_all(&mut follower, size));
            }
            prop_assert_eq!(apart(&read), apart(&pieces));
            let total: usize = pieces.iter().map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(follower.offset(), total as u64);
        }

        #[test]
        fn what_is_passed_and_what_is_read_is_the_whole(pieces in pieces(), at in 0_u64..200) {
            let mut file = Vec::new();
            for (stream, bytes) in &pieces {
                spool::append(&mut file, *stream, bytes).unwrap();
            }
            let all: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
            let mut follower = SpoolFollower::new(Cursor::new(file));
            let mut tails: [Vec<u8>; 2] = Default::default();
            follower.pass(at, |stream, tail| {
                tails[usize::from(stream == OutputStream::Stderr)].extend_from_slice(tail);
            }).unwrap();
            prop_assert_eq!(follower.offset(), at.min(all.len() as u64));
            let at = usize::try_from(follower.offset()).unwrap();
            let rest: Vec<u8> = read_all(&mut follower, 7).into_iter().flat_map(|(_, bytes)| bytes).collect();
            prop_assert_eq!(&rest[..], &all[at..]);
        }

        #[test]
        fn foreign_bytes_end_it(file in prop::collection::vec(any::<u8>(), 0..100), at in any::<u64>()) {
            let mut follower = SpoolFollower::new(Cursor::new(file.clone()));
            follower.pass(at, |_, _| {}).unwrap();
            let rest = read_all(&mut follower, 16);
            prop_assert!(rest.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= file.len());
        }
    }
}
