// The pure modules of the page.

import assert from "node:assert/strict";
import { afterEach, test, vi } from "vitest";
import type { Approval, PageEvent } from "../src/api/types.ts";
import { Approvals, type Entry, inOrder } from "../src/pure/approvals.ts";
import { createLooker } from "../src/pure/looker.ts";
import { sentence } from "../src/pure/sentence.ts";
import { reader, type StreamEvent } from "../src/pure/sse.ts";
import * as text from "../src/pure/text.ts";
import { trust } from "../src/pure/trust.ts";
import * as widening from "../src/pure/widening.ts";
import * as words from "../src/pure/words.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("everything unseen is spelled out and nothing else", () => {
  const cases = [
    ["ls -l ß日☕ 'x'", "ls -l ß日☕ 'x'"],
    ["a\u202eb\u200b", "a\\u{202E}b\\u{200B}"],
    ["\u001b[2K\r\u0000\u007f\u0085", "\\u{1B}[2K\\u{D}\\u{0}\\u{7F}\\u{85}"],
    ["\u2066x\u2069\ufeff\u00ad\u3164\u2800", "\\u{2066}x\\u{2069}\\u{FEFF}\\u{AD}\\u{3164}\\u{2800}"],
    ["a\u{1d159}b\u{16fe4}", "a\\u{1D159}b\\u{16FE4}"],
    ["\u{e0041}\u{10ffff}\u{e000}", "\\u{E0041}\\u{10FFFF}\\u{E000}"],
    ["\ud800", "\\u{D800}"],
    ["a\nb\tc", "a\\u{A}b\\u{9}c"],
  ];
  for (const [from, to] of cases) assert.equal(text.visible(from), to);
  assert.equal(text.visibleOutput("a\r\nb\tc\u001b"), "a\nb\tc\\u{1B}");
});

test("pieces join to the server's text and keep what was there apart from what it is spelled like", () => {
  const command = "echo '\\u{202E}' \u202e\n  end";
  const pieces = text.pieces(command);
  assert.equal(text.joined(pieces), "echo '\\u{5C}u{202E}' \\u{202E}\\u{A}\n  end");
  assert.deepEqual(pieces.filter(({ kind }) => kind === "unseen").map((piece) => piece.text), ["\\u{5C}", "\\u{202E}"]);
  assert.deepEqual(pieces.map(({ kind }) => kind), ["text", "unseen", "text", "unseen", "break", "text"]);
  assert.equal(text.joined(text.pieces("⟨8 blanks⟩ \\n \\\\u{A}")), "\\u{27E8}8 blanks⟩ \\n \\\\u{5C}u{A}");
});

test("a long run of blanks is a piece of its own", () => {
  const pieces = text.pieces(`ls${" ".repeat(300)}rm x       y`);
  assert.deepEqual(pieces.map(({ kind, text: { length } }) => [kind, length]), [["text", 2], ["blanks", 300], ["text", 12]]);
});

test("spans are bytes of the shown text, whatever its letters", () => {
  const shown = text.marked(text.pieces("é😀 && \u202els\nrm"), [[0, 6], [10, 20], [24, 26]]);
  const spans = new Map();
  for (const piece of shown) spans.set(piece.span, (spans.get(piece.span) ?? "") + piece.text);
  assert.equal(spans.get(0), "é😀");
  assert.equal(spans.get(1), "\\u{202E}ls");
  assert.equal(shown.map((piece) => piece.text).join(""), "é😀 && \\u{202E}ls\\u{A}rm");
});

test("a label hides nothing behind blanks", () => {
  assert.equal(text.brief(`ls${" ".repeat(300)}; rm`), "ls (300 blanks) ; rm");
  assert.equal(text.brief("a\nb\u202e"), "a\\u{A}b\\u{202E}");
  assert.equal([...text.brief("😀".repeat(100))].length, 80);
});

test("a word of two scripts is found", () => {
  assert.deepEqual(text.mixedWords("gіt push привет git"), ["gіt"]);
  assert.deepEqual(text.mixedWords("rm файл.txt 日本go"), []);
});

test("one comes back to a request or to the list, never elsewhere", () => {
  assert.equal(text.returnPath("/a/4eb420d1-fd4e"), "/a/4eb420d1-fd4e");
  for (const path of [null, "", "/a/", "//evil.example", "https://evil.example", "/a/../login", "/a/x/y", "/a/x?y", "/a/x#y", "javascript:alert(1)", "/a/x\n", "\\/evil", "/a/%2e%2e"]) {
    assert.equal(text.returnPath(path), "/", String(path));
  }
});

