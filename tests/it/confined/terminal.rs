//! Pseudo-terminals: they are opened outside and work inside.

use serde_json::json;

use super::{builder, possible};
use crate::support::Members;

#[tokio::test]
async fn a_confined_command_has_a_terminal_with_job_control() {
    or_skip!(possible());
    let server = builder().start().await;
    let command = "tty | cut -c1-9; stty size; echo direct > /dev/tty
        bash -c 'set -m; sleep 0.05 & fg > /dev/null && echo continued'
        python3 -c 'import pty; pty.spawn([\"/bin/echo\", \"another\"])'";
    let call = json!({ "command": command, "pty": true, "yieldMs": 120_000 });
    let answer = server.ran(call).await;
    assert_has!(answer, { "stdout": "/dev/pts/\r\n30 120\r\ndirect\r\ncontinued\r\nanother\r\n" });
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["isolation"], "confined");
}
