//! Processes of one run: debuggers, signals, pipes, sockets; and what one run cannot do to another.

use serde_json::json;

use crate::{
    confined::{FREE, builder, possible, run},
    support::{Members, eventually, skip},
};

use super::{possible_with, works};

/// Stops its own child at every call of the kernel until it ends.
const TRACER: &str = r#"
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int status, stops = 0;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(99);
        execl("/bin/sh", "sh", "-c", "exit 7", (char *)0);
        _exit(98);
    }
    while (waitpid(child, &status, 0) == child && !WIFEXITED(status)) {
        stops++;
        if (ptrace(PTRACE_SYSCALL, child, 0, 0) != 0) return 2;
    }
    return !(stops > 10 && WEXITSTATUS(status) == 7);
}
"#;

/// Two processes of one run that talk over each kind of socket.
const TALKERS: &str = r#"
import os, socket, struct, sys
kinds = {
    "path": (socket.AF_UNIX, os.getcwd() + "/socket"),
    "abstract": (socket.AF_UNIX, "\0" + os.getcwd()),
    "loopback": (socket.AF_INET, ("127.0.0.1", 0)),
}
family, address = kinds[sys.argv[1]]
listener = socket.socket(family)
listener.bind(address)
listener.listen()
if os.fork() == 0:
    client = socket.socket(family)
    client.connect(listener.getsockname())
    client.sendall(b"hello")
    os._exit(0)
peer, _ = listener.accept()
assert peer.recv(5) == b"hello"
if family == socket.AF_UNIX:
    pid, uid, gid = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    assert uid == os.getuid() and gid == os.getgid(), (uid, gid)
assert os.wait()[1] == 0
"#;

#[tokio::test]
async fn debuggers_work_on_their_own_children() {
    or_skip!(possible_with(&["cc"]));
    let server = builder().start().await;
    let program = "printf 'int inner(int n){return n+3;}\\nint main(void){int four=4;return inner(four);}\\n' > a.c && cc -g -O0 -o a a.c";
    let debug = format!(
        "{program} && gdb -nx -batch -ex 'break inner' -ex run -ex backtrace -ex 'print n' -ex finish -ex continue ./a > log 2>&1; \
         cat log; grep -q '#1 .*main' log && grep -q '= 4' log && grep -q 'exited with code 07' log"
    );
    works(&server, &["gdb"], &debug).await;
    let attach = "printf '#include <unistd.h>\\nint main(void){for(;;)pause();}\\n' > p.c && cc -g -o p p.c && { ./p & } && \
         gdb -nx -batch -p $! -ex 'backtrace' -ex detach > log 2>&1; cat log; kill $!; grep -q main log";
    if std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0") {
        skip("Yama forbids attaching to processes");
    } else {
        works(&server, &["gdb"], attach).await;
    }
    let trace = format!("cat > t.c << 'END'\n{TRACER}\nEND\ncc -o t t.c && ./t");
    works(&server, &["cc"], &trace).await;
    works(
        &server,
        &["strace"],
        "strace -f -o log sh -c 'true; true' && grep -q execve log",
    )
    .await;
}

#[tokio::test]
async fn processes_of_one_run_find_and_reach_each_other() {
    or_skip!(possible());
    let server = builder().start().await;
    for kind in ["path", "abstract", "loopback"] {
        let talk = format!("cat > talk.py << 'END'\n{TALKERS}\nEND\npython3 talk.py {kind}");
        works(&server, &["python3"], &talk).await;
    }
    for (programs, script) in [
        (
            vec!["mkfifo"],
            "mkfifo p q && (cat p > q &) && (echo x > p &) && read l < q && test $l = x",
        ),
        (
            vec!["ps"],
            "sleep 100 & ps -o pid= -p $! | grep -q $! && ps -ef | grep -q '[s]leep 100' && pgrep -P $$ sleep && kill $! && ! wait $!",
        ),
        (
            vec!["python3"],
            "python3 -c '\nfrom multiprocessing import Pool, shared_memory\nm = shared_memory.SharedMemory(create=True, size=16)\nm.unlink()\nif __name__ == \"__main__\":\n    with Pool(4) as p: assert p.map(abs, range(-50, 0)) == list(range(50, 0, -1))'",
        ),
        (
            vec!["timeout"],
            "timeout 0.1 sleep 100; test $? = 124 && nice -n 5 true && taskset 1 true && setsid -w true && prlimit --nofile > none",
        ),
        (
            vec!["script"],
            "script -qec 'test -t 0 && tty' /dev/null < /dev/null | grep -q /dev/pts",
        ),
        (
            vec!["tmux"],
            "SHELL=/bin/sh tmux -S $d/own -f /dev/null new-session -d 'echo seen > seen; tmux wait-for -S done' \\; wait-for done && grep seen seen",
        ),
        (
            vec!["dbus-run-session"],
            "dbus-run-session -- sh -c 'dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames' | grep -q DBus",
        ),
    ] {
        works(&server, &programs, script).await;
    }
}

/// The price of keeping runs apart: what a run left in the background is ended by way of the API.
#[tokio::test]
async fn a_process_of_another_run_is_ended_through_the_api_only() {
    or_skip!(possible());
    or_skip!(
        countersign_sys::namespace::has_scopes(),
        "this kernel has no Landlock scopes"
    );
    let server = builder().start().await;
    for (agent, exit_code) in [(FREE, 0), ("main", 1)] {
        let call = json!({ "argv": ["sleep", "300"], "agentId": agent, "background": true });
        let started = server.accepted(call).await;
        let id = started.text("runId");
        let pid = eventually(
            "running",
            || async { server.agent().run(id).await["pid"].clone() },
            |pid| !pid.is_null(),
        )
        .await;
        let killed = run(&server, agent, &format!("kill {pid}")).await;
        assert_eq!(killed["exitCode"], exit_code, "{agent}\n{killed:#}");
        if exit_code != 0 {
            assert!(killed.text("stderr").contains("not permitted"), "{killed:#}");
            let cancel = format!("/v1/runs/{id}/cancel");
            server.agent().posted(&cancel, json!({})).await;
        }
        server.agent().finished(id).await;
    }
}
