// Another command in the place of the one that an agent asked about: written by a person, shown as a change, and asked
// about like any other.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { revise } from "../answers.ts";
import { json, Refused } from "../api/api.ts";
import type { Approval } from "../api/types.ts";
import { diff } from "../pure/diff.ts";
import { visible } from "../pure/text.ts";
import { Wrong } from "./common.tsx";
import { lineOf } from "./details.tsx";

const MOST_CHARS = 100_000;

/** How the command is written down to be changed: one argument a line where no shell reads it. */
function written({ boundTo: { argv }, command }: Approval): { text: string; isList: boolean } {
  const isList = argv !== undefined && argv.length > 0 && !argv.some((argument) => /[\r\n]/.test(argument));
  return isList ? { text: argv.join("\n"), isList } : { text: command, isList };
}

interface Props {
  approval: Approval;
  close: () => void;
  /** Why nothing can be sent now, in words; nothing where it can. */
  blocked: string;
}

export function Revise({ approval, close, blocked }: Props) {
  const [{ text: before, isList }] = useState(() => written(approval));
  const [text, setText] = useState(before);
  const [isSending, setSending] = useState(false);
  const [problem, setProblem] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => field.current?.focus(), []);
  const isChanged = text !== before && text.trim() !== "";
  const key = approval.id;

  async function press() {
    if (isSending || !isChanged || blocked) return;
    setSending(true);
    setProblem("");
    try {
      await revise(key, isList ? { argv: text.split("\n") } : { command: text });
    } catch (error) {
      setProblem(error instanceof Refused ? error.message : "No answer came. Check the list before you try again.");
      setSending(false);
    }
  }

  return (
    <form class="revise" aria-label="Suggest another command" onSubmit={(event) => {
      event.preventDefault();
      void press();
    }}>
      <label for={`revise-${key}`}>{isList ? "The command that you suggest, one argument a line. No shell reads it." : "The command that you suggest. A shell reads it."}</label>
      <textarea ref={field} id={`revise-${key}`} rows={Math.min(8, text.split("\n").length + 1)} maxLength={MOST_CHARS} spellcheck={false} autocomplete="off" autocapitalize="none" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      {isChanged && <Diff before={before} after={text} />}
      <p class="hint">This request ends as denied, and the agent waits for the answer to your command, which you or another person gives.</p>
      <Wrong text={problem} />
      <div class="always-end">
        <button type="button" class="quiet" onClick={close}>Back</button>
        <button type="submit" class={isSending ? "primary busy" : "primary"} aria-disabled={!isChanged || isSending || Boolean(blocked)}><span class="act-text">Suggest it</span></button>
      </div>
    </form>
  );
}

/** What changed of a command, as text. */
export function Diff({ before, after }: { before: string; after: string }) {
  return (
    <p class="diff" dir="ltr" role="group" aria-label="What changed" tabIndex={0}>
      {diff(before, after).map(({ kind, text }, at) => {
        const shown = visible(text, "\n");
        if (kind === "gone") return <del key={at}>{shown}</del>;
        return kind === "new" ? <ins key={at}>{shown}</ins> : <span key={at}>{shown}</span>;
      })}
    </p>
  );
}

/** On the card of a suggested command: what it takes the place of. */
export function Revised({ approval }: { approval: Approval }) {
  const { revises } = approval;
  const [before, setBefore] = useState<Approval | undefined>(undefined);
  useEffect(() => {
    let isOver = false;
    if (revises) json<Approval>("GET", `/v1/approvals/${revises}`).then((old) => !isOver && setBefore(old), () => {});
    return () => {
      isOver = true;
    };
  }, [revises]);
  if (!before) return null;
  return (
    <div class="revised">
      <p>A person suggested this command in place of the one the agent asked for:</p>
      <Diff before={lineOf(before)} after={lineOf(approval)} />
    </div>
  );
}
