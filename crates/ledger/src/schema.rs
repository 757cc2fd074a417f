//! The migrations, embedded in the program. They only move forward and are never edited once merged.

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

/// Every migration by file name, in order; a test compares this list with the folder.
const MIGRATIONS: &[(&str, &str)] = &[
    (
        "0001_ledger.sql",
        include_str!("../../../migrations/sqlite/0001_ledger.sql"),
    ),
    (
        "0002_sign_in.sql",
        include_str!("../../../migrations/sqlite/0002_sign_in.sql"),
    ),
    (
        "0003_revisions.sql",
        include_str!("../../../migrations/sqlite/0003_revisions.sql"),
    ),
    (
        "0004_pinning.sql",
        include_str!("../../../migrations/sqlite/0004_pinning.sql"),
    ),
    (
        "0005_process_sessions.sql",
        include_str!("../../../migrations/sqlite/0005_process_sessions.sql"),
    ),
    (
        "0006_sandboxes.sql",
        include_str!("../../../migrations/sqlite/0006_sandboxes.sql"),
    ),
    (
        "0007_tools.sql",
        include_str!("../../../migrations/sqlite/0007_tools.sql"),
    ),
    (
        "0008_nodes.sql",
        include_str!("../../../migrations/sqlite/0008_nodes.sql"),
    ),
    (
        "0009_node_runs.sql",
        include_str!("../../../migrations/sqlite/0009_node_runs.sql"),
    ),
    (
        "0010_votes.sql",
        include_str!("../../../migrations/sqlite/0010_votes.sql"),
    ),
    (
        "0011_scripts.sql",
        include_str!("../../../migrations/sqlite/0011_scripts.sql"),
    ),
    (
        "0012_input.sql",
        include_str!("../../../migrations/sqlite/0012_input.sql"),
    ),
    (
        "0013_token_owners.sql",
        include_str!("../../../migrations/sqlite/0013_token_owners.sql"),
    ),
    (
        "0014_stop.sql",
        include_str!("../../../migrations/sqlite/0014_stop.sql"),
    ),
    (
        "0015_start.sql",
        include_str!("../../../migrations/sqlite/0015_start.sql"),
    ),
    (
        "0016_fewer_indexes.sql",
        include_str!("../../../migrations/sqlite/0016_fewer_indexes.sql"),
    ),
    (
        "0017_confinement.sql",
        include_str!("../../../migrations/sqlite/0017_confinement.sql"),
    ),
    (
        "0018_note.sql",
        include_str!("../../../migrations/sqlite/0018_note.sql"),
    ),
    (
        "0019_login_names.sql",
        include_str!("../../../migrations/sqlite/0019_login_names.sql"),
    ),
    (
        "0020_observed.sql",
        include_str!("../../../migrations/sqlite/0020_observed.sql"),
    ),
    (
        "0021_link_tokens.sql",
        include_str!("../../../migrations/sqlite/0021_link_tokens.sql"),
    ),
];

/// Brings a database to the present schema.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite_migration::Result<()> {
    let steps = MIGRATIONS.iter().map(|(_, sql)| M::up(sql)).collect();
    Migrations::new(steps).to_latest(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_names_every_file_of_the_folder_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/sqlite");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<&str> = MIGRATIONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, files);
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
    }
}
