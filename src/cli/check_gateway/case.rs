//! The cases, and what a gateway has to do in each. Pure: it takes what was told and heard.

use std::time::Duration;

use serde::Deserialize;

use countersign_http::mock::{Fault, Heard, HeardCall};

/// How much of the time of a `Retry-After` must have passed: clocks and timers are not that exact.
const ENOUGH: Duration = Duration::from_millis(950);

/// Bytes that the command of `large-output` writes, as the script says.
const LARGE: usize = 3_000_000;

/// A thing that happens to every gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// A person is asked, and allows it after a while
    Pending,
    /// The person denies it, with a reason
    Denied,
    /// Nobody answers
    Expired,
    /// The connection breaks before the call is answered
    RetriedKey,
    /// The connection breaks that waits for the end
    LostStream,
    /// 429 with a Retry-After
    RateLimited,
    /// The server goes away while a person is asked
    Restart,
    /// More output than an answer carries
    LargeOutput,
}

/// What a gateway says of a command that it was to run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GatewayAnswer {
    /// A status word of the API's runs.
    pub(super) status: String,
    pub(super) exit_code: Option<i32>,
    pub(super) output: String,
    pub(super) truncated: bool,
    /// What it tells its model.
    pub(super) message: String,
}

/// What happened in a case.
#[derive(Debug)]
pub(super) struct Played<'a> {
    /// What the gateway answered, or why it did not.
    pub(super) answer: Result<GatewayAnswer, String>,
    pub(super) heard: &'a [Heard],
    pub(super) runs: usize,
}

impl Case {
    /// Its name, which is also that of its rule.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::RetriedKey => "retried-key",
            Self::LostStream => "lost-stream",
            Self::RateLimited => "rate-limited",
            Self::Restart => "restart",
            Self::LargeOutput => "large-output",
        }
    }

    /// The command that the gateway is to run.
    pub(super) fn command(self) -> String {
        format!("countersign-check {}", self.name())
    }

    /// What the gateway did wrong; nothing if it passed.
    pub(super) fn judge(self, played: &Played<'_>) -> Vec<String> {
        let Played { answer, heard, runs } = played;
        let calls: Vec<(Duration, &HeardCall)> = heard
            .iter()
            .filter_map(|heard| Some((heard.at, heard.call.as_ref()?)))
            .collect();
        let mut findings = Vec::new();
        if calls.is_empty() {
            findings.push(format!("it sent no call for `{}`", self.command()));
        }
        if *runs > 1 {
            findings.push(format!(
                "the command would have run {runs} times: send the same call again under the same Idempotency-Key"
            ));
        }
        match self {
            Self::RetriedKey | Self::Restart => findings.extend(missing_key(&calls)),
            Self::RateLimited => findings.extend(hurry(&calls)),
            Self::Pending | Self::Denied | Self::Expired | Self::LostStream | Self::LargeOutput => {}
        }
        match answer {
            Err(why) => findings.push(format!("it did not answer: {why}")),
            Ok(answer) => findings.extend(self.judge_answer(answer)),
        }
        findings
    }

    fn judge_answer(self, answer: &GatewayAnswer) -> Vec<String> {
        let GatewayAnswer {
            status,
            exit_code,
            output,
            truncated,
            message,
        } = answer;
        let expected = match self {
            Self::Denied | Self::Expired => "denied",
            Self::Pending
            | Self::RetriedKey
            | Self::LostStream
            | Self::RateLimited
            | Self::Restart
            | Self::LargeOutput => "completed",
        };
        if status != expected {
            return vec![format!("it reported `{status}`, and the run was {expected}")];
        }
        let mut findings = Vec::new();
        match self {
            Self::Denied => {
                if !message.contains("use the staging server") {
                    findings.push(
                        "the message does not say what the person said (`userReason`, or `agentMessage` with it)".to_owned(),
                    );
                }
            }
            Self::Expired => {
                if message.trim().is_empty() {
                    findings.push("there is no message: pass on `agentMessage`".to_owned());
                }
            }
            Self::LargeOutput => {
                if output.len() < LARGE && !truncated {
                    findings.push(format!(
                        "it passed on {} of {LARGE} bytes and did not say `truncated`",
                        output.len()
                    ));
                }
            }
            Self::Pending | Self::RetriedKey | Self::LostStream | Self::RateLimited | Self::Restart => {
                if !output.contains(&format!("{}: done", self.name())) {
                    findings.push("the output of the command is missing".to_owned());
                }
            }
        }
        if expected == "completed" && *exit_code != Some(0) {
            findings.push("`exitCode` is not 0, and the command's was".to_owned());
        }
        findings
    }
}

