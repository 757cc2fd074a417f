//! How a command of the command line fails: one line, perhaps a hint, and an exit code.

use std::fmt;

use serde_json::{Value, json};

use countersign_wire::{
    problem::{FieldError, ProblemBody},
    words::Scope,
};

use super::{
    exit::ExitStatus,
    short_id::{self, Candidate},
    value,
};

/// Begins a line that says what helps, where that is no command.
const ADVICE: &str = "note: ";
/// Begins a command that lets another run.
const ADDS_ENTRY: &str = "countersign allowlist add ";

/// What went wrong, ready to be shown: `error[code]: message`, then `hint: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: String,
    /// What happened, in words.
    pub(crate) message: String,
    /// The command that would change it, ready to be pasted.
    pub(crate) hint: Option<String>,
    /// More commands that would change it, a line each with what it is for.
    pub(crate) ways_out: Option<Box<WaysOut>>,
    /// What the process exits with.
    pub(crate) exit: ExitStatus,
    /// The run that the answer is about.
    pub(crate) run_id: Option<String>,
    /// The document in which a server said it.
    pub(crate) problem: Option<Value>,
}

/// Lines below what happened; apart, since few failures have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WaysOut {
    /// What a name could mean, before the hint.
    candidates: Vec<Candidate>,
    /// How many more there are.
    more: u64,
    lines: Vec<String>,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: in_words(message.into()),
            hint: None,
            ways_out: None,
            exit: ExitStatus::FAILURE,
            run_id: None,
            problem: None,
        }
    }

    /// The call itself is wrong.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", message).exit(ExitStatus::USAGE)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new("server-unavailable", message).exit(ExitStatus::UNAVAILABLE)
    }

    /// A server took the request, and nobody knows whether it did what it asks for.
    pub(crate) fn connection_lost(message: impl Into<String>) -> Self {
        Self::new("connection-lost", message).exit(ExitStatus::UNAVAILABLE)
    }

    /// Whether asking again later may help, as far as the connection goes.
    pub(crate) fn is_no_connection(&self) -> bool {
        matches!(
            self.code.as_str(),
            "server-unavailable" | "connection-lost" | "shutting-down"
        )
    }

    /// The same failure with a hint: a command of this program, perhaps with a note in brackets behind it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same denial with what would change it. A hint that says less of the same gives way.
    pub(crate) fn with_ways_out(mut self, lines: Vec<String>) -> Self {
        let says = |command: &str| lines.iter().any(|line| line.contains(command));
        let is_said = |hint: &String| says(hint) || hint.starts_with(ADDS_ENTRY) && says(ADDS_ENTRY);
        self.hint = self.hint.filter(|hint| !is_said(hint));
        self.ways_out = (!lines.is_empty()).then(|| {
            Box::new(WaysOut {
                lines,
                ..WaysOut::default()
            })
        });
        self
    }

    /// The same failure with what the name could mean, a line each.
    pub(crate) fn with_candidates(mut self, candidates: Vec<Candidate>, more: u64) -> Self {
        let lines = self.ways_out.take().map(|ways| ways.lines).unwrap_or_default();
        self.ways_out = Some(Box::new(WaysOut {
            candidates,
            more,
            lines,
        }));
        self
    }

    /// The ids that the name could mean, and how many more there are, as a server told them.
    pub(crate) fn candidates(&self) -> (Vec<&str>, u64) {
        match &self.ways_out {
            Some(ways) => (
                ways.candidates.iter().map(|known| known.id.as_str()).collect(),
                ways.more,
            ),
            None => (Vec::new(), 0),
        }
    }

    /// The same failure with what helps where no command does.
    pub(crate) fn advice(mut self, advice: &str) -> Self {
        self.ways_out
            .get_or_insert_default()
            .lines
            .push(format!("{ADVICE}{advice}"));
        self
    }

    /// The same failure with another exit code.
    pub(crate) fn exit(mut self, exit: ExitStatus) -> Self {
        self.exit = exit;
        self
    }

    /// The failure that a problem document tells of (`docs/spec/http-api.md#errors`); an empty one is no such document.
    pub(crate) fn of_problem(status: u16, problem: ProblemBody) -> Self {
        let document = (!problem.code.is_empty()).then(|| {
            json!(ProblemBody {
                status,
                ..problem.clone()
            })
        });
        let ProblemBody {
            title,
            detail,
            code,
            run_id,
            fields,
            reason,
            hint,
            required_scope,
            ids,
            candidates,
            more,
            ..
        } = problem;
        let code = if code.is_empty() {
            "unexpected-answer"
        } else {
            &code
        };
        let unknown = format!("the server answered with status {status}");
        let mut texts = [detail, title.into_owned(), unknown].into_iter();
        let mut message = texts.find(|text| !text.is_empty()).unwrap_or_default();
        if let Some(reason) = reason.filter(|reason| !message.contains(&**reason)) {
            message = format!("{reason}: {message}");
        }
        for FieldError {
            path,
            message: detail,
        } in fields
        {
            if !message.contains(&detail) {
                message = format!("{message}; {path}: {detail}");
            }
        }
        let ids = ids.into_iter().flatten().map(|id| (id, String::new()));
        let nodes = candidates.into_iter().flatten();
        let nodes = nodes.map(|node| (node.node_id, node.display_name.unwrap_or_default()));
        let candidates = short_id::candidates(ids.chain(nodes).collect());
        let failure = Self {
            hint: hint
                .map(|hint| value::visible(&hint))
                .or_else(|| default_hint(code, required_scope)),
            run_id: run_id.map(String::from),
            problem: document,
            ..Self::new(code, value::visible(&message)).exit(ExitStatus::of_problem(status, code))
        };
        if candidates.is_empty() {
            failure
        } else {
            failure.with_candidates(candidates, more.unwrap_or_default())
        }
    }
}

