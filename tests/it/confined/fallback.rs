//! Where the kernel refuses user namespaces: everything says so, and a demanded level fails the start.

use serde_json::Value;

use crate::{
    page,
    support::{Members, Screen, ServerBuilder, TestServer, assert_says},
};

use super::{ACCOUNT, possible, run};

const BAD_SETTINGS: i32 = 78;

/// Becomes a program in a user namespace that has every account, but can have no further namespace in it.
const REFUSING: &str = "
import ctypes, os, sys
ready, go = os.pipe()
inside = os.getpid()
helper = os.fork()
if helper == 0:
    os.read(ready, 1)
    for name in ('uid_map', 'gid_map'):
        with open(f'/proc/{inside}/{name}', 'w') as accounts:
            accounts.write('0 0 65536')
    os._exit(0)
assert ctypes.CDLL(None).unshare(0x10000000) == 0
os.write(go, b'x')
assert os.waitpid(helper, 0)[1] == 0
with open('/proc/sys/user/max_user_namespaces', 'w') as most:
    most.write('0')
os.execvp(sys.argv[1], sys.argv[1:])
";

fn builder() -> ServerBuilder {
    TestServer::full()
        .env("PATH", super::PROGRAMS)
        .run_as(ACCOUNT)
        .behind("python3", &["-c", REFUSING])
}

async fn findings(server: &TestServer) -> Vec<Value> {
    let doctor = server
        .invocation(&["doctor", "--json"])
        .run_as(ACCOUNT)
        .behind("python3", &["-c", REFUSING]);
    let report = TestServer::finish(doctor).await.stdout;
    let report: Value = serde_json::from_str(&report).unwrap_or_else(|_| panic!("{report}"));
    report.list("findings").clone()
}

#[tokio::test]
async fn commands_run_as_same_user_and_everything_says_so() {
    or_skip!(possible());
    let server = builder().start().await;
    assert_says(server.ready_line(), "isolation=same-user");
    assert_says(
        server.log(),
        "commands cannot be confined: they run with the server's own rights",
    );
    let answer = run(&server, "main", "grep NoNewPrivs /proc/self/status").await;
    assert_eq!(answer["stdout"], "NoNewPrivs:\t0\n");
    let record = server.agent().run(answer.text("runId")).await;
    assert_eq!(record["isolation"], "same-user");
    let policy = server.operator().read("/v1/policy/effective").await;
    assert_eq!(policy["isolation"], "same-user");
    let found = findings(&server).await;
    let told = found
        .iter()
        .find(|finding| finding["id"] == "isolation-same-user")
        .unwrap_or_else(|| panic!("{found:#?}"));
    assert_has!(told, { "severity": "error", "key": "exec.isolation" });
    told.says("fix", "sysctl user.max_user_namespaces=");
}

#[tokio::test]
async fn a_demanded_level_ends_the_start_and_says_how_to_have_it() {
    or_skip!(possible());
    let server = builder().env("COUNTERSIGN_EXEC__ISOLATION", "confined").prepare();
    assert_eq!(server.start_fails().await, Some(BAD_SETTINGS), "{}", server.log());
    for part in [
        "cannot be reached",
        "user namespaces are not available",
        "note: allow",
    ] {
        assert!(server.log().contains(part), "{part}: {}", server.log());
    }
}

#[tokio::test]
async fn the_page_shows_each_level_with_what_it_means() {
    or_skip!(possible());
    for (builder, level, sentence) in [
        (builder(), "same-user", "guard rail"),
        (super::builder(), "confined", "cannot reach"),
    ] {
        let server = builder.start().await;
        let browser = or_skip!(page::signed_in(&server, Screen::DESK).await);
        browser.says("#trust", level).await;
        browser.says("#trust", sentence).await;
    }
}
