// What newcomers see while no request waits: what is connected, and how to get a first question.

import { useEffect, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { json, Refused } from "../api/api.ts";
import type { Agent, Node, Page } from "../api/types.ts";
import { hints } from "../hints.ts";
import { agentsSaid, nodesSaid, policySaid, TEST_COMMAND, TEST_LINE, testCall, testSaid } from "../pure/start.ts";
import { visible } from "../pure/text.ts";
import { failed, may, policy } from "../shell.ts";
import { useValue } from "../state.ts";
import { Wrong } from "./common.tsx";

const MOST = 100;

export function Start() {
  const now = useValue(policy);
  const hint = useValue(hints.all);
  const [said, setSaid] = useState<string[] | undefined>(undefined);
  const isReader = may("read");
  useEffect(() => {
    if (!isReader) return undefined;
    let isGone = false;
    Promise.all([json<Page<Agent>>("GET", `/v1/agents?limit=${MOST}`), json<Page<Node>>("GET", `/v1/nodes?limit=${MOST}`)]).then(([agents, nodes]) => {
      if (!isGone) setSaid([agentsSaid(agents.items, Boolean(agents.nextCursor)), nodesSaid(nodes.items)].filter(Boolean));
    }, (error: unknown) => {
      // A sign-in that is bound to agents sees no nodes.
      if (!isGone && (!(error instanceof Refused) || error.isSignedOut)) failed(error);
    });
    return () => {
      isGone = true;
    };
  }, [hint, isReader]);
  if (!isReader) return null;
  return (
    <section class="start" id="start" aria-labelledby="start-title">
      <h2 id="start-title">What is connected</h2>
      <ul class="checks">
        {said?.map((sentence) => <li key={sentence}><bdi>{sentence}</bdi></li>)}
        {now && <li>{policySaid(now)} <a href="#/policy">Policy</a></li>}
      </ul>
      {may("exec") ? <TestQuestion /> : (
        <>
          <p class="hint">To try it out, run this on the server. It asks whether <code>{TEST_COMMAND}</code> may run; nothing runs before you allow it.</p>
          <code class="line">{TEST_LINE}</code>
        </>
      )}
    </section>
  );
}

function TestQuestion() {
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const [said, setSaid] = useState("");
  async function ask() {
    if (isSending) return;
    setSending(true);
    setProblem("");
    setSaid("");
    try {
      const words = testSaid(await json<Parameters<typeof testSaid>[0]>("POST", "/v1/exec", { body: testCall(policy.value) }));
      setSaid(words);
      announce(words);
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? [error.message, error.problem.hint && `What would change that: ${error.problem.hint}`].filter(Boolean).join(". ") : "No answer came. Check the list before you try again.");
    }
    setSending(false);
  }
  return (
    <>
      <p>See what a question looks like: it asks whether <code>{TEST_COMMAND}</code> may run as agent <code>main</code>. Nothing runs before a person allows it, and then it only prints these words.</p>
      <p><button type="button" id="send-test" class="primary" aria-disabled={isSending} onClick={() => void ask()}>Send a test question</button></p>
      <Wrong text={problem} />
      <p class="hint" role="status">{visible(said)}</p>
    </>
  );
}
