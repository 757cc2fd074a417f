//! A run as a recording that players of terminals know: asciicast v3, one JSON value a line.
//!
//! The first line is the head. Each other one is `[seconds since the one before, kind, text]`, where the kind is `o` for
//! output, `i` for what was typed, `r` for a new size and `x` for the exit code. The text of output is what the command wrote:
//! a player obeys the control sequences in it.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, Write as _},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use countersign_domain::{OutputStream, Run, RunId, TerminalSize};
use countersign_engine::OutputBytes;
use countersign_runner::output::{
    Utf8Decoder,
    spool::{self, Event},
};
use countersign_wire::run::RunBody;

use crate::{
    caller::{AgentCaller, ReadOrAskedOrOwn},
    extract::{AtPath, QueryOf},
    problem::Problem,
    short_id,
    state::AppState,
};

/// What players call the format.
const ASCIICAST: &str = "application/x-asciicast";

/// Bytes of lines that are sent at once.
const PIECE: usize = 64 * 1024;

/// Pieces on their way to a client that reads slowly.
const AHEAD: usize = 4;

/// A run as a recording: its output with its times, the sizes of its terminal, and what was typed where that is kept.
///
/// It is asciicast v3. Players obey the control sequences in it, as a terminal would. Of a run that goes on it is what there is so far.
#[utoipa::path(
    get, path = "/v1/runs/{runId}/recording", tag = "runs", operation_id = "get_run_recording",
    params(("runId" = RunId, Path)),
    responses(
        (status = OK, description = "A head and one event a line.", content_type = "application/x-asciicast", body = String),
    ),
    security(("token" = ["read"]), ("token" = ["exec"]), ("token" = ["approve"])),
)]
pub(super) async fn recording(
    caller: AgentCaller<ReadOrAskedOrOwn>,
    AtPath(id): AtPath<RunId>,
    State(state): State<AppState>,
    QueryOf(()): QueryOf<()>,
) -> Result<Response, Problem> {
    let id = short_id::run(&state, &caller, id).await?;
    let records = state.engine().records();
    let run = records.run(&caller, &id).await?;
    let run = run.ok_or_else(|| Problem::not_found("run"))?;
    let stored = records.recording(&run).await?;
    let cast = Cast::of(run);
    let body = match stored.ok_or_else(|| Problem::not_found("run"))? {
        OutputBytes::Frames(frames) => cast.whole(frames),
        OutputBytes::Spool(path) => {
            let opened = tokio::task::spawn_blocking(move || countersign_sys::fs::open_regular(&path));
            opened
                .await
                .unwrap_or_else(|_panic| Err(io::ErrorKind::Other.into()))
                .map(|file| stream(cast, file))
        }
    };
    let body = body.map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return Problem::not_found("output: it was removed to make room");
        }
        tracing::error!(run.id = %id, %error, "output cannot be read");
        Problem::internal()
    })?;
    Ok(answer(body))
}

/// A recording whose output is at hand.
pub(crate) fn recording_of_frames(run: Run, frames: Bytes) -> Result<Response, Problem> {
    let body = Cast::of(run).whole(frames);
    body.map(answer).map_err(|error| {
        tracing::error!(%error, "output cannot be read");
        Problem::internal()
    })
}

fn answer(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(ASCIICAST)),
        // Output of a command is never shown by a browser as if we had written it.
        (
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        ),
    ];
    (headers, body).into_response()
}

/// Reads a file on a thread that may block, no faster than the client takes it.
fn stream(cast: Cast, file: File) -> Body {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let sent = cast.write(file, &mut |piece| {
            let sent = sender.blocking_send(Ok(piece.into()));
            // The client left.
            sent.map_err(|_closed| io::ErrorKind::BrokenPipe.into())
        });
        if let Err(error) = sent {
            sender.blocking_send(Err(error)).unwrap_or(());
        }
    });
    Body::from_stream(ReceiverStream::new(receiver))
}

/// The first line, but for the size of the terminal.
#[derive(Debug)]
struct Head {
    /// When it started, in seconds since 1970.
    timestamp: i64,
    /// One line, with secrets masked.
    command: String,
}

/// What is known of a recording besides its output.
#[derive(Debug)]
struct Cast {
    head: Head,
    exit_code: Option<i32>,
    /// From the start to the end, where both are known.
    lasted: Option<Duration>,
}

impl Cast {
    fn of(run: Run) -> Self {
        let started = run.started_at.unwrap_or(run.created_at);
        let ended = run.ended_at.filter(|_| run.started_at.is_some());
        let lasted = ended.map(|ended| ended.since(started));
        let exit_code = run.exit_code;
        let run = RunBody::from(run);
        Self {
            head: Head {
                timestamp: started.get() / 1000,
                command: run.display_text,
            },
            exit_code,
            lasted,
        }
    }

    /// All lines at once.
    fn whole(self, frames: Bytes) -> io::Result<Body> {
        let mut lines = Vec::new();
        self.write(Cursor::new(frames), &mut |piece| {
            lines.extend(piece);
            Ok(())
        })?;
        Ok(Body::from(lines))
    }

