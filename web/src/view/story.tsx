// What happened to a run, step by step, loaded when it is wanted.

import { useEffect, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { Page, Run } from "../api/types.ts";
import { type RunEvent, type Step, story } from "../pure/story.ts";
import { failed } from "../shell.ts";
import { Time, Wrong } from "./common.tsx";

const MOST = 200;

export function Story({ run: { runId, status } }: { run: Run }) {
  const [isOpen, setOpen] = useState(false);
  const [steps, setSteps] = useState<Step[] | undefined>(undefined);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!isOpen) return undefined;
    let isOver = false;
    json<Page<RunEvent>>("GET", `/v1/events?runId=${encodeURIComponent(runId)}&limit=${MOST}`).then(({ items }) => {
      if (isOver) return;
      setSteps(story(items));
      setProblem("");
    }, (error: unknown) => {
      if (isOver) return;
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? error.sentence : "The steps could not be loaded. Close them and open them again.");
    });
    return () => {
      isOver = true;
    };
  }, [isOpen, runId, status]);
  const id = `story-${runId}`;
  return (
    <>
      <button type="button" class="quiet" data-act="story" aria-expanded={isOpen} aria-controls={id} onClick={() => setOpen(!isOpen)}>{isOpen ? "Close the steps" : "What happened"}</button>
      <div id={id} hidden={!isOpen}>
        {isOpen && (
          <>
            <Wrong text={problem} />
            {!steps && !problem && <p class="hint">Loading …</p>}
            {steps?.length === 0 && <p class="hint">The events of this run are not kept any more. The audit log has its records.</p>}
            {steps && steps.length > 0 && <Steps steps={steps} />}
          </>
        )}
      </div>
    </>
  );
}

const Steps = ({ steps }: { steps: Step[] }) => (
  <ol class="story">
    {steps.map(({ atMs, words, steps: below }, place) => (
      <li key={place}>
        <bdi>{words}</bdi> <span class="run-meta"><Time ms={atMs} /></span>
        {below.length > 0 && <Steps steps={below} />}
      </li>
    ))}
  </ol>
);
