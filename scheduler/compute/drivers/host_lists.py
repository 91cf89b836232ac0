# SPDX-License-Identifier: Apache-2.0
"""The methods of nova's host manager for drivers in nova's form: lists of host states, filtered and weighed.

Called by :mod:`scheduler.compute.drivers.host_manager` and :mod:`scheduler.compute.drivers.loading`. A list comes from
a copy of the cache, so a driver holds no lock while it reads the list, and the list does not change.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy
from oslo_config import cfg

from fleet import errors
from fleet.json_codec import JSONObject
from scheduler.compute.domain import nova_form
from scheduler.compute.domain.host_state import HostState, RowState
from scheduler.compute.domain.request_faces import RequestFaces
from scheduler.compute.filters import BaseHostFilter, HostFilterHandler
from scheduler.compute.weights import BaseHostWeigher, HostWeightHandler, WeighedHost
from scheduler.engine import filtering
from scheduler.engine.filtering import PASSED
from scheduler.engine.hosts import restriction
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.prepared_request import PARSED, PreparedRequest
from scheduler.engine.weighing.weighing import Scores
from scheduler.loading import named_classes

_AVAILABLE = "scheduler_available_filters"


class Plugins(NamedTuple):
    """``filters`` and ``weighers`` are those of the configuration; ``available`` are all filter classes by name."""

    conf: cfg.ConfigOpts
    filters: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    available: Mapping[str, Sequence[type[BaseHostFilter]]]

    def named(self, names: Iterable[str]) -> list[BaseHostFilter]:
        """Return the filters with these names; a configured one first.

        :raises errors.FilterNotFound: naming all that are not available
        :raises errors.ConfigError: two available filters that are not configured have the name
        """
        wanted = [names] if isinstance(names, str) else list(names)
        unknown = [name for name in wanted if name not in self.available]
        if unknown:
            raise errors.FilterNotFound(filter_name=", ".join(unknown))
        ready = {type(each).__name__: each for each in self.filters}
        return [ready.get(name) or self._made(self.available[name]) for name in wanted]

    def _made(self, alike: Sequence[type[BaseHostFilter]]) -> BaseHostFilter:
        named_classes.distinct("filters", dict.fromkeys(alike, _AVAILABLE))
        return named_classes.make(alike[0], self.conf, _AVAILABLE)


class HostLists:
    """The methods of nova's host manager. ``load_plugins`` is set when the service is wired together."""

    load_plugins: Callable[[], Plugins]

    @functools.cached_property
    def _plugins(self) -> Plugins:
        return self.load_plugins()

    def copy(self) -> Candidates:
        """Return the hosts as they are now, bookings counted, with no pick yet."""
        raise NotImplementedError

    def get_all_host_states(self, context: object = None) -> list[HostState]:
        """Return every host that may be considered, as fresh as the database. :raises errors.StaleState:"""
        hosts = self.copy()
        return [hosts.state(row) for row in hosts.rows[hosts.present()].tolist()]

    def get_filtered_hosts(
        self,
        hosts: Iterable[HostState],
        filter_properties: JSONObject,
        filter_class_names: Iterable[str] | None = None,
        index: int = 0,
    ) -> list[HostState]:
        """Return the hosts that the request allows and that pass the filters, in their order.

        Forced hosts (``force_hosts``, ``force_nodes``) are not filtered.

        :param filter_class_names: filters to run in place of ``scheduler_default_filters``
        :param index: the number of the instance in its request, from 0
        :raises errors.FilterNotFound: a name is not among ``scheduler_available_filters``
        """
        listed = list(hosts)
        names = self._plugins.named(filter_class_names) if filter_class_names is not None else self._plugins.filters
        request = nova_form.request(filter_properties)
        filters = [] if restriction.is_forced(request) else [each for each in names if each.run_filter_for_index(index)]
        table = _table_of(listed)
        if table is None:
            allowed = [host for host in listed if restriction.allowed(nova_form.candidates(host), request)[0]]
            return HostFilterHandler().get_filtered_objects(filters, allowed, filter_properties, index) or []
        prepared = PreparedRequest(request, filters, properties=RequestFaces({**filter_properties, PARSED: request}))
        for each in filters:
            each.prepare(request, lambda: [host.nodename for host in listed])
        result = filtering.run(prepared, table, restriction.allowed(table, request))
        # A driver passes the limits of the chosen host on.
        table.limits.begin(len(filters), filtering.column_limits(prepared, table, len(filters)))
        return [host for host, by in zip(listed, result.dropped_by.tolist(), strict=True) if by == PASSED]

    def get_weighed_hosts(
        self, hosts: Iterable[HostState], weight_properties: JSONObject, index: int = 0
    ) -> list[WeighedHost]:
        """Return the hosts with their weights, the heaviest first; equal ones in their order."""
        listed = list(hosts)
        table = _table_of(listed)
        if table is None or len(listed) < 2:
            return HostWeightHandler().get_weighed_objects(self._plugins.weighers, listed, weight_properties)
        request = nova_form.request(weight_properties)
        properties = RequestFaces({**weight_properties, PARSED: request})
        scores = Scores()
        prepared = PreparedRequest(request, weighers=self._plugins.weighers, properties=properties)
        # Scores are those of rows in their order, and a driver may have sorted its list.
        scores.weigh(prepared, table.subset(numpy.unique(table.rows)), len(table.whole()))
        weighed = [WeighedHost(host, float(scores.total[host.row])) for host in listed if isinstance(host, RowState)]
        return sorted(weighed, key=lambda one: one.weight, reverse=True)


def _table_of(hosts: Sequence[HostState]) -> Candidates | None:
    """The rows that these host states are, if all come from one list of :meth:`HostLists.get_all_host_states`."""
    rows = [host for host in hosts if isinstance(host, RowState) and isinstance(host.source, Candidates)]
    if not rows or len(rows) < len(hosts) or len({id(host.source) for host in rows}) > 1:
        return None
    source = rows[0].source
    assert isinstance(source, Candidates)
    return source.subset(numpy.array([host.row for host in rows]))
