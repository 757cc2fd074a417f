//! Real shells: what the analysis lets through, bash, dash and zsh read exactly as it did.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use super::{
    commands::Commands,
    execution::{Course, Ran, Stage},
};
use crate::support::{Invocation, Members, TestServer, program, run_long_program, skip, write_file};

/// Generated commands that are covered, with the script that they come to.
struct Allowed {
    text: String,
    script: String,
    expected: Course,
}

/// Whether what ran is what was foreseen: one after the other, those of a pipeline in any order.
fn compare(who: &str, allowed: &Allowed, ran: &[Ran], wrong: &mut Vec<String>) {
    let mut rest = ran;
    let mut seen = Course::new();
    for group in &allowed.expected {
        let (now, later) = rest.split_at(group.len().min(rest.len()));
        let mut now: Vec<Ran> = now.iter().map(Ran::plain).collect();
        if group.len() > 1 {
            now.sort();
        }
        seen.push(now);
        rest = later;
    }
    let more: Vec<Ran> = rest.iter().map(Ran::plain).collect();
    if seen != allowed.expected || !more.is_empty() {
        wrong.push(format!(
            "{who}: {:?}\nplan {}\nexpected {:?}\nran {seen:?}\nand {more:?}",
            allowed.text, allowed.script, allowed.expected,
        ));
    }
}

#[tokio::test]
async fn bash_dash_and_zsh_execute_exactly_what_the_plan_says() {
    let shells: Vec<_> = ["bash", "dash", "zsh"]
        .into_iter()
        .map(|name| (name, program(name)))
        .collect();
    if let Some((name, _)) = shells.iter().find(|(_, path)| path.is_none()) {
        return skip(&format!("there is no {name}"));
    }
    // Where the server's home is must be known before the server is.
    let home = crate::support::Scratch::new();
    let Some(stage) = Stage::set(&home.path()) else {
        return skip("there is no C compiler");
    };
    let entries: Vec<Value> = stage
        .patterns()
        .iter()
        .map(|pattern| json!({ "pattern": pattern }))
        .collect();
    let server = TestServer::allowlist_only()
        .allowlist(&json!(entries))
        .env("PATH", &stage.path())
        .env("HOME", stage.home.to_str().expect("UTF-8"))
        .start()
        .await;

    let wanted = super::wanted(250);
    let mut chance = super::chance();
    let mut commands = Commands {
        chance: &mut chance,
        wild: 0,
    };
    let mut allowed = Vec::new();
    let mut refused = Vec::new();
    while allowed.len() < wanted {
        let text = commands.command();
        let body = json!({ "command": text, "workdir": stage.work() });
        let explained = server.agent().explain(body).await;
        if explained["outcome"] == "run" {
            let script = explained["analysis"].text("rendered").to_owned();
            let Some(expected) = stage.foresee(&script) else {
                continue;
            };
            allowed.push(Allowed {
                text,
                script,
                expected,
            });
        } else {
            refused.push(format!("{text:?}: {}", explained["analysis"]["reason"]));
            assert!(
                refused.len() <= allowed.len() + 100,
                "most of the grammar is accepted: {:#?}",
                refused.iter().rev().take(20).collect::<Vec<_>>()
            );
        }
    }
    let programs: usize = allowed.iter().flat_map(|one| &one.expected).map(Vec::len).sum();
    assert!(programs > wanted, "the commands run something: {programs}");

    let mut wrong = Vec::new();
    for (name, shell) in shells {
        let shell = shell.expect("it is there");
        for (index, one) in allowed.iter().enumerate() {
            write_file(&stage.file(&format!("commands/{index}")), &one.text);
        }
        run_all(&stage, name, &shell, allowed.len());
        let ran = stage.take();
        let marks: Vec<String> = (0..allowed.len()).map(|index| index.to_string()).collect();
        for (mark, one) in marks.iter().zip(&allowed) {
            let of_it: Vec<Ran> = ran.iter().filter(|ran| ran.mark == *mark).cloned().collect();
            compare(name, one, &of_it, &mut wrong);
        }
        assert!(
            ran.iter().all(|ran| marks.contains(&ran.mark)),
            "nothing ran that belongs to no command"
        );
    }

    for one in &allowed {
        let body = json!({ "command": one.text, "workdir": stage.work() });
        server.ran(body).await;
        compare("countersign", one, &stage.take(), &mut wrong);
    }
    let first: Vec<&str> = wrong.iter().take(8).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        first.join("\n\n")
    );
}

/// Lets one shell read every command from its file, each in a subshell with a mark of its own.
fn run_all(stage: &Stage, name: &str, shell: &std::path::Path, count: usize) {
    let mut driver = String::new();
    for index in 0..count {
        let file = stage.file(&format!("commands/{index}"));
        writeln!(
            driver,
            "( NODE_MARK={index}; export NODE_MARK; cd '{}'; . '{}' ) </dev/null >/dev/null 2>&1",
            stage.work().display(),
            file.display()
        )
        .expect("writing to a String cannot fail");
    }
    driver.push_str("exit 0\n");
    let script = stage.file("driver");
    write_file(&script, driver);
    let options: &[&str] = match name {
        "bash" => &["--norc", "--noprofile"],
        "zsh" => &["--emulate", "sh", "-f"],
        _ => &[],
    };
    let invocation = Invocation::new(shell)
        .args(options)
        .arg(&script)
        .cwd(&stage.work())
        .env("PATH", stage.path())
        .env("HOME", &stage.home);
    let done = run_long_program(&invocation, Duration::from_mins(5));
    assert_eq!(done.code, Some(0), "{name}: {done:?}");
}
