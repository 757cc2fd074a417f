//! What holds for any input, one function per fuzz target. The ordinary tests run them over the seeds.

use std::{collections::BTreeMap, sync::LazyLock};

use countersign::fuzzing;
use countersign_config::{
    approvals::document::Document,
    session::{
        directive::{self, Directive, Parsed},
        text as session_text,
    },
    settings::{ConfigValue, KeyEdit, KeyPath, MapEnvironment, StateDir, config_edit},
};
use countersign_domain::{ApprovalDecision, UnixMillis};
use countersign_policy::{
    allowlist::{Analysis, AnalysisVerdict, SegmentReport},
    command::{
        Plan, PlanStep,
        characters::is_escaped_in_display,
        display, env_policy, parse, paths,
        prompt::Prompt,
        redaction,
        rendering::{PlanItem, PlanPart, StepKind},
        syntax::{List, Part, Segment, WordClass},
    },
    pattern::{ArgumentMatch, ArgumentPattern, ExecutablePattern, PathCase, PatternCache},
};
use countersign_protocol::{
    ipc::{self, LineOutcome, NonceMemory},
    patch::{self, Line, Operation, Patch},
};
use countersign_runner::run_file::RunFileState;

use super::World;

/// What is checked of an input.
type Check = fn(&[u8]);

/// Every target by its name.
pub(crate) const TARGETS: &[(&str, Check)] = &[
    ("parse_and_render", parse_and_render),
    ("analyze", analyze),
    ("path_pattern", path_pattern),
    ("arg_pattern", arg_pattern),
    ("approvals_document", approvals_document),
    ("config_edit", edited_config),
    ("run_file", run_file),
    ("wire_frames", wire_frames),
    ("display", displayed),
    ("env_policy", judged_env),
    ("patch", patched),
    ("directive", directed),
    ("ipc_line", ipc_line),
    ("bridge_frame", bridge_frame),
];

/// Whatever people write, a directive is one of few, and nothing is handed back that they did not write.
fn directed(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Parsed { directives, cleaned } = directive::parse(text);
    assert!(directives.len() <= directive::MAX_DIRECTIVES);
    if directives.is_empty() {
        assert_eq!(cleaned, text);
    }
    let mut written = text.chars();
    let is_kept = |character: char| written.any(|other| other == character);
    assert!(
        cleaned.chars().filter(|c| !c.is_whitespace()).all(is_kept),
        "{cleaned:?} of {text:?}"
    );
    for directive in directives {
        match directive {
            Directive::SetExec(set) => {
                assert!(!set.is_empty());
                assert!(set.node.is_none_or(|node| directive::node_name(&node).is_some()));
            }
            Directive::Approve { approval, .. } => {
                assert!(
                    approval.len() >= 8
                        && !approval.contains(|c: char| !matches!(c, 'a'..='z' | '0'..='9' | '-'))
                );
            }
            Directive::BadExec(bad) => {
                assert!(!session_text::exec_bad(&bad).contains(is_escaped_in_display));
            }
            Directive::BadElevated(typed) => {
                assert!(!session_text::elevated_bad(&typed).contains(is_escaped_in_display));
            }
            Directive::ShowExec
            | Directive::ShowElevated
            | Directive::SetElevated(_)
            | Directive::BadApprove => {}
        }
    }
}

/// A frame of the Bridge is read as what it is, however often it is written again.
fn bridge_frame(data: &[u8]) {
    assert_ne!(
        fuzzing::bridge_frame(data),
        Some(false),
        "{:?}",
        String::from_utf8_lossy(data)
    );
}

