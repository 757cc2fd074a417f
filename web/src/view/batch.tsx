// Several requests and one answer: each command in full, one result each.

import { useEffect, useRef, useState } from "preact/hooks";
import { chooseAlike, chooseNone, chosen, closeCard, decideAll, drawn, isRead, model, online } from "../inbox.ts";
import { areAlike, factsOf } from "../pure/facts.ts";
import { visible } from "../pure/text.ts";
import { useValue } from "../state.ts";
import { type Guard, nudge } from "../steady.ts";
import { CommandBlock, mustOpen } from "./command.tsx";
import { Variables } from "./details.tsx";
import { FactChips } from "./facts.tsx";

export function Batch({ guard }: { guard: () => Guard | undefined }) {
  useValue(drawn);
  const ids = useValue(chosen);
  const isOnline = useValue(online);
  const [reason, setReason] = useState("");
  const root = useRef<HTMLDivElement>(null);
  const all = [...ids].flatMap((id) => model.entries.get(id)?.approval ?? []);
  const [first] = all;
  // What is chosen changed: what the buttons do is not what it was.
  useEffect(() => {
    if (root.current) guard()?.unsettle(root.current);
  }, [ids]);
  if (!first) return null;

  const unread = all.filter((approval) => mustOpen(approval) && !isRead(approval.id)).length;
  const closed = all.filter(({ allowedDecisions }) => !allowedDecisions.includes("allow-once")).length;
  const whyNot = !isOnline
    ? "Offline. You can answer once the server is back."
    : unread ? `Show all of ${unread === 1 ? "one command" : `${unread} commands`} before you allow them.`
      : closed ? `${closed === 1 ? "One of them" : `${closed} of them`} cannot be allowed.` : "";

  function press(decision: "allow-once" | "deny") {
    if (!isOnline || (decision === "allow-once" && whyNot)) return;
    if (!root.current) return;
    if (!guard()?.isSteady(root.current)) return nudge(root.current);
    void decideAll(decision, decision === "deny" ? reason.trim() : "");
  }

  return (
    <div class="card-item" ref={root} data-id="chosen">
      <article class="card" tabIndex={-1} aria-labelledby="chosen-title">
        <header class="card-head">
          <button type="button" class="quiet card-back" onClick={closeCard}>‹ List</button>
          <h2 class="card-title" id="chosen-title">{`One answer to ${all.length} ${all.length === 1 ? "request" : "requests"}`}</h2>
          <button type="button" class="quiet" id="choose-alike" onClick={() => chooseAlike(first.id)}>Choose all alike</button>
          <button type="button" class="quiet" onClick={chooseNone}>Choose none</button>
        </header>
        <div class="card-body">
          {!all.every((approval) => areAlike(approval, first)) && <p class="warn-line">They are of different agents, run different programs or set different variables.</p>}
          <ol class="batch" aria-label="The chosen requests">
            {all.map((approval) => (
              <li key={approval.id}>
                <p class="batch-of"><bdi>{visible(approval.agentId)}</bdi> on <bdi>{visible(approval.host)}</bdi> in <code dir="ltr">{visible(approval.cwd)}</code></p>
                <CommandBlock approval={approval} />
                {approval.envNames.length > 0 && <dl class="facts"><Variables approval={approval} /></dl>}
                <FactChips facts={factsOf(approval, { overrides: undefined, runsBefore: undefined })} />
              </li>
            ))}
          </ol>
        </div>
        <div class="card-foot">
          <div class="answer">
            <div class="note">
              <label for="reason-chosen">Why you deny them: the agent sees this (optional)</label>
              <input id="reason-chosen" type="text" maxLength={2000} autocomplete="off" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            </div>
            <div class="actions two" role="group" aria-label="Your answer to all of them">
              <button type="button" class="act deny" data-decision="deny-all" aria-disabled={!isOnline} onClick={() => press("deny")}><span class="act-text">{`Deny ${all.length}`}</span></button>
              <button type="button" class="act allow-once" data-decision="allow-all" aria-disabled={Boolean(whyNot)} aria-describedby={whyNot ? "why-not-chosen" : undefined} onClick={() => press("allow-once")}>
                <span class="act-text">{`Allow ${all.length} once`}</span>
              </button>
            </div>
            <p class="hint why-not" id="why-not-chosen">{whyNot}</p>
          </div>
        </div>
      </article>
    </div>
  );
}
