// Protection against a tap that was meant for something else: a card that has just appeared, or has just been moved by
// what came or went around it, takes no decision for a moment.

/** Long enough for a finger that was already on its way. */
export const SETTLE_MS = 500;

/**
 * Watches the cards of a list. `isSteady(card)` says whether a decision on it may count now, `unsettle(card)` that it
 * has just been changed under the finger.
 */
export function watch(list) {
  const places = new WeakMap();
  const movedAt = new WeakMap();

  const look = () => {
    const now = performance.now();
    for (const item of list.children) {
      // Scrolling is the person's own doing and moves nothing here. The buttons move with their card, and when something
      // opens above them.
      const actions = item.querySelector(".actions");
      const place = (actions?.offsetParent ? actions : item).getBoundingClientRect().top + scrollY;
      const known = places.get(item);
      if (known === undefined || Math.abs(known - place) > 3) unsettle(item, now);
      places.set(item, place);
    }
  };

  const unsettle = (item, now = performance.now()) => {
    movedAt.set(item, now);
    item.setAttribute("data-unsteady", "");
    setTimeout(() => {
      if (performance.now() - movedAt.get(item) >= SETTLE_MS - 5) item.removeAttribute("data-unsteady");
    }, SETTLE_MS);
  };

  new ResizeObserver(look).observe(list);
  new ResizeObserver(look).observe(document.body);
  return {
    look,
    unsettle,
    isSteady: (item) => performance.now() - (movedAt.get(item) ?? Infinity) >= SETTLE_MS,
  };
}
