//! What a command in a container sees, reads, writes, and how it ends.

use std::path::PathBuf;

use countersign_config::settings::{BindMount, Limit};
use countersign_domain::TerminalSize;
use countersign_hosts::sandbox::docker::ClientEnd;
use serde_json::Value;

use super::fixture::{DockerFixture, OWNER, argv, shell};
use crate::{
    container::engine::run,
    support::{Invocation, write_file},
};

/// Everything that a shell might do something with.
const HOSTILE: &str = "a b'c\"d$(touch /tmp/x)`touch /tmp/x`;\\\n*~ü&|";

#[tokio::test]
async fn commands_run_in_a_container_as_they_would_in_a_shell() {
    let fixture = or_skip!(DockerFixture::new().await);
    fixture.backend.probe(super::fixture::IMAGE).await.unwrap();
    let sandbox = fixture.ready("commands").await;

    // How it ends.
    for (text, code) in [
        ("true", 0),
        ("exit 3", 3),
        ("kill -9 $$", 137),
        ("nosuchprogram", 127),
        ("exit 255", 255),
    ] {
        assert_eq!(fixture.run(&sandbox, shell(text)).await.code(), code, "{text}");
    }
    let not_there = fixture.run(&sandbox, argv(&["nosuchprogram"])).await;
    assert_eq!(not_there.code(), 127, "{not_there:?}");
    let option = fixture.run(&sandbox, argv(&["-c", "true"])).await;
    assert_eq!(option.end(), ClientEnd::NotStarted, "{option:?}");

    // What it reads and writes.
    let both = fixture
        .run(&sandbox, shell("echo one; echo two >&2; kill -9 $$"))
        .await;
    assert_eq!((both.stdout.as_str(), both.stderr.as_str()), ("one\n", "two\n"));
    let input: Vec<u8> = (0..=255_u8).cycle().take(60_000).collect();
    let read = fixture.run(&sandbox, argv(&["sha256sum"]).stdin(&input)).await;
    assert_eq!((read.code(), read.stdout), (0, sha256(&input).await));
    let nothing = fixture.run(&sandbox, argv(&["cat"])).await;
    assert_eq!((nothing.code(), nothing.stdout.as_str()), (0, ""));
    let much = fixture
        .run(&sandbox, shell("head -c 3000000 /dev/zero | tr '\\0' x"))
        .await;
    let written = much.stdout.len() as u64 + much.skipped;
    assert_eq!((much.code(), written), (0, 3_000_000));

    // Arguments, variables and paths are what they are.
    let words = fixture
        .run(&sandbox, argv(&["printf", "%s|", HOSTILE, "", "-n"]))
        .await;
    assert_eq!(words.stdout, format!("{HOSTILE}||-n|"));
    let print = "printf '%s|' \"$VALUE\" \"$mode\" \"$OPENCLAW_SHELL\" \"$LANG\" \"$FROM_PROFILE\"";
    let variables = shell(print)
        .env("VALUE", HOSTILE)
        .env("mode", "m")
        .env("LANG", "other");
    assert_eq!(
        fixture.run(&sandbox, variables).await.stdout,
        format!("{HOSTILE}|m|exec|other|yes|")
    );
    let path = format!("/first:{}", HOSTILE.replace('/', ":"));
    let shown = fixture
        .run(&sandbox, shell("printf %s \"$PATH\"; echo \"/$#\"").path(&path))
        .await;
    assert_eq!(shown.stdout, format!("{path}:/profile/bin:/bin/0\n"), "{shown:?}");
    let shown = fixture.run(&sandbox, argv(&["env"]).path(&path)).await;
    assert!(shown.stdout.contains(&format!("PATH={path}:/usr")), "{shown:?}");
    for name in [
        "COUNTERSIGN_PATH",
        "COUNTERSIGN_LOGIN_PATH",
        "COUNTERSIGN_DOCKER",
        "_cs_",
    ] {
        assert!(!shown.stdout.contains(name), "{name}: {shown:?}");
    }
    assert_eq!(
        fixture.printed(&sandbox, "ls -A /tmp").await,
        "",
        "something was executed"
    );

    // Where it is.
    assert_eq!(fixture.printed(&sandbox, "pwd").await, "/workspace\n");
    assert_eq!(
        fixture.run(&sandbox, shell("pwd").cwd("/tmp")).await.stdout,
        "/tmp\n"
    );
    let nowhere = fixture.run(&sandbox, shell("pwd").cwd("/nowhere")).await;
    assert_ne!(nowhere.code(), 0, "{nowhere:?}");
    fixture.printed(&sandbox, "echo made inside > made").await;
    let made = std::fs::read_to_string(sandbox.workspace.join("made")).unwrap();
    assert_eq!(made, "made inside\n");

    at_a_terminal(&fixture).await;
    fixture.engine.stop().await;
}