/// What was read prints as a script that reads as the same.
fn parse_and_render(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let list = match parse(text) {
        Ok(list) => list,
        Err(finding) => {
            let (start, end) = (finding.span.start as usize, finding.span.end as usize);
            assert!(text.get(start..end).is_some(), "{finding:?} in {text:?}");
            return;
        }
    };
    assert_nothing_expands(text);
    for segment in list.segments() {
        assert_eq!(segment.redirections, [], "{text:?}");
        for word in &segment.words {
            let (start, end) = (word.span.start as usize, word.span.end as usize);
            let source = text.get(start..end).expect("a word lies in its source");
            assert!(source.len() >= word.value.len(), "{word:?} in {text:?}");
        }
    }
    let plan = plan_of(&list);
    let script = plan.checked_script().expect("what was read reads back");
    let again = parse(&script).expect("a script of ours is read like any other");
    assert_eq!(plan_of(&again), plan, "{text:?} {script:?}");
}

fn plan_of(list: &List) -> Plan {
    let step = |segment: &Segment| PlanStep {
        assignments: segment
            .assignments
            .iter()
            .map(|assignment| (assignment.name.clone(), assignment.value.clone()))
            .collect(),
        kind: StepKind::Word,
        name: String::new(),
        identity: None,
        words: segment.words.iter().map(|word| word.value.clone()).collect(),
        // The plain grammar has none.
        redirections: Vec::new(),
        fills: Vec::new(),
    };
    Plan {
        items: list
            .items
            .iter()
            .map(|item| PlanItem {
                join: item.join,
                is_negated: item.is_negated,
                parts: item
                    .pipeline
                    .iter()
                    .filter_map(Part::segment)
                    .map(step)
                    .map(PlanPart::Step)
                    .collect(),
            })
            .collect(),
    }
}

/// A second look at accepted text, by what is known about shells and not by our grammar: outside of quotes and
/// comments nothing stands that a shell replaces or redirects.
fn assert_nothing_expands(text: &str) {
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Quoting {
        Bare,
        Single,
        Double,
        Comment,
    }
    let mut state = Quoting::Bare;
    let mut at_word_start = true;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let next = rest.peek().copied();
        let mut is_word_start = false;
        match (state, character) {
            (Quoting::Single, '\'') | (Quoting::Double, '"') => state = Quoting::Bare,
            (Quoting::Comment, '\n') => (state, is_word_start) = (Quoting::Bare, true),
            (Quoting::Bare, '#') if at_word_start => state = Quoting::Comment,
            (Quoting::Bare, '\'') => state = Quoting::Single,
            (Quoting::Bare, '"') => state = Quoting::Double,
            (Quoting::Bare, '\\') => {
                // A continuation stands between words alone, and leaves the next word to begin.
                is_word_start = next == Some('\n');
                assert!(!is_word_start || at_word_start, "a continued word in {text:?}");
                rest.next();
            }
            (Quoting::Double, '\\') if matches!(next, Some('$' | '`' | '"' | '\\')) => {
                rest.next();
            }
            (Quoting::Bare | Quoting::Double, '`') => panic!("a backtick is open in {text:?}"),
            (Quoting::Bare, '$') => assert!(
                matches!(next, None | Some(' ' | '\t' | '\n' | ';' | '&' | '|')),
                "an open $ in {text:?}"
            ),
            (Quoting::Double, '$') => assert!(
                matches!(next, Some(' ' | '\t' | '\n' | '"')),
                "an open $ in double quotes in {text:?}"
            ),
            (Quoting::Bare, '<' | '>' | '(' | ')' | '*' | '?' | '[') => {
                panic!("an open {character} in {text:?}")
            }
            (Quoting::Bare, '&') => {
                assert!(next == Some('&'), "an open & in {text:?}");
                rest.next();
                is_word_start = true;
            }
            (Quoting::Bare, ' ' | '\t' | '\n' | ';' | '|') => is_word_start = true,
            (Quoting::Bare | Quoting::Single | Quoting::Double | Quoting::Comment, _) => {}
        }
        at_word_start = is_word_start;
    }
    assert!(
        matches!(state, Quoting::Bare | Quoting::Comment),
        "an open quote in {text:?}"
    );
}

/// Worlds are made once: most of an input's time would go to their patterns otherwise.
static WORLDS: LazyLock<Worlds> = LazyLock::new(|| {
    let plain = world();
    let mut strict = plain.clone().deny("git");
    strict.strict_inline_eval = true;
    let mut loose = plain.clone();
    loose.strict_delegation = false;
    Worlds { plain, strict, loose }
});

