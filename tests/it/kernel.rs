//! Servers that take their kernel for an older one: what they say of it, and that nothing is kept less in silence. Each
//! command here is really started, or a person is asked about it.

use std::{fs, path::Path};

use countersign_sys::{hooks, landlock};
use serde_json::{Value, json};

use crate::{
    explain::ask_to_explain,
    support::{Members, ServerBuilder, TestServer, assert_says, needed},
};

/// Versions of Landlock: none, files, places to write, ports, signals.
const VERSIONS: [u32; 5] = [0, 1, 3, 4, 6];

/// Parts and the version of each.
const PARTS: [(&str, u32); 3] = [("starts", 1), ("writes", 3), ("connects", 4)];

/// Whether this kernel can be taken for each of these.
fn possible() -> Option<()> {
    needed(
        landlock::version() >= landlock::SCOPES_SINCE,
        "version 6 of Landlock",
    )
}

fn on(version: u32, entries: &Value) -> ServerBuilder {
    TestServer::asking()
        .allowlist(entries)
        .env(hooks::PROTECTION_VARIABLE, &format!("landlock-{version}"))
}

fn kept(kernel: &Value) -> Vec<(String, bool)> {
    let parts = kernel.list("parts").iter();
    let part = |part: &Value| {
        assert_eq!(part["kept"] == false, part.get("missing").is_some(), "{part}");
        (part.text("part").to_owned(), part["kept"] == true)
    };
    parts.map(part).collect()
}

#[tokio::test]
async fn settings_and_doctor_say_what_is_kept_and_what_follows() {
    or_skip!(possible());
    for version in VERSIONS {
        let mut server = on(version, &json!([])).start().await;
        let kernel = server.operator().read("/v1/settings").await["kernel"].clone();
        assert_eq!(kernel["landlock"], version);
        let found = kept(&kernel);
        for (part, since) in PARTS {
            let said = (part.to_owned(), version >= since);
            assert!(found.contains(&said), "{part} under {version}: {kernel:#}");
        }
        let report = server.cli(&["doctor", "--json"]).await;
        let report: Value = serde_json::from_str(&report.stdout).expect("a report");
        assert_eq!(report["kernel"], kernel);
        let text = server.cli(&["doctor"]).await.stdout;
        let missing = PARTS.iter().filter(|(_, since)| version < *since);
        for (part, since) in missing {
            let line = text.lines().find(|line| line.starts_with(&format!("{part}: ")));
            let line = line.unwrap_or_else(|| panic!("{part}: {text}"));
            assert_says(line, "confine-unavailable");
            assert_says(line, &format!("it needs Landlock {since}"));
        }
        // Without a server it looks for itself.
        server.stop().await;
        let off = format!("landlock-{version}");
        let alone = server.invocation(&["doctor", "--json"]);
        let alone = TestServer::finish(alone.env(hooks::PROTECTION_VARIABLE, &off)).await;
        let alone: Value = serde_json::from_str(&alone.stdout).expect("a report");
        assert_eq!(alone["kernel"], kernel);
    }
}

fn exists(directory: &Path, name: &str) -> bool {
    fs::symlink_metadata(directory.join(name)).is_ok()
}

#[tokio::test]
async fn what_an_entry_says_is_kept_or_a_person_is_asked() {
    or_skip!(possible());
    let outside = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let outside = outside.path();
    let within = format!("touch m; tee {}/m", outside.display());
    for version in VERSIONS {
        for (part, value, since, harmless, attack) in [
            (
                "starts",
                json!([]),
                1,
                "find . -maxdepth 0",
                "find . -maxdepth 0 -exec touch m ;",
            ),
            ("writes", json!(["workspace"]), 3, "touch fresh", within.as_str()),
            ("connects", json!([]), 4, "find . -maxdepth 0", "find ."),
        ] {
            let confine = json!({ part: value });
            let entries = json!([
                { "pattern": "/**/find", "confine": confine }, { "pattern": "/**/touch", "confine": confine },
                { "pattern": "/**/tee", "confine": confine },
            ]);
            let server = on(version, &entries).start().await;
            let workspace = server.state().join("workspace");
            let attack = attack.replace(" ;", " \\;");
            for command in [harmless, &attack] {
                let call = json!({ "command": command });
                if version >= since {
                    let run = server.ran(call).await;
                    let run = server
                        .operator()
                        .read(&format!("/v1/runs/{}", run.text("runId")))
                        .await;
                    assert_says(run.text("confined"), " may ");
                    assert!(!run.text("confined").contains("not held"), "{run:#}");
                } else {
                    if command == harmless {
                        let explained = ask_to_explain(&server.agent(), &call).await.expect(200);
                        assert_eq!(
                            explained["analysis"]["findings"][0]["code"],
                            "confine-unavailable"
                        );
                    }
                    server.asked(call).await;
                    assert!(!exists(&workspace, "fresh"), "{part} under {version}");
                }
                let is_outside = exists(outside, "m") || (part == "starts" && exists(&workspace, "m"));
                assert!(!is_outside, "{command} with {part} under {version}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_word_the_text_is_judged_alone_and_the_record_says_so() {
    or_skip!(possible());
    for version in VERSIONS {
        let entries = json!([{ "pattern": "/**/cat" }, { "pattern": "/**/find" }, { "pattern": "/**/git" }]);
        let server = on(version, &entries).start().await;
        let call = json!({ "command": "cat /dev/null" });
        let explained = ask_to_explain(&server.agent(), &call).await.expect(200);
        let run = server.ran(call).await;
        assert_eq!(run["exitCode"], 0, "{run:#}");
        let run = server
            .operator()
            .read(&format!("/v1/runs/{}", run.text("runId")))
            .await;
        let said = if version == 0 {
            "not held: the kernel cannot"
        } else {
            "cat may start: nothing else"
        };
        assert_eq!(explained["confined"], said, "under {version}");
        assert_eq!(run["confined"], said, "under {version}");
        for command in [
            "find . -maxdepth 0 -exec touch m \\;",
            "git -c alias.x='!touch m' x",
            "git -c core.fsmonitor='touch m' status",
        ] {
            server.asked(json!({ "command": command })).await;
        }
        assert!(!exists(&server.state().join("workspace"), "m"), "under {version}");
    }
}

#[tokio::test]
async fn the_text_stands_in_for_the_kernel_where_the_settings_say_so() {
    or_skip!(possible());
    for version in [0, 3] {
        let confine = json!({ "starts": [], "connects": [] });
        let server = on(version, &json!([{ "pattern": "/**/find", "confine": confine }]))
            .exec(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss", "confineFallback": "text" }))
            .start()
            .await;
        let run = server.ran(json!({ "command": "find . -maxdepth 0" })).await;
        let run = server
            .operator()
            .read(&format!("/v1/runs/{}", run.text("runId")))
            .await;
        assert_says(run.text("confined"), "not held: the kernel cannot");
        let attack = json!({ "command": "find . -maxdepth 0 -exec touch m \\;" });
        server.asked(attack).await;
        assert!(!exists(&server.state().join("workspace"), "m"));
    }
}
