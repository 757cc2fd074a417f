//! Changing policy over the API: the approvals document, presets, the configuration, agents, and what never runs.

mod agents;
mod attacks;
mod command_line;
mod config;
mod document;
mod large;
mod lists;
mod preset;

use reqwest::Method;
use serde_json::Value;

use crate::support::{Answer, Api, Members};

/// Sends a body with a precondition, or without one.
async fn send(api: &Api, method: Method, path: &str, if_match: Option<&str>, body: &Value) -> Answer {
    let request = api.request(method, path).json(body);
    api.send(match if_match {
        Some(tag) => request.header("If-Match", tag),
        None => request,
    })
    .await
}

async fn put(api: &Api, path: &str, if_match: Option<&str>, body: &Value) -> Answer {
    send(api, Method::PUT, path, if_match, body).await
}

async fn patch(api: &Api, path: &str, if_match: Option<&str>, body: &Value) -> Answer {
    send(api, Method::PATCH, path, if_match, body).await
}

/// The `ETag` of a resource.
async fn tag_of(api: &Api, path: &str) -> String {
    let answer = api.get(path).await;
    answer.expect(200);
    answer.header("etag").expect("an ETag").to_owned()
}

/// The actions of the last audit records, newest last.
async fn actions(api: &Api) -> Vec<String> {
    let page = api.read("/v1/audit?limit=500").await;
    let mut records: Vec<&Value> = page.list("items").iter().collect();
    records.sort_by_key(|record| record["seq"].as_i64());
    records
        .iter()
        .map(|record| record.text("action").to_owned())
        .collect()
}

/// `policy.changed` events so far.
async fn policy_events(api: &Api) -> Vec<Value> {
    let page = api
        .read("/v1/events?types=policy.changed&after=0&limit=500")
        .await;
    page.list("items").clone()
}
