// One host: its use against limits, its instances, what happened on it, and its verbs.

import * as api from "../base/api.js";
import { el, empty, facts, link, panel, put } from "../base/dom.js";
import { disk, memory, number, plural, useBar } from "../base/figures.js";
import { condition, room, RESOURCE_NAMES } from "../base/hosts.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { badge, instanceState } from "../base/states.js";
import { table } from "../base/table.js";
import { eventTable } from "../overview/event_table.js";
import { moves, movesFrom } from "./moves.js";
import { verbs } from "./verbs.js";

const SHOW = { vcpus: number, memory_mb: memory, disk_gb: disk };
const TOTALS = {
  vcpus: ["vcpus", "reserved_vcpus", "cpu_allocation_ratio"],
  memory_mb: ["memory_mb", "reserved_memory_mb", "ram_allocation_ratio"],
  disk_gb: ["local_gb", "reserved_disk_gb", "disk_allocation_ratio"],
};
const EVENTS = 30;
const SERVICES_EVERY_MS = 15000;
const COLUMNS = [
  { title: "name", show: (each) => each.name },
  { title: "state", show: instanceState },
  { title: "project", wide: true, show: (each) => each.project_id ?? "" },
  { title: "vcpus", number: true, show: (each) => `${each.flavor.vcpus}` },
  { title: "memory", number: true, show: (each) => memory(each.flavor.memory_mb) },
];

export class Host {
  lives = true;

  constructor(view, name) {
    this.name = name;
    this.head = el("div", { className: "head", id: "head" });
    this.nodes = el("div", { className: "stack" });
    this.instances = el("div", {});
    this.moves = el("div", {});
    this.events = el("div", {});
    view.append(this.head, el("div", { className: "split" }, el("div", { className: "stack" }, this.moves, panel("Instances", this.instances),
      panel("What happened on it", this.events)), el("div", { id: "details" }, this.nodes)));
  }

  async refresh() {
    const [{ nodes, instances }, { events }] = await Promise.all([api.host(this.name),
      api.ask("operator/list_events", { last: EVENTS, host: this.name }), this.readService()]);
    const enabled = nodes[0]?.status === "enabled";
    this.away = await movesFrom(this.name, enabled);
    put(this.moves, moves(() => this.away, () => this.again()));
    const state = condition(nodes[0] ?? { state: "down" });
    this.host = { name: this.name, reason: this.service?.disabled_reason ?? "", enabled };
    put(this.head, el("p", { className: "back" }, link(to("hosts"), "All hosts")), el("h1", {}, this.name), badge(state),
      this.host.reason ? el("span", { className: "quiet" }, this.host.reason) : null, el("div", { className: "verbs" }, verbs(() => this.host, () => this.again())));
    put(this.nodes, nodes.map((each) => panel(nodes.length > 1 ? each.node : "Use against limits", uses(each), facts(said(each, this.service)))));
    put(this.instances, instances.length ? table(COLUMNS, instances, { href: (each) => to("instances", [each.uuid]) }) : empty("No instance is on it."));
    put(this.events, events.length ? eventTable(events.reverse()) : empty("Nothing has happened on it yet."));
    return `${state}; ${plural(instances.length, "instance")}`;
  }

  // After a verb the reason has changed.
  async again() {
    this.readAt = 0;
    await this.refresh();
  }

  // The list of all services is long, and says why a host is disabled.
  async readService() {
    if (Date.now() - (this.readAt ?? 0) < SERVICES_EVERY_MS) return;
    this.readAt = Date.now();
    const services = await api.ask("operator/list_services");
    this.service = services.find((each) => each.host === this.name && each.binary === "fleet-compute");
  }
}

function uses(node) {
  return Object.entries(SHOW).map(([resource, show]) => {
    const { used, limit, share } = room(node, resource);
    const [total, reserved, ratio] = TOTALS[resource];
    return el("div", {}, el("strong", {}, RESOURCE_NAMES[resource]), ` ${show(used)} of ${show(limit)}`, useBar(share),
      el("p", { className: "quiet" }, node[reserved] ? `(${show(node[total])} physical − ${show(node[reserved])} reserved) × ${node[ratio]}`
        : `${show(node[total])} physical × ${node[ratio]}`));
  });
}

function said(node, service) {
  return [
    ["zone", node.zone],
    ["driver", node.hypervisor_type ?? ""],
    node.host_ip ? ["address", node.host_ip] : null,
    ["reported", ago(node.updated_at)],
    service ? ["heartbeat", ago(service.last_seen_up)] : null,
    service?.release ? ["release", service.release] : null,
    ["map", link(to("map", [node.host]), "show on the map")],
  ];
}
