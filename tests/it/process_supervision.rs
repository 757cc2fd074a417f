//! Nothing that a run started outlives it, whatever it does to hide and whoever is killed; and what may go on goes on.

use std::{fs, io, path::PathBuf};

use countersign_sys::process::{inspect, list};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Api, Members, TestServer, eventually, is_root, kill_hard, signal, write_file};

/// Starts everything that tries to get away: it leaves its parent, its session and its group, ignores what can be
/// ignored, holds the output open, stands still, moves on all the time, or is dead already in great numbers. Each makes
/// a file once it is there.
const ESCAPING: &str = r#"
import os, signal, sys, time

place = sys.argv[1]
IGNORED = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGALRM]

def there(name):
    open(os.path.join(place, name), "w").close()

def wait():
    while True:
        time.sleep(1000)

def child(work):
    if os.fork() == 0:
        try:
            work()
        finally:
            os._exit(0)

def apart(work):
    def leader():
        os.setsid()
        child(work)
    child(leader)

def holds_the_output():
    print("held", flush=True)
    there("holds")
    wait()

def ignores():
    for one in IGNORED:
        signal.signal(one, signal.SIG_IGN)
    there("ignores")
    wait()

def stands_still():
    there("still")
    os.kill(os.getpid(), signal.SIGSTOP)
    wait()

def changes_its_group():
    for one in IGNORED:
        signal.signal(one, signal.SIG_IGN)
    leader = os.fork()
    if leader == 0:
        wait()
    there("changes")
    while True:
        for group in (0, leader):
            try:
                os.setpgid(0, group)
            except OSError:
                pass
        time.sleep(0.0005)

def moves_on():
    there("moves")
    while True:
        if os.fork():
            os._exit(0)
        os.setpgid(0, 0)
        time.sleep(0.001)

def leaves_the_dead():
    for _ in range(300):
        if os.fork() == 0:
            os._exit(0)
    there("dead")
    wait()

for work in (holds_the_output, ignores, stands_still, changes_its_group, moves_on, leaves_the_dead):
    apart(work)
child(ignores)
while len(os.listdir(place)) < 6:
    time.sleep(0.005)
there("all")
wait()
"#;

/// Runs that can be told from all others on the machine.
struct EscapedProcesses {
    mark: String,
    place: PathBuf,
    script: PathBuf,
}

impl EscapedProcesses {
    fn new(server: &TestServer, name: &str) -> Self {
        let script = server.scratch().join(&format!("{name}.script"));
        write_file(&script, ESCAPING);
        Self {
            mark: format!("{name}-{}", std::process::id()),
            place: server.scratch().dir(name),
            script,
        }
    }

    fn call(&self, more: &Value) -> Value {
        let mut call = json!({
            "argv": ["/usr/bin/python3", self.script, self.place],
            "env": { "CUSTODY_MARK": self.mark },
            "yieldMs": 120_000,
        });
        let members = more.as_object().expect("an object").clone();
        call.as_object_mut().expect("an object").extend(members);
        call
    }

    async fn all_there(&self) {
        let all = self.place.join("all");
        eventually("all are there", || async { all.exists() }, |is| *is).await;
        assert!(alive(&self.mark).len() >= 8, "{:?}", alive(&self.mark));
    }

    async fn all_gone(&self) {
        eventually("nothing is alive", || async { alive(&self.mark) }, Vec::is_empty).await;
    }

    async fn in_background(&self, agent: &Api) -> String {
        let answer = agent.accepted(self.call(&json!({ "background": true }))).await;
        self.all_there().await;
        text(&answer["runId"])
    }
}

/// The processes with this mark that are alive.
fn alive(mark: &str) -> Vec<i32> {
    let variable = format!("CUSTODY_MARK={mark}");
    let is_marked = |pid: &i32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    };
    let is_alive = |pid: &i32| inspect(*pid).is_some_and(|process| !process.is_zombie);
    list()
        .unwrap()
        .into_iter()
        .filter(is_alive)
        .filter(is_marked)
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// The supervisor of a run: the parent of its first process.
async fn supervisor(agent: &Api, run: &str) -> i32 {
    let pid = eventually(
        "it has a process",
        || async { agent.run(run).await["pid"].as_i64() },
        Option::is_some,
    )
    .await;
    let pid = i32::try_from(pid.expect("a process")).unwrap();
    inspect(pid).expect("a process that lives").parent
}

/// The runner: the parent of a supervisor, as long as it lives.
fn runner(supervisor: i32) -> i32 {
    inspect(supervisor).expect("a supervisor that lives").parent
}

