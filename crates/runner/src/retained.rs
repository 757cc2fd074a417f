//! The exact output of a run: in memory while it is small, in its spool when it grows or nobody is there.

use std::{
    io::IoSlice,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use countersign_domain::OutputStream;
use countersign_sys::faults;

use crate::output::spool;

use super::limits::INLINE_BYTES;

/// Output in the spool's format, with neighbouring pieces of one stream in one frame.
#[derive(Debug, Default)]
pub struct InlineFrames {
    bytes: Vec<u8>,
    /// Stream and begin of the last frame's payload.
    last: Option<(OutputStream, usize)>,
    /// Bytes of all payloads.
    payload: u64,
}

impl InlineFrames {
    /// Appends output of a stream, to the last frame where that is of the same stream.
    pub fn push(&mut self, stream: OutputStream, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        self.payload = self.payload.saturating_add(size(payload.len()));
        match self.last {
            Some((last, begin)) if last == stream => {
                self.bytes.extend_from_slice(payload);
                let length = self.bytes.len() - begin;
                if let Some(header) = self.bytes.get_mut(begin - spool::HEADER_BYTES..begin) {
                    header.copy_from_slice(&spool::header(stream, length));
                }
            }
            _ => {
                self.bytes.extend(spool::header(stream, payload.len()));
                self.last = Some((stream, self.bytes.len()));
                self.bytes.extend_from_slice(payload);
            }
        }
    }

    /// Bytes of output in it, without the heads of frames.
    pub const fn payload(&self) -> u64 {
        self.payload
    }

    /// The frames in the form of a spool.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The frames in the form of a spool.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Where the spool of a run comes from.
#[derive(Debug, Clone, Copy)]
pub(super) enum SpoolPlace<'a> {
    /// It is made in this directory when it is needed.
    Directory(BorrowedFd<'a>),
    /// The server made it: this process could not.
    Given(BorrowedFd<'a>),
    /// There is none, so nothing that is not small is kept.
    Nowhere,
}

impl SpoolPlace<'_> {
    fn open(self, name: &str) -> Result<OwnedFd, Errno> {
        faults::fail_at("sup.open-spool")?;
        match self {
            Self::Directory(directory) => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
                // The mask of the commands is in force here, and may forbid us our own file.
                rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
                Ok(file)
            }
            Self::Given(file) => {
                rustix::fs::ftruncate(file, 0)?;
                rustix::io::fcntl_dupfd_cloexec(file, 0)
            }
            Self::Nowhere => Err(Errno::NOENT),
        }
    }
}

/// Keeps a run's output, up to the limit that the run has.
#[derive(Debug)]
pub(super) struct Retained<'a> {
    place_of_spool: SpoolPlace<'a>,
    name: &'a str,
    storage: OutputStorage,
    seen: u64,
    kept: u64,
    limit: u64,
}

#[derive(Debug)]
enum OutputStorage {
    Memory(InlineFrames),
    /// The file and its length up to the last whole frame.
    Spool(OwnedFd, u64),
    /// The spool could not be written, so nothing more is kept: a hole would be worse than an end.
    Full,
}

impl<'a> Retained<'a> {
    pub(super) fn new(place_of_spool: SpoolPlace<'a>, name: &'a str, limit: u64) -> Self {
        Self {
            place_of_spool,
            name,
            storage: OutputStorage::Memory(InlineFrames::default()),
            seen: 0,
            kept: 0,
            limit,
        }
    }

    /// Bytes of both streams seen.
    pub(super) const fn seen(&self) -> u64 {
        self.seen
    }

    /// Bytes of both streams kept.
    pub(super) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Whether output would be lost with this process.
    pub(super) const fn is_only_in_memory(&self) -> bool {
        matches!(self.storage, OutputStorage::Memory(_)) && self.kept > 0
    }

    /// Whether there is a spool instead of memory.
    pub(super) const fn is_spooled(&self) -> bool {
        !matches!(self.storage, OutputStorage::Memory(_))
    }

    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let length = size(bytes.len());
        self.seen = self.seen.saturating_add(length);
        let room = usize::try_from(self.limit.saturating_sub(self.kept)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
        if matches!(self.storage, OutputStorage::Memory(_))
            && self.kept + size(bytes.len()) > size(INLINE_BYTES)
        {
            self.spool();
        }
        match &mut self.storage {
            OutputStorage::Memory(frames) => {
                frames.push(stream, bytes);
                self.kept += size(bytes.len());
            }
            OutputStorage::Spool(file, end) => {
                let written = bytes.chunks(spool::MAX_PAYLOAD_BYTES).try_for_each(|payload| {
                    append(file, end, &spool::header(stream, payload.len()), payload)
                });
                match written {
                    Ok(()) => self.kept += size(bytes.len()),
                    Err(_) => self.storage = OutputStorage::Full,
                }
            }
            OutputStorage::Full => {}
        }
    }

