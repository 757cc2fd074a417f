//! The judgement: a snapshot in, findings out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::{
    AgentRules, AgentSandbox, DirectoryState, DocumentState, Finding, IsolationState, PrivateFile, Remark,
    Repair, Room, Scopes, ServerAccount, ServerState, SettingsState, Severity, Snapshot, SocketState,
    TlsState,
};
use crate::{
    approvals::document::LostRules,
    domain::{Ask, Backend, HostChoice, Isolation, Security},
    engine::lint::RuleRemark,
    events::AllowlistList,
    policy::{
        hold::quoted,
        lint::{self, RemarkCode, Weight},
    },
};

/// Judges what was seen. The worst come first.
pub fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(directory(snapshot));
    found.extend(settings(&snapshot.settings));
    found.extend(tls(&snapshot.tls));
    found.extend(isolation(&snapshot.isolation));
    found.extend(document(snapshot));
    found.extend(
        snapshot
            .agents
            .iter()
            .flat_map(|rules| agent(rules, &snapshot.settings)),
    );
    found.extend(remarks_on_sandboxes(snapshot));
    found.extend(
        snapshot
            .agents
            .iter()
            .filter_map(|rules| taken_out(rules, &snapshot.isolation)),
    );
    found.extend(
        snapshot
            .private
            .iter()
            .filter_map(|file| private(file, snapshot.us)),
    );
    found.extend(node_host(snapshot));
    found.extend(snapshot.edits.iter().map(edit));
    found.extend(snapshot.lost.iter().map(|lost| lost_rules(lost, snapshot)));
    found.extend(rules(snapshot));
    found.extend(snapshot.safe_bins.iter().map(safe_bin));
    found.extend(unbound_tokens(&snapshot.unbound_tokens));
    found.extend(socket(snapshot));
    found.extend(server(&snapshot.server));
    found.extend(room(snapshot.room, &snapshot.state_dir));
    found.extend(snapshot.ahead.and_then(clock));
    // Stable: among equals the order above stays, which is the order in which to mend things.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn directory(snapshot: &Snapshot) -> Option<Finding> {
    let key = snapshot.state_dir.display().to_string();
    match &snapshot.directory {
        DirectoryState::Usable => None,
        DirectoryState::Missing => Some(Finding {
            id: "state-dir-missing",
            severity: Severity::Warning,
            key,
            explanation: "the state directory is not there yet".to_owned(),
            fix: "countersign init".to_owned(),
            repair: None,
        }),
        DirectoryState::Refused(why) => Some(Finding {
            id: "state-dir-refused",
            severity: Severity::Error,
            explanation: format!("the state directory must not be used: {why}"),
            fix: format!("make it yours alone: chown and chmod 0700 {key}, or name another with --state-dir"),
            key,
            repair: None,
        }),
    }
}

fn settings(settings: &SettingsState) -> Vec<Finding> {
    match settings {
        SettingsState::Broken(problems) => problems
            .iter()
            .map(|problem| Finding {
                id: "settings-broken",
                severity: Severity::Error,
                key: "settings".to_owned(),
                explanation: problem.clone(),
                fix: "correct the key; a server that runs keeps the last good settings, a new one does not start"
                    .to_owned(),
                repair: None,
            })
            .collect(),
        SettingsState::Loaded { remarks, is_open, metrics_are_open, path: _, always_reachable: _ } => {
            let mut found: Vec<Finding> = remarks.iter().map(remark).collect();
            if *is_open {
                found.push(Finding {
                    id: "listens-to-everybody",
                    severity: Severity::Warning,
                    key: "http.listen".to_owned(),
                    explanation: "the API listens for other machines without TLS: tokens and commands travel readable"
                        .to_owned(),
                    fix: "[tls] cert and key, or [http] listen = \"127.0.0.1:18790\" with a TLS proxy in front"
                        .to_owned(),
                    repair: None,
                });
            }
            if *metrics_are_open {
                found.push(Finding {
                    id: "metrics-for-everybody",
                    severity: Severity::Warning,
                    key: "telemetry.metrics_listen".to_owned(),
                    explanation: "other machines can read the metrics: no token is asked for there, and no TLS spoken"
                        .to_owned(),
                    fix: "[telemetry] metrics_listen = \"127.0.0.1:9464\", or GET /metrics with a token of scope read"
                        .to_owned(),
                    repair: None,
                });
            }
            found
        }
    }
}

fn remark(remark: &Remark) -> Finding {
    match remark {
        Remark::GroupMayWrite(path) => Finding {
            id: "settings-group-writable",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation: "the group may write this file, and with it decide what agents may run".to_owned(),
            fix: format!("chmod g-w {}", path.display()),
            repair: Some(Repair::SetMode {
                path: path.clone(),
                mode: 0o600,
            }),
        },
        Remark::NotYetEffective(what) => Finding {
            id: "setting-not-yet-effective",
            severity: Severity::Info,
            key: key_of(what),
            explanation: what.clone(),
            fix: "nothing to do: the value is checked and kept for the version that uses it".to_owned(),
            repair: None,
        },
        Remark::Ignored(what) => Finding {
            id: "setting-ignored",
            severity: Severity::Info,
            key: key_of(what),
            explanation: what.clone(),
            fix: "take the key away if it should do something".to_owned(),
            repair: None,
        },
    }
}