    /// Hands on the lines in pieces.
    fn write(
        self,
        spool: impl Read + Seek,
        send: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut lines = Lines {
            head: Some(self.head),
            stdout: Utf8Decoder::default(),
            stderr: Utf8Decoder::default(),
            input: Utf8Decoder::default(),
            told: Duration::ZERO,
            now: Duration::ZERO,
            bytes: Vec::new(),
        };
        spool::events(spool, |event| {
            lines.event(event)?;
            if lines.bytes.len() >= PIECE {
                send(std::mem::take(&mut lines.bytes))?;
            }
            Ok(())
        })?;
        lines.end(self.lasted, self.exit_code)?;
        send(lines.bytes)
    }
}

fn decoded(decoder: &mut Utf8Decoder, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    decoder.push(bytes, |piece| text.push_str(piece));
    text
}

/// Lines of a recording that are made of what a spool tells.
struct Lines {
    /// `None` once it was written.
    head: Option<Head>,
    stdout: Utf8Decoder,
    stderr: Utf8Decoder,
    input: Utf8Decoder,
    /// The time of the last line, and the one of the next.
    told: Duration,
    now: Duration,
    bytes: Vec<u8>,
}

impl Lines {
    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Time(elapsed) => self.now = self.now.max(elapsed),
            Event::Size(size) if self.head.is_some() => self.head(size)?,
            Event::Size(size) => self.line("r", &format!("{}x{}", size.cols(), size.rows()))?,
            Event::Output(stream, bytes) => {
                let decoder = match stream {
                    OutputStream::Stdout => &mut self.stdout,
                    OutputStream::Stderr => &mut self.stderr,
                };
                let text = decoded(decoder, bytes);
                self.text("o", &text)?;
            }
            Event::Input(bytes) => {
                let text = decoded(&mut self.input, bytes);
                self.text("i", &text)?;
            }
        }
        Ok(())
    }

    fn head(&mut self, size: TerminalSize) -> io::Result<()> {
        let Some(Head { timestamp, command }) = self.head.take() else {
            return Ok(());
        };
        let term = json!({ "cols": size.cols(), "rows": size.rows() });
        self.json(&json!({ "version": 3, "term": term, "timestamp": timestamp, "command": command }))
    }

    fn text(&mut self, kind: &str, text: &str) -> io::Result<()> {
        self.head(TerminalSize::DEFAULT)?;
        if text.is_empty() {
            Ok(())
        } else {
            self.line(kind, text)
        }
    }

    fn line(&mut self, kind: &str, text: &str) -> io::Result<()> {
        let since = self.now.saturating_sub(self.told);
        self.told = self.now;
        // As exactly as times are kept.
        let seconds = (since.as_secs_f64() * 1000.0).round() / 1000.0;
        self.json(&json!([seconds, kind, text]))
    }

    fn json(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.bytes, value)?;
        self.bytes.write_all(b"\n")
    }

    fn end(&mut self, lasted: Option<Duration>, exit_code: Option<i32>) -> io::Result<()> {
        let mut rest = String::new();
        for decoder in [&mut self.stdout, &mut self.stderr] {
            decoder.finish(|piece| rest.push_str(piece));
        }
        self.text("o", &rest)?;
        self.now = self.now.max(lasted.unwrap_or_default());
        match exit_code {
            Some(code) => self.line("x", &code.to_string()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_runner::InlineFrames;

    use super::*;

    fn lines(frames: &[u8], lasted: Option<Duration>, exit_code: Option<i32>) -> Vec<Value> {
        let cast = Cast {
            head: Head {
                timestamp: 7,
                command: "make".to_owned(),
            },
            exit_code,
            lasted,
        };
        let mut bytes = Vec::new();
        cast.write(Cursor::new(frames.to_vec()), &mut |piece| {
            bytes.extend(piece);
            Ok(())
        })
        .unwrap();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn each_line_says_how_long_after_the_one_before_it_came() {
        let mut frames = InlineFrames::default();
        let (out, err) = (OutputStream::Stdout, OutputStream::Stderr);
        let both = "é".as_bytes();
        frames.push_at(Duration::from_millis(3), out, b"a\x1b[1m");
        frames.push_at(Duration::from_millis(1500), err, &both[..1]);
        frames.push_at(Duration::from_millis(2500), err, &both[1..]);
        let ended = lines(frames.as_bytes(), Some(Duration::from_secs(4)), Some(2));
        let expected = [
            json!({ "version": 3, "timestamp": 7, "command": "make", "term": { "cols": 120, "rows": 30 } }),
            json!([0.0, "o", "a\u{1b}[1m"]),
            json!([2.5, "o", "é"]),
            json!([1.5, "x", "2"]),
        ];
        assert_eq!(ended, expected);
        assert_eq!(lines(frames.as_bytes(), None, None), expected[..3]);
        assert_eq!(lines(b"", None, None), expected[..1]);
    }
}
