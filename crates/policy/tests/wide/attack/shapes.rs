//! Shapes that an answer can remember (A1): what they cover of the attempts on the programs that they name.

use countersign_domain::PatternWidth;

use super::{
    HERE,
    attempts::{Attempt, Nature, attempts},
    cell::{Cells, is_here},
    measure::Measure,
    table::sections,
};
use crate::world::World;

const PROGRAMS: &[&str] = &["git", "cargo", "npm", "docker"];

/// A command of each row of the shapes.
const COMMANDS: &[&str] = &[
    "git push origin main",
    "git push -u origin main",
    "git fetch origin main",
    "git checkout -b main",
    "git switch main",
    "git add a",
    "git add a b",
    "git commit -m x",
    "git commit -a -m x",
    "cargo build -p a",
    "cargo check -p a",
    "cargo test a",
    "cargo clippy -p a",
    "cargo nextest run a",
    "npm run a",
    "docker logs a",
    "docker inspect a",
    "docker start a",
    "docker stop a",
    "docker restart a",
    "docker port a",
];

fn bare() -> World {
    let mut world = World::new().programs(PROGRAMS);
    HERE.clone_into(&mut world.cwd);
    world
}

/// Entries of all shapes, without the directory that limits them.
fn world() -> World {
    COMMANDS.iter().fold(bare(), |world, command| {
        let proposed = bare().text(command).proposed_patterns;
        let shape = proposed
            .iter()
            .find(|pattern| pattern.width == PatternWidth::Arguments);
        let shape = shape.unwrap_or_else(|| panic!("{command} has no shape: {proposed:?}"));
        assert_eq!(shape.limits.directory.as_deref(), Some(HERE), "{command}");
        let arguments = shape.arg_pattern.as_deref().expect("a form of the arguments");
        world.allow_with(&shape.pattern, arguments)
    })
}

#[test]
fn no_shape_covers_a_call_that_starts_another_program() {
    let world = world();
    let mut measure = Measure::default();
    for section in sections() {
        for program in &section.programs {
            if !PROGRAMS.contains(&program.as_str()) {
                continue;
            }
            // What is harmless under a bare entry need not have a shape.
            let attempts: Vec<Attempt> = attempts(&section, program, &[])
                .into_iter()
                .filter(|attempt| attempt.nature != Nature::Harmless)
                .collect();
            measure.judge(program, &attempts, |text| world.verdict(text) == "allow");
        }
    }
    if let Some(cells) = Cells::new("shapes") {
        measure.run(&cells, is_here);
    }
    measure.end(500, 0);
}

#[test]
fn shapes_cover_what_they_are_for() {
    let world = world();
    for text in COMMANDS {
        assert_eq!(world.verdict(text), "allow", "{text}");
    }
    for text in [
        "git push origin feature/x",
        "git add src/lib.rs",
        "git commit -m 'a message; $(id)'",
        "npm run test:unit",
    ] {
        assert_eq!(world.verdict(text), "allow", "{text}");
    }
    for text in [
        "git push origin +main",
        "git push origin :main",
        "git push origin main:other",
        "git push other main",
        "git push --receive-pack=id origin main",
        "git push 'ext::sh -c id' main",
        "git push origin https://example.test/x",
        "git -c core.sshCommand=id push origin main",
        "git fetch --upload-pack=id origin main",
        "git checkout --conflict=x main",
        "git checkout main",
        "git add ..",
        "git add .",
        "docker top a aux",
        "git commit -m \"$(id)\"",
        "git commit -F /etc/passwd",
        "cargo test --config x a",
        "cargo +nightly test a",
        "npm run a -- b",
        "npm run --script-shell=id a",
        "docker -H tcp://example.test logs a",
        "docker exec a id",
    ] {
        assert_ne!(world.verdict(text), "allow", "{text}");
    }
}
