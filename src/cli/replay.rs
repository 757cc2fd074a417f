//! `countersign runs replay`: what a terminal showed during a run, again.
//!
//! A terminal never gets what the command wrote. It is drawn on a screen of ours, and what stands there is shown: so no
//! control sequence of the command reaches the terminal. In a pipe the recording comes as it is. Entry point: [`run`].

use std::{fmt::Write as _, time::Duration};

use serde::Deserialize;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::yield_now,
    time::{Instant, sleep_until},
};

use countersign_domain::{RunId, TerminalSize};
use countersign_protocol::terminal;

use super::{
    approver::terminal::Terminal,
    candidates,
    client::Client,
    console::Console,
    context::Context,
    duration::{clock_face, parse_duration},
    failure::Failure,
    ids,
};

/// Bytes of a recording that is shown; a longer one can be written to a file.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// Between two pictures, at least: a terminal shows no more.
const FRAME: Duration = Duration::from_millis(30);
/// How often the line below tells the time.
const TICK: Duration = Duration::from_millis(500);
/// No pause of a recording is longer.
const MAX_PAUSE: Duration = Duration::from_hours(24 * 365);

/// Which run, and how it is shown.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArgs {
    /// Its id, or a unique part of 8 characters or more
    #[arg(value_parser = ids::parse_run, add = candidates::runs())]
    run: RunId,
    /// So many times as fast, such as 2 or 0.5
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_speed)]
    speed: f64,
    /// Pauses are no longer than this; 0 for none
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    idle: Duration,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok();
    speed
        .filter(|speed| (0.01..=1000.0).contains(speed))
        .ok_or_else(|| "expected a number from 0.01 to 1000".to_owned())
}

pub(super) async fn run(context: &Context, client: &Client, args: ReplayArgs) -> Result<(), Failure> {
    let ReplayArgs { run, speed, idle } = args;
    let console = context.console;
    let run = ids::run(&run)?;
    let path = ["v1", "runs", &run, "recording"];
    if !console.is_terminal() {
        return client
            .bytes(&path, &Vec::new(), |piece| console.raw_out(piece))
            .await;
    }
    let mut bytes = Vec::new();
    client
        .bytes(&path, &Vec::new(), |piece| {
            if bytes.len() + piece.len() > MAX_BYTES {
                return Err(Failure::usage("the recording is too long to be shown here")
                    .hint(format!("countersign runs replay {run} | cat   (prints it all)")));
            }
            bytes.extend_from_slice(piece);
            Ok(())
        })
        .await?;
    let recording = Recording::read(&bytes)
        .ok_or_else(|| Failure::new("replay", "the server sent something that is no recording"))?;
    let length = recording.length(idle);
    let terminal = Terminal::open()
        .map_err(|error| Failure::new("replay", format!("the terminal cannot be used: {error}")))?;
    let shown = Show {
        console,
        terminal,
        ends: [
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ],
        size: recording.size,
        screen: terminal::Screen::new(recording.size),
        length,
        speed,
        at: Duration::ZERO,
        is_paused: false,
        rows: Vec::new(),
    };
    let end = shown.play(&recording, idle).await?;
    console.line(&end)
}

/// The first line of a recording.
#[derive(Debug, Deserialize)]
struct Head {
    term: Term,
}

#[derive(Debug, Deserialize)]
struct Term {
    cols: u16,
    rows: u16,
}

/// A recording as it was read: asciicast v3.
#[derive(Debug, PartialEq)]
struct Recording {
    size: TerminalSize,
    moments: Vec<(Duration, Event)>,
    exit: Option<i32>,
}

#[derive(Debug, PartialEq)]
enum Event {
    Output(String),
    Size(TerminalSize),
}

impl Recording {
    /// `None` for what is no recording. An event of another kind only takes its time.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let Head { term } = serde_json::from_slice(lines.next()?).ok()?;
        let size = TerminalSize::new(term.rows, term.cols)?;
        let (mut moments, mut exit) = (Vec::new(), None);
        let mut passed = Duration::ZERO;
        for line in lines {
            let (seconds, kind, text): (f64, String, String) = serde_json::from_slice(line).ok()?;
            let pause = Duration::try_from_secs_f64(seconds).ok()?;
            passed = passed.saturating_add(pause.min(MAX_PAUSE));
            let event = match kind.as_str() {
                "o" => Some(Event::Output(text)),
                "r" => size_of(&text).map(Event::Size),
                "x" => {
                    exit = text.parse().ok();
                    None
                }
                _ => None,
            };
            if let Some(event) = event {
                moments.push((std::mem::take(&mut passed), event));
            }
        }
        Some(Self { size, moments, exit })
    }

    /// How long it is with its pauses cut.
    fn length(&self, idle: Duration) -> Duration {
        self.moments.iter().fold(Duration::ZERO, |sum, (after, _)| {
            sum.saturating_add(cut(*after, idle))
        })
    }
}

