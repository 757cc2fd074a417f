//! Lists: how much of them, in what order, and pages that follow each other whatever happens between them.

use serde_json::{Value, json};

use reqwest::{Method, header::ACCEPT};

use crate::support::{Api, Invocation, Members, TestServer, run_program, write_file};

/// Every list that has pages.
const LISTS: [&str; 7] = [
    "/v1/runs",
    "/v1/approvals?status=all",
    "/v1/agents",
    "/v1/agents/main/allowlist",
    "/v1/agents/main/denylist",
    "/v1/audit",
    "/v1/tokens",
];

fn with(list: &str, parameter: &str) -> String {
    let mark = if list.contains('?') { '&' } else { '?' };
    format!("{list}{mark}{parameter}")
}

/// A server where every list has five items or more.
async fn filled() -> TestServer {
    let server = TestServer::asking().start().await;
    for number in 0..5 {
        let agent = format!("agent-{number}");
        let call = json!({ "argv": ["/bin/date"], "agentId": agent });
        server.accepted(call).await;
        let pattern = json!({ "pattern": format!("/opt/{number}") });
        for list in ["allowlist", "denylist"] {
            let path = format!("/v1/agents/main/{list}");
            server.operator().made(&path, pattern.clone()).await;
        }
        server
            .token_with(json!({ "name": agent, "scopes": ["read"] }))
            .await;
    }
    server
}

async fn page(api: &Api, list: &str, cursor: Option<&str>) -> (Vec<Value>, Option<String>) {
    let path = match cursor {
        None => with(list, "limit=2"),
        Some(cursor) => with(list, &format!("limit=2&cursor={cursor}")),
    };
    let page = api.read(&path).await;
    (
        page.list("items").clone(),
        page["nextCursor"].as_str().map(str::to_owned),
    )
}

async fn rest(api: &Api, list: &str, mut cursor: Option<String>) -> Vec<Value> {
    let mut all = Vec::new();
    while let Some(at) = cursor {
        let (items, next) = page(api, list, Some(&at)).await;
        all.extend(items);
        cursor = next;
    }
    all
}

#[tokio::test]
async fn limits_and_cursors_are_checked_on_every_list() {
    let server = filled().await;
    let operator = server.operator();
    for list in LISTS.into_iter().chain(["/v1/events"]) {
        for (parameter, path) in [
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=-1", "limit"),
            ("limit=abc", "limit"),
            ("limit=", "limit"),
            ("limit=1&limit=2", "limit"),
            ("cursor=", "cursor"),
            ("cursor=%00", "cursor"),
            ("cursor=bm90aGluZw", "cursor"),
            ("page=2", "page"),
        ] {
            let problem = operator.get(&with(list, parameter)).await;
            let problem = problem.problem(400, "invalid-request");
            assert_has!(problem, { "fields/0/path": path }, "{list} {parameter}: {problem}");
        }
        for limit in ["limit=1", "limit=500"] {
            operator.read(&with(list, limit)).await;
        }
    }
}

#[tokio::test]
async fn a_cursor_belongs_to_its_list() {
    let server = filled().await;
    let operator = server.operator();
    for list in LISTS {
        let (_, cursor) = page(&operator, list, None).await;
        let cursor = cursor.unwrap_or_else(|| panic!("{list} has more"));
        let others = LISTS
            .into_iter()
            .chain(["/v1/agents/other/allowlist", "/v1/events"]);
        for other in others.filter(|other| *other != list) {
            let answer = operator.get(&with(other, &format!("cursor={cursor}"))).await;
            let problem = answer.problem(400, "invalid-request");
            assert_has!(problem, { "fields/0/path": "cursor" }, "{list} at {other}: {problem}");
        }
    }
}

