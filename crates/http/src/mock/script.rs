//! What a mock does with each command.
//!
//! A script is a list of rules; the first whose pattern fits a command decides. It is read once, with everything that
//! can be wrong with it.

use std::{fmt, io, time::Duration};

use bytes::Bytes;
use serde::Deserialize;

use countersign_domain::OutputStream;
use countersign_runner::output::{Capture, CaptureLimits, Captured, spool};

/// What answers carry of an output; the defaults of `[output]`.
const LIMITS: CaptureLimits = CaptureLimits {
    max_chars: 200_000,
    tail_chars: 20_000,
};

const MAX_RULES: usize = 1000;
/// All output of a script together: it is kept in memory.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
const MAX_WAIT_MS: u64 = 3_600_000;
const MAX_TIMES: u32 = 1000;
const DEFAULT_AFTER: Duration = Duration::from_secs(2);
/// One line of output that only has a length.
const FILLER: &[u8] = b"................................................................\n";

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It runs without a question.
    #[default]
    Run,
    /// A person is asked, and allows it.
    Allow,
    /// A person is asked, and denies it.
    Deny,
    /// A person is asked, and nobody answers.
    Expire,
    /// It starts, and what became of it is unknown.
    Lost,
    /// Policy refuses it; nobody is asked.
    Refuse,
}

/// What goes wrong on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// 429 with `Retry-After: 1`; nothing is taken.
    RateLimited,
    /// The call is taken, and the connection breaks before the answer.
    BrokenCall,
    /// What waits for the run breaks: a stream, a wait, a look at it.
    BrokenStream,
    /// The server goes away after it took the call, and comes back.
    Restart,
}

/// What happens to the commands that it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pattern: String,
    pub(super) answer: Answer,
    /// How long a person takes, or has.
    pub(super) after: Duration,
    /// How long the command runs.
    pub(super) runs_for: Duration,
    /// What the person says.
    pub(super) reason: Option<String>,
    pub(super) exit_code: i32,
    pub(super) output: Output,
    pub(super) fault: Option<Fault>,
    /// How many times each command meets the fault.
    pub(super) times: u32,
}

/// What a command writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Output {
    /// As a spool has it.
    pub(super) frames: Bytes,
    pub(super) text: Captured,
}

/// The rules, the first that fits decides.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<RuleText>")]
pub struct Script(Vec<Rule>);

/// A script that cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScript {
    /// It says nothing.
    #[error("a script needs at least one rule")]
    Empty,
    /// It says too much.
    #[error("a script has at most {MAX_RULES} rules")]
    TooManyRules,
    /// Its output would fill the memory.
    #[error("the output of a script has at most {MAX_OUTPUT_BYTES} bytes in all")]
    TooMuchOutput,
    /// One rule contradicts itself.
    #[error("rule {number}: {what}")]
    Rule {
        /// Which, from 1.
        number: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A rule as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleText {
    command: Option<String>,
    #[serde(default)]
    answer: Answer,
    after_ms: Option<u64>,
    run_ms: Option<u64>,
    reason: Option<String>,
    exit_code: Option<i32>,
    stdout: Option<String>,
    stderr: Option<String>,
    output_bytes: Option<u64>,
    fault: Option<Fault>,
    times: Option<u32>,
}

impl Script {
    /// The number of the rule for a command, from 1, and the rule.
    pub(super) fn rule_for(&self, command: &str) -> Option<(usize, &Rule)> {
        let numbered = (1..).zip(&self.0);
        numbered
            .into_iter()
            .find(|(_, rule)| fits(&rule.pattern, command))
    }

    /// The rule with a number, from 1.
    pub(super) fn rule(&self, number: usize) -> Option<&Rule> {
        self.0.get(number.checked_sub(1)?)
    }

    /// How many rules it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has none, which no script has.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    /// Whether a person is asked.
    pub(super) const fn asks(&self) -> bool {
        matches!(self.answer, Answer::Allow | Answer::Deny | Answer::Expire)
    }

    const fn runs(&self) -> bool {
        matches!(self.answer, Answer::Allow | Answer::Run)
    }
}

/// What a rule does, in a few words.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = self.after.as_millis();
        match self.answer {
            Answer::Run => write!(f, "runs, exit code {}", self.exit_code)?,
            Answer::Allow => write!(f, "allowed after {after} ms, exit code {}", self.exit_code)?,
            Answer::Deny => write!(f, "denied after {after} ms")?,
            Answer::Expire => write!(f, "nobody answers within {after} ms")?,
            Answer::Lost => f.write_str("lost")?,
            Answer::Refuse => f.write_str("refused by policy")?,
        }
        match self.fault {
            None => Ok(()),
            Some(Fault::RateLimited) => f.write_str(", after a 429"),
            Some(Fault::BrokenCall) => f.write_str(", with a broken call"),
            Some(Fault::BrokenStream) => f.write_str(", with a broken stream"),
            Some(Fault::Restart) => f.write_str(", with a restart"),
        }
    }
}

