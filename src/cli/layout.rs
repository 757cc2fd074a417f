//! How a list is printed for people: as a table that fits, in full, or as nothing but its ids.

use countersign_domain::UnixMillis;

use super::{
    context::Context,
    failure::Failure,
    ids,
    moment::{self, Period},
    pager,
    table::Table,
};

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

/// Which items of a list are printed, and how: of every list whose items have a time and which comes as one.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) period: Period,
    #[command(flatten)]
    pub(crate) layout: Layout,
}

/// What is printed instead of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    Name,
}

/// How many items of a list are shown: at least one.
pub(crate) fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| "expected a whole number from 1 up".to_owned())
}

impl Layout {
    /// Whether nothing but ids is printed.
    pub(crate) fn is_names(self) -> bool {
        self.output == Some(Output::Name)
    }

    /// Whether all of each item is shown.
    pub(crate) fn is_wide(self) -> bool {
        self.wide
    }

    /// The title of a column of times, as they are shown.
    pub(crate) fn title(self, otherwise: &'static str, wide: &'static str) -> &'static str {
        if self.wide { wide } else { otherwise }
    }

    /// An id: in full, or as much of it as people need.
    pub(crate) fn id(self, id: &str) -> String {
        self.either(id, ids::short(id))
    }

    /// What a record is about: an id, or the name of something.
    pub(crate) fn target(self, target: &str) -> String {
        self.either(target, ids::short_of_target(target))
    }

    /// What has a short form.
    pub(crate) fn either(self, full: &str, short: &str) -> String {
        if self.wide { full } else { short }.to_owned()
    }

    /// A time: with its zone, or how far from now it is.
    pub(crate) fn time(self, context: &Context, time: UnixMillis) -> String {
        self.time_or(time, || moment::from_now(context.clock.now(), time))
    }

    /// A time that may be missing.
    pub(crate) fn maybe_time(self, context: &Context, time: Option<UnixMillis>) -> String {
        time.map(|time| self.time(context, time)).unwrap_or_default()
    }

    /// A time: with its zone, or as `otherwise` says it.
    pub(crate) fn time_or(self, time: UnixMillis, otherwise: impl FnOnce() -> String) -> String {
        if self.wide {
            moment::with_zone(time)
        } else {
            otherwise()
        }
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
            None if self.wide => console.lines_in_full(table),
            None => console.lines_of(&table.telling()),
        };
        if table.is_empty() {
            console.note(nothing);
            return Ok(());
        }
        pager::print(context, &lines)
    }
}