impl Failure {
    /// The failure for programs: the problem document of the server, or one of the same form.
    pub(crate) fn document(&self) -> Value {
        let mut document = self.problem.clone().unwrap_or_else(|| {
            // No page describes what only this program says.
            json!({"type": "about:blank", "title": self.code, "detail": self.message, "code": self.code})
        });
        if let Value::Object(members) = &mut document {
            // What this program adds, where the server said nothing.
            if let (Some(hint), false) = (&self.hint, members.contains_key("hint")) {
                members.insert("hint".to_owned(), json!(hint));
            }
            // Advice is part of what happened; the other lines are the explanation's.
            let lines = self.ways_out.iter().flat_map(|ways| &ways.lines);
            let advice = lines.filter_map(|line| line.strip_prefix(ADVICE));
            for advice in advice {
                members.insert("advice".to_owned(), json!(advice));
            }
            let (ids, more) = self.candidates();
            let is_told = ["ids", "candidates"]
                .iter()
                .any(|name| members.contains_key(*name));
            if !ids.is_empty() && !is_told {
                members.insert("ids".to_owned(), json!(ids));
                members.extend((more > 0).then(|| ("more".to_owned(), json!(more))));
            }
        }
        document
    }
}

/// How the standard library ends what the operating system said.
const NUMBERED: &str = " (os error ";

/// The text without the numbers of errors, which say nothing to people.
fn in_words(text: String) -> String {
    let Some((before, rest)) = text.split_once(NUMBERED) else {
        return text;
    };
    let Some((number, after)) = rest.split_once(')') else {
        return text;
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return text;
    }
    format!("{before}{}", in_words(after.to_owned()))
}

/// The hint for problems that carry none of their own.
fn default_hint(code: &str, required_scope: Option<Scope>) -> Option<String> {
    match code {
        "unauthorized" => Some(
            "countersign token recover   (where operator.token opens nothing any more; else give a live token with --token \
             or COUNTERSIGN_TOKEN)"
                .to_owned(),
        ),
        "forbidden" => required_scope.map(|scope| {
            format!("countersign token create NAME --scope {scope}   (makes a token that may)")
        }),
        "approval-not-found" => Some("countersign approvals list --status all".to_owned()),
        _ => None,
    }
}

