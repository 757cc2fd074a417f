use serde_json::{Value, json};

use super::{
    answer, ask, ask_body, axe, complains_of_nothing, ended, go, id, opened, row, signed_in, steady,
};
use crate::support::{Screen, TestServer, eventually, lines};

#[tokio::test]
async fn allowed_once_by_mouse_it_runs_and_the_page_shows_how_it_went() {
    let server = TestServer::asking().start().await;
    let file = server.scratch().join("lines");
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    browser.says("#blank", "Nothing is waiting").await;
    browser.shoot("empty").await;
    let command = format!("echo ran >> {} && echo out", file.display());
    let pending = ask_body(&server, json!({ "command": command })).await;
    let approval = id(&pending, "approvalId");
    browser.click(&format!("{} .row-open", row(&approval))).await;
    browser.shown(&steady(&approval)).await;
    assert_eq!(browser.text(".command").await, command);
    assert_eq!(browser.value("document.title").await, "(1) countersign");
    assert_eq!(lines(&file), Vec::<String>::new());
    answer(&browser, &approval, "allow-once").await;
    ended(&browser, &approval, "Allowed once by you").await;
    ended(&browser, &approval, "exit code 0").await;
    browser.shoot("allowed").await;
    assert_eq!(lines(&file), ["ran"]);
    assert_eq!(browser.value("document.title").await, "countersign");
    let approval = server.operator().approval(&approval).await;
    assert_has!(approval, { "status": "allowed", "decision": "allow-once" });
    assert_eq!(approval["resolvedBy"]["kind"], "session", "{approval}");

    let run = id(&pending, "runId");
    go(&browser, "runs").await;
    browser.click(&format!("[data-run=\"{run}\"] .run-head")).await;
    browser
        .says(&format!("[data-run=\"{run}\"] .output"), "out")
        .await;
    browser.says(&format!("[data-run=\"{run}\"]"), "same-user").await;
    browser.shoot("run").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn the_keyboard_alone_decides_and_goes_on_to_what_waits() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let mut approvals = Vec::new();
    for number in ["1", "2", "3", "4"] {
        let approval = id(&ask(&server, &["/bin/echo", number]).await, "approvalId");
        browser.shown(&row(&approval)).await;
        approvals.push(approval);
    }
    let focused = "document.activeElement.closest('[data-id], [data-row]')?.matches('[data-id], [data-row]') ? (document.activeElement.closest('[data-id]')?.dataset.id ?? document.activeElement.closest('[data-row]')?.dataset.row) : ''";
    let on = async |approval: &str| {
        browser.until(&format!("({focused}) === '{approval}'")).await;
    };

    // A letter with nothing chosen only turns to what is open.
    browser.press("a").await;
    on(&approvals[0]).await;
    assert_eq!(server.operator().pending().await.len(), 4);

    browser.press("j").await;
    on(&approvals[1]).await;
    // Others come and go; the focus stays.
    server.operator().decided(&approvals[0], "deny").await;
    ended(&browser, &approvals[0], "Denied by operator (API token)").await;
    let fifth = id(&ask(&server, &["/bin/echo", "5"]).await, "approvalId");
    browser.shown(&row(&fifth)).await;
    assert_eq!(browser.value(focused).await, approvals[1]);

    // An answer goes on to the next request, whose card takes nothing of what was pressed twice.
    browser.shown(&steady(&approvals[1])).await;
    browser.press("a").await;
    on(&approvals[2]).await;
    browser.press("a").await;
    ended(&browser, &approvals[1], "Allowed once by you").await;
    assert_eq!(server.operator().pending().await.len(), 3);

    // The words for the agent open at once; letters in a field decide nothing, and Escape takes the field back.
    browser.shown(&steady(&approvals[2])).await;
    browser.press("d").await;
    browser.press("add more").await;
    browser.press("\u{e00c}").await;
    on(&approvals[2]).await;
    browser.shown(&steady(&approvals[2])).await;
    browser.press("d").await;
    browser
        .until("document.activeElement.matches('.note input')")
        .await;
    browser.press("\u{e007}").await;
    ended(&browser, &approvals[2], "Reason: add more").await;
    on(&approvals[3]).await;
    // The same words are there for the next one.
    browser.shown(&steady(&approvals[3])).await;
    browser.press("d").await;
    browser.says(".reasons", "add more").await;
    browser.press("\u{e00c}").await;

    browser.shown(&steady(&approvals[3])).await;
    browser.press("A").await;
    browser
        .shown(&format!("[data-id=\"{}\"] .always", approvals[3]))
        .await;
    browser.press("\u{e00c}").await;
    browser
        .until("document.querySelectorAll('.always:not([hidden])').length === 0")
        .await;
    browser.press("?").await;
    browser.shown("#help[open]").await;
    axe::draw(&browser, "help", Screen::DESK).await;
    // Letters can be switched off.
    browser.click("#keys-on").await;
    browser.click("#help-close").await;
    browser.until("!document.querySelector('#help').open").await;
    browser.shown(&steady(&approvals[3])).await;
    browser.press("da").await;
    browser.click("#help-open").await;
    browser.press("d\u{e00c}").await;
    browser.until("!document.querySelector('#help').open").await;
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 2, "{pending:?}");
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn several_requests_get_one_answer_and_each_its_own_result() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let mut alike = Vec::new();
    for number in ["1", "2", "3"] {
        alike.push(id(&ask(&server, &["/bin/echo", number]).await, "approvalId"));
    }
    let other = id(&ask(&server, &["/bin/date"]).await, "approvalId");
    let long = format!("printf {}", "word ".repeat(400));
    let folded = id(&ask_body(&server, json!({ "command": long })).await, "approvalId");
    for approval in alike.iter().chain([&other, &folded]) {
        browser.shown(&row(approval)).await;
    }
    // Like the first one are those of the same agent with the same program, and no other.
    browser.click(&format!("{} .row-open", row(&alike[0]))).await;
    browser.shown(&steady(&alike[0])).await;
    browser.press("X").await;
    browser.says("#chosen-title", "One answer to 3 requests").await;
    browser.shoot("chosen").await;
    // Another approver is quicker with one of them, in the moment of the answer.
    let script = "const [quicker] = arguments;
        const real = window.fetch;
        window.fetch = async (path, options) => {
            if (!String(path).endsWith('/decisions')) return real(path, options);
            window.fetch = real;
            const body = JSON.stringify({ decision: 'deny' });
            await real(`/v1/approvals/${quicker}/decision`, { ...options, body });
            return real(path, options);
        };";
    browser.run(script, json!([alike[1]])).await;
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=allow-all]:not([aria-disabled=true])")
        .await;
    ended(&browser, &alike[0], "Allowed once by you").await;
    ended(&browser, &alike[1], "Denied by operator").await;
    ended(&browser, &alike[2], "Allowed once by you").await;

    // What is folded is opened before it is allowed with others; it can be denied at once.
    for approval in [&other, &folded] {
        browser.click(&format!("{} .row-tick input", row(approval))).await;
    }
    browser.says("#why-not-chosen", "Show all of one command").await;
    browser
        .run(
            "document.querySelector('[data-decision=allow-all]').click()",
            json!([]),
        )
        .await;
    assert_eq!(server.operator().pending().await.len(), 2);
    browser.write("#reason-chosen", "not now").await;
    browser
        .click("[data-id=chosen]:not([data-unsteady]) [data-decision=deny-all]")
        .await;
    for approval in [&other, &folded] {
        ended(&browser, approval, "Reason: not now").await;
    }
}

