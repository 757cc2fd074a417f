//! `countersign session`.

use serde_json::{Value, json};

use super::{MAIN, open, overrides_of};

#[tokio::test]
async fn overrides_are_set_shown_and_cleared() {
    let server = open().start().await;
    let set = server
        .cli(&["session", "set", MAIN, "--host", "gateway", "--ask", "always"])
        .await;
    assert_eq!(set.code, Some(0), "{set:?}");
    assert_eq!(overrides_of(&server, MAIN).await["ask"], "always");
    let shown = server.cli(&["session", "show"]).await;
    shown.says("always");
    shown.says("operator");
    let shown = server.cli(&["session", "show", MAIN, "--json"]).await;
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(shown, overrides_of(&server, MAIN).await);
    let cleared = server.cli(&["session", "clear", MAIN]).await;
    assert_eq!(
        cleared.stdout,
        format!("{MAIN} overrides nothing\n"),
        "{cleared:?}"
    );
    assert_eq!(
        overrides_of(&server, MAIN).await,
        json!({ "sessionKey": MAIN, "elevated": "off" })
    );
    let wrong = server.cli(&["session", "set", MAIN, "--security", "none"]).await;
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    let other = server
        .cli(&["session", "set", "chat:7", "--agent", "build", "--ask", "off"])
        .await;
    assert_eq!(other.code, Some(0), "{other:?}");
    let of_build = overrides_of(&server, "chat:7").await;
    assert_eq!(of_build["ask"], Value::Null);
}

#[tokio::test]
async fn a_text_is_posted_as_somebodys() {
    let server = open().start().await;
    let say = |typed: &'static str, sender: &'static str| {
        let server = &server;
        async move {
            server
                .cli(&[
                    "session",
                    "command",
                    MAIN,
                    typed,
                    "--provider",
                    "telegram",
                    "--sender",
                    sender,
                ])
                .await
        }
    };
    let heard = say("/exec ask=always", "42").await;
    assert_eq!(
        heard.stdout, "Set for this session: ask=always. The approvals of the host still apply.\n",
        "{heard:?}"
    );
    let refused = say("/exec ask=off", "13").await;
    assert_eq!(
        refused.stdout, "You are not authorised to use directives here.\n",
        "{refused:?}"
    );
    let plain = say("hello", "42").await;
    assert_eq!(plain.stdout, "there is no directive in this text\n", "{plain:?}");
    assert_eq!(overrides_of(&server, MAIN).await["ask"], "always");
}