/// A call that may have been taken can only be sent again under its key.
fn missing_key(calls: &[(Duration, &HeardCall)]) -> Option<String> {
    let (_, first) = calls.first()?;
    first
        .key
        .is_none()
        .then(|| "the call has no Idempotency-Key, so it cannot be sent again safely".to_owned())
}

/// Whether it came back earlier than it was told.
fn hurry(calls: &[(Duration, &HeardCall)]) -> Option<String> {
    let refused = calls
        .iter()
        .position(|(_, call)| call.fault == Some(Fault::RateLimited))?;
    let (refused_at, _) = calls.get(refused)?;
    let Some((again_at, _)) = calls.get(refused + 1) else {
        return Some("it did not come back after the 429".to_owned());
    };
    let pause = again_at.saturating_sub(*refused_at);
    (pause < ENOUGH).then(|| {
        format!(
            "it came back after {} ms, and Retry-After said 1 s",
            pause.as_millis()
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    fn call(at: u64, key: Option<&str>, fault: Option<Fault>) -> Heard {
        Heard {
            at: Duration::from_millis(at),
            command: "x".to_owned(),
            call: Some(HeardCall {
                key: key.map(str::to_owned),
                run: None,
                fault,
                outcome: String::new(),
            }),
        }
    }

    fn good(case: Case) -> GatewayAnswer {
        let denied = matches!(case, Case::Denied | Case::Expired);
        GatewayAnswer {
            status: if denied { "denied" } else { "completed" }.to_owned(),
            exit_code: (!denied).then_some(0),
            output: format!("{}: done\n", case.name()),
            truncated: case == Case::LargeOutput,
            message: "The user denied the command and said: “use the staging server”".to_owned(),
        }
    }

    #[track_caller]
    fn check(case: Case, answer: GatewayAnswer, heard: &[Heard], runs: usize, expected: &[&str]) {
        let played = Played {
            answer: Ok(answer),
            heard,
            runs,
        };
        assert_eq!(case.judge(&played), expected, "{case:?}");
    }

    #[test]
    fn a_gateway_that_does_it_well_passes_each() {
        for case in Case::value_variants() {
            let first = if *case == Case::RateLimited {
                Some(Fault::RateLimited)
            } else {
                None
            };
            let heard = [call(0, Some("k"), first), call(1000, Some("k"), None)];
            check(*case, good(*case), &heard, 1, &[]);
        }
    }

    #[test]
    fn every_fault_is_named() {
        let once = [call(0, Some("k"), None)];
        check(
            Case::Pending,
            good(Case::Denied),
            &once,
            1,
            &["it reported `denied`, and the run was completed"],
        );
        check(
            Case::Pending,
            good(Case::Pending),
            &[],
            0,
            &["it sent no call for `countersign-check pending`"],
        );
        check(
            Case::RetriedKey,
            good(Case::RetriedKey),
            &[call(0, None, Some(Fault::BrokenCall)), call(1, None, None)],
            2,
            &[
                "the command would have run 2 times: send the same call again under the same Idempotency-Key",
                "the call has no Idempotency-Key, so it cannot be sent again safely",
            ],
        );
        check(
            Case::RateLimited,
            good(Case::RateLimited),
            &[
                call(0, Some("k"), Some(Fault::RateLimited)),
                call(40, Some("k"), None),
            ],
            1,
            &["it came back after 40 ms, and Retry-After said 1 s"],
        );
        let silent = GatewayAnswer {
            message: String::new(),
            ..good(Case::Denied)
        };
        check(
            Case::Denied,
            silent.clone(),
            &once,
            1,
            &["the message does not say what the person said (`userReason`, or `agentMessage` with it)"],
        );
        check(
            Case::Expired,
            silent,
            &once,
            1,
            &["there is no message: pass on `agentMessage`"],
        );
        let cut = GatewayAnswer {
            truncated: false,
            ..good(Case::LargeOutput)
        };
        check(
            Case::LargeOutput,
            cut,
            &once,
            1,
            &["it passed on 19 of 3000000 bytes and did not say `truncated`"],
        );
    }
}
