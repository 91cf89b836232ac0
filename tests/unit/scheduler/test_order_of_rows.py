# SPDX-License-Identifier: Apache-2.0
"""A decision does not depend on the order in which hosts or pools became known."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduler.compute import filters, weights
from scheduler.compute.domain.virtual_machines import VIRTUAL_MACHINES
from scheduler.engine import evaluation
from scheduler.engine.decide import decide
from scheduler.engine.pipeline import prepare
from scheduler.engine.request_cache import RequestCache
from scheduler.state.host_cache import HostCache
from scheduler.volumes import weights as pool_weights
from scheduler.volumes.domain.domain import POOLS
from tests import factories
from tests.factories import NOW_S, changes, node
from tests.unit.scheduler import worlds
from tests.unit.scheduler.test_reference import CHOSEN, MULTIPLIERS, examples
from tests.unit.scheduler.volumes import pools as volumes
from tests.unit.scheduler.volumes import test_reference as volume_reference
from tests.unit.scheduler.volumes.pools import Pool, request

CHANCES = st.sampled_from(
    [
        {},
        {"alternates": 3},
        {"host_subset_size": 3, "alternates": 2},
        {"shuffle_best_same_weighed_hosts": True, "alternates": 2},
        {"lottery": True, "alternates": 2},
    ]
)


@pytest.fixture(autouse=True)
def always_followed() -> Iterator[None]:
    """Follow changes of the few hosts of a test too, however many of them have changed."""
    with mock.patch.object(evaluation, "WORTH_FOLLOWING", 0), mock.patch.object(evaluation, "_COST_OF_ONE", 0):
        yield


@dataclasses.dataclass
class FeedContents:
    """What the feed tells in any order: rows, services, what is on them, and aggregates."""

    domain: Any
    made: Any
    asked: Any
    rows: list[Any]
    services: list[Any]
    placed: list[Any]
    aggregates: list[Any] = dataclasses.field(default_factory=list)

    def at_once(self, chance: random.Random | None = None) -> Any:
        """Return the answer of a cache that has read everything at once, shuffled if there is a chance."""
        cache = HostCache(self.domain)
        cache.apply(self._changes(full=True, chance=chance, rows=self.rows))
        return self._answer(cache, RequestCache())

    def one_by_one(self, chance: random.Random) -> Any:
        """Return the answer of a cache that has read row after row, with rows that went away again.

        A decision after each row keeps its evaluation, as requests in between do.
        """
        cache, remembered = HostCache(self.domain), RequestCache()
        cache.apply(self._changes(full=False, chance=chance, rows=[]))
        for row in shuffled(self.rows, chance):
            other = chance.choice(self.rows)
            cache.apply(changes([row], services=[]))
            self._answer(cache, remembered)
            cache.apply(changes([dataclasses.replace(other, deleted=True)], services=[]))
            self._answer(cache, remembered)
            if other is not row:
                cache.apply(changes([other], services=[]))
        cache.apply(self._changes(full=chance.random() < 0.5, chance=chance, rows=self.rows))
        return self._answer(cache, remembered)

    def _changes(self, full: bool, chance: random.Random | None, rows: list[Any]) -> Any:
        everything = {"services": self.services, "instances": self.placed, "aggregates": self.aggregates}
        if chance is not None:
            rows = shuffled(rows, chance)
            everything = {name: shuffled(each, chance) for name, each in everything.items()}
        return changes(rows, full=full, **everything)

    def _answer(self, cache: HostCache, remembered: RequestCache) -> Any:
        prepared = prepare(self.made, self.asked)
        made = decide(self.made, prepared, cache.candidates(NOW_S), random.Random(7), cache=remembered, best=5)
        return made.picks, made.scores, made.to_wire(), made.reason


def shuffled(rows: list[Any], chance: random.Random) -> list[Any]:
    return chance.sample(rows, len(rows))


@examples(150)
@given(
    scene=worlds.scenes(),
    count=st.integers(1, 4),
    chosen=CHOSEN,
    weighers=st.dictionaries(st.sampled_from([cls.__name__ for cls in weights.CLASSES]), MULTIPLIERS, max_size=3),
    chances=CHANCES,
    seed=st.integers(0, 1000),
)
def test_hosts(scene, count, chosen, weighers, chances, seed):
    """The picks, the alternates, the score table and the reasons are equal for all orders of the same hosts."""
    scene.world.options["required"] = False
    asked, chance = scene.asked(count), random.Random(seed)
    loaded = [scene.filter(name) for name in chosen]
    for each in loaded:
        each.prepare(asked, lambda: [each.hypervisor_hostname for each in scene.nodes])
    made = factories.pipeline(loaded, [scene.weigher(*each) for each in weighers.items()], **chances)
    services, instances = list(scene.world.services.values()), list(scene.world.instances)
    world = FeedContents(VIRTUAL_MACHINES, made, asked, scene.nodes, services, instances, scene.aggregates)
    expected = world.at_once()
    assert expected == world.at_once(chance)
    assert expected == world.one_by_one(chance)


@examples(120)
@given(
    scene=volume_reference.scenes(),
    multipliers=st.tuples(volume_reference.MULTIPLIERS, volume_reference.MULTIPLIERS),
    chances=CHANCES,
    seed=st.integers(0, 1000),
)
def test_pools(scene, multipliers, chances, seed):
    """The same for storage pools and a volume."""
    rated = [pool_weights.CapacityWeigher(multipliers[0]), pool_weights.VolumeNumberWeigher(multipliers[1])]
    services = [factories.Service(host) for host in {pool.host: None for pool in scene.pools}]
    made = volumes.pipeline(weighers=rated, **chances)
    world = FeedContents(POOLS, made, scene.asked, scene.pools, services, scene.volumes)
    chance = random.Random(seed)
    expected = world.at_once()
    assert expected == world.at_once(chance)
    assert expected == world.one_by_one(chance)


NAMES = [f"host{number}" for number in range(9)]


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(chances={}, seed=187)  # the table loses rows between two decisions
@given(chances=CHANCES, seed=st.integers(0, 1000))
def test_equal_hosts(chances, seed):
    """Nothing but the key tells equal hosts apart."""
    asked, made = (
        factories.request(count=1),
        factories.pipeline([filters.RamFilter()], [weights.RAMWeigher()], **chances),
    )
    world = FeedContents(
        VIRTUAL_MACHINES, made, asked, [node(name) for name in NAMES], [factories.Service(name) for name in NAMES], []
    )
    chance = random.Random(seed)
    expected = world.at_once()
    assert expected == world.at_once(chance)
    assert expected == world.one_by_one(chance)


def test_the_smallest_key_wins():
    """Of equal pools the smallest host name wins, then the smallest pool name, whatever came first."""
    rows = [Pool("m2@lvm", "a"), Pool("m1@lvm", "b"), Pool("m1@lvm", "a"), Pool("m3@lvm", "a")]
    made = volumes.decided(volumes.pipeline(alternates=3), volumes.candidates(*rows), request())
    (pick,) = made.picks
    alternates = [(place.host, place.nodename) for place in pick.alternates]
    assert [("m1@lvm", "a"), ("m1@lvm", "b"), ("m2@lvm", "a"), ("m3@lvm", "a")] == [pick.key, *alternates]
