//! The exact bytes of a run's output on disk: frames of `[kind: u8][length: u32, little endian][bytes]`
//! in order of arrival.
//!
//! | kind | bytes |
//! | ---: | --- |
//! | 1, 2 | output: of the descriptor with this number |
//! | 3 | when the frames after it came: microseconds since the start, `u64`, little endian |
//! | 4 | the size of the terminal from now on: columns and rows, `u16` each, little endian |
//! | 5 | what was typed, where that is recorded |
//!
//! Spools of versions before have output alone, and are read like those in which nothing took time.
//!
//! A spool is only ever appended to. Its writer may be killed at any moment, so a last frame that is not
//! whole is no error: what is there of its bytes was written by the command and is read. Anything that is
//! no frame (a hole that a power loss left) ends the spool.

use std::{
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    time::Duration,
};

use countersign_domain::{OutputStream, TerminalSize};

pub use countersign_sys::spool::{FRAMED_BYTE, HEADER_BYTES, MAX_ASIDE_BYTES, MAX_PAYLOAD_BYTES, TIME_BYTES};

/// What a frame has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Output.
    Output(OutputStream),
    /// When the next frames came.
    Time,
    /// The size of the terminal from now on.
    Size,
    /// What was typed.
    Input,
}

impl FrameKind {
    // Those of output are the numbers of the descriptors. Zero is no kind, so that a hole in the file is no frame.
    const fn byte(self) -> u8 {
        match self {
            Self::Output(OutputStream::Stdout) => 1,
            Self::Output(OutputStream::Stderr) => 2,
            Self::Time => 3,
            Self::Size => 4,
            Self::Input => 5,
        }
    }

    pub(super) const fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Output(OutputStream::Stdout)),
            2 => Some(Self::Output(OutputStream::Stderr)),
            3 => Some(Self::Time),
            4 => Some(Self::Size),
            5 => Some(Self::Input),
            _ => None,
        }
    }
}

/// Appends a piece of output.
///
/// # Errors
/// What the writer answers. Part of the piece may have been written then.
pub fn append(writer: &mut impl Write, stream: OutputStream, bytes: &[u8]) -> io::Result<()> {
    for payload in bytes.chunks(MAX_PAYLOAD_BYTES) {
        writer.write_all(&header(stream, payload.len()))?;
        writer.write_all(payload)?;
    }
    Ok(())
}

/// The header of a frame of output, for writers that gather. `payload` is at most [`MAX_PAYLOAD_BYTES`].
pub fn header(stream: OutputStream, payload: usize) -> [u8; HEADER_BYTES] {
    header_of(FrameKind::Output(stream), payload)
}

/// The header of a frame.
pub(crate) fn header_of(kind: FrameKind, payload: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = u32::try_from(payload).unwrap_or(u32::MAX).to_le_bytes();
    [kind.byte(), a, b, c, d]
}

/// The payload of a frame that says the time.
pub(crate) fn time(elapsed: Duration) -> [u8; 8] {
    u64::try_from(elapsed.as_micros())
        .unwrap_or(u64::MAX)
        .to_le_bytes()
}

/// The payload of a frame that says the size of the terminal.
pub(crate) fn terminal_size(size: TerminalSize) -> [u8; 4] {
    let ([a, b], [c, d]) = (size.cols().to_le_bytes(), size.rows().to_le_bytes());
    [a, b, c, d]
}

/// Which bytes of a spool are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Both streams in order of arrival.
    Both,
    /// That stream alone.
    Only(OutputStream),
}

/// How many bytes a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// Bytes of standard output.
    pub stdout: u64,
    /// Bytes of standard error.
    pub stderr: u64,
}

impl Lengths {
    /// The number of bytes that a selection yields.
    pub const fn of(self, selection: Selection) -> u64 {
        match selection {
            Selection::Both => self.stdout.saturating_add(self.stderr),
            Selection::Only(OutputStream::Stdout) => self.stdout,
            Selection::Only(OutputStream::Stderr) => self.stderr,
        }
    }
}

/// Measures a spool from its beginning, reading headers only.
///
/// # Errors
/// What the reader answers; a torn or foreign end is none.
pub fn measure(spool: impl Read + Seek) -> io::Result<Lengths> {
    let mut frames = Frames::open(spool)?;
    let mut lengths = Lengths::default();
    while let Some(frame) = frames.next_output()? {
        let total = match frame.stream {
            OutputStream::Stdout => &mut lengths.stdout,
            OutputStream::Stderr => &mut lengths.stderr,
        };
        *total = total.saturating_add(frame.left);
        frames.skip(frame.left)?;
    }
    Ok(lengths)
}

