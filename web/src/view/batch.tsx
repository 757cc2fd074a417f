// Several requests and one answer: each command in full, one result each. Before they are allowed, each was on the screen; before
// many different ones are denied, you are asked once more.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { chooseAll, decideChosen, decideTogether, listEach, MANY } from "../answers.ts";
import { setCard } from "../card-keys.ts";
import { chooseAlike, chooseNone, chosen, closeCard, drawn, filter, isOpen, isRead, listed, model, online } from "../inbox.ts";
import type { ApprovalDecision } from "../api/types.ts";
import type { Entry } from "../pure/approvals.ts";
import { areAlike, factsOf } from "../pure/facts.ts";
import { grantOf, type Narrowing, proposalsOf, unlimited } from "../pure/grant.ts";
import { whyNoAlways } from "../pure/grant-words.ts";
import { equalKey, MOST_TOGETHER, type Row } from "../pure/groups.ts";
import { brief, visible } from "../pure/text.ts";
import { keepReason } from "../reasons.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { type Guard, nudge } from "../steady.ts";
import { AlwaysPanel, StoredList } from "./always.tsx";
import { CommandBlock, mustOpen } from "./command.tsx";
import { lineOf, Variables } from "./details.tsx";
import { Results } from "./ended.tsx";
import { FactChips } from "./facts.tsx";

/** Chooses everything that waits in the list as it is filtered. */
export function ChooseAll() {
  useValue(drawn);
  const words = useValue(filter);
  useValue(chosen);
  const count = Math.min(listed().filter(isOpen).length, MOST_TOGETHER);
  if (count < 2 || !may("approve")) return null;
  return <button type="button" class="quiet" id="choose-all" aria-keyshortcuts="*" onClick={chooseAll}>{count === MOST_TOGETHER ? `Choose the first ${count}` : words ? `Choose these ${count}` : `Choose all ${count}`}</button>;
}

