//! The house keeps its shape: arrows between layers go one way, and only one file starts processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Layer of each folder or file directly below `src`: it may use lower layers and itself.
const LAYERS: &[(&str, u8)] = &[
    ("domain", 0),
    ("clock", 0),
    ("sys", 0),
    ("command", 1),
    ("policy", 1),
    ("output", 1),
    ("patch", 1),
    ("protocol", 1),
    ("events", 1),
    ("runner", 1),
    ("terminal", 1),
    ("settings", 2),
    ("ledger", 2),
    ("auth", 3),
    ("approvals", 3),
    ("session", 3),
    ("tls", 3),
    ("hosts", 4),
    ("engine", 5),
    ("bridge", 6),
    ("http", 6),
    ("ipc", 6),
    ("mcp", 6),
    ("doctor", 6),
    ("app", 7),
    ("node", 7),
    ("lifecycle", 7),
    ("telemetry", 7),
    ("cli", 8),
    ("fuzzing", 8),
    ("main", 9),
    ("lib", 9),
];

/// Uses within one layer that are meant: (who, of whom).
const BESIDE: &[(&str, &str)] = &[
    ("clock", "domain"),
    ("policy", "command"),
    ("runner", "output"),
    ("runner", "patch"),
    ("runner", "terminal"),
    ("http", "bridge"),
    ("http", "mcp"),
    ("node", "app"),
    ("node", "lifecycle"),
    ("app", "lifecycle"),
    ("app", "telemetry"),
];

