// Drains a host: no more builds, and if wanted its instances go elsewhere. Moves go on without the page once they are asked for.

import { ask, host as read } from "../base/api.js";
import { el, note } from "../base/dom.js";
import { question } from "../base/dialog.js";
import { plural } from "../base/figures.js";
import { condition } from "../base/hosts.js";

const WAYS = {
  stay: "stay where they are",
  live: "move while they run; what cannot stays",
  cold: "move, switched off meanwhile",
};

// What is on the host is read for the question, and again for the act: its instances may have left meanwhile.
export async function drain(host, after) {
  let found;
  try {
    found = await read(host.name);
  } catch (failed) {
    return note(failed.message);
  }
  const { nodes, instances } = found;
  const reason = el("input", { id: "reason", value: host.reason || "draining", maxLength: 255 });
  const ways = condition(nodes[0] ?? { state: "down" }) === "down" ? { stay: WAYS.stay, evacuate: "are built again elsewhere: the host is down" } : WAYS;
  const how = el("select", { id: "how" }, Object.entries(ways).map(([value, text]) => el("option", { value }, text)));
  question({
    title: `Drain ${host.name}`,
    text: `It gets no more builds until it is enabled again. ${plural(instances.length, "instance")} ${instances.length === 1 ? "is" : "are"} on it.`,
    fields: [el("label", { className: "whole" }, "Reason", reason), el("label", { className: "whole" }, "Its instances", how)],
    verb: "Drain",
    act: async () => {
      await ask("operator/update_service", { host: host.name, binary: "fleet-compute", disabled: true, reason: reason.value.trim() || "draining" });
      const moved = how.value === "stay" ? [] : (await read(host.name)).instances;
      const refused = await move(moved, how.value);
      after().catch(() => {});
      if (refused.length) throw new Error(`${host.name} gets no more builds. These stay: ${refused.join("; ")}`);
      return how.value === "stay" ? `${host.name} gets no more builds` : `${host.name}: ${plural(moved.length, "move")} asked for`;
    },
  });
}

// One after another: each is a call of its own, with a refusal of its own.
async function move(instances, how) {
  const refused = [];
  for (const each of instances) {
    const live = how === "live" && each.vm_state === "active";
    const method = how === "evacuate" ? "evacuate_instance" : live ? "live_migrate_instance" : "migrate_instance";
    try {
      await ask(`operator/${method}`, { name: each.uuid });
    } catch (failed) {
      refused.push(`${each.name} (${failed.message})`);
    }
  }
  return refused;
}
