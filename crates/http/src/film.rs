//! What a terminal showed during a run, as pictures of its cells: no control sequence of a command reaches who looks at them.
//!
//! The output is drawn on a screen here. A picture is taken where something was written and some time has passed since the one
//! before, so that there are only so many of a run, however long it took. Where an answer is full, the screen is kept for a
//! while, and the next answer goes on with it. Without it the output is drawn from its beginning on. Who looks at a terminal while
//! it is written gets its present picture alone, and then what changes of it. Entry points: [`draw`], [`PausedFilms::draw`],
//! [`LiveScreen::look`].

use std::{
    collections::VecDeque,
    io::{self, Cursor, Read, Seek},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use countersign_domain::{RunId, TerminalSize};
use countersign_engine::OutputBytes;
use countersign_protocol::terminal::{Look, Row, Screen};
use countersign_runner::output::spool::{self, Event};
use countersign_wire::frames::{FrameBody, FramesBody, RowBody, TextBody};

/// Between two pictures, at least.
const LEAST_PAUSE: Duration = Duration::from_millis(40);
/// So many pictures of a run at most, about.
const MOST_FRAMES: u32 = 4_000;
/// So many in an answer.
const MOST_AT_ONCE: usize = 400;
/// So much text in an answer, about.
const MOST_TEXT: usize = 512 * 1024;
/// A picture with more text than this is not shown, nor what follows it.
const MOST_TEXT_OF_ONE: usize = 4 * MOST_TEXT;
/// So much output of a run is drawn; what follows is not shown. A terminal takes a while for it.
const MOST_DRAWN: usize = 64 * 1024 * 1024;
/// So much output is drawn at a look at a terminal; the next look goes on. No other one is drawn meanwhile.
const MOST_AT_A_LOOK: usize = 8 * 1024 * 1024;
/// So many screens are kept for the next answer; the oldest goes first.
const MOST_PAUSED: usize = 4;
/// A screen with more cells than this is not kept.
const MOST_PAUSED_CELLS: usize = 64 * 1024;

/// The pictures of a recording after a moment, as many as go into an answer; `gone` when nobody waits for them any more.
pub(crate) fn draw(
    spool: impl Read + Seek,
    length: Duration,
    after_ms: Option<u64>,
    gone: CancellationToken,
) -> io::Result<FramesBody> {
    draw_on(spool, length, after_ms, None, gone).map(|(body, _paused)| body)
}

/// The same, going on with what an answer before has drawn; and what the next answer can go on with.
fn draw_on(
    spool: impl Read + Seek,
    length: Duration,
    after_ms: Option<u64>,
    begun: Option<PausedFilm>,
    gone: CancellationToken,
) -> io::Result<(FramesBody, Option<PausedFilm>)> {
    let start = begun.as_ref().map_or(0, |paused| paused.at);
    let mut film = match begun {
        Some(paused) => Film::on(paused.drawing, length, after_ms, gone),
        None => Film::new(length, after_ms, gone),
    };
    let mut stopped = None;
    let read = spool::events_from(spool, start, |at, event| {
        film.event(event).inspect_err(|_full| stopped = Some(at))
    });
    let place = match read {
        Ok(end) => end.is_whole.then_some(end.at),
        // The answer is full, and the rest is not read.
        Err(error) if film.is_done() && error.kind() == io::ErrorKind::StorageFull => stopped,
        Err(error) => return Err(error),
    };
    Ok(film.end(place))
}

/// A recording as it is kept. What is read from a spool and what was taken over into the ledger are not the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Recorded {
    run: RunId,
    /// The length of what the ledger has; `None` for a spool.
    inline: Option<usize>,
}

impl Recorded {
    fn of(run: &RunId, stored: &OutputBytes) -> Self {
        Self {
            run: run.clone(),
            inline: match stored {
                OutputBytes::Frames(frames) => Some(frames.len()),
                OutputBytes::Spool(_) => None,
            },
        }
    }
}

/// What a recording has drawn, from its beginning on.
#[derive(Debug)]
struct Drawing {
    screen: Screen,
    size: TerminalSize,
    /// Between two pictures, at least.
    pause: Duration,
    now: Duration,
    /// When the last picture was taken.
    taken: Option<Duration>,
    /// Something was written since.
    is_changed: bool,
    /// How much output was drawn.
    drawn: usize,
}

/// What of the output is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drawn {
    All,
    /// There is more of it than is drawn.
    Most,
}

