# SPDX-License-Identifier: Apache-2.0
"""The interface of a domain, such as virtual machines, to the engine and the cache.

The engine knows columns by name and nothing of what they mean. A domain is a value: it is handed to the inventory and to
the pipeline, and neither imports it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar, cast

import numpy

from fleet.objects.feed_rows import ShownPlace, ShownThing
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.table import Key
from scheduler.engine.names import Request, RequestT, Wire

#: How raw weights are made comparable: not at all; over the observed range, widened to a weigher's own bounds; or
#: clamped to a weigher's own bounds.
Normalisation = Literal["none", "widen", "clamp"]
#: How long a filter object lives: as long as the process, or for one request.
PluginLife = Literal["process", "request"]
#: Rows of the places of one domain, and of its things
PlaceT = TypeVar("PlaceT", bound=ShownPlace, contravariant=True)
ThingT = TypeVar("ThingT", bound=ShownThing, contravariant=True)


class Placed(Protocol):
    """A thing that is on a host, or picked for one; at least this much of it is known."""

    @property
    def uuid(self) -> str: ...
    @property
    def host(self) -> str: ...


class HostRow(NamedTuple):
    """One host as the database has it, in the form of the table.

    :param numbers: column → number
    :param objects: column → any value
    :param shared: column → a hashable value that many hosts share
    :param rare: name → a value that few hosts have; empty values take no memory
    :param bookable: name → a rare value from which placed things take, such as PCI devices
    """

    numbers: dict[str, float]
    objects: Mapping[str, Any]
    shared: Mapping[str, Hashable]
    rare: Mapping[str, Any]
    bookable: Mapping[str, Any]


class Held(NamedTuple):
    """The resources that a placed instance holds of its host.

    :param numbers: column → amount that placing it added
    :param give_back: name of a rare value → function from the value with the thing to the value without it
    """

    numbers: Mapping[str, float]
    give_back: Mapping[str, Callable[[Any], Any]]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Columns of the table of hosts, and what plugins of one host at a time read of a row.

    :param columns: number columns and their types, ``int``, ``float`` or ``bool``
    :param shared: columns of values that many hosts share → the value of a host that reports none
    :param objects: columns of other values, one for each host
    :param empty: names of rare values that plugins read → type of the empty value of a host without one
    :param attributes: further names that a host state has; their values come from ``views`` or are None
    :param views: attributes of a host state that are computed: (candidates, row) → value
    :param host_state: (candidates, row) → the row in the form that plugins of one host at a time read
    :param often_uniform: number columns that have one value on all hosts of most fleets
    :param alternates_share: the shared column in which alternates must have the value of their pick; None if there is none
    """

    columns: Mapping[str, type]
    shared: Mapping[str, Any]
    objects: Sequence[str]
    empty: Mapping[str, type]
    attributes: frozenset[str]
    views: Mapping[str, Callable[[Any, int], Any]]
    host_state: Callable[[Any, int], Any]
    often_uniform: Sequence[str] = ()
    alternates_share: str | None = None


@dataclasses.dataclass(frozen=True)
class Rows(Generic[PlaceT, ThingT]):
    """Readers of rows of the database.

    :param read_row: a row of the database → :class:`HostRow`
    :param read_placed: a row of the database → the index entry of a placed thing
    :param is_gone: a row of the database → True if the thing is on no host any more, whatever its row says
    :param is_over: a row of the database → True if the thing will not need a host any more
    :param has_moved: a row of the database → True if a move has claimed its destination, or is over
    :param is_up: (candidates, service_down_time in seconds) → mask of the hosts whose service is alive
    :param steady_until: (candidates, service_down_time in seconds) → epoch second at which time alone may change ``is_up``
    :param is_given_back: a row without a host → True if it means that the host of a pick gave the thing back
    :param counted_in: a row of the database → uuids of things that its ``counted_columns`` count
    :param is_counted: a row that names the host of its booking → True if the row of that host counts the thing already
    """

    read_row: Callable[[PlaceT], HostRow]
    read_placed: Callable[[ThingT], Placed]
    is_gone: Callable[[ThingT], bool]
    is_over: Callable[[ThingT], bool]
    has_moved: Callable[[ThingT], bool]
    is_up: Callable[[Any, float], numpy.ndarray]
    steady_until: Callable[[Any, float], float]
    is_given_back: Callable[[ThingT], bool] = lambda row: True
    counted_in: Callable[[PlaceT], Collection[str]] = lambda row: ()
    counted_columns: frozenset[str] = frozenset()
    is_counted: Callable[[ThingT], bool] = lambda row: True


