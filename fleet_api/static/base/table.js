// Tables whose rows are links, with columns that sort.

import { el } from "./dom.js";

// columns: title, show(record), and if they have them: sort (a name), number, wide (left out where the window is narrow).
export function table(columns, records, { href, sort, descending, onSort } = {}) {
  const head = columns.map((each) => el("th", { scope: "col", className: classes(each),
    "aria-sort": each.sort && each.sort === sort ? (descending ? "descending" : "ascending") : null }, title(each, sort, descending, onSort)));
  return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, records.map((record) => row(columns, record, href?.(record)))));
}

function title(column, sort, descending, onSort) {
  if (!column.sort || !onSort) return column.title;
  const mark = column.sort === sort ? (descending ? " ▾" : " ▴") : "";
  return el("button", { type: "button", data: { key: `sort ${column.sort}` },
    onclick: () => onSort(column.sort, column.sort === sort ? !descending : Boolean(column.number)) }, `${column.title}${mark}`);
}

// The first cell has the link, for keyboards and for new tabs; a click anywhere in the row follows it.
function row(columns, record, href) {
  const cells = columns.map((each, place) => {
    const shown = each.show(record);
    return el("td", { className: classes(each) }, href && !place ? el("a", { href }, shown) : shown);
  });
  return el("tr", { className: href ? "link" : "", onclick: href ? (event) => follow(event, href) : null }, cells);
}

function follow(event, href) {
  if (event.target.closest("a, button, input, select") || String(getSelection())) return;
  location.hash = href;
}

const classes = (column) => [column.number && "number", column.wide && "wide"].filter(Boolean).join(" ");

// "51–100 of 312", with buttons to the parts beside.
export function pager(offset, limit, total, onMove) {
  if (total <= limit && !offset) return null;
  const last = Math.min(offset + limit, total);
  return el("div", { className: "pager" }, el("span", {}, `${offset + 1}–${last} of ${total.toLocaleString("en")}`),
    el("button", { type: "button", data: { key: "before" }, disabled: offset === 0, onclick: () => onMove(Math.max(offset - limit, 0)) }, "Previous"),
    el("button", { type: "button", data: { key: "after" }, disabled: last >= total, onclick: () => onMove(offset + limit) }, "Next"));
}

// Buttons of which one is pressed: [[value, text], …].
export function chips(label, choices, chosen, onChoose, className = "chips") {
  return el("div", { className, role: "group", ariaLabel: label }, choices.map(([value, text]) =>
    el("button", { type: "button", ariaPressed: String(value === chosen), data: { key: `${label} ${value}` }, onclick: () => onChoose(value) }, text)));
}
