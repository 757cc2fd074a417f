// How one command became another.

import assert from "node:assert/strict";
import { test } from "vitest";
import { type Change, diff } from "../src/pure/diff.ts";

const joined = (changes: readonly Change[], ...kinds: Change["kind"][]) => changes.filter(({ kind }) => kinds.includes(kind)).map(({ text }) => text).join("");

test("words that changed are told apart from those that stay", () => {
  const said = (before: string, after: string) => diff(before, after).map(({ kind, text }) => `${{ same: " ", gone: "-", new: "+" }[kind]}${text}`);
  assert.deepEqual(said("git push origin main", "git push origin staging"), [" git push origin ", "-main", "+staging"]);
  assert.deepEqual(said("rm -rf build", "rm -rf build"), [" rm -rf build"]);
  assert.deepEqual(said("ls", "ls -l"), [" ls", "+ -l"]);
  assert.deepEqual(said("sudo ls", "ls"), ["-sudo ", " ls"]);
  assert.deepEqual(said("", "ls"), ["+ls"]);
  assert.deepEqual(said("", ""), []);
});

test("both texts can be put together again, whatever is in them", () => {
  // A generator with a seed: the same texts each time.
  let seed = 7;
  const next = (most: number) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return seed % most;
  };
  const parts = ["a", "b", " ", "\n", "--", "ß", "😀", "\u202e", "git", "x1", "'"];
  const text = () => Array.from({ length: next(30) }, () => parts[next(parts.length)]).join("");
  for (let round = 0; round < 500; round += 1) {
    const [before, after] = [text(), text()];
    const changes = diff(before, after);
    assert.equal(joined(changes, "same", "gone"), before);
    assert.equal(joined(changes, "same", "new"), after);
  }
});

test("texts that are long and unlike are still told quickly", () => {
  const before = Array.from({ length: 5000 }, (_none, at) => `a${at}`).join(" ");
  const after = Array.from({ length: 5000 }, (_none, at) => `b${at}`).join(" ");
  const changes = diff(`x ${before} y`, `x ${after} y`);
  assert.equal(joined(changes, "same", "gone"), `x ${before} y`);
  assert.equal(joined(changes, "same", "new"), `x ${after} y`);
});
