//! The events of the contract (`docs/spec/http-api.md#sse`) and the JSON of their `data`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use countersign_domain::{
    Actor, AgentId, AgentNote, ApprovalDecision, ApprovalId, ApprovalStatus, Ask, CommandInput, ContextUrl,
    EntryId, Host, Justification, OutputStream, PairingKind, PairingRequest, Pinning, Reason, RunId,
    RunStatus, RunVerdict, ScriptHold, Security, SessionKey, TerminalReason, TokenId, UnixMillis, vocabulary,
};

vocabulary! {
    /// The type of an event; the `event:` line of the stream and the action of its audit record.
    pub enum EventType("an event type") {
        /// A run was admitted.
        ExecRequested = "exec.requested",
        /// A run started.
        ExecStarted = "exec.started",
        /// The one notice that a run takes long.
        ExecRunning = "exec.running",
        /// Output of a run, live only.
        ExecOutput = "exec.output",
        /// A run ended.
        ExecFinished = "exec.finished",
        /// A run will never start.
        ExecDenied = "exec.denied",
        /// A person is asked.
        ApprovalRequested = "exec.approval.requested",
        /// One of several people who have to allow a command did.
        ApprovalVoted = "exec.approval.voted",
        /// An approval ended.
        ApprovalResolved = "exec.approval.resolved",
        /// The emergency stop took effect.
        ExecStopped = "exec.stopped",
        /// Everything goes on.
        ExecResumed = "exec.resumed",
        /// An entry, grant or deny rule changed.
        AllowlistChanged = "allowlist.changed",
        /// The document, the config or a preset changed what is allowed.
        PolicyChanged = "policy.changed",
        /// An edit of the config was not taken.
        ConfigRejected = "config.rejected",
        /// A changed setting waits for a restart.
        ConfigRestartNeeded = "config.restart-needed",
        /// The approvals document cannot be used.
        DocumentRefused = "document.refused",
        /// An edit of the approvals document is held.
        DocumentHeld = "document.held",
        /// What a session overrides changed.
        SessionChanged = "session.changed",
        /// A session is to be told something.
        SystemEvent = "system.event",
        /// A session asks for its agent's attention.
        SessionWake = "session.wake",
        /// A paired node connected.
        NodeConnected = "node.connected",
        /// A node's connection ended.
        NodeDisconnected = "node.disconnected",
        /// A device wants to be a node, or a node wants to be sent more commands.
        NodePairingRequested = "node.pairing.requested",
        /// An admin decided that, or took it back.
        NodePairingResolved = "node.pairing.resolved",
        /// The server takes no new calls and is about to end.
        ServerShutdown = "server.shutdown",
    }
}

vocabulary! {
    /// What became of an entry.
    pub enum AllowlistChange("added, changed, removed or used") {
        /// It is new.
        Added = "added",
        /// It was edited.
        Changed = "changed",
        /// It is gone.
        Removed = "removed",
        /// It let a run through.
        Used = "used",
    }
}

vocabulary! {
    /// Which list of the approvals document holds an entry.
    pub enum AllowlistList("allowlist, grants or denylist") {
        /// Entries without limits.
        Allowlist = "allowlist",
        /// Entries with a limit.
        Grants = "grants",
        /// Deny rules.
        Denylist = "denylist",
    }
}

vocabulary! {
    /// What became of a pairing.
    pub enum PairingOutcome("approve, reject or removed") {
        /// A person approved it.
        Approve = "approve",
        /// A person rejected it.
        Reject = "reject",
        /// A person took back what was approved.
        Removed = "removed",
    }
}

vocabulary! {
    /// What changed the policy.
    pub enum PolicyPart("document, config or preset") {
        /// The approvals document.
        Document = "document",
        /// `openclaw.json` or `countersign.toml`.
        Config = "config",
        /// A preset, which changes both.
        Preset = "preset",
    }
}

