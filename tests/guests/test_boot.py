# SPDX-License-Identifier: Apache-2.0
"""The one test with a real guest that ``make test`` runs, too."""

from __future__ import annotations

from fleet import states
from fleet.objects import BootData
from tests import factories
from tests.guests.machine import Machine
from tests.unit.compute_agent import builders


def test_a_guest_boots_and_nothing_is_left_of_it(machine: Machine) -> None:
    """Its console shows its name and key; the driver returns what it has printed."""
    machine.driver.use_boot_data(lambda _context, _uuid: BootData("mine", factories.PUBLIC_KEY))
    guest = machine.spawn(name="one")
    shown = machine.up(guest)
    assert ("one", factories.PUBLIC_KEY, "1") == (shown["name"], shown["key"], shown["cpus"])
    assert states.RUNNING == machine.state(guest)
    assert b"GUEST name one" in machine.driver.get_console_output(builders.a_context(), guest.uuid, 100_000)
    machine.destroy(guest.uuid)
    assert ([], []) == (machine.guests(), machine.driver.list_instance_uuids())