impl TryFrom<Vec<RuleText>> for Script {
    type Error = InvalidScript;

    fn try_from(texts: Vec<RuleText>) -> Result<Self, InvalidScript> {
        if texts.is_empty() {
            return Err(InvalidScript::Empty);
        }
        if texts.len() > MAX_RULES {
            return Err(InvalidScript::TooManyRules);
        }
        // Before anything is made of it.
        let bytes = |text: &Option<String>| text.as_ref().map_or(0, |text| widened(text.len()));
        let total = texts.iter().fold(0_u64, |sum, text| {
            sum.saturating_add(text.output_bytes.unwrap_or(0))
                .saturating_add(bytes(&text.stdout))
                .saturating_add(bytes(&text.stderr))
        });
        if total > MAX_OUTPUT_BYTES {
            return Err(InvalidScript::TooMuchOutput);
        }
        let rules = (1..).zip(texts).map(|(number, text)| {
            text.into_rule()
                .map_err(|what| InvalidScript::Rule { number, what })
        });
        rules.collect::<Result<_, _>>().map(Self)
    }
}

impl RuleText {
    fn into_rule(self) -> Result<Rule, &'static str> {
        let Self {
            command,
            answer,
            after_ms,
            run_ms,
            reason,
            exit_code,
            stdout,
            stderr,
            output_bytes,
            fault,
            times,
        } = self;
        let rule = Rule {
            pattern: command.unwrap_or_else(|| "*".to_owned()),
            answer,
            after: after_ms.map_or(DEFAULT_AFTER, Duration::from_millis),
            runs_for: Duration::from_millis(run_ms.unwrap_or(0)),
            reason,
            exit_code: exit_code.unwrap_or(0),
            output: Output::default(),
            fault,
            times: times.unwrap_or(1),
        };
        if [after_ms, run_ms]
            .iter()
            .flatten()
            .any(|wait| *wait > MAX_WAIT_MS)
        {
            return Err("afterMs and runMs are at most 3600000");
        }
        if after_ms.is_some() && !rule.asks() {
            return Err("afterMs is for allow, deny and expire");
        }
        if run_ms.is_some() && !(rule.runs() || answer == Answer::Lost) {
            return Err("runMs is for run, allow and lost");
        }
        if rule.reason.is_some() && !matches!(answer, Answer::Allow | Answer::Deny) {
            return Err("reason is for allow and deny: it is what the person says");
        }
        let has_output = stdout.is_some() || stderr.is_some() || output_bytes.is_some();
        if (has_output || exit_code.is_some()) && !rule.runs() {
            return Err("exitCode, stdout, stderr and outputBytes are for run and allow");
        }
        if exit_code.is_some_and(|code| !(0..=255).contains(&code)) {
            return Err("exitCode is 0 to 255");
        }
        if stdout.is_some() && output_bytes.is_some() {
            return Err("stdout and outputBytes both say what it writes; give one of them");
        }
        if times.is_some() && fault.is_none() {
            return Err("times is for a fault");
        }
        if times.is_some_and(|times| !(1..=MAX_TIMES).contains(&times)) {
            return Err("times is 1 to 1000");
        }
        let stdout = match output_bytes {
            Some(bytes) => filler(bytes),
            None => stdout.unwrap_or_default().into_bytes(),
        };
        let output = Output::of(&stdout, stderr.unwrap_or_default().as_bytes());
        Ok(Rule {
            output: output.map_err(|_error| "its output cannot be kept")?,
            ..rule
        })
    }
}

