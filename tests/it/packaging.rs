//! What a package ships for systemd is what systemd understands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::{Invocation, Scratch, program, run_program, skip, write_file};

const INSTALLED: &str = "/usr/bin/countersign";
const SERVER: &str = "systemd/countersign.service";
const RUNNER: &str = "systemd/countersign-runner@.service";
const SOCKET: &str = "systemd/countersign-runner@.socket";
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
        assert!(text.contains(env!("CARGO_BIN_EXE_countersign")) || name.ends_with("socket"));
        write_file(&path, &text);
        path.to_str().unwrap().to_owned()
    };
    names.iter().map(copy).collect()
}

fn systemd_analyze() -> Option<PathBuf> {
    let found = program("systemd-analyze");
    if found.is_none() {
        skip("systemd-analyze is not installed");
    }
    found
}

#[test]
fn the_units_are_understood() {
    let Some(systemd_analyze) = systemd_analyze() else {
        return;
    };
    for (names, manager) in [(&[SERVER, RUNNER, SOCKET][..], "--system"), (&[USER], "--user")] {
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
            "{manager}: {}",
            verified.stdout
        );
    }
}

#[test]
fn a_unit_that_is_wrong_would_be_noticed() {
    let Some(systemd_analyze) = systemd_analyze() else {
        return;
    };
    let scratch = Scratch::new();
    let unit = scratch.path().join("countersign.service");
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
fn the_server_is_exposed_as_little_as_can_be() {
    let Some(systemd_analyze) = systemd_analyze() else {
        return;
    };
    let scratch = Scratch::new();
    let units = copies(&scratch, &[SERVER]);
    let security = Invocation::new(&systemd_analyze)
        .args(&["security", "--offline=true", "--json=short", "--threshold=20"])
        .args(&units)
        .env("XDG_RUNTIME_DIR", scratch.path());
    let assessed = run_program(&security);
    if assessed.stderr.contains("offline") {
        return skip("this systemd-analyze does not assess files");
    }
    assert_eq!(assessed.code, Some(0), "exposed more than 2.0: {assessed:?}");
    let report: Value = serde_json::from_str(&assessed.stdout).expect("a report");
    let is_set = |key: &str| {
        let of_key = report
            .as_array()
            .unwrap()
            .iter()
            .filter(|entry| entry["json_field"] == key);
        of_key.map(|entry| &entry["set"]).collect::<Vec<_>>()
    };
    for key in [
        "NoNewPrivileges",
        "ProtectHome",
        "PrivateDevices",
        "CapabilityBoundingSet_CAP_SYS_ADMIN",
    ] {
        assert_eq!(is_set(key), [&Value::Bool(true)], "{key}");
    }
}

#[test]
fn background_runs_outlive_every_unit_that_has_them() {
    for name in [SERVER, RUNNER, USER] {
        let unit = read(name);
        assert_eq!(values(&unit, "KillMode"), ["process"], "{name}");
        assert_eq!(values(&unit, "Delegate"), ["yes"], "{name}");
        assert_eq!(values(&unit, "RestartPreventExitStatus"), ["78"], "{name}");
    }
    for name in [RUNNER, USER] {
        let unit = read(name);
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
fn the_units_fit_together() {
    let (server, runner, socket) = (read(SERVER), read(RUNNER), read(SOCKET));
    assert_eq!(values(&server, "Type"), ["notify"]);
    assert_eq!(values(&server, "User"), ["countersign"]);
    assert_eq!(values(&server, "StateDirectory"), ["countersign"]);
    assert_eq!(values(&server, "StateDirectoryMode"), ["0700"]);
    assert!(values(&server, "Environment").contains(&"COUNTERSIGN_EXEC__ISOLATION=separate-user"));
    assert_eq!(values(&runner, "User"), ["%i"]);
    // Whoever may connect is the server and nobody else.
    assert_eq!(values(&socket, "SocketUser"), values(&server, "User"));
    assert_eq!(values(&socket, "SocketMode"), ["0600"]);
    assert_eq!(
        values(&socket, "ListenSequentialPacket"),
        ["/run/countersign/runner.sock"]
    );
    assert!(read("tmpfiles.d/countersign.conf").contains("\nd /run/countersign 0755 root root -\n"));
}

#[test]
fn the_account_and_the_directory_are_made() {
    let scratch = Scratch::new();
    let root = format!("--root={}", scratch.path().display());
    for directory in ["etc", "run"] {
        fs::create_dir(scratch.path().join(directory)).unwrap();
    }
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
    if !crate::support::is_root() {
        return skip("only root can make the directory of another owner");
    }
    let Some(tmpfiles) = program("systemd-tmpfiles") else {
        return skip("systemd-tmpfiles is not installed");
    };
    let directory = packaging().join("tmpfiles.d/countersign.conf");
    let made = run_program(
        &Invocation::new(tmpfiles)
            .arg(&root)
            .arg("--create")
            .arg(directory),
    );
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(scratch.path().join("run/countersign").is_dir());
}
