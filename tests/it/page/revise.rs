//! Another command in the place of the one that the agent asked about.

use serde_json::json;

use super::{answer, ask, ask_body, axe, complains_of_nothing, ended, id, opened, row, signed_in, steady};
use crate::support::{Screen, TestServer, eventually, lines};

#[tokio::test]
async fn a_suggested_command_is_shown_as_a_change_and_runs_in_the_place_of_the_other() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::DESK).await);
    let (wanted, suggested) = (server.scratch().join("file"), server.scratch().join("file.other"));
    let command = format!("echo ran >> {}", wanted.display());
    let pending = ask_body(&server, json!({ "command": command })).await;
    let approval = id(&pending, "approvalId");
    browser.click(&format!("{} .row-open", row(&approval))).await;
    browser.shown(&steady(&approval)).await;
    browser.press("e").await;
    // What is not changed is no suggestion.
    browser.shown(".revise [type=submit][aria-disabled=true]").await;
    browser.press(".other").await;
    browser
        .until("document.querySelector('.revise ins')?.innerText === '.other'")
        .await;
    browser
        .until("document.querySelectorAll('.revise del').length === 0")
        .await;
    axe::draw(&browser, "revise", Screen::DESK).await;
    browser
        .click(".revise [type=submit]:not([aria-disabled=true])")
        .await;
    ended(&browser, &approval, "Denied by operator").await;
    let old = server.operator().approval(&approval).await;
    let next = id(&old, "revisedBy");
    // The question about it is open, with what changed, and takes an answer like any other.
    browser.shown(&steady(&next)).await;
    browser
        .until(&format!(
            "document.activeElement.closest('[data-id]')?.dataset.id === '{next}'"
        ))
        .await;
    browser
        .until("document.querySelector('.revised ins')?.innerText === '.other'")
        .await;
    axe::draw(&browser, "revised", Screen::DESK).await;
    assert_eq!(lines(&wanted), Vec::<String>::new());
    assert_eq!(lines(&suggested), Vec::<String>::new());
    answer(&browser, &next, "allow-once").await;
    ended(&browser, &next, "exit code 0").await;
    assert_eq!(lines(&suggested), ["ran"]);
    assert_eq!(lines(&wanted), Vec::<String>::new());
    opened(&browser, &approval).await;
    browser
        .says(&format!("{} .ended", steady(&approval)), "another command")
        .await;
    complains_of_nothing(&browser).await;
}

#[tokio::test]
async fn arguments_stay_arguments_and_no_shell_reads_what_is_suggested_of_them() {
    let server = TestServer::asking().start().await;
    let browser = or_skip!(signed_in(&server, Screen::PHONE).await);
    let approval = id(&ask(&server, &["/bin/echo", "a b"]).await, "approvalId");
    opened(&browser, &approval).await;
    browser
        .click(&format!("{} [data-open=revise]", steady(&approval)))
        .await;
    let field = "document.querySelector('.revise textarea').value";
    assert_eq!(browser.value(field).await, "/bin/echo\na b");
    browser.write(".revise textarea", "; $HOME").await;
    browser.shoot("revise-arguments").await;
    browser
        .click(".revise [type=submit]:not([aria-disabled=true])")
        .await;
    let revised = async || server.operator().approval(&approval).await;
    let old = eventually("revised", revised, |old| old["revisedBy"].is_string()).await;
    let next = server.operator().approval(&id(&old, "revisedBy")).await;
    assert_eq!(next["boundTo"]["argv"], json!(["/bin/echo", "a b; $HOME"]));
}
