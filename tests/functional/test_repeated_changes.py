# SPDX-License-Identifier: Apache-2.0
"""A change whose message arrives twice, at one conductor or at two, is carried out once and answered twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent import futures
from typing import Any
from unittest import mock

import oslo_messaging
import pytest

from conductor_stub.operators.tenancy import Tenancy
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.instances import outcomes
from fleet.db.instances.outcomes import KeptOutcomes
from fleet.rpc import serializer
from fleet.rpc.rabbit.lean import wire
from fleet.rpc.rabbit.lean.incoming import Incoming
from fleet.rpc.trust import admission, repeated_changes
from tests.clock import FakeClock
from tests.worlds.conductor import Conductor, context
from tests.worlds.volumes import Volumes

#: Which of two conductors receives the first copy, and which one the second.
SAME, ANOTHER = (0, 0), (0, 1)
both = pytest.mark.parametrize("receivers", [SAME, ANOTHER], ids=["the same conductor", "another one"])


class Message:
    """A message that a driver publishes twice. ``replies`` are the bodies of the replies to its copies."""

    def __init__(self, method: str, caller: Any = None, **arguments: Any) -> None:
        message = {"namespace": "operator", "version": "1.25", "method": method, "args": arguments}
        values = serializer.ContextSerializer().serialize_context(caller or context())
        self._said = json.dumps([values, message])
        self._unique_id = wire.new_id()
        self.replies: list[dict[str, Any]] = []

    def arrives(self, at: admission.Dispatcher) -> Any:
        """The answer. :raises errors.FleetError: the refusal"""
        values, message = json.loads(self._said)
        request = wire.Request(values, message, self._unique_id, "m1", "replies", None, 100)
        received = Incoming(request, mock.Mock(reply=lambda _queue, body: self.replies.append(json.loads(body))))
        try:
            answer = at.dispatch(received)
        except oslo_messaging.ExpectedException as expected:
            received.reply(failure=expected.exc_info)
            raise expected.exc_info[1] from None
        received.reply(answer)
        return answer


def conductors(
    database: Database, endpoints: Any, sleep: Callable[[float], object] = lambda _s: None
) -> tuple[admission.Dispatcher, admission.Dispatcher]:
    """Two, over one ledger."""

    def made() -> admission.Dispatcher:
        return admission.Dispatcher(
            list(endpoints),
            serializer.ContextSerializer(),
            admission.MethodsOnly,
            guard=Tenancy(database),
            changes=repeated_changes.RepeatedChanges(KeptOutcomes(database, FakeClock()), sleep),
        )

    return made(), made()


@both
def test_a_snapshot_is_made_once(database: Database, receivers: tuple[int, int]) -> None:
    volumes = Volumes(database)
    of = volumes.available(name="data")
    fleet, message = conductors(database, volumes.operator.endpoints), Message("create_snapshot", volume=of)
    first, second = (message.arrives(fleet[each]) for each in receivers)
    assert (first, [first["uuid"]]) == (second, [each["uuid"] for each in volumes.operator.list_snapshots()])


@both
def test_a_flavor_is_made_and_deleted_once(
    conductor: Conductor, database: Database, receivers: tuple[int, int]
) -> None:
    """The second copy gets the answer of the first one, and no refusal because of what the first one has done."""
    fleet = conductors(database, conductor.operator.endpoints)
    made = Message("create_flavor", flavor={"name": "tiny", "vcpus": 1, "memory_mb": 64})
    first, second = (made.arrives(fleet[each]) for each in receivers)
    assert first == second
    gone = Message("delete_flavor", name="tiny")
    assert [None, None] == [gone.arrives(fleet[each]) for each in receivers]
    # Another message with the same content is another change.
    with pytest.raises(errors.NotFound):
        Message("delete_flavor", name="tiny").arrives(fleet[0])


@both
def test_a_refusal_is_repeated(conductor: Conductor, database: Database, receivers: tuple[int, int]) -> None:
    """Also if the change could be made by now: its caller has read the refusal of the first copy."""
    fleet, message = conductors(database, conductor.operator.endpoints), Message("delete_flavor", name="tiny")
    with pytest.raises(errors.NotFound) as first:
        message.arrives(fleet[receivers[0]])
    conductor.operator.create_flavor({"name": "tiny", "vcpus": 1, "memory_mb": 64})
    with pytest.raises(errors.NotFound) as second:
        message.arrives(fleet[receivers[1]])
    assert first.value.kwargs == second.value.kwargs
    assert ["tiny"] == [each["name"] for each in conductor.operator.list_flavors()]


@both
def test_a_project_deletes_its_group_once(conductor: Conductor, database: Database, receivers: tuple[int, int]) -> None:
    """The project's name of the group leads nowhere when the second copy arrives."""
    member = context("p1", is_admin=False)
    conductor.operator.under("p1").create_group("mine", "affinity")
    fleet, message = conductors(database, conductor.operator.endpoints), Message("delete_group", member, name="mine")
    assert [None, None] == [message.arrives(fleet[each]) for each in receivers]


