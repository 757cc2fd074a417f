//! Values that completion offers: what the server knows at this moment, each with a word on what it is.
//!
//! The server is the one that the environment and the state directory name: a completion knows no options. Where it does not
//! answer, or not quickly, nothing is offered.

use std::{ffi::OsStr, sync::Arc, time::Duration};

use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use serde::Deserialize;

use countersign_config::settings::ProcessEnvironment;
use countersign_wire::{
    approval::{ApprovalBriefBody, ApprovalView},
    node::NodeBody,
    page::Page,
    run::RunBriefBody,
    token::TokenBody,
};

use super::{
    client::{Client, Query},
    console::{ColorChoice, Console, Format},
    context::{Context, ServerFlags},
    discover::Role,
    failure::Failure,
    runtime::with_runtime_for,
    value,
};

/// Longer than this nobody waits for a key.
const PATIENCE: Duration = Duration::from_secs(1);
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
            let id = value::short_end(run.run_id.as_str()).to_owned();
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
            let id = node.node_id.get(..12).unwrap_or(&node.node_id).to_owned();
            (id, node.display_name.unwrap_or_default())
        };
        Ok(page.items.into_iter().map(offer).collect())
    })
}

/// Tokens, by their ids.
pub(crate) fn tokens() -> ArgValueCompleter {
    offered(async |client| {
        let page: Page<TokenBody> = page(&client, "tokens").await?;
        let live = page
            .items
            .into_iter()
            .filter(|token| token.revoked_at_ms.is_none());
        Ok(live.map(|token| (token.id.to_string(), token.name)).collect())
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
    ArgValueCandidates::new(|| {
        let names = ["deny-all", "cautious", "yolo"];
        Vec::from(names.map(CompletionCandidate::new))
    })
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
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_str().unwrap_or_default();
        let environment = Arc::new(ProcessEnvironment);
        let console = Console::new(Format::Json, ColorChoice::Never, environment.as_ref());
        let context = Context::new(console, environment, ServerFlags::default());
        let Ok(client) = context.client(Role::Operator) else {
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
