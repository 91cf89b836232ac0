// The views, one at a time, chosen by the fragment of the address; each is asked anew every few seconds while it is shown.

import * as api from "./api.js";
import * as builds from "./builds.js";
import * as events from "./events.js";
import * as explain from "./explain.js";
import * as map from "./map.js";
import * as room from "./room.js";
import * as signIn from "./sign_in.js";
import * as use from "./use.js";

const VIEWS = { map, builds, events, explain, room, use };
const EVERY_MS = 3000;

const view = document.getElementById("view");
const status = document.getElementById("status");
const theme = document.getElementById("theme");
const signOut = document.getElementById("sign-out");
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
    if (failed instanceof api.SignedOut) return askWho(mine);
    say(failed.message, true);
  }
  if (mine === shown && !document.hidden && mine.lives) timer = setTimeout(refresh, EVERY_MS);
}

// Keystone knows the users, and nobody has signed in, or the token has expired.
function askWho(asked) {
  if (asked !== shown || shown instanceof signIn.SignIn) return;
  shown.close?.();
  view.replaceChildren();
  signOut.hidden = true;
  shown = signIn.open(view, show);
  say("Sign in first");
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
  api.session().then((found) => { signOut.hidden = !found.signed_in; }, () => {});
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
signOut.addEventListener("click", () => api.signOut().then(show, (failed) => say(failed.message, true)));
addEventListener("hashchange", show);
addEventListener("resize", () => shown?.redraw?.());
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });

const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => { if (!localStorage.getItem("theme")) setTheme(dark.matches ? "dark" : "light"); });
setTheme(localStorage.getItem("theme") ?? (dark.matches ? "dark" : "light"));
show();