/// One line, and one for the hint and each way out, no matter what a name or path in them holds.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, value::visible(&self.message))?;
        if let Some(ways) = &self.ways_out {
            for Candidate { shown, .. } in &ways.candidates {
                write!(f, "\n  {}", value::visible(shown))?;
            }
            if ways.more > 0 {
                write!(f, "\n  and {} more", ways.more)?;
            }
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {}", value::visible(hint))?;
        }
        for line in self.ways_out.iter().flat_map(|ways| &ways.lines) {
            write!(f, "\n{}", value::visible(line))?;
        }
        Ok(())
    }
}

/// Standard output is gone or cannot be written.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader of a pipe has seen enough (`countersign events | head`): not worth a message.
            return Self::new("broken-pipe", "the reader left").exit(ExitStatus::BROKEN_PIPE);
        }
        Self::new("io", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_shows_reason_detail_and_hint() {
        let problem = ProblemBody {
            code: "exec-denied".into(),
            reason: Some("allowlist-miss".into()),
            detail: "not covered".to_owned(),
            hint: Some("countersign allowlist add /usr/bin/git".to_owned()),
            ..ProblemBody::default()
        };
        let failure = Failure::of_problem(403, problem);
        assert_eq!(
            failure.to_string(),
            "error[exec-denied]: allowlist-miss: not covered\nhint: countersign allowlist add /usr/bin/git"
        );
        assert_eq!(failure.exit, ExitStatus::DENIED);
    }

    #[test]
    fn an_error_of_the_system_has_no_number() {
        let text = |message: &str| Failure::new("io", message).message;
        assert_eq!(
            text("cannot write to /x: No such file or directory (os error 2); y (os error 13)"),
            "cannot write to /x: No such file or directory; y"
        );
        let failure = Failure::from(std::io::Error::from_raw_os_error(28));
        assert_eq!(failure.message, "No space left on device");
        for odd in ["a (os error )", "a (os error 2", "a (os error x)"] {
            assert_eq!(text(odd), odd);
        }
    }

    #[test]
    fn no_name_in_a_failure_makes_a_line_or_moves_the_cursor() {
        let failure = Failure::usage("a\n\u{1b}[31mx: not there").hint("b\r\nc");
        assert_eq!(
            failure.to_string(),
            "error[usage]: a\\u{A}\\u{1B}[31mx: not there\nhint: b\\u{D}\\u{A}c"
        );
    }

    #[test]
    fn programs_get_the_document_of_the_server_or_one_like_it() {
        let problem = ProblemBody {
            code: "not-found".into(),
            status: 404,
            detail: "there is no such run".to_owned(),
            ..ProblemBody::default()
        };
        let document = Failure::of_problem(404, problem)
            .hint("countersign runs list")
            .document();
        assert_eq!(document["status"], 404);
        assert_eq!(document["detail"], "there is no such run");
        assert_eq!(document["hint"], "countersign runs list");
        let own = Failure::usage("wrong").document();
        assert_eq!(
            (own["code"].as_str(), own["detail"].as_str()),
            (Some("usage"), Some("wrong"))
        );
    }

    #[test]
    fn wrong_fields_are_named() {
        let problem = ProblemBody {
            code: "invalid-request".into(),
            detail: "the body is not valid".to_owned(),
            fields: vec![FieldError {
                path: "secuirty".to_owned(),
                message: "unknown field".to_owned(),
            }],
            ..ProblemBody::default()
        };
        assert_eq!(
            Failure::of_problem(400, problem).to_string(),
            "error[invalid-request]: the body is not valid; secuirty: unknown field"
        );
    }

    #[test]
    fn an_answer_that_is_no_problem_document_still_fails_in_words() {
        let failure = Failure::of_problem(502, ProblemBody::default());
        assert_eq!(
            failure.to_string(),
            "error[unexpected-answer]: the server answered with status 502"
        );
    }

    #[test]
    fn a_missing_scope_names_the_command_that_makes_a_token() {
        let problem = ProblemBody {
            code: "forbidden".into(),
            detail: "no".to_owned(),
            required_scope: Some(countersign_domain::Scope::Read.into()),
            ..ProblemBody::default()
        };
        let failure = Failure::of_problem(403, problem);
        assert_eq!(
            failure.hint.as_deref(),
            Some("countersign token create NAME --scope read   (makes a token that may)")
        );
    }
}