fn edit((path, allows): &(PathBuf, Vec<String>)) -> Finding {
    Finding {
        id: "policy-edit-held",
        severity: Severity::Warning,
        key: path.display().to_string(),
        explanation: format!(
            "this file was edited from outside and allows more than what the server accepted: {}. After a command ran, \
             that does not count until an admin accepts it",
            allows.join("; ")
        ),
        fix: "countersign policy accept, if the edit is yours; otherwise put the file right".to_owned(),
        repair: None,
    }
}

/// Rules that a writer dropped which does not know them. Deny rules that are gone deny nothing, and nobody asked for that.
fn lost_rules(lost: &LostRules, snapshot: &Snapshot) -> Finding {
    const QUOTED: usize = 10;
    let LostRules {
        agent,
        deny_rules,
        grants,
        unbound,
    } = lost;
    let unbound = match unbound.as_slice() {
        [] => String::new(),
        [(_id, first), rest @ ..] => format!(
            ". The arguments of the entry {}{} are gone: it covers any arguments now",
            quoted(first),
            if rest.is_empty() {
                String::new()
            } else {
                format!(" and of {} more", rest.len())
            }
        ),
    };
    let mut gone: Vec<String> = deny_rules
        .iter()
        .take(QUOTED)
        .map(|(pattern, _arguments)| quoted(pattern))
        .collect();
    if deny_rules.len() > QUOTED {
        gone.push(format!("{} more", deny_rules.len() - QUOTED));
    }
    let rules = if gone.is_empty() {
        "no deny rules".to_owned()
    } else {
        format!("the deny rules {}", gone.join(", "))
    };
    Finding {
        id: "document-lost-rules",
        severity: Severity::Error,
        key: snapshot.document_path.display().to_string(),
        explanation: format!(
            "another program rewrote this file and dropped what it does not know: of agent {}, {rules} and {grants} \
             grants. What was denied is not denied any more{unbound}",
            quoted(agent)
        ),
        fix: "put them back with countersign denylist add and countersign allowlist add, or, if nothing is missed, say \
              so with countersign policy accept and the hash of the document"
            .to_owned(),
        repair: None,
    }
}

/// One finding for each kind of odd rule, with the first few of them.
fn rules(snapshot: &Snapshot) -> Vec<Finding> {
    const NAMED: usize = 5;
    let mut kinds: BTreeMap<RemarkCode, Vec<&RuleRemark>> = BTreeMap::new();
    for told in &snapshot.rules.told {
        kinds.entry(told.remark.code).or_default().push(told);
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (code, told) in kinds {
        findings.extend(told.iter().take(NAMED).map(|told| rule(code, told, snapshot)));
        if told.len() > NAMED {
            findings.push(many(code, told.len() - NAMED, snapshot));
        }
    }
    if snapshot.rules.left_off > 0 {
        findings.push(Finding {
            id: "rules-more",
            severity: Severity::Info,
            key: snapshot.document_path.display().to_string(),
            explanation: format!("there are {} more remarks on rules", snapshot.rules.left_off),
            fix: "mend those that are named and look again".to_owned(),
            repair: None,
        });
    }
    findings
}

fn rule(code: RemarkCode, told: &RuleRemark, snapshot: &Snapshot) -> Finding {
    let RuleRemark {
        owner,
        list,
        id,
        pattern,
        remark,
    } = told;
    let (kind, command) = match list {
        AllowlistList::Allowlist => ("entry", "allowlist"),
        AllowlistList::Grants => ("grant", "allowlist"),
        AllowlistList::Denylist => ("deny rule", "denylist"),
    };
    Finding {
        id: finding_id(code),
        severity: severity_of(code),
        key: format!("{}#/agents/{owner}/{list}/{id}", snapshot.document_path.display()),
        explanation: format!(
            "the {kind} {} of agent {}: {}",
            quoted(pattern),
            quoted(owner),
            remark.message
        ),
        fix: format!("countersign {command} remove {id} --agent {}", quoted(owner)),
        repair: None,
    }
}

fn many(code: RemarkCode, more: usize, snapshot: &Snapshot) -> Finding {
    Finding {
        id: finding_id(code),
        severity: severity_of(code),
        key: snapshot.document_path.display().to_string(),
        explanation: format!("and {more} more rules like these ({code})"),
        fix: "mend those that are named and look again".to_owned(),
        repair: None,
    }
}

fn safe_bin((name, remark): &(String, lint::Remark)) -> Finding {
    let repair =
        (remark.code == RemarkCode::SafeBinWithoutProfile).then(|| Repair::Scaffold { name: name.clone() });
    Finding {
        id: finding_id(remark.code),
        severity: severity_of(remark.code),
        key: "tools.exec.safeBins".to_owned(),
        explanation: format!("the safe bin {}: {}", quoted(name), remark.message),
        fix: "take it out of tools.exec.safeBins, or give it a profile in tools.exec.safeBinProfiles"
            .to_owned(),
        repair,
    }
}

const fn severity_of(code: RemarkCode) -> Severity {
    match code.weight() {
        Weight::Risky => Severity::Warning,
        Weight::Idle => Severity::Info,
    }
}

const fn finding_id(code: RemarkCode) -> &'static str {
    match code {
        RemarkCode::NeverMatches => "rule-never-matches",
        RemarkCode::Shadowed => "rule-shadowed",
        RemarkCode::Denied => "rule-denied",
        RemarkCode::TooBroad => "rule-too-broad",
        RemarkCode::Interpreter => "rule-interpreter",
        RemarkCode::NeedsArguments => "rule-needs-arguments",
        RemarkCode::WritableDirectory => "rule-writable-directory",
        RemarkCode::MissingFile => "rule-missing-file",
        RemarkCode::Expired => "grant-expired",
        RemarkCode::UsedUp => "grant-used-up",
        RemarkCode::SafeBinWithoutProfile => "safe-bin-without-profile",
        RemarkCode::SafeBinRefused => "safe-bin-refused",
    }
}