fn size_of(text: &str) -> Option<TerminalSize> {
    let (cols, rows) = text.split_once('x')?;
    TerminalSize::new(rows.parse().ok()?, cols.parse().ok()?)
}

/// A pause, no longer than `idle` where that is not zero.
fn cut(after: Duration, idle: Duration) -> Duration {
    if idle.is_zero() { after } else { after.min(idle) }
}

/// What a key does to a recording that is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Key {
    Pause,
    Faster,
    Slower,
    End,
}

impl Key {
    const fn of(character: char) -> Option<Self> {
        match character {
            ' ' | 'p' => Some(Self::Pause),
            '+' | '>' => Some(Self::Faster),
            '-' | '<' => Some(Self::Slower),
            'q' | '\x1b' => Some(Self::End),
            _ => None,
        }
    }
}

/// A recording that is being shown.
struct Show {
    console: Console,
    terminal: Terminal,
    /// The signals that end it.
    ends: [Signal; 3],
    /// The size that was recorded.
    size: TerminalSize,
    screen: terminal::Screen,
    length: Duration,
    speed: f64,
    /// How far it has come.
    at: Duration,
    is_paused: bool,
    /// What stands there.
    rows: Vec<String>,
}

/// The other screen of the terminal, until it is dropped.
struct OtherScreen(Console);

impl OtherScreen {
    fn enter(console: Console) -> Result<Self, Failure> {
        // A wide character in the last column must not go on in the next row.
        console.raw_out(b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        Ok(Self(console))
    }
}

impl Drop for OtherScreen {
    fn drop(&mut self) {
        let _gone = self.0.raw_out(b"\x1b[?2026l\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l");
    }
}

impl Show {
    /// Shows it to the end, or until a key ends it. Returns what to say of it then.
    async fn play(mut self, recording: &Recording, idle: Duration) -> Result<String, Failure> {
        let _screen = OtherScreen::enter(self.console)?;
        let mut drawn = Instant::now();
        for (after, event) in &recording.moments {
            let after = cut(*after, idle);
            if after.div_f64(self.speed) >= FRAME || drawn.elapsed() >= FRAME {
                self.draw()?;
                drawn = Instant::now();
            }
            let mut is_ended = self.wait(after).await?;
            match event {
                Event::Output(text) => {
                    // Drawing may take long, and keys count meanwhile.
                    for piece in text.as_bytes().chunks(self.screen.portion()) {
                        drop(self.screen.push(piece, 0));
                        is_ended = is_ended || self.wait(Duration::ZERO).await?;
                        if is_ended {
                            break;
                        }
                    }
                }
                Event::Size(size) => {
                    self.size = *size;
                    self.screen.resize(*size);
                    self.rows.clear();
                }
            }
            if is_ended {
                return Ok(format!("stopped after {}", clock_face(self.at)));
            }
        }
        self.draw()?;
        // What it showed last stays until a key is pressed.
        self.told("end", "q quits")?;
        while !self.key().await?.is_none_or(|key| key == Key::End) {}
        let code = recording
            .exit
            .map_or_else(String::new, |code| format!(", exit code {code}"));
        Ok(format!("shown: {}{code}", clock_face(self.length)))
    }

    /// Lets so much of the recording pass; true if a key ended it.
    async fn wait(&mut self, after: Duration) -> Result<bool, Failure> {
        let mut left = after;
        loop {
            let begun = Instant::now();
            let key = if self.is_paused || !left.is_zero() {
                let next = if self.is_paused {
                    TICK
                } else {
                    left.div_f64(self.speed).min(TICK)
                };
                tokio::select! {
                    key = self.key() => Some(key?),
                    () = sleep_until(begun + next) => None,
                }
            } else {
                tokio::select! {
                    biased;
                    key = self.key() => Some(key?),
                    () = yield_now() => return Ok(false),
                }
            };
            if !self.is_paused {
                let passed = begun.elapsed().mul_f64(self.speed).min(left);
                left -= passed;
                self.at += passed;
            }
            match key {
                None => {}
                Some(None | Some(Key::End)) => return Ok(true),
                Some(Some(Key::Pause)) => self.is_paused = !self.is_paused,
                Some(Some(Key::Faster)) => self.speed = (self.speed * 2.0).min(1000.0),
                Some(Some(Key::Slower)) => self.speed = (self.speed / 2.0).max(0.01),
            }
            self.status()?;
            if left.is_zero() && !self.is_paused {
                return Ok(false);
            }
        }
    }