#[tokio::test]
async fn pages_follow_each_other_whatever_is_added_meanwhile() {
    let server = filled().await;
    let operator = server.operator();
    for list in LISTS {
        let whole = operator.read(&with(list, "limit=500")).await["items"].clone();
        let (mut seen, cursor) = page(&operator, list, None).await;
        // Newer than anything, and by name before everything.
        let call = json!({ "argv": ["/bin/date"], "agentId": format!("0-{}", list.len()) });
        server.accepted(call).await;
        let pattern = json!({ "pattern": format!("/opt/new-{}", list.replace('/', "-")) });
        for kind in ["allowlist", "denylist"] {
            let path = format!("/v1/agents/main/{kind}");
            operator.made(&path, pattern.clone()).await;
        }
        seen.extend(rest(&operator, list, cursor).await);
        let ids = |items: &[Value]| -> Vec<Value> {
            let id = |item: &Value| {
                let names = ["id", "runId", "seq", "agentId"];
                names.iter().find_map(|name| item.get(*name).cloned())
            };
            items.iter().filter_map(id).collect()
        };
        let (seen, whole) = (ids(&seen), ids(whole.as_array().expect("items")));
        let first_of_whole: Vec<&Value> = seen.iter().filter(|id| whole.contains(id)).collect();
        assert_eq!(
            first_of_whole,
            whole.iter().collect::<Vec<_>>(),
            "{list}: nothing twice, nothing left out"
        );
    }
}

#[tokio::test]
async fn what_is_removed_meanwhile_takes_nothing_else_along() {
    let server = filled().await;
    let operator = server.operator();
    for list in ["/v1/agents/main/allowlist", "/v1/agents/main/denylist"] {
        let whole = operator.read(list).await["items"].clone();
        let (seen, cursor) = page(&operator, list, None).await;
        let last = seen[1].text("id");
        operator.removed(&format!("{list}/{last}")).await;
        let rest = rest(&operator, list, cursor).await;
        assert_eq!(rest, whole.as_array().expect("items")[2..], "{list}");
    }
}

