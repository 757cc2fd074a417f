// The inbox: what waits, what is open, what is chosen, and how answers go out and come back. Views follow `drawn`.

import { announce } from "./announce.ts";
import { everything, isFinal, json, Refused } from "./api/api.ts";
import type { Approval, ApprovalDecision, Decision, DecisionResult, Page, PageEvent, Run, RunNews, SessionOverrides } from "./api/types.ts";
import { Approvals, type Entry, inOrder } from "./pure/approvals.ts";
import { areAlike, matches } from "./pure/facts.ts";
import { MOST_TOGETHER, type Row, rowOf, rowsOf } from "./pure/groups.ts";
import { brief } from "./pure/text.ts";
import { outcome } from "./pure/words.ts";
import { blank, check, gone, looker, may, me, missed, notice, only, reached } from "./shell.ts";
import { State } from "./state.ts";

const MOST_LOADED = 5000;
const GATHER_MS = 80;
const ONE_BY_ONE = 5;
const LOOK_AGAIN_MS = 1500;
const IDLE_MS = 3000;
const REMOVE_AFTER_MS = 60_000;
const MOST_PAST = 20;
const OVERRIDES_HOLD_MS = 3000;

export const model = new Approvals();

/** Counts the changes of the model and of what is open; a view that follows it shows them all. */
export const drawn = new State(0);
/** Whether answers can be sent. */
export const online = new State(true);
/** The words that the list is filtered by. */
export const filter = new State(new URLSearchParams(location.search).get("q") ?? "");
/** The row that is open beside the list: a request, or several together. */
export const opened = new State<string | undefined>(undefined);
/** Whether a person opened it; on a phone only then is it shown in place of the list. */
export const isOpened = new State(false);
/** The requests that one answer goes to. */
export const chosen = new State<ReadonlySet<string>>(new Set());
/** Whether similar requests share a row, too. Their commands differ, so that is for a person to choose. */
export const areSimilar = new State(localStorage.getItem("countersign.similar") === "1");
/** Seconds go by. */
export const ticks = new State(0);

const settledAt = new Map<string, number>();
// The requests whose complete text was shown here: a folded one is opened before it is allowed.
const read = new Set<string>();
let lastTouch = 0;

/** The answers to what a view asks for: where the focus goes after the next drawing. */
export const focusNext = new State<{ id: string; where: "card" | "row" } | undefined>(undefined);

// --- What is shown.

/** The entries of the list, oldest first: what waits and matches the filter, and what has just ended. */
export function listed(): Entry[] {
  const words = filter.value;
  return [...model.entries.values()].filter(({ approval }) => matches(approval, words)).sort(inOrder);
}

const names = new Map<string, string>();
let named = 0;
// The groups whose members are listed.
const unfolded = new Set<string>();

function nameOf(key: string): string {
  const name = names.get(key) ?? `all-${named++}`;
  names.set(key, name);
  return name;
}

/** The rows of the list. */
export const rows = (): Row[] => rowsOf(listed(), { areSimilar: areSimilar.value && !only, isOpen: (name) => unfolded.has(name), nameOf });

/** The row that is open. */
export const openRow = (all = rows()): Row | undefined => rowOf(opened.value, all);

/** Lists the members of a group below it, or no longer. */
export function unfold(name: string, isOpen?: boolean): void {
  const group = rows().find(({ entries, name: own }) => entries.length > 1 && (own === name || entries.some(({ approval }) => approval.id === name)));
  if (!group) return;
  if (isOpen ?? !group.isOpen) unfolded.add(group.name);
  else {
    unfolded.delete(group.name);
    if (name !== group.name) open(group.name, "row");
  }
  draw();
}

/** Whether similar requests share a row. */
export function setSimilar(is: boolean): void {
  localStorage.setItem("countersign.similar", is ? "1" : "0");
  areSimilar.set(is);
  draw();
}

const waits = ({ entries }: Row): boolean => entries.some(({ phase }) => phase !== "settled");

/** Marks the text of a request as read in full. */
export function markRead(id: string): void {
  read.add(id);
  draw();
}

export const isRead = (id: string): boolean => read.has(id);

let drawing: ReturnType<typeof setTimeout> | undefined;

/** Draws what changed now. */
export function draw(): void {
  for (const { approval, phase } of model.entries.values()) {
    if (phase === "settled" && !settledAt.has(approval.id)) settledAt.set(approval.id, performance.now());
  }
  const waiting = new Set(model.waiting.map(({ approval }) => approval.id));
  if ([...chosen.value].some((id) => !waiting.has(id))) chosen.set(new Set([...chosen.value].filter((id) => waiting.has(id))));
  openFirst();
  drawn.change((count) => count + 1);
}

