//! The contract, tried by somebody else's tester: Schemathesis makes requests from the `OpenAPI` document of the
//! running server and holds every answer against it. No fault of the server, no status, media type or member that is
//! not documented, nothing refused that has the form of the contract, nothing taken that has not.
//!
//! What it makes up never runs: the server that takes commands runs `true` and asks nobody, the one whose questions
//! are answered has harmless questions only, and revisions are tried where nobody answers.

use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::support::{
    Api, Invocation, Members, Scratch, ServerBuilder, TestServer, joined_lines, python_tool,
    run_long_program, skip, write_file,
};

const HOOKS: &str = include_str!("hooks.py");

/// Far more than it takes on two busy cores.
const TIMEOUT: Duration = Duration::from_mins(4);

/// Limits that a tester runs into at once are off; they have tests of their own.
const NO_RATES: &str =
    "[limits]\nrequests_per_second = 0\nanonymous_per_second = 0\n[auth]\nfailures_per_minute = 1000000\n";

/// Operations that no run includes by scope alone, and why.
const APART: &[(&str, &str)] = &[
    ("revoke_token", "revokes the token of the tester"),
    ("rotate_token", "replaces the token of the tester"),
    ("stop", "stops what the others try"),
    ("resume", "is tried with it"),
    (
        "mcp",
        "speaks JSON-RPC, which the contract does not spell out; tests/it/mcp has its official client",
    ),
    (
        "revise_approval",
        "puts commands of the tester before somebody who says yes",
    ),
];

/// One run of the tester against one server with one token.
struct Tester {
    program: PathBuf,
    scratch: Scratch,
    base: String,
    token: Option<String>,
    /// Real ids and words for parameters and members: section of the settings file, name, values.
    known: Vec<(&'static str, &'static str, Vec<String>)>,
    examples: u32,
}

impl Tester {
    /// `None` where the tester is not installed.
    fn of(api: &Api, token: Option<&str>) -> Option<Self> {
        let Some(program) = python_tool("schemathesis") else {
            skip("schemathesis is not installed (dev/test installs it)");
            return None;
        };
        Some(Self {
            program,
            scratch: Scratch::new(),
            base: api.base().to_owned(),
            token: token.map(str::to_owned),
            known: Vec::new(),
            examples: 15,
        })
    }

    /// Values that a parameter or member often takes, in operations whose path matches.
    fn knowing(mut self, paths: &'static str, name: &'static str, values: Vec<String>) -> Self {
        assert!(!values.is_empty(), "no values for {name}");
        self.known.push((paths, name, values));
        self
    }

