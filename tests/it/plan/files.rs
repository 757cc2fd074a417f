//! Redirections from and to files of the workspace (G13) do what `bash`, `dash` and `zsh` do with them, and lead nowhere else,
//! whatever lies at their paths by then.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    asked_about, everything_covered,
    lists::{Came, by_plan, by_shell},
    shells,
};
use crate::support::{Members, Scratch, ServerBuilder, TestServer, write_file, write_file_mode};

/// Opened by every shell.
const OPENED: [&str; 44] = [
    "echo a > out",
    "echo a >out; echo b >>out",
    "echo a 1> out; cat < out",
    "echo a 1>>out && echo b 1>> out",
    "cat <in",
    "cat 0<\tin >out",
    "ls nothing 2> err",
    "ls nothing in > out 2> err",
    "ls nothing in > out 2>&1",
    "ls nothing in 2>&1 > out",
    "ls nothing in >&2 2> err",
    "ls nothing in 2> err >&2",
    "ls nothing 2>> err; ls nothing 2>>err",
    "echo a > in",
    "sort in > in",
    "cat in >> more && cat more",
    "ls nothing > out",
    "ls nothing > out 2>&1 || echo b > other",
    "true && echo x > out && cat out",
    "false && echo x > out; echo y > other",
    "true || echo x > out",
    "echo x | cat > out",
    "cat < in | tr a-z A-Z > out",
    "cat in nothing 2> err | sort > out",
    "cat in nothing 2> out | cat 2> err; cat out",
    "mkdir new && echo x > new/out && cat < new/out",
    "cd sub && echo x > out && cat out",
    "cd sub && echo a > deep/out && cd deep && cat < out > again",
    "echo x > 'a b' && cat < a\\ b",
    "echo x > ./out && cat sub//./file",
    "echo x > sub//./out",
    "echo a > out b",
    "wc -c < in > out 2>/dev/null",
    "echo x > -n && cat < ./-n",
    "nice cat < in > out",
    "LC_ALL=C sort < in > out",
    "timeout 5 cat < in > out",
    "./tell 3 < in > out 2> err",
    "./tell 0 > out 2>&1 < in",
    "./tell 1 > out 2>> out; nice ./tell 2>> out",
    "echo long long long > in && echo s > in",
    "tee copy < in > out",
    "echo x > out; rm out; echo y >> out",
    "echo x > out && ln out other && cat other",
];

/// With a text that is read.
const WITH_TEXTS: [&str; 6] = [
    "cat > out <<'EOF'\n$x `y`\nEOF",
    "cat <<'EOF' > out\na\nEOF\ncat out",
    "cat >> in <<EOF && cat in\nb\nEOF",
    "cat > run.py <<'EOF' && python3 run.py > out\nprint('ran')\nEOF",
    "cat > a <<'A'; cat > b <<'B'\n1\nA\n2\nB\ncat a b",
    "tee out <<'EOF' >/dev/null 2> err\nx\nEOF",
];

/// `dash` starts the program in the background instead.
const BOTH: [&str; 4] = [
    "ls nothing in &> all",
    "echo a &>all; ls nothing &>>all",
    "ls nothing in &>> in && echo no || echo failed",
    "cd sub && ls nothing &> all; echo after",
];

/// What cannot be opened is no program that ran. `dash` has another exit code for it.
const UNOPENED: [&str; 11] = [
    "cat < nothing",
    "cat < nothing || echo failed",
    "cat < nothing && echo no; echo after",
    "cat < nothing > out",
    "cat > out < nothing",
    "echo x > sub",
    "echo x > nothing/out; echo after",
    "echo x > in/out",
    "cat < nothing | wc -c",
    "wc -c in | cat > nothing/out",
    "echo kept > in; cat < nothing > in",
];

fn config(workspace: &Path, mut exec: Value) -> Value {
    exec["host"] = json!("gateway");
    exec["reads"] = json!({ "nullRedirections": true, "hereDocuments": true, "fileRedirections": true });
    json!({ "agents": { "defaults": { "workspace": workspace } }, "tools": { "exec": exec } })
}

fn reading(workspace: &Path, ask: &str) -> ServerBuilder {
    ServerBuilder::new(&json!({})).config(&config(workspace, json!({ "security": "allowlist", "ask": ask })))
}

