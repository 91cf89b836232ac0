# SPDX-License-Identifier: Apache-2.0
"""The scheduler's options for volumes: cinder's names, in group ``[volume]``. Registered by :mod:`scheduler.main`."""

from __future__ import annotations

from oslo_config import cfg

from scheduler.volumes.domain import default_plugins

GROUP = "volume"

DRIVER_OPTS = [
    cfg.StrOpt(
        "scheduler_driver",
        default="filter_scheduler",
        help="How pools are chosen. filter_scheduler: filters and weighers. chance_scheduler: a random pool of a backend "
        "that is up. simple_scheduler: the backend with the fewest GiB of volumes, up to max_gigabytes. Or the dotted path "
        "of your own class. Cinder's dotted paths of these three work too.",
    ),
    cfg.IntOpt(
        "max_gigabytes",
        default=10000,
        min=0,
        mutable=True,
        help="Most GiB of volumes that simple_scheduler places on one backend. Other drivers do not read it.",
    ),
]

PLUGIN_OPTS = [
    cfg.ListOpt(
        "scheduler_default_filters",
        default=list(default_plugins.FILTERS),
        mutable=True,
        help="Filters that every pool must pass to get a volume, in their order: class names of built-in filters, or dotted "
        "paths of your own. RetryFilter is another name of IgnoreAttemptedHostsFilter. Cinder's default has no "
        "IgnoreAttemptedHostsFilter.",
    ),
    cfg.ListOpt(
        "scheduler_default_weighers",
        default=list(default_plugins.WEIGHERS),
        mutable=True,
        help="Weighers that rate the pools that pass: class names of built-in weighers, or dotted paths of your own.",
    ),
    cfg.StrOpt(
        "scheduler_weight_handler",
        default="ordered",
        choices=[
            ("ordered", "The pool with the highest weight gets the volume."),
            (
                "stochastic",
                "A pool is drawn at random; its chance is its part of the sum of all weights. Raw weights count, so use "
                "weighers that give no negative ones.",
            ),
        ],
        mutable=True,
        help="How a pool is chosen by its weight. Cinder's class names OrderedHostWeightHandler and "
        "StochasticHostWeightHandler are ordered and stochastic here.",
    ),
]

WEIGHT_OPTS = [
    cfg.FloatOpt(
        "capacity_weight_multiplier",
        default=1.0,
        mutable=True,
        help="Multiplier of CapacityWeigher, the free space of a pool. A negative number stacks volumes.",
    ),
    cfg.FloatOpt(
        "allocated_capacity_weight_multiplier",
        default=-1.0,
        mutable=True,
        help="Multiplier of AllocatedCapacityWeigher, the GiB of the volumes on a pool. A positive number stacks volumes.",
    ),
    cfg.FloatOpt(
        "volume_number_multiplier",
        default=-1.0,
        mutable=True,
        help="Multiplier of VolumeNumberWeigher, the number of volumes on a pool. A positive number stacks volumes.",
    ),
]

RULE_OPTS = [
    cfg.BoolOpt(
        "cinder_equations",
        default=False,
        mutable=True,
        help="Compute filter_function and goodness_function exactly as cinder does: a chain of 'and' or 'or' reads its "
        "first two operands, a chain of '? :' its first three parts, a number that is looked up loses its fraction, a "
        "number in quotes is a text, and a text times a number is that text repeatedly. Set it only for equations that were "
        "written around this.",
    ),
    cfg.BoolOpt(
        "migrate_across_zones",
        default=True,
        mutable=True,
        help="Whether a migration may leave the availability zone of its volume, as in cinder. The volume then has the zone "
        "of its destination. If not, AvailabilityZoneFilter drops pools of other zones. Set it to false if guests reach the "
        "volumes of their own zone only.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, opts in list_opts():
        conf.register_opts(opts, group=group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options, for oslo-config-generator."""
    return [(GROUP, [*DRIVER_OPTS, *PLUGIN_OPTS, *WEIGHT_OPTS, *RULE_OPTS])]
