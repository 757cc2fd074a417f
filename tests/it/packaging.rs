//! What a package ships for systemd is what systemd understands.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::support::{Invocation, Scratch, program, run_program, skip, write_file};

const INSTALLED: &str = "/usr/bin/countersign";
const SERVER: &str = "systemd/countersign@.service";
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
        assert!(text.contains(env!("CARGO_BIN_EXE_countersign")));
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
    for (names, manager) in [(&[SERVER], "--system"), (&[USER], "--user")] {
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
    for name in [SERVER, USER] {
        let unit = read(name);
        assert_eq!(values(&unit, "KillMode"), ["process"], "{name}");
        assert_eq!(values(&unit, "Delegate"), ["yes"], "{name}");
        assert_eq!(values(&unit, "RestartPreventExitStatus"), ["78"], "{name}");
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
