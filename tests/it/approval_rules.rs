//! `[[approvals.rules]]`: how many people a command takes, of which groups, and how long they and it have.

use std::{os::unix::fs::symlink, path::Path};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{Api, Members, OperatorClient, Scratch, TestServer, eventually, lines, only};

const TWO: &str = "[[approvals.rules]]\napprovals_required = 2\n";

/// People with tokens of their own: names, and the groups of their tokens.
async fn people<const N: usize>(server: &TestServer, who: [(&str, &[&str]); N]) -> [Api; N] {
    let tokens = who.map(|(name, groups)| async move {
        let groups = groups.iter().flat_map(|group| ["--group", *group]);
        server.token_of_member(name, &["read", "approve"], groups).await
    });
    let apis: Vec<Api> = join_all(tokens).await;
    apis.try_into().expect("one for each")
}

pub(super) async fn ann_and_bob(server: &TestServer) -> [Api; 2] {
    people(server, [("ann", &[]), ("bob", &[])]).await
}

fn append_line(file: &Path) -> Value {
    json!({ "command": format!("echo ran >> {}", file.display()) })
}

fn id(pending: &Value) -> &str {
    pending.text("approvalId")
}

async fn approval(server: &TestServer, pending: &Value) -> Value {
    let path = format!("/v1/approvals/{}", id(pending));
    server.operator().read(&path).await
}

/// What a question takes: how many people, and of which groups.
async fn takes(server: &TestServer, body: Value) -> (u64, Value) {
    let approval = approval(server, &server.asked(body).await).await;
    let required = approval["approvalsRequired"].as_u64().expect("a number");
    (required, approval["groups"].clone())
}

fn names(approval: &Value) -> Vec<&str> {
    let votes = approval["votes"].as_array().map(Vec::as_slice);
    votes
        .unwrap_or_default()
        .iter()
        .filter_map(|vote| vote["by"]["name"].as_str())
        .collect()
}

#[tokio::test]
async fn a_rule_that_is_added_counts_at_once_and_one_that_is_taken_away_until_a_restart() {
    const BASE: &str = "[exec]\nlogin_path = false\n[approvals]\nalways_reachable = true\n";
    let server = TestServer::asking_with("").start().await;
    let rules = async || {
        let settings = server.operator().read("/v1/settings").await;
        let items = settings.list("items").clone();
        let rules = items.iter().find(|item| item["path"] == "approvals.rules");
        rules.expect("the rules").clone()
    };
    let question = || json!({ "command": "id -u" });
    assert_eq!(takes(&server, question()).await.0, 1);

    server.edit_toml(&format!("{BASE}{TWO}"));
    assert_eq!(rules().await.get("waiting"), None);
    assert_eq!(takes(&server, question()).await.0, 2);

    for looser in ["", "[[approvals.rules]]\napprovals_required = 1\n"] {
        server.edit_toml(&format!("{BASE}{looser}"));
        let shown = rules().await;
        assert_eq!(shown["waitsFor"], "restart", "{shown}");
        assert_eq!(shown["value"][0]["approvals_required"], 2, "{shown}");
        assert_eq!(takes(&server, question()).await.0, 2);
    }
}

#[tokio::test]
async fn two_people_start_it_and_one_does_not() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let file = server.scratch().join("lines");
    let pending = server.asked(append_line(&file)).await;
    assert_eq!(pending["approvalsRequired"], 2);
    let first = ann
        .posted(
            &format!("/v1/approvals/{}/decision", id(&pending)),
            json!({ "decision": "allow-once", "reason": "I have read it" }),
        )
        .await;
    assert_has!(first, { "applied": true, "approval/status": "pending" });
    let vote = &first["approval"]["votes"][0];
    assert_eq!(
        only(vote, &["decision", "reason"]),
        json!({ "decision": "allow-once", "reason": "I have read it" })
    );
    assert_eq!(vote["by"]["name"], "ann");
    assert!(vote["atMs"].is_i64(), "{vote}");
    let run = server.agent().run(pending.text("runId")).await;
    assert_eq!(run["status"], "approval-pending");
    assert_eq!(lines(&file), Vec::<String>::new());

    let second = bob.decided(id(&pending), "allow-once").await;
    assert_has!(second["approval"], { "status": "allowed", "decision": "allow-once" });
    assert_eq!(second["approval"]["resolvedBy"]["name"], "bob");
    assert_eq!(names(&second["approval"]), ["ann", "bob"]);
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(lines(&file), ["ran"]);
    let audit = server.operator().read("/v1/audit?action=approval.voted").await;
    assert_has!(audit["items"][0]["detail"], { "decision": "allow-once", "votes": 1, "required": 2 });
}