@dataclasses.dataclass(frozen=True)
class Requests(Generic[RequestT]):
    """Readers of requests, and of what they have placed.

    :param placed: (uuid, host, node, request) → the index entry of a new pick
    :param consumption: request → what one instance takes of its host
    :param held: what is known of a placed thing → what it holds of its host
    :param request_key: request → cache key of all that plugins may read of it; None if the result must not be cached
    :param properties: request → keys of ``filter_properties`` that plugins of one host at a time find besides the caller's
    :param plugin_form: ``filter_properties`` of a request → the same, with all that plugins of one host at a time read
    """

    placed: Callable[[str, str, str | None, RequestT], Placed]
    consumption: Callable[[RequestT], Consumption]
    held: Callable[[Any], Held]
    request_key: Callable[[RequestT], Hashable | None]
    properties: Callable[[RequestT], Mapping[str, Any]] = lambda request: {}
    plugin_form: Callable[[Wire], Wire] = dict


@dataclasses.dataclass(frozen=True)
class Defaults:
    """The default plugins of a domain and their treatment, if the configuration sets no others.

    :param restrictions: classes of filters that always run, before those of the configuration
    :param closing: classes of filters that always run, after those of the configuration
    :param preferences: classes of weighers that always run, besides those of the configuration
    """

    normalisation: Normalisation = "clamp"
    plugin_life: PluginLife = "process"
    filters: Sequence[str] = ()
    weighers: Sequence[str] = ()
    restrictions: Sequence[type[Any]] = ()
    closing: Sequence[type[Any]] = ()
    preferences: Sequence[type[Any]] = ()


@dataclasses.dataclass(frozen=True)
class Words:
    """Names in messages to operators.

    :param place: what the keys of the table are, in the words of the operator: "host", "pool"
    :param node: what one row of the table is, where a place may have several
    :param thing: what is placed: "instance", "volume"
    :param counted: names of the counts of places, of what is on them, and of bookings
    :param place_name: key → name of the place in sentences
    """

    place: str = "host"
    node: str = "compute node"
    thing: str = "instance"
    counted: tuple[str, str, str] = ("nodes", "instances", "bookings")
    place_name: Callable[[Key], str] = lambda key: key[0]


@dataclasses.dataclass(frozen=True)
class Domain:
    """One domain, in five groups of values that the engine and the cache read. Make it with :meth:`of`."""

    name: str
    layout: Layout
    rows: Rows[ShownPlace, ShownThing]
    requests: Requests[Request]
    defaults: Defaults = dataclasses.field(default_factory=Defaults)
    words: Words = dataclasses.field(default_factory=Words)

    @classmethod
    def of(
        cls,
        name: str,
        layout: Layout,
        rows: Rows[PlaceT, ThingT],
        requests: Requests[RequestT],
        defaults: Defaults | None = None,
        words: Words | None = None,
    ) -> Domain:
        """Make a domain. Its readers agree on the types of rows and requests, which the engine does not know.

        A cache hands the readers only rows of the domain's feed, and drivers only requests that the domain has parsed.
        """
        return cls(
            name,
            layout,
            cast("Rows[ShownPlace, ShownThing]", rows),
            cast("Requests[Request]", requests),
            defaults or Defaults(),
            words or Words(),
        )
