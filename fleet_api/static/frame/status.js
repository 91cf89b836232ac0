// The status line, and the banners: that nothing answers, and that hosts are simulated.

import { ask, Away, call, silent, waited } from "../base/api.js";
import { plural } from "../base/figures.js";
import { SIMULATED } from "../base/hosts.js";
import { clock } from "../base/moments.js";
import { isAdministrator, may } from "../base/session.js";

// Milliseconds without any answer after which one is asked for, and after which the page says that there is none.
const PULSE_MS = 2000;
const PATIENCE_MS = 4000;
// A request that has just begun is not late, as after the sleep of a laptop.
const LATE_MS = 1500;
const LOOK_MS = 250;
const line = document.getElementById("status");
const away = document.getElementById("away");
const simulated = document.getElementById("simulated");
let answered = null;
let failure = null;
let isTold = false;
let isOn = false;
let isBeating = false;
// What the view has said last.
let said = "";

export function start() {
  setInterval(() => { look(); beat(); }, LOOK_MS);
}

export function good(text) {
  answered = new Date();
  failure = null;
  if (text !== undefined) {
    said = text;
    say(text, false);
  }
  look();
}

export function bad(failed) {
  failure = failed;
  if (failed instanceof Away) say("no answer", true);
  else say(failed.message, true);
  look();
}

function say(text, isBad) {
  if (line.textContent !== text) line.textContent = text;
  line.classList.toggle("bad", isBad);
}

function look() {
  const late = silent() > PATIENCE_MS && waited() > LATE_MS;
  const isAway = late || failure instanceof Away;
  const why = failure instanceof Away ? failure.message.replace(/\.$/, "") : `No answer for ${Math.round(silent() / 1000)} s`;
  const since = answered ? ` What you see is from ${clock(answered)}.` : "";
  const text = isAway ? `${why}.${since} The page tries again by itself.` : "";
  if (away.textContent !== text) away.textContent = text;
  away.hidden = !isAway;
}

// Whether a conductor answers: asked where nothing else is, or while something takes long. It costs the conductor one query.
async function beat() {
  if (isBeating || document.hidden || !isOn || silent() < PULSE_MS) return;
  isBeating = true;
  try {
    await (may("operator/list_events") ? ask("operator/list_events") : call("session"));
    if (failure instanceof Away) good(said);
  } catch (failed) {
    if (failed instanceof Away) bad(failed);
  } finally {
    isBeating = false;
  }
}

// Beat from now on, or not: before somebody has signed in nothing is to be asked.
export function beats(on) {
  isOn = on;
}

// Hosts that only pretend to run guests are told on every view, by whichever view reads the hosts first.
export function tellSimulated(hosts) {
  isTold = true;
  const count = hosts.filter((each) => each.hypervisor_type === SIMULATED).length;
  simulated.hidden = !count;
  const which = count === hosts.length ? "all hosts" : `${plural(count, "host")} of ${hosts.length}`;
  simulated.querySelector("span").textContent = `${which} use the driver fake. Instances there hold resources, and no guest runs.`;
}

export async function lookForSimulated() {
  if (isTold || !isAdministrator()) return;
  const rows = await ask("operator/host_table", { columns: ["hypervisor_type"] });
  tellSimulated(rows.map(([hypervisor_type]) => ({ hypervisor_type })));
}
