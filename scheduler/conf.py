# SPDX-License-Identifier: Apache-2.0
"""The scheduler's options: nova's names of the Liberty era in [DEFAULT]; its later names are accepted as aliases."""

from __future__ import annotations

from oslo_config import cfg


def _later(name: str, group: str = "filter_scheduler") -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group=group)]


DRIVER_OPTS = [
    cfg.StrOpt(
        "scheduler_driver",
        default="scheduler.filter_scheduler.FilterScheduler",
        deprecated_opts=_later("driver", "scheduler"),
        help="How hosts are chosen: a dotted path of a class, or filter_scheduler (filters and weighers over fresh "
        "host states), caching_scheduler (the same over host states that are refreshed every "
        "scheduler_driver_task_period only), chance_scheduler (any host that is up, at random).",
    ),
    cfg.IntOpt(
        "scheduler_driver_task_period",
        default=60,
        min=1,
        deprecated_opts=_later("periodic_task_interval", "scheduler"),
        help="Seconds between runs of the driver's periodic task. caching_scheduler refreshes its host states then.",
    ),
    cfg.IntOpt(
        "scheduler_compare_period",
        default=300,
        min=1,
        help="Seconds between full comparisons of the cached host states with the database. They run in the "
        "background, and repair what the change feed should ever miss.",
    ),
    cfg.IntOpt(
        "scheduler_booking_timeout",
        default=300,
        min=1,
        help="Seconds for which the room of a chosen host stays booked when the database shows nothing of the "
        "instance. Set it above the time that a build may wait in a host's queue; too low, and busy hosts are chosen "
        "that refuse the claim.",
    ),
    cfg.IntOpt(
        "scheduler_workers",
        default=1,
        min=1,
        deprecated_opts=_later("workers", "scheduler"),
        help="Worker processes. Each has a cache of its own; any number on any machines share the work. Two may choose "
        "the same room: the claim on the host decides, and the next alternate is taken.",
    ),
]

FAILURE_OPTS = [
    cfg.StrOpt(
        "scheduler_filter_error_policy",
        default="fail",
        choices=[
            ("fail", "The request is refused with an error that names the filter or weigher and what it did."),
            ("skip", "The request is decided without the filter or weigher; the answer and the log name it."),
        ],
        help="What becomes of a request when a filter or weigher raises, or answers with what it must not (a wrong "
        "type, not a number). Other requests are not affected either way. 'skip' may place an instance where a filter "
        "that works would not have let it go.",
    ),
    cfg.FloatOpt(
        "scheduler_slow_filter_threshold",
        default=250.0,
        min=0,
        help="Milliseconds that a filter or weigher may take over all hosts of a request before a WARNING names it. "
        "While one is asked, no other request is decided. 0 never warns.",
    ),
    cfg.IntOpt(
        "scheduler_max_state_age",
        default=60,
        min=0,
        help="Seconds for which requests are decided by what is known of the hosts when the database cannot be read; "
        "the log says STALE. After that they are refused. 0 refuses at once. A claim decided on stale states is still "
        "checked by its host.",
    ),
    cfg.StrOpt(
        "scheduler_json_config_location",
        default="",
        help="A JSON file whose content filters and weighers of your own find as config_options in the filter "
        "properties. It is read again when it changes; one that cannot be read counts as empty. Empty: none.",
    ),
]

FILTER_OPTS = [
    cfg.MultiStrOpt(
        "scheduler_available_filters",
        default=["scheduler.filters.all_filters"],
        deprecated_opts=_later("available_filters"),
        help="Dotted paths of filter classes, or of functions that return some, that scheduler_default_filters may "
        "name. May be given several times; a leading 'nova.' is dropped. To add filters of your own, repeat the "
        "default and name yours after it.",
    ),
    cfg.ListOpt(
        "scheduler_default_filters",
        default=[
            "RetryFilter",
            "AvailabilityZoneFilter",
            "RamFilter",
            "DiskFilter",
            "CoreFilter",
            "ComputeFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
        ],
        deprecated_opts=_later("enabled_filters"),
        help="Class names of the filters that a host must pass, in this order. An unknown name stops the service at "
        "start.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Zone of the hosts that no aggregate puts in one.",
    ),
]

WEIGHT_OPTS = [
    cfg.ListOpt(
        "scheduler_weight_classes",
        default=["scheduler.weights.all_weighers"],
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
]

OPTS = [*DRIVER_OPTS, *FAILURE_OPTS, *FILTER_OPTS, *WEIGHT_OPTS]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [("DEFAULT", OPTS)]
