# SPDX-License-Identifier: Apache-2.0
"""A broker that refuses connections, at the start and later: daemons keep running, log it, and continue when it accepts
them.
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, eventually, running
from tests.shared_servers import create_database

#: It starts three daemons, and calls rabbitmqctl often; :mod:`tests.amqp.test_degraded` has the start without a broker.
pytestmark = pytest.mark.long
NAME = "refusing"
USER = "refused"
DAEMONS = {
    "r-conductor": ("fleet-conductor",),
    "r-scheduler": ("fleet-scheduler",),
    "r-agent": ("fleet-compute", "--hosts", "r1"),
}
#: Of a daemon's log while it is refused. A retry without a pause writes thousands.
MOST_LINES = 60


@pytest.fixture(scope="module")
def ports() -> dict[str, int]:
    found = {}
    for name in DAEMONS:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            found[name] = probe.getsockname()[1]
    return found


@pytest.fixture(scope="module")
def stand(
    tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, broker: RabbitMQ, ports: dict[str, int]
) -> Iterator[Trio]:
    """Daemons that were refused by the broker when they started, and were let in when all of them had been."""
    directory = tmp_path_factory.mktemp(NAME)
    url = create_database(postgresql_url, NAME)
    ours = broker.vhost(NAME)
    theirs = broker.add_users(NAME, USER)[USER]
    broker.ctl("set_permissions", "-p", NAME, USER, ".*", ".*", ".*")
    broker.ctl("change_password", USER, "another")
    with running(Trio(directory, theirs, url, direct_url=ours)) as trio:
        trio.manage("db", "sync")
        for name, (program, *arguments) in DAEMONS.items():
            path = directory / f"{name}.conf"
            path.write_text(
                f"[health]\nport = {ports[name]}\nservice_offset = 0\nround_trip_interval = 1\nround_trip_limit = 5\n"
            )
            trio.start(name, program, "--config-file", str(path), *arguments)
        require_refused(ports)
        broker.ctl("change_password", USER, USER)
        require_calm(trio, dict.fromkeys(DAEMONS, 0))
        yield trio


def test_at_the_start(stand: Trio, ports: dict[str, int]) -> None:
    """While they are refused they live and are not ready. They serve as soon as they are let in."""
    until_ready(ports)


def _rotate(broker: RabbitMQ) -> Callable[[], object]:
    broker.ctl("change_password", USER, "another")
    return lambda: broker.ctl("change_password", USER, USER)


def _limit(broker: RabbitMQ) -> Callable[[], object]:
    broker.ctl("set_user_limits", USER, json.dumps({"max-connections": 0}))
    return lambda: broker.ctl("clear_user_limits", USER, "max-connections")


@pytest.mark.parametrize("refuse", [_rotate, _limit], ids=["password rotated", "connection limit"])
def test_in_life(
    stand: Trio, broker: RabbitMQ, ports: dict[str, int], refuse: Callable[[RabbitMQ], Callable[[], object]]
) -> None:
    """Connections that are closed are refused when they are made anew."""
    until_ready(ports)
    # All of the daemons have a connection for answers, too.
    stand.wait_for_hosts(1)
    before = {name: len(stand.log(name)) for name in DAEMONS}
    let_in = refuse(broker)
    try:
        broker.ctl("close_all_user_connections", USER, "a test closes it")
        require_refused(ports)
    finally:
        let_in()
    require_calm(stand, before)
    until_ready(ports)
    # A heartbeat may still wait for the answer that was lost.
    stand.wait_for_hosts(1)
    (uuid,) = stand.boot()
    stand.wait_for([uuid], "active")
    stand.terminate([uuid])
    eventually(lambda: not stand.operator("list_instances"))


def require_refused(ports: dict[str, int]) -> None:
    """Wait until none of them is ready. All of them live."""
    for name, port in ports.items():
        found = eventually(lambda port=port: not health(port)["ready"] and health(port), retry_on=OSError)  # type: ignore[misc]
        assert found["live"], name


def require_calm(trio: Trio, before: dict[str, int]) -> None:
    for name, start in before.items():
        lines = trio.log(name)[start:].splitlines()
        assert [] == [line for line in lines if "Traceback" in line], name
        assert len(lines) < MOST_LINES, (name, len(lines))
        assert trio.is_running(name)


def until_ready(ports: dict[str, int]) -> None:
    for port in ports.values():
        eventually(lambda port=port: health(port)["ready"], retry_on=OSError)  # type: ignore[misc]


def health(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as not_ready:
        return json.load(not_ready)


@pytest.mark.long
def test_fanout_queues_are_bounded(stand: Trio, broker: RabbitMQ, ports: dict[str, int]) -> None:
    """They hold little, and not for long. A killed scheduler leaves none: each ends with its connection."""
    until_ready(ports)
    told = broker.ctl("list_queues", "-p", NAME, "name", "exclusive", "arguments", "--formatter=json")
    fanouts = [each for each in json.loads(told) if each["name"].startswith("scheduler_fanout_")]
    assert fanouts
    for each in fanouts:
        assert each["exclusive"]
        assert {"x-message-ttl": 60_000, "x-max-length": 10_000}.items() <= _arguments(each["arguments"]).items()


def _arguments(listed: Any) -> dict[str, Any]:
    """As RabbitMQ's releases list them: a mapping, or triples of name, type and value."""
    return listed if isinstance(listed, dict) else {name: value for name, _kind, value in listed}
