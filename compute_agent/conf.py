# SPDX-License-Identifier: Apache-2.0
"""Options of the compute agent.

:mod:`compute_agent.main` registers them, and the sample file of the options lists them.
"""

from __future__ import annotations

from oslo_config import cfg

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
        default=60,
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
        "orphan's, and each audit tries again. Related: [conductor] spawn_timeout, which limits a spawn.",
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

FAKE_OPTS = [
    cfg.IntOpt(
        "fake_nodes",
        default=1,
        min=1,
        help="Number of nodes of each host. With 1 the node has the host's name. With more the nodes are HOST-1, HOST-2 "
        "and so on.",
    ),
    cfg.IntOpt("vcpus", default=64, min=1, help="CPUs of each node."),
    cfg.IntOpt("memory_mb", default=262144, min=1, help="Memory of each node in MB."),
    cfg.IntOpt("local_gb", default=4000, min=0, help="Disk of each node in GB."),
    cfg.IntOpt(
        "numa_cells",
        default=0,
        min=0,
        help="Number of NUMA cells among which each node's CPUs and memory are divided. 0 reports no topology.",
    ),
    cfg.IntOpt(
        "numa_threads_per_core",
        default=1,
        min=1,
        help="Threads of each core. If there are several, they are reported as siblings. Related: numa_cells.",
    ),
    cfg.IntOpt(
        "numa_dedicated_cpus",
        default=0,
        min=0,
        help="CPUs of each NUMA cell that are reserved for dedicated vcpus. 0 reserves none; all CPUs then serve both "
        "kinds. Related: numa_cells.",
    ),
    cfg.IntOpt(
        "numa_huge_pages",
        default=0,
        min=0,
        help="Huge pages of 2 MiB in each NUMA cell. 0 reports no page sizes. Related: numa_cells.",
    ),
    cfg.MultiStrOpt(
        "pci_devices",
        default=[],
        help="PCI devices of each node, as JSON for one kind of device: count, and any of vendor_id, product_id, dev_type, "
        'numa_node and others. May be given several times. Example: {"count": 4, "vendor_id": "8086", "product_id": '
        '"1520", "dev_type": "type-VF", "numa_node": 0}.',
    ),
    cfg.StrOpt("architecture", default="x86_64", help="Architecture that the nodes report for instances."),
    cfg.ListOpt(
        "bridges",
        default=[],
        help="Bridges that the nodes report, such as br0,br1: the scheduler places no guest of another network there. "
        "Empty: guests of all networks. Addresses are accounted in any case.",
    ),
    cfg.FloatOpt("spawn_delay", default=0.0, min=0.0, help="Seconds that each spawn takes."),
    cfg.ListOpt(
        "guest_loads",
        default=[],
        help="How busy guests are, such as busy*:0.9,*:0.1: patterns of names of instances, with the share of their vcpus "
        "that they use. The first that fits counts; others are idle. With compute_monitors = guests the host reports it.",
    ),
    cfg.FloatOpt("live_migration_delay", default=0.0, min=0.0, help="Seconds that each live migration takes."),
    cfg.FloatOpt(
        "spawn_failure_rate",
        default=0.0,
        min=0.0,
        max=1.0,
        help="Share of spawns that fail, from 0.0 to 1.0. Seed, host, instance and attempt decide which ones, independent "
        "of the order.",
    ),
    cfg.ListOpt(
        "failing_hosts",
        default=[],
        help="Hosts on which every spawn fails, as shell patterns such as host1*.",
    ),
    cfg.IntOpt(
        "seed",
        default=0,
        help="Seed of the random failures. Another value makes other spawns fail. Related: spawn_failure_rate.",
    ),
    cfg.BoolOpt(
        "persist",
        default=False,
        help="Whether the records of guests are kept in instances_path. The guests then survive a restart of their agent, "
        "as real ones do.",
    ),
]

LOCAL_OPTS = [
    cfg.ListOpt(
        "guest_command",
        default=["sleep", "infinity"],
        help="Command of each instance, one argument an element. A supervisor runs it, and starts it again when it ends. "
        "It runs in the instance's directory with FLEET_INSTANCE_UUID, FLEET_VCPUS, FLEET_MEMORY_MB, PATH, LANG and "
        "HOME, and nothing else of the agent's environment.",
    ),
    cfg.StrOpt(
        "guest_user",
        default="",
        help="User that guests run as, with the groups of this user. Empty: the agent's own user. For another user the "
        "agent must run as root. Each guest then has a directory 'home' of its own, and cannot change the agent's "
        "files.",
    ),
    cfg.BoolOpt(
        "limit_memory",
        default=True,
        help="Whether the guest's address space (RLIMIT_AS) is limited to the memory of the flavor.",
    ),
    cfg.IntOpt(
        "start_timeout",
        default=30,
        min=1,
        help="Seconds within which the supervisor of a guest must be up. Otherwise the spawn has failed.",
    ),
    cfg.IntOpt(
        "destroy_timeout",
        default=10,
        min=1,
        help="Seconds that a guest has to end by itself when it is destroyed. After that it is killed.",
    ),
]