/// Remarks begin with their key and a colon.
fn key_of(what: &str) -> String {
    what.split_once(": ").map_or(what, |(key, _rest)| key).to_owned()
}

fn tls(state: &TlsState) -> Option<Finding> {
    match state {
        TlsState::Off | TlsState::Usable { key_of_group: None } => None,
        TlsState::Usable {
            key_of_group: Some(path),
        } => Some(Finding {
            id: "tls-key-of-group",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation:
                "the group may get at the private key of the API: fine if only programs that serve with it \
                          are in the group"
                    .to_owned(),
            fix: format!("chmod 0600 {}", path.display()),
            repair: None,
        }),
        TlsState::Refused(why) => Some(Finding {
            id: "tls-files-refused",
            severity: Severity::Error,
            key: "tls".to_owned(),
            explanation: format!(
                "{why}. A server that runs goes on with the last good files; a new one does not start"
            ),
            fix:
                "put a certificate and its key in place; a running server takes them with its next connection"
                    .to_owned(),
            repair: None,
        }),
    }
}

fn isolation(state: &IsolationState) -> Option<Finding> {
    match state {
        IsolationState::SameUser { why, remedy } => Some(Finding {
            id: "isolation-same-user",
            severity: Severity::Error,
            key: "exec.isolation".to_owned(),
            explanation: format!(
                "commands on the gateway host run with the server's own rights: one that runs can read the operator's \
                 token and edit the policy. Approvals are a guard rail here, not a boundary. They are not confined: {why}"
            ),
            fix: remedy
                .unwrap_or(
                    "run the server under an ordinary account of its own, where user namespaces are allowed, and \
                     leave [exec] isolation at \"auto\"; until then give agents nothing on it that you would not run \
                     yourself",
                )
                .to_owned(),
            repair: None,
        }),
        IsolationState::Confined {
            scopes: Scopes::Missing,
        } => Some(Finding {
            id: "isolation-without-scopes",
            severity: Severity::Warning,
            key: "exec.isolation".to_owned(),
            explanation: "this kernel cannot keep signals and abstract sockets of confined commands inside: one that \
                          runs cannot read anything of the server, but it can stop it"
                .to_owned(),
            fix: "use Linux 6.12 or later with Landlock".to_owned(),
            repair: None,
        }),
        IsolationState::SeparateUser {
            server: ServerAccount::Root,
        } => Some(Finding {
            id: "server-is-root",
            severity: Severity::Warning,
            key: "exec.run_as".to_owned(),
            explanation: "commands run under an account of their own, but the server is root's: whoever takes it over has \
                          the machine"
                .to_owned(),
            fix: "useradd --system --user-group --home-dir /var/lib/countersign --shell /usr/sbin/nologin countersign; \
                  the next start uses it"
                .to_owned(),
            repair: None,
        }),
        IsolationState::SeparateUser {
            server: ServerAccount::Own,
        }
        | IsolationState::Confined { scopes: Scopes::Kept } => None,
    }
}

/// An agent whose commands have more rights than those of others.
fn taken_out(rules: &AgentRules, state: &IsolationState) -> Option<Finding> {
    let is_worse = match (rules.isolation, state) {
        (Some(Isolation::SameUser), IsolationState::Confined { .. }) => true,
        (
            _,
            IsolationState::Confined { .. }
            | IsolationState::SameUser { .. }
            | IsolationState::SeparateUser { .. },
        ) => false,
    };
    is_worse.then(|| Finding {
        id: "agent-not-confined",
        severity: Severity::Error,
        key: "tools.exec.isolation".to_owned(),
        explanation: format!(
            "commands of the agent {} run with the server's own rights: one that runs can read the operator's token \
             and edit the policy, which binds every other agent, too",
            rules.agent
        ),
        fix: "remove tools.exec.isolation from openclaw.json, or run these tools on another machine".to_owned(),
        repair: None,
    })
}

/// Tokens with which whoever holds one can ask as any agent, and so by the rules of the most trusted one.
fn unbound_tokens(tokens: &Result<Vec<(String, String)>, String>) -> Vec<Finding> {
    let tokens = match tokens {
        Ok(tokens) => tokens,
        Err(why) => {
            return vec![Finding {
                id: "ledger-unread",
                severity: Severity::Warning,
                key: "database.url".to_owned(),
                explanation: format!("the tokens in the ledger were not looked at: {why}"),
                fix: "run doctor as the account of the server; a server that starts says what is wrong with the ledger"
                    .to_owned(),
                repair: None,
            }];
        }
    };
    tokens
        .iter()
        .map(|(id, name)| Finding {
            id: "unbound-exec-token",
            severity: Severity::Warning,
            key: id.clone(),
            explanation: format!(
                "the token {} may ask for commands and is bound to no agent: whoever holds it asks in the name of any, \
                 and by that agent's rules",
                quoted(name)
            ),
            fix: format!(
                "countersign token create NAME --scope exec --agent ID, hand that out, then countersign token revoke {id}"
            ),
            repair: None,
        })
        .collect()
}

