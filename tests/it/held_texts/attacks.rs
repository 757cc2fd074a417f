//! Attacks on held texts, each with a control: the same text with everything allowed leaves its mark.

use std::{
    fs,
    os::{linux::net::SocketAddrExt as _, unix::net as unix},
    path::{Path, PathBuf},
};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{FREE, builder, data, give, workspace};
use crate::{
    confined::{ACCOUNT, possible},
    support::{Members, TestServer, write_file},
};

/// Texts at a time.
const WIDTH: usize = 6;

struct Attack {
    name: String,
    text: String,
}

/// Texts, each after a line `== NAME`.
fn attacks() -> Vec<Attack> {
    let all = data("attacks.txt");
    let parts = all.split("\n== ").skip(1);
    parts
        .map(|part| {
            let (name, text) = part.split_once('\n').expect("a text");
            Attack {
                name: name.to_owned(),
                text: text.trim_end().to_owned(),
            }
        })
        .collect()
}

/// What attacks are let loose on.
struct World {
    server: TestServer,
    outside: PathBuf,
    /// Where the controls run: what they do to their files must not keep texts from being held.
    elsewhere: PathBuf,
    port: u16,
    victim: i64,
}

impl World {
    /// A directory of the workspace with what attacks want.
    fn directory(&self, below: &Path, name: &str) -> PathBuf {
        let directory = below.join(name);
        for below in [".git/hooks", ".git/objects", ".git/refs/heads", "repo/.git/hooks"] {
            fs::create_dir_all(directory.join(below)).unwrap();
        }
        write_file(&directory.join(".git/HEAD"), "ref: refs/heads/main\n");
        write_file(&directory.join(".git/config"), "[core]\n\tbare = false\n");
        write_file(&directory.join("repo/.git/config"), "safe\n");
        write_file(&directory.join(".npmrc"), "safe\n");
        write_file(&directory.join("f"), "one\ntwo\n");
        std::os::unix::fs::symlink(&self.outside, directory.join("out")).unwrap();
        give(&directory);
        directory
    }

    fn text(&self, text: &str) -> String {
        let loader = "/lib64/ld-linux-x86-64.so.2";
        text.replace("@OUT@", &self.outside.to_string_lossy())
            .replace("@PORT@", &self.port.to_string())
            .replace("@VICTIM@", &self.victim.to_string())
            .replace("@LOADER@", loader)
            .replace(
                "@SOCKET@",
                &workspace(&self.server).join("socket").to_string_lossy(),
            )
    }

    /// Whether an attack left its mark.
    fn is_marked(&self, directory: &Path, name: &str) -> bool {
        let has = |file: &str, mark: &str| {
            fs::read(directory.join(file)).is_ok_and(|text| String::from_utf8_lossy(&text).contains(mark))
        };
        directory.join("m").exists()
            || directory.join(".git/hooks/h").exists()
            || self.outside.join(name).exists()
            || [".git/config", ".npmrc", "repo/.git/config", "r2/.git/config"]
                .into_iter()
                .any(|file| has(file, "evil"))
    }

    async fn run(&self, agent: &str, directory: &Path, attack: &Attack) -> Value {
        let text = self.text(&attack.text);
        // Some can be taken apart as they stand.
        let text = if text.contains("$n") {
            format!("n={}; {text}", attack.name)
        } else {
            text
        };
        let body = json!({ "command": text, "agentId": agent, "workdir": directory, "timeout": 30, "yieldMs": 60_000 });
        self.server.agent().exec(body).await.json()
    }
}

async fn world() -> (World, std::net::TcpListener, [unix::UnixListener; 2]) {
    let server = builder(&json!({})).start().await;
    let (outside, elsewhere) = (server.scratch().dir("outside"), server.scratch().dir("elsewhere"));
    give(&outside);
    give(&elsewhere);
    fs::create_dir_all(server.scratch().join("home/.ssh")).unwrap();
    write_file(&server.scratch().join("home/.ssh/id_rsa"), "SECRET\n");
    give(&server.scratch().join("home"));
    fs::create_dir_all(workspace(&server)).unwrap();
    give(&workspace(&server));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let named = unix::UnixListener::bind(workspace(&server).join("socket")).unwrap();
    give(&workspace(&server).join("socket"));
    let name = unix::SocketAddr::from_abstract_name(format!("held-{}", server.pid())).unwrap();
    let unnamed = unix::UnixListener::bind_addr(&name).unwrap();
    let victim = json!({ "command": "exec sleep 300", "agentId": FREE, "background": true });
    let victim = server.agent().exec(victim).await.expect(202);
    let victim = victim["pid"].as_i64().unwrap();
    assert_eq!(
        fs::metadata(format!("/proc/{victim}"))
            .map(|found| std::os::unix::fs::MetadataExt::uid(&found))
            .unwrap(),
        ACCOUNT
    );
    let port = tcp.local_addr().unwrap().port();
    (
        World {
            server,
            outside,
            elsewhere,
            port,
            victim,
        },
        tcp,
        [named, unnamed],
    )
}

#[tokio::test]
async fn no_attack_on_a_held_text_leaves_its_mark_and_each_would_elsewhere() {
    or_skip!(possible());
    let (world, _tcp, _sockets) = world().await;
    let attacks = attacks();
    assert!(attacks.len() >= 60, "{}", attacks.len());
    let world = &world;
    let tried = stream::iter(&attacks).map(|attack| async move {
        let held = world.directory(&workspace(&world.server), &attack.name);
        let answer = world.run("main", &held, attack).await;
        let mut wrong = Vec::new();
        if answer["held"] != true {
            wrong.push(format!("{}: it was not held: {answer}", attack.name));
        }
        if world.is_marked(&held, &attack.name) {
            wrong.push(format!("{}: it left its mark: {answer}", attack.name));
        }
        drop(fs::remove_file(world.outside.join(&attack.name)));
        let free = world.directory(&world.elsewhere, &attack.name);
        let answer = world.run(FREE, &free, attack).await;
        if !world.is_marked(&free, &attack.name) {
            wrong.push(format!("{}: it is no attack: {answer}", attack.name));
        }
        for directory in [held, free] {
            drop(fs::remove_dir_all(directory));
        }
        drop(fs::remove_file(world.outside.join(&attack.name)));
        wrong
    });
    let wrong: Vec<String> = tried.buffer_unordered(WIDTH).collect::<Vec<_>>().await.concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let runs = world.server.operator().pending().await;
    assert!(runs.is_empty());
    let sessions = world
        .server
        .agent()
        .get(&format!("/v1/runs?agentId={FREE}&status=running"))
        .await
        .json();
    for run in sessions["items"].as_array().into_iter().flatten() {
        world.server.operator().cancel(run.text("runId")).await;
    }
}
