// Maintenances: the wave, the progress, the time that is left, and what each host waits for.

import { ask, Away, SignedOut } from "../base/api.js";
import { question } from "../base/dialog.js";
import { el, empty, failure, link, put } from "../base/dom.js";
import { plural, useBar } from "../base/figures.js";
import { ago, at, duration } from "../base/moments.js";
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

  shown({ maintenance, hosts }) {
    const ofWaves = hosts.filter((each) => each.wave);
    const done = ofWaves.filter((each) => each.status === "done").length;
    const skipped = hosts.filter((each) => each.status === "skipped").length;
    const left = maintenance.paused || maintenance.ended_at ? "" : timeLeft(hosts);
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
      { title: "waits for", show: (each) => each.problem ?? "" },
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

// As the command counts: the waves that are left take as long as those that have ended, in the mean; while none has, as long
// as the hosts that are done. What the present wave has taken so far is gone.
function timeLeft(hosts) {
  const waves = [];
  const done = [];
  const left = hosts.filter((each) => !each.ended_at);
  for (const there of grouped(hosts).values()) {
    const ended = there.filter((each) => each.status === "done");
    done.push(...ended.map((each) => (at(each.ended_at) - at(each.began_at)) / 1000));
    if (ended.length && there.every((each) => each.ended_at)) waves.push((Math.max(...ended.map((each) => at(each.ended_at))) - Math.min(...ended.map((each) => at(each.began_at)))) / 1000);
  }
  if (!left.length || !done.length) return "";
  const took = waves.length ? waves : done;
  const one = took.reduce((sum, each) => sum + each, 0) / took.length;
  const begun = left.filter((each) => each.began_at).map((each) => at(each.began_at));
  const gone = begun.length ? (Date.now() - Math.min(...begun)) / 1000 : 0;
  if (gone > one) return `longer than the ${waves.length ? "waves" : "hosts"} before (${duration(one)})`;
  return `about ${duration(one * grouped(left).size - gone)} left`;
}

function grouped(hosts) {
  const found = new Map();
  for (const each of hosts) found.set(each.wave, [...(found.get(each.wave) ?? []), each]);
  return found;
}
