//! One file per resource: its wire types, its handlers with their `OpenAPI` notes, its `router()`.
//!
//! A handler must never decide about a command and knows no SQL: it turns a request into a call of
//! [`countersign_engine::Engine`] or the Bridge, and the result into an answer. Scopes stand in its signature, as
//! [`crate::caller::Caller`] and its kin. Read on: [`router`] merges all resources; `exec/mod.rs` is the central
//! one.

mod agents;
mod allowlist;
mod approvals;
mod audit;
mod bridge;
mod config;
mod denylist;
mod docs;
mod doctor;
mod document;
mod events;
mod exec;
mod mcp;
mod me;
mod metrics;
mod mutes;
mod nodes;
mod overview;
mod pages;
mod patch;
mod policy;
mod probes;
mod process;
mod runs;
mod sessions;
mod settings;
mod sign_in;
mod stop;
mod tokens;
mod tools;
mod trials;
mod unknown;

pub use audit::verification_body;
pub(crate) use events::brief_event;
pub(crate) use exec::{CallAnswer, ExecAnswer, ExecBody, ExecQuery, finished};
pub(crate) use mcp::Mount as McpMount;
pub(crate) use metrics::metrics_alone;
pub(crate) use probes::{errors as error_catalogue, healthz as health, version};
pub(crate) use process::stream::last_event_id;
pub(crate) use runs::{
    FramesQuery, ListedRun, OutputQuery, WaitQuery, in_list, output_of_frames, recording_of_frames,
    statuses_named, with_output,
};
pub(crate) use tools::PATH as TOOLS_PATH;
pub(crate) use unknown::method as unknown_method;
#[cfg(test)]
pub(crate) use unknown::path as unknown_path;

use crate::route_table::RouteTable;

/// All routes, with the document that describes them.
pub(crate) fn router() -> RouteTable {
    RouteTable::new()
        .merge(exec::router())
        .merge(patch::router())
        .merge(mcp::router())
        .merge(process::router())
        .merge(sessions::router())
        .merge(tools::router())
        .merge(runs::router())
        .merge(overview::router())
        .merge(approvals::router())
        .merge(policy::router())
        .merge(trials::router())
        .merge(document::router())
        .merge(config::router())
        .merge(settings::router())
        .merge(agents::router())
        .merge(allowlist::router())
        .merge(denylist::router())
        .merge(mutes::router())
        .merge(nodes::router())
        .merge(events::router())
        .merge(audit::router())
        .merge(stop::router())
        .merge(me::router())
        .merge(tokens::router())
        .merge(bridge::router())
        .merge(pages::router())
        .merge(sign_in::router())
        .merge(probes::router())
        .merge(doctor::router())
        .merge(docs::router())
        .merge(metrics::router())
        .fallback(unknown::path)
}
