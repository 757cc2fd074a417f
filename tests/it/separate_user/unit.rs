//! The runner as a unit of its own: neither the server nor the runner is or was root.

use std::{
    fs::{self, File},
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use serde_json::{Value, json};

use crate::support::{
    Invocation, Members, ProcessHandle, Scratch, ServerBuilder, TestServer, countersign, eventually,
    is_alive, kill_hard, pid_of, processes_of, program, run_program, skip, within, write_file,
    write_file_mode,
};

use super::{
    AccountsFixture, BAD_SETTINGS, STARTED, attacks::is_kept_out, background, field,
    have_their_account_and_nothing_else, printed, run, until_there,
};

/// A runner's unit that a test started. Dropping it, which must come after its server, kills it and fails the test when
/// something that it started is left.
struct Unit {
    child: Child,
    log: PathBuf,
}

impl Unit {
    fn start(invocation: &Invocation, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        Self {
            child: invocation.start(Stdio::from(file)),
            log: log.to_owned(),
        }
    }

    /// One that listens where the server looks.
    async fn of(accounts: &AccountsFixture) -> Self {
        Self::behind(accounts, "sh", &["-c", "exec \"$@\"", "sh"]).await
    }

    /// The same, started by a program that becomes it.
    async fn behind(accounts: &AccountsFixture, wrapper: &str, arguments: &[&str]) -> Self {
        let invocation = as_account(
            runner(accounts.server).arg("--socket").arg(socket(accounts)),
            accounts.commands,
        );
        let log = accounts.scratch.join(&format!(
            "unit-{}.log",
            fs::read_dir(accounts.scratch.path()).unwrap().count()
        ));
        let unit = Self::start(&invocation.behind(wrapper, arguments), &log);
        unit.says("runner ready").await;
        unit
    }

    fn pid(&self) -> i32 {
        pid_of(&self.child)
    }

    async fn says(&self, words: &str) {
        let log = || std::future::ready(fs::read_to_string(&self.log).unwrap_or_default());
        eventually("said", log, |log| log.contains(words)).await;
    }

    fn runners(&self) -> Vec<i32> {
        self.children("__runner")
    }

    /// Its children in this mode.
    fn children(&self, mode: &str) -> Vec<i32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        let is_mode = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(mode.as_bytes())
        };
        children
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .filter(is_mode)
            .collect()
    }

    /// Kills it while its server goes on.
    fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let below = match self.child.try_wait() {
            Ok(None) => processes_of(Some(self.pid()), Path::new("/nonexistent")),
            Ok(Some(_)) | Err(_) => Vec::new(),
        };
        self.kill();
        let left: Vec<i32> = below
            .iter()
            .filter(|process| !process.wait(std::time::Duration::from_secs(20)))
            .map(|process| process.pid)
            .collect();
        for pid in &left {
            kill_hard(*pid);
        }
        assert!(std::thread::panicking() || left.is_empty(), "left over: {left:?}");
    }
}

fn runner(server: u32) -> Invocation {
    countersign()
        .arg("runner")
        .arg("--server-account")
        .arg(server.to_string())
}

fn as_account(invocation: Invocation, account: u32) -> Invocation {
    invocation.run_as(account).cwd(Path::new("/"))
}

/// Where the unit of a test listens: a directory of its account that gives what is made in it the server's group.
fn socket(accounts: &AccountsFixture) -> PathBuf {
    let directory = accounts.scratch.join("run");
    if !directory.exists() {
        fs::create_dir(&directory).unwrap();
        chown(&directory, Some(accounts.commands), Some(accounts.server)).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o2755)).unwrap();
    }
    directory.join("runner.sock")
}

/// A server that is not root and never was.
fn builder(accounts: &AccountsFixture) -> ServerBuilder {
    with_exec(
        accounts,
        &json!({ "host": "gateway", "security": "full", "ask": "off" }),
    )
}

fn with_exec(accounts: &AccountsFixture, exec: &Value) -> ServerBuilder {
    for_account(accounts, exec, accounts.commands).run_as(accounts.server)
}

