//! "Nobody answers himself": every path by which somebody who asks might answer, and the tests that try it.
//!
//! The tests are where their subject is. This list fails when one of them goes away or is renamed.

use std::{fs, path::Path};

/// A path, its protection, and the tests that try to get past, each with a positive control: a file, and a function in
/// it.
struct Row {
    path: &'static str,
    tests: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row {
        path: "a token with `exec` never decides",
        tests: &[
            "tests/it/attacks/self/answers.rs: a_token_that_asks_decides_by_no_edge",
            "tests/it/auth.rs: whoever_asks_cannot_answer",
            "tests/it/operations/mod.rs: whoever_may_call_it_is_answered_as_documented_and_nobody_else",
            "tests/it/sign_in/attacks.rs: who_asked_cannot_answer_by_browser",
            "tests/it/cli.rs: a_command_cannot_use_the_operators_credentials",
            "tests/it/attacks/agents.rs: no_command_of_the_operators_works_inside_a_run",
            "tests/it/hooks.rs: nobody_answers_in_time_means_no_and_the_question_is_withdrawn",
        ],
    },
    Row {
        path: "a token with `exec` reads its own runs only",
        tests: &["tests/it/attacks/self/answers.rs: a_token_that_asks_reads_its_own_runs_and_no_others"],
    },
    Row {
        path: "a token with `exec` is bound to its agents",
        tests: &[
            "tests/it/auth.rs: a_token_is_bound_to_its_agents",
            "tests/it/mcp/http.rs: the_binding_of_a_token_to_agents_holds",
        ],
    },
    Row {
        path: "chat text needs `relay`, and there is no edge for it yet",
        tests: &[
            "tests/it/attacks/self/answers.rs: what_is_not_there_yet_opens_nothing",
            "tests/it/auth.rs: whoever_asks_cannot_answer",
        ],
    },
    Row {
        path: "the secret of the Bridge is for nodes, and opens nothing yet",
        tests: &["tests/it/attacks/self/answers.rs: what_is_not_there_yet_opens_nothing"],
    },
    Row {
        path: "the approvals socket is not there yet",
        tests: &["tests/it/attacks/self/answers.rs: what_is_not_there_yet_opens_nothing"],
    },
    Row {
        path: "an MCP elicitation shows a link and is no answer",
        tests: &[
            "tests/it/mcp/http.rs: a_link_is_shown_and_no_answer_to_it_decides",
            "tests/it/mcp/http.rs: without_a_handshake_the_link_is_a_round_of_its_own_and_decides_as_little",
            "tests/it/mcp/stdio.rs: the_answer_to_a_shown_link_decides_nothing",
        ],
    },
    Row {
        path: "a browser's cookie alone opens nothing",
        tests: &[
            "tests/it/sign_in/attacks.rs: another_port_of_the_host_sees_the_cookie_and_can_do_nothing_with_it",
            "tests/it/sign_in/attacks.rs: the_second_secret_is_that_of_the_very_session",
            "tests/it/sign_in/attacks.rs: a_foreign_page_cannot_use_the_cookie",
            "tests/it/operations/mod.rs: a_browser_needs_its_second_secret_for_every_operation",
        ],
    },
    Row {
        path: "a login link is for terminals, is not used up by looking at it, and works once",
        tests: &[
            "tests/it/sign_in/command_line.rs: a_pipe_gets_no_link_with_the_ready_line",
            "tests/it/sign_in/command_line.rs: a_terminal_gets_a_link_with_the_ready_line",
            "tests/it/sign_in/command_line.rs: a_command_of_an_agent_gets_no_link",
            "tests/it/sign_in/links.rs: looking_at_a_link_does_not_use_it_up",
            "tests/it/sign_in/links.rs: a_link_signs_one_browser_in_with_the_rights_of_the_operator",
            "tests/it/sign_in/links.rs: of_twenty_who_show_the_same_code_one_is_signed_in",
        ],
    },
    Row {
        path: "the command line sends a token to the server's own socket alone",
        tests: &[
            "tests/it/attacks/self/answers.rs: whoever_took_the_port_or_the_socket_is_sent_no_token",
            "tests/it/api_socket.rs: the_command_line_prefers_the_socket",
            "src/cli/discover.rs: a_socket_that_others_can_reach_gets_no_token",
            "src/cli/discover.rs: tokens_of_the_state_directory_go_to_no_other_url",
        ],
    },
    Row {
        path: "a history that was rewritten with the audit key is found by a witnessed head",
        tests: &[
            "crates/ledger/src/tests/audit_chain.rs: a_tail_that_was_rewritten_with_the_key_is_found_by_a_witness_only",
        ],
    },
    Row {
        path: "a command does not answer from inside its run, nor by an edit of the policy",
        tests: &[
            "tests/it/attacks/self/measured.rs: what_commands_reach_at_each_level_is_what_the_security_document_says",
            "tests/it/attacks/self/measured.rs: every_attack_gets_through_where_nothing_keeps_it_out",
            "tests/it/held.rs: a_command_that_writes_itself_a_policy_gains_nothing",
            "tests/it/attacks/agents.rs: no_spelling_of_the_servers_own_state_is_covered",
            "tests/it/attacks/agents.rs: the_servers_own_program_is_never_covered_by_whatever_name",
        ],
    },
];

/// Whether a text has a test of this name that is run.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let declares = ["fn ", "async fn "].iter().any(|keyword| {
            let rest = line.strip_prefix(keyword);
            rest.is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with("()")))
        });
        let attributes: Vec<&&str> = lines[..at]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("#["))
            .collect();
        declares
            && attributes
                .iter()
                .any(|attribute| ["#[test]", "#[tokio::test]"].contains(attribute))
            && !attributes
                .iter()
                .any(|attribute| attribute.starts_with("#[ignore"))
    })
}

#[test]
fn every_path_by_which_an_asker_might_answer_is_tried_by_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut gone = Vec::new();
    for row in ROWS {
        assert!(!row.tests.is_empty(), "nothing tries: {}", row.path);
        for test in row.tests {
            let (file, name) = test.split_once(": ").expect("a file and a function");
            let source = fs::read_to_string(root.join(file)).unwrap_or_default();
            if !has_test(&source, name) {
                gone.push(format!("{}: {test}", row.path));
            }
        }
    }
    assert_eq!(gone, Vec::<String>::new());
}

#[test]
fn a_test_that_is_not_run_is_none() {
    let source =
        "#[tokio::test]\nasync fn one() {}\n#[test]\n#[ignore = \"later\"]\nfn two() {}\nfn three() {}\n";
    assert!(has_test(source, "one"));
    for name in ["on", "two", "three", "four"] {
        assert!(!has_test(source, name), "{name}");
    }
}
