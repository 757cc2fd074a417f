// Answers of the right width: what is shown is what is sent.

import assert from "node:assert/strict";
import { test } from "vitest";
import type { Approval, Pattern, Proposal, Segment } from "../src/api/types.ts";
import { grantOf, leaves, unlimited } from "../src/pure/grant.ts";
import * as words from "../src/pure/grant-words.ts";

const NOW = Date.UTC(2026, 4, 1, 12);

const call = (argv: string[], more: Partial<Segment> = {}): Segment => ({
  argv, executable: argv[0] ?? "", resolvedPath: `/usr/bin/${argv[0]}`, match: { kind: "none" }, notes: [], span: [0, 1], wrappers: [], ...more,
});

const approval = (more: Partial<Approval> = {}): Approval =>
  ({ sessionKey: "agent:main:main", host: "gateway", cwd: "/srv/app", boundTo: { cwd: "/srv/app" }, segments: [call(["git", "push"])], why: { detail: "no entry covers this" }, ask: "on-miss", ...more }) as Approval;

const pattern = (more: Partial<Pattern>): Pattern => ({ segment: 0, pattern: "/usr/bin/git", width: "exact", default: true, ...more });
const EXACT: Proposal = { id: "exact", words: "exact", stores: [pattern({ argPattern: "sha256:cwd-argv:0" })] };
const FORM: Proposal = { id: "arguments", words: "git push *", stores: [pattern({ width: "arguments", shape: "git push *", default: false, limits: { directory: "/srv/app" } })] };
const PROGRAM: Proposal = { id: "program", words: "git", stores: [pattern({ width: "program", default: false })] };

test("without a narrowing nothing is sent but the proposal, and it is an entry for good", () => {
  assert.deepEqual(grantOf(approval(), unlimited("exact")), { proposal: "exact" });
  const [stored] = words.storedOf(approval(), EXACT, unlimited("exact"));
  assert.deepEqual(stored, {
    pattern: "/usr/bin/git", argumentsWords: "exactly these arguments", argv: ["git", "push"], directory: "/srv/app", untilMs: undefined, uses: undefined, session: undefined, isGrant: false, note: undefined,
  });
});

test("each way to narrow is sent and shown, and makes a grant of it", () => {
  const narrowed = { proposal: "program", untilMs: NOW, uses: 3, isOfSession: true, directory: "/srv" };
  assert.deepEqual(grantOf(approval(), narrowed), { proposal: "program", expiresAtMs: NOW, maxUses: 3, sessionKey: "agent:main:main", directory: "/srv" });
  const [stored] = words.storedOf(approval(), PROGRAM, narrowed);
  assert.deepEqual([stored?.untilMs, stored?.uses, stored?.session, stored?.directory, stored?.isGrant, stored?.argumentsWords], [NOW, 3, "agent:main:main", "/srv", true, "any arguments"]);
  for (const one of [{ untilMs: NOW }, { uses: 2 }, { isOfSession: true }, { directory: "/srv" }]) {
    assert.equal(words.storedOf(approval(), PROGRAM, { ...unlimited("program"), ...one })[0]?.isGrant, true, JSON.stringify(one));
  }
});

test("a limit that the proposal has stays, whatever is chosen", () => {
  const narrowed = { ...unlimited("arguments"), directory: "/", untilMs: NOW, uses: 50 };
  const limited: Proposal = { ...FORM, stores: FORM.stores.map((store) => ({ ...store, limits: { directory: "/srv/app", maxUses: 5, expiresAtMs: NOW - 1, sessionKey: "agent:main:main" } })) };
  const [stored] = words.storedOf(approval(), limited, narrowed);
  assert.deepEqual([stored?.directory, stored?.uses, stored?.untilMs, stored?.session], ["/srv/app", 5, NOW - 1, "agent:main:main"]);
  assert.deepEqual(stored?.argv, ["git push *"]);
});

test("the arguments that are shown are those of the call that is stored", () => {
  const inner = call(["ls", "/"]);
  const shell = approval({ segments: [call(["sh", "-c", "ls /"], { segments: [inner] })] });
  const stored = (of: Approval, path: string) => words.storedOf(of, { ...EXACT, stores: [pattern({ pattern: path })] }, unlimited("exact"))[0]?.argv;
  assert.deepEqual(stored(shell, "/usr/bin/ls"), ["ls", "/"]);
  assert.equal(stored(approval({ segments: [call(["timeout", "5", "git"], { wrappers: [{ name: "timeout", span: [0, 1] }], resolvedPath: "/usr/bin/git" })] }), "/usr/bin/git"), undefined);
  assert.equal(stored(shell, "/usr/bin/rm"), undefined);
});