/// Hands every piece of a spool on, in order of arrival.
///
/// # Errors
/// What the reader answers; a torn or foreign end is none.
pub fn replay(spool: impl Read + Seek, mut piece: impl FnMut(OutputStream, &[u8])) -> io::Result<()> {
    events(spool, |event| {
        if let Event::Output(stream, bytes) = event {
            piece(stream, bytes);
        }
        Ok(())
    })
}

/// What a spool tells, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// So long after the start came what follows.
    Time(Duration),
    /// A piece of output.
    Output(OutputStream, &'a [u8]),
    /// A piece of what was typed.
    Input(&'a [u8]),
    /// The terminal has this size from now on.
    Size(TerminalSize),
}

/// Hands on everything that a spool tells, in order, until one of them is refused.
///
/// # Errors
/// What the reader answers, and what `take` does; a torn or foreign end is none.
pub fn events(spool: impl Read + Seek, mut take: impl FnMut(Event<'_>) -> io::Result<()>) -> io::Result<()> {
    events_from(spool, 0, |_frame, event| take(event)).map(drop)
}

/// Where reading a spool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolEnd {
    /// Behind the last frame that was read.
    pub at: u64,
    /// Whether more frames may follow there: the last one was not torn.
    pub is_whole: bool,
}

/// The same from a frame that begins at `start`, with the place where the frame of each event begins.
///
/// # Errors
/// As [`events`].
pub fn events_from(
    spool: impl Read + Seek,
    start: u64,
    mut take: impl FnMut(u64, Event<'_>) -> io::Result<()>,
) -> io::Result<SpoolEnd> {
    let mut frames = Frames::open_at(spool, start)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let at = frames.at();
        let Some((kind, left)) = frames.next_frame()? else {
            return Ok(SpoolEnd {
                at,
                is_whole: !frames.is_torn,
            });
        };
        let payload = (&mut frames.spool).take(left);
        match kind {
            FrameKind::Output(stream) => {
                pieces(payload, &mut buffer, |bytes| {
                    take(at, Event::Output(stream, bytes))
                })?;
            }
            FrameKind::Input => pieces(payload, &mut buffer, |bytes| take(at, Event::Input(bytes)))?,
            FrameKind::Time => {
                if let Some(time) = time_of(&all(payload)?) {
                    take(at, Event::Time(time))?;
                }
            }
            FrameKind::Size => {
                if let Some(size) = size_of(&all(payload)?) {
                    take(at, Event::Size(size))?;
                }
            }
        }
    }
}

/// Where the last complete frame ends of those that begin at `start` or later. What follows is still being written.
///
/// # Errors
/// What the reader answers.
pub fn complete_until(spool: impl Read + Seek, start: u64) -> io::Result<u64> {
    let mut frames = Frames::open_at(spool, start)?;
    let mut end = start;
    while let Some((_kind, left)) = frames.next_frame()? {
        if frames.is_torn {
            break;
        }
        frames.skip(left)?;
        end = frames.at();
    }
    Ok(end)
}

fn pieces(
    mut payload: impl Read,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        let read = payload.read(buffer)?;
        match buffer.get(..read) {
            None | Some([]) => return Ok(()),
            Some(bytes) => take(bytes)?,
        }
    }
}

