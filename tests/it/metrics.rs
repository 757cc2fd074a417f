//! Figures for machines that watch: that they parse, that they are right, and that they give nothing away.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::{
    Method,
    header::{ACCEPT, HOST},
};
use serde_json::json;

use crate::support::{Api, Members, TestServer, assert_says, eventually};

/// Every sample of a text, by name and labels as they are written.
pub(crate) type Samples = BTreeMap<String, f64>;

/// Reads the text format of Prometheus as strictly as its own reader, and more strictly where programs differ.
#[track_caller]
fn parse(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "a last line without an end: {text}");
    let mut samples = Samples::new();
    let mut families: BTreeMap<String, String> = BTreeMap::new();
    let mut current: Option<(String, String)> = None;
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (keyword, rest) = comment.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            let (name, rest) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(name), "{line}");
            match keyword {
                "HELP" => assert!(!rest.is_empty() && !families.contains_key(name), "twice: {line}"),
                "TYPE" => {
                    assert!(["counter", "gauge", "histogram"].contains(&rest), "{line}");
                    assert!(
                        families.insert(name.to_owned(), rest.to_owned()).is_none(),
                        "twice: {line}"
                    );
                    current = Some((name.to_owned(), rest.to_owned()));
                }
                _ => panic!("an unknown comment: {line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = match series.split_once('{') {
            None => (series, ""),
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"))),
        };
        let (family, kind) = current
            .as_ref()
            .unwrap_or_else(|| panic!("before any type: {line}"));
        let suffix = name
            .strip_prefix(family.as_str())
            .unwrap_or_else(|| panic!("of another family: {line}"));
        let known: &[&str] = if kind == "histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        assert!(known.contains(&suffix), "{line}");
        assert!(kind != "counter" || family.ends_with("_total"), "{line}");
        assert!(kind == "gauge" || value >= 0.0, "{line}");
        check_labels(labels, line);
        assert!(
            samples.insert(series.to_owned(), value).is_none(),
            "twice: {line}"
        );
    }
    check_histograms(&samples, &families);
    samples
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[track_caller]
fn check_labels(labels: &str, line: &str) {
    let mut seen = BTreeSet::new();
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(name) && seen.insert(name), "{line}");
        // No word of ours needs an escape, so an escape is somebody else's word.
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{line}"));
        assert!(!value.contains(['\\', '\n']), "{line}");
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

#[track_caller]
fn check_histograms(samples: &Samples, families: &BTreeMap<String, String>) {
    for (series, count) in samples {
        let Some((name, labels)) = series
            .split_once("_count")
            .filter(|(name, _)| families.get(*name).is_some_and(|kind| kind == "histogram"))
        else {
            continue;
        };
        let labels = labels.trim_start_matches('{').trim_end_matches('}');
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter(|(series, _)| series.starts_with(&format!("{name}_bucket")) && series.contains(labels))
            .map(|(series, value)| {
                let bound = series.split_once("le=\"").unwrap().1.split('"').next().unwrap();
                (bound.parse::<f64>().unwrap(), *value)
            })
            .collect();
        buckets.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        assert!(
            buckets.is_sorted_by(|(_, fewer), (_, more)| fewer <= more),
            "{series}: {buckets:?}"
        );
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{series}");
        assert!(
            samples.contains_key(&series.replace("_count", "_sum")),
            "{series}"
        );
    }
}