/// A directory of a workspace with something in it.
fn fill(directory: &Path) {
    fs::create_dir_all(directory.join("sub/deep")).unwrap();
    write_file_mode(&directory.join("in"), "b\na\n", 0o640);
    write_file_mode(&directory.join("sub/file"), "f\n", 0o644);
    write_file_mode(
        &directory.join("tell"),
        "#!/bin/sh\necho out $1\necho err $1 >&2\nread -r line && echo \"in $line\"\nexit ${1:-0}\n",
        0o755,
    );
}

/// Every file below a directory, with its mode and what is in it.
fn tree(directory: &Path) -> BTreeMap<PathBuf, (u32, String)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            let path = entry.path();
            let content = if metadata.is_dir() {
                directories.push(path.clone());
                String::new()
            } else {
                fs::read_to_string(&path).unwrap()
            };
            let name = path.strip_prefix(directory).unwrap().to_owned();
            found.insert(name, (metadata.permissions().mode(), content));
        }
    }
    found
}

/// What of a run is compared with what a shell does.
type Compared = fn(Came) -> (i64, String, String);

#[tokio::test]
async fn a_file_is_opened_as_shells_open_it() {
    let Some(shells) = shells() else { return };
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "off")
        .document(&everything_covered())
        .start()
        .await;
    let alike = |came: Came| (came.code, came.stdout, came.stderr);
    let without_words = |came: Came| (came.code, came.stdout, String::new());
    let all = OPENED.into_iter().chain(WITH_TEXTS);
    let cases = all
        .map(|text| (text, &shells[..], alike as Compared))
        .chain(BOTH.map(|text| (text, &["bash", "zsh"][..], alike as Compared)))
        // Each shell says it in words of its own.
        .chain(UNOPENED.map(|text| (text, &["bash", "zsh"][..], without_words as Compared)));
    for (at, (text, shells, compared)) in cases.enumerate() {
        let place = |who: &str| {
            let directory = workspace.dir(&format!("{at}-{who}"));
            fill(&directory);
            directory
        };
        let directory = place("plan");
        let came = compared(by_plan(&server, text, &directory).await);
        let planned = (came, tree(&directory));
        for shell in shells {
            let directory = place(shell);
            let came = compared(by_shell(shell, text, &directory));
            assert_eq!(planned, (came, tree(&directory)), "{shell}: {text}");
        }
    }
}

/// Everything outside of the workspace that an attack could reach, and what lies in it already.
struct Scene {
    scratch: Scratch,
}

impl Scene {
    fn new() -> Self {
        let scene = Self {
            scratch: Scratch::new(),
        };
        let (workspace, outside) = (scene.workspace(), scene.scratch.dir("outside"));
        fill(&workspace);
        write_file(&outside.join("secret"), "secret\n");
        fs::create_dir(outside.join("directory")).unwrap();
        for (link, target) in [("link", "secret"), ("linked", "directory")] {
            symlink(outside.join(target), workspace.join(link)).unwrap();
        }
        symlink("sub", workspace.join("alias")).unwrap();
        scene
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.dir("workspace")
    }

    /// That nothing outside of the workspace is other than it was.
    #[track_caller]
    fn assert_untouched(&self, what: &str) {
        let outside = self.scratch.join("outside");
        let names: Vec<_> = tree(&outside).into_keys().collect();
        assert_eq!(names, ["directory", "secret"].map(PathBuf::from), "{what}");
        let secret = fs::read_to_string(outside.join("secret")).unwrap();
        assert_eq!(secret, "secret\n", "{what}");
    }
}

fn entries(programs: &[&str]) -> Value {
    let entries = programs
        .iter()
        .map(|name| json!({ "pattern": format!("/**/{name}") }));
    json!({ "version": 1, "agents": { "main": { "allowlist": entries.collect::<Vec<_>>() } } })
}

