# SPDX-License-Identifier: Apache-2.0
"""Servers that several suites share, each started once a run and only when a test asks for it.

Where a server is not installed its tests are skipped, and the closing lines say so; with ``CI=true`` or
``FLEET_REQUIRE_SERVERS=1`` they fail instead, so that a green run means that everything ran.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Generator, Iterator
from typing import Any, NoReturn, TypeVar

import pytest
import wrapt

from fleet.agent import commands
from fleet_trial import private_servers
from tests import costs, evidence, seeds, shared_servers
from tests.collecting import pytest_collection  # noqa: F401  (a hook)
from tests.lanes import pytest_xdist_make_scheduler  # noqa: F401  (a hook)
from tests.leftovers import logging_stays_as_it_was, nothing_is_left_behind  # noqa: F401  (fixtures of every test)

_MISSING: set[str] = set()
_NOT_TESTED = "fleet_not_tested"
Server = TypeVar("Server")
_SERVERS: pytest.StashKey[shared_servers.Servers | shared_servers.ServersElsewhere] = pytest.StashKey()
seeds.install()


def pytest_configure(config: pytest.Config) -> None:
    servers = shared_servers.of(config)
    config.stash[_SERVERS] = servers
    config.pluginmanager.register(servers)
    config.add_cleanup(servers.stop)


@wrapt.when_imported("hypothesis")
def time_decides_nothing(hypothesis: Any) -> None:
    """An example may be slow: the machine is shared."""
    settings = hypothesis.settings
    settings.register_profile("fleet", settings.default, deadline=None)
    settings.load_profile("fleet")


def pytest_report_header() -> str:
    return f"seed: {seeds.of_run()} ({seeds.VARIABLE} repeats it)"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mix the suites where processes share them, the longest files first: no process shall wait for the last file.

    :mod:`tests.lanes` says which process begins with which.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        places = costs.places((_file(item) for item in items), costs.known())
        items.sort(key=lambda item: places[_file(item)])


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    seeds.begin(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        evidence.add_to(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, dict[str, Any] | None, dict[str, Any] | None]:
    report = yield
    for part in ("sections", "longrepr"):
        if report and report.get(part):
            report[part] = evidence.sendable(report[part])
    return report


@pytest.fixture(scope="session")
def broker(pytestconfig: pytest.Config) -> private_servers.RabbitMQ:
    """A private RabbitMQ node, which other processes use, too.

    A test may add users and virtual hosts with names of its own; one that stops a node starts its own.
    """
    return _shared(pytestconfig, "rabbitmq")


@pytest.fixture(scope="session")
def rabbitmq_url(broker: private_servers.RabbitMQ) -> str:
    """Transport URL of a virtual host that no other process uses, on the private RabbitMQ node."""
    return f"{broker.url}{shared_servers.PROCESS}"


@pytest.fixture(scope="session")
def postgresql_url(pytestconfig: pytest.Config) -> str:
    """URL of a database, empty at first, on a private PostgreSQL server."""
    return _database(pytestconfig, "postgresql")


@pytest.fixture(scope="session")
def mariadb_url(pytestconfig: pytest.Config) -> str:
    """URL of a database, empty at first, on a private MariaDB server."""
    return _database(pytestconfig, "mariadb")


def _database(config: pytest.Config, server: str) -> str:
    url = _shared(config, server)
    return shared_servers.create_database(url, "fleet") if shared_servers.PROCESS else url


def _shared(config: pytest.Config, server: str) -> Any:
    """Return a server of the run, or skip the test where it is not installed."""
    try:
        return config.stash[_SERVERS].get(server)
    except private_servers.ServerMissing as lacking:
        missing(str(lacking))


@pytest.fixture(scope="session")
def promtool() -> str:
    """Path of Prometheus' rule checker. Few machines have it, so its absence is reported and fails nothing."""
    found = shutil.which("promtool")
    if found is None:
        _MISSING.add(
            "promtool is not installed: alert rules and dashboard are not checked (Debian: apt install prometheus)"
        )
        pytest.skip("promtool is not installed")
    return found


@pytest.fixture(scope="session")
def device_mapper() -> bool:
    """Whether the kernel can activate logical volumes. Otherwise their data are not tested, and the closing lines say so."""
    found = "device-mapper" in pathlib.Path("/proc/misc").read_text()
    if not found:
        reason = "the kernel has no device mapper: what the driver lvm writes to logical volumes is not tested"
        if os.environ.get("FLEET_REQUIRE_SERVERS") == "1":
            pytest.fail(reason)
        _MISSING.add(reason)
    return found


@pytest.fixture(scope="session")
def loop_devices() -> None:
    """Skip where a test cannot make a volume group on a loop device."""
    absent = [program for program in ("losetup", "vgcreate") if commands.find(program) is None]
    reason = f"{absent[0]} is not installed (Debian package lvm2)" if absent else ""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        reason = "a volume group for the tests needs root and loop devices: the driver lvm is not tested"
    if reason:
        missing(reason)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_NOT_TESTED] = sorted(_MISSING)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist could not test."""
    _MISSING.update(getattr(node, "workeroutput", {}).get(_NOT_TESTED, ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _MISSING:
        terminalreporter.section("NOT TESTED, for want of a server")
        for reason in sorted(_MISSING):
            terminalreporter.line(reason)


def missing(reason: str) -> NoReturn:
    """Skip the test for want of something, or fail where nothing may be missing."""
    if os.environ.get("CI") == "true" or os.environ.get("FLEET_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    _MISSING.add(reason)
    pytest.skip(reason)


def started(start: Callable[[], contextlib.AbstractContextManager[Server]]) -> Iterator[Server]:
    """Run a server, or skip the test where it is not installed."""
    try:
        with start() as server:
            yield server
    except private_servers.ServerMissing as lacking:
        missing(str(lacking))
