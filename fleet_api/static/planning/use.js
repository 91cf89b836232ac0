// What instances have had over the last hours, beside what the hosts of today may give away.

import * as api from "../base/api.js";
import { el, panel } from "../base/dom.js";
import { disk, memory, number, plural, short } from "../base/figures.js";
import { at } from "../base/moments.js";
import { keep } from "../base/route.js";
import * as status from "../frame/status.js";
import { LineChart } from "./line_chart.js";

export const HOURS = { 1: "hour", 6: "6 hours", 24: "day", 168: "week", 744: "month" };
const HOUR_MS = 3600000;
const CHARTS = [
  { name: "vcpus", title: "Virtual CPUs", show: number, axis: short },
  { name: "memory_mb", title: "Memory", show: memory, units: [1048576, 1024] },
  { name: "disk_gb", title: "Disk", show: disk, units: [1024] },
  { name: "instances", title: "Instances", show: number, axis: short },
];

export const open = (view, _rest, query) => new Use(view, query);

// The shortest of the offered spans that shows all of a young fleet.
export function spanOf({ began }, hours) {
  const age = began ? (Date.now() - at(began).getTime()) / HOUR_MS : hours;
  return Object.keys(HOURS).find((each) => Number(each) >= age || each === String(hours));
}

class Use {
  lives = false;

  constructor(view, { hours }) {
    this.isChosen = hours in HOURS;
    this.hours = el("select", { id: "hours", onchange: () => this.choose() },
      Object.entries(HOURS).map(([value, name]) => el("option", { value, selected: value === (this.isChosen ? hours : "24") }, name)));
    this.charts = CHARTS.map((each) => new LineChart(each, 170));
    view.append(el("div", { className: "head" }, el("h1", {}, "Use"), el("div", { className: "verbs" },
      el("label", {}, "The last ", this.hours), el("button", { type: "button", onclick: () => this.refresh().then(status.good, status.bad) }, "Look again"))),
    el("p", { className: "quiet" }, "Counted from when each instance began and ended, with its size of now. The dashed line is what today's hosts may give away."),
    el("div", { className: "halves" }, this.charts.map((each) => panel(null, each.place))));
  }

  choose() {
    this.isChosen = true;
    keep("use", [], { hours: this.hours.value });
    this.refresh().then(status.good, status.bad);
  }

  async refresh() {
    let found = await api.use(this.hours.value);
    const hours = this.isChosen ? this.hours.value : spanOf(found, this.hours.value);
    if (hours !== this.hours.value) {
      this.hours.value = hours;
      found = await api.use(hours);
    }
    for (const chart of this.charts) chart.draw(found);
    return `${plural(found.instances.at(-1), "instance")} now`;
  }

  redraw() {
    for (const chart of this.charts) chart.draw();
  }
}
