//! The judgement: a snapshot in, findings out. One file for each family of them.
//!
//! Pure: it must never look at a file, a clock or the server, since [`Snapshot`] has all that was seen. It repairs
//! nothing either; a finding only says how. Entry point: [`findings()`]. `doctor/gather.rs` makes the snapshot.

mod agents;
mod document;
mod files;
mod isolation;
mod machine;
mod rules;
mod server;
mod settings;
mod tokens;

#[cfg(test)]
mod tests;

use super::{Finding, Snapshot};

/// Evaluates what was seen. The worst come first.
pub fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(files::directory(snapshot));
    found.extend(settings::settings(&snapshot.settings));
    found.extend(snapshot.one_owner.as_ref().map(settings::owners));
    found.extend(settings::tls(&snapshot.tls));
    found.extend(isolation::isolation(&snapshot.isolation));
    found.extend(isolation::program(snapshot));
    found.extend(document::document(snapshot));
    found.extend(document::lock(snapshot));
    found.extend(
        snapshot
            .agents
            .iter()
            .flat_map(|rules| agents::agent(rules, &snapshot.settings)),
    );
    found.extend(agents::remarks_on_sandboxes(snapshot));
    found.extend(
        snapshot
            .agents
            .iter()
            .filter_map(|rules| isolation::taken_out(rules, &snapshot.isolation)),
    );
    found.extend(
        snapshot
            .private
            .iter()
            .filter_map(|file| files::private(file, snapshot.us)),
    );
    found.extend(files::node_host(snapshot));
    found.extend(snapshot.edits.iter().map(document::edit));
    found.extend(
        snapshot
            .lost
            .iter()
            .map(|lost| document::lost_rules(lost, snapshot)),
    );
    found.extend(rules::rules(snapshot));
    found.extend(snapshot.safe_bins.iter().map(rules::safe_bin));
    found.extend(server::record(snapshot));
    found.extend(server::stopped(snapshot));
    found.extend(tokens::doubtful_tokens(&snapshot.doubtful_tokens));
    found.extend(server::socket(snapshot));
    found.extend(server::server(&snapshot.server));
    found.extend(machine::room(snapshot.room, &snapshot.state_dir));
    found.extend(snapshot.ahead.and_then(machine::clock));
    // Stable: among equals the order above stays, which is the order in which to fix things.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}