class Growing:
    """Its change takes time: before it ends, ``meanwhile`` happens."""

    target = oslo_messaging.Target(namespace="operator", version="1.25")

    def __init__(self) -> None:
        self.size, self.meanwhile = 0, lambda: None

    def extend_volume(self, _context: object, by: int) -> int:
        self.size += by
        self.meanwhile()
        return self.size


def test_a_copy_waits_for_the_first_one(database: Database) -> None:
    """It looks a few times, and gets no answer if there is none: the caller waits for that to the first one."""
    endpoint, pauses = Growing(), list[float]()
    fleet, message = conductors(database, [endpoint], pauses.append), Message("extend_volume", by=1)

    def second() -> None:
        with pytest.raises(errors.NotTrusted):
            message.arrives(fleet[1])

    endpoint.meanwhile = second
    assert (1, 1, list(repeated_changes.PAUSES_S)) == (message.arrives(fleet[0]), endpoint.size, pauses)
    assert [1] == [each["result"] for each in _replies(message)]


def test_a_copy_finds_the_outcome_while_it_waits(database: Database) -> None:
    endpoint, kept = Growing(), KeptOutcomes(database, FakeClock())
    kept.take("k" * 64, "another", 600)
    copy = repeated_changes.RepeatedChanges(kept, lambda _s: kept.keep("k" * 64, '{"answer": 7}'))
    assert (7, 0) == (copy.answer("k" * 64, lambda: endpoint.extend_volume(None, 1)), endpoint.size)


def test_a_failure_that_nobody_expected_has_no_outcome(database: Database) -> None:
    """It is a bug, and may have changed something: the change is not tried again."""
    endpoint, message = Growing(), Message("extend_volume", by=1)
    fleet = conductors(database, [endpoint])
    endpoint.meanwhile = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        message.arrives(fleet[0])
    with pytest.raises(errors.NotTrusted):
        message.arrives(fleet[1])
    assert (1, []) == (endpoint.size, message.replies)


def test_an_outcome_that_is_too_large_is_not_kept(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_changes, "MOST_CHARACTERS", 5)
    endpoint, message = Growing(), Message("extend_volume", by=1)
    fleet = conductors(database, [endpoint])
    assert 1 == message.arrives(fleet[0])
    with pytest.raises(errors.NotTrusted):
        message.arrives(fleet[1])
    assert 1 == endpoint.size


def test_the_id_alone_makes_no_copy(database: Database) -> None:
    """Another message, or another caller, with the id of a message gets no answer of it."""
    endpoint, first = Growing(), Message("extend_volume", by=1)
    fleet = conductors(database, [endpoint])
    others = [Message("extend_volume", by=10), Message("extend_volume", context("p2"), by=1)]
    for each in others:
        each._unique_id = first._unique_id
    assert [1, 11, 12] == [each.arrives(fleet[0]) for each in (first, *others)]


def test_a_message_that_no_method_takes_is_not_recorded(database: Database) -> None:
    """Nor is a read."""
    fleet = conductors(database, [Growing()])
    for method in ("destroy_everything", "list_flavors", "create_volumes"):
        with pytest.raises(oslo_messaging.NoSuchMethod):
            Message(method).arrives(fleet[0])
    assert 0 == KeptOutcomes(database, lambda: FakeClock()().replace(year=2990)).prune()


# The record


def test_a_change_is_taken_once(database: Database) -> None:
    """Also by two conductors at the same time. A transaction that is run again finds that it was the first."""
    clock = FakeClock()
    first, second = KeptOutcomes(database, clock), KeptOutcomes(database, clock)
    assert [True, True, False] == [first.take("a", "x", 600), first.take("a", "x", 600), second.take("a", "y", 600)]
    with futures.ThreadPoolExecutor(8) as together:
        found = list(together.map(lambda number: (first, second)[number % 2].take("c", str(number), 600), range(8)))
    assert 1 == found.count(True)


def test_the_record_has_an_end(database: Database) -> None:
    """By time, and by number: the newest stay."""
    clock = FakeClock()
    kept = KeptOutcomes(database, clock)
    kept.take("old", "x", 600)
    clock.advance(599)
    for name in "abcd":
        kept.take(name, "x", 600)
        clock.advance(1)
    assert (1, None) == (kept.prune(), kept.outcome("old"))
    assert (2, 0) == tuple(database.write(outcomes.prune, clock(), 2) for _time in range(2))
    assert [True, True, False, False] == [kept.take(name, "y", 600) for name in "abcd"]


def _replies(message: Message) -> list[dict[str, Any]]:
    return [json.loads(each["oslo.message"]) for each in message.replies]
