// The event stream, read by fetch so that the second secret can go along. It resumes after the last event it saw and
// comes back by itself with growing pauses.

import { Refused, send } from "./api/api.ts";
import { reader } from "./pure/sse.ts";
import type { PageEvent } from "./api/types.ts";

// The server sends a comment every 15 s; twice nothing means that the line is dead.
const SILENCE_MS = 35_000;
const PAUSES_MS = [300, 700, 1500, 3000, 6000, 12_000];

/** What listeners hear. */
export interface Listener {
  /** The line is up; `resumed`: nothing was missed. */
  open: (resumed: boolean) => void;
  event: (event: PageEvent) => void;
  /** It will come back. */
  down: () => void;
  /** It gives up. */
  refused: (error: Refused) => void;
}

/** Follows the events of these types; `answers`: whether a person answers here, so that questions wait for them. */
export function follow(types: readonly string[], answers: boolean, on: Listener): { retry: () => void; stop: () => void } {
  let lastId: string | undefined;
  let failures = 0;
  let stopped = false;
  let line = new AbortController();
  let wake = (): void => {};

  async function once() {
    line = new AbortController();
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (lastId !== undefined) headers["Last-Event-ID"] = lastId;
    let silence = setTimeout(() => line.abort(), SILENCE_MS);
    const alive = () => {
      clearTimeout(silence);
      silence = setTimeout(() => line.abort(), SILENCE_MS);
    };
    try {
      const response = await send("GET", `/v1/events?types=${types.join(",")}&approver=${answers}`, { headers, signal: line.signal });
      const resumed = lastId !== undefined;
      failures = 0;
      on.open(resumed);
      if (!response.body) return;
      const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const feed = reader((event) => {
        if (event.id !== undefined) lastId = event.id;
        // What lies between is gone from the log: listeners must look for themselves.
        if (event.type === "events.gap") on.open(false);
        else on.event(JSON.parse(event.data) as PageEvent);
      });
      for (;;) {
        const { done, value } = await text.read();
        if (done) return;
        alive();
        feed(value);
      }
    } finally {
      clearTimeout(silence);
    }
  }

  async function forever() {
    while (!stopped) {
      try {
        await once();
      } catch (error) {
        if (error instanceof Refused && error.status < 500 && error.status !== 429) {
          on.refused(error);
          return;
        }
      }
      if (stopped) return;
      const pause = PAUSES_MS[Math.min(failures, PAUSES_MS.length - 1)] ?? 12_000;
      failures += 1;
      // Not all pages of a restarted server at once.
      const wait = pause / 2 + Math.random() * (pause / 2);
      on.down();
      await new Promise<void>((done) => {
        wake = done;
        setTimeout(done, wait);
      });
    }
  }

  forever();
  return {
    /** Tries again now instead of later. */
    retry: () => wake(),
    stop: () => {
      stopped = true;
      line.abort();
      wake();
    },
  };
}
