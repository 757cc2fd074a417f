//! Every operation of the contract, called by everybody: without a token, with a wrong one, with each scope, with the
//! cookie of a browser, with and without its second secret. An operation that is not in the table fails by name, so
//! does a row without an operation.

mod bound;
mod edges;
pub(crate) mod schema;
mod table;

use std::{collections::BTreeSet, convert::identity};

use countersign_sys::clock::{Clock as _, SystemClock};
use reqwest::{
    Method, RequestBuilder,
    header::{CONTENT_TYPE, COOKIE, HOST},
};
use serde_json::{Value, json};

use crate::{
    nodes::{self, ScriptedNode},
    support::{Answer, Api, Members, TestServer, own_variable, write_file},
};
use table::{Access, Body, Row, TABLE};

const SCOPES: [&str; 5] = ["exec", "relay", "read", "approve", "admin"];

/// A row's operation in the contract.
fn operation<'a>(contract: &'a Value, row: &Row) -> &'a Value {
    &contract["paths"][row.path][row.method.to_lowercase()]
}

/// Real things that a call names, new for each call, since a call may use one up. What a row is not about is not made:
/// with two entries for each of hundreds of calls, the last ones would be about a document of a thousand.
struct Things {
    /// What stands for each parameter of the path.
    parameters: Vec<(&'static str, String)>,
    #[expect(dead_code, reason = "the node is connected as long as this")]
    node: Option<ScriptedNode>,
}

impl Things {
    async fn make(server: &TestServer, asker: &Api, row: &Row) -> Self {
        let operator = server.operator();
        let text = |value: &Value, member: &str| value[member].as_str().expect(member).to_owned();
        // A call before may have stopped everything.
        operator
            .posted("/v1/resume", json!({ "reason": "the next call" }))
            .await;
        operator.delete("/v1/agents/main/mute").await;
        let asked = asker
            .accepted(json!({ "argv": ["/bin/date"], "join": false }))
            .await;
        let own = text(&asked, "runId");
        let mut parameters = vec![
            ("{agentId}", "main".to_owned()),
            ("{sessionKey}", "agent:main:main".to_owned()),
        ];
        for (list, pattern) in [
            ("/allowlist", format!("/opt/{own}")),
            ("/denylist", format!("/opt/denied-{own}")),
        ] {
            if row.path.contains(list) {
                let path = format!("/v1/agents/main{list}");
                let entry = operator.post(&path, json!({ "pattern": pattern })).await;
                parameters.push(("{entryId}", text(&entry.expect(201), "id")));
            }
        }
        if row.path.contains("/tokens") {
            let request = json!({ "name": "to be revoked", "scopes": ["read"] });
            parameters.push(("{id}", server.token_with(request).await.0));
        } else {
            parameters.push(("{id}", text(&asked, "approvalId")));
        }
        if row.path.contains("/process") {
            parameters.push(("{sessionId}", session(asker).await));
        }
        if row.path.contains("{requestId}") {
            let request = nodes::knock(server, "x", nodes::ONLY_RUN).await.request;
            parameters.push(("{requestId}", request));
        }
        if row.path.ends_with("/mute") {
            let mute = operator.request(Method::PUT, "/v1/agents/main/mute");
            let until = SystemClock.now().get() + 60_000;
            operator
                .send(mute.json(&json!({ "untilMs": until })))
                .await
                .expect(200);
        }
        let mut node = None;
        if row.path.contains("{nodeId}") {
            let connected = self::node(server).await;
            parameters.push(("{nodeId}", connected.id()));
            node = Some(connected);
        }
        parameters.push(("{runId}", own));
        Self { parameters, node }
    }

    fn path(&self, template: &str) -> String {
        let path = template.to_owned();
        self.parameters
            .iter()
            .fold(path, |path, (name, real)| path.replace(name, real))
    }
}

/// A node that shows an approvals document and takes another one.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other case, a later one too, is treated alike"
)]
async fn node(server: &TestServer) -> ScriptedNode {
    let commands = ["system.execApprovals.get", "system.execApprovals.set"];
    let node = nodes::paired(server, "x", &commands).await;
    node.answers(|_, params| {
        let file = match &params["file"] {
            Value::Null => json!({ "version": 1 }),
            file => file.clone(),
        };
        Ok(json!({ "path": "/x", "exists": true, "hash": "a".repeat(64), "file": file }))
    });
    node
}

