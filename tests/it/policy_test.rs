//! `countersign policy test`: expectations of policy, checked case by case.

use std::fs;

use serde_json::{Value, json};

use crate::support::{
    Finished, Members, Scratch, TestServer, assert_says, countersign, run_program, write_file,
};

/// Runs it without a server or a state directory.
fn alone(text: &str) -> Finished {
    alone_in("cases", text)
}

fn alone_in(name: &str, text: &str) -> Finished {
    let scratch = Scratch::new();
    let file = scratch.join(name);
    write_file(&file, text);
    let call = countersign()
        .args(&["policy", "test", "--json"])
        .arg(&file)
        .env("OPENCLAW_STATE_DIR", scratch.join("nothing"));
    run_program(&call)
}

#[track_caller]
fn json_of(done: &Finished, code: i32) -> Value {
    assert_eq!(done.code, Some(code), "{done:?}");
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("one document: {done:?}"))
}

#[test]
fn the_whole_corpus_is_judged_without_a_server() {
    let corpus = include_str!("../data/corpus/commands.jsonl");
    let done = alone(corpus);
    assert_eq!(
        json_of(&done, 0),
        json!({ "total": 648, "passed": 648, "failed": [] })
    );
    let cases: Vec<Value> = corpus
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect();
    assert_eq!(json_of(&alone(&json!(cases).to_string()), 0)["passed"], 648);
}

#[test]
fn what_is_not_as_expected_is_told_with_its_reason() {
    let world = r#""path_dirs":{"rg":"/usr/bin/rg"},"allowlist":[{"pattern":"/usr/bin/rg"}]"#;
    let done = alone(&format!(
        "{{\"command\":\"rg x\",\"expect\":\"allow\",{world}}}\n\n\
         {{\"command\":\"rg x > y\",\"expect\":\"allow\",{world}}}\n\
         {{\"id\":\"named\",\"command\":\"rg x\",\"expect\":\"reject\",{world}}}\n\
         {{\"command\":\"rg x\",\"expect\":\"ask\",\"env\":{{\"LD_PRELOAD\":\"x\"}},{world}}}\n"
    ));
    let told = json_of(&done, 1);
    assert_has!(told, { "total": 4, "passed": 1 });
    let failed: Vec<Vec<&str>> = told
        .list("failed")
        .iter()
        .map(|case| {
            assert!(case["why"].as_str().is_some_and(|why| !why.is_empty()), "{case}");
            let members = ["id", "expected", "actual"];
            members
                .iter()
                .filter_map(|member| case[*member].as_str())
                .collect()
        })
        .collect();
    assert_eq!(
        failed,
        [
            ["3", "allow", "ask"],
            ["named", "reject", "allow"],
            ["5", "ask", "reject"]
        ]
    );
}

#[test]
fn cases_may_be_yaml() {
    let block = "# the world of a case\n\
                 - &rg\n  command: rg x\n  expect: allow\n  path_dirs: {rg: /usr/bin/rg}\n  \
                 allowlist:\n    - pattern: /usr/bin/rg\n\
                 - <<: *rg\n  command: |\n    rg x > y\n\
                 - {<<: *rg, id: 7, command: rg x, expect: reject}\n";
    let documents = "---\ncommand: rg x\nexpect: allow\npath_dirs: {rg: /usr/bin/rg}\nallowlist: [{pattern: /usr/bin/rg}]\n\
                     ---\ncommand: rg x\nexpect: reject\ncwd: /\nid: 7\n...\n";
    let failed = |done: &Finished| -> Vec<String> {
        let told = json_of(done, 1);
        let failed = told.list("failed").clone();
        failed.iter().map(|case| case.text("id").to_owned()).collect()
    };
    for name in ["cases.yaml", "cases.YML", "cases"] {
        assert_eq!(failed(&alone_in(name, block)), ["8", "7"], "{name}");
        assert_eq!(
            failed(&alone_in(name, &format!("\u{feff}{documents}"))),
            ["7"],
            "{name}"
        );
    }
    // JSON is YAML, too.
    let cases: Vec<Value> = include_str!("../data/corpus/commands.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a case"))
        .collect();
    let done = alone_in("cases.yaml", &json!(cases).to_string());
    assert_eq!(json_of(&done, 0)["passed"], 648);
    // An id may be a number, and editors may put a mark before the first byte.
    let done = alone("\u{feff}{\"id\":7,\"command\":\"rg\",\"expect\":\"allow\",\"cwd\":\"/\"}\n");
    assert_eq!(failed(&done), ["7"]);
}

