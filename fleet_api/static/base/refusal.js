// A decision's reason: the code, how many hosts each filter kept, and the hosts that came nearest.

import { el } from "./dom.js";
import { table } from "./table.js";

const COLUMNS = [
  { title: "filter", show: (each) => each.name },
  { title: "hosts before", number: true, show: (each) => `${each.start}` },
  { title: "hosts after", number: true, show: (each) => `${each.end}` },
];

export function refusal(message, details) {
  const code = details.reason_code ? `${details.reason_code}: ` : "";
  return [message ? el("p", { className: "bad" }, `${code}${message}`) : null, ...filters(details), ...nearest(details)].filter(Boolean);
}

export function filters(details) {
  if (!details.filters?.length) return [];
  const of = details.considered === undefined ? "" : ` (${details.considered} hosts)`;
  return [el("h3", {}, `Filters${of}`), table(COLUMNS, details.filters)];
}

export function nearest(details) {
  if (!details.nearest?.length) return [];
  return [el("h3", {}, "Nearest"), el("ul", {}, details.nearest.map((each) => el("li", {}, each.text)))];
}
