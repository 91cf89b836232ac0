# SPDX-License-Identifier: Apache-2.0
"""Two fleets with different exchanges on one virtual host: they share queues, and refuse each other's clients."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from fleet import errors
from fleet.context import new_context
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import clients, server, transport
from fleet.rpc.rabbit.conf import LEAN, STOCK
from fleet_trial import private_servers
from tests.functional.test_lean_driver import conf_of

CALLS = 12


class Conductor:
    target = oslo_messaging.Target(version="1.0")

    def __init__(self) -> None:
        self.heard: list[int] = []

    def write(self, _context: object, number: int) -> int:
        self.heard.append(number)
        return number


class Client(clients.API):
    topic = "conductor"


class Fleet:
    """One database, with conductors, and clients that do or do not know its ledger."""

    def __init__(self, url: str, driver: str = LEAN) -> None:
        self.conf = conf_of(url, driver)
        self.conf.set_override("control_exchange", f"exchange-{uuid.uuid4().hex[:8]}")
        self.ledger = LedgerIdentity("conductor", str(uuid.uuid4()))
        self.bus = transport.get_transport(self.conf)

    @contextlib.contextmanager
    def conductor(self) -> Iterator[Conductor]:
        endpoint = Conductor()
        served = server.get_server(
            self.bus, Client.topic, uuid.uuid4().hex, [endpoint], server.Options(ledger=self.ledger)
        )
        served.start(override_pool_size=1)
        try:
            yield endpoint
        finally:
            served.stop()
            served.wait()

    def write(self, number: int, ledger: LedgerIdentity | None = None) -> Any:
        """:param ledger: None for a client, which knows none"""
        return Client(self.bus, self.conf, ledger=ledger)._call(new_context(), "write", number=number)


@pytest.fixture(scope="module")
def url(broker: private_servers.RabbitMQ) -> str:
    return broker.vhost(f"two-fleets-{uuid.uuid4()}")


@pytest.fixture
def ours(url: str) -> Iterator[Fleet]:
    fleet = Fleet(url)
    yield fleet
    fleet.bus.cleanup()


@pytest.fixture(params=[LEAN, STOCK])
def theirs(request: pytest.FixtureRequest, url: str) -> Iterator[Fleet]:
    """A fleet whose clients use either driver."""
    fleet = Fleet(url, request.param)
    yield fleet
    fleet.bus.cleanup()


def test_a_client_does_not_write_to_another_fleet(ours: Fleet, theirs: Fleet) -> None:
    """The broker gives half of its calls to our conductor, which refuses them; the next attempt reaches its own fleet."""
    with ours.conductor() as our_conductor, theirs.conductor() as their_conductor:
        assert list(range(CALLS)) == [theirs.write(number) for number in range(CALLS)]
    assert ([], list(range(CALLS))) == (our_conductor.heard, their_conductor.heard)


def test_a_client_without_conductors_of_its_own_reads_why(ours: Fleet, theirs: Fleet) -> None:
    """The binding outlives the conductor that has made it."""
    with ours.conductor() as conductor:
        with theirs.conductor():
            pass
        with pytest.raises(errors.ForeignExchange) as refused:
            theirs.write(1)
        assert 2 == ours.write(2)
    facts = (refused.value.theirs, refused.value.ours, refused.value.service)
    assert (theirs.conf.control_exchange, ours.conf.control_exchange, "conductor") == facts
    assert [2] == conductor.heard


def test_a_daemon_of_the_same_ledger_may_use_an_earlier_exchange(ours: Fleet, theirs: Fleet) -> None:
    """Daemons get a new ``control_exchange`` one after the other."""
    with ours.conductor() as conductor:
        with theirs.conductor():
            pass
        assert 1 == theirs.write(1, ours.ledger)
    assert [1] == conductor.heard
