//! Logs of the server: text or JSON lines on standard error, with a filter that can change while it runs.
//!
//! Never logged: command text, tokens, environment values, bodies. The lines of a run carry its id.

use std::io::{self, IsTerminal as _};

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
        let (filter, handle) = reload::Layer::new(EnvFilter::try_new(&settings.log_filter)?);
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
            .reload(EnvFilter::try_new(text)?)
            .map_err(|_gone| LogError::Taken)
    }
}