/** Many events in one moment are drawn once. */
function drawSoon(): void {
  drawing ??= setTimeout(() => {
    drawing = undefined;
    if (gone.value === undefined) draw();
  }, 16);
}

// The requests that were open.
let lastOpen: readonly string[] = [];

/** Something is open as long as there is something; what a person opened stays, and what is left of several, too. */
function openFirst(): void {
  if (only) return opened.set(only);
  const all = rows();
  const left = all.filter(({ entries }) => entries.some(({ approval }) => lastOpen.includes(approval.id)));
  const row = openRow(all) ?? left.find(waits) ?? left[0];
  if (row) {
    lastOpen = row.entries.map(({ approval }) => approval.id);
    if (!openRow(all)) opened.set(row.name);
  } else if (opened.value === undefined || !model.entries.has(opened.value)) {
    isOpened.set(false);
    opened.set((all.find(waits) ?? all[0])?.name);
  }
}

/** Opens a row; `where` says what gets the focus, if anything. */
export function open(id: string | undefined, where?: "card" | "row"): void {
  opened.set(id);
  isOpened.set(id !== undefined);
  if (id !== undefined && where) focusNext.set({ id, where });
  drawn.change((count) => count + 1);
}

/** Back from a request to the list, on a phone. */
export function closeCard(): void {
  isOpened.set(false);
  if (opened.value !== undefined) focusNext.set({ id: opened.value, where: "row" });
  drawn.change((count) => count + 1);
}

/** Opens the next or the previous row of the list. */
export function move(step: number): void {
  const all = rows();
  const now = openRow(all);
  const to = all[now ? Math.min(all.length - 1, Math.max(0, all.indexOf(now) + step)) : 0];
  if (to) open(to.name, isOpened.value && isNarrow() ? "card" : "row");
}

/** Whether the list and the request do not fit beside each other. */
export const isNarrow = (): boolean => matchMedia("(max-width: 59.99rem)").matches;

/** After an answer: the next request that waits, or the one before; with none the answered one stays. */
export function goOn(id: string): void {
  if (only || opened.value !== id) return;
  const next = nextOpen(id);
  if (next) open(next.name, "card");
}

/** The next row with a request that takes an answer, or the one before. */
export function nextOpen(id: string): Row | undefined {
  const all = rows();
  const now = rowOf(id, all);
  const at = now ? all.indexOf(now) : all.length;
  const takes = ({ entries }: Row) => entries.some(isOpen);
  return all.slice(at + 1).find(takes) ?? all.slice(0, at).reverse().find(takes);
}

export const isOpen = ({ phase, voted }: Entry): boolean => phase === "pending" && !voted;

/** Chooses the requests of a row for one answer to several, or no longer. */
export function choose(name: string): void {
  const next = new Set(chosen.value);
  const ids = (rowOf(name, rows())?.entries ?? []).filter(({ phase }) => phase === "pending").map(({ approval }) => approval.id);
  const isIn = ids.every((id) => next.has(id));
  for (const id of ids) {
    if (isIn) next.delete(id);
    else if (next.size < MOST_TOGETHER) next.add(id);
  }
  chosen.set(next);
}

/** Chooses everything of the list that is like a request: of the same agent, with the same programs and variables. */
export function chooseAlike(name: string): void {
  const like = rowOf(name, rows())?.lead;
  if (!like) return;
  const found = listed().filter((entry) => isOpen(entry) && areAlike(entry.approval, like.approval));
  chosen.set(new Set(found.slice(0, MOST_TOGETHER).map(({ approval }) => approval.id)));
}

export const chooseNone = (): void => chosen.set(new Set());

/** Sets the filter, and has the address keep it. */
export function setFilter(words: string): void {
  filter.set(words);
  const query = words ? `?q=${encodeURIComponent(words)}` : location.pathname;
  history.replaceState(null, "", query);
  if (!openRow()) opened.set(undefined);
  draw();
}

export function touched(): void {
  lastTouch = performance.now();
}

/** Once a second: the time that is left, and what has ended goes when nobody looks or reaches for anything. */
export function tick(): void {
  ticks.change((count) => count + 1);
  const now = performance.now();
  if (only || now - lastTouch < IDLE_MS) return;
  const old = [...settledAt].filter(([id, since]) => now - since > REMOVE_AFTER_MS && !lastOpen.includes(id));
  for (const [id] of old) remove(id);
  if (old.length) draw();
}

function remove(id: string): void {
  settledAt.delete(id);
  read.delete(id);
  model.forget(id);
}

