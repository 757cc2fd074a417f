// The search of the reference page. Without it the page is the same, but for the field.

const field = document.querySelector("#search");
const found = document.querySelector("#found");
// What is found or not, each as one: an operation, an error, an event, an object.
const parts = [...document.querySelectorAll("main article, main tr[id]")].map((element) => ({ element, text: element.textContent.toLowerCase() }));
const links = new Map([...document.querySelectorAll("nav ul ul a")].map((link) => [link.hash.slice(1), link.parentElement]));
const chapters = [...document.querySelectorAll("main > section")];

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { element, text } of parts) {
    const isFound = words.every((word) => text.includes(word));
    element.hidden = !isFound;
    const link = links.get(element.id);
    if (link) link.hidden = !isFound;
    if (isFound) count += 1;
  }
  for (const chapter of chapters) {
    const own = chapter.querySelectorAll("article, tr[id]");
    const hasFound = [...own].some((part) => !part.hidden);
    // A chapter without parts says how all of them work.
    chapter.hidden = words.length > 0 && !hasFound;
    const entry = document.querySelector(`nav a[href="#${chapter.id}"]`)?.parentElement;
    if (entry) entry.hidden = chapter.hidden;
  }
  found.textContent = words.length ? `${count} found` : "";
}

// A link leads to what it names, found or not.
function show() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target?.closest("[hidden]")) return;
  field.value = "";
  search();
  target.scrollIntoView();
}

field.addEventListener("input", search);
addEventListener("hashchange", show);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    search();
  } else if (event.key === "/" && document.activeElement !== field) {
    field.focus();
    event.preventDefault();
  }
});
field.closest("[hidden]").hidden = false;
search();