struct Worlds {
    plain: World,
    strict: World,
    loose: World,
}

fn world() -> World {
    let mut world = World::new()
        .programs(&[
            "rg", "ls", "cat", "echo", "git", "find", "grep", "sort", "head", "tail", "wc", "tr", "cut",
            "uniq", "env", "nice", "timeout", "nohup", "time", "stdbuf", "sh", "bash", "dash", "zsh",
            "python3", "node", "xargs", "sudo", "busybox", "tar", "sed", "awk",
        ])
        .found("fake", "/tmp/bin/fake")
        .file("/srv/project/run.sh")
        .file("/home/agent/bin/tool")
        .link("/usr/bin/shell", "/usr/bin/dash")
        .allow(&[
            "/usr/bin/rg",
            "/usr/bin/ls",
            "/usr/bin/cat",
            "/usr/bin/echo",
            "/usr/bin/git",
            "/usr/bin/find",
            "~/bin/*",
            "/srv/**",
            "/usr/bin/env",
            "/usr/bin/xargs",
            "/usr/bin/dash",
            "/usr/bin/python3",
        ])
        .allow_with("/usr/bin/tar", "^-tf [a-z.]+$")
        .protect("/home/agent/.openclaw");
    world.safe_bins = ["head", "tail", "wc", "tr", "cut", "uniq", "grep", "sort"]
        .map(str::to_owned)
        .to_vec();
    world
}

/// What is allowed is literal, planned, and allowed again as its own rendering; stricter rules allow no more.
fn analyze(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Worlds { plain, strict, loose } = &*WORLDS;
    let found = plain.text(text);
    for finding in &found.findings {
        let (start, end) = (finding.span.start as usize, finding.span.end as usize);
        assert!(text.get(start..end).is_some(), "{finding:?} in {text:?}");
    }
    let under_strict = strict.text(text);
    let under_loose = loose.text(text);
    assert!(
        !under_strict.satisfied || found.satisfied,
        "stricter allows {text:?}"
    );
    assert!(
        !found.satisfied || under_loose.satisfied,
        "looser refuses {text:?}"
    );
    let argv: Vec<&str> = text.split('\n').collect();
    check_allowed(&plain.argv(&argv));
    check_allowed(&found);
    if found.verdict != AnalysisVerdict::Allow {
        assert!(!found.satisfied && found.credited.is_empty(), "{text:?}");
        return;
    }
    let list = parse(text).expect("what is allowed was read");
    let words: usize = list.segments().map(|segment| segment.words.len()).sum();
    let reported: usize = found.segments.iter().map(|segment| segment.argv.len()).sum();
    assert_eq!(words, reported, "every word is accounted for in {text:?}");
    for (segment, report) in list.segments().zip(&found.segments) {
        let is_literal = segment
            .words
            .iter()
            .all(|word| word.class != WordClass::InnerTilde);
        assert!(
            is_literal || report.matched.entry_id.is_some(),
            "{report:?} in {text:?}"
        );
    }
    let script = found.rendered.as_deref().expect("what is allowed is planned");
    if script.contains("'cd'") {
        // `cd --` is our own form.
        return;
    }
    let again = plain.text(script);
    assert_eq!(again.verdict, AnalysisVerdict::Allow, "{text:?} {script:?}");
    assert_eq!(again.rendered.as_deref(), Some(script), "{text:?}");
}