fn all(mut payload: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    payload.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn time_of(bytes: &[u8]) -> Option<Duration> {
    bytes
        .try_into()
        .ok()
        .map(|micros| Duration::from_micros(u64::from_le_bytes(micros)))
}

fn size_of(bytes: &[u8]) -> Option<TerminalSize> {
    let [a, b, c, d] = bytes.try_into().ok()?;
    let (cols, rows) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    TerminalSize::new(rows, cols)
}

/// Reads the bytes `start..end` of a selection (`end` beyond the last byte is fine) as plain bytes.
#[derive(Debug)]
pub struct SpoolReader<R: Read + Seek> {
    frames: Frames<R>,
    selection: Selection,
    to_skip: u64,
    to_read: u64,
    in_frame: u64,
}

impl<R: Read + Seek> SpoolReader<R> {
    /// Opens a spool at its beginning.
    ///
    /// # Errors
    /// What the reader answers.
    pub fn open(spool: R, selection: Selection, start: u64, end: u64) -> io::Result<Self> {
        Ok(Self {
            frames: Frames::open(spool)?,
            selection,
            to_skip: start,
            to_read: end.saturating_sub(start),
            in_frame: 0,
        })
    }

    /// Goes to the next byte that is wanted; false at the end.
    fn reach_wanted(&mut self) -> io::Result<bool> {
        while self.in_frame == 0 {
            let Some(frame) = self.frames.next_output()? else {
                return Ok(false);
            };
            let wanted = match self.selection {
                Selection::Both => true,
                Selection::Only(stream) => stream == frame.stream,
            };
            let skipped = if wanted {
                frame.left.min(self.to_skip)
            } else {
                frame.left
            };
            if wanted {
                self.to_skip -= skipped;
            }
            self.frames.skip(skipped)?;
            self.in_frame = frame.left - skipped;
        }
        Ok(true)
    }
}

impl<R: Read + Seek> Read for SpoolReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.to_read == 0 || !self.reach_wanted()? {
            return Ok(0);
        }
        let most = self.in_frame.min(self.to_read);
        let read = (&mut self.frames.spool).take(most).read(buffer)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read == 0 {
            // The file became shorter while it was read: nothing more will come.
            self.to_read = 0;
        }
        self.in_frame = self.in_frame.saturating_sub(read);
        self.to_read = self.to_read.saturating_sub(read);
        Ok(usize::try_from(read).unwrap_or(usize::MAX))
    }
}

#[derive(Debug)]
struct Frames<R: Read + Seek> {
    spool: BufReader<R>,
    /// How long the file was when it was opened.
    length: u64,
    /// Bytes of the file after what was handed out.
    left: u64,
    /// The last frame is not complete.
    is_torn: bool,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    stream: OutputStream,
    /// Bytes of the payload that are there.
    left: u64,
}

impl<R: Read + Seek> Frames<R> {
    fn open(spool: R) -> io::Result<Self> {
        Self::open_at(spool, 0)
    }

    fn open_at(mut spool: R, start: u64) -> io::Result<Self> {
        let length = spool.seek(SeekFrom::End(0))?;
        spool.seek(SeekFrom::Start(start))?;
        Ok(Self {
            spool: BufReader::with_capacity(64 * 1024, spool),
            length,
            left: length.saturating_sub(start),
            is_torn: false,
        })
    }

    /// Where the next frame begins.
    const fn at(&self) -> u64 {
        self.length.saturating_sub(self.left)
    }

    /// The next frame of output, once all of the one before was read or skipped.
    fn next_output(&mut self) -> io::Result<Option<Frame>> {
        while let Some((kind, left)) = self.next_frame()? {
            match kind {
                FrameKind::Output(stream) => return Ok(Some(Frame { stream, left })),
                FrameKind::Time | FrameKind::Size | FrameKind::Input => self.skip(left)?,
            }
        }
        Ok(None)
    }

