//! What a thousand short background runs leave behind: nothing, once as many ran before that pools have their size.

use serde_json::{Value, json};

use super::servers::{Policy, Server};

const RUNS: usize = 1000;

/// What a server has at one moment.
struct Holdings {
    processes: usize,
    open_files: usize,
    resident_kib: u64,
    run_files: usize,
    spools: usize,
}

impl Holdings {
    fn of(server: &Server) -> Self {
        let (run_files, spools) = server.run_files();
        Self {
            processes: server.processes(),
            open_files: server.open_files(),
            resident_kib: server.resident_kib(),
            run_files,
            spools,
        }
    }
}

pub(crate) async fn measure() {
    let server = Server::countersign(Policy::Full);
    println!("\nleaks: {RUNS} short background runs, twice");
    println!("  when       processes  open files  resident KiB  run files  spools");
    show("at first", &Holdings::of(&server));
    for when in ["warm", "after"] {
        run_many(&server).await;
        show(when, &Holdings::of(&server));
    }
}

fn show(when: &str, holdings: &Holdings) {
    let Holdings {
        processes,
        open_files,
        resident_kib,
        run_files,
        spools,
    } = holdings;
    println!(
        "  {when:<9}  {processes:>9}  {open_files:>10}  {resident_kib:>12}  {run_files:>9}  {spools:>6}"
    );
}

/// Starts them one after the other, and waits until the last has ended.
async fn run_many(server: &Server) {
    let caller = server.agent();
    let call = json!({ "argv": ["/bin/true"], "workdir": "/", "background": true });
    let request = caller.request("POST", "/v1/exec", Some(&call));
    let mut connection = caller.connect().await;
    let mut runs = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let answer = connection.ask(&request).await;
        // One that ended before it went to the background is answered as ended.
        let answer: Value = serde_json::from_slice(answer.body).expect("JSON");
        let run = answer.get("runId").and_then(Value::as_str);
        runs.push(run.expect("a run").to_owned());
    }
    for run in runs {
        let look = caller.request("GET", &format!("/v1/runs/{run}"), None);
        loop {
            let run = connection.ask(&look).await.json(200);
            match run.get("status").and_then(Value::as_str) {
                Some("completed") => break,
                Some("running" | "queued") => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
