# SPDX-License-Identifier: Apache-2.0
"""Load the filters and weighers of the configuration. A wrong name stops the service at start.

Called by :mod:`scheduler.compute.drivers.driver_loading`, and by plans for the filters of their copy.
"""

from __future__ import annotations

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


def load_filters(conf: cfg.ConfigOpts) -> list[filters.BaseHostFilter]:
    """The filters of ``scheduler_default_filters``, then those of ``scheduler_additional_filters``, each made once.

    :raises errors.FilterNotFound: naming all that are not available
    :raises errors.ClassNotFound: a path of one of the other two options leads to no filter
    """
    plugin_files.install(conf)
    available = _available(conf)
    wanted = list(conf.scheduler_default_filters)
    wanted += [name for name in _classes(conf, "scheduler_additional_filters") if name not in wanted]
    unknown = [name for name in wanted if name not in available]
    if unknown:
        raise errors.FilterNotFound(filter_name=", ".join(unknown))
    option = "scheduler_default_filters"
    made = {name: named_classes.make(available[name], conf, option) for name in dict.fromkeys(wanted)}
    return [made[name] for name in wanted]


def load_weighers(conf: cfg.ConfigOpts) -> list[weights.BaseHostWeigher]:
    """All weighers of ``scheduler_weight_classes``. :raises errors.ClassNotFound:"""
    plugin_files.install(conf)
    option = "scheduler_weight_classes"
    classes = named_classes.matching(weights.BaseHostWeigher, conf.scheduler_weight_classes, option, _BUILT_IN)
    return [named_classes.make(cls, conf, option) for cls in classes]


def load_plugins(conf: cfg.ConfigOpts) -> Plugins:
    """Return what drivers written nova's way filter and weigh with. :raises errors.ConfigError:"""
    return Plugins(conf, load_filters(conf), load_weighers(conf), _available(conf))


def available_filters(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Return the names of all filters that the configuration makes available. :raises errors.ClassNotFound:"""
    return frozenset(_available(conf))


def _available(conf: cfg.ConfigOpts) -> dict[str, type[filters.BaseHostFilter]]:
    return _classes(conf, "scheduler_available_filters") | _classes(conf, "scheduler_additional_filters")


def _classes(conf: cfg.ConfigOpts, option: str) -> dict[str, type[filters.BaseHostFilter]]:
    classes = named_classes.matching(filters.BaseHostFilter, conf[option], option, _BUILT_IN)
    return {cls.__name__: cls for cls in classes}


def load_pipeline(conf: cfg.ConfigOpts, domain: Domain = VIRTUAL_MACHINES) -> Pipeline:
    """Return the pipeline that the configuration describes. :raises errors.ConfigError: a name leads nowhere"""
    configured = load_filters(conf)
    kinds = {type(each) for each in configured}
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
