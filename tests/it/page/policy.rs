//! The editor of policy on the page: rules of an agent, its lists, and the node that it is bound to.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use super::{axe, complains_of_nothing, go, layout::looks_right, signed_in};
use crate::{
    nodes::{ONLY_RUN, paired},
    support::{Api, Browser, Members, Screen, ServerBuilder, TestServer, eventually},
};

const BUILD: &str = "/v1/agents/build/policy";
const ALLOWLIST: &str = "/v1/agents/build/allowlist";
const DENYLIST: &str = "/v1/agents/build/denylist";

/// What the allowlist does not cover is asked about, and `build` is the second agent of the settings.
fn builder() -> ServerBuilder {
    let config = json!({
        "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } },
        "agents": { "list": [{ "id": "main" }, { "id": "build" }] },
    });
    TestServer::asking().config(&config)
}

/// Opens the view and turns to an agent.
async fn turn_to(browser: &Browser, agent: &str) {
    go(browser, "policy").await;
    browser.choose("#policy-agent", agent).await;
    browser.shown(&format!(".panels[data-agent=\"{agent}\"]")).await;
}

/// Sends a form with its button.
async fn submit(browser: &Browser, panel: &str) {
    browser
        .click(&format!("{panel} [type=submit]:not([aria-disabled=true])"))
        .await;
}

/// Answers the second question, which says these words, with a yes.
async fn allow(browser: &Browser, panel: &str, words: &str) {
    browser.says(&format!("{panel} .question"), words).await;
    browser
        .click(&format!(
            "{panel} .question:not([data-unsteady]) [data-answer=yes]"
        ))
        .await;
}

/// Waits until the API says so.
async fn becomes(api: &Api, path: &str, expected: Value) {
    eventually(
        "what was saved",
        || async { api.read(path).await },
        |found| *found == expected,
    )
    .await;
}

/// Waits until a list of the API has so many items, and returns them.
async fn listed(api: &Api, path: &str, count: usize) -> Vec<Value> {
    let items = |found: &Value| found.list("items").clone();
    let found = eventually(
        "so many items",
        || async { api.read(path).await },
        |found| items(found).len() == count,
    )
    .await;
    items(&found)
}

fn settings(server: &TestServer) -> Value {
    let text = fs::read(server.state().join("openclaw.json")).expect("openclaw.json");
    serde_json::from_slice(&text).expect("JSON")
}

