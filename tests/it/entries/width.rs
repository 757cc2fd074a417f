//! Answers of the right width: an `allow-always` that says for how long, how often, in which session and where, and a deny
//! that is not asked about again. An answer never allows more than what was proposed.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Api, Members, TestServer, assert_says, lines, only, within, write_file, write_file_mode,
};

const LIST: &str = "/v1/agents/main/allowlist";
const DENYLIST: &str = "/v1/agents/main/denylist";

async fn asked(server: &TestServer, body: Value) -> Value {
    let pending = server.asked(body).await;
    server.operator().approval(pending.text("approvalId")).await
}

async fn decide(by: &Api, approval: &Value, body: Value) -> crate::support::Answer {
    by.post(&format!("/v1/approvals/{}/decision", approval.text("id")), body)
        .await
}

/// Answers with a grant and waits for the end of the run.
async fn granted(server: &TestServer, approval: &Value, grant: Value) -> Value {
    let body = json!({ "decision": "allow-always", "grant": grant });
    let decided = decide(&server.operator(), approval, body).await.expect(200);
    server.agent().finished(approval.text("runId")).await;
    decided
}

fn is_asked(answer: &crate::support::Answer) -> bool {
    answer.status == 202
}

#[tokio::test]
async fn a_question_lists_its_proposals_with_what_they_would_have_covered() {
    let server = TestServer::asking().start().await;
    for number in ["1", "2"] {
        let earlier = asked(&server, json!({ "argv": ["/usr/bin/seq", number] })).await;
        decide(&server.operator(), &earlier, json!({ "decision": "deny" }))
            .await
            .expect(200);
    }
    asked(&server, json!({ "argv": ["/usr/bin/id"] })).await;
    let approval = asked(&server, json!({ "argv": ["/usr/bin/seq", "3"] })).await;
    let told: Vec<Value> = approval
        .list("proposals")
        .iter()
        .map(|proposal| only(proposal, &["id", "words", "wouldHaveCovered"]))
        .collect();
    assert_eq!(
        told,
        [
            json!({ "id": "exact", "words": "/usr/bin/seq with exactly these arguments in this directory",
                "wouldHaveCovered": { "covered": 0, "of": 3 } }),
            json!({ "id": "program", "words": "/usr/bin/seq with any arguments",
                "wouldHaveCovered": { "covered": 2, "of": 3 } }),
        ]
    );
    assert_eq!(approval["proposals"][1]["stores"][0]["pattern"], "/usr/bin/seq");
    // A list does not count, and what cannot be remembered has no proposals.
    let listed = server.operator().read("/v1/approvals").await;
    assert_eq!(
        listed["items"][0]["proposals"][0].get("wouldHaveCovered"),
        None,
        "{listed}"
    );
    let odd = asked(&server, json!({ "command": "echo $HOME" })).await;
    assert_eq!(odd.get("proposals"), None, "{odd}");
    let shown = server.cli(&["approvals", "show", approval.text("id")]).await;
    assert_says(
        &shown.stdout,
        "any arguments; would have covered 2 of the last 4 questions",
    );
}

