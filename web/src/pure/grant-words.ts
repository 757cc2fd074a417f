// Answers of the right width in words: the choices, and what an answer stores before it is stored. Pure.

import type { Approval, Pattern, Proposal } from "../api/types.ts";
import { baseName, calls } from "./facts.ts";
import type { After, Narrowing } from "./grant.ts";

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** For how long an answer can be in effect. */
export const SPANS = ["ever", "hour", "today", "week"] as const;
export type Span = (typeof SPANS)[number];

export const SPAN_WORDS: Record<Span, string> = { ever: "for good", hour: "for an hour", today: "until midnight", week: "for 7 days" };

/** How often an answer can be used; the run that is asked about is the first. */
export const USES = [2, 3, 5, 10, 50] as const;

/** When a span that begins now ends. */
export function endOf(span: Span, nowMs: number): number | undefined {
  switch (span) {
    case "ever":
      return undefined;
    case "hour":
      return nowMs + HOUR_MS;
    case "week":
      return nowMs + 7 * 24 * HOUR_MS;
    case "today": {
      const midnight = new Date(nowMs);
      midnight.setHours(24, 0, 0, 0);
      return midnight.getTime();
    }
  }
}

const isText = ({ pattern }: Pattern): boolean => pattern.startsWith("=command:");

/** Why a proposal cannot be narrowed; nothing where it can. */
export function whyNotNarrower({ host }: Pick<Approval, "host">, { stores }: Proposal): string {
  if (host === "node") return "The node stores this in its own document, which knows no limits.";
  return stores.some(isText) ? "A rule for an exact text has no limits." : "";
}

/** Whether a proposal covers programs in any directory, so that a directory narrows it. */
export const isInAnyDirectory = ({ stores }: Proposal): boolean => stores.some(({ width, limits }) => width === "program" && !limits?.directory);

/** The directory of a request and those above it, the root left out: a rule for all of a machine is the proposal itself. */
export function directoriesOf(cwd: string): string[] {
  const parts = cwd.split("/").filter(Boolean);
  return parts.map((_part, at) => `/${parts.slice(0, parts.length - at).join("/")}`);
}

/** One entry as it is stored. */
export interface Stored {
  pattern: string;
  /** What of the arguments it covers, in words; `argv` are the arguments themselves where it covers exactly them. */
  argumentsWords: string;
  argv: string[] | undefined;
  /** Where its program has to start; nothing for anywhere. */
  directory: string | undefined;
  untilMs: number | undefined;
  uses: number | undefined;
  session: string | undefined;
  /** Whether anything limits it, so that it stands beside the allowlist. */
  isGrant: boolean;
  note: string | undefined;
}

/** The entries that an answer stores. */
export function storedOf(approval: Approval, { stores }: Proposal, narrowed: Narrowing): Stored[] {
  return stores.map((pattern) => {
    const limits = pattern.limits ?? {};
    const isExact = pattern.width === "exact" && !isText(pattern);
    // Two ends, two numbers: the smaller one counts.
    const least = (one: number | undefined, other: number | undefined) => (one === undefined ? other : other === undefined ? one : Math.min(one, other));
    const untilMs = least(limits.expiresAtMs, narrowed.untilMs);
    const uses = least(limits.maxUses, narrowed.uses);
    const session = narrowed.isOfSession ? approval.sessionKey : limits.sessionKey;
    const limit = limits.directory ?? narrowed.directory;
    return {
      pattern: isText(pattern) ? "exactly this text" : pattern.pattern,
      argumentsWords: isText(pattern) ? "" : isExact ? "exactly these arguments" : pattern.width === "arguments" ? "arguments of this form" : "any arguments",
      argv: isExact ? argvOf(approval, pattern) : pattern.shape !== undefined ? [pattern.shape] : undefined,
      directory: isExact ? approval.boundTo.cwd : limit === undefined ? undefined : limit,
      untilMs,
      uses,
      session,
      isGrant: untilMs !== undefined || uses !== undefined || session !== undefined || limit !== undefined,
      note: pattern.note,
    };
  });
}

/** The call that an exact entry is about; behind a wrapper its own arguments are not told apart. */
function argvOf({ segments }: Approval, { segment, pattern }: Pattern): string[] | undefined {
  const inside = segments[segment];
  const call = inside && calls([inside]).find(({ resolvedPath, segments: inner }) => resolvedPath === pattern && !inner?.length);
  return call?.wrappers.length === 0 ? call.argv : undefined;
}

/** Programs that run what they are given. */
const SHELLS = new Set(["sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "pwsh"]);

/** Why nothing can be remembered of a request, in a sentence. */
export const whyNoAlways = (approval: Parameters<typeof noAlwaysReason>[0]): string => `“Always” is unavailable: ${noAlwaysReason(approval)}.`;

/** The reason for that alone. */
export function noAlwaysReason({ ask, envOmitted = 0, envValues = {}, why, segments }: Pick<Approval, "ask" | "envOmitted" | "envValues" | "why" | "segments">): string {
  if (envOmitted > 0) return "it sets more variables than can be shown";
  if (ask === "always") return "policy asks every time";
  if (why.detail !== "no entry covers this") return why.detail;
  // The server names the values of those variables alone that could decide what runs.
  const [variable] = Object.keys(envValues);
  if (variable !== undefined) return `it sets ${variable}, which could decide what runs`;
  const all = calls(segments);
  const noted = all.find(({ notes }) => notes.length > 0);
  if (noted) return `${baseName(noted.executable)}: ${noted.notes[0]}`;
  const shell = all.find(({ executable, segments: inner }) => SHELLS.has(baseName(executable)) && !inner?.length);
  if (shell) return `${baseName(shell.executable)} runs whatever it is given`;
  return "no rule about these programs is narrow enough to be safe";
}

/** What a proposal would have saved, in a sentence; nothing where that is unknown. */
export function coveredWords({ wouldHaveCovered }: Proposal): string {
  if (!wouldHaveCovered || !wouldHaveCovered.of) return "";
  const { covered, of } = wouldHaveCovered;
  return of === 1 ? `would ${covered ? "" : "not "}have covered the last question` : `would have covered ${covered} of the last ${of} questions`;
}

export const AFTER_WORDS: Record<After, string> = { ask: "ask again", "mute-30": "mute for 30 min", "mute-60": "mute for 1 h", never: "never again", "agent-30": "mute the agent for 30 min", "agent-60": "mute the agent for 1 h" };

/** When a mute that begins now ends. */
export function muteEnd(after: After, nowMs: number): number | undefined {
  return after.endsWith("-30") ? nowMs + 30 * MINUTE_MS : after.endsWith("-60") ? nowMs + HOUR_MS : undefined;
}