#[tokio::test]
async fn a_vote_is_an_event_that_says_who_and_how_many_it_takes() {
    let rules = "[[approvals.rules]]\napprovals_required = 2\ngroups = [\"dba\", \"ops\"]\n";
    let server = TestServer::asking_with(rules).start().await;
    let [ann, bob] = people(&server, [("ann", &["ops", "x"]), ("bob", &["dba"])]).await;
    let mut stream = server.operator().events("?types=exec.approval", None).await;
    let mut bridge = OperatorClient::new(ann.token().expect("a token"), &["operator.approvals"])
        .connect(&server)
        .await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let asked = stream.next_of("exec.approval.requested").await.data;
    assert_has!(asked, { "approvalsRequired": 2, "groups": ["dba", "ops"] });
    let vote = json!({ "decision": "allow-once", "reason": "the token is hunter2" });
    ann.posted(&format!("/v1/approvals/{}/decision", id(&pending)), vote)
        .await;
    let voted = stream.next().await;
    assert_eq!(voted.kind, "exec.approval.voted");
    let members = [
        "approvalId",
        "runId",
        "agentId",
        "decision",
        "votes",
        "approvalsRequired",
        "groups",
    ];
    assert_eq!(
        only(&voted.data, &members),
        json!({
            "approvalId": id(&pending), "runId": pending["runId"], "agentId": "main", "decision": "allow-once",
            "votes": 1, "approvalsRequired": 2, "groups": ["ops"],
        })
    );
    assert_eq!(voted.data["by"]["name"], "ann");
    // What somebody says to the other approvers is for them.
    assert!(!voted.data.to_string().contains("hunter2"), "{}", voted.data);
    bob.decided(id(&pending), "allow-once").await;
    assert_eq!(stream.next().await.kind, "exec.approval.resolved");
    // The Bridge has no such event.
    bridge.event("exec.approval.resolved").await;
    let others: Vec<&str> = bridge
        .untaken()
        .filter(|name| name.contains("approval"))
        .collect();
    assert_eq!(others, ["exec.approval.requested"]);
    let verified = server.cli(&["audit", "verify"]).await;
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[tokio::test]
async fn one_person_counts_once_by_whatever_edge() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    assert_eq!(ann.decided(id(&pending), "allow-once").await["applied"], true);
    let again = ann.decided(id(&pending), "allow-once").await;
    assert_has!(again, { "applied": false, "approval/status": "pending" });
    // Over the Bridge she is the same person.
    let mut operator = OperatorClient::new(ann.token().expect("a token"), &["operator.approvals"])
        .connect(&server)
        .await;
    let resolve = json!({ "id": id(&pending), "decision": "allow-once" });
    operator.call("exec.approval.resolve", resolve).await;
    let seen = approval(&server, &pending).await;
    assert_eq!((&seen["status"], names(&seen)), (&json!("pending"), vec!["ann"]));
    // Whoever asked is none of them.
    server
        .agent()
        .decide(id(&pending), "allow-once")
        .await
        .problem(403, "forbidden");
    // Over the Bridge another person counts.
    let mut operator = OperatorClient::new(bob.token().expect("a token"), &["operator.approvals"])
        .connect(&server)
        .await;
    let listed = operator.call("exec.approval.list", json!({})).await;
    assert_has!(listed, { "0/request/warningText": "2 different people have to allow this." });
    let resolve = json!({ "id": id(&pending), "decision": "allow-once" });
    assert_eq!(
        operator.call("exec.approval.resolve", resolve).await,
        json!({ "ok": true })
    );
    assert_eq!(approval(&server, &pending).await["status"], "allowed");
}

