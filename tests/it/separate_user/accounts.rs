//! Whose everything is: the commands, their files and environment, the server and its files.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use serde_json::json;

use crate::support::{Members, Scratch, TestServer, write_file_mode};

use super::{
    AccountsFixture, STARTED, field, have_their_account_and_nothing_else, launcher, printed, processes, run,
    runner,
};

#[tokio::test]
async fn commands_have_the_account_its_limits_and_nothing_of_the_servers() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts
        .builder()
        .behind("sh", &["-c", STARTED, "sh"])
        .env("A_SECRET_OF_ROOT", "hush")
        .env("PATH", "/opt/of/root:/usr/bin:/bin")
        .start()
        .await;
    have_their_account_and_nothing_else(&server, &accounts).await;
    assert_eq!(
        printed(
            &server,
            "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u"
        )
        .await,
        "0000000000000000\n"
    );
    printed(&server, "touch made").await;
    let account = accounts.commands;
    let made = fs::metadata(accounts.workspace().join("made")).unwrap();
    assert_eq!(
        (made.uid(), made.gid(), made.mode() & 0o777),
        (account, account, 0o640)
    );

    let answer = run(&server, "true").await;
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["isolation"], "separate-user");
    let policy = server.operator().get("/v1/policy/effective").await;
    assert_eq!(policy.expect(200)["isolation"], "separate-user");
}

#[tokio::test]
async fn an_agent_cannot_be_taken_out() {
    let accounts = or_skip!(AccountsFixture::new());
    let exec = json!({ "host": "gateway", "security": "full", "ask": "off", "isolation": "same-user" });
    let server = accounts
        .with_exec(&exec)
        .env("COUNTERSIGN_EXEC__RUN_AS", &accounts.commands.to_string())
        .start()
        .await;
    let answer = run(&server, "id -u").await;
    assert_eq!(answer["stdout"], format!("{}\n", accounts.commands));
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["isolation"], "separate-user");
}

#[tokio::test]
async fn a_named_account_brings_its_groups_home_and_name() {
    let table = fs::read_to_string("/etc/passwd").unwrap();
    let entry: Vec<_> = table
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|entry| entry[0] == "games")
        .expect("every system has games");
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.as_account("games").start().await;
    let expect = crate::support::run_program(&crate::support::Invocation::new("id").args(&["-G", "games"]));
    assert_eq!(printed(&server, "id -G").await, expect.stdout);
    assert_eq!(
        printed(&server, "echo $(id -u) $HOME $USER $LOGNAME $SHELL").await,
        // Nobody logs in to it, and its login shell would refuse every command.
        format!("{} {} games games /bin/sh\n", entry[2], entry[5])
    );
}

#[tokio::test]
async fn the_login_shell_is_asked_as_the_account() {
    let (accounts, shells) = (or_skip!(AccountsFixture::new()), Scratch::new());
    fs::set_permissions(shells.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let shell = shells.join("sh");
    // Without the profile of the machine, which sets the PATH, too.
    let script = "#!/bin/sh\nif [ $1 = -l ]; then shift; export PATH=/of/$(id -u)/$(id -G | tr ' ' '-')/$(pwd | tr / _); fi\n\
                  exec /bin/sh \"$@\"\n";
    write_file_mode(&shell, script, 0o755);
    let server = accounts
        .builder()
        .env("COUNTERSIGN_EXEC__SHELL", &shell.to_string_lossy())
        .env("COUNTERSIGN_EXEC__LOGIN_PATH", "true")
        .start()
        .await;
    let account = accounts.commands;
    assert_eq!(
        printed(&server, "echo $PATH").await,
        format!("/of/{account}/{account}/_:/usr/local/bin:/usr/bin:/bin\n"),
        "{}",
        server.log()
    );
}

#[tokio::test]
async fn the_server_gives_up_root_for_good_and_owns_its_state() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let four = |id: u32| format!("{id} {id} {id} {id}");
    let (own, none) = (accounts.server, "0000000000000000");
    assert_eq!(field(server.pid(), "Uid"), four(own));
    assert_eq!(field(server.pid(), "Gid"), four(own));
    assert_eq!(field(server.pid(), "Groups"), own.to_string());
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(server.pid(), set), none, "{set}");
    }
    assert_eq!(field(server.pid(), "NoNewPrivs"), "1");
    // Root is left in one process, which has nothing to do but to start runners.
    assert_eq!(field(launcher(&server), "Uid"), four(0));
    assert_eq!(field(runner(&server), "Uid"), four(accounts.commands));
    // One is of the server's account: it holds the clients of a container engine.
    for pid in processes(&server, "__runner") {
        assert!([four(accounts.commands), four(own)].contains(&field(pid, "Uid")));
    }
    // What may be read of a process by its own account belongs to that account; what may not, to root.
    for pid in [server.pid(), runner(&server)] {
        let owner = fs::metadata(format!("/proc/{pid}/environ")).unwrap().uid();
        assert_eq!(owner, 0, "{pid} can be read");
    }
    let state = accounts.state();
    for directory in [
        state.clone(),
        state.join("countersign"),
        state.join("countersign/runs"),
    ] {
        let metadata = fs::metadata(&directory).unwrap();
        assert_eq!(
            (metadata.uid(), metadata.mode() & 0o7777),
            (own, 0o700),
            "{}",
            directory.display()
        );
    }
    for file in fs::read_dir(state.join("countersign")).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().uid(), own, "{}", file.path().display());
    }
    let doctor = server.invocation(&["doctor", "--json"]).run_as(own);
    let report = TestServer::finish(doctor).await.stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let findings = report.list("findings");
    let errors: Vec<_> = findings
        .iter()
        .filter(|finding| finding["severity"] == "error")
        .map(|finding| finding.text("id"))
        // Commands run without a question here, which is what this test wants.
        .filter(|id| *id != "everything-runs")
        .collect();
    assert_eq!(errors, [""; 0], "{report:#}");
}
