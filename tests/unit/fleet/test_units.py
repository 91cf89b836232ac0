# SPDX-License-Identifier: Apache-2.0
"""The systemd units leave a daemon that was taken over with little to do."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

UNITS = sorted((pathlib.Path(__file__).parents[3] / "etc/fleet/systemd").glob("*.service"))
HARDENED = [
    "CapabilityBoundingSet=",
    "SystemCallFilter=@system-service",
    "SystemCallArchitectures=native",
    "UMask=0077",
    "PrivateDevices=yes",
    "NoNewPrivileges=yes",
    "LimitNOFILE=65536",
]
#: What docs/security.md states, of ten; less is better.
MOST = {"fleet-conductor": 1.7, "fleet-scheduler": 1.7, "fleet-compute": 2.1, "fleet-volume": 1.7, "fleet-api": 1.7}


def test_there_are_units() -> None:
    """One for each daemon."""
    assert sorted(MOST) == [unit.stem for unit in UNITS]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_hardened(unit: pathlib.Path) -> None:
    """Whatever distribution it runs on."""
    assert set() == set(HARDENED) - set(unit.read_text().splitlines())


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_bounds_its_memory_and_tasks(unit: pathlib.Path) -> None:
    """A daemon that is made to grow takes no other with it. Guests may share the agent's unit: no limit ends them."""
    lines = dict(line.partition("=")[::2] for line in unit.read_text().splitlines() if "=" in line)
    assert int(lines["TasksMax"]) > 0
    assert ("infinity" == lines["MemoryMax"]) is (unit.stem == "fleet-compute")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_score_is_the_one_that_is_stated(unit: pathlib.Path) -> None:
    """As systemd itself judges it."""
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"exposure level for \S+: ([0-9.]+)", told.stdout)
    if found is None:
        pytest.skip(f"this systemd judges no unit file: {told.stderr.strip()[:200]}")
    assert MOST[unit.stem] >= float(found.group(1))
