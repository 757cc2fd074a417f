// What is known about a request that a person should see before they answer. Pure, and only from what the analysis and the
// record know: where nothing is found, that is said, and it is not called safe.

import type { Approval, Segment, SessionOverrides } from "../api/types.ts";
import { mixedWords } from "./text.ts";
import { overridden } from "./words.ts";

/** One fact; `isMissing`: it will fail as it stands. */
export interface Fact {
  code: string;
  text: string;
}

/** What is known of the agent's past with this command; undefined while that is unknown. */
export interface Past {
  runsBefore: number | undefined;
  overrides: Partial<SessionOverrides> | undefined;
}

/** Programs that run another one with more rights, or as another user. */
const OTHER_RIGHTS = new Set(["sudo", "doas", "su", "pkexec", "runuser", "setpriv", "run0"]);

/** Programs that bring what another machine sends. */
const FETCHERS = new Set("curl wget fetch http https xh aria2c nc ncat netcat socat ssh ftp lftp lynx w3m".split(" "));

/** Every program call of a command, those inside shell texts too. */
export function calls(segments: readonly Segment[]): Segment[] {
  return segments.flatMap((segment) => [segment, ...calls(segment.segments ?? [])]);
}

/** The last part of a path. */
export const baseName = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

/** The programs of a request, by name, without repetition. */
export function programs({ segments, boundTo }: Approval): string[] {
  const names = calls(segments).map(({ executable }) => baseName(executable));
  const found = names.length ? names : [baseName(boundTo.argv?.[0] ?? boundTo.shell ?? "")];
  return [...new Set(found.filter(Boolean))];
}

/**
 * Where the code comes from that a part of a command reads from a pipe: a program that fetches it, "" for any other, and
 * undefined where no part reads any. `before`: what fills the pipe of the first segment.
 */
function piped(segments: readonly Segment[], before: readonly string[] = []): string | undefined {
  let sources = before;
  let found: string | undefined;
  for (const { executable, operator, runsPipe, segments: inner = [] } of segments) {
    if (operator && operator !== "|" && operator !== "|&") sources = [];
    const from = runsPipe ? sources.find((name) => FETCHERS.has(name)) ?? "" : piped(inner, sources);
    found = found || from;
    sources = [...sources, baseName(executable)];
  }
  return found;
}

/** The facts of a request, the gravest first. */
export function factsOf(approval: Approval, past: Past): Fact[] {
  const { segments, boundTo, envNames, input } = approval;
  const all = calls(segments);
  const found: Fact[] = [];
  const add = (isSo: boolean, code: string, text: string) => isSo && found.push({ code, text });

  const missing = all.filter((call) => !call.resolvedPath && !call.segments?.length && call.match.kind !== "builtin");
  add(missing.length > 0, "missing", missing.length === 1 ? `program not found: ${missing[0]?.executable ?? ""}` : `${missing.length} programs not found`);
  add(all.some(({ match }) => match.kind === "denylist"), "denied", "matches a deny rule");
  const source = piped(segments);
  add(Boolean(source), "network", `runs what ${source} brings from the network`);
  add(source === "", "pipe", "runs what another command prints");
  const near = all.find(({ nearDenyRule }) => nearDenyRule)?.nearDenyRule;
  add(near !== undefined, "near", `near the deny rule ${near}`);
  const raising = all.flatMap(({ executable, wrappers }) => [executable, ...wrappers.map(({ name }) => name)]).map(baseName).find((name) => OTHER_RIGHTS.has(name));
  add(raising !== undefined, "rights", `runs with other rights (${raising ?? ""})`);
  add(!segments.length && !boundTo.argv, "text", "too complex to analyse");
  add(all.some(({ segments: inner }) => (inner?.length ?? 0) > 0), "payload", "a shell text inside");
  add(all.some(({ inlineEval }) => inlineEval === true), "inline", "code inside the command");
  add(input !== undefined && input !== "withheld", "input", "input stays open");
  add(approval.outsideWorkspace === true, "outside", "outside the workspace");
  add(envNames.length > 0, "variables", envNames.length === 1 ? "sets a variable" : `sets ${envNames.length + (approval.envOmitted ?? 0)} variables`);
  const overrides = past.overrides && overridden(past.overrides);
  add(Boolean(overrides), "session", "session overrides policy");
  add(past.runsBefore === 0, "first", "has not run for this agent before");
  add(approval.scripts !== undefined && approval.scripts !== "held", "script", "a script can change before it runs");
  add(approval.binding !== "exact", "pinned", approval.binding === "text" ? "programs are found at run time" : "a program is looked up again at run time");
  const isFree = approval.host === "gateway" && (!approval.confinement || approval.confinement.programs.some(({ starts }) => starts === undefined));
  add(isFree, "starts", "may start anything");
  add(approval.display.warnings.some(({ code }) => !["input-open", "secrets-masked"].includes(code)) || mixedWords(approval.command).length > 0, "display", "unusual characters");
  add(approval.approvalsRequired > 1, "people", `needs ${approval.approvalsRequired} people`);
  return found;
}

/** Facts that say nothing of what the command may do: with them alone the answer needs no more thought than without. */
const NEUTRAL = new Set(["people"]);

/** Whether a request is plain: it was taken apart, everything about it is known, and no fact applies. */
export function isPlain(approval: Approval, past: Past): boolean {
  const isKnown = past.runsBefore !== undefined && past.overrides !== undefined;
  const isTakenApart = approval.segments.length > 0 || Boolean(approval.boundTo.argv && approval.resolvedPath);
  return isKnown && isTakenApart && factsOf(approval, past).every(({ code }) => NEUTRAL.has(code));
}

const alike = new WeakMap<Approval, string>();

/**
 * The same for two requests that are alike: of one agent, on one host, with the same programs and the same variables. The hash covers
 * the values that are masked or not shown, too.
 */
export function alikeKey(approval: Approval): string {
  let key = alike.get(approval);
  if (key === undefined) {
    const { agentId, host, envNames, envValues = {}, envOmitted = 0, boundTo } = approval;
    key = JSON.stringify([agentId, host, programs(approval), envNames, envNames.map((name) => (Object.hasOwn(envValues, name) ? envValues[name] : null)), envOmitted, boundTo.envHash]);
    alike.set(approval, key);
  }
  return key;
}

/** Whether two requests are alike. */
export const areAlike = (one: Approval, other: Approval): boolean => alikeKey(one) === alikeKey(other);

/** Whether a request matches every word of a filter: `agent:build`, `host:node`, or any text of it. */
export function matches(approval: Approval, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return true;
  const all = [approval.agentId, approval.cwd, approval.command, approval.sessionKey].join("\n").toLowerCase();
  return words.every((word) => {
    if (word.startsWith("agent:")) return approval.agentId.toLowerCase() === word.slice("agent:".length);
    if (word.startsWith("host:")) return approval.host.toLowerCase() === word.slice("host:".length);
    return all.includes(word);
  });
}
