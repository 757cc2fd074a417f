//! Every mode of the evaluator takes every step: a case for each step, in which that step alone makes the difference.
//! What the modes do differently is said by `Mode` of the evaluator, and at the case.

use std::sync::Arc;

use serde_json::{Value, json};

use countersign_config::{
    approvals::store::Snapshot,
    settings::{MapEnvironment, SettingsStore, StartOptions, StateDir},
};
use countersign_domain::{AgentId, CommandInput, EnvOverrides, ExecRequest, Host, HostChoice, Reason};
use countersign_engine::{
    Answers, Delivered, Delivery, Invocation,
    ask_only::{AskError, AskRequest, Route},
    candidate::{Candidate, CandidateParts, Foreseen, RecordedCommand},
    environment::HostEnvironment,
    explain::Outcome,
    reply::{ExecError, ExecReply},
};
use countersign_sys::clock::SystemClock;

use crate::{
    node_exec::world::{Call, World, asker},
    support::write_file,
};

/// What a mode said, in one word.
type Said = &'static str;

/// What all modes say of a call under one policy.
#[derive(Debug, PartialEq, Eq)]
struct Verdicts {
    exec: Said,
    explain: Said,
    /// What another gateway delivers; a question about it is refused.
    deliver: Said,
    /// The plan that such a gateway asks for.
    plan: Said,
    /// A policy that is only tried.
    candidate: Said,
    /// A question about what its asker starts: nothing of it is looked at, so it is asked under every policy.
    ask_only: Said,
}

/// The same in every mode that looks at the command.
fn all(said: Said) -> Verdicts {
    Verdicts {
        exec: said,
        explain: said,
        deliver: said,
        plan: said,
        candidate: said,
        ask_only: "ask",
    }
}

#[tokio::test]
async fn where_every_step_lets_it_through_it_runs() {
    let verdicts = verdicts(
        gateway("allowlist", "on-miss"),
        Some(covering()),
        Call::argv(&["/bin/true"]),
    );
    assert_eq!(verdicts.await, all("run"));
}

#[tokio::test]
async fn every_mode_resolves_the_place() {
    // What was delivered has its place, and a candidate is asked about the gateway host.
    let call = Call::argv(&["/bin/true"]).with(|call| call.host = Some(HostChoice::Node));
    assert_eq!(
        verdicts(gateway("allowlist", "on-miss"), Some(covering()), call).await,
        Verdicts {
            exec: "host-not-allowed",
            explain: "host-not-allowed",
            ..all("run")
        }
    );
}

#[tokio::test]
async fn every_mode_settles_the_call() {
    let call = || {
        Call::argv(&["/bin/true"]).with(|call| drop(call.env.insert("LD_PRELOAD".to_owned(), "x".to_owned())))
    };
    // A recorded command was accepted once; an override whose value is not known is asked about.
    assert_eq!(
        verdicts(gateway("allowlist", "on-miss"), Some(covering()), call()).await,
        Verdicts {
            candidate: "ask",
            ask_only: "blocked-env",
            ..all("blocked-env")
        }
    );
    let call = Call::argv(&["/bin/true"]).with(|call| call.workdir = Some("/nowhere/at/all".to_owned()));
    assert_eq!(
        verdicts(gateway("allowlist", "on-miss"), Some(covering()), call).await,
        all("no-workdir")
    );
}

#[tokio::test]
async fn every_mode_combines_the_layers() {
    let document = json!({ "version": 1, "defaults": { "security": "deny" } });
    let verdicts = verdicts(gateway("full", "off"), Some(document), Call::argv(&["/bin/true"]));
    assert_eq!(verdicts.await, all("security-deny"));
}

#[tokio::test]
async fn every_mode_has_the_words_looked_at() {
    let document = json!({ "version": 1, "agents": { "main": { "denylist": [{ "pattern": "true" }] } } });
    let verdicts = verdicts(
        gateway("full", "off"),
        Some(document),
        Call::shell("/bin/echo; /bin/true"),
    );
    assert_eq!(verdicts.await, all("denylist"));
}