#[tokio::test]
async fn a_token_says_when_it_was_used_and_nothing_more_once_revoked() {
    let server = TestServer::full().start().await;
    let (id, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read"], "groups": ["ops"] }))
        .await;
    let listed = || async {
        let tokens = server.operator().read("/v1/tokens").await;
        let items = tokens.list("items").clone();
        items.into_iter().find(|token| token["id"] == id).expect("listed")
    };
    let fresh = listed().await;
    assert_has!(fresh, { "lastUsedAtMs": null, "groups": ["ops"] });
    reader.read("/v1/runs").await;
    let used = listed().await;
    assert!(
        used["lastUsedAtMs"].as_i64() >= used["createdAtMs"].as_i64() && used["lastUsedAtMs"].is_i64(),
        "{used}"
    );
    let path = format!("/v1/tokens/{id}");
    server.operator().removed(&path).await;
    reader.get("/v1/runs").await.problem(401, "unauthorized");
    assert!(listed().await["revokedAtMs"].is_i64());
    assert!(listed().await.get("secret").is_none());
}

#[tokio::test]
async fn every_list_has_a_brief_view() {
    let server = filled().await;
    let operator = server.operator();
    for list in LISTS {
        let full = operator.read(&with(list, "view=full&limit=3")).await;
        let brief = operator.read(&with(list, "view=brief&limit=3")).await;
        assert_eq!(brief.list("items").len(), full.list("items").len(), "{list}");
        assert!(brief.to_string().len() <= full.to_string().len(), "{list}");
        operator
            .get(&with(list, "view=short"))
            .await
            .problem(400, "invalid-request");
    }
    let runs = operator.read("/v1/runs?view=brief&limit=1").await;
    assert_has!(runs["items"][0], { "line": "/bin/date", "truncated": false, "status": "approval-pending" });
    assert!(runs["items"][0].get("cwd").is_none(), "{runs}");
    let secret = json!({ "command": "date --token abcdef0123456789" });
    server.accepted(secret).await;
    let runs = operator.read("/v1/runs?view=brief&limit=1").await;
    assert!(!runs.to_string().contains("abcdef0123456789"), "{runs}");
    let records = operator.read("/v1/audit?view=brief&limit=1").await;
    let record = &records["items"][0];
    assert!(
        record["atMs"].is_i64() && record.get("hash").is_none(),
        "{record}"
    );
    // Both views name the time in both ways.
    for view in ["full", "brief"] {
        let records = operator.read(&format!("/v1/audit?view={view}&limit=3")).await;
        for record in records.list("items") {
            assert!(
                record["atMs"].is_i64() && record["ts"] == record["atMs"],
                "{record}"
            );
        }
    }
}

#[tokio::test]
async fn the_brief_views_of_entries_and_events_are_shorter_and_say_what_a_row_needs() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let entry = json!({ "pattern": "/bin/date", "note": "for the clock", "maxUses": 3, "directory": "/srv" });
    operator.made("/v1/agents/main/allowlist", entry).await;
    let list = |view: &str| format!("/v1/agents/main/allowlist?view={view}");
    let (full, brief) = (
        operator.read(&list("full")).await,
        operator.read(&list("brief")).await,
    );
    let item = &brief["items"][0];
    assert_has!(item, { "pattern": "/bin/date", "kind": "grant", "state": "active" });
    for left_out in ["note", "warnings", "maxUses", "lastUsedAt", "directory"] {
        assert!(item.get(left_out).is_none(), "{item}");
        assert!(
            left_out == "lastUsedAt" || full["items"][0].get(left_out).is_some(),
            "{full}"
        );
    }
    assert!(
        brief.to_string().len() * 4 < full.to_string().len() * 3,
        "{brief}"
    );

    let secret = format!("date --token abcdef0123456789 {}", "word ".repeat(200));
    let asked = server.accepted(json!({ "command": secret })).await;
    operator.decided(asked.text("approvalId"), "deny").await;
    let page = async |query: &str| {
        let request = operator.request(Method::GET, &format!("/v1/events?types=exec.&limit=500{query}"));
        operator
            .send(request.header(ACCEPT, "application/json"))
            .await
            .expect(200)
    };
    let (full, brief) = (page("").await, page("&view=brief").await);
    assert_eq!(brief.list("items").len(), full.list("items").len());
    assert!(brief.to_string().len() * 2 < full.to_string().len(), "{brief}");
    assert!(!brief.to_string().contains("abcdef0123456789"), "{brief}");
    let of = |kind: &str| {
        brief
            .list("items")
            .iter()
            .find(|event| event["type"] == kind)
            .cloned()
    };
    let requested = of("exec.approval.requested").expect("asked");
    assert_has!(requested, { "runId": asked.text("runId"), "approvalId": asked.text("approvalId"), "agentId": "main", "truncated": true });
    assert!(
        requested["line"]
            .as_str()
            .is_some_and(|line| line.chars().count() <= 200),
        "{requested}"
    );
    assert!(
        requested["atMs"].is_i64() && requested["seq"].is_i64() && requested.get("cwd").is_none(),
        "{requested}"
    );
    assert_has!(of("exec.approval.resolved").expect("answered"), { "status": "denied", "decision": "deny" });
    assert_has!(of("exec.denied").expect("denied"), { "reason": "user-denied" });
    // A stream has each event in full.
    let stream = operator.request(Method::GET, "/v1/events?view=brief");
    let stream = stream.header(ACCEPT, "text/event-stream");
    operator.send(stream).await.problem(400, "invalid-request");
    let links = full
        .list("items")
        .iter()
        .find(|event| event["type"] == "exec.approval.requested");
    for link in ["approvalUrl", "statusUrl"] {
        assert_eq!(links.expect("asked")[link], asked[link], "{full}");
    }
}

