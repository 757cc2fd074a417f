//! What was hashed and shown is what the interpreter reads, whoever writes beside it.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use countersign_sys::hooks;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::{
    confined,
    support::{
        Members, TestServer, eventually, is_root, own_variable, sha256, skip, write_file, write_file_mode,
    },
};

/// Runs of each kind under a grant, and a tenth of them after a person's answer. `COUNTERSIGN_TEST_RACES` says more.
const RACES: usize = 120;

/// How another writer exchanges a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exchange {
    /// Another file takes its name.
    Rename,
    /// Its content is written over, with another of the same length.
    Rewrite,
    /// Another directory takes the name of the one that holds it.
    Parent,
    /// A directory takes its name, with what interpreters look for in one.
    Directory,
    /// Nothing has its name; beside it lies what interpreters look for then.
    Gone,
}

const EXCHANGES: [Exchange; 3] = [Exchange::Rename, Exchange::Rewrite, Exchange::Parent];

/// `place/tool` is good. An evil one lies beside it, and in `elsewhere`.
struct Scene {
    root: PathBuf,
    good: String,
    evil: String,
}

impl Scene {
    fn new(root: PathBuf, text: &str) -> Self {
        let scene = Self {
            root,
            good: text.replace("WORD", "good"),
            evil: text.replace("WORD", "evil"),
        };
        for directory in ["place", "elsewhere"] {
            fs::create_dir(scene.at(directory)).unwrap();
        }
        write_file_mode(&scene.at("place/tool"), &scene.good, 0o755);
        write_file_mode(&scene.at("place/other"), &scene.evil, 0o755);
        write_file_mode(&scene.at("elsewhere/tool"), &scene.evil, 0o755);
        fs::create_dir(scene.at("place/directory")).unwrap();
        for name in ["__main__.py", "index.js"] {
            write_file(&scene.at("place/directory").join(name), &scene.evil);
        }
        write_file(&scene.at("place/tool.js"), &scene.evil);
        scene
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// One exchange and, called again, the way back.
    fn exchange(&self, exchange: Exchange, to_evil: bool) {
        let swap = |one: &str, other: &str| {
            renameat_with(CWD, self.at(one), CWD, self.at(other), RenameFlags::EXCHANGE).unwrap();
        };
        match exchange {
            Exchange::Rename => swap("place/tool", "place/other"),
            Exchange::Parent => swap("place", "elsewhere"),
            Exchange::Directory => swap("place/tool", "place/directory"),
            Exchange::Gone if to_evil => fs::rename(self.at("place/tool"), self.at("place/kept")).unwrap(),
            Exchange::Gone => fs::rename(self.at("place/kept"), self.at("place/tool")).unwrap(),
            Exchange::Rewrite => {
                let text = if to_evil { &self.evil } else { &self.good };
                let file = fs::File::options()
                    .write(true)
                    .open(self.at("place/tool"))
                    .unwrap();
                rustix::io::pwrite(&file, text.as_bytes(), 0).unwrap();
            }
        }
    }
}

/// Exchanges back and forth until it is stopped; then everything is as it was.
struct Racer {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Racer {
    fn start(scene: &Arc<Scene>, exchange: Exchange) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (seen, scene) = (Arc::clone(&ends), Arc::clone(scene));
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                scene.exchange(exchange, true);
                scene.exchange(exchange, false);
                // The machine has few processors: the runs need one.
                thread::yield_now();
            }
        });
        Self { ends, thread }
    }

    fn stop(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn races() -> usize {
    let said = own_variable("COUNTERSIGN_TEST_RACES");
    said.map_or(RACES, |said| said.parse().expect("a number"))
}

/// How runs ended: with the good content, with another one, not at all.
#[derive(Debug, Default)]
struct Tally {
    good: usize,
    evil: usize,
    refused: usize,
}

impl Tally {
    fn count(&mut self, run: &Value) {
        let tail = run["tail"]
            .as_str()
            .or_else(|| run["stdout"].as_str())
            .unwrap_or_default();
        match run["status"].as_str() {
            _ if tail.contains("evil") => self.evil += 1,
            Some("completed") if tail.contains("good") => self.good += 1,
            Some("denied" | "failed") => self.refused += 1,
            _ => panic!("{run}"),
        }
    }
}

#[expect(clippy::print_stderr, reason = "the long version is read by a person")]
fn report(what: &str, tally: &Tally) {
    eprintln!("{what}: {tally:?}");
    assert_eq!(tally.evil, 0, "{what}: {tally:?}");
    assert!(tally.good + tally.refused > 0, "{what}: {tally:?}");
}

fn grant(pattern: &Path, content: &str) -> Value {
    let sha256 = sha256(content.as_bytes());
    json!({ "id": "00000000-0000-4000-8000-000000000001", "pattern": pattern, "sha256": sha256,
        "expiresAtMs": 4_102_444_800_000_u64 })
}

fn document(grants: &[Value]) -> Value {
    json!({ "version": 1, "agents": { "main": { "grants": grants } } })
}

#[tokio::test]
async fn a_grant_of_a_content_runs_no_other_content() {
    under_a_grant("#!/bin/sh\necho WORD\n", &EXCHANGES, races().div_ceil(4)).await;
}

/// They look what is at a path before they open it, and read another file where they find a directory or nothing.
#[tokio::test]
async fn an_interpreter_that_looks_first_runs_no_other_content() {
    let exchanges = [Exchange::Directory, Exchange::Gone];
    for (interpreter, text) in [
        ("/usr/bin/python3", "#!/usr/bin/python3\nprint('WORD')\n"),
        ("/usr/bin/node", "#!/usr/bin/node\nconsole.log('WORD')\n"),
    ] {
        if Path::new(interpreter).exists() {
            under_a_grant(text, &exchanges, races().div_ceil(16)).await;
        } else {
            skip(&format!("no {interpreter}"));
        }
    }
}

async fn under_a_grant(text: &str, exchanges: &[Exchange], rounds: usize) {
    for exchange in exchanges.iter().copied() {
        let mut server = TestServer::allowlist_only().prepare();
        let scene = Scene::new(server.scratch().dir("scene"), text);
        let scene = Arc::new(scene);
        server.edit_document(&document(&[grant(&scene.at("place/tool"), &scene.good)]).to_string());
        server.start().await;
        let racer = Racer::start(&scene, exchange);
        let mut tally = Tally::default();
        let body = json!({ "argv": [scene.at("place/tool")], "workdir": scene.root });
        for _ in 0..rounds {
            let call = || async { server.agent().exec(body.clone()).await.json() };
            let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
            for answer in [a, b, c, d] {
                match answer["runId"].as_str() {
                    Some(id) => tally.count(&server.agent().finished(id).await),
                    // Nothing was there, or a directory.
                    None if answer["code"].is_string() => tally.refused += 1,
                    None => panic!("{answer}"),
                }
            }
        }
        racer.stop();
        report(&format!("grant of {text:?}, {exchange:?}"), &tally);
        let after = server.ran(body).await;
        after.says("stdout", "good");
        let record = server.agent().run(after.text("runId")).await;
        assert_has!(record, { "scripts": "held", "binding": "exact" });
    }
}

/// Under whose account commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Account {
    /// That of the server.
    Same,
    /// Another one, which only root can give them.
    Separate,
    /// That of the server, which is not root's, and confined.
    Confined,
}

