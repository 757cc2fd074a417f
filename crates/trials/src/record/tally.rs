//! What a candidate would change: how often, and of which commands.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use countersign_domain::{Command, Security, quoting};
use countersign_engine::candidate::{Foreseen, Opinion, RecordedCommand};
use countersign_policy::command::redaction;
use countersign_wire::{
    run::RunBody,
    trial::{ChangedCommandBody, ComparedBody},
};

use super::past::{self, Fingerprint, LeftOut, Past};

/// Differing commands that are kept; more are counted.
const MAX_KEPT: usize = 10_000;
/// Text of differing commands that is kept; more are counted.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// One run beside what the candidate says to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// The run.
    pub past: Past,
    /// What the candidate says.
    pub now: Opinion,
    /// Whether it would run without an answer by a fallback that is wider than the one in force.
    has_wider_fallback: bool,
}

impl Compared {
    /// Evaluates a run; `evaluate` says `None` to what cannot be evaluated.
    ///
    /// # Errors
    /// [`LeftOut`] when it is not known what it was, or what would become of it.
    pub fn of(
        run: RunBody,
        evaluate: impl FnOnce(&RecordedCommand) -> Option<Opinion>,
    ) -> Result<Self, LeftOut> {
        let past = Past::of(run)?;
        let now = evaluate(&past.recorded).ok_or(LeftOut::Directory)?;
        Ok(Self {
            past,
            now,
            has_wider_fallback: false,
        })
    }

    /// Puts it beside the fallback in force. The record does not tell how a question would have ended without an answer,
    /// so the present policy is compared.
    #[must_use]
    pub fn beside(mut self, in_force: Security) -> Self {
        if let Some(wider) = self.now.unanswered.filter(|fallback| *fallback > in_force) {
            self.has_wider_fallback = true;
            self.now.why = format!(
                "{}; without an answer it would run: askFallback would be {}, in force is {}",
                self.now.why,
                wider.as_str(),
                in_force.as_str()
            );
        }
        self
    }

    /// Whether the candidate decides otherwise.
    pub fn differs(&self) -> bool {
        self.past.then != self.now.foreseen || self.has_wider_fallback
    }

    /// Whether it would run without anybody being asked, and did not then, or without an answer, and does not now.
    pub fn is_wider(&self) -> bool {
        self.has_wider_fallback || (self.differs() && self.now.foreseen == Foreseen::Run)
    }

    /// What is told of it.
    pub fn body(&self) -> ComparedBody {
        let recorded = &self.past.recorded;
        let (command, argv) = match &recorded.command {
            Command::Shell(text) | Command::Patch(text) => (Some(text.clone()), None),
            Command::Argv(words) => (None, Some(words.clone())),
        };
        ComparedBody {
            command,
            argv,
            line: line(recorded),
            cwd: recorded.cwd.to_string_lossy().into_owned(),
            agent_id: recorded.agent.clone(),
            then: past::word(self.past.then).into(),
            now: past::word(self.now.foreseen).into(),
            why: self.now.why.clone(),
        }
    }
}

/// A command as one line for people.
fn line(recorded: &RecordedCommand) -> String {
    redaction::masked(&quoting::line(&recorded.command))
}

/// How many runs are decided how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    total: u64,
    same: u64,
    now_run: u64,
    now_ask: u64,
    now_denied: u64,
    wider_fallback: u64,
    left_out: BTreeMap<LeftOut, u64>,
}

impl Counts {
    /// Counts a run.
    pub fn add(&mut self, compared: &Result<Compared, LeftOut>) {
        self.total += 1;
        match compared {
            Err(left_out) => *self.left_out.entry(*left_out).or_default() += 1,
            Ok(compared) if compared.has_wider_fallback => self.wider_fallback += 1,
            Ok(compared) if !compared.differs() => self.same += 1,
            Ok(compared) => match compared.now.foreseen {
                Foreseen::Run => self.now_run += 1,
                Foreseen::Ask => self.now_ask += 1,
                Foreseen::Deny => self.now_denied += 1,
            },
        }
    }

    /// Runs that were asked about or denied, and would run unasked now, or that would run without an answer now.
    pub const fn wider(&self) -> u64 {
        self.now_run + self.wider_fallback
    }

    /// Runs that would be asked about, and would run without an answer by a wider fallback.
    pub const fn wider_fallback(&self) -> u64 {
        self.wider_fallback
    }

    /// All runs.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Runs that were left out.
    pub fn skipped(&self) -> u64 {
        self.left_out.values().sum()
    }

    /// Why they were, with how many.
    pub fn skipped_by(&self) -> BTreeMap<String, u64> {
        let by = self.left_out.iter();
        by.map(|(left_out, count)| (left_out.as_str().to_owned(), *count))
            .collect()
    }

    /// Runs that are decided as they were.
    pub const fn same(&self) -> u64 {
        self.same
    }

    /// Runs that would run unasked now, and did not.
    pub const fn now_run(&self) -> u64 {
        self.now_run
    }