#[tokio::test]
async fn what_has_a_successor_works_and_says_so() {
    let server = TestServer::full().start().await;
    let agent = server.agent();
    let call = async |body: Value| {
        let answer = agent.exec(body).await;
        let deprecation = answer.headers.get("deprecation").cloned();
        (answer.expect(200), deprecation)
    };
    let (run, deprecation) = call(json!({ "argv": ["/bin/true"], "timeoutMs": 5000 })).await;
    assert_eq!(deprecation, None, "{run}");
    for old in ["timeout", "timeoutSeconds"] {
        let (run, deprecation) = call(json!({ "argv": ["/bin/true"], old: 5 })).await;
        let deprecation = deprecation.expect("the header");
        let since = deprecation.to_str().expect("text").strip_prefix('@');
        assert!(
            since.is_some_and(|since| since.parse::<u64>().is_ok()),
            "{deprecation:?}"
        );
        let stored = agent.read(&format!("/v1/runs/{}", run.text("runId"))).await;
        assert_eq!(stored["timeoutMs"], 5000, "{stored}");
    }
    // A poll, too.
    let background = agent
        .accepted(json!({ "argv": ["/bin/true"], "background": true }))
        .await;
    let session = background.text("sessionId");
    for (member, is_old) in [("timeoutMs", false), ("timeout", true)] {
        let poll = json!({ "action": "poll", "sessionId": session, member: 20 });
        let polled = agent.post("/v1/process", poll).await;
        assert_eq!(polled.headers.contains_key("deprecation"), is_old, "{member}");
        polled.expect(200);
    }
    // The old members are sent beside the new ones.
    let operator = server.operator();
    let events = operator.read("/v1/events?after=0").await;
    for event in events.list("items") {
        assert!(event["atMs"].is_i64() && event["atMs"] == event["ts"], "{event}");
    }
    let entry = json!({ "pattern": "/bin/ls", "expiresAtMs": "2099-01-01T00:00:00Z" });
    let entry = operator.made("/v1/agents/main/allowlist", entry).await;
    assert_eq!(entry["expiresAtMs"], 4_070_908_800_000_i64, "{entry}");
    let wrong = json!({ "pattern": "/bin/id", "expiresAtMs": "tomorrow" });
    let refused = operator
        .post("/v1/agents/main/allowlist", wrong)
        .await
        .problem(400, "invalid-request");
    assert!(
        refused.text("detail").contains("2026-11-23T00:00:00Z"),
        "{refused}"
    );
    // The contract says the same.
    let contract = server.anonymous().read("/openapi.json").await;
    let call = contract["components"]["schemas"]["ExecRequest"].to_string();
    assert_eq!(call.matches("\"deprecated\":true").count(), 2, "{call}");
}

#[tokio::test]
async fn a_long_list_is_compressed_where_the_client_takes_that() {
    let server = TestServer::full().start().await;
    for number in 0..10 {
        let command = format!(": {number} {}", "abc ".repeat(700));
        server.ran(json!({ "command": command })).await;
    }
    let operator = server.operator();
    let get = async |path: &str, encoding: Option<&str>| {
        let request = operator.request(Method::GET, path);
        let request = match encoding {
            Some(encoding) => request.header("accept-encoding", encoding),
            None => request,
        };
        let response = request.send().await.expect("an answer");
        let packed = response.headers().get("content-encoding").cloned();
        let varies = response.headers().contains_key("vary");
        (packed, varies, response.bytes().await.expect("a body"))
    };
    let (packed, varies, plain) = get("/v1/runs", None).await;
    assert!(packed.is_none() && varies && plain.len() > 16 * 1024);
    let (packed, varies, bytes) = get("/v1/runs", Some("br, gzip;q=0.5")).await;
    assert!(packed.is_some_and(|packed| packed == "gzip") && varies);
    assert!(
        bytes.len() < plain.len() / 3,
        "{} of {}",
        bytes.len(),
        plain.len()
    );
    let file = server.scratch().join("list.gz");
    write_file(&file, &bytes);
    let unpacked = run_program(&Invocation::new("/bin/gzip").args(&["-dc"]).arg(&file));
    assert_eq!(unpacked.stdout.as_bytes(), &*plain);
    // What is refused, short, or no list.
    for (path, encoding) in [
        ("/v1/runs", "gzip;q=0"),
        ("/v1/runs?limit=1", "gzip"),
        ("/v1/version", "gzip"),
    ] {
        let (packed, _, body) = get(path, Some(encoding)).await;
        assert!(packed.is_none() && body.starts_with(b"{"), "{path}");
    }
}
