//! The machine runs out of something under a server: descriptors, processes, memory, a clock that stays right, a disk
//! that can be written. Nothing runs without a record then, no lack of the machine is a verdict about a command, no call
//! waits for longer than it asked for, and the server goes on as soon as it can.
//!
//! `docs/operating.md` has the table of what is promised.

mod clock;
mod descriptors;
mod group;
mod memory;
mod processes;
mod read_only;

use std::{fs, io::Write as _, path::Path, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Resource, Rlimit, getrlimit, prlimit},
};
use serde_json::{Value, json};

use crate::support::{Answer, Api, TestServer, soon};

/// Most that a call may take beyond what it waits for, no matter what fails.
const BEYOND: Duration = Duration::from_secs(5);

async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(BEYOND, call).await;
    answer.unwrap_or_else(|_elapsed| panic!("{what}: no answer in time"))
}

/// The status of the probe, and what it says.
async fn probe(api: &Api) -> (u16, Value) {
    let answer = api.get("/readyz").await;
    (answer.status, answer.json())
}

/// A command that leaves a file behind.
fn touching(file: &Path) -> Value {
    json!({ "argv": ["/usr/bin/touch", file] })
}

/// What became of a call that may be refused for what the machine lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ran,
    /// It began nothing.
    Refused,
    /// It is on record as not started.
    NotStarted,
}

/// What became of [`touching`] a file. Any other end is a fault: a verdict, a run without a record, a refusal without
/// a reason.
#[track_caller]
fn outcome_of(answer: &Answer, file: &Path) -> Outcome {
    let body = answer.json();
    let outcome = match (answer.status, body["status"].as_str()) {
        (200, Some("completed")) => Outcome::Ran,
        (200, Some("failed")) => {
            assert_eq!(body["reason"], "not-started", "{body}");
            Outcome::NotStarted
        }
        _ => {
            answer.problem(503, "overloaded");
            Outcome::Refused
        }
    };
    assert_eq!(file.exists(), outcome == Outcome::Ran, "{body}");
    outcome
}

/// Writes to a file that is the kernel's.
#[track_caller]
fn tell_kernel(path: &Path, text: &str) {
    let told = fs::File::options()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    told.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process id")
}

/// Lets a process open so many more files than it has open.
fn leave_files(process: i32, spare: u64) {
    // What is idle may end at any time.
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/fd")) else {
        return;
    };
    let open: Vec<u64> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    // The limit is one of numbers, and those in between are free.
    let mut limit = 0;
    let mut free = 0;
    while free < spare || open.contains(&limit) {
        free += u64::from(!open.contains(&limit));
        limit += 1;
    }
    limit_files(process, limit);
}

/// Takes the limit of [`leave_files`] off.
fn free_files(process: i32) {
    limit_files(process, own_files());
}

fn own_files() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(1 << 20)
}

fn limit_files(process: i32, current: u64) {
    let limit = Rlimit {
        current: Some(current),
        maximum: Some(own_files()),
    };
    let limited = prlimit(Some(pid(process)), Resource::Nofile, limit).map(drop);
    assert!(matches!(limited, Ok(()) | Err(Errno::SRCH)), "{limited:?}");
}

/// The processes that a process started and that are there.
fn children(process: i32) -> Vec<i32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// The runner of a server. A list of children lacks one while the thread that started it ends, and a new process has the
/// name of the old one for a moment.
async fn runner_of(server: &TestServer) -> i32 {
    soon("the runner", || find_runner(server), Option::is_some)
        .await
        .expect("it was found")
}

fn find_runner(server: &TestServer) -> Option<i32> {
    let is_runner = |process: &&i32| {
        fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "countersign-run\n")
    };
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("its threads");
    let children: Vec<i32> = threads
        .flatten()
        .flat_map(|thread| {
            let text = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children: Vec<i32> = text
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            children
        })
        .collect();
    children.into_iter().find(|process| is_runner(&process))
}
