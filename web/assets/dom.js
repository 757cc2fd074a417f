// Elements, made without ever parsing markup: all that comes from outside becomes a text node or an attribute value.

/** Makes an element. `props` are attributes; functions are listeners (`onclick`), `true` is a bare attribute. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** Replaces everything in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** The element of this id, which the page has. */
export const byId = (id) => document.getElementById(id);

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child);
  }
}
