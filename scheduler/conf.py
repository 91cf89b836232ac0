# SPDX-License-Identifier: Apache-2.0
"""The scheduler's options: nova's names of the Liberty era in [DEFAULT]; its later names are accepted as aliases.

Registered by :mod:`scheduler.compute.conf` and :mod:`scheduler.nova.service`.
"""

from __future__ import annotations

from oslo_config import cfg

from fleet import domains


def _later(name: str, group: str = "filter_scheduler") -> list[cfg.DeprecatedOpt]:
    """The name that nova gave to an option later."""
    return [cfg.DeprecatedOpt(name, group=group)]


DRIVER_OPTS = [
    domains.option(
        "scheduler_domains",
        "What this scheduler places: compute for virtual machines, volume for volumes. Each has a topic and a cache of "
        "its own. Name one of them to divide the work among daemons. Related: conductor_domains.",
    ),
    cfg.StrOpt(
        "scheduler_driver",
        default="scheduler.filter_scheduler.FilterScheduler",
        deprecated_opts=_later("driver", "scheduler"),
        help="How hosts are chosen. filter_scheduler: filters and weighers, with host states that are current for each "
        "request. caching_scheduler: the same, with host states that are refreshed only every "
        "scheduler_driver_task_period. chance_scheduler: a random host that is up. Or the dotted path of your own "
        "class.",
    ),
    cfg.StrOpt(
        "scheduler_host_manager",
        default="host_manager",
        deprecated_opts=_later("host_manager", "scheduler"),
        help="Class that keeps the host states: host_manager, or the dotted path of a subclass of "
        "scheduler.host_manager.HostManager with the same constructor. Change it only for a scheduler driver of your "
        "own that needs other host states.",
    ),
    cfg.IntOpt(
        "scheduler_driver_task_period",
        default=60,
        min=1,
        deprecated_opts=_later("periodic_task_interval", "scheduler"),
        help="Seconds between two runs of the driver's periodic task, in which caching_scheduler refreshes its host "
        "states.",
    ),
    cfg.IntOpt(
        "scheduler_compare_period",
        default=300,
        min=1,
        help="Seconds between two full comparisons of the cached host states with the database. They run in the background "
        "and repair whatever the change feed has missed.",
    ),
    cfg.IntOpt(
        "scheduler_tolerance_interval",
        default=5,
        min=0,
        help="Seconds between two proofs of what 'fleet tolerance set' has promised, if there is a promise and the fleet "
        "has changed. After a proof the scheduler rests 20 times as long as it took, 30 s at most. 0 never proves, and then "
        "no placement is held to a promise. Raise it if the proofs of a large fleet delay decisions. It is also the time "
        "for which two schedulers may overlook that both have taken room which was kept.",
    ),
    cfg.IntOpt(
        "scheduler_booking_timeout",
        default=300,
        min=1,
        help="Seconds after which a booking expires if the database does not show the instance. Set it above the time that "
        "a build may wait in a host's queue. If it is too low, the scheduler chooses hosts that then refuse the "
        "claim.",
    ),
    cfg.IntOpt(
        "scheduler_workers",
        default=1,
        min=1,
        deprecated_opts=_later("workers", "scheduler"),
        help="Number of worker processes, each with its own cache. Schedulers on any number of machines share the work. "
        "Two of them may choose the same resources; the host's claim decides, and the other build goes to its next "
        "alternate. Related: scheduler_prefer_own_hosts.",
    ),
    cfg.BoolOpt(
        "scheduler_prefer_own_hosts",
        default=True,
        help="Whether several schedulers divide the hosts. Each worker process prefers its own share of the hosts, so "
        "that two of them seldom choose the same resources. Where no host of its share passes the filters, it chooses "
        "among all hosts, so no request is refused for it. Workers also send each other their bookings. A single worker "
        "process is not affected. Set it to the same value for all schedulers. It has no effect in the place of "
        "nova-scheduler. False lets each worker choose the best of all hosts; more claims are then refused.",
    ),
]

PLUGIN_OPTS = [
    cfg.MultiStrOpt(
        "scheduler_plugin_directories",
        default=[],
        help="Directory with files of filters and weighers that were written for nova or cinder. They run as they are. A "
        "class of the file my_filter.py has the dotted path my_filter.MyFilter, or FOLDER.my_filter.MyFilter if the file is "
        "in a folder of the directory. The names of nova and cinder that such files import stand for classes of fleet. The "
        "scheduler does not start with it where nova or cinder is installed. May be given several times. Plugins that "
        "import scheduler.filters do not need it. Related: scheduler_additional_filters, scheduler_weight_classes.",
    ),
]

FAILURE_OPTS = [
    cfg.StrOpt(
        "scheduler_filter_error_policy",
        mutable=True,
        default="fail",
        choices=[
            ("fail", "The request is refused with an error that names the filter or weigher and what it did."),
            ("skip", "The request is decided without the filter or weigher; the answer and the log name it."),
        ],
        help="What happens to a request when a filter or weigher raises an exception, returns a wrong value (a wrong type, "
        "NaN), or does not return within scheduler_plugin_timeout. Other requests are not affected. With 'skip' an "
        "instance may be placed where a working filter would not allow it.",
    ),
    cfg.FloatOpt(
        "scheduler_slow_filter_threshold",
        mutable=True,
        default=250.0,
        min=0,
        help="Milliseconds that a filter or weigher may take for all hosts of a request. If it takes longer, a WARNING "
        "names it. No other request is decided meanwhile. 0 never warns.",
    ),
    cfg.FloatOpt(
        "scheduler_plugin_timeout",
        mutable=True,
        default=10.0,
        min=0,
        help="Seconds that a filter or weigher of your own may take for all hosts of a request. After that the log names "
        "it and its place in the code, and its request ends as scheduler_filter_error_policy says. Later requests end the "
        "same way at once, until it returns or the service is restarted. Built-in filters and weighers have no time limit. "
        "0 waits without limit, and calls it in the request's own thread, which is a little faster.",
    ),
    cfg.IntOpt(
        "scheduler_max_state_age",
        default=60,
        min=0,
        help="Seconds for which the scheduler decides with its last host states if it cannot read the database; its log "
        "says STALE. After that it refuses requests. The hosts check such claims all the same. 0 refuses at once.",
    ),
    cfg.StrOpt(
        "scheduler_json_config_location",
        default="",
        help="JSON file whose content your own filters and weighers find as config_options in the filter properties. It is "
        "read again when it changes. A file that cannot be read counts as empty. Empty: no file.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, opts in list_opts():
        conf.register_opts(opts, group=None if group == "DEFAULT" else group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options that schedulers of every domain have."""
    return [("DEFAULT", [*DRIVER_OPTS, *PLUGIN_OPTS, *FAILURE_OPTS])]
