// Several requests and one answer: each command in full, one result each. Before they are allowed, each was on the screen.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { decideChosen, decideTogether, listEach } from "../answers.ts";
import { setCard } from "../card-keys.ts";
import { chooseAlike, chooseNone, chosen, closeCard, drawn, isRead, model, online } from "../inbox.ts";
import type { Entry } from "../pure/approvals.ts";
import { areAlike, factsOf } from "../pure/facts.ts";
import { equalKey, type Row } from "../pure/groups.ts";
import { visible } from "../pure/text.ts";
import { may } from "../shell.ts";
import { useValue } from "../state.ts";
import { type Guard, nudge } from "../steady.ts";
import { CommandBlock, mustOpen } from "./command.tsx";
import { Variables } from "./details.tsx";
import { Results } from "./ended.tsx";
import { FactChips } from "./facts.tsx";

/** What was chosen, or the similar requests of a row of the list. */
export function Batch({ row, guard }: { row?: Row; guard: () => Guard | undefined }) {
  useValue(drawn);
  const ids = useValue(chosen);
  const isOnline = useValue(online);
  const [reason, setReason] = useState("");
  const [seen, setSeen] = useState<ReadonlySet<string>>(new Set());
  const root = useRef<HTMLDivElement>(null);
  const article = useRef<HTMLElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const entries = row?.entries ?? [...ids].flatMap((id) => model.entries.get(id) ?? []);
  const waiting = entries.filter(({ phase }) => phase !== "settled");
  const all = waiting.filter(({ phase }) => phase === "pending").map(({ approval }) => approval);
  const shown = firsts(waiting);
  const [first] = entries;
  // What is answered changed: what the buttons do is not what it was.
  const together = entries.map(({ approval }) => approval.id).join();
  useEffect(() => {
    if (root.current) guard()?.unsettle(root.current);
  }, [together]);
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
      if (what === "deny") field.current?.focus();
    },
    escape: () => {
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

  function press(decision: "allow-once" | "deny", isWrittenFor = false) {
    if (!isOnline || !all.length || !may("approve") || (decision === "allow-once" && whyNot)) return;
    if (!root.current || !article.current) return;
    if (!isWrittenFor && !guard()?.isSteady(root.current)) return nudge(article.current);
    const said = decision === "deny" ? reason.trim() : "";
    const to = all.map(({ id }) => id);
    void (row ? decideTogether(to, decision, said ? { reason: said } : {}) : decideChosen(to, decision, said));
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
          {!waiting.every(({ approval }) => areAlike(approval, first.approval)) && <p class="warn-line">They are of different agents, run different programs or set different variables.</p>}
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
            <div class="note">
              <label for="reason-chosen">Why you deny them: the agent sees this (optional)</label>
              <input ref={field} id="reason-chosen" type="text" maxLength={2000} autocomplete="off" value={reason} onInput={(event) => setReason(event.currentTarget.value)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" || event.repeat || event.isComposing) return;
                  event.preventDefault();
                  // A denial harms nobody.
                  press("deny", true);
                }} />
            </div>
            <div class="actions two" role="group" aria-label="Your answer to all of them">
              <button type="button" class="act deny" data-decision="deny-all" aria-disabled={!isOnline || !all.length} onClick={() => press("deny")}><span class="act-text">{`Deny ${waiting.length}`}</span></button>
              <button type="button" class="act allow-once" data-decision="allow-all" aria-disabled={Boolean(whyNot)} aria-describedby={whyNot ? "why-not-chosen" : undefined} onClick={() => press("allow-once")}>
                <span class="act-text">{`Allow ${waiting.length} once`}</span>
              </button>
            </div>
            <p class="hint why-not" id="why-not-chosen">{whyNot}</p>
          </div>}
        </div>
      </article>
    </div>
  );
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
