//! What shells, engines and fuzz targets found once, each as its own case.

use crate::world::World;

fn verdicts(world: &World, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(
            world.verdict(text),
            *expected,
            "{text:?}: {:?}",
            world.text(text).findings
        );
    }
}

/// Behind a program `command` is a file like any other, which no trusted directory holds; bash, dash and zsh fail there.
/// `time` is the shell's own only where a pipeline begins.
#[test]
fn words_of_the_shell_are_programs_behind_other_programs() {
    let world = World::new()
        .programs(&["rg", "nice", "stdbuf", "env", "timeout"])
        .allow(&["/usr/bin/rg"]);
    verdicts(
        &world,
        &[
            ("command rg x", "allow"),
            ("command command rg x", "allow"),
            ("time rg x", "allow"),
            ("time command rg x", "allow"),
            ("nice rg x", "allow"),
            ("command nice rg x", "allow"),
            ("nice command rg x", "ask"),
            ("stdbuf -oL command rg x", "ask"),
            ("env command rg x", "ask"),
            ("command nice command rg x", "ask"),
            ("command time rg x", "ask"),
            ("nice time rg x", "ask"),
            ("TZ=UTC time rg x", "ask"),
            ("TZ=UTC command rg x", "allow"),
        ],
    );
    let with_time = world.programs(&["time"]);
    verdicts(
        &with_time,
        &[
            ("TZ=UTC time rg x", "allow"),
            ("command time -p rg x", "allow"),
            ("nice time rg x", "allow"),
        ],
    );
}
