# SPDX-License-Identifier: Apache-2.0
"""The two forms of a weigher: nova's, asked host by host, and ours, asked for all hosts at once."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Sequence
from typing import Any, Self, TypeGuard

import numpy
from oslo_config import cfg

from fleet.objects import RequestSpec
from scheduler.compute import one_host, overrides
from scheduler.compute.host_state import HostState
from scheduler.engine.candidates import Candidates


@dataclasses.dataclass
class WeighedHost:
    """A host and its weight, in nova's form."""

    obj: HostState
    weight: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {"weight": self.weight, "host": self.obj.host}

    def __repr__(self) -> str:
        return f"WeighedHost [host: {self.obj!r}, weight: {self.weight}]"


class BaseHostWeigher:
    """A weigher in nova's form: :meth:`_weigh_object` is asked for every host that the filters let through.

    Raw weights are brought to 0..1 over the hosts of the request, multiplied, and added up over the weighers.
    ``minval`` and ``maxval`` fix a bound of that range; a raw weight beyond it counts as the bound.
    """

    minval: float | None = None
    maxval: float | None = None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Called once, at start. A weigher without options of its own is made with no argument."""
        return cls()

    def applies(self, request: RequestSpec) -> bool:
        """Whether to weigh for this request at all. By default yes; no leaves every host's weight as it is."""
        return True

    def weight_multiplier(self, host_state: HostState | None = None) -> float:
        """How much this weigher counts, negative to turn it round; may be declared without ``host_state``."""
        return 1.0

    def _weigh_object(self, host_state: HostState, weight_properties: dict[str, Any]) -> float:
        """The raw weight of one host: any number, higher is better."""
        raise NotImplementedError

    def weigh_objects(self, weighed_obj_list: Sequence[WeighedHost], weight_properties: dict[str, Any]) -> list[float]:
        """The raw weights of the hosts, in their order. Override it to judge them together."""
        return [self._weigh_object(weighed.obj, weight_properties) for weighed in weighed_obj_list]


class ColumnWeigher(BaseHostWeigher):
    """A weigher over columns: :meth:`raw` is asked once for all hosts.

    A host's raw weight may depend on that host and the request only, unless ``depends_on_picks`` says otherwise.
    """

    depends_on_picks = False
    #: Whether :meth:`raw` may refuse the request: then it is asked even where the multiplier is 0.
    refuses = False
    #: Name of the option that holds the multiplier, in [DEFAULT], and of the aggregate metadata that overrides it.
    option = ""
    #: The host's number of which the raw weight is made, unless :meth:`raw` says otherwise.
    column = ""

    def __init__(self, multiplier: float = 1.0) -> None:
        self._multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        return cls(conf[cls.option]) if cls.option else cls()

    def raw(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray:
        """One float for each of ``hosts``, higher is better. By default :meth:`raw_of` the weigher's column."""
        if not self.column:
            raise NotImplementedError
        return self.raw_of(hosts.column(self.column))

    def raw_of(self, numbers: numpy.ndarray) -> numpy.ndarray:
        """The raw weights of hosts with these numbers in the weigher's column; by default the numbers themselves."""
        return numbers

    def multiplier(self, hosts: Candidates) -> float | numpy.ndarray:
        """How much this weigher counts: one number, or one for each of ``hosts`` where aggregates have their own.

        Of several aggregates of a host, the smallest counts, as in nova since Stein.
        """
        return overrides.number(hosts, self.option, self._multiplier)

    def recall_key(self, request: RequestSpec) -> Hashable | None:
        """All of the request that :meth:`raw` and :meth:`applies` depend on, if the rest is the host's own row.

        As :meth:`scheduler.filters.ColumnFilter.recall_key`. By default nothing if a column is all there is to it; else
        None, which asks about every host every time.
        """
        return () if self.column else None

    # nova's form of the same, for a subclass that adds to it, and for tests

    def weight_multiplier(self, host_state: HostState | None = None) -> float:
        if host_state is None:
            return self._multiplier
        multiplier = self.multiplier(one_host.candidates(host_state))
        return float(multiplier[0] if isinstance(multiplier, numpy.ndarray) else multiplier)

    def _weigh_object(self, host_state: HostState, weight_properties: dict[str, Any] | RequestSpec) -> float:
        request = one_host.request(weight_properties)
        return float(self.raw(one_host.candidates(host_state), request)[0]) if self.applies(request) else 0.0


#: What a subclass of a built-in weigher overrides to go back to weighing host by host.
_NOVA_FORM = ("_weigh_object", "weigh_objects", "weight_multiplier")


def over_columns(each: BaseHostWeigher) -> bool:
    """Whether to ask ``raw``: not if a subclass of a built-in weigher has its own say on single hosts."""
    return _over_columns(type(each))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _over_columns(each: type) -> bool:
    return issubclass(each, ColumnWeigher) and all(
        getattr(each, name) is getattr(ColumnWeigher, name) for name in _NOVA_FORM
    )


def is_column_alone(each: BaseHostWeigher) -> TypeGuard[ColumnWeigher]:
    """Whether a raw weight is made of one column, and of nothing else."""
    if not (isinstance(each, ColumnWeigher) and over_columns(each)):
        return False
    return bool(each.column) and type(each).raw is ColumnWeigher.raw


def uniform(each: BaseHostWeigher, hosts: Candidates) -> float | None:
    """The raw weight of all hosts, if it is known to be the same without looking at them."""
    if not is_column_alone(each):
        return None
    number = hosts.uniform(each.column)
    return None if number is None else float(each.raw_of(numpy.array(number)))


def recalls(each: BaseHostWeigher) -> bool:
    """Whether ``recall_key`` speaks for the rest: not if a subclass weighs in its own way and kept the key."""
    return over_columns(each) and _recalls(type(each))  # type: ignore[arg-type]  # a class is hashable


@functools.cache
def _recalls(each: type) -> bool:
    names = ("raw", "applies", "multiplier", "recall_key")
    owner = {name: next(cls for cls in each.__mro__ if name in vars(cls)) for name in names}
    return all(issubclass(owner["recall_key"], owner[name]) for name in names)
