# SPDX-License-Identifier: Apache-2.0
"""From names in the configuration to filters, weighers and a driver; a wrong name stops the service at start."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_utils import importutils

from fleet import errors
from scheduler import filters, weights

Base = TypeVar("Base")

DRIVERS = {
    "filter_scheduler": "scheduler.filter_scheduler.FilterScheduler",
    "caching_scheduler": "scheduler.caching_scheduler.CachingScheduler",
    "chance_scheduler": "scheduler.chance.ChanceScheduler",
}
#: Below these packages the class name alone decides, so that nova's module names (filters.ram_filter) work too.
_BUILTIN = {"scheduler.filters.": filters.CLASSES, "scheduler.weights.": weights.CLASSES}


def load_filters(conf: cfg.ConfigOpts) -> list[filters.BaseHostFilter]:
    """The filters of ``scheduler_default_filters``, each made once, in their order.

    :raises errors.FilterNotFound: naming all that are not available
    :raises errors.ClassNotFound: a path of ``scheduler_available_filters`` leads to no filter
    """
    option = "scheduler_available_filters"
    available = {
        cls.__name__: cls for cls in matching_classes(filters.BaseHostFilter, conf.scheduler_available_filters, option)
    }
    wanted = list(conf.scheduler_default_filters)
    unknown = [name for name in wanted if name not in available]
    if unknown:
        raise errors.FilterNotFound(filter_name=", ".join(unknown))
    made = {name: available[name].from_conf(conf) for name in dict.fromkeys(wanted)}
    return [made[name] for name in wanted]


def load_weighers(conf: cfg.ConfigOpts) -> list[weights.BaseHostWeigher]:
    """All weighers of ``scheduler_weight_classes``. :raises errors.ClassNotFound:"""
    option = "scheduler_weight_classes"
    classes = matching_classes(weights.BaseHostWeigher, conf.scheduler_weight_classes, option)
    return [cls.from_conf(conf) for cls in classes]


def load_driver_class(conf: cfg.ConfigOpts) -> type[Any]:
    """The class of ``scheduler_driver``, a short name or a dotted path. :raises errors.ClassNotFound:"""
    name = conf.scheduler_driver
    found = _import(DRIVERS.get(name, name), "scheduler_driver")
    if not inspect.isclass(found):
        raise errors.ClassNotFound(option="scheduler_driver", class_name=name, reason="it is not a class")
    return found


def matching_classes(base: type[Base], paths: Iterable[str], option: str) -> list[type[Base]]:
    """Classes below ``base`` that the paths name. What a function returns is taken without a further look."""
    classes: list[type[Base]] = []
    for path in paths:
        found = _import(path, option)
        if inspect.isclass(found) and issubclass(found, base) and not found.__name__.startswith("_"):
            classes.append(found)
        elif inspect.isfunction(found):
            classes.extend(found())
        else:
            reason = f"it is neither a public subclass of {base.__name__} nor a function that returns some"
            raise errors.ClassNotFound(option=option, class_name=path, reason=reason)
    return classes


def _import(path: str, option: str) -> Any:
    wanted = path.removeprefix("nova.")
    for package, classes in _BUILTIN.items():
        for cls in classes:
            if wanted.startswith(package) and wanted.endswith(f".{cls.__name__}"):
                return cls
    if "." not in wanted:
        raise errors.ClassNotFound(option=option, class_name=path, reason="a full dotted path is needed")
    try:
        return importutils.import_class(wanted)
    except ImportError as failed:
        # import_class puts a traceback in its message; its last line is what went wrong.
        reason = str(failed.__cause__ or failed).strip().splitlines()[-1]
        raise errors.ClassNotFound(option=option, class_name=path, reason=reason) from failed