impl Drawing {
    fn new(pause: Duration) -> Self {
        Self {
            screen: Screen::new(TerminalSize::DEFAULT),
            size: TerminalSize::DEFAULT,
            pause,
            now: Duration::ZERO,
            taken: None,
            is_changed: false,
            drawn: 0,
        }
    }

    fn resize(&mut self, size: TerminalSize) {
        self.size = size;
        self.screen.resize(size);
        self.is_changed = true;
    }

    fn write(&mut self, bytes: &[u8], gone: &CancellationToken) -> io::Result<Drawn> {
        self.is_changed = true;
        for piece in bytes.chunks(self.screen.portion()) {
            if gone.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.drawn > MOST_DRAWN {
                return Ok(Drawn::Most);
            }
            self.drawn += piece.len();
            self.screen.push(piece, 0);
        }
        Ok(Drawn::All)
    }

    fn frame(&self, changed: Vec<RowBody>) -> FrameBody {
        FrameBody {
            at_ms: millis(self.now),
            rows: self.size.rows(),
            cols: self.size.cols(),
            cursor: self.screen.shown_cursor(),
            changed,
        }
    }
}

/// The rows that are others than those that were shown, and about how much text that is; `None` where it is too much.
fn changed_rows(cells: &[Row], shown: &[Row]) -> Option<(Vec<RowBody>, usize)> {
    let empty = Row::new();
    let mut changed = Vec::new();
    let mut text = 0;
    for (row, texts) in (0_u16..).zip(cells) {
        let before = shown.get(usize::from(row)).unwrap_or(&empty);
        if texts != before {
            text += texts.iter().map(|(text, _look)| text.len() + 32).sum::<usize>() + 16;
            if text > MOST_TEXT_OF_ONE {
                return None;
            }
            changed.push(RowBody {
                row,
                texts: texts.iter().map(text_body).collect(),
            });
        }
    }
    Some((changed, text))
}

/// A terminal as it is now, drawn on while its recording grows.
#[derive(Debug)]
pub(crate) struct LiveScreen {
    drawing: Drawing,
    /// The frame of the recording to go on with.
    at: u64,
    /// Whether it is drawn from a spool. What is read in place of one has other bytes.
    is_spool: Option<bool>,
    shown: Vec<Row>,
    /// The last picture, without its rows.
    last: Option<FrameBody>,
}

/// What a look at a terminal found.
#[derive(Debug)]
pub(crate) struct Looked {
    /// What is different from the look before; the first time all of it.
    pub(crate) frame: Option<FrameBody>,
    /// About how much text that is.
    pub(crate) text: usize,
    /// There is more to be drawn already.
    pub(crate) is_behind: bool,
}

/// What was written to a terminal could not be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// The recording cannot be read.
    #[error("the recording cannot be read")]
    Unreadable(#[from] io::Error),
    /// What was written made the drawing fail, or fills a screen too large to be sent.
    #[error("what was written cannot be drawn")]
    Lost,
}

impl LiveScreen {
    pub(crate) fn new() -> Self {
        Self {
            drawing: Drawing::new(Duration::ZERO),
            at: 0,
            is_spool: None,
            shown: Vec::new(),
            last: None,
        }
    }

    /// Draws what came since the look before, at most so much at once.
    ///
    /// # Errors
    /// [`LookError`]; then there is nothing to go on with.
    pub(crate) fn look(
        &mut self,
        recording: OutputBytes,
        gone: &CancellationToken,
    ) -> Result<Looked, LookError> {
        let is_spool = matches!(recording, OutputBytes::Spool(_));
        if self.is_spool.is_some_and(|was| was != is_spool) {
            self.drawing = Drawing::new(Duration::ZERO);
            self.at = 0;
        }
        self.is_spool = Some(is_spool);
        let is_behind = match recording {
            OutputBytes::Frames(frames) => self.draw(Cursor::new(frames), gone),
            OutputBytes::Spool(path) => {
                countersign_sys::fs::open_regular(&path).and_then(|spool| self.draw(spool, gone))
            }
        }?;
        let cells = self.drawing.screen.cells().ok_or(LookError::Lost)?;
        let (changed, text) = changed_rows(&cells, &self.shown).ok_or(LookError::Lost)?;
        self.shown = cells;
        let bare = self.drawing.frame(Vec::new());
        let is_same =
            |last: &FrameBody| (last.rows, last.cols, last.cursor) == (bare.rows, bare.cols, bare.cursor);
        let is_new = !changed.is_empty() || !self.last.as_ref().is_some_and(is_same);
        self.last = Some(bare.clone());
        Ok(Looked {
            frame: is_new.then_some(FrameBody { changed, ..bare }),
            text,
            is_behind,
        })
    }

