//! What a person is shown before an answer. At the real server.

use countersign_policy::command::{characters::is_escaped_in_display, prompt::Prompt};
use serde_json::{Value, json};

use crate::support::{Members, TestServer, World};

/// The question about a command, as approvers get it.
pub(crate) async fn card(server: &TestServer, body: Value) -> Value {
    let pending = server.accepted(body).await;
    let approval = pending.text("approvalId");
    server.operator().approval(approval).await
}

pub(crate) fn codes(card: &Value) -> Vec<&str> {
    let warnings = card["display"].list("warnings");
    warnings.iter().map(|warning| warning.text("code")).collect()
}

/// What hides is spelled out on the card and on terminals, warned of, and never covered; the twin is shown as it is.
async fn spelled_out(attacks: &[(&str, &str)], twin: &str) {
    let server = TestServer::asking().start().await;
    for (attack, spelling) in attacks {
        let command = format!("printf {attack}; id");
        let card = card(&server, json!({ "command": command })).await;
        assert_eq!(card["command"], command, "the exact text is there as well");
        let shown = card["display"].text("text");
        assert!(shown.contains(spelling), "{spelling:?} in {shown:?}");
        assert!(shown.contains("; id"), "the tail is there: {shown:?}");
        assert!(
            shown.chars().all(|c| c == '\n' || !is_escaped_in_display(c)),
            "{shown:?}"
        );
        assert!(codes(&card).contains(&"hidden-characters"), "{card}");
        let terminal = server.cli(&["approvals", "show", card.text("id")]).await;
        assert_eq!(terminal.code, Some(0), "{terminal:?}");
        for text in [terminal.stdout, terminal.stderr] {
            assert!(
                text.chars().all(|c| c == '\n' || !is_escaped_in_display(c)),
                "{text:?}"
            );
        }
        let covering = World::new().programs(&["printf", "id"]).allow(&["/usr/bin/*"]);
        covering.defeats(&[&command, &format!("printf '{attack}'")], &["printf x; id"]);
    }
    let command = format!("printf {twin}; id");
    let plain = card(&server, json!({ "command": command })).await;
    assert_eq!(plain["display"]["text"], command);
    assert_eq!(codes(&plain), Vec::<&str>::new());
}

#[tokio::test]
async fn ghsa_pcqg_f7rg_xfvv() {
    spelled_out(
        &[
            ("a\u{200b}b", "a\\u{200B}b"),
            ("a\u{200d}b", "a\\u{200D}b"),
            ("a\u{feff}b", "a\\u{FEFF}b"),
            ("a\u{2060}b", "a\\u{2060}b"),
            ("\u{202e}x\u{2066}", "\\u{202E}x\\u{2066}"),
            ("a\u{e0041}", "a\\u{E0041}"),
        ],
        "größe-漢字",
    )
    .await;
}

#[tokio::test]
async fn openclaw_2026_3_22_hangul_fillers() {
    spelled_out(
        &[
            (
                "x\u{3164}\u{3164}\u{3164}\u{3164}\u{3164}\u{3164}\u{3164}\u{3164}\u{3164}y",
                "\\u{3164}",
            ),
            ("\u{115f}\u{1160}x", "\\u{115F}\\u{1160}x"),
            ("x\u{ffa0}y", "x\\u{FFA0}y"),
            ("x\u{2800}y", "x\\u{2800}y"),
        ],
        "한글",
    )
    .await;
}

#[tokio::test]
async fn openclaw_pr_68198() {
    spelled_out(
        &[
            ("harmless\rprintf", "harmless\\u{D}printf"),
            ("x\u{8}\u{8}y", "x\\u{8}\\u{8}y"),
            ("x\u{7f}y", "x\\u{7F}y"),
            ("x\u{85}y", "x\\u{85}y"),
            ("x\u{2028}y", "x\\u{2028}y"),
            ("x\u{b}y", "x\\u{B}y"),
        ],
        "x",
    )
    .await;
    let server = TestServer::asking().start().await;
    let lines = card(&server, json!({ "command": "printf x\nid" })).await;
    assert_has!(lines, { "display/text": "printf x\\u{A}\nid" }, "a line break is said and made");
}

