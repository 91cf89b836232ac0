# SPDX-License-Identifier: Apache-2.0
"""Every scenario, by kind; a new one is a function and a line in its file's ``SCENARIOS``."""

from __future__ import annotations

from tests.chaos.run import Scenario
from tests.chaos.scenarios import kills

ALL: list[Scenario] = [
    *kills.SCENARIOS,
]