/// A process session that has ended.
async fn session(asker: &Api) -> String {
    let body = json!({ "argv": ["/bin/true"], "background": true });
    let run = asker.exec(body).await.json().text("runId").to_owned();
    let run = asker.finished(&run).await;
    run.text("sessionId").to_owned()
}

/// The row's call as it is meant, by whoever `api` is.
async fn rightly(server: &TestServer, api: &Api, row: &Row, things: &Things) -> RequestBuilder {
    let path = things.path(row.path);
    let request = api
        .request(row.method.parse().expect("a method"), &path)
        .header("accept", row.accept);
    match row.body {
        Body::None => request,
        Body::Json(body) => request.json(&body()),
        Body::Tagged(body) => {
            // Some documents are for another scope to read than to write.
            let seen = server.operator().get(&path).await;
            let tag = seen
                .header("etag")
                .unwrap_or_else(|| panic!("{path} has no ETag: {}", seen.text()));
            request.header("If-Match", tag).json(&body())
        }
    }
}

/// Status, media type and body of an answer are in the contract.
#[track_caller]
fn assert_documented(contract: &Value, row: &Row, answer: &Answer, who: &str) {
    let what = format!(
        "{who} {} {}: {} {}",
        row.method,
        row.path,
        answer.status,
        answer.text()
    );
    let response = &operation(contract, row)["responses"][answer.status.to_string()];
    assert!(response.is_object(), "status not in the contract: {what}");
    let media_type = answer.header("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default();
    let Some(content) = response["content"].as_object() else {
        assert!(
            answer.bytes.is_empty(),
            "a body that is not in the contract: {what}"
        );
        return;
    };
    let form = content
        .get(media_type)
        .unwrap_or_else(|| panic!("{media_type} not in the contract: {what}"));
    if media_type.ends_with("json") {
        let checked = schema::check(contract, &form["schema"], &answer.json());
        checked.unwrap_or_else(|why| panic!("{why}: {what}"));
    }
}

#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str, who: &str, row: &Row) -> Value {
    let problem = match answer.json() {
        // The product's shape, which has the members of the document inside.
        mut body if body["ok"] == false => body["error"].take(),
        body => body,
    };
    assert_eq!(
        (answer.status, problem["code"].as_str()),
        (status, Some(code)),
        "{who} {} {}: {}",
        row.method,
        row.path,
        answer.text()
    );
    problem
}

async fn server() -> TestServer {
    TestServer::asking_with("max_pending_per_agent = 0")
        .allowlist(&json!([{ "pattern": "/bin/true" }]))
        .toml("[auth]\nfailures_per_minute = 1000000\n[limits]\nanonymous_per_second = 0\n")
        .start()
        .await
}

/// A token of each scope, as its holder sees the API.
async fn holders(server: &TestServer) -> Vec<(&'static str, Api)> {
    let mut holders = Vec::new();
    for scope in SCOPES {
        let request = json!({ "name": scope, "scopes": [scope] });
        holders.push((scope, server.token_with(request).await.1));
    }
    holders
}

#[tokio::test]
async fn the_table_has_every_operation_and_nothing_else() {
    let server = server().await;
    let contract = server.anonymous().read("/openapi.json").await;
    let mut served = BTreeSet::new();
    for (path, item) in contract["paths"].as_object().expect("paths") {
        for method in item.as_object().expect("a path item").keys() {
            served.insert(format!("{} {path}", method.to_uppercase()));
        }
    }
    let rows: BTreeSet<String> = TABLE
        .iter()
        .map(|row| format!("{} {}", row.method, row.path))
        .collect();
    assert_eq!(rows.len(), TABLE.len(), "a row stands twice");
    let missing: Vec<_> = served.difference(&rows).collect();
    let gone: Vec<_> = rows.difference(&served).collect();
    assert!(
        missing.is_empty(),
        "operations without a row in tests/it/operations/table.rs: {missing:#?}"
    );
    assert!(
        gone.is_empty(),
        "rows of operations that are not there: {gone:#?}"
    );
    for row in TABLE {
        let documented = operation(&contract, row)["security"].as_array();
        let scopes: Vec<&str> = documented
            .into_iter()
            .flatten()
            .filter_map(|way| way["token"][0].as_str())
            .collect();
        let expected: &[&str] = match row.access {
            Access::Scopes(scopes) => scopes,
            Access::Open | Access::Cookie => &[],
        };
        assert_eq!(
            scopes, expected,
            "documented scopes of {} {}",
            row.method, row.path
        );
    }
}

