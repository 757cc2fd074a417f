//! Starter sets: what their entries cover of the attempts on the programs that they name.

use countersign_policy::starter::StarterSet;

use super::{
    HERE,
    attempts::{Attempt, Nature, attempts},
    cell::{Cells, is_here},
    measure::Measure,
    table::sections,
};
use crate::world::World;

/// All entries of all sets, by the text alone.
fn world() -> World {
    let mut world = World::new();
    HERE.clone_into(&mut world.cwd);
    for set in StarterSet::ALL {
        // What an attempt leaves behind is made by this one, by its own words.
        for entry in set.entries().into_iter().filter(|entry| entry.pattern != "touch") {
            let path = format!("/usr/bin/{}", entry.pattern);
            world = world.programs(&[entry.pattern]);
            world = match &entry.arg_pattern {
                Some(arguments) => world.allow_with(&path, arguments),
                None => world.allow(&[&path]),
            };
        }
    }
    world
}

#[test]
fn no_entry_of_a_starter_set_covers_a_call_that_starts_another_program() {
    let world = world();
    let mut measure = Measure::default();
    for section in sections() {
        for program in &section.programs {
            // What is harmless under a bare entry need not be in a set.
            let attempts: Vec<Attempt> = attempts(&section, program, &[])
                .into_iter()
                .filter(|attempt| attempt.nature != Nature::Harmless)
                .collect();
            measure.judge(program, &attempts, |text| world.verdict(text) == "allow");
        }
    }
    if let Some(cells) = Cells::new("starters") {
        measure.run(&cells, is_here);
    }
    measure.end(2_000, 1);
}

#[test]
fn entries_of_starter_sets_cover_what_they_are_for() {
    for text in [
        "git status",
        "cargo test",
        "ls -l",
        "make test",
        "go test ./...",
        "rg TODO",
    ] {
        assert_eq!(world().verdict(text), "allow", "{text}");
    }
}

/// Each would pass where arguments are joined by a blank, or is a form that says less than it does.
#[test]
fn no_entry_of_a_starter_set_takes_one_word_for_others() {
    world().defeats(
        &[
            "git -C 'a status b' push",
            "git 'status a'",
            "git 'log --oneline'",
            "git 'log -1' --output=x",
            "git 'add .'",
            "git checkout '-b x'",
            "git checkout main",
            "git checkout master",
            "git checkout develop",
            "python3 -m 'unittest x'",
            "python3 '-m unittest' x",
            "python3 -m 'py_compile x'",
            "python3 -m django test --settings=evil",
            "python3 -m compileall /etc",
            "cargo 'test x'",
            "cargo 'build --config' x",
            "cargo 'clippy a' b",
            "make 'test lint'",
            "go 'test ./...'",
            "go list -m all",
            "docker 'ps -a'",
            "docker logs 'a b'",
            "pip list -f http://evil.test",
            "sort 'a b'",
            "rg --pre gzip x .",
            "rg --pre=gzip x .",
            "rg x . --hostname-bin gzip",
            "rg 'x' --pre 'gzip'",
        ],
        &[
            "git status a b",
            "git log --oneline",
            "git log -1 --stat",
            "git add .",
            "git checkout -b x",
            "git switch main",
            "git commit -m 'a status b'",
            "python3 -m unittest x",
            "python3 -m py_compile x",
            "python3 -m django test a",
            "cargo test x",
            "cargo build --features x",
            "cargo clippy a b",
            "make test lint",
            "go test ./...",
            "go list ./...",
            "docker ps -a",
            "docker logs a",
            "pip show x -f",
            "sort a b",
            "rg -z x .",
            "rg -n 'a pre b' . --pre-glob '*.gz'",
        ],
    );
}
