# SPDX-License-Identifier: Apache-2.0
"""Base classes of filters and weighers, each in two forms: one host for each call, or columns of all hosts at once.

The names and methods of the first form are nova's. A domain derives its own base classes from these
(``scheduler.filters.base``, ``scheduler.weights.base``) and sets ``one_host``.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeGuard

import numpy
from oslo_config import cfg

from fleet.reasons import Reason
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import HostState, Properties, RequestT, Wire
from scheduler.engine.supervision.failures import WrongAnswer
from scheduler.engine.supervision.supervision import is_ours


class OneHost(Protocol):
    """The part of a domain that turns arguments of the first form (one host) into those of the second (columns)."""

    def candidates(self, state: Any, clock: Callable[[], float] = ...) -> Candidates:
        """Return candidates of this one host."""

    def request(self, properties: Any) -> Any:
        """Return the parsed request that ``filter_properties`` hold."""


class BaseHostFilter(Generic[RequestT]):
    """A filter of one host at a time: :meth:`host_passes` is called for every host that earlier filters let through.

    ``filter_properties`` is the dict of the request, with ``context``, ``request_spec``, ``instance_type`` and
    ``config_options`` added.
    """

    #: True if the answer is the same for all instances of one request. Then the filter runs for the first only.
    run_filter_once_per_request = False
    #: True if a new image on the host of an instance must pass as well (nova's name; used when serving nova).
    RUN_ON_REBUILD = False
    #: True if it judges hosts too that the request forces. An operator who forces a host overrules the other filters.
    run_on_forced = False
    #: The kind of refusal, for the explanation of "no valid host".
    reason: Reason = Reason.POLICY
    #: Kinds of the parts of a request that the filter judges, in the words of its domain. For virtual machines they are in
    #: ``fleet.objects.request_parts``: ``("hint/requested_host",)``. A part that no filter judges is remarked. A filter of
    #: a user that does not name them may read any hint.
    judges: ClassVar[Collection[str]] = ()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Make the filter at start. A filter without options of its own is made with no argument."""
        return cls()

    def prepare(self, request: RequestT, nodes: Callable[[], Sequence[str]]) -> None:
        """Called before the hosts are locked for a decision: the place to call another service. By default nothing.

        :param nodes: returns the names of all nodes; call it only if they are needed
        """

    def host_passes(self, host_state: HostState, filter_properties: Properties) -> bool:
        """Return True if the host may take the instance."""
        raise NotImplementedError

    def _filter_one(self, obj: Any, filter_properties: Properties) -> bool:
        return self.host_passes(obj, filter_properties)

    def filter_all(self, filter_obj_list: Iterable[Any], filter_properties: Properties) -> Iterator[Any] | None:
        """Return the hosts that pass. Override it to judge them together; None lets no host through."""
        return (host for host in filter_obj_list if self._verdict(host, filter_properties))

    def _verdict(self, host: Any, filter_properties: Properties) -> bool:
        """:raises WrongAnswer: the answer is None or a text; either would count as a silent no or yes"""
        answer = self._filter_one(host, filter_properties)
        if not isinstance(answer, (bool, numpy.bool_, int, numpy.integer)):
            raise WrongAnswer(f"answered {answer!r:.80} for host {host.host}, where True or False is wanted")
        return bool(answer)

    def shortfall(self, hosts: Candidates, request: RequestT) -> Any:
        """Return the numbers behind the refusal of some hosts: a :class:`scheduler.why.shortfall.Shortfall`, or None.

        Called to explain a refused request, and to count what still fits; never while hosts are chosen. An exception is
        logged, and counts as None.
        """
        return None

    def objection(self, hosts: Candidates, request: RequestT) -> str:
        """Return why the filter drops the one host of ``hosts``, such as "is disabled". By default empty.

        Called when :meth:`shortfall` is.
        """
        return ""

    def run_filter_for_index(self, index: int) -> bool:
        """Return True if the filter runs for the instance with this number, from 0, of the request."""
        return not (self.run_filter_once_per_request and index > 0)


