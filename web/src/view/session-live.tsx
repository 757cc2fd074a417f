// A process session that goes on: its output as it comes, and what is sent to it. A terminal's sequences are left out of the text,
// and everything else unseen is spelled out.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { announce } from "../announce.ts";
import { isFinal, json, Refused, send } from "../api/api.ts";
import type { ProcessSession } from "../api/types.ts";
import { reader } from "../pure/sse.ts";
import { visible, visibleOutput } from "../pure/text.ts";
import { keysOf, line, raw, refusal, type Sent, terminalText, UNCERTAIN } from "../pure/typed.ts";
import { failed } from "../shell.ts";
import { Wrong } from "./common.tsx";

/** So much is kept on the page; the beginning goes first. */
const MOST_CHARS = 200_000;
const PAUSE_MS = 1000;
const MOST_TRIES = 20;

/** The output of a session while it comes. It goes on where it broke off. */
export function SessionOutput({ session: { sessionId, agentId, pty }, ended }: { session: ProcessSession; ended: () => void }) {
  const [text, setText] = useState("");
  const [state, setState] = useState("Waiting for output …");
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);

  useEffect(() => {
    const line = new AbortController();
    const plain = pty ? terminalText() : (piece: string) => piece;
    // The exact bytes: text that is safe to show has lost what tells where a sequence of a terminal begins.
    const decoders: Record<string, TextDecoder> = {};
    let lastId: string | undefined;
    let isOver = false;
    async function once() {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (lastId !== undefined) headers["Last-Event-ID"] = lastId;
      const response = await send("GET", `/v1/process/${encodeURIComponent(sessionId)}/stream?encoding=base64&agentId=${encodeURIComponent(agentId)}`, { headers, signal: line.signal });
      if (!response.body) return;
      setState("Live");
      const feed = reader((event) => {
        if (event.id !== undefined) lastId = event.id;
        if (event.type === "end") isOver = true;
        if (event.type !== "output") return;
        const { stream: name = "stdout", base64 = "" } = JSON.parse(event.data) as { stream?: string; base64?: string };
        const decoder = (decoders[name] ??= new TextDecoder());
        const piece = visibleOutput(plain(decoder.decode(Uint8Array.from(atob(base64), (byte) => byte.charCodeAt(0)), { stream: true })));
        setText((before) => (before + piece).slice(-MOST_CHARS));
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
        const before = lastId;
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
        if (lastId !== before) tries = 0;
        setState("The output broke off. Trying again …");
        await new Promise((done) => setTimeout(done, PAUSE_MS));
      }
      if (!line.signal.aborted) setState("The output broke off. Close and open the session to see it again.");
    }
    void follow();
    return () => line.abort();
  }, [sessionId]);
  useLayoutEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);

  return (
    <div class="run-output">
      {text && (
        <pre class="output" ref={box} tabIndex={0} role="group" aria-label="Output" onScroll={({ currentTarget }) => {
          isAtEnd.current = currentTarget.scrollTop + currentTarget.clientHeight >= currentTarget.scrollHeight - 8;
        }}>{text}</pre>
      )}
      <p class="hint" role="status">{state}{pty && state === "Live" && ". This is the text of its terminal. Replay in Runs shows the screen."}</p>
    </div>
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
