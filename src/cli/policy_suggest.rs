//! `countersign policy suggest`: what people allow again and again, as the entries that would have answered for them.
//!
//! Nothing wider than what `allow-always` stores by itself is ever suggested, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use countersign_domain::{AgentId, Command, Host, PatternWidth, UnixMillis, quoting};
use countersign_policy::{command::redaction, pattern};
use countersign_trials::record::spelled;
use countersign_wire::{
    approval::{ApprovalBody, NO_ENV_HASH},
    explain::ExplanationBody,
    page::Page,
};

use super::{
    candidates,
    client::{Client, Query},
    console::Format,
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    moment::{self, Moment, parse_moment},
    value,
};

/// Answers that are looked at, of each kind.
const MAX_READ: usize = 20_000;
/// Answers of one page of the list.
const PAGE: usize = 200;
/// Bytes of a command that an entry is suggested for; longer ones are hardly habits.
const MAX_TEXT: usize = 4096;
/// Suggestions; nobody reads more.
const MAX_SUGGESTED: usize = 100;
/// Names that a suggestion gives of those who allowed it.
const MAX_NAMES: usize = 8;
/// Characters of the command that a note repeats.
const MAX_NOTED: usize = 120;

/// Suggest entries for what people allowed again and again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign policy suggest
  countersign policy suggest --agent main --since 90d --min 5 --json

Prints a line for each entry that allow-always would have stored: one program with exactly these
arguments in this directory. Left out is what the policy lets run by now, what a person ever
denied, and what must not be remembered, such as code in arguments. Nothing is changed: run the
lines that you agree with.")]
pub(crate) struct SuggestArgs {
    /// Only for this agent
    #[arg(long, value_name = "ID", add = candidates::agents())]
    agent: Option<AgentId>,
    /// Only answers to questions from then on: so long ago (2h, 7d), a date, or a time (2026-11-23T09:00:00Z)
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_moment)]
    since: Moment,
    /// Only what was allowed at least so many times
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    min: u64,
}

pub(crate) async fn run(
    context: &Context,
    client: &Client,
    args: SuggestArgs,
) -> Result<ExitStatus, Failure> {
    let SuggestArgs { agent, since, min } = args;
    let start = since.at(context.clock.now()).get();
    let mut answers = Answers::default();
    // What was denied counts for as long as the record has it.
    let take = |approval: &ApprovalBody| answers.deny(approval);
    if each_answer(client, "denied", agent.as_ref(), i64::MIN, take).await? == ReadExtent::Newest {
        context
            .console
            .note(&format!("only the newest {MAX_READ} denials were looked at"));
    }
    let take = |approval: &ApprovalBody| answers.allow(approval);
    each_answer(client, "allowed", agent.as_ref(), start, take).await?;
    let (wanted, mut left_out) = answers.wanted(min);
    let mut suggested = Vec::new();
    for habit in wanted {
        if suggested.len() >= MAX_SUGGESTED {
            break;
        }
        if still_helps(client, &habit).await? {
            suggested.push(habit);
        } else {
            left_out.settled += 1;
        }
    }
    report(context, &suggested, &left_out)?;
    Ok(ExitStatus::SUCCESS)
}

/// How far back answers were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadExtent {
    /// As far as was wanted.
    All,
    /// There are too many.
    Newest,
}

/// Reads the answers of one kind, newest first, as far back as `start`.
async fn each_answer(
    client: &Client,
    status: &str,
    agent: Option<&AgentId>,
    start: i64,
    mut take: impl FnMut(&ApprovalBody),
) -> Result<ReadExtent, Failure> {
    let mut query: Query = vec![("status", status.to_owned()), ("limit", PAGE.to_string())];
    query.extend(agent.map(|agent| ("agentId", agent.to_string())));
    let mut cursor: Option<String> = None;
    let mut read = 0;
    while read < MAX_READ {
        let mut page_query = query.clone();
        page_query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page: Page<ApprovalBody> = client.get_page(&["v1", "approvals"], &page_query).await?;
        for approval in &page.items {
            if approval.created_at_ms.get() < start {
                return Ok(ReadExtent::All);
            }
            take(approval);
            read += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(ReadExtent::All);
        }
    }
    Ok(ReadExtent::Newest)
}