fn check_allowed(found: &Analysis) {
    if found.verdict != AnalysisVerdict::Allow {
        return;
    }
    assert!(
        found.findings.is_empty() && found.denylisted.is_none(),
        "{found:?}"
    );
    let plan = found.plan.as_ref().expect("a plan");
    assert_eq!(found.rendered, plan.checked_script().ok());
    // The plain grammar has no plans inside of plans.
    let steps = plan
        .items
        .iter()
        .flat_map(|item| &item.parts)
        .map(|part| match part {
            PlanPart::Step(step) => step,
            other @ (PlanPart::All(_)
            | PlanPart::Apart(_)
            | PlanPart::Choice { .. }
            | PlanPart::Turns { .. }
            | PlanPart::Set { .. }
            | PlanPart::Background(_)
            | PlanPart::Wait) => panic!("{other:?}"),
        });
    for step in steps {
        let program = step.words.first().expect("a word");
        assert!(step.words.iter().all(|word| !word.contains('\0')));
        match step.kind {
            StepKind::Program => assert!(program.starts_with('/'), "{step:?}"),
            StepKind::Word => assert!(
                ["cd", "pwd", "true", "false", ":"].contains(&program.as_str()),
                "{step:?}"
            ),
        }
    }
    assert_covered(&found.segments);
}

fn assert_covered(segments: &[SegmentReport]) {
    for segment in segments {
        let kind = segment.matched.kind.as_str();
        assert!(!matches!(kind, "none" | "denylist"), "{segment:?}");
        assert_covered(&segment.segments);
    }
}

/// Patterns match what the rules say, by a second implementation of them.
fn path_pattern(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some((pattern, path)) = text.split_once('\n') else {
        return;
    };
    let Ok(parsed) = ExecutablePattern::parse(pattern, "/home/agent") else {
        return;
    };
    let cache = PatternCache::default();
    let matches = |case| parsed.matches_path(path, case, &cache, |path| Some(path.to_owned()));
    let found = matches(PathCase::Sensitive);
    let folded = matches(PathCase::Insensitive);
    assert!(
        found != Some(true) || folded == Some(true),
        "folding loses {text:?}"
    );
    let is_plain = pattern.starts_with('/')
        && pattern == pattern.trim()
        && paths::normalise(pattern) == pattern
        && path.starts_with('/')
        && paths::normalise(path) == path
        && path != "/"
        && pattern
            .split('/')
            .all(|part| part == "**" || !part.contains("**"));
    if is_plain {
        let (pattern, path) = (parts(pattern), parts(path));
        assert_eq!(found, Some(path_matches(&pattern, &path)), "{text:?}");
    }
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').skip(1).collect()
}

fn path_matches(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], []) => true,
        (["**"], path) => !path.is_empty(),
        (["**", rest @ ..], path) => {
            (0..=path.len()).any(|at| path_matches(rest, path.get(at..).unwrap_or(&[])))
        }
        ([part, rest @ ..], [first, others @ ..]) => {
            let (part, first): (Vec<char>, Vec<char>) = (part.chars().collect(), first.chars().collect());
            part_matches(&part, &first) && path_matches(rest, others)
        }
        ([_, ..], []) | ([], [_, ..]) => false,
    }
}

fn part_matches(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], []) => true,
        (['*', rest @ ..], name) => {
            (0..=name.len()).any(|at| part_matches(rest, name.get(at..).unwrap_or(&[])))
        }
        (['?', rest @ ..], [_, others @ ..]) => part_matches(rest, others),
        ([wanted, rest @ ..], [found, others @ ..]) => wanted == found && part_matches(rest, others),
        ([_, ..], []) | ([], [_, ..]) => false,
    }
}

/// An argument pattern matches exactly where ECMAScript says it does.
fn arg_pattern(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Some((pattern, arguments)) = text.split_once('\n') else {
        return;
    };
    let Ok(parsed) = ArgumentPattern::parse(pattern) else {
        return;
    };
    let found = parsed.matches(&[arguments]);
    // The oracle has no limit of its own steps, and joins the escapes of two halves into one character.
    let loops: usize = [")*", ")+", "){"]
        .iter()
        .map(|end| pattern.matches(end).count())
        .sum();
    let repeats = pattern.matches(['*', '+', '{']).count();
    if loops > 1
        || repeats > 4
        || (loops > 0 && repeats > 3)
        || pattern.len() > 24
        || arguments.len() > 12
        || pattern.contains('\0')
        || pattern.contains(r"\ud")
    {
        return;
    }
    let units = pattern.encode_utf16().map(u32::from);
    let expression = regress::Regex::from_unicode(units, "")
        .unwrap_or_else(|error| panic!("{pattern:?} is not ECMAScript and was taken: {error}"));
    let units: Vec<u16> = arguments.encode_utf16().collect();
    let expected = expression.find_from_ucs2(&units, 0).next().is_some();
    if found != ArgumentMatch::Undecided {
        assert_eq!(found == ArgumentMatch::Yes, expected, "{pattern:?} {arguments:?}");
    }
}

