//! Variables whose value is known (G18), here-documents among operands (G17) and commands that `find` runs (G16) come to what
//! `bash`, `dash` and `zsh` make of them, and what is judged is what runs.

use std::{fs, path::Path};

use serde_json::json;

use super::{
    asked_about, everything_covered, is_refused,
    lists::{by_plan, by_shell},
    shells,
};
use crate::support::{Members, Scratch, ServerBuilder, TestServer, program, skip, write_file};

const VARIABLES: [&str; 39] = [
    "X=a; echo $X \"$X\" ${X} \"${X}b\" a$X-b $X/$X",
    "X='a  b'; echo \"$X\" 'x$X'; printf '%s|' \"$X\" \"$X\"",
    "X=a && Y=$X$X && echo $Y \"$X$Y\"",
    "X=a; Y=$X$X; echo $Y",
    "X=a; X=b; echo $X",
    "X=b; X=$X$X; echo $X",
    "true && X=a && echo $X",
    "X=-n; echo $X a",
    "X=\"it's\"; printf '%s\\n' \"$X\"",
    "X='$Y'; Y=b; printf '%s\\n' \"$X\" $Y",
    "X=a; LC_ALL=C echo $X",
    "X=a; sh -c \"echo $X\"; sh -c 'X=b; echo $X'; echo $X",
    "F=in; cat $F | sort | head -n 1; wc -c \"$F\"",
    "D=sub; cd $D && cat file && cd .. && echo $D",
    "D=sub && cat $D/file > $D/out && cat < \"$D\"/out",
    "X=a; echo \"$X: b\" \"$X=b\" \"$X]\" $X,b $X.c ${X}:h \"${X}[1]\" \"$X:\" \"$X.\" \"$X%\"",
    "A=1; false || echo $A; true && B=2; echo $A",
    "X=a\necho $X\n",
    "X=a; echo $X # $X",
    ": ; X=a; pwd | cat; echo $X",
    "X='{a,b}'; echo $X",
    "X='~/a'; echo $X",
    "X='a;b|c&d>e'; echo $X \"$X\"",
    "X='#'; echo $X; X='!'; echo $X",
    "X=é; echo $X",
    "X=; echo \"$X\" \"a$X\"",
    "X='*'; echo \"$X\"",
    "X=a; false; echo $X && X=b && echo $X",
    "false && X=a; true || X=b; echo end",
    "X=1 && false || echo no; echo end",
    "echo \"$PWD\" $PWD && X=$PWD && echo $X",
    "V=1; printenv V || echo unset",
    "V=1; sh -c 'printenv V' || echo unset",
    "D=sub; ls $D/* \"$D\"/f*",
    "f=in; timeout 5 cat $f && nice cat \"$f\"",
    "D=sub; cd \"$D\" 2>/dev/null && cat file",
    "cd nothing 2>/dev/null || echo no",
    "cd nothing 2>/dev/null && echo no; echo end",
    "X=a; cat <<<\"$X b\" | cat",
];

const DOCUMENTS: [&str; 9] = [
    "printf '%s|' \"$(cat <<'EOF'\nit's a \"text\" with $x `y` and )\n\n\nEOF\n)\" end",
    "printf '%s|' \"a$(cat <<EOF\nb\n c\nEOF\n)d\" e",
    "printf '%s|' \"$(cat <<-'EOF'\n\ta\n\t\tb\n\tEOF\n)\"",
    "printf '%s|' \"$(cat <<'EOF'\nEOF\n)\" x",
    "printf '%s|' \"$( cat << 'EOF' \nx\nEOF\n  \n)\"; echo after",
    "printf '%s|' \"$(cat <<\\EOF\na\\b\nEOF\n)\" && printf '%s|' \"$(cat <<\"EOF\"\n\nc\nEOF\n)\"",
    "sh -c \"$(cat <<'EOF'\nprintf '%s|' 'a b' | cat\nEOF\n)\"",
    "printf '%s|' \"$(cat <<'A'\n1\nA\n)$(cat <<'B'\n2\nB\n)\" | cat",
    "grep -c \"$(cat <<'EOF'\nb\nEOF\n)\" in",
];

const FOUND: [&str; 18] = [
    "find . -type f -exec cat {} +",
    "find . -type f -name '*.rs' -exec grep -l fn {} \\;",
    "find sub -exec ls -d {} \\;",
    "find . -type f -exec wc -c {} + | tail -n 1",
    "find . -type f -exec grep -q nothing {} \\; && echo yes",
    "find . -type f -exec grep -q nothing {} + || echo none",
    "find . -name a.rs -exec basename {} ';'",
    "find . -type f -print -exec head -n 1 {} \\;",
    "find . -path ./sub -prune -o -type f -exec cat {} +",
    "D=sub; find $D -type f -exec cat {} \\; | wc -l",
    "cd sub && find . -type f -exec tail -n 1 {} +",
    "find . -type f | xargs grep -l fn",
    "find . -type f -name '*.rs' | xargs cat | head -n 1",
    "find . -type f -print0 | xargs -0 -n 1 wc -c | sort",
    "find . -type f -name none | xargs grep -l fn || echo none",
    "find . -type f | xargs grep -q nothing && echo yes",
    "find . -path ./sub -prune -o -type f -print | xargs -r grep -c a",
    "find sub -type d | xargs ls -d && find . -type f -exec ls {} \\; | sort",
];