impl Account {
    async fn asking(self) -> TestServer {
        // Every test is a process of its own.
        let account = 2_000_000 + 10 * std::process::id();
        let (builder, isolation) = match self {
            Self::Same => return TestServer::asking().start().await,
            Self::Separate => {
                let builder = TestServer::asking().owned_by(account).argument("--run-as");
                (builder.argument(&(account + 1).to_string()), "separate-user")
            }
            Self::Confined => {
                let builder = TestServer::asking().env("PATH", confined::PROGRAMS);
                (builder.run_as(confined::ACCOUNT), "confined")
            }
        };
        let mut server = builder.prepare();
        let all_may_pass = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(server.scratch().path(), all_may_pass).unwrap();
        server.start().await;
        let ready = server.ready_line();
        assert!(ready.contains(&format!("isolation={isolation}")), "{ready}");
        server
    }
}

async fn after_an_answer(text: &str, argv: &[&str], workdir: &str) {
    for exchange in EXCHANGES {
        after_an_answer_to(text, (argv, workdir), exchange, Account::Same).await;
        if is_root() {
            after_an_answer_to(text, (argv, workdir), exchange, Account::Separate).await;
        }
        if confined::possible().is_some() {
            after_an_answer_to(text, (argv, workdir), exchange, Account::Confined).await;
        }
    }
}

async fn after_an_answer_to(
    text: &str,
    (argv, workdir): (&[&str], &str),
    exchange: Exchange,
    account: Account,
) {
    let server = account.asking().await;
    let scene = Arc::new(Scene::new(server.scratch().dir("scene"), text));
    write_file(&scene.at("reader.sh"), ". \"./$1\"\n");
    write_file(
        &scene.at("reader.py"),
        "import sys\nprint(open(sys.argv[1]).read())\n",
    );
    let mut tally = Tally::default();
    let body = json!({ "argv": argv, "workdir": scene.at(workdir) });
    for _ in 0..races().div_ceil(10) {
        let asked = server.agent().exec(body.clone()).await;
        // The account's files could not be seen in time: nothing was decided, and nothing runs.
        if asked.status == 503 {
            asked.problem(503, "overloaded");
            continue;
        }
        let pending = asked.expect(202);
        let racer = Racer::start(&scene, exchange);
        let run = server.answered(&pending, "allow-once").await;
        racer.stop();
        tally.count(&run);
    }
    report(
        &format!("{argv:?} in {workdir}, {exchange:?}, {account:?} account"),
        &tally,
    );
}

