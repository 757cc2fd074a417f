//! What of the settings the engine is told, as it says itself, and profiles that cannot be had.

use std::path::Path;

use countersign_hosts::sandbox::Unusable;
use serde_json::{Value, json};

use super::fixture::{DockerFixture, shell};
use crate::support::{Members, only, write_file};

/// What the engine has to say about a container.
async fn inspected(fixture: &DockerFixture, name: &str) -> Value {
    let text = fixture.engine.docker(&["inspect", name]).await;
    let all: Value = serde_json::from_str(&text).unwrap();
    all[0].clone()
}

#[tokio::test]
async fn the_engine_is_told_names_servers_and_limits() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut sandbox = fixture.enclosure("told");
    let settings = &mut sandbox.settings;
    settings.dns = vec!["192.0.2.53".to_owned()];
    settings.extra_hosts = vec!["made.example:192.0.2.7".to_owned()];
    settings.nano_cpus = Some(500_000_000);
    settings.memory_bytes = Some(64 << 20);
    settings.memory_swap_bytes = Some(64 << 20);
    settings.pids_limit = Some(50);
    fixture.backend.prepare(&sandbox).await.unwrap();
    let host = &inspected(&fixture, &sandbox.name).await["HostConfig"];
    assert_eq!(
        only(
            host,
            &[
                "Dns",
                "ExtraHosts",
                "NanoCpus",
                "Memory",
                "MemorySwap",
                "PidsLimit",
                "Privileged",
                "CapDrop",
                "Init"
            ]
        ),
        json!({
            "Dns": ["192.0.2.53"], "ExtraHosts": ["made.example:192.0.2.7"], "NanoCpus": 500_000_000,
            "Memory": 64 << 20, "MemorySwap": 64 << 20, "PidsLimit": 50, "Privileged": false, "CapDrop": ["ALL"],
            "Init": true,
        })
    );
    let security = host.list("SecurityOpt");
    assert_eq!(security[0], "no-new-privileges");
    // Our own profile of system calls, unless another one is named.
    let profile = security[1].as_str().unwrap().strip_prefix("seccomp=").unwrap();
    let profile: Value = serde_json::from_str(profile).unwrap();
    assert_eq!(
        (security.len(), &profile["defaultAction"]),
        (2, &json!("SCMP_ACT_ERRNO"))
    );
    // What the engine keeps from being written stays so when it is told what to hide.
    let has = |list: &str, path: &str| host.list(list).contains(&json!(path));
    for hidden in ["/proc/key-users", "/proc/kcore", "/sys/firmware"] {
        assert!(has("MaskedPaths", hidden), "{hidden}: {host}");
    }
    for kept in ["/proc/sys", "/proc/sysrq-trigger"] {
        assert!(has("ReadonlyPaths", kept), "{kept}: {host}");
    }
    fixture.engine.stop().await;
}

#[tokio::test]
async fn a_profile_for_system_calls_is_sent_whole_and_a_bad_one_is_refused() {
    let fixture = or_skip!(DockerFixture::new().await);
    let profile = fixture.engine.scratch().join("profile.json");
    let no_sync = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{ "names": ["sync"], "action": "SCMP_ACT_KILL_PROCESS" }],
    });
    write_file(&profile, no_sync.to_string());
    let mut sandbox = fixture.enclosure("profiled");
    sandbox.settings.seccomp_profile = Some(profile.to_str().unwrap().to_owned());
    fixture.backend.prepare(&sandbox).await.unwrap();
    assert_eq!(fixture.run(&sandbox, shell("true")).await.code(), 0);
    let killed = fixture.run(&sandbox, shell("busybox sync; echo $?")).await;
    assert_eq!(killed.stdout, "159\n", "killed by SIGSYS: {killed:?}");

    for (name, content, words) in [
        ("missing.json", None, "cannot be read as JSON"),
        ("text.json", Some("not a profile"), "cannot be read as JSON"),
        // Whatever the engine says of it is said.
        (
            "other.json",
            Some("{\"defaultAction\": \"NO_SUCH_ACTION\"}"),
            "NO_SUCH_ACTION",
        ),
    ] {
        let path = fixture.engine.scratch().join(name);
        if let Some(content) = content {
            write_file(&path, content);
        }
        let mut refused = fixture.enclosure("refused");
        refused.settings.seccomp_profile = Some(path.to_str().unwrap().to_owned());
        is_refused(fixture.backend.prepare(&refused).await, words);
    }
    assert_eq!(
        fixture.containers().await,
        ["sbx-profiled"],
        "what could not be started does not stay"
    );

    // An engine on a kernel without AppArmor takes any name for it, and says nothing.
    let mut other = fixture.enclosure("other");
    other.settings.seccomp_profile = Some("builtin".to_owned());
    other.settings.apparmor_profile = Some("no-such-profile".to_owned());
    let prepared = fixture.backend.prepare(&other).await;
    if Path::new("/sys/kernel/security/apparmor").exists() {
        is_refused(prepared, "no-such-profile");
    } else {
        prepared.unwrap();
        let told = &inspected(&fixture, &other.name).await["HostConfig"]["SecurityOpt"];
        assert_eq!(*told, json!(["no-new-privileges", "apparmor=no-such-profile"]));
    }
    fixture.engine.stop().await;
}

#[track_caller]
fn is_refused(answer: Result<(), Unusable>, words: &str) {
    let refusal = answer.expect_err("it was to be refused").to_string();
    assert!(
        refusal.to_lowercase().contains(&words.to_lowercase()),
        "{refusal}"
    );
}