#[test]
fn a_file_that_is_none_is_a_wrong_call_and_judges_nothing() {
    for (text, told) in [
        ("{\"command\":\"ls\"}", "line 1: missing field `expect`"),
        ("[\n{\"expect\":\"ask\"}]", "line 2: missing field `command`"),
        ("cases: []", "line 1: unknown field `cases`"),
        (
            "- command: ls\n  expect: ask\n- command: ls\n",
            "line 3: missing field `expect`",
        ),
        ("hello", "line 1:"),
        (
            "{\"command\":\"ls\",\"expect\":\"ask\",\"alowlist\":[]}",
            "unknown field `alowlist`",
        ),
    ] {
        let done = alone(text);
        assert_eq!((done.code, done.stdout.as_str()), (Some(64), ""), "{text}");
        let problem: Value = serde_json::from_str(&done.stderr).expect("a problem document");
        assert_eq!(problem["code"], "usage", "{text}: {problem}");
        assert_says(problem["detail"].as_str().expect("a text"), told);
    }
}

#[tokio::test]
async fn cases_without_a_world_ask_the_policy_in_force() {
    let list = json!({ "allowlist": [{ "pattern": "/bin/echo" }] });
    // Nobody is connected who could be asked: that is no matter of policy.
    let server = TestServer::allowlist_only()
        .exec(&json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" }))
        .agents(&json!({ "main": list, "closed": { "security": "deny" } }))
        .start()
        .await;
    let cases = server.scratch().join("cases.jsonl");
    let lines = [
        json!({ "command": "/bin/echo x", "expect": "allow" }),
        json!({ "command": "/bin/date", "expect": "ask" }),
        json!({ "command": "/bin/echo x", "agent": "closed", "expect": "reject" }),
        json!({ "command": " ", "expect": "reject" }),
        json!({ "id": "wrong", "command": "/bin/date", "expect": "allow" }),
        json!({ "id": "blank", "command": "", "expect": "allow" }),
    ];
    write_file(&cases, lines.map(|line| line.to_string()).join("\n"));
    let call = server.invocation(&["policy", "test", "--json"]).arg(&cases);
    let told = json_of(&TestServer::finish(call).await, 1);
    let failed = told.list("failed");
    assert_has!(told, { "total": 6, "passed": 4 });
    let actual = |case: &Value| (case["id"].clone(), case["actual"].clone());
    assert_eq!(
        failed.iter().map(actual).collect::<Vec<_>>(),
        [(json!("wrong"), json!("ask")), (json!("blank"), json!("reject"))]
    );
    let call = server.invocation(&["policy", "test"]).arg(&cases);
    let done = TestServer::finish(call).await;
    assert!(done.stdout.ends_with("4 of 6 as expected\n"), "{done:?}");
    let runs = server.operator().read("/v1/runs").await;
    assert_eq!(runs["items"], json!([]), "nothing was run or asked");
}

#[tokio::test]
async fn a_question_is_one_whatever_its_fallback_would_do() {
    for (security, ask, fallback) in [
        ("allowlist", "on-miss", "full"),
        ("allowlist", "on-miss", "allowlist"),
        ("full", "always", "full"),
    ] {
        let server = TestServer::allowlist_only()
            .exec(&json!({ "host": "gateway", "security": security, "ask": ask }))
            .document(&json!({ "version": 1, "defaults": { "security": security, "ask": ask, "askFallback": fallback } }))
            .start()
            .await;
        let cases = server.scratch().join("cases.jsonl");
        write_file(&cases, r#"{"command":"/bin/date","expect":"ask"}"#);
        let call = server.invocation(&["policy", "test", "--json"]).arg(&cases);
        assert_has!(json_of(&TestServer::finish(call).await, 0), { "passed": 1 }, "{fallback}");
    }
}

#[test]
fn without_a_server_the_files_are_judged() {
    let scratch = Scratch::new();
    let run = |cases: &str| {
        let file = scratch.join("cases.jsonl");
        write_file(&file, cases);
        let call = countersign()
            .args(&["policy", "test", "--json"])
            .arg(&file)
            .env("OPENCLAW_STATE_DIR", scratch.path());
        run_program(&call)
    };
    // With nothing configured commands go to the sandbox, of which files say nothing.
    let done = run(r#"{"command":"/bin/date","expect":"ask"}"#);
    assert_eq!(done.code, Some(69), "{done:?}");
    let exec = json!({ "host": "gateway", "security": "allowlist", "ask": "on-miss" });
    write_file(
        &scratch.join("openclaw.json"),
        json!({ "tools": { "exec": exec } }).to_string(),
    );
    let document = json!({
        "version": 1,
        "agents": { "main": { "allowlist": [{ "pattern": "/bin/echo" }], "denylist": [{ "pattern": "mkfs" }] } },
        "defaults": { "security": "allowlist", "ask": "on-miss", "askFallback": "full" }
    });
    write_file(&scratch.join("exec-approvals.json"), document.to_string());
    let done = run(concat!(
        r#"{"command":"/bin/echo x","expect":"allow"}"#,
        r#"{"command":"/bin/date","expect":"ask"}"#,
        r#"{"command":"mkfs x","expect":"reject"}"#,
        r#"{"command":" ","expect":"reject"}"#
    ));
    assert_eq!(json_of(&done, 0)["passed"], 4);
}

#[test]
fn our_cases_of_each_rule_are_judged_alike() {
    let scratch = Scratch::new();
    let file = scratch.join("cases.jsonl");
    let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/analysis"));
    let text: String = folder
        .expect("the folder of cases")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a file of cases"))
        .collect();
    let total = text.lines().count();
    write_file(&file, text);
    let call = countersign()
        .args(&["policy", "test", "--json"])
        .arg(&file)
        .env("OPENCLAW_STATE_DIR", scratch.join("nothing"));
    let done = run_program(&call);
    let told: Value = serde_json::from_str(&done.stdout).expect("one document");
    assert_eq!(told, json!({ "total": total, "passed": total, "failed": [] }));
    assert_eq!(done.code, Some(0));
}

#[tokio::test]
async fn the_server_tests_cases_as_the_command_line_does() {
    let server = TestServer::asking()
        .document(
            &json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/echo" }] } } }),
        )
        .start()
        .await;
    let operator = server.operator();
    let cases = "- command: /bin/echo x\n  expect: allow\n- command: /bin/date\n  expect: allow\n- {id: other, command: ' ', expect: reject}\n- {id: alone, command: git status, expect: allow, path_dirs: {git: /usr/bin/git}, allowlist: [{pattern: /usr/bin/git}]}\n- {id: nobody, command: /bin/echo x, agent: build, expect: allow}\n";
    let told = operator
        .post("/v1/policy/tests", json!({ "cases": cases }))
        .await
        .expect(200);
    let scratch = Scratch::new();
    let file = scratch.join("cases.yaml");
    write_file(&file, cases);
    let done = server
        .cli(&["policy", "test", "--json", file.to_str().expect("UTF-8")])
        .await;
    assert_eq!(told, json_of(&done, 1));
    assert_eq!((&told["total"], &told["passed"]), (&json!(5), &json!(3)));
    assert_eq!(told["failed"][0]["id"], "3");
    assert_eq!(told["failed"][0]["actual"], "ask");
    assert_eq!(told["failed"][1]["id"], "nobody");
    // Nothing ran and nobody was asked.
    assert_eq!(operator.read("/v1/runs").await.list("items").len(), 0);
    assert_eq!(operator.pending().await.len(), 0);
}

#[tokio::test]
async fn cases_that_cannot_be_read_or_are_too_many_are_refused() {
    let server = TestServer::asking().start().await;
    let operator = server.operator();
    let many = |count: usize| "- {command: 'true', expect: ask}\n".repeat(count);
    let level = |level: usize| {
        format!(
            "  - &a{level} [{}]\n",
            vec![format!("*a{}", level - 1); 10].join(", ")
        )
    };
    let bomb: String = (1..10).map(level).collect();
    let bomb = format!("command: ls\nexpect: ask\nwhy:\n  - &a0 [x]\n{bomb}");
    for (cases, says) in [
        (String::new(), "1 to 100 cases, not 0"),
        (many(101), "1 to 100 cases, not 101"),
        ("- command: ls".to_owned(), "line 1: missing field `expect`"),
        ("- {command: ls, expect: maybe}".to_owned(), "unknown variant"),
        (bomb, "cases: "),
    ] {
        let problem = operator.post("/v1/policy/tests", json!({ "cases": cases })).await;
        let problem = problem.problem(400, "invalid-request");
        let told = problem["detail"].as_str().unwrap_or_default();
        assert!(told.contains(says), "{told} lacks {says}");
    }
    let all = operator
        .post("/v1/policy/tests", json!({ "cases": many(100) }))
        .await;
    assert_eq!(all.expect(200)["total"], 100);
    // A token that is bound to an agent tests what it is for, and nothing of another.
    let (_, bound) = server
        .token_with(json!({ "name": "bound", "scopes": ["read"], "agents": ["main"] }))
        .await;
    let case =
        |agent: &str| json!({ "cases": format!("- {{command: 'true', agent: {agent}, expect: ask}}") });
    bound.post("/v1/policy/tests", case("main")).await.expect(200);
    bound
        .post("/v1/policy/tests", case("build"))
        .await
        .problem(403, "forbidden");
}
