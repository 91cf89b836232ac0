# SPDX-License-Identifier: Apache-2.0
"""The two forms of a filter: nova's, asked host by host, and ours, asked for all hosts at once."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from fleet.reasons import Reason
from scheduler.compute import one_host
from scheduler.compute.host_state import HostState
from scheduler.engine.candidates import Candidates
from scheduler.engine.plugin_watch import WrongAnswer
from scheduler.why.shortfall import Shortfall


class BaseHostFilter:
    """A filter in nova's form: :meth:`host_passes` is asked once for every host that earlier filters let through.

    ``filter_properties`` is the dict of the request with ``context``, ``request_spec``, ``instance_type`` and
    ``config_options`` added.
    """

    #: True if the answer is the same for all instances of one request: then it is asked for the first only.
    run_filter_once_per_request = False
    #: What kind of no this filter says, for the explanation of a refusal.
    reason: Reason = Reason.POLICY

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Called once, at start. A filter without options of its own is made with no argument."""
        return cls()

    def prepare(self, request: RequestSpec, nodes: Callable[[], Sequence[str]]) -> None:
        """Called before the hosts are locked for a decision: the place to ask another service. By default nothing.

        :param nodes: gives the names of all nodes; call it only if they are needed
        """

    def host_passes(self, host_state: HostState, filter_properties: dict[str, Any]) -> bool:
        """Whether the host may take the instance."""
        raise NotImplementedError

    def _filter_one(self, obj: HostState, filter_properties: dict[str, Any]) -> bool:
        return self.host_passes(obj, filter_properties)

    def filter_all(
        self, filter_obj_list: Iterable[HostState], filter_properties: dict[str, Any]
    ) -> Iterator[HostState] | None:
        """Those of the hosts that pass. Override it to judge them together; None lets no host through."""
        return (host for host in filter_obj_list if self._verdict(host, filter_properties))

    def _verdict(self, host: HostState, filter_properties: dict[str, Any]) -> bool:
        """:raises WrongAnswer: a forgotten return, or a text, would else be a silent no or yes"""
        answer = self._filter_one(host, filter_properties)
        if not isinstance(answer, (bool, numpy.bool_, int, numpy.integer)):
            raise WrongAnswer(f"answered {answer!r:.80} for host {host.host}, where True or False is wanted")
        return bool(answer)

    def shortfall(self, hosts: Candidates, request: RequestSpec) -> Shortfall | None:
        """The numbers behind the no, for some hosts of a request that was refused, and for counting what still fits.

        Never asked while hosts are chosen. By default there are none; what it raises is logged, and there are none.
        """
        return None

    def objection(self, hosts: Candidates, request: RequestSpec) -> str:
        """Why it drops the one host of ``hosts``, as in "is disabled"; asked as :meth:`shortfall` is. By default empty."""
        return ""

    def run_filter_for_index(self, index: int) -> bool:
        """Whether to run for the instance with this number (from 0) of the request."""
        return not (self.run_filter_once_per_request and index > 0)


class ColumnFilter(BaseHostFilter):
    """A filter over columns: :meth:`mask` is asked once for all hosts.

    A host's answer may depend on that host and the request only, unless ``depends_on_picks`` says that it may also
    change when an earlier instance of the same request is placed on another host.
    """

    depends_on_picks = False
    #: The time in epoch seconds at which :meth:`host_passes` judges a host state that was made by hand.
    clock: Callable[[], float] = staticmethod(time.time)

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        """True for each of ``hosts`` that is let through.

        None if the request gives nothing to object to, whatever the hosts are: for its further instances the filter is
        then not asked again.
        """
        raise NotImplementedError

    def recall_key(self, request: RequestSpec) -> Hashable | None:
        """All of the request that :meth:`mask` depends on, if the rest is the host's own row and its aggregates.

        Whether the host's service is up belongs to the row; the time, else, does not.

        Requests for which all filters and weighers give equal keys share what was found out: only hosts that have
        changed since are asked about again. None, the default, asks about every host every time.
        """
        return None

    def limits(self, hosts: Candidates, request: RequestSpec) -> dict[str, numpy.ndarray]:
        """What a claim on each of these chosen hosts must stay under, by name; not a number means no limit.

        Asked only if the filter ran; by default nothing.
        """
        return {}

    def host_passes(self, host_state: HostState, filter_properties: dict[str, Any] | RequestSpec) -> bool:
        """nova's form of the same judgement: for a subclass that adds to it, and for tests. Writes the limits."""
        hosts, request = one_host.candidates(host_state, self.clock), one_host.request(filter_properties)
        self.prepare(request, lambda: [host_state.nodename])
        mask = self.mask(hosts, request)
        if mask is not None and not mask[0]:
            return False
        limits = {name: values.tolist()[0] for name, values in self.limits(hosts, request).items()}
        # Not a number, the one thing that differs from itself, means no limit.
        host_state.limits.update({name: value for name, value in limits.items() if value == value})
        return True


#: What a subclass of a built-in filter overrides to go back to judging host by host.
_NOVA_FORM = ("host_passes", "_filter_one", "filter_all")


def over_columns(each: BaseHostFilter) -> bool:
    """Whether to ask ``mask``: not if a subclass of a built-in filter has its own say on single hosts."""
    return _over_columns(type(each))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _over_columns(each: type) -> bool:
    return issubclass(each, ColumnFilter) and all(
        getattr(each, name) is getattr(ColumnFilter, name) for name in _NOVA_FORM
    )


def recalls(each: ColumnFilter) -> bool:
    """Whether ``recall_key`` speaks for ``mask``: not if a subclass has another mask and kept the key."""
    return over_columns(each) and _recalls(type(each))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _recalls(each: type) -> bool:
    owners = {name: next(cls for cls in each.__mro__ if name in vars(cls)) for name in ("mask", "recall_key")}
    return issubclass(owners["recall_key"], owners["mask"])
