# SPDX-License-Identifier: Apache-2.0
"""The conductor that accepts a request also places it, while it has room; the sweeper finds lost work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from conductor_stub.steps.local_placement import LocalPlacement
from fleet.db.engine.database import Database
from fleet.objects import BuildRequest
from tests.amqp.daemons import eventually
from tests.worlds.conductor import Conductor, context

#: Long enough for a machine with much other work; the log of a wait in vain shows why.
WAIT_S = 120


@pytest.fixture
def own() -> Iterator[LocalPlacement]:
    own = LocalPlacement(at_a_time=1)
    yield own
    own.stop()
    own.wait()


@pytest.fixture
def conductor(database: Database, own: LocalPlacement) -> Conductor:
    conductor = Conductor(database, local=own)
    conductor.add_hosts(["h1", "h2"])
    return conductor


class Gate:
    """Blocks a conductor's scheduler until the test opens it."""

    def __init__(self, conductor: Conductor) -> None:
        self._open = threading.Event()
        self.asked = threading.Event()
        conductor.scheduler.before = self._wait

    def _wait(self) -> None:
        self.asked.set()
        self._open.wait()

    def open(self) -> None:
        self._open.set()


def test_who_accepts_a_request_places_it(conductor: Conductor) -> None:
    """Nothing is cast to conductors, and the build goes its way."""
    conductor.scheduler.answers.append([("h1", ())])
    (uuid,) = conductor.create()
    eventually(lambda: len(conductor.compute.builds))
    ((host, order),) = conductor.compute.builds
    assert ("h1", uuid, 1) == (host, order["instance"]["uuid"], order["attempt"])
    assert 0 == conductor.work()
    assert ("building", "placing", 1, None) == conductor.state(uuid)
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    assert ("active", None, 1, "h1") == conductor.state(uuid)


def test_the_order_says_what_a_row_would(conductor: Conductor) -> None:
    """The order has the instance as in the ledger, although it was not read from there."""
    conductor.scheduler.answers.append([("h1", ())])
    (uuid,) = conductor.create(metadata={"key": "value"}, image={"properties": {"os_type": "linux"}})
    eventually(lambda: len(conductor.compute.builds))
    ((_host, order),) = conductor.compute.builds
    shown = {**conductor.operator.show_instance(uuid)["instance"], "created_at": order["instance"]["created_at"]}
    assert {name: value for name, value in shown.items() if name in order["instance"]} == order["instance"]


def test_what_it_has_no_room_for_is_left_to_others(conductor: Conductor) -> None:
    """A second request, while the scheduler is slow with the first, is cast to any conductor."""
    gate = Gate(conductor)
    conductor.scheduler.answers.extend([[("h1", ())], [("h2", ())]])
    conductor.create()
    assert gate.asked.wait(WAIT_S)
    (second,) = conductor.create()
    assert ("building", "scheduling", 1, None) == conductor.state(second)
    gate.open()
    eventually(lambda: len(conductor.compute.builds) == 1)
    assert 1 == conductor.work()
    assert ["h1", "h2"] == [host for host, _order in conductor.compute.builds]


def test_a_stop_ends_what_was_begun_and_begins_nothing(conductor: Conductor, own: LocalPlacement) -> None:
    """The stop waits until the first request is placed; another conductor gets the second."""
    gate = Gate(conductor)
    conductor.scheduler.answers.append([("h1", ())])
    conductor.create()
    assert gate.asked.wait(WAIT_S)
    own.stop()
    conductor.create()
    stopped = threading.Thread(target=own.wait)
    stopped.start()
    gate.open()
    stopped.join(10)
    assert (False, 1) == (stopped.is_alive(), len(conductor.compute.builds))
    assert 1 == len(conductor.tasks.cast)


def test_a_build_that_is_lost_with_its_conductor_is_handed_out(conductor: Conductor, own: LocalPlacement) -> None:
    """Its step is overdue like any other: another conductor takes it up, at the same attempt."""
    place = conductor.placement._place
    conductor.placement._place = lambda *_request: None  # type: ignore[method-assign]
    (uuid,) = conductor.create()
    eventually(lambda: _has_room(own))
    conductor.placement._place = place  # type: ignore[method-assign]
    conductor.clock.advance(conductor.limits.placing_timeout_s + 1)
    assert 1 == conductor.sweeper.sweep()
    conductor.scheduler.answers.append([("h2", ())])
    assert 1 == conductor.work()
    assert [("h2", uuid)] == [(host, order["instance"]["uuid"]) for host, order in conductor.compute.builds]


def test_a_repeated_request_gives_its_room_back(conductor: Conductor, own: LocalPlacement) -> None:
    """It gets the first answer, nothing is placed again, and the next request has the room."""

    def accept(token: str) -> dict[str, Any]:
        request = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}})
        eventually(lambda: _has_room(own))
        return conductor.intake.accept(context(), request, token)

    conductor.scheduler.answers.extend([[("h1", ())], [("h2", ())]])
    assert accept("one") == accept("one")
    accept("two")
    eventually(lambda: len(conductor.compute.builds) == 2)
    assert 0 == conductor.work()


def _has_room(own: LocalPlacement) -> bool:
    with own.room() as begin:
        return begin is not None
