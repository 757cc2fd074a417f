// A terminal's recording: the pictures that the server made of its cells, with a time line, a search and a speed. No control
// sequence of the command comes here; each text of a row becomes a text node.

import { useEffect, useRef, useState } from "preact/hooks";
import { json, Refused } from "../api/api.ts";
import type { Frames, Run } from "../api/types.ts";
import { advanced, at, developed, found, type Picture } from "../pure/replay.ts";
import { duration } from "../pure/text.ts";
import { failed } from "../shell.ts";
import { Wrong } from "./common.tsx";
import { Screen } from "./screen.tsx";

const TICK_MS = 40;
const IDLE_MS = 2000;
const STEP_MS = 5000;
const SPEEDS = [0.5, 1, 2, 4, 8, 16] as const;
/** So many answers of pictures are kept. */
const MOST_ANSWERS = 40;

interface Film {
  pictures: Picture[];
  lengthMs: number;
  lostAtMs: number | undefined;
  isWhole: boolean;
  /** It goes on behind the pictures, and no more of them are kept here. */
  isCut: boolean;
}

/** Loads the pictures of a run, an answer after the other. */
function useFilm(runId: string): { film: Film; problem: string } {
  const [film, setFilm] = useState<Film>({ pictures: [], lengthMs: 0, lostAtMs: undefined, isWhole: false, isCut: false });
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isOver = false;
    async function load() {
      let after: number | undefined;
      for (let answers = 0; answers < MOST_ANSWERS && !isOver; answers += 1) {
        const part = await json<Frames>("GET", `/v1/runs/${encodeURIComponent(runId)}/recording/frames${after === undefined ? "" : `?afterMs=${after}`}`);
        if (isOver) return;
        after = part.nextAfterMs;
        const isCut = after !== undefined && answers + 1 === MOST_ANSWERS;
        setFilm(({ pictures }) => ({ pictures: developed(pictures, part), lengthMs: isCut ? (after ?? 0) : part.lengthMs, lostAtMs: part.lostAtMs, isWhole: after === undefined || isCut, isCut }));
        if (after === undefined) return;
      }
    }
    load().catch((error: unknown) => {
      if (error instanceof Refused && error.isSignedOut) failed(error);
      setProblem(error instanceof Refused ? error.sentence : "The recording could not be loaded. Close it and open it again.");
    });
    return () => {
      isOver = true;
    };
  }, [runId]);
  return { film, problem };
}

export function Replay({ run }: { run: Run }) {
  const { film, problem } = useFilm(run.runId);
  const { pictures, lengthMs, lostAtMs, isWhole, isCut } = film;
  const [now, setNow] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  const [cutsIdle, setCutsIdle] = useState(true);
  const [words, setWords] = useState("");
  const [said, setSaid] = useState("");
  const timing = useRef({ pictures, lengthMs, speed, cutsIdle });
  timing.current = { pictures, lengthMs, speed, cutsIdle };

  useEffect(() => {
    if (!isPlaying) return undefined;
    let last = performance.now();
    const timer = setInterval(() => {
      const present = performance.now();
      const { pictures: all, lengthMs: length, speed: times, cutsIdle: cuts } = timing.current;
      const played = (present - last) * times;
      last = present;
      setNow((before) => advanced(all, before, played, length, cuts ? IDLE_MS : undefined));
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [isPlaying]);
  useEffect(() => {
    if (isPlaying && isWhole && now >= lengthMs) setPlaying(false);
  }, [now, lengthMs, isWhole, isPlaying]);

  const go = (ms: number) => setNow(Math.min(Math.max(ms, 0), lengthMs));
  const play = () => {
    if (!isPlaying && now >= lengthMs) setNow(0);
    setPlaying(!isPlaying);
  };
  const search = (step: 1 | -1) => {
    const place = found(pictures, words, at(pictures, now), step);
    setPlaying(false);
    setSaid(place < 0 ? (step > 0 ? "Nothing more is found." : "Nothing is found before this.") : `Found at ${duration(pictures[place]?.atMs ?? 0)}.`);
    if (place >= 0) go(pictures[place]?.atMs ?? 0);
  };
  const keyed = (event: KeyboardEvent) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const keys: Record<string, () => void> = { " ": play, ArrowLeft: () => go(now - STEP_MS), ArrowRight: () => go(now + STEP_MS), Home: () => go(0), End: () => go(lengthMs) };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  const shown = pictures[at(pictures, now)];
  const id = `replay-${run.runId}`;
  return (
    <div class="replay" id={id}>
      <Wrong text={problem} />
      {!shown && !problem && <p class="hint">{isWhole ? "Nothing was written." : "Loading …"}</p>}
      {shown && (
        <>
          <div class="screen-box" tabIndex={0} role="group" aria-label={`Terminal at ${duration(Math.round(now))} of ${duration(lengthMs)}. Space plays, the arrows move by 5 seconds.`} onKeyDown={keyed}>
            <Screen picture={shown} words={words} />
          </div>
          <div class="replay-bar">
            <button type="button" class="replay-play" onClick={play}>{isPlaying ? "Pause" : "Play"}</button>
            <label class="replay-time"><span class="unseen">Time</span><input type="range" min={0} max={lengthMs} step={10} value={Math.round(now)} aria-valuetext={`${duration(Math.round(now))} of ${duration(lengthMs)}`} onInput={(event) => go(Number(event.currentTarget.value))} /></label>
            <span class="replay-clock">{`${duration(Math.round(now))} / ${duration(lengthMs)}`}</span>
            <label class="field-row">Speed <select value={String(speed)} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>{SPEEDS.map((times) => <option key={times} value={String(times)}>{`${times}×`}</option>)}</select></label>
            <label class="field-row"><input type="checkbox" checked={cutsIdle} onChange={(event) => setCutsIdle(event.currentTarget.checked)} /> Cut pauses to 2 s</label>
          </div>
          <form class="replay-bar" role="search" aria-label="Search the recording" onSubmit={(event) => {
            event.preventDefault();
            search(1);
          }}>
            <label class="field-row">Search <input type="text" autocomplete="off" autocapitalize="none" spellcheck={false} value={words} onInput={(event) => {
              setWords(event.currentTarget.value);
              setSaid("");
            }} /></label>
            <button type="submit" class="quiet" disabled={!words}>Next</button>
            <button type="button" class="quiet" disabled={!words} onClick={() => search(-1)}>Previous</button>
            <span role="status">{said}</span>
          </form>
          {lostAtMs !== undefined && <p class="hint">{`From ${duration(lostAtMs)} on, what was written could not be followed.`}</p>}
          {!isWhole && <p class="hint">Loading the rest …</p>}
          {isCut && <p class="hint">The recording goes on; this player shows it until here. <code>countersign runs replay</code> shows all of it.</p>}
        </>
      )}
    </div>
  );
}
