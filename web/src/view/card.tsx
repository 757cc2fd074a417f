// One request: what would run, what is known about it, what can be answered, and what became of it.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { serverNow } from "../api/api.ts";
import type { Approval, ApprovalDecision } from "../api/types.ts";
import { type CardKey, setCard } from "../card-keys.ts";
import { type AnswerOptions, closeCard, decide, drawn, isOpen, isRead, online, overridesOf, pastRuns, ticks } from "../inbox.ts";
import { record } from "../later.ts";
import type { Entry } from "../pure/approvals.ts";
import { type Fact, factsOf, isPlain } from "../pure/facts.ts";
import { grantOf, leaves, proposalsOf, unlimited } from "../pure/grant.ts";
import { brief, timeLeft, visible } from "../pure/text.ts";
import { outcome, progress } from "../pure/words.ts";
import { keepReason } from "../reasons.ts";
import { may, only } from "../shell.ts";
import { useValue } from "../state.ts";
import { type Guard, nudge } from "../steady.ts";
import type { Afterwards } from "./after.tsx";
import { CommandBlock, mustOpen } from "./command.tsx";
import { Wrong } from "./common.tsx";
import { Details, type Known, labelOf, placeOf } from "./details.tsx";
import { FactChips } from "./facts.tsx";

const URGENT_MS = 60_000;
const PAST_PAUSE_MS = 150;

/** What is open in the answer row. */
type Mode = "answer" | "note" | "deny" | "always" | "revise";

// What was typed stays while another request is looked at.
const drafts = new Map<string, string>();

interface Props {
  /** What is open: the id of the request, or the name of a group of equal ones. */
  name: string;
  entry: Entry;
  /** The requests that an answer goes to: this one, and those that are equal to it. */
  all: readonly Entry[];
  guard: () => Guard | undefined;
}

