//! Answers of the right width: what the page shows before the answer is what is stored by it.

use serde_json::{Value, json};

use super::{answer, ask, ask_body, complains_of_nothing, ended, id, opened, press, signed_in, steady};
use crate::support::{Members, Screen, TestServer, eventually};

async fn items(server: &TestServer, list: &str, count: usize) -> Vec<Value> {
    let path = format!("/v1/agents/main/{list}");
    let read = || async { server.operator().read(&path).await["items"].clone() };
    let found = eventually("stored", read, |items| {
        items.as_array().is_some_and(|items| items.len() == count)
    })
    .await;
    found.as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_narrowed_always_is_shown_and_stored_as_it_was_narrowed() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let directory = server.scratch().dir("work/app");
    let directory = directory.to_str().expect("a path");
    let above = directory.strip_suffix("/app").expect("the directory above");
    let body = json!({ "argv": ["/bin/echo", "1"], "workdir": directory });
    ask_body(&server, body.clone()).await;
    let approval = id(
        &ask_body(
            &server,
            json!({ "argv": ["/bin/echo", "2"], "workdir": directory }),
        )
        .await,
        "approvalId",
    );
    answer(&browser, &approval, "allow-always").await;
    // Of the two questions the program would have covered both; what is exact covers only itself.
    browser
        .says(".proposals", "would have covered the last question")
        .await;
    browser.says(".stores", "in the allowlist").await;
    browser.says(".stores", "for good").await;
    browser.click(".proposals input[value=program]").await;
    browser.choose("[id^=span-]", "hour").await;
    browser.choose("[id^=uses-]", "3").await;
    browser.choose("[id^=directory-]", above).await;
    browser.click(".narrow input[type=checkbox]").await;
    for words in [
        "as a grant beside the allowlist",
        "with any arguments",
        &format!("in {above}"),
        "in the session agent:main:main",
        "3 runs in all, this one included",
        "until",
    ] {
        browser.says(".stores", words).await;
    }
    let until = browser
        .value("Date.parse(document.querySelector('.stores time').dateTime)")
        .await;
    browser.shoot("narrowed").await;
    assert_eq!(
        server.operator().pending().await.len(),
        2,
        "nothing is stored yet"
    );
    answer(&browser, &approval, "confirm-always").await;
    ended(&browser, &approval, "Allowed always by you").await;
    // What waited is covered now, and its card is open.
    opened(&browser, &approval).await;
    browser
        .says(&format!("{} .remembered", steady(&approval)), "From now on")
        .await;
    let entries = items(&server, "allowlist", 1).await;
    assert_has!(entries[0], { "kind": "grant", "maxUses": 3, "directory": above, "sessionKey": "agent:main:main", "expiresAtMs": until });
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_denial_leaves_the_rule_that_was_shown_and_none_unless_it_was_chosen() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    for (after, words) in [
        ("ask", None),
        ("mute-60", Some("is denied without a question until")),
        ("never", Some("is denied without a question for good")),
    ] {
        let argv = ["/bin/echo", after];
        let approval = id(&ask(&server, &argv).await, "approvalId");
        opened(&browser, &approval).await;
        press(&browser, &approval, "deny").await;
        browser
            .click(&format!("{} .after input[value={after}]", steady(&approval)))
            .await;
        let shown = browser
            .value("document.querySelector('.after-stored time')?.dateTime ?? ''")
            .await;
        press(&browser, &approval, "confirm-deny").await;
        ended(&browser, &approval, "Denied by you").await;
        let again = server.agent().post("/v1/exec", json!({ "argv": argv })).await;
        match words {
            // The twin: what was only denied is asked about again.
            None => {
                assert_eq!(again.status, 202, "{}", again.text());
                assert_eq!(items(&server, "denylist", 0).await, Vec::<Value>::new());
            }
            Some(words) => {
                again.problem(403, "exec-denied");
                // The card that is open is that of the next request by now.
                opened(&browser, &approval).await;
                browser
                    .says(&format!("{} .remembered", steady(&approval)), words)
                    .await;
            }
        }
        assert_eq!(shown == "", after != "mute-60", "{shown}");
    }
    let rules = items(&server, "denylist", 2).await;
    let ends: Vec<bool> = rules.iter().map(|rule| rule["expiresAtMs"].is_null()).collect();
    assert_eq!(ends, [false, true]);
    assert!(
        rules.iter().all(|rule| rule.text("commandSha256").len() == 64),
        "{rules:?}"
    );
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn why_always_is_not_offered_is_the_reason_of_the_analysis() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    for (command, reason) in [
        ("cat /etc/hostname | sh", "sh runs whatever it is given"),
        (
            "echo $HOME",
            "a shell would replace this by a value that is not known here",
        ),
        (
            "python3 -c 'print(1)'",
            "python3: which file it would run as its script",
        ),
    ] {
        let approval = id(
            &ask_body(&server, json!({ "command": command })).await,
            "approvalId",
        );
        opened(&browser, &approval).await;
        browser.says(".why-not", reason).await;
    }
}
