//! The contract in `docs/spec/` is cited by headings that exist, its rules are those of the code, and its tables are those of
//! the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::support::Members;
use countersign_policy::command::Rule;
use serde_json::Value;

/// The files of the contract.
const FILES: &[&str] = &[
    "advisories",
    "approvals-store",
    "bridge",
    "cli",
    "command-analysis",
    "exec-tool",
    "http-api",
    "ipc",
    "settings",
];
/// Where citations may stand. The changelog tells of the past.
const PLACES: &[&str] = &[
    "src",
    "crates",
    "tests/it",
    "docs",
    "openapi",
    "benches",
    "fuzz/fuzz_targets",
    "migrations",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "Cargo.toml",
];
/// Where the rules stand.
const RULES: &str = "docs/spec/command-analysis.md";
/// Letters before the number of a rule.
const FAMILIES: &[&str] = &[
    "G", "B", "P", "M", "K", "O", "W", "D", "S", "I", "SB", "E", "C", "A", "X", "T", "V",
];
/// Fewer citations than this would mean that the test looks for the wrong words.
const CITATIONS: usize = 200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

fn spec(name: &str) -> String {
    read(&format!("docs/spec/{name}.md"))
}

/// All text files of the places, with their paths from the root.
fn texts() -> Vec<(String, String)> {
    let mut waiting: Vec<PathBuf> = PLACES.iter().map(|place| root().join(place)).collect();
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let folder = fs::read_dir(&path).expect("a folder");
            waiting.extend(folder.map(|entry| entry.expect("an entry").path()));
        } else if let Ok(text) = fs::read_to_string(&path) {
            let name = path.strip_prefix(root()).expect("a path below the root");
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
    found.sort();
    found
}

/// The anchors of a document, as the forge makes them: lower case, without punctuation, blanks as dashes.
fn anchors(document: &str) -> BTreeSet<String> {
    headings(document).map(anchor).collect()
}

fn headings(document: &str) -> impl Iterator<Item = &str> {
    let mut in_block = false;
    document.lines().filter_map(move |line| {
        in_block ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        (!in_block && title.len() < line.len()).then(|| title.trim())
    })
}

fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// What follows each `begin` of a text, as long as `belongs` says.
fn words_after<'a>(text: &'a str, begin: &str, belongs: impl Fn(char) -> bool) -> Vec<&'a str> {
    let rest = text.split(begin).skip(1);
    rest.map(|rest| rest.split(|c| !belongs(c)).next().unwrap_or_default())
        .collect()
}

const fn of_address(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '#' | '/')
}

/// Whether a heading or file is there; an address without an anchor means the whole file.
fn leads_somewhere(folder: &str, address: &str, known: &mut BTreeMap<String, BTreeSet<String>>) -> bool {
    let (file, wanted) = address
        .split_once('#')
        .map_or((address, None), |(file, anchor)| (file, Some(anchor)));
    let path = format!("{folder}/{file}");
    let Ok(text) = fs::read_to_string(root().join(&path)) else {
        return false;
    };
    let there = known.entry(path).or_insert_with(|| anchors(&text));
    wanted.is_none_or(|wanted| there.contains(wanted))
}

#[test]
fn every_citation_leads_to_a_heading() {
    let mut known = BTreeMap::new();
    let (mut dead, mut count) = (Vec::new(), 0);
    for (name, text) in texts() {
        for folder in ["docs/spec", "docs/decisions"] {
            for address in words_after(&text, &format!("{folder}/"), of_address) {
                let address = address.trim_end_matches(['.', '/']);
                if address.contains(".md") {
                    count += 1;
                    if !leads_somewhere(folder, address, &mut known) {
                        dead.push(format!("{name}: {folder}/{address}"));
                    }
                }
            }
        }
        let is_linked = name.starts_with("docs/spec/") || name.starts_with("docs/decisions/");
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for address in words_after(&text, "](", of_address) {
            let of_itself = name.rsplit('/').next().unwrap_or_default();
            let address = if address.starts_with('#') {
                format!("{of_itself}{address}")
            } else {
                address.to_owned()
            };
            if is_linked && address.contains(".md") {
                count += 1;
                if !leads_somewhere(folder, &address, &mut known) {
                    dead.push(format!("{name}: {address}"));
                }
            }
        }
    }
    assert_eq!(dead, Vec::<String>::new());
    assert!(
        count >= CITATIONS,
        "{count} citations: this looks for the wrong words"
    );
}

