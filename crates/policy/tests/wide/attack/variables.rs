//! Variables that decide what a program starts or loads: before a command, behind a wrapper, and as overrides.

use std::{collections::BTreeSet, fs};

use crate::world::World;

/// Names of the lists of rule E1, and others that are known to start, load or configure something.
fn names() -> BTreeSet<String> {
    let spec = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/spec/command-analysis.md");
    let own = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/attack/variables.txt"
    );
    let spec = fs::read_to_string(spec).expect("the contract");
    let own = fs::read_to_string(own).expect("the variables");
    let refused = spec
        .split("### E1")
        .nth(1)
        .and_then(|text| text.split("### E2").next())
        .expect("rule E1");
    let accepted = refused
        .split("`ACCEPTED`")
        .nth(1)
        .expect("what is accepted")
        .to_owned();
    let is_name = |word: &&str| {
        word.len() > 1
            && word
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let blocks = refused.split("```").skip(1).step_by(2);
    let words = blocks
        .flat_map(str::split_whitespace)
        .chain(own.lines().filter(|line| !line.starts_with('#')));
    let accepted: BTreeSet<&str> = accepted.split_whitespace().collect();
    let names: BTreeSet<String> = words
        .filter(is_name)
        .filter(|name| !accepted.contains(name))
        .map(str::to_owned)
        .collect();
    assert!(names.len() > 500, "{}", names.len());
    names
}

fn world() -> World {
    let programs = ["rg", "git", "env", "nice", "timeout", "make"];
    World::new()
        .programs(&programs)
        .allow(&["/usr/bin/rg", "/usr/bin/git", "/usr/bin/make"])
}

#[test]
fn no_variable_of_the_call_chooses_what_starts() {
    let world = world();
    let mut wrong = Vec::new();
    let mut attempts = 0;
    for name in names() {
        for value in ["./run", "touch", "1", "a:b"] {
            for text in [
                format!("{name}={value} git status"),
                format!("{name}={value} LANG=C rg x"),
                format!("LANG=C {name}={value} rg x"),
                format!("{name}+={value} rg x"),
                format!("env {name}={value} git status"),
                format!("nice env {name}={value} rg x"),
                format!("timeout 1 env -i {name}={value} rg x"),
                format!("rg x && {name}={value} git log"),
                format!("{name}={value}; git log"),
                format!("export {name}={value} && git log"),
            ] {
                attempts += 1;
                if world.verdict(&text) == "allow" {
                    wrong.push(text);
                }
            }
            for spelled in [name.clone(), name.to_ascii_lowercase()] {
                attempts += 1;
                if world.clone().env(&spelled, value).verdict("git status") == "allow" {
                    wrong.push(format!("override {spelled}={value}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {attempts}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(attempts > 20_000, "{attempts}");
}

#[test]
fn harmless_variables_stay_covered() {
    for text in [
        "LANG=C rg x",
        "TZ=Europe/Berlin git log",
        "RUST_LOG=debug rg x",
        "NO_COLOR=1 CI=true git status",
    ] {
        assert_eq!(world().verdict(text), "allow", "{text}");
    }
    assert_eq!(world().env("LANG", "C").verdict("git status"), "allow");
}