/// A document that reads prints as one that reads the same, and its secrets stay inside.
fn approvals_document(data: &[u8]) {
    let Ok(loaded) = Document::parse(data) else { return };
    let printed = loaded.document.print();
    let again = Document::parse(printed.as_bytes()).expect("what is printed reads");
    assert_eq!(again.document, loaded.document, "{printed}");
    assert_eq!(again.document.print(), printed);
    assert_eq!(
        loaded
            .document
            .redacted()
            .get("socket")
            .and_then(|socket| socket.get("token")),
        None
    );
    for agent in loaded.document.agent_ids() {
        let _policy = loaded.document.policy(agent);
        for entry in loaded.document.entries(agent) {
            let _form = entry.item.form();
        }
    }
}

/// Text of a configuration, and in later lines a key and a value each: what comes out loads, and changes no more.
fn edited_config(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut parts = text.split('\0');
    let config = parts.next().unwrap_or_default();
    let edits: Vec<KeyEdit> = parts
        .filter_map(|part| {
            let (path, value) = part.split_once('\n').unwrap_or((part, ""));
            let path = KeyPath::parse(path).ok()?;
            Some(if value.is_empty() {
                KeyEdit::Unset { path }
            } else {
                let ConfigValue(value) = ConfigValue::from_word(value);
                KeyEdit::Set { path, value }
            })
        })
        .collect();
    let environment = MapEnvironment::new([("HOME", "/home/agent")]);
    let state = StateDir::resolve(None, &environment).expect("a state directory");
    let Ok(edited) = config_edit(Some(config), &edits, &state) else {
        return;
    };
    let again = config_edit(Some(&edited.text), &[], &state).expect("what was written loads");
    assert!(!again.changed && again.policy == edited.policy, "{}", edited.text);
    // A path of a later edit may name a list by what an earlier one made of it, so the same edits may change more.
    if edits.len() <= 1 {
        let twice = config_edit(Some(&edited.text), &edits, &state);
        assert!(
            twice.is_ok_and(|twice| !twice.changed) || matches!(edits.first(), Some(KeyEdit::Unset { .. })),
            "{}",
            edited.text
        );
    }
}

/// A file that is cut off says the same or less, never something else.
fn run_file(data: &[u8]) {
    let whole = fuzzing::run_file(data);
    let mut cuts: Vec<usize> = data
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .flat_map(|(at, _)| [at, at + 1])
        .collect();
    cuts.push(data.len() / 2);
    for cut in cuts {
        let part = fuzzing::run_file(data.get(..cut).unwrap_or_default());
        let is_less = match (&part, &whole) {
            (RunFileState::Empty, _) => cut == 0,
            (RunFileState::Torn, whole) => *whole != RunFileState::Empty,
            (RunFileState::Started(fence), RunFileState::Started(whole)) => fence == whole,
            (RunFileState::Started(fence), RunFileState::Exited(_, launch_id)) => {
                fence.launch_id == *launch_id
            }
            (part, whole) => part == whole,
        };
        assert!(is_less, "{part:?} of {whole:?}");
    }
}

/// What was read is written as what reads the same, and it does not matter in which pieces it arrives.
fn wire_frames(data: &[u8]) {
    if let Some((order, again)) = fuzzing::start_frame(data) {
        assert_eq!(Some(order), again);
    }
    assert_ne!(fuzzing::start_plan(data), Some(false));
    let whole = fuzzing::stream(data, data.len());
    assert_eq!(fuzzing::stream(data, 1), whole);
    assert_eq!(fuzzing::stream(data, 7), whole);
    for message in &whole {
        assert!(
            !message.ends_with("Ok(None)") && !message.contains("Err("),
            "{message}"
        );
    }
}

