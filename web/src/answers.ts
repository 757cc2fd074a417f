// Answers that need more than the first card does: one to several requests, another command, and what is taken back.

import { announce } from "./announce.ts";
import { json, Refused } from "./api/api.ts";
import type { Approval, ApprovalDecision, DecisionResult, DecisionsResult, Revision } from "./api/types.ts";
import { type AnswerOptions, chooseNone, closeCard, decide, draw, isNarrow, isOpen, look, model, nextOpen, open, opened, openRow, rows, sentBlindly, unfold } from "./inbox.ts";
import { MOST_TOGETHER, rowOf } from "./pure/groups.ts";
import { outcome } from "./pure/words.ts";
import { check, gone, only } from "./shell.ts";

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

/** Answers everything that is chosen. */
export async function decideChosen(ids: readonly string[], decision: "allow-once" | "deny", reason: string): Promise<void> {
  const from = opened.value;
  await send(ids, decision, reason);
  chooseNone();
  if (gone.value === undefined) draw();
  // You may have gone on to another request while the answer was on its way.
  const next = opened.value === from ? rows().find(({ entries }) => entries.some(isOpen)) : undefined;
  if (next) open(next.name, isNarrow() ? "row" : "card");
}

/** Answers the requests of a group, which stay together with what became of each. */
export async function decideTogether(ids: readonly string[], decision: ApprovalDecision, { reason, ...options }: AnswerOptions): Promise<void> {
  const [first] = ids;
  if (first === undefined) return;
  answers += 1;
  for (const id of ids) {
    const entry = model.entries.get(id);
    if (entry) entry.answer = answers;
  }
  // What is stored goes with one answer alone. A rule that allows answers the others by itself.
  const isAlone = Object.keys(options).length > 0;
  if (isAlone) await decide(first, decision, { ...options, ...(reason && { reason }) });
  if (decision !== "allow-always") await send(isAlone ? ids.slice(1) : ids, decision, reason ?? "");
  if (gone.value !== undefined) return;
  const ended = ids.flatMap((id) => model.entries.get(id) ?? []).filter(({ phase }) => phase === "settled");
  const row = rowOf(first, rows());
  // Where they did not all end alike, each says how.
  if (row && row.name !== first && new Set(ended.map(({ approval, mine }) => outcome(approval, mine).title)).size > 1) unfold(row.name, true);
  draw();
  // You may have gone on to another request while the answer was on its way.
  const isHere = openRow()?.entries.some(({ approval }) => ids.includes(approval.id));
  const next = isHere && ended.length === ids.length ? nextOpen(first) ?? row : undefined;
  if (next) open(next.name, "card");
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
