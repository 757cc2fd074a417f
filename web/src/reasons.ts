// The last reasons for a denial, kept in this browser, so that the same words need no typing.

const KEY = "countersign.reasons";
const MOST = 5;
const LONGEST = 200;

/** The last reasons, newest first. */
export function lastReasons(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((reason): reason is string => typeof reason === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

/** Remembers a reason. */
export function keepReason(reason: string): void {
  if (!reason || reason.length > LONGEST) return;
  const others = lastReasons().filter((known) => known !== reason);
  localStorage.setItem(KEY, JSON.stringify([reason, ...others].slice(0, MOST)));
}

export const forgetReasons = (): void => localStorage.removeItem(KEY);
