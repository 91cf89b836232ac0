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

  // A changed form is another request: its answer is not known.
  stale() {
    this.book.disabled = true;
    this.token = null;
  }

  async explain() {
    put(this.answer, el("p", { className: "quiet" }, "Asking …"));
    try {
      const wanted = this.form.request();
      const shown = this.explains ? explained(await api.explain(wanted, BEST))
        : needed(wanted, this.form.flavor(), await api.ask("operator/show_quota", { project_id: mine().project_id }));
      put(this.answer, shown.parts);
      this.book.disabled = !shown.fits;
      this.token = crypto.randomUUID?.() ?? String(Math.random());
    } catch (failed) {
      put(this.answer, failure(failed));
    }
  }

  // With a token, so that a second click builds nothing more.
  async send() {
    if (this.book.disabled) return;
    this.book.disabled = true;
    try {
      const { project, ...request } = { ...this.form.request(), project: this.form.project() };
      const whose = project ? { project_id: project, user_id: mine().user_id } : {};
      const made = await api.ask("compute_task/create", { request, client_token: this.token }, whose);
      note(`Asked for ${plural(made.instances.length, "instance")}`);
      if (made.instances.length === 1) go("instances", [made.instances[0].uuid]);
      else go("instances", [], { search: request.name });
    } catch (failed) {
      this.answer.prepend(panel(null, failure(failed)));
      this.book.disabled = false;
    }
  }
}

