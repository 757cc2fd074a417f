// What the inbox says about a request before it is answered.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Approval, Segment, SessionOverrides } from "../src/api/types.ts";
import { areAlike, calls, factsOf, isPlain, matches, programs } from "../src/pure/facts.ts";

const PLAIN: SessionOverrides = { sessionKey: "agent:main:main", elevated: "off" };
const KNOWN = { runsBefore: 3, overrides: PLAIN };

const call = (executable: string, more: Partial<Segment> = {}): Segment => ({
  argv: [executable], executable, resolvedPath: `/usr/bin/${executable}`, match: { kind: "none" }, notes: [], span: [0, 1], wrappers: [], ...more,
});

function request(more: Partial<Approval> = {}): Approval {
  const shown = { text: "git status", spans: [], warnings: [], truncated: false };
  return {
    id: "a", agentId: "main", host: "gateway", cwd: "/srv/site", command: "git status", sessionKey: "agent:main:main", display: shown,
    segments: [call("git")], envNames: [], binding: "exact", confinement: { programs: [{ program: "/usr/bin/git", starts: [] }] }, approvalsRequired: 1, resolvedPath: "/usr/bin/git", boundTo: { cwd: "/srv/site", digest: "d", envHash: "e" }, ...more,
  } as Approval;
}

const codes = (more: Partial<Approval>, past = KNOWN) => factsOf(request(more), past).map(({ code }) => code);

test("a plain request has no facts", () => {
  assert.deepEqual(codes({}), []);
  assert.equal(isPlain(request(), KNOWN), true);
});

test("each fact is found, and with it the answer is not green", () => {
  const cases: [string, Partial<Approval>][] = [
    ["missing", { segments: [call("rsync", { resolvedPath: undefined })] }],
    ["denied", { segments: [call("git", { match: { kind: "denylist" } })] }],
    ["rights", { segments: [call("sudo")] }],
    ["rights", { segments: [call("ls", { wrappers: [{ name: "sudo", span: [0, 4] }] })] }],
    ["rights", { segments: [call("/usr/bin/doas")] }],
    ["text", { segments: [], boundTo: { cwd: "/", digest: "d", envHash: "e", shell: "/bin/sh" } }],
    ["payload", { segments: [call("sh", { segments: [call("ls")] })] }],
    ["rights", { segments: [call("sh", { segments: [call("sudo")] })] }],
    ["inline", { segments: [call("python3", { inlineEval: true })] }],
    ["input", { input: "pipe" }],
    ["network", { segments: [call("curl"), call("sh", { operator: "|", runsPipe: true })] }],
    ["pipe", { segments: [call("cat"), call("sh", { operator: "|", runsPipe: true })] }],
    ["near", { segments: [call("git", { nearDenyRule: "git --force" })] }],
    ["outside", { outsideWorkspace: true }],
    ["variables", { envNames: ["PATH"] }],
    ["script", { scripts: "not held: too large" }],
    ["pinned", { binding: "path" }],
    ["pinned", { binding: "text" }],
    ["starts", { confinement: undefined }],
    ["starts", { confinement: { programs: [{ program: "/usr/bin/git", starts: [] }, { program: "/usr/bin/npm" }] } }],
    ["display", { command: "gіt status" }],
    ["display", { display: { text: "x", spans: [], truncated: false, warnings: [{ code: "hidden", message: "hides" }] } }],
  ];
  for (const [code, more] of cases) {
    assert.ok(codes(more).includes(code), `${code}: ${codes(more).join(" ")}`);
    assert.equal(isPlain(request(more), KNOWN), false, code);
  }
});

test("a builtin needs no file, and input that is withheld is not open", () => {
  assert.deepEqual(codes({ segments: [call("cd", { resolvedPath: undefined, match: { kind: "builtin" } })], input: "withheld" }), []);
});

test("what the record does not say yet is no praise", () => {
  assert.equal(isPlain(request(), { runsBefore: undefined, overrides: PLAIN }), false);
  assert.equal(isPlain(request(), { runsBefore: 3, overrides: undefined }), false);
  assert.deepEqual(codes({}, { runsBefore: 0, overrides: PLAIN }), ["first"]);
  assert.deepEqual(codes({}, { runsBefore: 1, overrides: { ...PLAIN, ask: "off" } }), ["session"]);
  assert.equal(isPlain(request({ segments: [] }), KNOWN), false);
});

