use serde_json::{Value, json};

use super::{answer, ask_body, complains_of_nothing, ended, go, id, opened, signed_in};
use crate::support::{Screen, TestServer, assert_says};

/// What is written to deceive whoever reads it, or to become part of the page.
fn hostile_texts() -> Vec<(&'static str, String)> {
    let text = |text: &str| text.to_owned();
    vec![
        (
            "script",
            text("<script>window.pwned=1</script><img src=x onerror=window.pwned=1>"),
        ),
        (
            "attribute",
            text("env \" onfocus=window.pwned=1 autofocus x=\" ' onmouseover=window.pwned=1 x='"),
        ),
        (
            "breakout",
            text("</pre></article></body><svg onload=window.pwned=1><style>*{display:none}</style>"),
        ),
        (
            "template",
            text("${window.pwned=1} {{constructor.constructor('window.pwned=1')()}} <!-- --> ]]> &lt;b&gt;"),
        ),
        (
            "link",
            text("env javascript:window.pwned=1 <a href=javascript:window.pwned=1>x</a>"),
        ),
        (
            "ansi",
            text("echo \u{1b}[2K\u{1b}[1A\u{1b}[8mhidden\u{1b}[0m \u{9b}31m \u{7}\u{8}\u{8}\u{8}"),
        ),
        (
            "bidi",
            text("echo \u{202e}txt.exe\u{202c} \u{2066}a\u{2069} \u{200f}\u{200e} safe"),
        ),
        (
            "letters-of-the-other-direction",
            text("rm אבג/דהו && cp ابت گچ xyz # שלום abc"),
        ),
        (
            "invisible",
            text("l\u{200b}s \u{feff}-l\u{ad}a \u{2060}\u{180e}\u{3164}x \u{e0041}\u{e0042}"),
        ),
        ("blanks", format!("ls{}; rm -rf /tmp/nothing", " ".repeat(400))),
        (
            "lines",
            text("ls\n\n\n# harmless\r\nrm -rf /tmp/nothing\u{2028}x\u{2029}y\u{85}z"),
        ),
        ("emoji", text("echo 👨‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪 e\u{301}")),
        (
            "piled",
            format!("echo Z{} end", "\u{310}\u{489}\u{35c}\u{321}".repeat(60)),
        ),
        ("lookalike", text("env gіt push оrigin && ls /еtc")),
        ("long-word", format!("echo {}", "A".repeat(3000))),
        (
            "controls",
            (1..32)
                .filter_map(char::from_u32)
                .filter(|c| *c != '\n')
                .fold(text("echo "), |mut all, c| {
                    all.push(c);
                    all
                }),
        ),
    ]
}

#[tokio::test]
async fn whatever_a_command_says_it_is_shown_whole_and_does_nothing() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::NARROW).await);
    for (name, command) in hostile_texts() {
        let pending = ask_body(&server, json!({ "command": command })).await;
        let approval = id(&pending, "approvalId");
        opened(&browser, &approval).await;
        // What is folded is opened first.
        let open = "document.querySelector('.command-block .more')?.click()";
        browser.run(open, json!([])).await;
        browser
            .until("!document.querySelector('.command-block .more, .fold')")
            .await;
        let stored = server.operator().approval(&approval).await;
        let script = "const card = document.querySelector(`[data-id=\"${arguments[0]}\"]`);
            const code = card.querySelector('.command');
            const text = [...code.childNodes].map((node) => node.className === 'blanks' ? ' '.repeat(parseInt(node.innerText)) : node.textContent).join('');
            const foreign = [...card.querySelectorAll('script, img, svg, style, iframe, a[href^=\"javascript:\"]')].length;
            return [text, window.pwned ?? null, foreign, document.documentElement.scrollWidth > document.documentElement.clientWidth];";
        let seen = browser.run(script, json!([approval])).await;
        assert_eq!(seen[0], stored["display"]["text"], "{name}");
        assert_eq!((&seen[1], &seen[2]), (&Value::Null, &json!(0)), "{name}");
        assert_eq!(seen[3], false, "{name} is wider than the screen");
        assert_reads_forward(&browser.run(POSITIONS, json!([approval])).await, name);
        browser
            .run(
                "document.querySelector(`[data-id=\"${arguments[0]}\"]`).scrollIntoView()",
                json!([approval]),
            )
            .await;
        browser.shoot(&format!("hostile-{name}")).await;
        answer(&browser, &approval, "deny").await;
        ended(&browser, &approval, "Denied by you").await;
        browser.click(".card-back").await;
        browser.click("#clear").await;
    }
    complains_of_nothing(&browser).await;
}