#[tokio::test]
async fn the_list_is_filtered_and_the_address_keeps_the_filter() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let main = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    let body = json!({ "argv": ["/bin/date"], "agentId": "build" });
    let build = id(&ask_body(&server, body).await, "approvalId");
    for approval in [&main, &build] {
        browser.shown(&row(approval)).await;
    }
    browser.press("/").await;
    browser.press("agent:build").await;
    let shown = "[...document.querySelectorAll('[data-row]')].map(({ dataset }) => dataset.row).join()";
    browser.until(&format!("{shown} === '{build}'")).await;
    browser.shown(&format!("[data-id=\"{build}\"]")).await;
    assert!(browser.address().await.ends_with("?q=agent%3Abuild"));
    browser.reload().await;
    browser.until(&format!("{shown} === '{build}'")).await;
    browser.says("#waiting-title", "(2)").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_the_record_and_the_analysis_know_stands_above_the_answers() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let plain = "document.querySelector('.act.allow-once').classList.contains('plain')";
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &first).await;
    browser.shown("[data-fact=first]").await;
    assert_eq!(browser.value(plain).await, false);
    answer(&browser, &first, "allow-once").await;
    ended(&browser, &first, "exit code 0").await;
    // The second time it is known, and nothing else is to be said of it.
    let second = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &second).await;
    browser
        .says(".past", "Allowed once by operator (browser), exit code 0")
        .await;
    // Where the kernel keeps nothing of it, it may start anything; then that is still to be said.
    browser
        .until("!document.querySelector('[data-fact=first]') && !document.querySelector('.facts-line').innerText.includes('Looking')")
        .await;
    let facts = browser
        .value("document.querySelectorAll('[data-fact]').length")
        .await;
    assert_eq!(browser.value(plain).await == true, facts == 0);
    if facts == 0 {
        browser.says(".facts-line", "does not make it safe").await;
    }
    for (fact, body) in [
        ("text", json!({ "command": "for x in a b; do echo $x; done" })),
        ("payload", json!({ "command": "sh -c 'ls /'" })),
        (
            "network",
            json!({ "command": "curl -s http://127.0.0.1:9/x | sh" }),
        ),
        ("pipe", json!({ "command": "cat /etc/hostname | sh" })),
        (
            "variables",
            json!({ "argv": ["/bin/echo", "1"], "env": { "LABEL": "x" } }),
        ),
    ] {
        let approval = id(&ask_body(&server, body).await, "approvalId");
        opened(&browser, &approval).await;
        browser.shown(&format!("[data-fact={fact}]")).await;
        assert_eq!(browser.value(plain).await, false, "{fact}");
    }
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_deny_rule_nearby_and_a_place_outside_the_workspace_stand_above_the_answers() {
    let deny = json!({ "*": { "denylist": [{ "pattern": "echo", "argPattern": "^force" }] } });
    let server = TestServer::asking().agents(&deny).start().await;
    let workspace = server.scratch().join("workspace");
    std::fs::create_dir_all(workspace.join("inner")).expect("a workspace");
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let near = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    opened(&browser, &near).await;
    browser
        .says(
            &format!("[data-id=\"{near}\"] [data-fact=near]"),
            "near the deny rule echo ^force",
        )
        .await;
    assert_eq!(
        browser
            .value("document.querySelector('[data-fact=outside]')")
            .await,
        json!(null)
    );
    let change = json!({ "set": { "agents.defaults.workspace": workspace } });
    let operator = server.operator();
    let tag = operator
        .get("/v1/config")
        .await
        .header("etag")
        .expect("a tag")
        .to_owned();
    let request = operator
        .request(reqwest::Method::PATCH, "/v1/config")
        .header("If-Match", tag);
    operator.send(request.json(&change)).await.expect(200);
    for (place, is_outside) in [
        ("/", true),
        (workspace.join("inner").to_str().expect("text"), false),
    ] {
        let body = json!({ "argv": ["/bin/uname"], "workdir": place });
        let approval = id(&ask_body(&server, body).await, "approvalId");
        opened(&browser, &approval).await;
        browser
            .shown(&format!("[data-id=\"{approval}\"] [data-fact=first]"))
            .await;
        let said = format!("document.querySelector('[data-id=\"{approval}\"] [data-fact=outside]') !== null");
        assert_eq!(browser.value(&said).await, is_outside, "{place}");
        assert_eq!(
            operator.read(&format!("/v1/approvals/{approval}")).await["outsideWorkspace"] == true,
            is_outside
        );
    }
    // Its agent is not told of a rule that it does not see.
    let explain = async |api: &crate::support::Api| {
        api.posted("/v1/exec/explain", json!({ "argv": ["/bin/echo", "1"] }))
            .await
    };
    assert_eq!(
        explain(&operator).await["analysis"]["segments"][0]["nearDenyRule"],
        "echo ^force"
    );
    assert_eq!(
        explain(&server.agent()).await["analysis"]["segments"][0]["nearDenyRule"],
        json!(null)
    );
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_is_held_back_is_taken_back_whoever_allowed_it() {
    let rule = "[[approvals.rules]]\nstart_delay_ms = 600000\n";
    let server = TestServer::asking_with(rule).start().await;
    let file = server.scratch().join("lines");
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    for (number, elsewhere) in ["1", "2"].into_iter().zip([false, true]) {
        let command = format!("echo {number} >> {}", file.display());
        let pending = ask_body(&server, json!({ "command": command })).await;
        let approval = id(&pending, "approvalId");
        opened(&browser, &approval).await;
        browser
            .says(
                ".card-foot",
                "Once it is allowed, it is held back for 10 minutes.",
            )
            .await;
        if elsewhere {
            server.operator().decided(&approval, "allow-once").await;
        } else {
            answer(&browser, &approval, "allow-once").await;
        }
        let button = format!("[data-id=\"{approval}\"] .take-back");
        browser.says(&button, "Take back (").await;
        browser.shoot("held-back").await;
        browser.click(&button).await;
        ended(&browser, &approval, "Allowed, and taken back by").await;
        // The row says how it ended before its card is drawn again.
        browser
            .until(&format!("!document.querySelector({})", json!(button)))
            .await;
        let approval = server.operator().approval(&approval).await;
        assert_has!(approval, { "status": "denied", "terminalReason": "taken-back" });
    }
    assert_eq!(lines(&file), Vec::<String>::new());
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn always_stores_the_exact_patterns_and_wider_ones_only_when_chosen() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let approval = id(&ask(&server, &["/bin/date", "--version"]).await, "approvalId");
    answer(&browser, &approval, "allow-always").await;
    let panel = format!("[data-id=\"{approval}\"] .always");
    browser.shown(&panel).await;
    browser.shoot("always").await;
    let chosen = "[...document.querySelectorAll('.proposals input')].map((box) => [box.checked, Boolean(box.closest('.wider'))])";
    assert_eq!(browser.value(chosen).await, json!([[true, false], [false, true]]));
    assert_eq!(
        server.operator().pending().await.len(),
        1,
        "opening the choice decides nothing"
    );
    answer(&browser, &approval, "confirm-always").await;
    ended(&browser, &approval, "Allowed always by you").await;
    let entries = stored(&server, 1).await;
    assert!(
        entries[0]["argPattern"]
            .as_str()
            .is_some_and(|pattern| pattern.starts_with("sha256:cwd-argv:")),
        "{entries:?}"
    );

    let wide = id(&ask(&server, &["/bin/echo", "hello"]).await, "approvalId");
    answer(&browser, &wide, "allow-always").await;
    let panel = format!("[data-id=\"{wide}\"] .always");
    browser.click(&format!("{panel} .wider input")).await;
    browser
        .says(
            &format!("{panel} .stores"),
            "with any arguments, in any directory, for good",
        )
        .await;
    browser.shoot("always-wider").await;
    answer(&browser, &wide, "confirm-always").await;
    ended(&browser, &wide, "Allowed always by you").await;
    let entries = stored(&server, 2).await;
    assert!(entries[1]["argPattern"].is_null(), "{entries:?}");
    complains_of_nothing(&browser).await;
}

/// The allowlist of the document on disk, once it has so many entries.
async fn stored(server: &TestServer, entries: usize) -> Vec<Value> {
    let allowlist = || {
        // The file is there once the first of them is stored.
        let document = if server.document_path().exists() {
            server.document_on_disk()
        } else {
            Value::Null
        };
        std::future::ready(
            document["agents"]["main"]["allowlist"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        )
    };
    eventually("stored", allowlist, |list| list.len() == entries).await
}

#[tokio::test]
async fn what_cannot_be_remembered_is_not_offered_always() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let pending = ask_body(&server, json!({ "command": "cat /etc/hostname | sh" })).await;
    let approval = id(&pending, "approvalId");
    opened(&browser, &approval).await;
    browser.says(".why-not", "“Always” is unavailable").await;
    browser
        .run(
            "document.querySelector('[data-decision=allow-always]').click()",
            json!([]),
        )
        .await;
    assert_eq!(
        browser.value("document.querySelector('.always').hidden").await,
        true
    );
    answer(&browser, &approval, "deny").await;
    ended(&browser, &approval, "Denied by you").await;
}

#[tokio::test]
async fn denied_with_a_reason_it_never_runs_and_the_record_has_the_reason() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let file = server.scratch().join("lines");
    let pending = ask_body(
        &server,
        json!({ "command": format!("echo ran >> {}", file.display()) }),
    )
    .await;
    let approval = id(&pending, "approvalId");
    let card = steady(&approval);
    opened(&browser, &approval).await;
    browser.click(&format!("{card} .note-toggle")).await;
    browser
        .write(&format!("{card} input[type=text]"), "not on a <b>Friday</b>")
        .await;
    browser.shoot("reason").await;
    answer(&browser, &approval, "deny").await;
    ended(&browser, &approval, "Reason: not on a <b>Friday</b>").await;
    browser.shoot("denied").await;
    let run = server.agent().run(&id(&pending, "runId")).await;
    assert_has!(run, { "status": "denied", "reason": "user-denied" });
    let stored = server.operator().approval(&approval).await;
    assert_eq!(stored["reason"], "not on a <b>Friday</b>");
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn of_two_browsers_one_decides_and_the_other_is_told() {
    let server = TestServer::asking().start().await;
    let first = or_skip!(signed_in(&server, Screen::DESK).await);
    let second = or_skip!(signed_in(&server, Screen::PHONE).await);
    for round in ["1", "2", "3"] {
        let approval = id(&ask(&server, &["/bin/echo", round]).await, "approvalId");
        for browser in [&first, &second] {
            opened(browser, &approval).await;
        }
        // The one who denies has the words open already.
        super::press(&second, &approval, "deny").await;
        second.shown(&steady(&approval)).await;
        let press = json!([approval]);
        let script = |decision: &str| {
            format!(
                "document.querySelector(`[data-id=\"${{arguments[0]}}\"] [data-decision={decision}]`).click()"
            )
        };
        let (allow, deny) = (script("allow-once"), script("confirm-deny"));
        tokio::join!(first.run(&allow, press.clone()), second.run(&deny, press));
        let operator = server.operator();
        let path = format!("/v1/approvals/{approval}");
        let decided = eventually(
            "decided",
            async || operator.read(&path).await,
            |approval| approval["status"] != "pending",
        )
        .await;
        let (winner, loser, screen, words) = if decided["decision"] == "allow-once" {
            (&first, &second, Screen::PHONE, "Allowed once")
        } else {
            (&second, &first, Screen::DESK, "Denied")
        };
        ended(winner, &approval, &format!("{words} by you")).await;
        ended(loser, &approval, &format!("{words} by operator")).await;
        if round == "3" {
            axe::draw(loser, "elsewhere", screen).await;
        }
    }
    // The loser's answer is refused with 409, which the browser notes; nothing else is wrong.
    for browser in [first, second] {
        let complaints = browser.complaints().await;
        assert!(
            complaints
                .iter()
                .all(|line| line.contains("/decision") && line.contains("409")),
            "{complaints:?}"
        );
    }
}

#[tokio::test]
async fn a_tap_that_was_meant_for_something_else_decides_nothing() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    // A finger that is down at the very moment a card appears.
    let script = "window.tapped = 0;
        window.tapNext = () => {
            const seen = new MutationObserver(() => {
                seen.disconnect();
                for (const button of document.querySelectorAll('[data-decision=allow-once]')) { button.click(); window.tapped += 1; }
            });
            seen.observe(document.querySelector('#cards'), { childList: true });
        };
        window.tapNext();";
    browser.run(script, json!([])).await;
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    browser.until("window.tapped > 0").await;
    let second = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    browser.shown(&row(&second)).await;
    assert_eq!(server.operator().pending().await.len(), 2);

    // When a card comes over the list, under the finger that opened it.
    let tap = "document.querySelector(`[data-row=\"${arguments[0]}\"] .row-open`).click();
        return new Promise(requestAnimationFrame).then(() => {
            document.querySelector('[data-decision=allow-once]').click();
        });";
    browser.run(tap, json!([first])).await;
    opened(&browser, &first).await;
    assert_eq!(server.operator().pending().await.len(), 2);

    // And when the next card takes the place of the one that was answered.
    browser.run("window.tapNext()", json!([])).await;
    answer(&browser, &first, "deny").await;
    ended(&browser, &first, "Denied by you").await;
    browser.until("window.tapped > 1").await;
    browser.shown(&steady(&second)).await;
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    answer(&browser, &second, "allow-once").await;
    ended(&browser, &second, "Allowed once by you").await;
}