#[test]
fn no_citation_has_the_old_form() {
    let mut old = Vec::new();
    for (name, text) in texts() {
        for file in FILES {
            let file = format!("{file}.md");
            for (at, _) in text.match_indices(&file) {
                let before = &text[..at];
                let is_part = before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'));
                let is_new = ["docs/spec/", "../spec/", "]("]
                    .iter()
                    .any(|new| before.ends_with(new));
                if !is_part && !is_new {
                    let line = before.matches('\n').count() + 1;
                    old.push(format!("{name}:{line}: {file}"));
                }
            }
        }
        if text.contains(concat!("(`des", "ign/")) || text.contains(concat!("`exactly", "-once.md`")) {
            old.push(format!("{name}: a text that is no part of the repository"));
        }
    }
    assert_eq!(old, Vec::<String>::new());
}

/// The paragraphs of each section that has a rule's id as its heading, each on one line.
fn rules() -> BTreeMap<String, Vec<String>> {
    let document = spec("command-analysis");
    document
        .split("\n### ")
        .skip(1)
        .filter_map(|section| {
            let (id, body) = section.split_once('\n')?;
            let body = body.split("\n## ").next()?.trim();
            let paragraphs = body.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
            is_rule_id(id).then(|| (id.to_owned(), paragraphs.collect()))
        })
        .collect()
}

fn is_rule_id(word: &str) -> bool {
    let family = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = word.len() - family.len();
    (1..=2).contains(&number) && FAMILIES.contains(&family)
}

