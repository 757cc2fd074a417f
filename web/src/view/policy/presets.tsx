// Presets: security, ask and fallback in one step, each with what it comes to, in words.

import { useState } from "preact/hooks";
import { announce } from "../../announce.ts";
import { json, Refused } from "../../api/api.ts";
import type { AppliedPreset, EffectivePolicy } from "../../api/types.ts";
import { brief } from "../../pure/text.ts";
import { newlyAllowed } from "../../pure/widening.ts";
import { failed, may } from "../../shell.ts";
import { Wrong } from "../common.tsx";
import { reasons } from "./form.tsx";
import { type Asked, Question } from "./question.tsx";

const NAME_LENGTH = 40;

interface Preset {
  name: AppliedPreset["name"];
  title: string;
  sentence: string;
  values: { security: string; ask: string; askFallback: string };
}

const PRESETS: readonly Preset[] = [
  { name: "deny-all", title: "Deny everything", sentence: "Nothing runs, and nobody is asked.", values: { security: "deny", ask: "off", askFallback: "deny" } },
  { name: "cautious", title: "Ask about what is not listed", sentence: "What the allowlist covers runs. The rest needs approval, and is denied without an answer.", values: { security: "allowlist", ask: "on-miss", askFallback: "deny" } },
  { name: "yolo", title: "Allow everything", sentence: "Everything runs, and nobody is asked. Deny rules still count.", values: { security: "full", ask: "off", askFallback: "full" } },
];

const KEYS = ["security", "ask", "askFallback"] as const;

interface Props {
  /** For whom: `agentId` is missing where it is for every agent. */
  who: string;
  agentId: string | undefined;
  /** What is in effect on this machine, which the presets set. */
  here: EffectivePolicy;
  changed: () => Promise<void>;
}

export function Presets({ who, agentId, here, changed }: Props) {
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const [applied, setApplied] = useState("");
  const now = Object.fromEntries(KEYS.map((key) => [key, here[key].value]));

  function press(preset: Preset) {
    if (isSending) return;
    setApplied("");
    setProblem("");
    setAsked(undefined);
    const allows = KEYS.flatMap((key) => newlyAllowed(key, who, now[key], preset.values[key]) ?? []);
    if (allows.length) setAsked({ allows, label: `Apply ${preset.name}`, then: () => void send(preset) });
    else void send(preset);
  }

  async function send({ name }: Preset) {
    setSending(true);
    try {
      const body = agentId === undefined ? { name } : { name, agentId };
      const done = await json<AppliedPreset>("POST", "/v1/policy/preset", { body });
      const words = sentence(done, who);
      setApplied(words);
      announce(words);
    } catch (error) {
      if (!(error instanceof Refused)) setProblem("No answer came. Check the effective policy before you try again.");
      else if (error.isSignedOut) failed(error);
      else setProblem(reasons(error));
    }
    setSending(false);
    await changed();
  }

  return (
    <section class="panel" id="policy-presets" aria-labelledby="policy-presets-title" aria-busy={isSending}>
      <h2 id="policy-presets-title">Presets</h2>
      <p class="hint">Each sets security, ask and fallback of document and settings in one step, and sends commands to this machine.</p>
      <ul class="checks" aria-label="Presets">
        {PRESETS.map((preset) => {
          const isNow = KEYS.every((key) => now[key] === preset.values[key]);
          return (
            <li key={preset.name} data-preset={preset.name}>
              <p><strong>{preset.title}</strong> <code>{preset.name}</code>{isNow && <> <span class="badge good">in effect</span></>}</p>
              <p class="rule-more">{preset.sentence}</p>
              {may("admin") && <p><button type="button" class="quiet" aria-label={`Apply ${preset.name} to ${who}`} aria-disabled={isSending} onClick={() => press(preset)}>Apply</button></p>}
            </li>
          );
        })}
      </ul>
      <Question asked={asked} close={() => setAsked(undefined)} />
      <p role="status" id="policy-preset-applied">{applied}</p>
      <Wrong text={problem} />
    </section>
  );
}

/** What came of it. An agent with keys of its own keeps them. */
function sentence({ name, changed, ownKeys }: AppliedPreset, who: string): string {
  const said = changed ? `The preset ${name} is in effect for ${who}.` : `Nothing changed: ${name} was in effect for ${who} already.`;
  if (!ownKeys.length) return said;
  const names = ownKeys.map(({ agentId }) => brief(agentId, NAME_LENGTH)).join(", ");
  return `${said} These agents keep values of their own: ${names}.`;
}