fn reading(workspace: &Path, ask: &str) -> ServerBuilder {
    super::reading(
        workspace,
        ask,
        &json!({
            "nullRedirections": true, "hereDocuments": true, "fileRedirections": true, "filePatterns": true,
            "foundFiles": true, "documentOperands": true, "variables": true,
        }),
    )
}

fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub")).unwrap();
    write_file(&directory.join("in"), "b\na\n");
    write_file(&directory.join("a.rs"), "fn a\n");
    write_file(&directory.join("sub/file"), "f\n");
}

#[tokio::test]
async fn a_known_value_is_what_shells_put_in() {
    let Some(shells) = shells() else { return };
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "off")
        .document(&everything_covered())
        .start()
        .await;
    for text in VARIABLES.into_iter().chain(DOCUMENTS).chain(FOUND) {
        let directory = workspace.dir("files");
        fill(&directory);
        let planned = by_plan(&server, text, &directory).await;
        for shell in shells {
            // `dash` has no here-strings.
            if shell != "dash" || !text.contains("<<<") {
                assert_eq!(planned, by_shell(shell, text, &directory), "{shell}: {text}");
            }
        }
        fs::remove_dir_all(&directory).unwrap();
    }
    let home = server
        .ran(json!({ "command": "echo $HOME; printenv HOME", "workdir": workspace.path() }))
        .await;
    let lines: Vec<&str> = home.text("stdout").lines().collect();
    assert!(matches!(lines.as_slice(), [one, other] if one == other), "{home}");
    let below = server
        .ran(json!({ "command": "D=~/a; echo $D \"$D/b\"; E=~/a/b && echo ${E}", "workdir": workspace.path() }))
        .await;
    let home = lines[0];
    assert_eq!(below.text("stdout"), format!("{home}/a {home}/a/b\n{home}/a/b\n"));
    for shell in shells {
        let told = by_shell(shell, "HOME=/h; D=~/a; echo $D \"$D/b\"", &workspace.path());
        assert_eq!(told.stdout, "/h/a /h/a/b\n", "{shell}");
    }
}

/// Each would make `marker`, or read what nobody may read. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn a_value_that_is_not_certain_is_asked_about() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    fill(&directory);
    let programs = [
        "echo", "cat", "ls", "find", "sort", "sed", "git", "env", "printenv",
    ];
    let entries: Vec<_> = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }))
        .chain([json!({ "pattern": "/**/head", "argPattern": "^-n 1 in$" })])
        .collect();
    let document = json!({ "version": 1, "agents": { "main": {
        "allowlist": entries, "denylist": [{ "pattern": "mkdir" }],
    } } });
    let server = reading(&directory, "off").document(&document).start().await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let marker = directory.join("marker");
    let state = server.state().join("countersign").display().to_string();
    for text in [
        "V='1w marker'; sed -n $V in",
        "V='1w .npmrc'; sed -n \"$V\" in",
        "A=a B=$A; echo $B",
        "V=--compress-program=x; sort $V in",
        "V=-exec; find . $V touch marker \\;",
        "V='-c core.pager=x'; git $V log",
        "V=mkdir; $V marker",
        "V=touch; \"$V\" marker",
        "V='touch marker'; $V",
        "V='touch marker'; sh -c \"$V\"",
        "V=marker; cat in > ${V:-x}",
        "V=a V=b; env $V mkdir marker",
        "false || V=in; cat $V",
        "false && V=in; cat $V",
        "true && V=in; cat $V",
        "V=in | cat; cat $V",
        "cat $V",
        "V=in cat $V",
        "PATH=/x; cat in",
        "HOME=/x; cat $HOME",
        "LANG=C; cat in",
        "export V=in; cat $V",
        "V+=in; cat $V",
        "V=(in); cat $V",
        "V=a:~/in; cat $V",
        "V=$(touch marker); cat in",
        "V=\"$(touch marker)\"; cat \"$V\"",
        "cd sub; echo $PWD",
        "cd sub && echo $PWD",
        "cat \"$(touch marker)\"",
        "cat \"$(cat in)\"",
        "cat \"$(cat <<'E'; touch marker\nx\nE\n)\"",
        "cat \"$(cat <<E\n$(touch marker)\nE\n)\"",
        "cat $(cat <<'E'\nin sub/file\nE\n)",
        "X=\"$(cat <<'E'\nin\nE\n)\"; cat $X",
        "find . -type f -exec rm {} +",
        "find . -exec cat {} +",
        "find . -type f -exec mkdir {} \\;",
        "find . -type f -exec sed -i s/a/b/ {} +",
        "find . -type f -exec sort -o {} in +",
        "find . -type f -exec head -n 1 {} \\;",
        "find / -name token -type f -exec cat {} +",
        "find . -type f | xargs rm",
        "find . | xargs cat",
        "find . -type f | xargs mkdir",
        "echo in | xargs cat",
        "find . -type f | xargs -I {} cat {}",
        "head -n 1 \"$X\"",
    ] {
        is_refused(&server, &directory, text).await;
        assert!(!marker.exists(), "{text}");
    }
    for text in [
        format!("V={state}; cat $V/operator.token"),
        format!("V={state} && W=operator.token && cat \"$V/$W\""),
        format!("cat \"$(cat <<'E'\n{state}/operator.token\nE\n)\""),
        format!("find {state} -type f -exec cat {{}} +"),
        format!("find {state}/.. -type f -exec cat {{}} +"),
        format!("find {state} -type f | xargs cat"),
        format!("find {state}/.. -type f | xargs cat"),
    ] {
        is_refused(&server, &directory, &text).await;
    }
    for text in [
        "V=1p; sed -n $V in",
        "V='-n 1 in'; W=in; head -n 1 $W",
        "V=in; cat $V && cat \"$V\"",
        "V=marker2; cat in > $V",
        "cat \"$(cat <<'E'\nin\nE\n)\"",
        "cd sub 2>/dev/null && cat file",
    ] {
        let run = server.ran(json!({ "command": text, "workdir": directory })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let answer = untouched
            .agent()
            .exec(json!({ "command": text, "workdir": directory }))
            .await;
        answer.problem(403, "exec-denied");
    }
}

