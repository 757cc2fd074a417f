//! How a list is printed for people: as a table that fits, in full, or as nothing but its ids.

use jiff::{Timestamp, tz::TimeZone};

use countersign_domain::UnixMillis;

use super::{context::Context, failure::Failure, pager, table::Table};

/// How a list is printed.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct Layout {
    /// Show full ids and absolute times with their zone, and cut nothing to the width of the terminal
    #[arg(long)]
    wide: bool,
    /// Print only the ids, one a line
    #[arg(short, long, value_name = "name", conflicts_with_all = ["wide", "json"], hide_possible_values = true)]
    output: Option<Output>,
}

/// What is printed instead of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Name,
}

impl Layout {
    /// Whether nothing but ids is printed.
    pub(crate) fn is_names(self) -> bool {
        self.output == Some(Output::Name)
    }

    /// The title of a column of times, as they are shown.
    pub(crate) fn title(self, otherwise: &'static str, wide: &'static str) -> &'static str {
        if self.wide { wide } else { otherwise }
    }

    /// An id: in full, or as much of it as people need.
    pub(crate) fn id(self, full: &str, short: &str) -> String {
        if self.wide { full } else { short }.to_owned()
    }

    /// A time: with its zone, or as `otherwise` says it.
    pub(crate) fn time(self, time: UnixMillis, otherwise: impl FnOnce() -> String) -> String {
        if self.wide { with_zone(time) } else { otherwise() }
    }

    /// A time that may be missing.
    pub(crate) fn maybe_time(
        self,
        time: Option<UnixMillis>,
        otherwise: impl FnOnce(UnixMillis) -> String,
    ) -> String {
        time.map(|time| self.time(time, || otherwise(time)))
            .unwrap_or_default()
    }

    /// Prints the list. `ids` are those of its rows.
    pub(crate) fn print<Id: AsRef<str>>(
        self,
        context: &Context,
        ids: impl IntoIterator<Item = Id>,
        table: &Table,
        nothing: &str,
    ) -> Result<(), Failure> {
        let console = context.console;
        let lines: Vec<String> = match self.output {
            Some(Output::Name) => ids
                .into_iter()
                .map(|id| super::value::visible(id.as_ref()))
                .collect(),
            None if self.wide => table.lines_in_full(),
            None => console.lines_of(table),
        };
        if table.is_empty() {
            console.note(nothing);
            return Ok(());
        }
        pager::print(context, &lines)
    }
}

fn with_zone(time: UnixMillis) -> String {
    let instant = Timestamp::from_millisecond(time.get()).ok();
    let zoned = instant.map(|instant| instant.to_zoned(TimeZone::system()));
    zoned.map_or_else(String::new, |zoned| {
        zoned.strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
    })
}
