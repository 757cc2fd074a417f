// Health: whether the server can do its work, what of the machine is missing, and what waits.

import { useEffect, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { Finding, Findings as FoundByDoctor, Readiness, SettingsInForce, Version } from "../api/types.ts";
import { hints } from "../hints.ts";
import { sentence as fragment } from "../pure/sentence.ts";
import { visible } from "../pure/text.ts";
import { failed, looker, may } from "../shell.ts";
import { useValue } from "../state.ts";
import { Fact, Mono, Wrong } from "./common.tsx";
import { Settings } from "./policy/settings.tsx";

const PAUSE_MS = 100;
/** It reads many files. */
const FINDINGS_PAUSE_MS = 1000;
const AGAIN_MS = 30_000;

interface Known {
  ready: Readiness;
  version: Version;
  settings: SettingsInForce;
}

const NAMES: Record<string, string> = {
  database: "Record", document: "Approvals document", config: "Settings", listener: "Network", machine: "Machine", record: "Audit log", runner: "Runner", sandbox: "Sandbox", bridge: "Bridge", ipc: "Approvals socket", clock: "Clock",
};

const PARTS: Record<string, string> = {
  starts: "What programs may start", writes: "Where they may write", connects: "Where they may connect", signals: "Whom they may signal", scripts: "Scripts that are held", "held-texts": "Texts that are held", children: "What their children may start",
};

/** The probe; what it says when the server is not ready is an answer, too. */
async function readiness(): Promise<Readiness> {
  try {
    return await json<Readiness>("GET", "/readyz");
  } catch (error) {
    if (error instanceof Refused && error.status === 503 && "checks" in error.problem) return error.problem as unknown as Readiness;
    throw error;
  }
}

export function Health() {
  const hint = useValue(hints.policy) + useValue(hints.all);
  const [known, setKnown] = useState<Known | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [refresh] = useState(() => looker(async () => {
    try {
      const [ready, version, settings] = await Promise.all([readiness(), json<Version>("GET", "/v1/version"), json<SettingsInForce>("GET", "/v1/settings")]);
      setKnown({ ready, version, settings });
      setProblem("");
    } catch (error) {
      if (!(error instanceof Refused) || error.status >= 500) throw error;
      if (error.isSignedOut) failed(error);
      setProblem(error.sentence);
    }
  }, PAUSE_MS));
  useEffect(() => refresh(), [hint]);
  useEffect(() => {
    const timer = setInterval(refresh, AGAIN_MS);
    return () => clearInterval(timer);
  }, []);
  if (!known) return problem ? <Wrong text={problem} /> : <p class="hint">Loading …</p>;
  const { ready, version, settings } = known;
  return (
    <>
      <Wrong text={problem} />
      <p class="verdict" role="status" id="health-verdict">
        <span class={`badge ${ready.status !== "ready" ? "bad" : ready.degraded || ready.stopped ? "warn" : "good"}`}>{ready.status !== "ready" ? "Not ready" : ready.stopped ? "Stopped" : ready.degraded ? "Degraded" : "Ready"}</span>{" "}
        {sentence(ready)}
      </p>
      <div class="panels">
        {may("admin") && <Findings hint={hint} />}
        <section class="panel" aria-labelledby="checks-title">
          <h2 id="checks-title">Checks</h2>
          <ul class="checks" id="checks" aria-label="Checks">
            {Object.entries(ready.checks).map(([name, check]) => (
              <li key={name} data-check={name}>
                <span class={`badge ${check.ok ? "good" : "bad"}`}>{check.ok ? "ok" : "wrong"}</span> <strong>{Object.hasOwn(NAMES, name) ? NAMES[name] : visible(name)}</strong>{check.detail && <> <bdi>{visible(check.detail)}</bdi></>}
              </li>
            ))}
          </ul>
          {!may("admin") && <p class="hint">On the machine, <code>countersign doctor</code> looks further, and says how to fix what it finds. An admin sees that here.</p>}
          <dl class="facts"><Fact name="Version">{visible(version.version)}</Fact><Fact name="Commit"><code>{visible(version.commit)}</code></Fact></dl>
        </section>
        <section class="panel" aria-labelledby="kernel-title">
          <h2 id="kernel-title">What the kernel keeps</h2>
          <ul class="checks" aria-label="What the kernel keeps">
            {settings.kernel.parts.map(({ part, kept, missing, otherwise }) => (
              <li key={part}>
                <span class={`badge ${kept ? "good" : "dull"}`}>{kept ? "kept" : "not kept"}</span> <strong>{Object.hasOwn(PARTS, part) ? PARTS[part] : visible(part)}</strong>{!kept && <> <bdi>{visible(`${fragment(missing)} ${fragment(otherwise)}`.trim())}</bdi></>}
              </li>
            ))}
          </ul>
        </section>
        <Settings items={settings.items} />
      </div>
    </>
  );
}

const SEVERITIES: Record<string, readonly [string, string]> = { error: ["bad", "wrong"], warning: ["warn", "risky"], info: ["dull", "note"] };

/** What doctor finds, each with what fixes it. */
function Findings({ hint }: { hint: number }) {
  const [found, setFound] = useState<Finding[] | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [refresh] = useState(() => looker(async () => {
    try {
      setFound((await json<FoundByDoctor>("GET", "/v1/doctor")).findings);
      setProblem("");
    } catch (error) {
      if (!(error instanceof Refused) || error.status >= 500) throw error;
      setProblem(error.sentence);
    }
  }, FINDINGS_PAUSE_MS));
  useEffect(() => refresh(), [hint]);
  return (
    <section class="panel" aria-labelledby="findings-title">
      <div class="section-head"><h2 id="findings-title">What doctor finds</h2><button type="button" class="quiet" id="findings-again" onClick={refresh}>Look again</button></div>
      <Wrong text={problem} />
      {!found && !problem && <p class="hint">Loading …</p>}
      {found?.length === 0 && <p>Nothing is wrong.</p>}
      {found && found.length > 0 && (
        <ul class="checks" id="findings" aria-label="What doctor finds">
          {found.map(({ id, severity, key, explanation, fix }) => {
            const [tone, word] = SEVERITIES[severity] ?? ["dull", severity];
            return (
              <li key={`${id} ${key}`} data-finding={id}>
                <p><span class={`badge ${tone}`}>{visible(word)}</span> <Mono text={key} /> <bdi>{visible(fragment(explanation))}</bdi></p>
                <p class="rule-more">Fix: <bdi>{visible(fix)}</bdi></p>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

function sentence({ status, degraded, stopped, restartNeeded }: Readiness): string {
  const said = status !== "ready"
    ? "The server cannot work, and refuses every call."
    : stopped ? "Everything is stopped: nothing starts and nothing is asked."
      : degraded ? "The server answers, but something is wrong, and it denies what depends on that." : "The server works.";
  return restartNeeded ? `${said} A changed setting waits for a restart.` : said;
}
