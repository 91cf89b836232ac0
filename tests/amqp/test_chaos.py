# SPDX-License-Identifier: Apache-2.0
"""The most telling faults of ``make chaos``, as a part of ``make long``."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_short_fault_suite(rabbitmq_url: str, postgresql_url: str) -> None:
    """All invariants hold under each fault.

    The suite starts servers of its own, because it kills them. The fixtures only show whether servers are installed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos", "--short"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout[-30000:] + done.stderr[-2000:]
