// What the page says about itself: whether it is connected, how far the commands are trusted, what is wrong, and who is
// signed in. Views follow these values.

import { createLooker } from "./pure/looker.ts";
import { forgetSecret, isFinal, json, Refused, send } from "./api/api.ts";
import type { AuditHead, BrowserSession, EffectivePolicy, Page, Pairing, PendingEdit } from "./api/types.ts";
import { visible } from "./pure/text.ts";
import { forgetReasons } from "./reasons.ts";
import { State } from "./state.ts";

/** Something that the page has to say above everything else. */
export interface Notice {
  text: string;
  /** The edit that an admin can accept here. */
  edit?: PendingEdit;
}

/** How the page is connected. */
export interface Link {
  state: "connecting" | "live" | "poll" | "offline" | "off";
  text: string;
}

/** The request that the address names, if it names one. */
export const only = /^\/a\/([a-z0-9-]{1,64})$/.exec(location.pathname)?.[1];

export const link = new State<Link>({ state: "connecting", text: "Connecting" });
export const me = new State<BrowserSession | undefined>(undefined);
export const policy = new State<EffectivePolicy | undefined>(undefined);
export const head = new State<AuditHead | undefined>(undefined);
export const notices = new State<ReadonlyMap<string, Notice>>(new Map());
/** How many machines ask to become a node. */
export const pairingsWaiting = new State(0);
/** Why nothing is shown after the sign-out. */
export const gone = new State<string | undefined>(undefined);
/** What the empty list says. */
export const blank = new State("Loading the requests …");

/** Whether the sign-in has this scope. */
export const may = (scope: BrowserSession["scopes"][number]): boolean => me.value?.scopes.includes(scope) ?? false;

// Looks that had no answer and are made again.
const unanswered = new Set<unknown>();
let isUp = false;

/** The stream of events is up or not. */
export function setUp(up: boolean): void {
  isUp = up;
  if (up) unanswered.clear();
}

export function say(state: Link["state"], text: string): void {
  const now = link.value;
  if (now.state !== state || now.text !== text) link.set({ state, text });
}

/** An answer came; the page is live once every look has one. */
export function reached(what?: unknown): void {
  unanswered.delete(what);
  if (isUp && gone.value === undefined && !unanswered.size) say("live", "Live");
}

/** A look had no answer. */
export function missed(what: unknown, error: unknown): void {
  if (!isFinal(error)) unanswered.add(what);
  failed(error);
}

/** A function that has `see` look again soon, until an answer comes; the page says meanwhile that it has none. */
export function looker(see: () => Promise<unknown>, pause: number | (() => number)): () => void {
  return createLooker(see, pause, {
    isOver: () => gone.value !== undefined,
    seen: () => reached(see),
    failed: (error) => {
      missed(see, error);
      return isFinal(error);
    },
  });
}

/** Something could not be loaded or done. */
export function failed(error: unknown): void {
  if (gone.value !== undefined) return;
  if (!(error instanceof Refused)) return say("offline", "Offline. Trying again …");
  if (error.isSignedOut) return void check();
  notice("error", error.sentence);
  blank.set("The requests could not be loaded.");
}

/** Sets a notice, or takes it away where there is no text. */
export function notice(id: string, text: string, edit?: PendingEdit): void {
  notices.change((now) => {
    if (now.get(id)?.text === text && now.get(id)?.edit?.hash === edit?.hash) return now;
    if (!text && !now.has(id)) return now;
    const next = new Map(now);
    if (text) next.set(id, edit ? { text, edit } : { text });
    else next.delete(id);
    return next;
  });
}

/** Whether the sign-in has really ended, or only one request was refused. */
export async function check(): Promise<void> {
  try {
    await json("GET", "/auth/session");
  } catch (error) {
    if (!(error instanceof Refused) || !error.isSignedOut) return;
    forgetSecret();
    if (me.value) signedOut("Your sign-in has ended.");
    else leave();
  }
}

/** Nobody is signed in: to the sign-in page, and back to here afterwards. */
export function leave(): void {
  location.replace(only ? `/login?next=/a/${only}` : "/login");
}

export async function signOut(): Promise<void> {
  try {
    await send("POST", "/auth/logout");
  } catch (error) {
    if (!(error instanceof Refused)) {
      notice("sign-out", "The server does not answer, so you are still signed in there. Try again when it is back.");
      return;
    }
  }
  forgetSecret();
  signedOut("You are signed out.");
}

/** Takes everything off the page. */
export function signedOut(why: string): void {
  forgetReasons();
  gone.set(why);
  document.title = "Signed out · countersign";
  say("off", "Signed out");
}

/** Reads the policy, and says what of it is wrong or waits. */
export async function seePolicy(): Promise<void> {
  const now = await json<EffectivePolicy>("GET", "/v1/policy/effective");
  policy.set(now);
  const { document: stored, configError, configHeld, serverHeld } = now;
  notice("document", stored.status === "refused" ? `The approvals document cannot be used, so everything is denied (${stored.reason}).` : "");
  held("held", "the approvals document", stored.held);
  held("held-config", "the settings", configHeld);
  held("held-server", "the settings of the server", serverHeld);
  notice("config", configError && !configHeld && !serverHeld ? `The last edit of the settings is not in effect: ${configError}` : "");
}

/** A change that is not in effect yet: what it would newly allow, and for admins a way to accept it. */
function held(id: string, what: string, edit: PendingEdit | undefined): void {
  if (!edit) return notice(id, "");
  const who = (edit.proposedBy ?? []).map(({ name }) => visible(name)).join(", ");
  const how = who ? `${who} changed ${what}, which takes a second person.` : `An edit from outside changed ${what}.`;
  notice(id, `${how} It is not in effect yet, and would newly allow: ${edit.allows.join("; ")}.`, edit);
}

/** Counts the machines that ask, for those who may answer. */
export async function seePairings(): Promise<void> {
  if (may("admin")) pairingsWaiting.set((await json<Page<Pairing>>("GET", "/v1/nodes/pairings?limit=100")).items.length);
}

export async function seeHead(): Promise<void> {
  head.set(await json<AuditHead>("GET", "/v1/audit/head"));
}
