# SPDX-License-Identifier: Apache-2.0
"""Load the filters and weighers of the configuration. A wrong name stops the service at start.

Called by :mod:`scheduler.compute.drivers.driver_loading`, and by plans for the filters of their copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors
from scheduler.compute import filters, weights
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.compute.drivers.host_lists import Plugins
from scheduler.engine.hosts.domain import Domain
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.supervision.supervision import PluginWatch
from scheduler.loading import named_classes, plugin_files
from scheduler.why import refusal

_BUILT_IN = {"scheduler.filters.": filters.CLASSES, "scheduler.weights.": weights.CLASSES}
_AVAILABLE, _DEFAULT = "scheduler_available_filters", "scheduler_default_filters"
_ADDITIONAL = "scheduler_additional_filters"
_TO_REPLACE = f". To run one in place of a built-in filter, write its dotted path into {_DEFAULT} instead of the name"


def load_filters(conf: cfg.ConfigOpts) -> list[filters.BaseHostFilter]:
    """The filters of ``scheduler_default_filters``, then those of ``scheduler_additional_filters``, each made once.

    :raises errors.FilterNotFound: naming all that are not available
    :raises errors.ClassNotFound: a dotted path leads to no filter
    :raises errors.ConfigError: two filters have one name
    """
    plugin_files.install(conf)
    default, additional = _default(conf), _classes(conf, _ADDITIONAL)
    options = dict.fromkeys(default, _DEFAULT) | dict.fromkeys(additional, _ADDITIONAL)
    named_classes.distinct("filters", options, _TO_REPLACE)
    made = {cls: named_classes.make(cls, conf, option) for cls, option in options.items()}
    return [made[cls] for cls in (*default, *(cls for cls in options if cls not in default))]


def load_weighers(conf: cfg.ConfigOpts) -> list[weights.BaseHostWeigher]:
    """All weighers of ``scheduler_weight_classes``. :raises errors.ClassNotFound:"""
    plugin_files.install(conf)
    option = "scheduler_weight_classes"
    classes = named_classes.matching(weights.BaseHostWeigher, conf.scheduler_weight_classes, option, _BUILT_IN)
    named_classes.distinct("weighers", dict.fromkeys(classes, option))
    return [named_classes.make(cls, conf, option) for cls in classes]


def load_plugins(conf: cfg.ConfigOpts) -> Plugins:
    """Return what drivers written nova's way filter and weigh with. :raises errors.ConfigError:"""
    return Plugins(conf, load_filters(conf), load_weighers(conf), _available(conf))


def available_filters(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the names of all filters that the configuration makes available. :raises errors.ClassNotFound:"""
    return frozenset(_available(conf))


def _available(conf: cfg.ConfigOpts) -> dict[str, list[type[filters.BaseHostFilter]]]:
    """Return the classes by name. Several may have one name, as long as the configuration does not choose by it."""
    named: dict[str, list[type[filters.BaseHostFilter]]] = {}
    for cls in dict.fromkeys([*_classes(conf, _AVAILABLE), *_classes(conf, _ADDITIONAL)]):
        named.setdefault(cls.__name__, []).append(cls)
    return named


def _default(conf: cfg.ConfigOpts) -> list[type[filters.BaseHostFilter]]:
    """Return the classes of ``scheduler_default_filters``; all of one name if several have it."""
    available, wanted = _available(conf), named_classes.entries(conf[_DEFAULT])
    unknown = [name for name in wanted if name not in available and "." not in name]
    if unknown:
        raise errors.FilterNotFound(filter_name=", ".join(unknown))
    found = [_matching([name], _DEFAULT) if "." in name else available[name] for name in wanted]
    return [cls for classes in found for cls in classes]


def _classes(conf: cfg.ConfigOpts, option: str) -> list[type[filters.BaseHostFilter]]:
    return _matching(conf[option], option)


def _matching(paths: Sequence[str], option: str) -> list[type[filters.BaseHostFilter]]:
    return named_classes.matching(filters.BaseHostFilter, paths, option, _BUILT_IN)


def load_pipeline(conf: cfg.ConfigOpts, domain: Domain = VIRTUAL_MACHINES) -> Pipeline:
    """Return the pipeline that the configuration describes. :raises errors.ConfigError: a name leads nowhere"""
    configured = load_filters(conf)
    kinds = [type(each) for each in configured]
    always = (*domain.defaults.restrictions, *domain.defaults.closing)
    named_classes.distinct("filters", dict.fromkeys([*always, *kinds], _DEFAULT))
    return Pipeline(
        domain=domain,
        filters=[
            *(each.from_conf(conf) for each in domain.defaults.restrictions if each not in kinds),
            *configured,
            *(each.from_conf(conf) for each in domain.defaults.closing if each not in kinds),
        ],
        weighers=[*load_weighers(conf), *(each.from_conf(conf) for each in domain.defaults.preferences)],
        explain_refusal=refusal.explain,
        host_subset_size=conf.scheduler_host_subset_size,
        shuffle_best_same_weighed_hosts=conf.shuffle_best_same_weighed_hosts,
        alternates=conf.scheduler_max_attempts - 1,
        watch=PluginWatch(
            conf.scheduler_filter_error_policy,
            conf.scheduler_slow_filter_threshold,
            limit_s=conf.scheduler_plugin_timeout,
        ),
    )
