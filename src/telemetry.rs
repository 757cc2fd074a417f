//! Logs of the server: text or JSON lines on standard error, with a filter that can change while it runs.
//!
//! Never logged: tokens, environment values, bodies, and command text but for one line with its secrets masked
//! (`app::story`). The lines of a run carry its id. Libraries say what is wrong and no more, unless the filter names them.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _},
};

use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, filter, fmt, layer::SubscriberExt as _, reload,
    util::SubscriberInitExt as _,
};

use countersign_config::settings::{Environment, LogFormat, Telemetry};

/// The log of this process, for changing what it says.
#[derive(Debug, Clone)]
pub struct Log {
    filter: reload::Handle<EnvFilter, Registry>,
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
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match settings.log_format {
            LogFormat::Text => {
                let has_colors = environment.allows_colors() && io::stderr().is_terminal();
                lines.with_ansi(has_colors).boxed()
            }
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(filter)
            .with(lines)
            .try_init()
            .map_err(|_already_set| LogError::Taken)?;
        Ok(Self { filter: handle })
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