test("times and sizes are short", () => {
  assert.deepEqual([0, 999, 61_000, 3_723_000, -5].map(text.timeLeft), ["0:00", "0:01", "1:01", "1:02:03", "0:00"]);
  assert.deepEqual([3, 1200, 65_000, 3_660_000].map(text.duration), ["3 ms", "1.2 s", "1 min 5 s", "1 h 1 min"]);
  assert.deepEqual([0, 1, 1536, 5 * 1024 ** 2].map(text.byteSize), ["0 bytes", "1 byte", "1.5 KiB", "5.0 MiB"]);
});

const asked = (id: string, createdAtMs = 1): Approval => ({ id, runId: `run-${id}`, status: "pending", createdAtMs }) as Approval;
const denied = (id: string): Approval => ({ ...asked(id), status: "denied", decision: "deny", resolvedBy: { kind: "token", id: "ann", name: "ann" } });
const entry = (model: Approvals, id: string): Entry => {
  const found = model.entries.get(id);
  assert.ok(found, id);
  return found;
};

test("what arrives late or twice changes nothing", () => {
  const model = new Approvals();
  model.resolved({ approvalId: "gone", status: "denied" });
  assert.equal(model.take(asked("gone")), undefined, "a list that was older than the event");
  model.take(asked("a"));
  model.take(denied("a"));
  assert.equal(model.take(asked("a"))?.phase, "settled");
  model.resolved({ approvalId: "a", status: "allowed", decision: "allow-once" });
  assert.equal(entry(model, "a").approval.status, "denied");
  assert.equal(model.sending("a", "deny"), false);
});

test("whose answer counted is what the answer says, whichever comes first", () => {
  for (const eventFirst of [true, false]) {
    const model = new Approvals();
    model.take(asked("a"));
    assert.ok(model.sending("a", "deny"));
    assert.equal(model.sending("a", "deny"), false, "one answer at a time");
    if (eventFirst) model.resolved({ approvalId: "a", status: "denied", decision: "deny" });
    model.answered("a", { applied: true, approval: denied("a") });
    model.resolved({ approvalId: "a", status: "denied", decision: "deny" });
    assert.deepEqual([entry(model, "a").phase, entry(model, "a").mine], ["settled", true]);
  }
});

test("an allowance is taken back, and nothing else changes what has ended", () => {
  const allowed = (id: string): Approval => ({ ...asked(id), status: "allowed", decision: "allow-once", startDelayMs: 5000, startsAtMs: 6000 });
  const takenBack = (id: string): Partial<PageEvent> & Pick<PageEvent, "approvalId"> => ({ approvalId: id, status: "denied", decision: "deny", terminalReason: "taken-back", ts: 3000 });
  const model = new Approvals();
  for (const id of ["a", "b", "c"]) model.take({ ...asked(id), startDelayMs: 5000 });
  model.resolved({ approvalId: "a", status: "allowed", decision: "allow-once", ts: 1000 });
  assert.equal(entry(model, "a").approval.startsAtMs, 6000, "the event has no such member");
  model.resolved(takenBack("a"));
  assert.equal(entry(model, "a").approval.terminalReason, "taken-back");
  // The answer to ours is slower than both events.
  model.sending("b", "allow-once");
  model.resolved({ approvalId: "b", status: "allowed", decision: "allow-once", ts: 1000 });
  model.resolved(takenBack("b"));
  model.answered("b", { applied: true, approval: allowed("b") });
  assert.equal(entry(model, "b").approval.status, "denied");
  model.resolved({ approvalId: "c", status: "denied", decision: "deny", ts: 1000 });
  model.resolved(takenBack("c"));
  assert.equal(entry(model, "c").approval.terminalReason, undefined, "it was denied before");
  assert.equal(words.outcome(entry(model, "a").approval).title, "Allowed, and taken back by an unknown person before it started");
});

