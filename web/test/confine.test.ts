// What an allowlist entry lets its program do, from the fields of the form.

import assert from "node:assert/strict";
import { test } from "vitest";
import { confineLine, confineOf, NoConfine } from "../src/pure/confine.ts";

const written = (starts: string, writes = "", connects = "") => confineOf({ starts, writes, connects });

test("fields that say nothing are left out", () => {
  assert.equal(written("", " , ", ""), undefined);
  assert.deepEqual(written("judged, ssh"), { starts: ["judged", "ssh"] });
  assert.deepEqual(written("nothing", "workspace,tmp", "22, 443"), { starts: [], writes: ["workspace", "tmp"], connects: [22, 443] });
  assert.deepEqual(written("any", "any", "any"), { starts: "any", writes: "any", connects: "any" });
});

test("what is no port is refused with words", () => {
  for (const text of ["0", "65536", "http", "-1", "22.5", "1e3", "22,x"]) assert.throws(() => written("", "", text), NoConfine, text);
  assert.deepEqual(written("", "", "65535"), { connects: [65_535] });
});

test("a line says what an entry has, whatever another program wrote there", () => {
  assert.equal(confineLine({ connects: [22], starts: [], writes: "any" }), "connects 22; starts nothing; writes any");
  assert.equal(confineLine({ reads: { a: 1 } }), 'reads {"a":1}');
  assert.equal(confineLine(["x"]), '["x"]');
});
