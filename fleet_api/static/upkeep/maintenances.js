// Maintenances: the wave, the progress, the time that is left, and what each host waits for.

import { ask } from "../base/api.js";
import { question } from "../base/dialog.js";
import { el, empty, link, put } from "../base/dom.js";
import { plural, useBar } from "../base/figures.js";
import { ago, at, duration } from "../base/moments.js";
import { to } from "../base/route.js";
import { table } from "../base/table.js";

// Those that are shown: the ones that have not ended come first.
const MOST = 10;

export class Maintenances {
  constructor(after, name) {
    this.after = after;
    this.name = name;
    this.place = el("div", { id: "maintenances" });
  }

  async refresh() {
    const found = await ask("operator/list_maintenances", { limit: MOST });
    const wanted = found.filter((each) => !each.ended_at || each.name === this.name);
    const shown = await Promise.all(wanted.map((each) => ask("operator/show_maintenance", { name: each.uuid })));
    const ended = found.filter((each) => each.ended_at && each.name !== this.name);
    put(this.place, found.length ? [shown.map((each) => this.shown(each)), ended.length ? el("p", {}, "Ended: ",
      ended.map((each, place) => [place ? ", " : "", link(to("upkeep", [each.name]), each.name), " ", ago(each.ended_at)])) : null]
      : empty("There was no maintenance yet.", el("code", {}, "fleet maintenance plan --hosts rack=r7")));
    return found.length - ended.length;
  }

  shown({ maintenance, hosts }) {
    const ofWaves = hosts.filter((each) => each.wave);
    const done = ofWaves.filter((each) => each.status === "done").length;
    const skipped = hosts.filter((each) => each.status === "skipped").length;
    const left = secondsLeft(hosts);
    const wave = maintenance.wave ? `wave ${maintenance.wave} of ${maintenance.waves}` : maintenance.status;
    return el("section", {}, el("h3", {}, maintenance.name, " ", el("span", { className: "quiet" }, maintenance.paused && !maintenance.ended_at ? `${wave}, paused` : wave)),
      useBar(done / Math.max(ofWaves.length, 1)),
      el("p", {}, `${done} of ${plural(ofWaves.length, "host")} done`, skipped ? `, ${skipped} left out` : "", left ? `, about ${duration(left)} left` : "", "."),
      table(this.columns(maintenance), hosts.filter((each) => maintenance.ended_at || each.wave === maintenance.wave || ["failed", "skipped"].includes(each.status))),
      maintenance.ended_at ? null : el("div", { className: "verbs" }, this.verbs(maintenance)));
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

  verbs({ uuid, name, paused }) {
    const pause = ["pause_maintenance", { name: uuid, paused: !paused }];
    return [
      el("button", { type: "button", onclick: () => this.ask(`${paused ? "Resume" : "Pause"} ${name}`,
        paused ? "Hooks that have failed run again." : "Moves and hooks that are under way come to their ends.", paused ? "Resume" : "Pause", pause) }, paused ? "Resume" : "Pause"),
      el("button", { type: "button", className: "danger", onclick: () => this.ask(`Cancel ${name}`,
        "Its hosts take builds again. Guests that have moved stay where they are.", "Cancel the maintenance", ["cancel_maintenance", { name: uuid }], true) }, "Cancel"),
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

// As the command counts: the waves that are left take as long as those that have ended, in the mean; while none has, as long
// as the hosts that are done. What the present wave has taken so far is gone.
function secondsLeft(hosts) {
  const waves = [];
  const done = [];
  const left = hosts.filter((each) => !each.ended_at);
  for (const there of grouped(hosts).values()) {
    const ended = there.filter((each) => each.status === "done");
    done.push(...ended.map((each) => (at(each.ended_at) - at(each.began_at)) / 1000));
    if (ended.length && there.every((each) => each.ended_at)) waves.push((Math.max(...ended.map((each) => at(each.ended_at))) - Math.min(...ended.map((each) => at(each.began_at)))) / 1000);
  }
  if (!left.length || !done.length) return 0;
  const took = waves.length ? waves : done;
  const one = took.reduce((sum, each) => sum + each, 0) / took.length;
  const begun = left.filter((each) => each.began_at).map((each) => at(each.began_at));
  const gone = begun.length ? (Date.now() - Math.min(...begun)) / 1000 : 0;
  return one * (grouped(left).size - 1) + Math.max(one - gone, 0);
}

function grouped(hosts) {
  const found = new Map();
  for (const each of hosts) found.set(each.wave, [...(found.get(each.wave) ?? []), each]);
  return found;
}
