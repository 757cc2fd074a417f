//! The order in which a client needs the operations.

/// A chapter of the page.
pub(crate) struct Chapter {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
    /// Names of operations.
    pub(crate) operations: &'static [&'static str],
}

/// All of them. Each operation stands in one.
pub(crate) const CHAPTERS: &[Chapter] = &[
    Chapter {
        id: "start",
        title: "Start",
        text: "Whether the server is ready, and what your token may do.",
        operations: &["get_me", "get_readiness", "get_health", "get_version"],
    },
    Chapter {
        id: "run",
        title: "Run a command",
        text: "An answer with 200 is the end of the command. One with 202 means that it runs on, or that a person is asked.",
        operations: &["exec", "explain_exec", "explain_execs", "apply_patch"],
    },
    Chapter {
        id: "wait",
        title: "Wait for a run",
        text: "Ask for the run until its status is final, or let the server wait with `waitMs`.",
        operations: &["get_run", "list_runs", "cancel_run"],
    },
    Chapter {
        id: "output",
        title: "Read its output",
        text: "The answer of an ended run has the text of its output. These have the exact bytes.",
        operations: &["get_run_output", "get_run_recording"],
    },
    Chapter {
        id: "answer",
        title: "Answer questions",
        text: "With the scope `approve`. The first answer counts.",
        operations: &[
            "list_approvals",
            "get_approval",
            "decide_approval",
            "decide_approvals",
            "revise_approval",
            "take_back_approval",
        ],
    },
    Chapter {
        id: "follow",
        title: "Follow events",
        text: "One stream tells everything that happens, and resumes where it broke.",
        operations: &["get_events"],
    },
    Chapter {
        id: "background",
        title: "Talk to a command in the background",
        text: "What runs with `background` or `pty` can be read, written to and ended.",
        operations: &[
            "list_process_sessions",
            "get_process_session",
            "process",
            "stream_process_session",
        ],
    },
    Chapter {
        id: "sessions",
        title: "Sessions",
        text: "What a session of an agent overrides, says in chat, and is told.",
        operations: &[
            "get_session_overrides",
            "put_session_overrides",
            "clear_session_overrides",
            "post_session_command",
            "peek_system_events",
            "drain_system_events",
        ],
    },
    Chapter {
        id: "policy",
        title: "Policy",
        text: "What is allowed, for whom, and which layer says so.",
        operations: &[
            "get_effective_policy",
            "list_agents",
            "get_agent_policy",
            "set_agent_policy",
            "apply_preset",
            "get_policy_document",
            "replace_policy_document",
            "accept_policy_document",
        ],
    },
    Chapter {
        id: "allowlist",
        title: "Allowlist and deny rules",
        text: "What runs without a question, and what never runs. `*` in the place of an agent means all agents.",
        operations: &[
            "list_allowlist",
            "add_allowlist_entry",
            "get_allowlist_entry",
            "change_allowlist_entry",
            "remove_allowlist_entry",
            "list_denylist",
            "add_deny_rule",
            "remove_deny_rule",
        ],
    },
    Chapter {
        id: "stop",
        title: "Emergency stop",
        text: "Stops everything at once, and lets it go on.",
        operations: &["get_stop", "stop", "resume"],
    },
    Chapter {
        id: "nodes",
        title: "Nodes",
        text: "Other machines that run commands, and those that want to.",
        operations: &[
            "list_nodes",
            "get_node",
            "rename_node",
            "remove_node",
            "list_pairings",
            "decide_pairing",
            "get_node_policy_document",
            "replace_node_policy_document",
        ],
    },
    Chapter {
        id: "audit",
        title: "Audit",
        text: "The record that nobody can quietly change.",
        operations: &["list_audit", "get_audit_head", "verify_audit"],
    },
    Chapter {
        id: "tokens",
        title: "Tokens",
        text: "Who may do what.",
        operations: &[
            "list_tokens",
            "create_token",
            "rotate_token",
            "accept_token",
            "revoke_token",
        ],
    },
    Chapter {
        id: "people",
        title: "People with a browser",
        text: "Links that sign a browser in, and the browsers that are signed in.",
        operations: &[
            "create_login_link",
            "list_sign_ins",
            "revoke_sign_in",
            "login",
            "get_session",
            "logout",
            "get_page",
        ],
    },
    Chapter {
        id: "settings",
        title: "Settings",
        text: "The files of the operator, as they are in effect.",
        operations: &["get_settings", "get_config", "change_config"],
    },
    Chapter {
        id: "watch",
        title: "Watch and describe the server",
        text: "For machines that watch, and tools that read contracts.",
        operations: &["get_metrics", "list_errors", "get_contract", "get_docs"],
    },
    Chapter {
        id: "others",
        title: "Other ways to ask",
        text: "The same calls for clients that speak another protocol.",
        operations: &["mcp", "invoke_tool"],
    },
];
