// The form for users of keystone. The token becomes a cookie, which no script can read.

import { signIn } from "../base/session.js";
import { el } from "../base/dom.js";

export const open = (view, done) => new SignIn(view, done);

export class SignIn {
  lives = false;

  constructor(view, done) {
    this.done = done;
    this.fields = {
      username: el("input", { id: "username", required: true, autocomplete: "username" }),
      password: el("input", { id: "password", type: "password", required: true, autocomplete: "current-password" }),
      project: el("input", { id: "project", required: true }),
      domain: el("input", { id: "domain", required: true, value: "Default" }),
    };
    this.failure = el("p", { className: "bad", role: "alert" });
    view.append(el("section", { className: "panel", id: "sign-in" }, el("h2", {}, "Sign in"),
      el("form", { className: "bar", onsubmit: (event) => { event.preventDefault(); this.ask(); } },
        el("label", {}, "Name", this.fields.username), el("label", {}, "Password", this.fields.password),
        el("label", {}, "Project", this.fields.project), el("label", {}, "Domain", this.fields.domain),
        el("button", { className: "main", type: "submit" }, "Sign in")),
      this.failure));
    this.fields.username.focus();
  }

  async refresh() {
    return "Sign in first";
  }

  async ask() {
    this.failure.textContent = "";
    try {
      await signIn(Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value])));
    } catch (failed) {
      this.failure.textContent = failed.message;
      return;
    }
    this.done();
  }
}
