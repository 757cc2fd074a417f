// The output of a run while it comes.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Refused, send } from "../api/api.ts";
import { visibleOutput } from "../pure/text.ts";

/** So much is kept on the page; the beginning goes first, and all of it is there once the run has ended. */
const MOST_CHARS = 200_000;

export function LiveOutput({ runId, ended }: { runId: string; ended: () => void }) {
  const [text, setText] = useState("");
  const [state, setState] = useState("Waiting for output …");
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);

  useEffect(() => {
    const line = new AbortController();
    async function follow() {
      const response = await send("GET", `/v1/runs/${runId}/output?follow=1`, { headers: { Accept: "text/plain" }, signal: line.signal });
      if (!response.body) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        setState("Live");
        setText((before) => (before + visibleOutput(value)).slice(-MOST_CHARS));
      }
      ended();
    }
    follow().catch((error: unknown) => {
      if (line.signal.aborted) return;
      setState(error instanceof Refused ? error.sentence : "The output broke off. Close and open the run to see it again.");
    });
    return () => line.abort();
  }, [runId]);
  // It follows the end as long as you have not scrolled away from it.
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
      <p class="hint" role="status">{state}</p>
    </div>
  );
}
