# SPDX-License-Identifier: Apache-2.0
"""Notifications that have a broker of their own, which is away: no decision, build or stop of a daemon waits for it."""

from __future__ import annotations

import pathlib

import pytest

from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, running
from tests.shared_servers import create_database

pytestmark = pytest.mark.long
NAME = "notifications"
DAEMONS = {
    "conductor": ("fleet-conductor",),
    "scheduler": ("fleet-scheduler",),
    "agent": ("fleet-compute", "--hosts", "h[1-2]"),
}
#: Nothing listens there. By default, an attempt to send is repeated without end.
AWAY = "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = rabbit://guest:guest@127.0.0.1:1/\n"


def test_builds_go_on(tmp_path: pathlib.Path, postgresql_url: str, broker: RabbitMQ) -> None:
    url = create_database(postgresql_url, NAME)
    away = tmp_path / "away.conf"
    away.write_text(AWAY)
    with running(Trio(tmp_path, broker.vhost(NAME), url)) as trio:
        trio.manage("db", "sync")
        for name, (program, *arguments) in DAEMONS.items():
            trio.start(name, program, "--config-file", str(away), *arguments)
        trio.wait_for_hosts(2)
        trio.wait_for_service("fleet-scheduler")
        uuids = [uuid for _number in range(5) for uuid in trio.boot()]
        assert {"active"} == set(trio.wait_for(uuids, "active", "error").values())
        trio.terminate(uuids)
        assert {"deleted"} == set(trio.wait_for(uuids, "deleted").values())
        assert [0, 0, 0] == [trio.stop(name) for name in DAEMONS]