    /// The next key that does something; `None` when the terminal is gone, and for a signal that ends it.
    async fn key(&mut self) -> Result<Option<Key>, Failure> {
        let [interrupt, terminate, hangup] = &mut self.ends;
        loop {
            let keys = tokio::select! {
                keys = self.terminal.keys() => keys?,
                _ = interrupt.recv() => None,
                _ = terminate.recv() => None,
                _ = hangup.recv() => None,
            };
            match keys {
                None => return Ok(None),
                Some(keys) => {
                    if let Some(key) = keys.chars().find_map(Key::of) {
                        return Ok(Some(key));
                    }
                }
            }
        }
    }

    /// Shows what changed since it was shown last.
    fn draw(&mut self) -> Result<(), Failure> {
        let terminal = self.terminal.screen();
        let number = |number: usize| {
            u16::try_from(number)
                .unwrap_or(u16::MAX)
                .clamp(1, TerminalSize::MAX)
        };
        let part = TerminalSize::new(number(terminal.rows.saturating_sub(1)), number(terminal.columns));
        let rows = part.and_then(|part| self.screen.rows(part));
        let rows = rows.ok_or_else(|| Failure::new("replay", "what was written here cannot be shown"))?;
        let mut out = String::new();
        for (at, row) in rows.iter().enumerate() {
            if self.rows.get(at) != Some(row) {
                write!(out, "\x1b[{};1H\x1b[m\x1b[2K{row}\x1b[m", at + 1)
                    .expect("writing to a String cannot fail");
            }
        }
        if self.rows.len() > rows.len() {
            write!(out, "\x1b[{};1H\x1b[J", rows.len() + 1).expect("writing to a String cannot fail");
        }
        self.rows = rows;
        self.console.frame(&out)?;
        self.status()
    }

    /// The line below.
    fn status(&self) -> Result<(), Failure> {
        let state = if self.is_paused { "paused" } else { "playing" };
        self.told(state, "space pauses, + and - change the speed, q quits")
    }

    fn told(&self, state: &str, keys: &str) -> Result<(), Failure> {
        let (at, of) = (clock_face(self.at), clock_face(self.length));
        let terminal = self.terminal.screen();
        let (rows, cols) = (self.size.rows(), self.size.cols());
        let fits = usize::from(rows) < terminal.rows && usize::from(cols) <= terminal.columns;
        let cut = if fits {
            String::new()
        } else {
            format!(", a part of {cols}x{rows}")
        };
        let line = format!("{state}: {at} of {of}, {} x{cut}  ({keys})", self.speed);
        let line: String = line.chars().take(terminal.columns.saturating_sub(1)).collect();
        let out = format!("\x1b[{};1H\x1b[m\x1b[2K\x1b[7m{line}\x1b[m", terminal.rows);
        self.console.raw_out(out.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_and_its_pauses_are_cut() {
        let text = "{\"version\":3,\"term\":{\"cols\":80,\"rows\":24}}\n[0.5,\"o\",\"a\"]\n[1.0,\"i\",\"y\"]\n\n[9.0,\"r\",\"100x30\"]\n[0.1,\"o\",\"b\"]\n[2.0,\"x\",\"7\"]\n";
        let recording = Recording::read(text.as_bytes()).unwrap();
        let seconds = Duration::from_secs_f64;
        let output = |text: &str| Event::Output(text.to_owned());
        assert_eq!(
            recording,
            Recording {
                size: TerminalSize::new(24, 80).unwrap(),
                moments: vec![
                    (seconds(0.5), output("a")),
                    (seconds(10.0), Event::Size(TerminalSize::new(30, 100).unwrap())),
                    (seconds(0.1), output("b")),
                ],
                exit: Some(7),
            }
        );
        assert_eq!(recording.length(seconds(2.0)), seconds(2.6));
        assert_eq!(recording.length(Duration::ZERO), seconds(10.6));
        for odd in ["", "{}", "[]", "{\"term\":{\"cols\":0,\"rows\":24}}"] {
            assert_eq!(Recording::read(odd.as_bytes()), None, "{odd}");
        }
        let negative = text.replace("9.0", "-9.0");
        assert_eq!(Recording::read(negative.as_bytes()), None);
        let for_ever = Recording::read(text.replace("9.0", "1.8e19").as_bytes()).unwrap();
        assert!(for_ever.length(Duration::ZERO) < 2 * MAX_PAUSE);
        let odd = Recording::read(text.replace("\"7\"", "\"7\\u001b[6n\"").as_bytes());
        assert_eq!(odd.unwrap().exit, None);
    }

    #[test]
    fn a_speed_is_a_number_above_zero() {
        assert_eq!(parse_speed("0.5"), Ok(0.5));
        for odd in ["0", "-1", "NaN", "inf", "fast", "1e9"] {
            assert!(parse_speed(odd).is_err(), "{odd}");
        }
    }
}
