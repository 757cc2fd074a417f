//! Parts of a question to a person as a terminal shows them.

use countersign_domain::ApprovalDecision;
use countersign_policy::command::display;
use countersign_wire::{
    approval::{ApprovalBody, VoteBody},
    shown::Shown,
};

use super::table::Table;

/// The same string as every other surface shows, line breaks included. The server has spelled out what is hidden; a
/// terminal must not have to trust that.
pub(super) fn shown_whole(shown: &Shown) -> String {
    let lines: Vec<String> = shown
        .text
        .split('\n')
        .map(|line| display::escape(line).text)
        .collect();
    lines.join("\n")
}

/// What the shown text leaves out, where it leaves something out: all of the command.
pub(super) fn rest_of(approval: &ApprovalBody) -> Option<String> {
    let whole = || format!("\nthe full text:\n{}", display::exact(&approval.command));
    approval.display.truncated.then(whole)
}

/// The environment overrides: by name, and those that could decide what runs with their values.
pub(super) fn variables(approval: &ApprovalBody) -> Table {
    let mut table = Table::without_header();
    for (name, value) in &approval.env_values {
        table.fact("environment", &format!("{name}={value}"));
    }
    let is_named = |name: &&String| !approval.env_values.contains_key(*name);
    let named: Vec<&str> = approval
        .env_names
        .iter()
        .filter(is_named)
        .map(String::as_str)
        .collect();
    table.fact("environment", &named.join(", "));
    if let Some(omitted) = approval.env_omitted {
        table.fact("environment", &format!("{omitted} more variables, not named"));
    }
    table
}

/// What the agent says about it, as its words and nobody else's.
pub(super) fn said(approval: &ApprovalBody) -> Table {
    let mut table = Table::without_header();
    if let Some(text) = &approval.justification {
        table.fact("agent says", &format!("“{text}”"));
    }
    table.each("contextUrl", &approval.context_url);
    table
}

/// How many people have allowed it, of how many; nothing where one is enough.
pub(super) fn progress(approval: &ApprovalBody) -> Option<String> {
    let allows = |vote: &&VoteBody| vote.decision != ApprovalDecision::Deny;
    progress_of(
        approval.votes.iter().filter(allows).count(),
        approval.approvals_required,
    )
}

pub(super) fn progress_of(allowing: usize, required: u64) -> Option<String> {
    (required > 1).then(|| format!("{allowing} of {required}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terminal_gets_the_string_that_every_surface_gets() {
        let shown = |text: &str| {
            shown_whole(&Shown {
                text: text.to_owned(),
                spans: Vec::new(),
                warnings: Vec::new(),
                truncated: false,
            })
        };
        let escaped = display::escape("ls \u{202e}x\nrm y").text;
        assert_eq!(shown(&escaped), escaped);
        // A server that is none of ours could send anything.
        assert_eq!(shown("a\u{1b}[2Kb\nc"), "a\\u{1B}[2Kb\nc");
    }
}
