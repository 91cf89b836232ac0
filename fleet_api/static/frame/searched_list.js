// A list with search, states, order and parts. The address keeps them, so a link shows the same list.

import { el, empty, put } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { keep } from "../base/route.js";
import { chips, pager, table } from "../base/table.js";

const LIMIT = 50;
const TYPED_MS = 250;

// list: name (of the view), title, placeholder, sort, columns(), href(record), none (what is said where there is nothing),
// verbs, and find({text, state, sort, descending, limit, offset}) → { records, total, states }.
export class SearchedList {
  lives = true;

  constructor(view, list, query) {
    this.list = list;
    this.asked = { text: query.search ?? "", state: query.state ?? null, sort: query.sort ?? list.sort,
      descending: query.order ? query.order === "down" : (list.descending ?? false), offset: Number.parseInt(query.from ?? "0", 10) || 0 };
    this.search = el("input", { type: "search", id: "search", placeholder: list.placeholder, value: this.asked.text, ariaLabel: "Search",
      oninput: () => this.typed(), onkeydown: (event) => { if (event.key === "Enter") this.change({ text: this.search.value, offset: 0 }); } });
    this.states = el("div", {});
    this.rows = el("section", { className: "list", id: list.name });
    view.append(el("div", { className: "head" }, el("h1", {}, list.title), el("div", { className: "verbs" }, list.verbs?.() ?? null)),
      el("div", { className: "bar" }, el("label", {}, "Search", this.search), this.states), this.rows);
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.change({ text: this.search.value, offset: 0 }), TYPED_MS);
  }

  close() {
    clearTimeout(this.typing);
  }

  change(what) {
    clearTimeout(this.typing);
    Object.assign(this.asked, what);
    const { text, state, sort, descending, offset } = this.asked;
    keep(this.list.name, [], { search: text, state, sort: sort === this.list.sort ? "" : sort,
      order: descending === (this.list.descending ?? false) ? "" : descending ? "down" : "up", from: offset || "" });
    this.refresh().catch((failed) => put(this.rows, el("p", { className: "bad", role: "alert" }, failed.message)));
  }

  async refresh() {
    const asked = { ...this.asked };
    const found = await this.list.find({ ...asked, limit: LIMIT });
    // What was asked meanwhile comes later.
    if (JSON.stringify(asked) !== JSON.stringify(this.asked)) return undefined;
    if (asked.offset && asked.offset >= found.total) {
      this.asked.offset = Math.max(0, Math.ceil(found.total / LIMIT) * LIMIT - LIMIT);
      return this.refresh();
    }
    this.draw(found);
    return plural(found.total, this.list.name.slice(0, -1));
  }

  draw({ records, total, states }) {
    const all = states.reduce((sum, each) => sum + each.count, 0);
    const choices = [[null, `All ${all.toLocaleString("en")}`], ...states.map((each) => [each.state, `${each.state} ${each.count.toLocaleString("en")}`])];
    const { state, sort, descending, offset } = this.asked;
    if (state && !states.some((each) => each.state === state)) choices.push([state, `${state} 0`]);
    put(this.states, choices.length > 2 || state ? chips("State", choices, state, (value) => this.change({ state: value, offset: 0 })) : null);
    const onSort = (name, down) => this.change({ sort: name, descending: down, offset: 0 });
    put(this.rows, total ? [table(this.list.columns(), records, { href: this.list.href, sort, descending, onSort }),
      pager(offset, LIMIT, total, (to) => this.change({ offset: to }))] : this.nothing());
  }

  nothing() {
    if (!this.asked.text && !this.asked.state) return this.list.none();
    return empty("Nothing matches.", el("button", { type: "button", onclick: () => { this.search.value = ""; this.change({ text: "", state: null, offset: 0 }); } }, "Show all"));
  }
}