/// Whom and what an event is about: its common members, and who may see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// The run.
    pub run_id: Option<RunId>,
    /// The approval.
    pub approval_id: Option<ApprovalId>,
    /// The agent.
    pub agent: Option<AgentId>,
    /// The session.
    pub session: Option<SessionKey>,
    /// The host of the run.
    pub host: Option<Host>,
    /// Its node.
    pub node_id: Option<String>,
    /// The token that asked for the run; a caller with only `exec` sees its own events. Never shown.
    pub owner: Option<TokenId>,
}

/// An answer that did not settle its approval, and how that stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedVote {
    /// The approver who answered.
    pub by: Actor,
    /// `allow-once` or `allow-always`; a `deny` would have settled it.
    pub decision: ApprovalDecision,
    /// How many different people have allowed it so far.
    pub votes: u64,
    /// How many have to.
    pub required: u64,
    /// The groups by which this one may allow it; empty where anybody may.
    pub groups: BTreeSet<String>,
}

/// How an approval ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The state that it ended in, never `pending`.
    pub status: ApprovalStatus,
    /// The decision that counts.
    pub decision: Option<ApprovalDecision>,
    /// Who ended it; `None` when it expired.
    pub resolved_by: Option<Actor>,
    /// Why, in the words of the one who decided.
    pub reason: Option<String>,
    /// Why it left `pending`.
    pub terminal_reason: Option<TerminalReason>,
    /// What its answer leaves behind, in one line.
    pub grant: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// The final state, never `denied`.
    pub status: RunStatus,
    /// `None` when a signal ended the command, or it never ran.
    pub exit_code: Option<i32>,
    /// Signal name, such as `SIGKILL`; `None` when no signal ended it.
    pub exit_signal: Option<String>,
    /// Whether the time limit killed it.
    pub timed_out: bool,
    /// From start to end in milliseconds; 0 when it never started.
    pub duration_ms: i64,
    /// Whether output was cut.
    pub truncated: bool,
    /// Bytes of both streams seen.
    pub output_bytes: u64,
    /// The last characters of the output.
    pub tail: String,
    /// Why, unless it completed or simply exited with another code.
    pub reason: Option<Reason>,
}

