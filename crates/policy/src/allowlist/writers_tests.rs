//! What programs write to their operands has to be where their entry says (C1).

use serde_json::{Value, json};

use super::limits_tests::{ALL, Held, judge_as};

fn defeats(writes: &Value, attacks: &[&str], twins: &[&str]) {
    let confine = json!({ "starts": [], "writes": writes });
    let entries: Vec<(&str, Option<Value>)> = ["cp", "mkdir", "mv", "touch", "copy", "cat"]
        .map(|name| (name, Some(confine.clone())))
        .into();
    for held in [Held::Entries, Held::Grants] {
        let is_covered = |text: &str| judge_as(held, ALL, true, &entries, text).satisfied;
        for text in twins {
            assert!(is_covered(text), "{held:?} {writes}: the twin {text}");
        }
        for text in attacks {
            assert!(!is_covered(text), "{held:?} {writes}: {text}");
        }
    }
}

#[test]
fn operands_lead_to_the_workspace() {
    defeats(
        &json!(["workspace"]),
        &[
            "touch /tmp/other",
            "touch /tmp/other a",
            "touch a ../x b",
            "touch -c /etc/x a",
            "touch -- -/../../x",
            "mkdir /srv/other/x a",
            "mkdir -p ../x a",
            "cp a /tmp/x",
            "cp a ..",
            "mv a /srv/projx",
            "cp a /tmp/x -v",
            "cd /tmp && touch a",
            // It is not there yet, and may become a link.
            "cd new && touch ../a",
            "! cd sub && touch ../a",
        ],
        &[
            "touch a b",
            "touch /srv/proj/a",
            "mkdir -p a/b ./c a/../d",
            "cp /etc/x a",
            "cp -r ../a b",
            "mv a b",
            "cat /etc/x",
            "cd sub && touch ../a",
        ],
    );
}

/// The kernel keeps neither.
#[test]
fn no_entry_for_any_arguments_sets_times_and_modes() {
    defeats(
        &json!(["workspace"]),
        &[
            "touch -d 2020-01-01 /tmp/other a",
            "touch -d yesterday a",
            "touch -r /etc/passwd a",
            "touch -h link",
            "cp -a -t /tmp/out d",
            "cp -t /tmp/out d",
            "cp -a d olink/",
            "cp --preserve=mode d olink/",
            "mkdir -m 777 a",
            "mv -t /tmp/out d",
            "mv --target-directory=/tmp/out d",
        ],
        &["touch a", "cp -r d olink/", "mkdir -p a", "mv d e"],
    );
}

#[test]
fn other_places_are_read_as_they_are_kept() {
    defeats(
        &json!(["tmp"]),
        &["touch a", "cp x /tmp/../etc/x", "cp x /tmpx", "touch /tmp/a b"],
        &["touch /tmp/a /var/tmp/b", "cp x /tmp/x", "mkdir -p /tmp/a/b"],
    );
    defeats(
        &json!(["/srv/out/", "~/x"]),
        &[
            "touch a",
            "cp a /srv/outer",
            "cp a /home/agent/y",
            "touch /srv/out/a /tmp/a",
        ],
        &[
            "cp a /srv/out/b",
            "touch /home/agent/x/a /srv/out/b",
            "cp a /srv/out",
        ],
    );
    defeats(
        &json!(["workspace", "tmp"]),
        &["touch a /srv/x"],
        &["touch a /tmp/a"],
    );
    defeats(&json!([]), &["touch a", "cp a b"], &["cat a"]);
    defeats(&json!("any"), &[], &["touch /etc/x", "cp -a x /etc/x"]);
}

/// A program by any of whose names it writes to its operands.
#[test]
fn another_name_of_a_program_hides_nothing() {
    defeats(
        &json!(["workspace"]),
        &["copy a /tmp/x", "copy -a a b"],
        &["copy a b", "copy -r a b"],
    );
}
