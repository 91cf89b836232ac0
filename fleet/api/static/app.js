// The views, one at a time, chosen by the fragment of the address; each is asked anew every few seconds while it is shown.

import * as builds from "./builds.js";
import * as events from "./events.js";
import * as explain from "./explain.js";
import * as map from "./map.js";
import * as room from "./room.js";
import * as use from "./use.js";

const VIEWS = { map, builds, events, explain, room, use };
const EVERY_MS = 3000;

const view = document.getElementById("view");
const status = document.getElementById("status");
const theme = document.getElementById("theme");
let shown = null;
let timer = 0;

function say(text, isBad = false) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("bad", isBad);
}

async function refresh() {
  clearTimeout(timer);
  const mine = shown;
  try {
    say(await mine.refresh());
  } catch (failed) {
    say(failed.message, true);
  }
  if (mine === shown && !document.hidden && mine.lives) timer = setTimeout(refresh, EVERY_MS);
}

function show() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const known = name in VIEWS ? name : "map";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${known}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `fleet: ${known}`;
  view.replaceChildren();
  shown?.close?.();
  shown = VIEWS[known].open(view, rest.map(decodeURIComponent));
  refresh();
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.textContent = name === "dark" ? "Light" : "Dark";
  shown?.redraw?.();
}

theme.addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", next);
  setTheme(next);
});
addEventListener("hashchange", show);
addEventListener("resize", () => shown?.redraw?.());
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => { if (!localStorage.getItem("theme")) setTheme(dark.matches ? "dark" : "light"); });
setTheme(localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"));
show();