/// `xargs` takes a line apart at blanks, so that the name of one file could stand for another.
#[tokio::test]
async fn a_name_that_find_prints_stands_for_no_other() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    write_file(&directory.join("other"), "secret\n");
    for name in ["a other", "a'", "a\nother", "a\\other"] {
        write_file(&directory.join(name), "its own\n");
    }
    let server = reading(&directory, "off")
        .document(&everything_covered())
        .start()
        .await;
    let text = "find . -type f -name 'a*' | xargs -n 1 cat";
    let planned = by_plan(&server, text, &directory).await;
    assert_eq!((planned.code, planned.stdout), (0, "its own\n".repeat(4)));
    let shell = by_shell(
        "sh",
        "printf 'a other\n' | xargs -n 1 cat 2>/dev/null",
        &directory,
    );
    assert_eq!(shell.stdout, "secret\n", "the control");
}

/// What a shell sets or ties to something by itself is not what a text says.
#[tokio::test]
async fn no_name_that_means_something_to_a_shell_is_given_a_value() {
    let workspace = Scratch::new();
    let directory = workspace.path();
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/**/echo" }] } } });
    let server = reading(&directory, "off").document(&document).start().await;
    let mut tried = 0;
    for (shell, text) in [
        ("bash", "compgen -v"),
        (
            "zsh",
            "zmodload zsh/datetime zsh/system; print -l ${(k)parameters}",
        ),
        ("dash", "set | cut -d= -f1"),
    ] {
        if program(shell).is_none() {
            return skip(&format!("there is no {shell}"));
        }
        let names = by_shell(shell, text, &directory).stdout;
        let is_letter = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let is_name = |name: &&str| {
            name.chars().all(is_letter)
                && !name.is_empty()
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        for name in names.lines().filter(is_name) {
            let call = json!({ "command": format!("{name}=x; echo y"), "workdir": directory });
            let answer = server.agent().exec(call).await;
            assert_eq!(answer.status, 403, "{shell}: {name}");
            tried += 1;
        }
    }
    assert!(tried > 150, "{tried}");
    let run = server
        .ran(json!({ "command": "MY_NAME=x; echo y", "workdir": directory }))
        .await;
    assert_eq!(run["exitCode"], 0, "{run}");
}

/// What is asked about, and what an answer is bound to, has the values.
#[tokio::test]
async fn a_question_shows_the_values_that_are_put_in() {
    let workspace = Scratch::new();
    fill(&workspace.path());
    let server = reading(&workspace.path(), "on-miss")
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let (asked, one) = asked_about(&server, "X=in; nl $X").await;
    let path = format!("/v1/approvals/{}", asked.text("approvalId"));
    let approval = server.operator().read(&path).await;
    assert!(approval.to_string().contains("\"nl\",\"in\""), "{approval}");
    let run = server.answered(&asked, "allow-once").await;
    assert_eq!(run["status"], "completed", "{run}");
    assert!(run.text("stdout").contains("1\tb"), "{run}");
    let (_, other) = asked_about(&server, "X=a.rs; nl $X").await;
    assert_ne!(one, other);
}