/// What happened, with the members only that type has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// A run was admitted: to start, to be asked about, or denied at once.
    ExecRequested {
        /// The command as text.
        command: String,
        /// The working directory, absolute.
        cwd: String,
        /// The asker; where an approver changed a command, the asker of the first one.
        requested_by: Actor,
        /// What the gate said.
        verdict: RunVerdict,
        /// How firmly it is what was judged; `None` where nothing may start.
        binding: Option<Pinning>,
        /// Whether its scripts are read as they were judged; `None` without any.
        scripts: Option<ScriptHold>,
        /// What the kernel keeps of its programs, in one line; `None` where that is nothing.
        confined: Option<String>,
        /// What can be written to it once it runs.
        input: CommandInput,
        /// What the agent said about it.
        note: AgentNote,
    },
    /// A run went from `launching` to `running`.
    ExecStarted {
        /// First process.
        pid: Option<i32>,
        /// When its host reported the start.
        started_at: UnixMillis,
        /// The process session of a background run.
        session_id: Option<String>,
        /// Whether a miss was run in the sandbox instead of being asked.
        diverted: bool,
    },
    /// A run takes longer than the time after which that is told; once a run.
    ExecRunning {
        /// Time since the start in milliseconds.
        elapsed_ms: i64,
        /// The process session of a background run.
        session_id: Option<String>,
    },
    /// A run ended in any way but a denial.
    ExecFinished(RunSummary),
    /// A run was denied, and will never start.
    ExecDenied {
        /// Why; the run's record has the same.
        reason: Reason,
        /// The reason in words; `None` where it says enough.
        detail: Option<String>,
    },
    /// A person is asked about a run that was just admitted.
    ApprovalRequested {
        /// What the agent said about it.
        note: AgentNote,
        /// What the kernel would keep of its programs, in one line; `None` where no program of this machine starts by a plan.
        confined: Option<String>,
        /// What could be written to the command once it ran.
        input: CommandInput,
        /// First characters of the id.
        slug: String,
        /// The command as text.
        command: String,
        /// The working directory, absolute.
        cwd: String,
        /// Effective security when it was asked.
        security: Security,
        /// Effective ask when it was asked.
        ask: Ask,
        /// When it was asked.
        created_at: UnixMillis,
        /// The deadline, after which the fallback settles it.
        expires_at: UnixMillis,
        /// How many different people have to allow it.
        required: u64,
        /// The groups that they must be of; `None` for anybody.
        groups: Option<BTreeSet<String>>,
    },
    /// An answer was counted that did not settle its approval.
    ApprovalVoted(CountedVote),
    /// An approval left `pending`.
    ApprovalResolved(Resolution),
    /// The emergency stop was put on record; it was in force before.
    ExecStopped {
        /// Who stopped everything.
        by: Actor,
        /// When it came into force, which may be before it could be recorded.
        at: UnixMillis,
        /// Why, in their words.
        reason: String,
        /// Whether what ran was killed.
        kills: bool,
    },
    /// Everything goes on after an emergency stop.
    ExecResumed {
        /// The admin who resumed; where it took two owners, the second of them.
        by: Actor,
        /// Why, in their words.
        reason: String,
        /// Who proposed it, where it took two owners.
        proposed_by: Option<Actor>,
        /// When the stop that ended began.
        stopped_at: UnixMillis,
    },
    /// An entry, grant or deny rule changed, or let a run through.
    AllowlistChanged {
        /// What became of it.
        change: AllowlistChange,
        /// The list that holds it, or held it.
        list: AllowlistList,
        /// Id of the entry, grant or deny rule.
        entry_id: EntryId,
        /// Who changed it; `None` where a run used it.
        by: Option<Actor>,
        /// Whether it is the deny rule that mutes its agent.
        mutes: bool,
    },
    /// The document, the config or a preset changed what is allowed.
    PolicyChanged {
        /// Where the change was made.
        what: PolicyPart,
        /// Hash of the approvals document after the change.
        hash: Option<String>,
        /// Who did it; absent for an edit from outside.
        by: Option<Actor>,
    },
    /// An edit of a config file was not taken; the last good values stay.
    ConfigRejected {
        /// The name of the file.
        path: String,
        /// What is wrong with it.
        message: String,
    },
    /// Changed settings wait for a restart; told when there are new ones.
    ConfigRestartNeeded {
        /// The keys, never their values.
        paths: Vec<String>,
    },
    /// The approvals document changed and cannot be used.
    DocumentRefused {
        /// Why, in the words of `docs/spec/approvals-store.md#4-reading`.
        reason: String,
        /// Where in the document.
        pointer: String,
    },
    /// An edit of the approvals document waits until an admin accepts it.
    DocumentHeld {
        /// The hash of the document as it was edited.
        hash: String,
    },
    /// What a session overrides changed.
    SessionChanged {
        /// What it overrides now, as the API shows it.
        overrides: Value,
        /// Who set or removed an override.
        by: Actor,
    },
    /// A session is to be told something; the feed hands it to its notifier, too.
    SystemEvent {
        /// What the session is told.
        text: String,
    },
    /// `session.wake`, because a run in the background ended.
    SessionWake {
        /// What the session is told.
        system_event: String,
    },
    /// A paired node connected.
    NodeConnected {
        /// Its name for people.
        display_name: Option<String>,
    },
    /// A node's connection ended, was replaced by a newer one or was taken away.
    NodeDisconnected {
        /// Its name for people.
        display_name: Option<String>,
        /// Why, as far as it is known.
        reason: Option<String>,
    },
    /// A device wants to be a node, or a node wants to be sent more commands.
    NodePairingRequested(Box<PairingRequest>),
    /// An admin decided such a request, or removed a node.
    NodePairingResolved {
        /// What was asked for.
        kind: PairingKind,
        /// The request that was decided; for a removal, the one approved last.
        request_id: String,
        /// What became of it.
        decision: PairingOutcome,
        /// The admin who did it.
        by: Actor,
    },
    /// The server takes no new calls and is about to end.
    ServerShutdown {
        /// How long running commands get, in milliseconds.
        grace_ms: u64,
    },
}

