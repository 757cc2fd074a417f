// What a letter does that answers a request: nothing happens to a request that you are not on, or do not see. Pure.

/** Where you are when you press it. */
export interface Place {
  /** The request whose card is open. */
  opened: string | undefined;
  /** The request whose card or row has the focus. */
  focused: string | undefined;
  /** Whether the open card is on the screen. */
  isInSight: boolean;
}

/** `act` on the open card, only `open` a request, or `nothing`. */
export type Meaning = { kind: "act" } | { kind: "open"; id: string } | { kind: "nothing" };

/** What a letter means at a place; `isKnown` says whether the page still has a request. */
export function meaning({ opened, focused, isInSight }: Place, isKnown: (id: string) => boolean): Meaning {
  const wanted = focused ?? opened;
  // The focus is on something that is no request of the list: the card of one answer to several.
  if (wanted === undefined || !isKnown(wanted)) return { kind: "nothing" };
  if (focused === opened && isInSight) return { kind: "act" };
  return { kind: "open", id: wanted };
}
