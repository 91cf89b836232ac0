// What a request takes of the quotas of the project: all that a member can know before the scheduler decides.

import { el } from "../base/dom.js";
import { disk, memory, number } from "../base/figures.js";
import { badge } from "../base/states.js";
import { table } from "../base/table.js";

const COLUMNS = [
  { title: "quota", show: (each) => each.title },
  { title: "used", number: true, show: (each) => each.show(each.used) },
  { title: "with it", number: true, show: (each) => each.show(each.after) },
  { title: "limit", number: true, show: (each) => (each.limit < 0 ? "none" : each.show(each.limit)) },
  { title: "", show: (each) => (each.fits ? badge("ok", "fits") : badge("fail", "does not fit")) },
];

export function needed({ count }, flavor, { limits, used }) {
  const asked = [
    ["instances", "Instances", 1, number],
    ["cores", "Virtual CPUs", flavor.vcpus, number],
    ["ram", "Memory", flavor.memory_mb, memory],
    ["local_gb", "Disk", flavor.root_gb + flavor.ephemeral_gb + Math.ceil((flavor.swap ?? 0) / 1024), disk],
  ].map(([name, title, each, show]) => {
    const after = used[name] + count * each;
    return { title, show, used: used[name], after, limit: limits[name], fits: limits[name] < 0 || after <= limits[name] };
  });
  const fits = asked.every((each) => each.fits);
  const said = fits ? "It is within the quotas. The scheduler decides on a host when you boot it." : "It is beyond a quota, and would be refused.";
  return { fits, parts: [el("h2", {}, said), table(COLUMNS, asked)] };
}
