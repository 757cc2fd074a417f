//! What would become of a command, and which rule says so: `exec --explain` and `policy explain`.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::{Value, json};

use countersign_policy::command::prompt::Prompt;

use super::{
    approvals,
    client::Client,
    console::{Console, Format, Tone},
    context::Context,
    exit::ExitStatus,
    failure::Failure,
    table::Table,
    value,
};

/// Characters of the command that are shown on both sides of what a finding points at.
const AROUND: usize = 40;
/// Longer marks say no more.
const LONGEST_MARK: usize = 80;

/// Asks the server to explain the call, and shows the answer.
pub(crate) async fn run(context: &Context, client: &Client, call: &Value) -> Result<ExitStatus, Failure> {
    let explained = client.post(&["v1", "exec", "explain"], call).await?;
    if context.console.format() == Format::Json {
        context.console.document(&explained)?;
        return Ok(ExitStatus::SUCCESS);
    }
    let source = source_of(call);
    let prompt = Prompt::of(&source);
    let console = context.console;
    console.line(&prompt.text)?;
    console.line("")?;
    console.line(&outcome(console, &explained))?;
    console.table(&facts(&explained), "")?;
    for finding in findings(&explained) {
        for line in finding_lines(&prompt, finding) {
            console.line(&line)?;
        }
    }
    let segments = segments(&explained);
    if !segments.is_empty() {
        console.line("")?;
        console.table(&segments, "")?;
    }
    Ok(ExitStatus::SUCCESS)
}

/// The command in the form that spans count in.
fn source_of(call: &Value) -> String {
    match call.get("argv").and_then(Value::as_array) {
        Some(argv) => {
            let words = argv
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect();
            countersign_domain::Command::Argv(words).to_text()
        }
        None => value::text(call, "command"),
    }
}

fn outcome(console: Console, explained: &Value) -> String {
    let (words, tone) = match value::string(explained, "outcome") {
        "run" => ("it would run", Tone::Good),
        "ask" => ("a person would be asked", Tone::Caution),
        _ => ("it would be denied", Tone::Bad),
    };
    let reason = value::visible(value::string(explained, "reason"));
    let colon = if reason.is_empty() { "" } else { ": " };
    console.paint(tone, &format!("{words}{colon}{reason}"))
}

fn facts(explained: &Value) -> Table {
    let mut table = Table::without_header();
    table.fact("decided by", &decided_by(explained));
    for rule in ["host", "security", "ask", "askFallback"] {
        if let Some(resolved) = explained.get(rule) {
            table.fact(
                rule,
                &format!(
                    "{} ({})",
                    value::text(resolved, "value"),
                    value::text(resolved, "source")
                ),
            );
        }
    }
    if explained.get("binding").is_some() {
        table.fact(
            "binding",
            &format!(
                "{} ({})",
                value::text(explained, "binding"),
                value::text(explained, "bindingDetail")
            ),
        );
    }
    if explained.get("scripts").is_some() {
        table.fact("scripts", &value::text(explained, "scripts"));
    }
    if explained.get("input").is_some() {
        table.fact("input", &value::text(explained, "input"));
    }
    if let Some(sandbox) = explained.get("sandbox") {
        let [backend, scope, access, cwd] =
            ["backend", "scope", "workspaceAccess", "cwd"].map(|member| value::text(sandbox, member));
        table.fact(
            "sandbox",
            &format!("{backend}, scope {scope}, workspace {access}, starts in {cwd}"),
        );
    }
    if let Some(node) = explained.get("node") {
        let [name, id, path] = ["displayName", "nodeId", "path"].map(|member| value::text(node, member));
        let name = if name.is_empty() { id } else { name };
        let document = value::text(node, "document");
        let place = if path.is_empty() {
            String::new()
        } else {
            format!(" ({path})")
        };
        table.fact(
            "node",
            &format!("{name}, its approvals document: {document}{place}"),
        );
        table.fact("node refuses", &value::text(node, "wouldRefuse"));
        table.fact("node detail", &value::text(node, "detail"));
    }
    if explained.get("diverted") == Some(&Value::Bool(true)) {
        table.fact(
            "diverted",
            "a miss runs in the sandbox instead of being asked about",
        );
    }
    if explained.get("notDiverted").is_some() {
        table.fact(
            "not diverted",
            &value::visible(value::string(explained, "notDiverted")),
        );
    }
    if explained.get("approverReachable") == Some(&Value::Bool(false)) {
        table.fact("approver", "nobody could be asked now");
    }
    if explained.get("needsPerson") == Some(&Value::Bool(true)) {
        table.fact("needs person", "only a person may allow it");
    }
    if let Some(required) = explained
        .get("approvalsRequired")
        .and_then(Value::as_u64)
        .filter(|required| *required > 1)
    {
        table.fact(
            "approvers",
            &format!("{required} different people have to allow it"),
        );
    }
    table.fact("groups", &groups(explained));
    let env = explained.get("env").unwrap_or(&Value::Null);
    table.fact("env blocked", &value::text(env, "blocked"));
    table.fact("env passed", &value::text(env, "passed"));
    for pattern in list(explained, "wouldPersist") {
        let name = if pattern.get("default") == Some(&Value::Bool(true)) {
            "always stores"
        } else {
            "could store"
        };
        let (program, arguments) = (
            value::text(pattern, "pattern"),
            value::text(pattern, "argPattern"),
        );
        table.fact(name, format!("{program} {arguments}").trim_end());
        table.fact("note", &value::text(pattern, "note"));
    }
    table
}

