// All instances, or one of them.

import { ask } from "../base/api.js";
import { el, empty } from "../base/dom.js";
import { to } from "../base/route.js";
import { isAdministrator, may } from "../base/session.js";
import { SearchedList } from "../frame/searched_list.js";
import { columns, href } from "./columns.js";
import { Instance } from "./details.js";

const LIST = {
  name: "instances",
  title: "Instances",
  get placeholder() { return isAdministrator() ? "name, uuid, project, host, flavor" : "name, uuid, flavor"; },
  sort: "created_at",
  descending: true,
  columns,
  href,
  verbs: () => (may("compute_task/create") ? el("a", { className: "button main", href: to("boot") }, "Boot") : null),
  none: () => empty("No instance yet.", may("compute_task/create") ? el("a", { className: "button main", href: to("boot") }, "Boot the first one") : null),
  async find(asked) {
    const { instances, total, states } = await ask("operator/search_instances", asked);
    return { records: instances, total, states };
  },
};

export const open = (view, [chosen], query) => (chosen ? new Instance(view, chosen) : new SearchedList(view, LIST, query));
