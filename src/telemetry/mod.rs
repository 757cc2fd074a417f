//! Logs of the server: text or JSON lines on standard error, with a filter that can change while it runs.
//!
//! Never logged: tokens, environment values, bodies, and command text but for one line with its secrets masked
//! (`app::story`). The lines of a run carry its id. Libraries say what is wrong and no more, unless the filter names them.
//! A reader that does not keep up misses lines, and holds nothing up (`lines`).

mod lines;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    borrow::Cow,
    io::{self, IsTerminal as _},
    panic, thread,
};

use serde_json::json;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, filter, fmt, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

use countersign_config::settings::{Environment, LogFormat, Telemetry};

pub use lines::LogThread;
use lines::{Lines, Stream};

/// The log of this process, for changing what it says.
#[derive(Debug, Clone)]
pub struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
    lines: Lines,
}

/// The log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is none.
    #[error("[telemetry] log_filter is not a filter")]
    Filter(#[from] filter::ParseError),
    /// Something else logs for this process already, or no more.
    #[error("the log cannot be set up")]
    Taken,
}

impl Log {
    /// Starts logging. Once in the life of a process.
    ///
    /// # Errors
    /// [`LogError`]
    pub fn start(settings: &Telemetry, environment: &dyn Environment) -> Result<Self, LogError> {
        let (filter, handle) = reload::Layer::new(filter_of(&settings.log_filter)?);
        let lines = Lines::new(Stream::Error, settings.log_format);
        let layer = fmt::layer().with_writer(lines.clone());
        let layer = match settings.log_format {
            LogFormat::Text => {
                let has_colors = environment.allows_colors() && io::stderr().is_terminal();
                layer.with_ansi(has_colors).boxed()
            }
            LogFormat::Json => layer.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(filter)
            .with(layer)
            .try_init()
            .map_err(|_already_set| LogError::Taken)?;
        tell_of_panics(lines.clone(), settings.log_format);
        Ok(Self {
            filter: handle,
            lines,
        })
    }

    /// Writes the log from a thread of its own as long as the answer lives. Before, who logs writes where that takes no time:
    /// the runner has to be started while there is one thread.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn write_aside(&self) -> io::Result<LogThread> {
        self.lines.write_aside()
    }

    /// Changes what is logged from now on.
    ///
    /// # Errors
    /// [`LogError`]; then the old filter stays.
    pub fn set_filter(&self, text: &str) -> Result<(), LogError> {
        self.filter
            .reload(filter_of(text)?)
            .map_err(|_gone| LogError::Taken)
    }
}

/// What a long-running process says to people and programs on its standard streams, beside the log. A reader that does not
/// keep up misses lines, and holds nothing up.
#[derive(Debug, Clone)]
pub struct Notes {
    data: Lines,
    notes: Lines,
}

impl Notes {
    /// Before there is a log, and a second thread: a line is written at once or not at all.
    #[must_use]
    pub fn at_once(format: LogFormat) -> Self {
        Self {
            data: Lines::new(Stream::Output, format),
            notes: Lines::new(Stream::Error, format),
        }
    }

    /// Lines on standard error stand between those of the log, each by itself.
    #[must_use]
    pub fn beside(log: &Log, format: LogFormat) -> Self {
        Self {
            notes: log.lines.clone(),
            ..Self::at_once(format)
        }
    }

    /// Writes what is data from a thread of its own as long as the answer lives.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn write_aside(&self) -> io::Result<LogThread> {
        self.data.write_aside()
    }

    /// A line of data, to standard output.
    pub fn data(&self, line: &str) {
        self.data.put(format!("{line}\n").as_bytes());
    }

    /// A line for people, to standard error.
    pub fn note(&self, line: &str) {
        self.notes.put(format!("{line}\n").as_bytes());
    }
}

/// A panic is told the same way, whatever the filter: written to standard error itself, it could wait for a reader.
fn tell_of_panics(lines: Lines, format: LogFormat) {
    panic::set_hook(Box::new(move |panic| {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("<unnamed>");
        let backtrace = Backtrace::capture();
        let backtrace = if backtrace.status() == BacktraceStatus::Captured {
            format!("\n{backtrace}")
        } else {
            String::new()
        };
        let text = format!("thread '{thread}' {panic}{backtrace}");
        let line = match format {
            LogFormat::Text => text,
            LogFormat::Json => json!({"level": "ERROR", "message": text}).to_string(),
        };
        lines.put(format!("{line}\n").as_bytes());
    }));
}

/// The filter that a setting says.
fn filter_of(text: &str) -> Result<EnvFilter, filter::ParseError> {
    EnvFilter::try_new(&*directives(text))
}

/// A level alone is that of this program, and libraries warn. Where the filter names a target it is taken as it is.
fn directives(text: &str) -> Cow<'_, str> {
    let level = text.trim();
    let louder = ["info", "debug", "trace"];
    if louder.iter().any(|louder| level.eq_ignore_ascii_case(louder)) {
        Cow::Owned(format!("warn,countersign={level}"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_ours_and_libraries_warn() {
        for (text, expected) in [
            ("info", "warn,countersign=info"),
            ("DEBUG", "warn,countersign=DEBUG"),
            ("warn", "warn"),
            ("off", "off"),
            ("debug,rmcp=debug", "debug,rmcp=debug"),
            ("countersign_http=trace", "countersign_http=trace"),
        ] {
            assert_eq!(directives(text), expected);
            assert!(filter_of(text).is_ok(), "{text}");
        }
    }
}
