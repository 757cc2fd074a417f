//! The whole list against containers, with the interpreter of this machine bound into them.

use std::{path::Path, time::Duration};

use countersign_config::settings::BindMount;
use countersign_hosts::sandbox::{Enclosure, docker::ClientEnd};

use super::{
    Backend, Outcome, attempt_all,
    scene::{Scene, has_program},
    table::Needs,
};
use crate::docker::fixture::{DockerFixture, shell};

struct Docker {
    fixture: DockerFixture,
    sandbox: Enclosure,
}

impl Backend for Docker {
    async fn inside(&self, script: &str) -> Outcome {
        let mut order = shell(script).path("/usr/bin");
        order.timeout = Some(Duration::from_mins(1));
        let ended = self.fixture.run(&self.sandbox, order).await;
        let code = match ended.end() {
            ClientEnd::Ended(code) => Some(code),
            ClientEnd::Killed | ClientEnd::NotStarted | ClientEnd::EngineLost | ClientEnd::Vanished => None,
        };
        Outcome {
            code,
            output: format!("{:?} {}{}", ended.end(), ended.stdout, ended.stderr),
        }
    }

    fn has(&self, needs: Needs) -> bool {
        match needs {
            Needs::Shell => true,
            Needs::Python => has_program("python3"),
        }
    }
}

#[tokio::test]
async fn nothing_gets_out() {
    let fixture = or_skip!(DockerFixture::new().await);
    let scene = Scene::new().await;
    let mut sandbox = fixture.enclosure("escapes");
    sandbox.workspace = scene.workspace();
    let settings = &mut sandbox.settings;
    settings.pids_limit = Some(64);
    settings.memory_bytes = Some(128 << 20);
    settings.memory_swap_bytes = Some(128 << 20);
    settings.tmpfs = vec!["/tmp:size=16m".to_owned(), "/run".to_owned()];
    let read_only = |host: &Path, inside: &str| BindMount {
        host: host.to_owned(),
        inside: inside.into(),
        writable: false,
    };
    settings.binds.push(read_only(&scene.read_only(), "/ro"));
    for directory in ["/usr", "/lib", "/lib64"].map(Path::new) {
        if directory.exists() {
            settings
                .binds
                .push(read_only(directory, directory.to_str().unwrap()));
        }
    }
    fixture.backend.prepare(&sandbox).await.unwrap();
    let docker = Docker { fixture, sandbox };
    // Every interpreter that an attempt needs works inside: one that does not start would show nothing.
    if docker.has(Needs::Python) {
        let works = docker
            .inside(&scene.fill(Needs::Python, "print('works')", super::scene::Viewpoint::Inside))
            .await;
        assert_eq!(works.code, Some(0), "{works:?}");
    }
    attempt_all(&scene, &docker).await;
    docker.fixture.engine.stop().await;
}
