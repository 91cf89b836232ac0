// Where an instance of a flavor would be placed now, and why: nothing is booked.

import * as api from "./api.js";
import { el } from "./dom.js";
import { filters, nearest } from "./refusal.js";

const BEST = 10;

export function open(view) {
  return new Explain(view);
}

class Explain {
  lives = false;

  constructor(view) {
    this.flavor = el("select", { id: "flavor", required: true });
    this.count = el("input", { id: "count", type: "number", min: 1, max: 1000, value: 1 });
    this.zone = el("input", { id: "zone", placeholder: "any" });
    this.hints = el("textarea", { id: "hints", placeholder: "group=web\ndifferent_host=…" });
    this.answer = el("section", { className: "panel", ariaLive: "polite", id: "answer" }, el("p", { className: "quiet" }, "Nothing is booked."));
    const form = el("form", { className: "bar", onsubmit: (event) => { event.preventDefault(); this.ask(); } },
      el("label", {}, "Flavor", this.flavor), el("label", {}, "Instances", this.count), el("label", {}, "Zone", this.zone),
      el("label", {}, "Hints, one a line", this.hints), el("button", { className: "main", type: "submit" }, "Explain"));
    view.append(form, this.answer);
  }

  async refresh() {
    const found = await api.flavors();
    this.flavor.replaceChildren(...found.map((each) =>
      el("option", { value: each.name }, `${each.name}: ${each.vcpus} vcpus, ${each.memory_mb} MB, ${each.root_gb} GB`)));
    return found.length ? `${found.length} flavors` : "No flavor exists: create one with 'fleet flavor create'";
  }

  request() {
    const wanted = { flavor: this.flavor.value, count: Number(this.count.value) };
    const lines = this.hints.value.split("\n").map((each) => each.trim()).filter(Boolean);
    const hints = {};
    for (const line of lines) {
      const place = line.indexOf("=");
      if (place < 1) throw new Error(`hints: '${line}' is not NAME=VALUE`);
      const name = line.slice(0, place);
      if (name === "group") wanted.group = line.slice(place + 1);
      else hints[name] = line.slice(place + 1);
    }
    if (this.zone.value.trim()) wanted.availability_zone = this.zone.value.trim();
    return { ...wanted, scheduler_hints: hints };
  }

  async ask() {
    this.answer.replaceChildren(el("p", { className: "quiet" }, "Asking the scheduler …"));
    try {
      this.show(await api.explain(this.request(), BEST));
    } catch (failed) {
      this.answer.replaceChildren(el("p", { className: "bad" }, failed.message));
    }
  }

  show(found) {
    const code = found.reason_code ? `${found.reason_code}: ` : "";
    this.answer.replaceChildren(...[
      el("h2", {}, found.summary ?? ""),
      found.reason ? el("p", { className: "bad" }, `${code}${found.reason}`) : null,
      ...picks(found), ...scores(found), ...filters(found), ...nearest(found),
    ].filter(Boolean));
  }
}

function picks(found) {
  if (!found.picks?.length) return [];
  return [el("h3", {}, "Picks"), el("ol", {}, found.picks.map((each) => el("li", {}, `${each.host}:${each.nodename}`)))];
}

// Each weigher's contribution, and the sum as a bar.
function scores(found) {
  const rows = found.scores ?? [];
  if (!rows.length) return [];
  const counting = rows.flatMap((each) => each.weighers.filter((one) => one.contribution !== 0).map((one) => one.name));
  const weighers = [...new Set(counting)];
  const totals = rows.map((each) => each.weight);
  const [low, high] = [Math.min(0, ...totals), Math.max(...totals)];
  const head = ["host", "score", "", ...weighers].map((title) => el("th", { scope: "col" }, title));
  const body = rows.map((each) => el("tr", {}, el("td", {}, each.host), el("td", { className: "number" }, each.weight.toFixed(3)),
    el("td", {}, el("meter", { min: low, max: high > low ? high : low + 1, value: each.weight, ariaLabel: `score of ${each.host}` })),
    weighers.map((name) => el("td", { className: "number" }, (each.weighers.find((one) => one.name === name)?.contribution ?? 0).toFixed(3)))));
  return [el("h3", {}, "Scores"), el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body))];
}
