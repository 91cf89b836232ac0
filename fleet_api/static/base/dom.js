// Makes elements. Text goes in as text nodes only, so a name with a script in it stays text.

export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name in made && name !== "list" && name !== "form") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

// The element that the pointer has gone down on, and what was put around it since: a button that is replaced between
// the press and the release gets no click.
let pressed = null;
const held = new Map();
addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
// The click comes before a timer. The list of a select takes the pointer, and its release, from the page.
for (const name of ["pointerup", "pointercancel", "change", "blur"]) addEventListener(name, () => setTimeout(release), true);
addEventListener("pointermove", (event) => { if (pressed && !event.buttons) release(); }, true);

function release() {
  pressed = null;
  for (const [place, children] of [...held]) put(place, ...children);
}

// Put new content in the place of the old if it differs, and keep the focus: a view is asked anew every few seconds.
// Equal content keeps its first handlers, so a handler asks the view for the object that it acts on.
export function put(place, ...children) {
  if (place.contains(pressed)) return held.set(place, children);
  held.delete(place);
  const fresh = el("div", {}, ...children);
  if (fresh.innerHTML === place.innerHTML) return;
  const refocus = place.contains(document.activeElement) ? refocusing(place) : null;
  place.replaceChildren(...fresh.childNodes);
  refocus?.();
}

// A function that gives the focus back to the element that has it now, also if that was drawn anew within a place.
// An element is known again by its key. Two buttons with one text have none: the focus would go to the other one.
export function refocusing(place) {
  const focused = document.activeElement ?? document.body;
  const key = keyed(place, keyOf(focused)) ? keyOf(focused) : null;
  return () => (focused.isConnected ? focused : key ? keyed(place, key) : null)?.focus();
}

function keyed(place, key) {
  const found = [...place.querySelectorAll("a, button, input, select, [tabindex]")].filter((each) => keyOf(each) === key);
  // Links to one address do the same.
  return found.length === 1 || found[0]?.getAttribute("href") ? found[0] : null;
}

const keyOf = (element) => element.id || element.dataset.key || element.getAttribute("href") || element.textContent;

export function facts(pairs) {
  return el("dl", {}, pairs.filter(Boolean).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

// What is said where there is nothing, with what to do next.
export function empty(what, next) {
  return el("div", { className: "empty" }, el("strong", {}, what), next ?? null);
}

export const link = (href, text) => el("a", { href }, text);
export const panel = (title, ...children) => el("section", { className: "panel" }, title ? el("h2", {}, title) : null, ...children);
export const failure = (failed) => el("p", { className: "bad", role: "alert" }, failed.message);

// A short word after an act, which goes away by itself.
export function note(text) {
  const place = document.getElementById("note");
  place.textContent = text;
  place.hidden = false;
  clearTimeout(note.timer);
  note.timer = setTimeout(() => { place.hidden = true; }, 6000);
}
