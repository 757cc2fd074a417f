//! What is known only when a command begins (G19), and lists in braces (G20): what is covered is run by a shell, and must start
//! nothing and write no file.

use countersign_policy::command::direct::ShellKind;

use super::{
    attempts::{Attempt, Nature},
    measure::{attempt, covering, measure},
};
use crate::world::World;

/// None of these writes a file or starts a program unless it is told to.
const PROGRAMS: &[&str] = &[
    "cat", "ls", "grep", "wc", "head", "tail", "stat", "echo", "printf", "test", "find", "sort", "sed",
    "git", "env", "sh", "bash", "xargs", "awk", "tar", "rm", "touch", "cut", "date", "tee",
];
/// So many groups of attempts that begin alike, so that of each some are run.
const KINDS: usize = 12;

/// What removes and makes files has no entry: it would do so by its own words.
fn world() -> World {
    let mut world = covering(PROGRAMS, |name| !matches!(name, "rm" | "touch" | "tee"));
    world.shell = Some(ShellKind::Bash);
    world
}

/// Every command inside at every place.
fn substitutions() -> Vec<Attempt> {
    let inside = [
        "cat file",
        "touch marker",
        "cat file; touch marker",
        "cat file && touch marker",
        "cat file | tee marker",
        "cat file > marker",
        "cat file >> /tmp/w/marker",
        "echo touch marker",
        "echo 'touch marker' | sh",
        "echo 'touch marker' | cat",
        "printf 'marker'",
        "printf '%s' -exec",
        "printf -- '--output=marker'",
        "printf '$(touch marker)'",
        "printf '`touch marker`'",
        "printf 'x\\n; touch marker\\n'",
        "printf './run'",
        "sh -c 'touch marker'",
        "sh -c 'echo marker'",
        "./run",
        "env touch marker",
        "find . -exec touch marker \\;",
        "sed -n '1w .npmrc' file",
        "awk 'BEGIN{system(\"touch marker\")}'",
        "cd sub; touch marker",
        "X=marker; touch $X",
        "echo \"$(touch marker)\"",
        "echo \"$(echo \"$(touch marker)\")\"",
        "echo `touch marker`",
        "echo $(touch marker)",
        "cat <<'E'\ntouch marker\nE\n",
        "cat <<E\n$(touch marker)\nE\n",
        "< file",
        "<file cat; touch marker",
        "",
        "#",
        "cat file )",
        "cat file & touch marker",
        "xargs touch",
        "tee marker",
        "exit; touch marker",
        "eval 'touch marker'",
        "{ touch marker; }",
        "(touch marker)",
        "if cat file; then touch marker; fi",
        "touch() { cat file; }; touch marker",
    ];
    let places = [
        "echo \"@\"",
        "echo \"a @ b\" c",
        "echo @",
        "echo '@' \"@\"",
        "echo \"@\" | cat",
        "echo \"@\" | sh",
        "cat file | echo \"@\"",
        "echo marker | echo \"@\"",
        "echo \"@\" > marker",
        "echo x > \"@\"",
        "echo \"@\" 2> marker",
        "printf \"@\"",
        "printf '%s' \"@\"",
        "printf '%b' \"@\"",
        "printf -v X '%s' \"@\"",
        "test \"@\"",
        "test -n \"@\" && cat file",
        "test -v \"@\"",
        "cat \"@\"",
        "sh -c \"@\"",
        "sh -c 'echo \"@\"'",
        "sh -c 'sh -c \"@\"'",
        "\"@\"",
        "\"@\" marker",
        "X=\"@\"; $X",
        "X=\"@\"",
        "X=\"@\" cat file",
        "find . -name \"@\"",
        "find . -exec echo \"@\" {} \\;",
        "find . -type f | xargs echo \"@\"",
        "sed -n \"@\" file",
        "awk \"@\" file",
        "git log \"@\"",
        "tar \"@\"",
        "env \"@\"",
        "env echo \"@\"",
        "nice echo \"@\"",
        "eval \"@\"",
        "export X=\"@\"",
        "cd \"@\" && cat file",
        "cat <<<\"@\"",
        "cat <<E\n@\nE",
        "echo \"${X:-@}\"",
        "echo $((@))",
        "echo \"\\@\"",
        "echo \\\"@\\\"",
        "tee \"@\"",
        "cat file; echo \"$?@\"",
    ];
    let mut made = Vec::new();
    for place in places {
        for command in inside {
            for around in [("$(", ")"), ("`", "`"), ("$( ", "\n)"), ("$((", "))")] {
                let (open, close) = around;
                let text = place.replace('@', &format!("{open}{command}{close}"));
                made.push(attempt(text, Nature::Open));
            }
        }
    }
    for place in places {
        for before in ["cat file; ", "touch marker; ", "false || ", "cat file | "] {
            made.push(attempt(
                format!("{before}{}", place.replace('@', "$?")),
                Nature::Open,
            ));
        }
    }
    for text in [
        "cat file; echo \"rc=$?\"",
        "echo \"$(cat file)\"",
        "echo \"lines: $(cat file | wc -l)\" && echo end",
        "printf '%s\\n' \"$(date)\"",
        "test \"$(cat file | wc -l)\" -gt 0",
        "echo \"$(cd sub && ls)\"; ls",
    ] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

/// Every list with every way of using it.
fn braces() -> Vec<Attempt> {
    let lists = [
        "{file,marker}",
        "{touch,marker}",
        "{-exec,touch,marker,\\;}",
        "{file,$(touch marker)}",
        "{file,`touch marker`}",
        "{'$(touch marker)',file}",
        "{file,';touch marker'}",
        "{file,>marker}",
        "{file,'>marker'}",
        "{1..3}",
        "{a..c}",
        "{Z..a}",
        "{1..100000}",
        "{{{a,b},c},d}",
        "{~,~/x}",
        "{file,*}",
        "{-n,'1w .npmrc'}",
        "{-n,1w\\ .npmrc}",
        "{--pager=./run,log}",
        "{-c,core.pager=./run,log}",
        "{--checkpoint-action=exec=./run,x}",
        "{a,b",
        "a,b}",
        "{,}",
        "${x,y}",
        "\"{file,marker}\"",
        "{file,\"marker\"}",
        "{\\,,file}",
        "{file,sub}/{a,b}",
    ];
    let uses = [
        "cat @",
        "cat file @",
        "cat file > @",
        "@",
        "@ marker",
        "env @",
        "sh @",
        "sh -c @",
        "bash -c 'cat @'",
        "find . @",
        "sort @",
        "sort -o @",
        "sed @ file",
        "git @",
        "git log @",
        "tar @",
        "xargs @",
        "echo @",
        "echo @ | sh",
        "tee @",
        "X=@; cat $X",
        "X=@ cat file",
        "eval @",
        "cd @ && cat file",
        "cat <<<@",
        "cat file;@",
        "cat x@y",
        "cat '@' @",
        "test -e @",
        "printf @",
        "awk @",
        "head -n 1 @",
        "cat @@",
        "cat @ && touch @",
        "cat a@@b",
    ];
    let mut made = Vec::new();
    for used in uses {
        for list in lists {
            made.push(attempt(used.replace('@', list), Nature::Open));
        }
    }
    for text in ["cat {file,big}", "echo a{b,c}d {1..3}", "ls {sub,.}"] {
        made.push(attempt(text.to_owned(), Nature::Harmless));
    }
    made
}

#[test]
fn no_covered_substitution_starts_or_writes_anything() {
    measure(&world(), "substitutions", &substitutions(), KINDS);
}

#[test]
fn no_covered_list_in_braces_starts_or_writes_anything() {
    measure(&world(), "braces", &braces(), KINDS);
}

/// Each would make a file, lead elsewhere, or hand on what a program takes for more than text.
#[test]
fn no_covered_substitution_is_more_than_text() {
    let world = world().protect("/srv/own/state");
    world.defeats(
        &[
            "echo \"$(cat /srv/own/state/token)\"",
            "echo \"$(cd /srv/own && cat state/token)\"",
            "echo \"$(cat file; rm file)\"",
            "echo \"$(cat \"$(cat file)\")\"",
            "echo \"$(sed -n \"$(cat file)\" file)\"",
            "cd \"$(cat file)\" && cat x",
            "sort \"$(cat file)\"",
            "grep -f \"$(cat file)\" x",
            "wc --files0-from=\"$(cat file)\"",
            "find \"$(cat file)\" -type f -exec cat {} +",
            "cat file; sort $?",
            "cat file; tail -f $?",
            "echo touch | xargs echo \"$(cat)\"",
            "cat file | head -n 1 | echo \"$(cat)\"",
            "echo \"$(cat)\" < file",
            "echo \"$(cat nope)\" 2>/dev/null",
            "echo \"$(cat file > /tmp/new)\"",
            "sh -c 'echo \"$(cat file)\"'",
            "sh -c 'cat file; echo $?'",
            "echo \"$(sh -c 'echo $?')\"",
            "echo \"$(nope)\"",
            "/tmp/w/echo \"$(cat file)\"",
            "./echo \"$?\"",
            "env echo \"$(cat file)\"",
            "test -v \"$(cat file)\" | sh",
            "echo * \"$(cat file)\"",
            "echo {a,\"$(cat file)\"}",
            "X=$?; echo $X",
        ],
        &[
            "echo \"$(cat /srv/other/token)\"",
            "echo \"$(cd sub && cat state/token)\"",
            "echo \"$(cat file; ls)\"",
            "echo \"$(echo \"$(cat file)\")\"",
            "cd sub && echo \"$(cat x)\"",
            "echo \"$(sort file)\"",
            "echo \"$(cat file)\" | head -n 1",
            "echo \"$(cat nope 2>/dev/null)\"",
            "cat file; echo $? \"$?\"",
            "cat file | wc -l; test $? = 0 && echo \"$?\"",
            "/usr/bin/echo \"$(cat file)\"",
            "echo '*' \"$(cat file)\"",
            "echo {a,b}; echo \"$(cat {a,b})\"",
            "X=1; echo \"$X $(cat $X)\"",
        ],
    );
    let read = world.text("cat file; echo \"rc=$? \" x\"$(cat file | wc -l)\"y");
    assert!(!read.satisfied, "an exit code beside a command");
    let read = world.text("cat file; echo 'a'\"b $?\"; echo x\"$(cat file | wc -l; cat 'it'\\''s')\"y");
    assert_eq!(
        read.rendered.as_deref(),
        Some(
            "'/usr/bin/cat' 'file'; '/usr/bin/echo' 'ab '\"$?\"; '/usr/bin/echo' \
             'x'\"$('/usr/bin/cat' 'file' | '/usr/bin/wc' '-l'; '/usr/bin/cat' 'it'\\''s')\"'y'"
        )
    );
}

/// Words are text to a program of the machine; of a file that begins with `#!` its interpreter gets them, in other places.
#[test]
fn a_script_takes_no_word_as_text() {
    let script = world().link("/usr/bin/echo", "/bin/echo");
    script.defeats(&["echo \"$(cat file)\"", "cat file; echo $?"], &[]);
    let program = world();
    program.defeats(&[], &["echo \"$(cat file)\"", "cat file; echo $?"]);
}

/// Each of several in one command is judged behind those before it, and what is in a pipeline beside what it may make.
#[test]
fn what_is_put_in_before_may_make_what_is_not_there() {
    let world = world()
        .programs(&["ln", "timeout", "sleep"])
        .allow(&[
            "/usr/bin/ln",
            "/usr/bin/timeout",
            "/usr/bin/sleep",
            "/usr/bin/tee",
        ])
        .protect("/srv/own/state")
        .missing("/tmp/w/h");
    world.defeats(
        &[
            "echo \"$(ln -s /srv/own h)\" \"$(cat h/state/token)\"",
            "echo \"$(ln -s /srv/own h)$(cat h/state/token)\"",
            "echo \"$(ln -s /srv/own h)\" \"$(cd h && cat state/token)\"",
            "echo \"$(ln -s /srv/own h)\" \"$(find h/ -type f -exec cat {} +)\"",
            "echo \"$(ln -s x y)\" \"$(ls *.rs)\"",
            "timeout 4 tail -F h/state/token | { sleep 1; ln -s /srv/own h; cat; }",
            "tail -F h/state/token | tee -p out | ln -s /srv/own h",
            "{ tail -F h/state/token; } | ln -s /srv/own h",
        ],
        &[
            "echo \"$(ln -s /srv/own h)\" \"$(cat h/other/token)\"",
            "echo \"$(ls)\" \"$(cat other/state-of/token)\"",
            "timeout 4 tail -F h/other/token | { sleep 1; ln -s /srv/own h; cat; }",
            "tail -F h/state/token | head",
        ],
    );
}

/// What the second of them finds in `$?` depends on the shell.
#[test]
fn an_exit_code_is_that_of_one_command() {
    world().defeats(
        &[
            "cat file; echo \"$(cat file)\" \"$(echo $?)\"",
            "cat file; echo \"$(cat file)$(echo $? | head)\"",
            "echo \"$(cat file)\" \"$(ls | echo $?)\"",
            "echo \"$(cat file)\" \"$(echo \"$(echo $?)\")\"",
        ],
        &[
            "cat file; echo \"$(echo $?)\" \"$(cat file)\"",
            "echo \"$(cat file)\" \"$(ls; echo $?)\"",
            "echo \"$(cat file)\" \"$(ls && echo \"$(echo $?)\")\"",
        ],
    );
}

/// With deny rules a person is asked: they do not see what is printed.
#[test]
fn deny_rules_do_not_see_what_is_put_in() {
    let denying = world().deny("mkdir");
    for text in ["echo \"$(cat file)\"", "cat file; echo $?"] {
        assert!(
            world().text(text).satisfied && !world().text(text).needs_person,
            "{text}"
        );
        assert!(denying.text(text).needs_person, "{text}");
    }
    assert!(!denying.text("echo file").needs_person);
    let hit = denying.text("echo \"$(mkdir x)\"");
    assert!(hit.denylisted.is_some(), "what is inside is compared with them");
}
