// The agents that are muted, with an end to each: above the list of the inbox, and nothing while there is none.

import { useEffect, useState } from "preact/hooks";
import { json, Refused, send, serverNow } from "../api/api.ts";
import type { AgentMute, Page } from "../api/types.ts";
import { hints } from "../hints.ts";
import { brief, visible } from "../pure/text.ts";
import { looker, may } from "../shell.ts";
import { useValue } from "../state.ts";
import { Time, Wrong } from "./common.tsx";

const PAUSE_MS = 100;
/** A timer takes no more. */
const LONGEST_MS = 2 ** 31 - 1;

export function Mutes() {
  const hint = useValue(hints.policy) + useValue(hints.all);
  const [muted, setMuted] = useState<AgentMute[]>([]);
  const [refresh] = useState(() => looker(async () => {
    try {
      setMuted((await json<Page<AgentMute>>("GET", "/v1/mutes?limit=100")).items);
    } catch (error) {
      // A document that cannot be used mutes nobody: it denies everything, and that is said above.
      if (!(error instanceof Refused) || error.status >= 500) throw error;
      setMuted([]);
    }
  }, PAUSE_MS));
  useEffect(() => refresh(), [hint]);
  useEffect(() => {
    if (!muted.length) return undefined;
    const next = Math.min(...muted.map(({ untilMs }) => untilMs)) - serverNow();
    const timer = setTimeout(refresh, Math.min(Math.max(next, 0) + PAUSE_MS, LONGEST_MS));
    return () => clearTimeout(timer);
  }, [muted]);
  if (!muted.length) return null;
  return (
    <ul class="mutes" id="mutes" aria-label="Muted agents">
      {muted.map((mute) => <Row key={mute.agentId} mute={mute} ended={refresh} />)}
    </ul>
  );
}

function Row({ mute: { agentId, untilMs, reason, endWaits }, ended }: { mute: AgentMute; ended: () => void }) {
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  async function end() {
    setSending(true);
    setProblem("");
    try {
      await send("DELETE", `/v1/agents/${encodeURIComponent(agentId)}/mute`);
    } catch (error) {
      // It may have ended meanwhile.
      if (!(error instanceof Refused) || error.status !== 404) setProblem(error instanceof Refused ? error.sentence : "No answer came. Try again.");
    }
    setSending(false);
    ended();
  }
  return (
    <li data-muted={agentId}>
      <span><strong><bdi>{visible(agentId)}</bdi></strong> is muted until <Time ms={untilMs} />{reason && <> (<bdi>{brief(reason, 200)}</bdi>)</>}. What it would ask is denied.</span>{" "}
      {endWaits && <span><strong>Its end waits to be accepted.</strong> Until then the mute stays. <a href="#/policy">See it under Policy</a></span>}
      {may("admin") && <button type="button" class="quiet" disabled={isSending} aria-label={`End it: the mute of ${brief(agentId, 40)}`} onClick={() => void end()}>End it</button>}
      <Wrong text={problem} />
    </li>
  );
}