/// One event, before the ledger gives it its number and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// What happened; its type follows from it.
    pub kind: EventKind,
}

impl Event {
    /// An event about nothing in particular.
    pub fn general(kind: EventKind) -> Self {
        Self {
            subject: Subject::default(),
            kind,
        }
    }
}

impl EventKind {
    /// The type that the stream and the audit record name.
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::ExecRequested { .. } => EventType::ExecRequested,
            Self::ExecStarted { .. } => EventType::ExecStarted,
            Self::ExecRunning { .. } => EventType::ExecRunning,
            Self::ExecFinished(_) => EventType::ExecFinished,
            Self::ExecDenied { .. } => EventType::ExecDenied,
            Self::ApprovalRequested { .. } => EventType::ApprovalRequested,
            Self::ApprovalVoted(_) => EventType::ApprovalVoted,
            Self::ApprovalResolved(_) => EventType::ApprovalResolved,
            Self::ExecStopped { .. } => EventType::ExecStopped,
            Self::ExecResumed { .. } => EventType::ExecResumed,
            Self::AllowlistChanged { .. } => EventType::AllowlistChanged,
            Self::PolicyChanged { .. } => EventType::PolicyChanged,
            Self::ConfigRejected { .. } => EventType::ConfigRejected,
            Self::ConfigRestartNeeded { .. } => EventType::ConfigRestartNeeded,
            Self::DocumentRefused { .. } => EventType::DocumentRefused,
            Self::DocumentHeld { .. } => EventType::DocumentHeld,
            Self::SessionChanged { .. } => EventType::SessionChanged,
            Self::SystemEvent { .. } => EventType::SystemEvent,
            Self::SessionWake { .. } => EventType::SessionWake,
            Self::NodeConnected { .. } => EventType::NodeConnected,
            Self::NodeDisconnected { .. } => EventType::NodeDisconnected,
            Self::NodePairingRequested(_) => EventType::NodePairingRequested,
            Self::NodePairingResolved { .. } => EventType::NodePairingResolved,
            Self::ServerShutdown { .. } => EventType::ServerShutdown,
        }
    }

    /// Whether this is written to the audit chain. Notices that report nothing new are not: which entry let a run
    /// through is no change of what is allowed, and the run has records of its own. A vote has a record of its own, too.
    pub(crate) const fn is_audited(&self) -> bool {
        match self {
            Self::ExecRunning { .. }
            | Self::ApprovalVoted(_)
            | Self::SystemEvent { .. }
            | Self::SessionWake { .. }
            | Self::AllowlistChanged {
                change: AllowlistChange::Used,
                ..
            } => false,
            Self::ExecRequested { .. }
            | Self::ExecStarted { .. }
            | Self::ExecFinished(_)
            | Self::ExecDenied { .. }
            | Self::ApprovalRequested { .. }
            | Self::ApprovalResolved(_)
            | Self::ExecStopped { .. }
            | Self::ExecResumed { .. }
            | Self::AllowlistChanged {
                change: AllowlistChange::Added | AllowlistChange::Changed | AllowlistChange::Removed,
                ..
            }
            | Self::PolicyChanged { .. }
            | Self::ConfigRejected { .. }
            | Self::ConfigRestartNeeded { .. }
            | Self::DocumentRefused { .. }
            | Self::DocumentHeld { .. }
            | Self::NodeConnected { .. }
            | Self::NodeDisconnected { .. }
            | Self::NodePairingRequested(_)
            | Self::NodePairingResolved { .. }
            | Self::SessionChanged { .. }
            | Self::ServerShutdown { .. } => true,
        }
    }

    /// The members besides the common ones, in the order of the contract.
    fn add_members(&self, members: &mut Members) {
        match self {
            Self::ExecRequested {
                command,
                cwd,
                requested_by,
                verdict,
                binding,
                scripts,
                confined,
                input,
                note,
            } => {
                members.text("command", command).text("cwd", cwd);
                members
                    .put("requestedBy", actor_json(requested_by))
                    .text("verdict", verdict.as_str())
                    .maybe("binding", binding.map(Pinning::as_str))
                    .maybe("scripts", scripts.map(ScriptHold::as_str))
                    .maybe("confined", confined.as_deref())
                    .maybe("input", input.noteworthy().map(CommandInput::as_str));
                members.note(note);
            }
            Self::ExecStarted {
                pid,
                started_at,
                session_id,
                diverted,
            } => {
                members.maybe("pid", *pid).put("startedAtMs", started_at.get());
                members
                    .maybe("sessionId", session_id.as_deref())
                    .put("diverted", *diverted);
            }
            Self::ExecRunning {
                elapsed_ms,
                session_id,
            } => {
                members
                    .put("elapsedMs", *elapsed_ms)
                    .maybe("sessionId", session_id.as_deref());
            }
            Self::ExecFinished(summary) => members.run_summary(summary),
            Self::ExecDenied { reason, detail } => {
                members
                    .text("reason", reason.as_str())
                    .maybe("detail", detail.as_deref());
            }
            Self::ApprovalRequested {
                note,
                confined,
                input,
                slug,
                command,
                cwd,
                security,
                ask,
                created_at,
                expires_at,
                required,
                groups,
            } => {
                members
                    .text("slug", slug)
                    .text("command", command)
                    .text("cwd", cwd);
                members
                    .text("security", security.as_str())
                    .text("ask", ask.as_str());
                members
                    .maybe("confined", confined.as_deref())
                    .maybe("input", input.noteworthy().map(CommandInput::as_str))
                    .put("createdAtMs", created_at.get())
                    .put("expiresAtMs", expires_at.get());
                members
                    .put("approvalsRequired", *required)
                    .maybe("groups", groups.as_ref().map(names));
                members.note(note);
            }
            Self::ApprovalVoted(vote) => members.counted_vote(vote),
            Self::ApprovalResolved(resolution) => members.resolution(resolution),
            Self::ExecStopped {
                by,
                at,
                reason,
                kills,
            } => {
                members.put("by", actor_json(by)).put("stoppedAtMs", at.get());
                members.text("reason", reason).put("kill", *kills);
            }
            Self::ExecResumed {
                by,
                reason,
                proposed_by,
                stopped_at,
            } => {
                members.put("by", actor_json(by)).text("reason", reason);
                members
                    .maybe("proposedBy", proposed_by.as_ref().map(actor_json))
                    .put("stoppedAtMs", stopped_at.get());
            }
            Self::AllowlistChanged {
                change,
                list,
                entry_id,
                by,
                mutes,
            } => {
                members
                    .text("change", change.as_str())
                    .text("list", list.as_str());
                members
                    .text("entryId", entry_id.as_str())
                    .maybe("by", by.as_ref().map(actor_json))
                    .maybe("mutes", mutes.then_some(true));
            }
            Self::PolicyChanged { what, hash, by } => {
                members.text("what", what.as_str()).maybe("hash", hash.as_deref());
                members.maybe("by", by.as_ref().map(actor_json));
            }
            Self::ConfigRejected { path, message } => {
                members.text("path", path).text("message", message);
            }
            Self::ConfigRestartNeeded { paths } => {
                members.put("paths", paths.as_slice());
            }
            Self::DocumentRefused { reason, pointer } => {
                members.text("reason", reason).text("pointer", pointer);
            }
            Self::DocumentHeld { hash } => {
                members.text("hash", hash);
            }
            Self::SessionChanged { overrides, by } => {
                members
                    .put("overrides", overrides.clone())
                    .put("by", actor_json(by));
            }
            Self::SystemEvent { text } => {
                members.text("text", text);
            }
            Self::SessionWake { system_event } => {
                members
                    .text("reason", "exec-finished")
                    .text("systemEvent", system_event);
            }
            Self::NodeConnected { display_name } => {
                members.maybe("displayName", display_name.as_deref());
            }
            Self::NodeDisconnected { display_name, reason } => {
                members
                    .maybe("displayName", display_name.as_deref())
                    .maybe("reason", reason.as_deref());
            }
            Self::NodePairingRequested(request) => members.pairing(request),
            Self::NodePairingResolved {
                kind,
                request_id,
                decision,
                by,
            } => {
                members
                    .text("requestId", request_id)
                    .text("kind", kind.as_str())
                    .text("decision", decision.as_str())
                    .put("by", actor_json(by));
            }
            Self::ServerShutdown { grace_ms } => {
                members.put("graceMs", *grace_ms);
            }
        }
    }
}