#[tokio::test]
async fn a_time_limit_ends_every_escaped_process() {
    let server = TestServer::full().start().await;
    let escaped = EscapedProcesses::new(&server, "timeout");
    let answer = server.ran(escaped.call(&json!({ "timeout": 10 }))).await;
    assert_has!(answer, { "timedOut": true, "status": "failed" });
    assert!(
        escaped.place.join("all").exists(),
        "the limit passed before they were there"
    );
    assert_eq!(
        alive(&escaped.mark),
        Vec::<i32>::new(),
        "the answer comes when nothing is left"
    );
}

#[tokio::test]
async fn a_cancel_ends_every_escaped_process() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let escaped = EscapedProcesses::new(&server, "cancel");
    let run = escaped.in_background(&agent).await;
    agent.cancel(&run).await;
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
    assert_eq!(alive(&escaped.mark), Vec::<i32>::new());
}

#[tokio::test]
async fn a_client_that_leaves_takes_every_escaped_process_along() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let escaped = EscapedProcesses::new(&server, "leaves");
    let call = tokio::spawn({
        let (agent, call) = (agent.clone(), escaped.call(&json!({})));
        async move { agent.exec(call).await }
    });
    escaped.all_there().await;
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    escaped.all_gone().await;
    let runs = agent.read("/v1/runs").await;
    let run = text(&runs["items"][0]["runId"]);
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
}

#[tokio::test]
async fn a_stop_ends_the_escaped_processes_of_foreground_runs_and_of_all_when_told_so() {
    for (keeps, signals) in [("keep", 1), ("kill", 1), ("keep", 2)] {
        // Told twice it does not wait any longer, however much time the runs were given.
        let grace_ms = if signals == 1 { 100 } else { 600_000 };
        let mut server = TestServer::full()
            .toml(&format!(
                "[shutdown]\ngrace_ms = {grace_ms}\nbackground_runs = \"{keeps}\"\n"
            ))
            .start()
            .await;
        let agent = server.agent();
        let (front, back) = (
            EscapedProcesses::new(&server, "front"),
            EscapedProcesses::new(&server, "back"),
        );
        let run = back.in_background(&agent).await;
        let call = tokio::spawn({
            let (agent, call) = (agent.clone(), front.call(&json!({})));
            async move { Api::try_send(agent.request(reqwest::Method::POST, "/v1/exec").json(&call)).await }
        });
        front.all_there().await;
        let mut events = server.operator().events("", None).await;
        server.send_signal(Signal::TERM);
        if signals == 2 {
            // Two that come together are one.
            events.next_of("server.shutdown").await;
            server.send_signal(Signal::TERM);
        }
        drop(call.await.unwrap());
        server.ended().await;
        front.all_gone().await;
        if (keeps, signals) == ("keep", 1) {
            assert!(alive(&back.mark).len() >= 8, "background runs go on");
            server.start().await;
            let agent = server.agent();
            assert_eq!(agent.run(&run).await["status"], "running");
            agent.cancel(&run).await;
            assert_eq!(agent.finished(&run).await["status"], "cancelled");
        } else {
            back.all_gone().await;
            server.start().await;
            let ended = server.agent().finished(&run).await;
            assert_has!(ended, { "status": "cancelled", "reason": "shutdown" });
        }
        back.all_gone().await;
    }
}

#[tokio::test]
async fn a_lost_supervisor_a_lost_runner_and_a_lost_server_leave_nobody_alone() {
    let mut server = TestServer::full().start().await;
    let agent = server.agent();
    // The supervisor: nobody knows how it would have ended, and nothing of it goes on.
    let escaped = EscapedProcesses::new(&server, "supervisor");
    let run = escaped.in_background(&agent).await;
    kill_hard(supervisor(&agent, &run).await);
    let lost = agent.finished(&run).await;
    assert_has!(lost, { "status": "lost", "reason": "runner-lost" });
    escaped.all_gone().await;
    // The runner: its supervisors do without, and another one serves what comes next.
    let escaped = EscapedProcesses::new(&server, "runner");
    let run = escaped.in_background(&agent).await;
    kill_hard(runner(supervisor(&agent, &run).await));
    agent.ran(json!({ "argv": ["/bin/true"] })).await;
    assert_eq!(agent.run(&run).await["status"], "running");
    // The server, too: the run is found again.
    server.crash_and_restart().await;
    let agent = server.agent();
    assert_eq!(agent.run(&run).await["status"], "running");
    agent.cancel(&run).await;
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
    escaped.all_gone().await;
}

/// Kills all of them before any can see that another one is gone.
async fn kill_together(pids: &[i32]) {
    for pid in pids {
        signal(*pid, Signal::STOP);
    }
    // One thread takes the signal and the others go on until it does.
    let all_stand = || async { pids.iter().all(|pid| stands_still(*pid)) };
    eventually("they stand still", all_stand, |stand| *stand).await;
    for pid in pids {
        signal(*pid, Signal::KILL);
    }
}

