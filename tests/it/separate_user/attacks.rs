//! What the account of the commands may try against the server, and against what it believes.

use std::{
    fs,
    io::Write,
    os::unix::{
        fs::{chown, symlink},
        net::UnixListener,
    },
    path::Path,
};

use crate::support::{TestServer, eventually, is_alive, kill_hard, write_file, write_file_mode};

use super::{AccountsFixture, background, launcher, printed, processes, run, runner, until_there};

/// Succeeds against a server of the level `same-user`, fails against this one.
pub(super) async fn is_kept_out(
    free: &TestServer,
    separate: &TestServer,
    attack: impl Fn(&TestServer) -> String,
) {
    let real = run(free, &attack(free)).await;
    assert_has!(real, { "exitCode": 0 }, "no attack at all: {}\n{real:#}", attack(free));
    let tried = run(separate, &attack(separate)).await;
    assert!(
        tried["exitCode"].as_i64().is_some_and(|code| code != 0),
        "{}\n{tried:#}",
        attack(separate)
    );
}

#[tokio::test]
async fn nothing_of_the_server_can_be_read_changed_or_signalled() {
    let accounts = or_skip!(AccountsFixture::new());
    let separate = accounts.builder().start().await;
    let free = TestServer::full().start().await;
    for attack in [
        "cat STATE/countersign/operator.token",
        "cat STATE/countersign/gateway.token",
        "cat STATE/countersign/bridge.token",
        "cat STATE/countersign/audit.key",
        "cat STATE/countersign/server.json",
        "cat STATE/openclaw.json",
        "head -c 6 STATE/countersign/countersign.db | grep -q SQLite",
        "ls STATE",
        "ls STATE/countersign/runs STATE/countersign/output",
        "touch STATE/planted",
        "mv STATE STATE.away && mv STATE.away STATE",
        "curl --silent --max-time 5 --unix-socket STATE/countersign/api.sock http://localhost/healthz",
        "cat /proc/SERVER/environ",
        "ls /proc/SERVER/fd",
        "ls /proc/SERVER/root/",
        "head -c 1 /proc/SERVER/maps",
        "kill -CONT SERVER",
    ] {
        let filled = |server: &TestServer| {
            attack
                .replace("STATE", &server.state().to_string_lossy())
                .replace("SERVER", &server.pid().to_string())
        };
        is_kept_out(&free, &separate, filled).await;
    }
}

/// What lies open in the runner leads into the state directory.
#[tokio::test]
async fn the_runner_shows_nobody_what_it_holds() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let mut all = processes(&server, "__runner");
    all.push(launcher(&server));
    assert!(all.contains(&runner(&server)));
    for pid in all {
        for attack in [
            format!("ls /proc/{pid}/fd"),
            format!("cat /proc/{pid}/environ"),
            format!("head -c 1 /proc/{pid}/mem"),
            format!("for n in 3 4 5 6; do cd /proc/{pid}/fd/$n && exit 0; done; exit 1"),
        ] {
            let answer = run(&server, &attack).await;
            assert_ne!(answer["exitCode"], 0, "{attack}\n{answer:#}");
        }
    }
    // Nor does it hand anything down.
    assert_eq!(
        printed(&server, "ls /proc/self/fd | tr '\\n' ' '").await,
        "0 1 2 3 "
    );
}

/// A socket that notes that somebody came.
fn decoy(path: &Path) -> std::thread::JoinHandle<bool> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else {
            return false;
        };
        // A well-formed end: it would finish the run if it were believed.
        drop(stream.write_all(&[b'X', 0, 0, 0, 0]));
        true
    })
}

/// Ends a decoy by coming itself; whether somebody had come before.
fn had_a_visitor(decoy: std::thread::JoinHandle<bool>, path: &Path) -> bool {
    let came_before = decoy.is_finished();
    drop(std::os::unix::net::UnixStream::connect(path));
    decoy.join().unwrap();
    came_before
}

