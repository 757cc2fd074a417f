import { expect, test } from "vitest";
import { type RunEvent, type Step, story } from "../src/pure/story.ts";

const by = { kind: "token", id: "t", name: "ann" } as const;

/** The words of a tree, two blanks deeper for each level. */
const lines = (steps: Step[], deep = ""): string[] => steps.flatMap(({ words, steps: below }) => [deep + words, ...lines(below, `${deep}  `)]);

const asked: RunEvent[] = [
  { type: "exec.requested", atMs: 1, requestedBy: { kind: "token", id: "a", name: "agent" }, verdict: "ask" },
  { type: "exec.approval.requested", atMs: 2 },
  { type: "exec.approval.voted", atMs: 3, by, decision: "allow-once", votes: 1, approvalsRequired: 2 },
  { type: "exec.approval.resolved", atMs: 4, status: "allowed", decision: "allow-once", resolvedBy: { ...by, name: "bob" } },
  { type: "exec.started", atMs: 5, sessionId: "brave-otter-417" },
  { type: "exec.running", atMs: 6, elapsedMs: 10_000 },
  { type: "exec.finished", atMs: 7, status: "failed", exitCode: 2, durationMs: 12_000 },
];

test("each step stands below what it belongs to", () => {
  expect(lines(story(asked))).toEqual([
    "agent (API token) asked for it. Policy wanted a person's answer.",
    "  The question was put to people.",
    "    ann (API token) allowed it once (1 of 2).",
    "    Allowed once by bob (API token).",
    "  It started, as session brave-otter-417.",
    "    It was still running after 10.0 s.",
    "  It ended: Failed, exit 2, after 12.0 s.",
  ]);
});

test("a denial says why, and a question that expired what that means", () => {
  const denied = [asked[0] as RunEvent, { type: "exec.denied", atMs: 2, reason: "user-denied", detail: "not today" } as RunEvent];
  expect(lines(story(denied)).at(-1)).toBe("  It was denied: user-denied. not today");
  const expired = [...asked.slice(0, 2), { type: "exec.approval.resolved", atMs: 9, status: "expired", terminalReason: "timeout" } as RunEvent];
  expect(lines(story(expired)).at(-1)).toContain("Expired. Nobody answered in time");
});

test("what is unknown is named, and what is left of a record is told from there on", () => {
  expect(lines(story([{ type: "exec.later", atMs: 1 }]))).toEqual(["exec.later"]);
  expect(lines(story(asked.slice(4)))).toEqual(["It started, as session brave-otter-417.", "  It was still running after 10.0 s.", "It ended: Failed, exit 2, after 12.0 s."]);
});

test("nothing of an event is hidden", () => {
  expect(lines(story([{ type: "exec.denied", atMs: 1, reason: "user-denied", detail: "a\u202eb" }]))[0]).toContain("\\u{202E}");
});
