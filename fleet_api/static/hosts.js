// Arithmetic of one host, as fleet/capacity.py has it.

export function shares(host) {
  return { vcpus: ratio(host.vcpus_used, host.vcpus), memory: ratio(host.memory_mb_used, host.memory_mb) };
}

function ratio(used, total) {
  return total ? used / total : 0;
}

// What may still be sold: ratios and reserved amounts are counted.
export function free(host) {
  const left = (total, reserved, factor, used) => Math.max((total - reserved) * factor + reserved - used, 0);
  return {
    vcpus: left(host.vcpus, host.reserved_vcpus, host.cpu_allocation_ratio, host.vcpus_used),
    memory_mb: left(host.memory_mb, host.reserved_memory_mb, host.ram_allocation_ratio, host.memory_mb_used),
  };
}

export function condition(host) {
  if (host.state !== "up") return "down";
  return host.status === "enabled" ? "up" : "disabled";
}

// host2 before host10.
export function byName(one, other) {
  return nameOf(one).localeCompare(nameOf(other), undefined, { numeric: true });
}

export function nameOf(host) {
  return host.host === host.node ? host.host : `${host.host}:${host.node}`;
}