/// Whether the same call would be asked about now, and its answer could be remembered as this very entry.
async fn still_helps(client: &Client, habit: &Habit) -> Result<bool, Failure> {
    let (name, words) = spelled(&habit.command);
    let call = json!({ name: words, "agentId": habit.entry.agent, "workdir": habit.cwd, "host": "gateway" });
    match client.post(&["v1", "exec", "explain"], &call).await {
        Ok(explained) => Ok(habit.entry.would_answer(&explained)),
        Err(failure) if failure.is_no_connection() || failure.code == "unauthorized" => Err(failure),
        // Its directory is gone, or its host is another one. No matter why it was refused, no entry is known to help.
        Err(_refused) => Ok(false),
    }
}

/// What `allow-always` stores of one command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ExactEntry {
    agent: AgentId,
    pattern: String,
    arg_pattern: String,
}

impl ExactEntry {
    /// The entries that a bare `allow-always` to this question would store. An answer for the whole text of a command is
    /// none: only a person who sees it can give that.
    fn all_of(approval: &ApprovalBody) -> Vec<Self> {
        let proposed = approval.proposed_patterns.iter();
        let exact = proposed.filter(|proposed| {
            proposed.default && proposed.width == PatternWidth::Exact && proposed.pattern.starts_with('/')
        });
        exact
            .filter_map(|proposed| {
                let arg_pattern = proposed.arg_pattern.clone()?;
                arg_pattern.starts_with(pattern::CWD_ARGV_PREFIX).then(|| Self {
                    agent: approval.agent_id.clone(),
                    pattern: proposed.pattern.clone(),
                    arg_pattern,
                })
            })
            .collect()
    }

    /// Whether it would answer what an explanation says. A rule about several people, or certain ones, may have come
    /// after the answers.
    fn would_answer(&self, explained: &ExplanationBody) -> bool {
        let takes_more = explained.approvals_required.is_some_and(|required| required > 1);
        !takes_more
            && explained.groups.is_none()
            && explained.would_persist.iter().any(|proposed| {
                proposed.default
                    && proposed.pattern == self.pattern
                    && proposed.arg_pattern.as_ref() == Some(&self.arg_pattern)
            })
    }
}

/// Stands for a command as people saw it: whose, the text, where.
type CommandDigest = [u8; 32];

fn command_digest(approval: &ApprovalBody) -> CommandDigest {
    let parts = [approval.agent_id.as_str(), &approval.command, &approval.cwd];
    Sha256::digest(json!(parts).to_string().as_bytes()).into()
}

/// An entry that would have answered for people.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Habit {
    entry: ExactEntry,
    count: u64,
    first: UnixMillis,
    last: UnixMillis,
    by: BTreeSet<String>,
    /// The newest command that it is for.
    command: Command,
    cwd: String,
    was_denied: bool,
}

/// What came of the questions.
#[derive(Debug, Default)]
struct Answers {
    denied: HashSet<CommandDigest>,
    denied_entries: HashSet<ExactEntry>,
    habits: Vec<Habit>,
    places: HashMap<ExactEntry, usize>,
}

/// What is not suggested, and why not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LeftOut {
    /// Entries that were seen too seldom.
    seldom: usize,
    /// Entries for what a person denied.
    denied: usize,
    /// Entries that would change nothing by now.
    settled: usize,
}

impl Answers {
    /// Takes an answer that was no. Deny these before anything is allowed.
    fn deny(&mut self, approval: &ApprovalBody) {
        self.denied.insert(command_digest(approval));
        self.denied_entries.extend(ExactEntry::all_of(approval));
    }

    /// Takes an answer that was yes; the newest comes first.
    fn allow(&mut self, approval: &ApprovalBody) {
        // A node has a document of its own, and a changed environment is a question of its own.
        let is_changed = approval.bound_to.env_hash != NO_ENV_HASH;
        // An entry must not answer for several people, or certain ones.
        let takes_more = approval.approvals_required > 1 || approval.groups.is_some();
        let is_long = approval.command.len() > MAX_TEXT;
        if approval.host != Host::Gateway || is_changed || takes_more || is_long {
            return;
        }
        let is_denied = self.denied.contains(&command_digest(approval));
        let at = approval.created_at_ms;
        let command = match &approval.bound_to.argv {
            Some(argv) => Command::Argv(argv.clone()),
            None => Command::Shell(approval.command.clone()),
        };
        for entry in ExactEntry::all_of(approval) {
            let was_denied = is_denied || self.denied_entries.contains(&entry);
            let next = self.habits.len();
            let place = *self.places.entry(entry.clone()).or_insert(next);
            if place == next {
                self.habits.push(Habit {
                    entry,
                    count: 0,
                    first: at,
                    last: at,
                    by: BTreeSet::new(),
                    command: command.clone(),
                    cwd: approval.cwd.clone(),
                    was_denied: false,
                });
            }
            let Some(habit) = self.habits.get_mut(place) else {
                continue;
            };
            habit.count += 1;
            habit.first = habit.first.min(at);
            habit.last = habit.last.max(at);
            habit.was_denied |= was_denied;
            if habit.by.len() < MAX_NAMES {
                let by = approval.resolved_by.as_ref();
                habit.by.extend(by.map(|by| by.name.clone()));
            }
        }
    }

