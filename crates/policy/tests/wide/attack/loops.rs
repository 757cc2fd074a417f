//! Loops, values that are known only later and the background (G22 to G24): what is covered is run by a shell, and must start nothing
//! and write no file.

use countersign_policy::command::direct::ShellKind;

use super::{
    attempts::{Attempt, Nature},
    measure::{attempt, covering, measure},
};
use crate::world::World;

/// None of these writes a file or starts a program unless it is told to.
const PROGRAMS: &[&str] = &[
    "cat", "ls", "grep", "wc", "head", "tail", "echo", "printf", "test", "find", "sort", "uniq", "sed",
    "git", "env", "sh", "bash", "xargs", "awk", "tar", "rm", "touch", "date", "tee", "sqlite3", "ln",
    "python3", "rg", "diff", "stat", "sleep",
];
/// So many groups of attempts that begin alike, so that of each some are run.
const KINDS: usize = 12;

/// What removes and makes files has no entry: it would do so by its own words.
fn world() -> World {
    let mut world = covering(PROGRAMS, |name| !matches!(name, "rm" | "touch" | "tee" | "ln"));
    world.shell = Some(ShellKind::Bash);
    world.hides_own_files = true;
    world
}

/// What a turn, a list in the background and the commands of a value do with a value that is not known.
const COMMANDS: &[&str] = &[
    "cat \"$L\"",
    "echo \"$L\"",
    "echo $L",
    "\"$L\" marker",
    "$L",
    "touch \"$L\"",
    "touch marker",
    "sed -n \"$L\" file",
    "sed \"$L\" file",
    "sort \"$L\" file",
    "sort -o\"$L\" file",
    "uniq file \"$L\"",
    "git \"$L\"",
    "git log \"$L\"",
    "git log -- \"$L\"",
    "find . \"$L\"",
    "find \"$L\" -name x",
    "awk \"$L\" file",
    "env \"$L\"",
    "env \"$L\" cat file",
    "tar cf /dev/null \"$L\"",
    "rg \"$L\" file",
    "diff \"$L\" file",
    "date \"$L\"",
    "python3 -c \"$L\"",
    "sh -c \"$L\"",
    "sqlite3 \"$L\"",
    "printf \"$L\"",
    "printf '%s' \"$L\" > marker",
    "echo \"$L\" > \"$L\"",
    "cat < \"$L\"",
    "cat <<< \"$L\"",
    "eval \"$L\"",
    "xargs \"$L\"",
    "echo \"$L\" | sh",
    "echo \"$L\" | xargs touch",
    "cat \"$(echo \"$L\")\"",
    "PATH=\"$L\" cat file",
    "LD_PRELOAD=$L cat file",
    "X=\"$L\"; $X",
    "X=\"$L\"; cat \"$X\"",
    "X=$L; cat \"$X\"",
    "PATH=\"$L\"; cat file",
    "IFS=\"$L\"; cat file",
    "L=touch; $L marker",
    "cat file; L=\"$L$L\"",
    "read L; cat \"$L\"",
    "export L; cat file",
    "cd \"$L\"; cat file",
    "cat \"${L%x}\" \"${L:-`touch marker`}\"",
    "test \"$L\" && cat file",
    "ls \"$L\"/*",
    "grep -r \"$L\" .",
    "wc \"$L\"",
    "tail \"$L\"",
    "trap \"$L\" EXIT",
    "sh",
    "cat",
    "xargs touch",
    "break; touch marker",
    "exec \"$L\"",
    ". \"$L\"",
    "kill \"$L\"",
    "kill \"$!\"",
    "wait \"$L\"",
    "sleep 0 & wait",
    "touch marker & wait",
    "(cat \"$L\")",
];

