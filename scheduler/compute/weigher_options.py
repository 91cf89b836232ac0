# SPDX-License-Identifier: Apache-2.0
"""The weighers' options: nova's names of the Liberty era; its later names are accepted as aliases.

Called by :mod:`scheduler.compute.conf`. Aggregate metadata named like a multiplier overrides it for the aggregate's
hosts.
"""

from __future__ import annotations

from oslo_config import cfg

from scheduler.compute.domain import default_plugins


def _later(name: str) -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group="filter_scheduler")]


WEIGHT_OPTS = [
    cfg.ListOpt(
        "scheduler_weight_classes",
        default=list(default_plugins.WEIGHERS),
        deprecated_opts=_later("weight_classes"),
        help="Class names of built-in weighers, or dotted paths of weigher classes or of functions that return weigher "
        "classes. The scheduler uses all of them.",
    ),
    cfg.IntOpt(
        "scheduler_host_subset_size",
        default=1,
        min=1,
        deprecated_opts=_later("host_subset_size"),
        help="The scheduler picks the host at random from this many best hosts. With more than 1, the choice may be the "
        "second best. Raise it if builds of the same moment should not all go to one host. Several schedulers divide "
        "the hosts instead: scheduler_prefer_own_hosts.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        deprecated_opts=_later("shuffle_best_same_weighed_hosts"),
        help="Whether hosts with the same best weight are put in random order before one is chosen. Set it if hosts are "
        "often equal (empty, or with weighers turned off), so that not all instances go to the first one.",
    ),
    cfg.FloatOpt(
        "ram_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("ram_weight_multiplier"),
        help="Weight of free memory. A positive value spreads instances over hosts, a negative one packs them.",
    ),
    cfg.FloatOpt(
        "disk_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("disk_weight_multiplier"),
        help="Weight of free disk. A positive value spreads instances over hosts, a negative one packs them.",
    ),
    cfg.FloatOpt(
        "cpu_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("cpu_weight_multiplier"),
        help="Weight of free vcpus. A positive value spreads instances over hosts, a negative one packs them.",
    ),
    cfg.FloatOpt(
        "io_ops_weight_multiplier",
        default=-1.0,
        deprecated_opts=_later("io_ops_weight_multiplier"),
        help="Weight of builds and other heavy operations under way. A negative value prefers hosts with few of them.",
    ),
    cfg.FloatOpt(
        "pci_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("pci_weight_multiplier"),
        help="Weight of having few free PCI devices. Instances without PCI requests then avoid hosts with devices, and "
        "instances with PCI requests prefer hosts with few free ones.",
    ),
    cfg.FloatOpt(
        "soft_affinity_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("soft_affinity_weight_multiplier"),
        help="Weight of the members of a soft-affinity server group on a host. A larger value keeps the group together "
        "more strongly.",
    ),
    cfg.FloatOpt(
        "soft_anti_affinity_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("soft_anti_affinity_weight_multiplier"),
        help="Weight of the members of a soft-anti-affinity server group on a host. A larger value keeps the group apart "
        "more strongly.",
    ),
    cfg.FloatOpt(
        "failure_domain_weight_multiplier",
        default=1.0,
        min=0,
        help="Weight of the preferences of server groups over labels of hosts: soft-affinity, soft-anti-affinity, "
        "soft-spread and should. Raise it if other weighers outweigh them. Related: 'fleet group create --rule'.",
    ),
    cfg.FloatOpt(
        "build_failure_weight_multiplier",
        default=1000000.0,
        deprecated_opts=_later("build_failure_weight_multiplier"),
        help="Weight of builds that have failed on a host since its last success; it counts against the host. The default "
        "is so large that such hosts are chosen last. Related: failed_builds_expiry.",
    ),
    cfg.FloatOpt(
        "hypervisor_version_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("hypervisor_version_weight_multiplier"),
        help="Weight of the hypervisor's version. A positive value prefers newer versions, a negative one older versions.",
    ),
    cfg.FloatOpt(
        "num_instances_weight_multiplier",
        default=0.0,
        deprecated_opts=_later("num_instances_weight_multiplier"),
        help="Weight of the number of instances on a host. A positive value packs instances, a negative one spreads them.",
    ),
    cfg.FloatOpt(
        "image_props_weight_multiplier",
        default=0.0,
        deprecated_opts=_later("image_props_weight_multiplier"),
        help="Weight of instances on a host that were made from images with the same properties. A positive value brings "
        "such instances together, a negative one keeps them apart. 0 turns the weigher off, whatever aggregates say. "
        "Related: image_props_weight_setting.",
    ),
    cfg.FloatOpt(
        "fragmentation_weight_multiplier",
        default=0.0,
        help="Weight of the room that an instance leaves for the flavors that the fleet is asked for. A positive value "
        "prefers hosts where fewer instances of other flavors no longer fit. 0 turns the weigher off, whatever aggregates "
        "say. Related: "
        "fragmentation_flavor_mix_file, [conductor] flavor_mix_half_life.",
    ),
    cfg.StrOpt(
        "fragmentation_flavor_mix_file",
        default="",
        help="JSON file with a fixed flavor mix, in place of the one that conductors learn: a list of objects with vcpus, "
        "memory_mb and disk_gb, with requests (a count or a share), and optionally with ended and hours (the instances "
        "that have ended, and the hours that they lived in all). It is read at start and when options are read again.",
    ),
    cfg.FloatOpt(
        "alignment_weight_multiplier",
        default=0.0,
        help="Weight of free vcpus and memory in the proportion that the instance asks for. A positive value leaves fewer "
        "vcpus without memory, and less memory without vcpus. 0 turns the weigher off, whatever aggregates say.",
    ),
    cfg.ListOpt(
        "image_props_weight_setting",
        default=[],
        deprecated_opts=_later("image_props_weight_setting"),
        help="Image properties that count, as name=factor. Empty: all properties count equally. Otherwise only the named "
        "ones count.",
    ),
]

METRICS_GROUP = "metrics"
METRICS_OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="Weight of the sum of a host's metrics. Aggregate metadata metrics_weight_multiplier overrides it.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Metrics that count, as name=ratio. The raw weight of a host is the sum of value times ratio. MetricsFilter "
        "drops hosts that do not report all of them.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="Whether a request fails if a host that passed the filters does not report one of the metrics. False gives "
        "such hosts weight_of_unavailable. Related: MetricsFilter.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="Raw weight of a host that does not report a metric, if metrics are not required. Set it below any real "
        "weight. It extends the range to which the raw weights are scaled.",
    ),
]

# SIGHUP makes the filters and weighers anew, with all of these.
for _option in (*WEIGHT_OPTS, *METRICS_OPTS):
    _option.mutable = True


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", WEIGHT_OPTS), (METRICS_GROUP, METRICS_OPTS)]
