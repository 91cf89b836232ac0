// Maintenances: the wave, the progress, the time that is left, and what each host waits for.

import { ask, Away, SignedOut } from "../base/api.js";
import { question } from "../base/dialog.js";
import { el, empty, failure, link, put } from "../base/dom.js";
import { plural, useBar } from "../base/figures.js";
import { ago, duration } from "../base/moments.js";
import { to } from "../base/route.js";
import { table } from "../base/table.js";

// Those that have ended and are listed.
const MOST_ENDED = 10;
// A hundred that have not ended are asked for after the first ten, and so on up to what a conductor answers.
const TIMES = 10;
const MOST = 1000;

export class Maintenances {
  constructor(after, name) {
    this.after = after;
    this.name = name;
    this.place = el("div", { id: "maintenances" });
  }

  async refresh() {
    const found = await listed();
    const open = found.filter((each) => !each.ended_at);
    const named = found.filter((each) => each.ended_at && [each.name, each.uuid].includes(this.name));
    const others = found.filter((each) => each.ended_at && !named.includes(each)).slice(0, MOST_ENDED);
    const shown = await Promise.all([...open, ...named].map((each) => ask("operator/show_maintenance", { name: each.uuid })));
    const older = this.name && !shown.some(({ maintenance: { name, uuid } }) => [name, uuid].includes(this.name)) ? await this.older() : null;
    put(this.place, older, shown.map((each) => this.shown(each)), others.length ? el("p", {}, "Ended: ",
      others.map((each, place) => [place ? ", " : "", link(to("upkeep", [each.name]), each.name), " ", ago(each.ended_at)])) : null,
    found.length ? null : empty("There was no maintenance yet.", el("code", {}, "fleet maintenance plan --hosts rack=r7")));
    return open.length;
  }

  // The one that the address names and the list does not have: it ended long ago, or there is none.
  async older() {
    try {
      return this.shown(await ask("operator/show_maintenance", { name: this.name }));
    } catch (failed) {
      if (failed instanceof Away || failed instanceof SignedOut) throw failed;
      return failure(failed);
    }
  }

  shown({ maintenance, hosts, estimate }) {
    const ofWaves = hosts.filter((each) => each.wave);
    const done = ofWaves.filter((each) => each.status === "done").length;
    const skipped = hosts.filter((each) => each.status === "skipped").length;
    const left = timeLeft(estimate);
    const wave = maintenance.wave ? `wave ${maintenance.wave} of ${maintenance.waves}` : maintenance.status;
    return el("section", {}, el("h3", {}, maintenance.name, " ", el("span", { className: "quiet" }, maintenance.paused && !maintenance.ended_at ? `${wave}, paused` : wave)),
      useBar(done / Math.max(ofWaves.length, 1)),
      el("p", {}, `${done} of ${plural(ofWaves.length, "host")} done`, skipped ? `, ${skipped} left out` : "", left ? `, ${left}` : "", "."),
      maintenance.ended_at ? null : el("div", { className: "verbs" }, this.verbs(maintenance, hosts.filter((each) => each.status === "failed"))),
      table(this.columns(maintenance), hosts.filter((each) => maintenance.ended_at || each.wave === maintenance.wave || ["failed", "skipped"].includes(each.status))));
  }

  columns(maintenance) {
    const skip = (each) => (each.ended_at || maintenance.ended_at ? "" : el("button", { type: "button", data: { key: `skip ${each.host}` }, onclick: () => this.ask(
      `Leave ${each.host} out of ${maintenance.name}`, "It takes builds again, unless it was disabled before.", "Leave out",
      ["skip_maintenance_host", { name: maintenance.uuid, host: each.host }]) }, "Skip"));
    return [
      { title: "wave", number: true, wide: true, show: (each) => String(each.wave) },
      { title: "host", show: (each) => link(to("hosts", [each.host]), each.host) },
      { title: "status", show: (each) => each.status },
      { title: "waits for", show: (each) => [guestsLeft(each.guests), each.problem].filter(Boolean).join("; ") },
      { title: "since", wide: true, show: (each) => ago(each.ended_at ?? each.worked_at ?? each.emptied_at ?? each.began_at) },
      { title: "", show: skip },
    ];
  }

  verbs({ uuid, name, paused }, failed) {
    const button = (key, text, onclick, className = "") => el("button", { type: "button", className, data: { key: `${key} ${uuid}` }, onclick }, text);
    const goOn = ["pause_maintenance", { name: uuid, paused: false }];
    return [
      failed.length && !paused ? button("again", "Try failed hosts again", () => this.ask(`Try hosts of ${name} again`,
        `The hook runs again, or their return is waited for: ${failed.map((each) => each.host).join(", ")}.`, "Try again", goOn)) : null,
      paused ? button("pause", "Resume", () => this.ask(`Resume ${name}`, "Hosts that have failed are tried again.", "Resume", goOn))
        : button("pause", "Pause", () => this.ask(`Pause ${name}`, "Moves and hooks that are under way come to their ends.", "Pause",
          ["pause_maintenance", { name: uuid, paused: true }])),
      button("cancel", "Cancel", () => this.ask(`Cancel ${name}`, "Its hosts take builds again. Guests that have moved stay where they are.",
        "Cancel the maintenance", ["cancel_maintenance", { name: uuid }], true), "danger"),
    ];
  }

  ask(title, text, verb, [method, given], danger = false) {
    question({ title, text, verb, danger, act: async () => {
      await ask(`operator/${method}`, given);
      this.after().catch(() => {});
      return title;
    } });
  }
}

// Those that have not ended come first: all of them, and some that have ended.
async function listed() {
  for (let limit = MOST_ENDED; ; limit *= TIMES) {
    const found = await ask("operator/list_maintenances", { limit });
    if (found.length < limit || found.at(-1).ended_at || limit === MOST) return found;
  }
}

// In the words of the command. An older conductor estimates nothing.
function timeLeft(known) {
  if (!known) return "";
  if (known.wave_gone_s <= known.wave_s) return `about ${duration(known.left_s)} left`;
  return `the wave takes longer than expected (${duration(known.wave_s)})${known.left_s ? `, those after it about ${duration(known.left_s)}` : ""}`;
}

// Of a host that is drained.
function guestsLeft(known) {
  if (!known) return "";
  const ofAll = known.left < known.total ? ` of ${known.total}` : "";
  return `${known.left}${ofAll} ${known.left === 1 && !ofAll ? "guest" : "guests"} still there, ${known.moving} moving`;
}
