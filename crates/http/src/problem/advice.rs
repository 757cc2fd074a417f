//! What to do about each refusal, for the catalogue on the reference page.

use super::Code;

impl Code {
    /// What a caller who meets it can do, in one or two sentences; backticks enclose code.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::InvalidRequest => {
                "`fields` names each wrong member or parameter and says what was expected. Correct it and send again."
            }
            Self::BlockedEnv => {
                "`names` lists variables that could change which program runs or what it loads. Leave them out; they are never accepted from a call."
            }
            Self::WorkdirUnavailable => {
                "The directory does not exist on the host, is no directory, or may not be entered. Name another `workdir`."
            }
            Self::PreflightFailed => {
                "`line` names the line that is shell text in a script of another language. Correct the script."
            }
            Self::ConfigConflict => {
                "Two members contradict each other, for example `agentId` and the agent in `sessionKey`, or `node` without `host` `node`. Leave one out."
            }
            Self::BlankCommand => "Send `command` or `argv` with something to run.",
            Self::Unauthorized => {
                "Send `Authorization: Bearer` with a live token. `countersign token create` makes one; `countersign token list` shows which are revoked or expired."
            }
            Self::Forbidden => {
                "`requiredScope` names the scope that is missing, or the token is bound to other agents, or what it asked for belongs to no agent, or a browser's second secret is missing. Use another token; scopes are never added to one."
            }
            Self::ExecDenied => {
                "`reason` says which rule or person decided, `runId` leads to the record, `hint` names what would change it. `POST /v1/exec/explain` shows the whole decision."
            }
            Self::HostNotAllowed => {
                "The call asked for another host than the one that is configured. Leave `host` out, or change `tools.exec.host`."
            }
            Self::ElevatedUnavailable => {
                "`gates` lists every closed gate by the key of `openclaw.json` that opens it (`tools.elevated`); `session.elevated` is opened by `/elevated on` in the session."
            }
            Self::ToolDenied => {
                "Tool policy of this agent forbids the tool (`tools.allow`, `tools.deny`; for patches also `tools.exec.applyPatch.enabled`)."
            }
            Self::OwnRequest => {
                "The token that asked for the run cannot decide about it, and no token of the owner who proposed a change of policy or a token can accept that. Use another approver's token, or that of an admin of another owner."
            }
            Self::Stopped => {
                "The emergency stop is in effect; `detail` says who stopped the server, when and why. Nothing starts, and nothing is written to running commands, until an admin resumes it (`countersign resume`)."
            }
            Self::PatchNotAllowed => {
                "`tools.exec.applyPatch.allowModels` lists the models that may send patches. Name one of them in `model`."
            }
            Self::NotFound => "There is nothing of this id or path, or it is not yours to see.",
            Self::NodeNotFound => "`countersign nodes list` shows the nodes that are paired.",
            Self::ApprovalNotFound => {
                "Use the whole id. `countersign approvals list --status all` shows those that are kept."
            }
            Self::MethodNotAllowed => "The `Allow` header names the methods of this resource.",
            Self::NotAcceptable => {
                "Send an `Accept` header with one of the media types of the operation, or none."
            }
            Self::NodeAmbiguous => "`candidates` lists the nodes that match. Use more of the id.",
            Self::ApprovalAlreadyResolved => {
                "Another approver decided first, and otherwise; `approval` says who and what. Nothing was changed by this call."
            }
            Self::DocumentRefused => {
                "The approvals document does not read: `reason` and `pointer` say where. Everything is denied until it is repaired; `countersign doctor` shows how."
            }
            Self::DocumentLockStale => {
                "A program died while it held the lock of the approvals document. `countersign doctor` names the file to remove."
            }
            Self::RunEnded => "The run has ended; there is nothing left to cancel.",
            Self::InputClosed => {
                "The command reads end of file: what covers it does not include an open input. An operator can allow one for \
                 its entry (`countersign allowlist add --input`)."
            }
            Self::SessionEnded => "The process has ended; it takes no more input.",
            Self::PatchFailed => {
                "`path` and `hunk` say what does not apply. No file was changed, unless `reason` says that it was cut off: then each \
                 file has its old content or its new one; or `notRestored` names what could not be put back."
            }
            Self::ApprovalExpired => {
                "Nobody answered in time, and nothing runs by this approval. Ask again by a new run."
            }
            Self::ApprovalCancelled => "The request was withdrawn, and nothing runs by this approval.",
            Self::BaseHashMismatch => {
                "It was changed after you read it. Read it again (`currentHash` is its hash now), redo the change, send it with the new `If-Match`."
            }
            Self::BaseHashRequired => {
                "Read it first and send its `ETag` as `If-Match`, so that no change of others is lost."
            }
            Self::BodyTooLarge => "Send less, or raise `[limits] body_bytes`.",
            Self::UnsupportedMediaType => "Send the body as `Content-Type: application/json`.",
            Self::RangeNotSatisfiable => {
                "The resource has fewer bytes than `Range` begins at; `Content-Range` has their number. Ask for others, or without `Range`."
            }
            Self::MisdirectedRequest => {
                "The `Host` header is none of this server's names. Add the name to `[http] allowed_hosts`."
            }
            Self::IdempotencyMismatch => {
                "This `Idempotency-Key` was used with another body in the last 24 hours. Use a new key for a new request."
            }
            Self::UnknownField => "`pointer` names a member that an approvals document does not have.",
            Self::InvalidDocument => "`pointer` says where the document is wrong. Nothing was written.",
            Self::DecisionNotAllowed => {
                "The approval's `allowedDecisions` and `proposedPatterns` list what can be chosen."
            }
            Self::InvalidPattern => {
                "The pattern can never match or is not valid; `detail` says why. Patterns are path globs, bare names or `*`."
            }
            Self::ScopeConflict => {
                "A token with `exec` can hold none of `approve`, `admin` and `relay`. Make two tokens."
            }
            Self::RateLimited => "Wait for the seconds in `Retry-After`; `RateLimit` says how much is left.",
            Self::Internal => {
                "A fault of the server. Its log says more under the request id in `requestId`; please report it."
            }
            Self::StorageFull => "Nothing was done. Make room on the disk of the state directory.",
            Self::SandboxUnavailable => {
                "The command would run in a sandbox, and there is none. `countersign doctor` says why."
            }
            Self::NodeUnavailable => "The node is not connected. Try again when it is.",
            Self::ShuttingDown => "No new runs are taken. Send it to the server again once it is back.",
            Self::Overloaded => {
                "All places are taken; the limits are in `[limits]` and `[approvals] max_pending`. Try again later."
            }
            Self::DocumentLocked => "Another program is writing the approvals document. Try again.",
            Self::StorageUnavailable => {
                "The record cannot be kept, so nothing was done. `countersign doctor` says why."
            }
        }
    }
}
