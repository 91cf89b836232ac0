# SPDX-License-Identifier: Apache-2.0
"""Real guests with addresses, on a bridge in a network namespace."""

from __future__ import annotations

import base64
import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from fleet import states
from fleet.objects import BootData, Instance
from fleet_trial import private_servers
from fleet_trial.private_servers import GuestNetwork, Libvirt
from tests import conftest, factories
from tests.guests.machine import Machine, eventually
from tests.guests.test_moves import LOOPBACK, peers
from tests.unit.compute_agent import builders

NETWORK = factories.uuid(61)


@pytest.fixture(scope="module")
def network() -> Iterator[GuestNetwork]:
    yield from conftest.started(private_servers.guest_network)


@pytest.fixture(scope="module")
def plugged_libvirtd(network: GuestNetwork) -> Iterator[Libvirt]:
    yield from conftest.started(lambda: private_servers.libvirt(network=network))


@dataclasses.dataclass
class Plugged:
    """A machine whose guests do as their user data say: by uuid."""

    machine: Machine
    orders: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.machine.driver.use_boot_data(lambda _context, uuid: BootData(user_data=self.orders[uuid]))

    def guest(self, number: int, orders: str = "") -> Instance:
        """The address is 192.0.2.``number``."""
        uuid = factories.uuid(700 + number)
        self.orders[uuid] = base64.b64encode(f"{orders}\n".encode()).decode()
        plug = {
            "uuid": factories.uuid(800 + number),
            "network": NETWORK,
            "name": "lab",
            "bridge": "br0",
            "prefix": 24,
            "address": f"192.0.2.{number}",
            "mac": f"02:00:00:00:00:{number:02x}",
            "gateway": None,
            "dns": [],
        }
        return self.machine.spawn(uuid=uuid, interfaces=[plug])

    def said(self, guest: Instance, word: str) -> list[str]:
        return [text for each, text in self.machine.console(guest.uuid) if each == word]

    def says(self, guest: Instance, word: str, text: str) -> None:
        """Wait until the guest has printed the word again, with this text."""
        before = len(self.said(guest, word))
        eventually(lambda: text in self.said(guest, word)[before:])


@pytest.fixture
def plugged(plugged_libvirtd: Libvirt, image: pathlib.Path) -> Iterator[Plugged]:
    with tempfile.TemporaryDirectory(prefix="fleet-plugged-") as directory:
        os.chmod(directory, 0o711)
        machine = Machine(pathlib.Path(directory), plugged_libvirtd.uri, image, bridges=["br0"])
        yield Plugged(machine)
        machine.clear()


def test_two_guests_ping_each_other_and_a_liar_is_not_heard(plugged: Plugged, network: GuestNetwork) -> None:
    """Each has the address of its seed. One that takes another address gets no answer, until the filter is gone."""
    first = plugged.guest(10, "ping 192.0.2.11")
    liar = plugged.guest(11, "ping 192.0.2.10 as 192.0.2.99")
    shown = [plugged.machine.up(each) for each in (first, liar)]
    assert [("192.0.2.10/24", "02:00:00:00:00:0a"), ("192.0.2.11/24", "02:00:00:00:00:0b")] == [
        (each["address"], each["mac"]) for each in shown
    ]
    for guest in (first, liar):
        plugged.says(guest, "ping", "answered")
    plugged.says(liar, "lie", "lost")
    assert "answered" not in plugged.said(liar, "lie")
    # Without libvirt's rules the lie is believed: it was they that held it up.
    network.run("ebtables", "-t", "nat", "-F", "PREROUTING")
    plugged.says(liar, "lie", "answered")


def test_an_address_outlives_a_stop(plugged: Plugged, network: GuestNetwork) -> None:
    """The guest is plugged in again when it starts, behind the same filter, also with a driver that has just started."""
    first, other = plugged.guest(20, "ping 192.0.2.21"), plugged.guest(21)
    plugged.says(first, "ping", "answered")
    plugged.machine.driver.power_off(builders.a_context(), other)
    assert states.SHUTDOWN == plugged.machine.state(other)
    plugged.says(first, "ping", "lost")
    plugged.machine.restart()
    plugged.restart()
    plugged.machine.driver.power_on(builders.a_context(), other)
    plugged.says(first, "ping", "answered")
    assert "192.0.2.21" in network.run("ebtables", "-t", "nat", "-L")


def test_nothing_is_left_of_a_guest(plugged: Plugged, network: GuestNetwork) -> None:
    """Neither its tap nor its rules. The machine reports its bridge."""
    guest = plugged.guest(30)
    assert "192.0.2.30" in network.run("ebtables", "-t", "nat", "-L")
    found = plugged.machine.driver.get_available_resource("machine")
    assert found is not None
    assert "br0" == found["stats"]["bridges"]
    plugged.machine.destroy(guest.uuid)
    assert "192.0.2.30" not in network.run("ebtables", "-t", "nat", "-L")
    assert "vnet" not in network.run("ip", "-brief", "link")


@pytest.fixture
def second_libvirtd(network: GuestNetwork) -> Iterator[Libvirt]:
    """That of another host on the same bridge."""
    yield from conftest.started(lambda: private_servers.libvirt(network=network))


@pytest.fixture
def two(
    plugged_libvirtd: Libvirt, second_libvirtd: Libvirt, image: pathlib.Path, tmp_path: pathlib.Path
) -> Iterator[tuple[Plugged, Plugged]]:
    """Two hosts, between which guests migrate."""
    uri = peers(tmp_path, source=plugged_libvirtd, destination=second_libvirtd)
    options = {"migration_uri": uri, "migration_data_uri": LOOPBACK, "bridges": ["br0"]}
    with tempfile.TemporaryDirectory(prefix="fleet-two-plugged-") as directory:
        os.chmod(directory, 0o711)
        made = []
        for host, server in (("source", plugged_libvirtd), ("destination", second_libvirtd)):
            root = pathlib.Path(directory) / host
            root.mkdir(mode=0o711)
            made.append(Plugged(Machine(root, server.uri, image, host, **options)))
        yield made[0], made[1]
        for each in made:
            each.machine.clear()


def test_a_live_migration_takes_the_address_along(two: tuple[Plugged, Plugged], network: GuestNetwork) -> None:
    """The guest goes on answering from where it is, and is not heard with another address there either."""
    source, destination = two
    other, guest = source.guest(40, "ping 192.0.2.41"), source.guest(41, "ping 192.0.2.40 as 192.0.2.99")
    source.says(other, "ping", "answered")
    source.says(guest, "lie", "lost")
    context, moved = builders.a_context(), dataclasses.replace(guest, node="destination")
    destination.machine.driver.pre_live_migration(context, moved, "source")
    source.machine.driver.live_migration(context, guest, "destination", lambda percent: None)
    destination.machine.driver.post_live_migration_at_destination(context, moved)
    source.says(other, "ping", "answered")
    destination.says(moved, "ping", "answered")
    destination.says(moved, "lie", "lost")
    assert "answered" not in destination.said(moved, "lie")
    rules = network.run("ebtables", "-t", "nat", "-L")
    assert (1, 1) == (rules.count("--arp-ip-src 192.0.2.40 "), rules.count("--arp-ip-src 192.0.2.41 "))
