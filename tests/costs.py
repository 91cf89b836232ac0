# SPDX-License-Identifier: Apache-2.0
"""What files of tests cost, from ``costs.json``: CPU seconds by path. It orders tests, and decides nothing else."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping

#: Of a file that costs.json does not name.
SMALL_S = 0.4


def known() -> dict[str, float]:
    found: dict[str, float] = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
    return found


def place(test: str, seconds: Mapping[str, float]) -> tuple[str, float, str]:
    """Return a key that sorts node ids by suite, longest files first."""
    file = test.partition("::")[0]
    return "/".join(file.split("/")[:2]), -seconds.get(file, SMALL_S), file
