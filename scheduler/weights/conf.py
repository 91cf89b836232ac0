# SPDX-License-Identifier: Apache-2.0
"""The weighers' options: nova's names of the Liberty era; its later names are accepted as aliases.

Aggregate metadata named like a multiplier overrides it for the aggregate's hosts.
"""

from __future__ import annotations

from oslo_config import cfg

from scheduler.compute.virtual_machines import VIRTUAL_MACHINES


def _later(name: str) -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group="filter_scheduler")]


WEIGHT_OPTS = [
    cfg.ListOpt(
        "scheduler_weight_classes",
        default=list(VIRTUAL_MACHINES.default_weighers),
        deprecated_opts=_later("weight_classes"),
        help="Dotted paths of weigher classes, or of functions that return some. All of them are used.",
    ),
    cfg.IntOpt(
        "scheduler_host_subset_size",
        default=1,
        min=1,
        deprecated_opts=_later("host_subset_size"),
        help="The host is drawn from this many best ones. More than 1 makes several schedulers choose the same host "
        "less often, at the price of a second-best choice.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        deprecated_opts=_later("shuffle_best_same_weighed_hosts"),
        help="Whether hosts that share the best weight are put in random order before one is chosen. Set it where "
        "hosts are often equal (empty, or weighers turned off) and the first of them should not get everything.",
    ),
    cfg.FloatOpt(
        "ram_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("ram_weight_multiplier"),
        help="How much free memory counts. Positive spreads instances over hosts, negative stacks them.",
    ),
    cfg.FloatOpt(
        "disk_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("disk_weight_multiplier"),
        help="How much free disk counts. Positive spreads instances over hosts, negative stacks them.",
    ),
    cfg.FloatOpt(
        "cpu_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("cpu_weight_multiplier"),
        help="How much free vcpus count. Positive spreads instances over hosts, negative stacks them.",
    ),
    cfg.FloatOpt(
        "io_ops_weight_multiplier",
        default=-1.0,
        deprecated_opts=_later("io_ops_weight_multiplier"),
        help="How much builds and other heavy operations under way count. Negative prefers quiet hosts.",
    ),
    cfg.FloatOpt(
        "pci_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("pci_weight_multiplier"),
        help="How much it counts that a host has few free PCI devices. Instances without PCI requests keep off hosts that "
        "have devices, those with requests go where they are scarce.",
    ),
    cfg.FloatOpt(
        "soft_affinity_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("soft_affinity_weight_multiplier"),
        help="How much it counts that members of a server group with policy soft-affinity are on a host: they are brought "
        "together.",
    ),
    cfg.FloatOpt(
        "soft_anti_affinity_weight_multiplier",
        default=1.0,
        min=0,
        deprecated_opts=_later("soft_anti_affinity_weight_multiplier"),
        help="How much it counts that members of a server group with policy soft-anti-affinity are on a host: they are kept "
        "apart.",
    ),
    cfg.FloatOpt(
        "build_failure_weight_multiplier",
        default=1000000.0,
        deprecated_opts=_later("build_failure_weight_multiplier"),
        help="How much builds that failed on a host since its last success count against it. So large by default that such "
        "hosts are taken last.",
    ),
    cfg.FloatOpt(
        "hypervisor_version_weight_multiplier",
        default=1.0,
        deprecated_opts=_later("hypervisor_version_weight_multiplier"),
        help="How much the hypervisor's version counts. Positive prefers newer ones, negative older ones.",
    ),
    cfg.FloatOpt(
        "num_instances_weight_multiplier",
        default=0.0,
        deprecated_opts=_later("num_instances_weight_multiplier"),
        help="How much the number of instances on a host counts. Positive packs instances, negative spreads them.",
    ),
    cfg.FloatOpt(
        "image_props_weight_multiplier",
        default=0.0,
        deprecated_opts=_later("image_props_weight_multiplier"),
        help="How much it counts that instances on a host were made from images with the same properties. Positive brings "
        "such instances together, negative keeps them apart; 0 saves the work, whatever aggregates say. Related: "
        "image_props_weight_setting.",
    ),
    cfg.ListOpt(
        "image_props_weight_setting",
        default=[],
        deprecated_opts=_later("image_props_weight_setting"),
        help="Image properties that count, as name=factor. Empty, all of them count alike; otherwise the others do not.",
    ),
]

METRICS_GROUP = "metrics"
METRICS_OPTS = [
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="How much the weighted sum of a host's metrics counts. Aggregate metadata metrics_weight_multiplier "
        "overrides it.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        help="Metrics that count, as name=ratio: a host's raw weight is the sum of value times ratio. MetricsFilter "
        "drops the hosts that do not report all of them.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="Whether a request fails when a host that passed the filters does not report a metric. False gives such "
        "hosts weight_of_unavailable. Related: MetricsFilter.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="Raw weight of a host that does not report a metric, if they are not required. Put it below any real "
        "weight; it widens the range into which all weights are brought.",
    ),
]

# SIGHUP makes the filters and weighers anew, with all of these.
for _option in (*WEIGHT_OPTS, *METRICS_OPTS):
    _option.mutable = True


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [("DEFAULT", WEIGHT_OPTS), (METRICS_GROUP, METRICS_OPTS)]
