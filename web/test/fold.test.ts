// A long command is folded with its beginning and its end, and nothing of it is lost.

import assert from "node:assert/strict";
import { test } from "vitest";
import { folded, MOST_LINES } from "../src/pure/fold.ts";
import { joined, marked, pieces } from "../src/pure/text.ts";

const fold = (command: string, spans: number[][] = []) => folded(marked(pieces(command), spans));

test("what is short is not folded", () => {
  for (const command of ["", "ls", "a\n".repeat(MOST_LINES - 1), "x".repeat(90 * MOST_LINES)]) {
    const { hidden, lines, head } = fold(command);
    assert.deepEqual([hidden.length, lines], [0, 0], command.slice(0, 20));
    assert.equal(joined(head), joined(pieces(command)));
  }
});

test("the beginning and the end are shown, and together with the rest they are everything", () => {
  const commands = [
    `${Array.from({ length: 40 }, (_line, at) => `echo ${at}`).join("\n")}\nrm -rf /tmp/x`,
    `start ${"y".repeat(5000)} end`,
    `a${" ".repeat(400)}\u202eb\n`.repeat(20),
    "😀é".repeat(2000),
  ];
  for (const command of commands) {
    const { head, hidden, tail, lines } = fold(command, [[0, 5], [40, 90]]);
    assert.ok(hidden.length > 0 && lines > 0);
    assert.equal(joined([...head, ...hidden, ...tail]), joined(pieces(command)));
    assert.ok(joined(pieces(command)).endsWith(joined(tail)) && tail.length > 0);
    assert.ok(head.length > 0);
  }
  const { tail, lines } = fold(commands[0] ?? "");
  assert.ok(joined(tail).endsWith("rm -rf /tmp/x"));
  assert.equal(lines, 41 - 10);
});
