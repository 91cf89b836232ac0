// What is stranded: free memory against free vcpus of hosts, and how many instances of each flavor still fit per zone.

import * as api from "../base/api.js";
import { el, empty, panel, put } from "../base/dom.js";
import { memory, number, plural } from "../base/figures.js";
import { condition } from "../base/hosts.js";
import { table } from "../base/table.js";
import * as status from "../frame/status.js";
import { Dots } from "./dots.js";

export const open = (view) => new Room(view);

class Room {
  lives = false;

  constructor(view) {
    this.dots = new Dots();
    this.fits = el("div", { id: "fits" }, el("p", { className: "quiet" }, "Counting …"));
    this.chart = el("div", {});
    view.append(el("div", { className: "head" }, el("h1", {}, "Room"), el("div", { className: "verbs" },
      el("button", { type: "button", onclick: () => this.refresh().then(status.good, status.bad) }, "Count again"))),
    el("div", { className: "stack" }, panel("How many more instances fit", this.fits),
      panel("Free on each host that is up and enabled", this.chart, this.dots.place)));
  }

  async refresh() {
    const hosts = (await api.hosts()).filter((each) => condition(each) === "up");
    put(this.chart, hosts.length ? null : empty("No host is up and enabled."));
    this.dots.place.hidden = !hosts.length;
    this.dots.draw(hosts);
    const flavors = await api.ask("operator/list_flavors");
    const counted = [];
    for (const flavor of flavors) {
      counted.push([flavor, await api.capacity({ flavor: flavor.name }, "zone")]);
      this.show(counted);
    }
    if (!flavors.length) put(this.fits, empty("There is no flavor yet.", el("code", {}, "fleet flavor create small --vcpus 1 --memory-mb 2048 --root-gb 10")));
    return `${plural(hosts.length, "host")}, ${plural(flavors.length, "flavor")}`;
  }

  show(counted) {
    const zones = [...new Set(counted.flatMap(([, found]) => found.groups.map((each) => each.name)))].sort();
    const shown = (fits) => (fits === null ? "unlimited" : number(fits));
    const columns = [
      { title: "flavor", show: ([flavor]) => flavor.name },
      { title: "size", wide: true, show: ([flavor]) => `${flavor.vcpus} vcpus, ${memory(flavor.memory_mb)}, ${flavor.root_gb} GB` },
      { title: "fits", number: true, show: ([, found]) => shown(found.fits) },
      { title: "first to run out", show: ([, found]) => found.binds_first ?? "" },
      ...zones.map((zone) => ({ title: zone, number: true, wide: true, show: ([, found]) => shown(found.groups.find((each) => each.name === zone)?.fits ?? 0) })),
    ];
    put(this.fits, table(columns, counted));
  }

  redraw() {
    this.dots.draw();
  }
}
