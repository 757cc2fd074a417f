// Protection against a tap that was meant for something else: a card that has just appeared, or has just been moved by
// what came or went around it, takes no decision for a moment.

/** Long enough for a finger that was already on its way. */
export const SETTLE_MS = 500;

/** Watches the cards in an element. */
export interface Guard {
  /** Looks where the cards are now. */
  look: () => void;
  /** Something in a card has just been changed under the finger. */
  unsettle: (card: Element) => void;
  /** Whether a decision on a card may count now. */
  isSteady: (card: Element) => boolean;
  stop: () => void;
}

/** Watches the children of `list`. */
export function watch(list: HTMLElement): Guard {
  const places = new WeakMap<Element, { onScreen: number; onPage: number }>();
  const movedAt = new WeakMap<Element, number>();

  const look = () => {
    const now = performance.now();
    for (const item of list.children) {
      // The buttons move with their card, and when something opens above them. What stands still on the screen did not
      // move, and what stands still on the page was only scrolled: that is the person's own doing.
      const actions = item.querySelector<HTMLElement>(".actions");
      const { top } = (actions?.checkVisibility() ? actions : item).getBoundingClientRect();
      const place = { onScreen: top, onPage: top + scrollY };
      const known = places.get(item);
      if (!known || (Math.abs(known.onScreen - place.onScreen) > 3 && Math.abs(known.onPage - place.onPage) > 3)) unsettle(item, now);
      places.set(item, place);
    }
  };

  const unsettle = (item: Element, now = performance.now()) => {
    movedAt.set(item, now);
    item.setAttribute("data-unsteady", "");
    setTimeout(() => {
      if (performance.now() - (movedAt.get(item) ?? 0) >= SETTLE_MS - 5) item.removeAttribute("data-unsteady");
    }, SETTLE_MS);
  };

  const observers = [list, document.body].map((element) => {
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return observer;
  });
  return {
    look,
    unsettle: (card) => unsettle(card),
    isSteady: (card) => performance.now() - (movedAt.get(card) ?? Infinity) >= SETTLE_MS,
    stop: () => {
      for (const observer of observers) observer.disconnect();
    },
  };
}

/** What a tap on a card that does not stand still gets to see. */
export function nudge(card: Element): void {
  card.classList.add("nudge");
  setTimeout(() => card.classList.remove("nudge"), 300);
}