/// Each would write or read what a person has to see. Beside it what differs only in being harmless, which runs.
#[tokio::test]
async fn what_leads_elsewhere_or_decides_what_starts_is_asked_about() {
    let scene = Scene::new();
    let workspace = scene.workspace();
    let document = entries(&["echo", "cat", "sh", "dash", "bash", "env"]);
    let state = workspace.join("state");
    fs::create_dir(&state).unwrap();
    let server = reading(&workspace, "off")
        .state_dir(&state)
        .document(&document)
        .start()
        .await;
    let untouched = TestServer::allowlist_only().document(&document).start().await;
    let outside = scene.scratch.join("outside").display().to_string();
    let inside = workspace.display().to_string();
    for text in [
        "echo x > {outside}/secret",
        "echo x > {outside}/made",
        "echo x > ../outside/made",
        "echo x > sub/../in",
        "echo x > link",
        "echo x >> link",
        "cat < link",
        "echo x > linked/made",
        "echo x > alias/made",
        "cd alias && echo x > made",
        "cd linked && echo x > made",
        "cd {outside} && echo x > made",
        "cd sub; echo x > made",
        "cd sub || echo x > made",
        "echo x > ~/made",
        "echo x > ~root/made",
        "echo x > /dev/tcp/127.0.0.1/1",
        "echo x > tell",
        "echo x >> ./tell",
        "echo x > .git/config",
        "echo x > sub/.GIT/hooks/pre-commit",
        "echo x > .npmrc",
        "echo x >> .bashrc",
        "cd sub && echo x > .envrc/.ssh/config",
        "echo x > {inside}/.git/config",
        "echo x > state/countersign.toml",
        "echo x >> {inside}/state/made",
        "cat < state/openclaw.json",
        "cd state && echo x > made",
        "sh -c 'echo x > made'",
        "sh -c 'cat < in' | cat",
        "env sh -c 'echo x > made'",
        "echo x >| made",
        "echo x >! made",
        "echo x <> made",
        "echo x 3> made",
        "echo x >& made",
        "echo x > made > other",
        "echo x > made &> other",
        "echo x > made | cat",
        "echo x | cat < in",
        "echo x > made & echo y",
        "echo x > made >(cat)",
        "echo x > \"$HOME/made\"",
        "echo x > ma*",
        "echo x > {made,other}",
        "echo x > $(echo made)",
        "echo x >made(x)",
        "echo x > =made",
        "echo x > made\nrm made",
        "> made echo x",
        "> made",
        "LANG=C > made",
        "pwd > made",
        "cd sub > made",
        "true > made",
        "nothing-of-that-name > made",
    ] {
        let text = text.replace("{outside}", &outside).replace("{inside}", &inside);
        let answer = server.agent().exec(json!({ "command": text })).await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
        scene.assert_untouched(&text);
        assert!(!workspace.join("made").exists(), "{text}");
        assert!(!state.join("made").exists(), "{text}");
    }
    for text in [
        "echo x > made",
        "echo x >> {inside}/made",
        "cat < made",
        "cd sub && echo x > made",
        "echo x > .gitignore",
        "cat < tell",
        "env echo x > made",
        "sh -c 'echo x' > made",
    ] {
        let text = text.replace("{inside}", &inside);
        let run = server.ran(json!({ "command": text })).await;
        assert_eq!(run["exitCode"], 0, "{text}: {run}");
        let elsewhere = json!({ "command": text, "workdir": workspace });
        let answer = untouched.agent().exec(elsewhere).await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
    }
    assert_eq!(fs::read_to_string(workspace.join("made")).unwrap(), "x\n");
}

/// A name that only a shell would look for takes no redirection along to it.
#[tokio::test]
async fn no_shell_opens_a_file_in_place_of_the_supervisor() {
    let scene = Scene::new();
    let workspace = scene.workspace();
    let server = reading(&workspace, "off")
        .document(&everything_covered())
        .start()
        .await;
    for text in [
        "nothing-of-that-name > made",
        "echo x > made; nothing-of-that-name",
    ] {
        let answer = server.agent().exec(json!({ "command": text })).await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" }, "{text}");
        assert!(!workspace.join("made").exists(), "{text}");
    }
    let twin = server
        .ran(json!({ "command": "nothing-of-that-name; echo x" }))
        .await;
    assert_has!(twin, { "exitCode": 0, "stdout": "x\n" });
    // Nor does one under `full`, past deny rules that see no files.
    let document = json!({ "version": 1, "agents": { "main": { "denylist": [{ "pattern": "touch" }] } } });
    let full = ServerBuilder::new(&json!({}))
        .config(&config(&workspace, json!({ "security": "full", "ask": "off" })))
        .document(&document)
        .start()
        .await;
    let answer = full.agent().exec(json!({ "command": "echo x > made" })).await;
    answer.problem(403, "exec-denied");
    let twin = full.ran(json!({ "command": "echo x" })).await;
    assert_has!(twin, { "exitCode": 0, "stdout": "x\n" });
}

