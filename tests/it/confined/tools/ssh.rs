//! OpenSSH and what speaks through it, to a daemon on this machine, with configuration that lies elsewhere.

use std::{
    fs::{self, File},
    path::Path,
    process::{Child, Stdio},
};

use crate::{
    confined::{FREE, builder, give, machine::Machine, possible, run},
    support::{
        Invocation, Members, ProcessHandle, TestServer, eventually, free_port, inherited_path, program,
        run_program, skip, write_file_mode,
    },
};

/// A daemon on a port of its own; it ends with the test.
struct Daemon {
    child: Child,
    port: u16,
}

impl Daemon {
    async fn start(machine: &Machine, sshd: &Path, account: &str) -> Self {
        let port = free_port();
        let place = |name: &str| machine.join(name).display().to_string();
        let settings = machine.file(
            "sshd_config",
            &format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nAllowUsers {account}\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 PidFile none\nSubsystem sftp internal-sftp\n",
                place("host_key"),
                place("id.pub"),
            ),
        );
        let log = machine.join(&format!("sshd-{port}.log"));
        let daemon = Invocation::new(sshd)
            .args(&["-D", "-e", "-f"])
            .arg(settings)
            .env("PATH", inherited_path());
        let child = machine
            .with_program(daemon)
            .start(Stdio::from(File::create(&log).unwrap()));
        let pid = i32::try_from(child.id()).unwrap();
        let daemon = Self { child, port };
        let state = || {
            let text = fs::read_to_string(&log).unwrap();
            let is_over = ProcessHandle::open(pid).is_none_or(|handle| handle.has_ended());
            std::future::ready((text, is_over))
        };
        let (text, is_over) = eventually("listening", state, |(text, is_over)| {
            *is_over || text.contains("Server listening")
        })
        .await;
        assert!(!is_over, "{text}");
        daemon
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().expect("ending the daemon");
            self.child.wait().expect("the end of the daemon");
        }
    }
}

