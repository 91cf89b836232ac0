// What may be done with an instance now. Each is a call of the contract; the server decides, and its refusal is shown.

import { ask } from "../base/api.js";
import { el, note } from "../base/dom.js";
import { question } from "../base/dialog.js";
import { memory } from "../base/figures.js";
import { go } from "../base/route.js";
import { may } from "../base/session.js";

const AT_REST = ["stopped", "suspended"];
const SHELVABLE = ["active", "stopped"];

// call, text, when(instance, migration) is it offered, and what is asked before.
const VERBS = [
  { call: "start_instance", text: "Start", when: (each) => each.vm_state === "stopped" },
  { call: "resume_instance", text: "Resume", when: (each) => each.vm_state === "suspended" },
  { call: "unshelve_instance", text: "Unshelve", when: (each) => ["shelved", "shelved_offloaded"].includes(each.vm_state) && !each.task_state },
  { call: "stop_instance", text: "Stop", when: isActive, open: confirmed("Stop", "The guest is switched off. It keeps its host and its resources.") },
  { call: "reboot_instance", text: "Reboot", when: isActive, open: confirmed("Reboot", "The guest is restarted.") },
  { call: "shelve_instance", text: "Shelve", when: (each) => SHELVABLE.includes(each.vm_state) && !each.task_state, open: confirmed("Shelve", "The guest is switched off until it is unshelved. It may give its host back meanwhile, and is then placed anew.") },
  { call: "rebuild_instance", text: "Rebuild", when: isRebuildable, open: rebuild },
  { call: "confirm_resize", text: "Confirm the move", when: isFinished },
  { call: "revert_resize", text: "Revert the move", when: isFinished },
  { call: "resize_instance", text: "Resize", when: isSettled, open: resize },
  { call: "migrate_instance", text: "Migrate", when: isSettled, open: migrate },
  { call: "evacuate_instance", text: "Evacuate", when: (each) => (isSettled(each) || isBroken(each)) && each.hostState === "down", open: confirmed("Evacuate", "Its host is down: the instance is built again elsewhere. Data on the host's own disk are lost.") },
  { call: "lock_instance", text: "Lock", when: (each) => !each.locked_by, open: confirmed("Lock", "Members of its project cannot change it until it is unlocked. Administrators can.") },
  { call: "unlock_instance", text: "Unlock", when: (each) => Boolean(each.locked_by) },
  { call: "reset_state", text: "Set to ACTIVE", when: isBroken, open: reset },
  { call: "delete_instance", as: "compute_task/terminate_instances", text: "Delete", danger: true, when: (each) => each.task_state !== "deleting", open: remove },
];

// current() returns the instance and its move as they were read last.
export function verbs(current, after) {
  const { instance, migration } = current();
  const offered = VERBS.filter((each) => may(each.as ?? `operator/${each.call}`) && each.when(instance, migration));
  return offered.map((each) => el("button", { type: "button", className: each.danger ? "danger" : "", data: { key: each.call },
    onclick: () => (each.open ?? done)(current().instance, each, after) }, each.text));
}

async function done(instance, verb, after) {
  try {
    note(await carryOut(instance, verb, {}, after));
  } catch (failed) {
    note(failed.message);
  }
}

async function carryOut(instance, verb, more, after) {
  await ask(`operator/${verb.call}`, { name: instance.uuid, ...more });
  after?.().catch(() => {});
  return `${verb.text}: asked for ${instance.name}`;
}

function confirmed(title, text) {
  return (instance, verb, after) => question({ title: `${title} ${instance.name}?`, text, verb: verb.text, act: () => carryOut(instance, verb, {}, after) });
}

async function resize(instance, verb, after) {
  const flavors = await ask("operator/list_flavors").catch(() => []);
  const flavor = el("select", { id: "new-flavor", required: true }, flavors.filter((each) => each.name !== instance.flavor.name).map((each) =>
    el("option", { value: each.name }, `${each.name}: ${each.vcpus} vcpus, ${memory(each.memory_mb)}, ${each.root_gb} GB`)));
  question({ title: `Resize ${instance.name}`, text: `From ${instance.flavor.name || "its own size"}. The guest is switched off, may go to another host, and starts there. Confirm or revert afterwards.`,
    fields: [el("label", { className: "whole" }, "New flavor", flavor)], verb: "Resize",
    act: () => carryOut(instance, verb, { flavor: flavor.value }, after) });
}

async function rebuild(instance, verb, after) {
  const images = await ask("operator/list_images").catch(() => []);
  const image = el("select", { id: "new-image" }, el("option", { value: "" }, "the one that it has"), images.map((each) => el("option", { value: each.uuid }, each.name)));
  question({ title: `Rebuild ${instance.name}`, text: "The guest is made anew where it is: what its disks have is lost. Volumes and addresses stay.",
    fields: [el("label", { className: "whole" }, "Image", image)], verb: "Rebuild", danger: true,
    act: () => carryOut(instance, verb, { request: image.value ? { image: image.value } : {} }, after) });
}

function migrate(instance, verb, after) {
  const canLive = instance.vm_state === "active" && may("operator/live_migrate_instance");
  const host = el("input", { id: "to-host", placeholder: "any that fits" });
  const how = el("select", { id: "how" }, canLive ? el("option", { value: "live_migrate_instance" }, "while it runs") : null,
    el("option", { value: "migrate_instance" }, "switched off meanwhile"));
  question({ title: `Migrate ${instance.name}`, text: `From ${instance.host ?? "its host"} to another host. The filters decide.`,
    fields: [el("label", {}, "To host", host), el("label", {}, "How", how)], verb: "Migrate",
    act: () => carryOut(instance, { ...verb, call: how.value }, host.value.trim() ? { host: host.value.trim() } : {}, after) });
}

function reset(instance, verb, after) {
  question({ title: `Set ${instance.name} to ACTIVE?`, text: "The ledger then says that it is well. Nothing is done to its guest.", verb: verb.text,
    act: () => carryOut(instance, verb, { state: "active" }, after) });
}

function remove(instance) {
  question({ title: `Delete ${instance.name}?`, text: "The guest and its disks on the host are removed. Attached volumes stay. This cannot be undone.", verb: "Delete", danger: true,
    act: async () => {
      await ask("compute_task/terminate_instances", { instance_uuids: [instance.uuid] });
      go("instances");
      return `${instance.name} is being deleted`;
    } });
}

function isActive(each) {
  return each.vm_state === "active" && !each.task_state;
}

function isSettled(each) {
  return (each.vm_state === "active" || AT_REST.includes(each.vm_state)) && !each.task_state;
}

function isBroken(each) {
  return each.vm_state === "error" && !each.task_state && Boolean(each.host);
}

function isRebuildable(each) {
  return ["active", "stopped", "error"].includes(each.vm_state) && !each.task_state && Boolean(each.host ?? each.host_id);
}

function isFinished(each, migration) {
  return each.vm_state === "resized" || migration?.status === "finished";
}
