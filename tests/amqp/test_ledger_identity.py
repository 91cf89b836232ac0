# SPDX-License-Identifier: Apache-2.0
"""Daemons of another database on the same broker: their messages are refused and do no harm."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import oslo_messaging
import pytest

from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, eventually, running
from tests.amqp.invariants import come_to_rest
from tests.shared_servers import create_database

BUILDS = 12


@pytest.fixture
def stand(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, postgresql_url: str, broker: RabbitMQ
) -> Iterator[tuple[Trio, pathlib.Path]]:
    """A trio, and a configuration file of the same broker with an empty database."""
    suffix = request.node.name
    ours, theirs = (create_database(postgresql_url, f"{name}_{suffix}"[:59]) for name in ("ours", "theirs"))
    with running(Trio(tmp_path, broker.vhost(f"ledgers-{suffix}"), ours)) as trio:
        foreign = tmp_path / "foreign.conf"
        foreign.write_text(f"[DEFAULT]\nhost = foreign\n[database]\nconnection = {theirs}\n")
        trio.manage("db", "sync")
        trio.manage("--config-file", str(foreign), "db", "sync")
        trio.start("conductor", "fleet-conductor")
        trio.start("scheduler", "fleet-scheduler")
        trio.start("agent", "fleet-compute", "--hosts", "a[1-2]")
        trio.wait_for_hosts(2)
        trio.wait_for_service("fleet-scheduler")
        yield trio, foreign


@pytest.mark.long
def test_a_foreign_scheduler_is_not_believed(stand: tuple[Trio, pathlib.Path]) -> None:
    """It receives a share of the requests and refuses them. The callers retry, and all builds end ACTIVE."""
    trio, foreign = stand
    trio.start("foreign", "fleet-scheduler", "--config-file", str(foreign))
    eventually(lambda: "This scheduler is not registered there" in trio.log("foreign"))
    uuids = [uuid for _number in range(BUILDS) for uuid in trio.boot()]
    assert {"active"} == set(trio.wait_for(uuids, "active", "error").values())
    assert "is foreign here: this scheduler works for ledger" in trio.log("foreign")
    # A client names no ledger, and is answered by either.
    trio.forget("foreign")
    come_to_rest(trio)


@pytest.mark.long
def test_a_foreign_conductor_has_no_say_over_guests(stand: tuple[Trio, pathlib.Path]) -> None:
    """Its empty database has no instances. The agent keeps its guests, while it runs and after a restart."""
    trio, foreign = stand
    uuids = [uuid for _number in range(4) for uuid in trio.boot()]
    trio.wait_for(uuids, "active")
    trio.start("foreign", "fleet-conductor", "--config-file", str(foreign))
    eventually(lambda: "this conductor works for ledger" in trio.log("foreign"))
    trio.stop("conductor")
    trio.stop("agent")
    trio.restart("agent")
    eventually(lambda: "Two databases share this virtual host" in trio.log("agent"))
    trio.forget("foreign")
    trio.restart("conductor")
    trio.wait_for_hosts(2)

    def guests() -> set[str]:
        return {uuid for host in ("a1", "a2") for uuid in trio.describe_host(host)["guests"]}

    eventually(lambda: guests() == set(uuids), retry_on=oslo_messaging.MessageUndeliverable)
    assert {"active"} == set(trio.wait_for(uuids, "active").values())