/// What gives `L` a value, or none, and does a command at `@`.
const FORMS: &[&str] = &[
    "# | while read -r L; do @; done",
    "# | while read L; do @; done",
    "# | while IFS= read -r L; do @; done",
    "# | while IFS='' read L; do @; done",
    "# | while IFS=: read -r L; do @; done",
    "# | while read -r L M; do @; done",
    "# | while read -ra L; do @; done",
    "# | while read -r -d x L; do @; done",
    "# | while read -u 0 L; do @; done",
    "# | while read -p x L; do @; done",
    "# | while read -t 1 L; do @; done",
    "# | while read -r PATH; do @; done",
    "# | while read -r IFS; do @; done",
    "# | while read -r BASH_ENV; do @; done",
    "# | while read -r LD_PRELOAD; do @; done",
    "# | while read -r PS4; do @; done",
    "# | while read -r; do @; done",
    "# | while read -r 'L'; do @; done",
    "# | while read -r L[0]; do @; done",
    "# | while read -r L && @; do cat file; done",
    "# | until read -r L; do @; done",
    "# | while read -r L; do cat file; done; @",
    "# | { while read -r L; do @; done; cat file; }",
    "while read -r L; do @; done < run",
    "while @; do cat file; break; done",
    "until @; do cat file; done",
    "L=file; while @; do cat file; L=touch; done",
    "L=$(#); @",
    "L=\"$(#)\"; @",
    "L=`#`; @",
    "L=x$(#) && @",
    "false || L=$(#); @",
    "L=$(@); cat file",
    "PATH=$(#); @",
    "BASH_ENV=$(#); @",
    "L=$(#) @",
    "export L=$(#); @",
    "L=$(#) > marker; @",
    "L=$(#) M=x; @",
    "L=$?; @",
    "if L=$(#); then @; fi",
    "{ L=$(#); }; @",
    "(L=$(#)); @",
    "@ & cat file",
    "L=$(#) & @",
    "L=$(#); @ & wait",
    "L=$(#); cat file & @; wait",
    "@ &",
    "@ & wait; @",
    "{ @ & }",
    "cat file & L=$!; @",
    "cat file & @",
    "(@ &)",
    "@ &! cat file",
    "@ &| cat file",
    "@ &>marker",
    "! @ & wait",
    "coproc @",
    "# | while read -r L; do @ & done; wait",
];

/// What prints something that does harm where it is more than text.
const SOURCES: &[&str] = &[
    "echo 'touch marker'",
    "echo touch",
    "printf '%s\\n' marker",
    "printf -- '-exec\\n'",
    "printf '%s\\n' '1w .npmrc' 'w marker'",
    "printf '%s\\n' -omarker --output=marker",
    "echo 'BEGIN{system(\"touch marker\")}'",
    "cat run",
];

