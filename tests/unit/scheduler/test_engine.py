# SPDX-License-Identifier: Apache-2.0
"""The engine works in another domain: ships and harbours."""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Mapping
from typing import Any

import numpy
import pytest

from scheduler.engine.decide import decide
from scheduler.engine.decision import Decision, Refused
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.domain import (
    Defaults,
    Domain,
    Held,
    HostRow,
    Layout,
    Normalisation,
    PluginLife,
    Requests,
    Rows,
)
from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.pipeline import Pipeline, prepare
from scheduler.engine.plugins import BaseHostFilter, ColumnFilter, ColumnWeigher
from scheduler.engine.request_cache import RequestCache
from scheduler.state.host_manager import HostManager
from tests import factories


@dataclasses.dataclass(frozen=True)
class Ship:
    uuid: str
    host: str
    pier: str | None = None


@dataclasses.dataclass(frozen=True)
class Voyage:
    """A request: ``num_instances`` ships of a length in metres."""

    length_m: float
    num_instances: int = 1
    instance_uuids: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    ignore_hosts: tuple[str, ...] = ()
    within_hosts: tuple[str, ...] | None = None
    ignore_nodes: tuple[tuple[str, str], ...] = ()
    requested_hosts: tuple[str, ...] = ()
    requested_nodes: tuple[str, ...] = ()
    group_updated: bool = False
    filter_properties: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    request_spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class QuayFilter(ColumnFilter):
    def mask(self, hosts: Candidates, request: Voyage) -> numpy.ndarray:
        return hosts.column("free_m") >= request.length_m


class LongestQuay(ColumnWeigher):
    column = "free_m"


class FairLongestQuay(LongestQuay):
    """The raw weight may not go below 100 m."""

    minval = 100.0


class CallingOnce(BaseHostFilter):
    """Remembers on itself which harbours it has seen: such a filter must be made for each request."""

    def __init__(self) -> None:
        self.seen: frozenset[str] = frozenset()

    def host_passes(self, host_state: Any, filter_properties: dict[str, Any]) -> bool:
        fresh = host_state.host not in self.seen
        self.seen |= {host_state.host}
        return fresh


def harbours(normalisation: Normalisation = "clamp", plugin_life: PluginLife = "process") -> Domain:
    return Domain(
        name="harbours",
        layout=Layout(
            columns={"free_m": float, "ships": int, "disabled": bool, "forced_down": bool, "last_seen_up": float},
            shared={"aggregates": ()},
            objects=(),
            empty={},
            attributes=frozenset(),
            views={},
            host_state=lambda hosts, row: types.SimpleNamespace(host=hosts.key(row)[0], nodename=hosts.key(row)[1]),
        ),
        rows=Rows(
            read_row=lambda row: HostRow({"free_m": row.free_m, "ships": 0}, {}, {}, {}, {}),
            read_placed=lambda row: Ship(row.uuid, row.host),
            is_gone=lambda row: row.deleted,
            is_over=lambda row: row.deleted,
            has_moved=lambda row: True,
            is_up=lambda hosts, _down_s: ~hosts.column("forced_down"),
            steady_until=lambda hosts, _down_s: numpy.inf,
        ),
        requests=Requests(
            placed=lambda uuid, host, node, request: Ship(uuid, host, node),
            consumption=lambda voyage: Consumption({"free_m": -voyage.length_m, "ships": 1}),
            held=lambda ship: Held({"free_m": -ship.length_m}, {}),
            request_key=lambda voyage: voyage.length_m,
        ),
        defaults=Defaults(
            normalisation=normalisation,
            plugin_life=plugin_life,
        ),
    )


def inventory(domain: Domain, **free_m: float) -> Inventory:
    made = Inventory(domain)
    for host, metres in free_m.items():
        made.table.write(made.table.add((host, "pier")), {"free_m": metres, "present": True})
    return made


class NoBerth:
    def __init__(self, refused: Refused) -> None:
        self.code = refused.filters[0].reason
        self.sentence = f"no berth of {refused.request.length_m} m"

    def to_wire(self) -> dict[str, Any]:
        return {}


def pipeline(domain: Domain, *weighers: Any, filters: Any = None) -> Pipeline:
    return Pipeline(domain, filters or [QuayFilter()], weighers, NoBerth)


def decided(made: Pipeline, hosts: Inventory, voyage: Voyage, cache: RequestCache | None = None) -> Decision:
    return decide(made, prepare(made, voyage), Candidates(hosts, 0.0), random.Random(1), cache=cache)


def test_a_fleet_of_ships() -> None:
    """Each ship goes to the longest quay that is left, and the last finds none."""
    hosts = inventory(harbours(), ostend=300, bergen=250, faro=90)
    made = decided(pipeline(hosts.domain, LongestQuay()), hosts, Voyage(100, 6, tuple("abcdef")))
    assert ["ostend", "bergen", "ostend", "bergen", "ostend"] == [pick.key[0] for pick in made.picks]
    assert "no berth of 100 m" in made.reason
    assert [("QuayFilter", 3, 0)] == [tuple(count) for count in made.counts]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("none", [300.0, 150.0, 60.0]),
        ("widen", [1.0, (150 - 60) / 240, 0.0]),
        ("clamp", [1.0, (150 - 100) / 200, 0.0]),
    ],
)
def test_normalisation_is_the_domain_s(policy: Normalisation, expected: list[float]) -> None:
    """Raw sums, bounds widened to what is observed (60 m), or raw weights clamped to the fixed bound (100 m)."""
    hosts = inventory(harbours(policy), ostend=300, bergen=150, faro=60)
    made = pipeline(hosts.domain, FairLongestQuay())
    prepared = prepare(made, Voyage(50, 1, ("a",)))
    decision = decide(made, prepared, Candidates(hosts, 0.0), random.Random(1), best=3)
    assert expected == pytest.approx([line["weight"] for line in decision.scores])


@pytest.mark.parametrize(("life", "expected"), [("process", [True, False]), ("request", [True, True])])
def test_how_long_a_filter_lives_is_the_domain_s(life: PluginLife, expected: list[bool]) -> None:
    """A filter that keeps state on itself serves one request, or all of them."""
    hosts = inventory(harbours(plugin_life=life), ostend=300)
    made = pipeline(hosts.domain, filters=[CallingOnce()])
    assert expected == [decided(made, hosts, Voyage(50, 1, (name,))).complete for name in "ab"]


def test_the_cache_takes_the_domain_as_a_value() -> None:
    """The host manager follows a feed of harbours, and books a berth until the feed shows the ship."""

    class Harbours(HostManager):
        domain = harbours()

    class Feed:
        def __init__(self) -> None:
            row = types.SimpleNamespace(host="ostend", hypervisor_hostname="pier", deleted=False, free_m=150)
            self.changes = factories.changes([row], services=[factories.Service("ostend")])  # type: ignore[list-item]

        def read(self, since: int) -> Any:
            found, self.changes = self.changes, factories.changes(generation=since, services=[])
            return found

    feed = Feed()
    manager = Harbours(feed, feed)  # type: ignore[arg-type]
    made = pipeline(manager.domain, LongestQuay())
    manager.refresh()
    for name, expected in (("a", True), ("b", False)):
        prepared = prepare(made, Voyage(100, 1, (name,)))
        decision = manager.decide(
            lambda hosts, /, *, state, prepared=prepared: decide(made, prepared, hosts, random.Random(1)), (name,)
        )
        assert expected == decision.complete
    assert 1 == manager.counts()["bookings"]
