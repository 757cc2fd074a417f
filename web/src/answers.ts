// Answers that need more than the first card does: one to several requests, another command, and what is taken back.

import { announce } from "./announce.ts";
import { json, Refused } from "./api/api.ts";
import type { Approval, ApprovalDecision, DecisionResult, DecisionsResult, GrantChoice, Revision } from "./api/types.ts";
import { type AnswerOptions, chooseNone, chosen, closeCard, decide, draw, focusNext, isNarrow, isOpen, listed, look, model, nextOpen, open, opened, openRow, rows, sentBlindly, unfold } from "./inbox.ts";
import { coverageOf } from "./pure/coverage.ts";
import { narrowingOf } from "./pure/grant.ts";
import { MOST_TOGETHER, rowOf } from "./pure/groups.ts";
import { outcome } from "./pure/words.ts";
import { check, gone, only } from "./shell.ts";

const JUDGED_MS = 10_000;
/** So many different requests are denied only after a second press, and share a row afterwards. */
export const MANY = 10;

let answers = 0;

/** Sends one answer to several requests, at most a hundred; each counts by itself. */
async function send(all: readonly string[], decision: "allow-once" | "deny", reason: string): Promise<void> {
  const ids = all.slice(0, MOST_TOGETHER).filter((id) => model.sending(id, decision));
  draw();
  if (!ids.length) return;
  const decisions = ids.map((id) => ({ id, decision, bindingDigest: model.entries.get(id)?.approval.boundTo.digest, ...(reason && { reason }) }));
  try {
    const { results } = await json<DecisionsResult>("POST", "/v1/approvals/decisions", { body: { decisions } });
    for (const { id, decided, problem } of results) {
      if (decided) model.answered(id, decided as DecisionResult);
      else model.refused(id, problem?.detail ?? problem?.title ?? "It was refused.", (problem as Refused["problem"] | undefined)?.approval);
    }
    const counted = results.filter(({ decided }) => decided?.applied).length;
    announce(`${counted} of ${results.length} answers count.`);
  } catch (error) {
    if (error instanceof Refused) {
      if (error.isSignedOut) await check();
      for (const id of ids) model.refused(id, error.sentence);
    } else ids.forEach(sentBlindly);
  }
}

/** What had one answer stays together. */
function number(ids: readonly string[]): void {
  answers += 1;
  for (const id of ids) {
    const entry = model.entries.get(id);
    if (entry) entry.answer = answers;
  }
}

const endedOf = (ids: readonly string[]) => ids.flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "settled");

/** Where those that share a row did not all end alike, each says how. */
function listUnlike(ids: readonly string[]): void {
  const [first = ""] = ids;
  const row = rowOf(first, rows());
  if (row && row.name !== first && new Set(endedOf(ids).map(({ approval, mine }) => outcome(approval, mine).title)).size > 1) unfold(row.name, true);
}

/** Chooses everything that waits in the list as it is filtered, as far as one answer can go to it. */
export function chooseAll(): void {
  chosen.set(new Set(listed().filter(isOpen).slice(0, MOST_TOGETHER).map(({ approval }) => approval.id)));
  if (opened.value !== undefined) focusNext.set({ id: opened.value, where: "card" });
}

/** Answers everything that is chosen. */
export async function decideChosen(ids: readonly string[], decision: "allow-once" | "deny", reason: string): Promise<void> {
  const from = opened.value;
  // A few keep their rows; many would fill the list with what is over.
  if (ids.length > MANY) number(ids);
  await send(ids, decision, reason);
  chooseNone();
  listUnlike(ids);
  if (gone.value === undefined) draw();
  // You may have gone on to another request while the answer was on its way.
  const next = opened.value === from ? rows().find(({ entries }) => entries.some(isOpen)) : undefined;
  if (next) open(next.name, isNarrow() ? "row" : "card");
}

/** Answers the requests of a group, which stay together with what became of each. */
export async function decideTogether(ids: readonly string[], decision: ApprovalDecision, { reason, ...options }: AnswerOptions): Promise<void> {
  const [first] = ids;
  if (first === undefined) return;
  number(ids);
  // What is stored goes with one answer alone. A rule that allows answers the others by itself.
  const isAlone = Object.keys(options).length > 0;
  const asked = model.entries.get(first)?.approval;
  if (isAlone) await decide(first, decision, { ...options, ...(reason && { reason }) });
  if (decision === "allow-always") {
    if (asked && options.grant && model.entries.get(first)?.phase === "settled") sayWhatStays(asked, options.grant, ids.slice(1));
  } else await send(isAlone ? ids.slice(1) : ids, decision, reason ?? "");
  if (gone.value !== undefined) return;
  const ended = endedOf(ids);
  const row = rowOf(first, rows());
  listUnlike(ids);
  draw();
  // You may have gone on to another request while the answer was on its way.
  const isHere = openRow()?.entries.some(({ approval }) => ids.includes(approval.id));
  const next = isHere && ended.length === ids.length ? nextOpen(first) ?? row : undefined;
  if (next) open(next.name, "card");
}

/** Says of each request of a group that a stored rule leaves why it does. Of those that it covers the server says how they end. */
function sayWhatStays(asked: Approval, grant: GrantChoice, ids: readonly string[]): void {
  const waiting = () => ids.flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "pending").map(({ approval }) => approval);
  const { covered, left } = coverageOf(asked, narrowingOf(grant), waiting());
  for (const { approval: { id }, why } of left) {
    model.refused(id, `The rule you stored does not cover this: ${why}.`);
    // It will have an answer of its own.
    delete model.entries.get(id)?.answer;
  }
  // It is judged again at once, but starts when there is a place for it.
  setTimeout(() => {
    const late = new Set(waiting().map(({ id }) => id));
    for (const { id } of covered.filter((approval) => late.has(approval.id))) model.refused(id, "It still waits, although the rule you stored should cover it. Answer it, or look at the limits of its agent.");
    if (gone.value === undefined) draw();
  }, JUDGED_MS);
}

/** Lists the requests of a group; on a phone the list comes back. */
export function listEach(name: string): void {
  unfold(name, true);
  if (isNarrow()) closeCard();
}

/** Puts another command in the place of a request, and opens the question about that one. */
export async function revise(id: string, body: Revision): Promise<void> {
  const next = await json<Approval>("POST", `/v1/approvals/${id}/revision`, { body });
  model.take(next);
  announce("Your command waits for an answer.");
  if (opened.value === id && !only) open(next.id, "card");
  await look(id).catch(() => {});
  model.revised(id, next.id);
  draw();
}

/** Denies what was allowed and has not started. */
export async function takeBack(id: string): Promise<void> {
  try {
    const { approval } = await json<{ approval: Approval }>("POST", `/v1/approvals/${id}/take-back`, { body: {} });
    model.takenBack(id, approval);
    announce("Taken back. It does not run.");
  } catch (error) {
    if (error instanceof Refused && error.isSignedOut) await check();
    model.keptAllowed(id, error instanceof Refused ? error.message : "The server did not answer, so it may run. Look again, or cancel the run.");
  }
  if (gone.value === undefined) draw();
}
