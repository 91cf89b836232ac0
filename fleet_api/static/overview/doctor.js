// The doctor's word: what is wrong with daemons, database and ledger, and what to do about it.

import * as api from "../base/api.js";
import { el, panel, put } from "../base/dom.js";
import { plural } from "../base/figures.js";
import { badge } from "../base/states.js";

const EVERY_MS = 30000;
const WORDS = { fail: "wrong", warn: "look at this" };

export class Doctor {
  constructor() {
    this.said = el("div", {}, el("p", { className: "quiet" }, "Asking …"));
    this.place = panel("The doctor's word", this.said);
    this.place.id = "doctor";
  }

  // Nothing waits for it: it asks every daemon.
  async refresh() {
    if (this.isAsking || Date.now() - (this.askedAt ?? 0) < EVERY_MS) return;
    this.isAsking = true;
    this.askedAt = Date.now();
    try {
      put(this.said, told(await api.doctor()));
    } catch (failed) {
      put(this.said, el("p", { className: "bad" }, failed.message));
    } finally {
      this.isAsking = false;
    }
  }
}

function told(findings) {
  const wrong = ["fail", "warn"].flatMap((level) => findings.filter((each) => each.level === level));
  if (!wrong.length) return el("p", {}, badge("ok", `All is well: ${plural(findings.length, "check")} passed.`));
  return [el("ul", { className: "findings" }, wrong.map((each) => el("li", {}, badge(each.level === "fail" ? "fail" : "wait", WORDS[each.level]),
    " ", el("strong", {}, each.check), `: ${each.found}`, each.fix ? el("div", { className: "quiet" }, each.fix) : null))),
  el("p", { className: "quiet" }, `${findings.length - wrong.length} of ${plural(findings.length, "check")} passed. Agents are asked by `,
    el("code", {}, "fleet doctor"), ".")];
}