    /// Tries some operations; fails on any failure, and says how many requests there were.
    #[track_caller]
    fn tries(&self, operations: &[String]) {
        assert!(!operations.is_empty(), "nothing to try");
        write_file(&self.scratch.join("hooks.py"), HOOKS);
        write_file(&self.scratch.join("schemathesis.toml"), self.settings());
        let mut invocation = Invocation::new(&self.program)
            .args(&["run", &format!("{}/openapi.json", self.base)])
            .args(&["--phases", "examples,coverage,fuzzing,stateful"])
            // The same requests every time; two workers trip over each other in Python 3.11.
            .args(&["--generation-deterministic", "--workers", "1"])
            .args(&["--max-examples", &self.examples.to_string()])
            .args(&["--continue-on-failure", "--no-color"])
            .cwd(&self.scratch.path())
            .env("HOME", self.scratch.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        for operation in operations {
            invocation = invocation.args(&["--include-operation-id", operation]);
        }
        let done = run_long_program(&invocation, TIMEOUT);
        let report = done.stdout;
        assert_eq!(done.code, Some(0), "{report}\n{}", done.stderr);
        let requests = report
            .lines()
            .find_map(|line| line.trim().split_once(" generated")?.0.parse::<u32>().ok())
            .unwrap_or_else(|| panic!("no number of requests:\n{report}"));
        assert!(requests > 10, "{report}");
        assert!(
            report.contains(&format!("Tested: {}", operations.len())),
            "not all were tried:\n{report}"
        );
        // The policy of this test denies every patch, which is a 403 as well, and no code of a link is known.
        let is_known = [
            "403 Forbidden (1 operation):\n  - POST /v1/apply-patch\n",
            "401 Unauthorized (1 operation):\n  - POST /auth/login\n",
        ];
        assert!(
            is_known.iter().any(|refused| report.contains(refused))
                || !report.contains("Authentication failed"),
            "{report}"
        );
        print(&format!(
            "schemathesis: {requests} requests to {} operations, no failure",
            operations.len()
        ));
    }

    fn settings(&self) -> String {
        let mut lines = vec!["hooks = \"hooks.py\"".to_owned(), "[headers]".to_owned()];
        // Otherwise the stream of events would never end.
        lines.push("Accept = \"application/json\"".to_owned());
        if let Some(token) = &self.token {
            lines.push(format!("Authorization = \"Bearer {token}\""));
        }
        lines.push("[cache]\nenabled = false\n[dictionaries]".to_owned());
        for (index, (_, _, values)) in self.known.iter().enumerate() {
            lines.push(format!("known{index} = {{ values = {} }}", json!(values)));
        }
        for (index, (paths, name, _)) in self.known.iter().enumerate() {
            lines.push(format!("[[operations]]\ninclude-path-regex = {}", json!(paths)));
            lines.push(format!(
                "parameters = {{ {} = {{ dictionary = \"known{index}\", probability = 0.7 }} }}",
                json!(name)
            ));
        }
        joined_lines(lines.into_iter())
    }
}

#[expect(clippy::print_stderr, reason = "how much was tried is worth knowing")]
fn print(text: &str) {
    eprintln!("{text}");
}

/// The operations that one of these scopes opens, or that are open when none is given; those apart left out.
async fn opened_by(server: &TestServer, scopes: &[&str]) -> Vec<String> {
    let contract = server.anonymous().read("/openapi.json").await;
    let items = contract["paths"].as_object().expect("paths").values();
    let operations = items.flat_map(|item| item.as_object().expect("a path item").values());
    let is_opened = |operation: &&Value| match operation["security"].as_array() {
        None => panic!("it says nothing of credentials: {operation}"),
        Some(ways) if ways.is_empty() => scopes.is_empty(),
        Some(ways) => ways
            .iter()
            .any(|way| scopes.iter().any(|scope| way["token"][0] == *scope)),
    };
    operations
        .filter(is_opened)
        .map(|operation| operation.text("operationId").to_owned())
        .filter(|name| APART.iter().all(|(apart, _why)| name != apart))
        .collect()
}

fn server_with(ask: &str) -> ServerBuilder {
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": ask });
    let entry = |id: u32, pattern: &str| json!({ "id": format!("e3b0c442-98fc-4c14-9afb-f4c8996fb92{id}"), "pattern": pattern });
    let list = [
        entry(1, "/bin/true"),
        entry(2, "/usr/bin/true"),
        entry(3, "/opt/*"),
    ];
    TestServer::allowlist_only()
        .exec(&exec)
        .allowlist(&json!(list))
        .toml(NO_RATES)
        .toml("[approvals]\nalways_reachable = true\nmax_pending_per_agent = 0\nquestions_per_minute_per_token = 0\n")
}

/// Asks for harmless runs; returns the ids of runs and approvals.
async fn questions(server: &TestServer, count: usize) -> (Vec<String>, Vec<String>) {
    let (mut runs, mut approvals) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let asked = server
            .accepted(json!({ "argv": ["/bin/true"], "join": false }))
            .await;
        runs.push(asked.text("runId").to_owned());
        approvals.push(asked.text("approvalId").to_owned());
    }
    (runs, approvals)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[tokio::test]
async fn what_an_operator_may_call_keeps_the_contract() {
    let server = server_with("always").start().await;
    let (_, holder) = server
        .token_with(json!({ "name": "tester", "scopes": ["read", "approve", "admin"] }))
        .await;
    let (runs, approvals) = questions(&server, 12).await;
    server.operator().decided(&approvals[0], "deny").await;
    server.operator().decided(&approvals[1], "allow-once").await;
    server.operator().finished(&runs[1]).await;
    let entries = (1..=3).map(|n| format!("e3b0c442-98fc-4c14-9afb-f4c8996fb92{n}"));
    let tester = or_skip!(Tester::of(&holder, holder.token()));
    let operations = opened_by(&server, &["read", "approve", "admin"]).await;
    let tester = tester
        .knowing("^/v1/runs/", "path.runId", runs)
        .knowing("^/v1/approvals/", "path.id", approvals)
        .knowing("^/v1/agents/", "path.agentId", words(&["main", "*"]))
        .knowing("/\\{entryId\\}$", "path.entryId", entries.collect());
    tokio::task::spawn_blocking(move || tester.tries(&operations))
        .await
        .expect("the tester ends");
    server.operator().read("/readyz").await;
}

#[tokio::test]
async fn what_an_agent_may_call_keeps_the_contract() {
    let server = server_with("off").start().await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        let run = server.ran(json!({ "argv": ["/bin/true"] })).await;
        runs.push(run.text("runId").to_owned());
    }
    let tester = or_skip!(Tester::of(&server.agent(), Some(&server.gateway_token())));
    let operations = opened_by(&server, &["exec"]).await;
    let tester = tester
        .knowing("^/v1/runs/", "path.runId", runs)
        .knowing(
            "^/v1/exec",
            "body.command",
            words(&["true", "/bin/true", "true && true"]),
        )
        .knowing("^/v1/exec", "body.host", words(&["gateway"]))
        .knowing("^/v1/exec", "body.workdir", words(&["/", "/tmp"]))
        .knowing("^/v1/exec", "body.agentId", words(&["main"]));
    tokio::task::spawn_blocking(move || tester.tries(&operations))
        .await
        .expect("the tester ends");
    // Whatever it asked for: only what the list covers ran.
    let mut path = "/v1/runs?limit=500".to_owned();
    loop {
        let page = server.operator().read(&path).await;
        for run in page.list("items") {
            let command = run["command"]
                .as_str()
                .map_or_else(|| run["argv"].to_string(), str::to_owned);
            let is_covered =
                ["true", "/bin/true", "true && true", "[\"/bin/true\"]"].contains(&command.as_str());
            assert!(is_covered || run.get("startedAtMs").is_none(), "{run}");
        }
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("/v1/runs?limit=500&cursor={cursor}");
    }
}