#[tokio::test]
async fn an_approved_script_of_a_shell_is_the_one_that_was_shown() {
    after_an_answer("echo WORD\n", &["/bin/sh", "tool"], "place").await;
    after_an_answer("echo WORD\n", &["/bin/bash", "place/tool"], ".").await;
}

#[tokio::test]
async fn an_approved_script_of_an_interpreter_is_the_one_that_was_shown() {
    or_skip!(Path::new("/usr/bin/python3").exists(), "no /usr/bin/python3");
    after_an_answer("print('WORD')\n", &["/usr/bin/python3", "tool"], "place").await;
    after_an_answer("print('WORD')\n", &["/usr/bin/python3", "place/tool"], ".").await;
}

#[tokio::test]
async fn an_approved_operand_is_the_one_that_was_shown() {
    or_skip!(Path::new("/usr/bin/python3").exists(), "no /usr/bin/python3");
    after_an_answer("echo WORD\n", &["/bin/sh", "reader.sh", "place/tool"], ".").await;
    after_an_answer("WORD\n", &["/usr/bin/python3", "reader.py", "place/tool"], ".").await;
}

/// A person allows a run that stands still at a FIFO; then the world changes, and it goes on.
async fn while_it_stands_still(server: &TestServer, body: Value, go: &Path, change: impl FnOnce()) -> Value {
    rustix::fs::mkfifoat(CWD, go, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let pending = server.asked(body).await;
    let (approval, run) = (pending.text("approvalId"), pending.text("runId"));
    server.operator().decided(approval, "allow-once").await;
    lets_go(go, change).await;
    fs::remove_file(go).unwrap();
    server.agent().finished(run).await
}

/// Changes the world once a FIFO has a reader, and lets that go on.
async fn lets_go(fifo: &Path, change: impl FnOnce()) {
    // Opened for writing without waiting, it has a reader.
    let open = || async {
        rustix::fs::open(
            fifo,
            rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK,
            rustix::fs::Mode::empty(),
        )
        .ok()
    };
    let writer = eventually("it stands still", open, Option::is_some).await;
    change();
    rustix::io::write(writer.unwrap(), b"go\n").unwrap();
}

/// Goes on when it is told so, and then does what its operand says.
const WAITS: &str = "read line < \"$1\"\n. \"./$2\"\n";

#[tokio::test]
async fn whatever_is_exchanged_while_it_runs_it_reads_what_was_shown() {
    for (protection, expected) in [("", "good"), ("scripts", "evil")] {
        for exchange in EXCHANGES {
            let server = TestServer::asking()
                .env("COUNTERSIGN_TEST_PROTECTION_OFF", protection)
                .start()
                .await;
            let scene = Scene::new(server.scratch().dir("scene"), "echo WORD\n");
            write_file(&scene.at("waits.sh"), WAITS);
            let body = json!({ "argv": ["/bin/sh", "waits.sh", "go", "place/tool"], "workdir": scene.root });
            let run =
                while_it_stands_still(&server, body, &scene.at("go"), || scene.exchange(exchange, true))
                    .await;
            assert_has!(run, { "tail": format!("{expected}\n") }, "{protection} {exchange:?}: {run}");
        }
    }
}

/// Goes on when it is told so, and then does this.
async fn then(
    server: &TestServer,
    directory: &Path,
    (argv, files): (&[&str], &[(&str, &str)]),
    change: impl FnOnce(&Path),
) -> Value {
    for (name, text) in files {
        let file = directory.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        write_file(&file, text);
    }
    let body = json!({ "argv": argv, "workdir": directory });
    while_it_stands_still(server, body, &directory.join("go"), || change(directory)).await
}

#[tokio::test]
async fn an_interpreter_that_looks_first_finds_the_file_that_was_shown() {
    let replaced = |name: &'static str, inner: &'static [&'static str]| {
        move |directory: &Path| {
            fs::rename(directory.join(name), directory.join("kept")).unwrap();
            for file in inner {
                let file = directory.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                let evil = if Path::new(name).extension().is_some_and(|ending| ending == "py") {
                    "print('evil')\n"
                } else {
                    "console.log('evil')\n"
                };
                write_file(&file, evil);
            }
        }
    };
    let python = "cat go; /usr/bin/python3 p.py; true";
    let node = "cat go; /usr/bin/node s.js; true";
    for (interpreter, script, good, inner) in [
        (python, "p.py", "print('good')\n", &["p.py/__main__.py"][..]),
        (node, "s.js", "console.log('good')\n", &["s.js/index.js"]),
        (node, "s.js", "console.log('good')\n", &["s.js.js"]),
    ] {
        if !Path::new(interpreter.split(' ').nth(2).unwrap()).exists() {
            skip(interpreter);
            continue;
        }
        let server = TestServer::asking().start().await;
        let directory = server.scratch().dir("work");
        let files = [(script, good)];
        let change = replaced(script, inner);
        let run = then(
            &server,
            &directory,
            (&["/bin/sh", "-c", interpreter], &files),
            change,
        )
        .await;
        assert_has!(run, { "tail": "go\ngood\n", "scripts": "held" }, "{inner:?}: {run}");
    }
}

#[tokio::test]
async fn a_script_that_is_left_alone_looks_as_it_is() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    write_file_mode(&directory.join("data"), "one\n", 0o640);
    for (script, expected) in [
        (
            "[ -f data ] && [ -r data ] && [ ! -d data ] && [ ! -x data ] && echo file",
            "file\n",
        ),
        (
            "chmod u+x data; [ -x data ] && echo executable; chmod u-x data",
            "executable\n",
        ),
        ("[ -e data/x ] || echo nothing beneath", "nothing beneath\n"),
        (
            "rm data; [ -e data ] || echo gone; mkdir data; [ -d data ] && echo directory",
            "gone\ndirectory\n",
        ),
    ] {
        write_file(&directory.join("look.sh"), script);
        let pending = server
            .asked(json!({ "argv": ["/bin/sh", "look.sh", "data"], "workdir": directory }))
            .await;
        let run = server.answered(&pending, "allow-once").await;
        assert_has!(run, { "tail": expected, "scripts": "held" }, "{script}: {run}");
    }
}

