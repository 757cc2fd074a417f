//! From a command to what its agent is told.

use std::{os::fd::AsFd as _, time::Duration};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use countersign_wire::{
    exec::{Answered, Started},
    explain::ExplanationBody,
    run::RunBody,
};

use super::{
    format::{Decision, Denial},
    replacement::Replacement,
};
use crate::cli::{
    caller_lease::{CallerLease, Endings},
    client::{Client, EndsWithCaller, Resending, SERVER_RETURN},
    exec,
    failure::Failure,
    value,
};

/// How often a run that waits for a person is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A question ends with its hook: an agent that ended it runs nothing any more, or something else.
const HELD: EndsWithCaller = EndsWithCaller::Question;

/// Evaluates a command: what policy would run is replaced by a call that runs it; everything else is submitted, so that
/// there is a record and perhaps a question, which is waited for.
pub(super) async fn evaluate(
    client: &Client,
    replacement: Replacement,
    key: &str,
    timeout: Duration,
) -> Result<Decision, Failure> {
    let body = exec::body_of_line(replacement.exec_arguments())?;
    let explained: ExplanationBody = client.post(&["v1", "exec", "explain"], &body).await?;
    if explained.outcome == "run" {
        return Ok(Decision::Replace(replacement));
    }
    let mut endings = Endings::listen();
    let answer = submit(client, &body, key).await?;
    if let Answered::Started(Started::Pending(pending)) = answer {
        let _lease = CallerLease::begin(client, &body, key, HELD);
        if let Some(denial) = wait(client, pending.run_id.as_str(), timeout, &mut endings).await? {
            return Ok(Decision::Deny(denial));
        }
    }
    Ok(Decision::Replace(replacement))
}

/// Sends the call, again under the same key when the connection broke: a question that was written is answered on the next
/// server.
async fn submit(client: &Client, body: &Value, key: &str) -> Result<Answered, Failure> {
    let mut resending = Resending::default();
    loop {
        match client
            .post_held(&["v1", "exec"], body, key, (HELD, Duration::ZERO))
            .await
        {
            Err(failure) if resending.may_join(&failure) => sleep(LOOK).await,
            answer => return answer,
        }
    }
}

/// Waits for a person; `None` when they allowed it.
async fn wait(
    client: &Client,
    run_id: &str,
    timeout: Duration,
    endings: &mut Endings,
) -> Result<Option<Denial>, Failure> {
    let give_up = Instant::now() + timeout;
    tokio::select! {
        decided = follow(client, run_id, give_up) => {
            if let Some(run) = decided? {
                return Ok(denial_of(&run));
            }
            withdraw(client, run_id).await;
            Ok(Some(Denial {
                code: "approval-timeout".to_owned(),
                detail: format!("nobody decided within {} s; the question was withdrawn", timeout.as_secs()),
                hint: None,
            }))
        }
        // The agent waits no longer for its hook.
        _exit = endings.next() => {
            withdraw(client, run_id).await;
            Err(gave_up())
        }
        () = unread() => {
            withdraw(client, run_id).await;
            Err(gave_up())
        }
    }
}

fn gave_up() -> Failure {
    Failure::new(
        "interrupted",
        "the agent stopped waiting; the question was withdrawn",
    )
}

/// Waits until nobody reads what this process writes. An agent that is killed, or that leaves its hooks behind when it
/// ends, sends no signal; what a person allows then would run for nobody.
async fn unread() {
    while !is_unread() {
        sleep(LOOK).await;
    }
}

fn is_unread() -> bool {
    let output = std::io::stdout();
    let mut descriptor = [PollFd::from_borrowed_fd(output.as_fd(), PollFlags::empty())];
    let polled = poll(&mut descriptor, Some(&Timespec::default()));
    let [descriptor] = descriptor;
    polled.is_ok() && descriptor.revents().intersects(PollFlags::ERR | PollFlags::HUP)
}

/// The run once it was decided; `None` when time is up.
async fn follow(client: &Client, run_id: &str, give_up: Instant) -> Result<Option<RunBody>, Failure> {
    let mut gone_since: Option<Instant> = None;
    while Instant::now() < give_up {
        match client.get::<RunBody>(&["v1", "runs", run_id], &Vec::new()).await {
            Ok(run) if run.status == "approval-pending" => gone_since = None,
            Ok(run) => return Ok(Some(run)),
            Err(failure) => {
                let since = *gone_since.get_or_insert_with(Instant::now);
                if !failure.is_no_connection() || since.elapsed() > SERVER_RETURN {
                    return Err(failure);
                }
            }
        }
        sleep(LOOK).await;
    }
    Ok(None)
}

fn denial_of(run: &RunBody) -> Option<Denial> {
    if !matches!(run.status.as_ref(), "denied" | "cancelled") {
        return None;
    }
    let detail = run.detail.as_deref().map(value::visible);
    Some(Denial {
        code: "exec-denied".to_owned(),
        detail: match (&run.reason, detail) {
            (None, _) => format!("the run was {}", run.status),
            (Some(reason), None) => reason.to_string(),
            (Some(reason), Some(detail)) => format!("{reason}: {detail}"),
        },
        hint: None,
    })
}

/// Nobody would take the result any more, so nobody should be asked.
async fn withdraw(client: &Client, run_id: &str) {
    // It may have been decided just now; then it runs, and the record says so.
    drop(
        client
            .post::<IgnoredAny>(&["v1", "runs", run_id, "cancel"], &json!({}))
            .await,
    );
}
