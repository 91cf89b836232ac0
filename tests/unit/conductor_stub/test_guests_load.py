# SPDX-License-Identifier: Apache-2.0
"""Loads of hosts and guests for balancing: measured where they are, else shared or allocated."""

from __future__ import annotations

import types
from typing import Any, cast

import pytest

from conductor_stub.balance import guests_load
from fleet.db.tables.instances import RequestedInstance
from fleet.objects.guest_load import GuestLoad
from tests.factories import NOW, node

GIB = 1024
#: A host of 16 processors and 64 GiB, half of which are allocated.
SIZES: dict[str, Any] = {
    "vcpus": 16, "memory_mb": 64 * GIB, "vcpus_used": 8, "memory_mb_used": 32 * GIB, "cpu_allocation_ratio": 1.0,
    "ram_allocation_ratio": 1.0, "reserved_memory_mb": 0, "reserved_vcpus": 0,
}  # fmt: skip


def row(uuid: str, vcpus: int = 4, gib: int = 8) -> RequestedInstance:
    claimed = {"claimed_vcpus": vcpus, "claimed_memory_mb": gib * GIB}
    return cast("RequestedInstance", types.SimpleNamespace(uuid=uuid, **claimed))


def loads_of(
    metrics: dict[str, float], rows: list[RequestedInstance], loads: dict[str, GuestLoad]
) -> tuple[float, float, bool, dict[str, tuple[float, float]]]:
    """Shares of CPU and memory of the host, whether it is measured, and the loads of its guests."""
    known = [{"name": name, "value": value, "timestamp": NOW.isoformat()} for name, value in metrics.items()]
    loads = guests_load.believable(rows, loads)
    host, measured = guests_load.of_host(node("a", metrics=known, **SIZES), True, loads, NOW)
    return host.cpu, host.memory, measured, guests_load.of_guests(host, rows, loads)


def test_without_measurements_it_is_what_is_allocated() -> None:
    """Each guest has its share by vcpus and memory."""
    cpu, memory, measured, guests = loads_of({}, [row("x", 2, 8), row("y", 6, 24)], {})
    assert (0.5, 0.5, False) == (cpu, memory, measured)
    assert {"x": (2.0, 8 * GIB), "y": (6.0, 24 * GIB)} == guests


@pytest.mark.parametrize("nothing", ["vcpus", "memory_mb"])
def test_a_host_without_capacity_takes_no_guests(nothing: str) -> None:
    """Its load is 0, so it would lower the mean of the others."""
    sizes = {**SIZES, "vcpus_used": 0, "memory_mb_used": 0, nothing: 0}
    host, _measured = guests_load.of_host(node("a", metrics=[], **sizes), True, {}, NOW)
    assert (0.0, False) == (host.load, host.takes)


def test_a_busy_guest_is_told_from_idle_ones() -> None:
    """The host measures 75 %, 12 of 16 processors: 8 of them are one guest's; two that are not measured share the rest."""
    measured = {"busy": GuestLoad(8.0), "idle": GuestLoad(0.1)}
    rows = [row("busy", 8), row("idle", 8), row("new", 1), row("newer", 3)]
    cpu, _memory, _measured, guests = loads_of({"cpu.percent": 0.75, "memory.pressure": 0.0}, rows, measured)
    cores = {uuid: each[0] for uuid, each in guests.items()}
    assert 0.75 == cpu
    assert {"busy": 8.0, "idle": 0.1, "new": 0.975, "newer": 2.925} == pytest.approx(cores)


def test_the_guests_make_the_load_of_a_host_that_is_not_measured() -> None:
    """Simulated hosts have no processors of their own. Memory that is not measured presses nobody."""
    cpu, memory, measured, _guests = loads_of({}, [row("x")], {"x": GuestLoad(4.0)})
    assert (0.25, 0.0, True) == (cpu, memory, measured)


def test_guests_that_use_more_than_the_host_wait_for_nothing() -> None:
    """Simulated ones do: what one has is what would leave with it."""
    rows = [row("x", vcpus=16), row("y", vcpus=16)]
    loads = {"x": GuestLoad(16.0, 16.0, None), "y": GuestLoad(8.0, 8.0, None)}
    cpu, _memory, _measured, guests = loads_of({}, rows, loads)
    assert (1.5, 16.0, 8.0) == (cpu, guests["x"][0], guests["y"][0])


def test_who_waits_has_its_share_of_the_waiting() -> None:
    """All 16 processors are busy, and work waits for a quarter of the time: 20 in all, by what each guest uses."""
    metrics = {"cpu.percent": 1.0, "cpu.pressure": 0.25}
    _cpu, _memory, _measured, guests = loads_of(
        metrics, [row("x", 12), row("y", 4)], {"x": GuestLoad(12.0), "y": GuestLoad(4.0)}
    )
    assert {"x": 15.0, "y": 5.0} == pytest.approx({uuid: each[0] for uuid, each in guests.items()})


def test_memory_presses_by_what_is_used() -> None:
    """The pressure of a half is 32 GiB of 64: the guest that uses three times as much has three quarters of it."""
    loads = {"x": GuestLoad(1.0, 1.0, 6.0 * GIB), "y": GuestLoad(1.0, 1.0, 2.0 * GIB)}
    _cpu, memory, _measured, guests = loads_of(
        {"cpu.percent": 0.2, "memory.pressure": 0.5}, [row("x"), row("y")], loads
    )
    assert (0.5, {"x": 24.0 * GIB, "y": 8.0 * GIB}) == (memory, {uuid: each[1] for uuid, each in guests.items()})


@pytest.mark.parametrize("cores", [1e300, -1e300])
def test_nonsense_of_an_agent_moves_no_more_than_the_guest_can_have(cores: float) -> None:
    loads = {"x": GuestLoad(cores, cores, cores)}
    _cpu, _memory, _measured, guests = loads_of({"cpu.percent": 0.5, "memory.pressure": 0.1}, [row("x")], loads)
    assert 0 <= guests["x"][0] <= 8
    assert 0 <= guests["x"][1] <= 64 * GIB


def test_a_peak_of_a_guest_is_not_a_load() -> None:
    """It uses 4 processors now and one for long: of the 10 that are busy, 7 count, one of them for it."""
    cpu, _memory, _measured, guests = loads_of(
        {"cpu.percent": 10 / 16}, [row("x"), row("y", 12)], {"x": GuestLoad(4.0, 1.0)}
    )
    assert (7 / 16, {"x": 1.0, "y": 6.0}) == (cpu, pytest.approx({uuid: each[0] for uuid, each in guests.items()}))