fn document(snapshot: &Snapshot) -> Vec<Finding> {
    let key = snapshot.document_path.display().to_string();
    match &snapshot.document {
        DocumentState::Missing => vec![Finding {
            id: "document-missing",
            severity: Severity::Info,
            key,
            explanation:
                "there is no approvals document: no program is on any allowlist, and nobody answers means no"
                    .to_owned(),
            fix: "countersign init, or countersign allowlist add /usr/bin/git".to_owned(),
            repair: None,
        }],
        DocumentState::Refused(why) => vec![Finding {
            id: "document-refused",
            severity: Severity::Error,
            explanation: format!("the approvals document is refused, so everything is denied: {why}"),
            fix: format!("repair {key}; the next call reads it again"),
            key,
            repair: None,
        }],
        DocumentState::Ok(warnings) => warnings
            .iter()
            .map(|warning| Finding {
                id: "document-warning",
                severity: Severity::Warning,
                key: key.clone(),
                explanation: warning.clone(),
                fix: format!("correct {key}"),
                repair: None,
            })
            .collect(),
    }
}

fn agent(rules: &AgentRules, settings: &SettingsState) -> Vec<Finding> {
    let AgentRules {
        agent,
        host,
        security,
        ask,
        ask_fallback,
        isolation: _,
        sandbox,
        sandbox_remarks: _,
        wanted_security,
        wanted_ask,
    } = rules;
    let mut found = Vec::new();
    let disagreement = |wanted: &str, wanted_by: &str, counts: &str, counts_by: &str, what: &str| Finding {
        id: "layers-disagree",
        severity: Severity::Info,
        key: wanted_by.to_owned(),
        explanation: format!(
            "{wanted_by} wants {what} {wanted} for the agent {agent}, and {counts_by} says {counts}: the stricter one, \
             {counts}, counts"
        ),
        fix: format!("set both to what is meant: {wanted_by} and {counts_by}"),
        repair: None,
    };
    if let Some((wanted, by)) = wanted_security
        && *wanted > security.0
    {
        let (counts, counts_by) = security;
        found.push(disagreement(
            wanted.as_str(),
            by,
            counts.as_str(),
            counts_by,
            "security",
        ));
    }
    if let Some((wanted, by)) = wanted_ask
        && *wanted < ask.0
    {
        let (counts, counts_by) = ask;
        found.push(disagreement(
            wanted.as_str(),
            by,
            counts.as_str(),
            counts_by,
            "ask",
        ));
    }
    if let AgentSandbox::Missing(why) = sandbox {
        let (severity, what) = match host.0 {
            HostChoice::Sandbox => (Severity::Warning, "commands go to the sandbox, and fail"),
            HostChoice::Auto => (
                Severity::Info,
                "commands go to the gateway host, since there is no sandbox",
            ),
            HostChoice::Gateway | HostChoice::Node => (
                Severity::Info,
                "a miss is asked about although it might run in the sandbox (tools.exec.onMiss)",
            ),
        };
        found.push(Finding {
            id: "sandbox-unavailable",
            severity,
            key: key_or(&host.1, "tools.exec.host"),
            explanation: format!("agent {agent}: {what}: {why}"),
            fix: "what is missing is named there; without a sandbox tools.exec.host = \"gateway\" in openclaw.json, or \
                  countersign init --preset cautious"
                .to_owned(),
            repair: None,
        });
    }
    if security.0 == Security::Full && ask.0 != Ask::Always {
        found.push(Finding {
            id: "everything-runs",
            severity: Severity::Warning,
            key: key_or(&security.1, "tools.exec.security"),
            explanation: format!(
                "every command of the agent {agent} runs on this machine, and nobody is asked"
            ),
            fix: "tools.exec.security = \"allowlist\" and tools.exec.ask = \"on-miss\" in openclaw.json"
                .to_owned(),
            repair: None,
        });
    }
    if ask_fallback.0 == Security::Full && ask.0 != Ask::Off {
        found.push(Finding {
            id: "silence-allows",
            severity: Severity::Warning,
            key: key_or(&ask_fallback.1, "askFallback"),
            explanation: format!("a question about the agent {agent} that nobody answers is taken as a yes"),
            fix: "askFallback = \"deny\" in exec-approvals.json".to_owned(),
            repair: None,
        });
    }
    let asks = security.0 != Security::Deny && ask.0 != Ask::Off;
    if asks
        && matches!(
            settings,
            SettingsState::Loaded {
                always_reachable: false,
                ..
            }
        )
    {
        found.push(Finding {
            id: "questions-need-a-connected-approver",
            severity: Severity::Info,
            key: "approvals.always_reachable".to_owned(),
            explanation: format!(
                "a question about the agent {agent} waits only while an approver is connected; otherwise its fallback \
                 ({}) applies at once",
                ask_fallback.0
            ),
            fix: "[approvals] always_reachable = true in countersign.toml, or keep `countersign approvals watch` open"
                .to_owned(),
            repair: None,
        });
    }
    found
}

