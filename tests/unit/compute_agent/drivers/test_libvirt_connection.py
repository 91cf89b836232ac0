# SPDX-License-Identifier: Apache-2.0
"""The connection to a libvirt that stands still: it lets clients connect, and answers none of them."""

from __future__ import annotations

import pathlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from compute_agent.drivers.libvirt import LibvirtDriver
from compute_agent.drivers.libvirt.domains import connection
from compute_agent.drivers.libvirt.domains.connection import Connection, Unreachable
from fleet import errors
from tests.unit.compute_agent import builders

pytest.importorskip("libvirt")
TEST = "test:///default"


@pytest.fixture
def still(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a libvirtd that is stopped: its socket takes connections."""
    monkeypatch.setattr(connection, "_OPEN_S", 0.05)
    path = tmp_path / "libvirt-sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        yield f"qemu+unix:///system?socket={path}"


def test_a_libvirt_that_does_not_answer_is_unreachable(still: str) -> None:
    """Calls would wait for it without end, one after the other."""
    away = Connection(still)
    for _twice in range(2):
        with pytest.raises(Unreachable, match="has not answered a new connection for 0.05 s"):
            away.get()
    with pytest.raises(Unreachable, match="has not answered a new connection"):
        Connection(TEST).open_other(still)


def test_a_host_whose_libvirt_stands_still_takes_no_builds(still: str, tmp_path: pathlib.Path) -> None:
    """An audit that waits would leave the last report valid: each build that comes would end in ERROR."""
    conf = builders.a_conf(compute_driver="libvirt", instances_path=str(tmp_path))
    conf.set_override("connection_uri", still, group="libvirt")
    driver = LibvirtDriver(conf)
    driver._disks.start()
    assert {} == driver.get_per_instance_usage()
    with pytest.raises(errors.ReportRefused, match="has not answered a new connection"):
        driver.get_available_resource("machine")


class Slow:
    """libvirt's ``open``, which answers when it is let go on."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open = connection.library().open
        self.goes_on = threading.Event()
        self.tries = 0
        self.opened: list[Any] = []
        patch.setattr(connection, "_OPEN_S", 0.05)
        patch.setattr(connection.library(), "open", self)

    def __call__(self, uri: str) -> Any:
        self.tries += 1
        self.goes_on.wait()
        self.opened.append(self._open(uri))
        return self.opened[-1]


def test_a_libvirt_that_goes_on_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls have waited for one try, which took one thread however often they came."""
    slow = Slow(monkeypatch)
    here = Connection(TEST)
    for _times in range(5):
        with pytest.raises(Unreachable):
            here.get()
        with pytest.raises(Unreachable):
            here.open_other(TEST)
    slow.goes_on.set()
    monkeypatch.setattr(connection, "_OPEN_S", 60.0)
    while not (here._opening.is_over and here._late[TEST].is_over):  # type: ignore[union-attr]
        threading.Event().wait(0.001)
    found = here.get()
    assert (2, True, True) == (slow.tries, found in slow.opened, found is here.get())
    here.open_other(TEST).close()
    assert (3, {}) == (slow.tries, here._late)
    here.close()


def test_a_refused_connection_is_tried_again() -> None:
    here = Connection("test:///no/such/file")
    for _twice in range(2):
        with pytest.raises(Unreachable, match="cannot be reached"):
            here.get()
    here.uri = TEST
    assert here.get().isAlive()
    here.close()
