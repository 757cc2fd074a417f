//! `countersign agents`: who asks, and muting one of them for a while.

use std::time::Duration;

use serde_json::json;

use countersign_domain::AgentId;
use countersign_wire::{
    mute::{AgentMuteBody, MuteAgentBody},
    policy::AgentBody,
};

use super::{
    allowlist::{EVERY_AGENT, parse_owner},
    candidates,
    client::{Answer, Client},
    console::Format,
    context::Context,
    discover::Role,
    duration::parse_duration,
    exit::ExitStatus,
    failure::Failure,
    layout::Listing,
    moment,
    table::Table,
    value,
};

/// See agents, and mute one for a while
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  countersign agents list
  countersign agents mute noisy --for 30m --reason 'too many questions'
  countersign agents mutes")]
pub(crate) enum AgentsCommand {
    /// List the agents that are known, those seen last first
    #[command(after_help = "Examples:
  countersign agents list")]
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        listing: Listing,
    },
    /// Deny what an agent would have to be asked about, for a while
    #[command(after_help = "Examples:
  countersign agents mute noisy --for 30m
  countersign agents mute noisy --for 2h --reason 'the release is out'

Its questions that wait are denied, too. What runs without a question goes on. The agent sees the
reason. A longer mute stays as it is.")]
    Mute {
        /// The agent
        #[arg(value_name = "AGENT", add = candidates::agents())]
        agent: AgentId,
        /// For how long, at most 30d
        #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
        lasting: Duration,
        /// Why; the agent sees it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List the agents that are muted, those whose mute ends last first
    #[command(after_help = "Examples:
  countersign agents mutes
  countersign agents mutes --until 2026-12-01    # those that end before that day

--since and --until go by the end of a mute.")]
    Mutes {
        #[command(flatten)]
        listing: Listing,
    },
    /// Let an agent ask again
    #[command(after_help = "Examples:
  countersign agents unmute noisy")]
    Unmute {
        /// The agent; `*` ends a mute of all agents
        #[arg(value_name = "AGENT", value_parser = parse_owner, add = candidates::agents())]
        agent: String,
    },
}

pub(crate) async fn run(context: &Context, command: AgentsCommand) -> Result<ExitStatus, Failure> {
    let client = context.client(Role::Operator)?;
    match command {
        AgentsCommand::List { listing } => list(context, &client, listing).await?,
        AgentsCommand::Mute {
            agent,
            lasting,
            reason,
        } => {
            let body = json!(MuteAgentBody {
                until_ms: context.clock.now() + lasting,
                reason,
            });
            let path = ["v1", "agents", agent.as_str(), "mute"];
            let muted: Answer<AgentMuteBody> = client.put(&path, &body, None).await?;
            match context.console.format() {
                Format::Json => context.console.document(&muted.raw)?,
                Format::People => context.console.line(&format!(
                    "{} is muted until {}; countersign agents unmute {} ends that",
                    muted.agent_id,
                    moment::with_zone(muted.until_ms),
                    muted.agent_id
                ))?,
            }
        }
        AgentsCommand::Mutes { listing } => mutes(context, &client, listing).await?,
        AgentsCommand::Unmute { agent } => {
            client.delete(&["v1", "agents", agent.as_str(), "mute"]).await?;
            let muted: Vec<Answer<AgentMuteBody>> =
                client.list(&["v1", "mutes"], &Vec::new(), usize::MAX).await?;
            let of = |owner: &str| muted.iter().find(|muted| muted.agent_id == owner);
            let who = if agent == EVERY_AGENT {
                "every agent"
            } else {
                agent.as_str()
            };
            let line = match (of(&agent), of(EVERY_AGENT)) {
                (Some(held), _) => format!(
                    "{who} stays muted until {} unless what you changed is accepted: countersign policy diff",
                    moment::with_zone(held.until_ms)
                ),
                (None, Some(all)) => format!(
                    "{who} stays muted until {}, as every agent is; countersign agents unmute '*' ends that",
                    moment::with_zone(all.until_ms)
                ),
                (None, None) => format!("{who} may ask again"),
            };
            match context.console.format() {
                Format::Json => context
                    .console
                    .document(&json!({ "unmuted": agent, "held": of(&agent).is_some() }))?,
                Format::People => context.console.line(&line)?,
            }
        }
    }
    Ok(ExitStatus::SUCCESS)
}

async fn list(
    context: &Context,
    client: &Client,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let items: Vec<Answer<AgentBody>> = client.list(&["v1", "agents"], &Vec::new(), usize::MAX).await?;
    let items = period.newest(context.clock.now(), items, |agent| agent.last_seen_at_ms);
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&["AGENT", "WAITING", "LAST SEEN", "KNOWN FROM"]);
    for agent in &items {
        table.row([
            agent.agent_id.to_string(),
            agent.pending.to_string(),
            layout.maybe_time(context, agent.last_seen_at_ms),
            agent.sources.join(", "),
        ]);
    }
    let ids = items.iter().map(|agent| agent.agent_id.as_str());
    layout.print(context, ids, &table, "no agent is known")
}

async fn mutes(
    context: &Context,
    client: &Client,
    Listing { period, layout }: Listing,
) -> Result<(), Failure> {
    let items: Vec<Answer<AgentMuteBody>> = client.list(&["v1", "mutes"], &Vec::new(), usize::MAX).await?;
    let items = period.newest(context.clock.now(), items, |muted| Some(muted.until_ms));
    if context.console.format() == Format::Json {
        return context.console.document(&json!({ "items": items }));
    }
    let mut table = Table::new(&["AGENT", "ENDS", "REASON"]);
    for muted in &items {
        table.row([
            muted.agent_id.clone(),
            layout.time(context, muted.until_ms),
            value::shown(muted.reason.as_ref()),
        ]);
    }
    let ids = items.iter().map(|muted| muted.agent_id.as_str());
    layout.print(context, ids, &table, "no agent is muted")
}