/// The `data` of an event in the log: the common members, then its own, absent ones left out.
pub(crate) fn data_members(seq: i64, ts: UnixMillis, event: &Event) -> Map<String, Value> {
    let mut members = Members::default();
    members
        .put("seq", seq)
        .put("ts", ts.get())
        .put("atMs", ts.get())
        .text("type", event.kind.event_type().as_str());
    members.subject(&event.subject);
    event.kind.add_members(&mut members);
    members.0
}

/// A piece of output on its way to live subscribers; never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// The run that wrote it, and who may see it.
    pub subject: Subject,
    /// When the server passed it on.
    pub ts: UnixMillis,
    /// Byte offset of its first byte in the stream of both.
    pub offset: u64,
    /// Which of the two streams it was written to.
    pub stream: OutputStream,
    /// Text without control and format characters; tab, line feed and carriage return stay.
    pub text: String,
}

impl OutputChunk {
    /// The `data` of the `exec.output` event; it has no `seq`.
    pub(crate) fn data_json(&self) -> String {
        let mut members = Members::default();
        members
            .put("ts", self.ts.get())
            .put("atMs", self.ts.get())
            .text("type", EventType::ExecOutput.as_str());
        members.subject(&self.subject);
        members
            .put("offset", self.offset)
            .text("stream", self.stream.as_str())
            .text("text", &self.text);
        Value::Object(members.0).to_string()
    }
}