/// Who calls the home directory or everything a workspace is asked about each file of it.
#[tokio::test]
async fn a_workspace_that_holds_too_much_is_none() {
    let document = entries(&["echo"]);
    let scratch = Scratch::new();
    for workspace in [PathBuf::from("/"), scratch.path()] {
        let server = reading(&workspace, "off")
            .state_dir(&scratch.dir("state"))
            .env("HOME", scratch.dir("home").to_str().unwrap())
            .document(&document)
            .start()
            .await;
        let text = json!({ "command": "echo x > made", "workdir": scratch.path() });
        let answer = server.agent().exec(text).await;
        assert_has!(answer.problem(403, "exec-denied"), { "reason": "allowlist-miss" });
        assert!(!scratch.join("made").exists());
    }
}

/// What is at the path when the run has begun.
#[derive(Debug, Clone, Copy)]
enum Put {
    Nothing,
    Link,
    DanglingLink,
    HardLink,
    Directory,
    Fifo,
    Program,
    ParentLink,
    OtherParent,
    OtherWorkspace,
    WorkspaceLink,
}

const PUT: [Put; 11] = [
    Put::Nothing,
    Put::Link,
    Put::DanglingLink,
    Put::HardLink,
    Put::Directory,
    Put::Fifo,
    Put::Program,
    Put::ParentLink,
    Put::OtherParent,
    Put::OtherWorkspace,
    Put::WorkspaceLink,
];

impl Put {
    fn put(self, scene: &Scene) {
        let (workspace, outside) = (scene.workspace(), scene.scratch.join("outside"));
        let path = workspace.join("sub/made");
        let (parent, moved) = (workspace.join("sub"), scene.scratch.join("moved"));
        match self {
            Self::Nothing => {}
            Self::Link => symlink(outside.join("secret"), &path).unwrap(),
            Self::DanglingLink => symlink(outside.join("directory/made"), &path).unwrap(),
            Self::HardLink => fs::hard_link(outside.join("secret"), &path).unwrap(),
            Self::Directory => fs::create_dir(&path).unwrap(),
            Self::Fifo => rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RWXU,
                0,
            )
            .unwrap(),
            Self::Program => write_file_mode(&path, "#!/bin/sh\n", 0o755),
            Self::ParentLink => {
                fs::rename(&parent, moved).unwrap();
                symlink(outside.join("directory"), &parent).unwrap();
            }
            Self::OtherParent => {
                fs::rename(&parent, moved).unwrap();
                fs::create_dir(&parent).unwrap();
            }
            Self::OtherWorkspace => {
                fs::rename(&workspace, moved).unwrap();
                fill(&workspace);
            }
            Self::WorkspaceLink => {
                fs::rename(&workspace, moved).unwrap();
                symlink(outside.join("directory"), &workspace).unwrap();
                fs::create_dir(outside.join("directory/sub")).unwrap();
            }
        }
    }

    /// The exit code: that of the program, of a file that is not opened, or of a run that stops.
    const fn code(self) -> i64 {
        match self {
            Self::Nothing | Self::OtherParent => 0,
            Self::Link
            | Self::DanglingLink
            | Self::HardLink
            | Self::Directory
            | Self::Fifo
            | Self::Program
            | Self::ParentLink => 1,
            Self::OtherWorkspace | Self::WorkspaceLink => 126,
        }
    }
}

