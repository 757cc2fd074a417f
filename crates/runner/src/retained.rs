//! The exact output of a run: in memory while it is small, in its spool when it grows or nobody is there.

use std::{
    io::IoSlice,
    os::fd::{BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use countersign_domain::{OutputStream, TerminalSize};
use countersign_sys::faults;

use crate::output::spool::{self, FrameKind};

use super::limits::INLINE_BYTES;

/// The time is kept as exactly as this.
const RESOLUTION: Duration = Duration::from_millis(10);

/// When the last frame came, by which it is known whether the next one needs its time.
#[derive(Debug, Clone, Copy, Default)]
struct LastTime(Duration);

impl LastTime {
    /// The time to be told before a frame that comes now; `None` where it is that of the one before.
    fn next(&mut self, elapsed: Duration) -> Option<[u8; 8]> {
        let is_later = elapsed.saturating_sub(self.0) >= RESOLUTION;
        is_later.then(|| {
            self.0 = elapsed;
            spool::time(elapsed)
        })
    }
}

/// Output in the spool's format, with neighbouring pieces of one stream in one frame.
#[derive(Debug, Default)]
pub struct InlineFrames {
    bytes: Vec<u8>,
    /// Stream and begin of the last frame's payload.
    last: Option<(OutputStream, usize)>,
    /// Bytes of output.
    payload: u64,
    time: LastTime,
}

impl InlineFrames {
    /// Appends output of a stream that came so long after the start.
    pub fn push_at(&mut self, elapsed: Duration, stream: OutputStream, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        if let Some(time) = self.time.next(elapsed) {
            self.bytes.extend(spool::header_of(FrameKind::Time, time.len()));
            self.bytes.extend(time);
            self.last = None;
        }
        self.push(stream, payload);
    }

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
    /// Bytes of frames that are neither output nor its time.
    aside: usize,
}

#[derive(Debug)]
enum OutputStorage {
    Memory(InlineFrames),
    Spool(SpoolFile),
    /// The spool could not be written, so nothing more is kept: a hole would be worse than an end.
    Full,
}

/// A spool that is written.
#[derive(Debug)]
struct SpoolFile {
    file: OwnedFd,
    /// Its length up to the last complete frame.
    end: u64,
    time: LastTime,
}

impl SpoolFile {
    fn append(&mut self, kind: FrameKind, payload: &[u8]) -> Result<(), Errno> {
        let header = spool::header_of(kind, payload.len());
        append(&self.file, &mut self.end, &header, payload)
    }

    fn append_at(&mut self, elapsed: Duration, kind: FrameKind, payload: &[u8]) -> Result<(), Errno> {
        if let Some(time) = self.time.next(elapsed) {
            self.append(FrameKind::Time, &time)?;
        }
        payload
            .chunks(spool::MAX_PAYLOAD_BYTES)
            .try_for_each(|payload| self.append(kind, payload))
    }
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
            aside: 0,
        }
    }

    /// Keeps the size that the terminal has from now on. What a terminal shows is in the spool from its beginning, so that it
    /// can be shown again; where that cannot be made, it stays in memory as that of any run.
    pub(super) fn size(&mut self, elapsed: Duration, size: TerminalSize) {
        if let OutputStorage::Memory(frames) = &self.storage
            && let Ok(spool) = self.spool_of(frames)
        {
            self.storage = OutputStorage::Spool(spool);
        }
        self.aside(elapsed, FrameKind::Size, &spool::terminal_size(size));
    }

    /// Keeps what was typed.
    pub(super) fn typed(&mut self, elapsed: Duration, bytes: &[u8]) {
        self.aside(elapsed, FrameKind::Input, bytes);
    }

    fn aside(&mut self, elapsed: Duration, kind: FrameKind, payload: &[u8]) {
        let length = spool::HEADER_BYTES + spool::TIME_BYTES + payload.len();
        let OutputStorage::Spool(spool) = &mut self.storage else {
            return;
        };
        self.aside = self.aside.saturating_add(length);
        // Once one found no room none does: a hole would be worse than an end.
        if self.aside > spool::MAX_ASIDE_BYTES {
            self.aside = usize::MAX;
        } else if spool.append_at(elapsed, kind, payload).is_err() {
            self.storage = OutputStorage::Full;
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

    pub(super) fn push(&mut self, elapsed: Duration, stream: OutputStream, bytes: &[u8]) {
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
                frames.push_at(elapsed, stream, bytes);
                self.kept += size(bytes.len());
            }
            OutputStorage::Spool(spool) => match spool.append_at(elapsed, FrameKind::Output(stream), bytes) {
                Ok(()) => self.kept += size(bytes.len()),
                Err(_) => self.storage = OutputStorage::Full,
            },
            OutputStorage::Full => {}
        }
    }

    /// Moves what is in memory to the spool, and everything that follows.
    pub(super) fn spool(&mut self) {
        let OutputStorage::Memory(frames) = &self.storage else {
            return;
        };
        self.storage = if let Ok(spool) = self.spool_of(frames) {
            OutputStorage::Spool(spool)
        } else {
            self.kept = 0;
            OutputStorage::Full
        };
    }

    fn spool_of(&self, frames: &InlineFrames) -> Result<SpoolFile, Errno> {
        let file = self.place_of_spool.open(self.name)?;
        let mut end = 0;
        append(&file, &mut end, &[], frames.as_bytes())?;
        let time = frames.time;
        Ok(SpoolFile { file, end, time })
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
        retained.push(Duration::ZERO, OUT, &vec![b'a'; INLINE_BYTES]);
        assert!(retained.is_only_in_memory());
        assert!(!directory.path().join("run").exists());
        retained.push(Duration::ZERO, ERR, &vec![b'b'; 30_000]);
        assert!(retained.is_spooled() && !retained.is_only_in_memory());
        // Over the limit: counted, not kept.
        retained.push(Duration::ZERO, OUT, &vec![b'c'; 30_000]);
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

    /// What a spool tells, each in a few letters.
    fn told(spool: impl std::io::Read + std::io::Seek) -> Vec<String> {
        let mut all = Vec::new();
        spool::events(spool, |event| {
            all.push(match event {
                spool::Event::Time(time) => time.as_millis().to_string(),
                spool::Event::Output(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
                spool::Event::Input(bytes) => format!("typed {}", bytes.len()),
                spool::Event::Size(size) => format!("{}x{}", size.cols(), size.rows()),
            });
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn the_time_is_kept_where_any_passed() {
        let millis = Duration::from_millis;
        let file = tempfile::tempfile().unwrap();
        let mut retained = Retained::new(SpoolPlace::Given(file.as_fd()), "run", 100_000);
        let mut inline = InlineFrames::default();
        for (at, bytes) in [(0, "a"), (9, "b"), (10, "c"), (19, "d"), (500, "e")] {
            retained.push(millis(at), OUT, bytes.as_bytes());
            inline.push_at(millis(at), OUT, bytes.as_bytes());
        }
        retained.spool();
        retained.push(millis(505), OUT, b"f");
        let size = TerminalSize::new(24, 80).unwrap();
        retained.size(millis(600), size);
        retained.typed(millis(601), b"y");
        for _ in 0..3 {
            retained.typed(millis(601), &vec![b'x'; spool::MAX_ASIDE_BYTES / 2]);
        }
        assert_eq!(
            told(std::io::Cursor::new(inline.as_bytes())),
            ["ab", "10", "cd", "500", "e"]
        );
        let of_spool = told(file);
        let (first, typed) = of_spool.split_at(8);
        assert_eq!(first, ["ab", "10", "cd", "500", "e", "f", "600", "80x24"]);
        // One of the large pieces has room.
        let typed = typed
            .iter()
            .map(|text| text.trim_start_matches("typed ").parse::<usize>().unwrap());
        assert_eq!(typed.sum::<usize>(), 1 + spool::MAX_ASIDE_BYTES / 2);
    }

    #[test]
    fn a_spool_that_was_given_is_written_from_its_beginning() {
        let file = tempfile::tempfile().unwrap();
        let mut retained = Retained::new(SpoolPlace::Given(file.as_fd()), "run", 100_000);
        retained.push(Duration::ZERO, OUT, b"small");
        assert_eq!(file.metadata().unwrap().len(), 0);
        retained.spool();
        retained.push(Duration::ZERO, ERR, b"more");
        let mut pieces = Vec::new();
        spool::replay(file, |stream, bytes| pieces.push((stream, bytes.to_vec()))).unwrap();
        assert_eq!(pieces, [(OUT, b"small".to_vec()), (ERR, b"more".to_vec())]);
    }

    #[test]
    fn a_spool_that_cannot_be_made_keeps_nothing_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let file = fs::File::open(directory.path()).unwrap();
        let mut retained = Retained::new(SpoolPlace::Directory(file.as_fd()), "no/such/place", 100_000);
        retained.push(Duration::ZERO, OUT, &vec![b'a'; INLINE_BYTES]);
        retained.push(Duration::ZERO, OUT, b"more");
        assert_eq!((retained.seen(), retained.kept()), (65_540, 0));
        // Without one the little that a terminal shows is kept like that of any run.
        let mut retained = Retained::new(SpoolPlace::Directory(file.as_fd()), "no/such/place", 100_000);
        retained.size(Duration::ZERO, TerminalSize::DEFAULT);
        retained.push(Duration::ZERO, OUT, b"small");
        assert!(retained.is_only_in_memory());
    }
}