class ColumnFilter(BaseHostFilter[RequestT]):
    """A filter over columns: :meth:`mask` is called once for all hosts.

    The answer for a host may depend on that host and on the request only. Set ``depends_on_picks`` if it also changes when
    an earlier instance of the same request is placed on another host.
    """

    depends_on_picks = False
    #: True if a pick on another host may also let a host pass that was dropped before. Set ``depends_on_picks`` as well.
    revives = False
    #: Set it to True in a class of your own if the answer for a host depends only on that host's row, its aggregates, the
    #: instances on it, and the parts of the request in ``scheduler.compute.domain.request_key``. Then results are cached.
    cacheable = True
    #: The domain's conversion of the other form's arguments.
    one_host: ClassVar[OneHost]
    #: Returns the time in epoch seconds at which :meth:`host_passes` judges a host state that was made by hand.
    clock: Callable[[], float] = staticmethod(time.time)

    def mask(self, hosts: Candidates, request: RequestT) -> numpy.ndarray | None:
        """Return True for each of ``hosts`` that passes.

        None means that the filter lets every host pass, for all instances of this request.
        """
        raise NotImplementedError

    def limits(self, hosts: Candidates, request: RequestT) -> dict[str, numpy.ndarray]:
        """Return the limits of a claim on each of these chosen hosts, by name. NaN means no limit.

        Called only if the filter ran; by default there are none.
        """
        return {}

    def host_passes(self, host_state: HostState, filter_properties: object) -> bool:
        """Return the same judgement in nova's form, and write the limits. For subclasses that add to it, and for tests."""
        hosts, request = self.one_host.candidates(host_state, self.clock), self.one_host.request(filter_properties)
        self.prepare(request, lambda: [host_state.nodename])
        mask = self.mask(hosts, request)
        if mask is not None and not mask[0]:
            return False
        limits = {name: values.tolist()[0] for name, values in self.limits(hosts, request).items()}
        # NaN is the one value that differs from itself.
        host_state.limits.update({name: value for name, value in limits.items() if value == value})
        return True


@dataclasses.dataclass
class WeighedHost:
    """A host and its weight, in nova's form."""

    obj: Any
    weight: float = 0.0

    def to_dict(self) -> Wire:
        return {"weight": self.weight, "host": self.obj.host}

    def __repr__(self) -> str:
        return f"WeighedHost [host: {self.obj!r}, weight: {self.weight}]"


class BaseHostWeigher(Generic[RequestT]):
    """A weigher of one host at a time: :meth:`_weigh_object` is called for every host that the filters let through.

    Raw weights are normalised to 0..1 over the hosts of the request, multiplied, and added up over the weighers.
    ``minval`` and ``maxval`` fix a bound of that range; a raw weight beyond a bound counts as the bound.
    """

    minval: float | None = None
    maxval: float | None = None
    #: As :attr:`BaseHostFilter.judges`.
    judges: ClassVar[Collection[str]] = ()
    #: True if the scheduler goes past its own share of the hosts for a host that this weigher prefers. False for a weigher
    #: of amounts: one host of many with about the same room is as good as another.
    outranks_share = True

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Make the weigher at start. A weigher without options of its own is made with no argument."""
        return cls()

    def applies(self, request: RequestT) -> bool:
        """Return False to leave this request's weights as they are. By default True."""
        return True

    def weight_multiplier(self, host_state: HostState = None) -> float:
        """Return how much this weigher counts; a negative number reverses it. ``host_state`` may be left undeclared."""
        return 1.0

    def _weigh_object(self, host_state: HostState, weight_properties: Properties) -> float:
        """Return the raw weight of one host: any finite number, higher is better."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: Properties) -> list[float]:
        """Return the raw weights of the hosts, in their order. Override it to weigh them together."""
        return [self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list]


class ColumnWeigher(BaseHostWeigher[RequestT]):
    """A weigher over columns: :meth:`raw` is called once for all hosts.

    The raw weight of a host may depend on that host and on the request only, unless ``depends_on_picks`` or ``reads_fleet``
    is set.
    """

    depends_on_picks = False
    #: True if :meth:`raw` reads something of the fleet as a whole: :meth:`of_fleet` returns it.
    reads_fleet = False
    #: As :attr:`ColumnFilter.cacheable`.
    cacheable = True
    #: True if :meth:`raw` may refuse the request. Then it is called even where the multiplier is 0.
    refuses = False
    #: Name of the option in [DEFAULT] that holds the multiplier.
    option = ""
    #: The column that is the raw weight, unless the class defines :meth:`raw`.
    column = ""
    #: The domain's conversion of the other form's arguments.
    one_host: ClassVar[OneHost]

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf[cls.option]) if cls.option else cls()

    def raw(self, hosts: Candidates, request: RequestT) -> numpy.ndarray:
        """Return one float for each of ``hosts``, higher is better. By default :meth:`raw_of` the weigher's column."""
        if not self.column:
            raise NotImplementedError
        return self.raw_of(hosts.column(self.column))

    def raw_of(self, numbers: numpy.ndarray) -> numpy.ndarray:
        """Return the raw weights of hosts with these numbers in the weigher's column; by default the numbers."""
        return numbers

    def of_fleet(self, hosts: Candidates) -> Hashable:
        """Return the values of the whole fleet that :meth:`raw` reads. Once it differs, all hosts are weighed anew."""
        return None

    def terms(self, hosts: Candidates, request: RequestT) -> Iterable[list[Wire]]:
        """Return, per host, the terms of its raw weight; by default none. Called to explain a decision."""
        return ()

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        """Return how much this weigher counts: one number, or one for each of ``hosts``."""
        return self._multiplier

    # nova's form of the same, for a subclass that adds to it, and for tests

    def weight_multiplier(self, host_state: HostState = None) -> float:
        if host_state is None:
            return self._multiplier
        multiplier = self.multiplier(self.one_host.candidates(host_state))
        return float(multiplier[0] if isinstance(multiplier, numpy.ndarray) else multiplier)

    def _weigh_object(self, host_state: object, weight_properties: Any) -> float:
        request = self.one_host.request(weight_properties)
        return float(self.raw(self.one_host.candidates(host_state), request)[0]) if self.applies(request) else 0.0


