// The output of a run, a piece at a time.

import { useEffect, useRef, useState } from "preact/hooks";
import { Refused, send } from "../api/api.ts";
import type { Run } from "../api/types.ts";
import { byteSize, visibleOutput } from "../pure/text.ts";

const PIECE_BYTES = 64 * 1024;

export function Output({ run }: { run: Pick<Run, "runId"> }) {
  const [text, setText] = useState("");
  const [state, setState] = useState("Loading the output …");
  const [hasMore, setMore] = useState(false);
  const read = useRef({ offset: 0, decoder: new TextDecoder(), isOver: false });

  async function load() {
    setMore(false);
    const { current } = read;
    const { offset } = current;
    try {
      const response = await send("GET", `/v1/runs/${run.runId}/output`, { headers: { Range: `bytes=${offset}-${offset + PIECE_BYTES - 1}`, Accept: "*/*" } });
      const bytes = new Uint8Array(await response.arrayBuffer());
      if (current.isOver) return;
      const total = Number(response.headers.get("content-range")?.split("/")[1] ?? bytes.length);
      current.offset += bytes.length;
      const piece = visibleOutput(current.decoder.decode(bytes, { stream: current.offset < total }));
      setText((before) => before + piece);
      setMore(current.offset < total);
      setState(!total ? "No output." : current.offset < total ? `${byteSize(current.offset)} of ${byteSize(total)}` : byteSize(total));
    } catch (error) {
      if (current.isOver) return;
      const isEmpty = error instanceof Refused && error.status === 416;
      setState(isEmpty ? "No output." : error instanceof Refused ? error.sentence : "The output could not be loaded.");
      setMore(!isEmpty);
    }
  }
  useEffect(() => {
    void load();
    return () => {
      read.current.isOver = true;
    };
  }, []);

  return (
    <div class="run-output">
      {text && <pre class="output" tabIndex={0} role="group" aria-label="Output">{text}</pre>}
      <p class="hint" role="status">{state}</p>
      {hasMore && <button type="button" class="more" onClick={() => void load()}>Show more output</button>}
    </div>
  );
}