#[tokio::test]
async fn what_is_wider_than_a_proposal_is_refused_and_the_question_waits() {
    let server = TestServer::asking().start().await;
    let approval = asked(&server, json!({ "argv": ["/usr/bin/id", "-u"] })).await;
    let cwd = approval.text("cwd");
    let later = approval["createdAtMs"].as_i64().unwrap() + 3_600_000;
    for (grant, status, code) in [
        (json!({ "proposal": "arguments" }), 403, "grant-too-wide"),
        (json!({ "proposal": "everything" }), 403, "grant-too-wide"),
        (
            json!({ "proposal": "exact", "sessionKey": "agent:main:other" }),
            403,
            "grant-too-wide",
        ),
        (
            json!({ "proposal": "program", "directory": format!("{cwd}/below") }),
            403,
            "grant-too-wide",
        ),
        (
            json!({ "proposal": "program", "directory": format!("{cwd}/../x") }),
            403,
            "grant-too-wide",
        ),
        (
            json!({ "proposal": "program", "directory": "." }),
            403,
            "grant-too-wide",
        ),
        (
            json!({ "proposal": "exact", "expiresAtMs": 1 }),
            422,
            "decision-not-allowed",
        ),
        (
            json!({ "proposal": "exact", "maxUses": 1 }),
            400,
            "invalid-request",
        ),
        (
            json!({ "proposal": "exact", "maxUses": 0 }),
            400,
            "invalid-request",
        ),
        (
            json!({ "proposal": "exact", "sha256": "00" }),
            400,
            "invalid-request",
        ),
        (json!({ "expiresAtMs": later }), 400, "invalid-request"),
        (json!([]), 400, "invalid-request"),
    ] {
        let body = json!({ "decision": "allow-always", "grant": grant });
        decide(&server.operator(), &approval, body)
            .await
            .problem(status, code);
    }
    for body in [
        json!({ "decision": "allow-once", "grant": { "proposal": "exact" } }),
        json!({ "decision": "deny", "grant": { "proposal": "exact" } }),
        json!({ "decision": "allow-always", "grant": { "proposal": "exact" }, "patterns": [
            { "pattern": "/usr/bin/id" } ] }),
        json!({ "decision": "allow-once", "never": true }),
        json!({ "decision": "allow-always", "mute": { "untilMs": later } }),
        json!({ "decision": "deny", "mute": { "untilMs": 1 } }),
        json!({ "decision": "deny", "mute": { "untilMs": later + 32 * 86_400_000_i64 } }),
    ] {
        decide(&server.operator(), &approval, body.clone())
            .await
            .problem(422, "decision-not-allowed");
    }
    let both = json!({ "decision": "deny", "never": true, "mute": { "untilMs": later } });
    decide(&server.operator(), &approval, both)
        .await
        .problem(400, "invalid-request");
    let still = server.operator().approval(approval.text("id")).await;
    assert_eq!(still["status"], "pending");
    assert_eq!(server.operator().read(LIST).await.list("items").len(), 0);
}

#[tokio::test]
async fn a_grant_ends_with_its_time_its_session_and_its_directory() {
    let server = TestServer::asking().start().await;
    let (here, there) = (server.scratch().dir("here"), server.scratch().dir("there"));
    let below = server.scratch().dir("here/below");
    let session = "agent:main:work";
    let call = |argument: &str, session: &str, directory: &std::path::Path| json!({ "argv": ["/usr/bin/seq", argument], "sessionKey": session, "workdir": directory });
    let approval = asked(&server, call("1", session, &here)).await;
    let until = approval["createdAtMs"].as_i64().unwrap() + 3_600_000;
    let mut events = server
        .operator()
        .events("?types=exec.approval.resolved,allowlist.changed", None)
        .await;
    let grant =
        json!({ "proposal": "program", "expiresAtMs": until, "sessionKey": session, "directory": here });
    let decided = granted(&server, &approval, grant).await;
    let words = decided["approval"]["grant"].text("words").to_owned();
    let place = here.display();
    let expected =
        format!("/usr/bin/seq with any arguments, in {place} and below, in session {session}, until ");
    assert_says(&words, &expected);
    let told = events.next_of("exec.approval.resolved").await;
    assert_eq!(told.data["grant"], words.as_str());
    assert_has!(events.next_of("allowlist.changed").await.data, { "change": "added", "list": "grants" });

    let listed = server.operator().read(LIST).await;
    assert_has!(listed["items"][0], {
        "kind": "grant", "pattern": "/usr/bin/seq", "expiresAtMs": until, "sessionKey": session, "state": "active",
        "directory": here.to_str().unwrap(),
    });
    // Other programs that read the document see no entry.
    let written = server.document_on_disk();
    assert_eq!(written["agents"]["main"].get("allowlist"), None, "{written}");

    server.ran(call("2", session, &here)).await;
    server.ran(call("3", session, &below)).await;
    for (call, why) in [
        (
            call("4", "agent:main:other", &here),
            "the grant for this is for another session",
        ),
        (
            call("5", session, &there),
            "the grant for this is for another directory",
        ),
        (
            json!({ "command": format!("cd {} && seq 6", there.display()), "sessionKey": session, "workdir": here }),
            "the grant for this is for another directory",
        ),
    ] {
        let explained = server.agent().explain(call.clone()).await;
        assert_eq!(explained["outcome"], "ask", "{explained}");
        assert_eq!(explained["analysis"]["findings"][0]["detail"], why, "{call}");
        assert!(is_asked(&server.agent().exec(call).await));
    }
    // A link to the directory leads nowhere else.
    let link = server.scratch().join("link");
    std::os::unix::fs::symlink(&there, &link).unwrap();
    assert!(is_asked(&server.agent().exec(call("7", session, &link)).await));
}

