import { expect, test } from "vitest";
import { saved, stillHelps, suggested, type Suggestion } from "../src/pure/suggest.ts";

type Answered = Parameters<typeof suggested>[0][number];
const NO_ENV = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945";

function answered(command: string, more: Partial<Answered> = {}): Answered {
  const exact = { segment: 0, pattern: "/bin/x", argPattern: `sha256:cwd-argv:v1:${command}`, width: "exact", default: true };
  return { agentId: "main", host: "gateway", command, cwd: "/srv", approvalsRequired: 1, proposedPatterns: [exact], boundTo: { digest: "", envHash: NO_ENV, argv: command.split(" ") }, ...more } as Answered;
}
const times = (count: number, one: Answered): Answered[] => new Array<Answered>(count).fill(one);
const names = (all: Suggestion[]) => all.map(({ command, count }) => `${command} ${count}`);

test("what was allowed often enough is suggested, the most first", () => {
  const allowed = [...times(3, answered("make test")), ...times(5, answered("git push")), ...times(2, answered("date"))];
  expect(names(suggested(allowed, [], 3))).toEqual(["git push 5", "make test 3"]);
});

test("what a person ever denied is not, as a text or as an entry", () => {
  const allowed = [...times(3, answered("make test")), ...times(3, answered("git push"))];
  expect(names(suggested(allowed, [answered("git push", { proposedPatterns: [] })], 3))).toEqual(["make test 3"]);
  const other = answered("another way", { proposedPatterns: answered("make test").proposedPatterns });
  expect(names(suggested(allowed, [other], 3))).toEqual(["git push 3"]);
});

test("an entry answers for nobody but the one person, and for nothing but this machine and its own variables", () => {
  for (const more of [{ approvalsRequired: 2 }, { groups: ["ops"] }, { host: "node" }, { boundTo: { digest: "", envHash: "other" } }, { command: "x".repeat(5000) }] as Partial<Answered>[]) {
    expect(suggested(times(3, answered("make test", more)), [], 3)).toEqual([]);
  }
});

test("nothing wider than the exact entry is suggested", () => {
  const [exact] = answered("make test").proposedPatterns;
  if (!exact) throw new Error("no pattern");
  const of = (change: object) => suggested(times(3, answered("make test", { proposedPatterns: [{ ...exact, ...change }] })), [], 3);
  expect(of({})).toHaveLength(1);
  for (const change of [{ width: "arguments" }, { default: false }, { argPattern: undefined }, { argPattern: "^test$" }, { pattern: "=command:1" }]) expect(of(change)).toEqual([]);
});

test("an entry helps while it is what an answer would store now", () => {
  const [one] = suggested(times(3, answered("make test")), [], 3);
  if (!one) throw new Error("nothing");
  const wouldPersist = answered("make test").proposedPatterns;
  expect(stillHelps(one, { wouldPersist })).toBe(true);
  expect(stillHelps(one, { wouldPersist: [] })).toBe(false);
  expect(stillHelps(one, { wouldPersist, approvalsRequired: 2 })).toBe(false);
  expect(stillHelps(one, { wouldPersist, groups: ["ops"] })).toBe(false);
});

test("what they save is said for each day, or for all days where that is less than one", () => {
  const of = (count: number) => ({ count }) as Suggestion;
  expect(saved([of(900), of(210)], 30)).toBe("These 2 entries would save 37 questions a day.");
  expect(saved([of(9)], 30)).toBe("This entry would have saved 9 questions in the last 30 days.");
});
