//! What still works for a confined command.

use std::{fs, path::Path};

use serde_json::json;

use crate::{
    real_commands,
    support::{Invocation, inherited_path, run_program, skip, write_file},
};

use super::{ACCOUNT, FREE, builder, give, is_missing, run};

#[tokio::test]
async fn confined_agents_get_from_real_programs_what_a_terminal_gives() {
    if is_missing() {
        return;
    }
    let server = builder().start().await;
    let checkout = server.scratch().git_checkout();
    give(&checkout);
    // The toolchain lies where this account cannot go.
    let is_here = |body: &str| !body.contains("cargo --version") && !body.contains("rustc --version");
    let count = real_commands::try_all(&server, &checkout, is_here).await;
    assert!(count >= 40, "{count} commands");
}

/// Runs a script that needs some programs, as both agents: what fails for both is not for us to mend.
async fn works(server: &super::TestServer, programs: &[&str], script: &str) {
    for program in programs {
        if !["/usr/local/bin", "/usr/bin", "/bin"]
            .iter()
            .any(|at| Path::new(at).join(program).exists())
        {
            return skip(&format!("there is no {program}"));
        }
    }
    let free = run(server, FREE, script).await;
    if free["exitCode"] != 0 {
        return skip(&format!(
            "{} does not work here at all: {free:#}",
            programs.join(", ")
        ));
    }
    let confined = run(server, "main", script).await;
    assert_eq!(confined["exitCode"], 0, "{script}\n{confined:#}");
}

#[tokio::test]
async fn tools_that_look_at_accounts_owners_and_processes_work() {
    if is_missing() {
        return;
    }
    let server = builder().start().await;
    let home = server.scratch().join("home");
    let fresh = format!(
        "d=$(mktemp -d {}/XXXXXX) && cd $d && export HOME=$d",
        home.display()
    );
    for (programs, script) in [
        (
            vec!["git"],
            "git init -q . && git config user.name T && git config user.email t@example.test && echo x > f && git add f && git commit -qm one && git clone -q . ../$$ && git -C ../$$ log -1 --format=%s | grep one && git gc -q && git status --porcelain",
        ),
        (
            vec!["make", "cc"],
            "printf 'int main(void){return 0;}\\n' > a.c && printf 'all: a\\na: a.c\\n\\tcc -o a a.c\\n' > Makefile && make -s && ./a",
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
            vec!["rsync"],
            "mkdir s && echo x > s/f && rsync -a s/ o/ && cmp s/f o/f",
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
        (
            vec!["gdb", "cc"],
            "printf 'int main(void){return 7;}\\n' > a.c && cc -g -o a a.c && gdb -batch -ex 'break main' -ex run -ex 'info locals' -ex continue ./a 2>&1 | grep -q 'exited with code 07'",
        ),
        (vec!["strace"], "strace -o log true && grep -q execve log"),
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
        works(&server, &programs, &format!("{fresh} && {script}")).await;
    }
}

#[tokio::test]
async fn ssh_takes_the_configuration_of_the_system_that_it_includes() {
    if is_missing() {
        return;
    }
    let directory = Path::new("/etc/ssh/ssh_config.d");
    let includes = fs::read_to_string("/etc/ssh/ssh_config")
        .is_ok_and(|text| text.contains("Include /etc/ssh/ssh_config.d"));
    if !directory.is_dir() || !includes || !Path::new("/usr/bin/ssh").exists() {
        return skip("there is no OpenSSH client with a directory of included files");
    }
    let file = directory.join(format!("countersign-test-{}.conf", std::process::id()));
    write_file(&file, "Host countersign.test\n  User somebody\n");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let server = builder().start().await;
    let answer = run(&server, "main", "ssh -G countersign.test | grep '^user '").await;
    let owner = run(&server, "main", &format!("stat -c %u {}", file.display())).await;
    fs::remove_file(&file).unwrap();
    assert_eq!(answer["stdout"], "user somebody\n", "{answer:#}");
    assert_eq!(owner["stdout"], "1\n", "{owner:#}");
    // The refusal that this mends is real: the same, with what belongs to root.
    write_file(&file, "Host countersign.test\n");
    let refused = Invocation::new("unshare")
        .args(&[
            "--user",
            "--map-user=1",
            "--map-group=1",
            "ssh",
            "-G",
            "countersign.test",
        ])
        .env("PATH", inherited_path())
        .run_as(ACCOUNT);
    let refused = run_program(&refused);
    fs::remove_file(&file).unwrap();
    assert_ne!(refused.code, Some(0));
}

#[tokio::test]
async fn output_limits_and_kills_reach_a_confined_command() {
    if is_missing() {
        return;
    }
    let server = builder().start().await;
    let mark = server.state().join("workspace/alive");
    let call = json!({
        "command": format!("(setsid sh -c 'trap \"\" TERM; while :; do date > {}; sleep 0.1; done' &); sleep 300", mark.display()),
        "timeout": 1, "yieldMs": 120_000,
    });
    let answer = server.agent().exec(call).await.expect(200);
    assert_eq!(
        (&answer["status"], &answer["timedOut"]),
        (&json!("failed"), &json!(true))
    );
    fs::remove_file(&mark).unwrap();
    // Several times the pause of what wrote it.
    assert_eq!(
        run(&server, FREE, &format!("sleep 0.6; test ! -e {}", mark.display())).await["exitCode"],
        0
    );
    let big = run(&server, "main", "head -c 3000000 /dev/zero | tr '\\0' x").await;
    assert_eq!(big["outputBytes"], 3_000_000);
}