export function Card({ name, entry, all, guard }: Props) {
  const { approval } = entry;
  const phase = all.find((each) => each.phase === "sending")?.phase ?? all.find((each) => each.phase === "pending")?.phase ?? "settled";
  const isGroup = all.length > 1;
  const open = all.filter(isOpen);
  const times = isGroup ? ` ${phase === "pending" ? open.length : all.length}` : "";
  const sessions = new Set(all.map((each) => each.approval.sessionKey)).size;
  const key = approval.id;
  const label = labelOf(approval);
  const isOnline = useValue(online);
  useValue(ticks);
  useValue(drawn);
  const wide = useValue(record);
  const root = useRef<HTMLDivElement>(null);
  const article = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const back = useRef<HTMLElement | null>(null);
  const [mode, setMode] = useState<Mode>("answer");
  const [reason, setReason] = useState(drafts.get(key) ?? "");
  const [narrowed, setNarrowed] = useState(() => unlimited(proposalsOf(approval)[0]?.id ?? ""));
  const [afterwards, setAfterwards] = useState<Afterwards>({ after: "ask", untilMs: undefined });
  const known = useKnown(approval, () => root.current && guard()?.unsettle(root.current));
  const past = { overrides: known.overrides, runsBefore: known.past?.filter(({ startedAtMs }) => startedAtMs !== undefined).length };
  const facts = factsOf(approval, past);
  const isUnread = mustOpen(approval) && !isRead(key);
  const msLeft = Math.min(...all.map((each) => each.approval.expiresAtMs)) - serverNow();
  const canDecide = may("approve");
  const isProposed = proposalsOf(approval).some(({ id }) => id === narrowed.proposal);

  /** Why an answer is not open, in words; nothing where it is. */
  function blocked(decision: ApprovalDecision): string {
    if (!isOnline) return "Offline. You can answer once the server is back.";
    if (msLeft <= 0) return "The time is up.";
    if (isGroup && !wide) return "Loading …";
    if (decision !== "deny" && !open.length && phase === "pending") return "You have allowed this. It waits for another person.";
    if (decision !== "deny" && isUnread) return "Show all of the command before you allow it.";
    if (approval.allowedDecisions.includes(decision)) return "";
    if (decision === "allow-always") return wide?.whyNoAlways(approval) ?? "“Always” is unavailable here.";
    return "This answer is not available here.";
  }

  function turn(next: Mode, focus?: HTMLElement | null) {
    if (root.current) guard()?.unsettle(root.current);
    back.current = focus ?? null;
    setMode(next);
  }

  /** Back to the answers; says whether something was open. */
  function close(): boolean {
    if (mode === "answer") return false;
    const { current } = back;
    turn("answer");
    queueMicrotask(() => (current?.isConnected ? current : article.current)?.focus({ preventScroll: true }));
    return true;
  }

  /** An answer counts only on a card that stands still: a tap may have been on its way before the card was under it. */
  function press(what: ApprovalDecision | "open-deny" | "open-always" | "open-note" | "open-revise", from?: HTMLElement, isWrittenFor = false) {
    const decision = what === "open-deny" || what === "open-revise" ? "deny" : what === "open-always" ? "allow-always" : what === "open-note" ? undefined : what;
    if (phase !== "pending" || !canDecide || (decision && blocked(decision))) return;
    if (!root.current || !article.current) return;
    if (what === "open-deny") return turn("deny", from);
    if (what === "open-note") return turn("note", from);
    if (what === "open-revise") return isGroup ? undefined : turn("revise", from);
    if (what === "open-always") return turn(mode === "always" ? "answer" : "always", from);
    if (!isWrittenFor && !guard()?.isSteady(root.current)) return nudge(article.current);
    if (what !== "allow-always" || isProposed) send(what);
  }

  function send(decision: ApprovalDecision) {
    const said = reason.trim();
    const options: AnswerOptions = {
      ...(said && { reason: said }),
      ...(decision === "allow-always" && { grant: grantOf(approval, narrowed) }),
      ...(decision === "deny" && leaves(afterwards.after, afterwards.untilMs)),
    };
    if (decision === "deny") keepReason(said);
    if (!isGroup) return void decide(key, decision, options);
    const to = decision === "deny" ? all.filter((each) => each.phase === "pending") : open;
    void wide?.decideTogether(to.map((each) => each.approval.id), decision, options);
  }

  /** What the buttons do is no longer what it was. */
  const changed = <Value,>(set: (value: Value) => void) => (value: Value) => {
    if (root.current) guard()?.unsettle(root.current);
    set(value);
  };

  function write(text: string) {
    setReason(text);
    drafts.set(key, text);
  }

  // The keyboard acts on the card that is open.
  useLayoutEffect(() => {
    const doing: Record<CardKey, Parameters<typeof press>[0]> = { once: "allow-once", always: "open-always", deny: "open-deny", reason: "open-note", edit: "open-revise" };
    return setCard({ press: (name) => press(doing[name]), escape: close });
  });
  const isWritten = mode === "note" || mode === "deny";
  useLayoutEffect(() => {
    if (isWritten) field.current?.focus();
    if (mode === "always") root.current?.querySelector<HTMLElement>("[data-decision=confirm-always]")?.focus({ preventScroll: true });
  }, [mode]);
  // What the answer goes to changed.
  const together = all.map((each) => each.approval.id).join();
  useLayoutEffect(() => {
    if (root.current) guard()?.unsettle(root.current);
  }, [together]);
  // What had the focus goes away with an answer.
  useLayoutEffect(() => {
    if (phase !== "settled") return;
    setMode("answer");
    drafts.delete(key);
    if (document.activeElement === document.body || !document.activeElement?.isConnected) article.current?.focus({ preventScroll: true });
  }, [phase]);

  const isPlainNow = sessions === 1 && isPlain(approval, past);
  const isSent = (decision: ApprovalDecision) => all.some((each) => each.phase === "sending" && each.decision === decision);
  const reasons = [...new Set((mode === "deny" ? ["deny"] as const : ["allow-once", "allow-always", "deny"] as const).map(blocked).filter(Boolean))];
  const whyNot = phase === "sending" ? "Sending your answer …" : reasons[0] ?? "";
  const end = phase === "settled" ? outcome(approval, entry.mine) : undefined;
  const said = phase === "settled" ? "" : progress(approval);

  const act = (decision: ApprovalDecision, name: string, letter: string, onClick: (event: MouseEvent) => void, kind = "", expanded?: boolean) => (
    <button type="button" class={`act ${decision} ${kind}${isSent(decision) ? " busy" : ""}`} data-decision={decision} aria-label={`${name}: ${label}`} aria-keyshortcuts={letter}
      aria-disabled={phase === "sending" || Boolean(blocked(decision))} aria-describedby={blocked(decision) ? `why-not-${key}` : undefined} aria-expanded={expanded}
      onClick={onClick}>
      <span class="act-text" data-key={letter}>{name}</span>
    </button>
  );
  const target = (event: MouseEvent) => event.currentTarget as HTMLElement;

  return (
    <div class="card-item" ref={root} data-id={name} data-phase={phase}>
      <article class="card" ref={article} tabIndex={-1} aria-labelledby={`title-${key}`} aria-describedby={`command-${key}`} aria-busy={phase === "sending"} data-tone={end?.tone}>
        <header class="card-head">
          {!only && <button type="button" class="quiet card-back" onClick={closeCard}>‹ List</button>}
          <h2 class="card-title" id={`title-${key}`}><bdi>{visible(approval.agentId)}</bdi> asks to run on <bdi>{visible(placeOf(approval))}</bdi></h2>
          {phase !== "settled" && <span class={msLeft <= URGENT_MS ? "left urgent" : "left"}>{msLeft > 0 ? `${timeLeft(msLeft)} left` : "Time is up"}</span>}
        </header>
        <div class="card-body">
          {isGroup && wide && <wide.Times name={name} all={all} sessions={sessions} />}
          <CommandBlock approval={approval} />
          {approval.revises && wide && <wide.Revised approval={approval} />}
          <Details approval={approval} known={known} />
        </div>
        <div class="card-foot">
          {end && wide && (isGroup ? <wide.Results all={all} /> : <wide.Ended entry={entry} label={label} article={article} />)}
          <p class="votes" role="status" hidden={!said}>{visible(said)}</p>
          <Wrong text={isGroup ? undefined : entry.problem} />
          {isGroup && phase !== "settled" && wide && <wide.Results all={all.filter((each) => each.problem)} />}
          {phase !== "settled" && <FactsLine facts={facts} known={known} />}
          {phase !== "settled" && wide && <wide.HeldBack approval={approval} />}
          {phase !== "settled" && !canDecide && <p class="hint">You can look at this, but not answer: your sign-in lacks the scope approve.</p>}
          {phase !== "settled" && canDecide && (
            <div class="answer">
              <div class="note" hidden={!isWritten}>
                <label for={`reason-${key}`}>{mode === "deny" ? "Why? The agent sees this (optional)" : "Reason (optional, goes on the record)"}</label>
                <input ref={field} id={`reason-${key}`} type="text" maxLength={2000} autocomplete="off" value={reason} onInput={(event) => write(event.currentTarget.value)}
                  onKeyDown={(event) => {
                    if (event.key !== "Enter" || event.repeat || event.isComposing) return;
                    event.preventDefault();
                    // The field was opened for this request, and a denial harms nobody.
                    if (mode === "deny") press("deny", undefined, true);
                    else close();
                  }} />
                {mode === "deny" && wide && <wide.Reasons choose={write} />}
                {mode === "deny" && wide && <wide.AfterDenial approval={approval} chosen={afterwards} choose={changed(setAfterwards)} />}
              </div>
              <fieldset class="always" id={`always-${key}`} hidden={mode !== "always"}>
                <legend>{`From now on ${brief(approval.agentId, 40)} may run without asking`}</legend>
                {mode === "always" && (wide ? <wide.AlwaysPanel approval={approval} narrowed={narrowed} narrow={changed(setNarrowed)} /> : <p class="hint">Loading …</p>)}
                <div class="always-end">
                  {mode === "always" && wide && <wide.StoredList approval={approval} narrowed={narrowed} others={open.slice(1).map((each) => each.approval)} />}
                  <button type="button" class="quiet" onClick={close}>Back</button>
                  <button type="button" class={`act allow-always${isSent("allow-always") ? " busy" : ""}`} data-decision="confirm-always"
                    aria-disabled={phase === "sending" || !isProposed || Boolean(blocked("allow-always"))} onClick={() => press("allow-always")}><span class="act-text">Store and allow</span></button>
                </div>
              </fieldset>
              {mode === "revise" && (wide ? <wide.Revise approval={approval} close={close} blocked={blocked("deny")} /> : <p class="hint">Loading …</p>)}
              {mode === "deny" ? (
                <div class="actions two" role="group" aria-label={`Deny: ${label}`}>
                  <button type="button" class="act" onClick={close}>Back</button>
                  <button type="button" class={`act deny${isSent("deny") ? " busy" : ""}`} data-decision="confirm-deny" aria-disabled={phase === "sending" || Boolean(blocked("deny"))} onClick={() => press("deny")}>
                    <span class="act-text" data-key="Enter">{`Deny${times}`}</span>
                  </button>
                </div>
              ) : mode !== "always" && mode !== "revise" && (
                <div class="actions" role="group" aria-label={`Your answer to: ${label}`}>
                  {act("deny", `Deny${times}`, "d", (event) => press("open-deny", target(event)))}
                  {act("allow-always", "Always…", "A", (event) => press("open-always", target(event)), "", false)}
                  {act("allow-once", `Allow${times} once`, "a", () => press("allow-once"), isPlainNow ? "plain" : "")}
                </div>
              )}
              <div class="under">
                <p class="hint why-not" id={`why-not-${key}`}>{whyNot}</p>
                {mode === "answer" && !isGroup && <button type="button" class="quiet" data-open="revise" onClick={(event) => press("open-revise", event.currentTarget)}>Suggest another command</button>}
                {mode === "answer" && <button type="button" class="quiet note-toggle" onClick={(event) => press("open-note", event.currentTarget)}>Add a reason</button>}
              </div>
            </div>
          )}
        </div>
      </article>
    </div>
  );
}

/** What the record knows, asked once a card stays open. */
function useKnown(approval: Approval, changed: () => void): Known {
  const [known, setKnown] = useState<Known>({ overrides: undefined, past: undefined, isLost: !may("read") });
  useEffect(() => {
    if (!may("read")) return undefined;
    let isOver = false;
    const add = (more: Partial<Known>) => {
      if (isOver) return;
      changed();
      setKnown((now) => ({ ...now, ...more }));
    };
    const timer = setTimeout(() => {
      const lost = () => add({ isLost: true });
      if (approval.status === "pending") overridesOf(approval).then((overrides) => add({ overrides }), lost);
      pastRuns(approval).then((past) => add({ past }), lost);
    }, PAST_PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [approval.id]);
  return known;
}

/** One line of what is known, above the buttons. */
function FactsLine({ facts, known: { overrides, past, isLost } }: { facts: readonly Fact[]; known: Known }) {
  const isKnown = overrides !== undefined && past !== undefined;
  const said = isKnown ? "No known risk found. That does not make it safe." : isLost ? "The record could not be read, so its history is unknown." : "Looking at the record …";
  if (!facts.length) return <p class="facts-line hint">{said}</p>;
  return <FactChips facts={facts} />;
}
