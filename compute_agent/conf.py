# SPDX-License-Identifier: Apache-2.0
"""Options of the compute agent."""

from __future__ import annotations

from oslo_config import cfg

CLI_OPTS = [
    cfg.ListOpt(
        "hosts",
        default=[],
        help="Names of the hosts that this process serves, each with its own queue, rows and capacity. An element is a "
        "name, a range such as host[001-050], or @FILE with one element a line. Empty: only the option host. Several "
        "hosts in one process are for simulated fleets (compute_driver fake) and controllers of remote hypervisors.",
    ),
]

AGENT_OPTS = [
    cfg.StrOpt(
        "compute_driver",
        default="local",
        help="What runs the guests. local: this machine's own inventory and a supervised process for each instance. "
        "fake: invented hosts with an inventory from group [fake], whose guests exist in memory only; for trials and "
        "tests. The agent's log, 'fleet doctor', 'fleet host list' and 'fleet service list' name it. Anything else is an "
        "entry point in fleet.compute.drivers, or the dotted path of a subclass of "
        "compute_agent.drivers.base.ComputeDriver.",
    ),
    cfg.IntOpt(
        "max_concurrent_builds",
        default=10,
        min=0,
        help="Builds that run at a time on one host; the others wait their turn. 0: no limit. Related: agent_threads.",
    ),
    cfg.IntOpt(
        "agent_threads",
        default=64,
        min=1,
        help="Threads that the builds and terminations of all hosts of this process share. With many hosts in one "
        "process this bounds the builds that run at a time before max_concurrent_builds does.",
    ),
    cfg.IntOpt(
        "claim_timeout",
        default=60,
        min=1,
        help="Seconds during which a conductor that does not answer is asked again about a claim, a failure or a "
        "termination. After that the agent lets go and the conductor's sweeper ends the step. Keep it below the "
        "conductor's placing_timeout.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=60,
        min=1,
        help="Seconds between audits: the inventory is read from the driver, orphans are looked for, and the result is "
        "reported if it has changed. Usage needs no audit: claims change it at once.",
    ),
    cfg.IntOpt(
        "inventory_resend_interval",
        default=300,
        min=0,
        help="Seconds after which an inventory that has not changed is reported again, in case that the database has lost "
        "it; 0 reports every audit's. Heartbeats do not wait for it.",
    ),
    cfg.IntOpt(
        "scheduler_instance_sync_interval",
        default=120,
        deprecated_opts=[cfg.DeprecatedOpt("scheduler_instance_sync_interval", group="filter_scheduler")],
        help="Seconds between messages that tell the schedulers which instances are on this host. A scheduler that knows "
        "others compares the host with the database. 0 or less: only at start. Related: "
        "scheduler_tracks_instance_changes.",
    ),
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        help="What is measured with each audit and reported as the metrics of every host of this process, for "
        "MetricsFilter and MetricsWeigher. cpu: cpu.percent, cpu.user.percent, cpu.kernel.percent, cpu.idle.percent, "
        "cpu.iowait.percent (shares, 0.0 to 1.0) and cpu.frequency (MHz). Anything else is an entry point in "
        "fleet.compute.monitors, or the dotted path of a subclass of compute_agent.monitors.base.Monitor. Related: "
        "[metrics] weight_setting.",
    ),
    cfg.IntOpt(
        "driver_timeout",
        default=60,
        min=1,
        help="Seconds that the driver may take to destroy a guest. After that what the guest holds stays counted on this "
        "host as an orphan's, and the agent tries again with each audit. (How long a spawn may take the conductor says: "
        "[conductor] spawn_timeout.)",
    ),
    cfg.StrOpt(
        "lost_guest_action",
        default="nothing",
        choices=[
            ("nothing", "It is reported, and nothing else."),
            ("restart", "The guest is started again, at each audit until it runs. One that is gone cannot be."),
            ("error", "The instance is set to ERROR with a fault. It stays on its host with all that it holds."),
        ],
        help="What is done about a guest that does not run while its instance is ACTIVE: its process has ended, its machine "
        "was rebooted, its disk is lost. The audit that finds it reports it: power state, event, log, metric, notification. "
        "What this option says is done by the next audit that still finds it so.",
    ),
    cfg.IntOpt(
        "failed_builds_expiry",
        default=600,
        min=1,
        help="Seconds after a failed build until the failures of a host are forgotten, unless a build succeeds there "
        "before. Until then the host is weighed down: see build_failure_weight_multiplier.",
    ),
    cfg.StrOpt(
        "instances_path",
        default="/var/lib/fleet/instances",
        help="Directory where drivers keep their guests' records (and, for the driver local, their logs), and the agent "
        "the identity of each host that it serves. Its file system is the disk that the driver local reports. It must "
        "survive a restart of the agent, and never be copied to another machine.",
    ),
]

