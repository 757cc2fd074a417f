//! What a package ships for systemd is what systemd understands.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::support::{Invocation, Scratch, is_root, needed, program, run_program, skip, write_file};

const INSTALLED: &str = "/usr/bin/countersign";
const SERVER: &str = "systemd/countersign@.service";
const PLAIN_SERVER: &str = "systemd/countersign.service";
const RUNNER: &str = "systemd/countersign-runner@.service";
const RUNNER_SOCKET: &str = "systemd/countersign-runner@.socket";
const USER: &str = "systemd/user/countersign.service";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging")
}

fn read(name: &str) -> String {
    fs::read_to_string(packaging().join(name)).expect(name)
}

/// The values of a key, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _value)| *name == key)
        .map(|(_name, value)| value)
        .collect()
}

/// Copies of units that start the program of this build.
fn copies(scratch: &Scratch, names: &[&str]) -> Vec<String> {
    let copy = |name: &&str| {
        let path = scratch.path().join(Path::new(name).file_name().unwrap());
        let text = read(name).replace(INSTALLED, env!("CARGO_BIN_EXE_countersign"));
        assert!(text.contains(env!("CARGO_BIN_EXE_countersign")) || name.ends_with(".socket"));
        write_file(&path, &text);
        path.to_str().unwrap().to_owned()
    };
    names.iter().map(copy).collect()
}

fn systemd_analyze() -> Option<PathBuf> {
    let found = program("systemd-analyze");
    needed(found.is_some(), "systemd-analyze is not installed")?;
    found
}

#[test]
fn the_units_are_understood() {
    let systemd_analyze = or_skip!(systemd_analyze());
    let units: [(&[&str], &str); 4] = [
        (&[SERVER], "--system"),
        (&[PLAIN_SERVER], "--system"),
        (&[RUNNER, RUNNER_SOCKET], "--system"),
        (&[USER], "--user"),
    ];
    for (names, manager) in units {
        let scratch = Scratch::new();
        let units = copies(&scratch, names);
        let verify = Invocation::new(&systemd_analyze)
            .args(&["verify", "--man=no", manager])
            .args(&units)
            .env("XDG_RUNTIME_DIR", scratch.path());
        let verified = run_program(&verify);
        assert_eq!(
            (verified.code, verified.stderr.as_str()),
            (Some(0), ""),
            "{names:?}: {}",
            verified.stdout
        );
    }
}

#[test]
fn a_unit_that_is_wrong_would_be_noticed() {
    let systemd_analyze = or_skip!(systemd_analyze());
    let scratch = Scratch::new();
    let unit = scratch.path().join("countersign@.service");
    write_file(
        &unit,
        read(SERVER).replace("WatchdogSec=30", "WatchdogSeconds=30"),
    );
    let verify = Invocation::new(&systemd_analyze)
        .args(&["verify", "--man=no", "--system"])
        .arg(unit)
        .env("XDG_RUNTIME_DIR", scratch.path());
    let verified = run_program(&verify);
    assert!(verified.stderr.contains("WatchdogSeconds"), "{verified:?}");
}

#[test]
fn background_runs_outlive_every_unit_that_has_them() {
    for name in [SERVER, USER, RUNNER, PLAIN_SERVER] {
        let unit = read(name);
        assert_eq!(values(&unit, "KillMode"), ["process"], "{name}");
        assert_eq!(values(&unit, "Delegate"), ["yes"], "{name}");
        assert_eq!(values(&unit, "RestartPreventExitStatus"), ["78"], "{name}");
        if name == PLAIN_SERVER {
            // It starts no command.
            continue;
        }
        // Each of these would hold for commands, too, or imply something that does.
        let closes = |line: &&str| {
            [
                "Protect",
                "Private",
                "Restrict",
                "NoNewPrivileges",
                "SystemCall",
                "CapabilityBoundingSet",
            ]
            .iter()
            .any(|key| line.starts_with(key) && !line.starts_with("RestartPrevent"))
        };
        let closed: Vec<&str> = unit.lines().filter(closes).collect();
        assert_eq!(closed, Vec::<&str>::new(), "{name}");
    }
}

