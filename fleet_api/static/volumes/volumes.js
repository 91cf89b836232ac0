// All volumes, or one of them.

import { ask } from "../base/api.js";
import { el, empty } from "../base/dom.js";
import { disk } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { isAdministrator, may } from "../base/session.js";
import { badge } from "../base/states.js";
import { SearchedList } from "../frame/searched_list.js";
import { Volume } from "./details.js";
import { create } from "./verbs.js";

const COLUMNS = [
  { title: "name", sort: "name", show: (each) => each.name || each.uuid },
  { title: "status", sort: "status", show: (each) => badge(each.status) },
  { title: "size", sort: "size_gb", number: true, show: (each) => disk(each.size_gb) },
  { title: "type", sort: "volume_type", wide: true, show: (each) => each.volume_type ?? "" },
  { title: "project", sort: "project_id", wide: true, of: "all", show: (each) => each.project_id ?? "" },
  { title: "pool", sort: "host", wide: true, of: "all", show: (each) => [each.host, each.pool].filter(Boolean).join("#") },
  { title: "created", sort: "created_at", number: true, show: (each) => ago(each.created_at) },
];

const button = (text) => (may("operator/create_volumes") ? el("button", { className: "main", type: "button", onclick: create }, text) : null);
const LIST = {
  name: "volumes",
  title: "Volumes",
  get placeholder() { return isAdministrator() ? "name, uuid, project, pool, type" : "name, uuid, type"; },
  sort: "created_at",
  descending: true,
  columns: () => COLUMNS.filter((each) => !each.of || isAdministrator()),
  href: (each) => to("volumes", [each.uuid]),
  verbs: () => button("New volume"),
  none: () => empty("No volume yet.", button("Create the first one")),
  async find(asked) {
    const { volumes, total, states } = await ask("operator/search_volumes", asked);
    return { records: volumes, total, states };
  },
};

export const open = (view, [chosen], query) => (chosen ? new Volume(view, chosen) : new SearchedList(view, LIST, query));
