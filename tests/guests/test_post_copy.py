# SPDX-License-Identifier: Apache-2.0
"""Real guests in the middle of a post-copy: no half is removed that the other host needs, and none is kept without it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from compute_agent.drivers.libvirt.domains.part import Part
from fleet import states
from fleet_trial.private_servers import Libvirt
from tests.guests import conftest
from tests.guests.machine import eventually
from tests.guests.test_live_migration import Live
from tests.guests.test_moves import TwoMachines, two_machines

__all__ = ["two_machines"]

libvirt = pytest.importorskip("libvirt")


@pytest.fixture(scope="module")
def libvirtd() -> Iterator[Libvirt]:
    yield from conftest.private_libvirtd(post_copy=True)


@pytest.fixture(scope="module")
def other_libvirtd() -> Iterator[Libvirt]:
    yield from conftest.private_libvirtd(post_copy=True)


class Halfway:
    """A guest that runs on its destination, with most of its memory still on the source."""

    def __init__(self, two: TwoMachines) -> None:
        self.two = two
        for option, value in (("live_migration_permit_post_copy", True), ("live_migration_bandwidth", 1)):
            two.source.conf.set_override(option, value, group="libvirt")
        self.live = Live(two)
        self.uuid = self.live.guest.uuid
        self.live.prepare()
        self.ended: list[BaseException | None] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        eventually(self._is_switched)

    def _run(self) -> None:
        try:
            self.live.migrate()
        except Exception as failure:
            self.ended.append(failure)
        else:
            self.ended.append(None)

    def _is_switched(self) -> bool:
        if self.ended and "Postcopy is not supported" in str(self.ended[0]):
            pytest.skip("the kernel gives QEMU no userfaultfd")
        assert [] == self.ended
        with contextlib.suppress(libvirt.libvirtError):
            self.live.domain.migrateStartPostCopy()
        return self.parts() == (Part.HALF, Part.HALF)

    def parts(self) -> tuple[Part, Part]:
        """What the source has, and the destination."""
        source, destination = self.two.source.driver, self.two.destination.driver
        return source._part(self.uuid), destination._part(self.uuid)

    def wait_for(self, *parts: Part) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        eventually(lambda: self.parts() == parts, 60)

    def waits(self) -> tuple[bool, bool]:
        """Whether the source, and the destination, must keep what they have."""
        source, destination = self.two.source.driver, self.two.destination.driver
        return source.waits_for(self.uuid, "destination"), destination.waits_for(self.uuid, "source")

    def starts_again(self) -> None:
        """The move ends as if the guest had arrived; then it starts on the destination, from its disk."""
        destination, guest = self.two.destination, self.live.moved
        destination.driver.post_live_migration_at_destination(self.two.context, guest)
        self.two.source.driver.confirm_migration(self.two.context, self.uuid)
        assert [] == self.two.source.guests()
        destination.driver.power_on(self.two.context, guest)
        destination.up(guest)


@pytest.fixture
def halfway(two_machines: TwoMachines) -> Halfway:
    return Halfway(two_machines)


def _kill(server: Libvirt) -> None:
    for pid in server.domains():
        os.kill(pid, signal.SIGKILL)


def test_a_half_has_not_arrived(halfway: Halfway) -> None:
    """Both hosts keep it until the rest is there. The limit of bandwidth also holds after the switch."""
    destination = halfway.two.destination.driver
    assert (False, True) == (destination.has_arrived(halfway.uuid), destination.is_halfway(halfway.uuid))
    assert (True, True) == halfway.waits()
    assert 1 == halfway.live.domain.migrateGetMaxSpeed(libvirt.VIR_DOMAIN_MIGRATE_MAX_SPEED_POSTCOPY)
    halfway.live.domain.migrateSetMaxSpeed(1000, libvirt.VIR_DOMAIN_MIGRATE_MAX_SPEED_POSTCOPY)
    halfway.wait_for(Part.NONE, Part.WHOLE)
    assert ([None], True) == (halfway.ended, destination.has_arrived(halfway.uuid))
    halfway.live.arrive()


def test_a_destination_whose_qemu_has_died(halfway: Halfway, other_libvirtd: Libvirt) -> None:
    """What is left on the source is ended. The guest starts again on the destination: what it has written is there."""
    two = halfway.two
    _kill(other_libvirtd)
    halfway.wait_for(Part.CUT_OFF, Part.CRASHED)
    assert (False, False) == halfway.waits()
    assert two.destination.driver.has_arrived(halfway.uuid)
    halfway.live.migrate()
    assert states.SHUTDOWN == two.source.state(halfway.live.guest)
    halfway.starts_again()


def test_a_source_whose_qemu_has_died(halfway: Halfway, libvirtd: Libvirt) -> None:
    """The guest cannot continue on the destination, and starts again there: what it has written is there."""
    _kill(libvirtd)
    halfway.wait_for(Part.CRASHED, Part.CUT_OFF)
    assert (False, False) == halfway.waits()
    halfway.live.migrate()
    # libvirt 9.0 keeps the lock of the call that has failed, and refuses to undefine the domain until it is started again.
    libvirtd.kill()
    libvirtd.start()
    halfway.two.source.restart()
    halfway.starts_again()


def test_an_interrupted_guest_waits(halfway: Halfway) -> None:
    """Its agent does not follow a job that libvirt has all the same, and begins it again."""
    halfway.live.domain.abortJobFlags(libvirt.VIR_DOMAIN_ABORT_JOB_POSTCOPY)
    halfway.wait_for(Part.CUT_OFF, Part.CUT_OFF)
    assert (True, True) == halfway.waits()