fn for_account(accounts: &AccountsFixture, exec: &Value, account: u32) -> ServerBuilder {
    TestServer::full()
        .config(&json!({
            "tools": { "exec": exec },
            "agents": { "defaults": { "workspace": accounts.workspace() } },
        }))
        // Apart from what belongs to the server: the unit, which goes on without one, has a place in it open.
        .state_dir(&accounts.state())
        .owned_by(accounts.server)
        .env(
            "COUNTERSIGN_EXEC__RUNNER_SOCKET",
            &socket(accounts).to_string_lossy(),
        )
        .argument("--run-as")
        .argument(&account.to_string())
}

async fn is_refused(builder: ServerBuilder, because: &[&str]) {
    let server = builder.prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    for because in because {
        assert!(
            server.log().contains(because),
            "wanted {because:?}: {}",
            server.log()
        );
    }
}

#[tokio::test]
async fn commands_have_the_account_its_limits_and_nothing_of_the_servers() {
    let accounts = or_skip!(AccountsFixture::new());
    let _unit = Unit::behind(&accounts, "sh", &["-c", STARTED, "sh"]).await;
    let server = builder(&accounts)
        .env("A_SECRET_OF_THE_SERVER", "hush")
        .start()
        .await;
    let own = accounts.server;
    assert_eq!(field(server.pid(), "Uid"), format!("{own} {own} {own} {own}"));
    assert_eq!(field(server.pid(), "NoNewPrivs"), "1");
    have_their_account_and_nothing_else(&server, &accounts).await;
    let answer = run(&server, "head -c 3000000 /dev/zero").await;
    let run_id = answer.text("runId");
    let output = server.agent().get(&format!("/v1/runs/{run_id}/output")).await;
    assert_eq!(output.bytes.len(), 3_000_000);
    let record = server.agent().run(run_id).await;
    assert_eq!(record["isolation"], "separate-user");
    let ready = server.anonymous().read("/readyz").await;
    assert_eq!(ready["degraded"], false, "{ready:#}");
}

#[tokio::test]
async fn nothing_of_the_server_or_the_runner_can_be_read_or_changed() {
    let accounts = or_skip!(AccountsFixture::new());
    let unit = Unit::of(&accounts).await;
    let separate = builder(&accounts).start().await;
    let free = TestServer::full().start().await;
    for attack in [
        "cat STATE/countersign/operator.token",
        "cat STATE/countersign/audit.key",
        "ls STATE/countersign/runs STATE/countersign/output",
        "touch STATE/planted",
        "cat /proc/SERVER/environ",
        "ls /proc/SERVER/fd",
        "kill -CONT SERVER",
    ] {
        let filled = |server: &TestServer| {
            attack
                .replace("STATE", &server.state().to_string_lossy())
                .replace("SERVER", &server.pid().to_string())
        };
        is_kept_out(&free, &separate, filled).await;
    }
    let mut all = unit.runners();
    assert_eq!(all.len(), 1);
    all.push(unit.pid());
    for pid in all {
        for attack in [
            format!("ls /proc/{pid}/fd"),
            format!("cat /proc/{pid}/environ"),
            format!("head -c 1 /proc/{pid}/mem"),
            format!("for n in 3 4 5 6; do cd /proc/{pid}/fd/$n && exit 0; done; exit 1"),
        ] {
            let answer = run(&separate, &attack).await;
            assert_ne!(answer["exitCode"], 0, "{attack}\n{answer:#}");
        }
    }
}

#[tokio::test]
async fn the_login_shell_is_asked_as_the_account() {
    let accounts = or_skip!(AccountsFixture::new());
    let shells = accounts.scratch.dir("shells");
    fs::set_permissions(&shells, fs::Permissions::from_mode(0o755)).unwrap();
    let asked = accounts.workspace().join("asked");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = -l ]; then\n  shift\n  PATH=/from/login:/usr/bin:/bin\n  export PATH\n  id -u > {}\nfi\n\
         exec /bin/sh \"$@\"\n",
        asked.display()
    );
    write_file_mode(&shells.join("sh"), script, 0o755);
    let _unit = Unit::of(&accounts).await;
    let toml = format!("[exec]\nshell = \"{}\"\n", shells.join("sh").display());
    let server = builder(&accounts).without_toml().toml(&toml).start().await;
    assert_eq!(
        fs::read_to_string(&asked).unwrap(),
        format!("{}\n", accounts.commands),
        "{}",
        server.log()
    );
    let path = printed(&server, "echo $PATH").await;
    assert!(path.contains("/from/login"), "{path}");
}

