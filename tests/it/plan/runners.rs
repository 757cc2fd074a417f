//! Runners of a project (D2): an entry for one covers what it runs where another entry lets the agent run any code of the interpreter.

use std::fs;

use serde_json::{Value, json};

use super::reading;
use crate::support::{Members as _, Scratch, TestServer, write_file_mode};

/// A server with these entries, on whose PATH `uv` and `npx` say how they were called.
async fn server(
    programs: &Scratch,
    workspace: &Scratch,
    entries: &Value,
    denied: &Value,
    reads: bool,
) -> TestServer {
    let place = fs::canonicalize(programs.path()).expect("its path");
    for name in ["uv", "npx", "node"] {
        write_file_mode(&place.join(name), "#!/bin/sh\necho \"${0##*/} $*\"\n", 0o755);
    }
    let reads = json!({ "projectRunners": reads });
    reading(&workspace.path(), "off", &reads)
        .exec(&json!({
            "host": "gateway", "security": "allowlist", "ask": "off", "reads": reads, "pathPrepend": [place],
        }))
        .document(&json!({
            "version": 1, "agents": { "main": { "allowlist": entries, "denylist": denied } },
        }))
        .start()
        .await
}

#[tokio::test]
async fn a_runner_is_covered_where_any_code_of_its_interpreter_is() {
    let (programs, workspace) = (Scratch::new(), Scratch::new());
    let place = fs::canonicalize(programs.path()).expect("its path");
    let [uv, npx, node] = ["uv", "npx", "node"].map(|name| json!({ "pattern": place.join(name) }));
    let free = json!([uv, npx, node, { "pattern": "python3" }]);
    let directory = fs::canonicalize(workspace.path()).expect("its path");
    for file in ["pyproject.toml", "package.json"] {
        write_file_mode(&directory.join(file), "", 0o644);
    }
    let files = [
        "node_modules/.bin/tsc",
        ".venv/bin/ruff",
        ".venv/bin/python",
        ".venv/pyvenv.cfg",
    ];
    for installed in files {
        let file = directory.join(installed);
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        write_file_mode(&file, "#!/bin/sh\n", 0o755);
    }
    let call = |command: &str| json!({ "command": command, "workdir": directory });
    let none = json!([]);
    let open = server(&programs, &workspace, &free, &none, true).await;
    for (command, says) in [
        ("uv run ruff check .", "uv run ruff check .\n"),
        ("npx tsc --noEmit", "npx tsc --noEmit\n"),
    ] {
        assert_eq!(open.ran(call(command)).await["stdout"], says);
        let explained = open.agent().explain(call(command)).await;
        let notes = explained["analysis"]["segments"][0].list("notes");
        assert!(
            notes.iter().any(|note| note
                .as_str()
                .is_some_and(|note| note.contains("any code of the interpreter"))),
            "{explained}"
        );
    }
    for command in [
        "uv run --with evil ruff",
        "uv run ./ruff",
        "uv run -",
        "uv run rm -r build",
        "uv run ruff check -o .git/hooks/pre-commit",
        "echo 'print(1)' | uv run python",
        "npx evil",
        "npx -c tsc",
    ] {
        open.agent().exec(call(command)).await.problem(403, "exec-denied");
    }
    // More could be typed into it.
    let mut typed = call("uv run python");
    typed["pty"] = json!(true);
    open.agent().exec(typed).await.problem(403, "exec-denied");
    let narrow = json!([uv, npx, { "pattern": "python3", "argPattern": "^-m pytest" }]);
    let denied = json!([{ "pattern": "curl" }]);
    // What an entry with arguments covers needs no rule, and so no person.
    let narrow_uv =
        json!([{ "pattern": place.join("uv"), "argPattern": "^run ruff check" }, { "pattern": "python3" }]);
    let listed = server(&programs, &workspace, &narrow_uv, &denied, true).await;
    assert_eq!(
        listed.ran(call("uv run ruff check .")).await["stdout"],
        "uv run ruff check .\n"
    );
    let anything = json!([{ "pattern": "*" }]);
    for (entries, denied, reads) in [
        (&anything, &none, true),
        (&narrow, &none, true),
        (&free, &denied, true),
        (&free, &none, false),
    ] {
        let server = server(&programs, &workspace, entries, denied, reads).await;
        for command in ["uv run ruff check .", "npx tsc --noEmit"] {
            server
                .agent()
                .exec(call(command))
                .await
                .problem(403, "exec-denied");
        }
    }
}