#[test]
fn every_rule_has_a_sentence_and_an_example_and_the_code_says_the_sentence() {
    let documented = rules();
    let code = read("crates/policy/src/command/rule.rs");
    let mut wrong = Vec::new();
    for (id, paragraphs) in &documented {
        let first = paragraphs.first();
        if !first.is_some_and(|sentence| sentence.ends_with('.')) {
            wrong.push(format!("{id}: no sentence"));
        }
        let second = paragraphs.get(1);
        if !second.is_some_and(|example| example.starts_with("Example: ")) {
            wrong.push(format!("{id}: no example"));
        }
    }
    for rule in Rule::ALL {
        let id = rule.as_str();
        let Some(sentence) = documented.get(id).and_then(|paragraphs| paragraphs.first()) else {
            wrong.push(format!("{id}: no heading"));
            continue;
        };
        let variant = format!(" = \"{id}\",");
        let comment = code.split(&variant).next().unwrap_or_default();
        let mut said: Vec<&str> = comment
            .lines()
            .rev()
            .skip(1)
            .map_while(|line| line.trim_start().strip_prefix("///"))
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        said.reverse();
        let said = said.join(" ");
        let wanted = format!("{sentence} `{RULES}#{}`", id.to_lowercase());
        if said != wanted {
            wrong.push(format!("{id}: {said:?} and not {wanted:?}"));
        }
    }
    // Rules that no switch stands for are said where they are kept.
    let comments = comments();
    for (id, paragraphs) in &documented {
        let sentence = paragraphs.first().map_or("", String::as_str);
        let cited = format!("{sentence} (`{RULES}#{}`)", id.to_lowercase());
        let is_switched = Rule::ALL.iter().any(|rule| rule.as_str() == id);
        if !is_switched && !comments.contains(&cited) {
            wrong.push(format!("{id}: no comment says {cited:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// All comments of the sources, without their line breaks.
fn comments() -> String {
    let sources = texts()
        .into_iter()
        .filter(|(name, _)| name.starts_with("src/") || name.starts_with("crates/"));
    let mut all = String::new();
    for (_name, text) in sources {
        for line in text.lines().map(str::trim_start) {
            let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
            all.push_str(comment.unwrap_or_default());
        }
    }
    all
}

/// Ids of rules that stand in the code by themselves, in quotes or in parentheses.
fn rules_of_the_code() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let layers = ["crates/policy/src/", "crates/engine/src/", "crates/http/src/"];
    for (name, text) in texts() {
        let lines = text.lines().take_while(|line| *line != "mod tests {");
        let is_code = layers.iter().any(|layer| name.starts_with(layer)) && !name.ends_with("tests.rs");
        for line in lines.filter(|_| is_code) {
            let comment = line.trim_start();
            let ids: Vec<&str> = if comment.starts_with("//") {
                let inside = comment.split('(').skip(1);
                inside
                    .filter_map(|inside| inside.split(')').next())
                    .flat_map(|inside| inside.split([',', ' ', ';', '`']))
                    .collect()
            } else {
                let quoted = line.split('"').skip(1).step_by(2);
                quoted
                    .filter(|_| line.contains("Code::") || comment.starts_with('"'))
                    .collect()
            };
            let ids = ids.into_iter().filter(|id| is_rule_id(id));
            found.extend(ids.map(|id| (id.to_owned(), name.clone())));
        }
    }
    found
}

#[test]
fn every_rule_that_the_code_names_has_its_heading() {
    let documented = rules();
    let named = rules_of_the_code();
    let missing: Vec<_> = named
        .iter()
        .filter(|(id, _)| !documented.contains_key(*id))
        .collect();
    assert_eq!(missing, Vec::<(&String, &String)>::new());
    assert!(named.len() >= 45, "this looks for the wrong words: {named:?}");
}

/// The commands of an example with the verdict that it says, where it has all of the command.
fn judged_examples(example: &str) -> Vec<(String, String)> {
    let mut clauses = vec![String::new()];
    let mut in_code = false;
    for c in example.chars() {
        in_code ^= c == '`';
        if c == ';' && !in_code {
            clauses.push(String::new());
        } else if let Some(clause) = clauses.last_mut() {
            clause.push(c);
        }
    }
    let judged = clauses.iter().filter_map(|clause| {
        let command = clause.trim_start().strip_prefix('`')?.split('`').next()?;
        let verdict = clause.split("→ `").nth(1)?.split('`').next()?;
        // A newline that can be seen.
        let command = command.replace('⏎', "\n");
        (!command.contains('…')).then(|| (command, verdict.to_owned()))
    });
    judged.collect()
}

#[test]
fn examples_of_rules_are_among_their_cases() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (id, paragraphs) in rules() {
        let path = format!("tests/data/analysis/{}.jsonl", id.to_lowercase());
        if !root().join(&path).exists() {
            continue;
        }
        let cases: Vec<Value> = read(&path)
            .lines()
            .map(|line| serde_json::from_str(line).expect("a case"))
            .collect();
        let example = paragraphs.iter().find_map(|line| line.strip_prefix("Example: "));
        let examples = judged_examples(example.unwrap_or_default());
        if examples.is_empty() {
            wrong.push(format!("{id}: no command with a verdict"));
        }
        for (command, verdict) in examples {
            count += 1;
            if !cases
                .iter()
                .any(|case| case["command"] == command && case["expect"] == verdict)
            {
                wrong.push(format!("{id}: {command:?} is not judged {verdict} in {path}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count >= 44, "{count} examples");
}

/// The strings of a list of the source, such as `const NAMES: &[&str] = &[…];`.
fn strings_of(source: &str, begin: &str) -> BTreeSet<String> {
    let list = source.split(begin).nth(1).expect(begin);
    let list = list.split("];").next().expect("the end of the list");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn lists_of_names_are_those_of_the_code() {
    let document = spec("command-analysis");
    let sources = [
        "crates/policy/src/command/names.rs",
        "crates/policy/src/command/env_policy/names.rs",
    ]
    .map(read);
    for name in [
        "CARRIERS",
        "REFUSED_BUILTINS",
        "OTHER_SHELLS",
        "ALWAYS",
        "ALWAYS_PREFIXES",
        "OVERRIDES",
        "OVERRIDE_PREFIXES",
        "ACCEPTED",
        "HARMLESS",
        "SERVICE",
    ] {
        let begin = format!("const {name}: &[&str] = &[");
        let source = sources.iter().find(|source| source.contains(&begin)).expect(name);
        let block = document
            .split(&format!("\n`{name}`:\n\n```text\n"))
            .nth(1)
            .expect(name);
        let block = block.split("\n```").next().expect("the end of the block");
        let written: BTreeSet<String> = block.split_whitespace().map(str::to_owned).collect();
        assert_eq!(written, strings_of(source, &begin), "{name}");
    }
}

/// The words of a closed vocabulary of the source.
fn vocabulary(path: &str, name: &str) -> BTreeSet<String> {
    let source = read(path);
    let body = source.split(&format!("pub enum {name}(")).nth(1).expect(name);
    let body = body.split("\n    }\n").next().expect("the end of the vocabulary");
    let words = body
        .lines()
        .filter_map(|line| line.trim().split_once(" = \"")?.1.strip_suffix("\","));
    words.map(str::to_owned).collect()
}

/// What stands in backticks in the first cell of the rows of the table behind a heading.
fn first_cells(document: &str, heading: &str) -> BTreeSet<String> {
    let table = document.split(heading).nth(1).expect(heading);
    let rows = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_owned)
        .collect()
}

#[test]
fn closed_sets_are_those_of_the_program() {
    let analysis = spec("command-analysis");
    let codes = analysis
        .split("`code` is one of\n\n```text\n")
        .nth(1)
        .expect("the codes");
    let codes = codes.split("\n```").next().expect("the end of the block");
    let codes: BTreeSet<String> = codes.split_whitespace().map(str::to_owned).collect();
    assert_eq!(
        codes,
        vocabulary("crates/policy/src/command/finding.rs", "Code"),
        "finding codes"
    );

    let reasons = first_cells(&spec("exec-tool"), "Reasons are a closed set");
    assert_eq!(
        reasons,
        vocabulary("crates/domain/src/reason.rs", "Reason"),
        "reasons"
    );

    let events = first_cells(&spec("http-api"), "## SSE");
    let program = vocabulary("crates/ledger/src/events/event.rs", "EventType");
    assert_eq!(events, program, "event types");

    let statuses = first_cells(&spec("http-api"), "## Run object");
    let contract: Value = serde_json::from_str(&read("openapi/openapi.json")).expect("a document");
    let words = contract["components"]["schemas"]["RunStatus"].list("enum");
    let words = words.iter().filter_map(Value::as_str).map(str::to_owned);
    assert_eq!(statuses, words.collect(), "states of runs");
}

#[test]
fn codes_of_problems_are_those_of_the_catalogue() {
    // A test of the server compares the catalogue with the program.
    let catalogue = read("docs/errors.md");
    let row = |line: &str| Some(line.strip_prefix("| ")?.split('`').nth(1)?.to_owned());
    let catalogue: BTreeSet<String> = catalogue
        .lines()
        .filter(|line| line.starts_with("| 4") || line.starts_with("| 5"))
        .filter_map(row)
        .collect();
    let document = spec("http-api");
    let table = document
        .split("| status | codes |")
        .nth(1)
        .expect("the table of codes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    // What stands in parentheses are members.
    let codes: BTreeSet<String> = rows
        .flat_map(|row| row.split(['(', ')']).step_by(2))
        .flat_map(|part| part.split('`').skip(1).step_by(2))
        .filter(|code| code.contains(|c: char| c.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect();
    assert_eq!(codes, catalogue);
}

#[test]
fn operations_are_those_of_the_program() {
    let contract: Value = serde_json::from_str(&read("openapi/openapi.json")).expect("a document");
    let paths = contract["paths"].as_object().expect("paths");
    let program: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, item)| {
            let methods = item.as_object().expect("operations").keys();
            let methods = methods.filter(|method| *method != "parameters");
            methods.map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let document = spec("http-api");
    let table = document
        .split("| method and path | scope | purpose |")
        .nth(1)
        .expect("the table");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut written = BTreeSet::new();
    for row in rows {
        let cell = row.split(" | ").next().expect("a cell");
        // `GET`/`PUT /v1/…` is both of that path; `GET /a`, `POST /b` is each of its own.
        let mut methods = Vec::new();
        for part in cell.split('`').skip(1).step_by(2) {
            if let Some((method, path)) = part.split_once(' ') {
                methods.push(method);
                written.extend(methods.drain(..).map(|method| format!("{method} {path}")));
            } else {
                methods.push(part);
            }
        }
    }
    assert_eq!(written, program);
}

#[test]
fn keys_of_the_server_are_those_of_the_table_of_defaults() {
    // Another test compares the table of defaults with the program.
    let defaults = read("docs/defaults.md");
    let server = defaults
        .split("## Policy: `openclaw.json`")
        .next()
        .expect("the server's part");
    let server: BTreeSet<String> = server
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next().map(str::to_owned))
        .collect();
    let document = spec("settings");
    let written: BTreeSet<String> = first_cells(&document, "## 2. `countersign.toml`")
        .iter()
        .map(|key| {
            key.replace("[[", "")
                .replace("]]", "")
                .replace('[', "")
                .replace("] ", ".")
        })
        .collect();
    assert_eq!(written, server);
}

/// The text behind a heading, up to the next one.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let rest = document.split(&format!("\n{heading}")).nth(1).expect(heading);
    ["\n## ", "\n### "]
        .iter()
        .filter_map(|next| rest.find(next))
        .min()
        .map_or(rest, |end| &rest[..end])
}

/// The names of the members of an object of the contract, those of the objects that it is made of and of its forms
/// included.
fn members(schemas: &Value, name: &str) -> BTreeSet<String> {
    let schema = &schemas[name];
    let mut found = BTreeSet::new();
    let parts = schema["allOf"].as_array().cloned().unwrap_or_default();
    for part in parts.iter().chain([schema]) {
        let properties = part["properties"].as_object();
        found.extend(
            properties
                .iter()
                .flat_map(|properties| properties.keys().cloned()),
        );
        let forms = part["oneOf"].as_array().into_iter().flatten();
        for other in forms.chain([part]).filter_map(|other| other["$ref"].as_str()) {
            let other = other.rsplit('/').next().expect("a name");
            found.extend(members(schemas, other));
        }
    }
    found
}

#[test]
fn objects_have_the_members_of_the_program() {
    let contract: Value = serde_json::from_str(&read("openapi/openapi.json")).expect("a document");
    let schemas = &contract["components"]["schemas"];
    let api = spec("http-api");
    let tool = spec("exec-tool");
    let mut missing = Vec::new();
    for (document, heading, names) in [
        (&tool, "## 1. ", &["ExecRequest"][..]),
        (&tool, "## 8. ", &["ProcessRequest"]),
        (&api, "## Errors", &["Problem"]),
        (
            &api,
            "## Resources",
            &["Agent", "PatchApplied", "Setting", "SignedIn"],
        ),
        (&api, "### Probes", &["HealthChecks", "Readiness", "Version"]),
        (
            &api,
            "## POST /v1/exec answers",
            &["ExecFinished", "ExecRunning", "ExecPending"],
        ),
        (&api, "## Run object", &["Run", "RunWithOutput", "RunDecision"]),
        (
            &api,
            "## Effective policy",
            &["EffectivePolicy", "DocumentState", "PendingEdit", "SandboxState"],
        ),
        (
            &api,
            "## POST /v1/exec/explain answer",
            &[
                "Explanation",
                "Analysis",
                "Segment",
                "AllowlistMatch",
                "AnalysisFinding",
            ],
        ),
        (&api, "### Pattern object", &["Pattern"]),
        (
            &api,
            "## Approval object",
            &["Approval", "Binding", "CommandDisplay", "Vote", "AskReason"],
        ),
        (
            &api,
            "## Process session object",
            &["ProcessSession", "ProcessLog"],
        ),
        (
            &api,
            "## Allowlist entry, ",
            &[
                "AllowlistEntry",
                "DenyRule",
                "Token",
                "TokenRequest",
                "SessionOverrides",
                "AuditRecord",
                "AuditVerification",
            ],
        ),
        (&api, "## Node and pairing objects", &["Node", "Pairing"]),
        (
            &api,
            "## Emergency stop",
            &["StopAnswer", "ActiveStop", "StopRequest", "ResumeAnswer"],
        ),
        (
            &api,
            "## SSE",
            &["EventMembers", "ExecFinishedEvent", "EventsGapEvent"],
        ),
        (&api, "## POST /tools/invoke", &["ToolCall"]),
    ] {
        let text = section(document, heading);
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for name in names {
            let there = members(schemas, name);
            assert!(!there.is_empty(), "{name} has no members: a wrong name");
            missing.extend(
                there
                    .iter()
                    .filter(|member| !words.contains(member.as_str()))
                    .map(|member| format!("{heading}: {member} of {name}")),
            );
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn events_have_the_members_of_the_program() {
    let contract: Value = serde_json::from_str(&read("openapi/openapi.json")).expect("a document");
    let schemas = &contract["components"]["schemas"];
    let mapping = &schemas["Event"]["discriminator"]["mapping"];
    let common: BTreeSet<String> = members(schemas, "EventMembers");
    let api = spec("http-api");
    let rows = section(&api, "## SSE")
        .lines()
        .filter(|line| line.starts_with("| `"));
    let mut seen = 0;
    for row in rows {
        let (types, rest) = row[2..].split_once(" | ").expect("two cells");
        let mut written: BTreeSet<String> = rest
            .split('`')
            .skip(1)
            .step_by(2)
            .map(|member| member.split(['?', ':']).next().expect("a name").to_owned())
            .collect();
        let mut there = BTreeSet::from(["type".to_owned()]);
        for kind in types.split('`').skip(1).step_by(2) {
            let form = mapping[kind]
                .as_str()
                .unwrap_or_else(|| panic!("{kind} has no schema"));
            there.extend(members(schemas, form.rsplit('/').next().expect("a name")));
            seen += 1;
        }
        // Said once for all events; of an approval it is said again. The row of `exec.output` tells more than members.
        let said_elsewhere = |name: &String| common.contains(name) || name == "type";
        there.retain(|name| !said_elsewhere(name));
        written.retain(|name| !said_elsewhere(name) && name != "output=true" && name != "id");
        if rest.contains("the pairing object") {
            written.extend(
                members(schemas, "Pairing")
                    .into_iter()
                    .filter(|name| !said_elsewhere(name)),
            );
        }
        assert_eq!(written, there, "{types}");
    }
    assert_eq!(
        seen + 1,
        mapping.as_object().expect("types").len(),
        "all but events.gap"
    );
}

#[test]
fn keys_of_the_policy_are_in_the_contract() {
    let defaults = read("docs/defaults.md");
    let policy = defaults
        .split("## Policy: `openclaw.json`")
        .nth(1)
        .expect("the policy's part");
    let document = spec("settings");
    let written = section(&document, "## 3. ");
    let words: BTreeSet<&str> = written.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let keys = policy
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let missing: Vec<&str> = keys
        .filter(|key| !key.split('.').all(|part| words.contains(part)))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}
