//! What still works for a confined command, and what it is told about what cannot.

mod builds;
mod files;
mod processes;
mod refused;
mod ssh;

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    real_commands,
    support::{TestServer, needed, skip},
};

use super::{FREE, PROGRAMS, builder, give, machine::Machine, possible, run};

#[tokio::test]
async fn confined_agents_get_from_real_programs_what_a_terminal_gives() {
    or_skip!(possible());
    let mut machine = Machine::new();
    let toolchain = machine.put_toolchain();
    let path = format!("{}/bin:{PROGRAMS}", toolchain.display());
    let server = machine.with(builder().env("PATH", &path)).start().await;
    let checkout = server.scratch().git_checkout();
    give(&checkout);
    let count = real_commands::try_all(&server, &checkout).await;
    assert!(count >= 40, "{count} commands");
}

/// Programs of the system that a test needs besides the level; `None` where one is missing.
fn possible_with(programs: &[&str]) -> Option<()> {
    possible()?;
    let is_there = |program: &str| {
        PROGRAMS
            .split(':')
            .any(|directory| Path::new(directory).join(program).exists())
    };
    programs
        .iter()
        .try_for_each(|program| needed(is_there(program), &format!("there is no {program}")))
}

/// A script in a directory of its own, which is its home.
fn in_fresh_directory(server: &TestServer, script: &str) -> String {
    let home = server.scratch().join("home");
    format!(
        "d=$(mktemp -d {}/XXXXXX) && cd $d && export HOME=$d && {script}",
        home.display()
    )
}

/// Runs a script that needs some programs, as both agents: what fails for both is not for us to mend.
async fn works(server: &TestServer, programs: &[&str], script: &str) {
    or_skip!(possible_with(programs));
    let script = &in_fresh_directory(server, script);
    let free = run(server, FREE, script).await;
    if free["exitCode"] != 0 {
        return skip(&format!(
            "{} does not work here at all: {free}",
            programs.join(", ")
        ));
    }
    let confined = run(server, "main", script).await;
    assert_eq!(confined["exitCode"], 0, "{script}\n{confined:#}");
}

#[tokio::test]
async fn tools_that_look_at_accounts_owners_and_processes_work() {
    or_skip!(possible());
    let server = builder().start().await;
    for (programs, script) in [
        (
            vec!["git"],
            "git init -q . && git config user.name T && git config user.email t@example.test && echo x > f && git add f && git commit -qm one && git clone -q . ../$$ && git -C ../$$ log -1 --format=%s | grep one && git gc -q && git status --porcelain",
        ),
        (
            vec!["tar"],
            "mkdir s && echo x > s/f && tar cf t.tar s && mkdir o && tar xpf t.tar -C o && cmp s/f o/s/f && test $(stat -c %u o/s/f) = $(id -u)",
        ),
        (
            vec!["tar"],
            "tar cf t.tar /etc/hostname /etc/passwd && tar xf t.tar && cmp etc/passwd /etc/passwd",
        ),
        (
            vec!["python3"],
            "python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
        ),
        (
            vec!["python3"],
            "python3 -c 'import multiprocessing as m; p = m.Pool(2); print(p.map(abs, [-1, -2]))'",
        ),
        (
            vec!["python3"],
            "python3 -c 'import pty, sys; sys.exit(pty.spawn([\"true\"]))'",
        ),
        (vec!["ssh"], "ssh -G example.test > /dev/null"),
        (
            vec!["ssh-keygen"],
            "ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -y -f k > /dev/null",
        ),
        (
            vec!["ssh-agent"],
            "eval $(ssh-agent -s) && ssh-add -l; test $? = 1 && kill $SSH_AGENT_PID",
        ),
        (
            vec!["gpg"],
            "mkdir -m 700 g && gpg --homedir g --batch --passphrase '' --quick-gen-key t@example.test && gpgconf --homedir g --kill all",
        ),
        (
            vec!["unshare"],
            "unshare -Urmpf --mount-proc sh -c 'mount -t tmpfs x /mnt && id -u'",
        ),
        (
            vec!["bwrap"],
            "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-all true",
        ),
        (
            vec!["perl"],
            "perl -e 'my @p = getpwuid($<); die unless @p; print $p[0]'",
        ),
        (vec!["ps"], "ps aux | grep -q ."),
        (
            vec!["sh"],
            "(sleep 100 & kill $! && wait; true) && mkfifo p && (echo x > p &) && read l < p && test $l = x",
        ),
        (
            vec!["sh"],
            "test \"$(readlink /proc/self/exe)\" = \"$(readlink -f $(command -v readlink))\" && pwd -P && test \"$(readlink /proc/self/cwd)\" = \"$(pwd -P)\"",
        ),
    ] {
        works(&server, &programs, script).await;
    }
}

#[tokio::test]
async fn output_limits_and_kills_reach_a_confined_command() {
    or_skip!(possible());
    let server = builder().start().await;
    let mark = server.state().join("workspace/alive");
    let call = json!({
        "command": format!("(setsid sh -c 'trap \"\" TERM; while :; do date > {}; sleep 0.1; done' &); sleep 300", mark.display()),
        // Long enough for the mark to be there.
        "timeout": 5, "yieldMs": 120_000,
    });
    let answer = server.ran(call).await;
    assert_has!(answer, { "status": "failed", "timedOut": true });
    fs::remove_file(&mark).unwrap();
    // Several times the pause of what wrote it.
    assert_eq!(
        run(&server, FREE, &format!("sleep 0.6; test ! -e {}", mark.display())).await["exitCode"],
        0
    );
    let big = run(&server, "main", "head -c 3000000 /dev/zero | tr '\\0' x").await;
    assert_eq!(big["outputBytes"], 3_000_000);
}
