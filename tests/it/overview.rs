//! Figures of a stretch of time: they are what was asked and answered, and nothing of them takes a look at everything.

use countersign_sys::clock::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::support::{Members, TestServer};

const OVERVIEW: &str = "/v1/overview";
const HOUR_MS: i64 = 3_600_000;

#[tokio::test]
async fn the_numbers_are_those_of_the_record() {
    let server = TestServer::asking()
        .allowlist(&json!([{ "pattern": "/bin/true" }]))
        .start()
        .await;
    let operator = server.operator();
    let empty = operator.read(OVERVIEW).await;
    assert_has!(empty, { "questions/asked": 0, "questions/medianAnswerMs": null, "partial": false });
    assert_eq!(empty.list("agents").len(), 0, "{empty}");
    assert_eq!(empty.list("beginsMs").len(), 24, "{empty}");
    assert_has!(empty, { "partMs": HOUR_MS });

    let ask = |agent: &str, argv: &[&str]| server.asked(json!({ "argv": argv, "agentId": agent }));
    let denied = ask("build", &["/bin/date"]).await;
    let allowed = ask("build", &["/bin/date", "-u"]).await;
    let always = ask("build", &["/bin/date", "-R"]).await;
    let waits = ask("build", &["/bin/uname", "-r"]).await;
    ask("other", &["/bin/uname"]).await;
    server.answered(&denied, "deny").await;
    server.answered(&allowed, "allow-once").await;
    server.answered(&always, "allow-always").await;
    server.ran(json!({ "argv": ["/bin/true"] })).await;
    let missing = server.agent().exec(json!({ "argv": ["no-such-program"] })).await;
    missing.problem(403, "exec-denied");

    let figures = operator.read(OVERVIEW).await;
    assert_has!(figures["questions"], {
        "asked": 5, "allowed": 2, "denied": 1, "settled": 0, "expired": 0, "cancelled": 0, "waiting": 2,
    });
    assert!(figures["questions"]["medianAnswerMs"].is_u64(), "{figures}");
    let agents: Vec<(&str, i64, i64)> = figures
        .list("agents")
        .iter()
        .map(|one| {
            let parts = one.list("parts").iter().filter_map(Value::as_i64).sum();
            let asked = one["questions"]["asked"].as_i64().unwrap();
            (one.text("agentId"), asked, parts)
        })
        .collect();
    assert_eq!(agents, [("build", 4, 4), ("other", 1, 1)]);
    // What asks most, and what would stop it: the proposals of the latest question.
    let rule = &figures["rules"][0];
    assert_has!(rule, { "agentId": "build", "why": "allowlist-miss", "questions/asked": 3, "approvalId": always["approvalId"] });
    assert!(rule.text("program").ends_with("/date"), "{rule}");
    let latest = operator.approval(waits.text("approvalId")).await;
    let words: Vec<&Value> = latest.list("proposals").iter().map(|one| &one["words"]).collect();
    let uname = figures
        .list("rules")
        .iter()
        .find(|rule| rule["approvalId"] == waits["approvalId"]);
    let uname = uname.expect("the rule of uname");
    assert_eq!(uname.list("wouldStop").iter().collect::<Vec<_>>(), words);
    assert!(!words.is_empty(), "{latest}");

    let count = |list: &str, member: &str, word: &str| {
        let found = figures.list(list).iter().find(|one| one[member] == word);
        found.map_or(0, |one| one["count"].as_i64().unwrap())
    };
    assert_eq!(count("runs", "status", "completed"), 3);
    assert_eq!(count("runs", "status", "denied"), 2);
    assert_eq!(count("runs", "status", "approval-pending"), 2);
    assert_eq!(count("reasons", "reason", "user-denied"), 1);
    assert_eq!(count("reasons", "reason", "program-not-found"), 1);
    assert_has!(figures["now"], { "running": 0, "queued": 0, "waiting": 2 });
}

#[tokio::test]
async fn a_stretch_is_bounded_and_begins_where_it_says() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    server.asked(json!({ "argv": ["/bin/date"] })).await;
    let now = SystemClock.now().get();
    for (query, status) in [
        ("", 200),
        ("?since=1", 400),
        ("?since=x", 400),
        ("?until=1", 400),
        (&format!("?since={}", now - 31 * 24 * HOUR_MS), 400),
        (&format!("?since={}", now + HOUR_MS), 400),
        (&format!("?since={}", now - 29 * 24 * HOUR_MS), 200),
        ("?since=2999-01-01T00:00:00Z", 400),
    ] {
        let answer = operator.get(&format!("{OVERVIEW}{query}")).await;
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
    let month = operator
        .read(&format!("{OVERVIEW}?since={}", now - 29 * 24 * HOUR_MS))
        .await;
    assert!(month.list("beginsMs").len() <= 48, "{month}");
    assert_has!(month, { "questions/asked": 1, "partMs": 15 * HOUR_MS });
    // What is older than the stretch is not in it.
    let moment = SystemClock.now().get();
    let later = operator.read(&format!("{OVERVIEW}?since={}", moment - 1)).await;
    assert_has!(later, { "questions/asked": 0 });
}
