//! Variables (G18), here-documents among operands (G17) and commands that `find` runs (G16), where settings say that they are
//! read: what is covered is run by a shell, and must start nothing and write no file.

use super::{
    attempts::{Attempt, Nature},
    measure::{attempt, covering, measure},
};
use crate::world::World;

/// None of these writes a file or starts a program unless it is told to.
const PROGRAMS: &[&str] = &[
    "cat", "ls", "grep", "wc", "head", "tail", "stat", "basename", "echo", "find", "sort", "sed", "git",
    "env", "sh", "bash", "xargs", "awk", "tar", "rm", "touch", "cut", "du", "od",
];

/// What removes and makes files has no entry: it would do so by its own words.
fn world() -> World {
    covering(PROGRAMS, |name| !matches!(name, "rm" | "touch"))
}

/// Every value with every way of using it.
fn variables() -> Vec<Attempt> {
    let values = [
        "marker",
        "'touch marker'",
        "touch",
        "'$(touch marker)'",
        "'`touch marker`'",
        "';touch marker'",
        "'file;touch marker'",
        "'file\ntouch marker'",
        "'&& touch marker'",
        "'> marker'",
        "'file >marker'",
        "-exec",
        "'-exec touch marker ;'",
        "'1e touch marker'",
        "'w marker'",
        "'s/TODO/touch marker/e'",
        "--compress-program=./run",
        "'--pager=./run'",
        "'-c core.pager=./run'",
        "./run",
        "sh",
        "'*'",
        "~",
        "''",
        "'{print > \"marker\"}'",
        "'BEGIN{system(\"touch marker\")}'",
        "--checkpoint-action=exec=./run",
        "$'touch marker'",
        "$(touch marker)",
        "`touch marker`",
    ];
    let uses = [
        "cat $V",
        "cat \"$V\"",
        "cat ${V}",
        "cat file $V",
        "cat file > $V",
        "cat file >> \"$V\"",
        "cat file 2> $V",
        "$V file",
        "\"$V\" marker",
        "$V",
        "env $V marker",
        "env V=1 $V",
        "sh -c $V",
        "sh -c \"$V\"",
        "sh -c 'cat $V'",
        "bash -c \"cat $V\"",
        "find . $V touch marker \\;",
        "find . -name file \"$V\" touch marker \\;",
        "find . $V",
        "sort $V file",
        "sort -o $V file",
        "sort \"$V\" big",
        "sed -n $V file",
        "sed -n \"$V\" file",
        "awk $V file",
        "awk \"$V\" file",
        "git $V log",
        "git \"$V\" log",
        "git log $V",
        "tar -cf /dev/null \"$V\" file",
        "xargs $V",
        "cat file | $V",
        "cat file | sh $V",
        "echo $V | sh",
        "eval $V",
        "eval \"$V\"",
        "export V; $V",
        "W=$V; $W marker",
        "W=\"$V\" && cat $W",
        "PATH=$V cat file",
        "LANG=$V cat file",
        "cat <<<$V",
        "cat <<E\n$V\nE",
        "cat ${V:-$(touch marker)}",
        "cat ${V:=marker} > ${V}",
        "cat ${!V}",
        "cat $((V))",
        "cat ${V@P}",
        "cat \"${V@P}\"",
        "cat ${V//a/$(touch marker)}",
        "cat $V[$(touch marker)]",
        "cat ${V[0]}",
    ];
    let settings = [
        "V={}; ",
        "V={} && ",
        "V={}\n",
        "true && V={} && ",
        "false || V={}; ",
        "V=x; V={}; ",
        "X=1 V={}; ",
    ];
    let mut made = Vec::new();
    for value in values {
        for used in uses {
            for set in settings {
                made.push(attempt(
                    format!("{}{used}", set.replace("{}", value)),
                    Nature::Open,
                ));
            }
        }
    }
    for name in [
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "HOME",
        "PWD",
        "LD_PRELOAD",
        "GIT_PAGER",
        "PS4",
        "path",
        "_",
        "SHELLOPTS",
        "CDPATH",
        "PROMPT_COMMAND",
        "LC_ALL",
        "POSIXLY_CORRECT",
        "EDITOR",
        "PAGER",
        "RANDOM",
        "aliases",
        "fpath",
    ] {
        for text in [
            format!("{name}=./x; cat file"),
            format!("{name}=./x && cat file"),
            format!("{name}=\"./x\"\ncat file"),
        ] {
            made.push(attempt(text, Nature::Hostile));
        }
    }
    for text in [
        "V=file; cat $V",
        "V=file && cat \"$V\" ${V}",
        "A=big; B=$A; head -n 1 $B",
    ] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

/// Every text at every place.
fn documents() -> Vec<Attempt> {
    let bodies = [
        "marker",
        "touch marker",
        "$(touch marker)",
        "`touch marker`",
        "it's",
        "a \"b\" c",
        ")\ntouch marker\n(",
        "E\n)\"; touch marker; echo \"$(cat <<'E'\nx",
        "x\\",
        "\\$(touch marker)",
        "${V:=$(touch marker)}",
    ];
    let openings = [
        "$(cat <<'E'",
        "$(cat <<\"E\"",
        "$(cat <<\\E",
        "$(cat <<E",
        "$(cat <<-'E'",
        "$( cat <<'E'",
        "$(cat <<'E';touch marker",
        "$(cat <<'E' | sh",
        "$(cat file <<'E'",
        "$(cat - <<'E'",
        "$(cat <<'E' >marker",
        "$(sh <<'E'",
        "$(cat<<'E'",
        "$(cat <<'E'F",
        "`cat <<'E'",
        "$(<<'E' cat",
        "$(cat <<'E' && touch marker",
    ];
    let calls = [
        "echo \"@\"",
        "echo @",
        "echo \"a@b\"",
        "sh -c \"@\"",
        "bash -c @",
        "cat \"@\"",
        "cat file > \"@\"",
        "\"@\"",
        "git log \"@\"",
        "sed -n \"@\" file",
        "awk \"@\" file",
        "find . -name \"@\"",
        "X=\"@\"; cat $X",
        "echo x | sh -s \"@\"",
        "cat <<<\"@\"",
    ];
    let mut made = Vec::new();
    for body in bodies {
        for opening in openings {
            for call in calls {
                for end in ["\nE\n)", "\nE)", "\n E\n)", "\nE\ntouch marker\n)", "\nE"] {
                    let document = format!("{opening}\n{body}{end}");
                    made.push(attempt(call.replace('@', &document), Nature::Open));
                }
            }
        }
    }
    made.push(attempt(
        "echo \"$(cat <<'E'\ntouch marker\nE\n)\"".to_owned(),
        Nature::Harmless,
    ));
    made
}

/// Every command with every expression.
fn found() -> Vec<Attempt> {
    let commands = [
        "touch marker",
        "touch marker {}",
        "touch {}.x",
        "rm {}",
        "sh {}",
        "sh -c 'touch marker' {}",
        "./run {}",
        "{}",
        "{} x",
        "cat {}",
        "cat {} {}",
        "cat x{}",
        "grep -l TODO {}",
        "grep -f {}",
        "wc -l {}",
        "env touch marker {}",
        "env cat {}",
        "sort -o marker {}",
        "sort {}",
        "tee {}",
        "sed -i s/a/b/ {}",
        "sed -n 1p {}",
        "awk 1 {}",
        "xargs touch",
        "tar -cf marker {}",
        "ls {}",
        "-x {}",
        "find {}",
        "git {}",
        "bash {}",
        "head -n 1 {}",
        "cp file {}",
        "cat {} > marker",
        "echo {}",
    ];
    let expressions = [
        ". -type f @",
        ". @",
        "-type f @",
        "-L . -type f @",
        ". -name file -o -type f @",
        ". ( -type f ) @",
        ". \\( -type f \\) @",
        ". -type f -follow @",
        ". -type f @ -delete",
        ". -type f -ok cat {} \\; @",
        ". -type f @ @",
        "-H . -type f @",
        ". -type f -fprint marker @",
        ". -type f @ -fprint marker",
        ". -type f , @",
        "-files0-from file -type f @",
    ];
    let ends = [
        "\\;",
        "';'",
        "+",
        ";",
        "\\; -o -exec touch marker \\;",
        "+ -exec touch marker +",
    ];
    let mut made = Vec::new();
    for action in ["-exec", "-execdir", "-ok"] {
        for command in commands {
            for expression in expressions {
                for end in ends {
                    let whole = format!("{action} {command} {end}");
                    made.push(attempt(
                        format!("find {}", expression.replace('@', &whole)),
                        Nature::Open,
                    ));
                }
            }
        }
    }
    for text in [
        "find . -type f -exec grep -l TODO {} +",
        "find . -name file -exec ls {} \\;",
        "find . -type f -exec wc -l {} + | tail -n 1",
    ] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

/// So many groups of attempts that begin alike, so that of each some are run.
const KINDS: usize = 12;

#[test]
fn no_covered_variable_starts_or_writes_anything() {
    measure(&world(), "variables-of-a-text", &variables(), KINDS);
}

#[test]
fn no_covered_document_among_operands_is_code() {
    measure(&world(), "document-operands", &documents(), KINDS);
}

#[test]
fn no_covered_command_of_find_starts_or_writes_anything() {
    measure(&world(), "found-files", &found(), KINDS);
}
