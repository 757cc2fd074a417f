//! What the built-in sandbox adds to an exec, beside bubblewrap with the same namespaces and the same things inside, and
//! beside the command alone.

use serde_json::json;
use tokio::time::Instant;

use super::{
    connection::Connection,
    options::Options,
    samples::{Samples, ratio},
    servers::{Policy, Server},
};

/// Requests of each kind before anything counts.
const WARM_UP: u32 = 20;

/// Everything that the built-in sandbox has and bubblewrap can have.
const BUBBLEWRAP: &str = "bwrap --unshare-user --unshare-all --die-with-parent --new-session --hostname sandbox \
                          --uid 1000 --gid 1000 --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
                          --symlink usr/lib64 /lib64 --symlink usr/sbin /sbin --ro-bind /etc /etc --proc /proc --dev /dev \
                          --tmpfs /tmp --tmpfs /var/tmp --tmpfs /run --tmpfs /workspace --chdir /workspace";

/// The same command in one way, and what it took so far.
struct Measured {
    name: &'static str,
    /// Ends with the measure.
    _server: Server,
    connection: Connection,
    request: Vec<u8>,
    samples: Samples,
}

pub(crate) async fn measure(options: &Options) {
    println!(
        "sandbox: {} rounds of {}, in turns",
        options.rounds, options.program
    );
    let mut wrapped: Vec<&str> = BUBBLEWRAP.split_whitespace().collect();
    wrapped.push(&options.program);
    let ways = [
        (
            "built-in sandbox",
            Policy::Sandboxed,
            vec![options.program.as_str()],
        ),
        ("bubblewrap", Policy::Full, wrapped),
        ("no sandbox", Policy::Full, vec![options.program.as_str()]),
    ];
    let mut measured = Vec::new();
    for (name, policy, argv) in ways {
        let server = Server::countersign(policy);
        let caller = server.agent();
        let call = if policy == Policy::Sandboxed {
            json!({ "argv": argv })
        } else {
            json!({ "argv": argv, "workdir": "/" })
        };
        measured.push(Measured {
            name,
            connection: caller.connect().await,
            request: caller.request("POST", "/v1/exec", Some(&call)),
            samples: Samples::default(),
            _server: server,
        });
    }
    for round in 0..WARM_UP + options.rounds {
        // Another one goes first in each round.
        let first = round as usize % measured.len();
        let (late, early) = measured.split_at_mut(first);
        for one in early.iter_mut().chain(late) {
            let begun = Instant::now();
            one.connection.ask(&one.request).await.expect_completed();
            let took = begun.elapsed();
            if round >= WARM_UP {
                one.samples.add(took);
            }
        }
    }
    println!("\n                      p50 us    p99 us");
    for one in &measured {
        let (p50, p99) = (one.samples.p50(), one.samples.p99());
        println!(
            "  {:<18}  {:>6}  {:>8}",
            one.name,
            p50.as_micros(),
            p99.as_micros()
        );
    }
    let [sandbox, bubblewrap, alone] = measured.as_slice() else {
        return;
    };
    let beyond = |one: &Measured| one.samples.p50().saturating_sub(alone.samples.p50());
    println!(
        "  built-in / bubblewrap {:.2}x in all, {:.2}x of what each adds (p50)",
        ratio(sandbox.samples.p50(), bubblewrap.samples.p50()),
        ratio(beyond(sandbox), beyond(bubblewrap))
    );
}
