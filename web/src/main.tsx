// The approvals page: reads who is signed in, loads what waits, follows the events, and draws the views.

import { type ComponentType, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { json, onSecretChange, Refused, secret } from "./api/api.ts";
import type { BrowserSession, PageEvent } from "./api/types.ts";
import { draw, empty, happened, isOpened, load, model, online, setRetry, streamOpened, tell, tick, touched } from "./inbox.ts";
import { listen } from "./keys.ts";
import { loadRecord, record } from "./later.ts";
import { blank, failed, gone, leave, looker, may, me, only, say, seeHead, seePolicy, setUp, signedOut } from "./shell.ts";
import { State, useValue } from "./state.ts";
import { follow } from "./stream.ts";
import { Inbox } from "./view/inbox.tsx";
import { Announcer, Gone, Head, Notices, Top, Trust } from "./view/shell.tsx";
import { refreshStop, seeStop, StopDialog, Stopped } from "./view/stop.tsx";

const POLL_MS = 3000;
const GATHER_MS = 80;
const TYPES = ["exec.requested", "exec.started", "exec.finished", "exec.denied", "exec.approval.", "exec.stopped", "exec.resumed", "allowlist.", "policy.", "config.", "document.", "node.", "server."];

const policySoon = looker(seePolicy, GATHER_MS);
/** Whether the views of the record are shown: the sign-in may read, and the address names no single request. */
const hasViews = new State(false);
/** Counts what may have changed the policy, for its editor. */
const policyHints = new State(0);
let line: ReturnType<typeof follow> | undefined;

function App() {
  const isGone = useValue(gone) !== undefined;
  const Help = useValue(record)?.Help;
  return (
    <>
      <a class="skip" href="#waiting">Skip to the requests</a>
      <Top />
      <main id="main">
        {isGone ? <Gone /> : <Views />}
      </main>
      {Help && <Help />}
      {!isGone && <StopDialog />}
      <Announcer />
    </>
  );
}

function Views() {
  const views = useValue(hasViews);
  const Record = useValue(record)?.Record;
  return (
    <>
      <Stopped />
      <Trust />
      <Notices />
      <Inbox />
      {views && Record && <Record />}
      {views && <PolicySection />}
      <Head />
    </>
  );
}

interface PolicyProps {
  hints: number;
}

/** The editor of policy, loaded when it is opened for the first time. */
function PolicySection() {
  const [isOpen, setOpen] = useState(false);
  const [Editor, setEditor] = useState<ComponentType<PolicyProps> | undefined>(undefined);
  const hints = useValue(policyHints);
  useEffect(() => {
    if (isOpen && !Editor) import("./view/policy/policy.tsx").then(({ Policy }) => setEditor(() => Policy), failed);
  }, [isOpen]);
  return (
    <section class="policy" id="policy" aria-labelledby="policy-title">
      <details id="policy-details" aria-labelledby="policy-title" onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary><h2 id="policy-title">Policy</h2></summary>
        <div class="policy-body" id="policy-body">{isOpen && (Editor ? <Editor hints={hints} /> : <p class="hint">Loading …</p>)}</div>
      </details>
    </section>
  );
}

async function start(): Promise<void> {
  if (!secret()) return leave();
  const root = document.querySelector("#app");
  if (root) render(<App />, root);
  onSecretChange((now) => (now ? location.reload() : signedOut("You signed out in another tab.")));
  gone.follow(() => {
    line?.stop();
    empty();
    const icon = document.querySelector<HTMLLinkElement>("#icon");
    if (icon) icon.href = "/assets/icon.svg";
  });
  listen();
  // What waits is asked for beside who asks: the first request is there sooner. The list is read once more when the
  // stream of events is up, so that nothing is missed in between.
  const early = load().catch(() => {});
  const session = await untilReached(() => json<BrowserSession>("GET", "/auth/session"));
  me.set(session);
  if (!may("read") && !may("approve")) {
    blank.set("This sign-in can see no requests: its token has neither the scope read nor approve.");
    return say("off", `Signed in as ${session.name}`);
  }
  await early;
  if (!only) blank.set("Nothing is waiting. New requests appear here by themselves.");
  draw();
  // Everything else is asked for once the requests are drawn.
  await new Promise((done) => setTimeout(done, 0));
  setInterval(tick, 1000);
  for (const kind of ["pointerdown", "pointermove", "keydown", "wheel", "touchmove"]) addEventListener(kind, touched, { passive: true });
  loadRecord();
  if (may("read")) followEvents();
  else {
    say("poll", "Looking every few seconds");
    void poll();
  }
  addEventListener("online", () => line?.retry());
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) line?.retry();
  });
}

function followEvents(): void {
  void seePolicy().catch(() => {});
  void seeHead().catch(() => {});
  void seeStop().catch(() => {});
  hasViews.set(!only);
  record.follow(refreshRecord);
  line = follow(TYPES, may("approve"), { open: opened, event: heard, down, refused: failed });
  setRetry(() => line?.retry());
}

/** The first answer may take a while, when the server starts together with the browser. */
async function untilReached<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10_000)) {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof Refused && error.status < 500) throw error;
      say("offline", "The server does not answer. Trying again …");
      await new Promise((done) => setTimeout(done, pause));
    }
  }
}

function opened(resumed: boolean): void {
  setUp(true);
  say("live", "Live");
  streamOpened(resumed);
  // It was read before the events came, or changed while they did not.
  policySoon();
  refreshStop();
  if (!hasViews.value) return;
  refreshRecord();
  policyHints.change((count) => count + 1);
}

/** Looks again at runs and nodes, once their views are there. */
function refreshRecord(): void {
  if (!hasViews.value) return;
  record.value?.refreshRuns();
  record.value?.refreshNodes();
}

function down(): void {
  setUp(false);
  if (gone.value !== undefined) return;
  say("offline", "Offline. Trying again …");
  online.set(false);
}

function heard(event: PageEvent): void {
  happened(event);
  const { type } = event;
  if (type === "exec.stopped" || type === "exec.resumed") refreshStop();
  if (type === "server.shutdown") say("offline", "The server stops. Trying again …");
  if (/^(policy|config|document)\./.test(type)) policySoon();
  if (!hasViews.value) return;
  if (/^exec\.(started|finished|denied)$/.test(type)) record.value?.refreshRuns();
  if (type.startsWith("node.")) record.value?.refreshNodes();
  if (/^(allowlist|policy|config|document|node)\./.test(type)) policyHints.change((count) => count + 1);
}

/** Without the scope `read` there are no events: the page looks for itself. */
async function poll(): Promise<void> {
  while (gone.value === undefined) {
    try {
      if (!document.hidden) {
        const before = new Set(model.entries.keys());
        refreshStop();
        await load();
        online.set(true);
        say("poll", "Looking every few seconds");
        tell([...model.entries.values()].filter(({ approval, phase }) => phase === "pending" && !before.has(approval.id)));
      }
    } catch (error) {
      if (error instanceof Refused) failed(error);
      else down();
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

isOpened.set(Boolean(only));
start().catch(failed);
