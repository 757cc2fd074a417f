//! The list. Every script ends with 0 when it got what it wanted, and does no harm where it does. A name outside of the
//! scene has the mark of the test in it: several tests try the list at the same time.

/// What a script needs besides a shell and busybox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing more.
    Shell,
    /// It is Python.
    Python,
}

/// What shows that an attempt is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// The same outside, with the rights of the server, works.
    Works,
    /// This machine has not got it, or it would harm.
    Untried,
}

/// One way out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    /// With words in braces that the scene fills in.
    pub(crate) script: &'static str,
    pub(crate) control: Control,
}

const fn shell(name: &'static str, script: &'static str) -> Attempt {
    Attempt {
        name,
        needs: Needs::Shell,
        script,
        control: Control::Works,
    }
}

const fn python(name: &'static str, script: &'static str) -> Attempt {
    Attempt {
        needs: Needs::Python,
        ..shell(name, script)
    }
}

const fn untried(attempt: Attempt) -> Attempt {
    Attempt {
        control: Control::Untried,
        ..attempt
    }
}

pub(crate) const ATTEMPTS: &[Attempt] = &[
    // Files.
    shell("write beside the workspace", "echo out >{host}/trace"),
    shell("write through the way up", "cd {workspace} 2>/dev/null || cd /workspace; echo out >../../trace; [ -e {host}/trace ]"),
    shell("write through a link", "rm -f escape; ln -s {host}/trace escape; echo out >escape"),
    shell("read a secret by its path", "grep -q hidden {host}/secret"),
    shell("read a secret through a link", "rm -f leak; ln -s {host}/secret leak; grep -q hidden leak"),
    shell("read the workspace of somebody else", "grep -q theirs {host}/sandboxes/two/file"),
    shell("list the state directory", "ls {host}/runs"),
    shell("read the password hashes", "grep -q '^root:' /etc/shadow"),
    // A container has a home of root as well: of its image.
    shell("read the home of root", "ls -A /root >/dev/null && [ \"$(busybox stat -c %d:%i /root)\" = {root_home} ]"),
    // Nothing else here runs this program. While it is open for writing, it does not start.
    shell("write to programs of the system", "touch -c /usr/bin/ptx && : >>/usr/bin/ptx"),
    shell("make a file among programs", "echo >/usr/bin/countersign-escape-{mark} && rm /usr/bin/countersign-escape-{mark}"),
    shell("write to configuration of the system", "echo >/etc/countersign-escape-{mark} && rm /etc/countersign-escape-{mark}"),
    shell("write to a read-only bind", "echo out >{ro}/trace && rm {ro}/trace"),
    shell("change a file of a read-only bind", "chmod 600 {ro}/file && chmod 644 {ro}/file"),
    shell("rename in a read-only bind", "mv {ro}/file {ro}/moved && mv {ro}/moved {ro}/file"),
    shell("make a device", "rm -f device; busybox mknod device c 1 1 && rm device"),
    shell("read the disk", "busybox mknod disk b {disk} && head -c 1 disk >/dev/null; code=$?; rm -f disk; exit $code").without_control(),
    shell("make a program with rights", "cp /usr/bin/env suid && chmod 4755 suid; [ -u suid ]; code=$?; rm -f suid; exit $code"),
    python(
        "make a program with rights while opening it",
        "import os\nfd = os.open('suid', os.O_CREAT | os.O_WRONLY, 0o6755)\nmode = os.fstat(fd).st_mode\n\
         os.unlink('suid')\nraise SystemExit(not mode & 0o6000)",
    ),
    // Root inside is nobody in particular: what counts is what the program has that its caller has not, or rights at all.
    shell(
        "run a program with rights",
        "user=$({ro}/id -u) && [ \"$user\" != \"$(id -u)\" ] || {ro}/cat /proc/self/status | grep -q '^CapEff:.*[1-9a-f]'",
    ),
    shell("fill a disk by way of memory", "head -c 40000000 /dev/zero >/tmp/{mark}; code=$?; rm -f /tmp/{mark}; exit $code"),
    shell("fill memory by names", "head -c 100000000 /dev/zero >/dev/shm/{mark}; code=$?; rm -f /dev/shm/{mark}; exit $code"),
    python(
        "open a file by its handle",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         class H(ctypes.Structure): _fields_ = [('n', ctypes.c_uint), ('t', ctypes.c_int), ('b', ctypes.c_ubyte * 128)]\n\
         h = H(128, 0); m = ctypes.c_int()\n\
         if libc.name_to_handle_at(-100, b'.', ctypes.byref(h), ctypes.byref(m), 0): raise SystemExit(1)\n\
         d = os.open('.', os.O_RDONLY)\nraise SystemExit(libc.open_by_handle_at(d, ctypes.byref(h), os.O_RDONLY) < 0)",
    ),
    // Processes.
    shell("see processes of the machine", "[ -d /proc/{pid} ] && grep -q {victim} /proc/{pid}/cmdline"),
    shell("signal a process of the machine", "kill -0 {pid}"),
    shell("read the environment of others", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q '^SECRET={mark}$'"),
    // A sandbox may have a first process of its own, which leads nowhere. On some machines not even root may look into
    // the first one of all.
    shell("leave by the root of the first process", "grep -q hidden /proc/1/root{host}/secret").without_control(),
    shell(
        "read the environment of the first process",
        "cat /proc/1/environ >/dev/null && [ \"$(readlink /proc/1/ns/pid)\" = '{processes}' ]",
    )
    .without_control(),
    shell(
        "see what the first process has open",
        "ls /proc/1/fd >/dev/null && [ \"$(readlink /proc/1/ns/pid)\" = '{processes}' ]",
    )
    .without_control(),
    shell("leave by the working directory of another process", "ls -d /proc/{pid}/cwd/ >/dev/null"),
    python(
        "trace a process of the machine",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\npid = {pid}\nif libc.ptrace(16, pid, 0, 0): raise SystemExit(1)\n\
         os.waitpid(pid, 0x40000000)\nlibc.ptrace(17, pid, 0, 0)",
    ),
    python(
        "trace a process at all",
        "import ctypes, os, signal\nlibc = ctypes.CDLL(None)\npid = os.fork()\n\
         if not pid: signal.pause()\nfailed = libc.ptrace(16, pid, 0, 0) != 0\nos.kill(pid, 9)\nraise SystemExit(failed)",
    ),
    python(
        "read the memory of another process",
        "import ctypes, os, signal\nlibc = ctypes.CDLL(None)\npid = os.fork()\nif not pid: signal.pause()\n\
         class V(ctypes.Structure): _fields_ = [('b', ctypes.c_void_p), ('l', ctypes.c_size_t)]\n\
         b = ctypes.create_string_buffer(8)\nv = V(ctypes.addressof(b), 8)\n\
         n = libc.process_vm_readv(pid, ctypes.byref(v), 1, ctypes.byref(v), 1, 0)\nos.kill(pid, 9)\nraise SystemExit(n < 0)",
    ),
    shell(
        "make more processes than allowed",
        "n=0; while [ $n -lt 150 ]; do sleep 30 & n=$((n+1)); done 2>/dev/null; \
         running=$(ls -d /proc/[0-9]*/ | wc -l); kill $(jobs -p) 2>/dev/null; [ \"$running\" -gt 120 ]",
    ),
    shell(
        "use more memory than allowed",
"[ \"$(busybox head -c 300000000 /dev/zero | busybox tail -c 300000000 | busybox wc -c)\" = 300000000 ]",
    ),
    // The kernel.
    shell("mount", "mkdir -p m; busybox mount -t tmpfs none m && busybox umount m"),
    shell("bind a directory", "mkdir -p m; busybox mount -o bind /etc m && busybox umount m"),
    shell(
        "make a read-only mount writable",
        "busybox mount -o bind {ro} {ro} 2>/dev/null; busybox mount -o remount,bind,rw {ro} && echo >{ro}/trace; code=$?; \
         rm -f {ro}/trace; busybox umount {ro} 2>/dev/null; exit $code",
    ),
    shell("unmount", "mkdir -p m; busybox mount -t tmpfs none m 2>/dev/null; busybox umount m || busybox umount /proc/sys"),
    shell("make a user namespace", "busybox unshare -U true"),
    shell("make a mount namespace by way of a user namespace", "busybox unshare -U -r -m true"),
    python(
        "make a user namespace with clone",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\npid = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)\n\
         if pid == 0: os._exit(0)\nif pid > 0: os.waitpid(pid, 0)\nraise SystemExit(pid < 0)",
    ),
    python(
        "make a user namespace with clone3",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\na = (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17)\n\
         pid = libc.syscall(435, a, 88)\nif pid == 0: os._exit(0)\nif pid > 0: os.waitpid(pid, 0)\nraise SystemExit(pid < 0)",
    ),
    python(
        "enter a namespace",
        "import ctypes, os\nlibc = ctypes.CDLL(None)\nfd = os.open('/proc/self/ns/uts', os.O_RDONLY)\n\
         raise SystemExit(libc.setns(fd, 0) != 0)",
    ),
    shell("change the root", "busybox chroot / /bin/sh -c true || busybox chroot . /bin/sh -c true"),
    python(
        "leave a root by changing it twice",
        "import os\nos.makedirs('jail', exist_ok=True)\nos.chroot('jail')\nfor _ in range(64): os.chdir('..')\n\
         os.chroot('.')\nraise SystemExit(not os.path.exists('{host}/secret'))",
    ),
    python(
        "use the keyring",
        "import ctypes\nlibc = ctypes.CDLL(None)\nkey = libc.syscall(248, b'user', b'countersign', b'x', 1, -2)\n\
         raise SystemExit(key < 0)",
    ),
    shell("read the keys", "grep -q . /proc/key-users || grep -q . /proc/keys"),
    python(
        "ask for io_uring",
        "import ctypes\nlibc = ctypes.CDLL(None)\np = (ctypes.c_ubyte * 256)()\nraise SystemExit(libc.syscall(425, 4, p) < 0)",
    ),
    python(
        "handle page faults",
        "import ctypes\nlibc = ctypes.CDLL(None)\nraise SystemExit(libc.syscall(323, 0) < 0)",
    ),
    untried(python(
        "watch the processor",
        "import ctypes, struct\nlibc = ctypes.CDLL(None)\na = ctypes.create_string_buffer(struct.pack('IIQ', 1, 128, 0), 128)\n\
         raise SystemExit(libc.syscall(298, a, 0, -1, -1, 0) < 0)",
    )),
    python(
        "load a program into the kernel",
        "import ctypes\nlibc = ctypes.CDLL(None)\na = (ctypes.c_uint32 * 30)(2, 4, 4, 1)\nraise SystemExit(libc.syscall(321, 0, a, 72) < 0)",
    ),
    python(
        "change what the machine is to programs",
        "import ctypes\nlibc = ctypes.CDLL(None)\nraise SystemExit(libc.personality(0x0040000) < 0)",
    ),
    python(
        "call by the numbers of another convention",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.syscall(0x40000000 + 39)\n\
         raise SystemExit(ctypes.get_errno() == 0 or libc.syscall(0x40000000 + 272, 0x10000000) < 0)",
    )
    .without_control(),
    shell("press the system's keys", "echo h >/proc/sysrq-trigger").without_control(),
    shell("read the kernel's memory", "[ \"$(head -c 4 /proc/kcore | wc -c)\" = 4 ]").without_control(),
    shell("read the kernel's messages", "busybox dmesg | grep -q ."),
    shell("say what runs at a crash", ": >>/proc/sys/kernel/core_pattern"),
    shell("say what loads modules", ": >>/proc/sys/kernel/modprobe").without_control(),
    shell("change a setting of the kernel", "v=$(cat /proc/sys/vm/swappiness) && echo $v >/proc/sys/vm/swappiness"),
    shell(
        "have a control group run something",
        "mkdir -p m; busybox mount -t cgroup -o memory cgroup m && [ -w m/release_agent ]; code=$?; \
         busybox umount m 2>/dev/null; exit $code",
    ),
    shell("leave a control group", "d=$(ls -d /sys/fs/cgroup/memory /sys/fs/cgroup 2>/dev/null | head -n 1); : >>$d/cgroup.procs"),
    shell("name the machine", "busybox hostname \"$(busybox hostname)\""),
    python(
        "set the clock",
        "import time\nt = time.clock_gettime(time.CLOCK_REALTIME)\ntime.clock_settime(time.CLOCK_REALTIME, t)",
    )
    .without_control(),
    python(
        "type into a terminal",
        "import fcntl, os, termios\nos.setsid() if os.getpid() != os.getsid(0) else None\nm, s = os.openpty()\n\
         fcntl.ioctl(s, termios.TIOCSCTTY, 0)\nfcntl.ioctl(s, termios.TIOCSTI, b'x')",
    )
    .without_control(),
    python(
        "be more important than others",
        "import os\nos.setpriority(os.PRIO_PROCESS, 0, -5)",
    ),
    // The network.
    shell("reach a service of the machine", "printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc 127.0.0.1 {port} | grep -q HTTP"),
    python(
        "reach a service by a socket without a file",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0{abstract}')",
    ),
    python(
        "reach a service by the file of its socket",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('{host}/socket')",
    ),
    python(
        "open a raw socket",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    ),
    python(
        "open a socket for packets",
        "import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)",
    ),
    python(
        "speak to the audit system",
        "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)",
    ),
    untried(python(
        "speak to the hypervisor",
        "import socket\nsocket.socket(40, socket.SOCK_STREAM)",
    )),
    shell("see another network", "[ \"$(ls /sys/class/net 2>/dev/null | wc -w)\" -gt 1 ] || grep -q -E 'eth|ens|enp|veth|dummy' /proc/net/dev")
        .without_control(),
];

impl Attempt {
    const fn without_control(self) -> Self {
        untried(self)
    }
}