LIBVIRT_OPTS = [
    cfg.StrOpt(
        "connection_uri",
        default="",
        help="Address of libvirt. Empty: qemu:///system. It must be on this machine, because the agent makes the disks of "
        "guests as files.",
    ),
    cfg.StrOpt(
        "virt_type",
        default="kvm",
        choices=[
            ("kvm", "Guests run on the processors of this machine, which must allow it (/dev/kvm)."),
            ("qemu", "Guests run in an emulation, which is many times slower and works everywhere."),
        ],
        help="How guests run. An agent whose machine cannot do it does not start.",
    ),
    cfg.StrOpt(
        "cpu_mode",
        default="none",
        choices=[
            ("none", "The processor that the hypervisor gives by default. It is the same on all hosts."),
            ("host-model", "Nearly the features of the host's processor, by libvirt's models."),
            ("host-passthrough", "The host's processor as it is. Only with virt_type = kvm."),
        ],
        help="Processor that guests see.",
    ),
    cfg.IntOpt(
        "memory_overhead_mb",
        default=0,
        min=0,
        help="Memory in MB that each guest needs besides that of its flavor, for QEMU itself. Claims include it. Related: "
        "reserved_host_memory_mb, which is for the whole host.",
    ),
    cfg.ListOpt(
        "pci_devices",
        default=[],
        help="PCI devices of this machine that guests may have: addresses such as 0000:81:00.1, and VENDOR:PRODUCT such as "
        "8086:10ed for all devices of a kind. libvirt takes a device from its driver when a guest with it starts, so name "
        "none that the machine needs. [pci] alias of the conductor gives users a name for them.",
    ),
    cfg.ListOpt(
        "bridges",
        default=[],
        help="Bridges of this machine that guests may be plugged into, such as br0,br1: the scheduler places no guest of "
        "another network here. Empty: all bridges that the machine has. Related: 'fleet network create --bridge'.",
    ),
    cfg.IntOpt(
        "shutdown_timeout",
        default=30,
        min=0,
        help="Seconds that a guest has to shut down after its power button was pressed, when it is stopped or rebooted. "
        "After that it is switched off. Keep it below driver_timeout. 0: guests are switched off at once.",
    ),
    cfg.StrOpt(
        "migration_uri",
        default="",
        help="Address of the libvirt of another host, with %s for the host's name, such as qemu+tls://%s/system or "
        "qemu+ssh://root@%s/system. Disks of guests that are resized or migrated are read through it. Set it on all hosts, "
        "or on none: then guests stay on their host. It needs libvirt's storage driver.",
    ),
    cfg.StrOpt(
        "migration_data_uri",
        default="",
        help="Address at which QEMU receives running guests from other hosts, with %s for the name of the receiving host, "
        "such as tcp://%s.data.example.org. Empty: the host name that its libvirt has. Set the same on all hosts.",
    ),
    cfg.BoolOpt(
        "live_migration_with_native_tls",
        default=False,
        help="Encrypt the memory and disks of running guests that move to another host. QEMU needs certificates on both: "
        "see default_tls_x509_cert_dir in libvirt's qemu.conf. Otherwise they cross the network in clear text.",
    ),
    cfg.IntOpt(
        "live_migration_bandwidth",
        default=0,
        min=0,
        help="MiB a second that memory and disks of a running guest may take of the network while it leaves this host. "
        "0: as much as there is. A copy that is slower than the guest writes does not end: it is aborted after "
        "[conductor] move_timeout.",
    ),
    cfg.BoolOpt(
        "live_migration_permit_auto_converge",
        default=True,
        help="Slow a guest down that changes its memory faster than the network carries it away, until the copy ends. It "
        "has no effect with live_migration_permit_post_copy.",
    ),
    cfg.BoolOpt(
        "live_migration_permit_post_copy",
        default=False,
        help="Let a guest continue on its new host before all of its memory is there, once it was sent and has changed "
        "meanwhile; the rest follows when it is used. Each migration then ends, and no guest is slowed down. The price: "
        "if a host or the network between them fails meanwhile, the guest stands still until the connection is back, and is "
        "lost if one of the hosts is. Needs a kernel with userfaultfd (vm.unprivileged_userfaultfd = 1) on the hosts.",
    ),
    cfg.StrOpt(
        "shared_storage",
        default="",
        help="Name of the storage that instances_path is on, if hosts share it, such as an NFS export. Guests of a dead "
        "host are evacuated only to hosts with the same name, which start them from their own disks. Empty: instances_path "
        "is on this machine alone, and evacuated guests are made anew from their images. Set it before the host has guests.",
    ),
    cfg.IntOpt(
        "device_detach_timeout",
        default=20,
        min=1,
        help="Seconds that a guest has to release a volume that is detached while it runs. After that the volume stays "
        "attached. Keep it below driver_timeout.",
    ),
    cfg.IntOpt(
        "remove_unused_original_minimum_age_seconds",
        default=86400,
        min=0,
        help="Seconds after its last use until the data of an image that no guest on this host has are removed from the "
        "cache below instances_path. Audits do that.",
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
    """Create the groups anew for each caller: a group keeps the values set on it."""
    return [
        (cfg.OptGroup("fake", title="Options of the driver fake: simulated hosts"), FAKE_OPTS),
        (cfg.OptGroup("libvirt", title="Options of the driver libvirt: virtual machines"), LIBVIRT_OPTS),
        (cfg.OptGroup("local", title="Options of the driver local: processes on this machine"), LOCAL_OPTS),
    ]


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [
        ("DEFAULT", [*CLI_OPTS, *AGENT_OPTS, *CAPACITY_OPTS]),
        *_groups(),
    ]
