// A process session that goes on: the screen of its terminal, or its output as it comes, and what is sent to it. A terminal's
// sequences are left out of the text, and everything else unseen is spelled out.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { isFinal, json, Refused, send } from "../api/api.ts";
import type { Frame, ProcessSession } from "../api/types.ts";
import { type Picture, pictured } from "../pure/replay.ts";
import { reader, type StreamEvent } from "../pure/sse.ts";
import { visible, visibleOutput } from "../pure/text.ts";
import { keysOf, line, raw, refusal, type Sent, terminalText, UNCERTAIN } from "../pure/typed.ts";
import { failed } from "../shell.ts";
import { Wrong } from "./common.tsx";
import { Screen } from "./screen.tsx";

/** So much is kept on the page; the beginning goes first. */
const MOST_CHARS = 200_000;
const PAUSE_MS = 1000;
const MOST_TRIES = 20;

/** Follows a session until it ends, and says how that goes. `begin` makes of each connection what takes its events. */
function useStream({ sessionId, agentId }: ProcessSession, encoding: "base64" | "screen", begin: () => (event: StreamEvent) => void, ended: () => void): string {
  const [state, setState] = useState("Waiting for output …");
  useEffect(() => {
    const line = new AbortController();
    let lastId: string | undefined;
    let isOver = false;
    let hasCome = false;
    async function once() {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId !== undefined) headers["Last-Event-ID"] = lastId;
      const response = await send("GET", `/v1/process/${encodeURIComponent(sessionId)}/stream?encoding=${encoding}&agentId=${encodeURIComponent(agentId)}`, { headers, signal: line.signal });
      if (!response.body) return;
      setState("Live");
      const take = begin();
      const feed = reader((event) => {
        if (event.id !== undefined) lastId = event.id;
        hasCome = true;
        if (event.type === "end") isOver = true;
        else take(event);
      });
      const stream = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await stream.read();
        if (done) return;
        feed(value);
      }
    }
    async function follow() {
      for (let tries = 0; tries < MOST_TRIES && !line.signal.aborted; tries += 1) {
        hasCome = false;
        try {
          await once();
        } catch (error) {
          if (line.signal.aborted) return;
          if (isFinal(error)) {
            setState(refusal((error as Refused).code, (error as Refused).message));
            return ended();
          }
        }
        if (isOver) return ended();
        if (hasCome) tries = 0;
        setState("The output broke off. Trying again …");
        await new Promise((done) => setTimeout(done, PAUSE_MS));
      }
      if (!line.signal.aborted) setState("The output broke off. Close and open the session to see it again.");
    }
    void follow();
    return () => line.abort();
  }, [sessionId, encoding]);
  return state;
}

/** A session while it goes on: the screen of its terminal, or its output as text. */
export function SessionOutput({ session, ended }: { session: ProcessSession; ended: () => void }) {
  const [isText, setText] = useState(!session.pty);
  return (
    <div class="run-output">
      {isText ? <OutputText session={session} ended={ended} /> : <LiveScreen session={session} ended={ended} />}
      {session.pty && <button type="button" class="quiet" data-act="screen-or-text" onClick={() => setText(!isText)}>{isText ? "Show the screen" : "Show the output as text"}</button>}
    </div>
  );
}

/** What the terminal shows now. The server draws it, so no control sequence comes here. */
function LiveScreen({ session, ended }: { session: ProcessSession; ended: () => void }) {
  const [picture, setPicture] = useState<Picture>();
  const [isLost, setLost] = useState(false);
  const begin = () => {
    let last: Picture | undefined;
    return ({ type, data }: StreamEvent) => {
      if (type === "lost") setLost(true);
      if (type !== "screen") return;
      last = pictured(last, JSON.parse(data) as Frame);
      setPicture(last);
    };
  };
  const state = useStream(session, "screen", begin, ended);
  return (
    <>
      {picture && <div class="screen-box" tabIndex={0} role="group" aria-label={`Screen of the terminal, ${picture.cols} × ${picture.rows}`}><Screen picture={picture} /></div>}
      <p class="hint" role="status">{isLost ? "The screen cannot be followed any more. Show the output as text instead." : state}</p>
    </>
  );
}