#[test]
fn layers_use_lower_layers_only() {
    let layers: BTreeMap<&str, u8> = LAYERS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let module = top_module(&path);
        let Some(layer) = layers.get(module.as_str()) else {
            wrong.push(format!(
                "{}: `{module}` has no layer in this test",
                path.display()
            ));
            continue;
        };
        for used in crate_uses(&text) {
            let Some(other) = layers.get(used.as_str()) else {
                // A name of the crate root itself, or a macro.
                continue;
            };
            let beside = BESIDE.contains(&(module.as_str(), used.as_str()));
            if used != module && other >= layer && !beside {
                wrong.push(format!(
                    "{}: layer {layer} uses `{used}` of layer {other}",
                    path.display()
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn uses_are_found_in_every_form() {
    let text = "use crate::{clock, domain::{self, RunId}, sys::fs};\n use crate::policy::gate;\n\
                fn f() { crate::engine::start(); }\n pub(crate) use x;\n // use crate::comment::x\n";
    let expect: BTreeSet<String> = ["clock", "domain", "sys", "policy", "engine"]
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(crate_uses(text), expect);
}

#[test]
fn only_one_place_can_start_a_process() {
    const STARTERS: &[&str] = &[
        "libc::fork",
        "libc::vfork",
        "libc::clone",
        "libc::posix_spawn",
        "libc::exec",
        "libc::fexec",
        "libc::system",
        "libc::popen",
        "SYS_clone",
        "SYS_fork",
        "SYS_vfork",
        "SYS_exec",
        "rustix::runtime",
        "process::Command",
        "tokio::process",
        "Command::spawn",
    ];
    let home = source_root().join("sys/process");
    let mut wrong = Vec::new();
    let mut at_home = BTreeSet::new();
    for (path, text) in sources() {
        let code = without_comments(&text);
        for starter in STARTERS.iter().filter(|starter| code.contains(**starter)) {
            if path.starts_with(&home) || path == home.with_extension("rs") {
                at_home.insert(*starter);
            } else {
                wrong.push(format!("{}: {starter}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        at_home.len() >= 2,
        "this test looks for the wrong words: {at_home:?}"
    );
}

#[test]
fn only_the_runner_forks() {
    let mut callers = BTreeSet::new();
    for (path, text) in sources() {
        let code = without_comments(&text);
        if code.contains("process::fork(") || code.contains("process::{fork") {
            callers.insert(top_module(&path));
        }
    }
    // In the server a fork would copy its threads' locks and its secrets, and cost its size.
    assert_eq!(callers.into_iter().collect::<Vec<_>>(), ["runner"]);
}

#[test]
fn kill_points_are_listed_and_reached() {
    let mut reached = BTreeSet::new();
    for (path, text) in sources() {
        if path.ends_with("sys/hooks.rs") {
            continue;
        }
        let code = without_comments(&text);
        for call in ["reach(\"", "reach_for(\""] {
            reached.extend(
                code.split(call)
                    .skip(1)
                    .filter_map(|rest| rest.split('"').next())
                    .map(str::to_owned),
            );
        }
    }
    let listed: BTreeSet<String> = countersign_sys::hooks::POINTS
        .iter()
        .chain(countersign_sys::hooks::POLICY_POINTS)
        .chain(countersign_sys::hooks::NODE_POINTS)
        .chain(countersign_sys::hooks::RULE_POINTS)
        .chain(countersign_sys::hooks::PATCH_POINTS)
        .map(|point| (*point).to_owned())
        .collect();
    assert_eq!(reached, listed);
}

#[test]
fn pause_points_are_listed_and_passed() {
    let mut passed = BTreeSet::new();
    for (path, text) in sources() {
        if path.ends_with("sys/hooks.rs") {
            continue;
        }
        let code = without_comments(&text);
        let calls = code.split("hooks::pause(\"").skip(1);
        passed.extend(calls.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    let listed: BTreeSet<String> = countersign_sys::hooks::PAUSE_POINTS
        .iter()
        .chain(countersign_sys::hooks::PATCH_PAUSES)
        .chain(countersign_sys::hooks::LOOK_PAUSES)
        .chain(countersign_sys::hooks::RULE_PAUSES)
        .chain(countersign_sys::hooks::ENTRY_PAUSES)
        .map(|point| (*point).to_owned())
        .collect();
    assert_eq!(passed, listed);
}

#[test]
fn every_protection_that_can_be_left_away_is_listed() {
    let asked: BTreeSet<String> = sources()
        .iter()
        .flat_map(|(_, text)| {
            let code = without_comments(text);
            let names = code.split("protection_off(\"").skip(1);
            let names = names.filter_map(|rest| rest.split('"').next());
            names.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let listed: BTreeSet<String> = countersign_sys::hooks::PROTECTIONS
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    assert_eq!(asked, listed);
}

#[test]
fn unsafe_code_stays_in_sys() {
    for (path, text) in sources() {
        let lifted =
            without_comments(&text).contains("unsafe {") || without_comments(&text).contains("unsafe_code");
        assert!(
            !lifted || path.starts_with(source_root().join("sys")),
            "{}",
            path.display()
        );
    }
}

#[test]
fn web_and_sql_stay_where_they_belong() {
    for (path, text) in sources() {
        let code = without_comments(&text);
        let module = top_module(&path);
        if !matches!(module.as_str(), "http" | "mcp" | "app" | "lifecycle") {
            assert!(!code.contains("axum::"), "{}: axum", path.display());
        }
        if module != "ledger" {
            assert!(!code.contains("rusqlite"), "{}: SQL", path.display());
        }
    }
}

#[test]
fn nothing_is_left_unfinished() {
    for (path, text) in sources() {
        for word in ["todo!", "unimplemented!", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file with its text, unit tests in files of their own excepted.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = vec![source_root()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && path.file_stem().is_some_and(|stem| stem != "tests")
            {
                let text = fs::read_to_string(&path).expect("a source file");
                files.push((path, without_unit_tests(&text)));
            }
        }
    }
    assert!(!files.is_empty());
    files
}

/// The text up to its unit tests, which come last in a file.
fn without_unit_tests(text: &str) -> String {
    let end = text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

fn top_module(path: &Path) -> String {
    let relative = path.strip_prefix(source_root()).expect("below the sources");
    let first = relative.components().next().expect("a file");
    Path::new(first.as_os_str())
        .with_extension("")
        .display()
        .to_string()
}

/// First path segments after `crate::`, nested groups included.
fn crate_uses(text: &str) -> BTreeSet<String> {
    let code = without_comments(text);
    let mut found = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        if let Some(group) = after.strip_prefix('{') {
            found.extend(group_heads(group));
        } else {
            found.insert(identifier(after));
        }
    }
    found.remove("");
    found
}

fn group_heads(group: &str) -> Vec<String> {
    let mut heads = Vec::new();
    let mut depth = 0_u32;
    let mut at_head = true;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_head = true,
            character if at_head && (character.is_alphanumeric() || character == '_') => {
                heads.push(identifier(&group[at..]));
                at_head = false;
            }
            _ => {}
        }
    }
    heads
}

fn identifier(text: &str) -> String {
    text.chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}
