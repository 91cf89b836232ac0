# SPDX-License-Identifier: Apache-2.0
"""The monitor of Linux's pressures."""

from __future__ import annotations

from pathlib import Path

import pytest

from compute_agent.monitors.pressure import PressureMonitor
from tests.configuration import configuration


def monitor(directory: Path, cpu: str) -> PressureMonitor:
    (directory / "cpu").write_text(cpu)
    (directory / "memory").write_text(
        "some avg10=0.00 avg60=0.50 avg300=0.00 total=1\nfull avg10=0 avg60=0 avg300=0 total=0\n"
    )
    return PressureMonitor(configuration(lambda _conf: None), directory)


def test_the_share_of_the_last_minute_in_which_work_waited(tmp_path: Path) -> None:
    found = monitor(tmp_path, "some avg10=40.00 avg60=12.50 avg300=3.00 total=4711\n").measure()
    assert {"cpu.pressure": 0.125, "memory.pressure": 0.005} == found


def test_a_kernel_without_it(tmp_path: Path) -> None:
    """The monitors leave out what raises."""
    with pytest.raises(ValueError, match="no line 'some'"):
        monitor(tmp_path, "").measure()
    with pytest.raises(OSError):
        PressureMonitor(configuration(lambda _conf: None), tmp_path / "none").measure()
