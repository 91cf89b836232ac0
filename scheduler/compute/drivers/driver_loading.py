# SPDX-License-Identifier: Apache-2.0
"""Load the driver and the host manager of the configuration. A class that cannot work stops the service at start.

Called by :mod:`scheduler.compute.service`, and by :mod:`scheduler.checks` before a daemon starts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from fleet import errors
from fleet.clock import Clock, utcnow
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.dict_driver import DictDriver
from scheduler.compute.drivers.driver import Notifier, Scheduler
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.loading import named_classes, plugin_files
from scheduler.state.host_manager import Feed

DRIVERS = {
    "filter_scheduler": "scheduler.filter_scheduler.FilterScheduler",
    "caching_scheduler": "scheduler.caching_scheduler.CachingScheduler",
    "chance_scheduler": "scheduler.chance.ChanceScheduler",
}
HOST_MANAGERS = {"host_manager": "scheduler.host_manager.HostManager"}
_DRIVER, _HOST_MANAGER = "scheduler_driver", "scheduler_host_manager"


def load_driver_class(conf: cfg.ConfigOpts) -> type[Scheduler]:
    """Return the class of ``scheduler_driver``, a short name or a dotted path.

    :raises errors.ClassNotFound: there is no such class, or it is no driver that could be made and asked
    """
    plugin_files.install(conf)
    name = conf.scheduler_driver
    found = named_classes.subclass(Scheduler, DRIVERS.get(name, name), _DRIVER)
    if found.select_destinations is Scheduler.select_destinations:
        raise _unfit(_DRIVER, name, "it does not define select_destinations")
    if not (_takes(found.select_destinations, 3) or _takes(found.select_destinations, 4)):
        reason = (
            "its select_destinations takes neither (context, request_spec, filter_properties) nor (context, request)"
        )
        raise _unfit(_DRIVER, name, reason)
    if not (_takes(found.__init__, 4) or _takes(found.__init__, 1)):
        raise _unfit(_DRIVER, name, "its constructor takes neither (conf, host_manager, notifier) nor no arguments")
    return found


def load_host_manager_class(conf: cfg.ConfigOpts) -> type[HostManager]:
    """Return the class of ``scheduler_host_manager``: ``host_manager``, or a dotted path to a subclass of ours.

    :raises errors.ClassNotFound:
    """
    name = conf.scheduler_host_manager
    found = named_classes.subclass(HostManager, HOST_MANAGERS.get(name, name), _HOST_MANAGER)
    try:
        inspect.signature(found).bind("feed", "audit_feed", **dict.fromkeys(_OPTIONAL_ARGUMENTS))
    except TypeError as differs:
        reason = f"its constructor must take the arguments of scheduler.host_manager.HostManager: {differs}"
        raise _unfit(_HOST_MANAGER, name, reason) from None
    return found


_OPTIONAL_ARGUMENTS = ("clock", "booking_timeout_s", "service_down_time_s", "max_state_age_s")


def build_driver(
    conf: cfg.ConfigOpts,
    new_feed: Callable[[], Feed],
    notifier: Notifier,
    clock: Clock = utcnow,
    adapt: Callable[[type[HostManager]], type[HostManager]] = lambda found: found,
    elapsed_s: Callable[[], float] | None = None,
) -> Scheduler:
    """Return the configured driver over a cache of its own.

    :param new_feed: called twice: for the requests, and for the full comparison
    :param adapt: makes the class of the host manager from the configured one
    :param elapsed_s: seconds of a clock that is never stepped; None: those of ``clock``
    """
    host_manager = adapt(load_host_manager_class(conf))(
        new_feed(),
        new_feed(),
        clock=clock,
        booking_timeout_s=conf.scheduler_booking_timeout,
        service_down_time_s=conf.service_down_time,
        max_state_age_s=conf.scheduler_max_state_age,
    )
    # Set here: the constructor may be that of an operator's class, which takes no other arguments.
    host_manager.elapsed_s = elapsed_s or host_manager.elapsed_s
    host_manager.load_plugins = functools.partial(loading.load_plugins, conf)
    return make_driver(conf, host_manager, notifier)


def make_driver(conf: cfg.ConfigOpts, host_manager: HostManager, notifier: Notifier) -> Scheduler:
    """Make the configured driver; one with nova's signature is wrapped. :raises errors.ClassNotFound:"""
    found = load_driver_class(conf)
    if _takes(found.__init__, 4):
        driver = found(conf, host_manager, notifier)
    else:
        # Nova's constructor has no arguments: the driver finds its attributes set.
        driver = found.__new__(found)
        driver.conf, driver.host_manager, driver.notifier = conf, host_manager, notifier
        found.__init__(driver)
    # The built-in drivers take both forms.
    return driver if _takes(found.select_destinations, 3) else DictDriver(driver)


def _takes(function: Any, arguments: int) -> bool:
    """Return True if a function takes this number of positional arguments, ``self`` included."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except TypeError:
        return False
    return True


def _unfit(option: str, name: str, reason: str) -> errors.ClassNotFound:
    return errors.ClassNotFound(option=option, class_name=name, reason=reason)
