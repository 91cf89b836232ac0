// What happens, as it happens, after the last hundred events: of instances, volumes and hosts, the newest first.

import * as api from "../base/api.js";
import { el, empty, failure, put } from "../base/dom.js";
import { isAdministrator } from "../base/session.js";
import { chips } from "../base/table.js";
import * as status from "../frame/status.js";
import { acts } from "./acts.js";
import { eventTable } from "./event_table.js";

const BEFORE = 100;
const MOST = 300;
const KINDS = ["instance", "volume", "host"];
const FILTERS = [["all", "All"], ["failed", "What failed"], ["instance", "Instances"], ["volume", "Volumes"]];
// The stream has no hosts for others.
const OF_ADMINISTRATORS = [["host", "Hosts"], ["acts", "Acts of administrators"]];

export const open = (view) => new Events(view);

class Events {
  lives = true;

  constructor(view) {
    this.known = new Set();
    this.events = [];
    this.said = "waiting for the first event";
    this.only = "all";
    this.filters = el("div", { className: "bar" });
    this.list = el("section", { className: "list", id: "events" });
    view.append(el("div", { className: "head" }, el("h1", {}, "Events")), this.filters, this.list);
    this.follow();
    this.draw();
  }

  follow() {
    this.source?.close();
    const source = new EventSource(new URL(`../fleet/v1/events?last=${BEFORE}`, document.baseURI));
    this.source = source;
    for (const kind of KINDS) source.addEventListener(kind, (message) => this.add({ ...JSON.parse(message.data), kind }));
    source.addEventListener("away", () => { this.said = "no conductor answers; the stream goes on"; });
    source.addEventListener("back", () => { this.said = "live"; });
    source.onopen = () => {
      this.isOpened = true;
      this.refused = null;
      this.said = "live";
      status.good(this.said);
      this.draw();
    };
    source.onerror = () => {
      this.said = "cut off; trying again";
      if (source.readyState === EventSource.CLOSED) this.isRefused(source);
    };
  }

  // The place of a page that was left is free a second later: refresh() tries again.
  async isRefused(source) {
    try {
      await api.whyRefused(source.url);
    } catch (failed) {
      if (source !== this.source || this.isClosed) return;
      this.refused = failed;
      status.bad(failed);
      this.draw();
    }
  }

  // A browser gives a stream up if the answer is a refusal. The state of the stream itself is not asked for: it comes.
  async refresh() {
    if (this.source.readyState !== EventSource.OPEN) await api.call("session");
    if (this.only === "acts") this.acts = await acts();
    this.draw();
    if (this.source.readyState === EventSource.CLOSED) this.follow();
    if (this.refused) throw this.refused;
    return this.said;
  }

  close() {
    this.isClosed = true;
    this.source.close();
    cancelAnimationFrame(this.coming);
  }

  add(event) {
    const key = event.id === undefined ? null : `${event.kind} ${event.id}`;
    if (key && this.known.has(key)) return;
    if (key) this.known.add(key);
    this.events.unshift({ created_at: new Date().toISOString(), event: "state", ...event });
    for (const old of this.events.splice(MOST)) this.known.delete(`${old.kind} ${old.id}`);
    // A hundred come at once.
    cancelAnimationFrame(this.coming);
    this.coming = requestAnimationFrame(() => this.draw());
  }

  // Acts are not in the stream: they are asked for while they are shown.
  async choose(value) {
    this.only = value;
    this.acts = el("p", { className: "quiet" }, "Asking …");
    this.draw();
    if (value !== "acts") return;
    try {
      this.acts = await acts();
    } catch (failed) {
      this.acts = failure(failed);
    }
    this.draw();
  }

  draw() {
    const filters = isAdministrator() ? [...FILTERS, ...OF_ADMINISTRATORS] : FILTERS;
    put(this.filters, chips("Events", filters, this.only, (value) => this.choose(value)));
    if (this.only === "acts") return put(this.list, this.acts);
    const shown = this.events.filter((each) => this.only === "all" || each.kind === this.only || (this.only === "failed" && failed(each)));
    put(this.list, shown.length ? eventTable(shown) : this.nothing());
  }

  nothing() {
    if (this.events.length) return empty("No such event.");
    if (this.refused) return failure(this.refused);
    if (!this.isOpened) return el("p", { className: "quiet" }, "Asking …");
    return empty("Nothing has happened yet.", "Boot an instance, and its steps appear here within a second.");
  }
}

const failed = (each) => (each.kind === "host" ? each.state !== "up" : !["success", "begun"].includes(each.result));
