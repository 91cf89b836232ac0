# SPDX-License-Identifier: Apache-2.0
"""The scheduler's options: nova's names of the Liberty era in [DEFAULT]; its later names are accepted as aliases."""

from __future__ import annotations

from oslo_config import cfg

from scheduler.filters import conf as filters
from scheduler.weights import conf as weights


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
    cfg.StrOpt(
        "scheduler_host_manager",
        default="host_manager",
        deprecated_opts=_later("host_manager", "scheduler"),
        help="The class that keeps the host states: host_manager, or a dotted path of a subclass of "
        "scheduler.host_manager.HostManager with the same constructor. Change it only for a driver of your own that "
        "needs other host states.",
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
        mutable=True,
        default="fail",
        choices=[
            ("fail", "The request is refused with an error that names the filter or weigher and what it did."),
            ("skip", "The request is decided without the filter or weigher; the answer and the log name it."),
        ],
        help="What becomes of a request when a filter or weigher raises, answers with what it must not (a wrong type, "
        "not a number), or does not answer within scheduler_plugin_timeout. Other requests are not affected either way. "
        "'skip' may place an instance where a filter that works would not have let it go.",
    ),
    cfg.FloatOpt(
        "scheduler_slow_filter_threshold",
        mutable=True,
        default=250.0,
        min=0,
        help="Milliseconds that a filter or weigher may take over all hosts of a request before a WARNING names it. "
        "While one is asked, no other request is decided. 0 never warns.",
    ),
    cfg.FloatOpt(
        "scheduler_plugin_timeout",
        mutable=True,
        default=10.0,
        min=0,
        help="Seconds that a filter or weigher of your own may take over all hosts of a request. The log names one that "
        "takes longer, and where it is; its request ends as scheduler_filter_error_policy says, and so do later ones, at "
        "once, until it has answered or the service is restarted. What comes with the scheduler is not timed. 0 waits "
        "for ever, and asks in the request's own thread: a little quicker.",
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


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, opts in list_opts():
        conf.register_opts(opts, group=None if group == "DEFAULT" else group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options, for oslo-config-generator."""
    return [("DEFAULT", [*DRIVER_OPTS, *FAILURE_OPTS]), *filters.list_opts(), *weights.list_opts()]
