//! `countersign status`: how the server stands, on one screen.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use countersign_domain::{AgentId, RunId, UnixMillis};
use countersign_wire::{
    approval::{ApprovalBriefBody, ApprovalView},
    health::ReadinessBody,
    policy::EffectiveBody,
    run::RunBody,
    words::{Isolation, Reason},
};

use super::{
    client::{Client, Query},
    console::{Console, Format, Tone},
    context::Context,
    discover::Role,
    doctor,
    duration::rough,
    exit::ExitStatus,
    failure::Failure,
    runtime::with_runtime,
    table::Table,
    value,
};

use crate::{
    doctor::{Finding, Severity},
    lifecycle::ServerFile,
};

/// So many questions and runs are counted; of more it is said that there are more.
const MOST_COUNTED: usize = 500;

/// So many findings have a line of their own; `doctor` has all.
const MOST_FINDINGS: usize = 5;
/// One screen has so much room beside the names.
const FINDING_WIDTH: usize = 64;
/// A sentence has so many lines.
const FINDING_LINES: usize = 2;
/// Where findings stand: below the facts beside the names.
const INDENT: &str = "              ";
/// What stands for the level of a mock.
const MOCK_LEVEL: &str = "none: a script answers, and nothing runs";
/// What says all about a finding.
const DOCTOR: &str = "countersign doctor";

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_secs(2);

/// Show how the server stands
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  countersign status
  countersign status --json
  countersign status --watch    # every 2 seconds until Ctrl-C

Exits 0 when the server is ready, whatever it found; 1 when it is not ready, 69 without a server. Of a mock
(countersign serve --mock) it shows what a mock has: its runs.")]
pub(crate) struct StatusArgs {
    /// Show it again and again
    #[arg(long)]
    watch: bool,
}

/// How a server stands.
#[expect(
    clippy::struct_excessive_bools,
    reason = "members of a document, each by itself"
)]
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    /// Whether a script plays the server: it has no policy, no settings and no approvers.
    #[serde(skip_serializing_if = "is_false")]
    mock: bool,
    ready: bool,
    degraded: bool,
    stopped: bool,
    restart_needed: bool,
    version: String,
    /// Known of the server of the state directory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Known of the server of the state directory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at_ms: Option<UnixMillis>,
    /// Not known of a mock.
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<Isolation>,
    waiting: Counted,
    running: Counted,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_denial: Option<LastDenial>,
    /// Which files have changes that wait for an admin. Not known of a mock.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_changes: Option<Vec<&'static str>>,
    /// Known of the server of the state directory only.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<Findings>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// How many there are.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    count: usize,
    /// Whether there are more than could be counted.
    more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_at_ms: Option<UnixMillis>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct LastDenial {
    run_id: RunId,
    at_ms: UnixMillis,
    agent_id: AgentId,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    display_text: String,
}

/// What `doctor` finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Findings {
    errors: usize,
    warnings: usize,
    notes: usize,
    /// The worst.
    #[serde(skip)]
    worst: Vec<Worst>,
}

/// A finding as one screen has room for it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Worst {
    severity: Severity,
    /// What is the matter, in one sentence.
    what: String,
    /// The command that fixes it, or says how.
    fix: String,
}

/// Shows it once, or until a person has seen enough.
pub(crate) fn run(context: &Context, args: &StatusArgs) -> Result<ExitStatus, Failure> {
    let (_, health) = with_runtime(async { readiness(&context.client(Role::Operator)?).await })?;
    // What is wrong with files and settings changes seldom, and takes long to look for. A mock has none of its own.
    let findings = (!context.names_a_server() && !health.mock)
        .then(|| findings(context))
        .transpose()?;
    with_runtime(async {
        let client = context.client(Role::Operator)?;
        loop {
            let status = ask(context, &client, findings.clone()).await?;
            show(context, &status, args)?;
            match (args.watch, status.ready) {
                (true, _) => tokio::time::sleep(WATCH_EVERY).await,
                (false, true) => return Ok(ExitStatus::SUCCESS),
                (false, false) => return Ok(ExitStatus::FAILURE),
            }
        }
    })
}