#[tokio::test]
async fn a_script_is_known_by_every_way_to_write_its_name() {
    let evil = |directory: &Path| {
        write_file(&directory.join("new"), "echo evil\n");
        fs::rename(directory.join("new"), directory.join("x")).unwrap();
    };
    for reads in [
        ". ./sub/../x",
        ". /proc/self/cwd/x",
        ". \"/proc/self/root$PWD/x\"",
        ". \"/proc/thread-self/root$PWD/./x\"",
        "mv nosuch x 2>&-; . ./x",
    ] {
        let server = TestServer::asking().start().await;
        let directory = server.scratch().dir("work");
        let main = format!("read line < go\n{reads}\n");
        let files = [("x", "echo good\n"), ("sub/y", ""), ("main.sh", main.as_str())];
        let run = then(&server, &directory, (&["/bin/sh", "main.sh", "x"], &files), evil).await;
        assert_has!(run, { "tail": "good\n", "scripts": "held" }, "{reads}: {run}");
    }
    // What leads elsewhere is something else.
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    let main = "read line < go\n. ./sub/deep/../x; cd sub; . ./x\n";
    let files = [
        ("x", "echo good\n"),
        ("sub/deep/y", ""),
        ("sub/x", "echo of sub\n"),
        ("main.sh", main),
    ];
    let run = then(&server, &directory, (&["/bin/sh", "main.sh", "x"], &files), evil).await;
    assert_eq!(run["tail"], "of sub\nof sub\n", "{run}");
}

#[tokio::test]
async fn a_directory_that_is_entered_by_its_name_is_the_one_that_was_shown() {
    let main = "read line < go\ncd sub; read line < ../on; . ./x\n";
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    let on = directory.join("on");
    rustix::fs::mkfifoat(CWD, on.as_path(), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let files = [
        ("sub/x", "echo good\n"),
        ("other/x", "echo evil\n"),
        ("main.sh", main),
    ];
    let exchange = |directory: &Path| {
        let (sub, other) = (directory.join("sub"), directory.join("other"));
        renameat_with(CWD, sub, CWD, other, RenameFlags::EXCHANGE).unwrap();
    };
    let back = directory.clone();
    // It opens its end when it has entered.
    let returns = thread::spawn(move || {
        let mut on = fs::File::options().write(true).open(back.join("on")).unwrap();
        exchange(&back);
        std::io::Write::write_all(&mut on, b"on\n").unwrap();
    });
    let run = then(
        &server,
        &directory,
        (&["/bin/sh", "main.sh", "sub/x"], &files),
        exchange,
    )
    .await;
    returns.join().unwrap();
    assert!(
        !run["tail"].as_str().unwrap_or_default().contains("evil"),
        "{run}"
    );
    assert_eq!(run["scripts"], "held", "{run}");
}

/// What has the name of a directory while a run comes there by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entered {
    /// What was shown.
    Itself,
    /// Another directory, for just this moment.
    Another,
    /// A link to where the run began, for just this moment.
    Beginning,
}

