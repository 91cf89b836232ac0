# SPDX-License-Identifier: Apache-2.0
"""Who is asked for a decision, and a request as far as it can be looked into before any host is."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.objects import RequestSpec
from scheduler import weights
from scheduler.compute import one_host
from scheduler.engine import filtering, restriction
from scheduler.engine.consumption import Consumption
from scheduler.engine.plugin_watch import PluginWatch, Supervision, is_ours
from scheduler.engine.shapes import Key, keys_of, shape_of
from scheduler.engine.standing import Inquiry
from scheduler.filters import BaseHostFilter, ColumnFilter, over_columns
from scheduler.weights import BaseHostWeigher


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How to decide: everything that the configuration and the domain say, and nothing of a request.

    ``consumption`` gives what one instance takes of its host; ``watch`` asks the plugins.
    """

    filters: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    consumption: Callable[[RequestSpec], Consumption]
    host_subset_size: int = 1
    shuffle_best_same_weighed_hosts: bool = False
    alternates: int = 0
    watch: PluginWatch = dataclasses.field(default_factory=PluginWatch)

    @functools.cached_property
    def columns_only(self) -> bool:
        """Whether nobody here reads nova's dict of the request."""
        return all(over_columns(each) for each in self.filters) and all(
            weights.over_columns(each) for each in self.weighers
        )

    @functools.cached_property
    def preparing(self) -> Sequence[BaseHostFilter]:
        """The filters that have something to do before the hosts are looked at."""
        return [each for each in self.filters if type(each).prepare is not BaseHostFilter.prepare]

    @functools.cached_property
    def is_quick(self) -> bool:
        """Whether to :func:`prepare` a request takes no time to speak of: nobody's plugin is asked, and none asks others."""
        return not self.preparing and all(is_ours(each) for each in (*self.filters, *self.weighers))

    @functools.cached_property
    def recall_keys(self) -> Sequence[Key] | None:
        """How to find the shape of a request; None if nothing can be recalled."""
        return keys_of(self.filters, self.weighers)

    @functools.cached_property
    def limiting(self) -> Sequence[tuple[int, ColumnFilter]]:
        """The filters that set limits over columns, with their positions."""
        return filtering.limiting(self.filters)


class Prepared(NamedTuple):
    """A request for one decision. ``shape`` is what the answer depends on, besides the hosts; None if nobody can say."""

    pipeline: Pipeline
    inquiry: Inquiry
    shape: Hashable | None
    amounts: Consumption


def prepare(
    pipeline: Pipeline,
    request: RequestSpec,
    context: object = None,
    config_options: Mapping[str, Any] | None = None,
    supervision: Supervision | None = None,
) -> Prepared:
    """Look into the request, and at no host.

    :param supervision: of this request, if plugins were asked about it before

    :raises errors.PluginFailed: a filter or weigher misbehaved, and is not to be skipped
    """
    asking = supervision or pipeline.watch.begin()
    # Forced hosts are taken as they are: the operator has overruled the filters.
    filters = () if restriction.is_forced(request) else pipeline.filters
    properties = plugin_properties(pipeline, request, context, config_options or {})
    shape = None if restriction.is_restricted(request) else shape_of(pipeline.recall_keys, request, asking)
    inquiry = Inquiry(filters, pipeline.weighers, request, properties, asking)
    return Prepared(pipeline, inquiry, shape, pipeline.consumption(request))


def plugin_properties(
    pipeline: Pipeline, request: RequestSpec, context: object, config_options: Mapping[str, Any]
) -> dict[str, Any]:
    """``filter_properties`` as nova hands it to filters: the sender's, completed. Built if someone reads it."""
    if pipeline.columns_only:
        return {}
    return {
        **request.filter_properties,
        "context": context,
        one_host.REQUEST: request,
        "request_spec": request.request_spec,
        "instance_type": request.request_spec.get("instance_type"),
        "config_options": config_options,
    }