test("a lost answer is asked for again, or shown as it ended", () => {
  const model = new Approvals();
  for (const id of ["a", "b", "c"]) {
    model.take(asked(id));
    model.sending(id, "deny");
  }
  model.lookedAt("a", "again", asked("a"));
  assert.deepEqual([entry(model, "a").phase, entry(model, "a").problem], ["pending", "again"]);
  model.lookedAt("b", "again", denied("b"));
  assert.deepEqual([entry(model, "b").phase, entry(model, "b").mine], ["settled", undefined]);
  model.refused("c", "no", denied("c"));
  assert.deepEqual([entry(model, "c").phase, entry(model, "c").mine], ["settled", false]);
});

test("one answer of several leaves the request waiting, and later news wins", () => {
  const vote = { by: { kind: "token", id: "ann", name: "ann" }, decision: "allow-once", atMs: 1 } as const;
  const several = (id: string, votes?: NonNullable<Approval["votes"]>): Approval => ({ ...asked(id), approvalsRequired: 2, ...(votes && { votes }) });
  const model = new Approvals();
  model.take(several("a"));
  assert.equal(words.progress(entry(model, "a").approval), "Allowed by 0 of 2");
  model.sending("a", "allow-once");
  model.answered("a", { applied: true, approval: several("a", [vote]) });
  assert.deepEqual([entry(model, "a").phase, entry(model, "a").voted], ["pending", true]);
  assert.equal(words.progress(model.take(several("a"))?.approval ?? several("a")), "Allowed by 1 of 2: ann (API token)", "an older list takes no vote away");
  assert.ok(model.sending("a", "deny"), "a no is still open");
  model.answered("a", { applied: true, approval: denied("a") });
  assert.equal(entry(model, "a").phase, "settled");

  model.take(several("b"));
  model.take(several("b", [vote]));
  assert.equal(words.progress(entry(model, "b").approval), "Allowed by 1 of 2: ann (API token)");
  model.sending("b", "allow-once");
  model.resolved({ approvalId: "b", status: "allowed", decision: "allow-once" });
  model.answered("b", { applied: true, approval: several("b", [vote]) });
  assert.deepEqual([entry(model, "b").phase, entry(model, "b").mine], ["settled", false]);
});

test("who may allow is said only where not everybody may", () => {
  assert.equal(words.progress({ approvalsRequired: 1 }), "");
  assert.equal(words.entitled({}), "");
  assert.equal(words.entitled({ groups: ["ops", "sre"] }), "approvers of ops, sre");
  assert.match(words.entitled({ groups: [] }), /^nobody/);
});

test("oldest first, and a whole list shows what has gone", () => {
  const model = new Approvals();
  for (const [id, at] of [["b", 2], ["a", 2], ["c", 1]] as const) model.take(asked(id, at));
  assert.deepEqual(model.waiting.sort(inOrder).map(({ approval }) => approval.id), ["c", "a", "b"]);
  assert.deepEqual(model.missing([asked("a"), asked("c")]), ["b"]);
  assert.equal(model.ran("run-b", { status: "running" })?.run?.status, "running");
  assert.equal(model.ran("run-x", {}), undefined);
});

test("events are read however they are cut", () => {
  const whole = ": hello\n\nid: 7\nevent: exec.started\ndata: {\"a\":\ndata: 1}\n\n:\n\ndata:x\n\nid: 8\n\n";
  for (const size of [1, 2, 7, whole.length]) {
    const events: StreamEvent[] = [];
    const feed = reader((event) => events.push(event));
    for (let at = 0; at < whole.length; at += size) feed(whole.slice(at, at + size));
    assert.deepEqual(events, [{ id: "7", type: "exec.started", data: "{\"a\":\n1}" }, { id: undefined, type: "message", data: "x" }]);
  }
});

test("every level of trust has a sentence, and what is unknown is no praise", () => {
  for (const level of ["separate-user", "confined", "same-user", "sandbox", "node"]) assert.match(trust(level).sentence, /^Commands run /);
  assert.equal(trust("same-user").tone, "warn");
  assert.equal(trust("constructor").tone, "warn");
  assert.equal(trust("new-level").tone, "warn");
});

test("an end says who, and that it was you only when that is known", () => {
  const title = (mine: boolean | undefined) => words.outcome(denied("a"), mine).title;
  assert.deepEqual([true, false, undefined].map(title), ["Denied by you", "Denied by ann (API token)", "Denied by ann (API token)"]);
  assert.equal(words.outcome({ status: "expired", terminalReason: "timeout" }).title, "Expired");
  const byRule: words.Ended = { status: "allowed", decision: "allow-once", terminalReason: "rule", resolvedBy: { kind: "system", id: "rule", name: "rule /bin/x, set by ann" } };
  assert.equal(words.outcome(byRule).title, "Allowed by your rule");
  assert.match(words.outcome(byRule).detail, /rule \/bin\/x, set by ann/);
  assert.equal(words.outcome({ ...byRule, status: "denied", decision: "deny" }).title, "Denied by your rule");
});

