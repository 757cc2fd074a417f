// The rows of the list: one for each request, and one for several that ask the same. Pure.

import type { Approval } from "../api/types.ts";
import type { Entry } from "./approvals.ts";
import { alikeKey } from "./facts.ts";

/** As many as one answer can go to. */
export const MOST_TOGETHER = 100;

/** A row of the list. */
export interface Row {
  /** The id of a request, or the name of a group. */
  name: string;
  /** The oldest request of it. */
  lead: Entry;
  /** Every request of it, oldest first. */
  entries: readonly Entry[];
  /** `equal` and `similar` are groups; a `member` stands below the group that it is of. */
  kind: "one" | "equal" | "similar" | "member";
  /** Whether the members of a group are listed below it. */
  isOpen: boolean;
}

const keys = new WeakMap<Approval, string>();

/**
 * Equal for two requests of which a person sees the same, apart from who asked in which session and when: one command that was
 * read stands for both.
 */
export function equalKey(approval: Approval): string {
  let key = keys.get(approval);
  if (key === undefined) {
    const { id, slug, runId, sessionKey, requestedBy, createdAtMs, expiresAtMs, votes, proposals, boundTo: { digest, ...bound }, ...shown } = approval;
    key = JSON.stringify([shown, bound]);
    keys.set(approval, key);
  }
  return key;
}

/** What the requests of one row have in common. What has ended stands alone, or with those that had the same answer. */
function keyOf({ approval, phase, answer }: Entry, areSimilar: boolean): string {
  if (phase === "settled") return answer === undefined ? approval.id : `answer ${answer}`;
  return areSimilar ? alikeKey(approval) : equalKey(approval);
}

/** How the rows are made. */
export interface Grouping {
  /** Whether similar requests share a row, too. */
  areSimilar: boolean;
  isOpen: (name: string) => boolean;
  /** The name of the group with this key. */
  nameOf: (key: string) => string;
}

/** The rows for requests that are in order; a group stands where its oldest request does, so that what is new moves nothing. */
export function rowsOf(entries: readonly Entry[], { areSimilar, isOpen, nameOf }: Grouping): Row[] {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) {
    let key = keyOf(entry, areSimilar);
    let group = groups.get(key);
    while (group && group.length >= MOST_TOGETHER) group = groups.get(key += "+");
    if (group) group.push(entry);
    else groups.set(key, [entry]);
  }
  const rows: Row[] = [];
  const add = (lead: Entry, kind: Row["kind"]) => rows.push({ name: lead.approval.id, lead, entries: [lead], kind, isOpen: false });
  for (const [key, all] of groups) {
    const lead = all[0] as Entry;
    if (all.length === 1) {
      add(lead, "one");
      continue;
    }
    const name = nameOf(key);
    const row: Row = { name, lead, entries: all, kind: areEqual(all) ? "equal" : "similar", isOpen: isOpen(name) };
    rows.push(row);
    if (row.isOpen) for (const entry of all) add(entry, "member");
  }
  return rows;
}

/** Whether a person who reads one of them has read them all. */
function areEqual([lead, ...rest]: readonly Entry[]): boolean {
  if (!lead) return true;
  const key = ({ approval, phase }: Entry) => (phase === "settled" ? approval.command : equalKey(approval));
  return rest.every((entry) => key(entry) === key(lead));
}

/** The row of this name, or the one that a request of this id is in. */
export const rowOf = (name: string | undefined, rows: readonly Row[]): Row | undefined =>
  rows.find((row) => row.name === name) ?? rows.find(({ entries }) => entries.some(({ approval }) => approval.id === name));