fn findings(context: &Context) -> Result<Findings, Failure> {
    let found = doctor::found(context)?;
    let count = |severity| {
        found
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let needs_somebody = found.iter().filter(|finding| finding.severity != Severity::Info);
    Ok(Findings {
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        notes: count(Severity::Info),
        worst: needs_somebody.take(MOST_FINDINGS).map(Worst::of).collect(),
    })
}

impl Worst {
    fn of(finding: &Finding) -> Self {
        let what = value::visible(&finding.explanation);
        let ends = [": ", "; ", ". "].iter().filter_map(|end| what.find(end)).min();
        let what = ends.and_then(|end| what.get(..end)).unwrap_or(&what);
        // A fix may be prose, or say what else could be done.
        let first = finding.fix.split([',', ';']).next().unwrap_or_default().trim();
        let fix = if finding.repair.is_some() {
            "countersign doctor --fix".to_owned()
        } else if first.starts_with("countersign ") {
            value::visible(first)
        } else {
            DOCTOR.to_owned()
        };
        Self {
            severity: finding.severity,
            what: what.to_owned(),
            fix,
        }
    }

    /// The finding, and what fixes it.
    fn lines(&self, console: Console) -> Vec<String> {
        let (tone, severity) = match self.severity {
            Severity::Error => (Tone::Bad, "error"),
            Severity::Warning => (Tone::Caution, "warning"),
            Severity::Info => (Tone::Dim, "note"),
        };
        let mut rows = broken(&format!("{severity}: {}", self.what));
        // Colours take no room.
        if let Some(first) = rows.first_mut() {
            *first = first.replacen(severity, &console.paint(tone, severity), 1);
        }
        rows.push(format!("  fix: {}", self.fix));
        rows.iter().map(|row| format!("{INDENT}{row}")).collect()
    }
}

/// A sentence on as many lines as it may have, the last of them cut.
fn broken(text: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let last = rows.len() == FINDING_LINES;
        let Some(row) = rows.last_mut() else { break };
        let fits = row.chars().count() + word.chars().count() < FINDING_WIDTH;
        if row.is_empty() {
            row.push_str(word);
        } else if fits || last {
            row.push(' ');
            row.push_str(word);
        } else {
            rows.push(format!("  {word}"));
        }
    }
    rows.iter()
        .map(|row| value::shortened(row, FINDING_WIDTH))
        .collect()
}

/// What a server says of itself, or a mock.
#[derive(Debug, Deserialize)]
struct Readiness {
    #[serde(flatten)]
    body: ReadinessBody,
    #[serde(default)]
    mock: bool,
}

async fn readiness(client: &Client) -> Result<(u16, Readiness), Failure> {
    client.get_any(&["readyz"]).await
}

async fn ask(context: &Context, client: &Client, findings: Option<Findings>) -> Result<Status, Failure> {
    let (code, Readiness { body: health, mock }) = readiness(client).await?;
    let version: Value = client.get(&["v1", "version"], &Vec::new()).await?;
    let policy: Option<EffectiveBody> = if mock {
        None
    } else {
        Some(client.get(&["v1", "policy", "effective"], &Vec::new()).await?)
    };
    let own = (!context.names_a_server())
        .then(|| ServerFile::read(&context.state_dir()?.server_json()).map_err(Failure::from))
        .transpose()?;
    let (waiting, last_denial) = if mock {
        (waiting_runs(client).await?, last_denied_run(client).await?)
    } else {
        (waiting(client).await?, last_denial(client).await?)
    };
    Ok(Status {
        mock,
        ready: code == 200 && health.status == "ready",
        degraded: health.degraded,
        stopped: health.stopped,
        restart_needed: health.restart_needed,
        version: version
            .get("version")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        url: own.as_ref().map(|own| own.url.clone()),
        started_at_ms: own.map(|own| UnixMillis::new(own.started_at_ms)),
        held_changes: policy.as_ref().map(held_changes),
        isolation: policy.map(|policy| policy.isolation),
        waiting,
        running: runs(client, "running").await?,
        last_denial: last_denial.map(LastDenial::of),
        findings,
    })
}

fn held_changes(policy: &EffectiveBody) -> Vec<&'static str> {
    let held = [
        ("exec-approvals.json", policy.document.held.is_some()),
        ("openclaw.json", policy.config_held.is_some()),
        ("countersign.toml", policy.server_held.is_some()),
    ];
    let held = held.into_iter().filter(|(_, is_held)| *is_held);
    held.map(|(file, _)| file).collect()
}

async fn waiting(client: &Client) -> Result<Counted, Failure> {
    let query: Query = vec![
        ("status", "pending".to_owned()),
        ("view", ApprovalView::Brief.to_string()),
    ];
    let items: Vec<ApprovalBriefBody> = client
        .list(&["v1", "approvals"], &query, MOST_COUNTED + 1)
        .await?;
    Ok(Counted::of(&items, |item| item.created_at_ms))
}

/// The same where there is no list of questions: a run of a mock waits for the time of its script.
async fn waiting_runs(client: &Client) -> Result<Counted, Failure> {
    runs(client, "approval-pending").await
}

async fn runs(client: &Client, status: &str) -> Result<Counted, Failure> {
    let query: Query = vec![("status", status.to_owned())];
    let items: Vec<RunBody> = client.list(&["v1", "runs"], &query, MOST_COUNTED + 1).await?;
    Ok(Counted::of(&items, |item| item.created_at_ms))
}

