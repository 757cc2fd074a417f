//! The catalogue: every code of `docs/spec/http-api.md#errors`, with its status, title and whether trying again helps.

use axum::http::StatusCode;

use countersign_domain::vocabulary;

vocabulary! {
    /// The stable name of a refusal.
    pub enum Code("a problem code") {
        /// The request cannot be meant as it stands.
        InvalidRequest = "invalid-request",
        /// Environment overrides that are never accepted.
        BlockedEnv = "blocked-env",
        /// The working directory cannot be used.
        WorkdirUnavailable = "workdir-unavailable",
        /// A script looks like shell text in the wrong language.
        PreflightFailed = "preflight-failed",
        /// Members of the call contradict each other.
        ConfigConflict = "config-conflict",
        /// Nothing to run.
        BlankCommand = "blank-command",
        /// No valid credentials.
        Unauthorized = "unauthorized",
        /// Credentials without the right to do this.
        Forbidden = "forbidden",
        /// The command was denied; there is a record of it.
        ExecDenied = "exec-denied",
        /// The call may not choose this host.
        HostNotAllowed = "host-not-allowed",
        /// The call may not leave the sandbox.
        ElevatedUnavailable = "elevated-unavailable",
        /// Tool policy forbids the tool.
        ToolDenied = "tool-denied",
        /// The asker cannot answer.
        OwnRequest = "own-request",
        /// The answer would allow more than was proposed.
        GrantTooWide = "grant-too-wide",
        /// The emergency stop is in effect.
        Stopped = "stopped",
        /// Patches are not open to this caller.
        PatchNotAllowed = "patch-not-allowed",
        /// No resource has this path or id, or none that the caller may see.
        NotFound = "not-found",
        /// No paired node has this id or name.
        NodeNotFound = "node-not-found",
        /// No approval has this id, or its agent is not the caller's.
        ApprovalNotFound = "approval-not-found",
        /// The resource does not know this method.
        MethodNotAllowed = "method-not-allowed",
        /// No representation that the request accepts.
        NotAcceptable = "not-acceptable",
        /// Several nodes match the name.
        NodeAmbiguous = "node-ambiguous",
        /// Several ids begin or end so.
        IdAmbiguous = "id-ambiguous",
        /// An earlier decision says otherwise.
        ApprovalAlreadyResolved = "approval-already-resolved",
        /// The approvals document is not readable and is not overwritten.
        DocumentRefused = "document-refused",
        /// The lock of the approvals document names a process that is gone.
        DocumentLockStale = "document-lock-stale",
        /// The run has ended.
        RunEnded = "run-ended",
        /// The input of the command is closed.
        InputClosed = "input-closed",
        /// The process session has ended.
        SessionEnded = "session-ended",
        /// A hunk does not apply; nothing was changed.
        PatchFailed = "patch-failed",
        /// The deadline of the approval has passed.
        ApprovalExpired = "approval-expired",
        /// The approval was withdrawn.
        ApprovalCancelled = "approval-cancelled",
        /// The document changed since it was read.
        BaseHashMismatch = "base-hash-mismatch",
        /// A write without the hash of the document that it replaces.
        BaseHashRequired = "base-hash-required",
        /// The body is over the limit.
        BodyTooLarge = "body-too-large",
        /// The body is not of the expected type.
        UnsupportedMediaType = "unsupported-media-type",
        /// Nothing of the resource lies in the range.
        RangeNotSatisfiable = "range-not-satisfiable",
        /// The `Host` header names another server.
        MisdirectedRequest = "misdirected-request",
        /// The idempotency key was used with another body.
        IdempotencyMismatch = "idempotency-mismatch",
        /// An unknown member in an approvals document.
        UnknownField = "unknown-field",
        /// Not a valid approvals document.
        InvalidDocument = "invalid-document",
        /// This decision, or these patterns, are not open here.
        DecisionNotAllowed = "decision-not-allowed",
        /// Not a usable pattern.
        InvalidPattern = "invalid-pattern",
        /// Scopes that never stand together.
        ScopeConflict = "scope-conflict",
        /// Too many requests or runs.
        RateLimited = "rate-limited",
        /// Too many questions wait or are asked.
        TooManyQuestions = "too-many-questions",
        /// A fault of ours.
        Internal = "internal",
        /// No space is left for the record.
        StorageFull = "storage-full",
        /// No sandbox is usable.
        SandboxUnavailable = "sandbox-unavailable",
        /// No node is usable.
        NodeUnavailable = "node-unavailable",
        /// The server stops and takes no new calls.
        ShuttingDown = "shutting-down",
        /// The server has all it can carry.
        Overloaded = "overloaded",
        /// Another program holds the lock of the approvals document.
        DocumentLocked = "document-locked",
        /// The ledger cannot be used.
        StorageUnavailable = "storage-unavailable",
    }
}