#[test]
fn the_server_of_an_account_runs_commands_as_that_account_or_not_at_all() {
    let server = read(SERVER);
    assert_eq!(values(&server, "Type"), ["notify"]);
    let [start] = values(&server, "ExecStart")[..] else {
        panic!("one program")
    };
    assert!(start.ends_with(" --run-as %i"), "{start}");
    assert!(values(&server, "Environment").contains(&"COUNTERSIGN_EXEC__ISOLATION=separate-user"));
}

#[test]
fn the_server_that_never_is_root_and_its_runner_belong_together() {
    let server = read(PLAIN_SERVER);
    assert_eq!(values(&server, "Type"), ["notify"]);
    assert_eq!(values(&server, "User"), ["countersign"]);
    assert_eq!(values(&server, "StateDirectoryMode"), ["0700"]);
    assert!(values(&server, "Environment").contains(&"COUNTERSIGN_EXEC__ISOLATION=separate-user"));
    let runner = read(RUNNER);
    assert_eq!(values(&runner, "User"), ["%i"]);
    let [start] = values(&runner, "ExecStart")[..] else {
        panic!("one program")
    };
    assert!(start.ends_with(" runner --server-account countersign"), "{start}");
    let socket = read(RUNNER_SOCKET);
    // Where the server looks when nobody says otherwise.
    assert_eq!(
        values(&socket, "ListenSequentialPacket"),
        ["/run/countersign/runner-%i.sock"]
    );
    assert_eq!(values(&socket, "SocketUser"), ["root"]);
    assert_eq!(values(&socket, "SocketGroup"), ["countersign"]);
    assert_eq!(values(&socket, "SocketMode"), ["0660"]);
    assert_eq!(values(&socket, "Accept"), Vec::<&str>::new());
}

/// Each would keep it from what it needs, in ways that show only in production.
#[test]
fn nothing_that_the_server_needs_is_closed() {
    let server = read(PLAIN_SERVER);
    for key in [
        "PrivateUsers",
        "ProtectProc",
        "ProcSubset",
        "RestrictSUIDSGID",
        "PrivateNetwork",
        "PrivatePIDs",
        "DynamicUser",
    ] {
        assert_eq!(values(&server, key), Vec::<&str>::new(), "{key}");
    }
}

#[test]
fn the_server_is_hardened_and_systemd_says_so() {
    let systemd_analyze = or_skip!(systemd_analyze());
    let scratch = Scratch::new();
    let units = copies(&scratch, &[PLAIN_SERVER]);
    let judged = run_program(
        &Invocation::new(systemd_analyze)
            .args(&["security", "--offline=true", "--threshold=30", "--no-pager"])
            .args(&units),
    );
    assert_eq!(judged.code, Some(0), "{}{}", judged.stdout, judged.stderr);
}

#[test]
fn the_directory_of_the_sockets_is_made() {
    let Some(tmpfiles) = program("systemd-tmpfiles") else {
        return skip("systemd-tmpfiles is not installed");
    };
    or_skip!(is_root(), "only root makes directories of root's");
    let scratch = Scratch::new();
    let root = format!("--root={}", scratch.path().display());
    let rules = packaging().join("tmpfiles.d/countersign.conf");
    let made = run_program(&Invocation::new(tmpfiles).arg("--create").arg(root).arg(rules));
    assert_eq!(made.code, Some(0), "{made:?}");
    let metadata = fs::metadata(scratch.path().join("run/countersign")).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o755));
}

#[test]
fn the_account_of_the_server_is_made() {
    let scratch = Scratch::new();
    let root = format!("--root={}", scratch.path().display());
    fs::create_dir(scratch.path().join("etc")).unwrap();
    let Some(sysusers) = program("systemd-sysusers") else {
        return skip("systemd-sysusers is not installed");
    };
    let account = packaging().join("sysusers.d/countersign.conf");
    let made = run_program(&Invocation::new(sysusers).arg(&root).arg(account));
    assert_eq!(made.code, Some(0), "{made:?}");
    let passwd = fs::read_to_string(scratch.path().join("etc/passwd")).unwrap();
    let line = passwd
        .lines()
        .find(|line| line.starts_with("countersign:"))
        .unwrap();
    assert!(
        line.ends_with(":/var/lib/countersign:/usr/sbin/nologin"),
        "{line}"
    );
}
