# SPDX-License-Identifier: Apache-2.0
"""A crash of PostgreSQL loses the commits that did not wait for the disk; no accepted build is lost with them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import psutil
import pytest

from conductor_stub.steps.limits import StepLimits
from fleet import errors
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet_trial import private_servers
from tests.amqp.daemons import eventually
from tests.functional import databases
from tests.ha.keeper import kept
from tests.worlds.conductor import Conductor
from tests.worlds.guests import Guests

#: The server writes nothing by itself for as long as a test takes: its writer of the log stands still (:func:`quiet`).
LAZY = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "autovacuum": "off"}


def quiet(server: private_servers.PostgreSQL) -> None:
    """Suspend PostgreSQL's WAL writer: every ten seconds it writes asynchronous commits, which a test wants to lose."""

    def writer() -> psutil.Process | None:
        """Return it if it has begun: a server that has just been started answers before that."""
        for each in psutil.Process(server.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
                if "walwriter" in " ".join(each.cmdline()):
                    return each
        return None

    eventually(writer).suspend()


@pytest.fixture(scope="module")
def server() -> Iterator[private_servers.PostgreSQL]:
    with private_servers.postgresql_server(settings=LAZY) as made, kept([made]):
        quiet(made)
        yield made


@pytest.fixture
def ledger(server: private_servers.PostgreSQL) -> Iterator[Database]:
    with databases.open_database(server.url()).disposed() as made:
        databases.empty(made)
        yield made


@pytest.fixture
def crash(server: private_servers.PostgreSQL) -> Callable[[], None]:
    """Kill all processes of the server, and start it on what it has written."""

    def kill() -> None:
        server.kill()
        server.start()
        quiet(server)

    return kill


@pytest.fixture
def conductor(ledger: Database) -> Conductor:
    made = Conductor(ledger)
    made.add_hosts(["h1", "h2"])
    return made


def test_an_answered_request_is_durable(conductor: Conductor, crash: Callable[[], None]) -> None:
    """Nothing else waits for the disk between the answer and the crash."""
    uuids = conductor.create(count=3)
    crash()
    assert [("building", "scheduling", 1, None)] * 3 == [conductor.state(uuid) for uuid in uuids]


def test_a_claim_that_a_crash_loses(conductor: Conductor, crash: Callable[[], None]) -> None:
    """The host's finish is refused, so it removes the guest; the sweeper places the build again."""
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    assert ("building", "spawning", 1, "h1") == conductor.state(uuid)
    crash()
    assert ("building", None) == (conductor.state(uuid)[0], conductor.state(uuid)[3])
    assert 0 == conductor.memory_used("h1")
    with pytest.raises(errors.StaleBuild):
        conductor.finish(uuid, "h1")
    conductor.clock.advance(StepLimits().placing_timeout_s + 1)
    conductor.scheduler.answers.append([("h2", [])])
    conductor.sweeper.sweep()
    conductor.work()
    attempt = conductor.state(uuid)[2]
    conductor.claim(uuid, "h2", attempt)
    conductor.finish(uuid, "h2", attempt)
    crash()
    assert ("active", None, attempt, "h2") == conductor.state(uuid)
    assert (0, 1024) == (conductor.memory_used("h1"), conductor.memory_used("h2"))


def test_a_finish_makes_the_claim_durable(conductor: Conductor, crash: Callable[[], None]) -> None:
    """A guest that is reported as running is in the ledger after a crash, with its claim."""
    uuid = conductor.place("h1")
    conductor.claim(uuid, "h1")
    conductor.finish(uuid, "h1")
    crash()
    assert ("active", None, 1, "h1") == conductor.state(uuid)
    assert 1024 == conductor.memory_used("h1")


def test_the_claim_of_a_build_with_volumes_is_durable(ledger: Database, crash: Callable[[], None]) -> None:
    """A second guest must never write to its volumes."""
    guests = Guests(ledger)
    guests.add_host("h1", stats={"volume_hosts": "m1"})
    guests.available(name="data")
    uuid = guests.place("h1", block_device_mapping=[{"volume_id": "data"}])
    guests.claim(uuid, "h1")
    crash()
    assert ("building", "spawning", 1, "h1") == guests.state(uuid)


@pytest.mark.long
def test_generations_that_are_given_again(conductor: Conductor, ledger: Database, crash: Callable[[], None]) -> None:
    """After a crash other changes have the generations of the lost ones. A scheduler reads everything then."""
    feed = ChangeFeed(ledger)
    uuid = conductor.place("h1")
    before = feed.read(0).generation
    conductor.claim(uuid, "h1")
    known = feed.read(before)
    assert (False, [1024]) == (known.full, [row.memory_mb_used for row in known.nodes])
    crash()
    for memory_mb in (9000, 10_000):
        conductor.add_host("h2", memory_mb=memory_mb)
    now = feed.read(known.generation)
    assert now.full
    assert known.generation <= now.generation
    assert {"h1": 0, "h2": 0} == {row.host: row.memory_mb_used for row in now.nodes}