fn make_key(path: &Path) {
    let made = Invocation::new("ssh-keygen")
        .args(&["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .env("PATH", inherited_path());
    assert_eq!(run_program(&made).code, Some(0));
}

/// A machine whose OpenSSH is told of the daemon in three places: a file that the system's configuration includes,
/// one that this includes in turn, and one of root that the account's own configuration includes.
async fn machine_with_daemon(sshd: &Path) -> (Machine, Daemon) {
    let mut machine = Machine::new();
    let account = machine.put_account();
    make_key(&machine.join("host_key"));
    make_key(&machine.join("id"));
    give(&machine.join("id"));
    let daemon = Daemon::start(&machine, sshd, &account).await;

    let etc = machine.dir("ssh");
    machine.dir("ssh/ssh_config.d");
    let policies = machine.dir("policies");
    let shared = machine.dir("shared");
    let host_key = fs::read_to_string(machine.join("host_key.pub")).unwrap();
    let known = machine.file("known_hosts", &format!("forge {host_key}"));
    let host = |name: &str| {
        format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  User {account}\n  HostKeyAlias forge\n  BatchMode yes\n  \
             IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  StrictHostKeyChecking yes\n",
            daemon.port,
            machine.join("id").display(),
            known.display(),
        )
    };
    machine.file("ssh/ssh_config", "Include /etc/ssh/ssh_config.d/*.conf\n");
    let first = format!(
        "{}Host *\n  Include {}/tls\n",
        host("forge.test"),
        policies.display()
    );
    machine.file("ssh/ssh_config.d/50-forge.conf", &first);
    machine.file("policies/tls", &host("policy.test"));
    machine.file("shared/team.conf", &host("team.test"));
    let own = machine.home().join(".ssh");
    fs::create_dir(&own).unwrap();
    write_file_mode(
        &own.join("config"),
        format!("Include {}/*.conf\n", shared.display()),
        0o600,
    );
    give(&machine.home());
    machine.put(&etc, Path::new("/etc/ssh"));
    (machine, daemon)
}

/// The program of the daemon, if all is here.
fn sshd() -> Option<std::path::PathBuf> {
    possible()?;
    let found = program("sshd")
        .or_else(|| Some("/usr/sbin/sshd".into()).filter(|path: &std::path::PathBuf| path.is_file()));
    if found.is_none() || !Path::new("/usr/bin/ssh").exists() || !Path::new("/etc/ssh").is_dir() {
        skip("there is no OpenSSH with a daemon");
        return None;
    }
    found
}

async fn succeeds(server: &TestServer, agent: &str, text: &str) {
    let answer = run(server, agent, text).await;
    assert_eq!(answer["exitCode"], 0, "{agent}: {text}\n{answer:#}");
}

#[tokio::test]
async fn git_and_rsync_go_over_ssh_with_configuration_that_is_included() {
    let sshd = or_skip!(sshd());
    let (machine, _daemon) = machine_with_daemon(&sshd).await;
    let server = machine.with(builder()).start().await;
    // What is mended is a real refusal: in a namespace of one account, and with nothing done about it.
    for host in ["forge.test", "team.test"] {
        let bare = format!("unshare --user --map-user=1 --map-group=1 ssh {host} true");
        let refused = run(&server, FREE, &bare).await;
        assert_ne!(refused["exitCode"], 0, "{refused:#}");
        refused.says("stderr", "Bad owner or permissions");
    }
    let home = machine.home();
    let home = home.display();
    for agent in [FREE, "main"] {
        for host in ["forge.test", "policy.test", "team.test"] {
            succeeds(&server, agent, &format!("ssh {host} 'test $(id -u) = 1'")).await;
        }
        let identity = "git config user.name T && git config user.email t@example.test";
        let remote = format!("forge.test:{home}/{agent}.git");
        for step in [
            format!("git init -q --bare {home}/{agent}.git && git clone -q {remote} {home}/{agent}-1"),
            format!(
                "cd {home}/{agent}-1 && {identity} && echo one > f && git add f && git commit -qm one && git push -q origin HEAD"
            ),
            format!("git clone -q {remote} {home}/{agent}-2 && grep one {home}/{agent}-2/f"),
            format!("cd {home}/{agent}-1 && echo two > f && git commit -qam two && git push -q origin HEAD"),
            format!(
                "cd {home}/{agent}-2 && git fetch -q && git log FETCH_HEAD -1 --format=%s | grep two && git pull -q --ff-only && grep two f"
            ),
        ] {
            succeeds(&server, agent, &step).await;
        }
        if program("rsync").is_some() {
            let tree = format!(
                "cd {home} && rsync -a {agent}-1/ team.test:{home}/{agent}-copy/ && rsync -a team.test:{home}/{agent}-copy/ {agent}-back/ && diff -r {agent}-1 {agent}-back"
            );
            succeeds(&server, agent, &tree).await;
        }
        let copied = format!(
            "cd {home} && scp -q {agent}-1/f forge.test:{home}/{agent}-scp && cmp {agent}-1/f {agent}-scp"
        );
        succeeds(&server, agent, &copied).await;
    }
}

#[tokio::test]
async fn copies_of_included_configuration_belong_to_the_account_and_cannot_be_changed() {
    let sshd = or_skip!(sshd());
    let (machine, _daemon) = machine_with_daemon(&sshd).await;
    let server = machine.with(builder()).start().await;
    let shared = machine.join("shared/team.conf");
    for file in [Path::new("/etc/ssh/ssh_config.d/50-forge.conf"), &shared] {
        let file = file.display();
        for (agent, owner) in [(FREE, "0\n"), ("main", "1\n")] {
            let seen = run(&server, agent, &format!("stat -c %u {file}")).await;
            assert_eq!(seen["stdout"], owner, "{agent} {file}");
        }
        let planted = run(&server, "main", &format!("echo 'ProxyCommand false' >> {file}")).await;
        assert_ne!(planted["exitCode"], 0, "{planted:#}");
    }
    // The account's own file stays what it is, and may be written.
    let own = machine.home().join(".ssh/config");
    succeeds(&server, "main", &format!("echo '# seen' >> {}", own.display())).await;
    assert!(fs::read_to_string(&own).unwrap().contains("# seen"));
}
