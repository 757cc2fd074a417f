//! Pseudo-terminals: they are opened outside and work inside.

use serde_json::json;

use super::{builder, possible};

#[tokio::test]
async fn a_confined_command_has_a_terminal_with_job_control() {
    or_skip!(possible());
    let server = builder().start().await;
    let command = "tty | cut -c1-9; stty size; echo direct > /dev/tty
        bash -c 'set -m; sleep 0.05 & fg > /dev/null && echo continued'
        python3 -c 'import pty; pty.spawn([\"/bin/echo\", \"another\"])'";
    let call = json!({ "command": command, "pty": true, "yieldMs": 120_000 });
    let answer = server.agent().exec(call).await.expect(200);
    assert_eq!(
        answer["stdout"], "/dev/pts/\r\n30 120\r\ndirect\r\ncontinued\r\nanother\r\n",
        "{answer:#}"
    );
    let record = server.agent().run(answer["runId"].as_str().unwrap()).await;
    assert_eq!(record["isolation"], "confined");
}
