// Changes that wait to be accepted: what they would newly allow, and what they change, before and after.

import { useState } from "preact/hooks";
import { json, Refused } from "../../api/api.ts";
import type { EffectivePolicy, PendingEdit } from "../../api/types.ts";
import { rejecting } from "../../pure/changes.ts";
import { visible } from "../../pure/text.ts";
import { may, seePolicy } from "../../shell.ts";
import { Changes } from "../changes.tsx";
import { Mono, Time } from "../common.tsx";
import { Confirm } from "../confirm.tsx";

interface Waiting {
  id: string;
  file: string;
  edit: PendingEdit;
  /** What has to be done beside accepting it. */
  then?: string;
}

/** The edits that wait, of all three files. */
function waitingIn({ document, configHeld, serverHeld }: EffectivePolicy): Waiting[] {
  const all: (Waiting | undefined)[] = [
    document.held && { id: "document", file: "exec-approvals.json", edit: document.held },
    configHeld && { id: "config", file: "openclaw.json", edit: configHeld },
    serverHeld && { id: "server", file: "countersign.toml", edit: serverHeld, then: "Once accepted, it takes effect after a restart of the server." },
  ];
  return all.filter((one): one is Waiting => one !== undefined);
}

export function Held({ effective, changed }: { effective: EffectivePolicy; changed: () => Promise<void> }) {
  return <>{waitingIn(effective).map((waiting) => <Edit key={waiting.id} waiting={waiting} changed={changed} />)}</>;
}

function Edit({ waiting: { id, file, edit, then }, changed }: { waiting: Waiting; changed: () => Promise<void> }) {
  const { hash, sinceMs, allows, proposedBy = [], changes = [] } = edit;
  const [isSettled, setSettled] = useState(false);
  const people = proposedBy.map(({ name }) => visible(name)).join(", ");
  const title = `held-${id}-title`;
  return (
    <section class="panel held" id={`held-${id}`} aria-labelledby={title}>
      <h2 id={title}>Waiting to be accepted: a change to {file}</h2>
      <p class="hint">{people ? `${people} changed it, and it takes a second person.` : "It was edited from outside."} It has waited since <Time ms={sinceMs} />. What it takes away is in effect; what it newly allows is not. {then}</p>
      <h3>It would newly allow</h3>
      <ul class="allows">{allows.map((sentence) => <li key={sentence}><bdi>{visible(sentence)}</bdi></li>)}</ul>
      {changes.length > 0 && (
        <>
          <h3>It changes</h3>
          <Changes edit={edit} file={file} />
        </>
      )}
      {may("admin") ? (
        <>
          <Confirm name="Accept this change…" act={`accept-${id}`} question="Let it allow what is listed above?" yes="Accept it" done="The change is accepted." changed={() => void changed()}
            run={async () => {
              await json("POST", "/v1/policy/document/accept", { body: { hash } });
              setSettled(true);
              await seePolicy().catch((error: unknown) => {
                if (!(error instanceof Refused)) throw error;
              });
            }} />
          <Confirm name="Reject this change…" act={`reject-${id}`} question={rejecting(file)} yes="Reject it" done="The change is rejected." changed={() => void changed()}
            run={async () => {
              await json("POST", "/v1/policy/document/reject", { body: { hash } });
              setSettled(true);
              await seePolicy().catch((error: unknown) => {
                if (!(error instanceof Refused)) throw error;
              });
            }} />
          <p class="hint" hidden={isSettled}>On the command line: <Mono text={`countersign policy accept ${hash.slice(0, 12)}…`} /> or <Mono text="reject" />.</p>
        </>
      ) : <p class="hint">An admin can accept or reject it, here or with <code>countersign policy accept</code> and <code>reject</code>.</p>}
    </section>
  );
}