Plugin = BaseHostFilter | BaseHostWeigher
#: The methods that a subclass of a built-in plugin overrides to judge one host at a time again.
_FILTER_FORM = ("host_passes", "_filter_one", "filter_all")
_WEIGHER_FORM = ("_weigh_object", "weigh_objects", "weight_multiplier")
#: The methods of a column plugin on which ``cacheable`` makes a statement.
_JUDGING = ("mask", "raw", "raw_of", "applies", "multiplier")


def is_column_filter(each: BaseHostFilter) -> TypeGuard[ColumnFilter]:
    """Return True if ``mask`` is to be called; False if a subclass judges single hosts in its own way."""
    return _keeps_form(type(each), ColumnFilter, _FILTER_FORM)  # type: ignore[arg-type]  # a class is hashable


def is_column_weigher(each: BaseHostWeigher) -> TypeGuard[ColumnWeigher]:
    """Return True if ``raw`` is to be called; False if a subclass weighs single hosts in its own way."""
    return _keeps_form(type(each), ColumnWeigher, _WEIGHER_FORM)  # type: ignore[arg-type]  # a class is hashable


def over_columns(each: Plugin) -> bool:
    """Return True if a plugin judges all hosts in one call."""
    return is_column_filter(each) if isinstance(each, BaseHostFilter) else is_column_weigher(each)


@functools.cache
def _keeps_form(each: type, base: type, methods: Sequence[str]) -> bool:
    return issubclass(each, base) and all(getattr(each, name) is getattr(base, name) for name in methods)


def is_single_column(each: BaseHostWeigher) -> TypeGuard[ColumnWeigher]:
    """Return True if the raw weight is computed from one column and nothing else."""
    return is_column_weigher(each) and bool(each.column) and type(each).raw is ColumnWeigher.raw


def follows_picks(each: Plugin) -> bool:
    """Return True if a pick may change the plugin's answer for hosts other than the picked one."""
    return not over_columns(each) or each.depends_on_picks  # type: ignore[union-attr]  # it is a column plugin


def may_revive(each: BaseHostFilter) -> bool:
    """Return True if a pick may let a host pass that this filter has dropped."""
    return is_column_filter(each) and each.revives


def is_cacheable(each: Plugin) -> bool:
    """Return True if answers may be reused for another request with the same key."""
    if not over_columns(each) or not each.cacheable:  # type: ignore[union-attr]  # it is a column plugin
        return False
    return is_ours(each) or _states_cacheable(type(each))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _states_cacheable(each: type) -> bool:
    """Return True if ``cacheable`` was set by the class that judges, or by one derived from it."""

    def owner(name: str) -> type:
        return next(cls for cls in each.__mro__ if name in vars(cls))

    return all(issubclass(owner("cacheable"), owner(name)) for name in _JUDGING if hasattr(each, name))
