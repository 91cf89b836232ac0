# SPDX-License-Identifier: Apache-2.0
"""``libvirtd``: a private one; ``image``: what its guests boot; ``machine``: a driver on both. Each says what is missing."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import itertools
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet_trial import private_servers
from tests import conftest, leftovers
from tests.guests import tiny_image
from tests.guests.machine import Machine
from tests.shared_servers import create_database

_STARTED = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class _Restarted:
    """Tests may restart the server, which lives for the whole session."""

    server: private_servers.Libvirt

    def keeps_thread(self, _thread: threading.Thread) -> bool:
        return False

    def keeps_process(self, pid: int) -> bool:
        return pid == self.server.pid


@pytest.fixture(scope="module")
def postgresql_url(postgresql_url: str) -> str:
    """A database of each module's own: their images have the same name."""
    return create_database(postgresql_url, f"guests_{next(_STARTED)}")


@pytest.fixture(scope="session")
def libvirtd() -> Iterator[private_servers.Libvirt]:
    yield from private_libvirtd()


@pytest.fixture(scope="session")
def other_libvirtd() -> Iterator[private_servers.Libvirt]:
    """That of a second host."""
    yield from private_libvirtd()


def private_libvirtd(post_copy: bool = False) -> Iterator[private_servers.Libvirt]:
    if importlib.util.find_spec("libvirt") is None:
        conftest.missing("libvirt-python is not installed: make guests installs it")
    for server in conftest.started(functools.partial(private_servers.libvirt, post_copy=post_copy)):
        keeper = _Restarted(server)
        leftovers.KEEPERS.append(keeper)
        yield server
        leftovers.KEEPERS.remove(keeper)


@pytest.fixture(scope="session")
def image() -> Iterator[pathlib.Path]:
    """A raw image that boots. Not in pytest's directories, which only one user may enter."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="fleet-tiny-"))
    try:
        yield tiny_image.make(directory)
    except tiny_image.CannotMake as reason:
        conftest.missing(str(reason))
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def make_machine(libvirtd: private_servers.Libvirt, image: pathlib.Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []
    with tempfile.TemporaryDirectory(prefix="fleet-machine-") as directory:
        os.chmod(directory, 0o711)

        def make(root: pathlib.Path | None = None, **options: Any) -> Machine:
            machine = Machine(root or pathlib.Path(directory), libvirtd.uri, image, **options)
            made.append(machine)
            return machine

        yield make
        for machine in made:
            machine.clear()


@pytest.fixture
def machine(make_machine: Callable[..., Machine]) -> Machine:
    return make_machine()
