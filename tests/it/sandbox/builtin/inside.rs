//! What a command finds inside.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _};

use countersign_config::settings::Limit;

use super::fixture::Sandbox;
use crate::support::{assert_says, is_root, program, write_file, write_file_mode};

#[tokio::test]
async fn a_command_runs_as_an_account_of_its_own_at_its_workdir() {
    let sandbox = or_skip!(Sandbox::new());
    let printed = sandbox
        .printed("pwd; id -u; id -g; id -un; hostname; echo $HOME $USER $OPENCLAW_SHELL $LANG; umask")
        .await;
    assert_eq!(
        printed,
        "/workspace\n1000\n1000\nsandbox\nsandbox\n/workspace sandbox exec C.UTF-8\n0022"
    );
}

#[tokio::test]
async fn what_it_writes_lies_in_the_workspace_and_belongs_to_its_owner() {
    let sandbox = or_skip!(Sandbox::new());
    write_file(&sandbox.workspace().join("given"), "from outside");
    assert_eq!(
        sandbox
            .printed("cat given; echo inside >made; mkdir -p d/e; echo x >>given; stat -c %u:%g given made")
            .await,
        "from outside1000:1000\n1000:1000"
    );
    let workspace = sandbox.workspace();
    assert_eq!(fs::read_to_string(workspace.join("made")).unwrap(), "inside\n");
    assert_eq!(
        fs::read_to_string(workspace.join("given")).unwrap(),
        "from outsidex\n"
    );
    let owner = fs::metadata(&workspace).unwrap().uid();
    assert_eq!(fs::metadata(workspace.join("made")).unwrap().uid(), owner);
    assert_eq!(fs::metadata(workspace.join("d/e")).unwrap().uid(), owner);
}

#[tokio::test]
async fn the_system_can_be_read_and_nothing_else_of_the_machine_is_there() {
    let sandbox = or_skip!(Sandbox::new());
    let root = sandbox.printed("ls -A /").await;
    let all: Vec<&str> = root.lines().collect();
    for name in [
        "bin",
        "dev",
        "etc",
        "proc",
        "run",
        "tmp",
        "usr",
        "var",
        "workspace",
    ] {
        assert!(all.contains(&name), "{name}: {root}");
    }
    for name in ["root", "home", "boot", "mnt", "srv", "media", "opt"] {
        assert!(!all.contains(&name), "{name}: {root}");
    }
    assert_eq!(
        sandbox.printed("ls -A /var /run /tmp /sys").await,
        "/run:\n\n/sys:\n\n/tmp:\n\n/var:\ntmp"
    );
    let devices = sandbox.printed("ls /dev").await;
    assert_eq!(
        devices.replace('\n', " "),
        "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"
    );
    for secret in ["shadow", "gshadow", "ssh", "sudoers", "ssl/private", "machine-id"] {
        assert_eq!(
            sandbox.shell(&format!("[ -e /etc/{secret} ]")).await.exit().code,
            Some(1),
            "{secret}"
        );
    }
    for place in ["/", "/usr", "/etc", "/proc", "/sys", "/dev"] {
        let report = sandbox.shell(&format!("mkdir {place}/made")).await;
        assert_eq!(report.exit().code, Some(1), "{place}");
    }
    sandbox
        .printed("for d in /tmp /var/tmp /run /dev/shm /workspace; do echo x >$d/file && rm $d/file || exit 1; done")
        .await;
}

#[tokio::test]
async fn every_mount_takes_rights_and_devices_away() {
    let sandbox = or_skip!(Sandbox::new());
    let mounts = sandbox.printed("cat /proc/self/mountinfo").await;
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (at, options) = (fields[4], fields[5]);
        let is_device = at.starts_with("/dev/") || at.starts_with("/proc/");
        assert!(options.contains("nosuid") || is_device, "{line}");
        assert!(options.contains("nodev") || is_device, "{line}");
        let may_write = ["/tmp", "/var/tmp", "/run", "/workspace"].contains(&at) || is_device;
        assert!(options.starts_with("ro,") || may_write, "{line}");
    }
}

