//! What would become of a command, and which rule says so: `exec --explain` and `policy explain`.

use std::fmt::Display;

use serde_json::{Value, json};

use countersign_domain::{Host, Reason};
use countersign_policy::command::{Code, prompt::Prompt};
use countersign_wire::{
    analysis::{AnalysisBody, FindingBody, MatchBody, SegmentBody},
    explain::{ExplanationBody, SandboxBody},
    policy::ValueBody,
    run::RunBody,
};

use super::{
    client::{Client, read},
    console::{Console, Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    ids, moment,
    table::Table,
    value, width,
};

/// Hints that change nothing.
const SHOWS: [&str; 4] = [
    "countersign config get",
    "countersign doctor",
    "countersign nodes show",
    "countersign policy diff",
];
/// Characters of the command that are shown on both sides of what a finding points at.
const AROUND: usize = 40;
/// Longer marks say no more.
const LONGEST_MARK: usize = 80;

/// Asks the server to explain the call, and shows the answer.
pub(crate) async fn run(context: &Context, client: &Client, call: &Value) -> Result<ExitStatus, Failure> {
    let explained: Value = client.post(&["v1", "exec", "explain"], call).await?;
    if context.console.format() == Format::Json {
        context.console.document(&explained)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let explained: ExplanationBody = read(explained)?;
    let analysis: AnalysisBody = read(explained.analysis.clone())?;
    // The form that spans count in.
    let source = value::called(call).to_text();
    let prompt = Prompt::of(&source);
    let console = context.console;
    console.line(&prompt.text)?;
    console.line("")?;
    console.line(&outcome(console, &explained))?;
    console.table(&facts(&explained), "")?;
    for line in findings_lines(&prompt, &analysis.findings) {
        console.line(&line)?;
    }
    let mut segments = Table::new(&["SEGMENT", "PROGRAM", "FILE", "COVERED BY"]);
    add_segments(&mut segments, &analysis.segments, "");
    if !segments.is_empty() {
        console.line("")?;
        console.table(&segments, "")?;
    }
    let lines = ways_out(&explained, &analysis);
    if !lines.is_empty() {
        console.line("")?;
    }
    for line in lines {
        console.line(&line)?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// The lines that a denial of this call ends with. None where the server does not say what would become of it now.
pub(crate) async fn ways_out_of(client: &Client, call: &Value) -> Vec<String> {
    let explained = client
        .post::<ExplanationBody>(&["v1", "exec", "explain"], call)
        .await;
    let Ok(explained) = explained else {
        return Vec::new();
    };
    let analysis = read::<AnalysisBody>(explained.analysis.clone());
    analysis.map_or_else(
        |_unreadable| Vec::new(),
        |analysis| ways_out(&explained, &analysis),
    )
}

/// The same of a run that was denied.
pub(crate) async fn ways_out_of_run(client: &Client, run: &str) -> Vec<String> {
    let run = client.get::<RunBody>(&["v1", "runs", run], &Vec::new()).await;
    match run.ok().as_ref().and_then(call_of) {
        Some(call) => ways_out_of(client, &call).await,
        None => Vec::new(),
    }
}

/// The call of a run, as it can be explained; `None` of a patch. Variables are not kept, so the call has none.
pub(crate) fn call_of(run: &RunBody) -> Option<Value> {
    if run.tool.is_some() {
        return None;
    }
    let mut call = json!({
        "agentId": run.agent_id, "sessionKey": run.session_key, "workdir": run.cwd,
    });
    let members = call.as_object_mut()?;
    members.extend(
        run.command
            .as_ref()
            .map(|text| ("command".to_owned(), json!(text))),
    );
    members.extend(run.argv.as_ref().map(|argv| ("argv".to_owned(), json!(argv))));
    if run.host == Host::Node
        && let Some(node) = &run.node_id
    {
        members.insert("host".to_owned(), json!(run.host));
        members.insert("node".to_owned(), json!(node));
    }
    Some(call)
}

/// What an explanation and a denial end with: the commands that would let the call run unasked, and the one that would
/// refuse it for good. Where one of them makes no sense, a sentence says so, with the command that helps instead.
fn ways_out(explained: &ExplanationBody, analysis: &AnalysisBody) -> Vec<String> {
    let is_denied = explained.outcome == "deny";
    let reason = explained.reason.as_deref().unwrap_or_default();
    let lead = if is_denied && reason == Reason::AllowlistMiss.as_str() {
        "to allow it"
    } else {
        "to stop asking"
    };
    let entries = explained.to_allow.iter();
    let mut lines: Vec<String> = entries.map(|line| format!("{lead}: {line}")).collect();
    match (&explained.hint, explained.outcome.as_ref()) {
        (Some(hint), _) if lines.is_empty() => {
            let shows = SHOWS.iter().any(|verb| hint.starts_with(verb));
            let lead = if shows { "to see why" } else { "to change it" };
            lines.push(format!("{lead}: {hint}"));
        }
        (None, "ask") if lines.is_empty() => {
            lines.push(format!(
                "no entry of the allowlist can stop this question: {}",
                what_stands_against(explained, analysis)
            ));
        }
        (None, "deny") if lines.is_empty() => lines.extend(what_to_change(explained, analysis)),
        _ => {}
    }
    match &explained.to_refuse {
        Some(refuse) => {
            let program = refuse.rsplit(' ').next().unwrap_or_default();
            lines.push(format!("to refuse it for good: {refuse}"));
            lines.push(format!("(that refuses every command of {program})"));
        }
        None => lines.extend(why_no_rule(explained).map(|why| format!("({why})"))),
    }
    lines.iter().map(|line| value::visible(line)).collect()
}

/// What changes a denial that the server names no command for.
fn what_to_change(explained: &ExplanationBody, analysis: &AnalysisBody) -> Option<String> {
    let reason = explained.reason.as_deref().unwrap_or_default();
    Some(match reason {
        // The server names the rule by its id only to who may read the policy; the denial says its pattern to all.
        "denylist" => {
            let rule = denied_by(&analysis.segments);
            let rule = rule.filter(|pattern| value::visible(pattern) == *pattern);
            match rule {
                Some(pattern) => {
                    // A program can be called like an option.
                    let dashes = if pattern.starts_with('-') { "-- " } else { "" };
                    let pattern = value::quoted(pattern);
                    format!("to change it: countersign denylist remove {dashes}{pattern}")
                }
                None => format!(
                    "to see the rule: countersign denylist list --agent {}",
                    explained.agent_id
                ),
            }
        }
        "security-deny" => "to change it: make the call without --security deny".to_owned(),
        "allowlist-miss" => format!(
            "no entry of the allowlist can let it run: {}",
            what_stands_against(explained, analysis)
        ),
        "preflight" => "change the script: no setting lets it run as it is".to_owned(),
        "node-refused" | "approval-required" => match &explained.node_id {
            Some(node) => format!(
                "to see why: countersign nodes show {}",
                ids::short_of_target(node)
            ),
            None => return None,
        },
        _ => return None,
    })
}

/// The pattern of the deny rule that refuses one of these.
fn denied_by(segments: &[SegmentBody]) -> Option<&str> {
    segments.iter().find_map(|segment| {
        let MatchBody { kind, pattern, .. } = &segment.matched;
        let own = pattern.as_deref().filter(|_| kind == "denylist");
        own.or_else(|| denied_by(segment.segments.as_deref()?))
    })
}

/// Why there is no command that would refuse a call for good.
fn why_no_rule(explained: &ExplanationBody) -> Option<&'static str> {
    match explained.reason.as_deref().unwrap_or_default() {
        "denylist" => Some("that deny rule refuses it for good already"),
        "document-refused" => Some("no rule can be stored before the approvals document is repaired"),
        "invalid-request" | "blocked-env" | "stopped" => None,
        _ => Some("no deny rule can name its program, which is known only when it runs"),
    }
}

/// Why nothing can be stored that would cover a call.
fn what_stands_against<'a>(explained: &ExplanationBody, analysis: &'a AnalysisBody) -> &'a str {
    if explained.reason.as_deref() == Some("ask-always") {
        return match explained.ask.source.as_str() {
            "call" => "the call itself asks every time",
            _ => "policy asks every time, and says so in more than one place",
        };
    }
    // What a missing entry is found as, an entry would help with.
    let of_entries = [
        Code::NotAllowlisted.as_str(),
        Code::ArgPatternMiss.as_str(),
        Code::OpenInput.as_str(),
    ];
    let blocks = |finding: &&FindingBody| !of_entries.contains(&finding.code.as_ref());
    let blocking = analysis.findings.iter().find(blocks);
    blocking.map_or("none could be for exactly this command", |finding| {
        &finding.detail
    })
}

fn outcome(console: Console, explained: &ExplanationBody) -> String {
    let (words, tone) = match explained.outcome.as_ref() {
        "run" => ("it would run", Tone::Good),
        "ask" => ("a person would be asked", Tone::Caution),
        _ => ("it would be denied", Tone::Bad),
    };
    let reason = value::visible(explained.reason.as_deref().unwrap_or_default());
    let colon = if reason.is_empty() { "" } else { ": " };
    console.paint(tone, &format!("{words}{colon}{reason}"))
}

fn facts(explained: &ExplanationBody) -> Table {
    let mut table = Table::without_header();
    table.fact("decided by", &decided_by(explained));
    let host = &explained.host.value;
    table.fact("host", &format!("{} ({})", host.value, host.source));
    let ValueBody { value, source, .. } = &explained.security;
    table.fact("security", &format!("{value} ({source})"));
    let ValueBody { value, source, .. } = &explained.ask;
    table.fact("ask", &format!("{value} ({source})"));
    let ValueBody { value, source, .. } = &explained.ask_fallback;
    table.fact("askFallback", &format!("{value} ({source})"));
    if let Some(binding) = &explained.binding {
        let detail = explained.binding_detail.as_deref().unwrap_or_default();
        table.fact("binding", &format!("{binding} ({detail})"));
    }
    if let Some(start) = &explained.start {
        let detail = explained.start_detail.as_deref().unwrap_or_default();
        table.fact("start", &format!("{start} ({detail})"));
    }
    table.each("scripts", &explained.scripts);
    table.each("confined", &explained.confined);
    if !explained.children_not_kept.is_empty() {
        table.fact(
            "not kept",
            &format!(
                "it may start what is denied with children: {}",
                explained.children_not_kept.join(", ")
            ),
        );
    }
    table.each("input", &explained.input);
    if let Some(SandboxBody {
        backend,
        scope,
        name: _,
        workspace_access,
        cwd,
    }) = &explained.sandbox
    {
        table.fact(
            "sandbox",
            &format!("{backend}, scope {scope}, workspace {workspace_access}, starts in {cwd}"),
        );
    }
    if let Some(node) = &explained.node {
        let name = node.display_name.as_ref().or(node.node_id.as_ref());
        let name = name.map_or("", String::as_str);
        let place = node.path.as_ref().map(|path| format!(" ({path})"));
        let place = place.unwrap_or_default();
        table.fact(
            "node",
            &format!("{name}, its approvals document: {}{place}", node.document),
        );
        table.each("node refuses", &node.would_refuse);
        table.each("node detail", &node.detail);
    }
    if explained.diverted {
        table.fact(
            "diverted",
            "a miss runs in the sandbox instead of being asked about",
        );
    }
    table.each("not diverted", &explained.not_diverted);
    if let Some(programs) = &explained.held_programs {
        table.fact(
            "held",
            &format!(
                "nothing can be executed but the shell and {}",
                programs.join(", ")
            ),
        );
    }
    table.each("not held", &explained.not_held);
    let muted = explained.muted.as_ref();
    table.each("muted", muted.and_then(|muted| muted.reason.as_ref()));
    if !explained.approver_reachable {
        table.fact("approver", "nobody could be asked now");
    }
    if explained.needs_person {
        table.fact("needs person", "only a person may allow it");
    }
    if let Some(required) = explained.approvals_required.filter(|required| *required > 1) {
        table.fact(
            "approvers",
            &format!("{required} different people have to allow it"),
        );
    }
    table.fact("groups", &width::groups(explained.groups.as_ref()));
    table.each("env blocked", &explained.env.blocked);
    table.each("env passed", &explained.env.passed);
    width::proposed_patterns(&mut table, &explained.would_persist);
    table
}

/// The rule behind the outcome, and where it stands.
fn decided_by(explained: &ExplanationBody) -> String {
    match explained.reason.as_deref().unwrap_or_default() {
        "invalid-request" | "blocked-env" => "the call is a bad request".to_owned(),
        "denylist" => "a deny rule".to_owned(),
        "document-refused" => "the approvals document, which cannot be used".to_owned(),
        "tool-denied" => "tool policy".to_owned(),
        "agent-muted" => match &explained.muted {
            Some(muted) => format!(
                "{} is muted until {}",
                muted.agent_id,
                moment::with_zone(muted.until_ms)
            ),
            None => "the agent is muted".to_owned(),
        },
        "stopped" => "the stop that is in force".to_owned(),
        "program-not-found" => "the PATH of this host, where no such program is found".to_owned(),
        "preflight" => "the check of the script that it would run".to_owned(),
        "node-refused" | "approval-required" => "the node's own policy".to_owned(),
        "ask-always" => rule("ask", &explained.ask),
        "no-approver" => rule("askFallback", &explained.ask_fallback),
        "needs-person" => {
            "strict rules about code in arguments, or about text that is not understood".to_owned()
        }
        // Covered, or a miss: the allowlist counts because of this.
        _ => rule("security", &explained.security),
    }
}

fn rule<T: Display>(name: &str, resolved: &ValueBody<T>) -> String {
    let layer = resolved.layers.last().map(|said| said.layer.to_string());
    format!(
        "{name} = {}, set by {} ({})",
        resolved.value,
        resolved.source,
        layer.unwrap_or_default()
    )
}

/// The findings, each once: what stands in a loop is judged for each turn, and found as often.
fn findings_lines(prompt: &Prompt, findings: &[FindingBody]) -> Vec<String> {
    let mut shown: Vec<Vec<String>> = Vec::new();
    for finding in findings {
        let lines = finding_lines(prompt, finding);
        if !shown.contains(&lines) {
            shown.push(lines);
        }
    }
    shown.concat()
}

/// A finding with its place in the command underlined.
fn finding_lines(prompt: &Prompt, finding: &FindingBody) -> Vec<String> {
    let FindingBody {
        code,
        rule,
        span,
        detail,
    } = finding;
    let mut lines = vec![
        String::new(),
        format!("{code} [{rule}]: {}", value::visible(detail)),
    ];
    if let Some((excerpt, mark)) = marked(prompt, *span) {
        lines.push(format!("  {excerpt}"));
        lines.push(format!("  {mark}"));
    }
    lines
}

/// The part of the command that a finding points at, with a line of marks below it.
fn marked(prompt: &Prompt, span: [u32; 2]) -> Option<(String, String)> {
    let [start, end] = span.map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
    let place = prompt.shown(start..end)?;
    let line_start = prompt.text.get(..place.start)?.rfind('\n').map_or(0, |at| at + 1);
    let before: Vec<char> = prompt.text.get(line_start..place.start)?.chars().collect();
    let rest: Vec<char> = prompt.text.get(place.start..)?.lines().next()?.chars().collect();
    let length = prompt.text.get(place)?.lines().next()?.chars().count();
    let cut = before.len().saturating_sub(AROUND);
    let dots = if cut > 0 { "…" } else { "" };
    let head: String = before.iter().skip(cut).collect();
    let marks = length.clamp(1, LONGEST_MARK);
    let tail: String = rest.iter().take(marks + AROUND).collect();
    let more = if rest.len() > marks + AROUND { "…" } else { "" };
    let indent = dots.chars().count() + head.chars().count();
    Some((
        format!("{dots}{head}{tail}{more}"),
        format!("{}{}", " ".repeat(indent), "^".repeat(marks)),
    ))
}

fn add_segments(table: &mut Table, segments: &[SegmentBody], prefix: &str) {
    for (index, segment) in segments.iter().enumerate() {
        let name = format!("{prefix}{}", index + 1);
        let MatchBody { kind, pattern, .. } = &segment.matched;
        let by = format!("{kind} {}", pattern.as_deref().unwrap_or_default());
        let file = segment.resolved_path.as_deref().unwrap_or_default();
        table.row([&name, segment.executable.as_str(), file, by.trim_end()]);
        let inner = segment.segments.as_deref().unwrap_or_default();
        add_segments(table, inner, &format!("{name}."));
    }
}

/// The members of a call that `policy explain` takes.
pub(crate) fn call(text: Option<&str>, words: &[String]) -> Value {
    match (text, words) {
        (Some(text), _) => json!({ "command": text }),
        // No program has a blank in its name: one word with blanks was quoted to be read as text.
        (None, [only]) if only.contains(char::is_whitespace) => json!({ "command": only }),
        (None, words) => json!({ "argv": words }),
    }
}

#[cfg(test)]
mod tests {
    use countersign_wire::words::Ask;

    use super::*;

    fn marked_at(source: &str, span: [u32; 2]) -> (String, String) {
        marked(&Prompt::of(source), span).unwrap()
    }

    #[test]
    fn what_a_finding_points_at_is_underlined() {
        assert_eq!(
            marked_at("ls | git push", [5, 13]),
            ("ls | git push".to_owned(), "     ^^^^^^^^".to_owned())
        );
        assert_eq!(
            marked_at("a\u{202e}b > x", [6, 7]),
            ("a\\u{202E}b > x".to_owned(), "           ^".to_owned())
        );
        let (excerpt, mark) = marked_at("first\nsecond > x", [13, 14]);
        assert_eq!((excerpt.as_str(), mark.as_str()), ("second > x", "       ^"));
    }

    #[test]
    fn what_is_found_in_each_turn_of_a_loop_is_shown_once() {
        let finding = |span: [u32; 2]| -> FindingBody {
            read(json!({ "code": "not-allowlisted", "rule": "M1", "span": span, "detail": "no entry covers this" }))
                .unwrap()
        };
        let prompt = Prompt::of("for x in a b; do ls $x; done; ls");
        let findings = [finding([17, 19]), finding([17, 19]), finding([30, 32])];
        let lines = findings_lines(&prompt, &findings);
        let marks: Vec<usize> = lines.iter().filter_map(|line| line.find('^')).collect();
        assert_eq!(marks, [2 + 17, 2 + 30], "{lines:#?}");
    }

    #[test]
    fn long_commands_are_cut_around_the_place() {
        let source = format!("{} > {}", "x".repeat(300), "y".repeat(300));
        let (excerpt, mark) = marked_at(&source, [301, 302]);
        assert!(excerpt.starts_with('…') && excerpt.ends_with('…'), "{excerpt}");
        assert_eq!(mark.trim_start(), "^");
        assert_eq!(excerpt.chars().nth(mark.chars().count() - 1), Some('>'));
    }

    #[test]
    fn the_deciding_rule_is_named_with_its_layer() {
        let ask: ValueBody<Ask> = read(json!({ "value": "always", "source": "tools.exec.ask",
            "layers": [{ "layer": "default", "value": "off" }, { "layer": "global", "value": "always" }] }))
        .unwrap();
        assert_eq!(rule("ask", &ask), "ask = always, set by tools.exec.ask (global)");
    }

    #[test]
    fn one_quoted_word_is_text_and_more_are_arguments() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            call(None, &words(&["git status"])),
            json!({ "command": "git status" })
        );
        assert_eq!(
            call(None, &words(&["git", "a b"])),
            json!({ "argv": ["git", "a b"] })
        );
        assert_eq!(call(Some("a | b"), &[]), json!({ "command": "a | b" }));
    }
}