#[tokio::test]
async fn whoever_may_call_it_is_answered_as_documented_and_nobody_else() {
    let server = server().await;
    let contract = server.anonymous().read("/openapi.json").await;
    let holders = holders(&server).await;
    let asker = &holders[0].1;
    let mut recorded = Vec::new();
    let wrong = server
        .anonymous()
        .with_token(Some(&format!("cst_{}", "x".repeat(43))));
    for row in TABLE {
        let things = Things::make(&server, asker, row).await;
        let anonymous = server.anonymous();
        let request = rightly(&server, &anonymous, row, &things).await;
        let answer = anonymous.send(request).await;
        let Access::Scopes(scopes) = row.access else {
            assert_eq!(
                answer.status,
                row.answers,
                "{} {}: {}",
                row.method,
                row.path,
                answer.text()
            );
            assert_documented(&contract, row, &answer, "anybody");
            continue;
        };
        refused(&answer, 401, "unauthorized", "nobody", row);
        assert_documented(&contract, row, &answer, "nobody");
        let request = rightly(&server, &wrong, row, &things).await;
        refused(
            &wrong.send(request).await,
            401,
            "unauthorized",
            "a wrong token",
            row,
        );
        for (scope, api) in &holders {
            let things = Things::make(&server, asker, row).await;
            if scopes.contains(scope) {
                let answer = answered(&server, api, row, &things, row.streams, identity).await;
                let what = format!("{scope} {} {}: {}", row.method, row.path, answer.text());
                assert_eq!(answer.status, row.answers, "{what}");
                assert_documented(&contract, row, &answer, scope);
                recorded.push(seen(&contract, row, &answer));
            } else {
                let request = rightly(&server, api, row, &things).await;
                let answer = api.send(request).await;
                let problem = refused(&answer, 403, "forbidden", scope, row);
                assert!(
                    problem["requiredScope"]
                        .as_str()
                        .is_some_and(|named| scopes.contains(&named)),
                    "{} {}: {problem}",
                    row.method,
                    row.path
                );
                assert_documented(&contract, row, &answer, scope);
            }
        }
    }
    // Examples of the contract are made of it (`crates/http/src/openapi/generated/examples.json`).
    let text = serde_json::to_string_pretty(&recorded).expect("JSON");
    write_file(&server.scratch().join("answers.json"), &text);
    if let Some(place) = own_variable("COUNTERSIGN_TEST_ANSWERS") {
        write_file(place.as_ref(), &text);
    }
}

/// An operation as it was called and answered.
fn seen(contract: &Value, row: &Row, answer: &Answer) -> Value {
    let body = match row.body {
        Body::None => Value::Null,
        Body::Json(body) | Body::Tagged(body) => body(),
    };
    let media_type = answer.header("content-type").unwrap_or_default();
    let is_json = media_type.starts_with("application/json");
    json!({
        "operation": operation(contract, row)["operationId"], "request": body, "status": answer.status,
        "answer": is_json.then(|| answer.json()),
    })
}

/// What the row's call comes to, with what is put on top of it, once it names what is there: the use of an entry may be
/// written down after the tag was read, and then the answer says to read again.
async fn answered(
    server: &TestServer,
    api: &Api,
    row: &Row,
    things: &Things,
    never_ends: bool,
    dressed: impl Fn(RequestBuilder) -> RequestBuilder + Send + Sync,
) -> Answer {
    loop {
        let request = dressed(rightly(server, api, row, things).await);
        let answer = if never_ends {
            begun(request).await
        } else {
            api.send(request).await
        };
        if answer.status != 412 || !matches!(row.body, Body::Tagged(_)) {
            return answer;
        }
    }
}

/// The beginning of an answer that never ends.
async fn begun(request: RequestBuilder) -> Answer {
    let response = request.send().await.expect("an answer");
    Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        bytes: bytes::Bytes::new(),
    }
}

