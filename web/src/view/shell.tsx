// What is around the views: the head of the page, what is wrong, and the end.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { announced } from "../announce.ts";
import { isHelp } from "../keys.ts";
import { record } from "../later.ts";
import { visible } from "../pure/text.ts";
import { gone, head, link, me, type Notice, notices, only, signOut } from "../shell.ts";
import { useValue } from "../state.ts";
import { StopButton } from "./stop.tsx";

/** The mark of the product, drawn here: one request less than the file. */
const Mark = () => (
  <svg width="28" height="28" aria-hidden="true" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#17514a"/><path d="M8.5 16.6l4.6 4.7L23.5 10" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round" stroke-linejoin="round"/><path d="M8.5 25h15" stroke="#8fd3c4" stroke-width="2.2" stroke-linecap="round"/></svg>
);

export function Top({ children }: { children?: ComponentChildren }) {
  const { state, text } = useValue(link);
  const session = useValue(me);
  const isGone = useValue(gone) !== undefined;
  return (
    <header class="top">
      <div class="top-row">
        <a class="brand" href={only ? "/" : "#/inbox"}><Mark /><span>countersign</span></a>
        <p class="link-state" id="link" data-state={state}><span class="dot" aria-hidden="true" /><span id="link-text" role="status">{text}</span></p>
        <div class="top-actions">
          <StopButton isKnown={session !== undefined && !isGone} />
          <button type="button" class="quiet" id="help-open" aria-haspopup="dialog" onClick={() => isHelp.set(true)}>Keys</button>
          <button type="button" class="quiet" id="sign-out" hidden={isGone} title={session && `Signed in as ${session.name}`} onClick={() => void signOut()}>Sign out</button>
        </div>
      </div>
      {children}
    </header>
  );
}

export function Notices() {
  const all = useValue(notices);
  return <div id="notices">{[...all].map(([id, said]) => <Note key={id} id={id} said={said} />)}</div>;
}

function Note({ id, said: { text, edit } }: { id: string; said: Notice }) {
  const later = useValue(record);
  return (
    <div class="notice" id={`notice-${id}`}>
      <p role="alert"><bdi>{visible(text)}</bdi></p>
      {edit && later && <later.HeldAnswers id={id} edit={edit} />}
    </div>
  );
}

export function Head() {
  const now = useValue(head);
  if (!now) return null;
  return <p class="hint" id="head" title={`SHA-256 ${now.hash}`}>{`Audit log sealed up to record ${now.seq.toLocaleString("en")} `}<code>{visible(now.hash.slice(0, 16))}</code></p>;
}

/** What is left after signing out. */
export function Gone() {
  const why = useValue(gone);
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => title.current?.focus(), []);
  return (
    <section class="gone" id="gone">
      <h1 id="gone-title" ref={title} tabIndex={-1}>You are signed out</h1>
      <p id="gone-text">{`${why} Nothing more is shown here until you sign in again.`}</p>
      <p><a class="button primary" id="gone-link" href={only ? `/login?next=/a/${only}` : "/login"}>Sign in</a></p>
    </section>
  );
}

/** What a screen reader is told. */
export function Announcer() {
  return <p class="unseen" id="announce" role="status" aria-live="polite">{useValue(announced)}</p>;
}