test("people who have to agree make a request no less plain", () => {
  assert.equal(isPlain(request({ approvalsRequired: 2 }), KNOWN), true);
});

test("requests are alike by agent, place and programs", () => {
  const push = request({ segments: [call("git"), call("tee")] });
  assert.deepEqual(calls([call("sh", { segments: [call("ls")] })]).map(({ executable }) => executable), ["sh", "ls"]);
  assert.deepEqual(programs(push), ["git", "tee"]);
  assert.equal(areAlike(request(), request({ cwd: "/tmp" })), true);
  assert.equal(areAlike(request(), push), false);
  assert.equal(areAlike(request(), request({ agentId: "build" })), false);
  assert.equal(areAlike(request(), request({ host: "node" })), false);
});

test("requests with other variables are not alike", () => {
  const bound = (envHash: string) => ({ boundTo: { ...request().boundTo, envHash } });
  const plain = request();
  const one = request({ envNames: ["LABEL"], envValues: { LABEL: "x" }, ...bound("1") });
  assert.equal(areAlike(one, request({ envNames: ["LABEL"], envValues: { LABEL: "x" }, ...bound("1"), cwd: "/tmp" })), true);
  for (const other of [
    plain,
    request({ envNames: ["LABEL"], envValues: { LABEL: "y" }, ...bound("1") }),
    request({ envNames: ["LABEL"], ...bound("1") }),
    request({ envNames: ["OTHER"], envValues: { OTHER: "x" }, ...bound("1") }),
    // A value that is masked or not shown is another one, too.
    request({ envNames: ["LABEL"], envValues: { LABEL: "x" }, ...bound("2") }),
    request({ envNames: ["LABEL"], envValues: { LABEL: "x" }, envOmitted: 1, ...bound("1") }),
  ]) {
    assert.equal(areAlike(one, other), false);
    assert.equal(areAlike(other, one), false);
  }
});

test("a filter names agents and hosts exactly, and any text in part", () => {
  const one = request({ agentId: "build", command: "Git push", cwd: "/srv/site" });
  for (const words of ["", "agent:build", "git", "SITE push", "host:gateway agent:build git"]) assert.equal(matches(one, words), true, words);
  for (const words of ["agent:buil", "agent:main", "host:node", "git pull"]) assert.equal(matches(one, words), false, words);
});

test("code that comes through a pipe is told with where it comes from", () => {
  const piped = (...segments: Segment[]) => factsOf(request({ segments }), KNOWN).filter(({ code }) => code === "network" || code === "pipe").map(({ text }) => text);
  const sh = (more: Partial<Segment> = {}) => call("sh", { operator: "|", runsPipe: true, ...more });
  assert.deepEqual(piped(call("curl"), sh()), ["runs what curl brings from the network"]);
  assert.deepEqual(piped(call("/usr/bin/wget"), call("tee", { operator: "|" }), sh({ operator: "|&" })), ["runs what wget brings from the network"]);
  assert.deepEqual(piped(call("cat"), sh()), ["runs what another command prints"]);
  // What fetches stands in another pipeline.
  assert.deepEqual(piped(call("curl"), call("cat", { operator: "&&" }), sh()), ["runs what another command prints"]);
  assert.deepEqual(piped(call("curl"), call("cat", { operator: "||" }), sh()), ["runs what another command prints"]);
  // Inside a shell text, also where the pipe is outside of it.
  assert.deepEqual(piped(call("sh", { segments: [call("curl"), sh()] })), ["runs what curl brings from the network"]);
  assert.deepEqual(piped(call("curl"), call("sh", { operator: "|", segments: [call("bash", { runsPipe: true })] })), ["runs what curl brings from the network"]);
  // The graver one is said, and nothing where no part reads code.
  assert.deepEqual(piped(call("cat"), sh(), call("curl", { operator: ";" }), sh()), ["runs what curl brings from the network"]);
  assert.deepEqual(piped(call("curl"), call("cat", { operator: "|" })), []);
});
