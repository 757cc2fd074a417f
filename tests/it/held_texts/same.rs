//! Held texts do what they do anywhere: compared with the built-in sandbox, in copies of one directory.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{BOXED, builder, data, give, workspace};
use crate::{
    confined::possible,
    support::{Members, TestServer, none_is_wrong, write_file},
};

/// Texts at a time.
const WIDTH: usize = 6;

/// Texts, each after a line `==`.
fn texts() -> Vec<String> {
    let all = data("texts.txt");
    all.split("\n==\n")
        .skip(1)
        .map(|text| text.trim_end().to_owned())
        .collect()
}

/// What every text finds.
fn fill(directory: &Path) {
    for below in ["src/util", "docs", "data", "empty"] {
        fs::create_dir_all(directory.join(below)).unwrap();
    }
    for (name, content) in [
        (
            "README.md",
            "# Title\n\nSome text here.\n\n## Part\n\nTODO: more\n",
        ),
        (
            "src/main.c",
            "#include <stdio.h>\n\nint main(void) {\n\tprintf(\"hi\\n\"); /* TODO */\n\treturn 0;\n}\n",
        ),
        (
            "src/util/list.c",
            "int list(void) { return 1; }\nint other(void) { return 2; }\n",
        ),
        ("src/util/list.h", "int list(void);\n"),
        ("docs/a b.txt", "alpha\nbeta\ngamma\n"),
        ("docs/z.txt", "zeta\n"),
        ("data/n.csv", "name,amount\nann,3\nbob,10\ncyd,7\nann,5\n"),
        ("data/t.tsv", "k\tv\na\t1\nb\t2\n"),
        (
            "data/log",
            "10:01 ERROR disk full\n10:02 INFO ok\n10:03 ERROR net down\n10:04 WARN slow\n",
        ),
        ("data/app.conf", "host = local\nport=80\n# comment\nname = x\n"),
    ] {
        write_file(&directory.join(name), content);
    }
}

/// Every file of a directory with its content; of a link, where it leads.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(directory).unwrap().to_owned();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_dir() {
                waiting.push(path);
                b"directory".to_vec()
            } else if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.insert(name, content);
        }
    }
    found
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    status: Value,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// What a call comes to, or its answer where it did not run.
async fn outcome(
    server: &TestServer,
    body: Value,
    directory: &Path,
    is_held: bool,
) -> Result<Outcome, Value> {
    let answer = server.agent().exec(body).await.json();
    let has_ended = answer["status"] == "completed" || !answer["exitCode"].is_null();
    if answer.get("held").is_some_and(|held| held == true) != is_held || !has_ended {
        return Err(answer);
    }
    Ok(Outcome {
        stdout: answer.text("stdout").to_owned(),
        stderr: answer.text("stderr").to_owned(),
        status: json!([answer["exitCode"], answer["exitSignal"]]),
        files: files(directory),
    })
}

#[tokio::test]
async fn texts_do_the_same_as_in_the_sandbox() {
    or_skip!(possible());
    let server = builder(&json!({})).start().await;
    // Agents that name no workspace share one. Nothing is removed there while other texts run.
    let place = workspace(&server);
    for kind in ["held", "boxed"] {
        fs::create_dir_all(place.join(kind)).unwrap();
        give(&place.join(kind));
    }
    give(&place);
    let texts = texts();
    assert!(texts.len() >= 300, "{}", texts.len());
    let (server, place) = (&server, &place);
    let compared = stream::iter(texts.iter().enumerate()).map(|(index, text)| async move {
        let name = format!("t{index}");
        let directories = ["held", "boxed"].map(|kind| place.join(kind).join(&name));
        for directory in &directories {
            fill(directory);
            give(directory);
        }
        let held = json!({
            "command": text, "workdir": directories[0], "timeout": 60, "yieldMs": 60_000,
        });
        let boxed = json!({
            "argv": ["/bin/bash", "-c", text], "agentId": BOXED, "workdir": format!("/workspace/boxed/{name}"),
            "env": { "LC_ALL": "C.UTF-8" }, "timeout": 60, "yieldMs": 60_000,
        });
        let held = outcome(server, held, &directories[0], true).await;
        let boxed = outcome(server, boxed, &directories[1], false).await;
        let is_same = match (&held, &boxed) {
            (Ok(held), Ok(boxed)) => held == boxed && !held.stderr.contains("Permission denied"),
            (Ok(_) | Err(_), _) => false,
        };
        (!is_same).then(|| format!("{text}\n  held: {held:?}\n  boxed: {boxed:?}"))
    });
    none_is_wrong(compared.buffer_unordered(WIDTH)).await;
    assert!(server.operator().pending().await.is_empty());
}
