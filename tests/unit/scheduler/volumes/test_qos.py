# SPDX-License-Identifier: Apache-2.0
"""What ``qos.`` names in an equation: the qos_specs of the volume's properties, and else those of its type."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.volumes import filters
from tests.unit.scheduler.volumes.pools import Pool, candidates, passed, request

_SLOW, _FAST = {"iops": 50}, {"iops": 500}


@pytest.mark.parametrize(
    ("of_volume", "of_type", "passes"),
    [
        (_SLOW, None, True),
        (_FAST, None, False),
        (_FAST, _SLOW, False),  # as in cinder, which reads the volume's properties
        (_SLOW, _FAST, True),
        (None, _SLOW, True),
        (None, _FAST, False),
        (None, None, False),  # an equation that cannot be computed lets no volume through
        ("nonsense", _SLOW, False),
    ],
)
def test_qos(of_volume: Any, of_type: Any, passes: bool) -> None:
    pools = candidates(Pool(report={"filter_function": "qos.iops < 100"}))
    asked = request(1, {"name": "fast", "extra_specs": {}, "qos_specs": of_type}, qos_specs=of_volume)
    assert passes == bool(passed(filters.DriverFilter(), pools, asked))