#[tokio::test]
async fn it_has_no_right_and_can_get_none() {
    let sandbox = or_skip!(Sandbox::new());
    let status = sandbox.printed("cat /proc/self/status").await;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap()
            .trim()
            .to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(
        (field("NoNewPrivs").as_str(), field("Seccomp").as_str()),
        ("1", "2")
    );
    // Of a server of root neither: none of its groups comes along.
    if is_root() {
        assert_eq!(field("Groups"), "");
    }
    assert_eq!(
        sandbox.printed("cat /proc/sys/user/max_user_namespaces").await,
        "0"
    );
    let maps = sandbox.printed("cat /proc/self/uid_map /proc/self/gid_map").await;
    for line in maps.lines() {
        let numbers: Vec<&str> = line.split_whitespace().collect();
        assert_eq!((numbers[0], numbers[2]), ("1000", "1"), "{maps}");
        assert_ne!(numbers[1], "0", "{maps}");
    }
}

#[tokio::test]
async fn nothing_of_the_server_s_environment_is_there_and_the_later_value_counts() {
    let mut sandbox = or_skip!(Sandbox::new());
    sandbox.enclosure.settings.env = [("LANG", "C.UTF-8"), ("ONE", "settings"), ("TWO", "settings")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut inside = sandbox.argv(&["env"]);
    inside.env = [
        ("TWO", "$(touch /workspace/hit)"),
        ("PATH", "/nowhere"),
        ("OPENCLAW_SHELL", "x"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let report = sandbox.run(&inside).await;
    let mut lines: Vec<&str> = report.out().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "HOME=/workspace",
            "LANG=C.UTF-8",
            "LOGNAME=sandbox",
            "ONE=settings",
            "OPENCLAW_SHELL=exec",
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "TWO=$(touch /workspace/hit)",
            "USER=sandbox",
        ]
    );
    assert!(!sandbox.workspace().join("hit").exists());
}

#[tokio::test]
async fn what_comes_before_the_path_is_no_text_of_a_shell() {
    let sandbox = or_skip!(Sandbox::new());
    let tool = sandbox.workspace().join("it's $(touch hit) \"x\"/tool");
    write_file_mode(&tool, "#!/bin/sh\necho found \"$PATH\"\n", 0o755);
    let prepend = "/workspace/it's $(touch hit) \"x\"";
    for mut inside in [sandbox.script("tool"), sandbox.argv(&["tool"])] {
        inside.path_prepend = Some(prepend.to_owned());
        let report = sandbox.run(&inside).await;
        let expected = format!("found {prepend}:/usr/local/bin:/usr/bin:/bin");
        assert!(report.out().starts_with(&expected), "{}", report.out());
        let left = sandbox.shell("env | grep -c COUNTERSIGN").await;
        assert_eq!(left.out(), "0\n");
    }
    assert!(!sandbox.workspace().join("hit").exists());
    // Text that looks like an option is none.
    let report = sandbox.shell("-x; echo after").await;
    assert_eq!((report.out(), report.exit().code), ("after\n", Some(0)));
}

#[tokio::test]
async fn limits_are_those_of_the_settings() {
    let mut sandbox = or_skip!(Sandbox::new());
    sandbox.enclosure.settings.pids_limit = Some(20);
    sandbox.enclosure.settings.memory_bytes = Some(64 << 20);
    sandbox.enclosure.settings.ulimits = BTreeMap::from([
        ("nofile".to_owned(), Limit { soft: 50, hard: 60 }),
        ("fsize".to_owned(), Limit { soft: 4096, hard: -1 }),
    ]);
    let limits = sandbox.printed("cat /proc/self/limits").await;
    let of = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("Max open files"), "50 60");
    assert_eq!(of("Max file size"), "4096 unlimited");
    assert_eq!(of("Max processes"), "21 21");
    assert_eq!(
        of("Max data size"),
        (64 << 20).to_string() + " " + &(64 << 20).to_string()
    );
    assert_eq!(of("Max core file size"), "1 1");
    let report = sandbox.shell("head -c 8192 /dev/zero >big").await;
    assert_ne!(report.exit().code, Some(0));
    // The limit is of one run: two at a time do not share it.
    let script = "for n in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.2 & done; wait; echo all";
    let (one, other) = (sandbox.script(script), sandbox.script(script));
    let (one, other) = tokio::join!(sandbox.run(&one), sandbox.run(&other));
    assert_eq!((one.out(), other.out()), ("all\n", "all\n"));

    sandbox.enclosure.settings.ulimits.clear();
    sandbox
        .enclosure
        .settings
        .ulimits
        .insert("speed".to_owned(), Limit { soft: 1, hard: 1 });
    let refusal = sandbox.refusal(&sandbox.script("echo no")).await;
    assert!(refusal.contains("ulimits.speed"), "{refusal}");
}