#[tokio::test]
async fn openclaw_acp_prompt() {
    spelled_out(
        &[
            ("\u{1b}[2K\u{1b}[1Aallow?", "\\u{1B}[2K\\u{1B}[1Aallow?"),
            ("\u{1b}]0;title\u{7}", "\\u{1B}]0;title\\u{7}"),
            ("\u{9b}31mred", "\\u{9B}31mred"),
            ("\u{1b}]8;;http://x\u{1b}\\link", "\\u{1B}]8;;"),
        ],
        "'[2K'",
    )
    .await;
}

#[tokio::test]
async fn cve_2026_32971() {
    let server = TestServer::asking().start().await;
    let argv = json!(["env", "sh", "-c", "printf shown; id", "hidden", "more words"]);
    let card = card(&server, json!({ "argv": argv })).await;
    let shown = card["display"].text("text");
    for word in ["env", "sh", "-c", "printf shown; id", "hidden", "more words"] {
        assert!(shown.contains(word), "{word} in {shown}");
    }
    // What is bound is what was shown, programs by the path that was found.
    let bound = card["boundTo"].list("argv");
    let sent = argv.as_array().expect("words");
    assert_eq!(bound.len(), sent.len(), "{card}");
    for (bound, sent) in bound.iter().zip(sent) {
        let (bound, sent) = (bound.as_str().expect("a word"), sent.as_str().expect("a word"));
        assert!(
            bound == sent || bound.ends_with(&format!("/{sent}")),
            "{bound} for {sent}"
        );
    }
    assert_eq!(card["segments"][0]["argv"], argv, "{card}");
}

#[tokio::test]
async fn cve_2025_54133() {
    let server = TestServer::asking().start().await;
    let mut argv = vec!["printf".to_owned()];
    argv.extend((0..200).map(|index| format!("argument-{index}")));
    let card = card(&server, json!({ "argv": argv })).await;
    let shown = card["display"].text("text");
    for word in &argv {
        assert!(shown.contains(word.as_str()), "{word} in {shown}");
    }
    assert_eq!(
        (&card["display"]["truncated"], codes(&card)),
        (&json!(false), vec![])
    );
}

#[tokio::test]
async fn ghsa_xww8_gqvh_92x9() {
    let server = TestServer::asking().start().await;
    let long = format!("printf {}; id", "x".repeat(20_000));
    let truncated = card(&server, json!({ "command": long })).await;
    assert_eq!(truncated["display"]["truncated"], true);
    assert_eq!(codes(&truncated), ["text-omitted"]);
    let shown = truncated["display"].text("text");
    assert!(
        shown.starts_with("printf x") && shown.ends_with("x; id"),
        "both ends are there"
    );
    // No other x is in what says so.
    let missing = 20_000 - shown.matches('x').count();
    assert!(
        shown.contains(&format!("… {missing} characters are not shown …")),
        "the exact number is told: {missing}"
    );
    assert_eq!(truncated["command"], long, "the whole text is there to be opened");
    // Up to the limit nothing is left out.
    let whole = format!("printf {}; id", "x".repeat(16_384 - 11));
    let card_of_whole = card(&server, json!({ "command": whole })).await;
    assert_eq!(card_of_whole["display"]["text"], whole);
    assert_eq!(card_of_whole["display"]["truncated"], false);
}

#[tokio::test]
async fn gemini_cli_pr_25865() {
    let server = TestServer::asking().start().await;
    let padded = format!("printf x{}; id", " ".repeat(4_000));
    let card = card(&server, json!({ "command": padded })).await;
    let shown = card["display"].text("text");
    assert!(
        shown.len() < 100 && shown.contains("4000") && shown.ends_with("; id"),
        "{shown:?}"
    );
    assert_eq!(codes(&card), ["blanks-collapsed"]);
    for (blanks, count) in [("\n".repeat(400), 400), ("\t \t".repeat(40), 120)] {
        let prompt = Prompt::of(&format!("a{blanks}b"));
        let says_how_many = prompt.text.contains(&format!("{count} blanks"));
        assert!(prompt.text.ends_with('b') && says_how_many, "{prompt:?}");
    }
    let twin = Prompt::of("printf x    ; id");
    assert_eq!((twin.text.as_str(), twin.notices.len()), ("printf x    ; id", 0));
}
