//! Events as sentences: what happened to a run on one line where it is told afterwards, step by step where it happens.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use countersign_domain::UnixMillis;
use countersign_policy::command::redaction;
use countersign_wire::{
    event::EventBody,
    sentence::{self, Sentence, Weight},
};

use super::{ids, moment, value};

/// How many runs are remembered by their commands while events are followed.
const REMEMBERED: usize = 1000;
/// How much of a command stands before a later step of its run.
const LABEL: usize = 60;
const ARROW: &str = " \u{2192} ";

/// The events so far.
#[derive(Debug)]
pub(super) struct Story {
    now: UnixMillis,
    /// Whether times have their date and zone, and runs their ids in full.
    wide: bool,
    /// What the runs that are followed are called.
    labels: HashMap<String, String>,
    oldest_first: VecDeque<String>,
}

/// A line about a run.
struct Line {
    at: Option<UnixMillis>,
    /// Whether it says what was asked.
    begins: bool,
    run_id: Option<String>,
    parts: Vec<(Weight, String)>,
}

impl Story {
    /// A story that is told now: of today it has the time alone, unless it is wide.
    pub(super) fn new(now: UnixMillis, wide: bool) -> Self {
        Self {
            now,
            wide,
            labels: HashMap::new(),
            oldest_first: VecDeque::new(),
        }
    }

    /// The line about an event as it comes, if it says anything new.
    pub(super) fn goes_on(&mut self, event: &Value) -> Option<String> {
        let event: EventBody = countersign_wire::read(event).unwrap_or_default();
        let sentence = said(&event);
        let Sentence {
            run_id,
            begins,
            weight,
            text,
        } = sentence;
        let Some(run_id) = run_id else {
            return Some(self.line(event.ts, &text, None));
        };
        if begins {
            self.remember(run_id.clone(), label_of(&event, &text));
            return Some(self.line(event.ts, &text, Some(&run_id)));
        }
        let label = self.labels.get(&run_id);
        if label.is_some() && weight == Weight::Repeats {
            return None;
        }
        let label = label.cloned().unwrap_or_else(|| run(&run_id));
        Some(self.line(event.ts, &format!("{label}{ARROW}{text}"), Some(&run_id)))
    }

    /// The lines about all of these: one for each run, where its first event stands, and one for everything else.
    pub(super) fn told(&self, events: &[Value]) -> Vec<String> {
        let mut lines: Vec<Line> = Vec::new();
        let mut of_run: HashMap<String, usize> = HashMap::new();
        for event in events {
            let event: EventBody = countersign_wire::read(event).unwrap_or_default();
            let Sentence {
                run_id,
                begins,
                weight,
                text,
            } = said(&event);
            let known = run_id.as_ref().and_then(|run_id| of_run.get(run_id).copied());
            if let Some(line) = known.and_then(|known| lines.get_mut(known)) {
                line.parts.push((weight, text));
                continue;
            }
            let mut parts = Vec::new();
            if let Some(run_id) = &run_id {
                if !begins {
                    let label = self.labels.get(run_id).cloned();
                    parts.push((Weight::Full, label.unwrap_or_else(|| run(run_id))));
                }
                of_run.insert(run_id.clone(), lines.len());
            }
            parts.push((weight, text));
            lines.push(Line {
                at: event.ts,
                begins,
                run_id,
                parts,
            });
        }
        lines
            .iter()
            .map(|line| self.line(line.at, &line.text(), line.run_id.as_deref()))
            .collect()
    }

    /// The runs of these events whose beginnings are not among them.
    pub(super) fn unknown_runs(&self, events: &[Value]) -> Vec<String> {
        let mut known: HashSet<String> = self.labels.keys().cloned().collect();
        let mut unknown = Vec::new();
        for event in events {
            let event: EventBody = countersign_wire::read(event).unwrap_or_default();
            let Sentence { run_id, begins, .. } = said(&event);
            let Some(run_id) = run_id else { continue };
            if known.insert(run_id.clone()) && !begins {
                unknown.push(run_id);
            }
        }
        unknown
    }

    /// What a run is called that began before.
    pub(super) fn call(&mut self, run_id: String, agent: &str, command: &str) {
        self.remember(run_id, label(agent, command));
    }

    fn remember(&mut self, run_id: String, label: String) {
        if self.oldest_first.len() >= REMEMBERED
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.labels.remove(&oldest);
        }
        self.oldest_first.push_back(run_id.clone());
        self.labels.insert(run_id, label);
    }

    fn line(&self, at: Option<UnixMillis>, text: &str, run_id: Option<&str>) -> String {
        let time = |at| {
            if self.wide {
                moment::with_zone(at)
            } else {
                moment::of_day(at, self.now)
            }
        };
        let run = run_id.filter(|_| self.wide);
        let run = run.map_or_else(String::new, |id| format!("  (run {})", value::visible(id)));
        format!("{} {text}{run}", at.map(time).unwrap_or_default())
    }
}

impl Line {
    fn text(&self) -> String {
        let last = self.parts.len().saturating_sub(1);
        // What is there of a run may be nothing but what repeats an event before it: then the first of that says how it went.
        let repeats = |(weight, _): &(Weight, String)| *weight == Weight::Repeats;
        let only_repeats = !self.begins && self.parts.get(1..).unwrap_or_default().iter().all(repeats);
        let shown = self
            .parts
            .iter()
            .enumerate()
            .filter(|(index, (weight, _))| match weight {
                Weight::Full => true,
                Weight::Passing => *index == last,
                Weight::Repeats => only_repeats && *index == last.min(1),
            });
        let texts: Vec<&str> = shown.map(|(_, (_, text))| text.as_str()).collect();
        texts.join(ARROW)
    }
}