/// Whether every thread of a process is stopped (`proc(5)`, the field after the name).
fn stands_still(pid: i32) -> bool {
    let is_stopped = |thread: io::Result<fs::DirEntry>| {
        let status = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
        status
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(is_stopped)
}

#[tokio::test]
async fn a_server_and_its_runner_that_die_at_the_same_moment_leave_nobody_alone() {
    let mut server = TestServer::full().start().await;
    let agent = server.agent();
    let (front, back) = (
        EscapedProcesses::new(&server, "front"),
        EscapedProcesses::new(&server, "back"),
    );
    let run = back.in_background(&agent).await;
    let call = tokio::spawn({
        let (agent, call) = (agent.clone(), front.call(&json!({})));
        async move { Api::try_send(agent.request(reqwest::Method::POST, "/v1/exec").json(&call)).await }
    });
    front.all_there().await;
    kill_together(&[server.pid(), runner(supervisor(&agent, &run).await)]).await;
    server.wait_killed().await;
    drop(call.await.unwrap());
    // Nobody waits for it any more, so its supervisor ended it without being told.
    front.all_gone().await;
    assert!(alive(&back.mark).len() >= 8, "background runs go on");
    server.start().await;
    let agent = server.agent();
    let runs = agent.read("/v1/runs").await;
    let of_front = runs.list("items");
    let of_front = of_front.iter().find(|one| one["runId"] != json!(run));
    let ended = agent
        .finished(&text(&of_front.expect("it was recorded")["runId"]))
        .await;
    assert_has!(ended, { "status": "cancelled", "reason": "shutdown" });
    assert_eq!(agent.run(&run).await["status"], "running");
    agent.cancel(&run).await;
    assert_eq!(agent.finished(&run).await["status"], "cancelled");
    back.all_gone().await;
}

#[tokio::test]
async fn what_lost_server_runner_and_supervisor_at_once_is_ended_by_the_next_server() {
    let mut server = TestServer::full().start().await;
    let agent = server.agent();
    let escaped = EscapedProcesses::new(&server, "all-at-once");
    let run = escaped.in_background(&agent).await;
    let supervisor = supervisor(&agent, &run).await;
    or_skip!(
        has_a_group(supervisor),
        "no control group of the second version is delegated to this process"
    );
    kill_together(&[server.pid(), runner(supervisor), supervisor]).await;
    server.wait_killed().await;
    // The first process goes with its supervisor. Of this server nobody is left who could end the others; one that runs
    // beside it may find them, as those of other tests do, and the next one must.
    server.start().await;
    let ended = server.agent().finished(&run).await;
    assert_has!(ended, { "status": "lost", "reason": "server-restart" });
    escaped.all_gone().await;
}

/// Whether everything that a supervisor starts can be killed at once.
fn has_a_group(supervisor: i32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{supervisor}/cgroup")).unwrap_or_default();
    let unified = groups.lines().find_map(|line| line.strip_prefix("0::"));
    unified.is_some_and(|path| path.contains(&format!("/{supervisor}-")))
}

#[tokio::test]
async fn every_escaped_process_is_ended_without_control_groups_too() {
    or_skip!(is_root(), "taking control groups away from a server needs root");
    let hidden = "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\"";
    let server = TestServer::full()
        .behind("unshare", &["--mount", "sh", "-c", hidden])
        .start()
        .await;
    let agent = server.agent();
    for killed in [false, true] {
        let escaped = EscapedProcesses::new(&server, &format!("ungrouped-{killed}"));
        let run = escaped.in_background(&agent).await;
        let supervisor = supervisor(&agent, &run).await;
        assert!(!has_a_group(supervisor));
        let expected = if killed {
            kill_hard(supervisor);
            "lost"
        } else {
            agent.cancel(&run).await;
            "cancelled"
        };
        assert_eq!(agent.finished(&run).await["status"], expected);
        escaped.all_gone().await;
    }
}

#[tokio::test]
async fn output_is_whole_when_the_server_dies_while_a_background_run_writes() {
    let mut server = TestServer::full().start().await;
    let gate = server.scratch().join("gate");
    let script = format!(
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; \
         while [ ! -e {} ]; do sleep 0.01; done; \
         while [ $i -lt 6000 ]; do echo line $i; i=$((i+1)); done",
        gate.display()
    );
    let call = json!({ "command": script, "background": true });
    let run = text(&server.accepted(call).await["runId"]);
    let written = || async {
        server.agent().run(&run).await["tail"]
            .as_str()
            .is_some_and(|tail| tail.contains("line"))
    };
    let _seen_or_not = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        eventually("it writes", written, |is| *is),
    )
    .await;
    server.crash_and_restart().await;
    write_file(&gate, "");
    let agent = server.agent();
    assert_eq!(agent.finished(&run).await["status"], "completed");
    let output = agent.get_bytes(&format!("/v1/runs/{run}/output"), None).await;
    let expected: String = (0..6000)
        .flat_map(|i: u32| ["line ".to_owned(), i.to_string(), "\n".to_owned()])
        .collect();
    assert!(output.text() == expected, "{} bytes", output.bytes.len());
}