fn loops() -> Vec<Attempt> {
    let mut made = Vec::new();
    for form in FORMS {
        for command in COMMANDS {
            for source in SOURCES {
                let text = form.replace('@', command).replace('#', source);
                made.push(attempt(text, Nature::Open));
                if !form.contains('#') {
                    break;
                }
            }
        }
    }
    for text in [
        "ls | while read -r L; do echo \"- $L\"; done",
        "ls | while IFS= read -r L; do head -n 1 \"$L\"; done | sort",
        "cat file | while read L; do test -n \"$L\" && grep -c x \"$L\"; done",
        "until cat file; do sleep 1; done",
        "L=$(ls); echo \"$L\"; cat \"$L\"",
        "L=\"$(wc -l file)\"; test -n \"$L\" && echo many",
        "cat file; L=$?; ls; echo \"$L\"",
        "ls | while read -r L; do N=$(wc -l \"$L\"); echo \"$L $N\"; done",
        "cat file & ls & wait",
        "sleep 1 && cat file & wait; echo \"$?\"",
    ] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

#[test]
fn no_covered_loop_or_later_value_starts_or_writes_anything() {
    measure(&world(), "loops", &loops(), KINDS);
}

/// What shows which variables and directories are certain, and what reads from a pipe.
#[test]
fn a_loop_hides_nothing() {
    let world = world().protect("/srv/own/state");
    world.defeats(
        &[
            "echo 'touch x' | while cat file; do sh; done",
            "echo 'touch x' | while read -r L; do sh; done",
            "echo 'touch x' | while read -r L; do cat file | xargs touch; xargs rm; done",
            "echo '.shell touch x' | until cat file; do sqlite3; done",
            "while read -r L; do rm file; done",
            "while rm file; do ls; done",
            "until ls; do rm file; done",
            "while read -r L; do cat /srv/own/state/token; done",
            "while cat file; do cd /srv/own; done; cat state/token",
            "while cd sub; do ./cat x; done",
            "while read -r L; do { cd sub; }; done",
            // Values are known only where they were certainly given, in every turn.
            "V=a; while cat $V; do V=b; done",
            "V=a; while read -r L; do cat $V; V=b; done",
            "V=a; while read -r L; do if cat $V; then V=b; fi; done",
            "V=a; while read -r L; do echo \"$(cat $V)\"; V=b; done",
            "V=a; while read -r L; do while read -r M; do cat $V; done; V=b; done",
            "V=$(ls); while read -r L; do cat \"$V\"; V=$(cat file); done",
            "while read -r L; do cat \"$V\"; V=$(cat file); done",
            "while read -r L; do ls; done; cat \"$L\"",
            "if cat file; then V=$(ls); fi; cat \"$V\"",
            "cat file || V=$(ls); cat \"$V\"",
            "cat file && V=$(ls); cat \"$V\"",
            "{ V=$(ls); }; cat \"$V\"",
            "V=$(ls); V=x; { V=$(cat file); }; cat \"$V\"",
            "V=$(ls) | cat; cat \"$V\"",
            "V=$(ls) & cat \"$V\"",
            // What is put in is one word in quotes alone.
            "V=$(ls); cat $V",
            "ls | while read -r L; do cat $L; done",
            "V=$(ls); cat ~/\"$V\"",
            "V=$(ls); ls \"$V\"/*",
            "V=~/$(ls); cat \"$V\"",
            // Patterns mean what they mean in each turn, and beside what runs in the background.
            "while read -r L; do cat *.md; done",
            "ls & cat *.md",
            "cat *.md & ls",
            "echo \"$(ls & cat *.md)\"",
            // A program that is told by its words what to do.
            "V=$(ls); sort \"$V\"",
            "V=$(ls); uniq a \"$V\"",
            "V=$(ls); sed \"$V\"",
            "V=$(ls); rg \"$V\"",
            "V=$(ls); diff \"$V\" x",
            "V=$(ls); nice cat \"$V\"",
            "V=$(ls); env cat \"$V\"",
            "V=$(ls); sh -c 'cat \"$V\"'",
            "V=$(ls); python3 \"$V\"",
            "V=$(ls); cat < \"$V\"",
            "V=$(ls); cat file > \"$V\"",
            "V=$(ls); X=\"$V\" cat file",
            "V=$(ls); cd \"$V\"",
            "V=$(ls); pwd \"$V\"",
            // Each of them counts.
            "rm file & ls",
            "ls & rm file",
            "ls && rm file & wait",
            "wait; rm file",
            "wait 1",
            "wait $!",
            // There is a number for certain, and it is a word of nothing that acts on it.
            "ls; echo \"$!\"",
            "echo \"$!\" & wait",
            "cat file && { ls & }; echo $!",
            "if cat file; then ls & fi; echo $!",
            "(ls &); echo $!",
            "{ ls & } | cat; echo $!",
            "while cat file; do echo $!; ls & done",
            "echo \"$(ls &)\" $!",
            "ls & sort $!",
            "ls & kill $!",
            "ls & $!",
            "ls & cat file > $!",
            "ls & cat < $!",
            "ls & cat $!*",
            "ls & V=$! cat file",
            "ls & sh -c 'echo $!'",
            "ls &wait",
            "ls &!",
            "ls & && ls",
            "& ls",
            "V=x &",
            "sleep 1 & wait -n",
        ],
        &[
            "echo 'touch x' | while cat file; do cat; done",
            "echo 'touch x' | while read -r L; do cat; done",
            "while read -r L; do ls; done",
            "while cat file; do (cd /srv/other && ls); done; cat file",
            "V=a; while cat $V; do W=b; done",
            "V=a; while read -r L; do V=b; cat $V; done",
            "V=a; while read -r L; do cat $V; done; cat $V",
            "while read -r L; do V=$(cat \"$L\"); cat \"$V\"; done",
            "if cat file; then V=$(ls); cat \"$V\"; fi",
            "cat file && V=$(ls) && cat \"$V\"",
            "V=$(ls); { cat \"$V\"; }; (cat \"$V\"); cat \"x$V\" \"${V}y\"",
            "V=$(ls); W=\"$V/$V\"; cat \"$W\"",
            "ls & cat file",
            "ls && cat file & wait",
            "{ ls & }; wait",
            "ls & echo $!",
            "ls & cat file; V=$!; echo \"pid $V\" \"$!\"; wait",
            "{ ls & }; (echo \"$!\"); echo \"$(echo $!)\" | wc; echo $! & wait",
            "while cat file; do ls & echo $!; done",
            "V=$(ls); cat \"$V\" &",
            "while read -r L; do cat \"$L\" & done; wait",
        ],
    );
    let read = world.text(
        "ls | while IFS= read -r L; do V=$(cat \"$L\"); echo \"<$V>\"; done; until ls; do ls; done & wait",
    );
    assert_eq!(
        read.rendered.as_deref(),
        Some(
            "'/usr/bin/ls' | while IFS='' read -r L; do V=\"$('/usr/bin/cat' \"${L}\")\"; '/usr/bin/echo' '<'\"${V}\"'>'; done; \
             { until '/usr/bin/ls'; do '/usr/bin/ls'; done & }; wait"
        )
    );
    let read = world.text("ls && cat file & echo x$! \"$(echo $!)\"; V=\"pid $!\"; wait");
    assert_eq!(
        read.rendered.as_deref(),
        Some(
            "{ '/usr/bin/ls' && '/usr/bin/cat' 'file' & }; '/usr/bin/echo' 'x'\"$!\" \"$('/usr/bin/echo' \"$!\")\"; V='pid '\"$!\"; wait"
        )
    );
}

/// Where commands can read the server's own files, no word is put into what opens files.
#[test]
fn a_program_reads_what_is_not_known_only_where_it_cannot_read_all() {
    let mut world = world();
    world.hides_own_files = false;
    world.defeats(
        &[
            "V=$(ls); cat \"$V\"",
            "ls | while read -r L; do cat \"$L\"; done",
            "cat \"$(ls)\"",
        ],
        &[
            "V=$(ls); echo \"$V\"",
            "ls | while read -r L; do echo \"$L\"; done",
            "cat \"$(cat <<'E'\nfile\nE\n)\"",
        ],
    );
}

/// An entry with a pattern of arguments, a safe bin and a rule that denies see no word that is not there yet.
#[test]
fn what_is_not_known_matches_no_pattern() {
    let mut world = World::new().programs(PROGRAMS);
    world.grammar = world_grammar();
    world.hides_own_files = true;
    world.safe_bins = ["wc", "head", "tail", "tr", "cut"].map(str::to_owned).to_vec();
    let world = world.allow(&["/usr/bin/ls"]);
    world.defeats(
        &[
            "V=$(ls); wc -l \"$V\"",
            "wc -l \"$(ls)\"",
            "ls | while read -r L; do ls | head -n \"$L\"; done",
        ],
        &["ls | wc -l", "ls | while ls; do ls | head -n 1; done"],
    );
}

fn world_grammar() -> countersign_policy::command::syntax::Grammar {
    world().grammar
}
