//! What is measured, what was expected, and what `SECURITY.md` says.

use std::{collections::BTreeMap, fs, path::PathBuf};

use countersign_sys::hooks;

use super::{
    scene::{Level, Scene},
    table::{ATTACKS, Attack, Control, How, Outcome},
};
use crate::support::{joined_lines, own_variable, skip, write_file};

/// Set to 1, this makes the test write the table instead of comparing it.
const WRITE: &str = "COUNTERSIGN_WRITE_SECURITY_TABLE";

const BEGIN: &str = "<!-- attacks: made by a test from what it measured -->\n";
const END: &str = "<!-- attacks end -->";

impl How {
    async fn tried(self, scene: &Scene) -> Outcome {
        match self {
            Self::Script(script) => scene.tries("main", script).await,
            Self::Steps(step) => step.take(scene).await,
        }
    }
}

/// Every attack at one level. Where one means nothing on this machine, what is expected stands for it.
async fn measure(level: Level) -> BTreeMap<&'static str, Outcome> {
    let scene = Scene::start(level, "").await;
    let mut outcomes = BTreeMap::new();
    for attack in ATTACKS {
        let outcome = if scene.meets(attack.need) {
            attack.how.tried(&scene).await
        } else {
            skip(&format!("{}: {:?} is missing here", attack.id, attack.need));
            attack.expected(level)
        };
        outcomes.insert(attack.id, outcome);
    }
    outcomes
}

#[tokio::test]
async fn what_commands_reach_at_each_level_is_what_the_security_document_says() {
    let mut measured = BTreeMap::new();
    let levels: Vec<Level> = Level::ALL.into_iter().filter(|level| level.exists()).collect();
    for level in &levels {
        if let Some(why) = level.is_missing() {
            return skip(why);
        }
    }
    for level in levels {
        let outcomes = measure(level).await;
        let wrong: Vec<String> = ATTACKS
            .iter()
            .filter(|attack| outcomes[attack.id] != attack.expected(level))
            .map(|attack| format!("{}: {:?}", attack.id, outcomes[attack.id]))
            .collect();
        assert_eq!(wrong, Vec::<String>::new(), "at the level {}", level.as_str());
        measured.insert(level, outcomes);
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the table of attacks in SECURITY.md");
    let (written, after) = rest.split_once(END).expect("the end of the table of attacks");
    let table = table(&measured);
    if own_variable(WRITE).is_some_and(|write| write == "1") {
        let text = format!("{before}{BEGIN}{table}{END}{after}");
        write_file(&path, text);
    } else {
        assert_eq!(
            written, table,
            "SECURITY.md (left) and what was measured (right); {WRITE}=1 with this test writes the table"
        );
    }
}

/// One row for what belongs together: kept out if nothing of it gets through.
fn table(measured: &BTreeMap<Level, BTreeMap<&'static str, Outcome>>) -> String {
    let head = measured.keys().map(|level| format!("`{}`", level.as_str()));
    let mut lines = vec![
        cells([String::from("a command tries to")].into_iter().chain(head)),
        cells(std::iter::repeat_n(String::from("---"), measured.len() + 1)),
    ];
    for row in ATTACKS.chunk_by(|one, next| one.row == next.row) {
        let outcomes = measured.values().map(|outcomes| {
            let gets_through = |attack: &Attack| outcomes[attack.id] == Outcome::GetsThrough;
            if row.iter().any(gets_through) {
                String::from("**gets through**")
            } else {
                String::from("kept out")
            }
        });
        lines.push(cells([row[0].row.to_owned()].into_iter().chain(outcomes)));
    }
    joined_lines(lines.into_iter())
}

fn cells(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

#[tokio::test]
async fn every_attack_gets_through_where_nothing_keeps_it_out() {
    // One server for all attacks that leave the same protections away.
    let mut scenes: BTreeMap<(Level, &str), Vec<(&Attack, How)>> = BTreeMap::new();
    for attack in ATTACKS {
        let (level, off, how) = match attack.control {
            // Measured with everything else.
            Control::SameUser => {
                assert_eq!(
                    attack.expected(Level::SameUser),
                    Outcome::GetsThrough,
                    "{}",
                    attack.id
                );
                continue;
            }
            Control::Without(level, off) => (level, off, attack.how),
            Control::Variant(how) => (Level::SameUser, "", how),
        };
        scenes.entry((level, off)).or_default().push((attack, how));
    }
    let mut kept_out = Vec::new();
    for ((level, off), attacks) in scenes {
        if let Some(why) = level.is_missing() {
            return skip(why);
        }
        let scene = Scene::start(level, off).await;
        for (attack, how) in attacks {
            if scene.meets(attack.need) {
                if how.tried(&scene).await == Outcome::KeptOut {
                    kept_out.push(format!("{} at {level:?} without {off:?}", attack.id));
                }
            } else {
                skip(&format!("{}: {:?} is missing here", attack.id, attack.need));
            }
        }
    }
    assert_eq!(kept_out, Vec::<String>::new());
}

#[test]
fn every_attack_has_an_id_of_its_own_and_rows_are_whole() {
    let mut ids: Vec<&str> = ATTACKS.iter().map(|attack| attack.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), ATTACKS.len());
    let mut rows: Vec<&str> = ATTACKS
        .chunk_by(|one, next| one.row == next.row)
        .map(|row| row[0].row)
        .collect();
    let count = rows.len();
    let unused: Vec<&&str> = hooks::PROTECTIONS
        .iter()
        // What limits scripts and programs does not protect the server; `plan::held`,
        // `starts` and `confined::children` show what it is for.
        .filter(|name| !["children", "scripts", "starts"].contains(name))
        // An older kernel than this one, and no protection.
        .filter(|name| {
            name.strip_prefix("landlock-")
                .is_none_or(|version| version.parse::<u32>().is_err())
        })
        .filter(|name| !ATTACKS.iter().any(|attack| attack.is_controlled_without(name)))
        .collect();
    assert_eq!(unused, Vec::<&&str>::new(), "no attack shows what these are for");
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), count, "a row is in two places");
}
