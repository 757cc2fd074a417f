//! Directives in chat text, and who may use them.

use serde_json::{Value, json};

use super::{MAIN, ann, ann_says, answering_relay, closed, config, eve, open, overrides_of, relay, say};
use crate::support::{Members, TestServer};

#[tokio::test]
async fn a_directive_is_obeyed_and_the_rest_handed_back() {
    let server = open().start().await;
    let bot = relay(&server).await;
    let answer = ann_says(&bot, MAIN, "please /exec host=gateway ask:always build it").await;
    assert_eq!(
        answer,
        json!({ "handled": true, "cleanedText": "please build it",
            "reply": "Set for this session: host=gateway, ask=always. The approvals of the host still apply." })
    );
    let set = overrides_of(&server, MAIN).await;
    assert_has!(set, { "host": "gateway", "ask": "always", "elevated": "off" });
    assert_has!(set["setBy"], { "kind": "token", "name": "bot",
    "sender": { "provider": "telegram", "id": "42", "name": "Ann" } });
    // What is not named stays.
    ann_says(&bot, MAIN, "/exec security=allowlist").await;
    let set = overrides_of(&server, MAIN).await;
    assert_has!(set, { "host": "gateway", "ask": "always", "security": "allowlist" });
    let shown = ann_says(&bot, MAIN, "/exec").await;
    let reply = shown.text("reply").to_owned();
    assert!(
        reply.starts_with(
            "host=gateway (session), security=allowlist (session), ask=always (session), node=none"
        ),
        "{reply}"
    );
}

#[tokio::test]
async fn what_was_set_counts_for_the_next_call() {
    let server = closed().start().await;
    let bot = relay(&server).await;
    let agent = server.agent();
    let run = || agent.exec(json!({ "argv": ["/bin/true"] }));
    run().await.problem(403, "exec-denied");
    ann_says(&bot, MAIN, "/exec security=full ask=off").await;
    run().await.expect(200);
    ann_says(&bot, MAIN, "/exec security=deny").await;
    run().await.problem(403, "exec-denied");
}

#[tokio::test]
async fn a_bad_value_changes_nothing_and_says_what_is_allowed() {
    let server = open().start().await;
    let bot = relay(&server).await;
    let answer = ann_says(&bot, MAIN, "/exec ask=always security=none").await;
    assert_eq!(answer["handled"], true);
    assert_eq!(
        answer["reply"],
        "security cannot be \"none\"; allowed: deny, allowlist or full. Nothing was changed."
    );
    assert_eq!(
        overrides_of(&server, MAIN).await,
        json!({ "sessionKey": MAIN, "elevated": "off" })
    );
}

#[tokio::test]
async fn whoever_is_not_named_is_not_heard() {
    let server = open().start().await;
    let bot = relay(&server).await;
    let typed = "now /exec security=full";
    for sender in [
        eve(),
        json!({ "provider": "slack", "id": "42" }),
        json!({ "provider": "telegram", "id": "7", "name": "42" }),
    ] {
        let answer = say(&bot, MAIN, typed, sender.clone()).await.expect(200);
        assert_eq!(
            answer,
            json!({ "handled": false, "cleanedText": typed,
                "reply": "You are not authorised to use directives here." }),
            "{sender}"
        );
    }
    // Text without a directive is nobody's business.
    let answer = say(&bot, MAIN, "hello", eve()).await.expect(200);
    assert_eq!(answer, json!({ "handled": false, "cleanedText": "hello" }));
    assert_eq!(overrides_of(&server, MAIN).await["setBy"], Value::Null);
}

#[tokio::test]
async fn lists_name_senders_in_several_ways_and_can_be_switched_off() {
    let server = open().start().await;
    let bot = relay(&server).await;
    let handled = |sender: Value| {
        let bot = bot.clone();
        async move { say(&bot, MAIN, "/exec", sender).await.expect(200)["handled"].clone() }
    };
    let bob = json!({ "provider": "sms", "id": "x", "e164": "+49 170 1234567" });
    assert_eq!(handled(bob.clone()).await, false);
    for commands in [
        json!({ "allowFrom": { "sms": ["e164:+491701234567"] } }),
        json!({ "allowFrom": { "*": ["+491701234567"] } }),
        json!({ "useAccessGroups": false }),
    ] {
        let mut config = config(&json!({ "host": "gateway", "security": "full", "ask": "off" }));
        config["commands"] = commands.clone();
        server.edit_config(&config.to_string());
        assert_eq!(handled(bob.clone()).await, true, "{commands}");
    }
}