CAPACITY_OPTS = [
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="Memory in MB kept for the host itself, on every node: no instance gets it and no ratio stretches it.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        help="Disk in MB kept for the host itself, on every node, rounded up to whole GB.",
    ),
    cfg.IntOpt("reserved_host_cpus", default=0, min=0, help="CPUs kept for the host itself, on every node."),
    cfg.FloatOpt(
        "cpu_allocation_ratio",
        default=0.0,
        min=0.0,
        help="Virtual CPUs to sell for each CPU that is not reserved, on this host. 0.0 means 16.0.",
    ),
    cfg.FloatOpt(
        "ram_allocation_ratio",
        default=0.0,
        min=0.0,
        help="MB of memory to sell for each MB that is not reserved, on this host. 0.0 means 1.5.",
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio",
        default=0.0,
        min=0.0,
        help="GB of disk to sell for each GB that is not reserved, on this host. 0.0 means 1.0.",
    ),
]

FAKE_OPTS = [
    cfg.IntOpt(
        "fake_nodes",
        default=1,
        min=1,
        help="Nodes of each host. With 1 the node has the host's name; with more they are HOST-1, HOST-2 and so on.",
    ),
    cfg.IntOpt("vcpus", default=64, min=1, help="CPUs of each node."),
    cfg.IntOpt("memory_mb", default=262144, min=1, help="Memory of each node in MB."),
    cfg.IntOpt("local_gb", default=4000, min=0, help="Disk of each node in GB."),
    cfg.IntOpt(
        "numa_cells",
        default=0,
        min=0,
        help="NUMA cells that each node's CPUs and memory are divided into; 0 reports no topology.",
    ),
    cfg.IntOpt(
        "numa_threads_per_core",
        default=1,
        min=1,
        help="Threads of each core; more than 1 are reported as siblings. Related: numa_cells.",
    ),
    cfg.IntOpt(
        "numa_dedicated_cpus",
        default=0,
        min=0,
        help="CPUs of each NUMA cell that are set aside for vcpus with a CPU of their own; 0 sets none aside, then all "
        "CPUs serve both kinds. Related: numa_cells.",
    ),
    cfg.IntOpt(
        "numa_huge_pages",
        default=0,
        min=0,
        help="Huge pages of 2 MiB in each NUMA cell; 0 reports no page sizes. Related: numa_cells.",
    ),
    cfg.MultiStrOpt(
        "pci_devices",
        default=[],
        help="PCI devices of each node that are alike, as JSON with count, and of vendor_id, product_id, dev_type, "
        'numa_node and others what applies. May be given several times. Example: {"count": 4, "vendor_id": "8086", '
        '"product_id": "1520", "dev_type": "type-VF", "numa_node": 0}.',
    ),
    cfg.StrOpt("architecture", default="x86_64", help="Architecture that the nodes say their instances can have."),
    cfg.FloatOpt("spawn_delay", default=0.0, min=0.0, help="Seconds that each spawn takes."),
    cfg.FloatOpt(
        "spawn_failure_rate",
        default=0.0,
        min=0.0,
        max=1.0,
        help="Share of spawns that fail. Which ones is decided by seed, host, instance and attempt, not by order.",
    ),
    cfg.ListOpt(
        "failing_hosts",
        default=[],
        help="Hosts, as shell patterns such as host1*, on which every spawn fails.",
    ),
    cfg.IntOpt("seed", default=0, help="Another value makes other spawns fail. Related: spawn_failure_rate."),
    cfg.BoolOpt(
        "persist",
        default=False,
        help="Keep the guests' records under instances_path, so that guests survive their agent as real ones do.",
    ),
]

LOCAL_OPTS = [
    cfg.ListOpt(
        "guest_command",
        default=["sleep", "infinity"],
        help="Command, one argument an element, that the supervisor of each instance runs and starts again when it "
        "ends. It runs in the instance's directory with FLEET_INSTANCE_UUID, FLEET_VCPUS and FLEET_MEMORY_MB set, PATH, "
        "LANG and HOME, and nothing else of the agent's environment.",
    ),
    cfg.StrOpt(
        "guest_user",
        default="",
        help="User that guests run as, with that user's groups. Empty: the agent's. Another user than the agent's needs an "
        "agent that runs as root. A guest then has a directory 'home' of its own, and cannot change what the agent keeps.",
    ),
    cfg.BoolOpt(
        "limit_memory",
        default=True,
        help="Limit the guest's address space (RLIMIT_AS) to the flavor's memory.",
    ),
    cfg.IntOpt(
        "start_timeout",
        default=30,
        min=1,
        help="Seconds within which a guest's supervisor must be up; otherwise the spawn has failed.",
    ),
    cfg.IntOpt(
        "destroy_timeout",
        default=10,
        min=1,
        help="Seconds that a guest is given to end by itself when it is destroyed, before it is killed.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_cli_opts(CLI_OPTS)
    conf.register_opts(AGENT_OPTS)
    conf.register_opts(CAPACITY_OPTS)
    for group, opts in _groups():
        conf.register_group(group)
        conf.register_opts(opts, group=group)


def _groups() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Made anew each time: a group keeps the values set on it, and two configurations must not share them."""
    return [
        (cfg.OptGroup("fake", title="Options of the driver fake: simulated hosts"), FAKE_OPTS),
        (cfg.OptGroup("local", title="Options of the driver local: processes on this machine"), LOCAL_OPTS),
    ]


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [
        ("DEFAULT", [*CLI_OPTS, *AGENT_OPTS, *CAPACITY_OPTS]),
        *_groups(),
    ]
