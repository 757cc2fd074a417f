// The menu of the views, and the place of the one that is open. Each view is loaded when it is opened for the first time.

import { type ComponentType } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { BrowserSession } from "../api/types.ts";
import { place } from "../place.ts";
import { addressOf, NAMES, type ViewName } from "../pure/route.ts";
import { may, me, pairingsWaiting } from "../shell.ts";
import { useValue } from "../state.ts";

type Scope = BrowserSession["scopes"][number];

interface View {
  title: string;
  /** The scope that it needs. */
  needs: Scope;
  load: () => Promise<ComponentType>;
}

const VIEWS: Record<Exclude<ViewName, "inbox">, View> = {
  overview: { title: "Overview", needs: "read", load: () => import("./overview.tsx").then((view) => view.Overview) },
  runs: { title: "Runs", needs: "read", load: () => import("./runs.tsx").then((view) => view.Runs) },
  history: { title: "History", needs: "read", load: () => import("./history.tsx").then((view) => view.History) },
  terminals: { title: "Terminals", needs: "read", load: () => import("./runs.tsx").then((view) => view.Terminals) },
  sessions: { title: "Sessions", needs: "read", load: () => import("./sessions.tsx").then((view) => view.Sessions) },
  nodes: { title: "Nodes", needs: "read", load: () => import("./nodes.tsx").then((view) => view.Nodes) },
  policy: { title: "Policy", needs: "read", load: () => import("./policy/policy.tsx").then((view) => view.Policy) },
  people: { title: "People", needs: "admin", load: () => import("./people.tsx").then((view) => view.People) },
  audit: { title: "Audit", needs: "admin", load: () => import("./audit.tsx").then((view) => view.Audit) },
  health: { title: "Health", needs: "read", load: () => import("./health.tsx").then((view) => view.Health) },
};

export const titleOf = (view: ViewName): string => (view === "inbox" ? "Inbox" : VIEWS[view].title);

/** The views that the sign-in may see. */
const offered = (): ViewName[] => NAMES.filter((name) => name === "inbox" || may(VIEWS[name].needs));

/** The menu: a row of links, and on a phone a list behind a button. */
export function Nav() {
  const { view: now } = useValue(place);
  useValue(me);
  const asking = useValue(pairingsWaiting);
  const [isOpen, setOpen] = useState(false);
  const all = offered();
  useEffect(() => setOpen(false), [now]);
  if (all.length < 2) return null;
  return (
    <nav class="views" aria-label="Views" onKeyDown={(event) => {
      if (event.key === "Escape") setOpen(false);
    }}>
      <button type="button" class="quiet views-open" aria-expanded={isOpen} aria-controls="views" onClick={() => setOpen(!isOpen)}>{`${titleOf(now)} ▾`}</button>
      <ul id="views" aria-label="Views" data-open={isOpen}>
        {all.map((name) => (
          <li key={name}>
            <a href={addressOf(name)} aria-current={name === now ? "page" : undefined} data-view={name}>
              {titleOf(name)}{name === "nodes" && asking > 0 && <span class="chip wait">{asking}<span class="unseen"> waiting</span></span>}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

const loaded = new Map<ViewName, ComponentType>();

/** The view of the place, below its heading, which gets the focus when you come to it. */
export function Opened({ name }: { name: Exclude<ViewName, "inbox"> }) {
  const { title, needs, load } = VIEWS[name];
  const [, draw] = useState(0);
  const [isMissing, setMissing] = useState(false);
  const View = loaded.get(name);
  // Who is signed in is known a moment after the page is opened.
  const isKnown = useValue(me) !== undefined;
  const mayOpen = may(needs);
  useEffect(() => {
    if (loaded.has(name) || !mayOpen) return;
    load().then((view) => {
      loaded.set(name, view);
      draw((count) => count + 1);
    }, () => setMissing(true));
  }, [name, mayOpen]);
  return (
    <section class="view" id={`view-${name}`} aria-labelledby="view-title">
      <div class="section-head"><h1 id="view-title" tabIndex={-1}>{title}</h1></div>
      {isKnown && !mayOpen ? <p class="blank">{`Your sign-in lacks the scope ${needs}, which this view needs.`}</p> : View && mayOpen ? <View /> : isMissing ? <Missing /> : <p class="hint">Loading …</p>}
    </section>
  );
}

/** A browser keeps it that a module could not be loaded, and another version of the server has other modules: only a new page tries again. */
function Missing() {
  const [again, setAgain] = useState(0);
  const retry = () => json("GET", "/auth/session").then(() => location.reload(), (error) => (error instanceof Refused ? location.reload() : setAgain(again + 1)));
  return (
    <div role="alert">
      <p>This view could not be loaded{again > 0 && `, and the server still does not answer (${again})`}.</p>
      <button type="button" id="view-again" onClick={() => void retry()}>Try again</button>
    </div>
  );
}

/** Puts the focus on the heading of a view when you come to it, not when the page is opened. */
export function useHeadingFocus(view: ViewName): void {
  const before = useRef(view);
  useLayoutEffect(() => {
    if (before.current === view) return;
    before.current = view;
    scrollTo(0, 0);
    document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }, [view]);
}
