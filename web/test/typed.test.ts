// What is sent to a process session, and its output as text.

import assert from "node:assert/strict";
import { test } from "vitest";
import { visibleOutput } from "../src/pure/text.ts";
import { keysOf, line, raw, refusal, terminalText } from "../src/pure/typed.ts";

test("a line ends as the session takes it, and a text is sent as it is", () => {
  assert.deepEqual(line("yes", { pty: false }), { action: "write", data: "yes\n" });
  assert.deepEqual(line("yes", { pty: true }), { action: "send-keys", literal: "yes", keys: ["Enter"] });
  assert.deepEqual(line("", { pty: true }), { action: "send-keys", keys: ["Enter"] });
  assert.deepEqual(raw("no newline"), { action: "write", data: "no newline" });
});

test("only a terminal has keys, and a pipe can be closed", () => {
  const titles = (pty: boolean) => keysOf({ pty }).map(({ title }) => title);
  assert.deepEqual(titles(true), ["Enter", "Ctrl-C", "Ctrl-D", "Tab", "Esc", "↑", "↓", "←", "→"]);
  assert.deepEqual(titles(false), ["Enter", "End of input"]);
  assert.deepEqual(keysOf({ pty: false })[1]?.send, { action: "write", eof: true });
  assert.deepEqual(keysOf({ pty: true })[1]?.send, { action: "send-keys", keys: ["C-c"] });
});

test("each refusal says that nothing was sent, and one that is not known says why", () => {
  for (const code of ["session-ended", "input-closed", "not-found", "forbidden", "tool-denied", "overloaded"]) {
    assert.match(refusal(code, "x"), /[Nn]othing (was|can be) sent/, code);
  }
  assert.equal(refusal("constructor", "odd"), "odd. Nothing was sent.");
});

test("the text of a terminal is left without its sequences, however it is cut", () => {
  const written = "\u001b]0;title\u0007one\u001b[1;31mred\u001b[0m\r\ntwo\u001b(B\u001b[2J\u0007\rthree\u001bPstring\u001b\\ end";
  const expected = "onered\ntwo\nthree end";
  for (let at = 0; at <= written.length; at += 1) {
    const text = terminalText();
    assert.equal(text(written.slice(0, at)) + text(written.slice(at)), expected, String(at));
  }
  const each = terminalText();
  assert.equal([...written].map((one) => each(one)).join(""), expected);
});

test("a sequence that never ends hides nothing for ever, and no escape is left unseen", () => {
  const text = terminalText();
  const endless = `\u001b]0;${"x".repeat(5000)}`;
  const shown = visibleOutput(text(endless));
  assert.ok(shown.includes("\\u{1B}") && shown.includes("xxx"), shown.slice(0, 40));
  assert.equal(text("after"), "after");
});