#[tokio::test]
async fn uses_count_the_run_that_was_asked_about_and_hold_when_many_come_at_once() {
    let server = TestServer::asking_with("").start().await;
    let directory = server.scratch().dir("work");
    let (program, file) = (directory.join("program"), directory.join("lines"));
    write_file_mode(&program, "#!/bin/sh\necho ran >> \"$1\"\n", 0o755);
    let call = json!({ "argv": [program, file], "workdir": directory, "join": false });
    let approval = asked(&server, call.clone()).await;
    granted(&server, &approval, json!({ "proposal": "exact", "maxUses": 4 })).await;
    let listed = server.operator().read(LIST).await;
    assert_has!(listed["items"][0], { "kind": "grant", "maxUses": 4, "uses": 1, "state": "active" });
    let agent = server.agent();
    let answers = join_all((0..10).map(|_| agent.exec(call.clone()))).await;
    let ran = answers.iter().filter(|answer| answer.status == 200).count();
    let asked_again = answers.iter().filter(|answer| is_asked(answer)).count();
    assert_eq!((ran, asked_again), (3, 7));
    assert_eq!(lines(&file).len(), 4);
    let listed = server.operator().read(LIST).await;
    assert_has!(listed["items"][0], { "uses": 4, "state": "used-up" });
    // Who allows it as often again gives new uses, though the old grant has the same limits.
    let waiting = server.operator().waiting().await;
    granted(&server, &waiting[0], json!({ "proposal": "exact", "maxUses": 4 })).await;
    assert_eq!(server.operator().read(LIST).await.list("items").len(), 2);
}

