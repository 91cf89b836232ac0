# SPDX-License-Identifier: Apache-2.0
"""What one host does about attachments: the rows decide, repeats do no harm, and a volume that it lacks is refused."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from typing import Any

import oslo_messaging
import pytest

from compute_agent.work.attach import Attacher
from fleet import errors
from fleet.objects import Attachment, VolumeConnection
from tests import leftovers
from tests.unit.compute_agent import builders
from tests.worlds.one_host import one_host

VOLUME, UUID = "11111111-0000-0000-0000-000000000000", "22222222-0000-0000-0000-000000000000"


class Attached:
    """One running guest, and what attaches volumes to it."""

    def __init__(self, **options: object) -> None:
        self.world = one_host(builders.a_conf(reserved_host_memory_mb=0, **options))
        self.uuid = self.world.conductor.place(builders.an_instance()).uuid
        self.world.build(self.world.conductor.rows[self.uuid])
        self.attacher = Attacher(self.world.host, self.world.ledger)

    def wants(
        self, status: str, where: VolumeConnection | None = None, on: str = "m1@files#p", attempt: int = 1
    ) -> None:
        where = where or VolumeConnection("fake", "fake/volume")
        self.world.conductor.attachments[UUID] = Attachment(UUID, VOLUME, self.uuid, "vdb", status, attempt, on, where)
        self.run()

    def run(self) -> None:
        self.attacher.run(builders.a_context(), self.uuid)

    @property
    def status(self) -> str | None:
        found = self.world.conductor.attachments.get(UUID)
        return found and found.status

    @property
    def failure(self) -> str:
        return self.world.conductor.failures.get(UUID, "")

    @property
    def guest(self) -> list[str]:
        return self.world.driver.attached_volumes().get(self.uuid, [])


@pytest.fixture
def attached() -> Attached:
    return Attached()


def test_a_volume_is_attached_and_detached(attached: Attached) -> None:
    attached.wants("attaching")
    assert ("attached", [VOLUME]) == (attached.status, attached.guest)
    attached.wants("detaching", attempt=3)
    assert (None, [], "") == (attached.status, attached.guest, attached.failure)


def test_an_order_that_is_repeated_does_nothing(attached: Attached) -> None:
    """Also one about steps that this guest has done, whose reports were lost."""
    attached.wants("attaching")
    attached.run()
    assert ("attached", [VOLUME]) == (attached.status, attached.guest)
    attached.wants("attaching")
    assert ("attached", [VOLUME]) == (attached.status, attached.guest)
    for _twice in range(2):
        attached.wants("detaching")
        assert (None, []) == (attached.status, attached.guest)


def test_the_volumes_of_a_guest_outlast_its_power(attached: Attached) -> None:
    attached.wants("attaching")
    row, driver = attached.world.conductor.rows[attached.uuid], attached.world.driver
    driver.reboot(builders.a_context(), row, hard=True)
    assert [VOLUME] == attached.guest
    driver.destroy(builders.a_context(), attached.uuid)
    assert {} == driver.attached_volumes()
    attached.wants("detaching")
    assert (None, "") == (attached.status, attached.failure)


@pytest.mark.parametrize(
    ("connection", "on", "options", "reason"),
    [
        ("file", "m1@files#p", {}, "machine m1, which the option volume_hosts of this host does not name"),
        ("block", "m2@lvm#p", {"volume_hosts": ["m1", "n*"]}, "machine m2, which the option volume_hosts"),
        ("file", "m1@files#p", {"volume_hosts": ["m*"]}, f"there is no /nowhere/{VOLUME} on this host"),
        ("file", f"{builders.HOST}@files#p", {}, f"there is no /nowhere/{VOLUME} on this host"),
    ],
)
def test_a_volume_that_the_host_does_not_reach_is_refused(connection: Any, on: str, options: Any, reason: str) -> None:
    """Nothing of the guest is changed; the volume is detached again at once."""
    attached = Attached(**options)
    attached.wants("attaching", VolumeConnection(connection, f"/nowhere/{VOLUME}"), on)
    assert (None, []) == (attached.status, attached.guest)
    assert attached.failure.startswith(f"Host {builders.HOST} does not reach the volume on {on}: ")
    assert reason in attached.failure


def test_a_volume_that_the_host_shares_is_attached(tmp_path: pathlib.Path) -> None:
    attached = Attached(volume_hosts=["storage-*"])
    path = tmp_path / f"volume-{VOLUME}.qcow2"
    path.touch()
    attached.wants("attaching", VolumeConnection("file", str(path)), "storage-1@files#p")
    assert ("attached", [VOLUME]) == (attached.status, attached.guest)


def test_a_backend_does_not_choose_among_the_files_of_the_host() -> None:
    """Its agent may be hostile: the guest would read what belongs to the host, or to another guest."""
    attached = Attached(volume_hosts=["*"])
    attached.wants("attaching", VolumeConnection("file", "/etc/passwd"), "storage-1@files#p")
    assert (None, []) == (attached.status, attached.guest)
    assert "/etc/passwd, where its data are said to be, is not named after the volume" in attached.failure


def test_a_driver_without_volumes_says_so(attached: Attached, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(attached.world.driver), "attach_volume")
    attached.wants("attaching")
    refusal = errors.NotSupported(what="Attaching a volume", driver="FakeDriver")
    assert (None, refusal.message) == (attached.status, attached.failure)


def test_a_guest_that_keeps_a_volume_is_reported(attached: Attached, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent escapes a NUL in the hypervisor's message, because the ledger refuses one."""

    def fails(*_order: object) -> None:
        raise RuntimeError("the guest said no\0")

    attached.wants("attaching")
    monkeypatch.setattr(attached.world.driver, "detach_volume", fails)
    attached.wants("detaching")
    assert ("attached", [VOLUME], "RuntimeError: the guest said no\\x00") == (
        attached.status,
        attached.guest,
        attached.failure,
    )


def test_a_detachment_waits_for_an_attachment_that_took_too_long(
    attached: Attached, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the guest could get a volume that is available by then."""
    attached.world.host.policy = dataclasses.replace(attached.world.host.policy, driver_timeout_s=0.05)
    attach, go_on = attached.world.driver.attach_volume, threading.Event()

    def slowly(*order: Any) -> None:
        go_on.wait()
        attach(*order)

    monkeypatch.setattr(attached.world.driver, "attach_volume", slowly)
    attached.wants("attaching")
    assert ("attached", "Overrun: it has not ended after 0.05 s") == (attached.status, attached.failure)
    go_on.set()
    leftovers.join("driver")
    attached.world.host.policy = dataclasses.replace(attached.world.host.policy, driver_timeout_s=None)
    attached.wants("detaching")
    assert (None, []) == (attached.status, attached.guest)


@pytest.mark.parametrize("done", [False, True])
def test_lost_answers_are_asked_for_again(attached: Attached, done: bool) -> None:
    attached.world.conductor.script("attachment_done", oslo_messaging.MessagingTimeout("silence"), done=done)
    attached.wants("attaching")
    assert ("attached", [VOLUME]) == (attached.status, attached.guest)


def test_nothing_is_done_while_no_conductor_answers(attached: Attached) -> None:
    attached.world.conductor.script("get_attachments", oslo_messaging.MessagingTimeout("silence"), times=1000)
    attached.wants("attaching")
    assert ("attaching", []) == (attached.status, attached.guest)