/// Nothing hidden is left, every place of the source is shown or counted, and secrets are masked.
fn displayed(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let shown = display::escape(text);
    assert_nothing_hidden(&shown.text);
    let is_hidden = |c: char| c != '\n' && is_escaped_in_display(c);
    assert_eq!(shown.escaped, text.contains(is_hidden), "{text:?}");
    let prompt = Prompt::of(text);
    assert_nothing_hidden(&prompt.text);
    let mut last = 0;
    for (at, character) in text.char_indices() {
        let place = prompt.shown(at..at + character.len_utf8());
        assert!(place.is_some() || prompt.is_truncated(), "{at} in {text:?}");
        if let Some(place) = place {
            assert!(
                place.start < place.end && prompt.text.get(place.clone()).is_some(),
                "{place:?} of {at} in {text:?}"
            );
            assert!(place.start >= last, "{text:?}");
            last = place.start;
        }
    }
    let mut end = 0;
    for secret in redaction::secrets(text) {
        assert!(
            secret.start >= end && text.get(secret.clone()).is_some(),
            "{secret:?} in {text:?}"
        );
        end = secret.end;
    }
}

fn assert_nothing_hidden(shown: &str) {
    assert!(
        shown.chars().all(|c| c == '\n' || !is_escaped_in_display(c)),
        "{shown:?}"
    );
}

/// Lines of `NAME=value`: what is accepted is well-formed and blocked under no spelling; what is called harmless is
/// accepted.
fn judged_env(data: &[u8]) {
    const NEVER: &[&str] = &[
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ENV",
        "IFS",
        "PS4",
        "SHELLOPTS",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "PERL5OPT",
        "RUBYOPT",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "PATH",
        "HOME",
        "ZDOTDIR",
        "OPENCLAW_SHELL",
        "COUNTERSIGN_TOKEN",
        "BASH_FUNC_ls%%",
        "NPM_CONFIG_SCRIPT_SHELL",
    ];
    let Ok(text) = str::from_utf8(data) else { return };
    let overrides: BTreeMap<String, String> = text
        .split('\n')
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let accepted = match env_policy::check_overrides(&overrides) {
        Ok(accepted) => accepted,
        Err(blocked) => {
            assert!(!blocked.names.is_empty());
            for (name, value) in &overrides {
                // One bad name must not hide behind another.
                let alone = BTreeMap::from([(name.clone(), value.clone())]);
                let is_named = blocked.names.contains(&name.to_uppercase());
                assert!(
                    env_policy::check_overrides(&alone).is_ok() || is_named,
                    "{name} is not told in {blocked:?}"
                );
            }
            return;
        }
    };
    assert_eq!(accepted.names().len(), overrides.len());
    for (name, value) in accepted.iter() {
        assert!(!NEVER.contains(&name.to_uppercase().as_str()), "{name}");
        assert!(
            !value.contains('\0') && name.is_ascii() && !name.contains('='),
            "{name:?}"
        );
    }
    let harmless = env_policy::harmless_only(&accepted);
    let unknown = env_policy::unknown_overrides(&accepted);
    assert_eq!(harmless.names().len() + unknown.len(), accepted.names().len());
    for (name, value) in harmless.iter() {
        let is_plain = value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.,=:@+-/".contains(&byte));
        assert!(
            is_plain && !(name == "TZ" && value.contains("..")),
            "{name}={value:?}"
        );
    }
}

