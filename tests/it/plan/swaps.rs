//! The world changes at every point between the decision and the start. Nothing runs that was not judged, and what runs is
//! what was judged, or the run is denied for that.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use countersign_sys::hooks;
use serde_json::{Value, json};

use crate::support::{Members, TestServer, eventually, write_file, write_file_mode};

/// What is changed while the run stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Swap {
    /// Nothing, to see that it runs then.
    Nothing,
    /// Another file is renamed over it.
    Renamed,
    /// Its content is written over.
    Rewritten,
    /// Its mode changes, and with that its identity.
    Mode,
    /// The link on its path leads to another file.
    Link,
    /// The directory that holds it is another one.
    Parent,
    /// The link on its path, then the file behind it.
    LinkThenRenamed,
    /// The file behind the link, then the link back and forth.
    RenamedThenLink,
    /// The working directory is another one.
    Workdir,
    /// A link took the place of the working directory.
    WorkdirLink,
}

const SWAPS: [Swap; 10] = [
    Swap::Nothing,
    Swap::Renamed,
    Swap::Rewritten,
    Swap::Mode,
    Swap::Link,
    Swap::Parent,
    Swap::LinkThenRenamed,
    Swap::RenamedThenLink,
    Swap::Workdir,
    Swap::WorkdirLink,
];

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A program of the machine.
    Program,
    /// The same in a list with a pipeline, behind a `cd`.
    List,
    /// A script that is started as a program.
    Script,
    /// A script that a shell reads.
    Operand,
}

const FORMS: [Form; 4] = [Form::Program, Form::List, Form::Script, Form::Operand];

/// Everything of one run: `bin/tool` is what is judged, and `link` leads to it.
struct Scene {
    root: PathBuf,
}