/// Where each character of the shown command stands.
const POSITIONS: &str = "const code = document.querySelector(`[data-id=\"${arguments[0]}\"] .command`);
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
    const places = [];
    const box = code.getBoundingClientRect();
    while (walker.nextNode()) {
        const node = walker.currentNode;
        for (let at = 0; at < Math.min(node.length, 600); at += 1) {
            const range = document.createRange();
            range.setStart(node, at);
            const length = node.data.codePointAt(at) > 0xffff ? 2 : 1;
            range.setEnd(node, at + length);
            const [place] = range.getClientRects();
            if (place && place.width > 0) places.push([node.data.slice(at, at + length), Math.round(place.left), Math.round(place.top + place.height / 2)]);
            at += length - 1;
        }
    }
    return places;";

/// Every character stands right of the one before it, or on a later line.
#[track_caller]
fn assert_reads_forward(places: &Value, name: &str) {
    let places = places.as_array().expect("places");
    assert!(!places.is_empty(), "{name}");
    for pair in places.windows(2) {
        let at = |place: &Value, index: usize| place[index].as_i64().expect("a number");
        let (before, after) = (&pair[0], &pair[1]);
        let is_later_line = at(after, 2) > at(before, 2) + 6;
        let is_to_the_right = at(after, 1) >= at(before, 1) && (at(after, 2) - at(before, 2)).abs() <= 6;
        assert!(is_later_line || is_to_the_right, "{name}: {before} then {after}");
    }
}

