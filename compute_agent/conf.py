# SPDX-License-Identifier: Apache-2.0
"""Options of the compute agent.

:mod:`compute_agent.main` registers them, and the sample file of the options lists them.
"""

from __future__ import annotations

from oslo_config import cfg

from compute_agent import driver_conf
from fleet.objects.guest_restarts import MOST_RESTARTS, MOST_SECONDS

#: guest_restart_exhausted
MOVE = "move"

CLI_OPTS = [
    cfg.ListOpt(
        "hosts",
        default=[],
        help="Names of the hosts that this process serves, each with its own queue, rows and capacity. An element is a "
        "name, a range such as host[001-050], or @FILE with one element a line. Empty: only the host of the option "
        "host. Use several hosts in one process for simulated fleets (compute_driver fake) and for controllers of "
        "remote hypervisors.",
    ),
]

AGENT_OPTS = [
    cfg.StrOpt(
        "compute_driver",
        default="local",
        help="Driver that runs the guests. local: a supervised process for each instance, with this machine's inventory. "
        "fake: simulated hosts with the inventory of group [fake], whose guests are records only; for trials and "
        "tests. libvirt: virtual machines, with the options of group [libvirt]; needs the extra libvirt of the package. "
        "Otherwise an entry point in fleet.compute.drivers, or the dotted path of a subclass of "
        "compute_agent.drivers.base.ComputeDriver. 'fleet host list' shows the driver of each host.",
    ),
    cfg.IntOpt(
        "max_concurrent_builds",
        default=10,
        min=0,
        help="Number of builds that run at the same time on one host; others wait. 0: no limit. Related: agent_threads.",
    ),
    cfg.IntOpt(
        "agent_threads",
        default=64,
        min=1,
        help="Number of threads for the builds and terminations of all hosts of this process. With many hosts in one "
        "process this limits concurrent builds before max_concurrent_builds does.",
    ),
    cfg.IntOpt(
        "claim_timeout",
        default=25,
        min=1,
        help="Seconds for which the agent repeats a claim, a failure report or a termination report that no conductor "
        "answers. After that it gives up, and the conductor's sweeper ends the step. Keep it below [conductor] "
        "placing_timeout.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=60,
        min=1,
        help="Seconds between two audits. An audit reads the inventory from the driver, compares guests with the ledger, "
        "searches for orphans, and reports what has changed. Usage does not depend on audits: claims change it at "
        "once.",
    ),
    cfg.IntOpt(
        "inventory_resend_interval",
        default=300,
        min=0,
        help="Seconds after which an unchanged inventory is reported again, in case the database has lost it. 0 reports it "
        "with each audit. Heartbeats are independent of it.",
    ),
    cfg.IntOpt(
        "scheduler_instance_sync_interval",
        default=120,
        deprecated_opts=[cfg.DeprecatedOpt("scheduler_instance_sync_interval", group="filter_scheduler")],
        help="Seconds between two messages that list the instances of this host to the schedulers. A scheduler with "
        "another list compares the host with the database. 0 or less: only at start. Related: "
        "scheduler_tracks_instance_changes.",
    ),
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        help="Monitors that measure with each audit. Their values are the metrics of every host of this process, for "
        "MetricsFilter and MetricsWeigher. cpu: cpu.percent, cpu.user.percent, cpu.kernel.percent, cpu.idle.percent, "
        "cpu.iowait.percent (shares, 0.0 to 1.0) and cpu.frequency (MHz). pressure: cpu.pressure and memory.pressure, the "
        "shares of the last minute in which work waited (PSI of Linux). guests: the loads of single guests, which are no "
        "metrics; only balancing reads them. Turn all three on where balancing shall see loads, not only allocations. "
        "Otherwise an entry point in fleet.compute.monitors, or the dotted path of a subclass of "
        "compute_agent.monitors.base.Monitor. Related: [metrics] weight_setting, [balance].",
    ),
    cfg.IntOpt(
        "driver_timeout",
        default=60,
        min=1,
        help="Seconds that the driver may take to destroy a guest, to switch it, or to attach or detach a volume. What "
        "takes longer has failed. The resources of a guest that is not destroyed stay counted on this host as an "
        "orphan's, and each audit tries again. A host takes no builds while its driver does not answer an audit for so "
        "long. Related: [conductor] spawn_timeout, which limits a spawn.",
    ),
    cfg.ListOpt(
        "volume_hosts",
        default=[],
        help="Machines of storage backends (the part of machine@backend before the @) whose volumes guests of this host may "
        "have: their files or block devices are here under the same paths, for example on a shared file system. An "
        "element may be a shell pattern; * stands for all. A machine with the name of this host is always one of them.",
    ),
    cfg.DictOpt(
        "host_labels",
        default={},
        help="Labels of this host, such as rack:r7,room:b,power:a2. The hosts with one value of a label are a failure "
        "domain: rules of server groups and 'fleet drill lose' refer to them. A key or a value has at most 63 "
        "characters; a host has at most 32 labels. The administrator's labels ('fleet host set --label') win.",
    ),
    cfg.StrOpt(
        "lost_guest_action",
        default="nothing",
        choices=[
            ("nothing", "The agent reports it and does nothing else."),
            (
                "restart",
                "The agent starts the guest at each audit until it runs. A guest that is gone cannot be started.",
            ),
            ("error", "The instance ends in ERROR with a fault. It stays on its host and keeps its resources."),
        ],
        help="What the agent does about a guest that does not run while its instance is ACTIVE: its process has ended, its "
        "machine was rebooted, or its disk is lost. The first audit that finds it reports it in the power state, an "
        "event, the log, a metric and a notification. The next audit that still finds it takes this action.",
    ),
    cfg.IntOpt(
        "guest_restart_limit",
        default=0,
        min=0,
        max=MOST_RESTARTS,
        help="With lost_guest_action = restart: how often a guest is started within guest_restart_window. If it is down "
        "once more, guest_restart_exhausted says what happens. 0: any number of times. Restarts are events of the instance: "
        "the restart of an agent does not begin the count anew.",
    ),
    cfg.StrOpt(
        "guest_restart_exhausted",
        default="error",
        choices=[
            ("error", "The instance ends in ERROR with a fault, and stays on its host with its resources."),
            (
                MOVE,
                "The instance moves to another host, once, as by 'fleet server migrate', and the move confirms itself. It "
                "ends in ERROR if it cannot move, if the move fails, or if the guest keeps dying there, too.",
            ),
        ],
        help="What happens to an instance whose guest was started guest_restart_limit times, and does not run. The host is "
        "up, so nothing is evacuated: the agent switches the guest off before another host starts it. Choose move if disks "
        "can follow a guest to another host; related: [libvirt] migration_uri.",
    ),
    cfg.IntOpt(
        "guest_restart_window",
        default=3600,
        min=1,
        max=MOST_SECONDS,
        help="Seconds for which a restart of a guest counts. Related: guest_restart_limit, guest_restart_wait.",
    ),
    cfg.IntOpt(
        "guest_restart_wait",
        default=10,
        min=0,
        max=MOST_SECONDS,
        help="Seconds between the first restart of a guest and the second, if it does not keep running. The wait doubles "
        "with each restart in guest_restart_window, and is at most as long as that.",
    ),
    cfg.IntOpt(
        "failed_builds_expiry",
        default=600,
        min=1,
        help="Seconds after the last failed build until the failures of a host are forgotten. A successful build on the "
        "host forgets them at once. Until then the host is weighed down. Related: build_failure_weight_multiplier.",
    ),
    cfg.StrOpt(
        "instances_path",
        default="/var/lib/fleet/instances",
        help="Directory for the records and logs of guests, and for the identity of each host that the agent serves. The "
        "driver local reports the size of its file system as the host's disk. It must survive a restart of the agent. "
        "Never copy it to another machine.",
    ),
]