    /// Says whether there is more.
    fn draw(&mut self, mut spool: impl Read + Seek, gone: &CancellationToken) -> io::Result<bool> {
        let end = spool::complete_until(&mut spool, self.at)?;
        let Self {
            drawing, at: place, ..
        } = self;
        drawing.drawn = 0;
        let mut frame = None;
        let read = spool::events_from(spool, *place, |at, event| {
            let begins = frame.replace(at) != Some(at);
            if at >= end || (begins && drawing.drawn > MOST_AT_A_LOOK) {
                *place = at;
                return Err(io::ErrorKind::StorageFull.into());
            }
            match event {
                Event::Time(elapsed) => drawing.now = drawing.now.max(elapsed),
                Event::Size(size) => drawing.resize(size),
                // What is drawn at a look is less than what is drawn at most.
                Event::Output(_stream, bytes) => {
                    drawing.write(bytes, gone)?;
                }
                Event::Input(_) => {}
            }
            Ok(())
        });
        match read {
            Ok(_end) => *place = end,
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
            Err(error) => return Err(error),
        }
        Ok(*place < end)
    }
}

/// A recording that is drawn in part: it goes on where an answer was full.
#[derive(Debug)]
struct PausedFilm {
    drawing: Drawing,
    /// The frame of the spool to go on with.
    at: u64,
    /// The moment of the last picture that was told.
    after_ms: u64,
}

/// The recordings that were drawn in part a short while ago.
#[derive(Debug, Default)]
pub(crate) struct PausedFilms(Mutex<VecDeque<(Recorded, PausedFilm)>>);

impl PausedFilms {
    /// The pictures of a run after a moment, going on with what an answer before has drawn, where that is kept.
    pub(crate) fn draw(
        &self,
        run: &RunId,
        stored: OutputBytes,
        length: Duration,
        after_ms: Option<u64>,
        gone: CancellationToken,
    ) -> io::Result<FramesBody> {
        let of = Recorded::of(run, &stored);
        let begun = after_ms.and_then(|after| self.take(&of, after));
        let (body, paused) = match stored {
            OutputBytes::Frames(frames) => draw_on(Cursor::new(frames), length, after_ms, begun, gone),
            OutputBytes::Spool(path) => {
                let spool = countersign_sys::fs::open_regular(&path)?;
                draw_on(spool, length, after_ms, begun, gone)
            }
        }?;
        if let Some(paused) = paused {
            self.keep(of, paused);
        }
        Ok(body)
    }

    /// Takes out what goes on after this moment. Who asks for the same again has it drawn anew.
    fn take(&self, of: &Recorded, after_ms: u64) -> Option<PausedFilm> {
        let mut films = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = films
            .iter()
            .position(|(kept, film)| kept == of && film.after_ms == after_ms)?;
        films.remove(place).map(|(_of, film)| film)
    }

    /// Keeps one, unless its screen is too large.
    fn keep(&self, of: Recorded, film: PausedFilm) {
        let cells = usize::from(film.drawing.size.rows()) * usize::from(film.drawing.size.cols());
        if cells > MOST_PAUSED_CELLS {
            return;
        }
        let mut films = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        films.retain(|(kept, other)| *kept != of || other.after_ms != film.after_ms);
        while films.len() >= MOST_PAUSED {
            films.pop_front();
        }
        films.push_back((of, film));
    }
}

struct Film {
    drawing: Drawing,
    after_ms: Option<u64>,
    /// What the last picture of the answer showed.
    shown: Vec<Row>,
    frames: Vec<FrameBody>,
    text: usize,
    next_after_ms: Option<u64>,
    lost_at: Option<Duration>,
    length: Duration,
    gone: CancellationToken,
}

impl Film {
    fn new(length: Duration, after_ms: Option<u64>, gone: CancellationToken) -> Self {
        let drawing = Drawing::new(LEAST_PAUSE.max(length / MOST_FRAMES));
        Self::on(drawing, length, after_ms, gone)
    }