#[tokio::test]
async fn what_anybody_may_call_keeps_the_contract() {
    let server = server_with("off").start().await;
    let tester = or_skip!(Tester::of(&server.anonymous(), None));
    let operations = opened_by(&server, &[]).await;
    tokio::task::spawn_blocking(move || tester.tries(&operations))
        .await
        .expect("the tester ends");
}

#[tokio::test]
async fn the_operations_that_are_tried_apart_keep_the_contract() {
    let server = server_with("always").start().await;
    for operations in [vec!["revoke_token"], vec!["rotate_token"], vec!["stop", "resume"]] {
        let (_, holder) = server
            .token_with(json!({ "name": "tester", "scopes": ["admin"] }))
            .await;
        let tester = or_skip!(Tester::of(&holder, holder.token()));
        // Tokens to be revoked and replaced, none of them the tester's.
        let mut tokens = Vec::new();
        for _ in 0..5 {
            let (id, _) = server
                .token_with(json!({ "name": "x", "scopes": ["read"] }))
                .await;
            tokens.push(id);
        }
        let tester = tester.knowing("^/v1/tokens/", "path.id", tokens);
        let operations: Vec<String> = operations.into_iter().map(str::to_owned).collect();
        tokio::task::spawn_blocking(move || tester.tries(&operations))
            .await
            .expect("the tester ends");
    }
    server
        .operator()
        .posted("/v1/resume", json!({ "reason": "tried" }))
        .await;
    // With a token that may not decide, what it puts into questions stays a question.
    let (_, reviser) = server
        .token_with(json!({ "name": "reviser", "scopes": ["approve"] }))
        .await;
    let (runs, approvals) = questions(&server, 8).await;
    let tester = or_skip!(Tester::of(&reviser, reviser.token()));
    let tester = tester.knowing("^/v1/approvals/", "path.id", approvals).knowing(
        "/revision$",
        "body.command",
        words(&["true", "/bin/true", "true && true"]),
    );
    tokio::task::spawn_blocking(move || tester.tries(&["revise_approval".to_owned()]))
        .await
        .expect("the tester ends");
    for run in runs {
        let run = server.operator().read(&format!("/v1/runs/{run}")).await;
        assert!(run.get("startedAtMs").is_none(), "{run}");
    }
}
