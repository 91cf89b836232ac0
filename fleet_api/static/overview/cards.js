// Figures at a glance. A card leads to the list of what it counts.

import { el } from "../base/dom.js";
import { disk, memory, number, percent, useBar } from "../base/figures.js";
import { condition, RESOURCE_NAMES } from "../base/hosts.js";
import { to } from "../base/route.js";
import { kind } from "../base/states.js";

const SHOWN = { vcpus: number, memory_mb: memory, disk_gb: disk };

function card(href, name, figure, bar, more) {
  return el("a", { className: "card", href }, el("div", { className: "name" }, name), el("div", { className: "figure" }, figure), bar,
    el("div", { className: "more" }, more));
}

export function hostCard(hosts) {
  const counts = [["up", "good"], ["disabled", "wait"], ["down", "bad"]]
    .map(([state, colour]) => [hosts.filter((each) => condition(each) === state).length, colour, state]);
  return card(to("hosts"), "Hosts", number(hosts.length), useBar(counts.map(([count, colour]) => [count / (hosts.length || 1), colour])),
    counts.filter(([count], place) => count || !place).map(([count, , state]) => `${number(count)} ${state}`).join(", "));
}

// Use against limits: what the allocation ratios allow, not what is physically there.
export function roomCard(resource, { used, limit, share }) {
  const show = SHOWN[resource];
  return card(to("map", [], { by: resource }), RESOURCE_NAMES[resource], percent(share), useBar(share), `${show(used)} of ${show(limit)}`);
}

export function stateCard(name, view, { total, states }) {
  return card(to(view), name, number(total), useBar(states.map((each) => [each.count / (total || 1), kind(each.state)])),
    states.map((each) => `${number(each.count)} ${each.state}`).join(", ") || "none yet");
}

// How much of a quota is used; -1 is unlimited.
export function quotaCard(name, href, used, limit, show = number) {
  const of = limit < 0 ? `${show(used)} used, no limit` : `${show(used)} of ${show(limit)}`;
  const share = limit < 0 ? 0 : used / (limit || 1);
  return card(href, name, limit < 0 ? show(used) : percent(share), useBar(share), of);
}
