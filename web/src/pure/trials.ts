// What trials of a policy came to, in sentences. Pure.

import type { Backtest, ChangedCommand, TestedPolicy } from "../api/types.ts";
import type { Tone } from "./words.ts";

const number = (count: number): string => count.toLocaleString("en");
const runs = (count: number): string => (count === 1 ? "1 run" : `${number(count)} runs`);

/** How many cases went as expected. */
export function tested({ total, passed }: TestedPolicy): { tone: Tone; text: string } {
  return passed === total
    ? { tone: "good", text: total === 1 ? "The case is as expected" : `All ${number(total)} cases are as expected` }
    : { tone: "bad", text: `${number(total - passed)} of ${number(total)} cases ${total - passed === 1 ? "is" : "are"} not as expected` };
}

/** How many runs would be decided differently, and how; what loosens comes first. */
export function changedBy({ total, same, nowRun, nowAsk, nowDenied, widerFallback, skipped }: Backtest): { tone: Tone; text: string; parts: string[] } {
  const parts = [
    nowRun > 0 && `${runs(nowRun)} would run without a question`,
    widerFallback > 0 && `${runs(widerFallback)} would need approval, and run without an answer`,
    nowAsk > 0 && `${runs(nowAsk)} would need approval`,
    nowDenied > 0 && `${runs(nowDenied)} would be denied`,
  ].filter((part) => part !== false);
  const left = skipped > 0 ? ` ${runs(skipped)} could not be judged again.` : "";
  if (total === 0) return { tone: "dull", text: "There are no runs in that time. Look further back.", parts };
  if (!parts.length) return { tone: "good", text: `${same === 1 ? "1 run was" : `${number(same)} runs were`} judged again, and nothing would be decided differently.${left}`, parts };
  return { tone: nowRun + widerFallback > 0 ? "warn" : "live", text: `${number(total - same - skipped)} of ${runs(total)} would be decided differently.${left}`, parts };
}

const WORDS: Readonly<Record<string, string>> = { run: "runs", ask: "needs approval", deny: "is denied", allow: "allow", reject: "reject" };
const word = (verdict: string): string => (Object.hasOwn(WORDS, verdict) ? (WORDS[verdict] ?? verdict) : verdict);

/** What was decided about a command, and what would be. */
export const verdicts = ({ then: was, now }: Pick<ChangedCommand, "then" | "now">): string => (was === now ? `${word(now)}, by a wider fallback` : `${word(was)} → ${word(now)}`);

const SKIPPED: Readonly<Record<string, string>> = {
  "other-host": "on a node or in a sandbox",
  patch: "patches",
  directory: "their directory is gone",
  "not-of-policy": "something other than policy refused them",
  "no-text": "the record does not have their words",
  undecided: "nothing was decided about them",
  unreadable: "of another form",
};

/** Why runs could not be judged, with how many. */
export const skippedBecause = (by: Readonly<Record<string, number>>): string[] =>
  Object.entries(by).map(([code, count]) => `${number(count)}: ${Object.hasOwn(SKIPPED, code) ? SKIPPED[code] : code}`);