impl Code {
    /// The status that goes with the code.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest
            | Self::BlockedEnv
            | Self::WorkdirUnavailable
            | Self::PreflightFailed
            | Self::ConfigConflict
            | Self::BlankCommand => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden
            | Self::ExecDenied
            | Self::HostNotAllowed
            | Self::ElevatedUnavailable
            | Self::ToolDenied
            | Self::OwnRequest
            | Self::GrantTooWide
            | Self::Stopped
            | Self::PatchNotAllowed => StatusCode::FORBIDDEN,
            Self::NotFound | Self::NodeNotFound | Self::ApprovalNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::NodeAmbiguous
            | Self::IdAmbiguous
            | Self::ApprovalAlreadyResolved
            | Self::DocumentRefused
            | Self::DocumentLockStale
            | Self::RunEnded
            | Self::InputClosed
            | Self::SessionEnded
            | Self::PatchFailed => StatusCode::CONFLICT,
            Self::ApprovalExpired | Self::ApprovalCancelled => StatusCode::GONE,
            Self::BaseHashMismatch => StatusCode::PRECONDITION_FAILED,
            Self::BaseHashRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::MisdirectedRequest => StatusCode::MISDIRECTED_REQUEST,
            Self::IdempotencyMismatch
            | Self::UnknownField
            | Self::InvalidDocument
            | Self::DecisionNotAllowed
            | Self::InvalidPattern
            | Self::ScopeConflict => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited | Self::TooManyQuestions => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::SandboxUnavailable
            | Self::NodeUnavailable
            | Self::ShuttingDown
            | Self::Overloaded
            | Self::DocumentLocked
            | Self::StorageUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The short text for people; the same for every problem of this code.
    pub const fn title(self) -> &'static str {
        match self {
            Self::InvalidRequest => "The request is not valid",
            Self::BlockedEnv => "Environment overrides are blocked",
            Self::WorkdirUnavailable => "The working directory cannot be used",
            Self::PreflightFailed => "The script failed the preflight check",
            Self::ConfigConflict => "Members of the request contradict each other",
            Self::BlankCommand => "The command is blank",
            Self::Unauthorized => "Valid credentials are needed",
            Self::Forbidden => "The credentials do not allow this",
            Self::ExecDenied => "The command was denied",
            Self::HostNotAllowed => "The host is not allowed",
            Self::ElevatedUnavailable => "Elevated access is not available",
            Self::ToolDenied => "Tool policy denies the tool",
            Self::OwnRequest => "Who asks cannot answer",
            Self::GrantTooWide => "The answer is wider than what was proposed",
            Self::Stopped => "Everything is stopped",
            Self::PatchNotAllowed => "Patches are not allowed here",
            Self::NotFound => "There is no such resource",
            Self::NodeNotFound => "There is no such node",
            Self::ApprovalNotFound => "There is no such approval",
            Self::MethodNotAllowed => "The resource does not know this method",
            Self::NotAcceptable => "No acceptable representation",
            Self::NodeAmbiguous => "Several nodes match",
            Self::IdAmbiguous => "Several ids match",
            Self::ApprovalAlreadyResolved => "The approval was already resolved otherwise",
            Self::DocumentRefused => "The approvals document is refused",
            Self::DocumentLockStale => "The lock of the approvals document is stale",
            Self::RunEnded => "The run has ended",
            Self::InputClosed => "The input of the command is closed",
            Self::SessionEnded => "The process session has ended",
            Self::PatchFailed => "The patch does not apply",
            Self::ApprovalExpired => "The approval has expired",
            Self::ApprovalCancelled => "The approval was cancelled",
            Self::BaseHashMismatch => "The document has changed",
            Self::BaseHashRequired => "If-Match is required",
            Self::BodyTooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body has an unsupported media type",
            Self::RangeNotSatisfiable => "Nothing lies in the range",
            Self::MisdirectedRequest => "The Host header names another server",
            Self::IdempotencyMismatch => "The idempotency key was used with another body",
            Self::UnknownField => "The document has an unknown member",
            Self::InvalidDocument => "The document is not valid",
            Self::DecisionNotAllowed => "The decision is not allowed here",
            Self::InvalidPattern => "The pattern cannot be used",
            Self::ScopeConflict => "The scopes conflict",
            Self::RateLimited => "Too many requests",
            Self::TooManyQuestions => "Too many questions",
            Self::Internal => "Something went wrong in the server",
            Self::StorageFull => "No space is left for the record",
            Self::SandboxUnavailable => "No sandbox is available",
            Self::NodeUnavailable => "No node is available",
            Self::ShuttingDown => "The server is shutting down",
            Self::Overloaded => "The server is overloaded",
            Self::DocumentLocked => "The approvals document is locked",
            Self::StorageUnavailable => "The record cannot be kept",
        }
    }

    /// Members of a problem document with this code beside those of every one.
    pub const fn members(self) -> &'static [&'static str] {
        match self {
            Self::BlockedEnv => &["names"],
            Self::PreflightFailed => &["reason", "line"],
            Self::Forbidden => &["requiredScope"],
            Self::ExecDenied => &["reason", "decidedBy", "userReason", "agentMessage"],
            Self::Stopped => &["reason", "agentMessage"],
            Self::DecisionNotAllowed => &["reason"],
            Self::ElevatedUnavailable => &["gates"],
            Self::NotFound => &["tool"],
            Self::NodeAmbiguous => &["candidates", "more"],
            Self::IdAmbiguous => &["ids", "more"],
            Self::ApprovalAlreadyResolved | Self::ApprovalExpired | Self::ApprovalCancelled => &["approval"],
            Self::DocumentRefused => &["reason", "pointer", "currentHash"],
            Self::PatchFailed => &["path", "hunk", "reason", "notRestored"],
            Self::BaseHashMismatch | Self::BaseHashRequired => &["currentHash"],
            Self::BodyTooLarge => &["limitBytes", "sentBytes"],
            Self::UnknownField => &["pointer"],
            Self::InvalidDocument => &["reason", "pointer"],
            Self::Internal => &["requestId"],
            Self::InvalidRequest
            | Self::WorkdirUnavailable
            | Self::ConfigConflict
            | Self::BlankCommand
            | Self::Unauthorized
            | Self::HostNotAllowed
            | Self::ToolDenied
            | Self::OwnRequest
            | Self::GrantTooWide
            | Self::PatchNotAllowed
            | Self::NodeNotFound
            | Self::ApprovalNotFound
            | Self::MethodNotAllowed
            | Self::NotAcceptable
            | Self::DocumentLockStale
            | Self::RunEnded
            | Self::InputClosed
            | Self::SessionEnded
            | Self::UnsupportedMediaType
            | Self::RangeNotSatisfiable
            | Self::MisdirectedRequest
            | Self::IdempotencyMismatch
            | Self::InvalidPattern
            | Self::ScopeConflict
            | Self::RateLimited
            | Self::TooManyQuestions
            | Self::StorageFull
            | Self::SandboxUnavailable
            | Self::NodeUnavailable
            | Self::ShuttingDown
            | Self::Overloaded
            | Self::DocumentLocked
            | Self::StorageUnavailable => &[],
        }
    }

    /// Whether the same request may succeed later without anybody changing anything.
    pub const fn retryable(self) -> bool {
        match self {
            Self::RateLimited
            | Self::TooManyQuestions
            | Self::NodeUnavailable
            | Self::ShuttingDown
            | Self::Overloaded
            | Self::DocumentLocked
            | Self::StorageFull
            | Self::StorageUnavailable => true,
            Self::InvalidRequest
            | Self::BlockedEnv
            | Self::WorkdirUnavailable
            | Self::PreflightFailed
            | Self::ConfigConflict
            | Self::BlankCommand
            | Self::Unauthorized
            | Self::Forbidden
            | Self::ExecDenied
            | Self::HostNotAllowed
            | Self::ElevatedUnavailable
            | Self::ToolDenied
            | Self::OwnRequest
            | Self::GrantTooWide
            | Self::Stopped
            | Self::PatchNotAllowed
            | Self::NotFound
            | Self::NodeNotFound
            | Self::ApprovalNotFound
            | Self::MethodNotAllowed
            | Self::NotAcceptable
            | Self::NodeAmbiguous
            | Self::IdAmbiguous
            | Self::ApprovalAlreadyResolved
            | Self::DocumentRefused
            | Self::DocumentLockStale
            | Self::RunEnded
            | Self::InputClosed
            | Self::SessionEnded
            | Self::PatchFailed
            | Self::ApprovalExpired
            | Self::ApprovalCancelled
            | Self::BaseHashMismatch
            | Self::BaseHashRequired
            | Self::BodyTooLarge
            | Self::UnsupportedMediaType
            | Self::RangeNotSatisfiable
            | Self::MisdirectedRequest
            | Self::IdempotencyMismatch
            | Self::UnknownField
            | Self::InvalidDocument
            | Self::DecisionNotAllowed
            | Self::InvalidPattern
            | Self::ScopeConflict
            | Self::SandboxUnavailable
            | Self::Internal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use utoipa::PartialSchema as _;

    use countersign_wire::problem::ProblemBody;

    use super::*;

    /// Those of every problem document.
    const COMMON: [&str; 10] = [
        "type",
        "title",
        "status",
        "detail",
        "instance",
        "code",
        "retryable",
        "runId",
        "fields",
        "hint",
    ];

    #[test]
    fn the_catalogue_names_every_member_of_a_problem() {
        let schema = serde_json::to_value(ProblemBody::schema()).unwrap();
        let members = schema["properties"].as_object().unwrap();
        let members: BTreeSet<&str> = members.keys().map(String::as_str).collect();
        let named = Code::ALL.iter().flat_map(|code| code.members()).copied();
        let named: BTreeSet<&str> = named.chain(COMMON).collect();
        assert_eq!(named, members);
    }

    #[test]
    fn the_catalogue_is_the_contract() {
        let rows: Vec<String> = Code::ALL
            .iter()
            .map(|code| {
                let retry = if code.retryable() { "again" } else { "-" };
                format!("{} {code} {retry} {}", code.status().as_u16(), code.title())
            })
            .collect();
        insta::assert_snapshot!(rows.join("\n"));
    }

    #[test]
    fn the_document_of_errors_is_the_catalogue() {
        let document = include_str!("../../../../docs/errors.md");
        let (_, table) = document.split_once("| --- | --- | --- | --- | --- |\n").unwrap();
        let rows: Vec<&str> = table.trim_end().lines().collect();
        assert_eq!(rows.len(), Code::ALL.len());
        for (row, code) in rows.into_iter().zip(Code::ALL) {
            let again = if code.retryable() { "again" } else { "" };
            let begin = format!(
                "| {} | `{code}` | {} | {again} | ",
                code.status().as_u16(),
                code.title()
            );
            let advice = row.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(" |"));
            assert!(advice.is_some_and(|advice| advice.ends_with('.')), "{row}");
        }
    }
}
