//! Lines on their way to a standard stream: the log, and what a node says of itself.
//!
//! Nobody who logs waits for those who read the log: a thread of its own writes, and where the reader does not keep up, lines
//! are dropped and counted. While there is no such thread, a line is written at once or not at all.

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::BorrowedFd,
    io::Errno,
    stdio::{stderr, stdout},
};
use tracing_subscriber::fmt::MakeWriter;

use countersign_config::settings::LogFormat;

/// Bytes of lines that may wait to be written.
const MAX_WAITING_BYTES: usize = 1024 * 1024;

/// Longest wait for the last lines, once no more come.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What a pipe takes at once when it can be written to.
const ATOMIC: usize = 4096;

/// Where lines go. Clones share the way.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Shared>);

/// Where lines end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

impl Stream {
    fn file(self) -> BorrowedFd<'static> {
        match self {
            Self::Output => stdout(),
            Self::Error => stderr(),
        }
    }

    /// Whether it can be written to without a wait.
    fn takes_now(self) -> bool {
        let file = self.file();
        let mut streams = [PollFd::new(&file, PollFlags::OUT)];
        matches!(poll(&mut streams, Some(&Timespec::default())), Ok(1))
    }

    /// Writes all of it. What cannot be written any more, nobody reads.
    fn write(self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match rustix::io::write(self.file(), bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let file = self.file();
                    let mut streams = [PollFd::new(&file, PollFlags::OUT)];
                    match poll(&mut streams, None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(_) => return,
                    }
                }
                Err(_) => return,
            }
        }
    }
}

#[derive(Debug)]
struct Shared {
    format: LogFormat,
    stream: Stream,
    state: Mutex<State>,
    /// That there is something to write, or that no more comes.
    filled: Condvar,
    /// That everything is written.
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    dropped: u64,
    thread: Writing,
}

/// Who writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Who logs, where that takes no time.
    #[default]
    Here,
    /// The thread.
    Aside,
    /// The thread, until nothing waits any more.
    Ending,
}

/// The thread that writes. Dropping it waits for the last lines, but not for ever.
#[derive(Debug)]
#[must_use]
pub struct LogThread(Lines);

impl Lines {
    pub(super) fn new(stream: Stream, format: LogFormat) -> Self {
        Self(Arc::new(Shared {
            format,
            stream,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }))
    }

    /// Takes a line, or counts it as dropped. Never waits for a reader.
    pub(super) fn put(&self, line: &[u8]) {
        let mut state = self.state();
        if state.thread == Writing::Here {
            state.write_here(line, self.0.stream, self.0.format);
        } else if state.takes(line.len()) {
            state.waiting.extend_from_slice(line);
            self.0.filled.notify_one();
        } else {
            state.dropped = state.dropped.saturating_add(1);
        }
    }

    /// Lets a thread write from now on.
    pub(super) fn write_aside(&self) -> io::Result<LogThread> {
        let lines = self.clone();
        self.state().thread = Writing::Aside;
        let spawned = thread::Builder::new()
            .name(
                if self.0.stream == Stream::Error {
                    "log"
                } else {
                    "output"
                }
                .to_owned(),
            )
            .spawn(move || lines.write_all());
        if let Err(error) = spawned {
            self.state().thread = Writing::Here;
            return Err(error);
        }
        Ok(LogThread(self.clone()))
    }

    /// Writes what comes until no more does.
    fn write_all(&self) {
        let mut state = self.state();
        loop {
            let batch = state.batch(self.0.format);
            if batch.is_empty() {
                if state.thread == Writing::Ending {
                    state.thread = Writing::Here;
                    self.0.emptied.notify_all();
                    return;
                }
                state = (self.0.filled.wait(state)).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            self.0.stream.write(&batch);
            state = self.state();
        }
    }

    /// Waits for the last lines.
    fn end(&self, within: Duration) {
        let mut state = self.state();
        state.thread = Writing::Ending;
        self.0.filled.notify_one();
        let is_ending = |state: &mut State| state.thread == Writing::Ending;
        drop(self.0.emptied.wait_timeout_while(state, within, is_ending));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.0.end(LAST_LINES);
    }
}

impl State {
    /// Whether there is room. Once a line was dropped, the next ones are, until their number is told: it stands where they
    /// would.
    fn takes(&self, bytes: usize) -> bool {
        self.dropped == 0 && self.waiting.len().saturating_add(bytes) <= MAX_WAITING_BYTES
    }

    /// What is to be written next.
    fn batch(&mut self, format: LogFormat) -> Vec<u8> {
        let mut batch = std::mem::take(&mut self.waiting);
        batch.extend(dropped_line(std::mem::take(&mut self.dropped), format));
        batch
    }

    /// Writes a line where that takes no time.
    fn write_here(&mut self, line: &[u8], stream: Stream, format: LogFormat) {
        if !stream.takes_now() {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let told = dropped_line(std::mem::take(&mut self.dropped), format);
        for piece in [told.as_slice(), line]
            .into_iter()
            .flat_map(|text| text.chunks(ATOMIC))
        {
            if !stream.takes_now() {
                self.dropped = self.dropped.saturating_add(1);
                return;
            }
            stream.write(piece);
        }
    }
}

/// What stands in place of dropped lines; nothing for none.
fn dropped_line(dropped: u64, format: LogFormat) -> Vec<u8> {
    let what = match dropped {
        0 => return Vec::new(),
        1 => "1 line of the log was dropped".to_owned(),
        many => format!("{many} lines of the log were dropped"),
    };
    match format {
        LogFormat::Text => format!("{what}: they were not read fast enough\n").into_bytes(),
        LogFormat::Json => {
            format!("{{\"level\":\"WARN\",\"message\":\"{what}\",\"dropped\":{dropped}}}\n").into_bytes()
        }
    }
}

/// One line of the log.
#[derive(Debug)]
pub(super) struct Line<'a>(&'a Lines);

impl io::Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As with a thread that does not come to write.
    fn stuck() -> Lines {
        let lines = Lines::new(Stream::Error, LogFormat::Text);
        lines.state().thread = Writing::Aside;
        lines
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let lines = stuck();
        let line = [b'x'; 1000];
        for _ in 0..2000 {
            lines.put(&line);
        }
        let mut state = lines.state();
        assert_eq!(state.waiting.len(), MAX_WAITING_BYTES / 1000 * 1000);
        let dropped = 2000 - MAX_WAITING_BYTES / 1000;
        let batch = state.batch(LogFormat::Text);
        let told = format!("{dropped} lines of the log were dropped: they were not read fast enough\n");
        assert!(batch.ends_with(told.as_bytes()));
        // Then the log goes on.
        drop(state);
        lines.put(b"next\n");
        assert_eq!(lines.state().batch(LogFormat::Text), b"next\n");
    }

    #[test]
    fn the_number_stands_where_the_lines_would() {
        let lines = stuck();
        lines.put(&vec![b'x'; MAX_WAITING_BYTES]);
        lines.put(b"too much");
        lines.state().waiting.clear();
        // There would be room, but this came after what is missing.
        lines.put(b"later");
        assert_eq!(
            lines.state().batch(LogFormat::Json),
            b"{\"level\":\"WARN\",\"message\":\"2 lines of the log were dropped\",\"dropped\":2}\n"
        );
    }

    #[test]
    fn the_end_waits_no_longer_than_it_may() {
        let lines = stuck();
        lines.put(b"x");
        lines.end(Duration::ZERO);
        assert_eq!(lines.state().thread, Writing::Ending);
    }
}
