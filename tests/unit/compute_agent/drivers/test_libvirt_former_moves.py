# SPDX-License-Identifier: Apache-2.0
"""Moves of guests whose former resize has ended without their host: the disks of that time are still kept for a revert."""

from __future__ import annotations

import pathlib

import pytest

from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.ledger.notifications import Notifications
from compute_agent.node.host import Host
from compute_agent.node.inventory import HostPolicy
from compute_agent.work.moves.mover import Mover
from fleet import move_states, states
from fleet.agent import commands
from fleet.agent.patience import Patience
from fleet.objects import Claimed, Flavor, Holding, Instance, Migration, Sizing
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.drivers import test_libvirt_domains as domains
from tests.unit.compute_agent.drivers.test_libvirt_domains import GIB, HOST, LARGE, SMALL, Machine
from tests.worlds.move_ledger import MoveLedger

machine = domains.machine
UUID, ELSEWHERE = "00000000-0000-0000-0000-00000000000a", "elsewhere"
LARGER = {**LARGE, "root_gb": 3}


class FormerMoves:
    """One host, and a ledger of moves from it."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.moves = MoveLedger()
        stopping = builders.Pauses(builders.SteppingClock())
        host = Host(HOST, machine.driver, HostPolicy(), "this life", print)
        host.set_nodes([HOST])
        calls = MoveCalls(self.moves, Patience(stopping, stopping._clock), limit_s=10)  # type: ignore[arg-type]
        self._mover = Mover(host, calls, Notifications())

    def move(self, instance: Instance, status: str, dest: str, new: Flavor) -> Migration:
        held = Holding(instance.uuid, dest, dest, Claimed(1, 1, 1))
        return self.moves.put(
            Migration(
                *(UUID, instance, move_states.RESIZE, status, 1, HOST, HOST, Sizing(instance.flavor), Sizing(new)),
                *(dest, dest, None, held),
            )
        )

    def look(self, uuid: str, status: str = "") -> str:
        """:param status: that the record has by now; the present one if it is left out"""
        if status:
            self.moves.put(self.moves.records[UUID], status=status)
        self._mover.run(self._machine.context, uuid)
        return self.moves.records[UUID].status


@pytest.fixture
def fleet(machine: Machine) -> FormerMoves:
    return FormerMoves(machine)


def resized(machine: Machine) -> tuple[Instance, pathlib.Path, bytes]:
    """A guest whose resize here was confirmed while the agent was down, its disk, and what it has written since."""
    guest = machine.resize(machine.spawn(flavor=builders.a_flavor(**SMALL), vm_state=states.ACTIVE, host=HOST), **LARGE)
    disk = machine.directory(guest) / "disk"
    commands.run("qemu-io", "-f", "qcow2", "-c", "write -P 7 0 64k", str(disk))
    return guest, disk, content(disk)


def content(disk: pathlib.Path) -> bytes:
    """The beginning of what the guest has on its disk."""
    raw = disk.with_name("raw")
    commands.run("qemu-img", "convert", "-O", "raw", str(disk), str(raw))
    with open(raw, "rb") as file:
        found = file.read(1 << 16)
    raw.unlink()
    return found


@pytest.mark.parametrize(
    ("begins", "dest"),
    [
        pytest.param(move_states.PRE_MIGRATING, ELSEWHERE, id="to another host, and it fails"),
        pytest.param(move_states.RESUMING, ELSEWHERE, id="to another host, and its source was silent"),
        pytest.param(move_states.PRE_MIGRATING, HOST, id="on its host, and it is reverted"),
        pytest.param(move_states.REVERTING, HOST, id="on its host, which was silent"),
    ],
)
def test_a_move_is_undone_to_what_the_guest_had_before_it(
    machine: Machine, fleet: FormerMoves, begins: str, dest: str
) -> None:
    """Not to what it had before the resize that was confirmed."""
    guest, disk, written = resized(machine)
    fleet.move(guest, begins, dest, builders.a_flavor(**LARGER))
    after = fleet.look(guest.uuid)
    if after == move_states.FINISHED:
        assert 3 * GIB == machine.sizes(guest)["disk"]
        after = fleet.look(guest.uuid, move_states.REVERTING)
    if after == move_states.REVERTING:
        # The destination has removed the nothing that it has.
        after = fleet.look(guest.uuid, move_states.RESUMING)
    assert move_states.REVERTED == after
    assert (written, {"disk": 2 * GIB, "ephemeral": GIB}) == (content(disk), machine.sizes(guest))
    assert ((2, 96), states.RUNNING) == (machine.shape(guest), machine.state(guest))
    assert "resized_to" not in machine.driver.get_per_instance_usage()[guest.uuid]


@pytest.mark.parametrize("dest", [ELSEWHERE, HOST])
def test_a_guest_whose_resize_was_reverted_without_its_host_moves_with_its_former_size(
    machine: Machine, fleet: FormerMoves, dest: str
) -> None:
    """The ledger has the former flavor."""
    guest = machine.spawn(flavor=builders.a_flavor(**SMALL), vm_state=states.ACTIVE, host=HOST)
    machine.resize(guest, **LARGE)
    fleet.move(guest, move_states.PRE_MIGRATING, dest, builders.a_flavor(**LARGE))
    after = fleet.look(guest.uuid)
    if after == move_states.FINISHED:
        assert {"disk": 2 * GIB, "ephemeral": GIB} == machine.sizes(guest)
        after = fleet.look(guest.uuid, move_states.REVERTING)
    assert move_states.REVERTED == (after if after != move_states.REVERTING else fleet.look(guest.uuid, "resuming"))
    assert {"disk": GIB, "swap": 8 * 2**20} == machine.sizes(guest)
    assert ((1, 64), states.RUNNING) == (machine.shape(guest), machine.state(guest))
