// Looks again at what may have changed: many hints make one look, one look goes on at a time, so that an older answer
// never comes last, and it looks until an answer comes, since the hint does not come again. Pure.

const AGAIN_MS = 1500;

/** What a looker tells. */
export interface Looks {
  failed: (error: unknown) => boolean;
  seen?: () => void;
  isOver?: () => boolean;
}

/**
 * Makes the function that takes a hint. It has `see()` look after `pause` ms, or what `pause()` says; `failed(error)`
 * hears why a look has no answer and says whether it is of no use to look again; `seen()` hears of an answer, and
 * `isOver()` says whether nobody looks any more.
 */
export function createLooker(
  see: () => Promise<unknown>,
  pause: number | (() => number),
  { failed, seen = () => {}, isOver = () => false }: Looks,
): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isLooking = false;
  let isDue = false;

  function wait(ms: number) {
    if (isLooking) return;
    timer ??= setTimeout(look, ms);
  }

  async function look() {
    timer = undefined;
    if (isOver()) return;
    isDue = false;
    isLooking = true;
    let after: number | undefined;
    try {
      await see();
      seen();
    } catch (error) {
      if (!failed(error)) {
        isDue = true;
        after = AGAIN_MS;
      }
    }
    isLooking = false;
    if (isDue) wait(after ?? ms());
  }

  const ms = () => (typeof pause === "function" ? pause() : pause);
  return () => {
    isDue = true;
    wait(ms());
  };
}