async fn last_denial(client: &Client) -> Result<Option<RunBody>, Failure> {
    // The list of runs is in the order in which they were asked for; a question of long ago may be denied last.
    let query: Query = vec![
        ("types", "exec.denied".to_owned()),
        ("order", "newest".to_owned()),
    ];
    let events: Vec<Denied> = client.list(&["v1", "events"], &query, 1).await?;
    let run = match events.into_iter().next() {
        Some(Denied { run_id }) => match client.get(&["v1", "runs", run_id.as_str()], &Vec::new()).await {
            Ok(run) => Some(run),
            Err(failure) if failure.code == "not-found" => None,
            Err(failure) => return Err(failure),
        },
        None => None,
    };
    match run {
        Some(run) => Ok(Some(run)),
        // Events are kept for less time than runs.
        None => last_denied_run(client).await,
    }
}

async fn last_denied_run(client: &Client) -> Result<Option<RunBody>, Failure> {
    let query: Query = vec![("status", "denied".to_owned())];
    let runs: Vec<RunBody> = client.list(&["v1", "runs"], &query, MOST_COUNTED).await?;
    Ok(runs.into_iter().max_by_key(ended))
}

/// What is needed of the event of a denial.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Denied {
    run_id: RunId,
}

fn ended(run: &RunBody) -> UnixMillis {
    run.ended_at_ms.unwrap_or(run.created_at_ms)
}

impl Counted {
    fn of<T>(items: &[T], created: impl Fn(&T) -> UnixMillis) -> Self {
        Self {
            count: items.len().min(MOST_COUNTED),
            more: items.len() > MOST_COUNTED,
            oldest_at_ms: items.iter().map(created).min(),
        }
    }

    /// The number, and for how long the oldest has been there.
    fn in_words(&self, now: UnixMillis) -> String {
        let number = format!("{}{}", self.count, if self.more { " and more" } else { "" });
        match self.oldest_at_ms {
            Some(oldest) => format!("{number}, the oldest for {}", rough(now.since(oldest))),
            None => "none".to_owned(),
        }
    }
}

fn show(context: &Context, status: &Status, args: &StatusArgs) -> Result<(), Failure> {
    let console = context.console;
    match (console.format(), args.watch) {
        (Format::Json, false) => return console.document(&json!(status)),
        (Format::Json, true) => return console.json_line(&json!(status)),
        (Format::People, false) => {}
        (Format::People, true) => console.clear()?,
    }
    console.table(&table(status, context.clock.now()), "")?;
    for line in finding_lines(status, console) {
        console.line(&line)?;
    }
    for hint in hints(status) {
        console.hint(&hint);
    }
    Ok(())
}

fn table(status: &Status, now: UnixMillis) -> Table {
    let mut table = Table::without_header();
    let place = status
        .url
        .as_deref()
        .map_or_else(String::new, |url| format!(" at {url}"));
    let kind = if status.mock { "a mock of " } else { "" };
    table.fact("server", &format!("{kind}countersign {}{place}", status.version));
    let state = [
        (true, if status.ready { "ready" } else { "not ready" }),
        (status.degraded, "degraded"),
        (status.stopped, "everything is stopped"),
        (status.restart_needed, "a changed setting waits for a restart"),
    ];
    let state: Vec<&str> = state
        .into_iter()
        .filter(|(is_so, _)| *is_so)
        .map(|(_, word)| word)
        .collect();
    table.fact("state", &state.join(", "));
    table.each(
        "up for",
        status.started_at_ms.map(|started| rough(now.since(started))),
    );
    table.each("level", &status.isolation);
    if status.mock {
        table.fact("level", MOCK_LEVEL);
    }
    table.fact("waiting", &status.waiting.in_words(now));
    table.fact("running", &status.running.in_words(now));
    table.fact(
        "last denial",
        &status
            .last_denial
            .as_ref()
            .map_or_else(|| "none".to_owned(), |denial| denial.in_words(now)),
    );
    if let Some(held) = &status.held_changes {
        let held = held.join(", ");
        table.fact("held changes", if held.is_empty() { "none" } else { &held });
    }
    if let Some(findings) = &status.findings {
        table.fact("findings", &findings.in_words());
    }
    table
}

/// The worst findings below their number.
fn finding_lines(status: &Status, console: Console) -> Vec<String> {
    let Some(findings) = &status.findings else {
        return Vec::new();
    };
    let worst = findings.worst.iter();
    let mut lines: Vec<String> = worst.flat_map(|worst| worst.lines(console)).collect();
    let shown = findings.worst.len();
    let more = (findings.errors + findings.warnings).saturating_sub(shown);
    if more > 0 {
        lines.push(format!("{INDENT}and {more} more"));
    }
    lines
}

impl LastDenial {
    fn of(run: RunBody) -> Self {
        Self {
            at_ms: ended(&run),
            run_id: run.run_id,
            agent_id: run.agent_id,
            reason: run.reason,
            display_text: run.display_text,
        }
    }

