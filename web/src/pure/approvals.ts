// The requests that this page knows, and the only ways from one state to the next. Pure: no page, no network.

import type { Approval, ApprovalDecision, DecisionResult, DenyRule, PageEvent, RunNews } from "../api/types.ts";

/**
 * A request on this page. Nothing leaves `settled`, so what arrives late or twice changes nothing; only an allowance that an
 * approver takes back before its run starts changes in it.
 */
export interface Entry {
  approval: Approval;
  /** `sending`: an answer is on its way. */
  phase: "pending" | "sending" | "settled";
  /** Whether this page's own answer counted; undefined where that is unknown. */
  mine?: boolean | undefined;
  decision?: ApprovalDecision | undefined;
  /** This page allowed it, and it waits for other people. */
  voted?: boolean;
  problem?: string | undefined;
  run?: Partial<RunNews> | undefined;
  /** The deny rule that this page's denial left, or why there is none. */
  left?: { rule?: DenyRule | undefined; noRule?: string | undefined } | undefined;
  /** The answer that several got, by its number. */
  answer?: number;
  /** How it ended, heard while an answer was on its way. */
  overtaken?: Approval | undefined;
}

/** The members of the event that a request ended. */
export type Resolved = Pick<PageEvent, "approvalId"> & Partial<PageEvent> & Partial<Pick<Approval, "reason">>;

const MOST_ENDED = 5000;

export class Approvals {
  readonly entries = new Map<string, Entry>();
  /** Ended before this page had the request itself: a list that was asked for earlier may still call it pending. */
  readonly #ended = new Set<string>();

  /** A request as the API shows it. Returns its entry, or nothing when it is over and was never here. */
  take(approval: Approval): Entry | undefined {
    const known = this.entries.get(approval.id);
    if (approval.status !== "pending") {
      this.#remember(approval.id);
      if (known && known.phase === "sending") known.overtaken = approval;
      else if (known && known.phase === "pending") this.#settle(known, approval, false);
      return known;
    }
    if (known && known.phase !== "settled") this.#count(known, approval);
    if (known || this.#ended.has(approval.id)) return known;
    const entry: Entry = { approval, phase: "pending" };
    this.entries.set(approval.id, entry);
    return entry;
  }

  /** One that is shown in any state, at an address of its own. */
  show(approval: Approval): Entry {
    const entry: Entry = { approval, phase: approval.status === "pending" ? "pending" : "settled" };
    this.entries.set(approval.id, entry);
    return entry;
  }

  /** The event that a request ended. */
  resolved({ approvalId, status, decision, resolvedBy, reason, terminalReason, ts = 0 }: Resolved): Entry | undefined {
    this.#remember(approvalId);
    const known = this.entries.get(approvalId);
    if (!known) return known;
    const approval = { ...known.approval, status, decision, resolvedBy, reason, terminalReason } as Approval;
    if (status === "allowed" && approval.startDelayMs) approval.startsAtMs = ts + approval.startDelayMs;
    if (terminalReason === "taken-back") this.takenBack(approvalId, approval);
    if (known.phase === "settled") return known;
    // Whose answer counted is what the answer to ours says; the event cannot tell.
    if (known.phase === "sending") known.overtaken = approval;
    else this.#settle(known, approval, false);
    return known;
  }

  /** An answer leaves. False when it may not. */
  sending(id: string, decision: ApprovalDecision): boolean {
    const entry = this.entries.get(id);
    if (entry?.phase !== "pending") return false;
    Object.assign(entry, { phase: "sending", decision, problem: undefined });
    return true;
  }

  /** The server took it, or had the same answer before. */
  answered(id: string, { applied, approval, rule, noRule }: DecisionResult): void {
    const entry = this.entries.get(id);
    if (!entry || entry.phase === "settled") return;
    if (rule || noRule) entry.left = { rule, noRule };
    if (entry.overtaken?.terminalReason === "taken-back") this.#settle(entry, entry.overtaken, false);
    else if (approval.status !== "pending") this.#settle(entry, approval, applied);
    else if (entry.overtaken) this.#settle(entry, entry.overtaken, false);
    else {
      this.#count(entry, approval);
      Object.assign(entry, { phase: "pending", voted: true, problem: undefined });
    }
  }

  /** What was allowed is denied before it started: the one way on for what has ended. */
  takenBack(id: string, approval: Approval): void {
    const entry = this.entries.get(id);
    if (entry?.phase === "settled" && entry.approval.status === "allowed") Object.assign(entry, { approval, problem: undefined });
  }

  /** Another command took its place. */
  revised(id: string, revisedBy: string): void {
    const entry = this.entries.get(id);
    if (entry) entry.approval = { ...entry.approval, revisedBy };
  }

  /** It was not taken back. */
  keptAllowed(id: string, sentence: string): void {
    const entry = this.entries.get(id);
    if (entry?.phase === "settled") entry.problem = sentence;
  }

  /** The server did not take it: `approval` is how it really ended, if it did. */
  refused(id: string, sentence: string, approval?: Approval): void {
    const entry = this.entries.get(id);
    if (!entry || entry.phase === "settled") return;
    const end = approval ?? entry.overtaken;
    if (end && end.status !== "pending") this.#settle(entry, end, false);
    else Object.assign(entry, { phase: "pending", problem: sentence });
  }

  /** No answer came to ours, and `approval` is what the server says now. */
  lookedAt(id: string, sentence: string, approval: Approval): void {
    const entry = this.entries.get(id);
    if (!entry || entry.phase === "settled") return;
    if (approval.status === "pending") {
      this.#count(entry, approval);
      Object.assign(entry, { phase: "pending", problem: sentence });
    } else this.#settle(entry, approval, approval.decision === entry.decision ? undefined : false);
  }

  /** Everything that is pending by a complete list. Returns the ids that this page took for pending and the list does not. */
  missing(listed: readonly Pick<Approval, "id">[]): string[] {
    const ids = new Set(listed.map(({ id }) => id));
    return [...this.entries.values()].filter(({ approval, phase }) => phase === "pending" && !ids.has(approval.id)).map(({ approval }) => approval.id);
  }

  /** What became of the run that a request is about. Returns the entry. */
  ran(runId: string, run: Partial<RunNews>): Entry | undefined {
    for (const entry of this.entries.values()) {
      if (entry.approval.runId === runId) {
        entry.run = { ...entry.run, ...run };
        return entry;
      }
    }
    return undefined;
  }

  forget(id: string): void {
    this.entries.delete(id);
  }

  get waiting(): Entry[] {
    return [...this.entries.values()].filter(({ phase }) => phase !== "settled");
  }

  /** Votes only come; a list that was asked for earlier takes none away. */
  #count(entry: Entry, { votes = [] }: Approval): void {
    const known = entry.approval.votes ?? [];
    if (votes.length >= known.length && votes.length > 0) entry.approval = { ...entry.approval, votes };
  }

  #settle(entry: Entry, approval: Approval, mine: boolean | undefined): void {
    Object.assign(entry, { approval, phase: "settled", mine, problem: undefined, overtaken: undefined });
  }

  #remember(id: string): void {
    if (this.#ended.size >= MOST_ENDED) this.#ended.clear();
    this.#ended.add(id);
  }
}

/** Oldest first, so that what is new comes last and moves nothing. */
export const inOrder = (a: Entry, b: Entry): number => a.approval.createdAtMs - b.approval.createdAtMs || (a.approval.id < b.approval.id ? -1 : 1);