    /// What is worth a suggestion, the most frequent first.
    fn wanted(self, min: u64) -> (Vec<Habit>, LeftOut) {
        let mut left_out = LeftOut::default();
        let mut wanted = Vec::new();
        for habit in self.habits {
            if habit.was_denied {
                left_out.denied += 1;
            } else if habit.count < min {
                left_out.seldom += 1;
            } else {
                wanted.push(habit);
            }
        }
        wanted.sort_by_key(|habit| std::cmp::Reverse((habit.count, habit.last)));
        (wanted, left_out)
    }
}

impl Habit {
    /// The command line that adds the entry.
    fn to_add(&self) -> Vec<String> {
        let ExactEntry {
            agent,
            pattern,
            arg_pattern,
        } = &self.entry;
        // One argument each: nothing that an agent wrote can become a flag.
        let words = ["countersign", "allowlist", "add", pattern.as_str()];
        let flags = [
            format!("--agent={agent}"),
            format!("--arg-pattern={arg_pattern}"),
            format!("--note=allowed {} times: {}", self.count, self.short_text()),
        ];
        words.into_iter().map(str::to_owned).chain(flags).collect()
    }

    fn short_text(&self) -> String {
        let text = self.text();
        if text.chars().count() <= MAX_NOTED {
            return text;
        }
        let cut: String = text.chars().take(MAX_NOTED - 1).collect();
        format!("{cut}…")
    }

    /// The command in one harmless line.
    fn text(&self) -> String {
        value::visible(&redaction::masked(&quoting::line(&self.command)))
    }

    fn names(&self) -> Vec<&str> {
        self.by.iter().map(String::as_str).collect()
    }

    fn to_json(&self) -> Value {
        let mut members: BTreeMap<&str, Value> = BTreeMap::from([
            ("agentId", json!(self.entry.agent)),
            ("pattern", json!(self.entry.pattern)),
            ("argPattern", json!(self.entry.arg_pattern)),
            ("cwd", json!(self.cwd)),
            ("count", json!(self.count)),
            ("firstAtMs", json!(self.first)),
            ("lastAtMs", json!(self.last)),
            ("by", json!(self.names())),
            ("add", json!(self.to_add())),
        ]);
        members.extend([spelled(&self.command)]);
        json!(members)
    }

    /// A comment and the line that adds it, which no part of the command can leave. The text of the comment is one quoted
    /// word: interactive zsh has no comments unless told, and runs `#` as a program, which there is none of.
    fn lines(&self) -> [String; 2] {
        let comment = format!(
            "allowed {} times by {}, last {}, in {}: {}",
            self.count,
            value::visible(&self.names().join(", ")),
            moment::with_zone(self.last),
            value::visible(&self.cwd),
            self.text()
        );
        let words: Vec<String> = self.to_add().iter().map(|word| value::quoted(word)).collect();
        [format!("# {}", value::quoted(&comment)), words.join(" ")]
    }
}