    /// Runs that would be asked about now, and were not.
    pub const fn now_ask(&self) -> u64 {
        self.now_ask
    }

    /// Runs that would be denied now, and were not.
    pub const fn now_denied(&self) -> u64 {
        self.now_denied
    }

    /// The members of the counts.
    pub fn to_json(&self) -> Map<String, Value> {
        let members = [
            ("total", json!(self.total)),
            ("same", json!(self.same)),
            ("nowRun", json!(self.now_run)),
            ("nowAsk", json!(self.now_ask)),
            ("nowDenied", json!(self.now_denied)),
            ("skipped", json!(self.skipped())),
            ("skippedBy", json!(self.skipped_by())),
        ];
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The same in a sentence.
    pub fn in_words(&self) -> String {
        let mut words = format!(
            "{} runs: {} the same, {} would now run, {} would now be asked about, {} would now be denied",
            self.total, self.same, self.now_run, self.now_ask, self.now_denied
        );
        if self.wider_fallback > 0 {
            words = format!(
                "{words}, {} would now be asked about and run without an answer",
                self.wider_fallback
            );
        }
        if !self.left_out.is_empty() {
            let by: Vec<String> = self
                .left_out
                .iter()
                .map(|(left_out, count)| format!("{} {count}", left_out.as_str()))
                .collect();
            words = format!("{words}; {} not judged ({})", self.skipped(), by.join(", "));
        }
        words
    }
}

/// Runs of one command that were decided alike then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedCommand {
    /// How many.
    pub count: u64,
    /// The newest.
    pub newest: Compared,
}

/// The commands about which the candidate decides otherwise, in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct ChangedCommands {
    kept: Vec<ChangedCommand>,
    places: HashMap<(Fingerprint, Foreseen), usize>,
    bytes: usize,
    omitted: u64,
}

impl ChangedCommands {
    /// Takes a run, unless it is decided as it was. Newer runs come first.
    pub fn add(&mut self, compared: Compared) {
        if !compared.differs() {
            return;
        }
        let key = (past::fingerprint(&compared.past.recorded), compared.past.then);
        if let Some(change) = self.places.get(&key).and_then(|at| self.kept.get_mut(*at)) {
            change.count += 1;
            return;
        }
        let recorded = &compared.past.recorded;
        let bytes =
            recorded.command.to_text().len() + recorded.cwd.as_os_str().len() + compared.now.why.len();
        if self.kept.len() >= MAX_KEPT || self.bytes + bytes > MAX_KEPT_BYTES {
            self.omitted += 1;
            return;
        }
        self.bytes += bytes;
        self.places.insert(key, self.kept.len());
        self.kept.push(ChangedCommand {
            count: 1,
            newest: compared,
        });
    }

    /// What was kept, newest first.
    pub fn kept(&self) -> &[ChangedCommand] {
        &self.kept
    }

    /// Runs that differ and were not kept.
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

impl ChangedCommand {
    /// What is told of it.
    pub fn body(&self) -> ChangedCommandBody {
        ChangedCommandBody {
            compared: self.newest.body(),
            count: self.count,
            last_run_id: self.newest.past.run_id.as_str().to_owned(),
        }
    }
}

/// The cells of a row that both commands show: agent, then and now, why, command.
pub fn cells(compared: &Compared) -> [String; 4] {
    let recorded = &compared.past.recorded;
    let (then, now) = (past::word(compared.past.then), past::word(compared.now.foreseen));
    [
        recorded.agent.to_string(),
        format!("{then} -> {now}"),
        compared.now.why.clone(),
        line(recorded),
    ]
}

#[cfg(test)]
mod tests {
    use super::{super::past::tests::recorded, *};

    fn run(id: &str, program: &str, by: &str, verdict: &str) -> RunBody {
        recorded(
            &json!({"runId": id, "argv": [program], "decision": {"by": by, "verdict": verdict},
            "reason": "allowlist-miss"}),
        )
    }

    fn compared(run: RunBody, now: Foreseen) -> Result<Compared, LeftOut> {
        let opinion = Opinion {
            foreseen: now,
            why: "because".to_owned(),
            unanswered: None,
        };
        Compared::of(run, |_recorded| Some(opinion))
    }

    /// A run that would be asked about, and what runs of it without an answer, beside what is in force.
    fn unanswered(by: &str, verdict: &str, fallback: Option<Security>, in_force: Security) -> Compared {
        let opinion = Opinion {
            foreseen: Foreseen::Ask,
            why: "because".to_owned(),
            unanswered: fallback,
        };
        let compared = Compared::of(run("1", "ls", by, verdict), |_recorded| Some(opinion));
        compared.unwrap().beside(in_force)
    }