/// A run reads `go`, comes to `sub` by its name, makes `left` and reads `on`, which it finds through `$D` or `D`. Then it
/// reads `x` in some way.
async fn astray(argv: &[&str], main: &str, entered: Entered) -> Value {
    let pauses = tempfile::tempdir().unwrap();
    let server = TestServer::asking()
        .env(hooks::PAUSE_VARIABLE, pauses.path().to_str().expect("text"))
        .start()
        .await;
    let directory = server.scratch().dir("work");
    let [point] = hooks::ENTRY_PAUSES else { panic!() };
    let reached = pauses.path().join(format!("{point}.reached"));
    let on = directory.join("on");
    rustix::fs::mkfifoat(CWD, on.as_path(), rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let exchange = || {
        if entered != Entered::Itself {
            let (sub, other) = (directory.join("sub"), directory.join("other"));
            renameat_with(CWD, sub, CWD, other, RenameFlags::EXCHANGE).unwrap();
        }
    };
    let files = [
        ("sub/x", "echo good\n"),
        ("other/x", "echo evil\n"),
        (argv[1], main),
    ];
    let run = then(&server, &directory, (argv, &files), |_| {
        if entered == Entered::Beginning {
            fs::remove_dir_all(directory.join("other")).unwrap();
            symlink(".", directory.join("other")).unwrap();
            write_file(&directory.join("x"), "echo evil\n");
        }
        write_file(&pauses.path().join(point), "");
    });
    let world = async {
        eventually("it enters", || async { reached.exists() }, |is| *is).await;
        exchange();
        fs::remove_file(&reached).unwrap();
        let left = directory.join("left");
        eventually("it went on", || async { left.exists() }, |is| *is).await;
        lets_go(&on, exchange).await;
    };
    let (run, ()) = tokio::join!(run, world);
    assert_eq!(run["scripts"], "held", "{run}");
    run
}

/// It reads what was shown where nothing was exchanged, and nothing where it stands astray.
async fn reads_nothing_astray(argv: &[&str], main: &str) {
    let itself = astray(argv, main, Entered::Itself).await;
    assert_eq!(itself["tail"], "good\n", "{main}: {itself}");
    for entered in [Entered::Another, Entered::Beginning] {
        let run = astray(argv, main, entered).await;
        let tail = run["tail"].as_str().unwrap_or_default();
        assert!(!tail.contains("evil"), "{main}: {entered:?}: {run}");
    }
}

#[tokio::test]
async fn what_a_process_started_astray_reads_is_not_trusted_because_its_parent_left() {
    const FROM: &str = "D=$PWD; mkfifo end; read line < go; cd sub\n";
    for main in [
        // The parent leaves, and waits.
        "(read line < $D/on; . ./x 2>&-) & cd /; : > $D/left; wait; true",
        // It ends: another process is the parent of what it started.
        "(((read line < $D/on; . ./x 2>&-); : > $D/end) & cd /; : > $D/left) & read line < $D/end",
        // It ends at once, and nothing says any more whose child that is.
        "(sh -c 'read line < \"$0\"; . ./x 2>&-' $D/on; : > $D/end) & cd /; : > $D/left; read line < $D/end",
        // It makes an absolute name of where it stands.
        ": > $D/left; read line < $D/on; P=$(env pwd -P 2>&-); cd /; (. $P/x 2>&-); true",
    ] {
        reads_nothing_astray(&["/bin/sh", "main.sh", "sub/x"], &format!("{FROM}{main}\n")).await;
    }
}

#[tokio::test]
async fn a_descriptor_of_a_directory_that_was_exchanged_leads_to_no_other_script() {
    or_skip!(Path::new("/usr/bin/python3").exists(), "no /usr/bin/python3");
    for (enters, reads) in [
        (
            "fd = os.open('sub', os.O_DIRECTORY); os.chdir('/')",
            "f = os.open('x', 0, dir_fd=fd)",
        ),
        (
            "fd = os.open('sub', os.O_RDONLY)",
            "f = os.open('x', 0, dir_fd=fd)",
        ),
        (
            "fd = os.open('sub', os.O_PATH)",
            "f = os.open(f'/proc/self/fd/{fd}/x', 0)",
        ),
        (
            "fd = os.open('sub', os.O_PATH)",
            "f = os.open(os.readlink(f'/proc/self/fd/{fd}') + '/x', 0)",
        ),
        (
            "fd = os.open('sub', os.O_PATH); os.chdir('/')",
            "os.fchdir(fd); f = os.open('x', 0)",
        ),
        (
            "fd = os.open('sub', os.O_PATH)",
            "os.chdir(f'/proc/self/fd/{fd}'); f = os.open('x', 0)",
        ),
        (
            "os.chdir('sub'); fd = os.open('.', 0); os.chdir('/')",
            "f = os.open('x', 0, dir_fd=fd)",
        ),
        (
            "os.chdir('sub')\ntry: os.chdir('/nosuch')\nexcept OSError: pass",
            "f = os.open('x', 0)",
        ),
    ] {
        let main = format!(
            "import os\nD = os.getcwd()\nopen('go').read()\n{enters}\nopen(D + '/left', 'w').close()\n\
             open(D + '/on').read()\ntry:\n  {reads}\n  print(os.read(f, 99).decode()[5:], end='')\n\
             except OSError: pass\n"
        );
        reads_nothing_astray(&["/usr/bin/python3", "main.py", "sub/x"], &main).await;
    }
}

#[tokio::test]
async fn a_process_astray_is_found_whoever_its_parent_is_and_whatever_it_shares() {
    const WAITS: &str = "open(D + '/left', 'w').close(); open(D + '/on').read()";
    const READS: &str =
        "try: print(os.read(os.open('x', 0), 99).decode()[5:], end='', flush=True)\nexcept OSError: pass";
    or_skip!(Path::new("/usr/bin/python3").exists(), "no /usr/bin/python3");
    let mut ways = vec![
        // Its parent ends, and another process of the run becomes that.
        format!(
            "C.prctl(36, 1, 0, 0, 0)\nif os.fork() == 0:\n  os.chdir('sub')\n  if os.fork(): os._exit(0)\n  \
             while os.getppid() != P: pass\n  {WAITS}\nelse:\n  os.wait(); os.wait(); os._exit(0)\n{READS}"
        ),
        // It enters, and so does a thread.
        format!(
            "import threading\nt = threading.Thread(target=os.chdir, args=('sub',)); t.start(); t.join()\n\
             if os.fork():\n  os.wait(); os._exit(0)\n{WAITS}\n{READS}"
        ),
    ];
    if cfg!(target_arch = "x86_64") {
        // Another process enters, and both have one working directory.
        ways.push(format!(
            "if C.syscall(56, 0x211, 0, 0, 0, 0) == 0:\n  os.chdir('sub'); os._exit(0)\nos.wait()\n{WAITS}\n{READS}"
        ));
    }
    for way in ways {
        let main = format!(
            "import ctypes, os\nD, P, C = os.getcwd(), os.getpid(), ctypes.CDLL(None)\nopen('go').read()\n{way}\n"
        );
        reads_nothing_astray(&["/usr/bin/python3", "main.py", "sub/x"], &main).await;
    }
}

/// Where nothing is exchanged, a name that a script has stays usable for the files of other directories.
#[tokio::test]
async fn a_run_that_changes_directory_finds_other_files_of_the_same_name() {
    let shell = "cd \"$(dirname \"$0\")\"; D=$(cd . && pwd); . lib/run; (cd lib && sh run); cd lib; sh run
        (cd / && true); (sh run & wait); cd ..; cd $D/lib; env sh run; cd ..; find lib -type f -execdir sh run \\;
        (cd /nosuch) 2>&-; cd lib; env pwd | sed s,.*/,,";
    let python = "import os, subprocess as s, threading
os.chdir(os.path.dirname(__file__))
os.listdir('.'); os.listdir(os.getcwd())
s.run(['sh', 'run'], cwd='lib', check=True)
t = threading.Thread(target=lambda: s.run(['sh', 'run'], cwd='lib', check=True))
t.start(); t.join()
here = os.open('.', 0); os.chdir('lib'); s.run(['sh', 'run'], check=True)
lib = os.open('.', 0); os.fchdir(here); os.getcwd(); os.fchdir(lib); os.getcwd()
s.run(['sh', 'run'], check=True)
if os.fork() == 0: os.execvp('sh', ['sh', 'run'])
os.wait()
print(os.read(os.open('run', 0, dir_fd=lib), 99).decode()[5:], end='')
";
    for (interpreter, text, times) in [("/bin/sh", shell, 7), ("/usr/bin/python3", python, 6)] {
        if !Path::new(interpreter).exists() {
            skip(interpreter);
            continue;
        }
        let server = TestServer::asking().start().await;
        let directory = server.scratch().dir("work");
        fs::create_dir_all(directory.join("sub/lib")).unwrap();
        write_file(&directory.join("sub/run"), text);
        write_file(&directory.join("sub/lib/run"), "echo lib\n");
        let pending = server
            .asked(json!({ "argv": [interpreter, "sub/run"], "workdir": directory }))
            .await;
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(run["tail"], "lib\n".repeat(times), "{interpreter}: {run}");
        assert_eq!(run["scripts"], "held", "{interpreter}: {run}");
    }
}

/// A signal that comes while a call waits for its answer interrupts that, and no program expects it of `fork`.
#[tokio::test]
async fn a_run_starts_processes_while_signals_reach_it() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    let main = "trap : USR1; (while kill -USR1 $$; do :; done) 2>&- & K=$!
        n=0; while [ $n -lt 300 ]; do (:) || echo failed; n=$((n + 1)); done; kill $K; echo $n";
    write_file(&directory.join("main.sh"), main);
    let pending = server
        .asked(json!({ "argv": ["/bin/sh", "main.sh"], "workdir": directory }))
        .await;
    let run = server.answered(&pending, "allow-once").await;
    assert_has!(run, { "tail": "300\n", "scripts": "held" });
}

