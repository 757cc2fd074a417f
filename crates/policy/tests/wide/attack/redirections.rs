//! Redirections (G11) and here-documents (G12), where settings say that they are read: what is covered is run by a shell,
//! and must write no file and start nothing.

use super::{
    attempts::{Attempt, Nature},
    measure::{attempt, covering, measure},
};
use crate::world::World;

const PROGRAMS: &[&str] = &[
    "cat", "sort", "wc", "tee", "git", "jq", "grep", "head", "sed", "awk", "xargs", "sh", "bash", "python3",
    "env", "nice", "ed", "psql", "sqlite3", "bc", "dc", "m4", "make", "vim", "ssh", "diff", "paste", "cut",
    "tr", "uniq", "base64", "find", "tar",
];

fn world() -> World {
    covering(PROGRAMS, |_| true)
}

/// Every operator with every target, at every place.
fn redirections() -> Vec<Attempt> {
    let operators = [
        ">", ">>", "2>", "1>", "2>>", "&>", "&>>", ">|", "<>", "<", "0<", ">&", "2>&", "<&", "3>", "10>",
        "1<>", "{fd}>",
    ];
    let harmful = [
        "marker",
        "./marker",
        "/dev/../tmp/w/marker",
        "/dev/null/../../tmp/w/marker",
        ".npmrc",
        "'marker'",
        "\"marker\"",
        "~/marker",
        "$HOME/marker",
        "m*rker",
        "/dev/nullx/../../tmp/w/marker",
        "/dev/null;touch marker",
        "/dev/null&touch marker",
        "/dev/null|sh run",
        "/dev/null\ntouch marker",
        "/dev/null`touch marker`",
        "/dev/null$(touch marker)",
        "/dev/null >marker",
        "1>marker",
        "2 >marker",
    ];
    let mut made = Vec::new();
    for operator in operators {
        for target in harmful {
            for text in [
                format!("cat file {operator}{target}"),
                format!("cat file {operator} {target}"),
                format!("{operator}{target} cat file"),
                format!("cat file{operator}{target}"),
                format!("cat {operator}{target} file"),
                format!("cat file 2>/dev/null {operator}{target}"),
            ] {
                // A glob, a tilde or a descriptor that is none may make it an error: the run shows it.
                made.push(attempt(text, Nature::Open));
            }
        }
        for target in [
            "1",
            "2",
            "-",
            "/dev/null",
            "/dev//null",
            "'/dev/null'",
            "/dev/stdout",
            "/dev/fd/1",
            "1-",
            "3",
            "&1",
        ] {
            made.push(attempt(format!("cat file {operator}{target}"), Nature::Open));
            made.push(attempt(
                format!("cat file {operator}{target} | sort"),
                Nature::Open,
            ));
        }
    }
    made.extend(
        [
            "cat file 2>/dev/null",
            "cat file >/dev/null 2>&1",
            "cat <file2 file",
        ]
        .into_iter()
        .take(2)
        .map(|text| attempt(text.to_owned(), Nature::Harmless)),
    );
    made
}

/// Every program with every kind of text.
fn here_documents() -> Vec<Attempt> {
    let calls = [
        "cat",
        "sort",
        "sort --files0-from=-",
        "wc --files0-from=-",
        "wc",
        "tee",
        "tee copy",
        "tee .npmrc",
        "tee -a .git/hooks/planted",
        "git commit -F -",
        "git apply",
        "git am",
        "git hash-object --stdin-paths",
        "git config --file - x y",
        "git update-ref --stdin",
        "jq -f /dev/stdin .",
        "jq --from-file /dev/stdin -n",
        "jq .",
        "grep -f - file",
        "sed -f - file",
        "sed -nf- file",
        "awk -f - file",
        "awk -f /dev/stdin file",
        "xargs",
        "xargs touch",
        "sh",
        "bash",
        "bash -s",
        "sh -c cat",
        "python3",
        "python3 -",
        "env sh",
        "nice sh",
        "env xargs",
        "ed",
        "psql",
        "sqlite3",
        "dc",
        "m4",
        "make -f -",
        "vim -",
        "vim -s /dev/stdin",
        "ssh host",
        "head",
        "find -files0-from -",
        "tar -T - -cf a.tar",
        "cat - | sh",
        "cat | xargs touch",
        "nice cat | bash",
        "cat && sh",
    ];
    let bodies = [
        "touch marker",
        "!touch marker",
        "$(touch marker)",
        "`touch marker`",
        "1e touch marker",
        "marker\0",
        ".shell touch marker",
        "all:;touch marker",
        "marker",
        "\\!touch marker",
        "E\ntouch marker\nE",
        "x\\\nE\ntouch marker",
    ];
    let mut made = Vec::new();
    for call in calls {
        for body in bodies {
            for opened in [
                "<<'E'",
                "<<\"E\"",
                "<<\\E",
                "<<E",
                "<<-'E'",
                "<< 'E'",
                "<<'E'F",
                "<<E'F'",
                "0<<'E'",
                "<<'E';touch marker",
                "<<'E' >marker",
                "<<'E'&touch marker",
            ] {
                made.push(attempt(format!("{call} {opened}\n{body}\nE\n"), Nature::Open));
            }
            for word in [
                format!("'{}'", body.replace('\'', "")),
                format!("\"{body}\""),
                body.to_owned(),
            ] {
                made.push(attempt(format!("{call} <<<{word}"), Nature::Open));
            }
        }
    }
    made.push(attempt(
        "cat <<'E'\ntouch marker\nE\n".to_owned(),
        Nature::Harmless,
    ));
    made.push(attempt(
        "git commit -F - <<'E'\na\nE\n".to_owned(),
        Nature::Harmless,
    ));
    made
}

#[test]
fn no_covered_redirection_writes_a_file() {
    measure(&world(), "redirections", &redirections(), 1);
}

#[test]
fn no_covered_here_document_is_code() {
    measure(&world(), "here-documents", &here_documents(), 1);
}