/// What lies there before, the analysis does not see all of.
#[tokio::test]
async fn only_a_file_with_one_name_is_written() {
    for put in [
        Put::Nothing,
        Put::DanglingLink,
        Put::HardLink,
        Put::Directory,
        Put::Fifo,
    ] {
        for text in ["echo x > sub/made", "echo x >> sub/made", "cat < sub/made"] {
            let scene = Scene::new();
            put.put(&scene);
            let document = entries(&["echo", "cat"]);
            let server = reading(&scene.workspace(), "off")
                .document(&document)
                .start()
                .await;
            let run = server.ran(json!({ "command": text })).await;
            let reads_nothing = matches!(put, Put::Nothing) && text.starts_with("cat");
            let code = if reads_nothing { 1 } else { put.code() };
            assert_eq!(run["exitCode"], code, "{put:?} {text}: {run}");
            let secret = fs::read_to_string(scene.scratch.join("outside/secret")).unwrap();
            assert_eq!(secret, "secret\n", "{put:?} {text}");
            assert_ne!(run["stdout"], "secret\n", "{put:?} {text}");
            assert!(
                !scene.scratch.join("outside/directory/made").exists(),
                "{put:?} {text}"
            );
        }
    }
}

#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn whatever_is_put_at_the_path_nothing_else_is_written() {
    use countersign_sys::hooks;

    use crate::support::eventually;

    const POINT: &str = "sup.before-pipeline";
    for put in PUT {
        for text in ["echo x > sub/made", "echo x 2> sub/made", "echo x >> sub/made"] {
            let what = format!("{put:?} {text}");
            let (scene, pauses) = (Scene::new(), Scratch::new());
            let server = reading(&scene.workspace(), "off")
                .document(&entries(&["echo"]))
                .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().unwrap())
                .start()
                .await;
            write_file(&pauses.join(POINT), "");
            let reached = pauses.join(&format!("{POINT}.reached"));
            let agent = server.agent();
            let answer = agent.exec(json!({ "command": text }));
            let change = async {
                eventually(&what, || async { reached.exists() }, |reached| *reached).await;
                put.put(&scene);
                fs::remove_file(&reached).unwrap();
            };
            let (answer, ()) = tokio::join!(answer, change);
            let run = agent.finished(answer.json().text("runId")).await;
            assert_eq!(run["exitCode"], put.code(), "{what}: {run}");
            let outside = scene.scratch.join("outside");
            assert_eq!(
                fs::read_to_string(outside.join("secret")).unwrap(),
                "secret\n",
                "{what}"
            );
            assert!(!outside.join("directory/made").exists(), "{what}");
            assert!(!outside.join("directory/sub/made").exists(), "{what}");
            if matches!(put, Put::OtherWorkspace) {
                assert!(!scene.workspace().join("sub/made").exists(), "{what}");
            }
        }
    }
}

/// What is shown and bound says which file it is: another one is another command.
#[tokio::test]
async fn a_question_is_about_its_files_too() {
    let workspace = Scratch::new();
    let server = reading(&workspace.path(), "on-miss")
        .toml("[approvals]\nalways_reachable = true\n")
        .start()
        .await;
    let mut digests = Vec::new();
    for (text, file) in [
        ("uname -s > one", "one"),
        ("uname -s > two", "two"),
        ("uname -s >> one", "one"),
        ("uname -s &> one", "one"),
    ] {
        let (asked, digest) = asked_about(&server, text).await;
        digests.push(digest);
        let run = server.answered(&asked, "allow-once").await;
        assert_has!(run, { "status": "completed", "exitCode": 0, "stdout": "" }, "{text}");
        let written = fs::read_to_string(workspace.join(file)).unwrap();
        let times = if text.contains(">>") { 2 } else { 1 };
        assert_eq!(written, "Linux\n".repeat(times), "{text}");
    }
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 4);
}

/// A command keeps its terminal, whatever of it goes into a file.
#[tokio::test]
async fn a_terminal_stays_that_of_a_command_that_writes_a_file() {
    let workspace = Scratch::new();
    let document =
        json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "*", "input": true }] } } });
    let server = reading(&workspace.path(), "off")
        .document(&document)
        .start()
        .await;
    let script = "#!/bin/sh\n: >/dev/tty && echo has one\n";
    write_file_mode(&workspace.join("controls"), script, 0o755);
    let run = server
        .ran(json!({ "command": "./controls > out", "pty": true }))
        .await;
    assert_eq!(run["exitCode"], 0, "{run}");
    assert_eq!(fs::read_to_string(workspace.join("out")).unwrap(), "has one\n");
}
