//! `countersign policy backtest`: the runs of the record, judged anew.

use std::collections::HashMap;

use serde_json::{Value, json};

use countersign_domain::{AgentId, Ask, Security};
use countersign_trials::record::{self, Backtest, Compared, LeftOut};
use countersign_wire::{page::Page, policy::EffectiveBody, run::RunBody, words};

use super::candidate::CandidateArgs;

use crate::cli::{
    candidates,
    client::{Client, Query},
    console::{Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    moment::{Moment, parse_moment},
    table::Table,
    value,
};

/// Runs of one page of the list.
const PAGE: u64 = 200;
/// Commands that a table shows; JSON has all.
const MAX_SHOWN: usize = 100;
/// Milliseconds after which it is worth saying how far it is.
const PROGRESS_AFTER_MS: i64 = 1_000;

/// Judge the runs of the record anew, under a policy that is not in force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy backtest --document candidate.json
  countersign policy backtest --config candidate-openclaw.json --since 30d --limit 5000
  countersign policy backtest --document candidate.json --agent main --fail-on-wider --json

Says how often the candidate decides otherwise than was decided then, and about which commands.
Every command that was asked about counts as asked, no matter how it was answered. Nothing is run, asked or
changed. Without --document and --config the files of the state directory are tried, a held edit
included.

Runs on nodes and in sandboxes, patches, runs in directories that are gone and runs that
something else than policy refused are counted as skipped, never guessed. Of the environment of
a run the record keeps the names alone, so each value counts as empty. What a call or a session
put on top of the policy is not kept either, grants count as unused, and scripts are not looked
into. Files and PATH are those of the caller: call it on the machine and under the account of
the server.

Exits 0, with --fail-on-wider 1 when something would run unasked that was asked about or denied,
or would be asked about and run without an answer by an askFallback wider than the one in force.")]
pub(crate) struct BacktestArgs {
    #[command(flatten)]
    candidate: CandidateArgs,
    /// Only this agent's runs
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Only runs from then on: so long ago (2h, 7d), a date, or a time (2026-11-23T09:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_moment)]
    since: Moment,
    /// At most this many runs, the newest first
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    limit: u64,
    /// Exit 1 when something would run unasked, or unanswered, that did not before
    #[arg(long)]
    fail_on_wider: bool,
}