/// What settings of sandboxes say to Docker and not, or not quite so, to the built-in backend, where that is what there is.
fn remarks_on_sandboxes(snapshot: &Snapshot) -> Vec<Finding> {
    let is_builtin = |rules: &&AgentRules| rules.sandbox == AgentSandbox::Usable(Backend::Builtin);
    let agents = snapshot.agents.iter().filter(is_builtin);
    let remarks: BTreeSet<&String> = agents.flat_map(|rules| &rules.sandbox_remarks).collect();
    let finding = |remark: &String| Finding {
        id: "sandbox-key-ignored",
        severity: Severity::Info,
        key: remark.split(' ').next().unwrap_or_default().to_owned(),
        explanation: remark.clone(),
        fix: "take the key out, or [sandbox] backend = \"docker\" in countersign.toml".to_owned(),
        repair: None,
    };
    remarks.into_iter().map(finding).collect()
}

fn key_or(source: &str, key: &str) -> String {
    if source == "default" {
        key.to_owned()
    } else {
        source.to_owned()
    }
}

fn private(file: &PrivateFile, us: u32) -> Option<Finding> {
    let path = file.path.display();
    if file.owner != us {
        return Some(Finding {
            id: "foreign-file",
            severity: Severity::Error,
            key: path.to_string(),
            explanation: format!("it belongs to user {}, who can read or change it", file.owner),
            fix: format!("chown {us} {path}, then exchange what it held: it may be known"),
            repair: None,
        });
    }
    (file.mode & 0o077 != 0).then(|| Finding {
        id: "file-not-private",
        severity: if file.mode & 0o022 != 0 {
            Severity::Error
        } else {
            Severity::Warning
        },
        key: path.to_string(),
        explanation: format!("its mode is {:04o}: others than you can get at it", file.mode),
        fix: format!("chmod {:04o} {path}", file.wanted),
        repair: Some(Repair::SetMode {
            path: file.path.clone(),
            mode: file.wanted,
        }),
    })
}

/// The node host's identity has the shape of the product's first generation, which the present one wants to migrate
/// before it starts (`bridge.md` 5.3).
fn node_host(snapshot: &Snapshot) -> Option<Finding> {
    let identity = snapshot.state_dir.join("identity/device.json");
    let file = snapshot.private.iter().find(|file| file.path == identity)?;
    Some(Finding {
        id: "node-identity-beside",
        severity: Severity::Info,
        key: file.path.display().to_string(),
        explanation: "the key of a node host lies here: an OpenClaw of protocol 4 that shares this state directory does \
                      not start beside it"
            .to_owned(),
        fix: "give that OpenClaw, or the node (countersign --state-dir DIR node run), a state directory of its own"
            .to_owned(),
        repair: None,
    })
}

fn socket(snapshot: &Snapshot) -> Option<Finding> {
    match &snapshot.socket {
        SocketState::Fine => None,
        SocketState::Refused { path, why } => Some(Finding {
            id: "approvals-socket",
            severity: Severity::Warning,
            key: path.display().to_string(),
            explanation: format!("the approvals socket cannot be used: {why}"),
            fix: format!(
                "name another place as socket.path in {}, or set [ipc] role = \"off\" in countersign.toml",
                snapshot.document_path.display()
            ),
            repair: None,
        }),
        SocketState::NoToken => Some(Finding {
            id: "approvals-socket-token",
            severity: Severity::Warning,
            key: snapshot.document_path.display().to_string(),
            explanation: "[ipc] role is client, and the approvals document has no socket.token: nobody is asked there"
                .to_owned(),
            fix: "start the program that hosts the socket once, or set [ipc] role = \"auto\" in countersign.toml"
                .to_owned(),
            repair: None,
        }),
    }
}

fn server(server: &ServerState) -> Option<Finding> {
    match server {
        ServerState::Running | ServerState::NotRunning => None,
        ServerState::Stale(path) => Some(Finding {
            id: "server-left",
            severity: Severity::Info,
            key: path.display().to_string(),
            explanation: "the last server did not stop cleanly; the next one recovers what it left"
                .to_owned(),
            fix: "countersign serve".to_owned(),
            repair: Some(Repair::Remove { path: path.clone() }),
        }),
    }
}

/// Under this much room a server may not start.
const LEAST_DISK: u64 = 100 * MEBIBYTE;
/// Under this much it will soon be so.
const LITTLE_DISK: u64 = 1024 * MEBIBYTE;
const MEBIBYTE: u64 = 1 << 20;

fn room(room: Room, state_dir: &std::path::Path) -> Vec<Finding> {
    let Room {
        disk_bytes,
        open_files,
        wanted_files,
    } = room;
    let mut found = Vec::new();
    if disk_bytes < LITTLE_DISK {
        found.push(Finding {
            id: "disk-nearly-full",
            severity: if disk_bytes < LEAST_DISK {
                Severity::Error
            } else {
                Severity::Warning
            },
            key: state_dir.display().to_string(),
            explanation: format!(
                "{} MiB are left where the state directory lies: without room for its record no command runs",
                disk_bytes / MEBIBYTE
            ),
            fix: "make room, or lower [output] quota_bytes and [output] keep_days in countersign.toml"
                .to_owned(),
            repair: None,
        });
    }
    if open_files < wanted_files {
        found.push(Finding {
            id: "few-open-files",
            severity: Severity::Warning,
            key: "limits.max_connections".to_owned(),
            explanation: format!(
                "a server may have {open_files} files open and would have {wanted_files} with as many connections and \
                 commands as the settings let in: it would refuse some before that"
            ),
            fix: "LimitNOFILE= of its unit (or ulimit -Hn), or lower [limits] max_connections and max_running".to_owned(),
            repair: None,
        });
    }
    found
}

