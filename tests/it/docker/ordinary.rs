//! What programs do every day works in a container whose system calls are limited by our own list.

use std::path::Path;

use countersign_config::settings::BindMount;

use super::fixture::{DockerFixture, shell};
use crate::support::write_file;

/// Each prints one line.
const ORDINARY: &[(&str, &str)] = &[
    ("seq 1 1000 | sort -n | tail -n 1 | tr 0 o", "1ooo"),
    ("id >/dev/null && echo yes", "yes"),
    (
        "mkdir -p a/b/c && chmod 755 a && chmod 1777 a/b && stat -c %a a a/b | xargs",
        "755 1777",
    ),
    (
        "umask 022; echo x >file; touch -d '2001-02-03 04:05:06' file; cp -p file copy; stat -c %a:%Y copy file | uniq | wc -l",
        "1",
    ),
    ("mkfifo pipe; echo through >pipe & cat pipe", "through"),
    (
        "ln file hard && ln -s file soft && mv soft moved && readlink moved && rm hard moved",
        "file",
    ),
    (
        "tar -cf all.tar a file && mkdir out && tar -xf all.tar -C out && cat out/file",
        "x",
    ),
    ("(sleep 1000 & kill $!; wait $!); echo $?", "143"),
    ("trap 'echo heard' USR1; kill -USR1 $$", "heard"),
    ("timeout 1000 env A=b sh -c 'echo $A'", "b"),
    (
        "dd if=/dev/zero of=big bs=4096 count=10 2>/dev/null; sync; truncate -s 5 big; wc -c <big",
        "5",
    ),
    ("find . -name file -exec grep -c x {} + | wc -l", "2"),
];

/// Prints `well` when all of it works.
const PYTHON: &str = "
import ctypes, fcntl, mmap, multiprocessing, os, select, signal, socket, struct, subprocess, sys, tempfile, termios, threading, time
assert subprocess.run(['/bin/sh', '-c', 'cat; exit 3'], input=b'in', capture_output=True).returncode == 3
done = []
threads = [threading.Thread(target=done.append, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(done) == list(range(8))
with multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]
for family in (socket.AF_INET, socket.AF_UNIX):
    server = socket.socket(family); server.bind(('127.0.0.1', 0) if family == socket.AF_INET else 'socket'); server.listen()
    client = socket.socket(family); client.connect(server.getsockname())
    other = server.accept()[0]; other.sendall(b'x'); assert client.recv(1) == b'x'
a, b = socket.socketpair(); a.send(b'y'); assert b.recv(1) == b'y'
routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); routes.bind((0, 0)); socket.if_nameindex()
poll = select.epoll(); poll.register(b, select.EPOLLIN); assert poll.poll(0) == []
master, slave = os.openpty(); fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 3, 7, 0, 0))
assert os.get_terminal_size(slave) == (7, 3)
memory = mmap.mmap(-1, 4096); memory[0:1] = b'z'
with tempfile.TemporaryFile() as file: file.write(b'1'); fcntl.flock(file, fcntl.LOCK_EX); os.fsync(file.fileno())
with tempfile.TemporaryDirectory() as place: os.mkfifo(place + '/pipe', 0o600); os.chmod(place + '/pipe', 0o640)
os.getrandom(8); os.sched_getaffinity(0); os.memfd_create('m'); os.utime('.'); os.copy_file_range
signal.setitimer(signal.ITIMER_REAL, 0); os.pidfd_open(os.getpid()); time.clock_gettime(time.CLOCK_MONOTONIC)
assert ctypes.CDLL(None).getpid() == os.getpid()
# Calls that do not exist are missing, and not forbidden: programs then do the same in another way.
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(425, 1, None) == -1 and ctypes.get_errno() == 38, ctypes.get_errno()
assert libc.syscall(435, None, 0) == -1 and ctypes.get_errno() == 38, ctypes.get_errno()
assert libc.syscall(437, -100, b'.', None, 0) == -1 and ctypes.get_errno() == 38, ctypes.get_errno()
assert libc.syscall(4000) == -1 and ctypes.get_errno() in (1, 38), ctypes.get_errno()
print('well')
";

#[tokio::test]
async fn ordinary_programs_work_with_our_list_of_system_calls() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut sandbox = fixture.enclosure("ordinary");
    for directory in ["/usr", "/lib", "/lib64"].map(Path::new) {
        if directory.exists() {
            sandbox.settings.binds.push(BindMount {
                host: directory.to_owned(),
                inside: directory.to_owned(),
                writable: false,
            });
        }
    }
    fixture.backend.prepare(&sandbox).await.unwrap();
    let filter = fixture
        .printed(&sandbox, "grep ^Seccomp: /proc/self/status")
        .await;
    assert_eq!(filter, "Seccomp:\t2\n");
    let mut wrong = Vec::new();
    for (text, expected) in ORDINARY {
        // The names of busybox come first, whatever the machine has.
        let ended = fixture.run(&sandbox, shell(text).path("/bin")).await;
        if ended.stdout.trim() != *expected {
            wrong.push(format!("{text}: {ended:?}"));
        }
    }
    if Path::new("/usr/bin/python3").exists() {
        write_file(&sandbox.workspace.join("program.py"), PYTHON);
        let ended = fixture.run(&sandbox, shell("/usr/bin/python3 program.py")).await;
        if ended.stdout != "well\n" {
            wrong.push(format!("{ended:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    fixture.engine.stop().await;
}
