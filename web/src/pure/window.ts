// Which rows of a long list are drawn. Pure.

/** The height of a row in pixels, as the stylesheet has it: for a finger, and on a desk. */
export const ROW_PX = 48;
export const DESK_ROW_PX = 40;
/** Rows above and below what is in sight. */
const MARGIN = 8;
/** Never more, however high the screen is. */
export const MOST_ROWS = 100;

/** The rows that are drawn of `count`, each `px` high, where `top` pixels are scrolled away and `height` are in sight. */
export function inSight(count: number, top: number, height: number, px: number): { from: number; to: number } {
  const from = Math.max(0, Math.min(count - 1, Math.floor(top / px)) - MARGIN);
  const to = Math.min(count, from + MOST_ROWS, Math.ceil((top + height) / px) + MARGIN);
  return { from, to: Math.max(from, to) };
}
