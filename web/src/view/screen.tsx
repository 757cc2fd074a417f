// The cells of a terminal, as the server drew them: each text of a row becomes a text node.

import { lineOf, type Picture } from "../pure/replay.ts";
import { visible } from "../pure/text.ts";

/** The cells of a moment, a line for each row; rows with these words are marked. */
export function Screen({ picture: { rows, cursor }, words = "" }: { picture: Picture; words?: string }) {
  const wanted = words.toLowerCase();
  return (
    <div class="screen" dir="ltr">
      {rows.map((texts, row) => (
        <div key={row} class={`screen-row${wanted && lineOf(texts).toLowerCase().includes(wanted) ? " hit" : ""}${cursor?.[0] === row + 1 ? " at" : ""}`}>
          {texts.length ? texts.map(({ text, look }, place) => <span key={place} class={look ? `look ${look}` : undefined}>{visible(text)}</span>) : "\u00a0"}
        </div>
      ))}
    </div>
  );
}