    /// Moves what is in memory to the spool, and everything that follows.
    pub(super) fn spool(&mut self) {
        let OutputStorage::Memory(frames) = &self.storage else {
            return;
        };
        let written = self.place_of_spool.open(self.name).and_then(|file| {
            let mut end = 0;
            append(&file, &mut end, &[], frames.as_bytes())?;
            Ok((file, end))
        });
        self.storage = if let Ok((file, end)) = written {
            OutputStorage::Spool(file, end)
        } else {
            self.kept = 0;
            OutputStorage::Full
        };
    }
}

/// Appends a whole frame, or cuts off again what of it was written.
fn append(file: &OwnedFd, end: &mut u64, header: &[u8], payload: &[u8]) -> Result<(), Errno> {
    let total = header.len() + payload.len();
    let mut written = 0;
    while written < total {
        let header = header.get(written.min(header.len())..).unwrap_or_default();
        let payload = payload
            .get(written.saturating_sub(total - payload.len())..)
            .unwrap_or_default();
        match write(file, header, payload) {
            Ok(0) => return cut(file, *end, Errno::NOSPC),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(error) => return cut(file, *end, error),
        }
    }
    *end += size(total);
    Ok(())
}

fn write(file: &OwnedFd, header: &[u8], payload: &[u8]) -> Result<usize, Errno> {
    let length = faults::length_at("sup.write-spool", header.len() + payload.len())?;
    let header = header.get(..length).unwrap_or(header);
    let payload = payload.get(..length - header.len()).unwrap_or(payload);
    rustix::io::writev(file, &[IoSlice::new(header), IoSlice::new(payload)])
}

fn cut(file: &OwnedFd, end: u64, error: Errno) -> Result<(), Errno> {
    faults::fail_at("sup.cut-spool")?;
    rustix::fs::ftruncate(file, end)?;
    Err(error)
}

fn size(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsFd};

    use super::*;

    const OUT: OutputStream = OutputStream::Stdout;
    const ERR: OutputStream = OutputStream::Stderr;

    #[test]
    fn neighbouring_pieces_of_a_stream_share_a_frame() {
        let mut frames = InlineFrames::default();
        for (stream, piece) in [(OUT, "a"), (OUT, "b"), (ERR, "c"), (ERR, ""), (OUT, "d")] {
            frames.push(stream, piece.as_bytes());
        }
        assert_eq!(
            frames.as_bytes(),
            b"\x01\x02\0\0\0ab\x02\x01\0\0\0c\x01\x01\0\0\0d"
        );
        assert_eq!(frames.payload(), 4);
    }

    #[test]
    fn what_is_small_stays_in_memory_and_what_grows_is_spooled_from_its_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::open(directory.path()).unwrap();
        let mut retained = Retained::new(SpoolPlace::Directory(file.as_fd()), "run", 100_000);
        retained.push(OUT, &vec![b'a'; INLINE_BYTES]);
        assert!(retained.is_only_in_memory());
        assert!(!directory.path().join("run").exists());
        retained.push(ERR, &vec![b'b'; 30_000]);
        assert!(retained.is_spooled() && !retained.is_only_in_memory());
        // Over the limit: counted, not kept.
        retained.push(OUT, &vec![b'c'; 30_000]);
        assert_eq!((retained.seen(), retained.kept()), (125_536, 100_000));
        let mut pieces = Vec::new();
        let spool = fs::File::open(directory.path().join("run")).unwrap();
        spool::replay(spool, |stream, bytes| {
            pieces.extend(bytes.iter().map(|byte| (stream, *byte)));
        })
        .unwrap();
        let mut expect = vec![(OUT, b'a'); INLINE_BYTES];
        expect.extend(vec![(ERR, b'b'); 30_000]);
        expect.extend(vec![(OUT, b'c'); 100_000 - 95_536]);
        assert!(pieces == expect);
    }

    #[test]
    fn a_spool_that_was_given_is_written_from_its_beginning() {
        let file = tempfile::tempfile().unwrap();
        let mut retained = Retained::new(SpoolPlace::Given(file.as_fd()), "run", 100_000);
        retained.push(OUT, b"small");
        assert_eq!(file.metadata().unwrap().len(), 0);
        retained.spool();
        retained.push(ERR, b"more");
        let mut pieces = Vec::new();
        spool::replay(file, |stream, bytes| pieces.push((stream, bytes.to_vec()))).unwrap();
        assert_eq!(pieces, [(OUT, b"small".to_vec()), (ERR, b"more".to_vec())]);
    }

    #[test]
    fn a_spool_that_cannot_be_made_keeps_nothing_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::open(directory.path()).unwrap();
        let mut retained = Retained::new(SpoolPlace::Directory(file.as_fd()), "no/such/place", 100_000);
        retained.push(OUT, &vec![b'a'; INLINE_BYTES]);
        retained.push(OUT, b"more");
        assert_eq!((retained.seen(), retained.kept()), (65_540, 0));
    }
}