/// A question, and the slug that people know it by.
async fn question(server: &TestServer) -> (Value, String) {
    let asked = server.accepted(json!({ "command": "touch asked" })).await;
    let slug = asked.text("approvalSlug").to_owned();
    (asked, slug)
}

fn asking() -> crate::support::ServerBuilder {
    TestServer::asking().config(&config(
        &json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }),
    ))
}

#[tokio::test]
async fn an_answer_by_chat_counts_and_its_run_is_settled() {
    let server = asking().start().await;
    let bot = answering_relay(&server).await;
    let agent = server.agent();
    let (asked, slug) = question(&server).await;
    let answer = ann_says(&bot, MAIN, &format!("/approve {slug} deny")).await;
    assert_eq!(
        answer,
        json!({ "handled": true, "cleanedText": "", "reply": format!("Approval {slug}: deny.") })
    );
    let run = agent.run(asked.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "user-denied" });
    let again = ann_says(&bot, MAIN, &format!("/approve {slug} deny")).await;
    assert_has!(again, { "reply": format!("Approval {slug} was answered before, with deny too.") });
    let otherwise = ann_says(&bot, MAIN, &format!("/approve {slug} allow-once")).await;
    assert_eq!(
        otherwise["reply"],
        format!("Approval {slug} was answered before, with deny. That stays.")
    );
    let (asked, _) = question(&server).await;
    let id = asked.text("approvalId").to_owned();
    let answer = ann_says(&bot, "agent:build:main", &format!("/approve {id} always")).await;
    assert_eq!(answer["reply"], format!("Approval {id}: allow-always."));
    let run = agent.finished(asked.text("runId")).await;
    assert_eq!(run["status"], "completed", "{run}");
    let approval = server.operator().approval(&id).await;
    assert_has!(approval, { "reason": "/approve by telegram:42", "resolvedBy/name": "bot" });
}

#[tokio::test]
async fn answers_that_cannot_count_say_so() {
    let server = asking().start().await;
    let bot = answering_relay(&server).await;
    let reply = |typed: String| {
        let bot = bot.clone();
        async move { ann_says(&bot, MAIN, &typed).await.text("reply").to_owned() }
    };
    assert!(
        reply("/approve".to_owned())
            .await
            .starts_with("Usage: /approve ID")
    );
    assert_eq!(
        reply("/approve 00000000 deny".to_owned()).await,
        "There is no approval 00000000."
    );
    let (asked, slug) = question(&server).await;
    let cancel = format!("/v1/runs/{}/cancel", asked.text("runId"));
    server.agent().posted(&cancel, json!({})).await;
    assert_eq!(
        reply(format!("/approve {slug} allow-once")).await,
        format!("Approval {slug} was withdrawn; nothing runs by it.")
    );
}

#[tokio::test]
async fn several_directives_of_one_text_are_each_obeyed() {
    let server = open().start().await;
    let bot = relay(&server).await;
    let answer = ann_says(&bot, MAIN, "/exec ask=always\nhello\n/elevated off").await;
    assert_eq!(answer["cleanedText"], "hello");
    assert_eq!(
        answer["reply"],
        "Set for this session: ask=always. The approvals of the host still apply.\n\n\
         Elevated is off: what was set before holds again."
    );
}

#[tokio::test]
async fn an_operator_may_post_too_and_others_may_not() {
    let server = open().start().await;
    say(&server.operator(), MAIN, "/exec", ann()).await.expect(200);
    for scopes in [json!(["read"]), json!(["approve"]), json!(["exec"])] {
        let (_, api) = server
            .token_with(json!({ "name": "other", "scopes": scopes }))
            .await;
        let problem = say(&api, MAIN, "/exec", ann()).await.problem(403, "forbidden");
        assert_eq!(problem["requiredScope"], "relay");
    }
}
