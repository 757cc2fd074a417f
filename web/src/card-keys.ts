// How the keyboard reaches the card that is open.

/** What a letter can do to a card. */
export type CardKey = "once" | "always" | "deny" | "reason" | "edit";

/** The card that is open. */
export interface CardHandle {
  press: (key: CardKey) => void;
  /** Closes what is open inside; says whether there was something. */
  escape: () => boolean;
}

let current: CardHandle | undefined;

/** Says which card is open; returns how to take that back. */
export function setCard(card: CardHandle): () => void {
  current = card;
  return () => {
    if (current === card) current = undefined;
  };
}

export const openCard = (): CardHandle | undefined => current;