#[tokio::test]
async fn one_no_is_enough_whoever_said_yes() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let file = server.scratch().join("lines");
    let pending = server.asked(append_line(&file)).await;
    ann.decided(id(&pending), "allow-once").await;
    let denied = bob.decided(id(&pending), "deny").await;
    assert_eq!(denied["approval"]["status"], "denied");
    assert_eq!(names(&denied["approval"]), ["ann", "bob"]);
    ann.decide(id(&pending), "allow-once")
        .await
        .problem(409, "approval-already-resolved");
    let run = server.agent().run(pending.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "user-denied" });
    // Who allowed it may think better of it.
    let pending = server.asked(append_line(&file)).await;
    ann.decided(id(&pending), "allow-once").await;
    assert_has!(ann.decided(id(&pending), "deny").await, { "approval/status": "denied" });
    assert_eq!(lines(&file), Vec::<String>::new());
}

#[tokio::test]
async fn only_members_of_the_groups_allow_and_everybody_denies() {
    let rules = "[[approvals.rules]]\nagents = [\"main\"]\ngroups = [\"ops\", \"dba\"]\n";
    let server = TestServer::asking_with(rules).start().await;
    let [ann, bob] = people(&server, [("ann", &["ops", "x"]), ("bob", &["sales"])]).await;
    let body = json!({ "argv": ["/bin/date"] });
    assert_eq!(takes(&server, body.clone()).await, (1, json!(["dba", "ops"])));
    let pending = server.asked(body.clone()).await;
    for outsider in [&bob, &server.operator()] {
        let problem = outsider
            .decide(id(&pending), "allow-once")
            .await
            .problem(403, "forbidden");
        let detail = problem.text("detail");
        assert!(detail.contains("dba, ops"), "{detail}");
    }
    let mut operator = OperatorClient::new(bob.token().expect("a token"), &["operator.approvals"])
        .connect(&server)
        .await;
    let error = operator
        .fails(
            "exec.approval.resolve",
            json!({ "id": id(&pending), "decision": "allow-once" }),
        )
        .await;
    assert_eq!(error["details"]["reason"], "APPROVAL_NOT_IN_GROUPS");
    assert_eq!(approval(&server, &pending).await["status"], "pending");
    assert_has!(ann.decided(id(&pending), "allow-once").await, { "approval/status": "allowed" });
    let pending = server.asked(body).await;
    assert_has!(bob.decided(id(&pending), "deny").await, { "approval/status": "denied" });
}