/** What was chosen, or the similar requests of a row of the list. */
export function Batch({ row, guard }: { row?: Row; guard: () => Guard | undefined }) {
  useValue(drawn);
  const ids = useValue(chosen);
  const isOnline = useValue(online);
  const [reason, setReason] = useState("");
  const [mode, setMode] = useState<"answer" | "always" | "deny">("answer");
  const [narrowed, setNarrowed] = useState<Narrowing | undefined>(undefined);
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const root = useRef<HTMLDivElement>(null);
  const article = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const confirm = useRef<HTMLButtonElement>(null);
  const entries = row?.entries ?? [...ids].flatMap((id) => model.entries.get(id) ?? []);
  const waiting = entries.filter(({ phase }) => phase !== "settled");
  const all = waiting.filter(({ phase }) => phase === "pending").map(({ approval }) => approval);
  const shown = firsts(waiting);
  const [first] = entries;
  // What is answered changed: what the buttons do is not what it was.
  const together = entries.map(({ approval }) => approval.id).join();
  useEffect(() => {
    if (root.current) guard()?.unsettle(root.current);
    setMode("answer");
  }, [together]);
  useLayoutEffect(() => {
    if (mode !== "answer") confirm.current?.focus({ preventScroll: true });
  }, [mode]);
  // An end that is in sight was reached by reading, or by scrolling past.
  useEffect(() => {
    const ends = new IntersectionObserver((found) => {
      const now = found.filter(({ isIntersecting }) => isIntersecting).map(({ target }) => (target as HTMLElement).dataset.end ?? "");
      if (now.length) setSeen((before) => new Set([...before, ...now]));
    });
    for (const end of root.current?.querySelectorAll("[data-end]") ?? []) ends.observe(end);
    return () => ends.disconnect();
  }, [together, waiting.length]);
  useLayoutEffect(() => setCard({
    press: (what) => {
      if (what === "once" && first) press("allow-once");
      if (what === "always") openAlways();
      if (what === "deny") field.current?.focus();
    },
    escape: () => {
      if (mode !== "answer") {
        back();
        return true;
      }
      if (document.activeElement !== field.current) return false;
      article.current?.focus({ preventScroll: true });
      return true;
    },
  }));
  if (!first) return null;

  const unread = shown.filter(({ entry: { approval } }) => mustOpen(approval) && !isRead(approval.id)).length;
  const unseen = shown.filter(({ entry }) => !seen.has(entry.approval.id)).length;
  const closed = all.filter(({ allowedDecisions }) => !allowedDecisions.includes("allow-once")).length;
  const whyNot = !isOnline
    ? "Offline. You can answer once the server is back."
    : !all.length ? "Sending your answer …"
      : unread ? `Show all of ${unread === 1 ? "one command" : `${unread} commands`} before you allow them.`
        : unseen ? `Scroll through all of them before you allow them: ${unseen === 1 ? "one was" : `${unseen} were`} not in sight yet.`
          : closed ? `${closed === 1 ? "One of them" : `${closed} of them`} cannot be allowed.` : "";

  // A rule is stored from one of them, and answers those that it covers.
  const asked = row && (all.find(({ allowedDecisions }) => allowedDecisions.includes("allow-always")) ?? all[0]);
  const whyNotAlways = whyNot || !asked || asked.allowedDecisions.includes("allow-always") ? whyNot : whyNoAlways(asked);
  const choice = asked && (narrowed && proposalsOf(asked).some(({ id }) => id === narrowed.proposal) ? narrowed : unlimited(proposalsOf(asked)[0]?.id ?? ""));
  const isMany = !row && shown.length > MANY;
  const agents = new Set(all.map(({ agentId }) => agentId)).size;

  function unsettle() {
    if (root.current) guard()?.unsettle(root.current);
  }

  function back() {
    unsettle();
    setMode("answer");
    queueMicrotask(() => article.current?.focus({ preventScroll: true }));
  }

  function openAlways() {
    if (!asked || whyNotAlways || !may("approve")) return;
    unsettle();
    setMode("always");
  }

  function press(decision: ApprovalDecision, isWrittenFor = false) {
    if (!isOnline || !all.length || !may("approve") || (decision !== "deny" && whyNot)) return;
    if (!root.current || !article.current) return;
    if (!isWrittenFor && !guard()?.isSteady(root.current)) return nudge(article.current);
    if (decision === "deny" && isMany && mode !== "deny") {
      unsettle();
      return setMode("deny");
    }
    const said = decision === "deny" ? reason.trim() : "";
    const to = all.map(({ id }) => id);
    if (decision === "deny") keepReason(said);
    if (decision !== "allow-always") return void (row ? decideTogether(to, decision, said ? { reason: said } : {}) : decideChosen(to, decision, said));
    if (!asked || !choice || whyNotAlways) return;
    void decideTogether([asked.id, ...to.filter((id) => id !== asked.id)], decision, { grant: grantOf(asked, choice) });
  }

  return (
    <div class="card-item" ref={root} data-id={row?.name ?? "chosen"}>
      <article class="card" ref={article} tabIndex={-1} aria-labelledby="chosen-title">
        <header class="card-head">
          <button type="button" class="quiet card-back" onClick={closeCard}>‹ List</button>
          <h2 class="card-title" id="chosen-title">{waiting.length ? `One answer to ${waiting.length} ${row ? "similar " : ""}${waiting.length === 1 ? "request" : "requests"}` : `${entries.length} requests had one answer`}</h2>
          {row ? <button type="button" class="quiet" onClick={() => listEach(row.name)}>List each</button> : (
            <>
              <button type="button" class="quiet" id="choose-alike" onClick={() => chooseAlike(first.approval.id)}>Choose all alike</button>
              <button type="button" class="quiet" onClick={chooseNone}>Choose none</button>
            </>
          )}
        </header>
        <div class="card-body" role="group" aria-label="What is answered" tabIndex={0}>
          {!waiting.every(({ approval }) => areAlike(approval, first.approval)) && <p class="warn-line">They come from different agents, run different programs or set different variables.</p>}
          <Results all={entries.filter(({ phase, problem }) => problem || (row && phase === "settled"))} />
          <ol class="batch" aria-label={row ? "The similar requests" : "The chosen requests"}>
            {shown.map(({ entry: { approval }, count }) => (
              <li key={approval.id}>
                <p class="batch-of">{count > 1 && <strong>{`Asked ${count} times: `}</strong>}<bdi>{visible(approval.agentId)}</bdi> on <bdi>{visible(approval.host)}</bdi> in <code dir="ltr">{visible(approval.cwd)}</code></p>
                <CommandBlock approval={approval} />
                {approval.envNames.length > 0 && <dl class="facts"><Variables approval={approval} /></dl>}
                <FactChips facts={factsOf(approval, { overrides: undefined, runsBefore: undefined })} />
                <span data-end={approval.id} />
              </li>
            ))}
          </ol>
        </div>
        <div class="card-foot">
          {waiting.length > 0 && may("approve") && <div class="answer">
            {mode !== "always" && <div class="note">
              <label for="reason-chosen">Why you deny them: the agent sees this (optional)</label>
              <input ref={field} id="reason-chosen" type="text" maxLength={2000} autocomplete="off" value={reason} onInput={(event) => setReason(event.currentTarget.value)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" || event.repeat || event.isComposing) return;
                  event.preventDefault();
                  // The field was opened for these requests, and a denial harms nobody; many are asked about once more.
                  if (mode === "answer") press("deny", true);
                }} />
            </div>}
            {mode === "always" && asked && choice && (
              <fieldset class="always">
                <legend>{`From now on ${brief(asked.agentId, 40)} may run without asking`}</legend>
                <p class="hint">As in: <code dir="ltr">{brief(lineOf(asked), 160)}</code></p>
                <AlwaysPanel key={asked.id} approval={asked} narrowed={choice} narrow={(next) => {
                  unsettle();
                  setNarrowed(next);
                }} />
                <div class="always-end">
                  <StoredList approval={asked} narrowed={choice} others={all.filter((other) => other !== asked)} />
                  <button type="button" class="quiet" onClick={back}>Back</button>
                  <button type="button" ref={confirm} class="act allow-always" data-decision="confirm-always" aria-disabled={Boolean(whyNotAlways)} onKeyDown={once} onClick={() => press("allow-always")}><span class="act-text">Store and allow</span></button>
                </div>
              </fieldset>
            )}
            {mode === "deny" && (
              <>
                <p class="warn-line" role="status">{`Deny ${waiting.length} requests${agents > 1 ? ` of ${agents} agents` : ""}? This cannot be taken back.${agents > 1 ? " Their agents" : " The agent"} can ask again.`}</p>
                <div class="actions two" role="group" aria-label="Deny all of them">
                  <button type="button" class="act" onClick={back}>Back</button>
                  <button type="button" ref={confirm} class="act deny" data-decision="confirm-deny-all" aria-disabled={!isOnline || !all.length} onKeyDown={once} onClick={() => press("deny")}><span class="act-text" data-key="Enter">{`Deny all ${waiting.length}`}</span></button>
                </div>
              </>
            )}
            {mode === "answer" && <div class={row ? "actions" : "actions two"} role="group" aria-label="Your answer to all of them">
              <button type="button" class="act deny" data-decision="deny-all" aria-keyshortcuts="d" aria-disabled={!isOnline || !all.length} onClick={() => press("deny")}><span class="act-text" data-key="d">{`Deny ${waiting.length}`}</span></button>
              {row && (
                <button type="button" class="act allow-always" data-decision="allow-always" aria-keyshortcuts="A" aria-expanded={false} aria-disabled={Boolean(whyNotAlways)} aria-describedby={whyNotAlways ? "why-not-chosen" : undefined} onClick={openAlways}><span class="act-text" data-key="A">Always…</span></button>
              )}
              <button type="button" class="act allow-once" data-decision="allow-all" aria-keyshortcuts="a" aria-disabled={Boolean(whyNot)} aria-describedby={whyNot ? "why-not-chosen" : undefined} onClick={() => press("allow-once")}>
                <span class="act-text" data-key="a">{`Allow ${waiting.length} once`}</span>
              </button>
            </div>}
            <p class="hint why-not" id="why-not-chosen">{mode === "deny" ? "" : whyNot || (row ? whyNotAlways : "")}</p>
          </div>}
        </div>
      </article>
    </div>
  );
}

/** A key that is held down presses a button again and again: only the first counts. */
function once(event: KeyboardEvent): void {
  if (event.repeat) event.preventDefault();
}

/** The requests of which a person sees something else, and how often each was asked. */
function firsts(entries: readonly Entry[]): { entry: Entry; count: number }[] {
  const found = new Map<string, { entry: Entry; count: number }>();
  for (const entry of entries) {
    const known = found.get(equalKey(entry.approval));
    if (known) known.count += 1;
    else found.set(equalKey(entry.approval), { entry, count: 1 });
  }
  return [...found.values()];
}