#[tokio::test]
async fn a_program_that_comes_to_see_other_files_reads_no_held_script() {
    let evil = |directory: &Path| write_file(&directory.join("x"), "echo evil\n");
    for (starts, expected) in [("unshare -m sh x", ""), ("env sh x", "good\n")] {
        if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/unshare").exists() {
            skip("no root, or no unshare");
            return;
        }
        let server = TestServer::asking().start().await;
        let directory = server.scratch().dir("work");
        let main = format!("read line < go\n{starts} 2>&-\ntrue\n");
        let files = [("x", "echo good\n"), ("main.sh", main.as_str())];
        let run = then(&server, &directory, (&["/bin/sh", "main.sh", "x"], &files), evil).await;
        assert_eq!(
            run["tail"].as_str().unwrap_or_default(),
            expected,
            "{starts}: {run}"
        );
        assert_eq!(run["scripts"], "held", "{starts}: {run}");
    }
}

#[tokio::test]
async fn a_wrapper_that_changes_directory_binds_what_lies_there_too() {
    for (command, changed, status) in [
        ("env -C sub sh s.sh", "sub/s.sh", "denied"),
        ("env -C sub sh s.sh", "s.sh", "denied"),
        ("env -C sub sh s.sh", "other", "completed"),
    ] {
        let server = TestServer::asking().start().await;
        let directory = server.scratch().dir("work");
        fs::create_dir(directory.join("sub")).unwrap();
        for name in ["s.sh", "sub/s.sh", "other"] {
            write_file(&directory.join(name), "echo good\n");
        }
        let pending = server
            .asked(json!({ "command": command, "workdir": directory }))
            .await;
        write_file(&directory.join(changed), "echo evil\n");
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(run["status"], status, "{changed}: {run}");
        assert_eq!(run["scripts"], "not held: changes directory", "{run}");
    }
}

