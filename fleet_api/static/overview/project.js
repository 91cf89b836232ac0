// The own project at a glance: its quotas, its servers by state, what fails, who waits, and what has happened.

import { ask } from "../base/api.js";
import { el, empty, link, panel, put } from "../base/dom.js";
import { disk, memory, plural } from "../base/figures.js";
import { to } from "../base/route.js";
import { may, mine } from "../base/session.js";
import { newest } from "../instances/columns.js";
import { quotaCard, stateCard } from "./cards.js";
import { eventTable } from "./event_table.js";
import { Failing } from "./failing.js";
import { Waiting } from "./waiting.js";

const QUOTAS = [
  ["instances", "Instances", "instances"],
  ["cores", "Virtual CPUs", "instances"],
  ["ram", "Memory", "instances", memory],
  ["local_gb", "Disk of instances", "instances", disk],
  ["volumes", "Volumes", "volumes"],
  ["gigabytes", "Space of volumes", "volumes", disk],
];
const NEWEST = 8;
const EVENTS = 12;

export class Project {
  lives = true;

  constructor(view) {
    const { project_id: project } = mine();
    this.cards = el("div", { className: "cards", id: "quotas" });
    this.servers = el("div", {});
    this.events = el("div", {});
    this.failing = new Failing();
    this.waiting = new Waiting();
    view.append(el("div", { className: "head" }, el("h1", {}, `Project ${project}`), el("div", { className: "verbs" },
      may("compute_task/create") ? el("a", { className: "button main", href: to("boot") }, "Boot") : null)), this.cards,
    el("div", { className: "halves" }, el("div", { className: "stack" }, panel("Servers", this.servers), this.failing.place, this.waiting.place),
      may("operator/list_events") ? panel("What has happened", this.events, el("p", { className: "quiet" }, link(to("events"), "Follow events"))) : null));
  }

  async refresh() {
    const found = await ask("operator/search_instances", { limit: NEWEST });
    await Promise.all([this.showQuotas(found), this.failing.refresh(), this.waiting.refresh(), this.showEvents()]);
    put(this.servers, found.total ? newest(found) : empty("No server yet.", may("compute_task/create")
      ? el("a", { className: "button main", href: to("boot") }, "Boot the first one") : "A member of the project boots one."));
    return plural(found.total, "server");
  }

  async showQuotas(found) {
    if (!may("operator/show_quota")) return put(this.cards, stateCard("Servers", "instances", found));
    const { limits, used } = await ask("operator/show_quota", { project_id: mine().project_id });
    put(this.cards, QUOTAS.map(([name, title, view, show]) => quotaCard(title, to(view), used[name], limits[name], show)));
  }

  async showEvents() {
    if (!may("operator/list_events")) return;
    const { events } = await ask("operator/list_events", { last: EVENTS });
    put(this.events, events.length ? eventTable(events.reverse()) : empty("Nothing has happened yet."));
  }
}
