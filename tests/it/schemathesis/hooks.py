"""What the tester of contracts has to know that no schema can say."""

import json

import schemathesis

# Refusals of requests that have the form of the contract: they depend on the moment, on other members, on the
# machine, or on meaning. By code; anything else that is refused although it has the right form is a failure.
BY_MEANING = {
    "approval-already-resolved",
    "approval-cancelled",
    "approval-expired",
    "base-hash-mismatch",
    "base-hash-required",
    "blank-command",
    "blocked-env",
    "config-conflict",
    "decision-not-allowed",
    "document-refused",
    "elevated-unavailable",
    "exec-denied",
    "grant-too-wide",
    "host-not-allowed",
    "id-ambiguous",
    "idempotency-mismatch",
    "invalid-document",
    "invalid-pattern",
    "node-not-found",
    "preflight-failed",
    "run-ended",
    "scope-conflict",
    "unknown-field",
    "workdir-unavailable",
}

# Members whose value has the right form and still means nothing here: a cursor is whatever an earlier page
# said, a time must lie in the future, no node gives a pseudo-terminal, a time limit is given in one way only, every agent
# is not a single one, and only a stream has somebody who answers.
BY_MEMBER = {"approver", "cursor", "everyAgent", "expiresAtMs", "pty", "timeoutSeconds"}


@schemathesis.hook
def map_query(context, query):
    """A wait for what never comes, and the output of what never starts, keep the tester waiting."""
    wait = str((query or {}).get("waitMs", ""))
    if wait.isdigit() and 20 < int(wait) <= 60000:
        query["waitMs"] = 20
    if (query or {}).get("follow") in ("1", "true"):
        query["follow"] = "0"
    return query


@schemathesis.hook
def filter_failure(context, failure, case, response):
    if failure.code == "ST204" and response.status_code == 401:
        # Below /v1/ only somebody with a token learns which paths and methods there are.
        return False
    if failure.code == "ST201" and response.status_code == 412:
        # A tag that is none matches nothing, which is a refusal.
        return False
    if failure.code == "ST201" and "in header - object with unexpected properties" in failure.message:
        # Headers that a server does not know are for others on the way.
        return False
    if failure.code == "ST201" and case.operation.label == "POST /v1/exec/explanations" and response.status_code == 200:
        # Each command is judged alone, and its result says what is wrong with it.
        return False
    if failure.code == "ST201" and case.operation.label == "POST /tools/invoke" and isinstance(case.body, dict):
        # As the product has it, a member that is null is not there.
        return None not in case.body.values()
    if failure.code != "ST202":
        return True
    if response.status_code == 416:  # nothing lies in the range
        return False
    if response.status_code == 406:  # an event stream was asked for as something else
        return False
    try:
        problem = json.loads(response.content)
    except ValueError:
        return True
    # The product's form of an answer has its error within.
    problem = problem.get("error", problem)
    if problem.get("code") in BY_MEANING:
        return False
    if problem.get("code") != "invalid-request":
        return True
    if case.operation.label == "POST /tools/invoke":
        # Which members `args` has is said where the tool has an operation of its own.
        return False
    if case.operation.label == "PATCH /v1/config":
        # Paths and values of settings are judged by what they mean.
        return False
    if case.operation.label == "POST /v1/process":
        # Which members go with which action is in their descriptions.
        return False
    if case.operation.label == "POST /v1/apply-patch" and "input: line" in problem.get("detail", ""):
        # The format of a patch is its own.
        return False
    if case.operation.label in ("POST /v1/policy/tests", "POST /v1/policy/backtest"):
        # Cases, documents and configurations are texts of a form of their own.
        return False
    fields = problem.get("fields", [])
    # To a schema 1.0 is an integer; here it is not.
    # An explanation takes the text that a run refuses: it says why. What cannot be seen is known to Unicode, not to a
    # pattern. Of `tool` and `name` one is needed, and a blank one is none. That a parameter needs a header is in its
    # description.
    known = ("expected a whole number", "must not contain NUL", "cannot be started", "none of them unseen")
    known += ("needs an Idempotency-Key",)
    # What is counted begins at a time that is near, and every agent is not one.
    known += ("expected a time within the last 30 days", "expected one agent")
    # Of several answers each is about another question, and an allow has the digest of what was shown.
    known += ("expected each id once", "with every answer but deny", "expected mute or never, not both")
    # What an answer stores, and whose a link is, depends on another member. A directory has one spelling only.
    known += ("with allow-always alone", "only with name", "without . and ..", "without control characters")
    # Names of live tokens are taken.
    known += ("a live token has this name already",)
    is_known = [f["path"].rsplit(".", 1)[-1] in BY_MEMBER or any(k in f["message"] for k in known) for f in fields]
    return not (fields and all(is_known))