#[tokio::test]
async fn the_second_click_of_a_double_click_decides_nothing() {
    let server = TestServer::asking().start().await;
    for (screen, opener) in [
        (Screen::DESK, ".note-toggle"),
        (Screen::PHONE, ".note-toggle"),
        (Screen::DESK, "[data-decision=deny]"),
        (Screen::PHONE, "[data-decision=deny]"),
        (Screen::PHONE, "[data-decision=allow-always]"),
    ] {
        let browser = or_skip!(signed_in(&server, screen).await);
        let approval = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
        opened(&browser, &approval).await;
        // What opens moves what is under the pointer.
        let script = "const opener = document.querySelector(arguments[0]);
            opener.scrollIntoView({ block: 'end' });
            const { left, right, top, bottom } = opener.getBoundingClientRect();
            const middle = [(left + right) / 2, (top + bottom) / 2];
            opener.click();
            return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))).then(() => {
            for (const [x, y] of [middle, [right - 2, middle[1]], [left + 2, middle[1]]])
                document.elementFromPoint(x, y)?.closest('button[data-decision]:not([data-decision=allow-always])')?.click();
            });";
        browser.run(script, json!([opener])).await;
        browser.shown(&steady(&approval)).await;
        assert_eq!(server.operator().pending().await.len(), 1, "{opener}");
        if opener.contains("always") {
            // Back from what it would remember.
            browser.press("\u{e00c}").await;
        }
        answer(&browser, &approval, "deny").await;
        ended(&browser, &approval, "Denied by you").await;
    }
}