/// A clock that is a little ahead elsewhere is no trouble.
const CLOCK_TOLERANCE: Duration = Duration::from_mins(2);

fn clock(ahead: Duration) -> Option<Finding> {
    (ahead > CLOCK_TOLERANCE).then(|| Finding {
        id: "clock-set-back",
        severity: Severity::Warning,
        key: "clock".to_owned(),
        explanation: format!(
            "files of the server were written {} minutes from now: the clock was set back. Deadlines of approvals go on \
             from the later time, and nodes whose clock is right are refused",
            ahead.as_secs() / 60
        ),
        fix: "set the clock right (timedatectl set-ntp true)".to_owned(),
        repair: None,
    })
}

#[cfg(test)]
mod tests {
    use crate::{
        domain::{AgentId, EntryId},
        engine::lint::DocumentRemarks,
    };

    use super::*;

    /// A state in which nothing is wrong.
    fn sound() -> Snapshot {
        Snapshot {
            state_dir: "/state".into(),
            directory: DirectoryState::Usable,
            settings: SettingsState::Loaded {
                remarks: Vec::new(),
                is_open: false,
                metrics_are_open: false,
                always_reachable: true,
                path: "/state/countersign/countersign.toml".into(),
            },
            tls: TlsState::Usable { key_of_group: None },
            document: DocumentState::Ok(Vec::new()),
            document_path: "/state/exec-approvals.json".into(),
            edits: Vec::new(),
            lost: Vec::new(),
            rules: DocumentRemarks::default(),
            safe_bins: Vec::new(),
            agents: vec![main_rules()],
            private: vec![PrivateFile {
                path: "/state/countersign/operator.token".into(),
                mode: 0o600,
                owner: 1000,
                wanted: 0o600,
            }],
            unbound_tokens: Ok(Vec::new()),
            us: 1000,
            isolation: IsolationState::Confined { scopes: Scopes::Kept },
            socket: SocketState::Fine,
            server: ServerState::Running,
            room: Room {
                disk_bytes: LITTLE_DISK,
                open_files: 1000,
                wanted_files: 1000,
            },
            ahead: Some(CLOCK_TOLERANCE),
        }
    }

    #[test]
    fn a_socket_that_cannot_be_used_is_told_with_its_way_out() {
        let mut snapshot = sound();
        snapshot.socket = SocketState::Refused {
            path: "/run/loose/s".into(),
            why: "its directory is not ours alone".to_owned(),
        };
        let found = findings(&snapshot);
        assert_eq!(
            (found[0].id, found[0].key.as_str()),
            ("approvals-socket", "/run/loose/s")
        );
        assert!(found[0].fix.contains("/state/exec-approvals.json"));
        snapshot.socket = SocketState::NoToken;
        assert_eq!(findings(&snapshot)[0].id, "approvals-socket-token");
    }

    fn same_user() -> IsolationState {
        IsolationState::SameUser {
            why: "it is root".to_owned(),
            remedy: None,
        }
    }

    fn main_rules() -> AgentRules {
        AgentRules {
            agent: AgentId::main(),
            host: (HostChoice::Gateway, "tools.exec.host".to_owned()),
            security: (Security::Allowlist, "tools.exec.security".to_owned()),
            ask: (Ask::OnMiss, "tools.exec.ask".to_owned()),
            ask_fallback: (Security::Deny, "default".to_owned()),
            isolation: None,
            sandbox: AgentSandbox::Unneeded,
            sandbox_remarks: Vec::new(),
            wanted_security: Some((Security::Allowlist, "tools.exec.security".to_owned())),
            wanted_ask: None,
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Snapshot), expect: &[(&str, Severity, &str)]) {
        let mut snapshot = sound();
        change(&mut snapshot);
        let findings = findings(&snapshot);
        let seen: Vec<_> = findings
            .iter()
            .map(|finding| (finding.id, finding.severity, finding.key.as_str()))
            .collect();
        assert_eq!(seen, expect);
        assert!(
            findings
                .iter()
                .all(|finding| !finding.fix.is_empty() && !finding.explanation.is_empty())
        );
    }

    #[test]
    fn a_sound_state_has_no_findings() {
        check(|_snapshot| {}, &[]);
    }

