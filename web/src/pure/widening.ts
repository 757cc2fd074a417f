// What a change of policy newly allows, in words. Pure: the page asks once more before it sends such a change.

import { confineLine } from "./confine.ts";

type Value = string | undefined;

// From the strictest to the weakest.
const SECURITY = ["deny", "allowlist", "full"];
const ASK = ["always", "on-miss", "off"];

const weaker = (order: readonly string[], was: Value, is: Value) => order.indexOf(is ?? "") > order.indexOf(was ?? "");

const HOSTS: Record<string, string> = {
  gateway: "run on this server's own machine",
  node: "run on another machine, a node",
  auto: "run in a sandbox where there is one, else on this server's own machine",
};

type Sentence = (who: string, was: Value, is: Value, words?: string) => string | undefined;

const SENTENCES: Record<string, Sentence> = {
  security(who, was, is) {
    if (!weaker(SECURITY, was, is)) return undefined;
    return is === "full"
      ? `Every command of ${who} may run, whether the allowlist covers it or not.`
      : `Commands of ${who} may run where the allowlist covers them, or a person allows them.`;
  },
  ask(who, was, is) {
    if (!weaker(ASK, was, is)) return undefined;
    return is === "off"
      ? `Nobody will be asked any more about commands of ${who}.`
      : `Nobody will be asked any more about commands of ${who} that the allowlist covers.`;
  },
  askFallback(who, was, is) {
    if (!weaker(SECURITY, was, is)) return undefined;
    return is === "full"
      ? `When nobody answers, commands of ${who} run all the same.`
      : `When nobody answers, commands of ${who} run where the allowlist covers them.`;
  },
  // What another place allows cannot be compared: every change of it is asked about, but for the way into the sandbox.
  host: (who, _was, is) => (is === "sandbox" ? undefined : `Commands of ${who} ${HOSTS[is ?? ""]}.`),
  node: (who, _was, is, words = is) =>
    is === undefined
      ? `Commands of ${who} are bound to no node any more: each may name any of them.`
      : `Commands of ${who} for a node go to ${words}.`,
};

/**
 * What a setting newly allows when it goes from `was` to `is`, as a sentence; nothing when it takes away. Both are what
 * counts, whether it is written or inherited; `words` say `is` for people.
 */
export function newlyAllowed(setting: string, who: string, was: Value, is: Value, words?: string): string | undefined {
  return was === is ? undefined : SENTENCES[setting]?.(who, was, is, words);
}

/** What an allowlist entry newly allows. */
export function entryAllows(who: string, { pattern, argPattern, confine }: { pattern: string; argPattern?: string | undefined; confine?: unknown }): string {
  const what = pattern === "*" ? "every program" : `what the pattern ${pattern} covers`;
  const how = argPattern === undefined ? "with any arguments" : `with arguments like ${argPattern}`;
  const held = confine === undefined ? "" : ` What it may do is limited: ${confineLine(confine)}.`;
  return `From now on ${who} may run ${what}, ${how}: where security is allowlist, and unasked unless ask is always.${held}`;
}

/** What goes with a deny rule. */
export function ruleAllows(who: string, { pattern }: { pattern: string }): string {
  return `What the rule ${pattern} keeps from running may run again for ${who}, as far as policy allows it.`;
}
