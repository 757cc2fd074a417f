//! Values that completion offers: what the server knows at this moment, each with a word on what it is.
//!
//! The server is the one that the environment and the state directory name: a completion knows no options. Where it does not
//! answer, or not quickly, nothing is offered.

use std::{ffi::OsStr, sync::Arc, time::Duration};

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use serde::Deserialize;
use serde_json::json;

use countersign_config::settings::ProcessEnvironment;
use countersign_ledger::events::EventType;
use countersign_wire::{
    approval::{ApprovalBriefBody, ApprovalView},
    entry::{EntryBody, RuleBody},
    node::NodeBody,
    page::Page,
    process::{ProcessList, SessionBody},
    run::RunBriefBody,
    token::{SignInBody, TokenBody},
};

use super::{
    client::{Client, Query},
    console::{ColorChoice, Console, Format},
    context::{Context, ServerFlags},
    discover::Role,
    failure::Failure,
    ids,
    runtime::with_runtime_for,
    value,
};

/// Longer than this nobody waits for a key.
const PATIENCE: Duration = Duration::from_secs(1);
/// The owner of the lists that count for every agent.
const EVERY_AGENT: &str = "*";
/// More are not looked through.
const MOST: &str = "100";

/// Questions that wait, by the first characters of their ids.
pub(crate) fn approvals() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<ApprovalBriefBody> = page(&client, "approvals").await?;
        let offer = |asked: ApprovalBriefBody| {
            (
                asked.id.slug().to_owned(),
                format!("{}: {}", asked.agent_id, asked.line),
            )
        };
        Ok(page.items.into_iter().map(offer).collect())
    })
}

/// Runs, by the last characters of their ids.
pub(crate) fn runs() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<RunBriefBody> = page(&client, "runs").await?;
        let offer = |run: RunBriefBody| {
            let id = ids::short(run.run_id.as_str()).to_owned();
            (id, format!("{}: {}", run.status, run.line))
        };
        Ok(page.items.into_iter().map(offer).collect())
    })
}

/// Agents that are known.
pub(crate) fn agents() -> ArgValueCompleter {
    /// What is needed of an agent.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Agent {
        agent_id: String,
    }
    offered(async |client| {
        let page: Page<Agent> = page(&client, "agents").await?;
        Ok(page
            .items
            .into_iter()
            .map(|agent| (agent.agent_id, String::new()))
            .collect())
    })
}

/// Nodes, by the first characters of their ids.
pub(crate) fn nodes() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<NodeBody> = page(&client, "nodes").await?;
        let offer = |node: NodeBody| {
            let id = ids::short_of_target(&node.node_id).to_owned();
            (id, node.display_name.unwrap_or_default())
        };
        Ok(page.items.into_iter().map(offer).collect())
    })
}

/// Tokens, by what is shown of their ids.
pub(crate) fn tokens() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<TokenBody> = page(&client, "tokens").await?;
        let live = page
            .items
            .into_iter()
            .filter(|token| token.revoked_at_ms.is_none());
        Ok(live
            .map(|token| (ids::short(token.id.as_str()).to_owned(), token.name))
            .collect())
    })
}

/// Entries of the lists of `main` and of every agent: a completion knows no `--agent`.
pub(crate) fn entries() -> ArgValueCompleter {
    offered(async |client| {
        let mut found = Vec::new();
        for agent in ["main", EVERY_AGENT] {
            let page: Page<EntryBody> = of_agent(&client, agent, "allowlist").await?;
            let offer = |entry: EntryBody| (ids::short(entry.id.as_str()).to_owned(), entry.pattern);
            found.extend(page.items.into_iter().map(offer));
        }
        Ok(found)
    })
}

/// The same of deny rules.
pub(crate) fn deny_rules() -> ArgValueCompleter {
    offered(async |client| {
        let mut found = Vec::new();
        for agent in [EVERY_AGENT, "main"] {
            let page: Page<RuleBody> = of_agent(&client, agent, "denylist").await?;
            let offer = |rule: RuleBody| (ids::short(rule.id.as_str()).to_owned(), rule.pattern);
            found.extend(page.items.into_iter().map(offer));
        }
        Ok(found)
    })
}

/// Browsers that are signed in.
pub(crate) fn browsers() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<SignInBody> = page(&client, "sign-ins").await?;
        let offer = |browser: SignInBody| (ids::short(browser.id.as_str()).to_owned(), browser.name);
        Ok(page.items.into_iter().map(offer).collect())
    })
}

/// Process sessions of `main`, by their names.
pub(crate) fn processes() -> ArgValueCompleter {
    offered_to(Role::Gateway, async |client: Client| {
        let call = json!({ "action": "list", "agentId": "main" });
        let list: ProcessList = client.post(&["v1", "process"], &call).await?;
        let offer = |session: SessionBody| {
            (
                session.session_id,
                format!("{}: {}", session.status, session.name),
            )
        };
        Ok(list.items.into_iter().map(offer).collect())
    })
}

/// Keys of `openclaw.json` that countersign reads.
pub(crate) fn config_keys() -> ArgValueCompleter {
    /// What is needed of a setting.
    #[derive(Deserialize)]
    struct Setting {
        path: String,
    }
    offered(async |client| {
        let page: Page<Setting> = client.get(&["v1", "config"], &Vec::new()).await?;
        Ok(page
            .items
            .into_iter()
            .map(|setting| (setting.path, String::new()))
            .collect())
    })
}

/// Presets of the policy.
pub(crate) fn presets() -> ArgValueCandidates {
    words(&["deny-all", "cautious", "yolo"])
}

