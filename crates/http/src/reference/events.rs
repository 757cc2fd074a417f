//! The events of the stream.

use countersign_ledger::events::EventType;

use super::html::Html;

/// Every type with when it comes and the members that only it has.
pub(super) fn section(page: &mut Html) {
    page.raw("<section id=\"events\">\n<h2>Event types</h2>\n");
    for text in [
        "`GET /v1/events` streams them as server-sent events: `id:` is the sequence number, `event:` the type, `data:` the members. All have `seq`, `ts` and `type`, and where they are about one `runId`, `approvalId`, `agentId`, `sessionKey`, `host` and `nodeId`.",
        "`Last-Event-ID` (or `after`) resumes without loss or repetition. When that is too old the first event is `events.gap` with `oldestSeq`, the oldest number there is: load the lists again. A comment line comes every 15 seconds.",
    ] {
        page.element("p", |p| p.prose(text));
    }
    page.table(&["Type", "When", "Members besides the common ones"], |rows| {
        for event in EventType::ALL {
            let (when, members) = meaning(*event);
            rows.anchored("tr", &format!("event-{event}"), |row| {
                row.element("td", |cell| cell.code(event.as_str()));
                row.element("td", |cell| cell.prose(when));
                row.element("td", |cell| cell.prose(members));
            });
        }
    });
    page.raw("</section>\n");
}

const fn meaning(event: EventType) -> (&'static str, &'static str) {
    match event {
        EventType::ExecRequested => (
            "A run was admitted and judged.",
            "`command`, `cwd`, `requestedBy`, `verdict`, `binding` (optional: `exact`, `path` or `text`), `input` (optional: \
             `pipe`, `terminal`, `guarded-terminal` or `withheld`)",
        ),
        EventType::ExecStarted => (
            "A run started.",
            "`pid` (optional), `startedAtMs`, `sessionId` (optional), `diverted`",
        ),
        EventType::ExecRunning => (
            "The one notice that a run takes long.",
            "`elapsedMs`, `sessionId` (optional)",
        ),
        EventType::ExecOutput => (
            "Output as it comes; only with `output=true`, live only, without a number.",
            "`offset`, `stream`, `text`",
        ),
        EventType::ExecFinished => (
            "A run ended.",
            "`status`, `exitCode` (optional), `exitSignal` (optional), `timedOut`, `durationMs`, `truncated`, `outputBytes`, `tail`, `reason` (optional)",
        ),
        EventType::ExecDenied => ("A run will never start.", "`reason`, `detail` (optional)"),
        EventType::ApprovalRequested => (
            "A person is asked.",
            "`slug`, `command`, `cwd`, `security`, `ask`, `input` (optional: `pipe` or `terminal`), `createdAtMs`, `expiresAtMs`, \
             `approvalsRequired`, `groups` (optional: an approver must be in one of them)",
        ),
        EventType::ApprovalVoted => (
            "An approver allowed what takes several people, and it still waits.",
            "`by`, `decision`, `votes` (people who have allowed it so far), `approvalsRequired`, `groups` (optional: those by \
             which this person may)",
        ),
        EventType::ApprovalResolved => (
            "A question was answered, ran out of time, was withdrawn, or was settled by a rule (`terminalReason` is `rule`).",
            "`status`, `decision` (optional), `resolvedBy` (optional), `reason` (optional), `terminalReason` (optional)",
        ),
        EventType::ExecStopped => (
            "The emergency stop took effect: nothing starts any more.",
            "`by`, `stoppedAtMs`, `reason`, `kill`",
        ),
        EventType::ExecResumed => (
            "Everything goes on.",
            "`by`, `reason`, `proposedBy` (optional), `stoppedAtMs`",
        ),
        EventType::AllowlistChanged => (
            "An entry, grant or deny rule changed, or an entry or grant was used; uses are told once a second at most.",
            "`change`, `list`, `entryId`, `by` (optional; absent for a use)",
        ),
        EventType::PolicyChanged => (
            "What is allowed changed.",
            "`what`, `hash` (optional), `by` (optional; absent for an edit from outside)",
        ),
        EventType::ConfigRejected => (
            "An edit of a settings file was not taken; the last good settings hold.",
            "`path` (the name of the file), `message`",
        ),
        EventType::ConfigRestartNeeded => (
            "A change of `countersign.toml` leaves settings that wait for a restart. `GET /v1/settings` has their values; \
             the same ones are told of once.",
            "`paths`",
        ),
        EventType::DocumentRefused => (
            "The approvals document cannot be used: everything is denied.",
            "`reason`, `pointer`",
        ),
        EventType::DocumentHeld => (
            "A change of the approvals document allows more than was accepted, and is held until an admin accepts it: an \
             edit from outside, or what takes a second person.",
            "`hash`",
        ),
        EventType::SessionChanged => ("What a session overrides changed.", "`overrides`, `by`"),
        EventType::SystemEvent => (
            "A session is told something: that a run of it which went on in the background has ended, or that one which \
             a person was asked about has started, goes on, or was denied.",
            "`text`",
        ),
        EventType::SessionWake => (
            "A session asks for its agent's attention, together with `system.event`.",
            "`reason` (`exec-finished`), `systemEvent`",
        ),
        EventType::NodeConnected => ("A node connected.", "`displayName` (optional)"),
        EventType::NodeDisconnected => (
            "The connection of a node ended.",
            "`displayName` (optional), `reason` (optional)",
        ),
        EventType::NodePairingRequested => (
            "A device wants to become a node (`kind` `device`), or a node wants to be sent more commands (`commands`); \
             a person must say.",
            "`requestId`, `displayName` (optional), `platform`, `remoteIp` (optional), `commands`, `kind`, `isRepair`, \
             `requestedAtMs`",
        ),
        EventType::NodePairingResolved => (
            "An approver decided that, or took back what was approved before.",
            "`requestId`, `kind`, `decision` (`approve`, `reject` or `removed`), `by`",
        ),
        EventType::ServerShutdown => ("The server stops.", "`graceMs`"),
    }
}