#[tokio::test]
async fn what_a_run_changes_itself_it_finds_changed() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    write_file(&directory.join("data"), "one\n");
    let changes = [
        "echo two >> data; cat data",
        "echo two > new; mv new data; cat data",
        "mv data old; echo two > data; cat data",
        "rm data; echo two > data; cat data",
        "cat data; cp \"$1\" other; echo three > other; cat data other",
        "cd sub; cat data; cat ../data",
    ];
    fs::create_dir(directory.join("sub")).unwrap();
    write_file(&directory.join("sub/data"), "of sub\n");
    for (change, expected) in changes.into_iter().zip([
        "one\ntwo\n",
        "two\n",
        "two\n",
        "two\n",
        "one\none\nthree\n",
        "of sub\none\n",
    ]) {
        write_file(&directory.join("data"), "one\n");
        write_file(&directory.join("change.sh"), change);
        let pending = server
            .asked(json!({ "argv": ["/bin/sh", "change.sh", "data"], "workdir": directory }))
            .await;
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(run["tail"], expected, "{change}: {run}");
        assert_eq!(run["scripts"], "held", "{run}");
    }
}

#[tokio::test]
async fn a_script_can_be_copied_by_the_command_that_runs_it() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    write_file(&directory.join("x.sh"), "echo ran\n");
    for command in [
        json!({ "command": "sh x.sh && cp x.sh y && cat y" }),
        json!({ "argv": ["/bin/sh", "-c", "sh x.sh; cp x.sh y && cat y"] }),
    ] {
        let mut body = command.clone();
        body["workdir"] = json!(directory);
        let pending = server.asked(body).await;
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(run["tail"], "ran\necho ran\n", "{command}: {run}");
        assert_eq!(run["scripts"], "held", "{command}: {run}");
    }
}

#[tokio::test]
async fn a_script_finds_itself_by_its_name_as_before() {
    let server = TestServer::asking().start().await;
    let directory = server.scratch().dir("work");
    fs::create_dir(directory.join("sub")).unwrap();
    symlink("sub", directory.join("link")).unwrap();
    write_file(&directory.join("sub/beside.py"), "WORD = 'beside'\n");
    write_file(&directory.join("sub/beside.js"), "exports.word = 'beside'\n");
    write_file(&directory.join("sub/beside.sh"), "word=beside\n");
    let shell = "#!/bin/sh\n. \"$(dirname \"$0\")/beside.sh\"\necho \"$0\" \"$word\"\n";
    write_file_mode(&directory.join("sub/x"), shell, 0o755);
    write_file(
        &directory.join("sub/x.py"),
        "import beside, sys\nprint(__file__, sys.argv[0], beside.WORD)\n",
    );
    write_file(
        &directory.join("sub/x.js"),
        "console.log(__filename, require('./beside').word)\n",
    );
    write_file(
        &directory.join("sub/x.pl"),
        "print \"$0 \" . __FILE__ . \"\\n\"\n",
    );
    let real = |name: &str| {
        fs::canonicalize(directory.join("sub"))
            .unwrap()
            .join(name)
            .display()
            .to_string()
    };
    let at = |name: &str| directory.join(name).display().to_string();
    for (argv, expected) in [
        (vec![at("link/x")], format!("{} beside\n", at("link/x"))),
        (vec!["/bin/sh".into(), "link/x".into()], "link/x beside\n".into()),
        (
            vec!["/bin/bash".into(), "./sub/../sub/x".into()],
            "./sub/../sub/x beside\n".into(),
        ),
        (
            vec!["/usr/bin/python3".into(), "link/x.py".into()],
            format!("{} link/x.py beside\n", at("link/x.py")),
        ),
        (
            vec!["/usr/bin/node".into(), "link/x.js".into()],
            format!("{} beside\n", real("x.js")),
        ),
        (
            vec!["/usr/bin/perl".into(), "sub/x.pl".into()],
            "sub/x.pl sub/x.pl\n".into(),
        ),
    ] {
        if !Path::new(&argv[0]).exists() {
            skip(&format!("no {}", argv[0]));
            continue;
        }
        let pending = server.asked(json!({ "argv": argv, "workdir": directory })).await;
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(run["tail"], expected, "{argv:?}: {run}");
        assert_eq!(run["scripts"], "held", "{argv:?}: {run}");
    }
}

