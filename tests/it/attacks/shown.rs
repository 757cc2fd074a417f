//! What the person who answers is shown, and what an agent might make of that.

use serde_json::json;

use crate::{
    advisories::prompts::{card, codes},
    support::TestServer,
};

#[tokio::test]
async fn no_mask_hides_what_runs() {
    let server = TestServer::asking().start().await;
    for command in [
        "set -- --token whoami; shift; \"$@\"",
        "bash -c 'set -- --token whoami; shift; \"$@\"'",
        "bash -l -c 'set -- --token whoami; shift; \"$@\"'",
        "xargs --token whoami",
    ] {
        let card = card(&server, json!({ "command": command })).await;
        assert_eq!(card["display"]["text"], command);
        assert_eq!(codes(&card), Vec::<&str>::new(), "{command}");
    }
    let plain = card(&server, json!({ "command": "printf x --token whoami" })).await;
    assert_eq!(
        (&plain["display"]["text"], codes(&plain)),
        (
            &json!("printf x --token ⟨secret of 6 characters⟩"),
            vec!["secrets-masked"]
        )
    );
}

#[tokio::test]
async fn arguments_do_not_look_like_what_a_shell_would_run() {
    let server = TestServer::asking().start().await;
    for (argv, text) in [
        (json!(["rm", "-rf", "#", "x y"]), "rm -rf '#' 'x y'"),
        (json!(["echo", "$(id)"]), "echo '$(id)'"),
        (json!(["echo", "a;", "\u{202e}"]), "echo 'a;' '\\u{202E}'"),
    ] {
        let card = card(&server, json!({ "argv": argv })).await;
        assert_eq!(card["display"]["text"], text);
        assert_eq!(card["display"]["spans"], json!([[0, text.len()]]));
        assert_eq!(card["segments"][0]["argv"], argv);
    }
}
