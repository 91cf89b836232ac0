# SPDX-License-Identifier: Apache-2.0
"""Conductors count what the fleet is asked for, and schedulers read it with the change feed."""

from __future__ import annotations

from typing import Any

from conductor_stub.operators.tenancy import Tenancy
from fleet import states
from fleet.db.engine.database import Database, Transaction
from fleet.db.feed.feed import ChangeFeed
from fleet.db.hosts import flavor_mix
from fleet.db.tables import models
from fleet.objects.flavor_mix import Counts, Shape
from tests.worlds.conductor import Conductor

DAY_S = 86400
SMALL, LARGE = Shape(1, 1024), Shape(4, 8192, 10)


class Instances:
    """Rows of instances, as builds and deletions leave them."""

    def __init__(self, conductor: Conductor) -> None:
        self._database, self._clock = conductor.database, conductor.clock
        self._number = 0
        request = {"reservation_id": "r-1", "spec": {}, "created_at": self._clock()}
        self._database.write(lambda tx: tx.insert(models.build_requests, request))

    def add(self, shape: Shape, placed: bool = True) -> str:
        self._number += 1
        uuid = f"00000000-0000-0000-0000-{self._number:012}"
        sizes = {"vcpus": shape.vcpus, "memory_mb": shape.memory_mb, "root_gb": shape.disk_gb}
        row = {"uuid": uuid, "name": uuid, "reservation_id": "r-1", "created_at": self._clock(), "attempt": 1}

        def write(tx: Transaction) -> None:
            tx.insert(models.instances, {**row, **sizes, "vm_state": "active", "launched_at": self._clock()})
            if placed:
                tx.touch(models.instances, uuid)

        self._database.write(write)
        return uuid

    def touch(self, uuid: str, **values: object) -> None:
        def write(tx: Transaction) -> None:
            if values:
                tx.update(models.instances, uuid, values)
            tx.touch(models.instances, uuid)

        self._database.write(write)

    def delete(self, uuid: str) -> None:
        self.touch(uuid, vm_state=states.DELETED, deleted=True, deleted_at=self._clock())


def count(conductor: Conductor) -> bool:
    return conductor.database.write(flavor_mix.count, conductor.clock(), DAY_S)


def counts(database: Database) -> dict[Shape, Counts]:
    found = database.read(flavor_mix.read).counts
    return {shape: Counts(*(round(number, 2) for number in each)) for shape, each in found.items()}


def test_requests_and_lives_are_counted(conductor: Conductor) -> None:
    """Each instance once, a minute after its request; its life when it has ended."""
    instances = Instances(conductor)
    first = instances.add(SMALL)
    instances.add(LARGE)
    conductor.clock.advance(61)
    assert count(conductor)
    assert {SMALL: Counts(1.0), LARGE: Counts(1.0)} == counts(conductor.database)
    conductor.clock.advance(3600 - 61)
    instances.delete(first)
    instances.add(SMALL)
    assert count(conductor) is False  # too young
    conductor.clock.advance(61)
    assert count(conductor)
    assert Counts(1.97, 1.0, 1.0) == counts(conductor.database)[SMALL]
    conductor.clock.advance(61)
    instances.touch(first)
    assert count(conductor) is False
    assert Counts(1.97, 1.0, 1.0) == counts(conductor.database)[SMALL]


def test_a_request_that_is_placed_late_is_counted(conductor: Conductor) -> None:
    """Its row gets a generation only when a host has it: here after a count that was too early for it."""
    instances = Instances(conductor)
    count(conductor)
    conductor.clock.advance(59)
    late = instances.add(SMALL, placed=False)
    conductor.clock.advance(2)
    assert count(conductor) is False
    instances.touch(late)
    conductor.clock.advance(61)
    assert count(conductor)
    assert {SMALL: Counts(1.0)} == counts(conductor.database)


def test_one_conductor_counts(conductor: Conductor) -> None:
    """The second one within a minute finds that it was done."""
    instances = Instances(conductor)
    instances.add(SMALL)
    conductor.clock.advance(61)
    assert [True, False] == [count(conductor), count(conductor)]


def test_the_feed_brings_the_mix(conductor: Conductor) -> None:
    """With everything, and then when it has changed; not every time."""
    feed = ChangeFeed(conductor.database, conductor.clock)
    assert None is feed.read(0).mix
    Instances(conductor).add(SMALL)
    conductor.clock.advance(61)
    count(conductor)
    generation = feed.read(1).generation
    conductor.clock.advance(61)
    assert None is feed.read(generation).mix
    found = feed.read(0).mix
    assert found is not None
    assert (1, {SMALL: Counts(1.0)}) == (found.version, dict(found.counts))


def test_flavors_are_listed_with_their_shares(conductor: Conductor) -> None:
    """A flavor without requests has no share. A project does not learn what others boot."""
    for name, shape in (("small", SMALL), ("large", LARGE)):
        sizes = {"vcpus": shape.vcpus, "memory_mb": shape.memory_mb, "root_gb": shape.disk_gb}
        conductor.operator.create_flavor({"name": name, **sizes})
    Instances(conductor).add(SMALL)
    conductor.clock.advance(61)
    count(conductor)
    small, large = listed = conductor.operator.list_flavors()
    assert (1.0, 1.0) == (small["share_of_requests"], small["share_of_core_hours"])
    assert None is large["share_of_requests"] is large["share_of_core_hours"]
    asking, call = {"project_id": "shop", "is_admin": False}, {"namespace": "operator", "method": "list_flavors"}
    shown: Any = Tenancy(conductor.database).release(asking, call, listed)
    assert [(each["name"], None, None) for each in listed] == [
        (each["name"], each["share_of_requests"], each["share_of_core_hours"]) for each in shown
    ]
