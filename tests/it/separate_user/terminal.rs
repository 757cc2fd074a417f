//! Pseudo-terminals under the account of the commands.

use serde_json::json;

use super::AccountsFixture;

#[tokio::test]
async fn a_terminal_belongs_to_the_account_of_the_commands() {
    let accounts = or_skip!(AccountsFixture::new());
    let server = accounts.builder().start().await;
    let command = "stat -c %u \"$(tty)\"; stty size; echo direct > /dev/tty
        bash -c 'set -m; sleep 0.05 & fg > /dev/null && echo continued'";
    let call = json!({ "command": command, "pty": true, "yieldMs": 120_000 });
    let answer = server.ran(call).await;
    let expected = format!("{}\r\n30 120\r\ndirect\r\ncontinued\r\n", accounts.commands);
    assert_eq!(answer["stdout"], expected, "{answer:#}");
}