/// States of runs, as filters take them.
pub(crate) fn run_statuses() -> ArgValueCandidates {
    words(&[
        "queued",
        "approval-pending",
        "running",
        "completed",
        "failed",
        "denied",
        "cancelled",
        "lost",
    ])
}

/// States of questions, as filters take them.
pub(crate) fn approval_statuses() -> ArgValueCandidates {
    words(&["pending", "allowed", "denied", "expired", "cancelled", "all"])
}

/// The one state of questions that can be answered.
pub(crate) fn waiting() -> ArgValueCandidates {
    words(&["pending"])
}

/// What an answer may be remembered as.
pub(crate) fn proposals() -> ArgValueCandidates {
    words(&["exact", "arguments", "program"])
}

/// Scopes of tokens and browsers, several with commas.
pub(crate) fn scopes() -> ArgValueCompleter {
    several(&["exec", "relay", "read", "approve", "admin"])
}

/// Types of events, several with commas.
pub(crate) fn event_types() -> ArgValueCompleter {
    let types: Vec<&'static str> = EventType::ALL.iter().map(|known| known.as_str()).collect();
    several(&types)
}

/// Members that most of what is printed has, several with commas.
pub(crate) fn members() -> ArgValueCompleter {
    several(&["id", "runId", "agentId", "status", "createdAtMs"])
}

/// The words that an option of this id takes, whichever command has it. `inherits`: it can also be taken away.
pub(crate) fn of_option(id: &str, inherits: bool) -> Option<ArgValueCandidates> {
    Some(match (id, inherits) {
        ("security" | "ask_fallback", false) => words(&["deny", "allowlist", "full"]),
        ("security" | "ask_fallback", true) => words(&["deny", "allowlist", "full", "inherit"]),
        ("ask", false) => words(&["off", "on-miss", "always"]),
        ("ask", true) => words(&["off", "on-miss", "always", "inherit"]),
        ("auto_allow_skills", _) => words(&["true", "false", "inherit"]),
        ("host", _) => words(&["auto", "sandbox", "gateway", "node"]),
        ("stream", _) => words(&["stdout", "stderr"]),
        ("policy", _) => presets(),
        ("action", _) => ArgValueCandidates::new(|| {
            let events = EventType::ALL.iter().map(|known| known.as_str());
            let alone = [
                "token.created",
                "token.revoked",
                "token.accepted",
                "login",
                "login.failed",
                "login.revoked",
            ];
            events.chain(alone).map(CompletionCandidate::new).collect()
        }),
        _ => return None,
    })
}

/// Ids of questions, and then what can be answered.
pub(crate) fn approvals_and_decisions() -> ArgValueCompleter {
    let ids = approvals();
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed_text = typed.to_str().unwrap_or_default();
        let decisions = ["allow-once", "allow-always", "deny"].into_iter();
        let decisions = decisions.filter(|word| word.starts_with(typed_text));
        let mut found = ids.complete(typed);
        found.extend(decisions.map(CompletionCandidate::new));
        found
    })
}

fn words(known: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(move || known.iter().map(CompletionCandidate::new).collect())
}

/// One more of these behind the last comma.
fn several(known: &[&'static str]) -> ArgValueCompleter {
    let known = known.to_vec();
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_str().unwrap_or_default();
        let (before, last) = match typed.rsplit_once(',') {
            Some((before, last)) => (format!("{before},"), last),
            None => (String::new(), typed),
        };
        let is_given = |word: &str| before.split(',').any(|given| given == word);
        let fitting = known
            .iter()
            .filter(|word| word.starts_with(last) && !is_given(word));
        fitting
            .map(|word| CompletionCandidate::new(format!("{before}{word}")))
            .collect()
    })
}

async fn of_agent<T: serde::de::DeserializeOwned>(
    client: &Client,
    agent: &str,
    list: &str,
) -> Result<Page<T>, Failure> {
    let query: Query = vec![("limit", MOST.to_owned())];
    client.get(&["v1", "agents", agent, list], &query).await
}

async fn page<T: serde::de::DeserializeOwned>(client: &Client, list: &str) -> Result<Page<T>, Failure> {
    let query: Query = vec![
        ("limit", MOST.to_owned()),
        ("view", ApprovalView::Brief.to_string()),
    ];
    client.get(&["v1", list], &query).await
}

/// A completer of what `ask` finds, as far as it begins like what was typed.
fn offered<Ask>(ask: Ask) -> ArgValueCompleter
where
    Ask: AsyncFn(Client) -> Result<Vec<(String, String)>, Failure> + Send + Sync + 'static,
{
    offered_to(Role::Operator, ask)
}

fn offered_to<Ask>(role: Role, ask: Ask) -> ArgValueCompleter
where
    Ask: AsyncFn(Client) -> Result<Vec<(String, String)>, Failure> + Send + Sync + 'static,
{
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_str().unwrap_or_default();
        let environment = Arc::new(ProcessEnvironment);
        let console = Console::new(Format::Json, ColorChoice::Never, environment.as_ref());
        let context = Context::new(console, environment, ServerFlags::default());
        let Ok(client) = context.client(role) else {
            return Vec::new();
        };
        let found = with_runtime_for(PATIENCE, ask(client));
        let found = found.ok().flatten().unwrap_or_default();
        found
            .into_iter()
            .filter(|(text, _)| text.starts_with(typed))
            .map(|(text, about)| {
                let about = value::shortened(&value::visible(&about), 60);
                let about = Some(about).filter(|about| !about.is_empty());
                CompletionCandidate::new(value::visible(&text)).help(about.map(Into::into))
            })
            .collect()
    })
}
