//! The load: workers that call until the server dies, and what they were told.

use std::sync::Arc;
use std::{
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};

use crate::support::{Answer, Api, within};

use super::promises::{Call, Kind};

/// How the mark of a call begins; a number and a hyphen follow.
pub(super) const MARK: &str = "mark-";

/// What commands and patches leave, and the programs that do it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) covered: PathBuf,
    pub(super) asked: PathBuf,
    /// A line for each run.
    pub(super) marks: PathBuf,
    /// A file for each patch.
    pub(super) patched: PathBuf,
}

#[derive(Debug)]
pub(super) struct Load {
    world: World,
    /// What half of the calls are, where that is not left to chance.
    mostly: Option<Kind>,
    calls: Mutex<Vec<Call>>,
    entries: Mutex<Vec<String>>,
    is_stopped: AtomicBool,
    /// The round under way.
    round: AtomicU32,
    count: AtomicU32,
    workers: tokio::sync::Mutex<JoinSet<()>>,
}

/// The server died over it.
struct Dead;

/// Whether a round ends with all that the server started, and not with the server alone.
pub(super) const fn ends_everything(round: u32) -> bool {
    round.is_multiple_of(3)
}

impl Load {
    pub(super) fn new(world: World) -> Self {
        Self {
            world,
            mostly: None,
            calls: Mutex::default(),
            entries: Mutex::default(),
            is_stopped: AtomicBool::new(false),
            round: AtomicU32::new(0),
            count: AtomicU32::new(0),
            workers: tokio::sync::Mutex::default(),
        }
    }

    /// The same load, half of it of one kind.
    pub(super) fn mostly(self, kind: Kind) -> Self {
        Self {
            mostly: Some(kind),
            ..self
        }
    }

