// What lists of instances show of each.

import { link } from "../base/dom.js";
import { disk, memory } from "../base/figures.js";
import { ago } from "../base/moments.js";
import { to } from "../base/route.js";
import { isAdministrator } from "../base/session.js";
import { instanceState } from "../base/states.js";
import { table } from "../base/table.js";

export const href = (each) => to("instances", [each.uuid]);
const NAME = { title: "name", sort: "name", show: (each) => each.name };
const STATE = { title: "state", sort: "vm_state", show: instanceState };
const HOST = { title: "host", sort: "host", wide: true, show: (each) => (each.host ? link(to("hosts", [each.host]), each.host) : "") };
const PROJECT = { title: "project", sort: "project_id", wide: true, show: (each) => each.project_id ?? "" };
const SIZES = [
  { title: "flavor", sort: "flavor_name", wide: true, show: (each) => each.flavor_name ?? "" },
  { title: "vcpus", sort: "vcpus", number: true, wide: true, show: (each) => `${each.vcpus}` },
  { title: "memory", sort: "memory_mb", number: true, wide: true, show: (each) => memory(each.memory_mb) },
  { title: "disk", sort: "disk_gb", number: true, wide: true, show: (each) => disk(each.disk_gb) },
];
const BEGAN = { title: "created", sort: "created_at", number: true, show: (each) => ago(each.created_at) };

export const columns = () => (isAdministrator() ? [NAME, STATE, HOST, PROJECT, ...SIZES, BEGAN] : [NAME, STATE, ...SIZES, BEGAN]);

// The newest ones, for the overview of a project.
export const newest = ({ instances }) => table([NAME, STATE, SIZES[0], BEGAN], instances, { href });
