// The command of a request: complete, or folded with its beginning and its end.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Approval } from "../api/types.ts";
import { isRead, markRead } from "../inbox.ts";
import { folded } from "../pure/fold.ts";
import { brief, joined, type MarkedPiece, marked, mixedWords, pieces, visible } from "../pure/text.ts";

/** What the card shows of a command. */
interface Shown {
  all: MarkedPiece[];
  /** The server left out the middle: what is there is not all of it. */
  isCut: boolean;
}

/** What is shown at first: the server's text, cut where it cut it. */
function firstShown({ display, command }: Approval): Shown {
  const found = pieces(command);
  // The server's text and ours must be the same one; if they ever differ, the server's is shown as plain text.
  const agrees = !display.truncated && joined(found) === display.text;
  return { all: marked(agrees ? found : [{ kind: "text", text: display.text }], display.spans), isCut: display.truncated };
}

/** Whether a command is long enough to be opened before it is allowed. */
export function mustOpen(approval: Approval): boolean {
  const { all, isCut } = firstShown(approval);
  return isCut || folded(all).hidden.length > 0;
}

/** The command with what is odd about its text. */
export function CommandBlock({ approval }: { approval: Approval }) {
  const code = useRef<HTMLPreElement>(null);
  const [isOpening, setOpening] = useState(false);
  const first = useMemo(() => firstShown(approval), [approval.id]);
  const parts = useMemo(() => folded(first.all), [first]);
  const isOpen = isRead(approval.id);
  const isFolded = (first.isCut || parts.hidden.length > 0) && !isOpen;
  const all = useMemo(() => (isOpen && first.isCut ? marked(pieces(approval.command), []) : first.all), [isOpen, first]);
  const size = [...approval.command].length.toLocaleString("en");

  useLayoutEffect(() => {
    if (isOpening && isOpen) code.current?.focus({ preventScroll: true });
  }, [isOpening, isOpen]);

  return (
    <div class="command-block">
      <pre ref={code} class={isFolded ? "command" : "command open"} id={`command-${approval.id}`} role="group" aria-label={isOpening ? "Complete command" : "Command"} dir="ltr" tabIndex={isOpening ? 0 : undefined}>
        {isFolded && parts.hidden.length > 0 ? (
          <>
            <Pieces all={parts.head} />
            <span class="fold">{`… ${parts.lines === 1 ? "1 line is" : `${parts.lines} lines are`} not shown …`}</span>
            <Pieces all={parts.tail} />
          </>
        ) : (
          <Pieces all={all} />
        )}
      </pre>
      {isFolded && (
        <button type="button" class="more" onClick={() => {
          setOpening(true);
          markRead(approval.id);
        }}>{`Show all ${size} characters`}</button>
      )}
      <Warnings approval={approval} />
    </div>
  );
}

function Warnings({ approval: { display, command } }: { approval: Approval }) {
  const notes = display.warnings.map(({ message }) => message);
  const mixed = mixedWords(command);
  if (mixed.length && !display.warnings.some(({ code }) => code === "mixed-scripts")) notes.push(`letters of different scripts in one word: ${brief(mixed.join(", "), 80)}`);
  if (!notes.length) return null;
  return (
    <ul class="warnings" aria-label="About the text">
      {notes.map((note) => <li key={note}><bdi>{visible(note)}</bdi></li>)}
    </ul>
  );
}

function Pieces({ all }: { all: readonly MarkedPiece[] }) {
  return <>{all.map((piece, at) => <PieceView key={at} {...piece} />)}</>;
}

function PieceView({ kind, text, span }: MarkedPiece) {
  const segment = span >= 0 ? ` seg seg-${span % 4}` : "";
  if (kind === "unseen") return <span class={`unseen-char${segment}`}>{text}</span>;
  if (kind === "break") return <><span class={`unseen-char line-break${segment}`}>{text}</span>{"\n"}</>;
  if (kind === "blanks") return <span class="blanks" title={`${text.length} blanks in a row`}>{`${text.length} blanks`}</span>;
  return span >= 0 ? <span class={segment.trim()}>{text}</span> : <>{text}</>;
}