#[tokio::test]
async fn votes_survive_a_crash_and_the_second_comes_after_it() {
    let mut server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let file = server.scratch().join("lines");
    let pending = server.asked(append_line(&file)).await;
    ann.decided(id(&pending), "allow-once").await;
    let before = approval(&server, &pending).await;
    server.crash_and_restart().await;
    // The port is another one.
    let after_restart = |api: &Api| server.operator().with_token(api.token());
    assert_eq!(approval(&server, &pending).await, before);
    let again = after_restart(&ann).decided(id(&pending), "allow-once").await;
    assert_has!(again, { "applied": false, "approval/status": "pending" });
    after_restart(&bob).decided(id(&pending), "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "completed");
    server.crash_and_restart().await;
    assert_eq!(names(&approval(&server, &pending).await), ["ann", "bob"]);
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn of_many_votes_at_once_none_is_lost_and_none_counts_twice() {
    let rules = "[[approvals.rules]]\napprovals_required = 6\n";
    let server = TestServer::asking_with(rules).start().await;
    let people = people(
        &server,
        ["a", "b", "c", "d", "e"].map(|name| (name, &[] as &[&str])),
    )
    .await;
    let file = server.scratch().join("lines");
    let pending = server.asked(append_line(&file)).await;
    // Each of the five says yes eight times, all at once.
    let question = id(&pending);
    let answers = people
        .iter()
        .flat_map(|person| (0..8).map(move |_| person.decide(question, "allow-once")));
    let answers = join_all(answers).await;
    let applied = answers
        .iter()
        .filter(|answer| answer.expect(200)["applied"] == true)
        .count();
    assert_eq!(applied, 5);
    let seen = approval(&server, &pending).await;
    let mut voters = names(&seen);
    voters.sort_unstable();
    assert_eq!(
        (&seen["status"], voters),
        (&json!("pending"), vec!["a", "b", "c", "d", "e"])
    );
    assert_eq!(lines(&file), Vec::<String>::new());
    let run = server.answered(&pending, "allow-once").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(lines(&file), ["ran"]);
}

#[tokio::test]
async fn the_last_votes_of_two_people_at_once_start_it_once() {
    let server = TestServer::asking_with(TWO).start().await;
    let people = ann_and_bob(&server).await;
    for round in 0..10 {
        let file = server.scratch().join(&format!("lines-{round}"));
        let pending = server.asked(append_line(&file)).await;
        let answers = people
            .iter()
            .map(|person| person.decide(id(&pending), "allow-once"));
        let settled = join_all(answers)
            .await
            .iter()
            .filter(|answer| answer.expect(200)["approval"]["status"] == "allowed")
            .count();
        assert_eq!(settled, 1, "one is the first, and the other the last");
        server.agent().finished(pending.text("runId")).await;
        assert_eq!(lines(&file), ["ran"]);
    }
}

#[tokio::test]
async fn a_vote_of_a_token_that_was_revoked_does_not_count() {
    let server = TestServer::asking_with(TWO).start().await;
    let [bob] = people(&server, [("bob", &[])]).await;
    let [mallory] = people(&server, [("mallory", &[])]).await;
    let mallory_id = server.token_id("mallory").await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    mallory.decided(id(&pending), "allow-once").await;
    let revoked = server
        .operator()
        .delete(&format!("/v1/tokens/{mallory_id}"))
        .await;
    assert_eq!(revoked.status, 204);
    let counted = bob.decided(id(&pending), "allow-once").await;
    assert_eq!(counted["approval"]["status"], "pending");
    assert_eq!(names(&counted["approval"]), ["bob"]);
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
}

#[tokio::test]
async fn the_narrowest_answer_of_all_counts() {
    let server = TestServer::asking_with(TWO).start().await;
    let [ann, bob] = ann_and_bob(&server).await;
    let body = json!({ "argv": ["/bin/date", "--version"] });
    let answered = async |first: &str, second: &str| {
        let pending = server.asked(body.clone()).await;
        ann.decided(id(&pending), first).await;
        let decided = bob.decided(id(&pending), second).await;
        server.agent().finished(pending.text("runId")).await;
        decided["approval"].text("decision").to_owned()
    };
    assert_eq!(answered("allow-always", "allow-once").await, "allow-once");
    assert_eq!(answered("allow-once", "allow-always").await, "allow-once");
    // Who said more than it came to may say so again.
    let pending = server.asked(body.clone()).await;
    ann.decided(id(&pending), "allow-once").await;
    bob.decided(id(&pending), "allow-always").await;
    let again = bob.decided(id(&pending), "allow-always").await;
    assert_has!(again, { "applied": false, "approval/decision": "allow-once" });
    ann.decide(id(&pending), "allow-always")
        .await
        .problem(409, "approval-already-resolved");
    server.agent().finished(pending.text("runId")).await;
    // Nothing was remembered so far: it is asked about again.
    assert_eq!(answered("allow-always", "allow-always").await, "allow-always");
    server.ran(body.clone()).await;
}

#[tokio::test]
async fn the_first_rule_that_matches_counts_for_each_program() {
    let rules = r#"
[[approvals.rules]]
agents = ["free"]

[[approvals.rules]]
patterns = ["/bin/date", "/usr/bin/date"]
groups = ["clock"]

[[approvals.rules]]
hosts = ["sandbox", "node"]
approvals_required = 9

[[approvals.rules]]
hosts = ["gateway"]
patterns = ["*"]
approvals_required = 2

[[approvals.rules]]
approvals_required = 50
"#;
    let server = TestServer::asking_with(rules).start().await;
    let argv = |program: &str| json!({ "argv": [program] });
    let text = |command: &str| json!({ "command": command });
    assert_eq!(
        takes(&server, json!({ "argv": ["/usr/bin/id"], "agentId": "free" })).await,
        (1, Value::Null)
    );
    assert_eq!(takes(&server, argv("/bin/date")).await, (1, json!(["clock"])));
    assert_eq!(takes(&server, argv("date")).await, (1, json!(["clock"])));
    assert_eq!(takes(&server, argv("/usr/bin/id")).await, (2, Value::Null));
    // What is put beside a command takes nothing away.
    for command in ["/usr/bin/id; /bin/date", "/bin/date && /usr/bin/id", "date | id"] {
        assert_eq!(
            takes(&server, text(command)).await,
            (2, json!(["clock"])),
            "{command}"
        );
    }
    // What could not be analysed may be anything.
    for command in ["echo $(id)", "xargs id"] {
        assert_eq!(
            takes(&server, text(command)).await,
            (2, json!(["clock"])),
            "{command}"
        );
    }
    // A name is no disguise.
    let disguised = server.scratch().join("date");
    symlink("/usr/bin/id", &disguised).unwrap();
    let (required, _groups) = takes(&server, argv(disguised.to_str().unwrap())).await;
    assert_eq!(required, 2);
    let hidden = server.scratch().join("hidden");
    symlink("/bin/date", &hidden).unwrap();
    let (_required, groups) = takes(&server, argv(hidden.to_str().unwrap())).await;
    assert_eq!(groups, json!(["clock"]));
}

#[tokio::test]
async fn what_may_run_more_than_its_file_may_be_anything() {
    let rules = "[[approvals.rules]]\npatterns = [\"deploy-it\"]\napprovals_required = 2\n";
    let server = TestServer::asking_with(rules).start().await;
    let text = |command: &str| json!({ "command": command });
    for command in [
        "perl -e 'exec deploy-it'",
        "awk 'BEGIN { system(\"deploy-it\") }'",
        "sed 1edeploy-it /etc/hostname",
        "echo 'exec deploy-it' | perl",
        "sh -c 'perl -e 1'",
        "split --filter=deploy-it /etc/hostname",
        "xargs deploy-it",
    ] {
        assert_eq!(takes(&server, text(command)).await.0, 2, "{command}");
    }
    for command in ["/bin/date", "split /etc/hostname /tmp/x", "sh -c date"] {
        assert_eq!(takes(&server, text(command)).await.0, 1, "{command}");
    }
}

#[tokio::test]
async fn a_program_is_meant_by_every_name_of_its_file() {
    let tools = Scratch::new();
    let path = |name: &str| tools.join(name).to_str().unwrap().to_owned();
    for directory in ["bin", "lib"] {
        std::fs::create_dir(tools.join(directory)).unwrap();
    }
    for name in ["lib/deploy-1.2", "lib/drop", "lib/date"] {
        std::fs::copy("/bin/date", tools.join(name)).unwrap();
    }
    // A name that the run PATH leads elsewhere, and a second name of the very file.
    symlink(tools.join("lib/deploy-1.2"), tools.join("bin/deploy")).unwrap();
    std::fs::hard_link(tools.join("lib/drop"), tools.join("lib/harmless")).unwrap();
    let rules = format!(
        "[[approvals.rules]]\npatterns = [\"deploy\"]\napprovals_required = 2\n\
         [[approvals.rules]]\npatterns = [\"{}\"]\napprovals_required = 3\n",
        path("lib/drop")
    );
    let server = TestServer::asking_with(&rules)
        .exec(&json!({
            "host": "gateway", "security": "allowlist", "ask": "on-miss", "pathPrepend": [path("bin")],
        }))
        .start()
        .await;
    for (program, required) in [
        ("deploy".to_owned(), 2),
        (path("lib/deploy-1.2"), 2),
        (path("lib/drop"), 3),
        (path("lib/harmless"), 3),
        (path("lib/date"), 1),
    ] {
        let taken = takes(&server, json!({ "argv": [program] })).await;
        assert_eq!(taken.0, required, "{program}");
    }
}

#[tokio::test]
async fn rules_that_have_no_group_in_common_leave_nobody_to_allow() {
    let rules = "[[approvals.rules]]\npatterns = [\"date\"]\ngroups = [\"a\"]\n\
                 [[approvals.rules]]\npatterns = [\"id\"]\ngroups = [\"b\"]\n";
    let server = TestServer::asking_with(rules).start().await;
    let [both] = people(&server, [("both", &["a", "b"])]).await;
    let pending = server.asked(json!({ "command": "date; id" })).await;
    assert_eq!(approval(&server, &pending).await["groups"], json!([]));
    let problem = both
        .decide(id(&pending), "allow-once")
        .await
        .problem(403, "forbidden");
    assert!(problem.text("detail").contains("one by one"), "{problem}");
    assert_has!(both.decided(id(&pending), "deny").await, { "approval/status": "denied" });
}

#[tokio::test]
async fn a_rule_has_clocks_of_its_own() {
    let rules = "[[approvals.rules]]\nagents = [\"hasty\"]\ndecide_by_ms = 1000\napprovals_required = 2\n\
                 [[approvals.rules]]\nagents = [\"prompt\"]\ndecide_by_ms = 60000\nstart_by_ms = 1\n";
    let server = TestServer::asking_with(rules)
        .toml("[limits]\nmax_running = 1\n")
        .start()
        .await;
    let of = |agent: &str| json!({ "argv": ["/bin/date"], "agentId": agent });
    let time = |approval: &Value| {
        approval["expiresAtMs"].as_i64().unwrap() - approval["createdAtMs"].as_i64().unwrap()
    };
    let other = approval(&server, &server.asked(of("main")).await).await;
    assert_eq!(time(&other), 1_800_000);
    // One of two is not enough when the time is up.
    let hasty = server.asked(of("hasty")).await;
    assert_eq!(time(&approval(&server, &hasty).await), 1000);
    server.operator().decide(id(&hasty), "allow-once").await;
    let run = server.agent().finished(hasty.text("runId")).await;
    assert_has!(run, { "status": "denied", "reason": "approval-timeout" });
    assert_eq!(approval(&server, &hasty).await["status"], "expired");

    // The only place to run is taken, so the other cannot start in time.
    let long = server.asked(json!({ "argv": ["/bin/sleep", "600"] })).await;
    server.operator().decided(id(&long), "allow-once").await;
    let long = long.text("runId");
    let agent = server.agent();
    eventually("running", || agent.run(long), |run| run["status"] == "running").await;
    let prompt = server.asked(of("prompt")).await;
    assert_eq!(time(&approval(&server, &prompt).await), 60_000);
    let run = server.answered(&prompt, "allow-once").await;
    assert_has!(run, { "status": "failed", "reason": "not-started" });
    server.operator().cancel(long).await;
    server.agent().finished(long).await;
}

#[tokio::test]
async fn an_explanation_and_the_command_line_say_what_it_takes() {
    let rules = "[[approvals.rules]]\napprovals_required = 2\ngroups = [\"ops\"]\n";
    let server = TestServer::asking_with(rules).start().await;
    let body = json!({ "argv": ["/bin/date"] });
    let explained = server.agent().explain(body.clone()).await;
    assert_has!(explained, { "outcome": "ask", "approvalsRequired": 2, "groups": ["ops"] });
    let shown = server.cli(&["exec", "--explain", "--", "/bin/date"]).await;
    shown.says("2 different people");
    shown.says("ops");
    let pending = server.asked(body).await;
    let [ann] = people(&server, [("ann", &["ops"])]).await;
    ann.decided(id(&pending), "allow-once").await;
    let listed = server.cli(&["approvals", "list"]).await;
    assert!(listed.stdout.contains("pending, 1 of 2"), "{listed:?}");
    let shown = server.cli(&["approvals", "show", id(&pending)]).await;
    for said in ["1 of 2", "ops", "ann: allow-once"] {
        assert!(shown.stdout.contains(said), "{said}: {shown:?}");
    }
    let refused = server
        .cli(&["approvals", "resolve", id(&pending), "allow-once"])
        .await;
    refused.complains("error[forbidden]");
    refused.complains("ops");
}

#[tokio::test]
async fn the_command_line_says_that_another_person_is_needed() {
    let server = TestServer::asking_with(TWO).start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let resolve = ["approvals", "resolve", id(&pending), "allow-once"];
    let first = server.cli(&resolve).await;
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(first.stdout.contains("allowed by 1 of 2"), "{first:?}");
    let again = server.cli(&resolve).await;
    again.says("your answer was there already");
    assert_eq!(approval(&server, &pending).await["status"], "pending");
    // A token as docs/approval-rules.md makes it.
    let arguments = [
        "token",
        "create",
        "bob",
        "--scope",
        "read,approve",
        "--group",
        "ops",
        "--group",
        "dba",
        "--owner",
        "bob",
    ];
    let made = server.cli(&arguments).await;
    assert_eq!(made.code, Some(0), "{made:?}");
    let bob = server.operator().with_token(Some(made.stdout.trim()));
    bob.decided(id(&pending), "allow-once").await;
    assert_eq!(approval(&server, &pending).await["status"], "allowed");
    let tokens = server.operator().read("/v1/tokens").await;
    let groups = json!(["dba", "ops"]);
    let tokens = tokens.list("items");
    assert!(tokens.iter().any(|token| token["groups"] == groups), "{tokens:?}");
}

#[tokio::test]
async fn chat_text_counts_as_the_token_that_brings_it() {
    let server = TestServer::asking_with(TWO)
        .config(&json!({
            "tools": { "exec": { "host": "gateway", "security": "allowlist", "ask": "on-miss" } },
            "commands": { "allowFrom": { "telegram": ["id:42", "id:43"] } },
        }))
        .start()
        .await;
    let relay = server.token_of("bot", &["relay", "approve"]).await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let slug = &id(&pending)[..8];
    let say = async |sender: &str| {
        let body = json!({
            "text": format!("/approve {slug} allow-once"), "sender": { "provider": "telegram", "id": sender },
        });
        let answer = relay.posted("/v1/sessions/agent:main:main/commands", body).await;
        answer.text("reply").to_owned()
    };
    assert_eq!(
        say("42").await,
        format!("Approval {slug}: allowed by 1 of 2. It waits for another approver.")
    );
    // Reasons differ, and the relay vouches for both senders, but it is one token.
    say("43").await;
    assert_eq!(approval(&server, &pending).await["status"], "pending");
    assert_has!(server.answered(&pending, "allow-once").await, { "status": "completed" });
}

#[tokio::test]
async fn a_changed_command_takes_what_its_own_rule_says() {
    let rules = "[[approvals.rules]]\npatterns = [\"id\"]\napprovals_required = 2\n";
    let server = TestServer::asking_with(rules).start().await;
    let pending = server.asked(json!({ "argv": ["/bin/date"] })).await;
    let revised = server
        .operator()
        .made(
            &format!("/v1/approvals/{}/revision", id(&pending)),
            json!({ "argv": ["/usr/bin/id"] }),
        )
        .await;
    assert_eq!(revised["approvalsRequired"], 2);
    let revised = revised.text("id");
    let first = server.operator().decided(revised, "allow-once").await;
    assert_eq!(first["approval"]["status"], "pending");
    let [ann] = people(&server, [("ann", &[])]).await;
    assert_has!(ann.decided(revised, "allow-once").await, { "approval/status": "allowed" });
}

#[tokio::test]
async fn silence_after_one_of_two_is_silence() {
    let server = TestServer::asking_with("timeout_ms = 1000\n[[approvals.rules]]\napprovals_required = 2\n")
        .document(&json!({ "version": 1, "defaults": { "askFallback": "full" }, "agents": {} }))
        .start()
        .await;
    let file = server.scratch().join("lines");
    let pending = server.asked(append_line(&file)).await;
    server.operator().decide(id(&pending), "allow-once").await;
    let run = server.agent().finished(pending.text("runId")).await;
    assert_eq!(run["status"], "denied", "{run}");
    assert_eq!(lines(&file), Vec::<String>::new());
    let [ann] = people(&server, [("ann", &[])]).await;
    ann.decide(id(&pending), "allow-once")
        .await
        .problem(410, "approval-expired");
}
