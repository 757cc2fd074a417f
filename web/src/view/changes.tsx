// A change of policy that waits: what it changes, before and after, and the two answers to it where it is announced.

import { useState } from "preact/hooks";
import { json } from "../api/api.ts";
import type { PendingEdit, PolicyChange } from "../api/types.ts";
import { grouped, rejecting } from "../pure/changes.ts";
import { diff } from "../pure/diff.ts";
import { visible } from "../pure/text.ts";
import { may, seePolicy } from "../shell.ts";
import { Confirm } from "./confirm.tsx";

/** The answers to a change in the notice above the views, and what it changes one press away. */
export function HeldAnswers({ id, edit }: { id: string; edit: PendingEdit }) {
  const [isShown, setShown] = useState(false);
  const file = { held: "exec-approvals.json", "held-config": "openclaw.json" }[id] ?? "countersign.toml";
  const answer = (how: string) => async () => {
    await json("POST", `/v1/policy/document/${how}`, { body: { hash: edit.hash } });
    await seePolicy();
  };
  return (
    <div class="held-answers">
      <div class="row-actions">
        <button type="button" class="quiet" data-act="show-changes" aria-expanded={isShown} onClick={() => setShown(!isShown)}>What it changes</button>
        <a href="#/policy">Policy</a>
      </div>
      {isShown && ((edit.changes ?? []).length > 0 ? <Changes edit={edit} file={file} /> : <p class="hint">Before and after are not known. What it newly allows is listed above.</p>)}
      {may("admin") && (
        <div class="row-actions">
          <Confirm name="Reject…" label="Reject this change" act={`notice-reject-${id}`} question={rejecting(file)} yes="Reject it" done="The change is rejected." changed={() => {}} run={answer("reject")} />
          <Confirm name="Accept…" label="Accept this change" act={`notice-accept-${id}`} question="Let it allow what is listed above?" yes="Accept it" done="The change is accepted." changed={() => {}} run={answer("accept")} />
        </div>
      )}
    </div>
  );
}

/** What differs from what was accepted. */
export function Changes({ edit: { changes = [], moreChanges = 0 }, file }: { edit: PendingEdit; file: string }) {
  return (
    <>
      <div class="table-box" tabIndex={0} role="region" aria-label={`What changes in ${file}`}>
        <table class="figures changes">
          <thead><tr><th scope="col">What</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
          <tbody>{grouped(changes).map((change, index) => <Row key={index} change={change} />)}</tbody>
        </table>
      </div>
      {moreChanges > 0 && <p class="hint">{`${moreChanges.toLocaleString("en")} more changes are not listed.`}</p>}
    </>
  );
}

/** A setting or entry. Where it was and is there, the parts that differ are marked. */
function Row({ change: { what, before, after } }: { change: PolicyChange }) {
  const parts = before !== undefined && after !== undefined ? diff(visible(before), visible(after)) : undefined;
  return (
    <tr>
      <th scope="row"><bdi>{visible(what)}</bdi></th>
      <td data-name="Before">{before === undefined ? <span class="unset">not set</span> : <code dir="ltr">{parts ? parts.filter(({ kind }) => kind !== "new").map(({ kind, text }, index) => (kind === "gone" ? <del key={index}>{text}</del> : text)) : <del>{visible(before)}</del>}</code>}</td>
      <td data-name="After">{after === undefined ? <span class="unset">removed</span> : <code dir="ltr">{parts ? parts.filter(({ kind }) => kind !== "gone").map(({ kind, text }, index) => (kind === "new" ? <ins key={index}>{text}</ins> : text)) : <ins>{visible(after)}</ins>}</code>}</td>
    </tr>
  );
}
