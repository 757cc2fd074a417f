//! The contract as others read it: a generator makes types of it with which a program that asks for a constant
//! compiles, and a linter has nothing to say. `dev/peers` installs both.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{
    operations::schema,
    support::{Invocation, Scratch, installed, node_runtime, run_program, skip, write_file},
};

const CONTRACT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
/// A program that is right, with the lines that must not compile marked.
const PROGRAM: &str = include_str!("program.ts");
/// All rules of the linter count as errors.
const RULES: &str = "extends: [recommended-strict]\nrules:\n  no-invalid-media-type-examples: error\n";

/// Packages that read the contract, and what runs them.
struct Packages {
    runtime: PathBuf,
    modules: PathBuf,
}

impl Packages {
    /// `None` where they are not installed.
    fn find() -> Option<Self> {
        let modules = installed("peers/contract/node_modules");
        let (Some(runtime), Some(modules)) = (node_runtime(), modules) else {
            skip("what reads the contract is not installed (dev/peers installs it)");
            return None;
        };
        Some(Self { runtime, modules })
    }

    /// Runs the program of a package; fails unless it says that all is well.
    #[track_caller]
    fn run(&self, program: &str, arguments: &[&str], scratch: &Scratch) {
        let invocation = Invocation::new(&self.runtime)
            .arg(self.modules.join(program))
            .args(arguments)
            .cwd(&scratch.path())
            .env("HOME", scratch.path())
            .env("REDOCLY_TELEMETRY", "off")
            .env("REDOCLY_SUPPRESS_UPDATE_NOTICE", "true");
        let done = run_program(&invocation);
        assert_eq!(done.code, Some(0), "{program}: {}\n{}", done.stdout, done.stderr);
    }
}

#[test]
fn types_made_of_the_contract_tell_its_answers_apart() {
    let Some(packages) = Packages::find() else {
        return;
    };
    let scratch = Scratch::new();
    let types = scratch.join("contract.ts");
    let output = types.to_str().expect("a path in UTF-8");
    packages.run(
        "openapi-typescript/bin/cli.js",
        &[CONTRACT, "--output", output],
        &scratch,
    );
    let types = std::fs::read_to_string(&types).expect("the types");
    for line in types.lines().map(str::trim).filter(|line| !line.starts_with('*')) {
        // What the generator writes of every contract: nothing stands there.
        let is_its_own = line.starts_with("export type ") || line.starts_with("[name: string]: unknown;");
        let is_any = line.starts_with("JsonValue: ");
        let is_open = line.contains("Record<string, never>")
            || line.contains(": unknown")
            || line.contains("unknown[]");
        assert!(is_its_own || is_any || !is_open, "{line}");
    }
    write_file(&scratch.join("program.ts"), PROGRAM);
    let strictly = ["--noEmit", "--strict", "--target", "es2022", "--module", "esnext"];
    let arguments = [&strictly[..], &["--moduleResolution", "bundler", "program.ts"]].concat();
    packages.run("typescript/bin/tsc", &arguments, &scratch);
}

/// The operations without an example: pages, the contract itself, and answers without a body to calls without one.
const WITHOUT_EXAMPLES: [&str; 11] = [
    "clear_session_overrides",
    "get_contract",
    "get_docs",
    "get_page",
    "logout",
    "remove_allowlist_entry",
    "remove_deny_rule",
    "remove_node",
    "revoke_sign_in",
    "revoke_token",
    "unmute_agent",
];

#[test]
fn examples_have_the_form_that_they_are_examples_of() {
    let contract = std::fs::read_to_string(CONTRACT).expect("the contract");
    let contract: Value = serde_json::from_str(&contract).expect("a document");
    let paths = contract["paths"].as_object().expect("paths").values();
    let operations = paths.flat_map(|item| item.as_object().expect("operations").values());
    let mut without = Vec::new();
    for operation in operations {
        let name = operation["operationId"].as_str().expect("a name");
        let answers = operation["responses"].as_object().expect("answers").values();
        let mut examples = 0;
        for holder in answers.chain([&operation["requestBody"]]) {
            for form in holder["content"]
                .as_object()
                .into_iter()
                .flat_map(|forms| forms.values())
            {
                for (example, said) in form["examples"].as_object().into_iter().flatten() {
                    let checked = schema::check(&contract, &form["schema"], &said["value"]);
                    checked.unwrap_or_else(|why| panic!("{name} {example}: {why}"));
                    assert!(said["summary"].is_string(), "{name} {example}");
                    examples += 1;
                }
            }
        }
        if examples == 0 {
            without.push(name);
        }
    }
    without.sort_unstable();
    assert_eq!(without, WITHOUT_EXAMPLES);
}

#[test]
fn an_exec_request_has_exactly_one_of_command_and_argv() {
    let contract = std::fs::read_to_string(CONTRACT).expect("the contract");
    let contract: Value = serde_json::from_str(&contract).expect("a document");
    let request = &contract["components"]["schemas"]["ExecRequest"];
    for right in [json!({ "command": "id" }), json!({ "argv": ["id"], "pty": true })] {
        assert_eq!(schema::check(&contract, request, &right), Ok(()));
    }
    for wrong in [
        json!({}),
        json!({ "pty": true }),
        json!({ "command": "id", "argv": ["id"] }),
        json!({ "command": null }),
        json!({ "command": "id", "argv": null }),
    ] {
        assert!(schema::check(&contract, request, &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_linter_has_nothing_to_say() {
    let Some(packages) = Packages::find() else {
        return;
    };
    let scratch = Scratch::new();
    write_file(&scratch.join("redocly.yaml"), RULES);
    packages.run(
        "@redocly/cli/bin/cli.js",
        &["lint", CONTRACT, "--config", "redocly.yaml"],
        &scratch,
    );
}
