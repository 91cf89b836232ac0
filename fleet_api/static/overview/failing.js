// The newest instances in ERROR, each with the reason.

import { ask } from "../base/api.js";
import { el, empty, link, panel, put } from "../base/dom.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { may } from "../base/session.js";

const MOST = 5;

export class Failing {
  constructor() {
    this.list = el("div", {});
    this.place = panel("What fails", this.list);
    this.place.id = "failing";
  }

  async refresh() {
    const { instances, total } = await ask("operator/search_instances", { state: "error", limit: MOST });
    const uuids = instances.map((each) => each.uuid);
    const faults = uuids.length && may("operator/newest_faults") ? await ask("operator/newest_faults", { uuids }) : {};
    put(this.list, total ? told(instances, faults, total) : empty("No instance is in ERROR."));
  }
}

function told(instances, faults, total) {
  return [el("ul", { className: "findings" }, instances.map((each) => el("li", {}, link(to("instances", [each.uuid]), each.name), " ",
    el("span", { className: "quiet" }, ago(faults[each.uuid]?.created_at ?? each.created_at)), reason(faults[each.uuid])))),
  total > instances.length ? el("p", {}, link(to("instances", [], { state: "error" }), `All ${total}`)) : null];
}

function reason(fault) {
  if (!fault) return null;
  const code = fault.details?.reason_code ? `${fault.details.reason_code}: ` : "";
  return el("div", { className: "bad" }, `${code}${fault.message}`);
}