test("a text and a node take no limits", () => {
  const text: Proposal = { id: "exact", words: "text", stores: [pattern({ pattern: "=command:abc" })] };
  assert.match(words.whyNotNarrower(approval(), text), /exact text/);
  assert.match(words.whyNotNarrower(approval({ host: "node" }), PROGRAM), /node/);
  assert.equal(words.whyNotNarrower(approval(), PROGRAM), "");
  assert.equal(words.storedOf(approval(), text, unlimited("exact"))[0]?.pattern, "exactly this text");
});

test("only a program in any directory is narrowed by one, and never by the root", () => {
  assert.deepEqual([EXACT, FORM, PROGRAM].map(words.isInAnyDirectory), [false, false, true]);
  assert.deepEqual(words.directoriesOf("/srv/app/x"), ["/srv/app/x", "/srv/app", "/srv"]);
  assert.deepEqual(words.directoriesOf("/"), []);
});

test("spans end when they say", () => {
  assert.deepEqual([words.endOf("ever", NOW), words.endOf("hour", NOW), words.endOf("week", NOW)], [undefined, NOW + 3_600_000, NOW + 604_800_000]);
  const midnight = new Date(words.endOf("today", NOW) ?? 0);
  assert.deepEqual([midnight.getHours(), midnight.getMinutes(), midnight.getSeconds()], [0, 0, 0]);
  assert.ok(midnight.getTime() > NOW && midnight.getTime() <= NOW + 25 * 3_600_000);
});

test("what it would have covered is said where the server counted", () => {
  assert.equal(words.coveredWords({ ...EXACT, wouldHaveCovered: { covered: 14, of: 20 } }), "would have covered 14 of the last 20 questions");
  assert.equal(words.coveredWords({ ...EXACT, wouldHaveCovered: { covered: 1, of: 1 } }), "would have covered the last question");
  assert.equal(words.coveredWords({ ...EXACT, wouldHaveCovered: { covered: 0, of: 0 } }), "");
  assert.equal(words.coveredWords(EXACT), "");
});

test("a denial leaves what was chosen and nothing else", () => {
  assert.deepEqual(leaves("ask", undefined), {});
  assert.deepEqual(leaves("never", undefined), { never: true });
  assert.deepEqual(leaves("mute-30", words.muteEnd("mute-30", NOW)), { mute: { untilMs: NOW + 1_800_000 } });
  assert.deepEqual(leaves("mute-60", words.muteEnd("mute-60", NOW)), { mute: { untilMs: NOW + 3_600_000 } });
  assert.deepEqual(leaves("agent-30", words.muteEnd("agent-30", NOW)), { mute: { untilMs: NOW + 1_800_000, agent: true } });
  assert.deepEqual(leaves("agent-60", words.muteEnd("agent-60", NOW)), { mute: { untilMs: NOW + 3_600_000, agent: true } });
  assert.deepEqual([words.muteEnd("ask", NOW), words.muteEnd("never", NOW)], [undefined, undefined]);
});

test("why nothing can be remembered is the reason of the analysis, where it says one", () => {
  const cases: [Partial<Approval>, RegExp][] = [
    [{ ask: "always" }, /policy asks every time/],
    [{ envOmitted: 3 }, /more variables than can be shown/],
    [{ envNames: ["LABEL"], envValues: { LABEL: "x" } }, /it sets LABEL, which could decide/],
    [{ segments: [], why: { detail: "a loop", layer: "l", rule: "allowlist-miss" } }, /: a loop\.$/],
    [{ segments: [call(["python3", "x.py"], { notes: ["which file it would run is unknown"] })] }, /python3: which file/],
    [{ segments: [call(["cat", "x"]), call(["sh"])] }, /sh runs whatever it is given/],
    [{ segments: [call(["awk", "1"])] }, /narrow enough/],
  ];
  for (const [more, said] of cases) assert.match(words.whyNoAlways(approval(more)), said);
});
