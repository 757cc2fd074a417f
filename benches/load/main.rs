//! The server beside a bare one, figures for people: `cargo bench --bench load`, or only some of the measures:
//! `cargo bench --bench load -- exec approval`.
//!
//! * `exec`: what an exec costs beside the cost of starting the command
//! * `approval`: request, event, decision, result
//! * `pending`: many approvals that wait
//! * `flood`: an approval while another token floods the server with questions
//! * `sse`: many subscribers of the events
//! * `explain`: a decision over HTTP, with few and many allowlist entries
//! * `isolation`: what each level of isolation adds to an exec; started by root it tries them all, and the servers
//!   run under accounts of the system
//! * `sandbox`: what the built-in sandbox adds to an exec, beside bubblewrap, which must be there
//! * `docker`: what a container adds to an exec, beside the engine's own API; the engine of `DOCKER_HOST` must be there
//!   and have the image `openclaw-sandbox:bookworm-slim`, whatever is in it. Only by its name, never with all
//! * `echo`: a byte through a program on a terminal and back; only with `--features test-hooks`, since it has no
//!   server that would let it start anything
//! * `throughput`: a gigabyte of output through one run, beside a pipe
//! * `nodes`: many nodes that are connected; what a call of one costs beside an echo over a WebSocket
//! * `leaks`: what a thousand short background runs leave behind
//! * `gate`: the guard, which compares figures with `benches/limits.toml` and fails when one is worse. Only by its name, and alone;
//!   `--only GROUP`, any number of times, measures some of its rows. `docs/performance.md` has more
//!
//! The bare server does the same work by the shortest way, and is asked by the same client in the same run, in
//! turns, so that whatever else the machine does falls on both; what counts are the ratios.
//!
//! Options: `--command PROGRAM` (default `/bin/true`); exec: `--windows N` per server and client count (8),
//! `--window-ms MS` (1000), `--clients 1,32`; approval, isolation, sandbox, docker, echo: `--rounds N` (300); pending:
//! `--pending N` (1000);
//! sse: `--subscribers N` (1000), `--rate EVENTS` a second (100), `--seconds S` (10); explain:
//! `--entries 10,10000,100000`; nodes: `--nodes N` (500), `--rounds N` (300).

#![expect(clippy::print_stdout, reason = "a report is what a load harness is for")]

mod approval;
mod connection;
mod docker;
#[cfg(feature = "test-hooks")]
mod echo;
mod exec;
mod explain;
mod flood;
mod gate;
mod isolation;
mod leaks;
mod nodes;
mod options;
mod pending;
mod reference;
mod samples;
mod sandbox;
mod servers;
mod sse;
mod stream;
mod throughput;

use std::process::ExitCode;

use options::Options;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == reference::MODE).is_some() {
        reference::serve(arguments.next());
        return ExitCode::SUCCESS;
    }
    let options = Options::parse(arguments);
    allow_many_sockets();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        if options.names("gate") {
            let is_good = gate::run(&options).await;
            return if is_good {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        if options.wants("exec") {
            exec::measure(&options).await;
        }
        if options.wants("approval") {
            approval::measure(&options).await;
        }
        if options.wants("pending") {
            pending::measure(&options).await;
        }
        if options.wants("flood") {
            flood::measure(&options).await;
        }
        if options.wants("sse") {
            sse::measure(&options).await;
        }
        if options.wants("explain") {
            explain::measure(&options).await;
        }
        if options.wants("isolation") {
            isolation::measure(&options).await;
        }
        if options.wants("sandbox") {
            sandbox::measure(&options).await;
        }
        if options.names("docker") {
            docker::measure(&options).await;
        }
        #[cfg(feature = "test-hooks")]
        if options.wants("echo") {
            echo::measure(&options).await;
        }
        if options.wants("throughput") {
            throughput::measure().await;
        }
        if options.wants("nodes") {
            nodes::measure(&options).await;
        }
        if options.wants("leaks") {
            leaks::measure().await;
        }
        ExitCode::SUCCESS
    })
}

/// A thousand subscribers are two thousand sockets; the servers inherit the limit.
fn allow_many_sockets() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).expect("a limit that is allowed");
}
