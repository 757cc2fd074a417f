//! The world changes while a patch is applied, and whoever applies it dies. The processes stand still, or die, at named
//! points.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use countersign_sys::hooks;
use serde_json::{Value, json};

use super::{input, send, send_with_key, tree, workspace};
use crate::support::{Members, TestServer, eventually, write_file};

const BODY: &str = "*** Add File: new\n+new\n*** Update File: changed\n-old\n+new\n*** Delete File: gone\n";

fn prepare(server: &TestServer) -> PathBuf {
    let place = workspace(server);
    for entry in fs::read_dir(&place).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
    }
    write_file(&place.join("changed"), "old\n");
    write_file(&place.join("gone"), "gone\n");
    place
}

/// What somebody does meanwhile.
type Swap = (&'static str, fn(&Path, &Path));

const SWAPS: [Swap; 6] = [
    ("a link takes the place of the file", |place, outside| {
        fs::remove_file(place.join("changed")).unwrap();
        symlink(outside, place.join("changed")).unwrap();
    }),
    ("the file gets another content", |place, _outside| {
        write_file(&place.join("changed"), "theirs\n");
    }),
    ("a directory takes its place", |place, _outside| {
        fs::remove_file(place.join("changed")).unwrap();
        fs::create_dir(place.join("changed")).unwrap();
    }),
    ("a link is where a file is added", |place, outside| {
        symlink(outside, place.join("new")).unwrap();
    }),
    ("another file is where one is deleted", |place, _outside| {
        fs::remove_file(place.join("gone")).unwrap();
        write_file(&place.join("gone"), "theirs\n");
    }),
    ("the file is gone", |place, _outside| {
        fs::remove_file(place.join("changed")).unwrap();
    }),
];

#[tokio::test]
async fn whatever_is_swapped_in_between_nothing_leaves_and_everything_is_put_back() {
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .start()
        .await;
    let outside = server.scratch().join("outside");
    for point in ["patch.checked", "patch.staged"] {
        for (name, swap) in SWAPS {
            let place = prepare(&server);
            write_file(&outside, "old\n");
            write_file(&pauses.path().join(point), "");
            let reached = pauses.path().join(format!("{point}.reached"));
            let agent = server.agent();
            let (answer, before) = tokio::join!(send(&agent, input(BODY)), async {
                eventually("the point", || async { reached.exists() }, |reached| *reached).await;
                swap(&place, &outside);
                let before = files_of_others(&place);
                fs::remove_file(&reached).unwrap();
                before
            });
            let problem = answer.problem(409, "patch-failed");
            assert!(problem.get("notRestored").is_none(), "{point} {name}: {problem}");
            assert_eq!(fs::read_to_string(&outside).unwrap(), "old\n", "{point} {name}");
            assert_eq!(tree::look(&place), before, "{point} {name}");
        }
    }
    assert_eq!(
        hooks::PATCH_PAUSES.iter().copied().collect::<BTreeSet<_>>(),
        ["patch.checked", "patch.staged", "patch.placed"].into()
    );
}

/// What is there besides the temporary files of the patch that stands still.
fn files_of_others(place: &Path) -> std::collections::BTreeMap<String, String> {
    let mut files = tree::look(place);
    files.retain(|name, _what| !name.starts_with(".countersign-patch-"));
    files
}

#[tokio::test]
async fn killed_at_any_point_each_file_is_old_or_new_and_the_next_patch_sweeps_up() {
    for point in hooks::PATCH_POINTS {
        for pass in 1..=3 {
            // Only the places are passed more than once.
            if pass > 1 && *point != "patch.placed" {
                continue;
            }
            let what = format!("{point}:{pass}");
            let mut server = TestServer::full().prepare();
            server.start_with(&[(hooks::KILL_VARIABLE, &what)]).await;
            let place = prepare(&server);
            let problem = send(&server.agent(), input(BODY))
                .await
                .problem(409, "patch-failed");
            assert!(problem["reason"].is_string(), "{what}: {problem}");
            let files = files_of_others(&place);
            let read = |name: &str| fs::read_to_string(place.join(name)).ok();
            let changed = read("changed");
            assert!(
                matches!(changed.as_deref(), Some("old\n" | "new\n")),
                "{what}: {changed:?}"
            );
            assert!(matches!(read("new").as_deref(), None | Some("new\n")), "{what}");
            assert!(matches!(read("gone").as_deref(), None | Some("gone\n")), "{what}");
            assert!(files.len() <= 3, "{what}: {files:?}");
            let left = tree::look(&place).len() - files.len();
            assert!(left > 0, "{what}: nothing was left to sweep up");
            assert_eq!(server.stop().await, Some(0), "{what}");

            server.start().await;
            send(&server.agent(), input("*** Add File: next\n+x\n"))
                .await
                .expect(200);
            let mut expected = files;
            expected.insert("next".to_owned(), tree::look(&place)["next"].clone());
            assert_eq!(tree::look(&place), expected, "{what}");
        }
    }
}

#[tokio::test]
async fn a_server_that_is_killed_meanwhile_learns_what_became_of_it() {
    let pauses = tempfile::tempdir().unwrap();
    let mut server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .start()
        .await;
    let place = prepare(&server);
    let (point, reached) = ("patch.placed", pauses.path().join("patch.placed.reached"));
    write_file(&pauses.path().join(point), "");
    let agent = server.agent();
    let sent = tokio::spawn(async move { drop(try_send(&agent, "k", input(BODY)).await) });
    eventually("the point", || async { reached.exists() }, |reached| *reached).await;
    server.kill();
    sent.await.expect("the caller");
    fs::remove_file(&reached).unwrap();
    server.start().await;
    let applied = send_with_key(&server.agent(), "k", input(BODY)).await.expect(200);
    assert_eq!(applied["summary"], "1 added, 1 updated, 1 deleted");
    assert_eq!(fs::read_to_string(place.join("changed")).unwrap(), "new\n");
    assert_eq!(tree::look(&place).len(), 2);
    let listed = server.agent().read("/v1/runs").await;
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}

/// A call whose server may die over it.
async fn try_send(api: &crate::support::Api, key: &str, body: Value) -> Option<Value> {
    let request = api
        .request(reqwest::Method::POST, "/v1/apply-patch")
        .header("Idempotency-Key", key)
        .json(&body);
    let answer = crate::support::Api::try_send(request).await.ok()?;
    Some(answer.json())
}

#[tokio::test]
async fn a_caller_that_leaves_leaves_no_half_behind() {
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::full()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
        .start()
        .await;
    let place = prepare(&server);
    let reached = pauses.path().join("patch.placed.reached");
    write_file(&pauses.path().join("patch.placed"), "");
    let agent = server.agent();
    let sent = tokio::spawn(async move { send(&agent, input(BODY)).await });
    eventually("the point", || async { reached.exists() }, |reached| *reached).await;
    sent.abort();
    drop(sent.await);
    let listed = server.agent().read("/v1/runs").await;
    let run = listed["items"][0].text("runId").to_owned();
    fs::remove_file(&reached).unwrap();
    let run = server.agent().finished(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(fs::read_to_string(place.join("changed")).unwrap(), "new\n");
    assert_eq!(run["tool"], json!("apply_patch"));
}