    /// Goes on with what an answer before has drawn. Its first picture is a complete one.
    fn on(drawing: Drawing, length: Duration, after_ms: Option<u64>, gone: CancellationToken) -> Self {
        Self {
            drawing,
            after_ms,
            shown: Vec::new(),
            frames: Vec::new(),
            text: 0,
            next_after_ms: None,
            lost_at: None,
            length,
            gone,
        }
    }

    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Time(elapsed) => {
                if elapsed > self.drawing.now {
                    self.perhaps_take(elapsed)?;
                    self.drawing.now = elapsed;
                }
            }
            Event::Size(size) => self.drawing.resize(size),
            Event::Output(_stream, bytes) => {
                if self.drawing.write(bytes, &self.gone)? == Drawn::Most {
                    self.lost_at.get_or_insert(self.drawing.now);
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            // What was typed is on the screen where the terminal showed it.
            Event::Input(_) => {}
        }
        Ok(())
    }

    /// Takes a picture of the moment that ends now, unless the one before is too near.
    fn perhaps_take(&mut self, next: Duration) -> io::Result<()> {
        let is_due = self
            .drawing
            .taken
            .is_none_or(|taken| next.saturating_sub(taken) >= self.drawing.pause);
        if self.drawing.is_changed && is_due {
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let at = self.drawing.now;
        let at_ms = millis(at);
        let is_told = self.after_ms.is_none_or(|after| at_ms > after) && self.lost_at.is_none();
        // Nothing is changed then: the next answer takes it.
        if is_told && self.is_full() {
            self.next_after_ms = self.frames.last().map(|frame| frame.at_ms);
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.drawing.taken = Some(at);
        self.drawing.is_changed = false;
        if !is_told {
            return Ok(());
        }
        let Some(cells) = self.drawing.screen.cells() else {
            self.lost_at = Some(at);
            return Ok(());
        };
        let Some((changed, text)) = changed_rows(&cells, &self.shown) else {
            self.lost_at = Some(at);
            return Ok(());
        };
        self.text += text;
        self.shown = cells;
        self.frames.push(self.drawing.frame(changed));
        Ok(())
    }

    /// Whether nothing more of the recording is needed.
    fn is_done(&self) -> bool {
        self.is_full() || self.lost_at.is_some()
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= MOST_AT_ONCE || self.text >= MOST_TEXT
    }

    /// The answer, and what the next one goes on with at this place of the spool.
    fn end(mut self, place: Option<u64>) -> (FramesBody, Option<PausedFilm>) {
        if self.drawing.is_changed && self.next_after_ms.is_none() {
            // Where it does not fit any more, `take` says so in `next_after_ms`.
            drop(self.take());
        }
        let body = FramesBody {
            frames: self.frames,
            next_after_ms: self.next_after_ms,
            length_ms: millis(self.length.max(self.drawing.now)),
            lost_at_ms: self.lost_at.map(millis),
        };
        let paused = place.zip(self.next_after_ms).map(|(at, after_ms)| PausedFilm {
            drawing: self.drawing,
            at,
            after_ms,
        });
        (body, paused)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text_body((text, look): &(String, Look)) -> TextBody {
    let Look {
        text: colour,
        ground,
        bold,
        dim,
        italic,
        underline,
        inverse,
    } = look;
    let mut words: Vec<String> = Vec::new();
    words.extend(colour.map(|colour| format!("f{colour}")));
    words.extend(ground.map(|ground| format!("b{ground}")));
    for (is_so, word) in [
        (bold, "bold"),
        (dim, "dim"),
        (italic, "italic"),
        (underline, "underline"),
        (inverse, "inverse"),
    ] {
        if *is_so {
            words.push(word.to_owned());
        }
    }
    TextBody {
        text: text.clone(),
        look: words.join(" "),
    }
}

#[cfg(test)]
mod tests {
    use countersign_domain::OutputStream;
    use countersign_runner::InlineFrames;

    use super::*;

    fn of(frames: &InlineFrames, length_ms: u64, after_ms: Option<u64>) -> FramesBody {
        let bytes = frames.as_bytes().to_vec();
        let length = Duration::from_millis(length_ms);
        draw(Cursor::new(bytes), length, after_ms, CancellationToken::new()).unwrap()
    }

    fn row_texts(frame: &FrameBody) -> Vec<(u16, String)> {
        let text = |row: &RowBody| row.texts.iter().map(|text| text.text.as_str()).collect();
        frame.changed.iter().map(|row| (row.row, text(row))).collect()
    }

    #[test]
    fn pictures_are_taken_where_time_has_passed_and_tell_what_changed() {
        let mut frames = InlineFrames::default();
        let at = |ms| Duration::from_millis(ms);
        frames.push_at(at(5), OutputStream::Stdout, b"one\x1b[31m!\x1b[0m");
        frames.push_at(at(10), OutputStream::Stdout, b"\r\ntwo");
        frames.push_at(at(500), OutputStream::Stdout, b"\x1b[2;1Hsix");
        let film = of(&frames, 900, None);
        let all: Vec<_> = film
            .frames
            .iter()
            .map(|frame| (frame.at_ms, row_texts(frame)))
            .collect();
        assert_eq!(
            all.last().unwrap(),
            &(500, vec![(1, "six".to_owned())]),
            "{all:?}"
        );
        assert_eq!(film.length_ms, 900);
        assert_eq!(film.next_after_ms, None);
        let red = &film.frames[0].changed[0].texts[1];
        assert_eq!((red.text.as_str(), red.look.as_str()), ("!", "f1"));
        // From a later moment on the first picture is a complete one.
        let rest = of(&frames, 900, Some(all[all.len() - 2].0));
        assert_eq!(rest.frames.len(), 1);
        assert_eq!(
            row_texts(&rest.frames[0]),
            [(0, "one!".to_owned()), (1, "six".to_owned())]
        );
        assert_eq!(of(&frames, 900, Some(500)).frames, []);
    }

    #[test]
    fn an_answer_is_bounded_and_the_next_goes_on_where_it_ended() {
        let mut frames = InlineFrames::default();
        for number in 0..1000_u64 {
            let text = format!("\r{number}");
            frames.push_at(
                Duration::from_millis(number * 50),
                OutputStream::Stdout,
                text.as_bytes(),
            );
        }
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let film = of(&frames, 50_000, after);
            assert!(film.frames.len() <= MOST_AT_ONCE);
            seen.extend(film.frames.iter().map(|frame| frame.at_ms));
            after = film.next_after_ms;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 1000);
        assert!(seen.is_sorted_by(|one, other| one < other));
        // Of a long run there are no more pictures, only further apart.
        let film = of(&frames, 4_000 * 1_000, None);
        assert!(film.frames.len() <= 60, "{}", film.frames.len());
    }

    /// Counts what is read of a recording.
    struct Counted<'a> {
        bytes: Cursor<&'a [u8]>,
        read: &'a std::cell::Cell<usize>,
    }

    impl Read for Counted<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = self.bytes.read(buffer)?;
            self.read.set(self.read.get() + read);
            Ok(read)
        }
    }

