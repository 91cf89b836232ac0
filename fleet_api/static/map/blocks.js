// The instances that the map draws as blocks, by host. A large fleet has more than can be drawn, which is said.

import { ask } from "../base/api.js";
import { el } from "../base/dom.js";
import { disk, memory, number } from "../base/figures.js";
import { may } from "../base/session.js";

const MOST = 20000;
// Few are asked for each time, more of them every ten seconds.
const FEW = 500;
const EVERY_MS = 10000;

export class Blocks {
  constructor(label) {
    this.label = label;
    this.all = [];
    this.byHost = new Map();
    this.groups = {};
    this.promises = null;
    this.note = null;
    this.readAt = 0;
  }

  forget() {
    this.readAt = 0;
  }

  // Whether there is something new.
  async read(colour) {
    if (this.all.length > FEW && Date.now() - this.readAt < EVERY_MS) return false;
    this.readAt = Date.now();
    const label = colour === "label" && this.label ? { label: this.label } : {};
    const { instances, total } = await ask("operator/search_instances", { limit: MOST, sort: "name", descending: false, ...label });
    this.all = instances.filter((each) => each.host);
    this.byHost = Map.groupBy ? Map.groupBy(this.all, (each) => each.host) : grouped(this.all);
    this.note = total > MOST ? el("p", { className: "wait" }, `Blocks are drawn of ${number(MOST)} of ${number(total)} instances.`) : null;
    if (colour === "survival") this.promises = (await ask("scheduler/describe_filters")).promises;
    if (colour === "group" && may("operator/list_groups")) {
      this.groups = Object.fromEntries((await ask("operator/list_groups")).map((each) => [each.uuid, each.name]));
    }
    return true;
  }

  // Those of a host, the largest first, and by colour if there is one; undefined before they are read.
  of(host, by, coloured) {
    if (!this.readAt) return undefined;
    const found = this.byHost.get(host) ?? [];
    return [...found].sort((one, other) => (coloured ? coloured.rank(one) - coloured.rank(other) : 0) || other[by] - one[by] || (one.name < other.name ? -1 : 1));
  }

  told(each) {
    const more = [each.project_id && `project ${each.project_id}`, each.group_uuid && this.groups[each.group_uuid] && `group ${this.groups[each.group_uuid]}`,
      each.label && `${this.label} ${each.label}`].filter(Boolean).join(", ");
    return `${each.name}: ${each.vcpus} vcpus, ${memory(each.memory_mb)}, ${disk(each.disk_gb)}${more ? `\n${more}` : ""}`;
  }
}

function grouped(all) {
  const found = new Map();
  for (const each of all) found.set(each.host, [...(found.get(each.host) ?? []), each]);
  return found;
}