async fn text(api: &Api) -> String {
    let answer = api.send(api.request(Method::GET, "/metrics")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    answer.text()
}

/// The value of each series.
pub(crate) async fn samples(api: &Api) -> Samples {
    parse(&text(api).await)
}

#[track_caller]
fn check(samples: &Samples, expect: &[(&str, f64)]) {
    for (series, value) in expect {
        assert_eq!(samples.get(*series), Some(value), "{series} in {samples:#?}");
    }
}

#[tokio::test]
async fn what_happened_is_counted_and_nobody_is_named() {
    let server = TestServer::asking().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    check(
        &samples(&operator).await,
        &[("countersign_approvals_pending", 0.0)],
    );

    let ask = async |word: &str| {
        let request = json!({
            "argv": ["/bin/echo", word], "agentId": "private-agent", "sessionKey": "private-session",
        });
        agent.accepted(request).await
    };
    let (allowed, denied) = (ask("private-words").await, ask("private-words-too").await);
    check(
        &samples(&operator).await,
        &[("countersign_approvals_pending", 2.0)],
    );
    let id = |pending: &serde_json::Value, member: &str| pending.text(member).to_owned();
    operator.decided(&id(&allowed, "approvalId"), "allow-once").await;
    operator.decided(&id(&denied, "approvalId"), "deny").await;
    let run = operator.finished(&id(&allowed, "runId")).await;
    assert_eq!(run["status"], "completed");
    operator.get("/v1/private-path").await.problem(404, "not-found");
    operator.read("/v1/runs?q=private-query").await;

    // The note of the start and the freed place follow the end by moments.
    let seen = eventually(
        "settled",
        || samples(&operator),
        |seen| {
            seen.get("countersign_runs_running") == Some(&0.0)
                && seen.get("countersign_runs_ended_total{status=\"completed\"}") == Some(&1.0)
                && seen.get("countersign_ledger_queue_depth") == Some(&0.0)
        },
    )
    .await;
    check(
        &seen,
        &[
            ("countersign_exec_requests_total{verdict=\"ask\"}", 2.0),
            ("countersign_approvals_pending", 0.0),
            (
                "countersign_approvals_resolved_total{status=\"allowed\",decision=\"allow-once\"}",
                1.0,
            ),
            (
                "countersign_approvals_resolved_total{status=\"denied\",decision=\"deny\"}",
                1.0,
            ),
            ("countersign_approval_answer_seconds_count", 2.0),
            ("countersign_run_start_seconds_count", 1.0),
            ("countersign_run_duration_seconds_count", 1.0),
            ("countersign_runs_denied_total{reason=\"user-denied\"}", 1.0),
            ("countersign_events_total{type=\"exec.requested\"}", 2.0),
            ("countersign_events_total{type=\"exec.approval.resolved\"}", 2.0),
            (
                "countersign_http_requests_total{route=\"/v1/exec\",status=\"2xx\"}",
                2.0,
            ),
            (
                "countersign_http_requests_total{route=\"none\",status=\"4xx\"}",
                1.0,
            ),
            (
                "countersign_http_requests_total{route=\"/v1/approvals/{id}/decision\",status=\"2xx\"}",
                2.0,
            ),
            ("countersign_runs_queued", 0.0),
            ("countersign_ready_database", 1.0),
            ("countersign_ready_document", 1.0),
            ("countersign_ready_config", 1.0),
            ("countersign_draining", 0.0),
            ("countersign_event_streams", 0.0),
            ("countersign_runner_restarts_total", 0.0),
        ],
    );
    for positive in [
        "countersign_ledger_commit_seconds_count",
        "countersign_http_connections{listener=\"tcp\"}",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_cpu_seconds_total",
    ] {
        assert!(
            seen.get(positive).is_some_and(|value| *value > 0.0),
            "{positive}: {seen:#?}"
        );
    }
    let build = format!(
        "countersign_build_info{{version=\"{}\"",
        env!("CARGO_PKG_VERSION")
    );
    assert!(seen.keys().any(|series| series.starts_with(&build)), "{seen:#?}");

    let text = text(&operator).await;
    for secret in [
        "private",
        "echo",
        &id(&allowed, "runId"),
        &id(&allowed, "approvalId"),
        server.scratch().path().to_str().unwrap(),
        &server.gateway_token(),
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[tokio::test]
async fn settings_that_do_not_read_and_changes_of_the_document_show() {
    let server = TestServer::full().start().await;
    let operator = server.operator();
    server.edit_document("{\"version\": 1}");
    eventually(
        "a changed document",
        || samples(&operator),
        |seen| seen.get("countersign_policy_changes_total{what=\"document\"}") == Some(&1.0),
    )
    .await;
    server.edit_document("{");
    server.edit_config("{");
    let seen = eventually(
        "both refused",
        || samples(&operator),
        |seen| {
            seen.get("countersign_events_total{type=\"document.refused\"}") == Some(&1.0)
                && seen.get("countersign_events_total{type=\"config.rejected\"}") == Some(&1.0)
        },
    )
    .await;
    check(
        &seen,
        &[
            ("countersign_ready_database", 1.0),
            ("countersign_ready_document", 0.0),
            ("countersign_ready_config", 0.0),
        ],
    );
}

#[tokio::test]
async fn whatever_is_asked_for_the_number_of_series_stays() {
    let server = TestServer::full().start().await;
    let (agent, operator) = (server.agent(), server.operator());
    let ask = async |round: u32| {
        for number in 0..30 {
            let name = format!("invented-{round}-{number}");
            agent
                .ran(json!({ "argv": ["/bin/true"], "agentId": name, "sessionKey": name }))
                .await;
            operator
                .get(&format!("/v1/runs/{name}"))
                .await
                .problem(404, "not-found");
            operator.get(&format!("/{name}")).await.problem(404, "not-found");
            let method = Method::from_bytes(name.replace('-', "").to_uppercase().as_bytes()).unwrap();
            operator
                .send(operator.request(method, "/v1/runs"))
                .await
                .problem(405, "method-not-allowed");
        }
        let all: BTreeSet<String> = samples(&operator).await.into_keys().collect();
        all
    };
    // Being asked for metrics is counted, too.
    samples(&operator).await;
    let first = ask(0).await;
    assert_eq!(ask(1).await, first);
}

#[tokio::test]
async fn limited_requests_and_streams_are_counted() {
    let server = TestServer::full()
        .toml("[limits]\nanonymous_per_second = 1\nanonymous_burst = 1\n")
        .start()
        .await;
    let operator = server.operator();
    let stream = operator.events("", None).await;
    check(&samples(&operator).await, &[("countersign_event_streams", 1.0)]);
    drop(stream);
    let mut refused = 0.0;
    for _ in 0..10 {
        let answer = server.anonymous().get("/v1/version").await;
        if answer.status == 429 {
            refused += 1.0;
        }
    }
    let seen = eventually(
        "without a stream",
        || samples(&operator),
        |seen| seen.get("countersign_event_streams") == Some(&0.0),
    )
    .await;
    assert!(refused > 0.0, "ten requests at a rate of one a second");
    assert_eq!(seen.get("countersign_http_rate_limited_total"), Some(&refused));
}

#[tokio::test]
async fn only_readers_get_them_and_each_form_has_its_type() {
    let server = TestServer::full().start().await;
    server
        .anonymous()
        .get("/metrics")
        .await
        .problem(401, "unauthorized");
    let problem = server.agent().get("/metrics").await.problem(403, "forbidden");
    assert_eq!(problem["requiredScope"], "read");
    let operator = server.operator();
    let request = operator.request(Method::GET, "/metrics").header(
        ACCEPT,
        "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3",
    );
    let answer = operator.send(request).await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let open_metrics = answer.text();
    assert!(open_metrics.ends_with("# EOF\n"), "{open_metrics}");
    assert_says(&open_metrics, "# TYPE countersign_http_requests counter\n");
    assert_says(&open_metrics, "# UNIT countersign_run_start_seconds seconds\n");
}

#[tokio::test]
async fn a_listener_of_their_own_serves_them_without_a_token_and_nothing_else() {
    let server = TestServer::full()
        .toml("[telemetry]\nmetrics_listen = \"127.0.0.1:0\"\n")
        .start()
        .await;
    let line = server.ready_line();
    let url = line.split(" metrics=").nth(1).unwrap_or_else(|| panic!("{line}"));
    let base = url.split(' ').next().unwrap().strip_suffix("/metrics").unwrap();
    assert_ne!(base, server.operator().base());
    let metrics = Api::new(base, None);
    let seen = samples(&metrics).await;
    check(
        &seen,
        &[("countersign_http_connections{listener=\"metrics\"}", 1.0)],
    );
    for path in [
        "/",
        "/v1/version",
        "/healthz",
        "/openapi.json",
        "/v1/runs",
        "/metrics/",
    ] {
        metrics.get(path).await.problem(404, "not-found");
        let with_token = metrics.with_token(Some(&server.operator_token()));
        with_token.get(path).await.problem(404, "not-found");
    }
    metrics
        .post("/v1/exec", json!({ "argv": ["/bin/true"] }))
        .await
        .problem(404, "not-found");
    metrics
        .post("/metrics", json!({}))
        .await
        .problem(405, "method-not-allowed");
    // A page that has its name lead here must not read them either.
    let rebound = metrics
        .request(Method::GET, "/metrics")
        .header(HOST, "rebound.example");
    metrics.send(rebound).await.problem(421, "misdirected-request");
}
