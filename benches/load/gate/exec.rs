//! What an exec costs beside the same command started by the bare server, at each level of isolation.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    super::{
        connection::Connection,
        exec::window,
        servers::{Level, SHELL, Server},
    },
    Report,
    rounds::{compare, compare_rates},
};

/// Requests of each server in a round with one client.
const PER_ROUND: usize = 24;
/// Requests before anything counts: connections, caches and supervisors are warm then.
const WARM_UP: usize = 30;
const CLIENTS: usize = 32;
const WINDOW: Duration = Duration::from_millis(120);

/// A call of countersign, and how the bare server does the same.
struct Case {
    name: &'static str,
    ours: Value,
    beside: &'static [&'static str],
}

fn cases() -> [Case; 5] {
    let text = |text: &str| json!({ "command": text, "workdir": "/" });
    [
        Case {
            name: "argv",
            ours: json!({ "argv": ["/bin/true"], "workdir": "/" }),
            beside: &["/bin/true"],
        },
        Case {
            name: "text",
            ours: text("/bin/true"),
            beside: &["/bin/true"],
        },
        Case {
            // A word that the shell alone knows, so that no other way leads to the program.
            name: "text-to-shell",
            ours: text("exec /bin/true"),
            beside: &[SHELL, "-c", "exec /bin/true"],
        },
        Case {
            name: "and",
            ours: text("/bin/true && /bin/true"),
            beside: &[SHELL, "-c", "/bin/true && /bin/true"],
        },
        Case {
            name: "pipe",
            ours: text("/bin/true | /bin/true"),
            beside: &[SHELL, "-c", "/bin/true | /bin/true"],
        },
    ]
}

pub(super) async fn measure(report: &mut Report<'_>) {
    for level in [Level::SameUser, Level::Confined] {
        let server = match Server::at(level) {
            Ok(server) => server,
            Err(why) => {
                for case in cases() {
                    report.skip(format!("exec/{}/{level}", case.name), &why);
                }
                continue;
            }
        };
        let bare = Server::reference();
        for case in cases() {
            one(report, level, &case, &server, &bare).await;
        }
    }
}

async fn one(report: &mut Report<'_>, level: Level, case: &Case, server: &Server, bare: &Server) {
    let request = |server: &Server, call: &Value| server.agent().request("POST", "/v1/exec", Some(call));
    let of_ours = request(server, &case.ours);
    let of_bare = request(bare, &json!({ "argv": case.beside }));
    let mut ours = server.agent().connect().await;
    let mut beside = bare.agent().connect().await;
    for _ in 0..WARM_UP {
        ask(&mut ours, &of_ours).await;
        ask(&mut beside, &of_bare).await;
    }
    let name = format!("exec/{}/{level}/p50", case.name);
    let compared = compare(
        report.enough(&name),
        PER_ROUND,
        async || ask(&mut ours, &of_ours).await,
        async || ask(&mut beside, &of_bare).await,
    )
    .await;
    report.add(
        name,
        compared.ratio,
        format!(
            "{} us beside {} us; p99 {} us beside {} us",
            compared.ours.p50().as_micros(),
            compared.beside.p50().as_micros(),
            compared.ours.p99().as_micros(),
            compared.beside.p99().as_micros()
        ),
    );
    // The first window makes the supervisors that so many clients need.
    window(server, &of_ours, CLIENTS, WINDOW).await;
    let name = format!("exec/{}/{level}/throughput", case.name);
    let (ratio, ours, beside) = compare_rates(
        report.enough(&name),
        async || window(server, &of_ours, CLIENTS, WINDOW).await.throughput(),
        async || window(bare, &of_bare, CLIENTS, WINDOW).await.throughput(),
    )
    .await;
    report.add(
        name,
        ratio,
        format!("{ours:.0} a second beside {beside:.0}, {CLIENTS} clients"),
    );
}

async fn ask(connection: &mut Connection, request: &[u8]) -> Duration {
    let begun = Instant::now();
    connection.ask(request).await.expect_completed();
    begun.elapsed()
}
