# SPDX-License-Identifier: Apache-2.0
"""The filters and weighers of one scheduler, and a request prepared for them before any host is read.

The loading of drivers makes it, and decisions run through it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.engine.decision import ExplainRefusal
from scheduler.engine.filtering import setting_limits
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.domain import Domain
from scheduler.engine.names import Properties, Request
from scheduler.engine.plugins import (
    BaseHostFilter,
    BaseHostWeigher,
    ColumnFilter,
    ColumnWeigher,
    Plugin,
    is_cacheable,
    is_column_weigher,
    over_columns,
)
from scheduler.engine.prepared_request import PARSED, PreparedRequest
from scheduler.engine.supervision.supervision import PluginWatch, Supervision, is_ours


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """The part of a decision that is the same for all requests: the domain, the plugins and the options.

    :param host_subset_size: pick at random among this many of the best hosts
    :param lottery: draw a host by chance, with the scores as chances, in place of the best
    :param shuffle_best_same_weighed_hosts: put hosts that share the highest score in random order
    :param alternates: number of runners-up for each instance
    :param claim_limits: True to give the limits of a claim with each pick and alternate
    :param explain_refusal: makes the reason when hosts run out
    :param watch: calls the plugins
    """

    domain: Domain
    filters: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    explain_refusal: ExplainRefusal
    host_subset_size: int = 1
    shuffle_best_same_weighed_hosts: bool = False
    alternates: int = 0
    claim_limits: bool = True
    lottery: bool = False
    watch: PluginWatch = dataclasses.field(default_factory=PluginWatch)

    @property
    def _plugins(self) -> list[Plugin]:
        return [*self.filters, *self.weighers]

    @functools.cached_property
    def columns_only(self) -> bool:
        """True if no plugin reads the request as nova's dict."""
        return all(over_columns(each) for each in self._plugins)

    @functools.cached_property
    def cacheable(self) -> bool:
        """True if the answers of all plugins may be reused for requests with the same key."""
        return all(is_cacheable(each) for each in self._plugins)

    @functools.cached_property
    def preparing(self) -> Sequence[BaseHostFilter]:
        """The filters with work to do before the hosts are locked."""
        return [each for each in self.filters if type(each).prepare is not BaseHostFilter.prepare]

    @functools.cached_property
    def of_forced(self) -> Sequence[BaseHostFilter]:
        """The filters that judge forced hosts too."""
        return [each for each in self.filters if each.run_on_forced]

    @functools.cached_property
    def reading(self) -> Sequence[ColumnWeigher]:
        """The weighers that read the fleet as a whole."""
        return reading(self.weighers)

    @functools.cached_property
    def is_quick(self) -> bool:
        """True if :func:`prepare` takes no noticeable time: no plugin of a user is called, and none calls a service."""
        return not self.preparing and all(is_ours(each) for each in self._plugins)

    @functools.cached_property
    def limiting(self) -> Sequence[tuple[int, ColumnFilter]]:
        """The column filters that set claim limits, with their positions; none if no pick needs them."""
        return setting_limits(self.filters) if self.claim_limits else ()


def prepare(
    pipeline: Pipeline,
    request: Request,
    context: object = None,
    config_options: Mapping[str, Any] | None = None,
    supervision: Supervision | None = None,
) -> PreparedRequest:
    """Do all that can be done for a request before the hosts are locked.

    :param supervision: the request's own, if its plugins were called before
    :raises errors.PluginFailed: a filter or weigher misbehaved, and the configuration does not skip it
    """
    # The operator has overruled the filters for forced hosts.
    filters = pipeline.of_forced if restriction.is_forced(request) else pipeline.filters
    weighers = pipeline.weighers
    if pipeline.domain.defaults.plugin_life == "request":
        filters, weighers = [_of_request(each) for each in filters], [_of_request(each) for each in weighers]
    # What is kept of few named hosts would be of no use to the requests that name none.
    is_cached = pipeline.cacheable and not restriction.is_named(request)
    return PreparedRequest(
        request,
        filters,
        weighers,
        plugin_properties(pipeline, request, context, config_options or {}),
        supervision or pipeline.watch.begin(),
        pipeline.domain.requests.consumption(request),
        pipeline.domain.requests.request_key(request) if is_cached else None,
        pipeline.domain.defaults.normalisation,
        pipeline.reading if weighers is pipeline.weighers else reading(weighers),
    )


def reading(weighers: Sequence[BaseHostWeigher]) -> Sequence[ColumnWeigher]:
    """Return the weighers that read the fleet as a whole."""
    return [each for each in weighers if is_column_weigher(each) and each.reads_fleet]


def plugin_properties(
    pipeline: Pipeline, request: Request, context: object, config_options: Mapping[str, object]
) -> Properties:
    """Return ``filter_properties`` as a dict: the caller's, completed. Empty if no plugin reads it."""
    if pipeline.columns_only:
        return {}
    return pipeline.domain.requests.plugin_form(
        {
            **request.filter_properties,
            "context": context,
            PARSED: request,
            "request_spec": request.request_spec,
            **pipeline.domain.requests.properties(request),
            "config_options": config_options,
        }
    )


def _of_request(each: Any) -> Any:
    """Return a plugin that serves one request. A plugin over columns keeps nothing of a request, so all share it."""
    return each if over_columns(each) else copy.copy(each)