/** Takes everything that has ended off the list. */
export function clearEnded(): void {
  for (const id of [...settledAt.keys()]) remove(id);
  draw();
}

export const hasEnded = (): boolean => settledAt.size > 0;

export function empty(): void {
  for (const id of [...model.entries.keys()]) remove(id);
  chooseNone();
  draw();
}

// --- What waits.

// What it has heard of and has not seen yet: it looks until an answer comes, since the event does not come again.
const asked = new Set<string>();
const changed = new Set<string>();
const unsure = new Set<string>();
let mustLoad = false;
let looking: ReturnType<typeof setTimeout> | undefined;

/** The stream is up: what happened while it was not may have been missed. */
export function streamOpened(resumed: boolean): void {
  online.set(true);
  mustLoad ||= !resumed;
  lookSoon(0);
}

/** Loads everything that waits. */
export async function load(): Promise<void> {
  if (only) return loadOne(only);
  const { items, more } = await everything<Approval>("/v1/approvals", MOST_LOADED);
  if (gone.value !== undefined) return;
  for (const approval of items) model.take(approval);
  // What may be answered is known only once the sign-in has been read.
  if (!me.value) return;
  blank.set("Nothing is waiting. New requests appear here by themselves.");
  draw();
  notice("most", more ? `More than ${MOST_LOADED.toLocaleString("en")} requests wait. Only the newest are here. Answer some, then reload the page to see older ones.` : "");
  if (!more) await Promise.all(model.missing(items).slice(0, 50).map(look));
}

async function loadOne(id: string): Promise<void> {
  try {
    const approval = await json<Approval>("GET", `/v1/approvals/${id}`);
    if (model.entries.has(id)) model.take(approval);
    else model.show(approval);
    if (!me.value) return;
    if (may("read") && !oneRun.value) runSoon();
    draw();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    blank.set("There is no such request, or its record is older than what is kept.");
    draw();
  }
}

/** The run of the one request that the address names. */
export const oneRun = new State<Run | undefined>(undefined);

const runSoon = looker(async () => {
  const entry = only === undefined ? undefined : model.entries.get(only);
  if (!entry) return;
  const run = await json<Run>("GET", `/v1/runs/${entry.approval.runId}`);
  if (gone.value !== undefined) return;
  entry.run = run;
  oneRun.set(run);
  draw();
}, 0);

/** Looks again at one request that this page may be wrong about. */
export async function look(id: string): Promise<void> {
  try {
    model.take(await json<Approval>("GET", `/v1/approvals/${id}`));
    draw();
  } catch (error) {
    if (!(error instanceof Refused) || error.status !== 404) throw error;
    model.forget(id);
  }
}

/** Takes an event that is about a request or a run. */
export function happened(event: PageEvent): void {
  switch (event.type) {
    case "exec.approval.requested":
      if (only && event.approvalId !== only) return;
      asked.add(event.approvalId);
      return lookSoon(GATHER_MS);
    case "exec.approval.voted":
      if (!model.entries.has(event.approvalId)) return;
      changed.add(event.approvalId);
      return lookSoon(0);
    case "exec.approval.resolved": {
      asked.delete(event.approvalId);
      const entry = model.resolved(event);
      if (!entry) return;
      if (entry.phase === "settled") announce(`A request has ended: ${outcome(entry.approval, entry.mine).title}.`);
      return drawSoon();
    }
    case "exec.started":
      return ran(event, { status: "running" });
    case "exec.finished":
    case "exec.denied":
      return ran(event, { ...news(event), status: event.status ?? "denied" });
  }
}

