// The forecast that the command line saved: how often a person would have been asked, and what would save most questions.

import { useEffect, useState } from "preact/hooks";
import { json, Refused } from "../../api/api.ts";
import type { Forecast as Saved, SavedForecast } from "../../api/types.ts";
import { asked, quoted, toAdd, withEntries } from "../../pure/forecast.ts";
import { visible } from "../../pure/text.ts";
import { failed } from "../../shell.ts";
import { Mono, Time, Wrong } from "../common.tsx";

export function Forecast({ hint }: { hint: number }) {
  const [saved, setSaved] = useState<Saved | null | undefined>(undefined);
  const [problem, setProblem] = useState("");

  useEffect(() => {
    let isGone = false;
    json<SavedForecast>("GET", "/v1/policy/forecast").then(({ forecast }) => {
      if (!isGone) setSaved(forecast ?? null);
    }, (error: unknown) => {
      if (isGone) return;
      if (error instanceof Refused && !error.isSignedOut) setProblem(error.sentence);
      else failed(error);
    });
    return () => {
      isGone = true;
    };
  }, [hint]);

  return (
    <section class="panel" id="policy-forecast" aria-labelledby="policy-forecast-title">
      <h2 id="policy-forecast-title">Forecast</h2>
      <Wrong text={problem} />
      {saved === null && <p>No forecast is saved. Run <code>countersign policy forecast --save</code> on the server: it judges what your agents ran before, and nothing leaves the machine.</p>}
      {saved && <Said {...saved} />}
    </section>
  );
}

function Said(saved: Saved) {
  const { agentId, policy, savedAtMs, sinceMs, reasons, entries, starterSets } = saved;
  const left = withEntries(saved);
  return (
    <>
      <p class="hint">{`For agent ${visible(agentId)}, under ${policy === "present" ? "the policy of that moment" : `the preset ${visible(policy)}`}. Made `}<Time ms={savedAtMs} />{", from commands since "}<Time ms={sinceMs} />.</p>
      <p>{asked(saved)}</p>
      {reasons.length > 0 && (
        <ul class="checks" aria-label="Why">{reasons.map(({ why, count }) => <li key={why}><strong>{count.toLocaleString("en")}</strong> <bdi>{visible(why)}</bdi></li>)}</ul>
      )}
      {left && <p>{left}</p>}
      {entries.length > 0 && (
        <ul class="checks" aria-label="Entries that would save most questions">
          {entries.map(({ pattern, saves }) => <li key={pattern}><strong>{saves.toLocaleString("en")}</strong> <Mono text={toAdd(agentId, quoted(pattern))} /></li>)}
        </ul>
      )}
      {starterSets.length > 0 && (
        <>
          <p>What each starter set would save alone:</p>
          <ul class="checks" aria-label="Starter sets">
            {starterSets.map(({ set, saves }) => <li key={set}><strong>{saves.toLocaleString("en")}</strong> <Mono text={toAdd(agentId, `--set ${set}`)} /></li>)}
          </ul>
        </>
      )}
    </>
  );
}
