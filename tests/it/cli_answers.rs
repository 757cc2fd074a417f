//! `countersign approvals resolve` for several questions: by ids and by filters, at a terminal and without one.

use serde_json::{Value, json};

use crate::support::{Finished, Members, Terminal, TestServer};

/// A question of an agent: its id and what it would print.
async fn asked(server: &TestServer, agent: &str, word: &str) -> String {
    let body = json!({ "argv": ["/bin/echo", word], "agentId": agent });
    server.asked(body).await.text("approvalId").to_owned()
}

async fn status(server: &TestServer, id: &str) -> String {
    server.operator().approval(id).await.text("status").to_owned()
}

async fn resolve(server: &TestServer, words: &[&str]) -> Finished {
    let words = [&["approvals", "resolve"], words].concat();
    server.cli(&words).await
}

#[track_caller]
fn results_of(done: &Finished) -> Vec<Value> {
    let answer: Value =
        serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {done:#?}"));
    answer.list("results").clone()
}

#[track_caller]
fn assert_usage(done: &Finished, part: &str) {
    assert_eq!((done.code, done.stdout.as_str()), (Some(64), ""), "{done:?}");
    assert!(done.stderr.contains(part), "{part}: {done:?}");
}

#[tokio::test]
async fn several_ids_are_answered_and_each_is_told() {
    let server = TestServer::asking().start().await;
    let [one, two, three] = [
        asked(&server, "main", "one").await,
        asked(&server, "main", "two").await,
        asked(&server, "main", "three").await,
    ];
    // One of them twice, by its beginning.
    let done = resolve(
        &server,
        &[&one, &two[..8], &two, "allow-once", "--reason", "both"],
    )
    .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    for id in [&one, &two] {
        let line = format!("{} is answered: allow-once\n", &id[..8]);
        assert_eq!(done.stdout.matches(&line).count(), 1, "{done:?}");
        assert_eq!(server.operator().approval(id).await["reason"], "both");
    }
    assert_eq!(status(&server, &three).await, "pending");

    // Not all count: the exit code says so, and the others are told.
    let done = resolve(&server, &[&one, &three, "deny"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(
        lines[0].starts_with(&format!("{} is not answered: ", &one[..8])),
        "{done:?}"
    );
    assert!(lines[0].ends_with("(approval-already-resolved)"), "{done:?}");
    assert_eq!(lines[1], format!("{} is answered: deny", &three[..8]));

    let done = resolve(&server, &[&two, &three, "deny", "--json"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let results = results_of(&done);
    assert_has!(results[0], { "id": two, "status": 409, "problem/code": "approval-already-resolved" });
    assert_has!(results[1], { "id": three, "status": 200, "decided/applied": false });

    // An id that names nothing is found before anything is answered.
    let four = asked(&server, "main", "four").await;
    let done = resolve(&server, &[&four, "00000000", "deny"]).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.starts_with("error[approval-not-found]: "), "{done:?}");
    assert_eq!(status(&server, &four).await, "pending");
}

#[tokio::test]
async fn filters_answer_what_they_find_and_nothing_else() {
    let server = TestServer::asking().start().await;
    let [main, build, other] = [
        asked(&server, "main", "one").await,
        asked(&server, "build", "two").await,
        asked(&server, "build", "three").await,
    ];
    // Without a terminal an allow by filters needs --yes; what it would answer is shown.
    let done = resolve(&server, &["--agent", "build", "allow-once"]).await;
    assert_usage(&done, "error[not-confirmed]: ");
    for shown in [
        &build,
        &other,
        &"/bin/echo two".to_owned(),
        &"/bin/echo three".to_owned(),
    ] {
        assert!(done.stderr.contains(shown.as_str()), "{shown}: {done:?}");
    }
    assert!(!done.stderr.contains(&main), "{done:?}");
    assert_eq!(server.operator().pending().await.len(), 3);

    let done = resolve(
        &server,
        &["--agent", "build", "allow-once", "--limit", "1", "--yes"],
    )
    .await;
    assert_eq!((done.code, done.stdout.lines().count()), (Some(0), 1), "{done:?}");
    assert!(done.stderr.contains("more than 1 wait"), "{done:?}");
    assert_eq!(status(&server, &other).await, "allowed", "the newest");
    let done = resolve(&server, &["--agent", "build", "allow-once", "--yes", "--json"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let results = results_of(&done);
    assert_eq!(results.len(), 1, "{done:?}");
    assert_has!(results[0], { "id": build, "status": 200, "decided/applied": true });

    let done = resolve(
        &server,
        &["--session", "agent:main:main", "--status", "pending", "deny"],
    )
    .await;
    assert_eq!(done.code, Some(0), "a deny needs no confirmation: {done:?}");
    assert_eq!(status(&server, &main).await, "denied");

    // Nothing is left to answer.
    let done = resolve(&server, &["--status", "pending", "deny"]).await;
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{done:?}");
    let done = resolve(&server, &["--status", "pending", "deny", "--json"]).await;
    assert_eq!((done.code, results_of(&done)), (Some(0), Vec::new()), "{done:?}");
}

#[tokio::test]
async fn more_questions_than_one_request_takes_are_all_answered() {
    let server = TestServer::asking_with("max_pending_per_agent = 0").start().await;
    for number in 0..103 {
        asked(&server, "build", &number.to_string()).await;
    }
    let left = asked(&server, "main", "left").await;
    let done = resolve(&server, &["--agent", "build", "deny", "--json"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(results_of(&done).len(), 103);
    let pending = server.operator().pending().await;
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].text("id"), left);
}

#[tokio::test]
async fn calls_that_mean_nothing_answer_nothing() {
    let server = TestServer::asking().start().await;
    let id = asked(&server, "main", "one").await;
    let two = asked(&server, "main", "two").await;
    for (words, part) in [
        (&["deny"][..], "name ids of questions, or a filter"),
        (&[&id, "--agent", "main", "deny"], "not both"),
        (&["--limit", "3", "deny"], "--limit goes with"),
        (&["--status", "all", "deny"], "--status pending"),
        (&[&id, &two, "allow-always"], "allow-always answers one question"),
        (
            &["--agent", "main", "allow-always", "--yes"],
            "allow-always answers one question",
        ),
        (
            &[&id, &two, "allow-once", "--pattern", "/bin/echo"],
            "--pattern goes with",
        ),
        (&[&id, &two], "an answer is missing: "),
        (&["--yes"], "error[usage]: "),
    ] {
        let done = resolve(&server, words).await;
        assert_usage(&done, part);
    }
    assert_eq!(server.operator().pending().await.len(), 2);
}

#[tokio::test]
async fn a_person_confirms_an_allow_and_what_is_asked_meanwhile_is_untouched() {
    let server = TestServer::asking().start().await;
    let sit =
        || Terminal::start(server.invocation(&["approvals", "resolve", "--agent", "main", "allow-once"]));
    let before = asked(&server, "main", "before").await;

    let mut terminal = sit();
    terminal.sees("Allow these 1 once? [y/N]").await;
    terminal.press("\r");
    assert_eq!(terminal.ended().await, Some(1), "{}", terminal.text());
    assert!(
        terminal.text().contains("nothing was answered"),
        "{}",
        terminal.text()
    );
    assert_eq!(status(&server, &before).await, "pending");

    let mut terminal = sit();
    let shown = terminal.sees("Allow these 1 once? [y/N]").await;
    assert!(
        shown.contains("/bin/echo before") && shown.contains(&before),
        "{shown}"
    );
    let meanwhile = asked(&server, "main", "meanwhile").await;
    terminal.press("y\r");
    assert_eq!(terminal.ended().await, Some(0), "{}", terminal.text());
    assert!(
        terminal
            .text()
            .contains(&format!("{} is answered: allow-once", &before[..8]))
    );
    assert_eq!(status(&server, &before).await, "allowed");
    assert_eq!(status(&server, &meanwhile).await, "pending");
}

#[tokio::test]
async fn what_was_answered_while_a_person_thinks_is_told_and_stays() {
    let server = TestServer::asking().start().await;
    let [one, two] = [
        asked(&server, "main", "one").await,
        asked(&server, "main", "two").await,
    ];
    let words = ["approvals", "resolve", "--status", "pending", "allow-once"];
    let mut terminal = Terminal::start(server.invocation(&words));
    terminal.sees("Allow these 2 once? [y/N]").await;
    server.operator().decided(&one, "deny").await;
    terminal.press("y\r");
    assert_eq!(terminal.ended().await, Some(1), "{}", terminal.text());
    assert_eq!(status(&server, &one).await, "denied");
    assert_eq!(status(&server, &two).await, "allowed");
    assert!(
        terminal.text().contains("(approval-already-resolved)"),
        "{}",
        terminal.text()
    );
}

#[tokio::test]
async fn an_allow_shows_a_long_command_whole() {
    let server = TestServer::asking().start().await;
    let word = format!("{}end-of-it", "x".repeat(5000));
    asked(&server, "main", &word).await;
    asked(&server, "main", "a\nb\u{1b}[2J").await;
    let done = resolve(&server, &["--agent", "main", "allow-once"]).await;
    assert_usage(&done, "error[not-confirmed]: ");
    assert!(done.stderr.contains("end-of-it"), "{done:?}");
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
}
