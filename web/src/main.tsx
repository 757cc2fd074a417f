// The approvals page: reads who is signed in, loads what waits, follows the events, and draws the views.

import { render } from "preact";
import { json, onSecretChange, Refused, secret } from "./api/api.ts";
import type { BrowserSession, PageEvent } from "./api/types.ts";
import { hint } from "./hints.ts";
import { draw, empty, happened, isOpened, load, model, online, setRetry, streamOpened, tell, tick, touched } from "./inbox.ts";
import { listen } from "./keys.ts";
import { loadRecord, record } from "./later.ts";
import { place } from "./place.ts";
import { blank, failed, gone, leave, looker, may, me, only, say, seeHead, seePairings, seePolicy, setUp, signedOut } from "./shell.ts";
import { useValue } from "./state.ts";
import { follow } from "./stream.ts";
import { Inbox, Title } from "./view/inbox.tsx";
import { Nav, Opened, useHeadingFocus } from "./view/nav.tsx";
import { Announcer, Gone, Head, Notices, Top } from "./view/shell.tsx";
import { refreshStop, seeStop, Stopped } from "./view/stop.tsx";

const POLL_MS = 3000;
const GATHER_MS = 80;
const TYPES = ["exec.requested", "exec.started", "exec.finished", "exec.denied", "exec.approval.", "exec.stopped", "exec.resumed", "allowlist.", "policy.", "config.", "document.", "node.", "server."];

const policySoon = looker(seePolicy, GATHER_MS);
const pairingsSoon = looker(seePairings, GATHER_MS);
let line: ReturnType<typeof follow> | undefined;

function App() {
  const isGone = useValue(gone) !== undefined;
  const later = useValue(record);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        // The address is that of a view.
        event.preventDefault();
        document.querySelector<HTMLElement>("main h1")?.focus();
      }}>Skip to the content</a>
      <Top>{!isGone && !only && <Nav />}</Top>
      <main id="main">
        {isGone ? <Gone /> : <Views />}
      </main>
      {!isGone && <Title />}
      {later && <later.Help />}
      {later && !isGone && <later.StopDialog />}
      <Announcer />
    </>
  );
}

function Views() {
  const { view } = useValue(place);
  const later = useValue(record);
  useHeadingFocus(view);
  return (
    <>
      <Stopped />
      {view === "inbox" && later && <later.Trust />}
      <Notices />
      {view === "inbox" ? <Inbox /> : <Opened key={view} name={view} />}
      <Head />
    </>
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
  if (!only) pairingsSoon();
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
  // It may not have come before.
  loadRecord();
  // It was read before the events came, or changed while they did not.
  policySoon();
  refreshStop();
  pairingsSoon();
  hint("all");
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
  if (type === "server.shutdown") say("offline", "The server is shutting down. Trying again …");
  if (/^(policy|config|document)\./.test(type)) policySoon();
  if (/^exec\.(requested|started|finished|denied)$/.test(type)) hint("runs");
  if (type.startsWith("exec.approval.")) hint("approvals");
  if (type.startsWith("node.")) {
    pairingsSoon();
    hint("nodes");
  }
  if (/^(allowlist|policy|config|document|node)\./.test(type)) hint("policy");
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