    impl Seek for Counted<'_> {
        fn seek(&mut self, place: io::SeekFrom) -> io::Result<u64> {
            self.bytes.seek(place)
        }
    }

    /// All answers of a recording, one after the other, and how many bytes of it were read and drawn for them.
    fn answers(bytes: &[u8], length_ms: u64, goes_on: bool) -> (Vec<FramesBody>, usize, usize) {
        let (read, mut drawn) = (std::cell::Cell::new(0), 0);
        let films = PausedFilms::default();
        let of = Recorded {
            run: RunId::parse("r").unwrap(),
            inline: None,
        };
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let begun = after.filter(|_| goes_on).and_then(|after| films.take(&of, after));
            let before = begun.as_ref().map_or(0, |paused| paused.drawing.drawn);
            let spool = Counted {
                bytes: Cursor::new(bytes),
                read: &read,
            };
            let length = Duration::from_millis(length_ms);
            let answer = draw_on(spool, length, after, begun, CancellationToken::new());
            let (body, paused) = answer.unwrap();
            after = body.next_after_ms;
            assert_eq!(paused.is_some(), after.is_some());
            drawn += paused.as_ref().map_or(0, |paused| paused.drawing.drawn - before);
            if let Some(paused) = paused {
                films.keep(of.clone(), paused);
            }
            all.push(body);
            if after.is_none() {
                return (all, read.get(), drawn);
            }
        }
    }

    #[test]
    fn further_answers_do_not_draw_what_was_drawn_before() {
        let mut frames = InlineFrames::default();
        let noise = "some words that are written again and again\r\n".repeat(10);
        for number in 0..4_000_u64 {
            let text = format!("{number} {noise}");
            let at = Duration::from_millis(number * 50);
            frames.push_at(at, OutputStream::Stdout, text.as_bytes());
        }
        let bytes = frames.as_bytes();
        let (anew, read_anew, drawn_anew) = answers(bytes, 200_000, false);
        let (all, read, drawn) = answers(bytes, 200_000, true);
        assert!(all.len() >= 10, "{}", all.len());
        assert_eq!(all, anew, "the same pictures");
        // Each byte is drawn once, and read once but for what a reader has ahead.
        assert!(drawn <= bytes.len(), "{drawn} of {}", bytes.len());
        assert!(
            read <= bytes.len() + all.len() * 128 * 1024,
            "{read} of {} in {}",
            bytes.len(),
            all.len()
        );
        // This is what it was: each answer began at the beginning.
        assert!(
            drawn_anew > 4 * drawn && read_anew > 3 * read,
            "{drawn_anew} {read_anew}"
        );
    }

    #[test]
    fn few_screens_are_kept_and_none_that_is_large() {
        let films = PausedFilms::default();
        let of = |run: usize| Recorded {
            run: RunId::parse(format!("r{run}")).unwrap(),
            inline: None,
        };
        let paused = |size: TerminalSize| PausedFilm {
            drawing: Drawing {
                screen: Screen::new(size),
                size,
                ..Drawing::new(LEAST_PAUSE)
            },
            at: 0,
            after_ms: 7,
        };
        for run in 0..MOST_PAUSED + 2 {
            films.keep(of(run), paused(TerminalSize::DEFAULT));
        }
        assert_eq!(films.0.lock().unwrap().len(), MOST_PAUSED);
        assert!(films.take(&of(0), 7).is_none(), "the oldest went");
        assert!(films.take(&of(5), 8).is_none(), "another moment");
        assert!(films.take(&of(5), 7).is_some());
        assert!(films.take(&of(5), 7).is_none(), "it goes on once");
        films.keep(of(9), paused(TerminalSize::new(1000, 1000).unwrap()));
        assert!(films.take(&of(9), 7).is_none());
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(24))]

        /// However a recording is written, its answers are the same whether each goes on or begins anew.
        #[test]
        fn going_on_and_beginning_anew_show_the_same(
            pieces in proptest::collection::vec((0_u64..200, "[ -~\r\n\u{1b}\\[Hm0-9;]{0,200}"), 1..60),
            columns in 20_u16..400,
        ) {
            let mut bytes = InlineFrames::default();
            let mut at = 0;
            // Each cell has another look than the one beside it, so that few pictures fill an answer.
            let cells = "\u{1b}[31mx\u{1b}[32my".repeat(usize::from(columns) * 10);
            for (pause, text) in pieces {
                at += pause;
                let moment = Duration::from_millis(at);
                bytes.push_at(moment, OutputStream::Stdout, format!("\u{1b}[H{cells}{text}").as_bytes());
            }
            let (anew, ..) = answers(bytes.as_bytes(), at, false);
            let (all, ..) = answers(bytes.as_bytes(), at, true);
            proptest::prop_assert_eq!(all, anew);
        }
    }

    #[test]
    fn nothing_more_is_drawn_once_nobody_waits() {
        let mut frames = InlineFrames::default();
        frames.push_at(Duration::from_millis(5), OutputStream::Stdout, b"one");
        let gone = CancellationToken::new();
        gone.cancel();
        let bytes = Cursor::new(frames.as_bytes().to_vec());
        let drawn = draw(bytes, Duration::ZERO, None, gone);
        assert_eq!(drawn.unwrap_err().kind(), io::ErrorKind::Interrupted);
    }

    /// What a page shows of the pictures that it got.
    fn shown_by(pictures: &[FrameBody]) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for picture in pictures {
            rows.resize(usize::from(picture.rows), String::new());
            for (row, text) in row_texts(picture) {
                rows[usize::from(row)] = text;
            }
        }
        rows
    }

    #[test]
    fn a_look_at_a_terminal_shows_what_is_there_and_the_next_what_changed() {
        let mut frames = InlineFrames::default();
        let mut screen = LiveScreen::new();
        let gone = CancellationToken::new();
        let look = |frames: &InlineFrames, screen: &mut LiveScreen| {
            let bytes = frames.as_bytes().to_vec().into();
            screen.look(OutputBytes::Frames(bytes), &gone).unwrap()
        };
        // There is a screen before anything is on it.
        let first = look(&frames, &mut screen).frame.unwrap();
        assert_eq!((first.rows, first.cols, first.changed.len()), (30, 120, 0));
        frames.push_at(
            Duration::from_millis(500),
            OutputStream::Stdout,
            b"one\x1b[31m!\x1b[0m\r\ntwo",
        );
        let second = look(&frames, &mut screen).frame.unwrap();
        assert_eq!(
            row_texts(&second),
            [(0, "one!".to_owned()), (1, "two".to_owned())]
        );
        assert_eq!(second.at_ms, 500);
        assert!(look(&frames, &mut screen).frame.is_none(), "nothing came");
        frames.push_at(Duration::from_millis(900), OutputStream::Stdout, b"\x1b[2;1Hsix");
        let third = look(&frames, &mut screen).frame.unwrap();
        assert_eq!(row_texts(&third), [(1, "six".to_owned())]);
        assert_eq!(third.cursor, Some((2, 4)));
        // A frame of which only a part is there waits for the rest of it.
        let before = frames.as_bytes().len();
        frames.push_at(Duration::from_secs(2), OutputStream::Stdout, b" and more");
        let torn = frames.as_bytes()[..frames.as_bytes().len() - 3].to_vec();
        assert!(torn.len() > before);
        let looked = screen.look(OutputBytes::Frames(torn.into()), &gone).unwrap();
        assert!(looked.frame.is_none() && !looked.is_behind, "{looked:?}");
        let fourth = look(&frames, &mut screen).frame.unwrap();
        assert_eq!(row_texts(&fourth), [(1, "six and more".to_owned())]);
    }

    #[test]
    fn a_look_draws_so_much_and_the_next_one_the_rest() {
        let mut frames = InlineFrames::default();
        let noise = "words that are written again and again\r\n".repeat(1_000);
        let at = |number: usize| Duration::from_millis(50 * u64::try_from(number).unwrap());
        let pieces = 2 * MOST_AT_A_LOOK / noise.len() + 50;
        for number in 0..pieces {
            frames.push_at(at(number), OutputStream::Stdout, noise.as_bytes());
        }
        frames.push_at(at(pieces), OutputStream::Stdout, b"\x1b[Hlast");
        let bytes = bytes::Bytes::from(frames.as_bytes().to_vec());
        let (mut screen, gone) = (LiveScreen::new(), CancellationToken::new());
        let (mut pictures, mut looks) = (Vec::new(), 0);
        loop {
            let looked = screen.look(OutputBytes::Frames(bytes.clone()), &gone).unwrap();
            looks += 1;
            pictures.extend(looked.frame);
            if !looked.is_behind {
                break;
            }
        }
        assert_eq!(looks, 3);
        assert!(shown_by(&pictures)[0].starts_with("last"));
    }

    #[test]
    fn a_screen_that_cannot_be_sent_is_lost() {
        let size = TerminalSize::new(300, 300).unwrap();
        let mut screen = LiveScreen::new();
        screen.drawing.resize(size);
        let cells = "\x1b[31mx\x1b[32mx".repeat(300 * 150);
        let mut frames = InlineFrames::default();
        frames.push_at(Duration::ZERO, OutputStream::Stdout, cells.as_bytes());
        let bytes = frames.as_bytes().to_vec().into();
        let looked = screen.look(OutputBytes::Frames(bytes), &CancellationToken::new());
        assert!(matches!(looked, Err(LookError::Lost)), "{looked:?}");
    }

    #[test]
    fn a_picture_with_too_much_text_ends_what_is_shown() {
        let mut film = Film::new(Duration::ZERO, None, CancellationToken::new());
        let size = TerminalSize::new(300, 300).unwrap();
        film.event(Event::Size(size)).unwrap();
        film.event(Event::Output(OutputStream::Stdout, b"one")).unwrap();
        film.event(Event::Time(Duration::from_millis(100))).unwrap();
        // Each cell has another look than the one beside it.
        let cells = "\x1b[31mx\x1b[32mx".repeat(300 * 150);
        film.event(Event::Output(OutputStream::Stdout, cells.as_bytes()))
            .unwrap();
        film.event(Event::Time(Duration::from_millis(200))).unwrap();
        let (film, _paused) = film.end(None);
        assert_eq!((film.frames.len(), film.lost_at_ms), (1, Some(100)));
        assert_eq!(film.next_after_ms, None);
    }
}
