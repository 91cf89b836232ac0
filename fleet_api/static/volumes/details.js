// One volume: what it is, who has it, its history, and what may be done with it.

import { ask } from "../base/api.js";
import { el, facts, link, panel, put } from "../base/dom.js";
import { disk } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { refusal } from "../base/refusal.js";
import { to } from "../base/route.js";
import { may } from "../base/session.js";
import { badge } from "../base/states.js";
import { timeline } from "../instances/history.js";
import { verbs } from "./verbs.js";

const EVENTS = 200;

export class Volume {
  lives = true;

  constructor(view, name) {
    this.name = name;
    this.head = el("div", { className: "head", id: "head" });
    this.why = el("div", {});
    this.facts = el("div", { className: "stack", id: "details" });
    this.history = el("div", {});
    view.append(this.head, this.why, el("div", { className: "split" }, panel("History", this.history), this.facts));
  }

  async refresh() {
    const volume = await ask("operator/show_volume", { name: this.name });
    this.name = volume.uuid;
    this.volume = volume;
    const { events } = may("operator/list_events") ? await ask("operator/list_events", { last: EVENTS, uuid: this.name }) : { events: volume.faults ?? [] };
    put(this.head, el("p", { className: "back" }, link(to("volumes"), "All volumes")), el("h1", {}, volume.name || volume.uuid), badge(volume.status),
      el("div", { className: "verbs" }, verbs(() => this.volume, () => this.refresh())));
    const { failure } = volume;
    put(this.why, failure?.message ? [panel("What failed", ...refusal(failure.message, failure.details ?? {})), el("p", {})] : null);
    put(this.facts, panel("What it is", facts(said(volume))), holders(volume.attachments));
    put(this.history, timeline(events));
    return volume.status;
  }
}

function said(each) {
  return [
    ["uuid", el("code", {}, each.uuid)],
    ["size", disk(each.size_gb)],
    each.volume_type ? ["type", typeof each.volume_type === "string" ? each.volume_type : each.volume_type.name] : null,
    each.host ? ["pool", each.host] : null,
    each.project_id ? ["project", each.project_id] : null,
    each.availability_zone ? ["zone", each.availability_zone] : null,
    each.snapshots?.length ? ["snapshots", each.snapshots.join(", ")] : null,
    each.description ? ["description", each.description] : null,
    ["created", ago(each.created_at)],
  ];
}

function holders(attachments) {
  if (!attachments?.length) return null;
  return panel("Attached to", el("ul", { className: "findings" }, attachments.map((each) => el("li", {},
    link(to("instances", [each.instance]), each.instance_name || each.instance), ` as ${each.device} `, badge(each.status === "attached" ? "in-use" : each.status, each.status)))));
}
