//! The whole list against the built-in sandbox.

use super::{
    Backend, Outcome, attempt_all,
    scene::{Scene, has_program},
    table::Needs,
};
use crate::{
    runner::harness::Report,
    sandbox::builtin::fixture::{enclosure, possible, shell_inside, spec_of},
    support::is_root,
};

struct Builtin<'a> {
    scene: &'a Scene,
}

impl Backend for Builtin<'_> {
    async fn inside(&self, script: &str) -> Outcome {
        let mut enclosure = enclosure(self.scene.workspace());
        enclosure.settings.pids_limit = Some(64);
        enclosure.settings.memory_bytes = Some(128 << 20);
        enclosure.settings.tmpfs = vec!["/tmp:size=16m".to_owned(), "/run".to_owned()];
        enclosure
            .settings
            .binds
            .push(countersign_config::settings::BindMount {
                host: self.scene.read_only(),
                inside: "/ro".into(),
                writable: false,
            });
        let spec = spec_of(&self.scene.server);
        let inside = shell_inside(&enclosure, script, Vec::new());
        let started = self
            .scene
            .server
            .host
            .start_enclosed(spec, &enclosure, &inside)
            .await;
        let report = Report::of(started.unwrap()).await;
        report.control.stored();
        Outcome {
            code: report.exit().code,
            output: format!(
                "{}{}",
                String::from_utf8_lossy(&report.stdout),
                String::from_utf8_lossy(&report.stderr)
            ),
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
    or_skip!(possible());
    let as_outside = is_root() && has_program("busybox");
    or_skip!(
        as_outside,
        "what gets out outside of a sandbox is tried as root, with busybox"
    );
    let scene = Scene::new().await;
    attempt_all(&scene, &Builtin { scene: &scene }).await;
}
