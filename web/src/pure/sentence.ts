// What the server says in fragments, as sentences. Pure.

/** A fragment with a capital letter and a full stop; nothing for nothing. */
export function sentence(fragment: string | undefined): string {
  const text = (fragment ?? "").trim();
  const [first = "", ...rest] = text;
  if (!text) return "";
  return `${first.toUpperCase()}${rest.join("")}${/[.!?…)]$/.test(text) ? "" : "."}`;
}
