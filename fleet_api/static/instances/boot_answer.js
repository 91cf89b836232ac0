// The scheduler's answer: where a request would go now, with scores, or why nowhere.

import { el, link } from "../base/dom.js";
import { filters, nearest } from "../base/refusal.js";
import { to } from "../base/route.js";

// fits: whether a host would take it.
export function explained(found) {
  const code = found.reason_code ? `${found.reason_code}: ` : "";
  return { fits: Boolean(found.picks?.length), parts: [
    el("h2", {}, found.summary ?? ""),
    found.reason ? el("p", { className: "bad" }, `${code}${found.reason}`) : null,
    remarks(found), picks(found), scores(found), filters(found), nearest(found),
  ] };
}

function remarks({ remarks: said }) {
  return said?.length ? el("ul", { className: "wait" }, said.map((each) => el("li", {}, typeof each === "string" ? each : each.text ?? JSON.stringify(each)))) : null;
}

function picks(found) {
  if (!found.picks?.length) return null;
  return [el("h3", {}, "Picks"), el("ol", {}, found.picks.map((each) => el("li", {}, link(to("hosts", [each.host]), each.host),
    each.nodename === each.host ? "" : `:${each.nodename}`)))];
}

// Each weigher's contribution, and the sum as a bar.
function scores({ scores: rows = [] }) {
  if (!rows.length) return null;
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
