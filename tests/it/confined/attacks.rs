//! What a confined command may try. Each attack that can be shown to be real is tried by an agent at the level
//! `same-user` as well, and succeeds there.

use std::{
    fs,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::PermissionsExt,
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::support::{Members, Scratch, TestServer, eventually, skip, soon, write_file};

use super::{ACCOUNT, FREE, builder, give, possible, run};

/// Succeeds for an agent that is not confined, fails for one that is.
async fn is_kept_out(server: &TestServer, attack: &str) {
    let free = run(server, FREE, attack).await;
    assert_eq!(free["exitCode"], 0, "no attack at all: {attack}\n{free:#}");
    fails(server, attack).await;
}

/// Fails for an agent that is confined.
async fn fails(server: &TestServer, attack: &str) {
    let confined = run(server, "main", attack).await;
    assert!(
        confined["exitCode"].as_i64().is_some_and(|code| code != 0),
        "{attack}\n{confined:#}"
    );
}

/// Connects to a Unix socket; the path is the script's first argument.
fn connecting(path: &Path) -> String {
    format!(
        "curl --silent --max-time 5 --unix-socket {} http://localhost/healthz",
        path.display()
    )
}

#[tokio::test]
async fn nothing_of_the_server_can_be_read_or_changed() {
    or_skip!(possible());
    let server = builder().start().await;
    let state = server.state().display();
    for attack in [
        format!("cat {state}/countersign/operator.token"),
        format!("cat {state}/countersign/gateway.token"),
        format!("cat {state}/countersign/bridge.token"),
        format!("cat {state}/countersign/audit.key"),
        format!("cat {state}/countersign/server.json"),
        format!("cat {state}/openclaw.json"),
        format!("cat {state}/countersign/countersign.toml"),
        format!("head -c 6 {state}/countersign/countersign.db | grep -q SQLite"),
        format!("ls {state}/countersign/runs {state}/countersign/output"),
        format!("test -w {state}/openclaw.json"),
        format!("touch {state}/planted && rm {state}/planted"),
        format!("mkdir {state}/countersign/planted && rmdir {state}/countersign/planted"),
        format!("mv {state}/openclaw.json {state}/x && mv {state}/x {state}/openclaw.json"),
        format!("mv {state} {state}.away && mv {state}.away {state}"),
        connecting(&server.state().join("countersign/api.sock")),
        // Ways around the path.
        format!("cd {state}/workspace && cat ../countersign/operator.token"),
        format!("cd {state}/workspace && cd -P .. && cat countersign/operator.token"),
        format!(
            "rm -f {state}/workspace/l && ln -s ../countersign {state}/workspace/l && cat {state}/workspace/l/operator.token"
        ),
        "cat /proc/self/cwd/../countersign/operator.token".to_owned(),
        format!("cat /proc/self/root{state}/countersign/operator.token"),
        format!(
            "cd {state}/countersign/sandboxes 2>/dev/null || mkdir -p {state}/countersign/sandboxes && cd {state}/countersign/sandboxes && cat ../operator.token"
        ),
    ] {
        is_kept_out(&server, &attack).await;
    }
    // A working directory that is hidden.
    let call = json!({ "command": "cat operator.token", "workdir": server.state().join("countersign") });
    let answer = server.ran(call).await;
    let record = server.agent().run(answer.text("runId")).await;
    assert_has!(record, { "status": "failed", "reason": "spawn-failed" });
    // Descriptors that came along would lead outside.
    fails(
        &server,
        "for f in /proc/self/fd/* /proc/$$/fd/* /proc/self/exe /proc/self/cwd; do\n\
         for p in countersign/operator.token ../operator.token ../countersign/operator.token; do\n\
         cat $f/$p && exit 0; done; done; exit 1",
    )
    .await;
}

#[tokio::test]
async fn other_processes_of_the_account_lead_nowhere() {
    or_skip!(possible());
    let server = builder().start().await;
    let state = server.state().display();
    let call = json!({ "argv": ["sleep", "300"], "agentId": FREE, "background": true, "env": { "WORD": "pineapple" } });
    let sleeping = server.accepted(call).await;
    let sleeping = sleeping.text("runId").to_owned();
    let pid = eventually(
        "running",
        || async { server.agent().run(&sleeping).await["pid"].clone() },
        |pid| !pid.is_null(),
    )
    .await;
    for attack in [
        format!("tr '\\0' '\\n' < /proc/{pid}/environ | grep pineapple"),
        format!("cat /proc/{pid}/root{state}/countersign/operator.token"),
        format!("cat /proc/{pid}/cwd/../countersign/operator.token"),
        format!("cat /proc/[0-9]*/root{state}/countersign/operator.token 2>/dev/null | grep ."),
        format!("nsenter --user --mount --target {pid} true || head -c 0 /proc/{pid}/mem"),
        format!("readlink /proc/{pid}/fd/0"),
        // The server, its runner and its supervisors can be told to stop.
        format!("kill -0 {}", server.pid()),
        "kill -0 $PPID".to_owned(),
        format!("kill -0 {pid}"),
    ] {
        if attack.starts_with("kill") && !countersign_sys::namespace::has_scopes() {
            skip("this kernel has no Landlock scopes");
            continue;
        }
        is_kept_out(&server, &attack).await;
    }
    for process in [server.pid().to_string(), "$PPID".to_owned()] {
        for part in ["environ", "mem", "maps"] {
            fails(&server, &format!("head -c 1 /proc/{process}/{part}")).await;
        }
        for part in ["root/", "fd/", "cwd/"] {
            fails(&server, &format!("ls /proc/{process}/{part}")).await;
        }
    }
    // Where Yama keeps everybody from attaching there is nothing to show.
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if Path::new("/usr/bin/strace").exists() && yama.is_ok_and(|scope| scope.trim() != "0") {
        skip("Yama forbids attaching to processes");
    } else if Path::new("/usr/bin/strace").exists() {
        // It says on standard error that it is attached, or ends.
        let attach = format!(
            "f=$(mktemp) || exit 0; strace -o /dev/null -p {pid} 2> $f & s=$!; \
             until grep -q attached $f; do kill -0 $s || exit 1; sleep 0.05; done; kill $s; wait $s; exit 0"
        );
        is_kept_out(&server, &attach).await;
    }
    let cancel = format!("/v1/runs/{sleeping}/cancel");
    server.agent().posted(&cancel, json!({})).await;
    server.agent().finished(&sleeping).await;
}

#[tokio::test]
async fn one_confined_command_cannot_get_at_another() {
    or_skip!(possible());
    or_skip!(
        countersign_sys::namespace::has_scopes(),
        "this kernel has no Landlock scopes"
    );
    let server = builder().start().await;
    let call = json!({ "argv": ["sleep", "300"], "background": true, "env": { "WORD": "pineapple" } });
    let sleeping = server.accepted(call).await;
    let sleeping = sleeping.text("runId").to_owned();
    let pid = eventually(
        "running",
        || async { server.agent().run(&sleeping).await["pid"].clone() },
        |pid| !pid.is_null(),
    )
    .await;
    fails(&server, &format!("kill -0 {pid}")).await;
    fails(&server, &format!("grep -a pineapple /proc/{pid}/environ")).await;
    let cancel = format!("/v1/runs/{sleeping}/cancel");
    server.agent().posted(&cancel, json!({})).await;
    assert_eq!(server.agent().finished(&sleeping).await["status"], "cancelled");
}

#[tokio::test]
async fn namespaces_of_its_own_uncover_nothing() {
    or_skip!(possible());
    let server = builder().start().await;
    let state = server.state().display().to_string();
    let above = server.scratch().path().display().to_string();
    let token = "state/countersign/operator.token";
    // The positive control of all of them: with namespaces of its own a command sees what it saw before.
    is_kept_out(&server, &format!("unshare -Urm cat {above}/{token}")).await;
    let place = format!("p={above}/home/place && mkdir -p $p");
    for attack in [
        format!("umount {state}; cat {above}/{token}"),
        format!("umount -l {state}; cat {above}/{token}"),
        format!("umount -R {state}; umount -l /run; cat {above}/{token} || ls /run/dbus"),
        format!("{place}; mount --bind {above} $p; cat $p/{token}"),
        format!("{place}; mount --rbind {above} $p; umount -l $p/state; cat $p/{token}"),
        format!(
            "{place}; mount --rbind / $p; mount --make-rprivate $p; umount -l $p{state}; cat $p{above}/{token}"
        ),
        format!(
            "{place}; mkdir -p $p/u $p/w $p/m; mount -t overlay x -o lowerdir={above},upperdir=$p/u,workdir=$p/w $p/m; cat $p/m/{token}"
        ),
        format!("{place}; mount -t overlay x -o lowerdir={above}:/etc $p; cat $p/{token}"),
        format!("{place}; mount --move {state} $p; cat {above}/{token}"),
        format!("mount -o remount,rw {state}; touch {state}/planted"),
        format!("mount -o remount,rw,bind {state}; touch {state}/planted"),
        format!(
            "{place}; mount --rbind / $p; cd $p; mkdir -p tmp/old; pivot_root . tmp/old; umount -l {state}; cat {above}/{token}"
        ),
        format!(
            "nsenter --mount=/proc/{}/ns/mnt cat {above}/{token}",
            server.pid()
        ),
        format!("nsenter --mount=/proc/1/ns/mnt cat {above}/{token}"),
        format!(
            "mount -t proc proc /proc; cat /proc/1/root{above}/{token} /proc/{}/root{above}/{token}",
            server.pid()
        ),
    ] {
        fails(&server, &format!("unshare -Urm sh -c '{attack}'")).await;
        fails(&server, &format!("unshare -Urmpf sh -c '{attack}'")).await;
    }
    // Without namespaces there is not even the right to try.
    for attack in [
        "umount /run",
        "mount -t tmpfs x /tmp",
        "unshare -m true",
        "chroot / true",
    ] {
        fails(&server, attack).await;
    }
    fails(&server, "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status").await;
    fails(&server, "grep -q 'CapBnd:.*[1-9a-f]' /proc/self/status").await;
}

/// A socket that answers nobody, but can be connected to.
struct Listening {
    path: PathBuf,
    _listener: UnixListener,
}

impl Listening {
    fn at(path: PathBuf) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        Self {
            path,
            _listener: listener,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

/// curl: connected, but nobody answered in time. Otherwise it could not connect.
fn connects(path: &Path) -> String {
    format!(
        "curl --silent --max-time 0.3 --unix-socket {} http://localhost/; test $? = 28",
        path.display()
    )
}

#[tokio::test]
async fn sockets_of_engines_agents_and_terminals_are_not_there() {
    or_skip!(possible());
    let scratch = Scratch::new();
    let agent_directory = scratch.dir("agent");
    let agent = Listening::at(agent_directory.join("socket"));
    let name = scratch.path().file_name().unwrap().to_string_lossy().into_owned();
    let engine = Listening::at(PathBuf::from(format!("/run/docker-{name}.sock")));
    fs::set_permissions(&agent_directory, fs::Permissions::from_mode(0o700)).unwrap();
    give(&scratch.path());
    let server = builder()
        .env("SSH_AUTH_SOCK", &agent.path.to_string_lossy())
        .env("DOCKER_HOST", &format!("unix://{}", engine.path.display()))
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1/bus")
        .env("TMUX", "/tmp/tmux-1/default,1,0")
        .start()
        .await;
    // What starts after the server is found as little.
    let late = Listening::at(PathBuf::from(format!("/run/late-{name}.sock")));
    let terminal = Listening::at(PathBuf::from(format!("/tmp/tmux-1/{name}")));
    for socket in [&agent, &engine, &late, &terminal] {
        is_kept_out(&server, &connects(&socket.path)).await;
    }
    let variables = "env | grep -E '^(SSH_AUTH_SOCK|DOCKER_HOST|DBUS_SESSION_BUS_ADDRESS|TMUX)='";
    fails(&server, variables).await;
    is_kept_out(&server, "ls /run/dbus").await;
}

#[tokio::test]
async fn abstract_sockets_of_others_cannot_be_connected_to() {
    or_skip!(possible());
    or_skip!(
        countersign_sys::namespace::has_scopes(),
        "this kernel has no Landlock scopes"
    );
    let server = builder().start().await;
    let name = server.scratch().path().display().to_string();
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let attack =
        format!("curl --silent --max-time 0.3 --abstract-unix-socket {name} http://localhost/; test $? = 28");
    is_kept_out(&server, &attack).await;
    drop(listener);
}

#[tokio::test]
async fn what_is_replaced_outside_stays_covered() {
    or_skip!(possible());
    let server = builder().start().await;
    let attack = format!("cat {}", server.state().join("openclaw.json").display());
    is_kept_out(&server, &attack).await;
    let config = fs::read_to_string(server.state().join("openclaw.json")).unwrap();
    server.edit_config(&config);
    give(&server.state().join("openclaw.json"));
    is_kept_out(&server, &attack).await;
    // A directory, too: the one that is named like this by then is another.
    let inner = server.state().join("countersign/new");
    fs::create_dir(&inner).unwrap();
    write_file(&inner.join("secret"), "x");
    give(&inner);
    let attack = format!("cat {}", inner.join("secret").display());
    is_kept_out(&server, &attack).await;
}

#[tokio::test]
async fn what_outlives_its_run_stays_confined() {
    or_skip!(possible());
    let server = TestServer::full()
        .exec(&json!({
            "host": "gateway", "security": "full", "ask": "off", "leftovers": "keep",
        }))
        .env("PATH", super::PROGRAMS)
        .run_as(ACCOUNT)
        .start()
        .await;
    let workspace = server.state().join("workspace");
    let (gate, seen) = (workspace.join("gate"), workspace.join("seen"));
    let left = format!(
        "(setsid sh -c 'while [ ! -e {0} ]; do sleep 0.05; done; cat {1}/countersign/operator.token {1}/openclaw.json > {2}.new; \
         kill -0 {3} >> {2}.new && echo signalled >> {2}.new; mv {2}.new {2}' > /dev/null 2>&1 &) ; echo left",
        gate.display(),
        server.state().display(),
        seen.display(),
        server.pid()
    );
    assert_eq!(run(&server, "main", &left).await["stdout"], "left\n");
    write_file(&gate, "");
    soon("tried", || seen.exists(), |seen| *seen).await;
    assert_eq!(fs::read_to_string(&seen).unwrap(), "");
}

#[tokio::test]
async fn control_groups_cannot_be_left() {
    or_skip!(possible());
    let server = builder().start().await;
    fails(&server, "for f in $(find /sys/fs/cgroup -name cgroup.procs); do test -w $f && echo 0 > $f && exit 0; done; exit 1").await;
    let writable = "awk '($9 == \"cgroup\" || $9 == \"cgroup2\" || $10 ~ /^cgroup/) && $6 ~ /^rw/' /proc/self/mountinfo | grep .";
    fails(&server, writable).await;
}