impl Output {
    fn of(stdout: &[u8], stderr: &[u8]) -> io::Result<Self> {
        let mut frames = Vec::with_capacity(stdout.len() + stderr.len() + 64);
        let mut capture = Capture::new(LIMITS);
        for (stream, bytes) in [(OutputStream::Stdout, stdout), (OutputStream::Stderr, stderr)] {
            if !bytes.is_empty() {
                spool::append(&mut frames, stream, bytes)?;
                capture.push(stream, bytes);
            }
        }
        capture.finish();
        Ok(Self {
            frames: frames.into(),
            text: capture.captured(),
        })
    }
}

fn widened(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn filler(bytes: u64) -> Vec<u8> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    FILLER.iter().copied().cycle().take(bytes).collect()
}

/// Whether a text is that of a pattern, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, mut rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(head) else {
        return false;
    };
    while let Some((part, after)) = rest.split_once('*') {
        let Some((_, behind)) = left.split_once(part) else {
            return false;
        };
        (rest, left) = (after, behind);
    }
    left.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn script(rules: Value) -> Result<Script, String> {
        serde_json::from_value(rules).map_err(|error| error.to_string())
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let script = script(json!([
            {"command": "git status"},
            {"command": "git *", "answer": "allow", "afterMs": 5},
            {"answer": "refuse"},
        ]))
        .unwrap();
        let answer = |command: &str| {
            let (number, rule) = script.rule_for(command).unwrap();
            (number, rule.answer)
        };
        assert_eq!(answer("git status"), (1, Answer::Run));
        assert_eq!(answer("git push"), (2, Answer::Allow));
        assert_eq!(answer("gitk"), (3, Answer::Refuse));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("ls", "ls", true),
            ("ls", "ls -l", false),
            ("ls*", "ls", true),
            ("*", "", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "a1b2", false),
            ("*.sh", "x.sh", true),
            ("*.sh", "x.shy", false),
            ("a*a", "a", false),
            ("a*bc*bc", "abc", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_number() {
        for (rules, expected) in [
            (json!([]), "a script needs at least one rule"),
            (
                json!([{}, {"answer": "deny", "exitCode": 1}]),
                "rule 2: exitCode, stdout, stderr and outputBytes are for run and allow",
            ),
            (
                json!([{"afterMs": 1}]),
                "rule 1: afterMs is for allow, deny and expire",
            ),
            (
                json!([{"answer": "expire", "reason": "no"}]),
                "rule 1: reason is for allow and deny: it is what the person says",
            ),
            (
                json!([{"stdout": "x", "outputBytes": 1}]),
                "rule 1: stdout and outputBytes both say what it writes; give one of them",
            ),
            (json!([{"times": 2}]), "rule 1: times is for a fault"),
            (
                json!([{"outputBytes": 64 * 1024 * 1024}, {"stdout": "x"}]),
                "the output of a script has at most 67108864 bytes in all",
            ),
            (
                json!([{"anwser": "run"}]),
                "unknown field `anwser`, expected one of `command`, `answer`, `afterMs`, `runMs`, `reason`, `exitCode`, \
                 `stdout`, `stderr`, `outputBytes`, `fault`, `times`",
            ),
        ] {
            assert_eq!(script(rules).unwrap_err(), expected);
        }
    }

    #[test]
    fn long_output_is_cut_in_answers_and_kept_in_full() {
        let script = script(json!([{"outputBytes": 300_000, "stderr": "end\n"}])).unwrap();
        let (_, rule) = script.rule_for("x").unwrap();
        assert!(rule.output.text.truncated);
        assert_eq!(rule.output.text.bytes, 300_004);
        assert!(rule.output.frames.len() > 300_004);
    }
}