#[tokio::test]
async fn what_is_typed_into_a_reason_whose_request_ended_is_no_answer_to_another() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let first = id(&ask(&server, &["/bin/echo", "1"]).await, "approvalId");
    let second = id(&ask(&server, &["/bin/echo", "2"]).await, "approvalId");
    browser.shown(&row(&first)).await;
    opened(&browser, &second).await;
    browser.click(&format!("{} .note-toggle", steady(&second))).await;
    browser.press("too ris").await;
    server.operator().decided(&second, "deny").await;
    ended(&browser, &second, "Denied by operator").await;
    // "k" would go to the request before, and "a" would allow it.
    browser.press("ky, ask a jackal").await;
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 1, "{pending:?}");
    let focused = "document.activeElement.closest('[data-id]')?.dataset.id ?? ''";
    assert_ne!(browser.value(focused).await, json!(first));
    // Whoever is done with writing says so.
    browser.press("\u{e00c}kk").await;
    browser.shown(&steady(&first)).await;
    browser.press("a").await;
    ended(&browser, &first, "Allowed once by you").await;
}

#[tokio::test]
async fn a_request_has_an_address_of_its_own_also_when_it_is_over() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let pending = ask_body(&server, json!({ "command": "echo first; echo second >&2" })).await;
    let approval = id(&pending, "approvalId");
    ask(&server, &["/bin/echo", "another"]).await;
    let address = format!("{}/a/{approval}", server.anonymous().base());
    browser.open(&address).await;
    answer(&browser, &approval, "allow-once").await;
    ended(&browser, &approval, "exit code 0").await;
    browser.says("#one-run .output", "first").await;
    browser.open(&address).await;
    ended(&browser, &approval, "Allowed once by").await;
    browser.says("#one-run .output", "second").await;
    axe::draw(&browser, "one-request", Screen::PHONE).await;
    assert_eq!(
        browser.value("document.querySelectorAll('.card').length").await,
        1
    );
    browser
        .open(&format!("{}/a/nothing-here", server.anonymous().base()))
        .await;
    browser.says("#blank", "There is no such request").await;
}
