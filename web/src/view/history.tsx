// History: what people answered, who did and why, newest first.

import { useMemo } from "preact/hooks";
import type { Approval } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, visible } from "../pure/text.ts";
import { outcome } from "../pure/words.ts";
import { useValue } from "../state.ts";
import { useAgents } from "./agents.ts";
import { Fact, Mono, Time } from "./common.tsx";
import { lineOf, placeOf } from "./details.tsx";
import { AGES, dayOf, Filter, type FilterField, Listing, query, sinceOf, useFilter } from "./listing.tsx";
import { usePaged } from "./paged.ts";

const STATES = [["all", "Any answer"], ["allowed", "Allowed"], ["denied", "Denied"], ["expired", "Expired"], ["cancelled", "Cancelled"], ["pending", "Waiting"]] as const;

export function History() {
  const agents = useAgents();
  const fields: FilterField[] = [
    { key: "agent", title: "Agent", choices: agents },
    { key: "status", title: "Answer", choices: STATES.map(([value, words]) => [value === "all" ? "" : value, words] as const) },
    { key: "days", title: "Asked", choices: AGES },
    { key: "day", title: "Day", kind: "day" },
    { key: "q", title: "Text of the command", hint: "git push" },
  ];
  const { agent, status, days, day, q } = useFilter(fields);
  const since = useMemo(() => sinceOf(days), [days]);
  const hint = useValue(hints.approvals) + useValue(hints.all);
  const list = usePaged<Approval>(`/v1/approvals?${query({ limit: "50", agentId: agent, status: status || "all", since, ...dayOf(day), q })}`, ({ id }) => id, hint);
  const isNarrowed = Boolean(agent || status || days || day || q);
  return (
    <>
      <Filter view="history" fields={fields} />
      <Listing id="history" title="Requests and their answers" list={list} row={(approval) => <Row key={approval.id} approval={approval} />}
        none={isNarrowed ? <p>Nothing matches the filter. <a href="#/history">Show all requests</a></p> : <p>Nothing was asked yet. What agents ask, and how it was answered, stays here.</p>} />
    </>
  );
}

function Row({ approval }: { approval: Approval }) {
  const isWaiting = approval.status === "pending";
  const { tone, title, detail } = outcome(approval);
  const { grant, resolvedAtMs, justification, approvalsRequired, votes = [] } = approval;
  return (
    <li class="run" data-approval={approval.id}>
      <details>
        <summary class="run-head">
          <span class={`badge ${isWaiting ? "wait" : tone}`}>{isWaiting ? "Waiting" : visible(title)}</span>
          <code class="run-command" dir="ltr">{brief(lineOf(approval), 160)}</code>
          <span class="run-meta"><bdi>{visible(approval.agentId)}</bdi> · <Time ms={approval.createdAtMs} />{!isWaiting && detail && ` · ${brief(detail, 120)}`}</span>
        </summary>
        <div class="run-body">
          <dl class="facts">
            <Fact name="Where"><Mono text={placeOf(approval)} />{" in "}<Mono text={approval.cwd} /></Fact>
            {resolvedAtMs !== undefined && <Fact name="Answered"><Time ms={resolvedAtMs} /></Fact>}
            {approval.reason && <Fact name="Reason"><bdi>{visible(approval.reason)}</bdi></Fact>}
            {grant && <Fact name="Remembered"><bdi>{visible(grant.words)}</bdi></Fact>}
            {approvalsRequired > 1 && <Fact name="People">{`${votes.length} of ${approvalsRequired}`}</Fact>}
            {justification && <Fact name="The agent says">{visible(`“${justification}”`)}</Fact>}
            <Fact name="Session"><Mono text={approval.sessionKey} /></Fact>
          </dl>
          <p><a href={`/a/${approval.id}`}>The complete request and its run</a></p>
        </div>
      </details>
    </li>
  );
}