fn report(context: &Context, suggested: &[Habit], left_out: &LeftOut) -> Result<(), Failure> {
    let console = context.console;
    let LeftOut {
        seldom,
        denied,
        settled,
    } = left_out;
    if console.format() == Format::Json {
        let suggestions: Vec<Value> = suggested.iter().map(Habit::to_json).collect();
        return console.document(&json!({
            "suggestions": suggestions,
            "leftOut": { "seldom": seldom, "denied": denied, "settled": settled },
        }));
    }
    for habit in suggested {
        for line in habit.lines() {
            console.line(&line)?;
        }
    }
    if suggested.is_empty() {
        console.note("nothing to suggest");
    } else {
        console.note("nothing is changed; run the lines that you agree with");
    }
    if seldom + denied + settled > 0 {
        console.note(&format!(
            "left out: {seldom} allowed too seldom, {denied} that a person denied, {settled} that need no entry or can have none"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(program: &str, digest: char) -> Value {
        let arg_pattern = format!("{}{}", pattern::CWD_ARGV_PREFIX, digest.to_string().repeat(64));
        json!({"segment": 0, "pattern": program, "argPattern": arg_pattern, "width": "exact", "default": true})
    }

    fn approval(command: &str, patterns: &[Value]) -> Value {
        json!({"id": "a", "slug": "a", "runId": "r", "status": "allowed", "display": {"text": command, "spans": [],
            "warnings": [], "truncated": false}, "sessionKey": "agent:main:main", "segments": [], "envNames": [],
            "requestedBy": {"kind": "token", "id": "t", "name": "t"}, "security": "allowlist", "ask": "on-miss",
            "askFallback": "deny", "why": {"layer": "", "rule": "", "detail": ""}, "approvalsRequired": 1,
            "allowedDecisions": [], "expiresAtMs": 2000, "binding": "exact", "bindingDetail": "",
            "agentId": "main", "host": "gateway", "command": command, "cwd": "/srv", "createdAtMs": 1000,
            "resolvedBy": {"kind": "token", "id": "u", "name": "alice"}, "proposedPatterns": patterns,
            "boundTo": {"command": command, "cwd": "/srv", "envHash": NO_ENV_HASH, "digest": ""}})
    }

    fn body(approval: &Value) -> ApprovalBody {
        serde_json::from_value(approval.clone()).unwrap()
    }

    fn wanted(denied: &[Value], allowed: &[Value], min: u64) -> (Vec<(String, u64)>, LeftOut) {
        let mut answers = Answers::default();
        for approval in denied {
            answers.deny(&body(approval));
        }
        for approval in allowed {
            answers.allow(&body(approval));
        }
        let (habits, left_out) = answers.wanted(min);
        let told = |habit: &Habit| (habit.entry.pattern.clone(), habit.count);
        (habits.iter().map(told).collect(), left_out)
    }

    #[test]
    fn the_same_entry_is_counted_and_the_most_frequent_comes_first() {
        let git = approval("git status", &[exact("/usr/bin/git", 'a')]);
        let make = approval("make test", &[exact("/usr/bin/make", 'b')]);
        let ls = approval("ls", &[exact("/usr/bin/ls", 'c')]);
        let allowed = [git.clone(), make.clone(), make.clone(), git, make, ls];
        let (habits, left_out) = wanted(&[], &allowed, 2);
        assert_eq!(
            habits,
            [("/usr/bin/make".to_owned(), 3), ("/usr/bin/git".to_owned(), 2)]
        );
        assert_eq!(
            left_out,
            LeftOut {
                seldom: 1,
                ..LeftOut::default()
            }
        );
    }

    #[test]
    fn only_what_allow_always_stores_by_itself_is_an_entry() {
        let mut wide = exact("/usr/bin/git", 'a');
        wide["default"] = json!(false);
        wide["width"] = json!("program");
        let mut any = exact("/usr/bin/git", 'a');
        any.as_object_mut().unwrap().shift_remove("argPattern");
        let mut expression = exact("/usr/bin/git", 'a');
        expression["argPattern"] = json!("^status$");
        let text = exact("=command:1de700c29687cae3", 'a');
        let mut elsewhere = approval("git status", &[exact("/usr/bin/git", 'a')]);
        elsewhere["host"] = json!("node");
        let mut changed = approval("git status", &[exact("/usr/bin/git", 'a')]);
        changed["boundTo"]["envHash"] = json!("00");
        let mut of_two = approval("git status", &[exact("/usr/bin/git", 'a')]);
        of_two["approvalsRequired"] = json!(2);
        let mut of_some = approval("git status", &[exact("/usr/bin/git", 'a')]);
        of_some["groups"] = json!(["release"]);
        // No pattern at all: code in arguments is never remembered.
        let code = approval("python3 -c 'x'", &[]);
        let by_pattern = [wide, any, expression, text].map(|pattern| approval("git status", &[pattern]));
        for approval in by_pattern
            .into_iter()
            .chain([elsewhere, changed, of_two, of_some, code])
        {
            let (habits, left_out) = wanted(&[], std::slice::from_ref(&approval), 1);
            assert!(habits.is_empty() && left_out == LeftOut::default(), "{approval}");
        }
    }

    #[test]
    fn what_was_ever_denied_is_left_out() {
        let allowed = [approval("git push", &[exact("/usr/bin/git", 'a')])];
        // The same command, asked about when nothing could be remembered of it.
        let same = approval("git push", &[]);
        // Another text with the same program, arguments and directory in it.
        let within = approval(
            "git push && ls",
            &[exact("/usr/bin/git", 'a'), exact("/usr/bin/ls", 'b')],
        );
        for denied in [same, within] {
            let (habits, left_out) = wanted(&[denied], &allowed, 1);
            assert!(habits.is_empty(), "{habits:?}");
            assert_eq!(
                left_out,
                LeftOut {
                    denied: 1,
                    ..LeftOut::default()
                }
            );
        }
        let mut other_agent = approval("git push", &[exact("/usr/bin/git", 'a')]);
        other_agent["agentId"] = json!("build");
        assert_eq!(wanted(&[other_agent], &allowed, 1).0.len(), 1);
    }

    #[test]
    fn what_takes_several_people_by_now_is_answered_by_no_entry() {
        let entry = ExactEntry::all_of(&body(&approval("ls", &[exact("/usr/bin/ls", 'a')]))).remove(0);
        let rule = |value: &str| json!({"value": value, "source": "", "layers": []});
        let mut explained = json!({ "agentId": "main", "outcome": "ask", "wouldPersist": [exact("/usr/bin/ls", 'a')],
            "host": {"value": "gateway", "source": "", "layers": [], "alternatives": []},
            "security": rule("allowlist"), "ask": rule("on-miss"), "askFallback": rule("deny"), "analysis": {},
            "env": {"blocked": [], "passed": []}, "needsPerson": false, "approverReachable": true, "diverted": false, "toAllow": [] });
        let would_answer = |explained: &Value| {
            let explained = serde_json::from_value(explained.clone()).unwrap();
            entry.would_answer(&explained)
        };
        assert!(would_answer(&explained));
        explained["approvalsRequired"] = json!(1);
        assert!(would_answer(&explained));
        explained["approvalsRequired"] = json!(2);
        assert!(!would_answer(&explained));
        explained["approvalsRequired"] = json!(1);
        for groups in [json!(["release"]), json!([])] {
            explained["groups"] = groups;
            assert!(!would_answer(&explained), "{explained}");
        }
    }

    /// Whether a shell reads it as a single word in single quotes, no matter what else the shell makes of the line.
    fn is_one_word(text: &str) -> bool {
        let words = countersign_policy::command::parse(text).map(|list| {
            let words = list.segments().map(|segment| segment.words.len());
            words.collect::<Vec<_>>()
        });
        text.starts_with('\'') && words.is_ok_and(|words| words == [1])
    }

    #[test]
    fn nothing_of_a_command_leaves_its_comment_or_its_argument() {
        let hostile = "x\n rm -rf ~ '; $(reboot) \u{1b}[2J\u{202e}";
        let mut answers = Answers::default();
        answers.allow(&body(&approval(hostile, &[exact("/opt/it's here/x", 'a')])));
        let (habits, _) = answers.wanted(1);
        let [comment, line] = habits[0].lines();
        assert!(comment.strip_prefix("# ").is_some_and(is_one_word), "{comment}");
        for text in [&comment, &line] {
            assert!(
                !text.chars().any(|c| c.is_control() || c == '\u{202e}'),
                "{text:?}"
            );
        }
        assert!(
            line.starts_with(r"countersign allowlist add '/opt/it'\''s here/x' --agent=main --arg-pattern="),
            "{line}"
        );
        assert!(
            line.contains(r"'--note=allowed 1 times: x\u{A} rm -rf ~ '\''; $(reboot) "),
            "{line}"
        );
    }

    #[test]
    fn no_directory_and_no_name_leaves_the_comment() {
        for hostile in [
            "/w/d; touch pwned; x",
            "/w/`touch pwned`",
            "/w/$(touch pwned)",
            "/w/'; touch pwned; '",
            "/w/''';touch pwned;'",
            "'",
            r"/w/\'; touch pwned; \'",
            "/w/\"; touch pwned; \"",
            "/w/d\ntouch pwned\r\ntouch pwned",
            "/w/!touch & touch pwned | x > y",
        ] {
            let mut approval = approval("ls", &[exact("/usr/bin/ls", 'a')]);
            approval["cwd"] = json!(hostile);
            approval["resolvedBy"]["name"] = json!(hostile);
            let mut answers = Answers::default();
            answers.allow(&body(&approval));
            let (habits, _) = answers.wanted(1);
            let [comment, line] = habits[0].lines();
            assert!(comment.strip_prefix("# ").is_some_and(is_one_word), "{comment}");
            assert!(!comment.contains(['\n', '\r']), "{comment:?}");
            assert!(!line.contains("touch"), "{line}");
        }
    }
}
