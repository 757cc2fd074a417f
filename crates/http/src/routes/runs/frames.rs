//! What a terminal showed during a run, as pictures of its cells: no control sequence of a command reaches who looks at them.
//!
//! The output is drawn on a screen here, from its beginning on for each answer. A picture is taken where something was written
//! and some time has passed since the one before, so that there are only so many of a run, however long it took.

use std::{
    io::{self, Cursor, Read, Seek},
    time::Duration,
};

use axum::extract::State;
use tokio_util::sync::CancellationToken;

use countersign_domain::{Run, RunId, TerminalSize, UnixMillis};
use countersign_engine::OutputBytes;
use countersign_protocol::terminal::{Look, Row, Screen};
use countersign_runner::output::spool::{self, Event};
use countersign_wire::frames::{FrameBody, FramesBody, RowBody, TextBody};

use crate::{
    caller::{AgentCaller, ReadOrAskedOrOwn},
    extract::{AtPath, Parameters, QueryForm, QueryOf},
    problem::Problem,
    reply::JsonReply,
    short_id,
    state::AppState,
};

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

/// Which pictures are wanted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query, rename_all = "camelCase")]
pub(crate) struct FramesQuery {
    /// Those after this moment of the run; `nextAfterMs` of the answer before.
    pub(crate) after_ms: Option<u64>,
}

impl QueryForm for FramesQuery {
    fn read(parameters: &mut Parameters) -> Result<Self, Problem> {
        Ok(Self {
            after_ms: parameters.value("afterMs")?,
        })
    }
}

/// What a terminal showed during a run, picture by picture, to be shown again without a terminal. Cells are text without control
/// characters; colours are the nearest of the sixteen of terminals. Of a run that goes on it is what there is so far.
#[utoipa::path(
    get, path = "/v1/runs/{runId}/recording/frames", tag = "runs", operation_id = "get_run_frames",
    params(("runId" = RunId, Path), FramesQuery),
    responses((status = OK, body = FramesBody)),
    security(("token" = ["read"]), ("token" = ["exec"]), ("token" = ["approve"])),
)]
pub(super) async fn frames(
    caller: AgentCaller<ReadOrAskedOrOwn>,
    AtPath(id): AtPath<RunId>,
    State(state): State<AppState>,
    QueryOf(query): QueryOf<FramesQuery>,
) -> Result<JsonReply<FramesBody>, Problem> {
    let id = short_id::run(&state, &caller, id).await?;
    let engine = state.engine();
    let run = engine.records().run(&caller, &id).await?;
    let run = run.ok_or_else(|| Problem::not_found("run"))?;
    let stored = engine.records().recording(&run).await?;
    let stored = stored.ok_or_else(|| Problem::not_found("run"))?;
    let length = length_of(&run, engine.clock().now());
    // It takes a processor for a while.
    let turn = state.drawing_turn().await;
    let gone = CancellationToken::new();
    let _until_answered = gone.clone().drop_guard();
    let drawn = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        match stored {
            OutputBytes::Frames(frames) => draw(Cursor::new(frames), length, query.after_ms, gone),
            OutputBytes::Spool(path) => draw(
                countersign_sys::fs::open_regular(&path)?,
                length,
                query.after_ms,
                gone,
            ),
        }
    });
    let drawn = drawn.await.map_err(|_panicked| Problem::internal())?;
    drawn.map(JsonReply).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return Problem::not_found("output: it was removed to make room");
        }
        tracing::error!(run.id = %id, %error, "output cannot be read");
        Problem::internal()
    })
}

fn length_of(run: &Run, now: UnixMillis) -> Duration {
    let end = run.ended_at.unwrap_or(now);
    run.started_at
        .map_or(Duration::ZERO, |started| end.since(started))
}

/// The pictures of a recording after a moment, as many as go into an answer; `gone` when nobody waits for them any more.
pub(crate) fn draw(
    spool: impl Read + Seek,
    length: Duration,
    after_ms: Option<u64>,
    gone: CancellationToken,
) -> io::Result<FramesBody> {
    let mut film = Film::new(length, after_ms, gone);
    let whole = spool::events(spool, |event| film.event(event));
    match whole {
        // The answer is full, and the rest is not read.
        Err(error) if film.is_done() && error.kind() == io::ErrorKind::StorageFull => {}
        other => other?,
    }
    Ok(film.end())
}

