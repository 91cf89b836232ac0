// What conductors do by themselves: balancing of aggregates, and maintenances of hosts in waves.

import { el, panel } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { Balancing } from "./balancing.js";
import { Maintenances } from "./maintenances.js";

export const open = (view, rest) => new Upkeep(view, rest);

class Upkeep {
  lives = true;

  constructor(view, [name]) {
    this.balancing = new Balancing(() => this.refresh());
    this.maintenances = new Maintenances(() => this.refresh(), name);
    view.append(el("div", { className: "head" }, el("h1", {}, "Upkeep")),
      el("div", { className: "stack" }, panel("Balancing", this.balancing.place), panel("Maintenance", this.maintenances.place)));
  }

  async refresh() {
    const [balanced, going] = await Promise.all([this.balancing.refresh(), this.maintenances.refresh()]);
    return `${plural(balanced, "aggregate")} balanced, ${plural(going, "maintenance")} under way`;
  }
}
