// Builds that wait for room, in the order in which they are woken.

import { ask } from "../base/api.js";
import { el, empty, link, panel, put } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { mine, may, isAdministrator } from "../base/session.js";
import { table } from "../base/table.js";

const SHOWN = 5;
// Builds that are read. An answer of many thousands is larger than a message may be.
const MOST = 1000;
const COLUMNS = [
  { title: "#", number: true, show: (each) => `${each.place}` },
  { title: "name", show: (each) => link(to("instances", [each.uuid]), each.name) },
  { title: "lacks", show: (each) => each.lacks || each.reason },
  { title: "since", wide: true, show: (each) => ago(each.queued_at) },
];

export class Waiting {
  constructor() {
    this.list = el("div", {});
    this.place = panel("Who waits", this.list);
    this.place.id = "waiting";
  }

  async refresh() {
    if (!may("operator/list_queue")) return put(this.list, empty("You may not see who waits."));
    const { builds } = await ask("operator/list_queue", { limit: MOST, ...(isAdministrator() ? {} : { project_id: mine().project_id }) });
    put(this.list, builds.length ? [table(COLUMNS, builds.slice(0, SHOWN)),
      builds.length > SHOWN ? el("p", { className: "quiet" }, `${builds.length < MOST ? "" : "At least "}${plural(builds.length, "build")} wait in all.`) : null] : empty("No build waits for room."));
  }
}