#[tokio::test]
async fn a_background_run_outlives_a_killed_server_and_is_attached_to_again() {
    let accounts = or_skip!(AccountsFixture::new());
    let unit = Unit::of(&accounts).await;
    let mut server = builder(&accounts).start().await;
    let text = "echo early; echo $$ > started; while ! test -e go; do sleep 0.05; done; echo end";
    let going_on = background(&server, text).await;
    until_there(&accounts.workspace().join("started")).await;
    server.kill();
    unit.says("the server is gone").await;
    let waiting = server.state().join(format!("countersign/attach/{going_on}.s"));
    until_there(&waiting).await;

    // The next server gets a runner of its own; the old one lives as long as its run.
    server.start().await;
    let live = server.agent().run(&going_on).await;
    assert_eq!(live["status"], "running", "{live:#}\n{}", server.log());
    assert_eq!(unit.runners().len(), 2);
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
    write_file(&accounts.workspace().join("go"), "");
    let ended = server.agent().finished(&going_on).await;
    assert_has!(ended, { "status": "completed", "tail": "early\nend\n" });
    let runners = || std::future::ready(unit.runners());
    eventually("one runner, and the other reaped", runners, |runners| {
        runners.len() == 1
    })
    .await;
}

#[tokio::test]
async fn without_its_unit_a_server_starts_nothing_until_there_is_another() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut unit = Unit::of(&accounts).await;
    let again;
    let server = builder(&accounts).start().await;
    let text = "echo $$ > started; while ! test -e go; do sleep 0.05; done; echo end";
    let going_on = background(&server, text).await;
    until_there(&accounts.workspace().join("started")).await;
    unit.kill();
    let readiness = || async { server.anonymous().read("/readyz").await };
    let is_told = |ready: &Value| ready["checks"]["runner"]["ok"] == false && ready["degraded"] == true;
    eventually("told", readiness, is_told).await;
    let refused = run(&server, "touch must-not-be").await;
    assert_has!(refused, { "status": "failed", "reason": "not-started" });
    assert!(!accounts.workspace().join("must-not-be").exists());

    again = Unit::of(&accounts).await;
    let is_well = |ready: &Value| ready["degraded"] == false;
    eventually("well again", readiness, is_well).await;
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
    assert_eq!(again.runners().len(), 1);
    // What ran when the unit went was not touched.
    write_file(&accounts.workspace().join("go"), "");
    let ended = server.agent().finished(&going_on).await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
}

#[tokio::test]
async fn a_runner_that_commands_kill_is_replaced_by_its_unit() {
    let accounts = or_skip!(AccountsFixture::new());
    let unit = Unit::of(&accounts).await;
    let server = builder(&accounts).start().await;
    let before = unit.runners()[0];
    run(&server, &format!("kill -9 {before}")).await;
    let runners = || std::future::ready(unit.runners());
    let is_replaced = |runners: &Vec<i32>| runners.iter().any(|pid| *pid != before);
    eventually("replaced", runners, is_replaced).await;
    assert_eq!(
        printed(&server, "id -u").await,
        format!("{}\n", accounts.commands)
    );
    // A file broker that does not answer any more, too.
    let broker = unit.children("__eyes");
    run(&server, &format!("kill -9 {}", broker[0])).await;
    let answers = || async {
        let call = json!({ "command": "id -u", "yieldMs": 60_000 });
        server.agent().exec(call).await.status
    };
    eventually("seen again", answers, |status| *status == 200).await;
}

#[tokio::test]
async fn a_second_server_is_refused_while_there_is_one() {
    let accounts = or_skip!(AccountsFixture::new());
    let unit = Unit::of(&accounts).await;
    let mut server = builder(&accounts).start().await;
    let second = builder(&accounts).state_dir(&accounts.scratch.join("second"));
    is_refused(second, &["it serves another server"]).await;
    unit.says("a second server was sent away").await;
    assert_eq!(printed(&server, "echo fine").await, "fine\n");
    assert_eq!(server.stop().await, Some(0));
    // Its place is free then.
    let next = builder(&accounts).start().await;
    assert_eq!(printed(&next, "echo fine").await, "fine\n");
}

