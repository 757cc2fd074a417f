// What may have changed, counted: a view that is open looks again, and one that is not asks for nothing.

import { State } from "./state.ts";

export const hints = {
  runs: new State(0),
  approvals: new State(0),
  nodes: new State(0),
  policy: new State(0),
  all: new State(0),
};

/** Says that something of a kind may have changed. */
export function hint(kind: keyof typeof hints): void {
  hints[kind].change((count) => count + 1);
}
