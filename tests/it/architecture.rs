//! What crates cannot keep by themselves: one place starts processes, and the points and protections that tests switch
//! are all listed.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

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
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/sys/src/process");
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
            callers.insert(path);
        }
    }
    // In the server a fork would copy its threads' locks and its secrets, and cost its size.
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/runner/src");
    assert!(!callers.is_empty());
    assert!(
        callers.iter().all(|caller| caller.starts_with(&runner)),
        "{callers:?}"
    );
}

#[test]
fn kill_points_are_listed_and_reached() {
    let mut reached = BTreeSet::new();
    for (path, text) in sources() {
        if path.ends_with("sys/src/hooks.rs") {
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
        if path.ends_with("sys/src/hooks.rs") {
            continue;
        }
        let code = without_comments(&text);
        let calls = code.split("hooks::pause(\"").skip(1);
        passed.extend(calls.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    let listed: BTreeSet<String> = countersign_sys::hooks::PAUSE_POINTS
        .iter()
        .chain(countersign_sys::hooks::PATCH_PAUSES)
        .chain(countersign_sys::hooks::ASK_PAUSES)
        .chain(countersign_sys::hooks::END_PAUSES)
        .chain(countersign_sys::hooks::LEFT_PAUSES)
        .chain(countersign_sys::hooks::LOOK_PAUSES)
        .chain(countersign_sys::hooks::NODE_PAUSES)
        .chain(countersign_sys::hooks::PEOPLE_PAUSES)
        .chain(countersign_sys::hooks::RULE_PAUSES)
        .chain(countersign_sys::hooks::ENTRY_PAUSES)
        .map(|point| (*point).to_owned())
        .collect();
    assert_eq!(passed, listed);
}

#[test]
fn panic_points_are_listed_and_passed() {
    let mut passed = BTreeSet::new();
    for (path, text) in sources() {
        if path.ends_with("sys/src/hooks.rs") {
            continue;
        }
        let code = without_comments(&text);
        let calls = code.split("hooks::panic_at(\"").skip(1);
        passed.extend(calls.filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    let listed: BTreeSet<String> = countersign_sys::hooks::PANIC_POINTS
        .iter()
        .chain(countersign_sys::hooks::NODE_PANICS)
        .chain(countersign_sys::hooks::APPROVER_PANICS)
        .map(|point| (*point).to_owned())
        .collect();
    assert_eq!(passed, listed);
}

#[test]
fn fault_points_are_listed_and_passed() {
    use countersign_sys::faults::{AUDIT, FILES, LEDGER, PATCH, RUN_FILES, START, SUPERVISOR};
    let mut passed = BTreeSet::new();
    for (path, text) in sources() {
        if path.ends_with("sys/src/faults.rs") {
            continue;
        }
        let code = without_comments(&text);
        for call in ["fail_at(\"", "length_at(\"", "WriteAt::new(\"", "&Line::"] {
            // Of a line of a run file the point is the last argument.
            let after = code.split(call).skip(1);
            let at = usize::from(!call.ends_with('"'));
            let name = |rest: &str| rest.split('"').nth(at).map(str::to_owned);
            passed.extend(after.filter_map(name));
        }
    }
    let listed: BTreeSet<String> = [LEDGER, AUDIT, START, FILES, RUN_FILES, SUPERVISOR, PATCH]
        .into_iter()
        .flatten()
        .map(|point| point.name.to_owned())
        .collect();
    assert_eq!(passed, listed);
}

#[test]
fn every_protection_that_can_be_left_away_is_listed() {
    assert_eq!(
        asked("protection_off(\""),
        listed(countersign_sys::hooks::PROTECTIONS)
    );
}

#[test]
fn every_promise_that_can_be_dropped_is_listed() {
    assert_eq!(
        asked("promise_dropped(\""),
        listed(countersign_sys::hooks::PROMISES)
    );
}

/// The names that the program asks for by this.
fn asked(question: &str) -> BTreeSet<String> {
    let asked = sources().into_iter().flat_map(|(_, text)| {
        let code = without_comments(&text);
        let names = code.split(question).skip(1);
        let names = names.filter_map(|rest| rest.split('"').next());
        names.map(str::to_owned).collect::<Vec<_>>()
    });
    asked.collect()
}

fn listed(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn nothing_is_left_unfinished() {
    for (path, text) in sources() {
        for word in ["todo!", "unimplemented!", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// The crates that have no test hooks and use only each other: the tests take them as the optimised program does.
const WITHOUT_HOOKS: [&str; 5] = ["docker", "domain", "policy", "protocol", "wire"];

/// Another crate that is missing there would be optimised once more and would not check for overflow.
#[test]
fn tests_in_the_folder_of_the_optimised_program_have_our_crates_as_elsewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).expect("a file of settings");
        toml::from_str::<toml::Table>(&text).expect("TOML")
    };
    let manifest = read("Cargo.toml");
    let elsewhere = &manifest["profile"]["dev"];
    for name in WITHOUT_HOOKS {
        let settings = &manifest["profile"]["release"]["package"][format!("countersign-{name}")];
        assert_eq!(settings["overflow-checks"], true.into(), "{name}");
        let of_crate = read(&format!("crates/{name}/Cargo.toml"));
        let features = of_crate.get("features").and_then(toml::Value::as_table);
        assert!(
            features.is_none_or(|features| !features.contains_key("test-hooks")),
            "{name}"
        );
        for (used, _) in of_crate["dependencies"].as_table().expect("dependencies") {
            let ours = used.strip_prefix("countersign-");
            assert!(
                ours.is_none_or(|ours| WITHOUT_HOOKS.contains(&ours)),
                "{name}: {used}"
            );
        }
    }
    let crates = fs::read_dir(root.join("crates")).expect("the crates");
    let names = crates.filter_map(|entry| {
        let name = entry.expect("a crate").file_name().into_string().expect("text");
        (!WITHOUT_HOOKS.contains(&name.as_str())).then(|| format!("countersign-{name}"))
    });
    let of_ours = |name: String| {
        let mut settings = toml::Table::new();
        settings.insert("opt-level".to_owned(), 0.into());
        settings.insert("codegen-units".to_owned(), 256.into());
        settings.insert("overflow-checks".to_owned(), elsewhere["overflow-checks"].clone());
        let own = elsewhere["package"].get(&name).and_then(toml::Value::as_table);
        settings.extend(own.cloned().unwrap_or_default());
        (name, toml::Value::from(settings))
    };
    let ours: toml::Table = names.chain(["countersign".to_owned()]).map(of_ours).collect();
    let mut here = read("dev/tests-in-release.toml");
    let here = here["profile"]["release"]["package"]
        .as_table_mut()
        .expect("packages");
    // Without them its check of our command line checks nothing.
    assert_eq!(
        here["clap_builder"]["debug-assertions"],
        elsewhere["package"]["clap_builder"]["debug-assertions"]
    );
    here.retain(|name, _| name.starts_with("countersign"));
    assert_eq!(*here, ours);
}

/// Where sources lie: of the program and of its crates.
fn source_roots() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = fs::read_dir(root.join("crates")).expect("the crates");
    let mut roots: Vec<PathBuf> = crates
        .map(|entry| entry.expect("a crate").path().join("src"))
        .collect();
    roots.push(root.join("src"));
    roots
}

/// Every source file with its text, unit tests in files of their own excepted.
fn sources() -> Vec<(PathBuf, String)> {
    let mut folders = source_roots();
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