#[tokio::test]
async fn what_cannot_be_held_is_not_called_held() {
    let config = json!({ "host": "gateway", "security": "allowlist", "ask": "always" });
    let server = TestServer::asking().exec(&config).start().await;
    let directory = server.scratch().dir("work");
    fs::create_dir(directory.join("sub")).unwrap();
    write_file_mode(&directory.join("tool"), "#!/bin/sh\necho\n", 0o755);
    write_file_mode(&directory.join("plain"), "echo\n", 0o755);
    write_file(&directory.join("x.sh"), "echo\n");
    write_file(&directory.join("sub/x.sh"), "echo\n");
    write_file(&directory.join("x.mk"), "a:\n");
    let gains = directory.join("env");
    fs::copy("/usr/bin/env", &gains).unwrap();
    fs::set_permissions(&gains, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    for (command, expected) in [
        ("wc -l", Value::Null),
        ("./tool", json!("held")),
        ("sh x.sh", json!("held")),
        ("cd sub && sh x.sh", json!("held")),
        ("timeout 5 ./tool", json!("not held: started by another program")),
        ("./plain", json!("not held: its first line names no program")),
        ("sh -c 'cd sub; sh x.sh'", json!("not held: changes directory")),
        ("env -C sub sh x.sh", json!("not held: changes directory")),
        ("env --chd=sub sh x.sh", json!("not held: changes directory")),
        ("nice env -Csub sh x.sh", json!("not held: changes directory")),
        ("env -i sh x.sh", json!("held")),
        ("unshare -m sh x.sh", json!("not held: sees other files")),
        ("chroot / sh x.sh", json!("not held: sees other files")),
        ("make -s -f x.mk", json!("not held: make may read another file")),
        ("./env sh x.sh", json!("not held: gains privileges")),
        ("./env; sh x.sh", json!("not held: gains privileges")),
    ] {
        let body = json!({ "command": command, "workdir": directory });
        let explained = server.agent().explain(body.clone()).await;
        assert_eq!(
            explained.get("scripts").unwrap_or(&Value::Null),
            &expected,
            "{command}: {explained}"
        );
        let pending = server.asked(body).await;
        let approval = format!("/v1/approvals/{}", pending.text("approvalId"));
        let card = server.operator().read(&approval).await;
        assert_eq!(
            card.get("scripts").unwrap_or(&Value::Null),
            &expected,
            "{command}: {card}"
        );
        if expected != json!("held") && expected != Value::Null {
            assert_ne!(card["binding"], "exact", "{command}: {card}");
        }
        if let Some("not held: changes directory" | "not held: sees other files") = expected.as_str() {
            assert_eq!(card["binding"], "text", "{command}: {card}");
        }
        let run = server.answered(&pending, "allow-once").await;
        assert_eq!(
            run.get("scripts").unwrap_or(&Value::Null),
            &expected,
            "{command}: {run}"
        );
        assert_ne!(run["status"], "denied", "{command}: {run}");
    }
}

#[tokio::test]
async fn always_says_that_the_content_of_a_script_is_not_remembered() {
    let server = TestServer::asking().start().await;
    let script = server.scratch().join("tool");
    write_file_mode(&script, "#!/bin/sh\necho\n", 0o755);
    let notes = |body: Value| async {
        let pending = server.asked(body).await;
        let approval = format!("/v1/approvals/{}", pending.text("approvalId"));
        let card = server.operator().read(&approval).await;
        let proposed = card["proposedPatterns"].as_array().cloned().unwrap();
        assert!(!proposed.is_empty(), "{card}");
        proposed
            .iter()
            .map(|pattern| pattern["note"].clone())
            .collect::<Vec<_>>()
    };
    for note in notes(json!({ "argv": [script] })).await {
        assert!(
            note.as_str().is_some_and(|note| note.contains("not remembered")),
            "{note}"
        );
    }
    for note in notes(json!({ "argv": ["/usr/bin/id", "-u"] })).await {
        assert_eq!(note, Value::Null);
    }
}