    pub(super) const fn world(&self) -> &World {
        &self.world
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn entries(&self) -> Vec<String> {
        self.entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether a stop was answered and no resume since.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    pub(super) fn resumed(&self) {
        self.is_stopped.store(false, Ordering::SeqCst);
    }

    /// Starts the workers. Something comes out for each answer.
    pub(super) fn begin(
        self: &Arc<Self>,
        workers: usize,
        agent: &Api,
        operator: &Api,
        round: u32,
    ) -> mpsc::UnboundedReceiver<()> {
        self.round.store(round, Ordering::SeqCst);
        let (told, acknowledged) = mpsc::unbounded_channel();
        let mut all = self.workers.try_lock().expect("no workers");
        for worker in 0..workers {
            let (load, agent, operator, told) =
                (Arc::clone(self), agent.clone(), operator.clone(), told.clone());
            let mut turn = round
                .wrapping_mul(31)
                .wrapping_add(u32::try_from(worker).unwrap_or(0));
            all.spawn(async move {
                while load.act(turn, &agent, &operator).await.is_ok() {
                    let _killed = told.send(());
                    turn = turn.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                }
            });
        }
        acknowledged
    }

    /// Waits until the last worker has noticed that the server is dead.
    pub(super) async fn ended(&self) {
        let mut workers = self.workers.lock().await;
        while let Some(ended) = within("the end of the workers", workers.join_next()).await {
            ended.expect("a worker");
        }
    }

    /// Sends each call with a key again that was not answered to its end.
    pub(super) async fn send_keyed_again(&self, agent: &Api) {
        for call in self.calls() {
            if call.kind == Kind::Keyed && !call.completed {
                assert!(
                    self.run(&call.mark, call.kind, agent).await.is_ok(),
                    "the server answers"
                );
            }
        }
    }

    async fn act(&self, turn: u32, agent: &Api, operator: &Api) -> Result<(), Dead> {
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        let mark = format!("{MARK}{number}-");
        let choice = match self.mostly {
            Some(Kind::Covered) if turn >> 21 & 1 == 0 => 0,
            Some(Kind::Keyed) if turn >> 21 & 1 == 0 => 5,
            Some(Kind::Asked) if turn >> 21 & 1 == 0 => 8,
            Some(Kind::Patch) if turn >> 21 & 1 == 0 => 12,
            Some(_) | None => (turn >> 16) % 16,
        };
        match choice {
            0..=4 => self.call(&mark, Kind::Covered, agent).await,
            5..=7 => self.call(&mark, Kind::Keyed, agent).await,
            8..=11 => {
                let asked = self.ask(&mark, Kind::Asked, agent).await?;
                let decision = if turn >> 20 & 1 == 0 { "allow-once" } else { "deny" };
                self.decide(&mark, asked, decision, operator).await
            }
            12 | 13 => {
                let asked = self.ask(&mark, Kind::Patch, agent).await?;
                self.decide(&mark, asked, "allow-once", operator).await
            }
            14 => self.add_entry(number, operator).await,
            _ if number.is_multiple_of(29) => self.press_stop(operator).await,
            _ => answered(operator.request(Method::GET, "/v1/runs?limit=5"))
                .await
                .map(drop),
        }
    }

    fn note(&self, mark: &str, change: impl FnOnce(&mut Call)) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let call = calls.iter_mut().find(|call| call.mark == mark);
        change(call.expect("a call that was begun"));
    }

    fn begun(&self, mark: &str, kind: Kind) {
        let call = Call {
            mark: mark.to_owned(),
            kind,
            // In this round, or in the next, which may go on with it.
            may_be_lost: (0..=1).any(|later| ends_everything(self.round.load(Ordering::SeqCst) + later)),
            while_stopped: self.is_stopped(),
            run: None,
            completed: false,
            decided: None,
        };
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(call);
    }

    async fn call(&self, mark: &str, kind: Kind, agent: &Api) -> Result<(), Dead> {
        self.begun(mark, kind);
        self.run(mark, kind, agent).await
    }

    async fn run(&self, mark: &str, kind: Kind, agent: &Api) -> Result<(), Dead> {
        let body = json!({ "argv": [self.world.covered, mark] });
        let mut request = agent.request(Method::POST, "/v1/exec").json(&body);
        if kind == Kind::Keyed {
            request = request.header("Idempotency-Key", mark);
        }
        let answer = answered(request).await?.json();
        self.note(mark, |call| {
            call.run = answer["runId"]
                .as_str()
                .map(str::to_owned)
                .or_else(|| call.run.take());
            call.completed = answer["status"] == "completed";
        });
        Ok(())
    }

    /// Asks, and returns the approval, if a person is asked.
    async fn ask(&self, mark: &str, kind: Kind, agent: &Api) -> Result<Option<String>, Dead> {
        self.begun(mark, kind);
        let (path, body) = if kind == Kind::Patch {
            let file = self.world.patched.join(mark);
            let input = format!(
                "*** Begin Patch\n*** Add File: {}\n+text\n*** End Patch\n",
                file.display()
            );
            ("/v1/apply-patch", json!({ "input": input }))
        } else {
            ("/v1/exec", json!({ "argv": [self.world.asked, mark] }))
        };
        let answer = answered(agent.request(Method::POST, path).json(&body))
            .await?
            .json();
        self.note(mark, |call| {
            call.run = answer["runId"].as_str().map(str::to_owned);
        });
        Ok(answer["approvalId"].as_str().map(str::to_owned))
    }

    async fn decide(
        &self,
        mark: &str,
        approval: Option<String>,
        decision: &'static str,
        operator: &Api,
    ) -> Result<(), Dead> {
        let Some(approval) = approval else { return Ok(()) };
        let path = format!("/v1/approvals/{approval}/decision");
        let body = json!({ "decision": decision });
        let answer = answered(operator.request(Method::POST, &path).json(&body)).await?;
        if answer.json()["applied"] == true {
            self.note(mark, |call| call.decided = Some(decision));
        }
        Ok(())
    }

    async fn add_entry(&self, number: u32, operator: &Api) -> Result<(), Dead> {
        let pattern = format!("/opt/load/{number}");
        let body = json!({ "pattern": pattern });
        let request = operator
            .request(Method::POST, "/v1/agents/main/allowlist")
            .json(&body);
        if answered(request).await?.status == 201 {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(pattern);
        }
        Ok(())
    }

    /// Stops everything, whether or not the server lives to say so.
    pub(super) async fn stop(&self, operator: &Api) {
        drop(self.press_stop(operator).await);
    }

    async fn press_stop(&self, operator: &Api) -> Result<(), Dead> {
        let body: Value = json!({ "reason": "a drill" });
        if answered(operator.request(Method::POST, "/v1/stop").json(&body))
            .await?
            .status
            == 200
        {
            self.is_stopped.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Result<Answer, Dead> {
    within("an answer or the end", Api::try_send(request))
        .await
        .map_err(|_died| Dead)
}
