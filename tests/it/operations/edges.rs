//! What every operation does with a request that is nearly right.

use super::*;

/// Everything under `/v1/` but what has another form than JSON.
fn answers_json(row: &Row) -> bool {
    row.path.starts_with("/v1/")
        && row.accept == "application/json"
        && !["/v1/version", "/v1/errors.json"].contains(&row.path)
}

/// People come there with a browser, whatever a link has behind its question mark.
fn is_page(row: &Row) -> bool {
    row.accept == "text/html"
}

/// Somebody who may call it.
fn allowed<'a>(row: &Row, holders: &'a [(&'static str, Api)], anybody: &'a Api) -> &'a Api {
    let Access::Scopes(scopes) = row.access else {
        return anybody;
    };
    let holder = holders.iter().find(|(scope, _)| scopes.contains(scope));
    &holder.expect("a holder of the scope").1
}

#[tokio::test]
async fn no_operation_takes_a_parameter_that_it_does_not_know() {
    let server = server().await;
    let holders = holders(&server).await;
    let anybody = server.anonymous();
    for row in TABLE.iter().filter(|row| !is_page(row)) {
        let things = Things::make(&server, &holders[0].1, row).await;
        let api = allowed(row, &holders, &anybody);
        let asked = rightly(&server, api, row, &things).await;
        let (client, asked) = asked.build_split();
        let mut asked = asked.expect("a request");
        asked.url_mut().set_query(Some("dryRun=true"));
        let answer = api.send(RequestBuilder::from_parts(client, asked)).await;
        // Credentials come before everything else.
        if row.answers == 401 && row.path == "/auth/session" {
            refused(&answer, 401, "unauthorized", "anybody", row);
            continue;
        }
        let problem = refused(&answer, 400, "invalid-request", "who may", row);
        assert_has!(problem, { "fields/0/path": "dryRun" }, "{} {}", row.method, row.path);
        let run = server.operator().get(&things.path("/v1/runs/{runId}")).await;
        assert_has!(run.expect(200), { "status": "approval-pending" }, "{} {}", row.method, row.path);
    }
}

#[tokio::test]
async fn whoever_wants_no_json_is_refused_before_anything_happens() {
    let server = server().await;
    let contract = server.anonymous().read("/openapi.json").await;
    let holders = holders(&server).await;
    let anybody = server.anonymous();
    for row in TABLE.iter().filter(|row| answers_json(row)) {
        let api = allowed(row, &holders, &anybody);
        for accept in ["text/html", "application/json;q=0, */*"] {
            let things = Things::make(&server, &holders[0].1, row).await;
            let changed = Row { accept, ..*row };
            let answer = api.send(rightly(&server, api, &changed, &things).await).await;
            refused(&answer, 406, "not-acceptable", accept, row);
            assert_documented(&contract, row, &answer, accept);
            let run = server.operator().get(&things.path("/v1/runs/{runId}")).await;
            assert_eq!(run.expect(200)["status"], "approval-pending");
        }
        let things = Things::make(&server, &holders[0].1, row).await;
        let changed = Row {
            accept: "text/html, */*;q=0.1",
            ..*row
        };
        let answer = answered(&server, api, &changed, &things, false, identity).await;
        assert_eq!(answer.status, row.answers, "{} {}", row.method, row.path);
    }
    // Scope comes first, and what is not there has no form.
    let html = |api: &Api, path| api.request(Method::GET, path).header("accept", "text/html");
    let (_, asker) = &holders[0];
    asker
        .send(html(asker, "/v1/tokens"))
        .await
        .problem(403, "forbidden");
    asker
        .send(html(asker, "/v1/nothing"))
        .await
        .problem(404, "not-found");
}
