// Builds under way and ended, the newest first; one of them with its events and, if it was refused, the reason.

import * as api from "./api.js";
import { cells, el, moment, table } from "./dom.js";
import { refusal } from "./refusal.js";

const MOST = 100;
const COLUMNS = [
  { title: "name", show: (each) => each.name },
  { title: "state", show: (each) => el("span", { className: kind(each) }, state(each)) },
  { title: "host", show: (each) => each.host ?? "" },
  { title: "flavor", show: (each) => each.flavor.name || `${each.flavor.vcpus} vcpus, ${each.flavor.memory_mb} MB` },
  { title: "attempt", number: true, show: (each) => `${each.attempt}` },
  { title: "since", show: (each) => moment(each.created_at) },
];

export function open(view, [chosen]) {
  return new Builds(view, chosen);
}

class Builds {
  lives = true;

  constructor(view, chosen) {
    this.chosen = chosen ?? null;
    this.list = el("section", { className: "panel" });
    this.details = el("section", { className: "panel", ariaLive: "polite", id: "details" }, el("p", { className: "quiet" }, "Choose a build."));
    view.append(el("div", { className: "split" }, this.list, this.details));
  }

  async refresh() {
    const found = await api.builds(MOST);
    const focused = document.activeElement?.dataset?.uuid;
    const rows = found.map((each) => el("tr", { tabIndex: 0, ariaSelected: String(each.uuid === this.chosen),
      onclick: () => this.choose(each.uuid), onkeydown: (event) => { if (event.key === "Enter") this.choose(each.uuid); } },
      cells(COLUMNS, each)));
    rows.forEach((row, number) => { row.dataset.uuid = found[number].uuid; });
    this.list.replaceChildren(el("h2", {}, "Builds"), found.length ? table(COLUMNS, rows) : el("p", { className: "quiet" }, "There are no instances."));
    if (focused) rows.find((row) => row.dataset.uuid === focused)?.focus();
    if (this.chosen) await this.show(found.find((each) => each.uuid === this.chosen));
    const going = found.filter((each) => each.vm_state === "building").length;
    return `${going} under way; the newest ${found.length} instances`;
  }

  choose(uuid) {
    this.chosen = uuid;
    history.replaceState(null, "", `#builds/${encodeURIComponent(uuid)}`);
    for (const row of this.list.querySelectorAll("tr[data-uuid]")) row.setAttribute("aria-selected", String(row.dataset.uuid === uuid));
    this.refresh().catch((failed) => this.details.replaceChildren(el("p", { className: "bad" }, failed.message)));
  }

  async show(build) {
    const uuid = this.chosen;
    const { events, instances } = await api.trace(uuid);
    if (uuid !== this.chosen) return;
    const name = build?.name ?? instances[0]?.name ?? uuid;
    const steps = events.map((each) => el("li", {},
      el("strong", {}, each.event), ` ${each.host ?? ""} `, el("span", { className: "quiet" }, moment(each.started_at ?? each.created_at)),
      each.message || each.reason ? el("div", { className: "quiet" }, each.message ?? each.reason) : null));
    const said = build?.fault ? refusal(build.fault.message, build.fault.details ?? {}) : [];
    this.details.replaceChildren(el("h2", {}, name), el("p", { className: "quiet" }, uuid), ...said,
      el("h3", {}, "Events"), el("ol", { className: "timeline" }, steps));
  }
}

function state(build) {
  return build.task_state ? `${build.vm_state}: ${build.task_state}` : build.vm_state;
}

function kind(build) {
  return { active: "good", error: "bad" }[build.vm_state] ?? "wait";
}