    #[test]
    fn each_run_is_counted_once() {
        let mut counts = Counts::default();
        counts.add(&compared(run("1", "ls", "policy", "run"), Foreseen::Run));
        counts.add(&compared(run("2", "ls", "policy", "run"), Foreseen::Ask));
        counts.add(&compared(run("3", "ls", "person", "run"), Foreseen::Run));
        counts.add(&compared(run("4", "ls", "policy", "deny"), Foreseen::Run));
        counts.add(&compared(run("5", "ls", "policy", "ask"), Foreseen::Deny));
        for id in ["6", "7"] {
            counts.add(&Compared::of(run(id, "ls", "policy", "run"), |_recorded| None));
        }
        counts.add(&compared(recorded(&json!({"host": "node"})), Foreseen::Run));
        counts.add(&Err(LeftOut::Unreadable));
        assert_eq!(
            Value::Object(counts.to_json()),
            json!({"total": 9, "same": 1, "nowRun": 2, "nowAsk": 1, "nowDenied": 1, "skipped": 4,
                "skippedBy": {"other-host": 1, "directory": 2, "unreadable": 1}})
        );
        assert_eq!(counts.wider(), 2);
        assert_eq!(
            counts.in_words(),
            "9 runs: 1 the same, 2 would now run, 1 would now be asked about, 1 would now be denied; \
             4 not judged (other-host 1, directory 2, unreadable 1)"
        );
    }

    #[test]
    fn only_what_would_run_and_did_not_is_wider() {
        let is_wider =
            |by: &str, verdict: &str, now| compared(run("1", "ls", by, verdict), now).unwrap().is_wider();
        assert!(is_wider("person", "run", Foreseen::Run));
        assert!(is_wider("policy", "deny", Foreseen::Run));
        assert!(!is_wider("policy", "run", Foreseen::Run));
        assert!(!is_wider("policy", "deny", Foreseen::Ask));
        assert!(!is_wider("policy", "run", Foreseen::Deny));
    }

    #[test]
    fn a_question_that_needs_no_answer_any_more_is_wider() {
        use Security::{Allowlist, Deny, Full};
        for (fallback, in_force, is_wider) in [
            (None, Deny, false),
            (Some(Allowlist), Deny, true),
            (Some(Full), Deny, true),
            (Some(Full), Allowlist, true),
            (Some(Allowlist), Allowlist, false),
            (Some(Allowlist), Full, false),
            (Some(Full), Full, false),
        ] {
            let compared = unanswered("person", "run", fallback, in_force);
            assert_eq!(
                (compared.differs(), compared.is_wider()),
                (is_wider, is_wider),
                "{fallback:?} beside {in_force:?}"
            );
        }
        let mut counts = Counts::default();
        let mut changes = ChangedCommands::default();
        for (by, verdict) in [("person", "run"), ("policy", "deny"), ("policy", "run")] {
            let compared = unanswered(by, verdict, Some(Full), Deny);
            counts.add(&Ok(compared.clone()));
            changes.add(compared);
        }
        counts.add(&Ok(unanswered("person", "run", Some(Full), Full)));
        assert_eq!((counts.wider(), counts.wider_fallback()), (3, 3));
        assert_eq!(
            counts.in_words(),
            "4 runs: 1 the same, 0 would now run, 0 would now be asked about, 0 would now be denied, \
             3 would now be asked about and run without an answer"
        );
        let told = json!(changes.kept().first().map(ChangedCommand::body).unwrap());
        assert_eq!((&told["then"], &told["now"]), (&json!("ask"), &json!("ask")));
        assert_eq!(
            told["why"],
            "because; without an answer it would run: askFallback would be full, in force is deny"
        );
    }

    #[test]
    fn one_command_decided_alike_is_one_change_with_its_newest_run() {
        let mut changes = ChangedCommands::default();
        for (id, program, by) in [
            ("9", "git", "policy"),
            ("8", "make", "policy"),
            ("7", "git", "policy"),
            ("6", "git", "person"),
            ("5", "ls", "policy"),
        ] {
            let now = if program == "ls" {
                Foreseen::Run
            } else {
                Foreseen::Deny
            };
            changes.add(compared(run(id, program, by, "run"), now).unwrap());
        }
        let told: Vec<Value> = changes.kept().iter().map(|change| json!(change.body())).collect();
        let row = |id: &str, program: &str, count: u32, then: &str| {
            json!({"argv": [program], "line": program, "cwd": "/srv", "agentId": "main", "then": then, "now": "deny", "why": "because",
                "count": count, "lastRunId": id})
        };
        assert_eq!(
            told,
            [
                row("9", "git", 2, "run"),
                row("8", "make", 1, "run"),
                row("6", "git", 1, "ask")
            ]
        );
        assert_eq!(changes.omitted(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_rest_counted() {
        let mut changes = ChangedCommands::default();
        let long = "x".repeat(MAX_KEPT_BYTES / 4);
        for id in 0..6 {
            let run = run(&id.to_string(), &format!("{id}{long}"), "policy", "run");
            changes.add(compared(run, Foreseen::Ask).unwrap());
        }
        assert_eq!((changes.kept().len(), changes.omitted()), (3, 3));
        // More of what is kept is still counted there.
        let again = run("0", &format!("0{long}"), "policy", "run");
        changes.add(compared(again, Foreseen::Ask).unwrap());
        assert_eq!(changes.kept().first().map(|change| change.count), Some(2));
    }
}
