# SPDX-License-Identifier: Apache-2.0
"""Options of the drivers, each in a group of its name. :mod:`compute_agent.conf` registers them."""

from __future__ import annotations

from oslo_config import cfg

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
        "is on this machine alone, and evacuated guests are made anew from their images. Set it before the host has guests, "
        "and make the directory libvirt/hosts of instances_path on the storage, once: an agent that does not find it does "
        "not start, since the storage is not mounted.",
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


def groups() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Create the groups anew for each caller: a group keeps the values set on it."""
    return [
        (cfg.OptGroup("fake", title="Options of the driver fake: simulated hosts"), FAKE_OPTS),
        (cfg.OptGroup("libvirt", title="Options of the driver libvirt: virtual machines"), LIBVIRT_OPTS),
        (cfg.OptGroup("local", title="Options of the driver local: processes on this machine"), LOCAL_OPTS),
    ]