/// As the packaged unit has it (`ProtectHome=`, `PrivateTmp=`): the server sees other mounts than commands do.
#[tokio::test]
async fn a_server_need_not_see_the_files_of_the_commands() {
    let accounts = or_skip!(AccountsFixture::new());
    let _unit = Unit::of(&accounts).await;
    let hide = format!(
        "mount -t tmpfs none {} && mount -t tmpfs none /home && exec \"$@\"",
        accounts.workspace().display()
    );
    let script = accounts.workspace().join("greet");
    write_file_mode(&script, "#!/bin/sh\necho hello from $PWD\n", 0o755);
    let hidden = ["--mount", "--propagation", "private", "sh", "-c", &hide, "sh"];
    let server = builder(&accounts).behind("unshare", &hidden).start().await;
    let expect = format!("hello from {}\n", accounts.workspace().display());
    assert_eq!(printed(&server, "./greet").await, expect);
    let judged = server.ran(json!({ "argv": [script], "yieldMs": 60_000 })).await;
    assert_eq!(judged["stdout"], expect, "{judged:#}");
}

/// Connects as an account, and says what it hears.
fn visit(accounts: &AccountsFixture, account: u32) -> String {
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.settimeout(50)\n\
                  s.connect(sys.argv[1])\ntry: print(s.recv(64)[:1].decode())\nexcept ConnectionError: print()";
    let python = Invocation::new("/usr/bin/python3")
        .args(&["-I", "-c", script])
        .arg(socket(accounts));
    let visited = run_program(&as_account(python, account));
    assert_eq!(visited.code, Some(0), "{visited:?}");
    visited.stdout
}

#[tokio::test]
async fn the_runner_serves_nobody_but_the_account_of_the_server() {
    or_skip!(
        Path::new("/usr/bin/python3").exists(),
        "there is no Python to connect with"
    );
    let accounts = or_skip!(AccountsFixture::new());
    let unit = Unit::of(&accounts).await;
    // Past the edge, so that it is the unit that refuses.
    fs::set_permissions(socket(&accounts), fs::Permissions::from_mode(0o666)).unwrap();
    let third = accounts.server + 5;
    for stranger in [third, accounts.commands, 0] {
        assert_eq!(visit(&accounts, stranger), "\n", "{stranger}");
        unit.says(&format!("user {stranger} was sent away")).await;
    }
    assert_eq!(visit(&accounts, accounts.server), "w\n");
    // It serves on.
    fs::set_permissions(socket(&accounts), fs::Permissions::from_mode(0o660)).unwrap();
    let server = builder(&accounts).start().await;
    assert_eq!(printed(&server, "echo fine").await, "fine\n");
}

#[tokio::test]
async fn a_server_believes_no_socket_of_anybody_else() {
    let accounts = or_skip!(AccountsFixture::new());
    let third = accounts.server + 5;
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let for_third = || for_account(&accounts, &exec, third).run_as(accounts.server);
    let path = socket(&accounts);
    let name = accounts.commands;

    // Positive control is every other test: the same socket, and the account that it is of.
    let _unit = Unit::of(&accounts).await;
    is_refused(for_third(), &[&format!("belongs to user {name}")]).await;
    chown(&path, Some(third), None).unwrap();
    is_refused(for_third(), &["can be replaced by others"]).await;
    is_refused(builder(&accounts), &[&format!("belongs to user {third}")]).await;
    let directory = path.parent().unwrap();
    chown(directory, Some(0), None).unwrap();
    is_refused(for_third(), &[&format!("user {name} answers there")]).await;
    chown(&path, Some(accounts.commands), None).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    is_refused(builder(&accounts), &["is open to everybody"]).await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    is_refused(builder(&accounts), &["run can be replaced by others"]).await;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    let moved = directory.join("moved.sock");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    is_refused(builder(&accounts), &["is no socket"]).await;
    fs::remove_file(&path).unwrap();
    fs::rename(&moved, &path).unwrap();
    let server = builder(&accounts).start().await;
    assert_eq!(printed(&server, "echo fine").await, "fine\n");
}

