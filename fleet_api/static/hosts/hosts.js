// All hosts, or one of them. The whole list is here: it is searched and sorted without asking again.

import * as api from "../base/api.js";
import { el, empty } from "../base/dom.js";
import { disk, memory, number, useBar } from "../base/figures.js";
import { byName, compare, condition, nameOf, room } from "../base/hosts.js";
import { to } from "../base/route.js";
import { badge } from "../base/states.js";
import { tellSimulated } from "../frame/status.js";
import { SearchedList } from "../frame/searched_list.js";
import { Host } from "./details.js";

const VALUES = {
  name: nameOf,
  state: condition,
  zone: (each) => each.zone,
  vcpus: (each) => room(each, "vcpus").share,
  memory_mb: (each) => room(each, "memory_mb").share,
  disk_gb: (each) => room(each, "disk_gb").share,
  instances: (each) => each.running_vms,
};
const use = (title, resource, show, more = {}) => ({ title, sort: resource, number: true, ...more, show: (each) => used(each, resource, show) });
const COLUMNS = [
  { title: "name", sort: "name", show: nameOf },
  { title: "state", sort: "state", show: (each) => badge(condition(each)) },
  { title: "zone", sort: "zone", wide: true, show: (each) => each.zone },
  use("cpu", "vcpus", number),
  use("memory", "memory_mb", memory),
  use("disk", "disk_gb", disk, { wide: true }),
  { title: "instances", sort: "instances", number: true, wide: true, show: (each) => number(each.running_vms) },
];

function used(host, resource, show) {
  const { used: taken, limit, share } = room(host, resource);
  return [`${show(taken)} / ${show(limit)}`, useBar(share)];
}

const LIST = {
  name: "hosts",
  title: "Hosts",
  placeholder: "name, zone",
  sort: "name",
  columns: () => COLUMNS,
  href: (each) => to("hosts", [each.host]),
  none: () => empty("No host has reported yet.", el("span", {}, "Start ", el("code", {}, "fleet-compute"), " on a machine.")),
  async find({ text, state, sort, descending, limit, offset }) {
    const hosts = await api.hosts();
    tellSimulated(hosts);
    const wanted = text.toLowerCase();
    const matching = hosts.filter((each) => [nameOf(each), each.zone].some((one) => one.toLowerCase().includes(wanted)));
    const states = ["up", "disabled", "down"].map((name) => ({ state: name, count: matching.filter((each) => condition(each) === name).length }))
      .filter((each) => each.count);
    const value = VALUES[sort] ?? nameOf;
    const shown = matching.filter((each) => !state || condition(each) === state)
      .sort((one, other) => (descending ? -1 : 1) * compare(value(one), value(other)) || byName(one, other));
    return { records: shown.slice(offset, offset + limit), total: shown.length, states };
  },
};

export const open = (view, [chosen], query) => (chosen ? new Host(view, chosen) : new SearchedList(view, LIST, query));
