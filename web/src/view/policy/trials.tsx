// Trials of the policy: cases with what is expected of it, and the runs of the record judged again. Nothing runs, nobody is asked,
// and nothing is changed.

import { useState } from "preact/hooks";
import { json, Refused, Unreachable } from "../../api/api.ts";
import type { Backtest as Judged, TestedPolicy } from "../../api/types.ts";
import { addressOf } from "../../pure/route.ts";
import { visible } from "../../pure/text.ts";
import { changedBy, skippedBecause, tested, verdicts } from "../../pure/trials.ts";
import { failed } from "../../shell.ts";
import { Mono, Wrong } from "../common.tsx";
import { reasons } from "./form.tsx";

const PATIENCE_MS = 60_000;
const EXAMPLE = `- command: git status
  expect: allow
- command: git push
  expect: ask
- command: sudo id
  expect: reject`;

/** Sends a trial and keeps what came of it. */
function useTrial<Answer>(path: string) {
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState("");
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  async function ask(body: unknown) {
    if (isAsking) return;
    setAsking(true);
    setProblem("");
    try {
      setAnswer(await json<Answer>("POST", path, { body, signal: AbortSignal.timeout(PATIENCE_MS) }));
    } catch (error) {
      setAnswer(undefined);
      if (error instanceof Unreachable) setProblem("No answer came. Try again.");
      else if (!(error instanceof Refused)) throw error;
      else if (error.isSignedOut) failed(error);
      else setProblem(reasons(error));
    }
    setAsking(false);
  }
  return { isAsking, problem, answer, ask, complain: setProblem };
}

/** Cases, each a command with what policy is expected to say. */
export function Cases() {
  const [text, setText] = useState("");
  const { isAsking, problem, answer, ask, complain } = useTrial<TestedPolicy>("/v1/policy/tests");
  return (
    <section class="panel" id="policy-cases" aria-labelledby="policy-cases-title" aria-busy={isAsking}>
      <h2 id="policy-cases-title">Test the policy</h2>
      <p class="hint">Say what you expect of it: up to 100 commands, each with <code>allow</code>, <code>ask</code> or <code>reject</code>. YAML or JSON, as for <code>countersign policy test</code>. Nothing runs.</p>
      <form class="fields" noValidate onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) void ask({ cases: text });
        else complain("Write a case first, or begin with the example.");
      }}>
        <div class="field">
          <label for="policy-cases-text">Cases</label>
          <textarea id="policy-cases-text" rows={7} autocomplete="off" autocapitalize="none" spellcheck={false} placeholder={EXAMPLE} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </div>
        <p class="panel-end">
          <button type="button" class="quiet" data-act="example" hidden={text !== ""} onClick={() => setText(EXAMPLE)}>Begin with the example</button>
          <button type="submit" class="primary" aria-disabled={isAsking}>Test</button>
        </p>
      </form>
      <Wrong text={problem} />
      <div role="status" id="policy-cases-answer">{answer && <Tested answer={answer} />}</div>
    </section>
  );
}

function Tested({ answer }: { answer: TestedPolicy }) {
  const { tone, text } = tested(answer);
  return (
    <>
      <p><span class={`badge ${tone}`}>{text}</span></p>
      {answer.failed.length > 0 && (
        <ul class="checks" aria-label="Cases that are not as expected">
          {answer.failed.map(({ id, command, expected, actual, why }) => (
            <li key={id} data-case={id}><Mono text={command} />{` (case ${visible(id)}): expected `}<strong>{visible(expected)}</strong>{", but the policy says "}<strong>{visible(actual)}</strong>{": "}<bdi>{visible(why)}</bdi></li>
          ))}
        </ul>
      )}
    </>
  );
}

const AGES = [["1", "the last day"], ["7", "the last 7 days"], ["30", "the last 30 days"]] as const;
const DAY_MS = 86_400_000;

/** The runs of the record under another policy. `waits`: whether a change waits to be accepted. */
export function Backtest({ agentId, waits }: { agentId: string | undefined; waits: boolean }) {
  const [document, setDocument] = useState("");
  const [age, setAge] = useState("7");
  const { isAsking, problem, answer, ask } = useTrial<Judged>("/v1/policy/backtest");
  const present = waits ? "what accepting the change that waits would do" : "whether the present policy would decide as it was decided then";
  return (
    <section class="panel" id="policy-backtest" aria-labelledby="policy-backtest-title" aria-busy={isAsking}>
      <h2 id="policy-backtest-title">Try it on past runs</h2>
      <p class="hint">{`Judges what ran${agentId === undefined ? "" : " of this agent"} again. Without a text you see ${present}. Nothing runs, and nothing is changed.`}</p>
      <form class="fields" noValidate onSubmit={(event) => {
        event.preventDefault();
        void ask({ ...(agentId === undefined ? {} : { agentId }), ...(document.trim() ? { document } : {}), sinceMs: Date.now() - Number(age) * DAY_MS });
      }}>
        <div class="field">
          <label for="backtest-document">Another approvals document (exec-approvals.json), if you want to try one</label>
          <textarea id="backtest-document" rows={4} autocomplete="off" autocapitalize="none" spellcheck={false} placeholder={'{"version": 1, "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/git"}]}}}'} value={document} onInput={(event) => setDocument(event.currentTarget.value)} />
        </div>
        <div class="field">
          <label for="backtest-age">Runs of</label>
          <select id="backtest-age" value={age} onChange={(event) => setAge(event.currentTarget.value)}>{AGES.map(([value, words]) => <option key={value} value={value}>{words}</option>)}</select>
        </div>
        <p class="panel-end"><button type="submit" class="primary" aria-disabled={isAsking}>{isAsking ? "Judging …" : "See what would change"}</button></p>
      </form>
      <Wrong text={problem} />
      <div role="status" id="policy-backtest-answer">{answer && <Changed answer={answer} />}</div>
    </section>
  );
}

function Changed({ answer }: { answer: Judged }) {
  const { tone, text, parts } = changedBy(answer);
  const { changed, omitted, skippedBy } = answer;
  const skipped = skippedBecause(skippedBy);
  return (
    <>
      <p class={`verdict ${tone === "warn" ? "warn-line" : ""}`}>{text}</p>
      {parts.length > 0 && <ul class="checks" aria-label="How">{parts.map((part) => <li key={part}>{part}</li>)}</ul>}
      {changed.length > 0 && (
        <div class="table-box" tabIndex={0} role="region" aria-label="Commands that would be decided differently">
          <table class="figures changes">
            <thead><tr><th scope="col">Command</th><th scope="col">Then → now</th><th scope="col">Why</th><th scope="col">Runs</th></tr></thead>
            <tbody>
              {changed.map((command) => (
                <tr key={command.lastRunId}>
                  <th scope="row"><Mono text={command.line} /><br /><span class="rule-more"><bdi>{visible(command.agentId)}</bdi>{" in "}<Mono text={command.cwd} /></span></th>
                  <td>{visible(verdicts(command))}</td>
                  <td><bdi>{visible(command.why)}</bdi></td>
                  <td>{command.count.toLocaleString("en")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {omitted > 0 && <p class="hint">{`${omitted.toLocaleString("en")} more runs differ. `}<code>countersign policy backtest --json</code> lists all.</p>}
      {skipped.length > 0 && <details><summary>Why some were not judged</summary><ul class="checks">{skipped.map((why) => <li key={why}>{why}</li>)}</ul></details>}
      <p class="hint"><a href={addressOf("runs")}>See the runs</a></p>
    </>
  );
}