#[tokio::test]
async fn without_a_unit_a_start_fails_and_names_both_ways() {
    let accounts = or_skip!(AccountsFixture::new());
    let both = [
        "runner.sock is not there",
        "only root can start commands under another account",
        "sudo countersign serve --run-as",
        "systemctl enable --now countersign-runner@",
    ];
    is_refused(builder(&accounts), &both).await;
    // What a unit that is gone left there.
    drop(Unit::of(&accounts).await);
    assert!(socket(&accounts).exists());
    is_refused(builder(&accounts), &["it does not answer"]).await;
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let same = for_account(&accounts, &exec, accounts.server).run_as(accounts.server);
    is_refused(same, &["is the account of the server"]).await;
}

/// A service manager that listens as root and starts the unit when somebody comes.
struct Manager(Child);

impl Manager {
    async fn of(accounts: &AccountsFixture) -> Option<Self> {
        let Some(activate) = program("systemd-socket-activate") else {
            skip("systemd-socket-activate is not installed");
            return None;
        };
        let path = socket(accounts);
        let directory = path.parent().unwrap();
        chown(directory, Some(0), Some(0)).unwrap();
        let log = File::create(accounts.scratch.join("manager.log")).unwrap();
        let unit = as_account(runner(accounts.server), accounts.commands);
        let listen = ["--seqpacket", "--listen", path.to_str().unwrap()];
        let manager = Self(
            unit.behind(activate.to_str().unwrap(), &listen)
                .start(Stdio::from(log)),
        );
        until_there(&path).await;
        // SocketGroup= and SocketMode= of the packaged unit.
        chown(&path, Some(0), Some(accounts.server)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
        Some(manager)
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn a_unit_takes_the_socket_that_a_service_manager_listens_at() {
    let accounts = or_skip!(AccountsFixture::new());
    let manager = or_skip!(Manager::of(&accounts).await);
    let mut server = builder(&accounts).start().await;
    // It became what was started, and so the unit.
    let unit = pid_of(&manager.0);
    let own = accounts.commands;
    assert_eq!(field(unit, "Uid"), format!("{own} {own} {own} {own}"));
    assert_eq!(printed(&server, "id -u").await, format!("{own}\n"));
    let going_on = background(
        &server,
        "echo $$ > started; while ! test -e go; do sleep 0.05; done",
    )
    .await;
    until_there(&accounts.workspace().join("started")).await;
    server.kill();
    server.start().await;
    assert_eq!(server.agent().run(&going_on).await["status"], "running");
    write_file(&accounts.workspace().join("go"), "");
    assert_eq!(server.agent().finished(&going_on).await["status"], "completed");
}

/// Root listens for whatever unit it starts, so who answers counts, too.
#[tokio::test]
async fn a_service_manager_that_starts_another_account_is_not_believed() {
    let accounts = or_skip!(AccountsFixture::new());
    let _manager = or_skip!(Manager::of(&accounts).await);
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off" });
    let for_third = for_account(&accounts, &exec, accounts.server + 5).run_as(accounts.server);
    is_refused(for_third, &[&format!("user {} answers there", accounts.commands)]).await;
}

/// After an update the unit may still be the old program.
#[tokio::test]
async fn a_unit_of_another_version_is_asked_once_to_make_way() {
    or_skip!(
        Path::new("/usr/bin/python3").exists(),
        "there is no Python to be another version"
    );
    let accounts = or_skip!(AccountsFixture::new());
    let script = "import os,socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.bind(sys.argv[1])\n\
                  os.chmod(sys.argv[1],0o660)\ns.listen(8)\nprint('runner ready',file=sys.stderr,flush=True)\n\
                  while True:\n  c,_=s.accept()\n  c.send(b'w0.0.0')\n  c.settimeout(50)\n  \
                  print('heard',c.recv(64).decode() or 'nothing',file=sys.stderr,flush=True)\n";
    let other = Invocation::new("/usr/bin/python3")
        .args(&["-I", "-c", script])
        .arg(socket(&accounts));
    let log = accounts.scratch.join("other.log");
    let other = Unit::start(&as_account(other, accounts.commands), &log);
    other.says("runner ready").await;
    is_refused(builder(&accounts), &["it is version 0.0.0"]).await;
    other.says("heard nothing").await;
    let heard = fs::read_to_string(&log).unwrap();
    assert_eq!(heard.matches("heard outdated").count(), 1, "{heard}");
    drop(other);

    // A real one ends when it is asked.
    fs::remove_file(socket(&accounts)).unwrap();
    let mut unit = Unit::of(&accounts).await;
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\n\
                  s.recv(64)\ns.send(b'outdated')\n";
    let python = Invocation::new("/usr/bin/python3")
        .args(&["-I", "-c", script])
        .arg(socket(&accounts));
    let asked = run_program(&as_account(python, accounts.server));
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let pid = unit.pid();
    let ended = tokio::task::spawn_blocking(move || {
        ProcessHandle::open(pid).is_none_or(|handle| handle.wait(std::time::Duration::from_mins(1)))
    });
    assert!(within("the end", ended).await.unwrap());
    assert_eq!(unit.child.wait().unwrap().code(), Some(0));
}

/// Commands can stop the unit, which is of their account. Nothing is believed meanwhile, and nothing hangs for ever.
#[tokio::test]
async fn a_unit_that_is_killed_by_commands_takes_nothing_of_the_server_along() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut unit = Unit::of(&accounts).await;
    let again;
    let server = builder(&accounts).start().await;
    let answer = run(&server, &format!("kill -9 {} {}", server.pid(), unit.pid())).await;
    assert_ne!(answer["exitCode"], 0, "the server is not theirs: {answer:#}");
    assert!(is_alive(server.pid()));
    // A service manager starts it again when it has ended.
    let ended = || std::future::ready(unit.child.try_wait().expect("a child"));
    eventually("ended", ended, Option::is_some).await;
    again = Unit::of(&accounts).await;
    let readiness = || async { server.anonymous().read("/readyz").await };
    let runs = || async { run(&server, "id -u").await["stdout"].clone() };
    eventually("runs again", runs, |stdout| {
        *stdout == format!("{}\n", accounts.commands)
    })
    .await;
    eventually("well again", readiness, |ready| ready["degraded"] == false).await;
    assert_eq!(again.runners().len(), 1);
}

#[test]
fn a_unit_that_cannot_be_one_says_why() {
    let accounts = or_skip!(AccountsFixture::new());
    let path = socket(&accounts);
    let fails = |invocation: Invocation, because: &str| {
        let ended = run_program(&invocation);
        assert_eq!(ended.code, Some(BAD_SETTINGS), "{ended:?}");
        assert!(ended.stderr.contains(because), "wanted {because:?}: {ended:?}");
    };
    let with_socket = || runner(accounts.server).arg("--socket").arg(&path);
    fails(with_socket(), "this is root");
    fails(
        as_account(with_socket(), accounts.server),
        "this is the account of the server",
    );
    fails(
        as_account(runner(accounts.server), accounts.commands),
        "no socket was passed",
    );
    let unknown = countersign().args(&["runner", "--server-account", "no-such-account"]);
    fails(unknown, "there is no account no-such-account");
    let passed = |count: &str| {
        let script = format!("LISTEN_PID=$$ LISTEN_FDS={count} exec \"$@\" 3< /dev/null");
        as_account(runner(accounts.server), accounts.commands).behind("sh", &["-c", &script, "sh"])
    };
    fails(passed("2"), "2 sockets were passed");
    fails(passed("1"), "descriptor 3 is no listening Unix socket");
    // Variables that were meant for somebody else.
    let inherited = as_account(runner(accounts.server), accounts.commands)
        .env("LISTEN_PID", "1")
        .env("LISTEN_FDS", "1");
    fails(inherited, "no socket was passed");
    write_file(&path, "something");
    fails(
        as_account(with_socket(), accounts.commands),
        "is no socket of this account",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "something");
    let nowhere = Scratch::new();
    let elsewhere = runner(accounts.server)
        .arg("--socket")
        .arg(nowhere.join("x/runner.sock"));
    fails(as_account(elsewhere, accounts.commands), "cannot be listened at");
}

#[tokio::test]
async fn two_units_do_not_share_a_socket() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut first = Unit::of(&accounts).await;
    let second = as_account(
        runner(accounts.server).arg("--socket").arg(socket(&accounts)),
        accounts.commands,
    );
    let ended = run_program(&second);
    assert_eq!(ended.code, Some(BAD_SETTINGS), "{ended:?}");
    assert!(ended.stderr.contains("another runner listens"), "{ended:?}");
    // One that was killed leaves its socket, and the next takes its place.
    first.kill();
    let _next = Unit::of(&accounts).await;
    let server = builder(&accounts).start().await;
    assert_eq!(printed(&server, "echo fine").await, "fine\n");
}