/// An actor as the API shows it.
fn actor_json(actor: &Actor) -> Value {
    let mut members = Members::default();
    members
        .text("kind", actor.kind.as_str())
        .text("id", &actor.id)
        .text("name", &actor.name);
    Value::Object(members.0)
}

fn names(groups: &BTreeSet<String>) -> Vec<&str> {
    groups.iter().map(String::as_str).collect()
}

/// A JSON object under construction.
#[derive(Default)]
struct Members(Map<String, Value>);

impl Members {
    fn put(&mut self, name: &str, value: impl Into<Value>) -> &mut Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn text(&mut self, name: &str, value: &str) -> &mut Self {
        self.put(name, value)
    }

    fn maybe(&mut self, name: &str, value: Option<impl Into<Value>>) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }

    fn note(&mut self, note: &AgentNote) {
        let AgentNote {
            justification,
            context_url,
        } = note;
        self.maybe("justification", justification.as_ref().map(Justification::as_str))
            .maybe("contextUrl", context_url.as_ref().map(ContextUrl::as_str));
    }

    fn subject(&mut self, subject: &Subject) {
        let Subject {
            run_id,
            approval_id,
            agent,
            session,
            host,
            node_id,
            owner: _never_shown,
        } = subject;
        self.maybe("runId", run_id.as_ref().map(RunId::as_str));
        self.maybe("approvalId", approval_id.as_ref().map(ApprovalId::as_str));
        self.maybe("agentId", agent.as_ref().map(AgentId::as_str));
        self.maybe("sessionKey", session.as_ref().map(SessionKey::as_str));
        self.maybe("host", host.map(Host::as_str));
        self.maybe("nodeId", node_id.as_deref());
    }

    fn run_summary(&mut self, summary: &RunSummary) {
        let RunSummary {
            status,
            exit_code,
            exit_signal,
            timed_out,
            duration_ms,
            truncated,
            output_bytes,
            tail,
            reason,
        } = summary;
        self.text("status", status.api_name())
            .maybe("exitCode", *exit_code);
        self.maybe("exitSignal", exit_signal.as_deref())
            .put("timedOut", *timed_out);
        self.put("durationMs", *duration_ms).put("truncated", *truncated);
        self.put("outputBytes", *output_bytes).text("tail", tail);
        self.maybe("reason", reason.map(Reason::as_str));
    }

    /// The pairing object of the API; its node stands among the common members.
    fn pairing(&mut self, request: &PairingRequest) {
        let PairingRequest {
            request_id,
            kind,
            node_id: _a_common_member,
            public_key: _not_shown,
            profile,
            is_repair,
            requested_at,
        } = request;
        let commands: Vec<&str> = profile.commands.iter().map(String::as_str).collect();
        self.text("requestId", request_id)
            .maybe("displayName", profile.display_name.as_deref())
            .text("platform", &profile.platform);
        self.maybe("remoteIp", profile.remote_ip.map(|address| address.to_string()))
            .put("commands", commands)
            .text("kind", kind.as_str());
        self.put("isRepair", *is_repair)
            .put("requestedAtMs", requested_at.get());
    }

    fn counted_vote(&mut self, vote: &CountedVote) {
        let CountedVote {
            by,
            decision,
            votes,
            required,
            groups,
        } = vote;
        self.put("by", actor_json(by)).text("decision", decision.as_str());
        self.put("votes", *votes).put("approvalsRequired", *required);
        self.maybe("groups", (!groups.is_empty()).then(|| names(groups)));
    }

    fn resolution(&mut self, resolution: &Resolution) {
        let Resolution {
            status,
            decision,
            resolved_by,
            reason,
            terminal_reason,
            grant,
        } = resolution;
        self.text("status", status.as_str())
            .maybe("decision", decision.map(ApprovalDecision::as_str));
        self.maybe("resolvedBy", resolved_by.as_ref().map(actor_json));
        self.maybe("reason", reason.as_deref());
        self.maybe("terminalReason", terminal_reason.map(TerminalReason::as_str));
        self.maybe("grant", grant.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_json(seq: i64, ts: UnixMillis, event: &Event) -> String {
        Value::Object(data_members(seq, ts, event)).to_string()
    }

    #[test]
    fn data_has_the_common_members_first_and_leaves_out_what_is_absent() {
        let event = Event {
            subject: Subject {
                run_id: Some(RunId::parse("r-1").unwrap()),
                agent: Some(AgentId::main()),
                host: Some(Host::Gateway),
                owner: Some(TokenId::parse("t-1").unwrap()),
                ..Subject::default()
            },
            kind: EventKind::ExecDenied {
                reason: Reason::Denylist,
                detail: None,
            },
        };
        assert_eq!(
            data_json(7, UnixMillis::new(5), &event),
            r#"{"seq":7,"ts":5,"atMs":5,"type":"exec.denied","runId":"r-1","agentId":"main","host":"gateway","reason":"denylist"}"#
        );
    }

    #[test]
    fn an_approval_event_names_its_approval_once() {
        let event = Event {
            subject: Subject {
                approval_id: Some(ApprovalId::parse("0a-1").unwrap()),
                ..Subject::default()
            },
            kind: EventKind::ApprovalResolved(Resolution {
                status: ApprovalStatus::Denied,
                decision: Some(ApprovalDecision::Deny),
                resolved_by: Some(Actor::system()),
                reason: None,
                terminal_reason: Some(TerminalReason::User),
                grant: None,
            }),
        };
        assert_eq!(
            data_json(1, UnixMillis::new(2), &event),
            concat!(
                r#"{"seq":1,"ts":2,"atMs":2,"type":"exec.approval.resolved","approvalId":"0a-1","status":"denied","#,
                r#""decision":"deny","resolvedBy":{"kind":"system","id":"countersign","name":"countersign"},"#,
                r#""terminalReason":"user"}"#
            )
        );
    }

    #[test]
    fn output_has_no_seq() {
        let chunk = OutputChunk {
            subject: Subject::default(),
            ts: UnixMillis::new(3),
            offset: 10,
            stream: OutputStream::Stderr,
            text: "a\n".to_owned(),
        };
        assert_eq!(
            chunk.data_json(),
            r#"{"ts":3,"atMs":3,"type":"exec.output","offset":10,"stream":"stderr","text":"a\n"}"#
        );
    }
}
