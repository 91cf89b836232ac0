// A new instance: the form, what the scheduler would do with it, and only then the booking.

import * as api from "../base/api.js";
import { el, empty, failure, note, panel, put } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { go } from "../base/route.js";
import { isAdministrator, may, mine } from "../base/session.js";
import { explained } from "./boot_answer.js";
import { Form } from "./boot_form.js";
import { needed } from "./boot_needs.js";

const BEST = 10;

export const open = (view) => new Boot(view);

class Boot {
  lives = false;
  // Changes of the form and questions about it: an answer to an earlier one is out of date.
  turn = 0;

  constructor(view) {
    this.form = new Form(() => this.stale());
    this.explains = isAdministrator();
    this.answer = el("div", { className: "panel", ariaLive: "polite", id: "answer" }, empty("Nothing is booked yet.", this.explains
      ? "“Explain” asks the scheduler where it would go now, and why." : "“Check” compares it with the quotas of your project."));
    this.ask = el("button", { type: "button", id: "explain", onclick: () => this.explain() }, this.explains ? "Explain" : "Check");
    this.book = el("button", { className: "main", type: "submit", id: "book", disabled: true, title: "Look at the answer first" }, "Boot");
    view.append(el("div", { className: "head" }, el("h1", {}, "Boot")), el("div", { className: "split even" },
      el("form", { className: "panel", onsubmit: (event) => { event.preventDefault(); this.send(); } }, this.form.place,
        el("div", { className: "bar" }, this.ask, may("compute_task/create") ? this.book : null)), this.answer));
  }

  async refresh() {
    return this.form.load();
  }

  // A changed form is another request: its answer is not known, and that of the former one is not waited for.
  stale() {
    this.turn += 1;
    this.book.disabled = true;
    if (this.asks) put(this.answer, el("p", { className: "quiet" }, `The form has changed: ${this.ask.textContent.toLowerCase()} it again.`));
    this.asks = false;
  }

  async explain() {
    const turn = ++this.turn;
    this.asks = true;
    put(this.answer, el("p", { className: "quiet" }, "Asking …"));
    let parts, fits = false;
    try {
      const wanted = this.form.request();
      ({ parts, fits } = this.explains ? explained(await api.explain(wanted, BEST))
        : needed(wanted, this.form.flavor(), await api.ask("operator/show_quota", { project_id: mine().project_id })));
    } catch (failed) {
      parts = failure(failed);
    }
    if (turn !== this.turn) return;
    this.asks = false;
    put(this.answer, parts);
    this.book.disabled = !fits;
  }

  // With a token of this request, so that a second click builds nothing more, also if the answer to the first was lost.
  async send() {
    if (this.book.disabled) return;
    this.book.disabled = true;
    const { turn } = this;
    try {
      const request = this.form.request();
      const project = this.form.project();
      const whose = project ? { project_id: project, user_id: mine().user_id } : {};
      const text = JSON.stringify([request, project]);
      if (this.sent?.text !== text) this.sent = { text, token: crypto.randomUUID?.() ?? String(Math.random()) };
      const made = await api.ask("compute_task/create", { request, client_token: this.sent.token }, whose);
      note(`Asked for ${plural(made.instances.length, "instance")}`);
      if (made.instances.length === 1) go("instances", [made.instances[0].uuid]);
      else go("instances", [], { search: request.name });
    } catch (failed) {
      this.answer.prepend(panel(null, failure(failed)));
      if (turn === this.turn) this.book.disabled = false;
    }
  }
}
