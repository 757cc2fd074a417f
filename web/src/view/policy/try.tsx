// What would become of a command, and why. Nothing starts, and nobody is asked.

import { useState } from "preact/hooks";
import { json, Refused } from "../../api/api.ts";
import type { Explanation } from "../../api/types.ts";
import { against, because, coverage, judged, outcome } from "../../pure/explained.ts";
import { visible } from "../../pure/text.ts";
import { failed } from "../../shell.ts";
import { Fact, Mono, Wrong } from "../common.tsx";
import { reasons } from "./form.tsx";

/** More commands than this are in no answer that a person reads. */
const MOST_CALLS = 50;

export function Try({ agentId }: { agentId: string | undefined }) {
  const [command, setCommand] = useState("");
  const [workdir, setWorkdir] = useState("");
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  const [found, setFound] = useState<{ command: string; explanation: Explanation } | undefined>(undefined);

  async function explain() {
    if (isAsking) return;
    const tried = command.trim();
    if (!tried) {
      setProblem("Write a command, such as git push.");
      return;
    }
    setAsking(true);
    setProblem("");
    try {
      const body = { command: tried, ...(agentId === undefined ? {} : { agentId }), ...(workdir.trim() ? { workdir: workdir.trim() } : {}) };
      setFound({ command: tried, explanation: await json<Explanation>("POST", "/v1/exec/explain", { body }) });
    } catch (error) {
      setFound(undefined);
      if (!(error instanceof Refused)) setProblem("No answer came. Try again.");
      else if (error.isSignedOut) failed(error);
      else setProblem(reasons(error));
    }
    setAsking(false);
  }

  return (
    <section class="panel" id="policy-try" aria-labelledby="policy-try-title" aria-busy={isAsking}>
      <h2 id="policy-try-title">Try a command</h2>
      <p class="hint">See what would become of a command. Nothing starts, and nobody is asked.</p>
      <form class="fields" noValidate onSubmit={(event) => {
        event.preventDefault();
        void explain();
      }}>
        <div class="field">
          <label for="try-command">Command</label>
          <input id="try-command" type="text" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder="git push origin main" value={command} onInput={(event) => setCommand(event.currentTarget.value)} />
        </div>
        <div class="field">
          <label for="try-workdir">Directory (the workspace unless given)</label>
          <input id="try-workdir" type="text" autocomplete="off" autocapitalize="none" spellcheck={false} placeholder="/srv/site" value={workdir} onInput={(event) => setWorkdir(event.currentTarget.value)} />
        </div>
        <p class="panel-end"><button type="submit" class="primary" aria-disabled={isAsking}>Explain</button></p>
      </form>
      <Wrong text={problem} />
      <div role="status" id="try-answer">{found && <Answer {...found} />}</div>
    </section>
  );
}

function Answer({ command, explanation }: { command: string; explanation: Explanation }) {
  const [words, tone] = outcome(explanation);
  const { analysis, security, ask, host } = explanation;
  const all = judged(analysis.segments);
  return (
    <>
      <p><span class={`badge ${tone}`}>{words}</span> <Mono text={command} /></p>
      {"reason" in explanation && <p>{visible(because(explanation.reason))} <code>{visible(explanation.reason)}</code></p>}
      {all.length > 0 && (
        <ul class="checks" aria-label="Its programs">
          {all.slice(0, MOST_CALLS).map((call, index) => (
            <li key={index}><Mono text={call.argv.join(" ")} /> <bdi>{visible(coverage(call))}</bdi></li>
          ))}
        </ul>
      )}
      {all.length > MOST_CALLS && <p class="hint">{`${all.length - MOST_CALLS} more are not shown.`}</p>}
      {analysis.findings.length > 0 && (
        <ul class="checks" aria-label="What blocks it">
          {analysis.findings.slice(0, MOST_CALLS).map((finding, index) => <li key={index}><bdi>{visible(against(finding))}</bdi></li>)}
        </ul>
      )}
      <dl class="facts">
        {([["Where", host], ["Security", security], ["Ask", ask]] as const).map(([name, { value, source }]) => (
          <Fact key={name} name={name}><Mono text={value} />{source === "default" ? " built in" : <> from <Mono text={source} /></>}</Fact>
        ))}
      </dl>
      <WaysOut explanation={explanation} />
    </>
  );
}

/** What would change it, as commands to paste into a terminal. */
function WaysOut({ explanation }: { explanation: Explanation }) {
  const { toAllow, toRefuse, hint, outcome: comesTo } = explanation;
  const lines = toAllow.map((command): [string, string] => [comesTo === "deny" ? "To allow exactly this" : "To stop asking about exactly this", command]);
  if (lines.length === 0 && hint) lines.push(["To change it", hint]);
  if (toRefuse) lines.push(["To refuse its program for good", toRefuse]);
  if (lines.length === 0) return null;
  return (
    <dl class="facts" aria-label="Commands that would change it">
      {lines.map(([name, command]) => <Fact key={command} name={name}><Mono text={command} /></Fact>)}
    </dl>
  );
}
