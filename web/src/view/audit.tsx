// The audit log: who did what, newest first; whether it is intact; and a copy of it.

import { useMemo, useState } from "preact/hooks";
import { everything, json, Refused } from "../api/api.ts";
import type { AuditRecord, AuditVerification } from "../api/types.ts";
import { hints } from "../hints.ts";
import { recordSaid } from "../pure/audit.ts";
import { addressOf } from "../pure/route.ts";
import { brief, visible } from "../pure/text.ts";
import { useValue } from "../state.ts";
import { Fact, Mono, Time, Wrong } from "./common.tsx";
import { AGES, Filter, type FilterField, Listing, query, sinceOf, useFilter } from "./listing.tsx";
import { usePaged } from "./paged.ts";

const MOST_EXPORTED = 50_000;

const FIELDS: FilterField[] = [
  { key: "action", title: "Action", hint: "exec.denied" },
  { key: "actor", title: "Who, by id", hint: "the id of a token" },
  { key: "age", title: "Recorded", choices: AGES },
];

const TONES = { ok: "good", denied: "bad", failed: "warn" } as const;

export function Audit() {
  const { action, actor, age } = useFilter(FIELDS);
  const since = useMemo(() => sinceOf(age), [age]);
  const hint = useValue(hints.runs) + useValue(hints.approvals) + useValue(hints.policy) + useValue(hints.all);
  const filter = query({ action, actor, since });
  const list = usePaged<AuditRecord>(`/v1/audit?${query({ limit: "50", order: "newest" })}${filter && `&${filter}`}`, ({ seq }) => String(seq), hint);
  return (
    <>
      <Filter view="audit" fields={FIELDS} />
      <Tools filter={filter} />
      <Listing id="audit" title="Audit records" list={list} row={(record) => <Row key={record.seq} record={record} />}
        none={action || actor || age ? <p>No record matches the filter. <a href="#/audit">Show all records</a></p> : <p>Nothing is recorded yet.</p>} />
    </>
  );
}

function Row({ record }: { record: AuditRecord }) {
  const { seq, ts, actor, action, target, outcome, detail, hash } = record;
  const { words, command, agent } = recordSaid(record);
  const approval = target.kind === "approval" ? target.id : undefined;
  return (
    <li class="run" data-record={seq}>
      <details>
        <summary class="run-head">
          <span class={`badge ${TONES[outcome]}`}>{outcome}</span>
          <span class="run-command"><strong><bdi>{brief(actor.name, 60)}</bdi></strong> <bdi>{brief(words, 200)}</bdi>{command !== undefined && <> <code dir="ltr">{brief(command, 160)}</code></>}{agent !== undefined && <> for <bdi>{brief(agent, 60)}</bdi></>}</span>
          <span class="run-meta">{`${seq} · `}<Time ms={ts} /> · <code>{visible(action)}</code>{` · ${brief(`${target.kind} ${target.id}`, 80)}`}</span>
        </summary>
        <div class="run-body">
          <dl class="facts">
            <Fact name="Who"><bdi>{visible(actor.name)}</bdi>{` (${visible(actor.kind)} `}<Mono text={actor.id} />{actor.address ? `, from ${visible(actor.address)}` : ""})</Fact>
            <Fact name="What it is about">{visible(target.kind)} <Mono text={target.id} /></Fact>
            <Fact name="SHA-256"><Mono text={hash} /></Fact>
          </dl>
          {approval && <p><a href={`/a/${encodeURIComponent(approval)}`}>The request and its run</a></p>}
          <p>Show only <a href={addressOf("audit", { actor: actor.id })}>what <bdi>{brief(actor.name, 60)}</bdi> did</a> or <a href={addressOf("audit", { action })}>each <code>{visible(action)}</code></a></p>
          <pre class="output" tabIndex={0} role="group" aria-label="Detail">{visible(JSON.stringify(detail, null, 2), "\n")}</pre>
        </div>
      </details>
    </li>
  );
}

function Tools({ filter }: { filter: string }) {
  const [isBusy, setBusy] = useState(false);
  const [said, setSaid] = useState<{ text: string; isGood: boolean } | undefined>(undefined);
  const [problem, setProblem] = useState("");

  async function during(work: () => Promise<void>) {
    if (isBusy) return;
    setBusy(true);
    setProblem("");
    setSaid(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof Refused ? error.sentence : "No answer came. Try again.");
    }
    setBusy(false);
  }

  const verify = () => during(async () => setSaid(verdict(await json<AuditVerification>("GET", "/v1/audit/verify"))));
  const save = () => during(async () => {
    const { items, more } = await everything<AuditRecord>(`/v1/audit${filter && `?${filter}`}`, MOST_EXPORTED);
    const address = URL.createObjectURL(new Blob(items.map((record) => `${JSON.stringify(record)}\n`), { type: "application/x-ndjson" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "audit.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    setSaid({ text: `${items.length.toLocaleString("en")} records are saved, one JSON object a line.${more ? " There are more: narrow the filter, or use countersign audit list." : ""}`, isGood: !more });
  });
  return (
    <div class="tools">
      <button type="button" id="audit-verify" aria-disabled={isBusy} onClick={() => void verify()}>Verify the log</button>
      <button type="button" id="audit-save" aria-disabled={isBusy} onClick={() => void save()}>Save as a file</button>
      <p role="status" id="audit-said" class={said && !said.isGood ? "warn-line" : "hint"}>{said ? visible(said.text) : ""}</p>
      <Wrong text={problem} />
    </div>
  );
}

/** What a verification found, in a sentence. */
function verdict({ ok, records, firstSeq, lastSeq, head, problem }: AuditVerification): { text: string; isGood: boolean } {
  if (problem) return { text: `The log is not intact: record ${problem.seq} is ${problem.kind}${problem.target ? ` (${problem.target.kind} ${problem.target.id})` : ""}.`, isGood: false };
  if (!ok) return { text: "The log is not intact.", isGood: false };
  const sealed = head && head.seq < lastSeq ? ` It is sealed up to ${head.seq}; newer records are sealed within seconds.` : "";
  return { text: `The log is intact: ${records.toLocaleString("en")} records, ${firstSeq} to ${lastSeq}.${sealed}`, isGood: true };
}