/// Of which groups an approver must be; nothing for any.
fn groups(explained: &Value) -> String {
    let groups = explained.get("groups").map(BTreeSet::deserialize);
    approvals::groups(groups.and_then(Result::ok).as_ref())
}

/// The rule behind the outcome, and where it stands.
fn decided_by(explained: &Value) -> String {
    let rule = |name: &str| {
        let resolved = explained.get(name).unwrap_or(&Value::Null);
        let layer = list(resolved, "layers")
            .last()
            .map(|said| value::text(said, "layer"));
        format!(
            "{name} = {}, set by {} ({})",
            value::text(resolved, "value"),
            value::text(resolved, "source"),
            layer.unwrap_or_default()
        )
    };
    match value::string(explained, "reason") {
        "invalid-request" | "blocked-env" => "the call is a bad request".to_owned(),
        "denylist" => "a deny rule".to_owned(),
        "document-refused" => "the approvals document, which cannot be used".to_owned(),
        "tool-denied" => "tool policy".to_owned(),
        "ask-always" => rule("ask"),
        "no-approver" => rule("askFallback"),
        "needs-person" => {
            "strict rules about code in arguments, or about text that is not understood".to_owned()
        }
        // Covered, or a miss: the allowlist counts because of this.
        _ => rule("security"),
    }
}

fn findings(explained: &Value) -> Vec<&Value> {
    explained
        .get("analysis")
        .map(|analysis| list(analysis, "findings"))
        .unwrap_or_default()
}

/// A finding with its place in the command underlined.
fn finding_lines(prompt: &Prompt, finding: &Value) -> Vec<String> {
    let mut lines = vec![
        String::new(),
        format!(
            "{} [{}]: {}",
            value::text(finding, "code"),
            value::text(finding, "rule"),
            value::visible(value::string(finding, "detail"))
        ),
    ];
    if let Some((excerpt, mark)) = marked(prompt, finding) {
        lines.push(format!("  {excerpt}"));
        lines.push(format!("  {mark}"));
    }
    lines
}

/// The part of the command that a finding points at, with a line of marks below it.
fn marked(prompt: &Prompt, finding: &Value) -> Option<(String, String)> {
    let span = finding.get("span")?.as_array()?;
    let bound = |index: usize| usize::try_from(span.get(index)?.as_u64()?).ok();
    let place = prompt.shown(bound(0)?..bound(1)?)?;
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

fn segments(explained: &Value) -> Table {
    let mut table = Table::new(&["SEGMENT", "PROGRAM", "FILE", "COVERED BY"]);
    let analysis = explained.get("analysis").unwrap_or(&Value::Null);
    add_segments(&mut table, analysis, "");
    table
}

fn add_segments(table: &mut Table, parent: &Value, prefix: &str) {
    for (index, segment) in list(parent, "segments").into_iter().enumerate() {
        let name = format!("{prefix}{}", index + 1);
        let covered = segment.get("match").unwrap_or(&Value::Null);
        let by = format!(
            "{} {}",
            value::text(covered, "kind"),
            value::text(covered, "pattern")
        );
        table.row([
            &name,
            &value::text(segment, "executable"),
            &value::text(segment, "resolvedPath"),
            by.trim_end(),
        ]);
        add_segments(table, segment, &format!("{name}."));
    }
}

fn list<'a>(object: &'a Value, member: &str) -> Vec<&'a Value> {
    object
        .get(member)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .collect()
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
    use super::*;

    fn marked_at(source: &str, span: [usize; 2]) -> (String, String) {
        marked(&Prompt::of(source), &json!({ "span": span })).unwrap()
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
    fn long_commands_are_cut_around_the_place() {
        let source = format!("{} > {}", "x".repeat(300), "y".repeat(300));
        let (excerpt, mark) = marked_at(&source, [301, 302]);
        assert!(excerpt.starts_with('…') && excerpt.ends_with('…'), "{excerpt}");
        assert_eq!(mark.trim_start(), "^");
        assert_eq!(excerpt.chars().nth(mark.chars().count() - 1), Some('>'));
    }

    #[test]
    fn the_deciding_rule_is_named_with_its_layer() {
        let explained = json!({ "reason": "ask-always", "ask": { "value": "always", "source": "tools.exec.ask",
            "layers": [{ "layer": "default" }, { "layer": "global" }] } });
        assert_eq!(
            decided_by(&explained),
            "ask = always, set by tools.exec.ask (global)"
        );
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
