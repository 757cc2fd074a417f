//! Where output goes: data to standard output, progress and hints to standard error.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use countersign_config::settings::Environment;

pub(crate) use super::tone::Tone;
use super::{failure::Failure, selection, table::Table, terminal_text};

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    People,
    /// One JSON document, or JSON lines.
    Json,
}

/// When colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// At a terminal unless `NO_COLOR` is set, and everywhere where `CLICOLOR_FORCE` is
    #[default]
    Auto,
    Always,
    Never,
}

/// How wide the terminal of standard output is, if it is one.
fn columns_of_terminal() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col))
}

/// The terminal, or what stands in its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Console {
    format: Format,
    color: bool,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    /// Columns that a line of a table may have; `None` for any number.
    columns: Option<usize>,
    /// The members of JSON that are printed; empty for all.
    members: &'static [String],
}

#[expect(
    clippy::unused_self,
    reason = "where output goes is for the console to know, not for its callers"
)]
impl Console {
    /// Looks at the standard streams and what the environment says of colours.
    pub(crate) fn new(format: Format, color: ColorChoice, environment: &dyn Environment) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let said = environment
            .get("COLUMNS")
            .and_then(|columns| columns.parse().ok());
        Self {
            columns: said.or_else(columns_of_terminal).filter(|columns| *columns > 0),
            format,
            color: match color {
                ColorChoice::Auto => {
                    environment.forces_colors() || (environment.allows_colors() && stdout_is_terminal)
                }
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            },
            stdout_is_terminal,
            stderr_is_terminal: io::stderr().is_terminal(),
            members: &[],
        }
    }

    /// The same, which prints these members of JSON alone, if there are any. It lives as long as the process.
    pub(crate) fn selecting(self, members: Vec<String>) -> Self {
        Self {
            members: members.leak(),
            ..self
        }
    }

    /// How data is printed.
    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// Whether people read what is printed, and nobody else: a pipe, a file or a log keeps it.
    pub(crate) fn is_read_by_people(self) -> bool {
        self.format == Format::People && self.stdout_is_terminal
    }

    /// Whether a person sits at the terminal and can answer a question.
    pub(crate) fn can_ask(self) -> bool {
        io::stdin().is_terminal() && self.stderr_is_terminal
    }

    /// Whether a person sits at a terminal that a command can be connected to.
    pub(crate) fn can_connect(self) -> bool {
        self.is_read_by_people() && io::stdin().is_terminal()
    }

    /// Text in a tone, where tones are shown.
    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if self.color {
            format!("{}{text}\u{1b}[0m", tone.code())
        } else {
            text.to_owned()
        }
    }

    /// Prints one JSON document.
    pub(crate) fn document(self, value: &Value) -> Result<(), Failure> {
        let selected = selection::of_document(value, self.members);
        self.json(&serde_json::to_string_pretty(&selected).map_err(io::Error::from)?)
    }

    /// Prints one JSON line of a stream.
    pub(crate) fn json_line(self, value: &Value) -> Result<(), Failure> {
        self.line(&self.json_text(&selection::of_line(value, self.members)))
    }

    /// One JSON line as [`Console::json_line`] prints it.
    pub(crate) fn json_text(self, value: &Value) -> String {
        self.safe(&value.to_string())
    }

    fn json(self, text: &str) -> Result<(), Failure> {
        self.line(&self.safe(text))
    }

    /// A terminal gets the same JSON, in which everything that it would obey or hide is an escape.
    fn safe(self, json: &str) -> String {
        if self.stdout_is_terminal {
            terminal_text::json(json)
        } else {
            json.to_owned()
        }
    }

    /// Prints a line of data. The text must be safe for a terminal.
    pub(crate) fn line(self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }

    /// Prints a paragraph of data behind this indent, broken between words where the terminal ends.
    pub(crate) fn paragraph(self, indent: &str, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        for line in wrapped(text, self.columns, indent) {
            writeln!(out, "{line}")?;
        }
        Ok(out.flush()?)
    }

    /// Prints a table, or says on standard error that there is nothing.
    pub(crate) fn table(self, table: &Table, nothing: &str) -> Result<(), Failure> {
        if table.is_empty() {
            self.note(nothing);
            return Ok(());
        }
        let mut out = io::stdout().lock();
        for line in self.lines_of(table) {
            writeln!(out, "{line}")?;
        }
        Ok(out.flush()?)
    }

    /// The lines of a table, as wide as there is room.
    pub(crate) fn lines_of(self, table: &Table) -> Vec<String> {
        table.lines_for(self.columns, &|tone, text| self.paint(tone, text))
    }

    /// The lines of a table with all of each cell.
    pub(crate) fn lines_in_full(self, table: &Table) -> Vec<String> {
        table.lines_in_full(&|tone, text| self.paint(tone, text))
    }

    /// Whether lines of so many columns fit.
    pub(crate) fn has_room_for(self, columns: usize) -> bool {
        self.columns.is_none_or(|most| columns <= most)
    }

    /// How many lines the terminal of standard output shows; `None` where people read something else.
    pub(crate) fn rows(self) -> Option<usize> {
        if !self.is_read_by_people() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        self.stdout_is_terminal
    }

    /// Takes away what a terminal shows, before it is shown anew.
    pub(crate) fn clear(self) -> Result<(), Failure> {
        if self.stdout_is_terminal {
            self.raw_out(b"\x1b[H\x1b[2J")
        } else {
            self.line("")
        }
    }

    /// Prints output of a command as it is.
    pub(crate) fn raw_out(self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Draws on a screen. A terminal that knows the marks shows all of it at once; others ignore them.
    pub(crate) fn frame(self, drawn: &str) -> Result<(), Failure> {
        self.raw_out(format!("\x1b[?2026h{drawn}\x1b[?2026l").as_bytes())
    }

    /// Prints error output of a command as it is.
    pub(crate) fn raw_err(self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(io::stderr().lock().write_all(bytes)?)
    }

    /// Says something on standard error. That nobody can read it is no failure of the command.
    pub(crate) fn note(self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Names the command or key that helps.
    pub(crate) fn hint(self, text: &str) {
        self.note(&format!("hint: {text}"));
    }

    /// Replaces the progress line; nothing where it could not be replaced.
    pub(crate) fn progress(self, text: &str) {
        if self.stderr_is_terminal {
            let mut err = io::stderr().lock();
            drop(write!(err, "\r\u{1b}[K{text}"));
            drop(err.flush());
        }
    }

    /// Replaces the progress line unless it says the same already; `shown` remembers between calls.
    pub(crate) fn progress_if_new(self, shown: &mut String, text: String) {
        if *shown != text {
            self.progress(&text);
            *shown = text;
        }
    }

    /// Takes the progress line away.
    pub(crate) fn end_progress(self) {
        self.progress("");
    }

    /// Shows how the command failed.
    pub(crate) fn failure(self, failure: &Failure) {
        self.end_progress();
        match self.format {
            Format::People => self.note(&failure.to_string()),
            Format::Json => self.note(&terminal_text::json(&failure.document().to_string())),
        }
    }
}

/// The lines of a text, none of them longer than so many columns unless a word is.
fn wrapped(text: &str, columns: Option<usize>, indent: &str) -> Vec<String> {
    let most = columns.unwrap_or(usize::MAX);
    let mut lines = vec![indent.to_owned()];
    let mut is_begun = false;
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let fits = line.chars().count() + 1 + word.chars().count() <= most;
        if !is_begun {
            line.push_str(word);
        } else if fits {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{indent}{word}"));
        }
        is_begun = true;
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_paragraph_is_broken_between_words() {
        assert_eq!(wrapped("one two three", Some(10), "  "), ["  one two", "  three"]);
        assert_eq!(wrapped("one two three", None, "  "), ["  one two three"]);
        assert_eq!(wrapped("a-long-word b", Some(5), ""), ["a-long-word", "b"]);
        assert_eq!(wrapped("", Some(5), "  "), ["  "]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost(text in "[a-z ]{0,80}", columns in 1..60_usize) {
            let lines = wrapped(&text, Some(columns), "");
            prop_assert_eq!(lines.join(" "), text);
            let too_long = |line: &&String| line.chars().count() > columns;
            prop_assert!(lines.iter().filter(too_long).all(|line| !line.trim_end().contains(' ')));
        }
    }
}