    /// The next frame and the bytes of it that are there, once all of the one before was read or skipped.
    fn next_frame(&mut self) -> io::Result<Option<(FrameKind, u64)>> {
        let mut header = [0; HEADER_BYTES];
        match self.spool.read_exact(&mut header) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_torn |= self.left > 0;
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let [kind, length @ ..] = header;
        let length = u32::from_le_bytes(length);
        let within_bounds = usize::try_from(length).is_ok_and(|length| length <= MAX_PAYLOAD_BYTES);
        let Some(kind) = FrameKind::of(kind).filter(|_| within_bounds) else {
            self.is_torn = true;
            return Ok(None);
        };
        self.left = self.left.saturating_sub(HEADER_BYTES as u64);
        let present = u64::from(length).min(self.left);
        self.is_torn |= present < u64::from(length);
        self.left -= present;
        Ok(Some((kind, present)))
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.spool.seek_relative(i64::try_from(bytes).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    const OUT: OutputStream = OutputStream::Stdout;
    const ERR: OutputStream = OutputStream::Stderr;

    fn spool(pieces: &[(OutputStream, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        for (stream, bytes) in pieces {
            append(&mut file, *stream, bytes).unwrap();
        }
        file
    }

    #[test]
    fn a_frame_that_is_still_written_is_not_complete() {
        let file = spool(&[(OUT, b"one"), (ERR, b"second")]);
        let first = u64::try_from(HEADER_BYTES + 3).unwrap();
        let whole = u64::try_from(file.len()).unwrap();
        for cut in 0..=file.len() {
            let present = Cursor::new(&file[..cut]);
            let expected = match u64::try_from(cut).unwrap() {
                cut if cut >= whole => whole,
                cut if cut >= first => first,
                _ => 0,
            };
            assert_eq!(complete_until(present, 0).unwrap(), expected, "{cut}");
        }
        assert_eq!(complete_until(Cursor::new(&file), first).unwrap(), whole);
        assert_eq!(complete_until(Cursor::new(&file), whole).unwrap(), whole);
    }

    fn read(file: &[u8], selection: Selection, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        SpoolReader::open(Cursor::new(file), selection, start, end)
            .unwrap()
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    }

    proptest! {
        /// Reading goes on at any frame as if it had begun at the first, and a torn end is known as one.
        #[test]
        fn events_go_on_from_the_frame_that_they_stopped_at(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..40)), 1..12),
            cut in 0_usize..30,
        ) {
            let mut file = Vec::new();
            for (number, (is_time, bytes)) in (1_u64..).zip(&pieces) {
                if *is_time {
                    let elapsed = time(Duration::from_millis(number));
                    file.extend(header_of(FrameKind::Time, elapsed.len()));
                    file.extend(elapsed);
                } else {
                    append(&mut file, OUT, bytes).unwrap();
                }
            }
            let length = file.len();
            file.truncate(length.saturating_sub(cut));
            let from = |start| {
                let mut told = Vec::new();
                let end = events_from(Cursor::new(&file), start, |at, event| {
                    told.push((at, format!("{event:?}")));
                    Ok(())
                });
                (told, end.unwrap())
            };
            let (all, end) = from(0);
            for (place, (start, _event)) in all.iter().enumerate() {
                let (rest, same_end) = from(*start);
                prop_assert_eq!(&rest[..], &all[place..]);
                prop_assert_eq!(end, same_end);
            }
            if cut == 0 {
                prop_assert_eq!(end, SpoolEnd { at: length as u64, is_whole: true });
            }
            if end.is_whole {
                prop_assert_eq!(end.at, file.len() as u64);
                prop_assert_eq!(from(end.at).0, Vec::new());
            }
        }
    }

    #[test]
    fn the_format_is_stream_length_bytes() {
        assert_eq!(
            spool(&[(OUT, b"ab"), (ERR, b"c")]),
            b"\x01\x02\0\0\0ab\x02\x01\0\0\0c"
        );
    }

    #[test]
    fn what_is_no_output_is_told_in_its_place_and_is_not_read_as_output() {
        let size = TerminalSize::new(24, 80).unwrap();
        let mut file = Vec::new();
        let mut add = |kind, bytes: &[u8]| {
            file.extend(header_of(kind, bytes.len()));
            file.extend(bytes);
        };
        add(FrameKind::Size, &terminal_size(size));
        add(FrameKind::Output(OUT), b"one ");
        add(FrameKind::Time, &time(Duration::from_millis(1500)));
        add(FrameKind::Input, b"y");
        add(FrameKind::Output(ERR), b"two");
        // Of a version to come, or foreign.
        add(FrameKind::Size, b"odd");
        assert_eq!(file[..9], *b"\x04\x04\0\0\0\x50\0\x18\0");
        assert_eq!(read(&file, Selection::Both, 0, u64::MAX), b"one two");
        assert_eq!(
            measure(Cursor::new(&file)).unwrap(),
            Lengths { stdout: 4, stderr: 3 }
        );
        let mut told = Vec::new();
        events(Cursor::new(&file), |event| {
            told.push(format!("{event:?}"));
            Ok(())
        })
        .unwrap();
        let expected = [
            Event::Size(size),
            Event::Output(OUT, b"one "),
            Event::Time(Duration::from_millis(1500)),
            Event::Input(b"y"),
            Event::Output(ERR, b"two"),
        ];
        assert_eq!(told, expected.map(|event| format!("{event:?}")));
        let mut follower = super::super::SpoolFollower::new(Cursor::new(file));
        let mut buffer = [0; 16];
        assert_eq!(follower.read(&mut buffer).unwrap(), Some((OUT, 4)));
        assert_eq!(follower.read(&mut buffer).unwrap(), Some((ERR, 3)));
        assert_eq!(follower.read(&mut buffer).unwrap(), None);
    }

    #[test]
    fn either_stream_or_both_can_be_read() {
        let file = spool(&[(OUT, b"one "), (ERR, b"two "), (OUT, b"three")]);
        assert_eq!(read(&file, Selection::Both, 0, u64::MAX), b"one two three");
        assert_eq!(read(&file, Selection::Only(OUT), 0, u64::MAX), b"one three");
        assert_eq!(read(&file, Selection::Only(ERR), 0, u64::MAX), b"two ");
        assert_eq!(read(&file, Selection::Both, 2, 9), b"e two t");
        assert_eq!(read(&file, Selection::Only(OUT), 4, 6), b"th");
        assert_eq!(read(&file, Selection::Both, 50, 60), b"");
        assert_eq!(read(&file, Selection::Both, 5, 2), b"");
        assert_eq!(
            measure(Cursor::new(&file)).unwrap(),
            Lengths { stdout: 9, stderr: 4 }
        );
    }

    #[test]
    fn a_torn_last_frame_yields_what_is_there() {
        let file = spool(&[(OUT, b"whole"), (ERR, b"torn off")]);
        for cut in 0..file.len() {
            let torn = &file[..cut];
            let expect: Vec<u8> = match cut {
                0..=5 => vec![],
                6..=10 => b"whole"[..cut - 5].to_vec(),
                11..=15 => b"whole".to_vec(),
                _ => [b"whole".as_slice(), &b"torn off"[..cut - 15]].concat(),
            };
            assert_eq!(read(torn, Selection::Both, 0, u64::MAX), expect, "cut at {cut}");
            assert_eq!(
                measure(Cursor::new(torn)).unwrap().of(Selection::Both),
                expect.len() as u64
            );
        }
    }

    #[test]
    fn a_hole_ends_the_spool() {
        let mut file = spool(&[(OUT, b"kept")]);
        file.extend([0; 100]);
        assert_eq!(read(&file, Selection::Both, 0, u64::MAX), b"kept");
        let mut absurd = spool(&[(OUT, b"kept")]);
        absurd.extend(b"\x01\xff\xff\xff\xffmore");
        assert_eq!(read(&absurd, Selection::Both, 0, u64::MAX), b"kept");
    }

    #[test]
    fn large_pieces_become_several_frames() {
        let piece = vec![b'x'; MAX_PAYLOAD_BYTES + 3];
        let file = spool(&[(OUT, &piece)]);
        assert_eq!(file.len(), piece.len() + 2 * HEADER_BYTES);
        assert_eq!(read(&file, Selection::Both, 0, u64::MAX), piece);
    }

    proptest! {
        #[test]
        fn every_range_is_that_of_the_concatenation(
            pieces in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..30)), 0..15),
            start in 0_u64..200,
            length in 0_u64..200,
        ) {
            let pieces: Vec<_> =
                pieces.iter().map(|(err, bytes)| (if *err { ERR } else { OUT }, bytes.as_slice())).collect();
            let file = spool(&pieces);
            for selection in [Selection::Both, Selection::Only(OUT), Selection::Only(ERR)] {
                let all: Vec<u8> = pieces
                    .iter()
                    .filter(|(stream, _)| selection == Selection::Both || selection == Selection::Only(*stream))
                    .flat_map(|(_, bytes)| bytes.iter().copied())
                    .collect();
                let clamp = |at: u64| usize::try_from(at).unwrap().min(all.len());
                let expect = &all[clamp(start)..clamp(start + length)];
                prop_assert_eq!(read(&file, selection, start, start + length), expect);
                prop_assert_eq!(measure(Cursor::new(&file)).unwrap().of(selection), all.len() as u64);
            }
            let mut replayed = Vec::new();
            replay(Cursor::new(&file), |stream, bytes| replayed.push((stream, bytes.to_vec()))).unwrap();
            let expect: Vec<_> =
                pieces.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(s, b)| (*s, b.to_vec())).collect();
            prop_assert_eq!(replayed, expect);
        }

        #[test]
        fn foreign_bytes_never_panic(file in prop::collection::vec(prop_oneof![any::<u8>(), 0_u8..10], 0..200), start in any::<u64>()) {
            let measured = measure(Cursor::new(&file)).unwrap().of(Selection::Both);
            prop_assert_eq!(read(&file, Selection::Both, 0, u64::MAX).len() as u64, measured);
            prop_assert!(read(&file, Selection::Both, start, u64::MAX).len() as u64 <= measured);
            let mut told = 0;
            events(Cursor::new(&file), |event| {
                if let Event::Output(_, bytes) = event {
                    told += bytes.len() as u64;
                }
                Ok(())
            })
            .unwrap();
            prop_assert_eq!(told, measured);
        }
    }
}