/// A patch, and after a NUL the text of a file. What is read prints as what reads the same, and what applies changes as
/// many lines as it says.
fn patched(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (input, file) = text.split_once('\0').unwrap_or((text, "a\nb\n\na\r\nc"));
    let Ok(patch) = Patch::parse(input) else { return };
    assert!(!patch.operations().is_empty());
    assert_eq!(
        Patch::parse(&printed_patch(&patch)).as_ref(),
        Ok(&patch),
        "{input:?}"
    );
    for operation in patch.operations() {
        let Operation::Update { hunks, .. } = operation else {
            continue;
        };
        let Ok(new) = patch::apply(file, hunks) else {
            continue;
        };
        let count = |wanted: fn(&Line) -> bool| {
            let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
            lines.filter(|line| wanted(line)).count()
        };
        let inserted = count(|line| matches!(line, Line::Insert(_)));
        let removed = count(|line| matches!(line, Line::Remove(_)));
        let lines = |text: &str| text.split_inclusive('\n').count();
        let expected = lines(file) + inserted - removed;
        // An empty last line without an ending cannot be told from none.
        assert!(
            lines(&new) == expected || lines(&new) + 1 == expected,
            "{input:?} {file:?} {new:?}"
        );
    }
}

/// What stands around a path is not part of it, so a name that begins with a blank needs something before that.
fn written_path(path: &impl ToString) -> String {
    let path = path.to_string();
    if path.starts_with(char::is_whitespace) {
        format!("./{path}")
    } else {
        path
    }
}

fn printed_patch(patch: &Patch) -> String {
    let mut lines = vec!["*** Begin Patch".to_owned()];
    for operation in patch.operations() {
        match operation {
            Operation::Add { path, content } => {
                lines.push(format!("*** Add File: {}", written_path(path)));
                lines.extend(content.split_terminator('\n').map(|line| format!("+{line}")));
            }
            Operation::Delete { path } => lines.push(format!("*** Delete File: {}", written_path(path))),
            Operation::Update { path, to, hunks } => {
                lines.push(format!("*** Update File: {}", written_path(path)));
                lines.extend(to.iter().map(|to| format!("*** Move to: {}", written_path(to))));
                for hunk in hunks {
                    lines.push("@@".to_owned());
                    lines.extend(hunk.contexts.iter().map(|context| format!("@@ {context}")));
                    lines.extend(hunk.lines.iter().map(|line| match line {
                        Line::Keep(text) => format!(" {text}"),
                        Line::Remove(text) => format!("-{text}"),
                        Line::Insert(text) => format!("+{text}"),
                    }));
                    lines.extend(hunk.at_end.then(|| "*** End of File".to_owned()));
                }
            }
        }
    }
    lines.push("*** End Patch".to_owned());
    lines.join("\n")
}

/// A line of the approvals socket, judged as one of a peer that knows the token: whatever it is, it is acted on only with
/// its proof, it counts once, and what is refused is answered by lines that a runner reads as a refusal.
fn ipc_line(data: &[u8]) {
    const TOKEN: &str = "token";
    let mut nonces = NonceMemory::default();
    let mut verify = |line: &[u8]| {
        ipc::LineVerifier {
            token: TOKEN,
            now: UnixMillis::new(1_700_000_000_000),
            not_before: UnixMillis::new(0),
            nonces: &mut nonces,
            policy: ipc::Policy::default(),
        }
        .verify(line)
    };
    match verify(data) {
        LineOutcome::Exec { order, .. } => {
            assert!(
                order
                    .argv
                    .first()
                    .is_some_and(|program| !program.trim().is_empty())
            );
            assert!(matches!(verify(data), LineOutcome::Refused(_)), "it counts once");
        }
        LineOutcome::Ask { question, .. } => assert!(!question.command.trim().is_empty()),
        LineOutcome::Open(_) => {}
        LineOutcome::Refused(replies) => {
            assert!(!replies.lines().is_empty(), "nothing ends in silence");
            let expected = ipc::Expected::plain("nobody's".to_owned());
            for line in replies.lines() {
                assert!(line.is_ascii() && !line.contains('\n'));
                assert_ne!(
                    expected.decision(line.as_bytes()),
                    Some(ApprovalDecision::AllowOnce)
                );
                assert!(!matches!(
                    expected.exec(line.as_bytes()),
                    Some(ipc::ExecAnswer::Ran(_))
                ));
            }
        }
    }
    let expected = ipc::Expected::plain("id".to_owned());
    drop((expected.decision(data), expected.exec(data)));
}