    fn in_words(&self, now: UnixMillis) -> String {
        let reason = self
            .reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"));
        let ago = rough(now.since(self.at_ms));
        format!(
            "{ago} ago, {}{reason}: {}",
            self.agent_id,
            value::shortened(&self.display_text, 30)
        )
    }
}

impl Findings {
    fn in_words(&self) -> String {
        let counted = [
            (self.errors, "error"),
            (self.warnings, "warning"),
            (self.notes, "note"),
        ];
        let some: Vec<String> = counted
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
            .collect();
        if some.is_empty() {
            "none".to_owned()
        } else {
            some.join(", ")
        }
    }
}

/// The commands that look closer at what is not as it should be.
fn hints(status: &Status) -> Vec<String> {
    let mut hints = Vec::new();
    if status.mock {
        // Its script answers the questions, and doctor looks at servers.
        return hints;
    }
    if status.waiting.count > 0 {
        hints.push("countersign approvals list".to_owned());
    }
    if status.held_changes.as_ref().is_some_and(|held| !held.is_empty()) {
        hints.push("countersign policy diff".to_owned());
    }
    let is_wrong = status
        .findings
        .as_ref()
        .is_some_and(|found| found.errors + found.warnings > 0);
    if is_wrong || !status.ready || status.degraded {
        hints.push(DOCTOR.to_owned());
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Status {
        Status {
            mock: false,
            ready: true,
            degraded: false,
            stopped: false,
            restart_needed: false,
            version: "0.1.0".to_owned(),
            url: Some("http://127.0.0.1:18790".to_owned()),
            started_at_ms: Some(UnixMillis::new(0)),
            isolation: Some(countersign_domain::Isolation::Confined.into()),
            waiting: Counted {
                count: 2,
                more: false,
                oldest_at_ms: Some(UnixMillis::new(11_280_000)),
            },
            running: Counted {
                count: 0,
                more: false,
                oldest_at_ms: None,
            },
            last_denial: Some(LastDenial {
                run_id: RunId::parse("r1").unwrap(),
                at_ms: UnixMillis::new(11_340_000),
                agent_id: AgentId::parse("build").unwrap(),
                reason: Some(countersign_domain::Reason::Denylist.into()),
                display_text: format!("rm -rf {}", "x".repeat(100)),
            }),
            held_changes: Some(vec!["openclaw.json"]),
            findings: Some(Findings {
                errors: 1,
                warnings: 2,
                notes: 0,
                worst: vec![Worst::of(&Finding {
                    id: "no-fence",
                    severity: Severity::Error,
                    key: "tools.exec.security".to_owned(),
                    explanation: "every command of the agent main, of the agent build and of the agents beside them runs on this \
                                  machine, and nobody at all is asked about any of it: it is so".to_owned(),
                    fix: "countersign policy preset cautious, or less".to_owned(),
                    repair: None,
                })],
            }),
        }
    }

    #[test]
    fn a_status_is_one_screen() {
        let console = Console::new(
            Format::People,
            crate::cli::console::ColorChoice::Never,
            &countersign_config::settings::ProcessEnvironment,
        );
        let mut lines = table(&status(), UnixMillis::new(11_520_000)).lines();
        lines.extend(finding_lines(&status(), console));
        insta::assert_snapshot!(lines.join("\n"), @r"
        server        countersign 0.1.0 at http://127.0.0.1:18790
        state         ready
        up for        3 h 12 min
        level         confined
        waiting       2, the oldest for 4 min
        running       none
        last denial   3 min ago, build (denylist): rm -rf xxxxxxxxxxxxxxxxxxxxxx…
        held changes  openclaw.json
        findings      1 error, 2 warnings
                      error: every command of the agent main, of the agent build and
                        of the agents beside them runs on this machine, and nobody at…
                        fix: countersign policy preset cautious
                      and 2 more
        ");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
        assert_eq!(
            hints(&status()),
            [
                "countersign approvals list",
                "countersign policy diff",
                "countersign doctor"
            ]
        );
    }

    #[test]
    fn a_mock_says_that_it_is_one() {
        let mock = Status {
            mock: true,
            isolation: None,
            held_changes: None,
            findings: None,
            ..status()
        };
        insta::assert_snapshot!(table(&mock, UnixMillis::new(11_520_000)).lines().join("\n"), @r"
        server       a mock of countersign 0.1.0 at http://127.0.0.1:18790
        state        ready
        up for       3 h 12 min
        level        none: a script answers, and nothing runs
        waiting      2, the oldest for 4 min
        running      none
        last denial  3 min ago, build (denylist): rm -rf xxxxxxxxxxxxxxxxxxxxxx…
        ");
        assert_eq!(hints(&mock), [""; 0]);
    }
}
