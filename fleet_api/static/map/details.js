// The host that is chosen on the map.

import * as api from "../base/api.js";
import { el, failure, link, panel, put } from "../base/dom.js";
import { disk, memory, number, plural, useBar } from "../base/figures.js";
import { condition, RESOURCE_NAMES, room } from "../base/hosts.js";
import { to } from "../base/route.js";
import { badge, instanceState } from "../base/states.js";
import { table } from "../base/table.js";

const SHOW = { vcpus: number, memory_mb: memory, disk_gb: disk };
const COLUMNS = [
  { title: "instance", show: (each) => each.name },
  { title: "state", show: instanceState },
  { title: "vcpus", number: true, show: (each) => `${each.flavor.vcpus}` },
  { title: "memory", number: true, show: (each) => memory(each.flavor.memory_mb) },
];

export async function show(place, name, isStill) {
  try {
    const { nodes, instances } = await api.host(name);
    if (!isStill()) return;
    put(place, panel(null, el("h2", {}, link(to("hosts", [name]), name)), nodes.map(uses),
      el("h3", {}, plural(instances.length, "instance")), instances.length ? table(COLUMNS, instances, { href: (each) => to("instances", [each.uuid]) }) : null));
  } catch (failed) {
    if (isStill()) put(place, panel(null, failure(failed)));
  }
}

function uses(node) {
  return [el("p", {}, badge(condition(node)), ` in ${node.zone}`), Object.entries(SHOW).map(([resource, shown]) => {
    const { used, limit, share } = room(node, resource);
    return el("div", {}, `${RESOURCE_NAMES[resource]}: ${shown(used)} of ${shown(limit)}`, useBar(share));
  })];
}