#[tokio::test]
async fn rules_of_an_agent_are_set_and_what_allows_more_is_asked_about_once_more() {
    let server = builder().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let operator = server.operator();
    turn_to(&browser, "build").await;
    browser
        .says("#policy-force", "allowlist\ttools.exec.security")
        .await;

    // Each row of the table leads to the field that changes it.
    browser
        .click("#policy-force [data-change=policy-settings-ask]")
        .await;
    let focused = browser.value("document.activeElement.id").await;
    assert_eq!(focused, "policy-settings-ask");

    // What takes away is saved at once.
    browser.choose("#policy-document-security", "deny").await;
    submit(&browser, "#policy-document").await;
    becomes(&operator, BUILD, json!({ "security": "deny" })).await;
    browser
        .says(
            "#policy-force",
            "deny\texec-approvals.json#/agents/build/security",
        )
        .await;
    assert_eq!(server.document_on_disk()["agents"]["build"]["security"], "deny");

    // What allows more is not, and no second press that was on its way counts.
    browser.choose("#policy-document-security", "full").await;
    browser.choose("#policy-document-askFallback", "allowlist").await;
    browser
        .run(
            "document.querySelector('#policy-document [type=submit]').click();
            document.querySelector('#policy-document [data-answer=yes]').click();",
            json!([]),
        )
        .await;
    browser
        .says(
            "#policy-document .question",
            "Every command of agent build may run",
        )
        .await;
    browser
        .says(
            "#policy-document .question",
            "When nobody answers, commands of agent build run",
        )
        .await;
    axe::draw(&browser, "policy-question", Screen::DESK).await;
    browser.click("#policy-document [data-answer=no]").await;
    browser
        .until("document.querySelector('#policy-document .question').hidden")
        .await;
    assert_eq!(operator.read(BUILD).await, json!({ "security": "deny" }));
    submit(&browser, "#policy-document").await;
    allow(
        &browser,
        "#policy-document",
        "Every command of agent build may run",
    )
    .await;
    becomes(
        &operator,
        BUILD,
        json!({ "security": "full", "askFallback": "allowlist" }),
    )
    .await;
    // The stricter of both still counts.
    browser
        .says("#policy-force", "allowlist\ttools.exec.security")
        .await;

    // The settings of the agent, where the file has it.
    browser.choose("#policy-settings-ask", "off").await;
    submit(&browser, "#policy-settings").await;
    allow(&browser, "#policy-settings", "Nobody will be asked any more").await;
    browser
        .says("#policy-force", "off\tagents.list[1].tools.exec.ask")
        .await;
    assert_eq!(
        settings(&server)["agents"]["list"],
        json!([{ "id": "main" }, { "id": "build", "tools": { "exec": { "ask": "off" } } }])
    );
    // And of all of them, which is how the agent is set back.
    browser.choose("#policy-settings-ask", "").await;
    submit(&browser, "#policy-settings").await;
    browser.says("#policy-force", "on-miss\ttools.exec.ask").await;
    turn_to(&browser, "*").await;
    browser.choose("#policy-document-ask", "always").await;
    submit(&browser, "#policy-document").await;
    becomes(&operator, "/v1/agents/*/policy", json!({ "ask": "always" })).await;
    browser
        .says("#policy-force", "always\texec-approvals.json#/agents/*/ask")
        .await;
    // What is inherited is told, and is what a change is held against.
    turn_to(&browser, "main").await;
    browser
        .says("#policy-document-ask option", "inherited: always")
        .await;
    browser.choose("#policy-document-ask", "on-miss").await;
    submit(&browser, "#policy-document").await;
    allow(&browser, "#policy-document", "that the allowlist covers").await;
    becomes(&operator, "/v1/agents/main/policy", json!({ "ask": "on-miss" })).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_command_is_explained_and_a_preset_applied_for_the_agent_that_is_shown() {
    let server = builder()
        .document(
            &json!({ "version": 1, "agents": { "build": { "allowlist": [{ "pattern": "/bin/true" }] } } }),
        )
        .start()
        .await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let operator = server.operator();
    turn_to(&browser, "build").await;
    submit(&browser, "#policy-try").await;
    browser.says("#policy-try .problem", "Write a command").await;
    browser.write("#try-command", "/bin/true; cat <(id)").await;
    submit(&browser, "#policy-try").await;
    browser.says("#try-answer", "Would need approval").await;
    browser.says("#try-answer", "allowlist-miss").await;
    browser
        .says("#try-answer [aria-label='What blocks it']", "rule")
        .await;
    browser
        .run("document.getElementById('try-command').value = '';", json!([]))
        .await;
    browser.write("#try-command", "/bin/true").await;
    submit(&browser, "#policy-try").await;
    browser.says("#try-answer", "Would run").await;
    browser
        .says("#try-answer", "covered by the entry /bin/true")
        .await;
    axe::draw(&browser, "policy-try", Screen::DESK).await;
    // Nothing was run or asked.
    assert_eq!(operator.read("/v1/runs").await.list("items").len(), 0);
    assert_eq!(operator.pending().await.len(), 0);

    // What loosens is asked about once more, what tightens is not; both are for this agent alone.
    browser.says("[data-preset=cautious]", "in effect").await;
    browser.click("[data-preset=yolo] button").await;
    allow(
        &browser,
        "#policy-presets",
        "Every command of agent build may run",
    )
    .await;
    browser
        .says(
            "#policy-preset-applied",
            "The preset yolo is in effect for agent build.",
        )
        .await;
    browser.says("[data-preset=yolo]", "in effect").await;
    axe::draw(&browser, "policy-presets", Screen::DESK).await;
    let of_build = "/v1/policy/effective?agentId=build";
    assert_eq!(operator.read(of_build).await["security"]["value"], "full");
    let of_main = operator.read("/v1/policy/effective?agentId=main").await;
    assert_eq!(of_main["security"]["value"], "allowlist");
    browser.click("[data-preset=deny-all] button").await;
    browser
        .says(
            "#policy-preset-applied",
            "The preset deny-all is in effect for agent build.",
        )
        .await;
    assert_eq!(operator.read(of_build).await["security"]["value"], "deny");
    browser.says("#policy-forecast", "No forecast is saved").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn entries_are_added_with_their_warnings_used_and_removed() {
    let server = builder().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let operator = server.operator();
    turn_to(&browser, "build").await;
    browser.write("#policy-allowlist-pattern", "*").await;
    browser.write("#policy-allowlist-text", "for the afternoon").await;
    submit(&browser, "#policy-allowlist").await;
    browser.says("#policy-allowlist .question", "every program").await;
    listed(&operator, ALLOWLIST, 0).await;
    allow(&browser, "#policy-allowlist", "agent build may run every program").await;
    let entry = listed(&operator, ALLOWLIST, 1).await.remove(0);
    assert_has!(entry, { "pattern": "*", "note": "for the afternoon" });
    let row = format!("[data-rule=\"{}\"]:not([data-unsteady])", entry.text("id"));
    browser
        .says(&format!("{row} .warnings"), "it covers every program there is")
        .await;
    browser.says(&row, "Not used yet").await;
    browser
        .until("document.querySelector('#announce').textContent.includes('Warning: it covers every program')")
        .await;

    // What the program may do is limited, and said in the question and on the list.
    browser.write("#policy-allowlist-pattern", "/usr/bin/git").await;
    browser.click("#policy-allowlist .wider-list summary").await;
    browser.write("#policy-allowlist-starts", "judged, ssh").await;
    browser.write("#policy-allowlist-writes", "workspace").await;
    browser.write("#policy-allowlist-connects", "ssh").await;
    submit(&browser, "#policy-allowlist").await;
    browser
        .says("#policy-allowlist .problem", "“ssh” is not a TCP port")
        .await;
    // Backspaces first.
    browser
        .write("#policy-allowlist-connects", "\u{e003}\u{e003}\u{e003}22")
        .await;
    submit(&browser, "#policy-allowlist").await;
    let limits = "starts judged, ssh; writes workspace; connects 22";
    allow(&browser, "#policy-allowlist", limits).await;
    let confined = listed(&operator, ALLOWLIST, 2).await.remove(1);
    assert_eq!(
        confined["confine"],
        json!({ "starts": ["judged", "ssh"], "writes": ["workspace"], "connects": [22] })
    );
    let confined = format!("[data-rule=\"{}\"]:not([data-unsteady])", confined.text("id"));
    browser.says(&confined, limits).await;
    axe::draw(&browser, "policy-entries", Screen::PHONE).await;
    browser.click(&format!("{confined} button")).await;
    listed(&operator, ALLOWLIST, 1).await;

    // A pattern that cannot be one is refused with the reason, and what was written stays.
    browser.write("#policy-allowlist-pattern", "not/absolute").await;
    submit(&browser, "#policy-allowlist").await;
    allow(&browser, "#policy-allowlist", "not/absolute").await;
    browser
        .says("#policy-allowlist .problem", "must be absolute")
        .await;
    assert_eq!(
        browser
            .value("document.getElementById('policy-allowlist-pattern').value")
            .await,
        "not/absolute"
    );

    // What used it is there at the next look.
    server
        .ran(json!({ "argv": ["/bin/true"], "agentId": "build" }))
        .await;
    eventually(
        "the use on record",
        || async { operator.read(ALLOWLIST).await },
        |found| found["items"][0]["lastUsedCommand"] == "/bin/true",
    )
    .await;
    turn_to(&browser, "main").await;
    turn_to(&browser, "build").await;
    browser.says(&row, "Last used").await;
    browser.says(&row, "/bin/true").await;
    browser.click(&format!("{row} button")).await;
    listed(&operator, ALLOWLIST, 0).await;
    browser.says("#policy-allowlist", "Nothing is on the list.").await;
    // The refusal is in the log of the browser.
    assert_eq!(browser.complaints().await.len(), 1);
}

#[tokio::test]
async fn a_deny_rule_is_added_at_once_and_goes_only_after_a_second_question() {
    let server = builder().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let operator = server.operator();
    turn_to(&browser, "build").await;
    browser.write("#policy-denylist-pattern", "curl").await;
    browser.write("#policy-denylist-arguments", "^-T").await;
    browser
        .write("#policy-denylist-text", "nothing leaves\u{e007}")
        .await;
    let rule = listed(&operator, DENYLIST, 1).await.remove(0);
    assert_eq!(
        json!([rule["pattern"], rule["argPattern"], rule["reason"]]),
        json!(["curl", "^-T", "nothing leaves"])
    );
    let row = format!("[data-rule=\"{}\"]:not([data-unsteady])", rule.text("id"));
    browser.says(&row, "nothing leaves").await;
    browser.click(&format!("{row} button")).await;
    browser
        .says(
            "#policy-denylist .question",
            "What the rule curl keeps from running",
        )
        .await;
    listed(&operator, DENYLIST, 1).await;
    allow(&browser, "#policy-denylist", "may run again for agent build").await;
    listed(&operator, DENYLIST, 0).await;
    browser.says("#policy-denylist", "There are no deny rules.").await;
    // Whoever uses the keyboard goes on from the list.
    assert_eq!(
        browser.value("document.activeElement.id").await,
        "policy-denylist-title"
    );

    // What another person adds and takes away appears by itself.
    let added = operator.made(DENYLIST, json!({ "pattern": "dd" })).await;
    browser.says("#policy-denylist ol", "dd").await;
    let id = added.text("id");
    operator.delete(&format!("{DENYLIST}/{id}")).await;
    browser.says("#policy-denylist", "There are no deny rules.").await;
    browser.click("#policy-denylist-children").await;
    browser.write("#policy-denylist-pattern", "wget\u{e007}").await;
    let rule = listed(&operator, DENYLIST, 1).await.remove(0);
    assert_has!(rule, { "pattern": "wget", "children": true });
    browser
        .says("#policy-denylist", "No program of a run can start it either")
        .await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_somebody_else_changes_meanwhile_is_told_and_never_overwritten() {
    let server = builder().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let operator = server.operator();
    let told = "This was changed in the meantime";
    turn_to(&browser, "build").await;

    // The page hears of it while somebody is choosing.
    browser.choose("#policy-document-ask", "always").await;
    let request = operator.request(Method::PUT, BUILD);
    operator
        .send(request.json(&json!({ "security": "deny" })))
        .await
        .expect(200);
    browser.says("#policy-document .problem", told).await;
    assert_eq!(
        browser
            .value(
                "['security', 'ask'].map((key) => document.getElementById(`policy-document-${key}`).value)"
            )
            .await,
        json!(["deny", ""])
    );
    complains_of_nothing(&browser).await;

    // It happens in the moment in which the page saves: the tag is too old.
    let meanwhile = "const [matching, path, method, body] = arguments;
        const real = fetch;
        window.fetch = async (to, options) => {
            if (to !== matching || options.method === 'GET') return real(to, options);
            window.fetch = real;
            const headers = new Headers(options.headers);
            if (path !== matching) headers.delete('If-Match');
            const done = await real(path, { ...options, method, headers, body: JSON.stringify(body) });
            if (!done.ok) throw new Error(await done.text());
            return real(to, options);
        };";
    browser.choose("#policy-document-ask", "always").await;
    let theirs = json!({ "security": "allowlist", "ask": "on-miss" });
    browser.run(meanwhile, json!([BUILD, BUILD, "PUT", theirs])).await;
    submit(&browser, "#policy-document").await;
    browser
        .until("document.getElementById('policy-document-ask').value === 'on-miss'")
        .await;
    browser.says("#policy-document .problem", told).await;
    assert_eq!(operator.read(BUILD).await, theirs);

    // The same for the settings.
    browser.choose("#policy-settings-ask", "always").await;
    let body = json!({ "set": { "agents.list[1].tools.exec.security": "deny" } });
    browser
        .run(meanwhile, json!(["/v1/config", "/v1/config", "PATCH", body]))
        .await;
    submit(&browser, "#policy-settings").await;
    browser
        .until("document.getElementById('policy-settings-security').value === 'deny'")
        .await;
    browser.says("#policy-settings .problem", told).await;
    assert_has!(settings(&server), { "agents/list/1/tools/exec": { "security": "deny" } });

    // What has nothing to do with it keeps nobody from saving.
    browser.choose("#policy-document-ask", "always").await;
    browser
        .run(
            meanwhile,
            json!([BUILD, ALLOWLIST, "POST", { "pattern": "/bin/true" }]),
        )
        .await;
    submit(&browser, "#policy-document").await;
    becomes(
        &operator,
        BUILD,
        json!({ "security": "allowlist", "ask": "always" }),
    )
    .await;
    listed(&operator, ALLOWLIST, 1).await;
}

#[tokio::test]
async fn an_agent_is_bound_to_a_node_and_let_go_again() {
    let server = builder().start().await;
    let attic = paired(&server, "attic", ONLY_RUN).await;
    let mill = paired(&server, "mill", ONLY_RUN).await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let exec = || settings(&server)["agents"]["list"][1]["tools"]["exec"].clone();
    turn_to(&browser, "build").await;
    browser
        .says("#policy-binding-node option", "as for all agents: any node")
        .await;
    browser.choose("#policy-binding-host", "node").await;
    browser.choose("#policy-binding-node", &attic.id()).await;
    submit(&browser, "#policy-binding").await;
    browser
        .says("#policy-binding .question", "run on another machine")
        .await;
    axe::draw(&browser, "policy-binding", Screen::PHONE).await;
    allow(&browser, "#policy-binding", "go to attic").await;
    browser
        .says("#policy-force", "agents.list[1].tools.exec.node")
        .await;
    browser.says("#policy-force", &attic.id()).await;
    assert_eq!(exec(), json!({ "host": "node", "node": attic.id() }));
    let agents = server.operator().read("/v1/agents").await;
    assert_eq!(agents["items"][0]["agentId"], "build");
    assert_eq!(agents["items"][0]["node"], attic.id());

    // All the others, in general.
    turn_to(&browser, "*").await;
    browser.choose("#policy-binding-node", &mill.id()).await;
    submit(&browser, "#policy-binding").await;
    allow(&browser, "#policy-binding", "Commands of all agents").await;
    eventually(
        "bound in general",
        || async { settings(&server)["tools"]["exec"]["node"].clone() },
        |node| *node == mill.id(),
    )
    .await;

    // Back to what all have.
    turn_to(&browser, "build").await;
    browser.choose("#policy-binding-host", "").await;
    browser.choose("#policy-binding-node", "").await;
    submit(&browser, "#policy-binding").await;
    allow(&browser, "#policy-binding", "Commands of agent build").await;
    browser.says("#policy-force", "\ntools.exec.host").await;
    assert_eq!(exec(), json!({}));
    turn_to(&browser, "*").await;
    browser.choose("#policy-binding-node", "").await;
    submit(&browser, "#policy-binding").await;
    allow(&browser, "#policy-binding", "bound to no node any more").await;
    eventually(
        "unbound",
        || async { settings(&server)["tools"]["exec"].clone() },
        |exec| exec.get("node").is_none(),
    )
    .await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn without_the_scope_policy_is_seen_and_nothing_can_be_changed() {
    let server = builder().start().await;
    let operator = server.operator();
    operator.made(ALLOWLIST, json!({ "pattern": "/bin/true" })).await;
    let (_, reader) = server
        .token_with(json!({ "name": "reader", "scopes": ["read", "approve"] }))
        .await;
    let (_, approver) = server
        .token_with(json!({ "name": "approver", "scopes": ["approve"] }))
        .await;
    let browser = or_skip!(Browser::start(Screen::DESK).await);
    let login = format!("{}/login", server.anonymous().base());
    browser.open(&login).await;
    browser.write("#token", reader.token().expect("a secret")).await;
    browser.click("#use-token").await;
    browser.says("#link-text", "Live").await;
    turn_to(&browser, "build").await;
    browser.says("#view-policy", "lacks the scope admin").await;
    browser.says("#policy-allowlist ol", "/bin/true").await;
    let usable = "[...document.querySelectorAll('#policy-body button, #policy-body input, #policy-body select:not([disabled])')].map((element) => element.checkVisibility() && element.id).filter(Boolean)";
    assert_eq!(
        browser.value(usable).await,
        json!([
            "policy-agent",
            "try-command",
            "try-workdir",
            "backtest-age",
            "suggest"
        ])
    );
    // Whoever goes round the page is refused by the server.
    let put = reader
        .request(Method::PUT, BUILD)
        .json(&json!({ "security": "full" }));
    reader.send(put).await.problem(403, "forbidden");
    complains_of_nothing(&browser).await;

    browser.click("#sign-out").await;
    browser.says("#gone", "You are signed out.").await;
    assert_eq!(
        browser
            .value("[document.getElementById('view-policy'), document.getElementById('policy-body')]")
            .await,
        json!([null, null])
    );
    browser.open(&login).await;
    browser.write("#token", approver.token().expect("a secret")).await;
    browser.click("#use-token").await;
    browser.says("#link-text", "Looking every few seconds").await;
    assert_eq!(
        browser.value("document.getElementById('view-policy')").await,
        Value::Null
    );
}

#[tokio::test]
async fn what_others_wrote_is_shown_whole_and_does_nothing() {
    let server = builder().start().await;
    let name = "<img src=x onerror=window.pwned=1> \u{202e}gnp";
    let node = paired(&server, name, ONLY_RUN).await;
    let attribute = "/opt/\" autofocus onfocus=window.pwned=1 x=\"";
    let markup = format!("{attribute}<script>window.pwned=1<!--");
    write_lists(
        &server,
        &[
            "/opt/<img src=x onerror=window.pwned=1>",
            attribute,
            "/opt/abc\u{202e}txt.exe",
            "gіt",
            &format!("/opt/x{}y", " ".repeat(100)),
            &format!("/opt/{}", "W".repeat(600)),
        ],
        &markup,
    )
    .await;
    let browser = or_skip!(signed_in(&server, Screen::NARROW).await);
    turn_to(&browser, "build").await;
    browser
        .says("#policy-allowlist", "/opt/<img src=x onerror=window.pwned=1>")
        .await;
    browser
        .says("#policy-allowlist", "/opt/abc\\u{202E}txt.exe")
        .await;
    browser
        .says("#policy-allowlist", "letters of different scripts")
        .await;
    browser.says("#policy-denylist", &markup).await;
    // What a person is asked about them is text as well.
    browser
        .write(
            "#policy-allowlist-pattern",
            "/opt/<img src=x onerror=window.pwned=1>",
        )
        .await;
    submit(&browser, "#policy-allowlist").await;
    browser
        .says(
            "#policy-allowlist .question",
            "/opt/<img src=x onerror=window.pwned=1>",
        )
        .await;
    browser.choose("#policy-binding-node", &node.id()).await;
    submit(&browser, "#policy-binding").await;
    browser
        .says(
            "#policy-binding .question",
            "go to <img src=x onerror=window.pwned=1>",
        )
        .await;
    let seen = "[window.pwned ?? null, document.querySelectorAll('#view-policy :is(script, img, svg, style, iframe, b)').length,
        /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.getElementById('view-policy').textContent),
        document.documentElement.scrollWidth > document.documentElement.clientWidth]";
    assert_eq!(browser.value(seen).await, json!([Value::Null, 0, false, false]));
    browser.shoot("policy-hostile").await;
    complains_of_nothing(&browser).await;
}

/// Writes these patterns into both lists of the agent, each with a text.
async fn write_lists(server: &TestServer, patterns: &[&str], text: &str) {
    let operator = server.operator();
    for pattern in patterns {
        let entry =
            json!({ "pattern": pattern, "argPattern": "^<b onclick=window.pwned=1>\u{2066}$", "note": text });
        operator.made(ALLOWLIST, entry).await;
        let rule = json!({ "pattern": pattern, "reason": text });
        operator.made(DENYLIST, rule).await;
    }
}

#[tokio::test]
async fn it_fits_reads_and_is_named_on_every_screen() {
    let server = builder().start().await;
    let long = format!("/opt/{}", "W".repeat(300));
    write_lists(&server, &["*", &long], "a note that somebody wrote").await;
    let browser = or_skip!(signed_in(&server, Screen::NARROW).await);
    turn_to(&browser, "build").await;
    browser.write("#policy-allowlist-pattern", &long).await;
    submit(&browser, "#policy-allowlist").await;
    browser.choose("#policy-document-askFallback", "full").await;
    submit(&browser, "#policy-document").await;
    browser.shown("#policy-document .question").await;
    for (name, screen) in [
        ("narrow", Screen::NARROW),
        ("phone-dark", Screen::PHONE.dark()),
        ("desk", Screen::DESK),
        ("desk-dark", Screen::DESK.dark()),
    ] {
        browser.set_screen(screen).await;
        browser.until("!document.querySelector('[data-unsteady]')").await;
        looks_right(&browser, &format!("policy-{name}")).await;
    }

    // The keyboard alone: to the question, out of it, and back to where it came from.
    browser.press("\u{e00c}").await;
    browser
        .until("document.querySelector('#policy-document .question').hidden")
        .await;
    assert_eq!(
        browser
            .value("document.activeElement.closest('form').id + ' ' + document.activeElement.type")
            .await,
        "policy-document submit"
    );
    browser.press("\u{e007}").await;
    browser
        .until("document.activeElement === document.querySelector('#policy-document .question')")
        .await;
    browser
        .until("!document.querySelector('#policy-document .question[data-unsteady]')")
        .await;
    // Past the way back, to the yes.
    browser.press("\u{e004}\u{e004}\u{e007}").await;
    becomes(&server.operator(), BUILD, json!({ "askFallback": "full" })).await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn the_settings_of_the_server_stand_there_and_what_waits_for_a_restart() {
    let server = builder().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    turn_to(&browser, "build").await;
    let row = |key: &str| {
        format!(
            "[...document.querySelectorAll('#settings .fact')].find((row) => row.firstChild.textContent === '{key}')?.textContent"
        )
    };
    let ask = browser.value(&row("tools.exec.ask")).await;
    assert_eq!(ask, "tools.exec.askon-miss from openclaw.json");
    let is_open = "document.getElementById('settings-defaults').open";
    assert_eq!(browser.value(is_open).await, false);
    browser.click("#settings-defaults summary").await;
    server.edit_toml("[exec]\nlogin_path = false\n[limits]\nmax_sessions = 77\n");
    let waits = format!(
        "{}.includes('77 waits for a restart')",
        row("limits.max_sessions")
    );
    browser.until(&waits).await;
    assert_eq!(browser.value(is_open).await, true, "what was opened stays open");
    looks_right(&browser, "settings").await;
    axe::draw(&browser, "policy-settings", Screen::PHONE).await;
    complains_of_nothing(&browser).await;
}