function news({ exitCode, exitSignal, durationMs, outputBytes, reason }: PageEvent): Partial<RunNews> {
  const all = { exitCode, exitSignal, durationMs, outputBytes, reason };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function ran(event: PageEvent, run: Partial<RunNews>): void {
  const entry = model.ran(event.runId, run);
  if (entry) drawSoon();
  if (entry && only) runSoon();
}

/** Looks at what is due after a pause, and again until an answer comes. */
function lookSoon(pause: number): void {
  looking ??= setTimeout(async () => {
    let again: number | undefined = GATHER_MS;
    try {
      await lookAtDue();
      reached(lookAtDue);
    } catch (error) {
      missed(lookAtDue, error);
      again = isFinal(error) ? undefined : LOOK_AGAIN_MS;
    }
    looking = undefined;
    if (again && gone.value === undefined && (mustLoad || unsure.size || changed.size || asked.size)) lookSoon(again);
  }, pause);
}

/** New requests come one by one or in crowds: a few are fetched each, a crowd as a list. */
async function lookAtDue(): Promise<void> {
  if (mustLoad) await loadDue();
  await each(unsure, settle);
  await each(changed, look);
  const ids = [...asked];
  for (const id of ids.filter((known) => model.entries.has(known))) asked.delete(id);
  try {
    if (asked.size > ONE_BY_ONE) {
      await load();
      for (const id of ids) asked.delete(id);
    } else await each(asked, look);
  } finally {
    const seen = ids.filter((id) => !asked.has(id)).flatMap((id) => model.entries.get(id) ?? []);
    tell(seen.filter(({ phase }) => phase === "pending"));
  }
}

/** Tells a screen reader of new requests. */
export function tell(entries: readonly Entry[]): void {
  const [first] = entries;
  if (!first) return;
  const { agentId, display } = first.approval;
  const what = entries.length === 1 ? `New request from ${brief(agentId, 40)}: ${brief(display.text)}.` : `${entries.length} new requests.`;
  announce(`${what} ${model.waiting.length} waiting.`);
}

async function loadDue(): Promise<void> {
  mustLoad = false;
  try {
    await load();
  } catch (error) {
    mustLoad = !isFinal(error);
    throw error;
  }
}

/** Takes what is due out of a set; what no answer came for is put back. */
async function each(due: Set<string>, see: (id: string) => Promise<void>): Promise<void> {
  const ends = await Promise.allSettled([...due].map(async (id) => {
    due.delete(id);
    try {
      await see(id);
    } catch (error) {
      if (!isFinal(error)) due.add(id);
      throw error;
    }
  }));
  const failure = ends.find((end) => end.status === "rejected");
  if (failure) throw failure.reason;
}

// --- What the person answers.

/** What goes with an answer. */
export type AnswerOptions = Omit<Decision, "decision" | "patterns">;

/** Sends an answer. `retry` is called where no answer came to it. */
export async function decide(id: string, decision: ApprovalDecision, options: AnswerOptions): Promise<void> {
  if (!model.sending(id, decision)) return;
  draw();
  try {
    const answer = await json<DecisionResult>("POST", `/v1/approvals/${id}/decision`, { body: { decision, ...options } });
    model.answered(id, answer);
    announceAnswer(answer);
    goOn(id);
  } catch (error) {
    if (error instanceof Refused) {
      if (error.isSignedOut) await check();
      model.refused(id, error.sentence, error.problem.approval);
    } else sentBlindly(id);
  }
  if (gone.value === undefined) draw();
}

function announceAnswer({ applied, approval }: DecisionResult): void {
  const more = approval.status === "pending" ? " It waits for another person." : "";
  announce((applied ? "Your answer counts." : "The same answer was already given.") + more);
}

/** It may have arrived and only its answer was lost: nothing is said before the server says it. */
export function sentBlindly(id: string): void {
  unsure.add(id);
  retryLine();
  lookSoon(0);
}

let retryLine = (): void => {};

/** How the stream of events is tried again at once. */
export function setRetry(retry: () => void): void {
  retryLine = retry;
}

/** What became of an answer that nobody confirmed. */
async function settle(id: string): Promise<void> {
  model.lookedAt(id, "Your answer did not arrive. Please answer again.", await json<Approval>("GET", `/v1/approvals/${id}`));
  if (gone.value === undefined) draw();
}

// --- What the record knows about the request that is open.

const overridesSeen = new Map<string, Promise<SessionOverrides>>();

/** What the session of a request overrides; asked once for requests of a session that are opened one after the other. */
export function overridesOf({ sessionKey, agentId }: Approval): Promise<SessionOverrides> {
  const query = /^agent:([^:]+):/.test(sessionKey) ? "" : `?agentId=${encodeURIComponent(agentId)}`;
  const path = `/v1/sessions/${encodeURIComponent(sessionKey)}/overrides${query}`;
  const known = overridesSeen.get(path) ?? json<SessionOverrides>("GET", path);
  if (!overridesSeen.has(path)) setTimeout(() => overridesSeen.delete(path), OVERRIDES_HOLD_MS);
  overridesSeen.set(path, known);
  return known;
}

/** The last runs of the same command by the same agent, newest first. */
export async function pastRuns({ agentId, command, runId, createdAtMs }: Approval): Promise<Run[]> {
  // The search takes a part of the text; only the same text counts.
  const part = [...command].slice(0, 100).join("");
  const query = new URLSearchParams({ agentId, q: part, until: String(createdAtMs + 1), limit: String(MOST_PAST) });
  const { items } = await json<Page<Run>>("GET", `/v1/runs?${query}`);
  return items.filter((run) => run.runId !== runId && run.status !== "approval-pending" && textOf(run) === command);
}

const textOf = (run: Run): string => run.command ?? run.displayText;