#[tokio::test]
async fn a_browser_needs_its_second_secret_for_every_operation() {
    let server = server().await;
    let contract = server.anonymous().read("/openapi.json").await;
    let (_, asker) = server
        .token_with(json!({ "name": "asker", "scopes": ["exec"] }))
        .await;
    let login = json!({ "token": server.operator_token() });
    let login = server.anonymous().post("/auth/login", login).await;
    let csrf = login.expect(200).text("csrfToken").to_owned();
    let cookie = login.header("set-cookie").expect("a cookie");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let browser = server.anonymous();
    for row in TABLE {
        let Access::Scopes(scopes) = row.access else {
            continue;
        };
        let things = Things::make(&server, &asker, row).await;
        let with_cookie = |request: RequestBuilder| request.header(COOKIE, &cookie);
        let request = rightly(&server, &browser, row, &things).await;
        let answer = browser.send(with_cookie(request)).await;
        refused(&answer, 403, "forbidden", "a cookie alone", row);
        let request = rightly(&server, &browser, row, &things).await;
        let foreign = with_cookie(request).header("X-CSRF-Token", "x".repeat(43));
        refused(
            &browser.send(foreign).await,
            403,
            "forbidden",
            "a wrong second secret",
            row,
        );
        let dressed = |request| with_cookie(request).header("X-CSRF-Token", &csrf);
        let answer = answered(&server, &browser, row, &things, row.streams, dressed).await;
        if ["read", "approve", "admin"]
            .iter()
            .any(|scope| scopes.contains(scope))
        {
            assert_eq!(
                answer.status,
                row.answers,
                "{} {}: {}",
                row.method,
                row.path,
                answer.text()
            );
            assert_documented(&contract, row, &answer, "a browser");
        } else {
            refused(&answer, 403, "forbidden", "the operator's browser", row);
        }
    }
}

#[tokio::test]
async fn checks_run_in_the_order_of_the_contract() {
    let server = server().await;
    let holders = holders(&server).await;
    let anonymous = server.anonymous();
    for row in TABLE {
        let Access::Scopes(scopes) = row.access else {
            continue;
        };
        let method: Method = row.method.parse().expect("a method");
        // Everything is wrong with these: the path, the content type, the body.
        let bad_path = row
            .path
            .replace("{agentId}", "no%2Fagent")
            .replace("{runId}", "No")
            .replace("{sessionKey}", "No%07")
            .replace("{entryId}", "No%00")
            .replace("{id}", "No");
        let bad = |api: &Api| {
            api.request(method.clone(), &bad_path)
                .header(CONTENT_TYPE, "text/plain")
                .body("{")
        };
        let foreign = anonymous
            .send(bad(&anonymous).header(HOST, "attacker.example"))
            .await;
        refused(&foreign, 421, "misdirected-request", "a foreign name", row);
        refused(
            &anonymous.send(bad(&anonymous)).await,
            401,
            "unauthorized",
            "nobody",
            row,
        );
        for (scope, api) in &holders {
            if !scopes.contains(scope) {
                refused(&api.send(bad(api)).await, 403, "forbidden", scope, row);
            }
        }
        let (_, holder) = holders
            .iter()
            .find(|(scope, _)| scopes.contains(scope))
            .expect("a holder");
        if row.path.contains('{') {
            let answer = holder.send(bad(holder)).await;
            assert!(
                matches!(answer.status, 400 | 404) && answer.json()["code"] != "unsupported-media-type",
                "the path before the content type: {} {}: {}",
                row.method,
                row.path,
                answer.text()
            );
        }
        if !matches!(row.body, Body::None) {
            let things = Things::make(&server, &holders[0].1, row).await;
            let path = things.path(row.path);
            let request = holder.request(method.clone(), &path);
            let request = request
                .header(CONTENT_TYPE, "text/plain")
                .header("If-Match", "*")
                .body("{");
            refused(
                &holder.send(request).await,
                415,
                "unsupported-media-type",
                "a text",
                row,
            );
            let request = holder.request(method.clone(), &path);
            let request = request
                .header(CONTENT_TYPE, "application/json")
                .header("If-Match", "*")
                .body("{");
            let answer = holder.send(request).await;
            assert!(
                matches!(answer.status, 400 | 422),
                "{} {}: {}",
                row.method,
                row.path,
                answer.text()
            );
        }
    }
}