    #[test]
    fn each_fault_has_its_finding() {
        check(
            |s| s.directory = DirectoryState::Missing,
            &[("state-dir-missing", Severity::Warning, "/state")],
        );
        check(
            |s| s.edits = vec![("/state/openclaw.json".into(), vec!["a".to_owned()])],
            &[("policy-edit-held", Severity::Warning, "/state/openclaw.json")],
        );
        check(
            |s| s.directory = DirectoryState::Refused("it is somebody else's".to_owned()),
            &[("state-dir-refused", Severity::Error, "/state")],
        );
        check(
            |s| s.settings = SettingsState::Broken(vec!["a: b".to_owned()]),
            &[("settings-broken", Severity::Error, "settings")],
        );
        check(
            |s| s.tls = TlsState::Refused("[tls] key: gone".to_owned()),
            &[("tls-files-refused", Severity::Error, "tls")],
        );
        check(
            |s| s.unbound_tokens = Ok(vec![("tok_1".to_owned(), "ci".to_owned())]),
            &[("unbound-exec-token", Severity::Warning, "tok_1")],
        );
        check(
            |s| s.unbound_tokens = Err("it is not there".to_owned()),
            &[("ledger-unread", Severity::Warning, "database.url")],
        );
        check(
            |s| {
                s.tls = TlsState::Usable {
                    key_of_group: Some("/state/countersign/key.pem".into()),
                };
            },
            &[(
                "tls-key-of-group",
                Severity::Warning,
                "/state/countersign/key.pem",
            )],
        );
        check(
            |s| {
                s.settings = SettingsState::Loaded {
                    remarks: Vec::new(),
                    is_open: true,
                    metrics_are_open: true,
                    always_reachable: true,
                    path: "x".into(),
                };
            },
            &[
                ("listens-to-everybody", Severity::Warning, "http.listen"),
                (
                    "metrics-for-everybody",
                    Severity::Warning,
                    "telemetry.metrics_listen",
                ),
            ],
        );
        check(
            |s| s.isolation = same_user(),
            &[("isolation-same-user", Severity::Error, "exec.isolation")],
        );
        check(
            |s| {
                s.isolation = IsolationState::Confined {
                    scopes: Scopes::Missing,
                };
            },
            &[("isolation-without-scopes", Severity::Warning, "exec.isolation")],
        );
        let apart = |server: ServerAccount| IsolationState::SeparateUser { server };
        check(
            |s| {
                s.isolation = apart(ServerAccount::Own);
                // Nobody is taken out of another account.
                s.agents[0].isolation = Some(Isolation::SameUser);
            },
            &[],
        );
        check(
            |s| s.isolation = apart(ServerAccount::Root),
            &[("server-is-root", Severity::Warning, "exec.run_as")],
        );
        check(
            |s| s.agents[0].isolation = Some(Isolation::SameUser),
            &[("agent-not-confined", Severity::Error, "tools.exec.isolation")],
        );
        check(
            |s| s.document = DocumentState::Missing,
            &[("document-missing", Severity::Info, "/state/exec-approvals.json")],
        );
        check(
            |s| s.document = DocumentState::Refused("not JSON".to_owned()),
            &[("document-refused", Severity::Error, "/state/exec-approvals.json")],
        );
        check(
            |s| s.document = DocumentState::Ok(vec!["loose mode".to_owned()]),
            &[(
                "document-warning",
                Severity::Warning,
                "/state/exec-approvals.json",
            )],
        );
        check(
            |s| {
                s.lost = vec![LostRules {
                    agent: "*".to_owned(),
                    deny_rules: vec![("rm".to_owned(), None)],
                    grants: 2,
                    unbound: vec![("id".to_owned(), "/usr/bin/git".to_owned())],
                }];
            },
            &[(
                "document-lost-rules",
                Severity::Error,
                "/state/exec-approvals.json",
            )],
        );
        check(
            |s| {
                s.safe_bins = vec![(
                    "jq".to_owned(),
                    lint::Remark {
                        code: RemarkCode::SafeBinRefused,
                        message: "it is never one".to_owned(),
                    },
                )];
            },
            &[("safe-bin-refused", Severity::Info, "tools.exec.safeBins")],
        );
        check(
            |s| s.server = ServerState::Stale("/state/countersign/server.json".into()),
            &[("server-left", Severity::Info, "/state/countersign/server.json")],
        );
    }

    #[test]
    fn odd_rules_are_named_up_to_a_number() {
        let told = |number: usize, code| RuleRemark {
            owner: "main".to_owned(),
            list: AllowlistList::Allowlist,
            id: EntryId::parse(format!("id-{number}")).unwrap(),
            pattern: "*".to_owned(),
            remark: lint::Remark {
                code,
                message: "it is odd".to_owned(),
            },
        };
        let mut snapshot = sound();
        snapshot.rules.told = (0..8).map(|number| told(number, RemarkCode::TooBroad)).collect();
        snapshot.rules.told.push(told(9, RemarkCode::Expired));
        snapshot.rules.left_off = 3;
        let seen: Vec<_> = findings(&snapshot)
            .iter()
            .map(|finding| (finding.id, finding.severity))
            .collect();
        let broad = ("rule-too-broad", Severity::Warning);
        let infos = [("grant-expired", Severity::Info), ("rules-more", Severity::Info)];
        assert_eq!(seen, [vec![broad; 6], infos.to_vec()].concat());
        let first = &findings(&snapshot)[0];
        assert_eq!(
            first.key,
            "/state/exec-approvals.json#/agents/main/allowlist/id-0"
        );
        assert_eq!(first.fix, "countersign allowlist remove id-0 --agent \"main\"");
    }

