//! Plays the cases one after the other: the gateway is asked to run a command, and its calls come to a mock.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use clap::ValueEnum as _;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use countersign_http::mock::{Heard, MockPlay};

use super::case::{Case, GatewayAnswer, Played};
use crate::cli::{
    client::{Address, Client},
    console::{Format, Tone},
    context::Context,
    duration::parse_duration,
    exit::ExitStatus,
    failure::Failure,
    mock, value,
};

/// Play the cases that every gateway meets, and report how a gateway takes them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign check-gateway http://127.0.0.1:8080/check
  countersign check-gateway http://127.0.0.1:8080/check --case denied --case restart
  countersign check-gateway http://127.0.0.1:8080/check --listen 127.0.0.1:18790

This command is the countersign that the gateway talks to: a mock on loopback, which starts no
process. For each case it sends POST URL with {case, command, countersign: {url, token}}. The
gateway runs that command over that countersign as it would for its agent, and answers with
{status, exitCode, output, truncated, message}: what it would tell its agent. docs/gateways.md
says what each case wants. Exits 1 when a case fails.")]
pub(crate) struct CheckGatewayArgs {
    /// Where the gateway takes commands for this check
    #[arg(value_name = "URL")]
    gateway: String,
    /// Only this case; may be repeated
    #[arg(long, value_name = "CASE")]
    case: Vec<Case>,
    /// Address of the mock, for a gateway that has it in its settings; loopback only
    #[arg(long, value_name = "ADDRESS", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    /// How long the gateway may take for one case
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    within: Duration,
}

/// How one case went.
struct Outcome {
    case: Case,
    took: Duration,
    findings: Vec<String>,
    heard: Vec<Heard>,
}

pub(crate) async fn run(context: &Context, args: CheckGatewayArgs) -> Result<ExitStatus, Failure> {
    let CheckGatewayArgs {
        gateway,
        case,
        listen,
        within,
    } = args;
    let cases = if case.is_empty() {
        Case::value_variants().to_vec()
    } else {
        case
    };
    let client = Client::anonymous(&Address::Url(gateway.clone())).map_err(|failure| {
        if failure.code != "usage" {
            return failure;
        }
        // A host alone is what people type.
        let address = if gateway.contains("://") {
            "http://127.0.0.1:8080"
        } else {
            &format!("http://{gateway}")
        };
        failure.hint(format!(
            "countersign check-gateway {}   (the address at which your gateway takes commands)",
            value::quoted(address)
        ))
    })?;
    let mock = mock::open(context, listen, mock::cases(), |_heard| {}).await?;
    let (play, url, token) = (mock.play(), mock.url(), mock::token());
    let stop = CancellationToken::new();
    let serving = tokio::spawn(mock.serve(stop.clone()));
    let mut outcomes = Vec::new();
    for case in cases {
        context.console.progress(&format!("{} …", case.name()));
        let body = json!({
            "case": case.name(), "command": case.command(), "countersign": {"url": url, "token": token},
        });
        let outcome = play_case(&client, &play, (case, &body), within).await?;
        context.console.end_progress();
        if context.console.format() == Format::People {
            show(context, &outcome)?;
        }
        outcomes.push(outcome);
    }
    stop.cancel();
    drop(serving.await);
    report(context, &gateway, &outcomes)
}

async fn play_case(
    client: &Client,
    play: &MockPlay,
    (case, body): (Case, &Value),
    within: Duration,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    let answered = timeout(within, client.post_patiently::<GatewayAnswer>(&[], body)).await;
    let answer = match answered {
        Ok(Ok(answer)) => Ok(answer),
        // Nothing is there that could be checked.
        Ok(Err(failure)) if failure.code == "server-unavailable" => {
            return Err(Failure::unavailable(failure.message)
                .advice("start the gateway, and give the URL at which it takes commands"));
        }
        Ok(Err(failure)) => Err(failure.message),
        Err(_elapsed) => Err(format!("nothing came within {} s", within.as_secs())),
    };
    let command = case.command();
    let heard = play.heard(&command);
    let played = Played {
        answer,
        runs: play.runs(&command),
        heard: &heard,
    };
    Ok(Outcome {
        case,
        took: begun.elapsed(),
        findings: case.judge(&played),
        heard,
    })
}

fn show(context: &Context, outcome: &Outcome) -> Result<(), Failure> {
    let Outcome {
        case,
        took,
        findings,
        heard: _,
    } = outcome;
    let console = context.console;
    let word = if findings.is_empty() {
        console.paint(Tone::Good, "pass")
    } else {
        console.paint(Tone::Bad, "fail")
    };
    console.line(&format!(
        "{word}  {:<12}  {:.1} s",
        case.name(),
        took.as_secs_f64()
    ))?;
    for finding in findings {
        console.line(&format!("      {}", value::visible(finding)))?;
    }
    Ok(())
}

fn report(context: &Context, gateway: &str, outcomes: &[Outcome]) -> Result<ExitStatus, Failure> {
    let passed = outcomes
        .iter()
        .filter(|outcome| outcome.findings.is_empty())
        .count();
    let all = passed == outcomes.len();
    match context.console.format() {
        Format::Json => context.console.document(&json!({
            "gateway": gateway, "passed": all, "cases": outcomes.iter().map(to_json).collect::<Vec<_>>(),
        }))?,
        Format::People => {
            let all = value::counted(outcomes.len(), "case");
            context.console.line(&format!("{passed} of {all} passed"))?;
        }
    }
    Ok(if all {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::FAILURE
    })
}

fn to_json(outcome: &Outcome) -> Value {
    let Outcome {
        case,
        took,
        findings,
        heard,
    } = outcome;
    let calls: Vec<Value> = heard
        .iter()
        .map(|heard| match &heard.call {
            Some(call) => json!({
                "atMs": millis(heard.at), "kind": "call", "key": call.key, "runId": call.run, "outcome": call.outcome,
            }),
            None => json!({"atMs": millis(heard.at), "kind": "broken"}),
        })
        .collect();
    json!({
        "case": case.name(), "passed": findings.is_empty(), "tookMs": millis(*took), "findings": findings,
        "heard": calls,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
