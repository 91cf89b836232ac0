// Arithmetic of hosts, as fleet/capacity.py has it: what instances use is shown against what they may have, which is the
// physical amount without what is reserved, times the allocation ratio.

const COLUMNS = {
  vcpus: ["vcpus", "vcpus_used", "reserved_vcpus", "cpu_allocation_ratio"],
  memory_mb: ["memory_mb", "memory_mb_used", "reserved_memory_mb", "ram_allocation_ratio"],
  disk_gb: ["local_gb", "local_gb_used", "reserved_disk_gb", "disk_allocation_ratio"],
};
export const RESOURCES = Object.keys(COLUMNS);
export const RESOURCE_NAMES = { vcpus: "CPU", memory_mb: "Memory", disk_gb: "Disk" };

// What instances use of a resource, may use at most, and have left.
export function room(host, resource) {
  const [total, used, reserved, ratio] = COLUMNS[resource].map((name) => host[name]);
  const limit = Math.max((total - reserved) * ratio, 0);
  const taken = Math.max(used - reserved, 0);
  return { used: taken, limit, free: Math.max(limit - taken, 0), share: limit ? taken / limit : Number(taken > 0) };
}

// The same for several hosts together.
export function rooms(hosts, resource) {
  const sum = { used: 0, limit: 0, free: 0 };
  for (const host of hosts) {
    const each = room(host, resource);
    for (const name of Object.keys(sum)) sum[name] += each[name];
  }
  return { ...sum, share: sum.limit ? sum.used / sum.limit : 0 };
}

export function condition(host) {
  if (host.state !== "up") return "down";
  return host.status === "enabled" ? "up" : "disabled";
}

export const SIMULATED = "fake";

// host2 before host10.
const order = new Intl.Collator(undefined, { numeric: true });
export const byName = (one, other) => order.compare(nameOf(one), nameOf(other));
export const compare = (one, other) => (typeof one === "number" && typeof other === "number" ? one - other : order.compare(one ?? "", other ?? ""));

export function nameOf(host) {
  return host.host === host.node ? host.host : `${host.host}:${host.node}`;
}
