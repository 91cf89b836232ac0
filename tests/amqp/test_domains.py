# SPDX-License-Identifier: Apache-2.0
"""Daemons that serve virtual machines only, and daemons that serve volumes only, in one fleet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, eventually, running
from tests.shared_servers import create_database

_DISKS = """\
[DEFAULT]
host = disks
enabled_backends = few
backend_stats_polling_interval = 3
[few]
volume_driver = fake
fake_pools = x:25
"""


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory, broker: RabbitMQ, postgresql_url: str) -> Iterator[Trio]:
    """A conductor and a scheduler for each domain, with a virtual host and a database of their own."""
    directory = tmp_path_factory.mktemp("divided")
    url = create_database(postgresql_url, "divided")

    def only(domain: str) -> tuple[str, str]:
        path = directory / f"{domain}.conf"
        path.write_text(f"[DEFAULT]\nhost = {domain}\nconductor_domains = {domain}\nscheduler_domains = {domain}\n")
        return "--config-file", str(path)

    disks = directory / "disks.conf"
    disks.write_text(_DISKS)
    default = f"volume_state_path = {directory}/state\n"
    with running(Trio(directory, broker.vhost("divided"), url, default=default)) as trio:
        trio.manage("db", "sync")
        for domain in ("compute", "volume"):
            trio.start(f"conductor-{domain}", "fleet-conductor", *only(domain))
            trio.start(f"scheduler-{domain}", "fleet-scheduler", *only(domain))
        trio.start("agent", "fleet-compute", "--hosts", "a1")
        trio.start("disks", "fleet-volume", "--config-file", str(disks))
        trio.wait_for_hosts(1)
        eventually(lambda: [each for each in trio.operator("list_pools") if each["state"] == "up"])
        eventually(lambda: {"scheduler", "volume_scheduler"} <= topics(trio))
        yield trio


def topics(trio: Trio) -> set[str]:
    engine = sa.create_engine(trio.database_url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return set(connection.execute(sa.text("SELECT topic FROM services WHERE last_seen_up IS NOT NULL")).scalars())


def status(trio: Trio, uuid: str) -> str:
    (found,) = trio.operator("list_volumes", filters={"uuids": [uuid]})
    return found["status"]


@pytest.mark.long
def test_each_domain_goes_on_without_the_daemons_of_the_other(divided: Trio) -> None:
    """Without a conductor for volumes, volumes are accepted and wait; machines are built. The doctor names the lack."""
    (volume,) = [each["uuid"] for each in divided.operator("create_volumes", request={"size": 1})["volumes"]]
    eventually(lambda: status(divided, volume) == "available")
    assert 0 == len([line for line in doctor(divided, timeout_s=30) if "no answer" in line])
    divided.kill("conductor-volume")
    (later,) = [each["uuid"] for each in divided.operator("create_volumes", request={"size": 1})["volumes"]]
    assert {"active"} == set(divided.wait_for(divided.boot(), "active", "error").values())
    assert "creating" == status(divided, later)
    divided.restart("conductor-volume")
    eventually(lambda: status(divided, later) == "available")
    divided.kill("scheduler-compute")
    (last,) = [each["uuid"] for each in divided.operator("create_volumes", request={"size": 1})["volumes"]]
    eventually(lambda: status(divided, last) == "available")
    assert [line for line in doctor(divided) if line.startswith("scheduler: no answer")]


def doctor(trio: Trio, timeout_s: float = 2) -> list[str]:
    ran = trio.cli("doctor", "-f", "csv", "--quote", "none", "-c", "Check", "-c", "Found", "--timeout", str(timeout_s))
    return [line.replace(",", ": ", 1) for line in ran.stdout.splitlines()]
