//! Variables (G18), here-documents among operands (G17) and commands that `find` runs (G16), where settings say that they are
//! read: what is covered is run by a shell, and must start nothing and write no file.

use countersign_policy::command::syntax::Grammar;

use super::{
    HERE,
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
        "du --files0-from {}",
        "du -X {}",
        "du -sh {}",
        "wc --files0-from {}",
        "sha256sum -c {}",
        "sha256sum {}",
        "stat -L -c %n {}",
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
        "find . -name file -exec ls -l {} \\;",
        "find . -type d -exec ls {} \\;",
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

/// Where no command can read the server's own files, a link leads to nothing that the entries do not cover.
#[test]
fn a_link_may_be_found_where_it_leads_to_nothing_of_the_server() {
    let listed: &[&str] = &["find", "cat", "du", "grep", "ls", "wc", "sed", "xargs"];
    let found_by_links: &[&str] = &[
        "find . -exec grep -l x {} +",
        "find . -name '*.rs' | xargs grep -l x",
        "find . -name '*.rs' -o -name '*.toml' -exec cat {} +",
        "find . -follow -exec wc -l {} +",
        "find . -exec du -sh {} \\;",
    ];
    covering(listed, |_| true).defeats(found_by_links, &["find . -type f -exec grep -l x {} +"]);
    let mut hidden = covering(listed, |_| true).protect("/srv/own/state");
    hidden.hides_own_files = true;
    hidden.defeats(
        &[
            "find . -exec sed -n p {} +",
            "find . -exec du --files0-from={} \\;",
            "find . -exec wc --files0-from {} \\;",
            "find . -exec touch marker {} +",
            "find /srv/own -exec cat {} +",
        ],
        found_by_links,
    );
}

/// Each would read what nothing names, by a list of names, behind a link, or where something of the server lies.
#[test]
fn no_covered_command_of_find_reads_what_it_is_not_told() {
    let world = covering(
        &[
            "find",
            "cat",
            "du",
            "wc",
            "grep",
            "ls",
            "stat",
            "sha256sum",
            "realpath",
            "ln",
            "tar",
            "head",
            "sort",
            "nice",
        ],
        |_| true,
    )
    .protect("/srv/own/state");
    world.defeats(
        &[
            "find . -type f -exec du --files0-from {} \\;",
            "find . -type f -exec du --files0-from={} \\;",
            "find . -type f -exec du --files0 {} \\;",
            "find . -type f -exec du -X {} \\;",
            "find . -type f -exec du -sX {} \\;",
            "find . -exec du {} \\;",
            "find . -type d -exec du -sL {} +",
            "find . -type f -exec wc --files0-from {} \\;",
            "find . -type f -exec wc -l --f {} \\;",
            "find . -type f -exec sha256sum -c {} \\;",
            "find . -type f -exec sha256sum --check {} \\;",
            "find . -type f -exec sha256sum -bc {} \\;",
            "find . -exec ls {} \\;",
            "find . -exec ls -lH {} \\;",
            "find . -name 'z?' -exec ls --color=never {} +",
            "find . -type l -exec ls -lC {} +",
            "find . -type l -exec ls -lx {} +",
            "find . -exec ls -l -C {} \\;",
            "find . -exec ls -l1 {} \\;",
            "find . -type d -exec ls -RL {} \\;",
            "find . -exec stat {} \\;",
            "find . -type f -exec stat -c --printf=x {} \\;",
            "find . -exec realpath {} \\;",
            "find . -type d -exec cat {} \\;",
            "find -L . -type f -exec cat {} +",
            "find -H link -type f -exec cat {} +",
            "find -P -L . -type f -exec cat {} +",
            "find -O2 -L . -type f -exec cat {} +",
            "find -O3 . -type f -exec cat {} +",
            "find -D exec -L . -type f -exec cat {} +",
            "find -- . -type f -exec cat {} +",
            "find - -type f -exec cat {} +",
            "find . -type f - -exec cat {} +",
            "find . -type f -exec cat {} + -",
            "find ,x -type f -exec cat {} +",
            "find ')' -type f -exec cat {} +",
            "find a/../../x -type f -exec cat {} +",
            "find ./a/.. -type f -exec cat {} +",
            "find /a/../srv -type f -exec cat {} +",
            "find . a/b/../../.. -type f -exec cat {} +",
            "find / -type f -exec cat {} +",
            "find /srv/own -type f -exec cat {} +",
            "find /srv/own/state/x -type f -exec cat {} +",
            "ln -s / x && find x/ -type f -exec cat {} +",
            "ln -s / x && find src x/ -type f -exec cat {} +",
            "ln -s / x; cd x && find . -type f -exec cat {} +",
            "tar -xf a.tar; find sub/ -type f -exec cat {} +",
            "ln -s / x | find big x/ -type f -exec cat {} +",
            "find big x/ -type f -exec cat {} + | ln -s / x",
            "find big x/ -type f -exec cat {} + | nice ln -s / x",
        ],
        &[
            "find . -type f -exec du -sh {} +",
            "find . -type d -exec du -sh -d 1 {} +",
            "find . -type f -exec wc -l {} +",
            "find . -type f -exec sha256sum {} +",
            "find . -type d -exec ls -la {} \\;",
            "find . -exec ls -ld {} \\;",
            "find . -name 'z?' -exec ls -l --color=never {} +",
            "find . -type l -exec ls -dC {} +",
            "find . -type f -exec stat -c %n {} \\;",
            "find -P . -type f -exec cat {} +",
            "find a/x ../b -type f -exec cat {} +",
            "find ./src -type f -exec cat {} + | sort | head -n 1",
            "cd src && find a -type f -exec cat {} +",
            "ln -s / x; find . -type f -exec cat {} +",
            "find . -type f -exec cat {} + | ln -s / x",
        ],
    );
    // A link that is there leads where the server's own lies.
    let linked = world.link("/tmp/w/a", "/srv").link("/tmp/w/up/..", "/srv/own");
    linked.defeats(
        &[
            "find a -type f -exec cat {} +",
            "cd up && find .. -type f -exec cat {} +",
        ],
        &["find b -type f -exec cat {} +"],
    );
}

/// A shell takes settings of one command from left to right, so that the second may see the first.
#[test]
fn settings_that_depend_on_each_other_are_asked_about() {
    world().defeats(
        &[
            "A=a; A=b B=$A; echo $B",
            "A=a; B=$A A=b; echo $B",
            "A=a; B=1 C=$A",
        ],
        &["A=a; B=$A; echo $B", "A=a B=b; echo $A $B"],
    );
}

/// `xargs` takes names apart at blanks and quotes, so what `find` prints for it has a NUL behind each name.
#[test]
fn no_covered_xargs_takes_one_name_for_others() {
    let world = covering(
        &[
            "find", "cat", "grep", "ls", "wc", "head", "sort", "rm", "sh", "xargs", "tee", "sed", "ln", "du",
        ],
        |name| !matches!(name, "xargs"),
    )
    .protect("/srv/own/state");
    world.defeats(
        &[
            "find . | xargs grep -l x",
            "find . -type f -name x -o -type l | xargs grep -l x",
            "find . -type f | xargs rm",
            "find . -type f | xargs sh",
            "find . -type f | xargs sh -c 'cat $0'",
            "find . -type f | xargs sort -o out",
            "find . -type f | xargs sed -n 1p",
            "find . -type f | xargs tee",
            "find . -type f | xargs",
            "find . -type f | xargs -I {} cat {}",
            "find . -type f | xargs -a list cat",
            "find . -type f | xargs -d x cat",
            "find . -type f | xargs -P 4 cat",
            "find . -type f | xargs -0 cat",
            "find . -type f -print0 | xargs cat",
            "find . -type f -printf '%p\\n' | xargs cat",
            "find . -type f -fprint x | xargs cat",
            "find . -type f -exec cat {} + | xargs cat",
            "find . -type f -ls | xargs cat",
            "find . -type f | sort | xargs cat",
            "cat list | xargs cat",
            "echo /srv/own/state/x | xargs cat",
            "xargs cat",
            "find . -type f; xargs cat",
            "find . -type f && cat list | xargs cat",
            "find . -type f | xargs wc --files0-from",
            "find . -type f | xargs du -X",
            "find -L . -type f | xargs cat",
            "find - -type f | xargs cat",
            "find / -type f | xargs cat",
            "find /srv/own -type f | xargs cat",
            "find a/../../x -type f | xargs cat",
            "ln -s / x; find x/ -type f | xargs cat",
            "find big x/ -type f | xargs cat | ln -s / x",
            "find . -type f | xargs env cat",
            "find . -type f | xargs ./cat",
            "find . -type f | A=1 xargs cat",
            "find . -type f | env xargs cat",
            "find . -type f | xargs find",
            "find . -type f | xargs xargs cat",
            "sh -c 'find . -type f | xargs cat'",
            // What goes to `xargs` is more than names, or something else.
            "find nope z -type f 2>&1 | xargs cat",
            "find nope z -type f 2>&1 -print0 | xargs -0 cat",
            "find z -type f >/dev/null 2>&1 | xargs cat",
            "find z -type f >&2 | xargs cat",
            "find . -type f | xargs cat </dev/null",
            "find . -type f | xargs cat <<'EOF'\n/srv/own/state/x\nEOF\n",
            // A word that is put behind these belongs to them.
            "find . -type f ! | xargs cat",
            "find . -type f -not | xargs cat",
            "find . -type f -a | xargs cat",
            "find . -type f -and | xargs cat",
            "find . -type f '(' -o | xargs cat",
            "find . -type f -name | xargs cat",
            "find . -type f -version | xargs cat",
            "find . -type f --version | xargs cat",
            "find . -type f -help | xargs cat",
            "find . -type f --help -print | xargs cat",
            // These look behind a link.
            "find . -type l | xargs ls -lx",
            "find . -type l | xargs ls -l -C",
            "find . -type l | xargs ls --color=never",
        ],
        &[
            "find . -type f | xargs grep -l x",
            "find . -name x -type f | xargs grep -l x 2>/dev/null | head -n 5",
            "find src -type f -name '*.rs' -print | xargs wc -l | sort",
            "find . -type f -print0 | xargs -0 cat",
            "find . -type f -print0 | xargs -0 -n 5 grep x",
            "find . -path ./x -prune -o -type f -print | xargs -r cat",
            "find . -type d | xargs ls -d",
            "find nope z -type f 2>/dev/null | xargs cat 2>&1",
            "find . -type f -mtime -5 | xargs cat",
            "find . -type f ! -empty | xargs cat",
            "find . -type l | xargs ls -la",
            "cat x | head && find . -type f | xargs cat; ls",
        ],
    );
    let found = world.text("find src -type f | xargs grep -l 'a b'");
    assert_eq!(
        found.rendered.as_deref(),
        Some(
            "'/usr/bin/find' 'src' '-type' 'f' '-print0' | '/usr/bin/xargs' '-0' '/usr/bin/grep' '-l' 'a b'"
        )
    );
    let asked = world.text("find src -type f | xargs rm");
    assert!(
        asked
            .rendered
            .is_some_and(|rendered| !rendered.contains("print0")),
        "it stays as it is where it is not read"
    );
}

/// A tilde in a value leads where the home directory is, and that is judged.
#[test]
fn a_value_below_the_home_directory_is_judged_as_its_place() {
    world().protect("/home/agent/.own").defeats(
        &[
            "D=~/.own; cat $D/token",
            "D=~/.own && cat \"$D\"/token",
            "D=~/x; cat $D/../.own/token",
            "A=~/.own; B=$A/token; cat $B",
            "D=~other/.own; cat $D/token",
            "D=x:~/.own; cat $D",
            "D=~/x:~/.own; cat $D",
            "D=~/src env sh",
        ],
        &["D=~/src; cat $D/file", "D=\"~/.own\"; echo \"$D\"x"],
    );
}

/// What an answer remembered for exactly these words does not cover them with an action.
#[test]
fn an_exact_answer_for_find_covers_no_action() {
    let bare = || {
        let mut world = World::new().programs(&["find", "cat"]);
        HERE.clone_into(&mut world.cwd);
        world.grammar = Grammar::WIDEST;
        world
    };
    let proposed = bare().text("find . -type f").proposed_patterns;
    let exact = proposed
        .iter()
        .find(|pattern| pattern.default)
        .expect("an exact one");
    let arguments = exact.arg_pattern.as_deref();
    let remembered = bare()
        .allow(&["/usr/bin/cat"])
        .remember(&exact.pattern, arguments);
    remembered.defeats(&["find . -type f -exec cat {} +"], &["find . -type f"]);
    let said = bare()
        .allow(&["/usr/bin/cat"])
        .allow_with("/usr/bin/find", "^\\. -type f$");
    said.defeats(
        &["find . -type f -name x -exec cat {} +", "find . -exec cat {} +"],
        &["find . -type f -exec cat {} +"],
    );
}