    #[test]
    fn each_loose_policy_has_its_finding() {
        let change =
            |change: fn(&mut AgentRules)| move |s: &mut Snapshot| s.agents.iter_mut().for_each(change);
        let missing = || AgentSandbox::Missing("it is off".to_owned());
        let unavailable = |severity| [("sandbox-unavailable", severity, "tools.exec.host")];
        check(
            change(|r| r.host = (HostChoice::Sandbox, "default".to_owned())),
            &[],
        );
        for (host, severity) in [
            (HostChoice::Sandbox, Severity::Warning),
            (HostChoice::Auto, Severity::Info),
            (HostChoice::Gateway, Severity::Info),
        ] {
            check(
                |s| {
                    for rules in &mut s.agents {
                        rules.host = (host, "default".to_owned());
                        rules.sandbox = missing();
                    }
                },
                &unavailable(severity),
            );
        }
        let key = "sandbox.docker.dns";
        let ignored = |backend| {
            move |s: &mut Snapshot| {
                for rules in &mut s.agents {
                    rules.sandbox_remarks = vec![format!("{key} is ignored")];
                    rules.sandbox = AgentSandbox::Usable(backend);
                }
            }
        };
        check(
            ignored(Backend::Builtin),
            &[("sandbox-key-ignored", Severity::Info, key)],
        );
        check(ignored(Backend::Docker), &[]);
        check(
            change(|r| r.security = (Security::Full, "agents.list[0].tools.exec.security".to_owned())),
            &[(
                "everything-runs",
                Severity::Warning,
                "agents.list[0].tools.exec.security",
            )],
        );
        check(
            change(|r| {
                r.security.0 = Security::Full;
                r.ask.0 = Ask::Always;
            }),
            &[],
        );
        check(
            change(|r| {
                r.ask_fallback = (
                    Security::Full,
                    "exec-approvals.json#/defaults/askFallback".to_owned(),
                );
            }),
            &[(
                "silence-allows",
                Severity::Warning,
                "exec-approvals.json#/defaults/askFallback",
            )],
        );
    }

    #[test]
    fn a_question_that_reaches_nobody_is_explained() {
        check(
            |s| {
                s.settings = SettingsState::Loaded {
                    remarks: Vec::new(),
                    is_open: false,
                    metrics_are_open: false,
                    always_reachable: false,
                    path: "x".into(),
                };
            },
            &[(
                "questions-need-a-connected-approver",
                Severity::Info,
                "approvals.always_reachable",
            )],
        );
    }

    #[test]
    fn the_identity_of_a_node_host_is_told_of() {
        let mut snapshot = sound();
        snapshot.private.push(PrivateFile {
            path: snapshot.state_dir.join("identity/device.json"),
            mode: 0o600,
            owner: 1000,
            wanted: 0o600,
        });
        let found: Vec<_> = findings(&snapshot)
            .iter()
            .map(|finding| (finding.id, finding.severity))
            .collect();
        assert_eq!(found, [("node-identity-beside", Severity::Info)]);
    }

    #[test]
    fn files_that_others_can_reach_are_found_and_can_be_repaired() {
        let mode = |mode: u32| move |s: &mut Snapshot| s.private.iter_mut().for_each(|file| file.mode = mode);
        let path = "/state/countersign/operator.token";
        check(mode(0o640), &[("file-not-private", Severity::Warning, path)]);
        check(mode(0o620), &[("file-not-private", Severity::Error, path)]);
        check(|s| s.us = 0, &[("foreign-file", Severity::Error, path)]);
        let mut snapshot = sound();
        mode(0o666)(&mut snapshot);
        assert_eq!(
            findings(&snapshot)[0].repair,
            Some(Repair::SetMode {
                path: path.into(),
                mode: 0o600
            })
        );
    }

    #[test]
    fn what_the_machine_lacks_is_told() {
        let disk = |bytes: u64| move |s: &mut Snapshot| s.room.disk_bytes = bytes;
        check(
            disk(LITTLE_DISK - 1),
            &[("disk-nearly-full", Severity::Warning, "/state")],
        );
        check(
            disk(LEAST_DISK - 1),
            &[("disk-nearly-full", Severity::Error, "/state")],
        );
        check(
            |s| s.room.open_files = 999,
            &[("few-open-files", Severity::Warning, "limits.max_connections")],
        );
        check(
            |s| s.ahead = Some(CLOCK_TOLERANCE + Duration::from_millis(1)),
            &[("clock-set-back", Severity::Warning, "clock")],
        );
    }

    #[test]
    fn settings_that_ask_for_more_than_the_document_gives_are_told() {
        let asks_for = |security: Security, ask: Ask| {
            move |s: &mut Snapshot| {
                for rules in &mut s.agents {
                    rules.wanted_security = Some((security, "tools.exec.security".to_owned()));
                    rules.wanted_ask = Some((ask, "tools.exec.ask".to_owned()));
                }
            }
        };
        check(asks_for(Security::Deny, Ask::Always), &[]);
        check(
            asks_for(Security::Full, Ask::Off),
            &[
                ("layers-disagree", Severity::Info, "tools.exec.security"),
                ("layers-disagree", Severity::Info, "tools.exec.ask"),
            ],
        );
    }

    #[test]
    fn a_safe_bin_that_says_nothing_about_arguments_can_be_given_none() {
        let mut snapshot = sound();
        let bin = |code| {
            let message = "it is odd".to_owned();
            vec![("column".to_owned(), lint::Remark { code, message })]
        };
        snapshot.safe_bins = bin(RemarkCode::SafeBinWithoutProfile);
        let name = "column".to_owned();
        assert_eq!(findings(&snapshot)[0].repair, Some(Repair::Scaffold { name }));
        snapshot.safe_bins = bin(RemarkCode::SafeBinRefused);
        assert_eq!(findings(&snapshot)[0].repair, None);
    }

    #[test]
    fn the_worst_comes_first() {
        check(
            |s| {
                s.server = ServerState::Stale("x".into());
                s.directory = DirectoryState::Missing;
                s.isolation = same_user();
            },
            &[
                ("isolation-same-user", Severity::Error, "exec.isolation"),
                ("state-dir-missing", Severity::Warning, "/state"),
                ("server-left", Severity::Info, "x"),
            ],
        );
    }
}