#[tokio::test]
async fn binds_are_where_they_should_be_and_some_are_refused() {
    let mut sandbox = or_skip!(Sandbox::new());
    let host = sandbox.beside.path();
    let own = sandbox.dirs.path().to_owned();
    write_file(&host.join("data/file"), "data");
    write_file(&host.join("one-file"), "one");
    sandbox.bind(host.join("data"), "/srv/data", true);
    sandbox.bind(host.join("data"), "/workspace/data", false);
    sandbox.bind(host.join("one-file"), "/etc/one-file", false);
    let printed = sandbox
        .printed("cat /srv/data/file /workspace/data/file /etc/one-file; echo more >/srv/data/new; ! echo x >/workspace/data/x")
        .await;
    assert_eq!(printed, "datadataone");
    assert_eq!(fs::read_to_string(host.join("data/new")).unwrap(), "more\n");

    std::os::unix::fs::symlink(&own, host.join("all")).unwrap();
    let refused = [
        "/".into(),
        "/etc".into(),
        "/proc/self".into(),
        "/sys".into(),
        "/dev".into(),
        "/run".into(),
        own.clone(),
        own.join("runs"),
        own.join("sandboxes"),
        host.join("all"),
        host.join("all/output"),
    ];
    for path in refused {
        sandbox.enclosure.settings.binds.clear();
        sandbox.bind(path.clone(), "/x", false);
        let refusal = sandbox.refusal(&sandbox.script("echo no")).await;
        assert!(
            refusal.contains("cannot be seen"),
            "{}: {refusal}",
            path.display()
        );
    }
    for inside in ["/", "/proc/x", "/dev/x", "/sys", "/a/../b"] {
        sandbox.enclosure.settings.binds.clear();
        sandbox.bind(host.join("data"), inside, false);
        let refusal = sandbox.refusal(&sandbox.script("echo no")).await;
        assert!(refusal.contains("nothing can be at"), "{inside}: {refusal}");
    }
    sandbox.enclosure.settings.binds.clear();
    sandbox.enclosure.settings.network = "bridge".to_owned();
    let refusal = sandbox.refusal(&sandbox.script("echo no")).await;
    assert_says(&refusal, "sandbox.docker.network");
    assert_says(&refusal, "backend");
}

#[tokio::test]
async fn a_workspace_that_is_not_writable_is_not() {
    let mut sandbox = or_skip!(Sandbox::new());
    write_file(&sandbox.workspace().join("file"), "text");
    sandbox.enclosure.workspace_writable = false;
    let report = sandbox.shell("cat file; echo x >file").await;
    assert_eq!((report.out(), report.exit().code), ("text", Some(2)));
    assert_eq!(
        fs::read_to_string(sandbox.workspace().join("file")).unwrap(),
        "text"
    );
}

#[tokio::test]
async fn memory_directories_are_as_large_as_the_settings_say() {
    let mut sandbox = or_skip!(Sandbox::new());
    sandbox.enclosure.settings.tmpfs = vec![
        "/tmp:size=64k,mode=700,noexec".to_owned(),
        "/cache:nr_inodes=5".to_owned(),
    ];
    let printed = sandbox
        .printed(
            "stat -c %a /tmp; head -c 100000 /dev/zero >/tmp/big 2>/dev/null || echo full; rm /tmp/big; \
             cp /bin/true /tmp/t 2>/dev/null; chmod +x /tmp/t; /tmp/t 2>/dev/null || echo noexec; \
             cd /cache; touch 1 2 3 4 5 6 2>/dev/null || echo many",
        )
        .await;
    assert_eq!(printed, "700\nfull\nnoexec\nmany");
    sandbox.enclosure.settings.tmpfs = vec!["/tmp:size=much".to_owned()];
    let refusal = sandbox.refusal(&sandbox.script("echo no")).await;
    assert!(refusal.contains("size=much"), "{refusal}");
}

#[tokio::test]
async fn the_loopback_interface_is_its_own() {
    or_skip!(
        program("python3").is_some(),
        "a server and a client inside need python3"
    );
    let sandbox = or_skip!(Sandbox::new());
    let script = "python3 - <<'E'\nimport socket\ns = socket.create_server(('127.0.0.1', 0))\n\
                  c = socket.create_connection(s.getsockname())\nprint('talked')\nE\n";
    assert_eq!(sandbox.printed(script).await, "talked");
}
