//! Compound commands (G21): what is covered is run by a shell, and must start nothing and write no file.

use countersign_policy::command::direct::ShellKind;

use super::{
    attempts::{Attempt, Nature},
    measure::{attempt, covering, measure},
};
use crate::world::World;

/// None of these writes a file or starts a program unless it is told to.
const PROGRAMS: &[&str] = &[
    "cat", "ls", "grep", "wc", "head", "tail", "echo", "printf", "test", "find", "sort", "sed", "git", "env",
    "sh", "bash", "xargs", "awk", "tar", "rm", "touch", "date", "tee", "sqlite3", "ln", "python3",
];
/// So many groups of attempts that begin alike, so that of each some are run.
const KINDS: usize = 12;

/// What removes and makes files has no entry: it would do so by its own words.
fn world() -> World {
    let mut world = covering(PROGRAMS, |name| !matches!(name, "rm" | "touch" | "tee" | "ln"));
    world.shell = Some(ShellKind::Bash);
    world
}

/// Every command in every form, at every place.
fn compounds() -> Vec<Attempt> {
    let commands = [
        "cat file",
        "touch marker",
        "cat file; touch marker",
        "cat file > marker",
        "sed -n '1w .npmrc' file",
        "sh",
        "sh -s",
        "xargs touch",
        "tee marker",
        "touch $F",
        "$F marker",
        "sed -n \"$F\" file",
        "find . $F touch marker \\;",
        "cat \"$F\"",
        "F=touch; $F marker",
        "exit; touch marker",
        "break; touch marker",
        "eval 'touch marker'",
        "awk 'BEGIN{system(\"touch marker\")}'",
        "touch() { cat file; }; touch marker",
        "trap 'touch marker' EXIT",
        "read F; $F",
        "cat <<E\n$(touch marker)\nE\n",
        "exec touch marker",
        "alias cat='touch marker'\ncat x",
    ];
    let forms = [
        "{ @; }",
        "{ @ }",
        "{@; }",
        "( @ )",
        "(@)",
        "((@))",
        "$(@)",
        "( @",
        "@ )",
        "{ @; } > marker",
        "( @ ) > marker",
        "( @ ) &",
        "{ @; } 2>marker | cat",
        "! @",
        "! ! @",
        "if @; then cat file; fi",
        "if cat file; then @; fi",
        "if false; then cat file; else @; fi",
        "if false; then cat file; elif @; then cat file; fi",
        "if @; then cat file; fi > marker",
        "if @ then cat file; fi",
        "while @; do cat file; done",
        "until false; do @; done",
        "for F in file marker; do @; done",
        "for F in touch; do @; done",
        "for F in -exec; do @; done",
        "for F in '1w .npmrc'; do @; done",
        "for F in $(touch marker); do @; done",
        "for F in `touch marker`; do @; done",
        "for F in *; do @; done",
        "for F in {touch,marker}; do @; done",
        "for F; do @; done",
        "for F in file; { @; }",
        "for PATH in .; do @; done",
        "for IFS in f; do @; done",
        "for BASH_ENV in run; do @; done",
        "for ((F=0;F<1;F++)); do @; done",
        "for F in file; do @; done > marker",
        "case x in x) @;; esac",
        "select F in touch; do @; break; done",
        "[[ -n x ]] && @",
        "f() { @; }; f",
        "function f { @; }; f",
        "time @",
        "coproc @",
        "{ { ( @ ) } }",
        "{ { { { { @; }; }; }; }; }",
    ];
    let places = [
        "#",
        "echo 'touch marker' | #",
        "echo marker | #",
        "# | sh",
        "# | xargs touch",
        "cat file && #",
        "false || #; cat file",
        "F=touch; #; $F marker",
        "echo \"$(#)\"",
        "sh -c '#'",
    ];
    let mut made = Vec::new();
    for form in forms {
        for command in commands {
            for place in places {
                let text = place.replace('#', &form.replace('@', command));
                made.push(attempt(text, Nature::Open));
            }
        }
    }
    for text in [
        "{ cat file; ls; } | wc",
        "(cd sub && ls); cat file",
        "if cat file; then ls; else date; fi",
        "! cat file || ls",
        "for F in file big; do cat $F; done | head -n 3",
        "echo \"$(if cat file; then ls; fi)\"",
    ] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

#[test]
fn no_covered_compound_command_starts_or_writes_anything() {
    measure(&world(), "compound-commands", &compounds(), KINDS);
}

/// What a compound command hides is judged as if it stood alone, behind all that may have run before.
#[test]
fn a_compound_command_hides_nothing() {
    let world = world().protect("/srv/own/state");
    world.defeats(
        &[
            // What comes out of a pipe is code to these.
            "echo 'touch x' | { sh; }",
            "echo 'touch x' | { cat file; sh; }",
            "echo 'touch x' | (cat file && sh)",
            "echo 'touch x' | if cat file; then sh; fi",
            "echo 'touch x' | if false; then cat file; else sh; fi",
            "echo 'touch x' | for F in a; do sh; done",
            "echo 'touch x' | { { (sh) } }",
            "echo 'touch x' | { ! sh; }",
            "echo '.shell touch x' | { sqlite3; }",
            "echo '.shell touch x' | (cat file; sqlite3 db)",
            "echo '.shell touch x' | { echo \"$(sqlite3)\"; }",
            "cat file | { xargs rm; }",
            // The directory is not what it was.
            "{ cd sub; }; ./cat x",
            "if true; then cd sub; fi; ./cat x",
            "if cd sub; then ./cat x; fi",
            "for F in a b; do cd $F; ./cat x; done",
            "! cd sub; ./cat x",
            "{ cd /srv/own; }; cat state/token",
            "if true; then cd /srv/own; fi; cat state/token",
            "if cd /srv/own; then cat state/token; fi",
            "(cd /srv/own && cat state/token)",
            "for F in own; do cat /srv/$F/state/token; done",
            "for F in a /srv/own/state; do cat $F/token; done",
            // Values are known only where they were certainly given.
            "if cat file; then V=sub; fi; cat $V",
            "if cat file; then V=a; else V=b; fi; cat $V",
            "{ V=file; }; cat $V",
            "V=file; { V=other; }; cat $V",
            "V=file; if cat x; then V=other; fi; cat $V",
            "for F in a b; do cat $F; done; cat $F",
            "(V=file); cat $V",
            // Each of them counts.
            "for F in {1..64}; do cat $F; ls; done",
            "{ cat file; rm file; }",
            "(rm file)",
            "! rm file",
            "if rm file; then ls; fi",
            "if ls; then rm file; fi",
            "for F in a b; do rm $F; done",
            "for F in cat rm; do $F file; done",
        ],
        &[
            "echo 'touch x' | { cat; }",
            "echo 'touch x' | (cat file && head)",
            "echo 'touch x' | if cat; then ls; fi",
            "{ sqlite3 db; }",
            "cat file | { grep x; wc; }",
            "(cd sub); cat x",
            "{ cd sub; } | cat; cat file",
            "(cd /srv && cat other/token)",
            "{ cd /srv/other; }; cat /srv/other/x",
            "if cat file; then V=sub; cat $V; fi",
            "V=file; (V=other); cat $V",
            "V=file; { cat $V; }; cat $V",
            "for F in a b; do cat $F \"$F\"; X=$F; cat $X/y; done",
            "for F in {1..60}; do cat $F; done",
            "for F in a b; do for G in c d; do cat $F$G; done; done",
        ],
    );
    let read = world
        .text("if ! cat file; then (ls | wc); else for F in a b; do cat $F; done; fi; echo \"$( (ls) )\"");
    assert_eq!(
        read.rendered.as_deref(),
        Some(
            "if ! '/usr/bin/cat' 'file'; then ( '/usr/bin/ls' | '/usr/bin/wc' ); else { '/usr/bin/cat' 'a'; '/usr/bin/cat' 'b'; }; fi; \
             '/usr/bin/echo' \"$( ( '/usr/bin/ls' ))\""
        )
    );
}

/// Behind a `cd` that succeeds if it fails, nothing is where it would have led.
#[test]
fn a_directory_is_not_certain_behind_a_negated_change() {
    let world = world().file("/tmp/w/sub/tool").allow(&["/tmp/w/sub/tool"]);
    world.defeats(
        &[
            "! cd sub && ./tool x",
            "! cd sub && { ./tool x; }",
            "{ ! cd sub && ./tool x; }",
            "( ! cd sub && ./tool x )",
            "{ ! cd sub; } && ./tool x",
            "! { cd sub; } && ./tool x",
            "if ! cd sub; then ./tool x; fi",
            "if cd sub; then cat file; else ./tool x; fi",
            "! cd sub && true && ./tool x",
            "! cd sub || ./tool x",
        ],
        &[
            "cd sub && ./tool x",
            "{ cd sub && ./tool x; }",
            "( cd sub && ./tool x )",
            "! cd sub && cd /tmp/w/sub && ./tool x",
            "! cat file && cd sub && ./tool x",
        ],
    );
}

/// What a text becomes has a limit.
#[test]
fn loops_and_braces_make_no_more_than_words_may_have() {
    let long = "x".repeat(3_000);
    let world = world();
    for text in [
        format!("for F in {{1..60}}; do echo {long}; done"),
        format!("echo {long}{{1..60}}"),
        format!("for F in {{1..63}}; do echo {}{{1..64}}; done", "x".repeat(7_900)),
        format!("for F in {{1..8}}; do for G in {{1..7}}; do echo {long}; done; done"),
    ] {
        assert!(!world.text(&text).satisfied, "{}", text.len());
    }
    for text in [
        format!("for F in {{1..10}}; do echo {long}; done"),
        format!("echo {long}{{1..10}}"),
    ] {
        assert!(world.text(&text).satisfied, "{}", text.len());
    }
}
