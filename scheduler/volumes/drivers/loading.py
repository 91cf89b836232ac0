# SPDX-License-Identifier: Apache-2.0
"""Load filters, weighers and the driver of the configuration.

Called by :mod:`scheduler.volumes.service`. A wrong name stops the service at start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from oslo_config import cfg

from fleet import errors
from scheduler.engine import plugins
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.supervision.supervision import PluginWatch
from scheduler.loading import named_classes, plugin_files
from scheduler.volumes import filters, weights
from scheduler.volumes.domain.domain import POOLS
from scheduler.volumes.drivers.driver import Scheduler
from scheduler.volumes.filters.restrictions import BackendUpFilter, WantedBackendFilter
from scheduler.why import refusal

Base = TypeVar("Base", bound=plugins.Plugin)
#: Filters that run before those of the configuration.
_ALWAYS: tuple[type[plugins.BaseHostFilter[Any]], ...] = (WantedBackendFilter, BackendUpFilter)
#: Names by which cinder's configurations know a built-in class.
_OTHER_NAMES: Mapping[str, str] = {"RetryFilter": "IgnoreAttemptedHostsFilter"}
#: Cinder's classes have the same names here: filters and weighers in packages, drivers in modules of the same names.
_CINDER, _HERE, _DRIVERS = "cinder.scheduler.", "scheduler.volumes.", "scheduler.volumes.drivers."
DRIVERS: Mapping[str, str] = {
    "filter_scheduler": "scheduler.volumes.drivers.filter_scheduler.FilterScheduler",
    "chance_scheduler": "scheduler.volumes.drivers.chance.ChanceScheduler",
    "simple_scheduler": "scheduler.volumes.drivers.simple.SimpleScheduler",
}


def load_pipeline(conf: cfg.ConfigOpts) -> Pipeline:
    """Return the pipeline that the configuration describes. :raises errors.ConfigError: a name leads nowhere"""
    plugin_files.install(conf)
    options = conf.volume
    chosen = _classes(options, "scheduler_default_filters", plugins.BaseHostFilter, filters.CLASSES)
    raters = _classes(options, "scheduler_default_weighers", plugins.BaseHostWeigher, weights.CLASSES)
    named_classes.distinct("filters", dict.fromkeys([*_ALWAYS, *chosen], "[volume] scheduler_default_filters"))
    named_classes.distinct("weighers", dict.fromkeys(raters, "[volume] scheduler_default_weighers"))
    lottery = options.scheduler_weight_handler == "stochastic"
    return Pipeline(
        # The chances of a lottery are raw weights.
        domain=dataclasses.replace(POOLS, defaults=dataclasses.replace(POOLS.defaults, normalisation="none"))
        if lottery
        else POOLS,
        # What the request names comes first: pools that it does not want explain nothing.
        filters=[
            *(cls.from_conf(conf) for cls in _ALWAYS),
            *(named_classes.make(each, conf, "[volume] scheduler_default_filters") for each in chosen),
        ],
        weighers=[named_classes.make(each, conf, "[volume] scheduler_default_weighers") for each in raters],
        explain_refusal=refusal.explain,
        alternates=conf.scheduler_max_attempts - 1,
        lottery=lottery,
        watch=PluginWatch(
            conf.scheduler_filter_error_policy,
            conf.scheduler_slow_filter_threshold,
            limit_s=conf.scheduler_plugin_timeout,
        ),
    )


def load_driver_class(conf: cfg.ConfigOpts) -> type[Scheduler]:
    """Return the class of ``[volume] scheduler_driver``. :raises errors.ClassNotFound:"""
    name = conf.volume.scheduler_driver
    return named_classes.subclass(Scheduler, _here(DRIVERS.get(name, name), _DRIVERS), "[volume] scheduler_driver")


def _classes(options: Any, option: str, base: type[Base], built_in: Sequence[type[Base]]) -> list[type[Base]]:
    known = {cls.__name__: cls for cls in built_in}
    wanted = [_OTHER_NAMES.get(name, name) for name in named_classes.entries(options[option])]
    unknown = [name for name in wanted if name not in known and "." not in name]
    if unknown:
        reason = f"known are {', '.join(known)}, and dotted paths of classes of your own"
        raise errors.ClassNotFound(option=f"[volume] {option}", class_name=", ".join(unknown), reason=reason)
    return [
        known[name] if name in known else named_classes.subclass(base, name, f"[volume] {option}") for name in wanted
    ]


def _here(path: str, package: str = _HERE) -> str:
    return package + path.removeprefix(_CINDER) if path.startswith(_CINDER) else path