async fn at_a_terminal(fixture: &DockerFixture) {
    let sandbox = fixture.ready("commands").await;
    // The first bytes look like the head of a frame, and the last line has no end.
    let text = "printf '\\001\\000\\000\\000'; test -t 0 && test -t 1 && echo; \
                until stty size 2>/dev/null | grep -q '33 77'; do :; done; stty size; printf 'name? '; read name; echo \"<$name>\"";
    let mut order = shell(text);
    order.terminal = TerminalSize::new(33, 77);
    order.stdin_stays_open = true;
    let mut running = fixture.start(&sandbox, order).await;
    running.until_written("name? ").await;
    let control = &running.supervised.control;
    control.write_input(b"somebody\n").await.unwrap();
    let ended = running.end().await;
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(
        ended.stdout, "\u{1}\0\0\0\r\n33 77\r\nname? somebody\r\n<somebody>\r\n",
        "{ended:?}"
    );
}

#[tokio::test]
async fn a_container_is_what_the_settings_say() {
    let fixture = or_skip!(DockerFixture::new().await);
    let mut sandbox = fixture.enclosure("limits");
    let data = fixture.engine.scratch().dir("of-the-host");
    write_file(&data.join("file"), "of the host");
    let bind = |inside: &str, writable| BindMount {
        host: data.clone(),
        inside: PathBuf::from(inside),
        writable,
    };
    sandbox.settings.binds = vec![bind("/ro", false), bind("/rw", true)];
    sandbox.settings.tmpfs.push("/small:size=1m".to_owned());
    sandbox.settings.env.insert("OF_ALL".to_owned(), "yes".to_owned());
    sandbox.settings.memory_bytes = Some(64 << 20);
    sandbox.settings.memory_swap_bytes = Some(64 << 20);
    // That of open files is raised now and then by what starts a process inside.
    let stack = Limit {
        soft: 4 << 20,
        hard: 6 << 20,
    };
    sandbox.settings.ulimits.insert("stack".to_owned(), stack);
    fixture.backend.prepare(&sandbox).await.unwrap();

    for (text, expected) in [
        ("cat /ro/file", "of the host"),
        ("touch /ro/x || echo no", "no\n"),
        ("touch /rw/made && echo yes", "yes\n"),
        ("touch /made || echo no", "no\n"),
        ("touch /tmp/made /run/made && echo yes", "yes\n"),
        ("head -c 2000000 /dev/zero >/small/x || echo no", "no\n"),
        ("echo $OF_ALL", "yes\n"),
        ("ulimit -s; ulimit -Hs", "4096\n6144\n"),
        ("ls /sys/class/net", "lo\n"),
        ("ping -c 1 -w 1 192.0.2.1 >&2 || echo no", "no\n"),
        ("mount -t tmpfs x /tmp || echo no", "no\n"),
        (
            "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\\t\\n'",
            "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1",
        ),
    ] {
        assert_eq!(fixture.printed(&sandbox, text).await, expected, "{text}");
    }
    // More memory than there is ends the command, not the machine.
    let hungry = fixture.run(&sandbox, shell("tail /dev/zero")).await;
    assert_eq!(hungry.code(), 137, "{hungry:?}");
    fixture.printed(&sandbox, "true").await;

    let mut worker = fixture.enclosure("worker");
    worker.settings.user = Some("1000:1000".to_owned());
    worker.workspace_writable = false;
    fixture.backend.prepare(&worker).await.unwrap();
    assert_eq!(fixture.printed(&worker, "id -u; id -g").await, "1000\n1000\n");
    assert_eq!(
        fixture.printed(&worker, "touch /workspace/x || echo no").await,
        "no\n"
    );

    let labels = fixture
        .engine
        .docker(&["inspect", "--format", "{{json .Config.Labels}}", "sbx-worker"])
        .await;
    let labels: Value = serde_json::from_str(&labels).unwrap();
    assert_eq!(labels["countersign.owner"], OWNER);
    assert_eq!(labels["countersign.scope"], "agent:worker");
    fixture.engine.stop().await;
}

/// As `sha256sum` of this machine has it.
async fn sha256(bytes: &[u8]) -> String {
    let summing = Invocation::new("sha256sum").input(bytes);
    run(summing).await.stdout
}
