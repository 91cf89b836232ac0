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
const ACTS = ["acts", "Acts of administrators"];
const FILTERS = [["all", "All"], ["failed", "What failed"], ...KINDS.map((kind) => [kind, `${kind[0].toUpperCase()}${kind.slice(1)}s`])];

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
    this.source = new EventSource(new URL(`../fleet/v1/events?last=${BEFORE}`, document.baseURI));
    for (const kind of KINDS) this.source.addEventListener(kind, (message) => this.add({ ...JSON.parse(message.data), kind }));
    this.source.addEventListener("away", () => { this.said = "no conductor answers; the stream goes on"; });
    this.source.onopen = () => { this.said = "live"; status.good(this.said); };
    this.source.onerror = () => { this.said = "cut off; trying again"; };
  }

  // A browser gives a stream up if the answer is a refusal. The state of the stream itself is not asked for: it comes.
  async refresh() {
    if (this.source.readyState === EventSource.CLOSED) {
      await api.call("session");
      this.follow();
    }
    if (this.source.readyState !== EventSource.OPEN) await api.call("session");
    if (this.only === "acts") this.acts = await acts();
    this.draw();
    return this.said;
  }

  close() {
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
    put(this.filters, chips("Events", isAdministrator() ? [...FILTERS, ACTS] : FILTERS, this.only, (value) => this.choose(value)));
    if (this.only === "acts") return put(this.list, this.acts);
    const shown = this.events.filter((each) => this.only === "all" || each.kind === this.only || (this.only === "failed" && failed(each)));
    put(this.list, shown.length ? eventTable(shown) : empty(this.events.length ? "No such event." : "Nothing has happened yet.",
      this.events.length ? null : "Boot an instance, and its steps appear here within a second."));
  }
}

const failed = (each) => (each.kind === "host" ? each.state !== "up" : !["success", "begun"].includes(each.result));
