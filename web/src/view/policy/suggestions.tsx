// Entries that would save people the answers that they give again and again.

import { useState } from "preact/hooks";
import { announce } from "../../announce.ts";
import { everything, json, Refused } from "../../api/api.ts";
import type { Approval, Explanation } from "../../api/types.ts";
import { saved, stillHelps, type Suggestion, suggested } from "../../pure/suggest.ts";
import { brief, visible } from "../../pure/text.ts";
import { failed, may } from "../../shell.ts";
import { Mono, Wrong } from "../common.tsx";
import { Confirm } from "../confirm.tsx";
import { query } from "../listing.tsx";
import { reasons } from "./form.tsx";

const DAYS = 30;
const MOST_READ = 2000;
const LEAST = 3;

export function Suggestions({ agentId, changed }: { agentId: string | undefined; changed: () => Promise<void> }) {
  const [isLooking, setLooking] = useState(false);
  const [problem, setProblem] = useState("");
  const [found, setFound] = useState<Suggestion[] | undefined>(undefined);

  async function look() {
    if (isLooking) return;
    setLooking(true);
    setProblem("");
    try {
      const since = String(Date.now() - DAYS * 86_400_000);
      const answers = (status: string, from?: string) => everything<Approval>(`/v1/approvals?${query({ status, agentId, since: from })}`, MOST_READ);
      const [allowed, denied] = await Promise.all([answers("allowed", since), answers("denied")]);
      const all = suggested(allowed.items, denied.items, LEAST);
      const helps = await Promise.all(all.map((one) => isHelp(one)));
      setFound(all.filter((_one, place) => helps[place]));
      announce("The suggestions are there.");
    } catch (error) {
      setFound(undefined);
      if (!(error instanceof Refused)) setProblem("No answer came. Try again.");
      else if (error.isSignedOut) failed(error);
      else setProblem(reasons(error));
    }
    setLooking(false);
  }

  return (
    <section class="panel" id="policy-suggestions" aria-labelledby="policy-suggestions-title" aria-busy={isLooking}>
      <h2 id="policy-suggestions-title">Suggestions</h2>
      <p class="hint">{`Commands that people allowed at least ${LEAST} times in the last ${DAYS} days, and never denied. Each entry covers exactly one command in one directory.`}</p>
      <p class="panel-end"><button type="button" id="suggest" aria-disabled={isLooking} onClick={() => void look()}>{found ? "Look again" : "Look for suggestions"}</button></p>
      <Wrong text={problem} />
      <div role="status">
        {found?.length === 0 && <p>No entry is worth adding: no such command needs approval any more.</p>}
        {found && found.length > 0 && <p id="suggest-saves">{saved(found, DAYS)}</p>}
      </div>
      {found && found.length > 0 && (
        <ul class="checks" aria-label="Suggested entries">
          {found.map((one) => (
            <li key={`${one.agentId} ${one.pattern} ${one.argPattern}`}>
              <strong>{`${one.count.toLocaleString("en")} times`}</strong> <bdi>{visible(one.agentId)}</bdi>: <code dir="ltr">{brief(one.command, 160)}</code> in <Mono text={one.cwd} />
              {may("admin") && (
                <Confirm name="Add it…" act="add-suggestion" label={`Add it: an entry for ${brief(one.command, 80)}`} question={`Let agent ${visible(one.agentId)} run exactly this, in this directory, without asking?`} yes="Allow and add" done="The entry is added." changed={() => void changed()}
                  run={async () => {
                    const { agentId: agent, pattern, argPattern, count, command } = one;
                    await json("POST", `/v1/agents/${encodeURIComponent(agent)}/allowlist`, { body: { pattern, argPattern, note: `allowed ${count} times: ${brief(command, 120)}` } });
                    setFound((all) => all?.filter((other) => other !== one));
                  }} />
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Whether the same call would still need approval, and its answer could be remembered as this very entry. */
async function isHelp(one: Suggestion): Promise<boolean> {
  const { agentId, argv, command, cwd: workdir } = one;
  try {
    return stillHelps(one, await json<Explanation>("POST", "/v1/exec/explain", { body: { ...(argv ? { argv } : { command }), agentId, workdir, host: "gateway" } }));
  } catch (error) {
    // Its directory is gone, or its host is another one: no entry is known to help.
    if (error instanceof Refused && !error.isSignedOut && error.status < 500) return false;
    throw error;
  }
}