#[tokio::test]
async fn every_mode_asks_the_gate() {
    // Nobody answers for what is delivered here, and that is said.
    let asks = Verdicts {
        deliver: "approval-required",
        ..all("ask")
    };
    let always = verdicts(
        gateway("allowlist", "always"),
        Some(covering()),
        Call::argv(&["/bin/true"]),
    );
    assert_eq!(always.await, asks);
    let miss = verdicts(
        gateway("allowlist", "on-miss"),
        Some(covering()),
        Call::argv(&["/bin/false"]),
    );
    assert_eq!(miss.await, asks);
    let nobody = verdicts(
        gateway("allowlist", "off"),
        Some(covering()),
        Call::argv(&["/bin/false"]),
    );
    assert_eq!(nobody.await, all("allowlist-miss"));
}

#[tokio::test]
async fn every_mode_that_may_run_it_binds_its_scripts() {
    let document = json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "python3" }] } } });
    let call = Call::argv(&["python3", "job.py"]);
    // A candidate looks into no script.
    assert_eq!(
        verdicts(gateway("allowlist", "on-miss"), Some(document), call).await,
        Verdicts {
            candidate: "run",
            ..all("preflight")
        }
    );
}

#[tokio::test]
async fn every_mode_that_resolves_the_place_looks_for_a_diversion() {
    let mut exec = gateway("allowlist", "on-miss");
    exec["onMiss"] = json!("sandbox");
    // There is none, which is said instead of passed over in silence.
    let world = world(exec, None, "[sandbox]\nbackend = \"off\"\n").await;
    let call = || Call::argv(&["/bin/false"]).0;
    let explained = world
        .engine
        .explainer()
        .explain(&asker(), call())
        .await
        .expect("an explanation");
    let replied = world
        .engine
        .calls()
        .exec(&asker(), call(), None)
        .await
        .expect("a question");
    let ExecReply::Pending(pending) = replied else {
        panic!("{replied:?}");
    };
    assert!(explained.not_diverted.is_some());
    assert_eq!(pending.warnings.len(), 1);
    assert_eq!(pending.warnings[0].code, "not-diverted");
}

fn gateway(security: &str, ask: &str) -> Value {
    json!({ "host": "gateway", "security": security, "ask": ask })
}

fn covering() -> Value {
    json!({ "version": 1, "agents": { "main": { "allowlist": [{ "pattern": "/bin/true" }] } } })
}

/// A server that has an approver, with a script in the workspace that is no script of its language.
async fn world(exec: Value, document: Option<Value>, toml: &str) -> World {
    let mut world = World::with(exec, document, toml).await;
    let workspace = world.state().join("workspace");
    std::fs::create_dir_all(&workspace).expect("a workspace");
    write_file(&workspace.join("job.py"), "import os\nprint($API_TOKEN)\n");
    world.open_page();
    world
}

