// The small parts that every view is made of. What comes from outside becomes a text node, never markup.

import type { ComponentChildren } from "preact";
import { visible } from "../pure/text.ts";

/** Text of a machine: a path, a name, a command. */
export const Mono = ({ text }: { text: string }) => <code dir="ltr">{visible(text)}</code>;

/** A name and its value in a list of facts. */
export const Fact = ({ name, children, class: kind = "" }: { name: string; children: ComponentChildren; class?: string }) => (
  <div class={kind ? `fact ${kind}` : "fact"}>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

/** A moment, in the words of the reader's own clock. */
export function Time({ ms }: { ms: number | undefined }) {
  const at = new Date(ms ?? Number.NaN);
  return Number.isNaN(at.getTime()) ? <>at an unknown time</> : <time dateTime={at.toISOString()}>{at.toLocaleString()}</time>;
}

/** What went wrong, told to a screen reader at once. */
export const Wrong = ({ text, id }: { text: string | undefined; id?: string }) => (
  <p class="problem" role="alert" id={id} hidden={!text}>
    {visible(text ?? "")}
  </p>
);
