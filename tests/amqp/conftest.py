# SPDX-License-Identifier: Apache-2.0
"""``trio``: one conductor, one scheduler, two agents of three hosts each, running for all tests of this folder."""

from __future__ import annotations

import itertools
import secrets
import socket
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright import sync_api

from tests import browsers
from tests.amqp import openstack_client
from tests.amqp.daemons import Trio, eventually, running
from tests.shared_servers import create_database

HOSTS = 6
_STARTED = itertools.count(1)


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "package"]:
    """End the daemons with the folder's last test: idle ones would take a tenth of a processor from the other suites.

    ``make shake`` mixes the files of all suites, and would start them again and again.
    """
    return "session" if config.pluginmanager.hasplugin("tests.shake.plugin") else "package"


@pytest.fixture(scope=_scope)
def ledger_url(postgresql_url: str) -> str:
    """A database that no other suite uses."""
    return create_database(postgresql_url, f"trio_{next(_STARTED)}")


@pytest.fixture(scope="session")
def health_port() -> int:
    """The first of six free ports in a row: two conductor workers, the scheduler, the first agent, and two for a test.

    They are below those that the system gives to clients. Each process looks at random places, whatever the seed of the
    run: another process, of this run or of another checkout, may look at the same time.
    """
    anywhere = secrets.SystemRandom()
    for _attempt in range(1000):
        first = anywhere.randrange(20000, 32000, 6)
        try:
            for port in range(first, first + 6):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


@pytest.fixture(scope=_scope)
def trio(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_url: str, ledger_url: str, health_port: int
) -> Iterator[Trio]:
    directory = tmp_path_factory.mktemp("trio")

    def health(number: int) -> tuple[str, str]:
        """A file of its own for a daemon's own port."""
        path = directory / f"health-{number}.conf"
        path.write_text(f"[health]\nport = {health_port + number}\nservice_offset = 0\nround_trip_interval = 2\n")
        return "--config-file", str(path)

    driver = "compute_driver = unruly_driver.UnrulyDriver\n"
    with running(Trio(directory, rabbitmq_url, ledger_url, default=driver, fake="spawn_delay = 0.5\n")) as trio:
        trio.manage("db", "sync")
        trio.start("conductor", "fleet-conductor", *health(0))
        trio.start("scheduler", "fleet-scheduler", *health(2))
        trio.start("agent-a", "fleet-compute", "--hosts", "a[1-3]", *health(3))
        trio.start("agent-b", "fleet-compute", "--hosts", "b[1-3]")
        trio.wait_for_hosts(HOSTS)
        trio.wait_for_service("fleet-scheduler")
        yield trio


@pytest.fixture(scope="session", autouse=True)
def end_of_openstack_commands() -> Iterator[None]:
    yield
    openstack_client.end()


@pytest.fixture(scope="session")
def browser() -> Iterator[sync_api.Browser]:
    """Chromium, without a window. Its start takes three seconds of processor time."""
    if browsers.find() is None:
        pytest.skip("chromium is not installed: apt install chromium-headless-shell")
    with sync_api.sync_playwright() as driver:
        browser = browsers.launch(driver)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def empty_hosts(trio: Trio) -> Iterator[None]:
    """Each test leaves nothing behind."""
    yield
    trio.unruly()
    left = [instance["uuid"] for instance in trio.operator("list_instances")]
    if left:
        trio.terminate(left)
        eventually(lambda: not trio.operator("list_instances"))


@pytest.fixture(scope="module", autouse=True)
def empty_catalog(trio: Trio) -> Iterator[None]:
    """Each module leaves no flavor, image, group and quota, so two modules may use the same names in any order."""
    yield
    for kind, argument, field in (
        ("flavor", "name", "name"),
        ("image", "name", "name"),
        ("group", "name", "uuid"),
        ("quota", "project_id", "project_id"),
    ):
        for each in trio.operator(f"list_{kind}s"):
            trio.operator(f"delete_{kind}", **{argument: each[field]})
