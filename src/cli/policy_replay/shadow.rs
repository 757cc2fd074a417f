//! `countersign policy shadow`: new runs, judged a second time as they come.

use std::{future::pending, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use countersign_domain::{AgentId, UnixMillis};
use countersign_engine::candidate::Candidate;
use countersign_trials::record::{self, Compared, Counts, LeftOut};
use countersign_wire::{event::RunEvent, run::RunBody};

use super::candidate::CandidateArgs;

use crate::cli::{
    candidates,
    client::{Client, Query},
    console::{Format, Tone},
    context::Context,
    duration::parse_duration,
    exit::ExitStatus,
    failure::Failure,
    follow::Follower,
    moment,
    table::Table,
};

/// Every run is told of once by this, with what was decided about it.
const ADMITTED: &str = "exec.requested";

/// Follow new runs, and tell of each about which another policy decides otherwise
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy shadow --document candidate.json --for 1s
  countersign policy shadow --document candidate.json --agent main --for 1s --json

Prints a line for each run that the candidate would decide about otherwise, and how it went at
the end: after --for, at Ctrl-C, SIGTERM or the server's end. Nothing is asked, stopped or
changed by it. What cannot be judged is counted as `countersign policy backtest` counts it.")]
pub(crate) struct ShadowArgs {
    #[command(flatten)]
    candidate: CandidateArgs,
    /// Only this agent's runs
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
}

pub(crate) async fn run(context: &Context, client: &Client, args: ShadowArgs) -> Result<ExitStatus, Failure> {
    let ShadowArgs {
        candidate,
        agent,
        duration,
    } = args;
    if candidate.is_present_policy() {
        return Err(
            Failure::usage("there is nothing to try beside the policy in force")
                .advice("name a file with --document or --config"),
        );
    }
    let candidate = candidate.load(context)?;
    let mut query: Query = vec![
        ("types", format!("{ADMITTED},server.shutdown")),
        ("approver", "false".to_owned()),
    ];
    query.extend(agent.map(|agent| ("agentId", agent.to_string())));
    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let stream = client.events(&query, None).await?;
    context.console.note("watching new runs; Ctrl-C ends");
    let mut follower = Follower::new(context, client, &query, stream);
    let mut watch = Watch {
        context,
        client,
        candidate: &candidate,
        counts: Counts::default(),
    };
    let over = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        let event = tokio::select! {
            event = follower.next() => event,
            () = &mut over => break,
            _told = interrupted.recv() => break,
            _told = terminated.recv() => break,
        };
        match event {
            Ok(event) if event.is_shutdown => {
                context.console.note("the server stopped");
                break;
            }
            Ok(event) => {
                watch
                    .take(countersign_wire::read::<RunEvent>(&event.data).unwrap_or_default())
                    .await?;
            }
            Err(failure) => {
                watch.summarise()?;
                return Err(failure);
            }
        }
    }
    watch.summarise()?;
    Ok(ExitStatus::SUCCESS)
}

struct Watch<'a> {
    context: &'a Context,
    client: &'a Client,
    candidate: &'a Candidate,
    counts: Counts,
}

impl Watch<'_> {
    async fn take(&mut self, event: RunEvent) -> Result<(), Failure> {
        if event.r#type != ADMITTED {
            return Ok(());
        }
        let compared = self.compare(&event.run_id).await?;
        self.counts.add(&compared);
        match compared {
            Ok(compared) if compared.differs() => self.tell(event.ts, &compared),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The event has the command as one line of text, so the run is looked at.
    async fn compare(&self, run_id: &str) -> Result<Result<Compared, LeftOut>, Failure> {
        match self
            .client
            .get::<Value>(&["v1", "runs", run_id], &Vec::new())
            .await
        {
            Ok(run) => Ok(serde_json::from_value::<RunBody>(run)
                .map_err(|_of_another_form| LeftOut::Unreadable)
                .and_then(|run| {
                    Compared::of(run, |recorded| self.candidate.evaluate(recorded.clone()).ok())
                })),
            // It was removed, or the server is gone, which the stream tells.
            Err(failure) if failure.is_no_connection() || failure.code == "not-found" => {
                Ok(Err(LeftOut::NoText))
            }
            Err(failure) => Err(failure),
        }
    }

    fn tell(&self, at: Option<UnixMillis>, compared: &Compared) -> Result<(), Failure> {
        let console = self.context.console;
        match console.format() {
            Format::Json => {
                let told = json!(compared.body());
                let mut members: Map<String, Value> = told.as_object().cloned().unwrap_or_default();
                members.insert("runId".to_owned(), json!(compared.past.run_id));
                members.extend(at.map(|at| ("ts".to_owned(), json!(at))));
                console.json_line(&Value::Object(members))
            }
            Format::People => {
                let [agent, decisions, why, command] = record::cells(compared);
                let mut line = Table::without_header();
                line.row([
                    at.map(moment::with_zone).unwrap_or_default(),
                    agent,
                    decisions,
                    why,
                    command,
                ]);
                let tone = if compared.is_wider() {
                    Tone::Caution
                } else {
                    Tone::Dim
                };
                console.line(&console.paint(tone, &line.lines().concat()))
            }
        }
    }

    fn summarise(&self) -> Result<(), Failure> {
        let console = self.context.console;
        match console.format() {
            Format::Json => console.json_line(&json!({ "summary": self.counts.to_json() })),
            Format::People => console.line(&self.counts.in_words()),
        }
    }
}