pub(crate) async fn run(
    context: &Context,
    client: &Client,
    args: BacktestArgs,
) -> Result<ExitStatus, Failure> {
    let BacktestArgs {
        candidate,
        agent,
        since,
        limit,
        fail_on_wider,
    } = args;
    let candidate = candidate.load(context)?;
    let begun = context.clock.now();
    let mut query: Query = vec![("since", since.at(begun).get().max(0).to_string())];
    query.extend(agent.map(|agent| ("agentId", agent.to_string())));
    let mut in_force = InForce::new(client);
    let mut backtest = Backtest::default();
    let mut cursor: Option<String> = None;
    while backtest.counts().total() < limit {
        let mut page_query = query.clone();
        page_query.push(("limit", (limit - backtest.counts().total()).min(PAGE).to_string()));
        page_query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page: Page<Value> = client.get_page(&["v1", "runs"], &page_query).await?;
        for run in page.items {
            let read = serde_json::from_value(run).map_err(|_of_another_form| LeftOut::Unreadable);
            let compared = match read.and_then(|run: RunBody| backtest.compare(&candidate, run)) {
                Ok(compared) => Ok(in_force.beside(compared).await?),
                Err(left_out) => Err(left_out),
            };
            backtest.add(compared);
        }
        if context.clock.now().get() - begun.get() > PROGRESS_AFTER_MS {
            context.console.progress(&format!(
                "{} of at most {limit} runs …",
                backtest.counts().total()
            ));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    context.console.end_progress();
    report(context, &backtest)?;
    Ok(if fail_on_wider && backtest.counts().wider() > 0 {
        ExitStatus::FAILURE
    } else {
        ExitStatus::SUCCESS
    })
}

/// What the server lets run that nobody answers for, asked once for each agent.
struct InForce<'a> {
    client: &'a Client,
    fallbacks: HashMap<AgentId, Security>,
}

impl<'a> InForce<'a> {
    fn new(client: &'a Client) -> Self {
        Self {
            client,
            fallbacks: HashMap::new(),
        }
    }

    async fn beside(&mut self, compared: Compared) -> Result<Compared, Failure> {
        // A command that does not run without an answer is not wider, no matter which fallback is in force.
        if compared.now.unanswered.is_none() {
            return Ok(compared);
        }
        let fallback = self.fallback(&compared.past.recorded.agent).await?;
        Ok(compared.beside(fallback))
    }

    async fn fallback(&mut self, agent: &AgentId) -> Result<Security, Failure> {
        if let Some(fallback) = self.fallbacks.get(agent) {
            return Ok(*fallback);
        }
        let query: Query = vec![
            ("agentId", agent.to_string()),
            ("host", "gateway".to_owned()),
            // What the main session puts on top of the policy is no part of a candidate either.
            ("sessionKey", format!("agent:{agent}:policy-backtest")),
        ];
        let policy: EffectiveBody = self.client.get(&["v1", "policy", "effective"], &query).await?;
        let rules = (policy.security.value, policy.ask.value, policy.ask_fallback.value);
        let fallback = fallback_in_force(rules);
        self.fallbacks.insert(agent.clone(), fallback);
        Ok(fallback)
    }
}

/// How much runs without an answer, by the words of a server that may be newer.
fn fallback_in_force((security, ask, fallback): (words::Security, words::Ask, words::Security)) -> Security {
    // What is not known counts as the strictest, beside which anything is wider.
    record::fallback_in_force(
        security.known().unwrap_or(Security::Deny),
        ask.known().unwrap_or(Ask::Always),
        fallback.known().unwrap_or(Security::Deny),
    )
}

fn report(context: &Context, backtest: &Backtest) -> Result<(), Failure> {
    let (console, counts) = (context.console, backtest.counts());
    match console.format() {
        Format::Json => console.document(&json!(backtest.body(usize::MAX))),
        Format::People => {
            let tone = if counts.wider() > 0 {
                Tone::Caution
            } else {
                Tone::Good
            };
            console.line(&console.paint(tone, &counts.in_words()))?;
            let changes = backtest.changes();
            let mut table = Table::new(&["TIMES", "AGENT", "THEN -> NOW", "WHY", "COMMAND"]);
            for change in changes.kept().iter().take(MAX_SHOWN) {
                let [agent, decisions, why, command] = record::cells(&change.newest);
                table.row([change.count.to_string(), agent, decisions, why, command]);
            }
            if !changes.kept().is_empty() {
                console.table(&table, "")?;
            }
            let unseen = changes.kept().len().saturating_sub(MAX_SHOWN);
            if unseen > 0 {
                console.note(&format!("{unseen} more commands; --json has them"));
            }
            if changes.omitted() > 0 {
                let text = format!("{} more runs differ than can be told of", changes.omitted());
                console.note(&value::visible(&text));
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_the_fallback_unless_nobody_is_asked() {
        #[track_caller]
        fn check(security: &str, ask: &str, fallback: &str, in_force: Security) {
            let rules = serde_json::from_value(json!([security, ask, fallback])).unwrap();
            let told = fallback_in_force(rules);
            assert_eq!(told, in_force, "{security} {ask} {fallback}");
        }
        check("allowlist", "on-miss", "deny", Security::Deny);
        check("allowlist", "on-miss", "allowlist", Security::Allowlist);
        check("full", "always", "deny", Security::Deny);
        check("full", "always", "full", Security::Full);
        check("full", "off", "deny", Security::Full);
        check("full", "on-miss", "deny", Security::Full);
        check("full", "always", "else", Security::Deny);
    }
}