impl Scene {
    fn new(root: PathBuf, form: Form) -> Self {
        let scene = Self { root };
        for directory in ["bin", "evil", "work", "work/sub", "evil-work", "evil-work/sub"] {
            fs::create_dir(scene.at(directory)).unwrap();
        }
        scene.write_tool("bin/tool", form, "good");
        scene.write_tool("evil/tool", form, "evil");
        symlink(scene.at("bin/tool"), scene.at("link")).unwrap();
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A good tool makes the file that its argument names, where it stands; an evil one says so and makes another.
    fn write_tool(&self, name: &str, form: Form, kind: &str) {
        let path = self.at(name);
        match form {
            Form::Program | Form::List => {
                let program = if kind == "good" {
                    "/usr/bin/touch"
                } else {
                    "/usr/bin/mkdir"
                };
                fs::copy(program, &path).unwrap();
            }
            Form::Script | Form::Operand => {
                let make = if kind == "good" { "touch" } else { "mkdir" };
                write_file_mode(&path, format!("#!/bin/sh\nexec {make} \"$1\"\n"), 0o755);
            }
        }
    }

    fn body(&self, form: Form) -> Value {
        let (tool, workdir) = (self.at("link"), self.at("work"));
        match form {
            Form::Program | Form::Script => json!({ "argv": [tool, "made"], "workdir": workdir }),
            Form::Operand => json!({ "argv": ["/bin/sh", tool, "made"], "workdir": workdir }),
            Form::List => {
                let tool = tool.display();
                json!({ "command": format!("cd sub && {tool} made | cat && {tool} made"), "workdir": workdir })
            }
        }
    }

    fn swap(&self, swap: Swap, form: Form) {
        let rename_over = || {
            fs::copy(self.at("evil/tool"), self.at("bin/new")).unwrap();
            fs::rename(self.at("bin/new"), self.at("bin/tool")).unwrap();
        };
        let link = |target: &str| {
            symlink(self.at(target), self.at("new-link")).unwrap();
            fs::rename(self.at("new-link"), self.at("link")).unwrap();
        };
        match swap {
            Swap::Nothing => {}
            Swap::Renamed => rename_over(),
            Swap::Rewritten => {
                let content = fs::read(self.at("evil/tool")).unwrap();
                write_file_mode(&self.at("bin/tool"), content, 0o755);
            }
            Swap::Mode => {
                fs::set_permissions(self.at("bin/tool"), fs::Permissions::from_mode(0o700)).unwrap();
            }
            Swap::Link => link("evil/tool"),
            Swap::Parent => {
                fs::rename(self.at("bin"), self.at("old-bin")).unwrap();
                fs::rename(self.at("evil"), self.at("bin")).unwrap();
            }
            Swap::LinkThenRenamed => {
                link("evil/tool");
                rename_over();
            }
            Swap::RenamedThenLink => {
                rename_over();
                link("evil/tool");
                link("bin/tool");
            }
            Swap::Workdir | Swap::WorkdirLink => {
                // Of a list it is the directory that it changes to.
                let (place, other) = if form == Form::List {
                    ("work/sub", "evil-work/sub")
                } else {
                    ("work", "evil-work")
                };
                fs::rename(self.at(place), self.at("moved")).unwrap();
                if swap == Swap::Workdir {
                    fs::rename(self.at(other), self.at(place)).unwrap();
                } else {
                    symlink(self.at(other), self.at(place)).unwrap();
                }
            }
        }
    }

    /// Every file and folder that was made by a tool, by where it is now.
    fn made(&self) -> Vec<String> {
        let mut made = Vec::new();
        for place in ["work", "work/sub", "moved", "evil-work", "evil-work/sub"] {
            let path = self.at(place).join("made");
            if let Ok(found) = fs::symlink_metadata(&path) {
                made.push(format!(
                    "{place}: {}",
                    if found.is_dir() { "evil" } else { "good" }
                ));
            }
        }
        made
    }
}

/// A server whose processes stand still where a file of this folder says so.
async fn server(pauses: &Path, ask: &str) -> TestServer {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": ask });
    // The last use of a grant is not noted in the document. Whenever that changes, a command is judged anew.
    let grant = |id: u8, pattern: &str, arguments: Option<&str>| {
        let mut grant = json!({
            "id": format!("00000000-0000-4000-8000-00000000000{id}"), "pattern": pattern, "expiresAtMs": 4_102_444_800_000_u64,
        });
        if let Some(arguments) = arguments {
            grant["argPattern"] = json!(arguments);
        }
        grant
    };
    let grants = [grant(1, "*", None), grant(2, "/bin/sh", Some("."))];
    let document = json!({ "version": 1, "agents": { "main": { "grants": grants } } });
    TestServer::asking()
        .exec(&exec)
        .document(&document)
        .env(hooks::PAUSE_VARIABLE, pauses.to_str().expect("text"))
        .start()
        .await
}

/// Runs a form, changes the world at a point, and returns the end of the run; `None` when it never passes there.
async fn tell(
    server: &TestServer,
    pauses: &Path,
    scene: &Scene,
    point: &str,
    (form, swap): (Form, Swap),
) -> Option<Value> {
    let what = format!("{form:?} {swap:?} at {point}");
    let wanted = pauses.join(point);
    let reached = pauses.join(format!("{point}.reached"));
    let agent = server.agent();
    let approved = point == "engine.before-approved";
    let pending = if approved {
        Some(agent.accepted(scene.body(form)).await)
    } else {
        None
    };
    write_file(&wanted, "");
    let run = async {
        match &pending {
            None => agent.exec(scene.body(form)).await.json(),
            Some(pending) => {
                let approval = pending.text("approvalId");
                server.operator().decided(approval, "allow-once").await;
                agent.finished(pending.text("runId")).await
            }
        }
    };
    let mut run = std::pin::pin!(run);
    let stands = eventually(&what, || async { reached.exists() }, |reached| *reached);
    tokio::select! {
        () = async { stands.await; } => {}
        _ended = &mut run => {
            fs::remove_file(&wanted).expect("it was never reached");
            return None;
        }
    }
    scene.swap(swap, form);
    fs::remove_file(&reached).unwrap();
    let answer = run.await;
    let id = answer.text("runId");
    Some(agent.finished(id).await)
}

fn assert_as_judged(scene: &Scene, run: &Value, (point, form, swap): (&str, Form, Swap)) {
    let what = format!("{form:?} {swap:?} at {point}: {run}");
    let made = scene.made();
    assert!(made.iter().all(|one| one.ends_with("good")), "{what}\n{made:?}");
    assert!(
        !made.iter().any(|one| one.starts_with("evil-work")),
        "{what}\n{made:?}"
    );
    match run["status"].as_str() {
        Some("completed") => assert_eq!(made.len(), 1, "{what}\n{made:?}"),
        Some("denied") => {
            assert_eq!(
                (&run["reason"], made.len()),
                (&json!("binding-mismatch"), 0),
                "{what}\n{made:?}"
            );
        }
        // A list that had begun stops.
        Some("failed") => {
            assert_eq!((form, &run["exitCode"]), (Form::List, &json!(126)), "{what}");
            assert!(
                run["tail"]
                    .as_str()
                    .is_some_and(|tail| tail.contains("no longer")),
                "{what}"
            );
        }
        _ => panic!("{what}"),
    }
    if swap == Swap::Nothing {
        assert_eq!(run["status"], "completed", "{what}");
    }
}

async fn whatever_changes(points: &[&'static str], ask: &str) {
    let pauses = tempfile::tempdir().unwrap();
    let server = server(pauses.path(), ask).await;
    let mut passed = BTreeSet::new();
    for point in points {
        for form in FORMS {
            for swap in SWAPS {
                let name = format!("{point}-{form:?}-{swap:?}");
                let scene = Scene::new(server.scratch().dir(&name), form);
                let Some(run) = tell(&server, pauses.path(), &scene, point, (form, swap)).await else {
                    break;
                };
                passed.insert(*point);
                assert_as_judged(&scene, &run, (point, form, swap));
            }
        }
    }
    assert_eq!(
        passed,
        points.iter().copied().collect(),
        "points that no run passes"
    );
}

#[tokio::test]
async fn whatever_changes_in_the_server_only_what_was_judged_runs() {
    let points: Vec<_> = hooks::PAUSE_POINTS
        .iter()
        .copied()
        .filter(|point| !point.starts_with("sup.") && *point != "engine.before-approved")
        .collect();
    whatever_changes(&points, "off").await;
}

#[tokio::test]
async fn whatever_changes_after_the_answer_only_what_was_judged_runs() {
    whatever_changes(&["engine.before-approved"], "always").await;
}

#[tokio::test]
async fn whatever_changes_in_the_supervisor_only_what_was_judged_runs() {
    let points: Vec<_> = hooks::PAUSE_POINTS
        .iter()
        .copied()
        .filter(|point| point.starts_with("sup."))
        .collect();
    whatever_changes(&points, "off").await;
}
