// The fleet at a glance: hosts by state, use against limits, what is wrong, what fails, who waits, the last 24 hours.

import * as api from "../base/api.js";
import { el, empty, link, panel, put } from "../base/dom.js";
import { memory, number, plural, short } from "../base/figures.js";
import { condition, RESOURCES, rooms } from "../base/hosts.js";
import { to } from "../base/route.js";
import { tellSimulated } from "../frame/status.js";
import { LineChart } from "../planning/line_chart.js";
import { HOURS, spanOf } from "../planning/use.js";
import { hostCard, roomCard, stateCard } from "./cards.js";
import { Doctor } from "./doctor.js";
import { Failing } from "./failing.js";
import { Waiting } from "./waiting.js";

const DAY_EVERY_MS = 60000;
const DAY_HOURS = "24";
const DAY = [
  { name: "vcpus", title: "CPU", show: number, axis: short },
  { name: "memory_mb", title: "Memory", show: memory, units: [1048576, 1024] },
];

export class Fleet {
  lives = true;

  constructor(view) {
    this.cards = el("div", { className: "cards" });
    this.begin = el("div", {});
    this.doctor = new Doctor();
    this.failing = new Failing();
    this.waiting = new Waiting();
    this.charts = DAY.map((each) => new LineChart(each, 130));
    this.day = panel("The last 24 hours", el("div", { className: "stack", id: "day" }, this.charts.map((each) => each.place)),
      el("p", { className: "quiet" }, link(to("use"), "Other times and resources")));
    view.append(el("div", { className: "head" }, el("h1", {}, "Overview")), this.begin, this.cards,
      el("div", { className: "halves" }, el("div", { className: "stack" }, this.doctor.place, this.failing.place),
        el("div", { className: "stack" }, this.waiting.place, this.day)));
  }

  async refresh() {
    const [hosts, counts, volumes] = await Promise.all([api.hosts(), api.ask("operator/search_instances", { limit: 1 }),
      api.ask("operator/search_volumes", { limit: 1 }), this.failing.refresh(), this.waiting.refresh()]);
    tellSimulated(hosts);
    put(this.cards, hostCard(hosts), RESOURCES.map((each) => roomCard(each, rooms(hosts, each))),
      stateCard("Instances", "instances", counts), stateCard("Volumes", "volumes", volumes));
    put(this.begin, start(hosts, counts.total));
    // These take longer, and change less often.
    this.doctor.refresh();
    this.refreshDay();
    const up = hosts.filter((each) => condition(each) === "up").length;
    return `${plural(hosts.length, "host")}, ${number(up)} up and enabled; ${plural(counts.total, "instance")}`;
  }

  async refreshDay() {
    if (Date.now() - (this.dayAt ?? 0) < DAY_EVERY_MS) return;
    this.dayAt = Date.now();
    try {
      let found = await api.use(DAY_HOURS);
      const hours = spanOf(found, DAY_HOURS);
      if (hours !== DAY_HOURS) found = await api.use(hours);
      this.day.querySelector("h2").textContent = `The last ${hours === DAY_HOURS ? "24 hours" : HOURS[hours]}`;
      for (const chart of this.charts) chart.draw(found);
    } catch {
      // The status line has it, from what is asked every time.
      this.dayAt = 0;
    }
  }

  redraw() {
    for (const chart of this.charts) chart.draw();
  }
}

// What to do first in a fleet that has nothing yet.
function start(hosts, instances) {
  if (!hosts.length) {
    return panel(null, empty("No host has reported yet.", el("span", {}, "Start ", el("code", {}, "fleet-compute"),
      " on a machine: it appears here within seconds. ", el("code", {}, "fleet doctor"), " says what keeps it away.")));
  }
  return instances ? [] : panel(null, empty("No instance yet.", el("a", { className: "button main", href: to("boot") }, "Boot the first one")));
}