#[tokio::test]
async fn only_a_socket_of_the_account_is_attached_to_and_no_link_is_followed() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    let mut runs = Vec::new();
    for name in ["link", "foreign", "file", "honest"] {
        let run = background(
            &server,
            &format!("echo $$ > {name}; while ! test -e go; do sleep 0.05; done"),
        )
        .await;
        until_there(&accounts.workspace().join(name)).await;
        runs.push(run);
    }
    server.kill();
    let socket = |run: &str| accounts.state().join(format!("countersign/attach/{run}.s"));
    for run in &runs {
        until_there(&socket(run)).await;
    }
    // As if the account had got hold of the directory.
    let [link, foreign, file, honest] = runs.try_into().unwrap();
    let elsewhere = accounts.scratch.join("another-server.sock");
    let of_link = decoy(&elsewhere);
    chown(&elsewhere, Some(accounts.commands), None).unwrap();
    fs::remove_file(socket(&link)).unwrap();
    symlink(&elsewhere, socket(&link)).unwrap();
    fs::remove_file(socket(&foreign)).unwrap();
    let of_foreign = decoy(&socket(&foreign));
    chown(socket(&foreign), Some(accounts.server), None).unwrap();
    fs::remove_file(socket(&file)).unwrap();
    write_file_mode(&socket(&file), "exit 0", 0o666);
    chown(socket(&file), Some(accounts.commands), None).unwrap();

    server.start().await;
    assert_has!(server.agent().run(&honest).await, { "status": "running" }, "{}", server.log());
    for run in [&link, &foreign, &file] {
        // Nobody knows what became of it: neither finished nor started again.
        let record = server.agent().finished(run).await;
        assert_has!(record, { "status": "lost", "exitCode": null });
    }
    assert!(!had_a_visitor(of_link, &elsewhere), "a link was followed");
    assert!(
        !had_a_visitor(of_foreign, &socket(&foreign)),
        "somebody else's socket was connected to"
    );
    write_file(&accounts.workspace().join("go"), "");
    assert_eq!(server.agent().finished(&honest).await["status"], "completed");
    // The supervisors of the others still wait for a server.
    for pid in processes(&server, "__runner") {
        if !is_child_of(pid, runner(&server)) && pid != runner(&server) {
            kill_hard(pid);
        }
    }
}

fn is_child_of(pid: i32, parent: i32) -> bool {
    super::field(pid, "PPid") == parent.to_string()
}

#[tokio::test]
async fn a_spool_written_beyond_its_limit_is_cut() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts
        .builder()
        .toml("[output]\nmax_run_bytes = 1000\n")
        .start()
        .await;
    let run = background(
        &server,
        "echo $$ > started; while ! test -e go; do sleep 0.05; done; head -c 70000 /dev/zero",
    )
    .await;
    until_there(&accounts.workspace().join("started")).await;
    let spool = accounts.state().join(format!("countersign/output/{run}"));
    // As a supervisor could that was taken over.
    fs::File::options()
        .write(true)
        .open(&spool)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    write_file(&accounts.workspace().join("go"), "");
    let ended = server.agent().finished(&run).await;
    assert_eq!(ended["status"], "completed", "{ended:#}");
    let length = || std::future::ready(fs::metadata(&spool).map_or(0, |metadata| metadata.len()));
    // Each byte in a frame of its own with its time, and what is neither output nor its time.
    let most = 1000 * 19 + (1 << 20);
    eventually("cut", length, |length| *length <= most).await;
}

/// Only the account of the server is listened to by a supervisor that waits for one.
#[tokio::test]
async fn a_waiting_supervisor_obeys_nobody_else() {
    let accounts = or_skip!(AccountsFixture::new());
    let mut server = accounts.builder().start().await;
    let run = background(&server, "echo $$ > started; sleep 1000").await;
    until_there(&accounts.workspace().join("started")).await;
    let pid: i32 = fs::read_to_string(accounts.workspace().join("started"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    server.kill();
    let socket = accounts.state().join(format!("countersign/attach/{run}.s"));
    // Its name is there a moment before it listens.
    let connect = || std::future::ready(std::os::unix::net::UnixStream::connect(&socket));
    // Root gets through the edge, but it is not the server.
    let mut stream = eventually("a supervisor that listens", connect, Result::is_ok)
        .await
        .unwrap();
    drop(stream.write_all(&[b'K', 1, 0, 0, 0, 2]));
    let mut nothing = [0; 1];
    let read = std::io::Read::read(&mut stream, &mut nothing);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert!(is_alive(pid));
    server.start().await;
    assert_eq!(server.agent().run(&run).await["status"], "running");
    server.agent().cancel(&run).await;
    server.agent().finished(&run).await;
}
