// What a denial leaves: nothing, a deny rule about exactly this command, or one that mutes the agent.

import { serverNow } from "../api/api.ts";
import type { Approval } from "../api/types.ts";
import { AFTER, type After, ofAgent } from "../pure/grant.ts";
import { AFTER_WORDS, muteEnd } from "../pure/grant-words.ts";
import { brief } from "../pure/text.ts";
import { Time } from "./common.tsx";

/** What was chosen, and when it ends. */
export interface Afterwards {
  after: After;
  untilMs: number | undefined;
}

export function AfterDenial({ approval, chosen: { after, untilMs }, choose }: { approval: Approval; chosen: Afterwards; choose: (next: Afterwards) => void }) {
  const name = `after-${approval.id}`;
  return (
    <>
      <fieldset class="after">
        <legend>When the same command comes again</legend>
        {AFTER.map((each) => (
          <label key={each} class="after-choice">
            <input type="radio" name={name} value={each} checked={each === after} onChange={() => choose({ after: each, untilMs: muteEnd(each, serverNow()) })} />
            <span>{AFTER_WORDS[each]}</span>
          </label>
        ))}
      </fieldset>
      {ofAgent(after) && (
        <p class="hint after-stored">
          {`Everything that ${brief(approval.agentId, 40)} would have to ask is denied, and so are its requests that wait, until `}<Time ms={untilMs} />
          . What runs without a question still runs. The agent sees the reason.
        </p>
      )}
      {after !== "ask" && !ofAgent(after) && (
        <p class="hint after-stored">
          {`Stored: a deny rule of ${brief(approval.agentId, 40)} about exactly this text, in any directory and session, `}
          {untilMs === undefined ? "for good" : <>until <Time ms={untilMs} /></>}
          . Written in another way, it needs approval.
        </p>
      )}
    </>
  );
}
