// The views, one at a time, chosen by the fragment of the address; each is asked anew every few seconds while it is shown.

import { SignedOut } from "./base/api.js";
import { el, failure } from "./base/dom.js";
import * as route from "./base/route.js";
import * as session from "./base/session.js";
import * as navigation from "./frame/navigation.js";
import * as signIn from "./frame/sign_in.js";
import * as status from "./frame/status.js";
import * as theme from "./frame/theme.js";

const EVERY_MS = 3000;
// What may come after the view itself.
const LATER_MS = 1000;
const view = document.getElementById("view");
const signOut = document.getElementById("sign-out");
let shown = null;
let timer = 0;
let turn = 0;

// A view answers refresh() with a sentence for the status line. What does not live is asked until it has answered once.
async function refresh() {
  clearTimeout(timer);
  const mine = shown;
  const began = Date.now();
  try {
    const said = await mine.refresh();
    mine.isRead = true;
    if (mine === shown) status.good(said);
  } catch (failed) {
    if (failed instanceof SignedOut) return askWho(mine);
    if (mine === shown) status.bad(failed);
  }
  // A fleet that takes long to show is asked less often.
  if (mine === shown && !document.hidden && (mine.lives || !mine.isRead)) timer = setTimeout(refresh, Math.max(EVERY_MS, 4 * (Date.now() - began)));
}

// Keystone knows the users, and nobody has signed in, or the token has expired.
function askWho(asked) {
  if (asked !== shown || shown instanceof signIn.SignIn) return;
  shown?.close?.();
  view.replaceChildren();
  navigation.clear();
  signOut.hidden = true;
  status.beats(false);
  shown = signIn.open(view, start);
  status.good("Sign in first");
}

async function show() {
  const mine = ++turn;
  const { name, rest, query } = route.read();
  const known = navigation.known(name);
  navigation.mark(known);
  document.title = `fleet: ${known}`;
  const opened = await navigation.VIEWS[known].load().catch(() => null);
  if (mine !== turn) return;
  if (!opened) return showLater(mine, known);
  shown?.close?.();
  view.replaceChildren();
  shown = opened.open(view, rest, query);
  refresh();
}

// The files of a view come when it is first opened. The view before stays until they are there.
function showLater(mine, known) {
  status.bad(new Error(`The view ${navigation.VIEWS[known].title} does not load; trying again. After an upgrade of fleet, reload the page.`));
  setTimeout(() => { if (mine === turn) show(); }, EVERY_MS);
}

// Ask who looks before anything is shown: what they may not see is not there.
async function start() {
  clearTimeout(timer);
  try {
    const found = await session.load();
    signOut.hidden = !found.signed_in;
    navigation.draw();
    status.beats(true);
    await show();
    setTimeout(() => status.lookForSimulated().catch(() => {}), LATER_MS);
  } catch (failed) {
    if (failed instanceof SignedOut) return askWho(shown);
    status.bad(failed);
    if (!shown) view.replaceChildren(el("section", { className: "panel" }, failure(failed)));
    timer = setTimeout(start, EVERY_MS);
  }
}

signOut.addEventListener("click", () => session.signOut().then(start, status.bad));
addEventListener("hashchange", show);
addEventListener("resize", () => shown?.redraw?.());
document.addEventListener("visibilitychange", () => { if (!document.hidden && shown?.lives) refresh(); });
theme.start(() => shown?.redraw?.());
status.start();
start();