/// Points around the launch of what was allowed, and around what it leaves.
const POINTS: &[&str] = &[
    "engine.decided",
    "engine.before-launch-approved",
    "engine.before-persist",
    "engine.persisted",
    "engine.approved-launched",
    "engine.before-start",
    "engine.frame-sent",
    "engine.exit-received",
    "engine.finished",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_runs_than_uses_wherever_the_server_dies() {
    for point in POINTS {
        let mut server = TestServer::asking().prepare();
        let directory = server.scratch().dir("work");
        let (program, file) = (directory.join("program"), directory.join("lines"));
        write_file_mode(&program, "#!/bin/sh\necho ran >> \"$1\"\n", 0o755);
        let kill = format!("{point}:1");
        server
            .start_with(&[("COUNTERSIGN_TEST_KILL", kill.as_str())])
            .await;
        let call = json!({ "argv": [program, file], "workdir": directory, "join": false });
        let approval = asked(&server, call.clone()).await;
        let body = json!({ "decision": "allow-always", "grant": { "proposal": "exact", "maxUses": 2 } });
        let path = format!("/v1/approvals/{}/decision", approval.text("id"));
        let request = server.operator().request(Method::POST, &path).json(&body);
        // The answer may be lost with the server; the decision is not.
        drop(within("an answer or the end", Api::try_send(request)).await);
        server.wait_killed().await;
        server.start().await;
        server.agent().finished(approval.text("runId")).await;
        let mut started = 0;
        for _ in 0..3 {
            let answer = server.agent().exec(call.clone()).await;
            started += usize::from(answer.status == 200);
        }
        assert!(
            started <= 1,
            "{point}: {started} runs beside the one that was asked about"
        );
        assert!(lines(&file).len() <= 2, "{point}: {:?}", lines(&file));
        let listed = server.operator().read(LIST).await;
        for item in listed.list("items") {
            assert!(item["uses"].as_u64() <= Some(2), "{point}: {item}");
        }
    }
}

#[tokio::test]
async fn a_shape_covers_its_open_word_in_its_directory_and_no_attack() {
    let server = TestServer::asking().start().await;
    let repository = server.scratch().dir("repository");
    let elsewhere = server.scratch().dir("elsewhere");
    for place in [&repository, &elsewhere] {
        server.scratch().git(place, &["init", "-q"]);
    }
    write_file(&repository.join("a"), "a");
    write_file(&repository.join("b"), "b");
    write_file(&elsewhere.join("b"), "b");
    let call = |words: &[&str], place: &std::path::Path| {
        let argv: Vec<&str> = ["git"].iter().chain(words).copied().collect();
        json!({ "argv": argv, "workdir": place })
    };
    let approval = asked(&server, call(&["add", "a"], &repository)).await;
    let shape = &approval["proposals"][1];
    let words = format!("git add *, in {} and below", repository.display());
    assert_has!(shape, { "id": "arguments", "words": words.as_str() });
    granted(&server, &approval, json!({ "proposal": "arguments" })).await;
    server.ran(call(&["add", "b"], &repository)).await;
    for attack in [
        &["add", "-f", "b"][..],
        &["add", "--chmod=+x", "b"],
        &["add", "b", "a"],
        &["add", "-"],
        &["add", "../elsewhere/:b"],
        &["add b"],
        &["-c", "core.fsmonitor=id", "add", "b"],
        &["commit", "-m", "x"],
    ] {
        assert!(
            is_asked(&server.agent().exec(call(attack, &repository)).await),
            "{attack:?}"
        );
    }
    assert!(is_asked(
        &server.agent().exec(call(&["add", "b"], &elsewhere)).await
    ));
}

#[tokio::test]
async fn questions_that_a_grant_covers_end_by_it() {
    let server = TestServer::asking().start().await;
    let first = asked(&server, json!({ "argv": ["/usr/bin/seq", "1"] })).await;
    let second = asked(&server, json!({ "argv": ["/usr/bin/seq", "2"] })).await;
    let other = asked(
        &server,
        json!({ "argv": ["/usr/bin/seq", "3"], "sessionKey": "agent:main:other" }),
    )
    .await;
    let session = first.text("sessionKey");
    granted(
        &server,
        &first,
        json!({ "proposal": "program", "sessionKey": session, "maxUses": 5 }),
    )
    .await;
    server.agent().finished(second.text("runId")).await;
    let settled = server.operator().approval(second.text("id")).await;
    assert_has!(settled, { "status": "allowed", "terminalReason": "rule" });
    let waits = server.operator().approval(other.text("id")).await;
    assert_eq!(waits["status"], "pending");
    assert_eq!(server.operator().read(LIST).await["items"][0]["uses"], 2);
}

#[tokio::test]
async fn several_answers_may_each_name_a_grant() {
    let server = TestServer::asking().start().await;
    let one = asked(&server, json!({ "argv": ["/usr/bin/seq", "1"] })).await;
    let two = asked(&server, json!({ "argv": ["/usr/bin/id"] })).await;
    let digest = |approval: &Value| approval["boundTo"]["digest"].clone();
    let post = async |decisions: Value| {
        let body = json!({ "decisions": decisions });
        server.operator().post("/v1/approvals/decisions", body).await
    };
    let bare = json!([{ "id": one["id"], "decision": "allow-always", "bindingDigest": digest(&one) }]);
    post(bare).await.problem(400, "invalid-request");
    let answer = post(json!([
        { "id": one["id"], "decision": "allow-always", "bindingDigest": digest(&one), "grant": { "proposal": "program" } },
        { "id": two["id"], "decision": "allow-always", "bindingDigest": digest(&two), "grant": { "proposal": "arguments" } },
    ]))
    .await
    .expect(200);
    let told: Vec<&Value> = answer
        .list("results")
        .iter()
        .map(|result| &result["status"])
        .collect();
    assert_eq!(told, [200, 403]);
    assert_eq!(answer["results"][1]["problem"]["code"], "grant-too-wide");
    server.agent().finished(one.text("runId")).await;
    server.ran(json!({ "argv": ["/usr/bin/seq", "2"] })).await;
}

#[tokio::test]
async fn the_command_line_narrows_answers_and_refuses_for_a_while() {
    let server = TestServer::asking().start().await;
    let here = server.scratch().dir("here");
    let call = |argument: &str| json!({ "argv": ["/usr/bin/seq", argument], "workdir": here });
    let approval = asked(&server, call("1")).await;
    let directory = here.to_str().unwrap();
    let id = approval.text("id");
    let answered = server
        .cli(&[
            "approve",
            id,
            "--as",
            "program",
            "--for",
            "1h",
            "--uses",
            "3",
            "--session",
            "--directory",
            directory,
        ])
        .await;
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert_says(
        &answered.stdout,
        "allow-always. It remembers: /usr/bin/seq with any arguments, in ",
    );
    assert_says(&answered.stdout, "3 runs in all, until ");
    server.agent().finished(approval.text("runId")).await;
    server.ran(call("2")).await;
    let shown = server.cli(&["approvals", "show", id]).await;
    assert_says(&shown.stdout, "3 runs in all");

    let wide = asked(&server, json!({ "argv": ["/usr/bin/id"] })).await;
    let refused = server
        .cli(&["approve", wide.text("id"), "--as", "arguments"])
        .await;
    assert_says(&refused.stderr, "error[grant-too-wide]");
    for (words, said) in [
        (&["allow-once", "--for", "1h"][..], "go with allow-always"),
        (&["allow-once", "--never"], "go with deny"),
    ] {
        let mut call = vec!["approvals", "resolve", wide.text("id")];
        call.extend(words);
        assert_says(&server.cli(&call).await.stderr, said);
    }
    let muted = server.cli(&["deny", wide.text("id"), "--mute", "30m"]).await;
    assert_says(&muted.stdout, "Nobody is asked about this command of main until ");
    server.denied(json!({ "argv": ["/usr/bin/id"] })).await;
}

/// The ids of what doctor finds about entries and rules.
async fn found_ids(server: &TestServer) -> Vec<Value> {
    let found = super::doctor(server).await;
    found.into_iter().map(|finding| finding["id"].clone()).collect()
}

#[tokio::test]
async fn a_deny_for_good_or_for_a_while_asks_nobody_about_the_same_command() {
    let server = TestServer::asking().agents(&json!({})).start().await;
    let (never, muted) = (
        "echo one | cat -A $HOME",
        json!({ "argv": ["/usr/bin/id", "a b"] }),
    );
    let before = found_ids(&server).await;
    let approval = asked(&server, json!({ "command": never })).await;
    let body = json!({ "decision": "deny", "never": true, "reason": "no" });
    let decided = decide(&server.operator(), &approval, body).await.expect(200);
    assert_has!(decided, { "applied": true, "approval/status": "denied" });
    assert_eq!(decided["rule"].get("expiresAtMs"), None, "{decided}");
    let approval = asked(&server, muted.clone()).await;
    let until = approval["createdAtMs"].as_i64().unwrap() + 3_600_000;
    let body = json!({ "decision": "deny", "mute": { "untilMs": until } });
    let decided = decide(&server.operator(), &approval, body).await.expect(200);
    assert_has!(decided["rule"], { "expiresAtMs": until });

    for call in [
        json!({ "command": never }),
        json!({ "command": format!("  {never}\n") }),
        muted.clone(),
        json!({ "command": "/usr/bin/id 'a b'" }),
        json!({ "argv": ["/usr/bin/id", "a b"], "sessionKey": "agent:main:other", "workdir": "/" }),
    ] {
        let denied = server
            .agent()
            .exec(call.clone())
            .await
            .problem(403, "exec-denied");
        assert_eq!(denied["reason"], "denylist", "{call}");
        let explained = server.agent().explain(call).await;
        assert_has!(explained, { "outcome": "deny", "reason": "denylist" });
    }
    for other in [
        json!({ "argv": ["/usr/bin/id", "a", "b"] }),
        json!({ "command": "/usr/bin/id a b" }),
        json!({ "argv": ["/usr/bin/id", "a b"], "agentId": "other" }),
    ] {
        assert!(is_asked(&server.agent().exec(other).await));
    }
    let rules = server.operator().read(DENYLIST).await;
    assert_eq!(rules.list("items").len(), 2);
    assert_says(rules["items"][0].text("reason"), "for good");
    let listed = server.cli(&["denylist", "list", "--agent", "main"]).await;
    assert_says(&listed.stdout, "until ");
    // The rules are about these texts alone: nothing is remarked on.
    assert_eq!(found_ids(&server).await, before);
    for rule in rules.list("items") {
        server
            .operator()
            .removed(&format!("{DENYLIST}/{}", rule.text("id")))
            .await;
    }
    assert!(is_asked(&server.agent().exec(muted).await));
}

#[tokio::test]
async fn a_mute_that_is_over_asks_again_and_a_longer_one_takes_its_place() {
    let over = json!({ "id": "6f2f1a52-9c35-4f3f-9a63-0c2a4f5ad0bb", "pattern": "=command:1de700c29687cae3",
        "commandSha256": "1de700c29687cae34ca14d9ff1f4a2a3ae6da0e8f3b2b8ac3b8e3c0d6b8e0000", "expiresAtMs": 1 });
    let digest = countersign_policy::pattern::command_digest("id -u");
    let id_rule = json!({ "pattern": countersign_policy::pattern::marker_of_digest(&digest), "commandSha256": digest,
        "expiresAtMs": 1 });
    let server = TestServer::asking()
        .agents(&json!({ "main": { "denylist": [over, id_rule] } }))
        .start()
        .await;
    let approval = asked(&server, json!({ "command": "id -u" })).await;
    let until = approval["createdAtMs"].as_i64().unwrap() + 60_000;
    for (until, expected) in [
        (until, until),
        (until - 10_000, until),
        (until + 10_000, until + 10_000),
    ] {
        // The same deny again counts no more, and may still last longer.
        let body = json!({ "decision": "deny", "mute": { "untilMs": until } });
        let decided = decide(&server.operator(), &approval, body).await.expect(200);
        assert_has!(decided["rule"], { "expiresAtMs": expected });
    }
    server.denied(json!({ "command": "id -u" })).await;
    assert_eq!(server.operator().read(DENYLIST).await.list("items").len(), 2);
    // What says two things at once, or ends without being about a text, is no document.
    for rule in [
        json!({ "pattern": "rm", "expiresAtMs": 5 }),
        json!({ "pattern": "rm", "commandSha256": digest }),
        json!({ "pattern": "=command:0000000000000000", "commandSha256": digest }),
    ] {
        let document = json!({ "version": 1, "agents": { "main": { "denylist": [rule] } } });
        let operator = server.operator();
        let tag = operator.get("/v1/policy/document").await;
        let tag = tag.header("etag").unwrap().to_owned();
        operator
            .put_matching("/v1/policy/document", &tag, &document)
            .await
            .problem(422, "invalid-document");
    }
}