#[tokio::test]
async fn a_hundred_kilobytes_are_read_before_they_are_allowed() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::NARROW).await);
    let command = format!(
        "echo start {} && rm -rf /tmp/nothing-in-the-middle {} end",
        "x ".repeat(25_000),
        "y".repeat(50_000)
    );
    let approval = id(
        &ask_body(&server, json!({ "command": command })).await,
        "approvalId",
    );
    opened(&browser, &approval).await;
    let shown = browser.text(".command").await;
    assert!(
        shown.len() < 2000 && shown.contains("not shown") && shown.ends_with("y end"),
        "{}",
        shown.len()
    );
    browser.says(".why-not", "Show all of the command").await;
    browser
        .run(
            "for (const button of document.querySelectorAll('.allow-once, .allow-always')) button.click()",
            json!([]),
        )
        .await;
    assert_eq!(server.operator().pending().await.len(), 1);
    browser.shoot("long").await;
    browser.click(".command-block .more").await;
    let shown = browser
        .run("return document.querySelector('.command').textContent", json!([]))
        .await;
    assert_eq!(shown, command);
    assert_eq!(
        browser
            .value("document.documentElement.scrollWidth > document.documentElement.clientWidth")
            .await,
        false
    );
    answer(&browser, &approval, "allow-once").await;
    ended(&browser, &approval, "Allowed once by you").await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn the_environment_is_on_the_card() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let env = json!({ "COMPILER_LABEL": "/x", "NOTE": "<b>x</b>\u{202e}y", "SERVICE_TOKEN": "k3y-k3y-k3y" });
    let body = json!({ "command": "gcc -c hello.c", "env": env });
    let approval = id(&ask_body(&server, body).await, "approvalId");
    opened(&browser, &approval).await;
    let facts = browser.text(".facts").await;
    for shown in [
        "COMPILER_LABEL=/x",
        "NOTE=<b>x</b>\\u{202E}y",
        "SERVICE_TOKEN=⟨secret of 11 characters⟩",
    ] {
        assert!(facts.contains(shown), "{shown} in {facts}");
    }
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn secrets_are_masked_wherever_the_page_shows_a_command() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let argv = json!(["/bin/echo", "--password", "hunter2-hunter2", "a b"]);
    let pending = ask_body(&server, json!({ "argv": argv })).await;
    let (approval, run) = (id(&pending, "approvalId"), id(&pending, "runId"));
    opened(&browser, &approval).await;
    let masked = "/bin/echo --password ⟨secret of 15 characters⟩ 'a b'";
    browser.says("body", masked).await;
    assert!(!browser.text("body").await.contains("hunter2"));
    answer(&browser, &approval, "deny").await;
    ended(&browser, &approval, "Denied by you").await;
    go(&browser, "runs").await;
    browser
        .says(&format!("[data-run=\"{run}\"] .run-command"), masked)
        .await;
    assert!(!browser.text("body").await.contains("hunter2"));
    let run = server.operator().read(&format!("/v1/runs/{run}")).await;
    assert_has!(run, { "displayText": masked, "argv": argv });
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn a_word_that_is_filled_in_at_the_start_looks_like_no_literal_one() {
    let server = TestServer::asking()
        .exec(&json!({
            "host": "gateway", "security": "allowlist", "ask": "on-miss", "reads": { "substitutions": true },
        }))
        .start()
        .await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let body = json!({ "command": "echo \"n: $(cat f)\" 'n: $(cat f)'" });
    let approval = id(&ask_body(&server, body).await, "approvalId");
    opened(&browser, &approval).await;
    browser.says(".segments", "parts filled in at the start").await;
    let words = browser
        .value("[...document.querySelectorAll('.segments .arg')].map((word) => word.textContent)")
        .await;
    assert_eq!(
        words,
        json!(["cat", "f", "echo", "\"n: $(cat f)\"", "n: $(cat f)"])
    );
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn what_surrounds_a_command_is_no_markup_either() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let directory = server
        .scratch()
        .dir("<img src=x onerror=window.pwned=1> \u{202e}gnp");
    let script =
        "printf '<script>window.pwned=1</script>\\033[31mred\\033[0m \\342\\200\\256abc\\n\\377\\376end\\n'";
    let body = json!({
        "command": script, "workdir": directory, "sessionKey": "agent:main:<img src=x onerror=window.pwned=1>\u{202e}",
        "justification": "<img src=x onerror=window.pwned=1> why\u{202e}", "contextUrl": "https://x/<b>",
    });
    let approval = id(&ask_body(&server, body).await, "approvalId");
    opened(&browser, &approval).await;
    let facts = browser.text(".facts").await;
    assert_says(&facts, "<img src=x onerror=window.pwned=1> \\u{202E}gnp");
    browser.click(".audit summary").await;
    let audit = browser.text(".audit .facts").await;
    assert_says(&audit, "agent:main:<img src=x onerror=window.pwned=1>\\u{202E}");
    browser
        .says(
            ".said",
            "The agent says <img src=x onerror=window.pwned=1> why\\u{202E} https://x/<b>",
        )
        .await;
    assert_eq!(
        browser
            .value("document.querySelectorAll('.said a, .said img').length")
            .await,
        0
    );
    let decided = json!({ "decision": "allow-once", "reason": "<b onclick=window.pwned=1>fine</b>\u{202e}" });
    server
        .operator()
        .posted(&format!("/v1/approvals/{approval}/decision"), decided)
        .await;
    ended(
        &browser,
        &approval,
        "Reason: <b onclick=window.pwned=1>fine</b>\\u{202E}",
    )
    .await;
    browser
        .open(&format!("{}/a/{approval}", server.anonymous().base()))
        .await;
    browser
        .says(
            "#one-run .output",
            "<script>window.pwned=1</script>\\u{1B}[31mred\\u{1B}[0m \\u{202E}abc",
        )
        .await;
    browser.says("#one-run .output", "end").await;
    browser.shoot("hostile-around").await;
    assert_eq!(browser.value("window.pwned ?? null").await, Value::Null);
    complains_of_nothing(&browser).await;
}