/// What every mode says of the same call.
async fn verdicts(exec: Value, document: Option<Value>, call: Call) -> Verdicts {
    // What follows holds several evaluations at once.
    Box::pin(async move {
        let world = world(exec.clone(), document.clone(), "").await;
        let delivery = Delivery {
            answers: Answers::Refused,
            start_before: None,
            planned: None,
        };
        let invocation = Invocation::parse("one").expect("an id");
        let Call(request) = call;
        let engine = &world.engine;
        let explained = Box::pin(engine.explainer().explain(&asker(), request.clone())).await;
        let planned = Box::pin(engine.deliveries().preview_delivered(&asker(), request.clone())).await;
        let delivered = Box::pin(engine.deliveries().exec_delivered(
            &asker(),
            request.clone(),
            &invocation,
            &delivery,
        ))
        .await;
        let workspace = world.state().join("workspace");
        let recorded = RecordedCommand {
            agent: AgentId::main(),
            command: request.command.clone(),
            cwd: request.workdir.clone().map_or(workspace, Into::into),
            env_names: request.env.keys().cloned().collect(),
            input: CommandInput::Closed,
        };
        Verdicts {
            candidate: match candidate(&world, &exec, document.as_ref()).evaluate(recorded) {
                Ok(opinion) => match opinion.foreseen {
                    Foreseen::Run => "run",
                    Foreseen::Ask => "ask",
                    Foreseen::Deny => reason_in(&opinion.why),
                },
                Err(_) => "no-workdir",
            },
            explain: match explained {
                Ok(explanation) => match explanation.outcome {
                    Outcome::Run => "run",
                    Outcome::Ask(_) => "ask",
                    Outcome::Deny(reason) => reason.as_str(),
                    Outcome::BadCommand => "bad-command",
                    Outcome::BlockedEnv => "blocked-env",
                },
                Err(error) => error_in_one_word(&error),
            },
            plan: match planned {
                Ok(preview) => match preview.refused {
                    Some(rule) => rule.reason.as_str(),
                    None if preview.asks => "ask",
                    None => "run",
                },
                Err(error) => error_in_one_word(&error),
            },
            deliver: match delivered {
                Ok(Delivered::Begun(_)) => "run",
                Ok(Delivered::Asked(_)) => "ask",
                Err(error) => error_in_one_word(&error),
            },
            ask_only: match engine.ask_only().ask(question(&request)).await {
                Ok(approval) => {
                    assert!(approval.is_run_elsewhere(), "{approval:?}");
                    "ask"
                }
                Err(AskError::NotEvaluated(error)) => error_in_one_word(&error),
                Err(error) => panic!("{error:?}"),
            },
            exec: match engine.calls().exec(&asker(), request, None).await {
                Ok(ExecReply::Pending(_)) => "ask",
                Ok(ExecReply::Running(_) | ExecReply::Ended(_)) => "run",
                Err(error) => error_in_one_word(&error),
            },
        }
    })
    .await
}

/// The same command, as one that its asker starts.
fn question(request: &ExecRequest) -> AskRequest {
    AskRequest {
        asked_by: asker(),
        id: None,
        agent: request.agent.clone(),
        session: request.session.clone(),
        command: request.command.clone(),
        cwd: request.workdir.clone(),
        host: Host::Gateway,
        node_id: None,
        resolved_path: None,
        security: None,
        ask: None,
        env: EnvOverrides::accepted(request.env.clone()),
        decisions: None,
        timeout: None,
        detail: String::new(),
        route: Route::Waits,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other error belongs to a case")]
fn error_in_one_word(error: &ExecError) -> Said {
    match error {
        ExecError::Denied(denial) => denial.reason.as_str(),
        ExecError::BlockedEnv { .. } => "blocked-env",
        ExecError::HostNotAllowed { .. } => "host-not-allowed",
        ExecError::WorkdirUnavailable { .. } => "no-workdir",
        other => panic!("{other:?}"),
    }
}

/// The reason that an opinion begins with.
fn reason_in(why: &str) -> Said {
    let word = why.split(':').next().unwrap_or_default();
    let known = Reason::ALL.iter().find(|reason| reason.as_str() == word);
    known.unwrap_or_else(|| panic!("{why}")).as_str()
}

/// The same policy, tried without the server.
fn candidate(world: &World, exec: &Value, document: Option<&Value>) -> Candidate {
    let home = world.state().join("home");
    let environment =
        MapEnvironment::new([("HOME", home.to_str().expect("text")), ("PATH", "/usr/bin:/bin")]);
    let state_dir = StateDir::resolve(Some(&world.state()), &environment).expect("a state directory");
    let shared: Arc<dyn countersign_config::settings::Environment> = Arc::new(environment.clone());
    let store = SettingsStore::load(state_dir.clone(), &StartOptions::default(), shared).expect("settings");
    let config = json!({ "tools": { "exec": exec } }).to_string();
    let policy = store.policy_of(Some(&config)).expect("a policy");
    let text = document.map(Value::to_string);
    Candidate::new(CandidateParts {
        clock: Arc::new(SystemClock),
        state_dir,
        settings: Arc::new(store.current().with_policy(policy)),
        document: Snapshot::of_accepted(text.as_deref().map(str::as_bytes), "candidate".to_owned()),
        environment: Arc::new(HostEnvironment::new(&environment, None)),
        own_binary: None,
    })
}