/** The output of a session as text while it comes. It goes on where it broke off. */
function OutputText({ session, ended }: { session: ProcessSession; ended: () => void }) {
  const [text, setText] = useState("");
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  const plain = useRef(session.pty ? terminalText() : (piece: string) => piece);
  // The exact bytes: text that is safe to show has lost what tells where a sequence of a terminal begins.
  const decoders = useRef<Record<string, TextDecoder>>({});
  const take = ({ type, data }: StreamEvent) => {
    if (type !== "output") return;
    const { stream: name = "stdout", base64 = "" } = JSON.parse(data) as { stream?: string; base64?: string };
    const decoder = (decoders.current[name] ??= new TextDecoder());
    const piece = visibleOutput(plain.current(decoder.decode(Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0)), { stream: true })));
    setText((before) => (before + piece).slice(-MOST_CHARS));
  };
  const state = useStream(session, "base64", () => take, ended);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);

  return (
    <>
      {text && (
        <pre class="output" ref={box} tabIndex={0} role="group" aria-label="Output" onScroll={({ currentTarget }) => {
          isAtEnd.current = currentTarget.scrollTop + currentTarget.clientHeight >= currentTarget.scrollHeight - 8;
        }}>{text}</pre>
      )}
      <p class="hint" role="status">{state}</p>
    </>
  );
}

interface Taken {
  session: ProcessSession;
  warnings?: { message: string }[];
}

/** Lines, text and keys for a session whose input is open. */
export function SessionInput({ session, changed }: { session: ProcessSession; changed: () => void }) {
  const { sessionId, agentId, pty } = session;
  const [text, setText] = useState("");
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const [said, setSaid] = useState("");

  async function press(sent: Sent, words: string): Promise<boolean> {
    if (isSending) return false;
    setSending(true);
    setProblem("");
    setSaid("");
    let isSent = false;
    try {
      const { warnings = [] } = await json<Taken>("POST", "/v1/process", { body: { ...sent, sessionId, agentId } });
      isSent = true;
      setSaid([words, ...warnings.map(({ message }) => message)].join(" "));
      announce(words);
    } catch (error) {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? refusal(error.code, error.message) : UNCERTAIN);
    }
    setSending(false);
    changed();
    return isSent;
  }
  const type = (sent: Sent, words: string) => void press(sent, words).then((isSent) => {
    if (isSent) setText("");
  });

  const id = `input-${sessionId}`;
  return (
    <form class="session-input" id={id} noValidate aria-label="Send to the session" onSubmit={(event) => {
      event.preventDefault();
      type(line(text, { pty }), "The line was sent.");
    }}>
      <div class="field">
        <label for={`${id}-text`}>Text for the command. The record keeps that you sent it.</label>
        <input id={`${id}-text`} type="text" autocomplete="off" autocapitalize="none" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </div>
      <div class="row-actions">
        <button type="submit" class="primary" aria-disabled={isSending}>Send line</button>
        <button type="button" data-send="raw" aria-disabled={isSending || !text} onClick={() => text && type(raw(text), "The text was sent, without an end of line.")}>Send without Enter</button>
      </div>
      <div class="row-actions" role="group" aria-label="Keys">
        {keysOf({ pty }).map(({ title, label, send: sent }) => (
          <button key={title} type="button" data-key={title} aria-label={label} aria-disabled={isSending} onClick={() => void press(sent, `${title} was sent.`)}>{title}</button>
        ))}
      </div>
      <Wrong text={problem} />
      <p class="hint" role="status">{visible(said)}</p>
    </form>
  );
}