/// Numbers that are the same in every run of the test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }
}

enum Victim {
    Process(i32),
    Server,
}

#[tokio::test]
async fn whoever_is_killed_in_whatever_order_no_run_is_running_with_nobody_in_it() {
    let mut server = TestServer::full().start().await;
    let mut dice = Dice(47);
    let mut runs: Vec<(String, String)> = Vec::new();
    for round in 0..6 {
        let agent = server.agent();
        for number in 0..3 {
            let mark = format!("dice-{round}-{number}-{}", std::process::id());
            let command = "trap '' TERM; setsid sh -c 'sleep 1000 & wait' & sleep 1001";
            let call = json!({ "command": command, "background": true, "env": { "CUSTODY_MARK": mark } });
            let run = text(&agent.accepted(call).await["runId"]);
            runs.push((run, mark));
        }
        let supervisors = [
            supervisor(&agent, &runs[runs.len() - 1].0).await,
            supervisor(&agent, &runs[runs.len() - 2].0).await,
        ];
        let runner = runner(supervisors[0]);
        let mut victims = vec![
            Victim::Process(runner),
            Victim::Process(supervisors[0]),
            Victim::Process(supervisors[1]),
            Victim::Server,
        ];
        let count = 1 + dice.below(victims.len());
        for _ in 0..count {
            match victims.swap_remove(dice.below(victims.len())) {
                Victim::Process(pid) => kill_hard(pid),
                Victim::Server => server.kill(),
            }
        }
        if victims.iter().any(|left| matches!(left, Victim::Server)) {
            server.kill();
        }
        server.start().await;
        let agent = server.agent();
        for (run, mark) in &runs {
            let agrees = || async {
                let status = text(&agent.run(run).await["status"]);
                (status.clone(), (status == "running") != alive(mark).is_empty())
            };
            let (status, _) = eventually("the record agrees with the machine", agrees, |(_, agrees)| {
                *agrees
            })
            .await;
            assert!(
                ["running", "lost", "cancelled"].contains(&status.as_str()),
                "{run}: {status}"
            );
        }
    }
    let agent = server.agent();
    for (run, mark) in &runs {
        if agent.run(run).await["status"] == "running" {
            agent.cancel(run).await;
            agent.finished(run).await;
        }
        eventually("nothing is alive", || async { alive(mark) }, Vec::is_empty).await;
    }
}

#[tokio::test]
async fn a_thousand_short_background_runs_leave_nothing_behind() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let many = |count: usize| {
        let agent = agent.clone();
        async move {
            for _ in 0..count / 10 {
                let calls: Vec<_> = (0..10)
                    .map(|_| {
                        let agent = agent.clone();
                        tokio::spawn(async move {
                            let answer = agent
                                .exec(json!({ "argv": ["/bin/true"], "background": true }))
                                .await;
                            let run = text(&answer.expect(202)["runId"]);
                            assert_eq!(agent.finished(&run).await["status"], "completed");
                            run
                        })
                    })
                    .collect();
                for call in calls {
                    call.await.unwrap();
                }
            }
        }
    };
    let descriptors = || {
        fs::read_dir(format!("/proc/{}/fd", server.pid()))
            .unwrap()
            .count()
    };
    let resident = || {
        let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap()
            .trim();
        line.trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let children = || server.processes().len();
    // Pools and caches have their size then.
    many(200).await;
    let (descriptors_before, resident_before) = (descriptors(), resident());
    many(1000).await;
    eventually(
        "no more descriptors than before",
        || async { descriptors() },
        |now| *now <= descriptors_before + 10,
    )
    .await;
    assert!(
        resident() < resident_before + 64 * 1024,
        "{resident_before} kB before, {} kB after",
        resident()
    );
    // The server, its runner, idle supervisors.
    eventually("no more processes", || async { children() }, |now| *now <= 16).await;
    let spools = || {
        fs::read_dir(server.state().join("countersign/output"))
            .unwrap()
            .count()
    };
    let sockets = || {
        fs::read_dir(server.state().join("countersign/runs"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some())
            .count()
    };
    eventually(
        "small output in the ledger, and nobody who waits for a server",
        || async { (spools(), sockets()) },
        |left| *left == (0, 0),
    )
    .await;
}