CAPACITY_OPTS = [
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        help="Memory in MB that is reserved for the host itself, on every node. Instances do not get it, and no ratio "
        "applies to it.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        help="Disk in MB that is reserved for the host itself, on every node, rounded up to whole GB.",
    ),
    cfg.IntOpt(
        "reserved_host_cpus", default=0, min=0, help="CPUs that are reserved for the host itself, on every node."
    ),
    cfg.FloatOpt(
        "cpu_allocation_ratio",
        default=0.0,
        min=0.0,
        help="Virtual CPUs that instances may have on this host for each CPU that is not reserved. 0.0 means 16.0.",
    ),
    cfg.FloatOpt(
        "ram_allocation_ratio",
        default=0.0,
        min=0.0,
        help="MB of memory that instances may have on this host for each MB that is not reserved. 0.0 means 1.5.",
    ),
    cfg.FloatOpt(
        "disk_allocation_ratio",
        default=0.0,
        min=0.0,
        help="GB of disk that instances may have on this host for each GB that is not reserved. 0.0 means 1.0.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_cli_opts(CLI_OPTS)
    conf.register_opts(AGENT_OPTS)
    conf.register_opts(CAPACITY_OPTS)
    for group, opts in driver_conf.groups():
        conf.register_group(group)
        conf.register_opts(opts, group=group)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [
        ("DEFAULT", [*CLI_OPTS, *AGENT_OPTS, *CAPACITY_OPTS]),
        *driver_conf.groups(),
    ]