/// What an event says; of a type that is not known here, its type.
fn said(event: &EventBody) -> Sentence {
    sentence::of(event).unwrap_or_else(|| Sentence {
        run_id: None,
        begins: false,
        weight: Weight::Full,
        text: value::visible(&event.r#type),
    })
}

/// What later steps of a run begin with: whose it is and what it runs, and not once more that it was asked.
fn label_of(event: &EventBody, text: &str) -> String {
    let member = |name: &str| event.members.get(name).and_then(Value::as_str);
    match (member("agentId"), member("command")) {
        (Some(agent), Some(command)) => label(agent, command),
        _ => value::shortened(text, LABEL),
    }
}

fn label(agent: &str, command: &str) -> String {
    let label = format!("{agent}: {}", redaction::masked(command));
    value::shortened(&value::visible(&label), LABEL)
}

/// A run whose command is not known.
fn run(run_id: &str) -> String {
    format!("run {}", ids::short(run_id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RUN: &str = "01a20aae-0000-7000-8000-00005afb5d74";

    fn events() -> Vec<Value> {
        let ann = json!({"kind": "session", "id": "s", "name": "ann"});
        let run = |kind: &str, mut members: Value| {
            members["type"] = json!(kind);
            members["ts"] = json!(0);
            members["runId"] = json!(RUN);
            members["agentId"] = json!("build");
            members
        };
        vec![
            run(
                "exec.requested",
                json!({"command": "npm run build", "verdict": "ask"}),
            ),
            run(
                "exec.approval.requested",
                json!({"slug": "5afb5d74", "approvalsRequired": 1}),
            ),
            json!({"type": "server.shutdown", "ts": 1}),
            run(
                "exec.approval.resolved",
                json!({"status": "allowed", "decision": "allow-once", "resolvedBy": ann}),
            ),
            run("exec.started", json!({})),
            run(
                "exec.finished",
                json!({"status": "failed", "exitCode": 1, "durationMs": 267}),
            ),
        ]
    }

    fn without_time(line: &str) -> &str {
        line.split_once(' ').map_or(line, |(_, rest)| rest)
    }

    #[test]
    fn a_run_is_one_line_where_it_is_told_afterwards() {
        let story = Story::new(UnixMillis::new(0), false);
        let lines = story.told(&events());
        let lines: Vec<&str> = lines.iter().map(|line| without_time(line)).collect();
        assert_eq!(
            lines,
            [
                "build asked npm run build \u{2192} ann allowed once \u{2192} exit 1 in 267 ms",
                "the server stops",
            ]
        );
    }

    #[test]
    fn a_wide_story_has_ids_and_times_in_full() {
        let story = Story::new(UnixMillis::new(0), true);
        let lines = story.told(&events());
        let zone = moment::with_zone(UnixMillis::new(0));
        assert!(
            lines[0].starts_with(&format!("{zone} build asked npm run build")),
            "{lines:#?}"
        );
        assert!(lines[0].ends_with(&format!("  (run {RUN})")), "{lines:#?}");
        assert!(lines[1].ends_with(" the server stops"), "{lines:#?}");
    }

    #[test]
    fn what_is_passing_is_told_as_long_as_nothing_follows() {
        let events = events();
        let story = Story::new(UnixMillis::new(0), false);
        let line = |events: &[Value]| without_time(&story.told(events).concat()).to_owned();
        assert_eq!(
            line(&events[..2]),
            "build asked npm run build \u{2192} waits for a person (approval 5afb5d74)"
        );
        // A run whose beginning was not asked for is named by its id.
        assert_eq!(line(&events[5..]), "run 5afb5d74 \u{2192} exit 1 in 267 ms");
        assert_eq!(story.unknown_runs(&events[5..]), [RUN]);
        assert_eq!(story.unknown_runs(&events), Vec::<String>::new());
        let mut called = Story::new(UnixMillis::new(0), false);
        called.call(RUN.to_owned(), "build", "npm run build --token abcdef0123");
        let line = called.told(&events[5..]).concat();
        assert!(line.ends_with("build: npm run build --token \u{27e8}secret of 10 characters\u{27e9} \u{2192} exit 1 in 267 ms"), "{line}");
    }

    #[test]
    fn a_run_of_which_only_the_end_is_told_has_its_end() {
        let event = |kind: &str, members: Value| {
            let mut event = json!({"type": kind, "ts": 0, "runId": RUN, "agentId": "build"});
            let own = members.as_object().expect("members").clone();
            event.as_object_mut().expect("an object").extend(own);
            event
        };
        let events = [
            event(
                "exec.denied",
                json!({"reason": "user-denied", "detail": "use staging"}),
            ),
            event("system.event", json!({"text": "Exec denied"})),
        ];
        let mut story = Story::new(UnixMillis::new(0), false);
        story.call(RUN.to_owned(), "build", "git push");
        let lines = story.told(&events);
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert_eq!(
            without_time(&lines[0]),
            "build: git push \u{2192} denied: user-denied (use staging)"
        );
    }

    #[test]
    fn a_run_is_told_step_by_step_where_it_happens() {
        let mut story = Story::new(UnixMillis::new(0), false);
        let lines: Vec<String> = events().iter().filter_map(|event| story.goes_on(event)).collect();
        let lines: Vec<&str> = lines.iter().map(|line| without_time(line)).collect();
        assert_eq!(
            lines,
            [
                "build asked npm run build",
                "build: npm run build \u{2192} waits for a person (approval 5afb5d74)",
                "the server stops",
                "build: npm run build \u{2192} ann allowed once",
                "build: npm run build \u{2192} exit 1 in 267 ms",
            ]
        );
    }
}