test("a change is asked about exactly when it allows more", () => {
  const orders = { security: ["deny", "allowlist", "full"], ask: ["always", "on-miss", "off"], askFallback: ["deny", "allowlist", "full"] };
  for (const [setting, values] of Object.entries(orders)) {
    values.forEach((was, before) => values.forEach((is, after) => {
      const sentence = widening.newlyAllowed(setting, "agent build", was, is);
      assert.equal(sentence !== undefined, after > before, `${setting}: ${was} to ${is}`);
      if (sentence) assert.match(sentence, /agent build/);
    }));
  }
  const host = (was: string, is: string) => widening.newlyAllowed("host", "all agents", was, is);
  for (const was of ["sandbox", "gateway", "node", "auto"]) {
    assert.equal(host(was, "sandbox"), undefined);
    for (const is of ["gateway", "node", "auto"]) assert.equal(host(was, is) !== undefined, was !== is, `${was} to ${is}`);
  }
  const node = (was: string, is: string | undefined, said?: string) => widening.newlyAllowed("node", "agent build", was, is, said);
  assert.equal(node("a", "a"), undefined);
  assert.match(node("a", "b", "attic") ?? "", /go to attic\.$/);
  assert.match(node("a", undefined) ?? "", /any of them\.$/);
  assert.match(widening.entryAllows("agent build", { pattern: "*" }), /every program, with any arguments/);
  assert.match(widening.entryAllows("all agents", { pattern: "/bin/ls", argPattern: "^-l$" }), /\/bin\/ls covers, with arguments like \^-l\$/);
});

/** A looker whose looks end when the test says so. */
function looking(isFinal: (error: unknown) => boolean = () => false) {
  const looks: { answer: (value?: unknown) => void; refuse: (error: unknown) => void }[] = [];
  const story: unknown[] = [];
  let isOver = false;
  const hint = createLooker(
    () => new Promise((answer, refuse) => looks.push({ answer, refuse })),
    5,
    {
      seen: () => story.push("seen"),
      isOver: () => isOver,
      failed: (error) => {
        story.push(error);
        return isFinal(error);
      },
    },
  );
  return { looks, story, hint, end: () => (isOver = true) };
}

test("many hints make one look, and one look goes on at a time", async () => {
  vi.useFakeTimers();
  const { looks, story, hint } = looking();
  for (let hints = 0; hints < 3; hints += 1) hint();
  await vi.advanceTimersByTimeAsync(5);
  assert.equal(looks.length, 1);
  // What changed after it was asked may not be in its answer.
  hint();
  await vi.advanceTimersByTimeAsync(60_000);
  assert.equal(looks.length, 1);
  looks[0]?.answer();
  await vi.advanceTimersByTimeAsync(5);
  assert.equal(looks.length, 2);
  looks[1]?.answer();
  await vi.advanceTimersByTimeAsync(60_000);
  assert.deepEqual([looks.length, story], [2, ["seen", "seen"]]);
});

test("a look without an answer is made again, one that was refused is not, and none when it is over", async () => {
  vi.useFakeTimers();
  const { looks, story, hint, end } = looking((error) => error === "refused");
  hint();
  await vi.advanceTimersByTimeAsync(5);
  looks[0]?.refuse("no network");
  await vi.advanceTimersByTimeAsync(1499);
  assert.equal(looks.length, 1);
  await vi.advanceTimersByTimeAsync(1);
  looks[1]?.refuse("refused");
  await vi.advanceTimersByTimeAsync(60_000);
  assert.deepEqual([looks.length, story], [2, ["no network", "refused"]]);
  hint();
  end();
  await vi.advanceTimersByTimeAsync(60_000);
  assert.equal(looks.length, 2);
});

test("fragments become sentences, and sentences stay", () => {
  assert.deepEqual(["it was not possible", "Fine.", "", "a rule (children)", "été", undefined].map(sentence), ["It was not possible.", "Fine.", "", "A rule (children)", "Été.", ""]);
});
