// One instance: what it is, what may be done with it, why it failed, and its history.

import { ask, host } from "../base/api.js";
import { el, facts, link, panel, put } from "../base/dom.js";
import { disk, memory } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { refusal } from "../base/refusal.js";
import { to } from "../base/route.js";
import { isAdministrator } from "../base/session.js";
import { badge, instanceState } from "../base/states.js";
import { timeline } from "./history.js";
import { verbs } from "./verbs.js";

export class Instance {
  lives = true;

  constructor(view, name) {
    this.name = name;
    this.head = el("div", { className: "head", id: "head" });
    this.why = el("div", {});
    this.facts = el("div", {});
    this.history = el("div", {});
    view.append(this.head, this.why, el("div", { className: "split" }, panel("History", this.history),
      el("div", { className: "stack", id: "details" }, this.facts)));
  }

  async refresh() {
    const found = await ask("operator/show_instance", { name: this.name });
    const { instance } = found;
    this.name = instance.uuid;
    // An evacuation is offered only where the host is down.
    if (isAdministrator() && instance.host) instance.hostState = (await host(instance.host)).nodes[0]?.state;
    this.found = found;
    put(this.head, el("p", { className: "back" }, link(to("instances"), "All instances")), el("h1", {}, instance.name), instanceState(instance),
      el("div", { className: "verbs" }, verbs(() => this.found, () => this.refresh())));
    put(this.why, why(found));
    put(this.facts, panel("What it is", facts(said(instance))), volumes(found.volumes), labels(instance));
    put(this.history, timeline(found.events, found.faults));
    return instance.task_state ? `${instance.vm_state}: ${instance.task_state}` : instance.vm_state;
  }
}

function why({ instance, faults, queued, migration }) {
  const fault = faults.at(-1);
  const parts = [];
  if (instance.vm_state === "error" && fault) parts.push(panel("Why it failed", ...refusal(fault.message, fault.details ?? {})));
  if (queued) parts.push(panel("It waits for room", el("p", {}, queued.message ?? queued.reason), queued.lacks ? el("p", {}, `It lacks ${queued.lacks}.`) : null,
    el("p", { className: "quiet" }, "Since ", ago(queued.queued_at), ", until ", ago(queued.wait_until), " at the latest")));
  if (migration?.failure?.message && instance.vm_state !== "error") parts.push(panel("Its last move failed", el("p", { className: "bad" }, migration.failure.message)));
  if (parts.length) parts.push(el("p", {}));
  return parts;
}

function said(each) {
  const { flavor } = each;
  return [
    ["uuid", el("code", {}, each.uuid)],
    each.host ? ["host", link(to("hosts", [each.host]), each.host)] : null,
    each.project_id ? ["project", each.project_id] : null,
    each.locked_by ? ["locked", `by its ${each.locked_by}${each.locked_reason ? `: ${each.locked_reason}` : ""}`] : null,
    ["flavor", `${flavor.name || "of its own"}: ${flavor.vcpus} vcpus, ${memory(flavor.memory_mb)}, ${disk(flavor.root_gb + flavor.ephemeral_gb)}`],
    ...(each.interfaces ?? []).map((one) => ["address", `${one.address} in ${one.name}`]),
    each.image?.name || each.image?.id ? ["image", each.image.name || each.image.id] : null,
    each.key_name ? ["key", each.key_name] : null,
    each.availability_zone ? ["zone", each.availability_zone] : null,
    each.group_uuid ? ["group", el("code", {}, each.group_uuid)] : null,
    ["attempt", `${each.attempt}`],
    ["created", ago(each.created_at)],
    each.description ? ["description", each.description] : null,
  ];
}

function volumes(found) {
  if (!found?.length) return null;
  return panel("Volumes", el("ul", { className: "findings" }, found.map((each) => el("li", {}, link(to("volumes", [each.volume]), each.volume_name || each.volume),
    ` on ${each.device}, ${disk(each.size_gb)} `, badge(each.status === "attached" ? "in-use" : each.status, each.status)))));
}

function labels({ metadata, tags }) {
  const known = Object.entries(metadata ?? {});
  if (!known.length && !tags?.length) return null;
  return panel("Labels", facts([...known, ...(tags ?? []).map((each) => ["tag", each])]));
}
