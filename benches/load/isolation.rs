//! What each level of isolation adds to an exec: the same commands at one server per level, in turns.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    connection::Connection,
    options::Options,
    samples::{Samples, ratio},
    servers::{Level, Server},
};

/// Requests to each server before anything counts: connections, caches and supervisors are warm then.
const WARM_UP: u32 = 20;

/// A few calls of the shell, and three programs in a pipe.
const SCRIPT: &str = "for n in 1 2 3; do echo line $n; done | tr a-z A-Z | wc -c";

/// A server, and what it took so far for each command.
struct Measured {
    level: Level,
    /// Ends with the measure.
    _server: Server,
    connection: Connection,
    requests: Vec<Vec<u8>>,
    samples: Vec<Samples>,
}

pub(crate) async fn measure(options: &Options) {
    // In a directory that every account can enter.
    let commands = [
        (
            options.program.as_str(),
            json!({ "argv": [options.program], "workdir": "/" }),
        ),
        ("a short script", json!({ "command": SCRIPT, "workdir": "/" })),
    ];
    println!(
        "isolation: {} rounds of each command, levels in turns",
        options.rounds
    );
    let mut measured = Vec::new();
    for level in Level::ALL {
        match Server::at(level) {
            Ok(server) => measured.push(Measured::new(level, server, &commands).await),
            Err(why) => println!("  {level}: cannot be had here: {why}"),
        }
    }
    for round in 0..WARM_UP + options.rounds {
        for command in 0..commands.len() {
            // Another one goes first in each round.
            let first = round as usize % measured.len().max(1);
            let (late, early) = measured.split_at_mut(first);
            for one in early.iter_mut().chain(late) {
                one.ask(command, round >= WARM_UP).await;
            }
        }
    }
    for (command, (name, _call)) in commands.iter().enumerate() {
        show(command, name, &measured);
    }
}

impl Measured {
    async fn new(level: Level, server: Server, commands: &[(&str, Value)]) -> Self {
        let caller = server.agent();
        let request = |call: &Value| caller.request("POST", "/v1/exec", Some(call));
        Self {
            level,
            connection: caller.connect().await,
            requests: commands.iter().map(|(_name, call)| request(call)).collect(),
            samples: commands.iter().map(|_command| Samples::default()).collect(),
            _server: server,
        }
    }

    async fn ask(&mut self, command: usize, counts: bool) {
        let request = self.requests.get(command).expect("a request for every command");
        let begun = Instant::now();
        self.connection.ask(request).await.expect_completed();
        let took = begun.elapsed();
        if counts {
            let samples = self.samples.get_mut(command).expect("samples of every command");
            samples.add(took);
        }
    }
}

fn show(command: usize, name: &str, measured: &[Measured]) {
    println!("\n{name:<24}  p50 us    p99 us  p50 ratio  p99 ratio");
    let of = |one: &Measured| {
        let samples = one.samples.get(command).expect("samples of every command");
        (samples.p50(), samples.p99())
    };
    let base = measured.iter().find(|one| one.level == Level::SameUser).map(of);
    for one in measured {
        let (p50, p99) = of(one);
        let ratios = base.map_or_else(String::new, |(base50, base99)| {
            format!("{:>9.2}x  {:>8.2}x", ratio(p50, base50), ratio(p99, base99))
        });
        println!(
            "  {:<22}  {:>6}  {:>8}  {ratios}",
            one.level.to_string(),
            p50.as_micros(),
            p99.as_micros()
        );
    }
}
