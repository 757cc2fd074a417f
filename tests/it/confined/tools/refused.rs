//! What cannot work when confined says so.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use crate::{
    confined::{ACCOUNT, FREE, PROGRAMS, builder, machine::Machine, possible, run},
    support::{Invocation, Members, TestServer, inherited_path, run_program, skip, write_file_mode},
};

fn codes(answer: &Value) -> Vec<&str> {
    let warnings = answer.list("warnings");
    warnings.iter().map(|warning| warning.text("code")).collect()
}

/// A machine with programs that read for root what nobody else may: one set-uid, one with a capability.
fn machine_with_rights() -> Machine {
    let machine = Machine::new();
    machine.dir("bin");
    let secret = machine.join("secret");
    write_file_mode(&secret, "for root\n", 0o600);
    for name in ["root-cat", "able-cat"] {
        fs::copy("/bin/cat", machine.join("bin").join(name)).unwrap();
    }
    fs::set_permissions(machine.join("bin/root-cat"), fs::Permissions::from_mode(0o4755)).unwrap();
    machine
}

/// Lets a program override who may read files; false where that cannot be said.
fn enable(program: &Path) -> bool {
    let give = "import os, struct, sys\n\
        os.setxattr(sys.argv[1], 'security.capability', struct.pack('<5I', 0x02000001, 1 << 2, 0, 0, 0))";
    let given = Invocation::new("python3")
        .args(&["-c", give])
        .arg(program)
        .env("PATH", inherited_path());
    run_program(&given).code == Some(0)
}

#[tokio::test]
async fn programs_with_rights_of_their_own_fail_and_the_run_says_why() {
    or_skip!(possible());
    let machine = machine_with_rights();
    let bin = machine.join("bin");
    let path = format!("{}:{PROGRAMS}", bin.display());
    let server = machine.with(builder().env("PATH", &path)).start().await;
    let secret = machine.join("secret");
    let secret = secret.display();
    let mut programs = vec!["root-cat"];
    if enable(&bin.join("able-cat")) {
        programs.push("able-cat");
    } else {
        skip("files cannot be given capabilities here");
    }
    for &program in &programs {
        for text in [
            format!("{program} {secret}"),
            format!("{}/{program} {secret}", bin.display()),
            format!("cd {} && ./{program} {secret}", bin.display()),
            format!("true && nice {program} {secret}"),
            format!("{program} {secret} | grep root"),
        ] {
            let free = run(&server, FREE, &text).await;
            assert_eq!(
                (&free["exitCode"], codes(&free)),
                (&json!(0), vec![]),
                "{text}\n{free:#}"
            );
            let confined = run(&server, "main", &text).await;
            assert_ne!(confined["exitCode"], 0, "{text}\n{confined:#}");
            assert_eq!(codes(&confined), ["confined-setuid"], "{text}\n{confined:#}");
            // Whoever was not there to get the answer finds it in the record.
            let record = server.agent().run(confined.text("runId")).await;
            let detail = record.text("detail");
            assert!(detail.contains("tools.exec.isolation"), "{detail}");
        }
    }
    // It says nothing where there is nothing to say: it worked, or nothing of this kind took part.
    for text in [
        "root-cat /etc/hostname",
        "cat /nonexistent",
        "grep nothing /etc/hostname",
        "exit 3",
    ] {
        let answer = run(&server, "main", text).await;
        assert_eq!(codes(&answer), Vec::<&str>::new(), "{text}");
        let record = server.agent().run(answer.text("runId")).await;
        assert_eq!(record["detail"], Value::Null, "{text}");
    }
    for &program in &programs {
        let call = json!({ "argv": [program, machine.join("secret")], "yieldMs": 120_000 });
        let answer = server.ran(call).await;
        assert_eq!(answer["exitCode"], 1, "{answer:#}");
        assert_eq!(codes(&answer), ["confined-setuid"], "{answer:#}");
    }
}

#[tokio::test]
async fn the_command_line_says_why_su_and_sudo_fail() {
    or_skip!(possible());
    let server = builder().start().await;
    for (program, arguments) in [("su", vec!["root", "-c", "true"]), ("sudo", vec!["-n", "true"])] {
        let path = Path::new("/usr/bin").join(program);
        if !path.exists() {
            skip(&format!("there is no {program}"));
            continue;
        }
        let words = [vec!["exec", "--", program], arguments].concat();
        let answer = TestServer::finish(server.invocation(&words).run_as(ACCOUNT)).await;
        assert_ne!(answer.code, Some(0));
        assert!(
            answer.stderr.contains("warning[confined-setuid]: "),
            "{program}: {}",
            answer.stderr
        );
    }
}

#[tokio::test]
async fn an_agent_that_is_taken_out_keeps_what_set_uid_programs_give() {
    or_skip!(possible());
    let machine = machine_with_rights();
    fs::copy("/usr/bin/id", machine.join("bin/root-id")).unwrap();
    fs::set_permissions(machine.join("bin/root-id"), fs::Permissions::from_mode(0o4755)).unwrap();
    let path = format!("{}:{PROGRAMS}", machine.join("bin").display());
    let server = machine.with(builder().env("PATH", &path)).start().await;
    for (agent, uid, level) in [(FREE, "0\n", "same-user"), ("main", "1\n", "confined")] {
        let answer = run(&server, agent, "root-id -u").await;
        assert_eq!(answer["stdout"], uid, "{agent}");
        let record = server.agent().run(answer.text("runId")).await;
        assert_eq!(record["isolation"], level);
    }
}

#[tokio::test]
async fn clients_of_covered_services_fail_and_the_run_says_why() {
    or_skip!(possible());
    let machine = Machine::new();
    machine.dir("bin");
    for name in ["docker", "systemctl"] {
        let client = machine.join("bin").join(name);
        write_file_mode(&client, "#!/bin/sh\nls /run/dbus > /dev/null || exit 4\n", 0o755);
    }
    let path = format!("{}:{PROGRAMS}", machine.join("bin").display());
    fs::create_dir_all("/run/dbus").unwrap();
    let server = machine.with(builder().env("PATH", &path)).start().await;
    for text in ["docker ps", "systemctl --user status", "nice docker ps"] {
        let free = run(&server, FREE, text).await;
        assert_eq!((&free["exitCode"], codes(&free)), (&json!(0), vec![]), "{text}");
        let confined = run(&server, "main", text).await;
        assert_eq!(
            (&confined["exitCode"], codes(&confined)),
            (&json!(4), vec!["confined-service"]),
            "{text}\n{confined:#}"
        );
    }
}
