# SPDX-License-Identifier: Apache-2.0
"""Lists the parts of a request that the configured filters judge, and the default filters that are not configured.

:mod:`scheduler.compute.drivers.filter_scheduler` returns the lists to conductors.
"""

from __future__ import annotations

from fleet.json_codec import JSONObject
from fleet.objects import RequestSpec, request_parts
from scheduler.compute import filters
from scheduler.engine.pipeline import Pipeline
from scheduler.engine.plugins import BaseHostFilter, BaseHostWeigher, Plugin
from scheduler.engine.supervision.supervision import is_ours


def describe(pipeline: Pipeline) -> JSONObject:
    """Return the answer of ``describe_filters``.

    ``filters`` are the names of the filters in their order; ``judged`` the kinds of parts that they judge
    (:mod:`fleet.objects.request_parts`); ``left_out`` the filters of the default list that are not configured, each with
    ``filter`` and ``unjudged``, the kinds that no other filter judges in its place.
    """
    known = judged(pipeline)
    return {
        "filters": [type(each).__name__ for each in pipeline.filters],
        "judged": sorted(known),
        "left_out": [
            {"filter": cls.__name__, "unjudged": sorted(set(cls.judges) - known)}
            for cls in _left_out(pipeline)
            if not cls.judges or set(cls.judges) - known
        ],
    }


def judged(pipeline: Pipeline) -> frozenset[str]:
    """Return the kinds of parts that the filters, and weighers that say so, judge."""
    plugins: list[Plugin] = [*pipeline.filters, *pipeline.weighers]
    return frozenset(kind for each in plugins for kind in _judged_by(each))


def _judged_by(each: Plugin) -> set[str]:
    kinds = set(each.judges)
    return kinds if is_ours(each) or _says_what(type(each)) else kinds | {request_parts.ANY_HINT}


def _says_what(cls: type[Plugin]) -> bool:
    """Return True if the class of a user, or one that it derives from, names what it judges."""
    ours = (BaseHostFilter, BaseHostWeigher, *filters.CLASSES)
    return any("judges" in vars(each) for each in cls.__mro__ if each not in ours)


def _left_out(pipeline: Pipeline) -> list[type[BaseHostFilter[RequestSpec]]]:
    """Return the default filters of which the pipeline has none, nor one derived from it."""
    default = [cls for cls in filters.CLASSES if cls.__name__ in pipeline.domain.defaults.filters]
    return [cls for cls in default if not any(isinstance(each, cls) for each in pipeline.filters)]