struct Film {
    screen: Screen,
    size: TerminalSize,
    /// Between two pictures, at least.
    pause: Duration,
    after_ms: Option<u64>,
    now: Duration,
    /// When the last picture was taken.
    taken: Option<Duration>,
    /// Something was written since.
    is_changed: bool,
    /// What the last picture of the answer showed.
    shown: Vec<Row>,
    frames: Vec<FrameBody>,
    text: usize,
    next_after_ms: Option<u64>,
    lost_at: Option<Duration>,
    length: Duration,
    /// How much output was drawn.
    drawn: usize,
    gone: CancellationToken,
}

impl Film {
    fn new(length: Duration, after_ms: Option<u64>, gone: CancellationToken) -> Self {
        Self {
            screen: Screen::new(TerminalSize::DEFAULT),
            size: TerminalSize::DEFAULT,
            pause: LEAST_PAUSE.max(length / MOST_FRAMES),
            after_ms,
            now: Duration::ZERO,
            taken: None,
            is_changed: false,
            shown: Vec::new(),
            frames: Vec::new(),
            text: 0,
            next_after_ms: None,
            lost_at: None,
            length,
            drawn: 0,
            gone,
        }
    }

    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Time(elapsed) => {
                if elapsed > self.now {
                    self.perhaps_take(elapsed)?;
                    self.now = elapsed;
                }
            }
            Event::Size(size) => {
                self.size = size;
                self.screen.resize(size);
                self.is_changed = true;
            }
            Event::Output(_stream, bytes) => {
                self.is_changed = true;
                for piece in bytes.chunks(self.screen.portion()) {
                    if self.gone.is_cancelled() {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    if self.drawn > MOST_DRAWN {
                        self.lost_at.get_or_insert(self.now);
                        return Err(io::ErrorKind::StorageFull.into());
                    }
                    self.drawn += piece.len();
                    self.screen.push(piece, 0);
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
            .taken
            .is_none_or(|taken| next.saturating_sub(taken) >= self.pause);
        if self.is_changed && is_due {
            self.take()?;
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let at = self.now;
        self.taken = Some(at);
        self.is_changed = false;
        let at_ms = millis(at);
        if self.after_ms.is_some_and(|after| at_ms <= after) || self.lost_at.is_some() {
            return Ok(());
        }
        if self.is_full() {
            let last = self.frames.last().map(|frame| frame.at_ms);
            self.next_after_ms = last;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let Some(cells) = self.screen.cells() else {
            self.lost_at = Some(at);
            return Ok(());
        };
        let empty = Row::new();
        let mut changed = Vec::new();
        let mut text = 0;
        for (row, texts) in (0_u16..).zip(&cells) {
            let before = self.shown.get(usize::from(row)).unwrap_or(&empty);
            if texts != before {
                text += texts.iter().map(|(text, _look)| text.len() + 32).sum::<usize>() + 16;
                if text > MOST_TEXT_OF_ONE {
                    self.lost_at = Some(at);
                    return Ok(());
                }
                changed.push(RowBody {
                    row,
                    texts: texts.iter().map(text_body).collect(),
                });
            }
        }
        self.text += text;
        self.shown = cells;
        self.frames.push(FrameBody {
            at_ms,
            rows: self.size.rows(),
            cols: self.size.cols(),
            cursor: self.screen.shown_cursor(),
            changed,
        });
        Ok(())
    }

    /// Whether nothing more of the recording is needed.
    fn is_done(&self) -> bool {
        self.is_full() || self.lost_at.is_some()
    }

    fn is_full(&self) -> bool {
        self.frames.len() >= MOST_AT_ONCE || self.text >= MOST_TEXT
    }

    fn end(mut self) -> FramesBody {
        if self.is_changed && self.next_after_ms.is_none() {
            // Where it does not fit any more, `take` says so in `next_after_ms`.
            drop(self.take());
        }
        FramesBody {
            frames: self.frames,
            next_after_ms: self.next_after_ms,
            length_ms: millis(self.length.max(self.now)),
            lost_at_ms: self.lost_at.map(millis),
        }
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
        let film = film.end();
        assert_eq!((film.frames.len(), film.lost_at_ms), (1, Some(100)));
        assert_eq!(film.next_after_ms, None);
    }
}
