//! The file system of the state directory becomes read-only under a running server, as it does after an error of the disk.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
};

use serde_json::json;

use super::{in_time, probe, tell_kernel, touching};
use crate::support::{
    Invocation, Members, Scratch, TestServer, eventually, is_root, needed, run_program, skip, soon,
    write_file,
};

/// A disk in a file, whose file system becomes read-only when it has an error.
#[derive(Debug)]
struct FailingDisk {
    image: PathBuf,
    at: PathBuf,
    /// Where the kernel takes an error that a test wants.
    errors: PathBuf,
}

impl FailingDisk {
    /// `None` where that is not possible: then the test is skipped.
    fn make(place: &Scratch) -> Option<Self> {
        needed(is_root(), "mounting a disk in a file needs root")?;
        let (image, at) = (place.join("image"), place.dir("disk"));
        fs::File::create(&image)
            .and_then(|file| file.set_len(64 << 20))
            .expect("an image");
        let made = run_program(&Invocation::new("mkfs.ext4").args(&["-q", "-F"]).arg(&image));
        if made.code != Some(0) || !mount(&image, &at) {
            skip("a disk in a file cannot be mounted here");
            return None;
        }
        let mounts = fs::read_to_string("/proc/self/mounts").expect("the mounts");
        let path = at.to_str().expect("text");
        let device = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let device = words.next()?.strip_prefix("/dev/")?.to_owned();
            (words.next()? == path).then_some(device)
        });
        let device = device
            .filter(|device| device.starts_with("loop"))
            .expect("its device");
        let errors = Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error");
        let disk = Self { image, at, errors };
        if !disk.errors.exists() {
            skip("the kernel takes no errors of a disk that tests want");
            return None;
        }
        Some(disk)
    }

    fn fail(&self) {
        // What was not synced would be lost, too, and that is another test.
        let disk = fs::File::open(&self.at).expect("the disk");
        rustix::fs::syncfs(disk).expect("a disk in sync");
        tell_kernel(&self.errors, "a test");
    }

    /// What a person does about it: checks the disk, and mounts it again.
    async fn repair(&self) {
        let unmounted = || run_program(&Invocation::new("umount").arg(&self.at)).code;
        soon("unmounted", unmounted, |code| *code == Some(0)).await;
        let checked = run_program(&Invocation::new("e2fsck").args(&["-p", "-f"]).arg(&self.image));
        assert!(checked.code.is_some_and(|code| code <= 1), "{checked:?}");
        assert!(mount(&self.image, &self.at), "mounting again");
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let unmounted = run_program(&Invocation::new("umount").arg("--lazy").arg(&self.at));
        assert!(unmounted.code == Some(0) || thread::panicking(), "{unmounted:?}");
    }
}

fn mount(image: &Path, at: &Path) -> bool {
    let options = ["-o", "loop,errors=remount-ro"];
    let mounted = run_program(&Invocation::new("mount").args(&options).arg(image).arg(at));
    mounted.code == Some(0)
}

#[tokio::test]
async fn nothing_runs_without_a_record_while_the_disk_is_read_only() {
    let place = Scratch::new();
    let disk = or_skip!(FailingDisk::make(&place));
    let mut server = TestServer::asking()
        .allowlist(&json!([{ "id": "00000000-0000-4000-8000-000000000001", "pattern": "/usr/bin/touch" }]))
        .state_dir(&disk.at.join("state"))
        .start()
        .await;
    let (agent, operator) = (server.agent(), server.operator());
    let go_on = place.join("go-on");
    let wait = format!(
        "until [ -e {} ]; do sleep 0.02; done; echo ended",
        go_on.display()
    );
    let waits = server.asked(json!({ "command": wait, "background": true })).await;
    operator.decided(waits.text("approvalId"), "allow-once").await;
    let running = || agent.run(waits.text("runId"));
    eventually("running", running, |run| run["status"] == "running").await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    agent.ran(touching(&place.join("before"))).await;

    disk.fail();
    let refused = place.join("refused");
    for _ in 0..3 {
        let answer = in_time("a call", agent.exec(touching(&refused))).await;
        let problem = answer.problem(503, "storage-unavailable");
        problem.says("detail", "read-only");
    }
    let asked = in_time("a question", agent.exec(json!({ "argv": ["/bin/id"] }))).await;
    asked.problem(503, "storage-unavailable");
    let allow = in_time(
        "an answer",
        operator.decide(pending.text("approvalId"), "allow-once"),
    )
    .await;
    allow.problem(503, "storage-unavailable");
    assert!(!refused.exists());
    let (status, ready) = in_time("the probe", probe(&agent)).await;
    assert_has!((status, &ready), { "0": 503, "1/checks/database/ok": false });
    ready["checks"]["database"].says("detail", "read-only");
    assert_eq!(server.anonymous().get("/healthz").await.status, 200);
    // What is on record can be read, and a stop takes effect although it cannot be recorded.
    in_time("reading", operator.read("/v1/approvals")).await;
    let stopped = in_time("a stop", operator.post("/v1/stop", json!({ "reason": "disk" }))).await;
    assert_has!(stopped.expect(200), { "durable": false });
    in_time("a call", agent.exec(touching(&refused)))
        .await
        .problem(403, "stopped");
    // What runs ends, and its end is on record later.
    write_file(&go_on, "");
    server.stop().await;

    disk.repair().await;
    server.start().await;
    let agent = server.agent();
    let run = agent.finished(waits.text("runId")).await;
    assert!(["completed", "lost"].contains(&run.text("status")), "{run}");
    let question = server.operator().approval(pending.text("approvalId")).await;
    assert_eq!(question["status"], "pending", "no answer was taken: {question}");
    let ran = place.join("ran");
    agent.ran(touching(&ran)).await;
    assert!(ran.exists() && !refused.exists());
    assert_eq!(server.operator().read("/v1/audit/verify").await["ok"], true);
    drop(server);
    drop(disk);
}
